package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
	"github.com/mongodb/amboy/queue/internal/rate"
	"github.com/mongodb/amboy/queue/internal/typelimit"
)

// timedAtOnce is the maximum number of due records that one claim makes ready, and the
// maximum number of expired records that it marks and that it claims.
var timedAtOnce = 1000

// fewQueues is the number of queues up to which a claim queries each of them without
// trying first to list all queues that have work.
const fewQueues = 8

// claimed is a claimed record with the name of its queue.
type claimed struct {
	*stored
	queue string
}

// Claim implements driver.Driver. If ctx ends during the claim, the claimed records are
// handed back. A record that can't be decoded is returned without a job, so that it can be
// parked. If more than 1,000 records are due or expired at a time, in all queues, the rest is
// left for another claim, which Next requests at once. A claim that finds nothing does not block
// writers.
func (d *Driver) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	given, later, err := d.claim(ctx, claimRequest{ClaimRequest: req, rateNow: d.rateNow})
	if err != nil {
		return driver.Claimed{}, fmt.Errorf("claiming %d records: %w", req.Limit, err)
	}
	records := make([]*driver.Record, len(given))
	for i, g := range given {
		records[i] = d.decode(ctx, g.stored, g.queue)
	}
	return driver.Claimed{Records: records, Next: later.next, Waits: later.waits}, nil
}

// claimRequest is a request with the clock by which rates are measured, which all processes on a file
// share, and the start of the runs.
type claimRequest struct {
	driver.ClaimRequest
	rateNow func() int64
	start   table.Instant
}

// starts are the starts of runs, which are the stamps of their leases: a file uses the seq of a removed
// row again. They differ although a clock stands still: that of some systems ticks every 15 ms.
type starts struct {
	last int64
}

// next returns the start of runs that are claimed at a time. Only a writer calls it.
func (s *starts) next(now time.Time) table.Instant {
	start := table.InstantOf(now)
	if behind := s.last - start.Int64; behind >= 0 && behind < int64(time.Second) {
		start.Int64 = s.last + 1
	}
	s.last = start.Int64
	return start
}

// later is when there may be more to claim.
type later struct {
	next  time.Time
	waits []driver.RateWait
}

func (d *Driver) claim(ctx context.Context, req claimRequest) ([]claimed, later, error) {
	if !d.mayHaveMore.Swap(false) {
		found, next, err := d.claimQuery.run(ctx, req)
		if err != nil || !found {
			return nil, next, err
		}
	}
	// If ctx ends, the writer may still use these variables.
	var given []claimed
	var next later
	var holder *holder
	if req.HeldByProcess {
		holder = d.holders.rowOf(ctx, req.Owner)
	}
	err := d.writer.write(ctx, &change{
		size: req.Limit,
		run: func(c *changes) (err error) {
			err = c.addHolder(holder)
			if err != nil {
				return err
			}
			req.start = d.starts.next(req.Now)
			given, next, err = c.claim(req)
			return err
		},
		undo: func(c *changes) error { return c.unclaim(given) },
	})
	if err != nil {
		return nil, later{}, err
	}
	d.holders.wrote(holder)
	if req.Limit > 0 && len(given) >= req.Limit {
		d.mayHaveMore.Store(true)
	}
	return given, next, nil
}

// decode decodes a record, and logs a failure.
func (d *Driver) decode(ctx context.Context, s *stored, queue string) *driver.Record {
	r, err := s.decode(queue)
	if err != nil {
		logging.Error(ctx, message.Fields{
			"message": "a stored job can't be read",
			"path":    d.opts.Path,
			"queue":   queue,
			"job_id":  s.ID,
			"error":   err.Error(),
		})
	}
	return r
}

