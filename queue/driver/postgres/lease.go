package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/pgconnect"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// shown returns the row of an unfinished record that shows the given lease, or the given absence
// of one.
func (c *changes) shown(queue queueKey, l driver.Lease) (j *job, refusal, err error) {
	j, err = c.named(queue, l.Name)
	if err != nil {
		return nil, nil, err
	}
	if j == nil || !j.Shows(l) {
		return nil, table.LeaseLost(l), nil
	}
	return j, nil, nil
}

// leased returns the row of a running record that has the given lease.
func (c *changes) leased(queue queueKey, l driver.Lease) (j *job, refusal, err error) {
	j, refusal, err = c.shown(queue, l)
	if j != nil && j.Place != table.Running {
		return nil, fmt.Errorf("record %q does not run: %w", l.Name, driver.ErrLeaseLost), nil
	}
	return j, refusal, err
}

// Extend implements driver.Driver. It extends up to 1,000 leases in one statement.
func (d *Driver) Extend(ctx context.Context, leases []driver.Lease, leaseTime time.Duration) (lost []driver.Lease, err error) {
	done, err := d.begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("extending %d leases: %w", len(leases), err)
	}
	defer done()
	e := &extension{d: d, ctx: ctx, leases: leases, time: leaseTime, isSettled: make([]bool, len(leases))}
	// Most records are found by the ID in their names. A name that only looks like the name of
	// an attempt is not.
	for _, by := range []struct{ extend, locked statement }{{extendLeases, lockedLeases}, {extendByName, lockedByName}} {
		for some := range slices.Chunk(e.unsettled(), endedAtOnce) {
			around := leasesAround{
				d: d, leaseOf: func(i int) driver.Lease { return leases[i] }, locked: by.locked,
				change: func(some []int, p patience) error { return e.extend(by.extend, some, p) },
			}
			blocked, err := around.do(ctx, some)
			if err != nil {
				return nil, fmt.Errorf("extending %d leases: %w", len(leases), err)
			}
			e.noteBlocked(blocked)
		}
	}
	for _, i := range e.unsettled() {
		lost = append(lost, leases[i])
	}
	if len(e.blocked.Leases) > 0 {
		return lost, fmt.Errorf("extending %d leases: %w", len(leases), &e.blocked)
	}
	return lost, nil
}

// extension is a call of Extend.
type extension struct {
	d      *Driver
	ctx    context.Context
	leases []driver.Lease
	time   time.Duration
	// isSettled is true for leases that were extended or are blocked.
	isSettled []bool
	blocked   driver.BlockedLeasesError
}

