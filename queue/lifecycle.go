package queue

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/events"
)

// phase is the stage of a queue's life.
type phase int32

const (
	created phase = iota
	started
	stopped // accepts no jobs and hands none out
)

// lifecycle is the common part of all queues: the runner, starting and stopping.
type lifecycle struct {
	id    string
	phase atomic.Int32
	// open ends when the queue stops. Its cause is amboy.ErrQueueClosed.
	open context.Context
	end  context.CancelCauseFunc

	middleware  middleware
	events      events.Hub
	workerCount workerCount

	mu       sync.Mutex
	runner   amboy.Runner
	stopOnce sync.Once
	// tasks counts the goroutines that Close waits for.
	tasks tasks

	// shut closes the queue and everything that it owns.
	shut    func(context.Context)
	closing closing
	// leftover lists what had not ended when shut returned.
	leftover leftover
	// made is the context of the constructor. The queue closes when it ends, unless it
	// was started.
	made   context.Context
	ending ending
}

func newLifecycle(id string) lifecycle {
	open, end := context.WithCancelCause(context.Background())
	return lifecycle{id: id, open: open, end: end, made: context.Background()}
}

func (l *lifecycle) ID() string      { return l.id }
func (l *lifecycle) is(p phase) bool { return phase(l.phase.Load()) == p }
func (l *lifecycle) isStarted() bool { return l.is(started) }
func (l *lifecycle) isStopped() bool { return l.is(stopped) }

// Runner returns the runner.
func (l *lifecycle) Runner() amboy.Runner {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runner
}

// firstRunner sets the runner of a new queue.
func (l *lifecycle) firstRunner(r amboy.Runner) { l.runner = r }

// setRunner replaces the runner of a queue that has not started.
func (l *lifecycle) setRunner(r amboy.Runner, q amboy.Queue) error {
	if r == nil {
		return fmt.Errorf("setting the runner of queue %q: runner must not be nil", l.id)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.is(created) {
		return fmt.Errorf("setting the runner of queue %q: %w", l.id, amboy.ErrAlreadyStarted)
	}
	if err := r.SetQueue(q); err != nil {
		return fmt.Errorf("setting the runner of queue %q: %w", l.id, err)
	}
	l.runner = r
	return nil
}

// start starts the runner. The caller must call endWith once everything else has started.
func (l *lifecycle) start(ctx context.Context) error {
	if !l.phase.CompareAndSwap(int32(created), int32(started)) {
		err := amboy.ErrAlreadyStarted
		if l.isStopped() {
			err = amboy.ErrQueueClosed
		}
		return fmt.Errorf("starting queue %q: %w", l.id, err)
	}
	if err := l.Runner().Start(ctx); err != nil {
		if l.phase.CompareAndSwap(int32(started), int32(created)) {
			l.endWith(l.made) //nolint:contextcheck // The context may have ended meanwhile.
		}
		return fmt.Errorf("starting queue %q: %w", l.id, err)
	}
	l.applyWorkerCountAtStart(ctx)
	if l.isStopped() {
		// Close was called meanwhile, and closes the runner.
		return fmt.Errorf("starting queue %q: %w", l.id, amboy.ErrQueueClosed)
	}
	return nil
}

// madeWith makes the queue close when the context of its constructor ends before Start.
func (l *lifecycle) madeWith(ctx context.Context) {
	l.made = ctx
	l.endWith(ctx)
}

// endWith closes the queue when ctx ends, as Close with an ended context does. A context
// that was set before Start has no effect after it.
func (l *lifecycle) endWith(ctx context.Context) {
	now := l.phase.Load()
	if phase(now) == stopped {
		return
	}
	l.ending.with(ctx, l.id, func(ctx context.Context) {
		if l.phase.CompareAndSwap(now, int32(stopped)) {
			l.closing.run(ctx, l.shut)
		}
	})
}

// Close stops the queue, and returns when everything that it owns has ended, or within a
// second after ctx ends. What is left then is logged, and LeftBehind returns the jobs
// that are left.
func (l *lifecycle) Close(ctx context.Context) {
	l.refuse() // first, so that no job that becomes ready now starts
	l.closing.run(ctx, l.shut)
	l.ending.wait()
}

// stop makes the queue refuse and hand out no more jobs, once.
func (l *lifecycle) stop(wakeAll func()) {
	l.stopOnce.Do(func() {
		l.refuse()
		wakeAll()
	})
}

// refuse is the part of stop that can't block.
func (l *lifecycle) refuse() {
	l.phase.Store(int32(stopped))
	l.end(amboy.ErrQueueClosed)
}

// onStop calls f on a new goroutine when the queue stops, unless cancel is called first.
func (l *lifecycle) onStop(f func()) (cancel func() bool) { return context.AfterFunc(l.open, f) }

// close stops the queue, closes its runner, and waits for its goroutines. When late ends,
// it stops waiting and returns what has not ended.
func (l *lifecycle) close(ctx, late context.Context, stop func()) (left leftover) {
	left.add("stopping", inTime(late, func() error {
		l.stop(stop)
		return nil
	}))
	l.ending.cancel()
	runner := l.Runner() // no task begins after this
	err := inTime(late, func() error {
		runner.Close(ctx)
		return nil
	})
	left.add("runner", err)
	if reporter, ok := runner.(amboy.CloseReporter); ok && err == nil {
		left.jobs = reporter.LeftBehind()
	}
	if !l.tasks.wait(late) {
		left.add("streams of jobs", amboy.ErrLeftBehind)
	}
	return left
}

// accepts returns an error if no job can be put now.
func (l *lifecycle) accepts(beforeStart bool) error {
	switch {
	case l.isStopped():
		return fmt.Errorf("queue %q: %w", l.id, amboy.ErrQueueClosed)
	case l.is(created) && !beforeStart:
		return fmt.Errorf("queue %q: %w", l.id, amboy.ErrQueueNotStarted)
	default:
		return nil
	}
}

// waitFor waits until done is closed. It returns false if ctx or the queue ends first.
func (l *lifecycle) waitFor(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	case <-l.open.Done():
		return false
	}
}

// smallStream is the number of items up to which stream uses no goroutine.
const smallStream = 512

// unknownLength is the length of a stream whose length is not known.
const unknownLength = -1

// stream sends at most length items. It closes the channel after the last item, when ctx
// ends, and when the queue stops.
func stream[T any](ctx context.Context, l *lifecycle, length int, items iter.Seq[T]) <-chan T {
	if length != unknownLength && length <= smallStream {
		return filled(items)
	}
	l.mu.Lock()
	stopped := l.isStopped()
	if !stopped {
		l.tasks.begin() // under the lock, so that close waits for it
	}
	l.mu.Unlock()
	if stopped {
		return filled(items)
	}
	out := make(chan T)
	go func() {
		defer l.tasks.end()
		defer close(out)
		for item := range items {
			select {
			case out <- item:
			case <-ctx.Done():
				return
			case <-l.open.Done():
				return
			}
		}
	}()
	return out
}

// filled returns a closed channel that holds all items.
func filled[T any](items iter.Seq[T]) <-chan T {
	all := slices.Collect(items)
	out := make(chan T, len(all))
	for _, item := range all {
		out <- item
	}
	close(out)
	return out
}
