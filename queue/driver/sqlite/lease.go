package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// each applies a change to each of several items, in one transaction. A refusal is the error
// of a single item, for which nothing was changed.
func each[T any](ctx context.Context, d *Driver, items []T, queueOf func(T) string, apply func(*changes, T) (refusal, err error)) ([]error, error) {
	var errs []error
	err := d.writer.write(ctx, &change{news: driver.InQueuesOf(items, queueOf), size: len(items), run: func(c *changes) (err error) {
		errs, err = applyEach(c, items, apply)
		return err
	}})
	if err != nil {
		return nil, err
	}
	return errs, nil
}

// applyEach applies a change to each of several items.
func applyEach[T any](c *changes, items []T, apply func(*changes, T) (refusal, err error)) ([]error, error) {
	errs := make([]error, len(items))
	for i, item := range items {
		var err error
		errs[i], err = apply(c, item)
		if err != nil {
			return nil, err
		}
	}
	return errs, nil
}

// only is each for a single item.
func only[T any](ctx context.Context, d *Driver, item T, queue string, apply func(*changes, T) (refusal, err error)) error {
	errs, err := each(ctx, d, []T{item}, func(T) string { return queue }, apply)
	if err != nil {
		return err
	}
	return errs[0]
}

// shown returns the row of an unfinished record that shows the given lease, or the given
// absence of one.
func (c *changes) shown(l driver.Lease) (j *job, refusal, err error) {
	queue, err := c.queue(l.Queue)
	if err == nil {
		j, err = c.named(queue, l.Name)
	}
	if err != nil {
		return nil, nil, err
	}
	if j == nil || !j.Shows(l) {
		return nil, table.LeaseLost(l), nil
	}
	return j, nil, nil
}

// leased returns the row of a running record that has the given lease.
func (c *changes) leased(l driver.Lease) (j *job, refusal, err error) {
	j, refusal, err = c.shown(l)
	if j != nil && j.Place != table.Running {
		return nil, fmt.Errorf("record %q does not run: %w", l.Name, driver.ErrLeaseLost), nil
	}
	return j, refusal, err
}

// Extend implements driver.Driver.
func (d *Driver) Extend(ctx context.Context, leases []driver.Lease, leaseTime time.Duration) (lost []driver.Lease, err error) {
	var gone []driver.Lease
	err = d.writer.write(ctx, &change{size: len(leases), run: func(c *changes) error {
		gone = nil
		now := time.Now()
		for _, l := range leases {
			queue, failure := c.queue(l.Queue)
			if failure != nil {
				return failure
			}
			n, failure := c.exec(extendLease, table.InstantOf(now), table.InstantOf(now.Add(leaseTime)), queue, l.Name, l.Owner, l.Count, l.Stamp)
			if failure != nil {
				return failure
			}
			if n == 0 {
				gone = append(gone, l)
			}
		}
		return nil
	}})
	if err != nil {
		return nil, fmt.Errorf("extending %d leases: %w", len(leases), err)
	}
	return gone, nil
}

// Release implements driver.Driver.
func (d *Driver) Release(ctx context.Context, handBacks []driver.HandBack) ([]error, error) {
	errs, err := each(ctx, d, handBacks, func(h driver.HandBack) string { return h.Lease.Queue }, (*changes).release)
	if err != nil {
		return nil, fmt.Errorf("releasing %d records: %w", len(handBacks), err)
	}
	return errs, nil
}

func (c *changes) release(h driver.HandBack) (refusal, err error) {
	j, refusal, err := c.leased(h.Lease)
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
	if _, err := c.exec(dropLease, nullable(h.Reason), h.Started, j.Seq); err != nil {
		return err
	}
	if err := c.free(j, j.DispatchScopes()); err != nil {
		return err
	}
	until := table.InstantOf(h.NotBefore)
	switch {
	case h.Park:
		return c.move(j, table.Parked, table.Instant{})
	case j.Open: // it expired before its dependencies ended
		return c.move(j, table.Waiting, table.Instant{})
	case until.Valid && until.Int64 > time.Now().UnixNano():
		if _, err := c.exec(setSince, table.InstantOf(h.Since), j.Seq); err != nil {
			return err
		}
		return c.move(j, table.Postponed, until)
	default:
		return c.admit(j)
	}
}

