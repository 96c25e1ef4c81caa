package sqlite_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
)

// smallDisk returns a directory on a disk of 6 MB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=6m"); err != nil {
		t.Skipf("this user can't make a small disk: %v", err)
	}
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(dir, 0)) })
	return dir
}
