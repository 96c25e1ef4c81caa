package queue

import (
	"container/list"
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/wait"
)

// claimer is what claims needs of its owner.
type claimer interface {
	// claim claims records of several queues, and says when to look again.
	claim(ctx context.Context, demands []driver.Demand, limit int) ([]*work, time.Time, error)
	// isExpired tells whether a record was claimed because it has expired.
	isExpired(r *driver.Record) bool
	// expire ends records that were claimed because they have expired.
	expire(ctx context.Context, expired []*work)
	// giveBack hands back what was claimed and has no worker.
	giveBack(ctx context.Context, works []*work)
}

// claims hands claimed records to the workers that wait for one. There is no
// goroutine to fetch them: the first worker that waits claims for all that do, of
// all queues, so that no record is leased without a worker. The others sleep
// until there is a record for them, or something new to claim.
type claims struct {
	owner claimer
	// timer makes a worker look again at a time.
	timer wakeTimer
	// poll is how often one looks without a reason; 0 for never.
	poll time.Duration
	// most is the number of records that may be out at once; 0 for no limit.
	most int

	mu     sync.Mutex
	order  list.List // of *claimLine: first the one that was served least lately
	byName map[string]*claimLine
	// epoch grows when there may be something new to claim.
	epoch    int
	claiming bool
	sleeping int // workers in all lines
	waking   int // workers that were woken, and have not looked yet
	handed   int // records for them
	out      int // records that were claimed and have not ended
	gathered int // workers that were there when the claim before ended
}

// claimLine is the workers of one queue that wait for a record.
type claimLine struct {
	claims *claims
	queue  string
	// drained is called where it is wanted, when nothing was found to claim and
	// nothing is out.
	drained       func(context.Context)
	drainedWanted atomic.Int32 // by how many

	// The lock of claims guards the rest.
	place   *list.Element
	line    wait.Line
	records []*work // claimed, for workers that are waking up
	waking  int
	out     int
	checked int  // the epoch in which there was nothing more
	asked   int  // in the claim that is under way
	got     int  // by it
	resumed bool // the queue is ready for what is claimed
	stopped bool
}

// claimRetry is how long nobody claims after an error of the driver.
const claimRetry = time.Second

func newClaims(most int, owner claimer, timeCame func()) *claims {
	c := &claims{owner: owner, most: most, epoch: 1, byName: map[string]*claimLine{}}
	c.timer.fire = timeCame
	return c
}

// join adds a queue, from whose line workers can take records once it is resumed.
func (c *claims) join(queue string, drained func(context.Context)) *claimLine {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &claimLine{claims: c, queue: queue, drained: drained}
	if before := c.byName[queue]; before != nil {
		// It is about to be closed, and must not claim for this one's workers.
		before.stopped = true
		c.order.Remove(before.place)
	}
	l.place = c.order.PushFront(l)
	c.byName[queue] = l
	return l
}

// signal says that there may be something new to claim. It tells whether somebody
// is sure to look.
func (c *claims) signal() bool {
	c.mu.Lock()
	c.epoch++
	woken := c.toWake(nil)
	// Those who were woken before may find a record, and not look.
	looks := len(woken) > 0 || c.claiming
	c.mu.Unlock()
	wake(woken)
	return looks
}

// done says that a record is not out any more.
func (c *claims) done(w *work) {
	c.mu.Lock()
	if w.line == nil {
		c.mu.Unlock()
		return // it expired, and was never given to a line
	}
	c.out--
	w.line.out--
	woken := c.toWake(nil)
	c.mu.Unlock()
	wake(woken)
}

// resume lets the workers of a queue claim, which they do not before.
func (l *claimLine) resume() {
	l.claims.mu.Lock()
	l.resumed = true
	l.claims.mu.Unlock()
	l.claims.signal()
}

// hasRoom tells whether one more record may be out.
func (c *claims) hasRoom() bool { return c.most == 0 || c.out < c.most }

// mayClaim tells whether a worker of a line should claim.
func (c *claims) mayClaim(l *claimLine) bool {
	return l.resumed && !l.stopped && l.checked != c.epoch && !c.claiming && c.hasRoom()
}

