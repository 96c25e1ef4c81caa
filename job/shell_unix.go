//go:build unix

package job

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// killGroupOnCancel puts the command into a process group of its own. The whole group is
// killed when the command's context ends, so no process that the command started outlives
// the job.
func killGroupOnCancel(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
}
