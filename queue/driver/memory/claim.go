package memory

import (
	"context"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// turn is what a Claim may still take from a queue.
type turn struct {
	queue *queue
	left  int
}

// next takes the record that should run first, with its scopes; nil if none may run. except
// is nil if no kind is excluded.
func (t *turn) next(except *schedule.Except) *entry {
	if t.left <= 0 || !t.queue.mayRun() {
		return nil
	}
	t.left--
	if except == nil {
		return t.queue.schedule.Next()
	}
	return t.queue.schedule.NextBut(except)
}

// mayRun reports whether one more record may run.
func (q *queue) mayRun() bool {
	return !q.control.Paused && (q.control.MaxRunning == 0 || q.schedule.Running() < q.control.MaxRunning)
}

// Claim implements driver.Driver. If it skips more than 1,000 records of excluded kinds that
// were not skipped before, the rest is left for another claim, which Next requests at once.
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
	for _, demand := range req.Queues {
		q := d.queues[demand.Queue]
		if q == nil {
			continue
		}
		d.touch(q)
		for _, e := range q.schedule.Advance(req.Now) {
			claimed.Records = append(claimed.Records, d.claim(e, req, e.Scopes.AtPut()))
		}
		turns = append(turns, turn{queue: q, left: demand.Limit})
		unsettled = unsettled || demand.Limit > 0 && q.mayRun() && q.schedule.Unsettled()
	}
	var except *schedule.Except
	if len(req.Except) > 0 {
		except = schedule.NewExcept(req.Except)
	}
	claimed.Records = append(claimed.Records, d.claimInTurn(req, turns, except)...)
	for _, t := range turns {
		d.wakeOne(t.queue)
	}
	d.index.arrange(d.opts.Now)
	claimed.Next = d.index.next()
	if except != nil && except.More {
		claimed.Next = req.Now
	}
	return claimed, unsettled && req.Limit > 0
}

// claimInTurn claims one record of each queue, then another of each queue that had one.
func (d *Driver) claimInTurn(req driver.ClaimRequest, turns []turn, except *schedule.Except) []*driver.Record {
	var records []*driver.Record
	round := append([]turn(nil), turns...)
	for len(round) > 0 {
		again := round[:0]
		for _, t := range round {
			if len(records) >= req.Limit {
				return records
			}
			if e := t.next(except); e != nil {
				records = append(records, d.claim(e, req, e.Scopes.Names()))
				again = append(again, t)
			}
		}
		round = again
	}
	return records
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
