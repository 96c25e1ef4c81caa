//go:build !unix

package job

import "os/exec"

// killGroupOnCancel does nothing, because this system has no process groups: only the
// program itself is killed when the command's context ends.
func killGroupOnCancel(*exec.Cmd) {}