// endMarked ends a record that is to be canceled. A record whose name is damaged is not found, and is
// handed back instead: the next process that claims it parks it.
func (c *changes) endMarked(j *job) (done bool, err error) {
	found, err := c.records(readByName, j.queue, j.Name)
	if err != nil || len(found) == 0 {
		return false, err
	}
	s := found[0]
	return true, c.endCanceled(j, s, s.Reason, table.TimeOf(s.ForgetAt), time.Now())
}

// lease identifies a lease as it was taken or last renewed. Its length is the difference of
// its times; a file has no clock by which it could end.
type lease struct {
	seq, count     int64
	until, modTime table.Instant
	damage         string // why the times can't be read; empty if they can
	// dead is the row that proves that the owner is dead; nil without proof.
	dead *holder
}

const leaseColumns = `seq, lease_count, lease_until, mod_time`

// readLease reads leaseColumns.
func readLease(r *row) lease {
	l := lease{seq: r.integer(), count: r.integer(), until: r.time(), modTime: r.time()}
	if damage := r.damage(); damage != nil {
		l.damage = damage.Error()
	}
	return l
}

const (
	// clockSlack is how far in the future a wait may seem to begin.
	clockSlack = 5 * time.Second
	// recoveredAtOnce is the maximum number of leases that one change hands back, and the
	// maximum number of waits that it shortens.
	recoveredAtOnce = 1000
)

// RecoverStale implements driver.Driver. A lease is over when this driver has observed it
// unrenewed for its whole length, when the machine was rebooted since it was taken, or, on Linux,
// when the process that it belongs to has ended (see driver.ClaimRequest.HeldByProcess). A call
// that finds nothing does not block writers.
func (d *Driver) RecoverStale(ctx context.Context, keep ...driver.Lease) (recovered int, err error) {
	over, err := d.leasesOver(ctx)
	if err != nil {
		return 0, fmt.Errorf("reading stale leases: %w", err)
	}
	ofDead, outdated, err := d.leasesOfDead(ctx)
	if err != nil {
		return 0, fmt.Errorf("reading the leases of dead processes: %w", err)
	}
	over = append(over, ofDead...)
	for {
		late, err := d.waitsLate(ctx)
		if err != nil {
			return recovered, d.partly(recovered, err)
		}
		if len(over) == 0 && !late {
			return recovered, d.partly(recovered, d.forgetHolders(ctx, outdated))
		}
		next := over[:min(len(over), recoveredAtOnce)]
		over = over[len(next):]
		n, err := d.recover(ctx, next, keep)
		recovered += n
		if err != nil {
			return recovered, d.partly(recovered, err)
		}
	}
}

// partly wraps an error of a recovery that may have done some of its work.
func (d *Driver) partly(recovered int, err error) error {
	switch {
	case err == nil:
		return nil
	case recovered > 0:
		return fmt.Errorf("recovering stale leases, after %d: %w: %w", recovered, driver.ErrOutcomeUnknown, err)
	default:
		return fmt.Errorf("recovering stale leases: %w", err)
	}
}

// waitsLate reports whether some waits begin in the future.
func (d *Driver) waitsLate(ctx context.Context) (late bool, err error) {
	err = d.reads.query(ctx, readLateWait, func(*row) error {
		late = true
		return nil
	}, table.InstantOf(time.Now().Add(clockSlack)))
	return late, err
}

// leasesOver reads all leases, and returns those that are over, in the order of the
// records.
func (d *Driver) leasesOver(ctx context.Context) (over []lease, err error) {
	lengths := map[lease]time.Duration{}
	began := d.elapsed()
	err = d.reads.query(ctx, readLeases, func(r *row) error {
		l := readLease(r)
		if !l.until.Valid || l.damage != "" { // see noteBoot
			over = append(over, l)
			return nil
		}
		lengths[l] = time.Duration(l.until.Int64 - l.modTime.Int64)
		return nil
	})
	if err != nil {
		return nil, err
	}
	over = append(over, d.seen.See(began, d.elapsed(), lengths)...)
	slices.SortFunc(over, func(a, b lease) int { return cmp.Compare(a.seq, b.seq) })
	return over, nil
}

