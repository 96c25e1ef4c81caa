package main

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
)

// The workers run the same jobs in each language.
func TestWorkers(t *testing.T) {
	for name, command := range map[string][]string{
		"python": {"python3", "worker.py", "texts"},
		"node":   {"node", "worker.mjs", "texts"},
		"shell":  {"bash", "worker.sh", "texts"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needed := command[:1]
			if name == "shell" {
				needed = []string{"bash", "curl", "jq"}
			}
			for _, program := range needed {
				if _, err := exec.LookPath(program); err != nil {
					t.Skipf("%s is not installed", program)
				}
			}
			testWorker(t, name, command)
		})
	}
}

func testWorker(t *testing.T, name string, command []string) {
	t.Helper()
	ctx, s := startService(t)
	worker := startWorker(ctx, t, s.url, s.token, 6, command...)

	want := countResult{Words: 3, By: name}
	got, err := count.PutAndWait(ctx, s.queue, countArgs{Text: "one  two\nthree"})
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	got, err = count.PutAndWait(ctx, s.queue, countArgs{Text: "a b c", Fail: true}, job.ID("retried"))
	if err != nil || got != want {
		t.Errorf("retried: got %+v, %v", got, err)
	}
	_, err = count.PutAndWait(ctx, s.queue, countArgs{}, job.ID("empty"))
	var failed *job.NoResultError
	if !errors.As(err, &failed) || failed.State != amboy.StateFailed || failed.Err.Error() != "no words" {
		t.Errorf("empty: got %v", err)
	}
	// A job that takes longer than its lease is kept by heartbeats.
	got, err = count.PutAndWait(ctx, s.queue, countArgs{Text: "a b c", Pause: 2.1}, job.ID("slow"))
	if err != nil || got != want {
		t.Errorf("slow: got %+v, %v", got, err)
	}
	if name != "shell" { // which logs nothing
		testLog(ctx, t, s, name)
	}
	testCancel(ctx, t, s)

	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := worker.Wait(); err != nil {
		t.Errorf("the worker ended with %v", err)
	}
	stats := s.queue.Stats(ctx)
	if stats.Running+stats.Pending+stats.Retrying != 0 {
		t.Errorf("left %+v", stats)
	}
}

// testLog runs a job that ends before its first heartbeat. Its log was lost.
func testLog(ctx context.Context, t *testing.T, s *service, name string) {
	t.Helper()
	id, err := count.Put(ctx, s.queue, countArgs{Text: "a b"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = count.Wait(ctx, s.queue, id); err != nil {
		t.Fatal(err)
	}
	ended, _ := s.queue.Get(ctx, id)
	progress := amboy.ProgressOf(ended)
	if progress == nil || len(progress.Log) != 1 || progress.Log[0].Text != name+" counts 2 words" {
		t.Errorf("the log of a short job: got %+v", progress)
	}
}

// testCancel cancels a running job, which would take longer than the test.
func testCancel(ctx context.Context, t *testing.T, s *service) {
	t.Helper()
	cancelWhileItRuns(ctx, t, s, "canceled", countArgs{Text: "a", Pause: longerThanTheTest})
}

// cancelWhileItRuns puts a job, cancels it when it has started, and checks that it ends as canceled.
func cancelWhileItRuns(ctx context.Context, t *testing.T, s *service, id string, args countArgs) {
	t.Helper()
	inspector, err := management.NewInspector(s.queue)
	if err != nil {
		t.Fatal(err)
	}
	events, unsubscribe, err := amboy.Subscribe(s.queue, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer unsubscribe()
	if _, err = count.Put(ctx, s.queue, args, job.ID(id)); err != nil {
		t.Fatal(err)
	}
	for event := range events {
		if event.Kind == amboy.EventStarted {
			break
		}
	}
	if _, err = inspector.ActOn(ctx, "texts", id, management.Action{Kind: management.Cancel}); err != nil {
		t.Fatal(err)
	}
	var failed *job.NoResultError
	if _, err = count.Wait(ctx, s.queue, id); !errors.As(err, &failed) || failed.State != amboy.StateCanceled {
		t.Errorf("%s: got %v", id, err)
	}
}

// A server that holds the address made start panic.
func TestStartReturnsTheErrorOfATakenAddress(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	_, err = start(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), taken.Addr().String())
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("got %v", err)
	}
}
