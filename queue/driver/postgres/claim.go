package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
	"github.com/mongodb/amboy/queue/internal/rate"
)

const (
	// timedAtOnce is the maximum number of due records that one claim makes ready, and the
	// maximum number of expired records that it takes from a queue.
	timedAtOnce = 1000
	// claimTries is the maximum number of tries if other claims take the found records.
	claimTries = 4
)

// Claim implements driver.Driver. A record that can't be decoded is returned without a job, so
// that it can be parked. If more than 1,000 records are due or expired at a time, the rest is
// left for another claim, which Next requests at once.
func (d *Driver) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	cl := &claim{d: d, ClaimRequest: req, now: req.Now.UnixNano(), except: make([]string, len(req.Except))}
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
	except  []string
	queues  []queueKey // the existing queues of the request, in its order
	demands []driver.Demand
	given   []*stored
	next    time.Time
	waits   map[int32]time.Duration // of queues that have used up their tokens
	leftOut bool                    // whether a queue was locked for long
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
	if done, err := cl.takeAlone(ctx); done || err != nil {
		return err
	}
	more, isDue, err := cl.passTime(ctx)
	if err != nil {
		return err
	}
	if isDue && !more && len(cl.given) == 0 { // the due records are ready now
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
	case cl.leftOut:
		cl.next = cl.Now.Add(lockedPause)
	default:
		err = cl.setNext(ctx)
	}
	return err
}

func (cl *claim) setNext(ctx context.Context) error {
	t, err := cl.times(ctx)
	cl.next = t.next()
	return err
}

// takeAlone claims in one statement, without a query before, from a queue that is believed to
// have only one line. It reports whether the claim is complete.
func (cl *claim) takeAlone(ctx context.Context) (done bool, err error) {
	if len(cl.queues) != 1 || len(cl.Queues) != 1 || cl.Limit <= 0 || cl.demands[0].Limit <= 0 || len(cl.except) > 0 {
		return false, nil
	}
	alone, known := cl.d.alone.Load(cl.queues[0].id)
	if !known {
		return false, nil
	}
	limit := min(cl.Limit, cl.demands[0].Limit)
	taken, err := cl.take(ctx, []portion{{line: alone.(int32), queue: cl.queues[0].id, n: limit}}, true)
	if err != nil || len(taken) == 0 {
		return false, err
	}
	cl.given = taken
	return true, nil
}

// portion is the number of jobs to take from a line.
type portion struct {
	line, queue int32
	n           int
	limited     bool
}