// toWake takes as many workers out of a line as there are records for, and one
// more, of whatever line, where somebody should claim.
func (c *claims) toWake(l *claimLine) []*wait.Waiter {
	var woken []*wait.Waiter
	if l != nil {
		for l.waking < len(l.records) && l.line.Len() > 0 {
			woken = append(woken, l.take())
		}
	}
	if c.sleeping == 0 || c.claiming || c.waking > c.handed {
		return woken
	}
	for e := c.order.Front(); e != nil; e = e.Next() {
		l := e.Value.(*claimLine)
		if l.line.Len() > 0 && c.mayClaim(l) {
			return append(woken, l.take())
		}
	}
	return woken
}

// take takes a worker out of the line, to be woken.
func (l *claimLine) take() *wait.Waiter {
	l.waking++
	l.claims.waking++
	l.claims.sleeping--
	return l.line.TakeLast()
}

func wake(woken []*wait.Waiter) {
	for _, w := range woken {
		w.Wake()
	}
}

// next returns a claimed record; nil when ctx ends or the line is stopped.
func (l *claimLine) next(ctx context.Context) *work {
	c := l.claims
	c.mu.Lock()
	for ctx.Err() == nil && !l.stopped {
		if len(l.records) > 0 {
			w := l.records[0]
			l.records[0] = nil
			l.records = l.records[1:]
			c.handed--
			woken := c.toWake(l)
			c.mu.Unlock()
			wake(woken)
			return w
		}
		if c.mayClaim(l) {
			c.claimForAll(ctx, l)
			continue
		}
		if !l.sleep(ctx) {
			break
		}
		if len(l.records) == 0 && !c.mayClaim(l) {
			c.passOn()
		}
	}
	left := l.withoutWorker()
	woken := c.toWake(l)
	c.mu.Unlock()
	wake(woken)
	c.owner.giveBack(ctx, left)
	return nil
}

// passOn is called by a worker that was woken and has nothing to do: those of other
// lines may have been left asleep for it. It is called, and returns, with the lock.
func (c *claims) passOn() {
	woken := c.toWake(nil)
	c.mu.Unlock()
	wake(woken)
	c.mu.Lock()
}

// withoutWorker takes out the records that no worker is there to take.
func (l *claimLine) withoutWorker() []*work {
	keep := 0
	if !l.stopped {
		keep = min(l.waking+l.line.Len(), len(l.records))
	}
	left := slices.Clone(l.records[keep:])
	clear(l.records[keep:])
	l.records = l.records[:keep]
	l.claims.handed -= len(left)
	return left
}

// sleep waits in the line; false where ctx ended. It is called, and returns,
// with the lock.
func (l *claimLine) sleep(ctx context.Context) bool {
	c := l.claims
	w := l.line.Join()
	c.sleeping++
	c.mu.Unlock()
	err := w.Wait(ctx)
	c.mu.Lock()
	if err != nil {
		if l.line.Leave(w) {
			c.sleeping--
			return false
		}
		c.mu.Unlock()
		w.Drain()
		c.mu.Lock()
	}
	l.waking--
	c.waking--
	l.line.Reuse(w)
	return err == nil
}

// claimForAll claims a record for this worker and for each that waits. It is
// called, and returns, with the lock, which it gives up while the driver works.
func (c *claims) claimForAll(ctx context.Context, own *claimLine) {
	c.claiming = true
	c.gather()
	epoch := c.epoch
	demands, limit := c.ask(own)
	c.mu.Unlock()

	works, next, err := c.owner.claim(ctx, demands, limit)

	c.mu.Lock()
	c.gathered = 1 + c.sleeping
	expired, orphans, woken := c.hand(works, own)
	all := limit > 0 && len(works)-len(expired) >= limit
	idle := c.answer(epoch, all || ctx.Err() != nil)
	c.claiming = false
	woken = append(woken, c.toWake(nil)...)
	c.mu.Unlock()
	wake(woken)
	c.lookAgain(next, err) // not before, as the timer looks only while nobody claims
	c.settle(ctx, expired, orphans)
	for _, l := range idle {
		l.drained(ctx)
	}
	c.mu.Lock()
}

// gatherYields is how often a worker lets others run before it claims for all, where
// there were more of them before. A timer would take longer than what it saves.
const gatherYields = 8

// gather gives workers time to come, where there were more of them when the claim
// before ended: where jobs are short all of them are about to come again, and one
// claim for all costs little more than one for each. It is called, and returns,
// with the lock.
func (c *claims) gather() {
	for i := 0; i < gatherYields && 1+c.sleeping < c.gathered; i++ {
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
	}
}

