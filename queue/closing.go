package queue

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
	// closeGrace is how long the parts of a queue or a group may take to end, and how
	// long the ends of jobs may take to be written.
	closeGrace = 750 * time.Millisecond
	// lastGrace is how much longer the calls of the driver that are canceled after
	// closeGrace may take to return, and then how long closing the driver may take. What
	// has to be closed after closeGrace, such as a retry handler, gets as long, so that it
	// is not left behind because something else took all of closeGrace.
	lastGrace = 50 * time.Millisecond
	// queuesGrace is how long the queues of a group may take to close.
	queuesGrace = closeGrace + 2*lastGrace
	// closeLimit is when Close returns even if a part has not ended.
	closeLimit = 950 * time.Millisecond
)

// closing runs a shutdown once for all calls of Close. The context of the shutdown ends
// when the context of any of these calls ends.
type closing struct {
	once  sync.Once
	hurry context.CancelFunc
	done  chan struct{}
}

// run calls end on a new goroutine, unless an earlier call of run did. It returns true
// when end has returned, and false if that takes longer than closeLimit after the end of
// ctx.
func (c *closing) run(ctx context.Context, end func(context.Context)) (ended bool) {
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
	late, cancel := afterEnd(ctx, closeLimit)
	defer cancel()
	return receives(late, c.done)
}

func reportPanic(ctx context.Context, err error) {
	if err != nil {
		logging.Error(ctx, message.Fields{"message": "Close panicked", "error": err.Error()})
	}
}

// afterEnd returns a context that ends d after ctx has ended.
func afterEnd(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
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

// inTime calls f, which may never return, and returns its error, or the error of its
// panic. If ctx ends first, inTime abandons f and returns amboy.ErrLeftBehind.
func inTime(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- contain.Panic(f) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return amboy.ErrLeftBehind
	}
}

// leftover lists what had not ended when Close returned.
type leftover struct {
	jobs  []string // their IDs, sorted
	parts []string // descriptions of everything else
}

// leftJobs is the maximum number of job IDs listed in the log and in errors.
const leftJobs = 10

func (l leftover) err() error {
	var all []string
	if n := len(l.jobs); n > 0 {
		all = append(all, describeJobs(l.jobs))
	}
	all = append(all, l.parts...)
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

// add records that a part did not end, or ended with an error.
func (l *leftover) add(what string, err error) {
	if errors.Is(err, amboy.ErrLeftBehind) {
		l.parts = append(l.parts, what)
	} else if err != nil {
		l.parts = append(l.parts, fmt.Sprintf("%s: %s", what, err))
	}
}

// leftIn returns an error that lists what a closed queue has left behind, or nil.
func leftIn(q amboy.Queue) error {
	if ours, ok := q.(interface{ left() leftover }); ok {
		return ours.left().err()
	}
	if reporter, ok := q.(amboy.CloseReporter); ok {
		return leftover{jobs: reporter.LeftBehind()}.err()
	}
	return nil
}

// LeftBehind implements amboy.CloseReporter.
func (l *lifecycle) LeftBehind() []string { return slices.Clone(l.left().jobs) }

func (l *lifecycle) left() leftover {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leftover
}

// noteLeft stores what was left behind, and logs it.
func (l *lifecycle) noteLeft(ctx context.Context, left leftover) {
	l.mu.Lock()
	l.leftover = left
	l.mu.Unlock()
	if err := left.err(); err != nil {
		logging.Error(ctx, message.Fields{
			"message": "queue closed with jobs or parts left behind",
			"queue":   l.id,
			"jobs":    left.jobs[:min(len(left.jobs), leftJobs)],
			"count":   len(left.jobs),
			"error":   err.Error(),
		})
	}
}
