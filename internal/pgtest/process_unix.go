//go:build unix

package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// ordinaryUser returns the user that runs the server if the tests run as root, because
// the server refuses to run as root.
func ordinaryUser() (uid, gid uint32, needed bool, err error) {
	if os.Getuid() != 0 {
		return 0, 0, false, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		var found *user.User
		found, err = user.Lookup(name)
		if err != nil {
			continue
		}
		var uid, gid uint64
		uid, err = strconv.ParseUint(found.Uid, 10, 32)
		if err == nil {
			gid, err = strconv.ParseUint(found.Gid, 10, 32)
		}
		return uint32(uid), uint32(gid), true, err //nolint:gosec // IDs have 32 bits.
	}
	return 0, 0, false, fmt.Errorf("finding an ordinary user for the server: %w", err)
}

func giveAway(folder string) error {
	uid, gid, needed, err := ordinaryUser()
	if err != nil || !needed {
		return err
	}
	return os.Chown(folder, int(uid), int(gid))
}

// asOrdinaryUser makes a command run as an ordinary user and in its own process group, so
// that an interrupt of the tests does not reach it before they end it.
func asOrdinaryUser(c *exec.Cmd) error {
	uid, gid, needed, err := ordinaryUser()
	if err != nil {
		return err
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if needed {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	}
	dieWithParent(c.SysProcAttr)
	return nil
}

// interrupt ends the server without waiting for its clients.
func interrupt(c *exec.Cmd) error { return ignoreEnded(c.Process.Signal(syscall.SIGQUIT)) }

func killGroup(c *exec.Cmd) error { return ignoreEnded(syscall.Kill(-c.Process.Pid, syscall.SIGKILL)) }

func ignoreEnded(err error) error {
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}
