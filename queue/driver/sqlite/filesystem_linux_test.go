package sqlite_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver/sqlite"
)

func TestTheKindOfAMountIsFound(t *testing.T) {
	const mounts = `23 28 0:21 / /proc rw,nosuid - proc proc rw
99 28 0:44 / /mnt/a\040b rw,relatime shared:7 - fuse.sshfs user@host: rw,user_id=0
100 28 8:1 / /data rw - fuseblk /dev/sda1 rw
malformed
`
	for device, want := range map[string]string{"0:44": "fuse.sshfs", "8:1": "fuseblk", "9:9": "fuse"} {
		kind, err := sqlite.KindOfDevice(mounts, device)
		require.NoError(t, err)
		assert.Equal(t, want, kind, device)
	}
}

func TestALocalDirectoryIsLocal(t *testing.T) {
	kind, err := sqlite.NetworkFileSystem("/proc") // which is local everywhere
	require.NoError(t, err)
	assert.Empty(t, kind)
	_, err = sqlite.NetworkFileSystem("/there/is/no/such/directory")
	require.Error(t, err)
}
