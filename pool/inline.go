package pool

import (
	"context"
	"sync"

	"github.com/mongodb/amboy"
)

// Inline is a runner without workers: a job runs on the goroutine of the caller of
// RunNext. It is for tests, and for programs that run the jobs of a queue and exit. It is
// safe for concurrent use; concurrent callers run jobs concurrently.
type Inline struct {
	pool *workers
	// itself counts as a worker until the runner is closed, so that the pool does not end
	// before.
	itself *worker
	leave  func() // removes itself from the count
}

var (
	_ amboy.Runner        = (*Inline)(nil)
	_ amboy.CloseReporter = (*Inline)(nil)
	_ amboy.CloseReporter = (*workers)(nil)
)

// NewInline returns a runner without a queue. Set the queue with SetQueue.
func NewInline() *Inline {
	i := &Inline{pool: newWorkers(0, nil, takeNext)}
	i.leave = sync.OnceFunc(func() { i.pool.leave(i.itself) })
	return i
}

// Started is true between Start and Close. It does not block.
func (i *Inline) Started() bool { return i.pool.Started() }

// SetQueue sets the queue whose jobs are run. It fails with amboy.ErrAlreadyStarted after
// Start, with ErrClosed after Close, and for a nil queue. It does not block.
func (i *Inline) SetQueue(q amboy.Queue) error { return i.pool.SetQueue(q) }

// Start allows jobs to be run. The contexts of jobs derive from ctx, and the end of ctx is
// a hard stop. Start fails without a queue, and with ErrClosed after Close. A second Start
// has no effect. It does not block, and starts no goroutine.
func (i *Inline) Start(ctx context.Context) error {
	i.pool.mu.Lock()
	defer i.pool.mu.Unlock()
	if first, err := i.pool.prepare(ctx); !first {
		return err
	}
	i.itself = i.pool.enter(i.pool.soft) //nolint:contextcheck // i.pool.soft derives from ctx
	return nil
}

// RunNext takes a job from the queue, runs it and ends its attempt in the queue. It blocks
// as the queue's Next does, and then until the job's Run has returned. It returns false if
// the queue returned no job, for instance because ctx ended, if the runner is not started,
// or if the context of Start has ended. ctx bounds only the taking of the job.
func (i *Inline) RunNext(ctx context.Context) bool {
	w := i.enter(ctx)
	if w == nil {
		return false
	}
	defer i.pool.leave(w)
	defer func() { w.awaitAllWritten() }() // deferred, because the job may end this goroutine
	return w.runNext(ctx)
}

// enter registers a caller, for which Close waits. It returns nil if no job may run.
func (i *Inline) enter(ctx context.Context) *worker {
	i.pool.mu.Lock()
	defer i.pool.mu.Unlock()
	if !i.pool.started || i.pool.closed || i.pool.soft.Err() != nil {
		return nil
	}
	return i.pool.enter(ctx)
}

// Close takes no more jobs and blocks until the running ones have ended. They may go on
// until ctx ends; then there is a hard stop, as in the other runners, and Close returns
// within a second. It may be called more than once.
func (i *Inline) Close(ctx context.Context) {
	if i.pool.close() {
		i.leave()
	}
	i.pool.Close(ctx)
}

// LeftBehind implements amboy.CloseReporter.
func (i *Inline) LeftBehind() []string { return i.pool.LeftBehind() }
