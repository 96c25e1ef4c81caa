package benchmarks

import (
	"context"
	"strconv"
	"testing"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
)

// task is a job that calls a function.
type task struct {
	job.Base
	run func()
}

// newTask returns a job with a unique ID.
func newTask(run func()) *task {
	t := &task{run: run}
	t.SetID(strconv.Itoa(job.GetNumber()))
	return t
}

// newTasks returns jobs that call the same function.
func newTasks(count int, run func()) []*task {
	tasks := make([]*task, count)
	for i := range tasks {
		tasks[i] = newTask(run)
	}
	return tasks
}

func (t *task) Run(context.Context) {
	defer t.MarkComplete()
	t.run()
}

// start starts a queue. The caller closes it.
func start[Q amboy.Queue](tb testing.TB, q Q) Q {
	tb.Helper()
	if err := q.Start(tb.Context()); err != nil {
		tb.Fatalf("starting the queue: %v", err)
	}
	return q
}

// put puts a job. It does not call b.Helper, which would take longer than the measured
// operation.
func put(tb testing.TB, q amboy.Queue, j amboy.Job) {
	if err := q.Put(tb.Context(), j); err != nil {
		tb.Fatalf("putting a job: %v", err)
	}
}
