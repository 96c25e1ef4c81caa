package core

import (
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// suspectAfter is the number of interruptions from which on a job may be what ends its
// processes. Such a job runs alone, so that no other job is interrupted with it.
const suspectAfter = 3

// alonePatience is how long a suspect waits until it is alone, if a lease lasts no shorter.
const alonePatience = time.Minute

// isSuspect reports whether a run must not run beside others.
func (r *Run) isSuspect() bool { return r.Record.Status.Interruptions.Total() >= suspectAfter }

// isInterruptedTooOften reports whether the job of a run is to be parked.
func (r *Run) isInterruptedTooOften(l *Line) bool {
	limit := l.InterruptionLimit(r.Record)
	return limit > 0 && r.Record.Status.Interruptions.Total() >= limit
}

// InterruptionLimit is how often a job of the line may be interrupted; 0 for no limit.
func (l *Line) InterruptionLimit(r *driver.Record) int {
	if own := r.RetryInfo.MaxInterruptions; own > 0 {
		return own
	}
	return l.MaxInterruptions
}

// awaitAlone lets a suspect wait until the process holds no other lease: that of a run
// that has ended, or was never begun, would be lost with it too. Until the suspect has
// returned nothing is claimed. It waits no longer than a minute, or than a lease lasts: jobs
// that run for hours must not stop a process.
func (c *Core) awaitAlone(l *Line, r *Run) {
	c.alone, r.suspectOf = r, l
	c.timers.set(aloneTimer, c.now.Mono+min(c.config.LeaseTime, alonePatience))
}

// Alone reports whether nothing is claimed, because a run is alone or waits until it can be.
func (c *Core) Alone() bool { return c.alone != nil }

// startAlone starts the suspect that waits, if its lease is the only one.
func (c *Core) startAlone() {
	if len(c.held) == 1 {
		c.startNotAlone()
	}
}

// startNotAlone starts the suspect that waits, if there is one and it can start.
func (c *Core) startNotAlone() {
	c.endHopelessSuspect()
	if r := c.alone; r != nil && r.suspectOf != nil {
		l := r.suspectOf
		r.suspectOf = nil
		c.start(l, r)
	}
}

// endHopelessSuspect hands the suspect that waits back, if there is one, when it can't
// start any more: until it has gone nothing is claimed.
func (c *Core) endHopelessSuspect() {
	r := c.alone
	if r == nil || r.suspectOf == nil {
		return
	}
	if l := r.suspectOf; l.stopped || c.closing || len(l.waiting) == 0 || r.isLost() {
		c.handBackSuspect()
	}
}

// handBackSuspect hands the suspect back that waits, if there is one.
func (c *Core) handBackSuspect() {
	if r := c.alone; r != nil && r.suspectOf != nil {
		r.suspectOf = nil
		c.finish(r, End{HandBack: &driver.HandBack{}})
	}
}

// endAlone lets others run again when the suspect has returned, or does not.
func (c *Core) endAlone(r *Run) {
	if c.alone == r {
		c.alone = nil
		c.timers.clear(aloneTimer)
		c.changed()
	}
}
