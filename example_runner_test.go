package amboy_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
)

// oneWorker is a custom runner.
type oneWorker struct {
	mu      sync.Mutex
	queue   amboy.Queue
	started bool

	stop context.CancelFunc // ends the taking of jobs
	kill context.CancelFunc // ends the jobs
	gone chan struct{}      // closed when the worker has ended
}

func (w *oneWorker) Started() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.started
}

func (w *oneWorker) SetQueue(q amboy.Queue) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started {
		return amboy.ErrAlreadyStarted
	}
	w.queue = q
	return nil
}

func (w *oneWorker) Start(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.queue == nil:
		return errors.New("starting runner: queue must be set")
	case w.started:
		return amboy.ErrAlreadyStarted
	}
	hard, kill := context.WithCancel(amboy.ContextWithQueue(ctx, w.queue))
	soft, stop := context.WithCancel(hard)
	w.started, w.stop, w.kill, w.gone = true, stop, kill, make(chan struct{})
	go w.work(soft, hard)
	return nil
}

func (w *oneWorker) Close(ctx context.Context) {
	w.mu.Lock()
	started := w.started
	w.started = false
	w.mu.Unlock()
	if !started {
		return
	}
	w.stop()
	select {
	case <-w.gone:
	case <-ctx.Done():
	}
	w.kill()
	<-w.gone
}

func (w *oneWorker) work(soft, hard context.Context) {
	defer close(w.gone)
	for {
		j := w.queue.Next(soft)
		if j == nil {
			return // soft has ended, or the queue is closed
		}
		if err := w.run(hard, j); err != nil {
			fmt.Printf("job %q has not ended: %v\n", j.ID(), err)
		}
	}
}

func (w *oneWorker) run(hard context.Context, j amboy.Job) error {
	ctx, cancel := hard, context.CancelFunc(func() {})
	if contexter, ok := w.queue.(amboy.JobContexter); ok {
		ctx, cancel = contexter.JobContext(hard, j)
	}
	defer cancel()
	runErr := amboy.RunFuncOf(w.queue)(ctx, j)

	// The queue must learn of the end even after a hard stop.
	ending, done := context.WithTimeout(context.WithoutCancel(hard), 10*time.Second)
	defer done()
	releaser, canRelease := w.queue.(amboy.JobReleaser)
	snoozer, canSnooze := w.queue.(amboy.JobSnoozer)
	var snooze *amboy.SnoozeError
	switch {
	case errors.Is(context.Cause(ctx), amboy.ErrLeaseLost):
		return amboy.ErrLeaseLost // another worker has the job
	case errors.As(runErr, &snooze) && canSnooze:
		return snoozer.Snooze(ending, j, snooze.Until)
	case hard.Err() != nil && canRelease:
		return releaser.Release(ending, j)
	default:
		return w.queue.Complete(ending, j)
	}
}

// count is a job that prints a number.
var count = job.Define("amboy-example.count", 1, func(_ context.Context, n int) error {
	_, err := fmt.Println("running", n)
	return err
})

// Run jobs with a custom runner.
func ExampleRunner() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1000)
	if err := q.SetRunner(&oneWorker{}); err != nil {
		panic(err)
	}
	if err := q.Start(ctx); err != nil {
		panic(err)
	}
	for n := range 2 {
		if _, err := count.Put(ctx, q, n); err != nil {
			panic(err)
		}
	}
	amboy.Wait(ctx, q)
	q.Close(ctx)
	fmt.Println(q.Stats(ctx).Completed, q.Runner().Started())
	// Output:
	// running 0
	// running 1
	// 2 false
}