// claim claims records, and returns when there may be more.
func (c *changes) claim(req claimRequest) (given []claimed, more later, err error) {
	isMore, expiredLeft, err := c.passTime(req.Now.UnixNano())
	if err != nil {
		return nil, more, err
	}
	if c.hidesWork() {
		err = c.flush()
		if err != nil {
			return nil, more, err
		}
	}
	work, err := c.work(req)
	if err != nil {
		return nil, more, err
	}
	most := timedAtOnce
	for _, w := range work {
		var overdue []claimed
		var read int
		overdue, read, err = c.claimOverdue(w, req, most)
		if err != nil {
			return nil, more, err
		}
		w.expiredLeft = expiredLeft || w.overdue > 0 && read == most
		isMore = isMore || w.expiredLeft
		most -= read
		given = append(given, overdue...)
		// Counts that are not written yet; when records are claimed, others may become ready.
		w.ready += c.count(w.key).places[table.Ready]
		w.running += c.count(w.key).places[table.Running]
	}
	err = c.setRooms(work)
	if err != nil {
		return nil, more, err
	}
	setBacklogs(work)
	err = c.resetBuckets(work)
	if err != nil {
		return nil, more, err
	}
	err = c.findEligible(work, req.ClaimRequest)
	if err != nil {
		return nil, more, err
	}
	inTurn(work, req.Limit)
	readies := make([][]claimed, len(work))
	for i, w := range work {
		var freed bool
		readies[i], freed, err = c.claimReady(w, req)
		if err != nil {
			return nil, more, err
		}
		isMore = isMore || freed
	}
	given = append(given, interleave(readies)...)
	more.waits = waits(work)
	more.next = req.Now
	if isMore || len(c.damaged) > 0 {
		return given, more, nil
	}
	due, expires, left, err := c.soundTimes()
	if !left {
		more.next = table.Earliest(due, expires)
	}
	return given, more, err
}

// passTime makes due records ready, marks expired records, and continues work that earlier
// transactions left. It reports whether there may be more of them, and whether there may be more
// expired records that are not marked.
func (c *changes) passTime(now int64) (more, expiredLeft bool, err error) {
	due, expires, left, err := c.soundTimes()
	if err != nil {
		return false, false, err
	}
	if left {
		more, err = c.settleLeftovers()
		if err != nil {
			return false, false, err
		}
	}
	if isDue(due, now) {
		var moreDue bool
		moreDue, err = c.admitDue(now)
		if err != nil {
			return false, false, err
		}
		more = more || moreDue
		// A record that was moved is no longer marked as expired.
		_, expires, _, err = c.soundTimes()
		if err != nil {
			return false, false, err
		}
	}
	if !hasExpired(expires, now) {
		return more, false, nil
	}
	expiredLeft, err = c.markExpired(now)
	return more || expiredLeft, expiredLeft, err
}

func isDue(due table.Instant, now int64) bool { return due.Valid && due.Int64 <= now }

// hasExpired is false at the deadline, at which a job may still start.
func hasExpired(expires table.Instant, now int64) bool { return expires.Valid && expires.Int64 < now }

// soundTimes is nextTimes, after it has parked records whose times can't be read.
func (c *changes) soundTimes() (due, expires table.Instant, left bool, err error) {
	due, expires, left, err = c.nextTimes()
	if !errors.Is(err, errDamagedRow) {
		return due, expires, left, err
	}
	err = c.parkDamagedTimes(err)
	if err != nil {
		return due, expires, left, err
	}
	return c.nextTimes()
}

// nextTimes returns when the first waiting record becomes due, and when the first one
// expires. left reports whether a transaction has left work.
func (c *changes) nextTimes() (due, expires table.Instant, left bool, err error) {
	var damage error
	_, err = c.one(nextTimes, func(r *row) {
		due, expires = r.time(), r.time()
		damage = r.damage()
		left = r.bool()
	})
	if err == nil && damage != nil {
		err = fmt.Errorf("%w: its next time: %w", errDamagedRow, damage)
	}
	return due, expires, left, err
}

