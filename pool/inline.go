package pool

import (
	"context"
	"sync"

	"github.com/mongodb/amboy"
)

// Inline is a runner without workers: a job runs on the goroutine that asks for
// it. It is for tests, and for programs that run what is there and end. It is safe
// for concurrent use; several jobs run at once where several goroutines ask.
type Inline struct {
	pool *workers
	// itself counts as a worker until it is closed, so that the pool is not gone before.
	itself *worker
	leave  func() // counts it out
}

var (
	_ amboy.Runner        = (*Inline)(nil)
	_ amboy.CloseReporter = (*Inline)(nil)
	_ amboy.CloseReporter = (*workers)(nil)
)

// NewInline returns a runner whose queue is set with SetQueue.
func NewInline() *Inline {
	i := &Inline{pool: newWorkers(0, nil, takeNext)}
	i.leave = sync.OnceFunc(func() { i.pool.leave(i.itself) })
	return i
}

// Started is true between Start and Close. It does not block.
func (i *Inline) Started() bool { return i.pool.Started() }

// SetQueue sets the queue whose jobs are run. It fails with ErrAlreadyStarted once
// the runner has started, with ErrClosed once it was closed, and for nil. It does
// not block.
func (i *Inline) SetQueue(q amboy.Queue) error { return i.pool.SetQueue(q) }

// Start lets jobs be run. The contexts of jobs derive from ctx; where it ends there
// is a hard stop. Start fails where there is no queue, and with ErrClosed after
// Close. A second Start has no effect. It does not block, and starts no goroutine.
func (i *Inline) Start(ctx context.Context) error {
	i.pool.mu.Lock()
	defer i.pool.mu.Unlock()
	if first, err := i.pool.prepare(ctx); !first {
		return err
	}
	i.itself = i.pool.enter(i.pool.soft) //nolint:contextcheck // i.pool.soft derives from ctx
	return nil
}

// RunNext takes a job from the queue, runs it and ends its attempt in the queue. It
// blocks as the queue's Next does, and until the job's Run has returned. It returns
// false where there was no job, because ctx ended for instance, where the runner is not
// started, and where its context has ended. ctx is for the taking of the job alone.
func (i *Inline) RunNext(ctx context.Context) bool {
	w := i.enter(ctx)
	if w == nil {
		return false
	}
	defer i.pool.leave(w)
	defer func() { w.written() }() // also where the job ends this goroutine
	return w.runNext(ctx)
}

// enter counts a caller in that Close waits for; nil if no job may run.
func (i *Inline) enter(ctx context.Context) *worker {
	i.pool.mu.Lock()
	defer i.pool.mu.Unlock()
	if !i.pool.started || i.pool.closed || i.pool.soft.Err() != nil {
		return nil
	}
	return i.pool.enter(ctx)
}

// Close takes no more jobs and blocks until those that run have ended. They may go
// on until ctx ends; then there is a hard stop, as of the other runners, and Close
// returns within a second. It may be called again.
func (i *Inline) Close(ctx context.Context) {
	if i.pool.close() {
		i.leave()
	}
	i.pool.Close(ctx)
}

// LeftBehind implements amboy.CloseReporter.
func (i *Inline) LeftBehind() []string { return i.pool.LeftBehind() }
