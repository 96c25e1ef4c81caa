package lifecycle

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

// Phase is the stage of a queue's life.
type Phase int32

// The phases of a queue.
const (
	Created Phase = iota // not started
	Started
	Stopped // accepts no jobs and hands none out
)

// Base is the common part of all queues: the runner, starting and stopping.
type Base struct {
	id    string
	Phase atomic.Int32
	// Open ends when the queue stops. Its cause is amboy.ErrQueueClosed.
	Open context.Context
	end  context.CancelCauseFunc

	Middleware  Middleware
	Events      events.Hub
	workerCount workerCount

	mu       sync.Mutex
	runner   amboy.Runner
	stopOnce sync.Once
	// tasks counts the goroutines that Close waits for.
	tasks Tasks

	// Shut closes the queue and everything that it owns.
	Shut    func(context.Context)
	closing Closing
	// leftover lists what had not ended when Shut returned.
	leftover Leftover
	// made is the context of the constructor. The queue closes when it ends, unless it
	// was started.
	made   context.Context
	ending Ending
}

// New returns the base of a queue with that ID.
func New(id string) Base {
	open, end := context.WithCancelCause(context.Background())
	return Base{id: id, Open: open, end: end, made: context.Background()}
}

// ID returns the ID of the queue, which owns the jobs that it runs.
func (l *Base) ID() string { return l.id }

// Is reports whether the queue is in a phase.
func (l *Base) Is(p Phase) bool { return Phase(l.Phase.Load()) == p }

// IsStarted reports whether the queue has started and not stopped.
func (l *Base) IsStarted() bool { return l.Is(Started) }

// IsStopped reports whether the queue has stopped.
func (l *Base) IsStopped() bool { return l.Is(Stopped) }

// Runner returns the runner.
func (l *Base) Runner() amboy.Runner {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runner
}

// FirstRunner sets the runner of a new queue.
func (l *Base) FirstRunner(r amboy.Runner) { l.runner = r }

// ReplaceRunner replaces the runner of a queue that has not started.
func (l *Base) ReplaceRunner(r amboy.Runner, q amboy.Queue) error {
	if r == nil {
		return fmt.Errorf("setting the runner of queue %q: runner must not be nil", l.id)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.Is(Created) {
		return fmt.Errorf("setting the runner of queue %q: %w", l.id, amboy.ErrAlreadyStarted)
	}
	if err := r.SetQueue(q); err != nil {
		return fmt.Errorf("setting the runner of queue %q: %w", l.id, err)
	}
	l.runner = r
	return nil
}

// StartRunner starts the runner. The caller must call EndWith once everything else has started.
func (l *Base) StartRunner(ctx context.Context) error {
	if !l.Phase.CompareAndSwap(int32(Created), int32(Started)) {
		err := amboy.ErrAlreadyStarted
		if l.IsStopped() {
			err = amboy.ErrQueueClosed
		}
		return fmt.Errorf("starting queue %q: %w", l.id, err)
	}
	if err := l.Runner().Start(ctx); err != nil {
		if l.Phase.CompareAndSwap(int32(Started), int32(Created)) {
			l.EndWith(l.made) //nolint:contextcheck // The context may have ended meanwhile.
		}
		return fmt.Errorf("starting queue %q: %w", l.id, err)
	}
	l.applyWorkerCountAtStart(ctx)
	if l.IsStopped() {
		// Close was called meanwhile, and closes the runner.
		return fmt.Errorf("starting queue %q: %w", l.id, amboy.ErrQueueClosed)
	}
	return nil
}

// MadeWith makes the queue close when the context of its constructor ends before Start.
func (l *Base) MadeWith(ctx context.Context) {
	l.made = ctx
	l.EndWith(ctx)
}

// EndWith closes the queue when ctx ends, as Close with an ended context does. A context
// that was set before Start has no effect after it.
func (l *Base) EndWith(ctx context.Context) {
	now := l.Phase.Load()
	if Phase(now) == Stopped {
		return
	}
	l.ending.With(ctx, l.id, func(ctx context.Context) {
		if l.Phase.CompareAndSwap(now, int32(Stopped)) {
			l.closing.Run(ctx, l.Shut)
		}
	})
}

// Close stops the queue, and returns when everything that it owns has ended, or within a
// second after ctx ends. What is left then is logged, and LeftBehind returns the jobs
// that are left.
func (l *Base) Close(ctx context.Context) {
	l.refuse() // first, so that no job that becomes ready now starts
	l.closing.Run(ctx, l.Shut)
	l.ending.Wait()
}

// stop makes the queue refuse and hand out no more jobs, once.
func (l *Base) stop(wakeAll func()) {
	l.stopOnce.Do(func() {
		l.refuse()
		wakeAll()
	})
}

// refuse is the part of stop that can't block.
func (l *Base) refuse() {
	l.Phase.Store(int32(Stopped))
	l.end(amboy.ErrQueueClosed)
}

// OnStop calls f on a new goroutine when the queue stops, unless cancel is called first.
func (l *Base) OnStop(f func()) (cancel func() bool) { return context.AfterFunc(l.Open, f) }

// CloseParts stops the queue, closes its runner, and waits for its goroutines. When late ends,
// it stops waiting and returns what has not ended.
func (l *Base) CloseParts(ctx, late context.Context, stop func()) (left Leftover) {
	left.Add("stopping", InTime(late, func() error {
		l.stop(stop)
		return nil
	}))
	l.ending.Cancel()
	runner := l.Runner() // no task begins after this
	err := InTime(late, func() error {
		runner.Close(ctx)
		return nil
	})
	left.Add("runner", err)
	if reporter, ok := runner.(amboy.CloseReporter); ok && err == nil {
		left.jobs = reporter.LeftBehind()
	}
	if !l.tasks.Wait(late) {
		left.Add("streams of jobs", amboy.ErrLeftBehind)
	}
	return left
}

// Accepts returns an error if no job can be put now.
func (l *Base) Accepts(beforeStart bool) error {
	switch {
	case l.IsStopped():
		return fmt.Errorf("queue %q: %w", l.id, amboy.ErrQueueClosed)
	case l.Is(Created) && !beforeStart:
		return fmt.Errorf("queue %q: %w", l.id, amboy.ErrQueueNotStarted)
	default:
		return nil
	}
}

// WaitFor waits until done is closed. It returns false if ctx or the queue ends first.
func (l *Base) WaitFor(ctx context.Context, done <-chan struct{}) bool {
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
	case <-l.Open.Done():
		return false
	}
}

// smallStream is the number of items up to which Stream uses no goroutine.
const smallStream = 512

// UnknownLength is the length of a stream whose length is not known.
const UnknownLength = -1

// Stream sends at most length items. It closes the channel after the last item, when ctx
// ends, and when the queue stops.
func Stream[T any](ctx context.Context, l *Base, length int, items iter.Seq[T]) <-chan T {
	if length != UnknownLength && length <= smallStream {
		return filled(items)
	}
	l.mu.Lock()
	stopped := l.IsStopped()
	if !stopped {
		l.tasks.begin() // under the lock, so that Close waits for it
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
			case <-l.Open.Done():
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
