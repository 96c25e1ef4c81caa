package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
	"github.com/mongodb/amboy/registry"
)

// Act implements driver.Driver. It selects at most 200 records at a time, and scans at most
// 5,000. It may end before Limit if it finds no record for 40 ms. If an error occurs after some
// records, the result still reports what was done.
func (d *Driver) Act(ctx context.Context, req driver.ActRequest) (driver.Acted, error) {
	a := &acting{Action: req.Action, dryRun: req.DryRun}
	return table.Act(req, findTime, func() (table.ActOnSome, error) {
		s, err := newSelection(req.Query, time.Now())
		return func(at *table.Span, limit int) (driver.Acted, error) { return d.actOnSome(ctx, a, s, at, limit) }, err
	})
}

// actOnSome acts on the next selected records. Some adjacent records of the same queue are changed
// in one transaction.
func (d *Driver) actOnSome(ctx context.Context, a *acting, s *selection, at *table.Span, limit int) (driver.Acted, error) {
	end := *at
	var found []*stored
	var next driver.Cursor
	err := d.reading(ctx, func(ctx context.Context, on querier) (err error) {
		if !end.End.Valid { // restarted records get new numbers, and must not be selected again
			end.End.Valid = true
			err = on.query(ctx, d.texts[lastSeq], func(r *row) error {
				end.End.Int64 = r.integer()
				return nil
			})
			if err != nil {
				return err
			}
		}
		found, next, err = s.page(ctx, d, on, &end, limit)
		return err
	})
	if err != nil {
		return driver.Acted{}, err
	}
	acted := driver.Acted{Next: next}
	for len(found) > 0 {
		n := 1
		for n < min(len(found), changedAtOnce) && found[n].queue == found[0].queue {
			n++
		}
		done, err := d.actOn(ctx, a, found[:n])
		acted.Done += done
		if err != nil {
			return acted, err
		}
		acted.Skipped += n - done
		found = found[n:]
	}
	*at = end
	return acted, nil
}

