package sqlite

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

func networkFileSystemOf(dir string) (string, error) {
	root, err := windows.UTF16PtrFromString(filepath.VolumeName(dir) + `\`)
	if err != nil {
		return "", &os.PathError{Op: "GetDriveType", Path: dir, Err: err}
	}
	if windows.GetDriveType(root) != windows.DRIVE_REMOTE {
		return "", nil
	}
	return "network drive", nil
}
