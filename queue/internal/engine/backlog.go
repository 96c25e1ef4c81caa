package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/lifecycle"
)

const (
	// The note whose Until is when a process may sample the backlog again.
	backlogTurnKind, backlogTurnKey = "backlog turn", "next"
	// backlogPeriod is the time between two samples. A sample is repeated later if it took
	// long: after backlogPause times as long as it took, but after maxBacklogPeriod at the
	// latest.
	backlogPeriod    = time.Minute
	backlogPause     = 50
	maxBacklogPeriod = 15 * time.Minute
	// backlogSpread is the time within which the processes on a store ask for their turn, at
	// the beginning of each minute.
	backlogSpread = 20 * time.Second
)

// backlogSampler stores, once a minute, how many jobs wait in the queues of the store and for
// how long. One process at a time samples for all. It starts with the first queue. A process that
// found no job to count, or another process at it, asks for its turn again after
// activity.IdleBacklogs, or when jobs come.
type backlogSampler struct {
	engine *Engine
	timer  lifecycle.WakeTimer
	// offset is when in a minute this process asks for its turn.
	offset time.Duration
	// jobsCame is true if jobs may have come since the last turn.
	jobsCame atomic.Bool
	// idleUntil is until when this process does not ask unless jobs come. After its start, only
	// fire uses it.
	idleUntil time.Time
}

func newBacklogSampler(e *Engine) *backlogSampler {
	s := &backlogSampler{engine: e, offset: rand.N(backlogSpread)} //nolint:gosec // It only spreads load.
	s.timer.Fire, s.timer.Early = e.inBackground(s.fire), s.begin
	// Many processes may start at once on stores that have no jobs.
	s.idleUntil = e.started.Add(activity.IdleBacklogs)
	return s
}

// begin schedules the next sample, unless it is scheduled. The timer calls it too, because the clock
// may have been set back since.
func (s *backlogSampler) begin() {
	s.timer.Set(s.engine.Now().Truncate(backlogPeriod).Add(backlogPeriod + s.offset))
}

// noteJobs is called when jobs may have come.
func (s *backlogSampler) noteJobs() {
	if !s.jobsCame.Load() {
		s.jobsCame.Store(true)
	}
}

func (s *backlogSampler) fire(ctx context.Context) {
	defer s.begin()
	now := s.engine.Now()
	if !s.jobsCame.Swap(false) && now.Before(s.idleUntil) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, DriverTimeout)
	defer cancel()
	s.engine.Report("could not record how many jobs wait", contain.Panic(func() error { return s.takeTurn(ctx, now) }))
}

// longestTurn is longer than the turn of any process whose clock is right.
const longestTurn = time.Hour

// TakeTurn stores the note of a turn, whose Until is when the next one may begin, unless another
// process has the turn.
func (e *Engine) TakeTurn(ctx context.Context, turn driver.Note, now time.Time) (mine bool, err error) {
	kept, mine, err := e.Driver.KeepNew(ctx, turn, now)
	if err == nil && !mine && IsTurnOver(kept, now) {
		err, mine = e.Driver.Keep(ctx, turn), true
	}
	return mine && err == nil, err
}

// IsTurnOver reports whether the next turn may begin. A turn that would last for long was taken by a
// process whose clock was ahead, and counts as over.
func IsTurnOver(turn driver.Note, now time.Time) bool {
	return !turn.Until.After(now) || turn.Until.After(now.Add(longestTurn))
}

// takeTurn samples, unless another process does so in this minute.
func (s *backlogSampler) takeTurn(ctx context.Context, now time.Time) error {
	e := s.engine
	turn := driver.Note{Kind: backlogTurnKind, Key: backlogTurnKey, Until: now.Truncate(backlogPeriod).Add(backlogPeriod)}
	mine, err := e.TakeTurn(ctx, turn, now)
	if err != nil {
		return err
	}
	s.idleUntil = now.Truncate(backlogPeriod).Add(activity.IdleBacklogs)
	if !mine {
		return nil
	}
	begun := e.SinceStart()
	sum, err := activity.SampleBacklog(ctx, e.Driver, now)
	if err != nil || sum != (activity.Backlog{}) {
		s.idleUntil = time.Time{}
	}
	pause := min(backlogPause*(e.SinceStart()-begun), maxBacklogPeriod)
	if pause <= backlogPeriod {
		return err
	}
	turn.Until = now.Add(pause)
	later, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewellTimeout)
	defer cancel()
	return errors.Join(err, e.Driver.Keep(later, turn))
}