// actOn acts on records of one queue.
func (d *Driver) actOn(ctx context.Context, a *acting, found []*stored) (int, error) {
	done := 0
	if a.Kind == driver.Cancel { // some may be running: see sortByLease
		slices.SortFunc(found, func(s, t *stored) int { return strings.Compare(s.Name, t.Name) })
	}
	err := d.transact(ctx, found[0].queue, func(c *changes) error {
		done = 0
		a.now = c.now
		for _, s := range found {
			isDone, err := c.actOnCurrent(a, s.Seq)
			if err != nil {
				return err
			}
			if isDone {
				done++
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if !a.dryRun && done > 0 {
		d.changed(driver.Anywhere)
	}
	return done, nil
}

// actOnCurrent acts on the current version of a record, which earlier actions or other
// processes may have changed.
func (c *changes) actOnCurrent(a *acting, seq int64) (done bool, err error) {
	current, err := c.records(readBySeq, seq)
	if err != nil || len(current) == 0 {
		return false, err
	}
	return c.act(a, current[0])
}

// acting is an action that is being applied.
type acting struct {
	driver.Action
	dryRun bool
	now    int64
}

// act applies an action to a record, and reports whether its state allows the action.
func (c *changes) act(a *acting, f *stored) (done bool, err error) {
	allowed := f.Allows(a.Kind, a.now)
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
		c.exec(setCount, f.Count, f.Seq)
	}
	switch a.Kind {
	case driver.Cancel:
		err = c.cancel(a, f)
	case driver.RunNow:
		at := f.WaitUntil
		if at.Int64 > a.now {
			at = table.Instant{Int64: a.now, Valid: true}
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
		c.delete(f)
	case driver.Edit:
		err = c.edit(a, f)
	}
	if err != nil {
		return false, fmt.Errorf("record %q: %w", f.Name, err)
	}
	return true, nil
}

func (c *changes) mayRestart(f *stored) (bool, error) {
	latest, err := c.latest(f.queue, f.ID)
	if err != nil || latest != f.Seq {
		return false, err
	}
	left, err := c.edgesLeft(f.queue, f.ID)
	if err != nil || left {
		return false, err
	}
	refusal, err := c.checkKey(&f.job)
	if err == nil && refusal == nil {
		refusal, err = c.checkFree(&f.job, f.EnqueueScopes)
	}
	return refusal == nil, err
}

// cancel ends a record, or marks it for its owner if it is running.
func (c *changes) cancel(a *acting, f *stored) error {
	if f.Place == table.Running {
		c.exec(markCancel, nullable(a.Reason), table.InstantOf(a.ForgetAt), f.Seq)
		return nil
	}
	r, err := f.decode()
	if err != nil {
		return err
	}
	r.Status.Reason, r.ForgetAt = a.Reason, a.ForgetAt
	return c.endCanceled(&f.job, r, a.now)
}

// endCanceled ends a record that has the reason and the retention time of a Cancel action.
func (c *changes) endCanceled(j *job, r *driver.Record, now int64) error {
	e, err := table.NewCanceled(r, time.Unix(0, now))
	if err != nil {
		return err
	}
	return c.end(j, e)
}

// reschedule sets another time for a record that has not started.
func (c *changes) reschedule(j *job, at table.Instant, now int64) error {
	c.exec(setWaitUntil, at, j.Seq)
	j.WaitUntil = at
	if j.Place == table.Waiting || j.Place == table.Parked {
		return nil
	}
	if err := c.setAside(j); err != nil {
		return err
	}
	return c.wait(j, now)
}

// setAside removes a record from its place, so that it can be moved to another.
func (c *changes) setAside(j *job) error {
	from := j.Place
	c.move(j, table.Waiting, table.Instant{}, "")
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
	j.Priority = priority
	line, err := c.lineOf(j)
	if err != nil {
		return err
	}
	c.exec(setPriority, priority, line, j.Seq)
	j.line = line
	c.admitToLine(j)
	if competes {
		return c.admit(j)
	}
	return nil
}

func (c *changes) park(j *job, reason string) error {
	if err := c.setAside(j); err != nil {
		return err
	}
	c.exec(setReason, nullable(reason), j.Seq)
	c.move(j, table.Parked, table.Instant{}, "")
	return nil
}

func (c *changes) unpark(j *job, now int64) error {
	err := c.changeInterruptions(j, func(r *driver.Record) { r.Status.Interruptions = r.Status.Interruptions.Forgiven() })
	if err != nil {
		return err
	}
	if j.Open {
		c.move(j, table.Waiting, table.Instant{}, "")
		return nil
	}
	return c.wait(j, now)
}

// restart resets a finished record to its state at insertion, except for its attempt errors
// and its lease count.
func (c *changes) restart(a *acting, f *stored) error {
	r, err := f.decode()
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
		targets, err = c.findTargets(f)
		if err != nil {
			return err
		}
	}
	j := &f.job
	line, err := c.lineOf(j)
	if err != nil {
		return err
	}
	former := j.Seq
	_, err = c.one(restartJob, func(r *row) { j.Seq = r.integer() }, line, j.Open, column(f.Failed), blob(encoded), j.UniqueKey != "", former)
	if err != nil {
		return err
	}
	switch {
	case len(targets) > 0:
		c.exec(dropEdges, []int64{former})
	case len(f.Edges) > 0:
		c.exec(moveEdges, j.Seq, former)
	}
	c.count(j.queue, j.Place, table.Waiting)
	j.line, j.Place, j.DispatchBy = line, table.Waiting, table.Instant{}
	err = c.take(j, j.EnqueueScopes)
	if err != nil {
		return err
	}
	c.link(j, targets)
	if j.Open {
		return nil
	}
	return c.wait(j, a.now)
}

func (c *changes) edit(a *acting, f *stored) error {
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

func (c *changes) replaceBody(f *stored, body registry.Body) error {
	r, err := f.decode()
	if err != nil {
		return err
	}
	r.Job = body
	n, err := table.Encode(r)
	if err != nil {
		return err
	}
	line, err := c.lineOf(&f.job)
	if err != nil {
		return err
	}
	c.saveContent(&n, line, f.Seq)
	return nil
}

func (c *changes) delete(s *stored) {
	c.exec(deleteJob, s.Seq)
	if len(s.Edges) > 0 {
		c.exec(dropEdges, []int64{s.Seq})
	}
	c.count(s.queue, s.Place, gone)
}
