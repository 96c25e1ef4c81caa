package sqlite_test

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// withoutRights runs a function on a thread that may do with files what an ordinary user may, also
// if the test runs as root.
func withoutRights(run func()) {
	const nobody = 65534
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if os.Geteuid() == 0 {
		syscall.RawSyscall(syscall.SYS_SETFSUID, nobody, 0, 0)  //nolint:errcheck // It has no errors.
		defer syscall.RawSyscall(syscall.SYS_SETFSUID, 0, 0, 0) //nolint:errcheck // It has no errors.
	}
	run()
}

func TestOpenDoesNotSayWhichPermissionIsMissing(t *testing.T) {
	for name, test := range map[string]struct {
		file, dir os.FileMode
		want      string
	}{
		"no access":                    {0, 0o755, "this process must be able to read and write the file, and to write to its directory"},
		"read only":                    {0o444, 0o777, "this process must be able to read and write the file, and to write to its directory"},
		"directory that can't be read": {0o666, 0o600, "this process must be allowed to see what is in the directory"},
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			d, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
			require.NoError(t, err)
			require.NoError(t, d.Close(t.Context()))
			require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(path)), 0o755)) //nolint:gosec // Another user reads it.
			require.NoError(t, os.Chmod(path, test.file))
			dir := filepath.Dir(path)
			require.NoError(t, os.Chmod(dir, test.dir))
			defer func() { assert.NoError(t, os.Chmod(dir, 0o700)) }() //nolint:gosec // It is a directory.
			withoutRights(func() { _, err = sqlite.Open(t.Context(), sqlite.Options{Path: path}) })
			require.ErrorContains(t, err, test.want)
			assert.ErrorContains(t, err, dir)
		})
	}
}