// markExpired marks records of any queue that expired before they were claimed, so that a
// claim from their queue finds them. They keep their places until then.
func (c *changes) markExpired(now int64) (more bool, err error) {
	type key struct{ seq, queue int64 }
	var found []key
	err = c.query(findExpired, func(r *row) error {
		found = append(found, key{r.integer(), r.integer()})
		return nil
	}, now, timedAtOnce)
	if err != nil {
		return false, err
	}
	for _, k := range found {
		_, err = c.exec(markOverdue, k.seq)
		if err != nil {
			return false, err
		}
		c.count(k.queue).overdue++
	}
	return len(found) == timedAtOnce, nil
}

// admitDue makes due records ready, or makes them wait for a scope.
func (c *changes) admitDue(now int64) (more bool, err error) {
	due, err := c.jobs(findDue, now, timedAtOnce)
	if err != nil {
		return false, err
	}
	for _, j := range due {
		if len(j.Scopes) > 0 {
			err = c.admit(j)
		} else {
			_, err = c.exec(readyDue, j.Seq)
			n := c.count(j.queue)
			n.places[j.Place]--
			n.places[table.Ready]++
		}
		if err != nil {
			return false, err
		}
	}
	return len(due) == timedAtOnce, nil
}

// work is what a queue offers to a claim.
type work struct {
	driver.Demand
	key                        int64
	paused                     bool
	ready, overdue             int
	running, maxRunning, share int
	// rate is nil if the queue has none. The bucket is as of now, and backlog is the number of
	// records that a claim would take if there were no rate.
	rate            *amboy.Rate
	bucket          rate.Bucket
	now             int64
	tokens, backlog int
	// limits are those of the types, nil if there are none, and room is what they leave.
	limits  map[string]amboy.TypeLimit
	buckets typelimit.Buckets
	room    *typelimit.Room
	// expiredLeft is true if this claim leaves expired records, which may be before all others.
	expiredLeft bool
	// isPicked is true if some ready records must be left out; eligible then holds the first of
	// the others.
	isPicked bool
	eligible []candidate
}

// workColumns are the columns of work.
const workColumns = `id, name, paused, ready, overdue, running, max_running, rate, burst, bucket, type_limits, type_buckets`

func (w *work) read(r *row) {
	w.key, w.Queue, w.paused = r.integer(), r.text(), r.bool()
	w.ready, w.overdue, w.running, w.maxRunning = r.int(), r.int(), r.int(), r.int()
	w.rate, w.bucket = r.rate(), rate.Bucket(r.integer())
	w.limits, w.buckets = r.typeLimits(), r.typeBuckets()
	r.inQueue(w.Queue)
}