// unsettled returns the indexes of the other leases.
func (e *extension) unsettled() (indexes []int) {
	for i, isSettled := range e.isSettled {
		if !isSettled {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// extend extends some leases.
func (e *extension) extend(by statement, some []int, p patience) error {
	var c leaseColumns
	for _, i := range some {
		if _, err := c.add(e.ctx, e.d, e.d.reader(), e.leases[i], i); err != nil {
			return e.d.failed(e.ctx, err, false)
		}
	}
	if len(c.index) == 0 {
		return nil
	}
	extended, err := changeWithin(e.ctx, e.d, p, by, (*row).integer, c.queue, c.id, c.name, c.owner, c.count, c.stamp, time.Now().UnixNano(), int64(e.time))
	for _, n := range extended {
		e.isSettled[c.index[n-1]] = true
	}
	return err
}

func (e *extension) noteBlocked(indexes []int) {
	for _, i := range indexes {
		e.isSettled[i] = true
		e.blocked.Leases = append(e.blocked.Leases, e.leases[i])
	}
}

// Release implements driver.Driver.
func (d *Driver) Release(ctx context.Context, handBacks []driver.HandBack) ([]error, error) {
	errs, isDone := make([]error, len(handBacks)), make([]bool, len(handBacks))
	groups := byQueue(len(handBacks), func(i int) (string, bool) { return handBacks[i].Lease.Queue, true })
	for n, g := range groups {
		sortByLease(g.items, func(i int) driver.Lease { return handBacks[i].Lease })
		nameOf := func(i int) (string, []string) { return handBacks[i].Lease.Name, nil }
		err := d.eachOf(ctx, true, g.queue, g.items, errs, isDone, nameOf, func(c *changes, queue queueKey, i int) (refusal, err error) {
			return c.release(queue, handBacks[i])
		})
		if err == nil {
			continue
		}
		err = fmt.Errorf("releasing %d records: %w", len(handBacks), err)
		if n == 0 && !slices.Contains(isDone, true) {
			return nil, err
		}
		for i := range errs {
			if !isDone[i] {
				errs[i] = fmt.Errorf("%w: %w", driver.ErrOutcomeUnknown, err)
			}
		}
		break
	}
	if len(handBacks) > 0 {
		d.changed(driver.InQueuesOf(groups, (*group).name))
	}
	return errs, nil
}

func (c *changes) release(queue queueKey, h driver.HandBack) (refusal, err error) {
	j, refusal, err := c.leased(queue, h.Lease)
	if refusal != nil || err != nil {
		return refusal, err
	}
	return nil, c.handBack(j, h)
}

// handBack makes a running record wait or become ready. If a cancellation was requested, the
// record ends.
func (c *changes) handBack(j *job, h driver.HandBack) error {
	if j.Cancel {
		if done, err := c.endMarked(j); done || err != nil {
			return err
		}
	}
	c.exec(dropLease, nullable(h.Reason), j.Seq, h.Started)
	if err := c.free(j, j.DispatchScopes()); err != nil {
		return err
	}
	until := table.InstantOf(h.NotBefore)
	switch {
	case h.Park:
		c.move(j, table.Parked, table.Instant{}, "")
	case j.Open: // it expired before its dependencies ended
		c.move(j, table.Waiting, table.Instant{}, "")
	case until.Valid && until.Int64 > c.now:
		c.exec(setSince, table.InstantOf(h.Since), j.Seq)
		c.move(j, table.Postponed, until, "")
	default:
		return c.admit(j)
	}
	return nil
}

// endMarked ends a record that is to be canceled, if it still exists.
func (c *changes) endMarked(j *job) (done bool, err error) {
	found, err := c.records(readBySeq, j.Seq)
	if err != nil || len(found) == 0 {
		return false, err
	}
	s := found[0]
	return true, c.endCanceled(j, s, s.Reason, table.TimeOf(s.ForgetAt))
}

// leasesAtOnce is the maximum number of rows of the log of leases that are recovered before they are removed. Their jobs
// are looked up in parts: a part with leasedAtOnce jobs takes no other row. While a statement looks up many jobs, its
// snapshot keeps pages from reclaiming the space of jobs that have been claimed or have ended.
const (
	leasesAtOnce = 500
	leasedAtOnce = 1000
)

const (
	// clockSlack is how far in the future a wait or a lease may seem to begin.
	clockSlack = 5 * time.Second
	// shortenedAtOnce is the maximum number of waits that one statement shortens.
	shortenedAtOnce = 1000
)

// RecoverStale implements driver.Driver. Leases end by the clock of the server. If that clock was
// set back, leases that were taken before begin now.
func (d *Driver) RecoverStale(ctx context.Context, keep ...driver.Lease) (int, error) {
	recovered := 0
	d.floors.talliedByOthers()
	err := d.reading(ctx, func(ctx context.Context, _ querier) error {
		_, err := d.readIdentity(ctx)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("checking for another server: %w", err)
	}
	shortened, err := d.shorten(ctx)
	if err != nil {
		return 0, fmt.Errorf("shortening waits and leases: %w", err)
	}
	defer func() { // Subscribers are notified of changes before an error, too.
		if shortened {
			d.noteWritten(anyTime)
		}
		if recovered > 0 || shortened {
			d.changed(driver.Anywhere)
		}
	}()
	last := leaseKey{until: math.MinInt64}
	for more := true; more; {
		n, left, err := d.recoverSome(ctx, keep, &last)
		recovered += n
		if err != nil {
			return recovered, partly("recovering stale leases", recovered, err)
		}
		more = left
	}
	return recovered, nil
}

// shorten makes waits and leases begin now that begin in the future because a clock was ahead. If an open transaction of
// a caller has ended one of the jobs, it leaves that to a later call: renewals would wait meanwhile for the rows that it
// has changed.
func (d *Driver) shorten(ctx context.Context) (some bool, err error) {
	for n := shortenedAtOnce; n == shortenedAtOnce; some = some || n > 0 {
		err = d.retrying(ctx, func(ctx context.Context) (bool, error) {
			return d.pipeline(ctx, func(b *batch) {
				b.planWithin(brief)
				b.exec(shortenLeases, int64(clockSlack))
				b.query(shortenWaits, func(r *row) error {
					n = r.int()
					return nil
				}, int64(clockSlack), shortenedAtOnce)
			})
		})
		if pgconnect.CodeOf(err) == pgconnect.CodeLockNotAvailable {
			return some, nil
		}
		if err != nil {
			return some, err
		}
	}
	return some, nil
}

// staleJob is a job whose lease has ended.
type staleJob struct {
	seq   int64
	queue int32
	until table.Instant
}

// leaseKey is the key of a row of the log of leases.
type leaseKey struct{ until, id int64 }

// recoverSome recovers the leases of the first rows of the log of leases after the last one, which it changes.
func (d *Driver) recoverSome(ctx context.Context, keep []driver.Lease, last *leaseKey) (recovered int, more bool, err error) {
	var until, ids, jobs []int64
	err = d.readPlanned(ctx, staleLeases, func(r *row) error {
		until, ids, jobs = append(until, r.integer()), append(ids, r.integer()), append(jobs, r.integer())
		return nil
	}, leasesAtOnce, last.until, last.id)
	rows := len(ids)
	if err != nil || rows == 0 {
		return 0, false, err
	}
	*last = leaseKey{until[rows-1], ids[rows-1]}
	var kept []int64
	for from := 0; from < rows; {
		to, leased := from, int64(0)
		for ; to < rows && leased < leasedAtOnce; to++ {
			leased += jobs[to]
		}
		some, keptSome, failure := d.recoverRows(ctx, until[from:to], ids[from:to], keep)
		recovered += some
		if failure != nil {
			return recovered, false, failure
		}
		kept = append(kept, keptSome...)
		from = to
	}
	err = d.retrying(ctx, func(ctx context.Context) (bool, error) {
		return d.pipeline(ctx, func(b *batch) {
			b.plan()
			if len(kept) > 0 { // The next call checks them again.
				b.exec(keepLeases, last.until, kept)
			}
			b.exec(dropStaleLeases, until, ids)
		})
	})
	return recovered, rows == leasesAtOnce, err
}

// recoverRows recovers the leases of some rows of the log of leases, given by their keys, except those in keep.
func (d *Driver) recoverRows(ctx context.Context, until, ids []int64, keep []driver.Lease) (recovered int, kept []int64, err error) {
	var stale []staleJob
	err = d.readPlanned(ctx, staleJobs, func(r *row) error {
		stale = append(stale, staleJob{r.integer(), r.key(), r.time()})
		return nil
	}, until, ids)
	for err == nil && len(stale) > 0 {
		n := 1
		for n < len(stale) && n < changedAtOnce && stale[n].queue == stale[0].queue {
			n++
		}
		var some int
		var keptSome []int64
		some, keptSome, err = d.recoverIn(ctx, stale[:n], keep)
		recovered += some
		kept = append(kept, keptSome...)
		stale = stale[n:]
	}
	return recovered, kept, err
}

// recoverIn hands back jobs of one queue whose leases have ended, except those in keep.
func (d *Driver) recoverIn(ctx context.Context, stale []staleJob, keep []driver.Lease) (recovered int, kept []int64, err error) {
	locked, err := d.transactUnlessLocked(ctx, stale[0].queue, func(c *changes) error {
		recovered, kept = 0, nil
		for _, s := range stale {
			// The lease may have been extended, or the end of an earlier job, on which it depends, may have
			// changed it. A transaction of a caller may be about to end the job: the lock of the queue must
			// not be held while waiting for that.
			j, failure := c.job(findStale, s.seq)
			if failure != nil {
				return failure
			}
			if j == nil || j.isOneOf(keep) {
				kept = append(kept, s.seq)
				continue
			}
			failure = c.interrupt(j, s.until)
			if failure != nil {
				return failure
			}
			recovered++
		}
		return nil
	})
	if err != nil {
		return 0, nil, err
	}
	if locked {
		recovered, kept = 0, nil
		for _, s := range stale {
			kept = append(kept, s.seq)
		}
	}
	return recovered, kept, nil
}

// interrupt hands back a lease that is over.
func (c *changes) interrupt(j *job, until table.Instant) error {
	err := c.changeInterruptions(j, func(r *driver.Record) { driver.Interrupt(r, table.TimeOf(until), time.Unix(0, c.now)) })
	if err != nil {
		return err
	}
	return c.handBack(j, driver.HandBack{})
}

// changeInterruptions applies a change to the interruptions of a record. A record that can't be
// decoded stays as it is: the next process that claims it parks it.
func (c *changes) changeInterruptions(j *job, change func(*driver.Record)) error {
	found, err := c.records(readBySeq, j.Seq)
	if err != nil || len(found) == 0 {
		return err
	}
	r, err := found[0].decode()
	if err != nil {
		return nil //nolint:nilerr // See above.
	}
	before := r.Status.Interruptions
	change(r)
	if r.Status.Interruptions == before {
		return nil
	}
	encoded, err := found[0].EncodeExtra(r)
	if err != nil {
		return fmt.Errorf("encoding the interruptions of record %q: %w", j.Name, err)
	}
	c.exec(setExtra, blob(encoded), j.Seq)
	return nil
}

// isOneOf reports whether a running job has one of the leases.
func (j *job) isOneOf(leases []driver.Lease) bool {
	return slices.ContainsFunc(leases, func(l driver.Lease) bool {
		return l == j.LeaseIn(j.queueName)
	})
}

// SetProgress implements driver.Driver.
func (d *Driver) SetProgress(ctx context.Context, lease driver.Lease, progress driver.Progress) error {
	fail := func(err error) error { return fmt.Errorf("setting the progress of record %q: %w", lease.Name, err) }
	encoded, err := bson.Marshal(progress)
	if err != nil {
		return fail(fmt.Errorf("encoding it: %w", err))
	}
	if err = ctx.Err(); err != nil {
		return fail(err)
	}
	queue, found, err := d.findQueue(ctx, d.reader(), lease.Queue)
	if err != nil {
		return fail(d.failed(ctx, err, false))
	}
	var changed []int64
	if found {
		changed, err = changeWithin(ctx, d, endless, setProgress, (*row).integer, encoded, queue.id, lease.Name, idOfName(queue.name, lease.Name), lease.Owner, lease.Count, lease.Stamp)
		if err != nil {
			return fail(err)
		}
	}
	if len(changed) == 0 {
		return fmt.Errorf("setting the progress: %w", table.LeaseLost(lease))
	}
	return nil
}
