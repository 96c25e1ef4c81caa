package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/mongodb/amboy/queue/driver/internal/pgconnect"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// times reports since when a record is due or has expired, whether a transaction left work for later ones, and when the
// next record is due or expires.
type times struct {
	dueSince, expiredSince table.Instant
	isLeft                 bool
	due, expires           table.Instant
}

func timesOf(r *row) times {
	return times{dueSince: r.time(), expiredSince: r.time(), isLeft: r.bool(), due: r.time(), expires: r.time()}
}

// learn raises the floors to what was found.
func (t *times) learn(now int64, due, expired *look) {
	due.foundDue(t.dueSince, t.due, now)
	expired.foundExpiry(t.expiredSince, t.expires)
}

// timesArgs returns the arguments of the statement nextTimes.
func timesArgs(now int64, due, expired *look) []any {
	return slices.Concat([]any{now}, due.args(), expired.args())
}

func (cl *claim) times(ctx context.Context) (t times, err error) {
	err = cl.d.readPlanned(ctx, nextTimes, func(r *row) error {
		t = timesOf(r)
		return nil
	}, timesArgs(cl.now, cl.due, cl.expired)...)
	if err == nil {
		t.learn(cl.now, cl.due, cl.expired)
	}
	return t, err
}

// next returns when a claim may find more; zero for never.
func (t times) next() time.Time { return table.Earliest(t.due, t.expires) }

// isPast reports whether a claim changes something before it takes ready records.
func (t times) isPast() bool { return t.dueSince.Valid || t.expiredSince.Valid || t.isLeft }

// isOnlyDue reports whether records are due, and nothing else is to be done before ready records are taken.
func (t times) isOnlyDue() bool { return t.dueSince.Valid && !t.expiredSince.Valid && !t.isLeft }

// timesAndReady reads the times, and the ready records in the same round trip: most often no time has come.
func (cl *claim) timesAndReady(ctx context.Context) (t times, err error) {
	var p *probing
	began := time.Now()
	err = cl.d.retrying(ctx, func(ctx context.Context) (mayBeDone bool, err error) {
		p = cl.newProbing(make([][]*stored, len(cl.queues)), cl.Limit)
		return cl.d.pipeline(ctx, func(b *batch) {
			b.plan()
			b.query(nextTimes, func(r *row) error {
				t = timesOf(r)
				return nil
			}, timesArgs(cl.now, cl.due, cl.expired)...)
			if len(p.all) > 0 {
				b.query(probe, p.read, p.args(cl)...)
			}
		})
	})
	if err != nil {
		return t, err
	}
	t.learn(cl.now, cl.due, cl.expired)
	cl.noteTops(p, time.Since(began))
	if !t.isPast() {
		cl.probed = p
	}
	cl.isReady = slices.ContainsFunc(p.all, func(w *work) bool { return w.ready > 0 })
	return t, nil
}

// passTime makes due records of all queues ready, handles what transactions left, and claims the expired records of the
// requested queues. It reports whether there may be more of them.
func (cl *claim) passTime(ctx context.Context, t times) (more bool, err error) {
	if t.isLeft {
		more, cl.leftOut, err = cl.d.settle(ctx)
		if err != nil {
			return false, err
		}
	}
	if t.dueSince.Valid {
		moreDue, err := cl.admitDue(ctx)
		if err != nil {
			return false, err
		}
		more = more || moreDue
	}
	if t.expiredSince.Valid {
		moreExpired, err := cl.takeExpired(ctx)
		if err != nil {
			return false, err
		}
		more = more || moreExpired
	}
	return more, nil
}

// admitDue makes due records ready, or makes them wait for a scope.
func (cl *claim) admitDue(ctx context.Context) (more bool, err error) {
	more, scoped, err := cl.promote(ctx)
	if pgconnect.CodeOf(err) == pgconnect.CodeLockNotAvailable {
		cl.leftOut = true
		return false, nil
	}
	if err != nil || !scoped {
		return more, err
	}
	// The remaining due records take scopes when they start.
	moreScoped, leftOut, err := cl.d.byTurns(ctx, firstScopedDue, []any{cl.now, cl.due.from}, func(queue int32) (locked bool, err error) {
		return cl.d.transactUnlessLocked(ctx, queue, func(c *changes) error { return c.admitScoped(queue, cl.now, cl.due.from) })
	})
	cl.leftOut = cl.leftOut || leftOut
	return more || moreScoped, err
}

// promote makes due records ready that take no scopes when they start, unless that is under way. If there
// may be more of them, they become ready in the background.
func (cl *claim) promote(ctx context.Context) (more, scoped bool, err error) {
	cl.promotion, scoped = cl.d.promoter.join(cl.now, cl.due.from)
	if cl.promotion != nil {
		return true, scoped, nil
	}
	more, scoped, err = cl.d.promote(ctx, cl.now, cl.due.from)
	if err == nil && more {
		cl.d.promoter.begin(scoped)
	}
	return more, scoped, err
}

func (c *changes) admitScoped(queue int32, now, from int64) error {
	due, err := c.jobs(findDue, now, queue, changedAtOnce, from)
	var scopes []string
	for _, j := range due {
		scopes = append(scopes, j.DispatchScopes()...)
	}
	if err == nil {
		err = c.know(queue, scopes)
	}
	for _, j := range due {
		if err != nil {
			return err
		}
		// The record before it may have taken a scope from it.
		var current *job
		current, err = c.job(findSeq, j.Seq)
		if err == nil && current != nil && (current.Place == table.Scheduled || current.Place == table.Postponed) {
			err = c.admit(current)
		}
	}
	return err
}

// takeExpired claims expired records of the requested queues, without their scopes.
func (cl *claim) takeExpired(ctx context.Context) (more bool, err error) {
	ids := make([]int32, len(cl.queues))
	for i, queue := range cl.queues {
		ids[i] = queue.id
	}
	more, leftOut, err := cl.d.byTurns(ctx, firstExpired, []any{cl.now, ids, cl.expired.from}, func(queue int32) (locked bool, err error) {
		var expired []*stored
		locked, err = cl.d.transactUnlessLocked(ctx, queue, func(c *changes) (err error) {
			expired, err = c.records(findExpired, cl.now, queue, changedAtOnce, cl.expired.from)
			for _, s := range expired {
				if err == nil {
					err = c.takeExpired(cl, s)
				}
			}
			return err
		})
		if err != nil || locked {
			return locked, err
		}
		cl.given = append(cl.given, expired...)
		return len(expired) == 0, nil // another transaction has the rows
	})
	cl.leftOut = cl.leftOut || leftOut
	if err == nil && !more && !leftOut {
		cl.expired.tookAll(cl.queues)
	}
	return more, err
}

func (c *changes) takeExpired(cl *claim, s *stored) error {
	// The record before it may have passed a scope to it.
	current, err := c.job(findSeq, s.Seq)
	if err != nil {
		return err
	}
	wasReady := current.Place == table.Ready
	c.move(current, table.Running, table.Instant{}, "")
	s.job = *current
	s.Owner, s.Count = cl.Owner, s.Count+1
	s.ModTime = table.InstantOf(cl.Now)
	s.Started = s.ModTime
	c.takeLease(&s.job, s.ModTime, cl.LeaseTime, s.Started)
	if wasReady {
		err = c.withdraw(&s.job)
	}
	c.started(&s.job)
	return err
}
