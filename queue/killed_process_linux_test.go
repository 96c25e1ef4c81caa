package queue_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

const killedVariable = "QUEUE_TEST_KILLED_PATH"

// killed is the type of a job that prints when it runs, and ends only if it is not run by
// TestKilledProcess.
var killed = job.Define("killed-process", 1, func(ctx context.Context, _ struct{}) error {
	if os.Getenv(killedVariable) != "" {
		fmt.Println("running")
		<-ctx.Done()
	}
	return ctx.Err()
})

func startOnFile(t *testing.T, path string) amboy.Queue {
	t.Helper()
	d, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	require.NoError(t, err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: d, CloseDriver: true, NumWorkers: 1})
	require.NoError(t, err)
	t.Cleanup(func() { q.Close(context.Background()) })
	require.NoError(t, q.Start(t.Context()))
	return q
}

// TestKilledProcess is a child process that runs a job until it is killed.
func TestKilledProcess(t *testing.T) {
	path := os.Getenv(killedVariable)
	if path == "" {
		t.Skip("it is run by another test")
	}
	_, err := killed.Put(t.Context(), startOnFile(t, path), struct{}{})
	require.NoError(t, err)
	<-t.Context().Done()
}

// A service that was killed and started again ran its other jobs at once, but for a minute not those
// that had been running; one that crashed more often than that never ran them.
func TestJobsOfAKilledProcessRunWhenTheNextOneStarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledProcess$")
	child.Env = append(os.Environ(), killedVariable+"="+path)
	output, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	require.True(t, bufio.NewScanner(output).Scan())
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())

	q := startOnFile(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second) // most of the lease's minute is left
	defer cancel()
	require.True(t, amboy.Wait(ctx, q))
	for info := range q.JobInfo(t.Context()) {
		assert.True(t, info.Status.Completed)
		assert.Equal(t, 1, info.Status.Interruptions.Total())
	}
}
