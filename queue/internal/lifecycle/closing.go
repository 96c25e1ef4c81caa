package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/logging"
)

// Close returns within a second after its context ends, whatever jobs, callbacks and
// drivers do. The times below count from the end of the context, or from the call of
// Close if that is later. A pool takes at most 700 ms of them.
const (
	// CloseGrace is how long the parts of a queue or a group may take to end, and how
	// long the ends of jobs may take to be written.
	CloseGrace = 750 * time.Millisecond
	// LastGrace is how much longer the calls of the driver that are canceled after
	// CloseGrace may take to return, and then how long closing the driver may take. What
	// has to be closed after CloseGrace, such as a retry handler, gets as long, so that it
	// is not left behind because something else took all of CloseGrace.
	LastGrace = 50 * time.Millisecond
	// QueuesGrace is how long the queues of a group may take to close.
	QueuesGrace = CloseGrace + 2*LastGrace
	// closeLimit is when Close returns even if a part has not ended.
	closeLimit = 950 * time.Millisecond
)

// Closing runs a shutdown once for all calls of Close. The context of the shutdown ends
// when the context of any of these calls ends.
type Closing struct {
	once  sync.Once
	hurry context.CancelFunc
	done  chan struct{}
}

// Run calls end on a new goroutine, unless an earlier call of Run did. It returns true
// when end has returned, and false if that takes longer than closeLimit after the end of
// ctx.
func (c *Closing) Run(ctx context.Context, end func(context.Context)) (ended bool) {
	c.once.Do(func() {
		shared, hurry := context.WithCancel(context.WithoutCancel(ctx))
		c.hurry, c.done = hurry, make(chan struct{})
		if ctx.Err() != nil {
			hurry()
		}
		go func() {
			defer close(c.done)
			defer hurry()
			reportPanic(ctx, contain.Panic(func() error {
				end(shared)
				return nil
			}))
		}()
	})
	defer context.AfterFunc(ctx, c.hurry)()
	late, cancel := AfterEnd(ctx, closeLimit)
	defer cancel()
	return receives(late, c.done)
}

func reportPanic(ctx context.Context, err error) {
	if err != nil {
		logging.Error(ctx, message.Fields{"message": "Close panicked", "error": err.Error()})
	}
}

// AfterEnd returns a context that ends d after ctx has ended.
func AfterEnd(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(d, cancel)
		context.AfterFunc(late, func() { timer.Stop() })
	})
	return late, func() {
		stop()
		cancel()
	}
}

// receives waits until done is closed. It returns false if ctx ends first.
func receives(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}
	select {
	case <-done: // both have ended
		return true
	default:
		return false
	}
}

// InTime calls f, which may never return, and returns its error, or the error of its
// panic or of its runtime.Goexit. If ctx ends first, InTime abandons f and returns
// amboy.ErrLeftBehind.
func InTime(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- contain.Alone(f) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return amboy.ErrLeftBehind
	}
}

// Leftover lists what had not ended when Close returned.
type Leftover struct {
	jobs  []string // their IDs, sorted
	Parts []string // descriptions of everything else
}

// leftJobs is the maximum number of job IDs listed in the log and in errors.
const leftJobs = 10

// Err returns an error that lists what is left, or nil.
func (l Leftover) Err() error {
	var all []string
	if n := len(l.jobs); n > 0 {
		all = append(all, describeJobs(l.jobs))
	}
	all = append(all, l.Parts...)
	if len(all) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", amboy.ErrLeftBehind, strings.Join(all, "; "))
}

func describeJobs(ids []string) string {
	noun, rest := "jobs", ""
	if len(ids) == 1 {
		noun = "job"
	}
	named := ids[:min(len(ids), leftJobs)]
	if len(named) < len(ids) {
		rest = " and others"
	}
	quoted := make([]string, len(named))
	for i, id := range named {
		quoted[i] = fmt.Sprintf("%q", id)
	}
	return fmt.Sprintf("%d %s (%s%s)", len(ids), noun, strings.Join(quoted, ", "), rest)
}

// Add records that a part did not end, or ended with an error.
func (l *Leftover) Add(what string, err error) {
	if errors.Is(err, amboy.ErrLeftBehind) {
		l.Parts = append(l.Parts, what)
	} else if err != nil {
		l.Parts = append(l.Parts, fmt.Sprintf("%s: %s", what, err))
	}
}

// LeftIn returns an error that lists what a closed queue has left behind, or nil.
func LeftIn(q amboy.Queue) error {
	if ours, ok := q.(interface{ left() Leftover }); ok {
		return ours.left().Err()
	}
	if reporter, ok := q.(amboy.CloseReporter); ok {
		return Leftover{jobs: reporter.LeftBehind()}.Err()
	}
	return nil
}

// LeftBehind implements amboy.CloseReporter.
func (l *Base) LeftBehind() []string { return slices.Clone(l.left().jobs) }

func (l *Base) left() Leftover {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leftover
}

// NoteLeft stores what the queue with a name has left behind, and logs it.
func (l *Base) NoteLeft(ctx context.Context, name string, left Leftover) {
	l.mu.Lock()
	l.leftover = left
	l.mu.Unlock()
	if err := left.Err(); err != nil {
		logging.Error(ctx, message.Fields{
			"message": "queue closed with jobs or parts left behind",
			"queue":   name,
			"jobs":    left.jobs[:min(len(left.jobs), leftJobs)],
			"count":   len(left.jobs),
			"error":   err.Error(),
		})
	}
}
