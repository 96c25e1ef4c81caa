package memory

import (
	"context"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// turn is what a Claim may still take of a queue.
type turn struct {
	queue *queue
	left  int
}

// next takes the record that should run first, with its scopes; nil where none
// may run.
func (t *turn) next() *entry {
	if t.left <= 0 || !t.queue.mayRun() {
		return nil
	}
	t.left--
	return t.queue.schedule.Next()
}

// mayRun tells whether one more record may run.
func (q *queue) mayRun() bool {
	return !q.control.Paused && (q.control.MaxRunning == 0 || q.schedule.Running() < q.control.MaxRunning)
}

// Claim implements driver.Driver.
func (d *Driver) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	if err := d.lock(ctx); err != nil {
		return driver.Claimed{}, err
	}
	defer d.unlock()
	var claimed driver.Claimed
	turns := make([]turn, 0, len(req.Queues))
	for _, demand := range req.Queues {
		q := d.queues[demand.Queue]
		if q == nil {
			continue
		}
		for _, e := range q.schedule.Advance(req.Now) {
			claimed.Records = append(claimed.Records, d.claim(e, req, e.EnqueueScopes))
		}
		turns = append(turns, turn{queue: q, left: demand.Limit})
	}
	claimed.Records = append(claimed.Records, d.claimInTurn(req, turns)...)
	for _, t := range turns {
		claimed.Next = earlier(claimed.Next, t.queue)
		d.wakeOne(t.queue)
	}
	return claimed, nil
}

// claimInTurn claims one record of each queue, then again of those that had one.
func (d *Driver) claimInTurn(req driver.ClaimRequest, turns []turn) []*driver.Record {
	var records []*driver.Record
	round := append([]turn(nil), turns...)
	for len(round) > 0 {
		again := round[:0]
		for _, t := range round {
			if len(records) >= req.Limit {
				return records
			}
			if e := t.next(); e != nil {
				records = append(records, d.claim(e, req, e.Scopes))
				again = append(again, t)
			}
		}
		round = again
	}
	return records
}

// earlier is the earlier of a time, where it is set, and the next at which there
// may be something to claim of a queue.
func earlier(t time.Time, q *queue) time.Time {
	next, ok := q.schedule.NextTime()
	if !ok || (!t.IsZero() && t.Before(next)) {
		return t
	}
	return next
}

// claim gives the lease of an entry, which holds those scopes now, to the owner,
// and returns a copy of its record.
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