// ask makes the demands of all queues, in the order in which they should be
// served: who has fewest records out comes first, and then whoever was served
// least lately. Queues whose workers are all busy may have records that expired.
func (c *claims) ask(own *claimLine) (demands []driver.Demand, limit int) {
	lines := make([]*claimLine, 0, c.order.Len())
	uneven := false
	for e := c.order.Front(); e != nil; e = e.Next() {
		l := e.Value.(*claimLine)
		l.asked, l.got = 0, 0
		if !l.resumed || l.stopped {
			continue
		}
		l.asked = l.line.Len()
		if l == own {
			l.asked++
		}
		limit += l.asked
		uneven = uneven || l.out > 0
		lines = append(lines, l)
	}
	if uneven && len(lines) > 1 {
		slices.SortStableFunc(lines, func(a, b *claimLine) int { return a.out - b.out })
	}
	demands = make([]driver.Demand, len(lines))
	for i, l := range lines {
		demands[i] = driver.Demand{Queue: l.queue, Limit: l.asked}
	}
	if c.most > 0 {
		limit = min(limit, c.most-c.out)
	}
	return demands, limit
}

// lookAgain sets the timer for the next look, after one.
func (c *claims) lookAgain(next time.Time, err error) {
	if !next.IsZero() {
		c.timer.set(next)
	}
	if err != nil {
		c.timer.set(time.Now().Add(claimRetry))
	}
	if c.poll > 0 {
		c.timer.set(time.Now().Add(c.poll/2 + rand.N(c.poll/2+1)))
	}
}

// hand gives each line its records. It returns those that expired, those whose
// worker is gone, and the workers to be woken for the others.
func (c *claims) hand(works []*work, own *claimLine) (expired, orphans []*work, woken []*wait.Waiter) {
	for _, w := range works {
		l := c.byName[w.record.Group]
		switch {
		case c.owner.isExpired(w.record):
			expired = append(expired, w)
		case l == nil || !l.hasWorker(l == own):
			orphans = append(orphans, w)
		default:
			w.line = l
			l.out++
			l.got++
			c.out++
			c.handed++
			l.records = append(l.records, w)
			c.order.MoveToBack(l.place)
			woken = append(woken, c.toWake(l)...)
		}
	}
	return expired, orphans, woken
}

// hasWorker tells whether there is a worker for one more record: one who sleeps, or
// wakes up, or the one who claimed it.
func (l *claimLine) hasWorker(claims bool) bool {
	workers := l.waking + l.line.Len()
	if claims {
		workers++
	}
	return !l.stopped && len(l.records) < workers
}

// answer notes for which lines there is nothing more. It returns those where
// somebody wants to know that they are idle.
func (c *claims) answer(epoch int, mayBeMore bool) (idle []*claimLine) {
	for e := c.order.Front(); e != nil; e = e.Next() {
		l := e.Value.(*claimLine)
		if l.asked == 0 {
			continue
		}
		if l.got < l.asked && !mayBeMore {
			l.checked = epoch
		}
		if l.got == 0 && l.out == 0 && l.drainedWanted.Load() > 0 {
			idle = append(idle, l)
		}
	}
	return idle
}

// settle ends records that expired, and hands back those whose worker is gone.
func (c *claims) settle(ctx context.Context, expired, orphans []*work) {
	c.owner.expire(ctx, expired)
	c.owner.giveBack(ctx, orphans)
}

// claimExpired ends the records that have expired, where no worker is free.
func (c *claims) claimExpired(ctx context.Context) {
	c.mu.Lock()
	var demands []driver.Demand
	for e := c.order.Front(); e != nil; e = e.Next() {
		if l := e.Value.(*claimLine); l.resumed && !l.stopped {
			demands = append(demands, driver.Demand{Queue: l.queue})
		}
	}
	c.mu.Unlock()
	if len(demands) == 0 {
		return
	}
	works, next, err := c.owner.claim(ctx, demands, 0)
	c.lookAgain(next, err)
	c.settle(ctx, works, nil)
}

// stop makes next return nil.
func (l *claimLine) stop() {
	c := l.claims
	c.mu.Lock()
	l.stopped = true
	all := l.line.TakeAll()
	l.waking += len(all)
	c.waking += len(all)
	c.sleeping -= len(all)
	c.mu.Unlock()
	wake(all)
}

// leave takes the queue out, after stop.
func (l *claimLine) leave() {
	c := l.claims
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byName[l.queue] == l {
		delete(c.byName, l.queue)
	}
	c.order.Remove(l.place)
}
