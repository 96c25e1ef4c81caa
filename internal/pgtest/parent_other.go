//go:build unix && !linux

package pgtest

import "syscall"

// dieWithParent does nothing: such a system has no way to ask for it.
func dieWithParent(*syscall.SysProcAttr) {}
