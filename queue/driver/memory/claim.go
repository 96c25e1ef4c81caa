package memory

import (
	"context"
	"time"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/rate"
	"github.com/mongodb/amboy/queue/internal/schedule"
	"github.com/mongodb/amboy/queue/internal/typelimit"
)

// turn is what a Claim may still take from a queue.
type turn struct {
	queue *queue
	left  int
	// started counts the records of a queue with a rate, which has a number of tokens.
	started, tokens int
	// room limits the records of some types; nil if none.
	room *typelimit.Room
	// except is nil if all records may be taken.
	except *schedule.Except
}

// newTurn returns what a Claim may take that wants a number of records. except is nil if no kinds
// are excluded.
func (d *Driver) newTurn(q *queue, want int, except *schedule.Except) turn {
	t := turn{queue: q, left: want, except: except}
	if len(q.control.Types) > 0 {
		if except == nil {
			except = schedule.NewExcept(nil)
		}
		t.room = typelimit.NewRoom(q.control.Types, q.schedule.RunningOf, q.typeBuckets, d.rateNow())
		t.except = except.Within(t.room)
	}
	if r := q.control.Rate; r != nil {
		now := d.rateNow()
		if q.bucket.IsAhead(now) {
			q.bucket = rate.Bucket(now)
		}
		t.tokens = q.bucket.Tokens(*r, now)
		t.left = min(want, t.tokens)
	}
	return t
}

// settle takes the tokens of the started records, and reports how long the queue waits for
// others; 0 if it does not.
func (d *Driver) settle(t *turn) time.Duration {
	r, q := t.queue.control.Rate, t.queue
	if buckets, changed := t.room.Settle(); changed {
		q.typeBuckets = buckets
	}
	if r == nil {
		return t.room.Wait()
	}
	now := d.rateNow()
	q.bucket = q.bucket.Take(*r, now, t.started)
	if t.started < t.tokens || q.schedule.Ready() == 0 || !q.mayRun() {
		return t.room.Wait()
	}
	return q.bucket.Wait(*r, now)
}

// rateNow is the time by which rates are measured.
func (d *Driver) rateNow() int64 { return rate.After(d.opts.RateElapsed()) }

// next takes the record that should run first, with its scopes; nil if none may run.
func (t *turn) next() *entry {
	if t.left <= 0 || !t.queue.mayRun() {
		return nil
	}
	t.left--
	var e *entry
	if t.except == nil {
		e = t.queue.schedule.Next()
	} else {
		e = t.queue.schedule.NextBut(t.except)
	}
	if e != nil {
		t.started++
	}
	return e
}

// mayRun reports whether one more record may run.
func (q *queue) mayRun() bool {
	return !q.control.IsStopped() && (q.control.MaxRunning == 0 || q.schedule.Running() < q.control.MaxRunning)
}

// Claim implements driver.Driver. If it skips more than 1,000 records of excluded kinds that
// were not skipped before, or if more than 1,000 records of a queue are due or expired at a time,
// the rest is left for another claim, which Next requests at once.
func (d *Driver) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	for {
		if err := d.lock(ctx); err != nil {
			return driver.Claimed{}, err
		}
		claimed, unsettled := d.claimNow(req)
		d.unlock()
		if !unsettled || len(claimed.Records) > 0 {
			return claimed, nil
		}
	}
}

// claimNow claims ready records. It reports whether claiming again may make more ready,
// because many records wait for a freed scope.
func (d *Driver) claimNow(req driver.ClaimRequest) (claimed driver.Claimed, unsettled bool) {
	turns := make([]turn, 0, len(req.Queues))
	var except *schedule.Except
	if len(req.Except) > 0 {
		except = schedule.NewExcept(req.Except)
	}
	for _, demand := range req.Queues {
		q := d.queues[demand.Queue]
		if q == nil {
			continue
		}
		d.touch(q)
		for _, e := range q.schedule.Advance(req.Now) {
			claimed.Records = append(claimed.Records, d.claim(e, req, e.Scopes.AtPut()))
		}
		t := d.newTurn(q, demand.Limit, except)
		turns = append(turns, t)
		unsettled = unsettled || t.left > 0 && q.mayRun() && q.schedule.Unsettled()
	}
	claimed.Records = d.claimInTurn(req, turns, claimed.Records)
	more := false
	for i := range turns {
		t := &turns[i]
		if wait := d.settle(t); wait > 0 {
			claimed.Waits = append(claimed.Waits, driver.RateWait{Queue: t.queue.name, For: wait})
		}
		more = more || t.except != nil && t.except.More || t.queue.schedule.IsBehind(req.Now)
		d.wakeOne(t.queue)
	}
	d.index.arrange(d.opts.Now)
	// What is due in other queues is left to the processes that ask for them.
	claimed.Next = d.index.nextAfter(req.Now)
	if more {
		claimed.Next = req.Now
	}
	return claimed, unsettled && req.Limit > 0
}

// claimInTurn claims one record of each queue, then another of each queue that had one, and appends
// them to claimed.
func (d *Driver) claimInTurn(req driver.ClaimRequest, turns []turn, claimed []*driver.Record) []*driver.Record {
	most := len(claimed) + req.Limit
	round := make([]*turn, len(turns))
	for i := range turns {
		round[i] = &turns[i]
	}
	for len(round) > 0 {
		again := round[:0]
		for _, t := range round {
			if len(claimed) >= most {
				return claimed
			}
			if e := t.next(); e != nil {
				claimed = append(claimed, d.claim(e, req, e.Scopes.Names()))
				again = append(again, t)
			}
		}
		round = again
	}
	return claimed
}

// claim gives the lease of an entry, which now holds the scopes, to the owner, and returns a
// copy of its record.
func (d *Driver) claim(e *entry, req driver.ClaimRequest, scopes []string) *driver.Record {
	r := &e.Job.record
	r.Status.Owner = req.Owner
	r.Status.InProgress = true
	r.Status.ModificationTime = req.Now
	r.Status.ModificationCount++
	r.TimeInfo.Start = req.Now
	r.Scopes = scopes
	if failed := e.Failed(); len(failed) > 0 && r.Dependency != nil {
		dependency := *r.Dependency
		dependency.Failed = failed
		r.Dependency = &dependency
	}
	e.Job.lease(d.opts.Elapsed(), req.LeaseTime)
	d.leases.add(e)
	given := *r
	return &given
}
