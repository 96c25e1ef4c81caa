package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// claimTries is the maximum number of tries if other claims take the found records.
const claimTries = 4

// Claim implements driver.Driver. A record that can't be decoded is returned without a job, so
// that it can be parked. If more records are due or expired than it makes ready or takes in a short
// time, the rest is left for another claim, which Next requests at once.
// Of the records of a priority, those that became ready long after they were put are taken first, in the order in
// which they became ready.
func (d *Driver) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	now := req.Now.UnixNano()
	cl := &claim{d: d, ClaimRequest: req, now: now, due: d.lookForDue(now), expired: d.lookForExpired(now), except: make([]string, len(req.Except))}
	defer cl.due.close()
	defer cl.expired.close()
	for i, kind := range req.Except {
		cl.except[i] = storable(kind.Key())
	}
	err := cl.run(ctx)
	if err != nil {
		if len(cl.given) == 0 {
			return driver.Claimed{}, fmt.Errorf("claiming %d records: %w", req.Limit, err)
		}
		// The taken leases are valid. If the error lasts, the next claim returns it.
		cl.next = req.Now
	}
	records := make([]*driver.Record, len(cl.given))
	for i, s := range cl.given {
		records[i] = d.decode(ctx, s)
	}
	return driver.Claimed{Records: records, Next: cl.next, Waits: cl.rateWaits()}, nil
}

// decode decodes a record, and logs a failure.
func (d *Driver) decode(ctx context.Context, s *stored) *driver.Record {
	r, err := s.decode()
	if err != nil {
		logging.Error(ctx, message.Fields{
			"message": "a stored job can't be read",
			"schema":  d.opts.Schema,
			"queue":   s.queueName,
			"job_id":  s.ID,
			"error":   err.Error(),
		})
	}
	return r
}

// claim is a Claim that is under way.
type claim struct {
	driver.ClaimRequest
	d       *Driver
	now     int64
	due     *look
	expired *look
	except  []string
	queues  []queueKey // the existing queues of the request, in its order
	demands []driver.Demand
	given   []*stored
	probed  *probing // the first one, before it is used
	found   times    // what the statement takeAloneAndLook has found
	next    time.Time
	waits   map[int32]time.Duration // of queues that have used up their tokens
	leftOut bool                    // whether something was locked for long
	locked  []int32                 // queues that are locked
	isReady bool                    // whether records were ready when the times were read
	scanBy  time.Time               // when to scan all lines again, because those that were scanned have too few jobs
	// promotion is closed when the promotion that was under way has ended; nil if none was.
	promotion <-chan struct{}
}

func (cl *claim) run(ctx context.Context) error {
	for _, demand := range cl.Queues {
		key, found, err := cl.d.findQueue(ctx, cl.d.reader(), demand.Queue)
		if err != nil {
			return cl.d.failed(ctx, err, false)
		}
		if found {
			cl.queues, cl.demands = append(cl.queues, key), append(cl.demands, demand)
		}
	}
	cl.expired.only(cl.queues)
	if done, err := cl.takeAlone(ctx); done || err != nil {
		return err
	}
	t, err := cl.timesAndReady(ctx)
	if err != nil {
		return err
	}
	if done, dueErr := cl.takeDue(ctx, t); done || dueErr != nil {
		return dueErr
	}
	more, err := cl.passTime(ctx, t)
	if err != nil {
		return err
	}
	if t.dueSince.Valid && !more && len(cl.given) == 0 { // the due records are ready now
		done, takeErr := cl.takeAlone(ctx)
		if done || takeErr != nil {
			return takeErr
		}
	}
	err = cl.takeReady(ctx)
	if err != nil {
		return err
	}
	switch {
	case more:
		cl.next = cl.Now
		cl.awaitPromotion(ctx)
	default:
		// Otherwise what was read before is true: a record that was put since then is announced.
		if cl.next = t.next(); t.isPast() {
			err = cl.setNext(ctx)
		}
		if cl.leftOut {
			cl.returnBy(cl.Now.Add(lockedPause))
		}
	}
	if !cl.scanBy.IsZero() {
		cl.returnBy(cl.Now.Add(time.Until(cl.scanBy)))
	}
	return err
}

