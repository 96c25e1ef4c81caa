package pgtest

import "syscall"

// dieWithParent ends the server if the tests are killed.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
