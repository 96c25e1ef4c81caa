//go:build !unix

package pgtest

import (
	"os"
	"os/exec"
)

func giveAway(string) error { return nil }

func asOrdinaryUser(*exec.Cmd) error { return errNone }

func interrupt(c *exec.Cmd) error { return c.Process.Signal(os.Kill) }

func killAll(c *exec.Cmd) error { return c.Process.Kill() }
