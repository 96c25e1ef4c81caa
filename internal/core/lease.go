package core

import (
	"errors"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// cancelLatency is the delay between a change of the store and the query for requests to
// cancel running jobs.
const cancelLatency = 500 * time.Millisecond

// hold adds a run to the leases that are renewed.
func (c *Core) hold(r *Run) {
	c.held = append(c.held, r)
	r.place = len(c.held)
	if r.place == 1 {
		c.timers.set(beatTimer, c.now.Mono+c.heartbeat())
	}
	c.timers.set(fenceTimer, r.fence)
}

// letGo removes a run from the leases that are renewed.
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

// beat renews all leases in one call, except lost ones and those that a transaction may end.
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

// renewedLeases extends the fences of the renewed leases. After an error, also of some leases, the
// renewal is retried sooner than the next heartbeat: nothing is more urgent.
func (c *Core) renewedLeases(e Renewed) {
	var blocked *driver.BlockedLeasesError
	failure := e.Err
	if errors.As(e.Err, &blocked) {
		failure = nil // of the call
	}
	call := c.answer(e.Call, failure)
	if call == nil {
		return
	}
	for _, lease := range e.Lost {
		// A transaction has probably ended it since the renewal was sent. If not, the fence will end it.
		if r := c.find(lease); r == nil || !r.transacted {
			c.lose(lease)
		}
	}
	if e.Err != nil {
		c.reportFailure(call, "could not renew the leases of running jobs", e.Err)
		c.timers.set(beatTimer, c.now.Mono+c.heartbeat()/4)
	}
	if failure != nil {
		return
	}
	for _, r := range call.runs {
		if blocked == nil || !slices.Contains(blocked.Leases, r.Lease) {
			r.fence = max(r.fence, c.fence(call))
		}
	}
	if call.unnoticed > 0 {
		c.timers.set(beatTimer, c.now.Mono) // the call may have been sent long ago, and proves little
	}
	if c.config.PollCancels {
		c.checkCancels()
	}
}

// checkFences ends the contexts of the runs whose lease was not renewed in time. It is
// the first action after the process was suspended.
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

// doubtFences makes the fences earlier by a time that may have passed unnoticed. Runs whose
// leases are renewed at once continue, and the others end. A waiting suspect is handed back:
// it must not start while its lease is in doubt.
func (c *Core) doubtFences(unnoticed time.Duration) {
	if unnoticed > 0 {
		c.handBackSuspect()
		c.handBackAhead(nil)
	}
	for _, r := range c.held {
		r.fence = min(r.fence, max(r.fence-max(0, unnoticed), c.now.Mono+c.renewLimit()))
		c.timers.set(fenceTimer, r.fence)
	}
	for _, call := range c.calls.open {
		call.unnoticed += max(0, unnoticed)
	}
}

// renewLimit is the time limit of a call that renews leases.
func (c *Core) renewLimit() time.Duration { return min(c.heartbeat(), callLimit) }

// lose ends the run whose lease another process has.
func (c *Core) lose(lease driver.Lease) {
	if r := c.find(lease); r != nil {
		r.lost = true
		c.cancel(r, amboy.ErrLeaseLost)
		c.endHopelessSuspect()
	} else if c.calls.awaits(claimCall) {
		c.lostEarly = append(c.lostEarly, lease) // it may belong to the claim that is under way
	}
}

// cancel ends the context of a run, once, unless the run has returned. A lost lease
// replaces an earlier request to cancel as the cause, because a lost run is not ended but
// handed back. A run that waits for a worker is handed back in any case.
func (c *Core) cancel(r *Run, cause error) {
	if r.finishing || r.cause != nil && (r.isLost() || cause != amboy.ErrLeaseLost) { //nolint:errorlint // They are never wrapped here.
		return
	}
	first := r.cause == nil
	r.cause = cause
	if c.dropAhead(r) {
		c.finish(r, End{HandBack: &driver.HandBack{}}) // it ends as canceled if that is the cause
		return
	}
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

// storeChanged schedules a query for runs to cancel, and claims if the change allows it.
func (c *Core) storeChanged(change driver.Change) {
	c.cancels++
	switch {
	case len(c.held) == 0:
	case change.Cancels && !c.calls.busy(cancelCall):
		c.checkCancels()
	default:
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
	c.cancelsAsked = c.now.Mono
	c.do(CheckCancels{c.call(cancelCall, callLimit).Call})
}

func (c *Core) cancelsFound(e CancelsFound) {
	call := c.answer(e.Call, e.Err)
	if call == nil {
		return
	}
	if e.Err != nil {
		c.reportFailure(call, "could not query jobs to cancel", e.Err)
		return
	}
	for _, lease := range e.Leases {
		if r := c.find(lease); r != nil {
			c.cancel(r, amboy.ErrAborted)
		}
	}
}
