//go:build !linux

package sqlite_test

import "testing"

func smallDisk(t *testing.T) string {
	t.Helper()
	t.Skip("a small disk can be made on Linux only")
	return ""
}
