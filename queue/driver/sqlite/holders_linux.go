package sqlite

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// openSlots opens the file with the slots of a database, and creates it with the database's mode.
func openSlots(path, database string) (file *os.File, err error) {
	info, err := os.Stat(database)
	if err != nil {
		return nil, err
	}
	file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	switch {
	case errors.Is(err, os.ErrExist):
		return os.OpenFile(path, os.O_RDWR, 0)
	case err != nil:
		return nil, err
	}
	if err = file.Chmod(info.Mode().Perm()); err != nil { // whatever the umask is
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// fileIdentity identifies an open file: its number is not given to another one while it is open,
// even if it has no name any more.
func fileIdentity(file *os.File) (string, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return "", &os.PathError{Op: "stat", Path: file.Name(), Err: err}
	}
	return fmt.Sprintf("%d:%d", stat.Dev, stat.Ino), nil
}

// lockSlot locks a slot until the file is closed, by the open file description: locks by the process
// would end as soon as any part of it closed the file, and drivers in one process would not see
// those of each other.
func lockSlot(file *os.File, slot int64) error {
	lock := slotLock(slot)
	err := unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &lock)
	if errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("%w: %w", errNoSlots, err)
	}
	if err != nil {
		return &os.PathError{Op: "lock", Path: file.Name(), Err: err}
	}
	return nil
}

// isLocked reports whether another driver has locked a slot.
func isLocked(file *os.File, slot int64) (bool, error) {
	lock := slotLock(slot)
	if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_GETLK, &lock); err != nil {
		return false, &os.PathError{Op: "read the locks of", Path: file.Name(), Err: err}
	}
	return lock.Type != unix.F_UNLCK, nil
}

func slotLock(slot int64) unix.Flock_t {
	return unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: slot, Len: 1}
}
