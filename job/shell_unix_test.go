//go:build unix

package job_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
)

// makePipe makes a named pipe. Opening it blocks until the other end is opened.
func makePipe(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(name, 0o600))
	return name
}

// startGrandchild runs a job whose command starts a long-lived process that holds the pipe
// open. It returns once that process runs.
func startGrandchild(t *testing.T, ctx context.Context, j *job.ShellJob, pipe string) (alive *bufio.Reader, ended <-chan struct{}) { //nolint:revive // t comes first in helpers
	t.Helper()
	j.Command = script(t, "(echo up; exec sleep 600) >"+pipe+" & wait")
	done := make(chan struct{})
	go func() {
		defer close(done)
		j.Run(ctx)
	}()
	file, err := os.Open(pipe)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, file.Close()) })
	require.NoError(t, file.SetReadDeadline(time.Now().Add(time.Minute)))
	alive = bufio.NewReader(file)
	line, err := alive.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "up\n", line)
	return alive, done
}

func TestShellJobKillsProcessGroup(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	j := job.NewShellJob("set below", "")
	alive, ended := startGrandchild(t, ctx, j, makePipe(t))

	cancel(errors.New("shutting down"))
	<-ended
	_, err := io.Copy(io.Discard, alive)
	require.NoError(t, err, "the pipe ends when the last process that holds it does")
	require.ErrorContains(t, j.Error(), "interrupted: shutting down")
	assert.False(t, j.Status().Completed, "it did not end by itself")
}

func TestShellJobMaxTime(t *testing.T) {
	const longest = time.Minute // On a busy machine a shell takes some time to begin.
	output := ""
	for maxTime := 200 * time.Millisecond; output == "" && maxTime < longest; maxTime *= 2 {
		j := job.NewShellJob(script(t, "echo begun; sleep 600"), "")
		j.UpdateTimeInfo(amboy.JobTimeInfo{MaxTime: maxTime})
		require.ErrorContains(t, amboy.RunJob(t.Context(), j), "maximum time of "+maxTime.String())
		assert.Equal(t, 1, j.Status().ErrorCount)
		output = j.Output
	}
	assert.Equal(t, "begun", output)
}

func TestShellJobLeavesProcessBehind(t *testing.T) {
	pipe := makePipe(t)
	j := job.NewShellJob(script(t, "echo started; cat "+pipe+" &"), "")
	require.NoError(t, amboy.RunJob(t.Context(), j))
	assert.Equal(t, "started", j.Output)
	file, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	require.NoError(t, err)
	require.NoError(t, file.Close(), "which ends the process")
}
