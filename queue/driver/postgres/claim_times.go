package postgres

import (
	"context"
	"time"

	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// times reports whether a record is due or has expired, when the next one is or does, and whether
// a transaction left work for later ones.
type times struct {
	isDue, hasExpired, isLeft bool
	due, expires              table.Instant
}

func timesOf(r *row) times { return times{r.bool(), r.bool(), r.bool(), r.time(), r.time()} }

func (cl *claim) times(ctx context.Context) (t times, err error) {
	err = cl.d.readPlanned(ctx, nextTimes, func(r *row) error {
		t = timesOf(r)
		return nil
	}, cl.now)
	return t, err
}

// next returns when a claim may find more; zero for never.
func (t times) next() time.Time { return table.Earliest(t.due, t.expires) }

// passTime makes due records of all queues ready, handles what transactions left, and claims the expired records of the
// requested queues. It reports whether there may be more of them, and whether any were due.
func (cl *claim) passTime(ctx context.Context) (more, isDue bool, err error) {
	t, err := cl.times(ctx)
	if err != nil {
		return false, false, err
	}
	if t.isLeft {
		more, cl.leftOut, err = cl.d.settle(ctx)
		if err != nil {
			return false, false, err
		}
	}
	if t.isDue {
		moreDue, err := cl.admitDue(ctx)
		if err != nil {
			return false, false, err
		}
		more = more || moreDue
	}
	if !t.hasExpired {
		return more, t.isDue, nil
	}
	for _, queue := range cl.queues {
		moreExpired, err := cl.takeExpired(ctx, queue)
		if err != nil {
			return false, false, err
		}
		more = more || moreExpired
	}
	return more, t.isDue, nil
}

// admitDue makes due records ready, or makes them wait for a scope.
func (cl *claim) admitDue(ctx context.Context) (more bool, err error) {
	d, now := cl.d, cl.now
	promoted, scoped, err := cl.promote(ctx, promoteDue)
	if codeOf(err) == codeLockNotAvailable {
		cl.leftOut = true
		promoted, scoped, err = cl.promote(ctx, promoteFree)
	}
	if codeOf(err) == codeLockNotAvailable {
		return false, nil
	}
	if err != nil || !scoped {
		return promoted >= timedAtOnce, err
	}
	// The remaining due records take scopes when they start.
	var queues []int32
	err = d.readPlanned(ctx, scopedDue, func(r *row) error {
		queues = append(queues, r.key())
		return nil
	}, now, timedAtOnce)
	for _, queue := range queues {
		if err == nil {
			err = cl.inQueue(ctx, queue, func(c *changes) error { return c.admitScoped(queue, now) })
		}
	}
	return promoted >= timedAtOnce, err
}

// promote makes due records ready that take no scopes when they start, and reports whether there are
// others. The transaction of a caller may hold the row of a line.
func (cl *claim) promote(ctx context.Context, s statement) (promoted int, scoped bool, err error) {
	err = cl.d.retrying(ctx, func(ctx context.Context) (bool, error) {
		return cl.d.pipeline(ctx, func(b *batch) {
			b.planWithin(brief)
			b.exec(lockInserts, []int64{cl.d.lockKey(lockOfPromotions, 0)})
			b.query(s, func(r *row) error {
				promoted, scoped = r.int(), r.bool()
				return nil
			}, cl.now, timedAtOnce)
		})
	})
	return promoted, scoped, err
}

// inQueue makes a change under the lock of a queue, which is left out if it stays locked.
func (cl *claim) inQueue(ctx context.Context, queue int32, run func(*changes) error) error {
	locked, err := cl.d.transactUnlessLocked(ctx, queue, run)
	cl.leftOut = cl.leftOut || locked
	return err
}

func (c *changes) admitScoped(queue int32, now int64) error {
	due, err := c.jobs(findDue, now, queue, timedAtOnce)
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

// takeExpired claims the expired records of a queue, without their scopes.
func (cl *claim) takeExpired(ctx context.Context, queue queueKey) (more bool, err error) {
	var expired []*stored
	err = cl.inQueue(ctx, queue.id, func(c *changes) (err error) {
		expired, err = c.records(findExpired, cl.now, queue.id, timedAtOnce)
		for _, s := range expired {
			if err == nil {
				err = c.takeExpired(cl, s)
			}
		}
		return err
	})
	if err != nil {
		return false, err
	}
	cl.given = append(cl.given, expired...)
	return len(expired) == timedAtOnce, nil
}

func (c *changes) takeExpired(cl *claim, s *stored) error {
	// The record before it may have passed a scope to it.
	current, err := c.job(findSeq, s.Seq)
	if err != nil {
		return err
	}
	wasReady := current.Place == table.Ready
	err = c.move(current, table.Running, table.Instant{}, "")
	if err != nil {
		return err
	}
	s.job = *current
	s.Owner, s.Count = cl.Owner, s.Count+1
	s.ModTime = table.InstantOf(cl.Now)
	s.Started = s.ModTime
	err = c.takeLease(&s.job, s.ModTime, cl.LeaseTime, s.Started)
	if err == nil && wasReady {
		err = c.withdraw(&s.job)
	}
	if err != nil {
		return err
	}
	return c.started(&s.job)
}
