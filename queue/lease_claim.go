package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/codec"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/engine"
)

// LeaseRequest asks for jobs to run outside.
type LeaseRequest struct {
	// Owner is the owner of the leases. It must begin with OutsideOwner.
	Owner string
	// Queues are the queues to take jobs of, each once. The first is served first.
	Queues []string
	// Types are the names of the types of the jobs.
	Types []string
	// Limit is the maximum number of jobs. It must be at least 1.
	Limit int
	// LeaseTime is the length of the leases.
	LeaseTime time.Duration
}

// LeasedJob is a job that an outside worker runs.
type LeasedJob struct {
	// Job is the decoded job.
	Job amboy.Job
	// Lease is the right to run it.
	Lease driver.Lease
	// Record is its stored form.
	Record *driver.Record
}

// Claim takes leases of jobs for outside workers. next is when more jobs may become claimable
// because a time comes or a rate allows it; zero for no such time. Jobs that must not run are ended
// or parked on the way, and jobs of other types are left in their queue. A run whose lease ran out
// after its maximum time was over is ended as a failed attempt.
func (l *Leases) Claim(ctx context.Context, req LeaseRequest) (leased []LeasedJob, next time.Time, err error) {
	for {
		claimed, err := l.driver.Claim(ctx, l.claimRequest(req))
		if err != nil {
			return nil, time.Time{}, fmt.Errorf("claiming jobs for an outside worker: %w", err)
		}
		mayBeMore := false
		for _, r := range claimed.Records {
			j, again := l.begin(ctx, req, r)
			mayBeMore = mayBeMore || again
			if j != nil {
				leased = append(leased, LeasedJob{Job: j, Lease: driver.LeaseOf(r), Record: r})
			}
		}
		// There may be jobs behind those that are left to others, or may not run.
		if !mayBeMore || len(leased) > 0 {
			return leased, nextOf(claimed, l.engine.Now()), nil
		}
	}
}

// nextOf returns when more jobs may become claimable because a time comes, or because a rate
// lets more jobs start.
func nextOf(claimed driver.Claimed, now time.Time) time.Time {
	next := claimed.Next
	for _, w := range claimed.Waits {
		if at := now.Add(w.For); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

func (l *Leases) claimRequest(req LeaseRequest) driver.ClaimRequest {
	claim := driver.ClaimRequest{
		Owner: req.Owner, Limit: req.Limit, Now: l.engine.Now(), LeaseTime: req.LeaseTime,
		Except: l.kinds.but(req.Types, l.engine.Now()),
	}
	for _, name := range req.Queues {
		claim.Queues = append(claim.Queues, driver.Demand{Queue: name, Limit: req.Limit})
	}
	return claim
}

// unopenedPause is how long a job waits whose queue could not be opened. If it did not wait, it would be claimed again
// at once, because it is handed back.
const unopenedPause = time.Second

// begin returns the job of a claimed record, or nil if it is not to run. again reports
// whether another claim finds other records: this one has ended or is parked, or its kind is left to
// others from then on.
func (l *Leases) begin(ctx context.Context, req LeaseRequest, r *driver.Record) (begun amboy.Job, again bool) {
	run := &core.Run{Record: r, Lease: driver.LeaseOf(r)}
	q, err := l.queue(ctx, r.Group)
	if err != nil {
		logging.Error(ctx, l.engine.Failure("could not open the queue of a claimed job", err))
		now := l.engine.Now()
		l.engine.HandBack(run, core.End{HandBack: &driver.HandBack{NotBefore: now.Add(unopenedPause), Since: now, Reason: "its queue can't be opened"}})
		return nil, false
	}
	now := q.Engine.Now()
	l.kinds.add(driver.KindOf(r), l.engine.Now())
	switch {
	case core.HasExpired(r, now):
		q.Expire(ctx, run)
		return nil, true
	case !slices.Contains(req.Types, r.Type):
		q.Engine.HandBack(run, engine.HandBackNow)
		return nil, true
	case q.Line.IsInterruptedTooOften(r) && !hasLostAttempt(r):
		q.Engine.Park(run)
		return nil, true
	}
	end := func(ctx context.Context, j amboy.Job) {
		endOutside(ctx, q, j, run, func(err error) { q.ReportEnd(ctx, r.JobID(), err) })
	}
	begin := func(ctx context.Context, j amboy.Job) {
		switch {
		case !amboy.IsForOutside(j):
			l.leave(q, run)
		case hasLostAttempt(r):
			failLost(j)
			end(ctx, j) // the next attempt may be ready then
		case hasRunTooLong(r):
			j.AddRetryableError(&amboy.MaxTimeError{MaxTime: r.TimeInfo.MaxTime})
			end(ctx, j)
		case q.MayBegin(ctx, j, run):
			q.Publish(amboy.EventStarted, j, now)
			begun = j
		}
		again = begun == nil
	}
	q.DecodeAnd(ctx, run, begin, func(ctx context.Context, err error) {
		if errors.Is(err, codec.ErrKeyUnavailable) {
			q.LeaveForKey(ctx, run, err)
		} else {
			l.leave(q, run)
		}
		again = true
	})
	return begun, again
}

// leave hands back a record that outside workers can't run, and leaves its kind in the queue
// for a while.
func (l *Leases) leave(q *engine.Queue, run *core.Run) {
	l.kinds.leave(driver.KindOf(run.Record), q.Engine.Now())
	q.Engine.HandBack(run, engine.HandBackNow)
}

// hasRunTooLong reports whether the maximum time of the last run was over before its lease was. The
// server that gave the lease would otherwise have ended the run.
func hasRunTooLong(r *driver.Record) bool {
	last, ok := lastInterruption(r)
	if !ok || r.TimeInfo.MaxTime == 0 || !strings.HasPrefix(last.Owner, OutsideOwner) {
		return false
	}
	ended := last.LeaseEnded
	if ended.IsZero() {
		ended = last.At
	}
	return !ended.Before(last.Start.Add(r.TimeInfo.MaxTime))
}

// hasLostAttempt reports whether a record does not run because the lease of an AttemptOwner
// ran out, so that its attempt has failed.
func hasLostAttempt(r *driver.Record) bool {
	last, ok := lastInterruption(r)
	return ok && strings.HasPrefix(last.Owner, AttemptOwner)
}

// lastInterruption returns the last interruption of a record's attempt; false if it had none.
func lastInterruption(r *driver.Record) (last amboy.Interruption, ok bool) {
	all := r.Status.Interruptions
	if all.Total() == 0 || len(all.Latest) == 0 {
		return amboy.Interruption{}, false
	}
	return all.Latest[len(all.Latest)-1], true
}
