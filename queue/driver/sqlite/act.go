package sqlite

import (
	"context"
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
		if err == nil && !req.DryRun && (req.Action.Kind == driver.Restart || req.Action.Kind == driver.Delete) {
			err = d.endEdgesLeft(ctx)
		}
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
		acted, end, a.leftOut = driver.Acted{}, *at, nil
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
	for _, r := range a.leftOut {
		table.LogLeftOut(ctx, a.Kind, r.name, r.err)
	}
	*at = end
	return acted, nil
}

// acting is an action that is under way.
type acting struct {
	driver.Action
	dryRun bool
	now    time.Time
	// leftOut are the records of a transaction that can't be decoded.
	leftOut []damagedRow
}

// act applies an action to a record, and reports whether its state allows the action.
func (c *changes) act(a *acting, f *described) (done bool, err error) {
	// An earlier action of this call may have moved the record.
	current, err := c.job(findSeq, f.Seq)
	if err != nil || current == nil {
		return false, err
	}
	f.job = *current
	return table.ActOn(&f.Job, a.Action, a.dryRun, a.now.UnixNano(), &steps{c, a, f})
}

// steps are the steps of an action on a record.
type steps struct {
	*changes
	*acting
	f *described
}

// IsDamaged implements table.Steps.
func (s *steps) IsDamaged() bool {
	_, err := s.f.decode(s.f.queueName)
	if err != nil {
		s.leftOut = append(s.leftOut, damagedRow{seq: s.f.Seq, name: s.f.Name, err: err})
	}
	return err != nil
}

// SaveCount implements table.Steps.
func (s *steps) SaveCount() error {
	_, err := s.exec(setCount, s.f.Count, s.f.Seq)
	return err
}

// MayRestart implements table.Steps.
func (s *steps) MayRestart() (bool, error) {
	latest, err := s.latest(s.f.queue, s.f.ID)
	if err != nil || latest == nil || latest.Seq != s.f.Seq {
		return false, err
	}
	edgesLeft := false
	if !s.dryRun { // or they would be released first
		edgesLeft, err = s.anyEdgesLeft(s.f.queue, s.f.ID)
	}
	if err != nil || edgesLeft {
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
		_, err := s.exec(markCancel, nullable(s.Reason), table.InstantOf(s.ForgetAt), s.f.Seq)
		return err
	}
	return s.endCanceled(&s.f.job, &s.f.stored, s.Reason, s.ForgetAt, s.now)
}

// endCanceled ends a record that does not run, for the reason and with the retention time of a Cancel
// action.
func (c *changes) endCanceled(j *job, s *stored, reason string, forgetAt, now time.Time) error {
	r, damage := s.decode("") // the queue's name is not written
	e, err := table.NewCanceled(&s.Content, r, damage, reason, forgetAt, now)
	if err != nil {
		return err
	}
	return c.end(j, e)
}

// Reschedule sets another time for a record that has not started.
func (s *steps) Reschedule(at table.Instant) error {
	j := &s.f.job
	if _, err := s.exec(setWaitUntil, at, j.Seq); err != nil {
		return err
	}
	j.WaitUntil = at
	if j.Place == table.Waiting || j.Place == table.Parked {
		return nil
	}
	if err := s.setAside(j); err != nil {
		return err
	}
	return s.wait(j, s.now.UnixNano())
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

// Prioritize implements table.Steps.
func (s *steps) Prioritize(priority int) error {
	j := &s.f.job
	competes := (j.Place == table.Ready && len(j.Scopes) > 0) || j.Place == table.ScopeBlocked
	if competes {
		if err := s.setAside(j); err != nil {
			return err
		}
	}
	if _, err := s.exec(setPriority, priority, j.Seq); err != nil {
		return err
	}
	j.Priority = priority
	if competes {
		return s.admit(j)
	}
	return nil
}

// Park implements table.Steps.
func (s *steps) Park() error { return s.park(&s.f.job, s.Reason) }

func (c *changes) park(j *job, reason string) error {
	if err := c.setAside(j); err != nil {
		return err
	}
	if _, err := c.exec(setReason, nullable(reason), j.Seq); err != nil {
		return err
	}
	return c.move(j, table.Parked, table.Instant{})
}

// Unpark implements table.Steps.
func (s *steps) Unpark() error {
	j := &s.f.job
	err := s.changeInterruptions(j, func(r *driver.Record) { r.Status.Interruptions = r.Status.Interruptions.Forgiven() })
	if err != nil {
		return err
	}
	if j.Open {
		return s.move(j, table.Waiting, table.Instant{})
	}
	return s.wait(j, s.now.UnixNano())
}

// Restart resets a finished record to its state at insertion, except for its attempt errors
// and its lease count.
func (s *steps) Restart() error {
	f := s.f
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
	if !s.IgnoreEdges {
		targets, err = s.findTargets(&f.stored)
		if err != nil {
			return err
		}
	}
	var last int64
	if _, err = s.one(lastSeq, func(r *row) { last = r.integer() }); err != nil {
		return err
	}
	j := &f.job
	if _, err = s.exec(restartJob, last+1, j.Open, f.Failed, blob(encoded), j.UniqueKey != "", managerOf(r), j.Seq); err != nil {
		return err
	}
	if len(targets) > 0 {
		if _, err = s.exec(dropEdges, j.Seq); err != nil {
			return err
		}
	}
	err = s.moveLists(&f.stored, last+1)
	if err != nil {
		return err
	}
	n := s.count(j.queue)
	n.places[j.Place]--
	n.places[table.Waiting]++
	n.ended--
	j.Seq, j.Place, j.DispatchBy = last+1, table.Waiting, table.Instant{}
	if !s.At.IsZero() {
		j.WaitUntil = table.InstantOf(s.At)
		if _, err = s.exec(setWaitUntil, j.WaitUntil, j.Seq); err != nil {
			return err
		}
	}
	err = s.take(j, j.EnqueueScopes)
	if err == nil {
		err = s.link(j, targets)
	}
	if err != nil || j.Open {
		return err
	}
	return s.wait(j, s.now.UnixNano())
}

// ReplaceBody implements table.Steps.
func (s *steps) ReplaceBody(body registry.Body) error {
	r, err := s.f.decode(s.f.queueName)
	if err != nil {
		return err
	}
	r.Job = body
	n, err := table.Encode(r)
	if err != nil {
		return err
	}
	return s.saveContent(&n, s.f.Seq)
}

// Delete implements table.Steps.
func (s *steps) Delete() error {
	f := s.f
	if _, err := s.exec(deleteJob, f.Seq); err != nil {
		return err
	}
	s.count(f.queue).places[f.Place]--
	return s.dropLists(&listed{seq: f.Seq, edges: len(f.Edges) > 0, tags: f.Tags})
}