// returnBy makes another claim follow at a time or before.
func (cl *claim) returnBy(at time.Time) {
	if cl.next.IsZero() || at.Before(cl.next) {
		cl.next = at
	}
}

// awaitPromotion waits for the promotion under way if nothing was ready, so that the next claim finds more.
func (cl *claim) awaitPromotion(ctx context.Context) {
	if len(cl.given) > 0 || cl.promotion == nil {
		return
	}
	timer := time.NewTimer(lockedPause)
	defer timer.Stop()
	select {
	case <-cl.promotion:
	case <-timer.C: // meanwhile other jobs may have become ready
	case <-ctx.Done(): // nothing was taken, and the next claim is due
	}
}

// setNext looks when there may be more. Records that are still due are being made ready, or taken, by another process.
func (cl *claim) setNext(ctx context.Context) error {
	t, err := cl.times(ctx)
	cl.next = t.next()
	cl.leftOut = cl.leftOut || t.dueSince.Valid
	return err
}

// takeAlone claims in one statement, without a query before, from a queue that is believed to
// have only one line. It reports whether the claim is complete.
func (cl *claim) takeAlone(ctx context.Context) (done bool, err error) {
	p, known := cl.alone()
	if !known || p.n <= 0 {
		return false, nil
	}
	s := takeAlone
	if !cl.due.isKnown || !cl.expired.isKnown {
		s = takeAloneAndLook
	}
	taken, err := cl.lease(ctx, s, []portion{p}, cl.aloneArgs(s, p, cl.due.from)...)
	if err != nil || len(taken) == 0 {
		return false, err
	}
	if s == takeAloneAndLook {
		cl.found.learn(cl.now, cl.due, cl.expired)
		cl.next = cl.found.next()
	} else {
		cl.next = table.Earliest(cl.due.next(), cl.expired.next())
	}
	cl.given = taken
	return true, nil
}

// alone returns what the claim wants from its only queue, if that is believed to have only one line.
func (cl *claim) alone() (p portion, known bool) {
	if len(cl.queues) != 1 || len(cl.Queues) != 1 || len(cl.except) > 0 {
		return portion{}, false
	}
	id, known := cl.d.alone.Load(cl.queues[0].id)
	if !known {
		return portion{}, false
	}
	return portion{line: id.(int32), queue: cl.queues[0].id, n: min(cl.Limit, cl.demands[0].Limit)}, true
}

// portion is the number of jobs to take from a line.
type portion struct {
	line, queue int32
	n           int
	limited     bool
}

func (p portion) wanted() int32 { return int32(min(p.n, 1<<20)) } //nolint:gosec // It is below.

// take leases the first ready jobs of lines, except jobs that another claim is taking.
func (cl *claim) take(ctx context.Context, portions []portion) (taken []*stored, err error) {
	return cl.lease(ctx, take, portions, cl.takeArgs(portions, nil)...)
}

// lease leases jobs of lines by one statement.
func (cl *claim) lease(ctx context.Context, s statement, portions []portion, args ...any) (taken []*stored, err error) {
	err = cl.d.retrying(ctx, func(ctx context.Context) (mayBeDone bool, err error) {
		taken = nil
		read, finish := cl.takes(&taken, portions)
		mayBeDone, err = cl.d.pipeline(ctx, func(b *batch) {
			b.planClaim()
			b.query(s, read, args...)
		})
		if err != nil {
			return mayBeDone, err
		}
		// The leases are taken. Only reading the names of unknown queues may still fail.
		return true, finish(ctx, cl.d.reader())
	})
	return taken, err
}

// takeArgs returns the arguments of the statement take. bucket is that of the queue, or nil.
func (cl *claim) takeArgs(portions []portion, bucket any) []any {
	lines, wanted := make([]int32, len(portions)), make([]int32, len(portions))
	for i, p := range portions {
		lines[i], wanted[i] = p.line, p.wanted()
	}
	var limited any
	if portions[0].limited {
		limited = true
	}
	return []any{lines, wanted, cl.now, cl.Owner, int64(cl.LeaseTime), limited, bucket}
}

