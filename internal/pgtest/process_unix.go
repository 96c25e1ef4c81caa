//go:build unix

package pgtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
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

// killAll kills the server and, on Linux, its processes, each of which leads a group of its
// own. Elsewhere they end when they notice.
func killAll(c *exec.Cmd) error {
	pid := c.Process.Pid
	err := ignoreEnded(syscall.Kill(pid, syscall.SIGSTOP)) // so that it starts no others
	for _, process := range append(childrenOf(pid), pid) {
		err = errors.Join(err, ignoreEnded(syscall.Kill(process, syscall.SIGKILL)))
	}
	return err
}

// childrenOf lists the processes that a process has started; none where there is no /proc.
func childrenOf(parent int) (children []int) {
	found, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		panic(err) // The pattern is invalid.
	}
	for _, path := range found {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // It has ended.
		}
		// What follows the name, which is in parentheses, is a state and the parent.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			children = append(children, pid)
		}
	}
	return children
}

func ignoreEnded(err error) error {
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}
