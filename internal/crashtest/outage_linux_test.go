package crashtest_test

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver/sqlite"
)

var locked = flag.Duration("crashtest.locked", time.Second, "how long TestLocked locks the file")

// lockVariable makes a process of these tests lock a file.
const lockVariable = "CRASHTEST_LOCK"

// TestLocker is run by the process that locks the file. It releases the lock when its
// standard input ends.
func TestLocker(t *testing.T) {
	path := os.Getenv(lockVariable)
	if path == "" {
		t.Skip("run only by other tests")
	}
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	for _, pragma := range []string{"PRAGMA busy_timeout = 60000", "BEGIN IMMEDIATE"} {
		_, err = conn.ExecContext(t.Context(), pragma)
		require.NoError(t, err)
	}
	fmt.Println(saysReady)
	_, err = io.Copy(io.Discard, os.Stdin)
	require.NoError(t, err)
	_, err = conn.ExecContext(context.WithoutCancel(t.Context()), "ROLLBACK")
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.NoError(t, db.Close())
}

// TestLockedByAnotherProcess lets another process hold the write lock of the file.
func TestLockedByAnotherProcess(t *testing.T) {
	if !inChild(t, nil) {
		return
	}
	var locker *process
	survive(t, newFile(t), outage{
		lasts: *locked,
		begin: func(t *testing.T, path string) {
			var err error
			locker, err = startProcess(t, "locker", "TestLocker", lockVariable+"="+path, nil)
			require.NoError(t, err)
			t.Cleanup(locker.kill)
			locker.await(t, "the lock", locker.ready)
		},
		end: func(t *testing.T, _ string) {
			require.NoError(t, locker.stdin.Close())
			<-locker.exited
			require.NoError(t, locker.exit, "%s", &locker.output)
		},
	})
}

// TestReadOnly makes the file immutable. Unlike missing permissions, that applies to root
// and to open files.
func TestReadOnly(t *testing.T) {
	if !inChild(t, nil) {
		return
	}
	probe, err := os.Create(filepath.Join(t.TempDir(), "probe"))
	require.NoError(t, err)
	if err = setImmutable(probe.Name(), true); err != nil {
		t.Skipf("a file can't be made immutable here: %v", err)
	}
	_, writeErr := probe.WriteString("a")
	require.NoError(t, setImmutable(probe.Name(), false))
	require.NoError(t, probe.Close())
	if writeErr == nil {
		t.Skip("this file system allows writes to open immutable files")
	}
	set := func(immutable bool) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			for _, name := range []string{path, path + "-wal"} {
				require.NoError(t, setImmutable(name, immutable))
			}
		}
	}
	begin, end := set(true), set(false)
	survive(t, newFile(t), outage{
		begin: func(t *testing.T, path string) {
			t.Cleanup(func() {
				if t.Failed() { // otherwise the test may have ended, and its log is gone
					end(t, path)
				}
			})
			begin(t, path)
		},
		end: end,
	})
}

// setImmutable does what chattr +i or -i does.
func setImmutable(path string, immutable bool) error {
	const (
		getFlags      = 0x80086601 // FS_IOC_GETFLAGS
		setFlags      = 0x40086602 // FS_IOC_SETFLAGS
		immutableFlag = 0x10       // FS_IMMUTABLE_FL
	)
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // The file was only read.
	var flags int32
	control := func(request uintptr) error {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), request, uintptr(unsafe.Pointer(&flags)))
		if errno != 0 {
			return os.NewSyscallError("ioctl", errno)
		}
		return nil
	}
	err = control(getFlags)
	if err != nil {
		return err
	}
	flags &^= immutableFlag
	if immutable {
		flags |= immutableFlag
	}
	return control(setFlags)
}

// TestDiskFull fills a small file system.
func TestDiskFull(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	dir := t.TempDir()
	mount(t, dir, 0, "size=4m")
	filler := filepath.Join(dir, "filler")
	survive(t, fileIn(dir), outage{
		begin: func(t *testing.T, _ string) {
			file, err := os.Create(filler)
			require.NoError(t, err)
			for err == nil {
				_, err = file.Write(make([]byte, os.Getpagesize()))
			}
			require.ErrorIs(t, err, syscall.ENOSPC)
			require.NoError(t, file.Close())
		},
		end: func(t *testing.T, _ string) { require.NoError(t, os.Remove(filler)) },
	})
}

// TestReadOnlyFileSystem opens a file on a read-only file system, and again after the
// file system became writable.
func TestReadOnlyFileSystem(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	dir := t.TempDir()
	mount(t, dir, 0, "size=4m")
	path := filepath.Join(dir, "jobs.db")
	require.NoError(t, store{Location: path}.open(t).Close(t.Context()))
	mount(t, dir, syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
	_, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	t.Log(err)
	require.ErrorContains(t, err, path)
	mount(t, dir, syscall.MS_REMOUNT, "")
	require.NoError(t, store{Location: path}.open(t).Close(t.Context()))
}

func mount(t *testing.T, dir string, flags uintptr, data string) {
	t.Helper()
	err := syscall.Mount("tmpfs", dir, "tmpfs", flags, data)
	if flags == 0 && err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	require.NoError(t, err)
	if flags == 0 {
		t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	}
}

// TestFileSizeLimit simulates a full disk without special rights: the process must not
// write beyond the first byte of a file.
func TestFileSizeLimit(t *testing.T) {
	if !inChild(t, nil) {
		return
	}
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	set := func(to uint64) func(*testing.T, string) {
		return func(t *testing.T, _ string) {
			t.Helper()
			require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: to, Max: limit.Max}))
		}
	}
	survive(t, newFile(t), outage{begin: set(1), end: set(limit.Cur)})
}

// inNamespace is inChild with a process that may mount file systems. The mounts are
// visible only to that process and end with it.
func inNamespace(t *testing.T) bool {
	t.Helper()
	ids := func(id int) []syscall.SysProcIDMap { return []syscall.SysProcIDMap{{HostID: id, Size: 1}} }
	return inChild(t, &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: ids(os.Getuid()),
		GidMappings: ids(os.Getgid()),
	})
}
