package core

import (
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// cancelLatency is how long it takes at most until a running job notices that it is to
// be canceled, where the store tells of changes.
const cancelLatency = 500 * time.Millisecond

// hold has the lease of a run renewed.
func (c *Core) hold(r *Run) {
	c.held = append(c.held, r)
	r.place = len(c.held)
	if r.place == 1 {
		c.timers.set(beatTimer, c.now.Mono+c.heartbeat())
	}
	c.timers.set(fenceTimer, r.fence)
}

// letGo ends that.
func (c *Core) letGo(r *Run) {
	if r.place == 0 {
		return
	}
	last := len(c.held) - 1
	moved := c.held[last]
	c.held[r.place-1] = moved
	moved.place = r.place
	c.held[last] = nil
	c.held = c.held[:last]
	r.place = 0
}

// beat renews all leases in one call, but for those that are lost, or that a transaction may
// end.
func (c *Core) beat() {
	if len(c.held) == 0 {
		return
	}
	c.timers.set(beatTimer, c.now.Mono+c.heartbeat())
	if c.calls.busy(renewCall) {
		return
	}
	var runs []*Run
	for _, r := range c.held {
		if !r.isLost() && !r.transacted {
			runs = append(runs, r)
		}
	}
	if len(runs) == 0 {
		return
	}
	call := c.call(renewCall, c.renewLimit())
	call.runs = runs
	c.do(Renew{Call: call.Call, Leases: leasesOf(runs)})
}

func (r *Run) isLost() bool { return r.cause == amboy.ErrLeaseLost } //nolint:errorlint // It is never wrapped here.

// renewedLeases puts off the fences of the leases that were renewed. After an error it
// is tried again sooner than the next heartbeat would: nothing is more urgent.
func (c *Core) renewedLeases(e Renewed) {
	call := c.answer(e.Call, e.Err)
	if call == nil {
		return
	}
	for _, lease := range e.Lost {
		c.lose(lease)
	}
	if e.Err != nil {
		c.do(Report{"could not renew the leases of running jobs", e.Err})
		c.timers.set(beatTimer, c.now.Mono+c.heartbeat()/4)
		return
	}
	for _, r := range call.runs {
		r.fence = max(r.fence, c.fence(call))
	}
	if call.unnoticed > 0 {
		c.timers.set(beatTimer, c.now.Mono) // it may have been sent long ago, and proves little
	}
	if c.config.PollCancels {
		c.checkCancels()
	}
}

// checkFences ends the contexts of the runs whose lease was not renewed in time. It is
// the first thing that happens after the process was suspended.
func (c *Core) checkFences() {
	next := never
	for _, r := range c.held {
		switch {
		case r.cause != nil && r.isLost():
		case r.fence <= c.now.Mono:
			c.cancel(r, amboy.ErrLeaseLost)
		default:
			next = min(next, r.fence)
		}
	}
	c.timers.set(fenceTimer, next)
	c.endHopelessSuspect()
}

// doubtFences brings the fences forward by a time that may have passed unnoticed. What is
// renewed at once goes on, and the other runs end. A suspect that waits is handed back: it
// must not begin while its lease is in doubt.
func (c *Core) doubtFences(unnoticed time.Duration) {
	if unnoticed > 0 {
		c.handBackSuspect()
	}
	for _, r := range c.held {
		r.fence = min(r.fence, max(r.fence-max(0, unnoticed), c.now.Mono+c.renewLimit()))
		c.timers.set(fenceTimer, r.fence)
	}
	for _, call := range c.calls.open {
		call.unnoticed += max(0, unnoticed)
	}
}

// renewLimit bounds a call that renews leases.
func (c *Core) renewLimit() time.Duration { return min(c.heartbeat(), callLimit) }

// lose ends a run whose lease is another's.
func (c *Core) lose(lease driver.Lease) {
	if r := c.find(lease); r != nil {
		r.lost = true
		c.cancel(r, amboy.ErrLeaseLost)
		c.endHopelessSuspect()
	} else if c.calls.awaits(claimCall) {
		c.lostEarly = append(c.lostEarly, lease) // by the claim that is under way, it may be
	}
}

// cancel ends the context of a run, once, unless it has returned. The loss of a lease
// counts even after a request to cancel: what follows from it is another.
func (c *Core) cancel(r *Run, cause error) {
	if r.finishing || r.cause != nil && (r.isLost() || cause != amboy.ErrLeaseLost) { //nolint:errorlint // They are never wrapped here.
		return
	}
	first := r.cause == nil
	r.cause = cause
	if first {
		c.do(Cancel{Run: r, Cause: cause})
	}
}

func (c *Core) find(lease driver.Lease) *Run {
	for _, r := range c.held {
		if r.Lease == lease {
			return r
		}
	}
	return nil
}

// storeChanged looks soon which runs are to be canceled, and for jobs.
func (c *Core) storeChanged(change driver.Change) {
	c.cancels++
	if len(c.held) > 0 {
		c.checkCancelsSoon()
	}
	switch {
	case !change.MayClaim:
	case !change.InOneQueue:
		c.changed()
	case c.lines[change.Queue] != nil:
		c.changedIn(c.lines[change.Queue])
	case c.openEvery > 0:
		c.lookOpens = true
		c.look()
	}
}

func (c *Core) checkCancelsSoon() { c.timers.set(cancelTimer, c.now.Mono+cancelLatency) }

func (c *Core) checkCancels() {
	if len(c.held) == 0 || c.calls.busy(cancelCall) {
		return
	}
	c.do(CheckCancels{c.call(cancelCall, callLimit).Call})
}

func (c *Core) cancelsFound(e CancelsFound) {
	if c.answer(e.Call, e.Err) == nil {
		return
	}
	if e.Err != nil {
		c.do(Report{"could not look for jobs to cancel", e.Err})
		return
	}
	for _, lease := range e.Leases {
		if r := c.find(lease); r != nil {
			c.cancel(r, amboy.ErrAborted)
		}
	}
}