// take leases the first ready jobs of lines, except jobs that another claim is taking.
func (cl *claim) take(ctx context.Context, portions []portion, alone bool) (taken []*stored, err error) {
	err = cl.d.retrying(ctx, func(ctx context.Context) (mayBeDone bool, err error) {
		taken = nil
		read, finish := cl.takes(&taken, portions, alone)
		mayBeDone, err = cl.d.pipeline(ctx, func(b *batch) {
			b.plan()
			b.query(take, read, cl.takeArgs(portions, alone, nil)...)
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
func (cl *claim) takeArgs(portions []portion, alone bool, bucket any) []any {
	lines, wanted := make([]int32, len(portions)), make([]int32, len(portions))
	for i, p := range portions {
		lines[i], wanted[i] = p.line, int32(min(p.n, 1<<20)) //nolint:gosec // It is below.
	}
	var limited any
	if portions[0].limited {
		limited = true
	}
	return []any{lines, wanted, cl.now, cl.Owner, int64(cl.LeaseTime), limited, alone, bucket}
}

// takes returns a function that reads the rows of the statement take, and one that must be called
// after the last row.
func (cl *claim) takes(taken *[]*stored, portions []portion, alone bool) (read func(*row) error, finish func(context.Context, querier) error) {
	lowest := map[int32]int64{} // distance of the first job of each line from its floor
	read = func(r *row) error {
		if next := table.Earliest(r.time(), r.time()); alone {
			cl.next = next // if the claim is complete
		}
		above := r.integer()
		s := &stored{}
		s.read(r)
		if first, seen := lowest[s.line]; !seen || above < first {
			lowest[s.line] = above
		}
		*taken = append(*taken, s)
		return nil
	}
	finish = func(ctx context.Context, on querier) error {
		cl.d.floors.tallied(1)
		for _, p := range portions {
			cl.d.floors.passed(line{p.line, p.queue}, lowest[p.line])
		}
		slices.SortFunc(*taken, func(s, t *stored) int { return s.Compare(&t.Job) })
		return cl.d.resolve(ctx, on, jobsOf(*taken))
	}
	return read, finish
}

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
		more, err = cl.d.settle(ctx)
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
	var promoted int
	var scoped bool
	err = d.retrying(ctx, func(ctx context.Context) (bool, error) {
		return d.pipeline(ctx, func(b *batch) {
			b.plan()
			b.exec(lockInserts, []int64{d.lockKey(lockOfPromotions, 0)})
			b.query(promoteDue, func(r *row) error {
				promoted, scoped = r.int(), r.bool()
				return nil
			}, now, timedAtOnce)
		})
	})
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

// inQueue makes a change under the lock of a queue, which is left out if it stays locked.
func (cl *claim) inQueue(ctx context.Context, queue int32, run func(*changes) error) error {
	locked, err := cl.d.unlessLocked(ctx, queue, run)
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

// takeLease stores the lease of a job, and adds it to the log of leases.
func (c *changes) takeLease(j *job, modTime table.Instant, leaseTime time.Duration, started table.Instant) error {
	_, err := c.exec(takeLease, j.Owner, j.Count, modTime, int64(leaseTime), started, j.Seq)
	if err == nil {
		_, err = c.exec(logLease, []int64{j.Seq})
	}
	return err
}

// source is a line with ready jobs, of a requested queue.
type source struct {
	portion
	priority int
	scoped   bool
	jobType  string
	seqs     []int64 // the first ready jobs
}

// work is what a queue offers to a claim.
type work struct {
	queue      queueKey
	most       int
	maxRunning int
	share      int
	lines      []*source
	ready      int

	// rate is nil if the queue has none. The bucket is as of now, and backlog is the number of
	// jobs that the claim would take if there were no rate.
	rate    *amboy.Rate
	bucket  rate.Bucket
	now     int64
	backlog int

	limitedTypes
}

// tokens returns the number of jobs that the rate lets start.
func (w *work) tokens() int { return w.bucket.Tokens(*w.rate, w.now) }

// readBucket reads the rate of the queue, its bucket and the time.
func (w *work) readBucket(r *row) {
	w.rate, w.bucket, w.now = r.rate(), rate.Bucket(r.integer()), r.integer()
}

// noteWait notes how long a queue waits for tokens after some of its jobs were taken. If tokens
// came after the claim was planned, the next claim takes them.
func (cl *claim) noteWait(w *work, taken int) {
	delete(cl.waits, w.queue.id)
	wait := w.room.Wait()
	if w.rate != nil && w.backlog > taken {
		wait = w.bucket.Wait(*w.rate, w.now)
		if w.tokens() > 0 {
			wait = time.Millisecond
		}
	}
	if wait > 0 {
		if cl.waits == nil {
			cl.waits = map[int32]time.Duration{}
		}
		cl.waits[w.queue.id] = wait
	}
}

func (cl *claim) rateWaits() (waits []driver.RateWait) {
	for _, queue := range cl.queues {
		if wait, waiting := cl.waits[queue.id]; waiting {
			waits = append(waits, driver.RateWait{Queue: queue.name, For: wait})
		}
	}
	return waits
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
		got, err = cl.take(ctx, plain, false)
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

// isChanged reports whether the claim needs the lock of the queue, because some jobs take scopes
// now, the number of running jobs, or of those of a type, is limited, or the queue has a rate.
func (w *work) isChanged() bool {
	return w.maxRunning > 0 || w.rate != nil || len(w.limits) > 0 || slices.ContainsFunc(w.lines, func(s *source) bool { return s.scoped && s.n > 0 })
}

func (w *work) portions(limited bool) (all []portion) {
	for _, s := range w.lines {
		if s.n > 0 {
			s.limited = limited
			all = append(all, s.portion)
		}
	}
	return all
}

// isOnlyRated reports whether the rate is all that limits what the claim may take.
func (w *work) isOnlyRated() bool {
	return w.rate != nil && w.maxRunning == 0 && len(w.limits) == 0 && !slices.ContainsFunc(w.lines, func(s *source) bool { return s.scoped && s.n > 0 })
}

// takeRated takes jobs of a queue in one round trip, with the tokens that its bucket had when it was
// probed. If the bucket was used since then, it takes none.
func (cl *claim) takeRated(ctx context.Context, w *work) (taken []*stored, err error) {
	portions := w.portions(false)
	err = cl.d.retrying(ctx, func(ctx context.Context) (mayBeDone bool, err error) {
		taken = nil
		read, finish := cl.takes(&taken, portions, false)
		mayBeDone, err = cl.d.pipeline(ctx, func(b *batch) {
			b.plan()
			b.exec(lockQueue, cl.d.lockKey(lockOfQueue, w.queue.id))
			b.query(take, read, cl.takeArgs(portions, false, int64(w.bucket))...)
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
	if w.isOnlyRated() {
		got, err := cl.takeRated(ctx, w)
		if err != nil {
			return nil, err
		}
		cl.noteWait(w, len(got))
		return got, nil
	}
	var got []*stored
	locked, err := cl.d.unlessLocked(ctx, w.queue.id, func(c *changes) (err error) {
		got, err = cl.takeIn(c, w)
		return err
	})
	if locked {
		cl.leftOut = true
		return nil, nil
	}
	if err != nil {
		return nil, err
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
	read, finish := cl.takes(&taken, portions, false)
	err = c.query(take, read, cl.takeArgs(portions, false, nil)...)
	if err == nil {
		err = finish(c.ctx, c.on)
	}
	if err == nil && w.rate != nil && len(taken) > 0 {
		before := w.bucket
		w.bucket = w.bucket.Take(*w.rate, w.now, len(taken))
		_, err = c.exec(setBucket, int64(w.bucket), w.queue.id, int64(before))
	}
	if err == nil {
		err = c.settleRoom(w, taken)
	}
	for _, s := range taken {
		if err == nil {
			err = c.fulfill(&s.job)
		}
	}
	return taken, err
}

// findWork finds the lines that have ready jobs.
func (cl *claim) findWork(ctx context.Context, taken [][]*stored, left int) (all []*work, err error) {
	byQueue := map[int32]*work{}
	var queues, wanted []int32
	for i, queue := range cl.queues {
		most := min(cl.demands[i].Limit-len(taken[i]), left)
		if most <= 0 {
			continue
		}
		w := &work{queue: queue, most: most}
		byQueue[queue.id] = w
		all = append(all, w)
		queues, wanted = append(queues, queue.id), append(wanted, int32(min(most, 1<<20))) //nolint:gosec // It is below.
	}
	if len(all) == 0 {
		return nil, nil
	}
	err = cl.d.readPlanned(ctx, probe, func(r *row) error {
		s := &source{}
		s.line, s.queue = r.key(), r.key()
		s.priority, s.scoped = r.int(), r.bool()
		w := byQueue[s.queue]
		w.maxRunning = r.int()
		w.readBucket(r)
		s.jobType = driver.TypeOfKey(r.text())
		w.limits, w.buckets = r.typeLimits(), r.typeBuckets()
		s.seqs = r.numbers()
		w.lines = append(w.lines, s)
		w.ready += len(s.seqs)
		return nil
	}, queues, wanted, cl.now, cl.except)
	if err != nil {
		return nil, err
	}
	for _, w := range all {
		if len(w.limits) > 0 {
			err = cl.findRoom(ctx, w)
			if err != nil {
				return nil, err
			}
		}
		w.most = min(w.most, w.ready)
		if w.maxRunning > 0 && w.most > 0 {
			err = cl.d.readPlanned(ctx, countLimited, func(r *row) error {
				w.most = max(0, min(w.most, w.maxRunning-r.int()))
				return nil
			}, w.queue.id)
			if err != nil {
				return nil, err
			}
		}
		if w.rate != nil {
			err = cl.applyRate(ctx, w)
			if err != nil {
				return nil, err
			}
		}
		if len(w.lines) == 1 && !w.lines[0].scoped && len(cl.except) == 0 && w.rate == nil && len(w.limits) == 0 {
			cl.d.alone.Store(w.queue.id, w.lines[0].line)
		} else {
			cl.d.alone.Delete(w.queue.id)
		}
	}
	return slices.DeleteFunc(all, func(w *work) bool { return w.most <= 0 }), nil
}

// applyRate limits what is taken from a queue to the tokens of its rate.
func (cl *claim) applyRate(ctx context.Context, w *work) error {
	if w.bucket.IsAhead(w.now) {
		_, err := cl.d.changeOnce(ctx, resetBucket, w.queue.id, int64(rate.MaxAhead))
		if err != nil {
			return err
		}
	}
	w.backlog = w.most
	w.most = min(w.most, w.tokens())
	if w.most == 0 {
		cl.noteWait(w, 0)
	}
	return nil
}

// inTurn distributes a number of records over queues: one to each, then another to each that has
// more.
func inTurn(all []*work, limit int) {
	for gave := true; gave && limit > 0; {
		gave = false
		for _, w := range all {
			if limit > 0 && w.share < w.most {
				w.share++
				limit--
				gave = true
			}
		}
	}
	for _, w := range all {
		w.divide(w.share)
	}
}

// divide divides the first jobs of a queue, as many as its share, into portions of its lines.
func (w *work) divide(share int) {
	for _, s := range w.lines {
		s.n = 0
	}
	first := w.inOrder()
	for _, p := range first[:max(0, min(share, len(first)))] {
		p.n++
	}
}

// interleave takes one record of each list in turn.
func interleave(lists [][]*stored) (all []*stored) {
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
