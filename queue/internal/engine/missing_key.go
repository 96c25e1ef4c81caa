package engine

import (
	"context"
	"time"

	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/internal/sleep"
	"github.com/mongodb/amboy/queue/driver"
)

// keyWarnings is how often a queue logs that it lacks a key.
const keyWarnings = time.Minute

// A process that lacks a key leaves its kind to others for a keyTurn, at most once per
// keyTurns.
const (
	keyTurn  = time.Second
	keyTurns = 10 * time.Second
)

// LeaveForKey hands back a record whose key this process does not have or can't use now.
// Unlike an unknown kind, a key does not show in the queries of a claim. So the record waits for
// a while, in which this process runs other jobs, and no other process claims it either. When
// it is due, this process may be the first to claim it each time, for instance if its clock is
// ahead. So from time to time it is handed back at once, and for a turn this process claims no
// jobs of its kind.
func (q *Queue) LeaveForKey(ctx context.Context, run *core.Run, reason error) {
	q.warnOfKey(ctx, run.Record, reason)
	now := q.Engine.Now()
	if !q.Engine.manual && q.Engine.mayGiveTurn(now) {
		q.Engine.giveTurn(run)
		return
	}
	q.postpone(run, now, reason.Error())
}

// mayGiveTurn reports whether it is time to leave a kind to other processes for a turn.
func (e *Engine) mayGiveTurn(now time.Time) bool {
	last := e.turnGiven.Load()
	return (last == 0 || now.Sub(time.Unix(0, last)).Abs() >= keyTurns) && e.turnGiven.CompareAndSwap(last, now.UnixNano())
}

// giveTurn hands a run back at once, and leaves its kind to other processes for a turn.
func (e *Engine) giveTurn(run *core.Run) {
	kind := driver.KindOf(run.Record)
	e.Happen(core.Finished{Run: run, End: core.End{HandBack: &driver.HandBack{}, Unknown: true}})
	e.RunInBackground(func(ctx context.Context) {
		if sleep.For(ctx, keyTurn) == nil {
			e.Happen(core.Known{Kind: kind})
		}
	})
}

// warnOfKey logs, at most once per keyWarnings, that a job is left to processes with its key.
func (q *Queue) warnOfKey(ctx context.Context, r *driver.Record, reason error) {
	now := q.Engine.Now()
	last := q.keyWarned.Load()
	if last != 0 && now.Sub(time.Unix(0, last)).Abs() < keyWarnings || !q.keyWarned.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	logging.Warning(ctx, q.failure("key of an encoded job is not available; such jobs are left to other processes", r.JobID(), reason))
}
