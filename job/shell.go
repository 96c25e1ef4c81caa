package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
)

// MaxShellOutput is the maximum size, in bytes, of the output that a ShellJob keeps. It
// keeps the end of longer output.
const MaxShellOutput = 64 << 10

const (
	// maxShellWord bounds the part of a command that is included in its job's ID.
	maxShellWord = 64
	// shellWaitDelay is how long output is read after the command has ended, if a process
	// that it left behind holds the output open.
	shellWaitDelay = time.Second
)

var shellType = amboy.JobType{Name: "shell", Version: 1}

// ShellJob runs a program. Despite its name it uses no shell. The exported fields must not
// be written once the job is in a queue. RegisterDefaultJobs registers its type.
type ShellJob struct {
	// Command is the program and its arguments, separated by single spaces. Quotes and
	// other characters have no special meaning. A program without a slash is searched for
	// in the PATH of this process.
	Command string `bson:"command" json:"command" yaml:"command"`
	// Output is what the command wrote to standard output and standard error, without leading
	// and trailing space. It is truncated to the last MaxShellOutput bytes, after a line with
	// the number of bytes left out. Invalid UTF-8 is replaced by question marks.
	Output string `bson:"output" json:"output" yaml:"output"`
	// WorkingDir is the directory in which the command runs. Default: that of this process.
	WorkingDir string `bson:"working_dir" json:"working_dir" yaml:"working_dir"`
	// Env is the whole environment of the command; it inherits nothing from this process.
	Env map[string]string `bson:"env" json:"env" yaml:"env"`

	Base `bson:"job_base" json:"job_base" yaml:"job_base"`
}

// NewShellJob makes a job that runs a command. Its ID contains a number from GetNumber and
// the command's first word. If creates is not empty, it is the name of a file that the
// command creates, and the command is not run if the file exists (see
// dependency.NewCreatesFile).
func NewShellJob(cmd, creates string) *ShellJob {
	j := NewShellJobInstance()
	j.Command = cmd
	j.SetID(fmt.Sprintf("shell-job-%d-%s", GetNumber(), firstWord(cmd)))
	if creates != "" {
		j.SetDependency(dependency.NewCreatesFile(creates))
	}
	return j
}

// NewShellJobInstance makes a job without a command and an ID, to decode a stored job into.
func NewShellJobInstance() *ShellJob {
	return &ShellJob{Env: map[string]string{}, Base: Base{JobType: shellType}}
}

// firstWord returns the first word of a command, truncated to maxShellWord bytes.
func firstWord(cmd string) string {
	words := strings.Fields(cmd)
	if len(words) == 0 {
		return ""
	}
	word := words[0]
	return strings.ToValidUTF8(word[:min(len(word), maxShellWord)], "")
}

// Run runs the command and waits for it. The job fails if the command can't be started or
// exits with a status other than 0. A retryable job then asks for another attempt, unless
// the command is empty.
//
// If ctx ends first, the command is killed, on Unix with all processes of its process
// group. The job is then not complete, and has the context's cause as its error.
func (j *ShellJob) Run(ctx context.Context) {
	if strings.TrimSpace(j.Command) == "" {
		j.AddError(fmt.Errorf("running shell job %q: Command must not be empty", j.ID()))
		j.MarkComplete()
		return
	}
	output := &tail{limit: MaxShellOutput}
	err := j.runCommand(ctx, output)
	j.Output = output.String()
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		j.MarkComplete()
	case ctx.Err() != nil:
		j.AddRetryableError(fmt.Errorf("command of shell job %q was interrupted: %w", j.ID(), context.Cause(ctx)))
	default:
		j.AddRetryableError(fmt.Errorf("running the command of shell job %q: %w", j.ID(), err))
		j.MarkComplete()
	}
}

func (j *ShellJob) runCommand(ctx context.Context, output *tail) error {
	if j.WorkingDir != "" {
		// If the directory is missing, the error of exec names the program instead.
		if _, err := os.Stat(j.WorkingDir); err != nil {
			return fmt.Errorf("checking the working directory: %w", err)
		}
	}
	args := strings.Split(j.Command, " ")
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = j.WorkingDir
	cmd.Env = []string{} // nil would be the environment of this process
	for name, value := range j.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdout, cmd.Stderr = output, output
	cmd.WaitDelay = shellWaitDelay
	killGroupOnCancel(cmd)
	return cmd.Run()
}

// tail keeps the end of what is written to it.
type tail struct {
	limit int
	kept  []byte
	total int
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.total += len(p)
	t.kept = append(t.kept, p...)
	if len(t.kept) > 2*t.limit {
		// Keeping up to twice the limit moves each byte at most once.
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-t.limit:]...)
	}
	return len(p), nil
}

// String returns the kept end as text.
func (t *tail) String() string {
	end := t.kept[max(0, len(t.kept)-t.limit):]
	text := strings.TrimSpace(strings.ToValidUTF8(string(end), "?"))
	if left := t.total - len(end); left > 0 {
		return fmt.Sprintf("(%d bytes left out)\n%s", left, text)
	}
	return text
}
