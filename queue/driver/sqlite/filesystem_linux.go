package sqlite

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// networkKinds are the network file systems by the number that statfs returns.
var networkKinds = map[uint32]string{
	unix.NFS_SUPER_MAGIC:   "nfs",
	unix.SMB_SUPER_MAGIC:   "smb",
	unix.SMB2_SUPER_MAGIC:  "smb2",
	unix.CIFS_SUPER_MAGIC:  "cifs",
	unix.V9FS_MAGIC:        "9p",
	unix.CEPH_SUPER_MAGIC:  "ceph",
	unix.AFS_SUPER_MAGIC:   "afs",
	unix.AFS_FS_MAGIC:      "afs",
	unix.CODA_SUPER_MAGIC:  "coda",
	unix.OCFS2_SUPER_MAGIC: "ocfs2",
}

// localFUSE are the file systems in user space that are known to be local. Of the others, most
// are on a network (sshfs, s3fs, gcsfuse, glusterfs) or on the host of a virtual machine.
var localFUSE = map[string]bool{"fuseblk": true, "fuse.fuse-overlayfs": true, "fuse.ntfs-3g": true, "fuse.bindfs": true}

func networkFileSystemOf(dir string) (string, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return "", &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	number := uint32(stat.Type) //nolint:gosec // The numbers have 32 bits.
	if number != unix.FUSE_SUPER_MAGIC {
		return networkKinds[number], nil
	}
	kind, err := mountedKind(dir)
	if err != nil || localFUSE[kind] {
		return "", err
	}
	return kind, nil
}

// mountedKind returns the kind of the file system that a directory is on, as it was mounted.
func mountedKind(dir string) (kind string, err error) {
	var stat unix.Stat_t
	if err = unix.Stat(dir, &stat); err != nil {
		return "", &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, mounts.Close()) }()
	return kindOfDevice(bufio.NewScanner(mounts), fmt.Sprintf("%d:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev)))
}

// kindOfDevice returns the kind of the file system on a device. The lines are those of
// mountinfo: "ID parent device root mount-point options [fields...] - kind source options".
func kindOfDevice(lines *bufio.Scanner, device string) (string, error) {
	for lines.Scan() {
		mount, filesystem, _ := strings.Cut(lines.Text(), " - ")
		if fields := strings.Fields(mount); len(fields) < 3 || fields[2] != device {
			continue
		}
		if kind, _, _ := strings.Cut(filesystem, " "); kind != "" {
			return kind, nil
		}
	}
	return "fuse", lines.Err()
}
