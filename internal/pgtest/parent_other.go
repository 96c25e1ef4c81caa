//go:build unix && !linux

package pgtest

import "syscall"

// dieWithParent does nothing: these systems do not support it.
func dieWithParent(*syscall.SysProcAttr) {}