// aloneArgs returns the arguments of the statement takeAlone or takeAloneAndLook. They take nothing if a record is due
// that was not due before dueFrom.
func (cl *claim) aloneArgs(s statement, p portion, dueFrom int64) []any {
	due, expired := cl.due.args(), cl.expired.args()
	args := []any{p.line, p.wanted(), cl.now, cl.Owner, int64(cl.LeaseTime), nil, dueFrom, expired[0]}
	if s == takeAloneAndLook {
		args = slices.Concat(args, due[1:], expired[1:])
	}
	return args
}

// takes returns two functions for the result of a statement that takes records: read is for each row, and finish must
// be called after the last.
func (cl *claim) takes(taken *[]*stored, portions []portion) (read func(*row) error, finish func(context.Context, querier) error) {
	passed := map[int32]skipped{}
	read = func(r *row) error {
		cl.found = times{expiredSince: r.time(), due: r.time(), expires: r.time()}
		late, others := r.time(), r.time()
		s := &stored{}
		s.read(r)
		passed[s.line] = passed[s.line].with(late, others)
		cl.d.noteNewest(s.Seq)
		*taken = append(*taken, s)
		return nil
	}
	finish = func(ctx context.Context, on querier) error {
		for _, p := range portions {
			if places, some := passed[p.line]; some {
				cl.d.floors.tallied(p.queue)
				cl.d.floors.passed(line{p.line, p.queue}, places.most())
			}
		}
		slices.SortFunc(*taken, func(s, t *stored) int { return s.Compare(&t.Job) })
		return cl.d.resolve(ctx, on, jobsOf(*taken))
	}
	return read, finish
}

// skipped is the number of places of a line that a claim has skipped: before the first late record that it has taken, and
// before the first of the others. Each is NULL without such a record.
type skipped struct{ late, others sql.NullInt64 }

// with returns the places for one more record, which is late if late is valid.
func (k skipped) with(late, others sql.NullInt64) skipped {
	if late.Valid {
		k.late = first(k.late, late)
	} else {
		k.others = first(k.others, others)
	}
	return k
}

// first returns the lower of two places. a may be NULL.
func first(a, b sql.NullInt64) sql.NullInt64 {
	if a.Valid && a.Int64 < b.Int64 {
		return a
	}
	return b
}

func (k skipped) most() int64 { return max(k.late.Int64, k.others.Int64) }

// noteNewest records the arrival number of a claimed job. Of two calls at once, one may be lost: the number need
// not be exact.
func (d *Driver) noteNewest(seq int64) {
	if newest := d.newest.Load(); seq > newest {
		d.newest.CompareAndSwap(newest, seq)
	}
}

// takeLease stores the lease of a job, and adds it to the log of leases.
func (c *changes) takeLease(j *job, modTime table.Instant, leaseTime time.Duration, started table.Instant) {
	c.exec(takeLease, j.Owner, j.Count, modTime, int64(leaseTime), started, j.Seq)
	c.exec(logLease, []int64{j.Seq})
}

// takeReady claims ready records, one of each queue in turn.
func (cl *claim) takeReady(ctx context.Context) error {
	left := cl.Limit
	taken := make([][]*stored, len(cl.queues))
	for try := 0; try < claimTries && left > 0; try++ {
		all, err := cl.findWork(ctx, taken, left)
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(w *work) bool { return slices.Contains(cl.locked, w.queue.id) })
		inTurn(all, left)
		planned := 0
		var plain []portion
		for _, w := range all {
			planned += w.share
			if !w.isChanged() {
				plain = append(plain, w.portions(false)...)
			}
		}
		if planned == 0 {
			break
		}
		got, err := cl.takePlanned(ctx, all, plain)
		if err != nil && len(got) == 0 {
			return err
		}
		for _, s := range got {
			at := slices.IndexFunc(cl.queues, func(q queueKey) bool { return q.id == s.queue })
			taken[at] = append(taken[at], s)
		}
		left -= len(got)
		for _, w := range all {
			if slices.Contains(cl.locked, w.queue.id) {
				planned -= w.share
			}
		}
		if err != nil || len(got) >= planned {
			break
		}
	}
	for _, list := range taken {
		slices.SortStableFunc(list, func(s, t *stored) int { return s.Compare(&t.Job) })
	}
	cl.given = append(cl.given, interleave(taken)...)
	return nil
}

