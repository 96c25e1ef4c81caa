package sqlite

import (
	"os"

	"golang.org/x/sys/unix"
)

func networkFileSystemOf(dir string) (string, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return "", &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if stat.Flags&unix.MNT_LOCAL != 0 {
		return "", nil
	}
	return unix.ByteSliceToString(stat.Fstypename[:]), nil
}
