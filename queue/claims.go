package queue

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/wait"
)

// claims hands claimed records to the workers that wait for one. There is no
// goroutine to fetch them: the first worker that waits claims for all that do,
// so that no record is leased without a worker. The others sleep until there is
// a record for them, or something new to claim.
type claims struct {
	claim func(ctx context.Context, limit int) (driver.Claimed, error)
	// timer makes the claimer look again at a time.
	timer wakeTimer
	// poll is how often it looks without a reason; 0 for never.
	poll time.Duration

	mu       sync.Mutex
	line     wait.Line
	records  []*driver.Record // claimed, for workers that are waking up
	waking   int
	claiming bool
	maybe    bool // there may be something to claim
	resumed  bool // the queue is ready for what is claimed
	stopped  bool
}

// claimRetry is how long the claimer waits after an error of the driver.
const claimRetry = time.Second

func newClaims(claim func(context.Context, int) (driver.Claimed, error), timeCame func()) *claims {
	c := &claims{claim: claim, maybe: true}
	c.timer.fire = timeCame
	return c
}

// signal says that there may be something new to claim. It tells whether a
// worker is there to look.
func (c *claims) signal() bool {
	c.mu.Lock()
	c.maybe = true
	woken := c.toWake()
	looks := c.waking > 0 || c.claiming
	c.mu.Unlock()
	wake(woken)
	return looks
}

// resume lets workers claim, which they do not before.
func (c *claims) resume() {
	c.mu.Lock()
	c.resumed = true
	c.mu.Unlock()
	c.signal()
}

// mayClaim tells whether a worker should claim.
func (c *claims) mayClaim() bool { return c.resumed && c.maybe && !c.claiming }

// toWake takes as many workers out of the line as there are records for, and one
// more where somebody should claim.
func (c *claims) toWake() []*wait.Waiter {
	wanted := len(c.records)
	if c.mayClaim() {
		wanted++
	}
	var woken []*wait.Waiter
	for c.waking < wanted {
		w := c.line.TakeLast()
		if w == nil {
			break
		}
		c.waking++
		woken = append(woken, w)
	}
	return woken
}

func wake(woken []*wait.Waiter) {
	for _, w := range woken {
		w.Wake()
	}
}

// next returns a claimed record; nil when ctx ends or the claims are stopped.
func (c *claims) next(ctx context.Context) *driver.Record {
	c.mu.Lock()
	for ctx.Err() == nil && !c.stopped {
		if len(c.records) > 0 {
			r := c.records[0]
			c.records[0] = nil
			c.records = c.records[1:]
			woken := c.toWake()
			c.mu.Unlock()
			wake(woken)
			return r
		}
		if c.mayClaim() {
			c.claimForAll(ctx)
			continue
		}
		if !c.sleep(ctx) {
			break
		}
	}
	woken := c.toWake()
	c.mu.Unlock()
	wake(woken)
	return nil
}

// sleep waits in the line; false where ctx ended. It is called, and returns,
// with the lock.
func (c *claims) sleep(ctx context.Context) bool {
	w := c.line.Join()
	c.mu.Unlock()
	err := w.Wait(ctx)
	c.mu.Lock()
	if err != nil {
		if c.line.Leave(w) {
			return false
		}
		c.mu.Unlock()
		w.Drain()
		c.mu.Lock()
	}
	c.waking--
	c.line.Reuse(w)
	return err == nil
}

// claimForAll claims a record for this worker and for each that waits. It is
// called, and returns, with the lock, which it gives up while the driver works.
func (c *claims) claimForAll(ctx context.Context) {
	limit := 1 + c.line.Len()
	c.claiming, c.maybe = true, false
	c.mu.Unlock()
	claimed, err := c.claim(ctx, limit)
	if at := claimed.Next; !at.IsZero() {
		c.timer.set(at)
	}
	if err != nil && ctx.Err() == nil {
		c.timer.set(time.Now().Add(claimRetry))
	}
	if c.poll > 0 {
		c.timer.set(time.Now().Add(c.poll/2 + rand.N(c.poll)))
	}
	c.mu.Lock()
	c.claiming = false
	c.records = append(c.records, claimed.Records...)
	if len(claimed.Records) >= limit || ctx.Err() != nil {
		c.maybe = true
	}
	woken := c.toWake()
	c.mu.Unlock()
	wake(woken)
	c.mu.Lock()
}

// stop makes next return nil.
func (c *claims) stop() {
	c.mu.Lock()
	c.stopped = true
	all := c.line.TakeAll()
	c.waking += len(all)
	c.mu.Unlock()
	wake(all)
	c.timer.stop()
}

// leftover returns the records that were claimed and not handed out, after stop.
func (c *claims) leftover() []*driver.Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := c.records
	c.records = nil
	return left
}
