package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
	"github.com/mongodb/amboy/registry"
)

// Act implements driver.Driver. It acts on at most 200 records and scans at most 5,000 in
// one transaction. It may end before Limit if it finds no record for 40 ms. If an error
// occurs after some records, the result still reports what was done.
func (d *Driver) Act(ctx context.Context, req driver.ActRequest) (driver.Acted, error) {
	a := &acting{Action: req.Action, dryRun: req.DryRun, now: time.Now()}
	return table.Act(req, findTime, func() (table.ActOnSome, error) {
		s, err := newSelection(req.Query, a.now)
		return func(at *table.Span, limit int) (driver.Acted, error) { return d.actOnSome(ctx, a, s, at, limit) }, err
	})
}

func (d *Driver) actOnSome(ctx context.Context, a *acting, s *selection, at *table.Span, limit int) (driver.Acted, error) {
	// The search for a part of an ID may take a quarter of a second, for which no writer must wait.
	if err := s.choose(reading{d.reads, ctx}); err != nil {
		return driver.Acted{}, err
	}
	var acted driver.Acted
	end := *at
	news := driver.Anywhere
	if a.dryRun {
		news = driver.Change{}
	}
	err := d.writer.write(ctx, &change{news: news, size: limit, run: func(c *changes) (err error) {
		acted, end = driver.Acted{}, *at
		if !end.End.Valid { // restarted records get new numbers, and must not be selected again
			end.End.Valid = true
			if _, err = c.one(lastSeq, func(r *row) { end.End.Int64 = r.integer() }); err != nil {
				return err
			}
		}
		var found []*described
		acted.Next, err = s.page(c, readColumns, &end, limit, collect(&found))
		if err != nil {
			return err
		}
		for _, f := range found {
			done, err := c.act(a, f)
			if err != nil {
				return err
			}
			if done {
				acted.Done++
			} else {
				acted.Skipped++
			}
		}
		return nil
	}})
	if err != nil {
		return driver.Acted{}, err
	}
	*at = end
	return acted, nil
}

// acting is an action that is under way.
type acting struct {
	driver.Action
	dryRun bool
	now    time.Time
}

// act applies an action to a record, and reports whether its state allows the action.
func (c *changes) act(a *acting, f *described) (done bool, err error) {
	// An earlier action of this call may have moved the record.
	current, err := c.job(findSeq, f.Seq)
	if err != nil || current == nil {
		return false, err
	}
	f.job = *current
	allowed := f.Allows(a.Kind, a.now.UnixNano())
	switch {
	case !allowed:
	case a.Kind == driver.Restart:
		allowed, err = c.mayRestart(f)
	case a.IsStale(f.Count):
		allowed = false
	}
	if err != nil || !allowed || a.dryRun {
		return allowed, err
	}
	switch a.Kind {
	case driver.RunNow, driver.Reschedule, driver.Park, driver.Unpark, driver.Restart, driver.Edit:
		f.Count++
		_, err = c.exec(setCount, f.Count, f.Seq)
		if err != nil {
			return false, err
		}
	}
	switch a.Kind {
	case driver.Cancel:
		err = c.cancel(a, f)
	case driver.RunNow:
		at := f.WaitUntil
		if at.Int64 > a.now.UnixNano() {
			at = table.InstantOf(a.now)
		}
		err = c.reschedule(&f.job, at, a.now)
	case driver.Reschedule:
		err = c.reschedule(&f.job, table.InstantOf(a.At), a.now)
	case driver.Prioritize:
		err = c.prioritize(&f.job, a.Priority)
	case driver.Park:
		err = c.park(&f.job, a.Reason)
	case driver.Unpark:
		err = c.unpark(&f.job, a.now)
	case driver.Restart:
		err = c.restart(a, f)
	case driver.Delete:
		err = c.delete(&f.stored)
	case driver.Edit:
		err = c.edit(a, f)
	}
	if err != nil {
		return false, fmt.Errorf("record %q: %w", f.Name, err)
	}
	return true, nil
}

func (c *changes) mayRestart(f *described) (bool, error) {
	latest, err := c.latest(f.queue, f.ID)
	if err != nil || latest == nil || latest.Seq != f.Seq {
		return false, err
	}
	edgesLeft, err := c.anyEdgesLeft(f.queue, f.ID)
	if err != nil || edgesLeft {
		return false, err
	}
	refusal, err := c.checkKey(&f.job)
	if err == nil && refusal == nil {
		refusal, err = c.checkFree(&f.job, f.EnqueueScopes)
	}
	return refusal == nil, err
}

// cancel ends a record, or marks it for its owner if it is running.
func (c *changes) cancel(a *acting, f *described) error {
	if f.Place == table.Running {
		_, err := c.exec(markCancel, nullable(a.Reason), table.InstantOf(a.ForgetAt), f.Seq)
		return err
	}
	r, err := f.decode(f.queueName)
	if err != nil {
		return err
	}
	r.Status.Reason, r.ForgetAt = a.Reason, a.ForgetAt
	return c.endCanceled(&f.job, r, a.now)
}