// recover hands back leases that were not renewed since they were read. Waits that begin in
// the future are changed to begin now.
func (d *Driver) recover(ctx context.Context, over []lease, keep []driver.Lease) (recovered int, err error) {
	var n int
	err = d.writer.write(ctx, &change{news: driver.Anywhere, size: len(over), run: func(c *changes) error {
		n = 0
		for _, l := range over {
			j, failure := c.findLease(l)
			if failure != nil {
				return failure
			}
			if j == nil || j.isOneOf(keep) {
				continue
			}
			if l.damage == "" {
				failure = c.interrupt(j, l.until)
			} else {
				failure = c.parkDamaged(j, errors.New(l.damage))
			}
			if failure != nil {
				return failure
			}
			n++
		}
		now := time.Now()
		_, failure := c.exec(shortenWaits, table.InstantOf(now), table.InstantOf(now.Add(clockSlack)), recoveredAtOnce)
		return failure
	}})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// findLease returns the row that has a lease; nil if it has another by now, or if its owner has begun
// a new life.
func (c *changes) findLease(l lease) (*job, error) {
	if l.dead != nil {
		if found, err := c.hasHolder(l.dead); err != nil || !found {
			return nil, err
		}
	}
	if l.damage == "" {
		return c.job(findLease, l.seq, l.count, l.until, l.modTime)
	}
	j, err := c.job(findSeq, l.seq)
	if err != nil || j == nil || j.Place != table.Running {
		return nil, err
	}
	return j, nil
}

// interrupt hands back a lease that is over.
func (c *changes) interrupt(j *job, until table.Instant) error {
	err := c.changeInterruptions(j, func(r *driver.Record) { driver.Interrupt(r, table.TimeOf(until), time.Now()) })
	if err != nil {
		return err
	}
	return c.handBack(j, driver.HandBack{})
}

// changeInterruptions applies a change to the interruptions of a record. A record that can't
// be decoded stays as it is: the next process that claims it parks it.
func (c *changes) changeInterruptions(j *job, change func(*driver.Record)) error {
	found, err := c.records(readByName, j.queue, j.Name)
	if err != nil || len(found) == 0 {
		return err
	}
	r, err := found[0].decode("") // the queue's name is not written
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
	_, err = c.exec(setExtra, blob(encoded), j.Seq)
	return err
}

// isOneOf reports whether a running job has one of the leases.
func (j *job) isOneOf(leases []driver.Lease) bool {
	return slices.ContainsFunc(leases, func(l driver.Lease) bool {
		return l.Name == j.Name && l.Owner == j.Owner && l.Count == j.Count && l.Stamp == j.Stamp
	})
}

// SetProgress implements driver.Driver. If ctx carries a transaction (see WithTx), SetProgress
// writes in it.
func (d *Driver) SetProgress(ctx context.Context, lease driver.Lease, progress driver.Progress) error {
	encoded, err := bson.Marshal(progress)
	if err != nil {
		return fmt.Errorf("setting the progress of record %q: encoding it: %w", lease.Name, err)
	}
	var lost bool
	run := func(c *changes) error {
		queue, failure := c.queue(lease.Queue)
		if failure != nil {
			return failure
		}
		n, failure := c.exec(setProgress, encoded, queue, lease.Name, lease.Owner, lease.Count, lease.Stamp)
		lost = n == 0
		return failure
	}
	if tx := d.ownTransaction(ctx); tx != nil {
		err = d.changeIn(ctx, tx, run)
	} else {
		err = d.writer.write(ctx, &change{run: run})
	}
	if err != nil {
		return fmt.Errorf("setting the progress of record %q: %w", lease.Name, err)
	}
	if lost {
		return fmt.Errorf("setting the progress: %w", table.LeaseLost(lease))
	}
	return nil
}
