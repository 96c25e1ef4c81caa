package postgres

import "testing"

// NeedServer makes servers before a version, as server_version_num, too old for a test.
func NeedServer(t *testing.T, version int) {
	before := oldestServer
	oldestServer = version
	t.Cleanup(func() { oldestServer = before })
}