// endCanceled ends a record that has the reason and the retention time of a Cancel action.
func (c *changes) endCanceled(j *job, r *driver.Record, now time.Time) error {
	e, err := table.NewCanceled(r, now)
	if err != nil {
		return err
	}
	return c.end(j, e)
}

// reschedule sets another time for a record that has not started.
func (c *changes) reschedule(j *job, at table.Instant, now time.Time) error {
	if _, err := c.exec(setWaitUntil, at, j.Seq); err != nil {
		return err
	}
	j.WaitUntil = at
	if j.Place == table.Waiting || j.Place == table.Parked {
		return nil
	}
	if err := c.setAside(j); err != nil {
		return err
	}
	return c.wait(j, now.UnixNano())
}

// setAside removes a record from its place, so that it can be moved to another.
func (c *changes) setAside(j *job) error {
	from := j.Place
	if err := c.move(j, table.Waiting, table.Instant{}); err != nil {
		return err
	}
	switch from {
	case table.Ready:
		return c.withdraw(j)
	case table.ScopeBlocked:
		// Records that waited behind it may have a larger limit.
		return c.promote(j.queue, j.DispatchScopes())
	default:
		return nil
	}
}

func (c *changes) prioritize(j *job, priority int) error {
	competes := (j.Place == table.Ready && len(j.Scopes) > 0) || j.Place == table.ScopeBlocked
	if competes {
		if err := c.setAside(j); err != nil {
			return err
		}
	}
	if _, err := c.exec(setPriority, priority, j.Seq); err != nil {
		return err
	}
	j.Priority = priority
	if competes {
		return c.admit(j)
	}
	return nil
}

func (c *changes) park(j *job, reason string) error {
	if err := c.setAside(j); err != nil {
		return err
	}
	if _, err := c.exec(setReason, nullable(reason), j.Seq); err != nil {
		return err
	}
	return c.move(j, table.Parked, table.Instant{})
}

func (c *changes) unpark(j *job, now time.Time) error {
	err := c.changeInterruptions(j, func(r *driver.Record) { r.Status.Interruptions = r.Status.Interruptions.Forgiven() })
	if err != nil {
		return err
	}
	if j.Open {
		return c.move(j, table.Waiting, table.Instant{})
	}
	return c.wait(j, now.UnixNano())
}

// restart resets a finished record to its state at insertion, except for its attempt errors
// and its lease count.
func (c *changes) restart(a *acting, f *described) error {
	r, err := f.decode(f.queueName)
	if err != nil {
		return err
	}
	encoded, err := f.EncodeRestarted(r)
	if err != nil {
		return err
	}
	var targets []table.Target
	f.Failed = nil
	if !a.IgnoreEdges {
		targets, err = c.findTargets(&f.stored)
		if err != nil {
			return err
		}
	}
	var last int64
	if _, err = c.one(lastSeq, func(r *row) { last = r.integer() }); err != nil {
		return err
	}
	j := &f.job
	if _, err = c.exec(restartJob, last+1, j.Open, f.Failed, blob(encoded), j.UniqueKey != "", managerOf(r), j.Seq); err != nil {
		return err
	}
	if len(targets) > 0 {
		if _, err = c.exec(dropEdges, j.Seq); err != nil {
			return err
		}
	}
	err = c.moveLists(&f.stored, last+1)
	if err != nil {
		return err
	}
	n := c.count(j.queue)
	n.places[j.Place]--
	n.places[table.Waiting]++
	n.ended--
	j.Seq, j.Place, j.DispatchBy = last+1, table.Waiting, table.Instant{}
	err = c.take(j, j.EnqueueScopes)
	if err == nil {
		err = c.link(j, targets)
	}
	if err != nil || j.Open {
		return err
	}
	return c.wait(j, a.now.UnixNano())
}

func (c *changes) edit(a *acting, f *described) error {
	to := a.Edit
	if to.Body != nil {
		if err := c.replaceBody(f, *to.Body); err != nil {
			return err
		}
	}
	if to.Priority != nil {
		if err := c.prioritize(&f.job, *to.Priority); err != nil {
			return err
		}
	}
	if to.WaitUntil != nil {
		return c.reschedule(&f.job, table.InstantOf(*to.WaitUntil), a.now)
	}
	return nil
}

func (c *changes) replaceBody(f *described, body registry.Body) error {
	r, err := f.decode(f.queueName)
	if err != nil {
		return err
	}
	r.Job = body
	n, err := table.Encode(r)
	if err != nil {
		return err
	}
	return c.saveContent(&n, f.Seq)
}

func (c *changes) delete(s *stored) error {
	if _, err := c.exec(deleteJob, s.Seq); err != nil {
		return err
	}
	c.count(s.queue).places[s.Place]--
	return c.dropLists(&listed{seq: s.Seq, edges: len(s.Edges) > 0, tags: s.Tags})
}
