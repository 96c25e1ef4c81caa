package postgres

import "testing"

// NeedServer sets the oldest supported server version, as server_version_num, for a test.
func NeedServer(t *testing.T, version int) {
	before := oldestServer
	oldestServer = version
	t.Cleanup(func() { oldestServer = before })
}