// setRooms reads what the limits of types leave. It reads the running records once for all queues,
// because they have no index by queue.
func (c *changes) setRooms(all []*work) error {
	running := map[int64]map[string]int{}
	for _, w := range all {
		if len(w.limits) > 0 {
			running[w.key] = map[string]int{}
		}
	}
	if len(running) == 0 {
		return nil
	}
	err := c.query(runningOfTypes, func(r *row) error {
		if types := running[r.integer()]; types != nil {
			types[r.text()]++
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, w := range all {
		w.room = typelimit.NewRoom(w.limits, func(jobType string) int { return running[w.key][jobType] }, w.buckets, w.now)
	}
	return nil
}

// setBacklogs must be called before records of excluded kinds are left out.
func setBacklogs(all []*work) {
	for _, w := range all {
		w.backlog = w.mayRun()
	}
}

// mustReset reports whether the clock was set back since the bucket was written.
func (w *work) mustReset() bool { return w.rate != nil && w.bucket.IsAhead(w.now) }

// mustSettle reports the same for the buckets of types.
func (w *work) mustSettle() bool {
	_, changed := w.room.Settle()
	return changed
}

// settleRoom writes the buckets of types, if they have changed.
func (c *changes) settleRoom(w *work) error {
	buckets, changed := w.room.Settle()
	if !changed {
		return nil
	}
	return c.setTypeBuckets(w.key, buckets)
}

// resetBuckets empties the buckets that were written before the clock was set back.
func (c *changes) resetBuckets(all []*work) error {
	for _, w := range all {
		if err := c.settleRoom(w); err != nil {
			return err
		}
		if !w.mustReset() {
			continue
		}
		w.bucket = rate.Bucket(w.now)
		if _, err := c.exec(setBucket, int64(w.bucket), w.key); err != nil {
			return err
		}
	}
	return nil
}

// waits returns the queues that have used up their tokens and may have more to claim.
func waits(all []*work) (found []driver.RateWait) {
	for _, w := range all {
		wait := w.room.Wait()
		if w.rate != nil && w.share >= w.tokens && w.backlog > w.share {
			wait = w.bucket.Wait(*w.rate, w.now)
		}
		if wait > 0 {
			found = append(found, driver.RateWait{Queue: w.Queue, For: wait})
		}
	}
	return found
}

// work returns the requested queues that have work, in the order of the request.
func (c *changes) work(req claimRequest) (all []*work, err error) {
	busy, err := c.busyQueues(req.Queues)
	if err != nil || len(busy) == 0 {
		return nil, err
	}
	for _, demand := range req.Queues {
		if w := busy[demand.Queue]; w != nil {
			w.Limit = demand.Limit
			if w.rate != nil || len(w.limits) > 0 {
				w.now = req.rateNow()
			}
			if w.rate != nil {
				w.tokens = w.bucket.Tokens(*w.rate, w.now)
			}
			all = append(all, w)
		}
	}
	return all, nil
}

// busyQueues returns by name the queues that have work. It may contain queues that were
// not requested. Its cost depends on the number of requested queues, however many others have
// work.
func (c *changes) busyQueues(asked []driver.Demand) (map[string]*work, error) {
	busy := map[string]*work{}
	add := func(r *row) error {
		w := &work{}
		w.read(r)
		busy[w.Queue] = w
		return nil
	}
	if len(asked) > fewQueues {
		err := c.query(queuesWithWork, add, len(asked)+1)
		if err != nil || len(busy) <= len(asked) {
			return busy, err
		}
		clear(busy) // these are not all
	}
	for _, demand := range asked {
		if err := c.query(queueState, add, demand.Queue); err != nil {
			return nil, err
		}
	}
	return busy, nil
}

// inTurn distributes a number of records over queues: one to each, then another to each
// that has more.
func inTurn(all []*work, limit int) {
	for gave := true; gave && limit > 0; {
		gave = false
		for _, w := range all {
			if limit > 0 && w.share < w.claimable() {
				w.share++
				limit--
				gave = true
			}
		}
	}
}

// claimable returns the number of ready records that may be claimed.
func (w *work) claimable() int {
	if w.rate != nil {
		return min(w.mayRun(), w.tokens)
	}
	return w.mayRun()
}

// mayRun returns the number of ready records that may be claimed if the queue has no rate.
func (w *work) mayRun() int {
	if w.paused {
		return 0
	}
	most := min(w.ready, w.Limit)
	if w.maxRunning > 0 {
		most = min(most, w.maxRunning-w.running)
	}
	return most
}

// interleave takes one record of each list in turn.
func interleave(lists [][]claimed) (all []claimed) {
	if len(lists) == 1 {
		return lists[0]
	}
	for i, added := 0, true; added; i++ {
		added = false
		for _, list := range lists {
			if i < len(list) {
				all = append(all, list[i])
				added = true
			}
		}
	}
	return all
}

// claimOverdue claims up to a number of the records of a queue that are marked as expired, without
// their scopes. It also returns how many it has read.
func (c *changes) claimOverdue(w *work, req claimRequest, most int) (given []claimed, read int, err error) {
	if w.overdue == 0 || most == 0 {
		return nil, 0, nil
	}
	found, err := c.records(findOverdue, w.key, most)
	if err != nil {
		return nil, 0, err
	}
	now := req.Now.UnixNano()
	for _, s := range found {
		if s.DispatchBy.Valid && s.DispatchBy.Int64 >= now { // the clock was set back since it was marked
			err = c.unmark(&s.job)
			if err != nil {
				return nil, 0, err
			}
			continue
		}
		err = c.claimExpired(s, req)
		if err == nil && s.damage != nil {
			err = c.parkDamaged(&s.job, s.damage)
		} else if err == nil {
			given = append(given, claimed{s, w.Queue})
		}
		if err != nil {
			return nil, 0, err
		}
	}
	return given, len(found), nil
}

// unmark makes a record wait for its deadline again.
func (c *changes) unmark(j *job) error {
	_, err := c.exec(unmarkOverdue, j.Seq)
	c.count(j.queue).overdue--
	return err
}

func (c *changes) claimExpired(s *stored, req claimRequest) error {
	// The record before it may have passed a scope to it.
	current, err := c.job(findSeq, s.Seq)
	if err == nil && current == nil {
		err = fmt.Errorf("record %q is gone", s.Name)
	}
	if err != nil {
		return err
	}
	wasReady := current.Place == table.Ready
	err = c.move(current, table.Running, table.Instant{})
	if err != nil {
		return err
	}
	s.job = *current
	s.leased(req)
	if _, err = c.exec(takeLease, s.Owner, s.Count, s.ModTime, table.InstantOf(req.Now.Add(req.LeaseTime)), s.Started, s.Seq); err != nil {
		return err
	}
	if wasReady {
		err = c.withdraw(&s.job)
		if err != nil {
			return err
		}
	}
	return c.started(&s.job)
}

// claimReady claims ready records, in the order in which they run. It reports whether that has made
// others ready.
func (c *changes) claimReady(w *work, req claimRequest) (given []claimed, freed bool, err error) {
	if w.share <= 0 {
		return nil, false, nil
	}
	now := table.InstantOf(req.Now)
	read, lease, which := readReady, leaseReady, []any{w.key, now, w.share}
	if w.isPicked {
		read, lease, which = readThese, leaseThese, []any{w.chosen(), now}
	}
	found, err := c.records(read, which...)
	if err != nil {
		return nil, false, err
	}
	_, err = c.exec(lease, append([]any{req.Owner, now, table.InstantOf(req.Now.Add(req.LeaseTime)), req.start}, which...)...)
	if err != nil {
		return nil, false, err
	}
	for _, s := range found {
		s.Place = table.Running
		s.leased(req)
	}
	slices.SortFunc(found, func(s, t *stored) int { return s.Compare(&t.Job) })
	if w.rate != nil && len(found) > 0 {
		w.bucket = w.bucket.Take(*w.rate, w.now, len(found))
		_, err = c.exec(setBucket, int64(w.bucket), w.key)
		if err != nil {
			return nil, false, err
		}
	}
	for _, s := range found {
		w.room.Take(s.Type)
	}
	err = c.settleRoom(w)
	if err != nil {
		return nil, false, err
	}
	n := c.count(w.key)
	n.places[table.Ready] -= len(found)
	n.places[table.Running] += len(found)
	ready := n.places[table.Ready]
	err = c.fulfill(w.key, found)
	if err != nil {
		return nil, false, err
	}
	for _, s := range found {
		err = c.started(&s.job)
		if err == nil && s.damage != nil {
			err = c.parkDamaged(&s.job, s.damage)
		} else if err == nil {
			given = append(given, claimed{s, w.Queue})
		}
		if err != nil {
			return nil, false, err
		}
	}
	return given, n.places[table.Ready] > ready, nil
}

// leased sets the fields of a lease that a claim takes.
func (s *stored) leased(req claimRequest) {
	s.Owner, s.Count = req.Owner, s.Count+1
	s.ModTime = table.InstantOf(req.Now)
	s.Started, s.Stamp = req.start, req.start.Int64
}

// unclaim hands back the records that were claimed for a caller that left.
func (c *changes) unclaim(given []claimed) error {
	for _, g := range given {
		if _, err := c.release(driver.HandBack{Lease: g.LeaseIn(g.queue)}); err != nil {
			return err
		}
	}
	return nil
}
