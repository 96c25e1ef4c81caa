package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/rate"
)

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
	top        top
	allLines   int // the number of lines of the queue, as far as they were counted; 0 if none has ready jobs

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

// probing finds the lines of queues that have ready jobs.
type probing struct {
	all            []*work
	byQueue        map[int32]*work
	queues, wanted []int32
	tops           []int64
	counted        []int32 // how many lines are counted
}

// newProbing returns a probing of the queues of which the claim may take more jobs.
func (cl *claim) newProbing(taken [][]*stored, left int) *probing {
	p := &probing{byQueue: map[int32]*work{}}
	for i, queue := range cl.queues {
		most := min(cl.demands[i].Limit-len(taken[i]), left)
		if most <= 0 {
			continue
		}
		w := &work{queue: queue, most: most, top: cl.d.tops.begin(queue.id)}
		p.byQueue[queue.id] = w
		p.all = append(p.all, w)
		p.queues, p.wanted = append(p.queues, queue.id), append(p.wanted, int32(min(most, 1<<20))) //nolint:gosec // It is below.
		counted := int32(2)                                                                        // to find out whether there is only one
		if w.top.isForAll() {
			counted = manyLines + 1
		}
		p.tops, p.counted = append(p.tops, w.top.priority), append(p.counted, counted)
	}
	return p
}

// args returns the arguments of the statement probe.
func (p *probing) args(cl *claim) []any {
	return []any{p.queues, p.wanted, cl.now, cl.except, p.tops, p.counted}
}

// read reads a row of the statement probe.
func (p *probing) read(r *row) error {
	s := &source{}
	s.line, s.queue = r.key(), r.key()
	s.priority, s.scoped = r.int(), r.bool()
	w := p.byQueue[s.queue]
	w.maxRunning = r.int()
	w.readBucket(r)
	s.jobType = driver.TypeOfKey(r.text())
	w.limits, w.buckets = r.typeLimits(), r.typeBuckets()
	s.seqs, w.allLines = r.numbers(), r.int()
	w.lines = append(w.lines, s)
	w.ready += len(s.seqs)
	return nil
}

// findWork finds the lines that have ready jobs.
func (cl *claim) findWork(ctx context.Context, taken [][]*stored, left int) (all []*work, err error) {
	p := cl.probed
	cl.probed = nil
	if p == nil {
		p = cl.newProbing(taken, left)
		if len(p.all) > 0 {
			began := time.Now()
			err = cl.d.readPlanned(ctx, probe, p.read, p.args(cl)...)
			if err == nil {
				cl.noteTops(p, time.Since(began))
			}
		}
	}
	if err != nil {
		return nil, err
	}
	all = p.all
	running, err := cl.countLimited(ctx, all)
	if err != nil {
		return nil, err
	}
	for _, w := range all {
		if len(w.limits) > 0 {
			err = cl.findRoom(ctx, w, running[w.queue.id])
			if err != nil {
				return nil, err
			}
		}
		w.most = min(w.most, w.ready)
		if w.maxRunning > 0 {
			room := w.maxRunning
			for _, n := range running[w.queue.id] {
				room -= n
			}
			w.most = max(0, min(w.most, room))
		}
		if w.rate != nil {
			err = cl.applyRate(ctx, w)
			if err != nil {
				return nil, err
			}
		}
		if w.allLines == 1 && !w.lines[0].scoped && len(cl.except) == 0 && w.rate == nil && len(w.limits) == 0 {
			cl.d.alone.Store(w.queue.id, w.lines[0].line)
		} else if len(w.lines) > 0 {
			cl.d.alone.Delete(w.queue.id)
		}
	}
	return slices.DeleteFunc(all, func(w *work) bool { return w.most <= 0 }), nil
}

// countLimited counts the running jobs by type, of the queues with a limit, in one round trip.
func (cl *claim) countLimited(ctx context.Context, all []*work) (running map[int32]map[string]int, err error) {
	var limited []int32
	running = map[int32]map[string]int{}
	for _, w := range all {
		if w.ready > 0 && (w.maxRunning > 0 || len(w.limits) > 0) {
			limited, running[w.queue.id] = append(limited, w.queue.id), map[string]int{}
		}
	}
	if len(limited) == 0 {
		return running, nil
	}
	err = cl.d.readPlanned(ctx, limitedOfQueues, func(r *row) error {
		queue := r.key()
		return countInto(running[queue])(r)
	}, limited)
	return running, err
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
