//go:build !unix

package job

import "os/exec"

// killGroupOnCancel leaves the command as it is, which has the program alone
// killed when the command's context ends: this system has no process groups.
func killGroupOnCancel(*exec.Cmd) {}
