package postgres

import (
	"context"
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
		if err == nil {
			s.columns = briefColumns // each record is read again
		}
		if err == nil && !req.DryRun && (req.Action.Kind == driver.Restart || req.Action.Kind == driver.Delete) {
			err = d.settleAll(ctx)
		}
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
	if a.Kind != driver.Restart { // some may be running: see sortByLease
		slices.SortFunc(found, func(s, t *stored) int { return strings.Compare(s.Name, t.Name) })
	}
	err := d.transact(ctx, found[0].queue, func(c *changes) error {
		done = 0
		a.leftOut = map[string]error{}
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
	for name, damage := range a.leftOut {
		table.LogLeftOut(ctx, a.Kind, name, damage)
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
	s := current[0]
	if a.Kind == driver.Delete && s.Dependents && !a.dryRun {
		// Another job must not get its ID before its dependents are released.
		left, err := c.edgesLeft(s.queue, s.ID)
		if left || err != nil {
			return false, err
		}
	}
	return table.ActOn(&s.Job, a.Action, a.dryRun, c.now, &steps{c, a, s})
}

// acting is an action that is being applied.
type acting struct {
	driver.Action
	dryRun bool
	// leftOut are the errors of the records of a transaction that can't be decoded, by name.
	leftOut map[string]error
}

// steps are the steps of an action on a record.
type steps struct {
	*changes
	*acting
	f *stored
}

// IsDamaged implements table.Steps.
func (s *steps) IsDamaged() bool {
	_, err := s.f.decode()
	if err != nil {
		s.leftOut[s.f.Name] = err
	}
	return err != nil
}

// SaveCount implements table.Steps.
func (s *steps) SaveCount() error {
	s.exec(setCount, s.f.Count, s.f.Seq)
	return nil
}

// MayRestart implements table.Steps.
func (s *steps) MayRestart() (bool, error) {
	latest, err := s.latest(s.f.queue, s.f.ID)
	if err != nil || latest != s.f.Seq {
		return false, err
	}
	left := false
	if !s.dryRun { // or they would be released first
		left, err = s.edgesLeft(s.f.queue, s.f.ID)
	}
	if err != nil || left {
		return false, err
	}
	refusal, err := s.checkKey(&s.f.job)
	if err == nil && refusal == nil {
		refusal, err = s.checkFree(&s.f.job, s.f.EnqueueScopes)
	}
	return refusal == nil, err
}

// Cancel ends a record, or marks it for its owner if it is running.
func (s *steps) Cancel() error {
	if s.f.Place == table.Running {
		s.exec(markCancel, nullable(s.Reason), table.InstantOf(s.ForgetAt), s.f.Seq)
		return nil
	}
	return s.endCanceled(&s.f.job, s.f, s.Reason, s.ForgetAt)
}

// endCanceled ends a record that does not run, for the reason and with the retention time of a Cancel
// action.
func (c *changes) endCanceled(j *job, s *stored, reason string, forgetAt time.Time) error {
	r, damage := s.decode()
	e, err := table.NewCanceled(&s.Content, r, damage, reason, forgetAt, time.Unix(0, c.now))
	if err != nil {
		return err
	}
	return c.end(j, e)
}

// Reschedule sets another time for a record that has not started.
func (s *steps) Reschedule(at table.Instant) error {
	j := &s.f.job
	s.exec(setWaitUntil, at, j.Seq)
	j.WaitUntil = at
	if j.Place == table.Waiting || j.Place == table.Parked {
		return nil
	}
	if err := s.setAside(j); err != nil {
		return err
	}
	return s.wait(j, s.now)
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

// Prioritize implements table.Steps.
func (s *steps) Prioritize(priority int) error {
	j := &s.f.job
	competes := (j.Place == table.Ready && len(j.Scopes) > 0) || j.Place == table.ScopeBlocked
	if competes {
		if err := s.setAside(j); err != nil {
			return err
		}
	}
	j.Priority = priority
	line, err := s.lineOf(j)
	if err != nil {
		return err
	}
	s.exec(setPriority, priority, line, j.Seq)
	j.line = line
	s.admitToLine(j)
	if competes {
		return s.admit(j)
	}
	return nil
}

// Park implements table.Steps.
func (s *steps) Park() error {
	j := &s.f.job
	if err := s.setAside(j); err != nil {
		return err
	}
	s.exec(setReason, nullable(s.Reason), j.Seq)
	s.move(j, table.Parked, table.Instant{}, "")
	return nil
}

// Unpark implements table.Steps.
func (s *steps) Unpark() error {
	j := &s.f.job
	err := s.changeInterruptions(j, func(r *driver.Record) { r.Status.Interruptions = r.Status.Interruptions.Forgiven() })
	if err != nil {
		return err
	}
	if j.Open {
		s.move(j, table.Waiting, table.Instant{}, "")
		return nil
	}
	return s.wait(j, s.now)
}

// Restart resets a finished record to its state at insertion, except for its attempt errors
// and its lease count.
func (s *steps) Restart() error {
	f := s.f
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
	if !s.IgnoreEdges {
		targets, err = s.findTargets(f)
		if err != nil {
			return err
		}
	}
	j := &f.job
	line, err := s.lineOf(j)
	if err != nil {
		return err
	}
	old := j.Seq
	_, err = s.one(restartJob, func(r *row) { j.Seq = r.integer() }, line, j.Open, column(f.Failed), blob(encoded), j.UniqueKey != "", old)
	if err != nil {
		return err
	}
	switch {
	case len(targets) > 0:
		s.exec(dropEdges, []int64{old})
	case len(f.Edges) > 0:
		s.exec(moveEdges, j.Seq, old)
	}
	s.count(j.queue, j.Place, table.Waiting)
	j.line, j.Place, j.DispatchBy = line, table.Waiting, table.Instant{}
	if !s.At.IsZero() {
		j.WaitUntil = table.InstantOf(s.At)
		s.exec(setWaitUntil, j.WaitUntil, j.Seq)
	}
	err = s.take(j, j.EnqueueScopes)
	if err != nil {
		return err
	}
	s.link(j, targets)
	if j.Open {
		return nil
	}
	return s.wait(j, s.now)
}

// ReplaceBody implements table.Steps.
func (s *steps) ReplaceBody(body registry.Body) error {
	r, err := s.f.decode()
	if err != nil {
		return err
	}
	r.Job = body
	n, err := table.Encode(r)
	if err != nil {
		return err
	}
	line, err := s.lineOf(&s.f.job)
	if err != nil {
		return err
	}
	s.saveContent(&n, line, s.f.Seq)
	return nil
}

// Delete implements table.Steps.
func (s *steps) Delete() error {
	f := s.f
	s.exec(deleteJob, f.Seq)
	if len(f.Edges) > 0 {
		s.exec(dropEdges, []int64{f.Seq})
	}
	s.count(f.queue, f.Place, gone)
	return nil
}
