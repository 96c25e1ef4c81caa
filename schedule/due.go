package schedule

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/internal/publictext"
)

// progress is the progress of a schedule; the fields have the meaning of those of entry.
type progress struct {
	done, last, next time.Time
}

// putDue puts the jobs of the due ticks of a schedule.
func (s *Scheduler) putDue(ctx context.Context, e *entry, now time.Time) error {
	s.mu.Lock()
	p := progress{e.done, e.last, e.next}
	e.isBusy = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		e.isBusy = false
	}()
	err := contain.Alone(func() error { return s.advance(ctx, e, &p, now) }) // a JobFunc may end its goroutine
	if err != nil {
		err = fmt.Errorf("schedule %q of queue %q: %w", e.name, s.target.name(), err)
	}
	if ctx.Err() != nil {
		return err // the error says nothing about the schedule
	}
	if err != nil {
		logging.Error(ctx, message.Fields{
			"message":  "putting the job of a schedule failed",
			"queue":    s.target.name(),
			"schedule": e.name,
			"error":    err.Error(),
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.settle(p, err, now)
	return err
}

// settle records the result of putDue. The caller holds the lock of the scheduler.
func (e *entry) settle(p progress, err error, now time.Time) {
	e.done, e.last, e.next, e.err = p.done, p.last, p.next, err
	e.retryAt, e.reportedAt = time.Time{}, time.Time{}
	if err == nil {
		e.failures = 0
		return
	}
	e.retryAt = now.Add(backoff(e.failures))
	// Try once more before the tick counts as missed.
	if last := e.next.Add(lateness - lastTry); last.After(now) {
		e.retryAt = earlier(e.retryAt, last)
	}
	e.failures++
}

const longestBackoff = time.Minute

// lastTry is the time between the last attempt to put the job of a tick and the moment when the tick
// counts as missed.
const lastTry = 5 * time.Second

// backoff returns how long a schedule waits after one more failure than the given number:
// from a second to a minute.
func backoff(failures int) time.Duration {
	return min(longestBackoff, time.Second<<min(failures, 6))
}

// advance puts the jobs of due ticks, and updates p.
func (s *Scheduler) advance(ctx context.Context, e *entry, p *progress, now time.Time) error {
	q, err := s.target.open(ctx)
	if err != nil {
		return err
	}
	err = q.readProgress(ctx, e, p)
	if err != nil {
		return err
	}
	// If done is after now, the clock was turned back since then. Only the last tick that
	// was put still counts.
	p.done = later(p.last, earlier(p.done, now))
	ticks, err := e.ticks(p.done, now, s.opts.MaxCatchUp)
	if err != nil {
		return err
	}
	last, err := s.putAll(ctx, q, e, ticks)
	if !last.IsZero() {
		p.done, p.last = last, last
	}
	if err == nil {
		p.done = later(p.done, now)
	}
	var broken error
	p.next, broken = nextTick(e.schedule, p.done)
	if err == nil {
		err = broken
	}
	if err == nil && p.last.After(s.target.now().Add(lateness)) {
		err = publictext.Errorf("its last tick, %s, is in the future: no job is put until then. The clock of a process is or was wrong", p.last.Format(time.RFC3339Nano))
	}
	return err
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// readProgress updates p with the progress that the queue has marked, for any process.
func (q openQueue) readProgress(ctx context.Context, e *entry, p *progress) error {
	last, err := q.mark(ctx, lastMark(e.name), time.Time{})
	if err != nil {
		return fmt.Errorf("reading the mark of the last tick: %w", err)
	}
	if p.last.After(last) { // an earlier call of Mark failed
		last = p.last
		_, err = q.mark(ctx, lastMark(e.name), last)
		if err != nil {
			return fmt.Errorf("marking the last tick: %w", err)
		}
	}
	p.last = last
	if last.IsZero() && p.done.IsZero() {
		p.done, err = q.startTime(ctx, e)
		return err
	}
	p.done = later(p.done, last)
	return nil
}

// startTime returns the time from which ticks count, for a schedule of which no tick was
// put yet.
func (q openQueue) startTime(ctx context.Context, e *entry) (time.Time, error) {
	start, err := q.mark(ctx, startMark(e.name), time.Time{})
	if err == nil && start.IsZero() {
		start, err = q.mark(ctx, startMark(e.name), e.added)
	}
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("reading the mark of its start: %w", err)
	case start.IsZero() || start.After(e.added): // this process was the first to add it
		return e.added, nil
	default:
		return start, nil
	}
}

// putAll puts and marks the jobs of ticks, and returns the last tick that was put. It stops
// if the schedule is removed meanwhile.
func (s *Scheduler) putAll(ctx context.Context, q openQueue, e *entry, ticks []time.Time) (last time.Time, err error) {
	var marked time.Time // the latest mark, which another process may have set
	for _, tick := range ticks {
		if !tick.After(marked) {
			last = tick
			continue
		}
		if !s.isAdded(e) {
			return last, nil
		}
		err = q.putTick(ctx, e, tick)
		if err != nil {
			return last, fmt.Errorf("putting the job of tick %s: %w", tick.Format(time.RFC3339Nano), err)
		}
		last = tick
		marked, err = q.mark(ctx, lastMark(e.name), tick)
		if err != nil {
			// The job was put, and readProgress marks it later. If this process ends before
			// that and the queue removes the job, the job is put again.
			return last, fmt.Errorf("marking tick %s: %w", tick.Format(time.RFC3339Nano), err)
		}
	}
	return last, nil
}

// putTick puts the job of a tick, unless another process has done so.
func (q openQueue) putTick(ctx context.Context, e *entry, tick time.Time) error {
	j, err := e.newJob(tick)
	if err != nil {
		return &jobError{err}
	}
	if amboy.IsNilJob(j) {
		return &InvalidError{Schedule: e.name, Field: "job", Value: j, Rule: "must not be nil"}
	}
	id := TickID(e.name, tick)
	if named, ok := j.(interface{ SetID(id string) }); ok {
		named.SetID(id)
	}
	if j.ID() != id {
		return &InvalidError{Schedule: e.name, Field: "ID of the job", Value: j.ID(), Rule: fmt.Sprintf("must be %q, or the job must have a method SetID(string)", id)}
	}
	ctx, cancel := context.WithTimeout(ctx, putTime)
	defer cancel()
	return amboy.EnqueueUniqueJob(ctx, q.Queue, j)
}

// jobError is an error of a JobFunc.
type jobError struct{ err error }

func (e *jobError) Error() string { return "making it: " + e.err.Error() }
func (e *jobError) Unwrap() error { return e.err }

// ticks returns the ticks after done, up to now, whose jobs are to be put.
func (e *entry) ticks(done, now time.Time, most int) ([]time.Time, error) {
	if e.catchUp == CatchUpAll {
		return newestTicks(e.schedule, done, now, most)
	}
	punctual, err := newestTicks(e.schedule, later(done, now.Add(-lateness)), now, most)
	if e.catchUp == CatchUpNone || len(punctual) > 0 || err != nil {
		return punctual, err
	}
	return newestTicks(e.schedule, done, now, 1)
}

// newestTicks returns the latest ticks after one time and up to another, in order, and at
// most as many as most. It searches backwards, so that it does not enumerate the ticks of
// years.
func newestTicks(s Schedule, after, until time.Time, most int) ([]time.Time, error) {
	for window := lateness; ; window *= 2 {
		from := until.Add(-window)
		isWhole := window <= 0 || !from.After(after) // the window overflows, or covers the whole range
		if isWhole {
			from = after
		}
		ticks, err := ticksBetween(s, from, until)
		if err != nil || isWhole || len(ticks) >= most {
			return ticks[max(0, len(ticks)-most):], err
		}
	}
}

func ticksBetween(s Schedule, after, until time.Time) (ticks []time.Time, err error) {
	for {
		after, err = nextTick(s, after)
		if err != nil || after.IsZero() || after.After(until) {
			return ticks, err
		}
		ticks = append(ticks, after)
	}
}

// nextTick calls Next, and returns an error if the result can't be a tick.
func nextTick(s Schedule, after time.Time) (tick time.Time, err error) {
	err = contain.Panic(func() error {
		tick = s.Next(after)
		return nil
	})
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("calling Next: %w", err)
	case tick.IsZero():
		return tick, nil
	case !tick.After(after) || !tick.Equal(wholeMilliseconds(tick)):
		return time.Time{}, &InvalidError{Field: "next tick", Value: tick, Rule: fmt.Sprintf("must be after %s, and whole milliseconds", after)}
	}
	return tick, nil
}