// takePlanned takes the planned jobs: those of most queues in one statement, and those of each
// queue that needs its lock in a transaction of its own.
func (cl *claim) takePlanned(ctx context.Context, all []*work, plain []portion) (got []*stored, err error) {
	if len(plain) > 0 {
		got, err = cl.take(ctx, plain)
		if err != nil {
			return nil, err
		}
	}
	for _, w := range all {
		if w.share == 0 || !w.isChanged() {
			continue
		}
		some, err := cl.takeChanged(ctx, w)
		if err != nil {
			return got, err
		}
		got = append(got, some...)
	}
	return got, nil
}

// takeRated takes jobs of a queue in one round trip, with the tokens that its bucket had when it was
// probed. If the bucket was used since then, it takes none.
func (cl *claim) takeRated(ctx context.Context, p patience, w *work) (taken []*stored, err error) {
	portions := w.portions(false)
	err = cl.d.retrying(ctx, func(ctx context.Context) (mayBeDone bool, err error) {
		taken = nil
		read, finish := cl.takes(&taken, portions)
		mayBeDone, err = cl.d.pipeline(ctx, func(b *batch) {
			b.planWithin(p)
			b.exec(lockQueue, cl.d.lockKey(lockOfQueue, w.queue.id))
			b.query(take, read, cl.takeArgs(portions, int64(w.bucket))...)
			b.exec(setBucket, int64(w.bucket.Take(*w.rate, w.now, w.share)), w.queue.id, int64(w.bucket))
		})
		if err != nil {
			return mayBeDone, err
		}
		return true, finish(ctx, cl.d.reader())
	})
	if len(taken) > 0 {
		w.bucket = w.bucket.Take(*w.rate, w.now, w.share)
	}
	return taken, err
}

// takeChanged takes jobs of a queue under its lock.
func (cl *claim) takeChanged(ctx context.Context, w *work) ([]*stored, error) {
	var got []*stored
	freed := false
	locked, err := cl.d.unlessLocked(ctx, w.queue.id, func(p patience) (err error) {
		if w.isOnlyRated() {
			got, err = cl.takeRated(ctx, p, w)
			return err
		}
		return cl.d.transactWithin(ctx, p, w.queue.id, func(c *changes) (err error) {
			got, err = cl.takeIn(c, w)
			freed = c.examined > 0
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	if locked {
		cl.leftOut, cl.locked = true, append(cl.locked, w.queue.id)
		return nil, nil
	}
	if freed { // records with larger limits may be ready now
		cl.d.changed(driver.In(w.queue.name))
	}
	cl.noteWait(w, len(got))
	return got, nil
}

// takeIn takes jobs of a queue whose lock is held.
func (cl *claim) takeIn(c *changes, w *work) (taken []*stored, err error) {
	share := w.share
	if w.maxRunning > 0 {
		_, err = c.one(countLimited, func(r *row) { share = min(share, w.maxRunning-r.int()) }, w.queue.id)
		if err != nil {
			return nil, err
		}
	}
	if w.rate != nil {
		_, err = c.one(readBucket, w.readBucket, w.queue.id)
		if err != nil {
			return nil, err
		}
	}
	if w.rate != nil {
		share = min(share, w.tokens())
	}
	if len(w.limits) > 0 {
		err = c.findRoomIn(w)
		if err != nil {
			return nil, err
		}
	}
	w.divide(share)
	portions := w.portions(w.maxRunning > 0 || len(w.limits) > 0)
	if len(portions) == 0 {
		return nil, nil
	}
	read, finish := cl.takes(&taken, portions)
	err = c.query(take, read, cl.takeArgs(portions, nil)...)
	if err == nil {
		err = finish(c.ctx, c.on)
	}
	if err == nil && w.rate != nil && len(taken) > 0 {
		before := w.bucket
		w.bucket = w.bucket.Take(*w.rate, w.now, len(taken))
		c.exec(setBucket, int64(w.bucket), w.queue.id, int64(before))
	}
	if err == nil {
		err = c.settleRoom(w, taken)
	}
	if err == nil {
		err = c.fulfill(w.queue.id, taken)
	}
	return taken, err
}
