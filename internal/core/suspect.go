package core

import (
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// suspectAfter is the number of interruptions from which on a job is suspected of ending
// its processes. Such a job runs alone, so that no other job is interrupted with it.
const suspectAfter = 3

// alonePatience is the longest time that a suspect waits until it is alone.
const alonePatience = time.Minute

// maxAlone is the longest time that a suspect runs alone. A job that runs for hours, or does not return, must not stop
// its process.
const maxAlone = 10 * time.Minute

// isSuspect reports whether a run must run alone.
func (r *Run) isSuspect() bool { return r.Record.Status.Interruptions.Total() >= suspectAfter }

// isInterruptedTooOften reports whether the job of a run must be parked.
func (r *Run) isInterruptedTooOften(l *Line) bool { return l.IsInterruptedTooOften(r.Record) }

// IsInterruptedTooOften reports whether a job of the line must be parked.
func (l *Line) IsInterruptedTooOften(r *driver.Record) bool {
	limit := l.InterruptionLimit(r)
	return limit > 0 && r.Status.Interruptions.Total() >= limit
}

// InterruptionLimit returns how often a job of the line may be interrupted; 0 for no limit.
func (l *Line) InterruptionLimit(r *driver.Record) int {
	if own := r.RetryInfo.MaxInterruptions; own > 0 {
		return own
	}
	return l.MaxInterruptions
}

// awaitAlone makes a suspect wait until the process holds no other lease: if the process
// dies, the leases of finished or unstarted runs would be lost too. Until the suspect has
// returned, or has run for maxAlone, nothing is claimed. It waits at most a minute or the length of a lease,
// whichever is shorter, because jobs that run for hours must not stop a process.
func (c *Core) awaitAlone(l *Line, r *Run) {
	c.alone, r.suspectOf = r, l
	c.handBackAhead(nil)
	c.timers.set(aloneTimer, c.now.Mono+min(c.config.LeaseTime, alonePatience))
}

// Alone reports whether claims are suspended, because a run is alone or waits until it can be.
func (c *Core) Alone() bool { return c.alone != nil }

// startAlone starts the waiting suspect if its lease is the only one.
func (c *Core) startAlone() {
	if len(c.held) == 1 {
		c.startNotAlone()
	}
}

// startNotAlone starts the waiting suspect if one exists and it can start.
func (c *Core) startNotAlone() {
	c.endHopelessSuspect()
	if r := c.alone; r != nil && r.suspectOf != nil {
		l := r.suspectOf
		r.suspectOf = nil
		c.timers.clear(aloneTimer)
		c.timers.set(aloneTimer, c.now.Mono+maxAlone)
		c.start(l, r)
	}
}

// aloneForLong starts a suspect that has waited too long until it is alone, or lets others run beside one that has run
// alone for too long.
func (c *Core) aloneForLong() {
	if r := c.alone; r != nil && r.suspectOf == nil {
		c.endAlone(r)
		return
	}
	c.startNotAlone()
}

// endHopelessSuspect hands back the waiting suspect if it can no longer start: nothing is
// claimed until it is gone.
func (c *Core) endHopelessSuspect() {
	r := c.alone
	if r == nil || r.suspectOf == nil {
		return
	}
	if l := r.suspectOf; l.stopped || c.closing || len(l.waiting) == 0 || r.isLost() {
		c.handBackSuspect()
	}
}

// handBackSuspect hands back the waiting suspect if one exists.
func (c *Core) handBackSuspect() {
	if r := c.alone; r != nil && r.suspectOf != nil {
		r.suspectOf = nil
		c.finish(r, End{HandBack: &driver.HandBack{}})
	}
}

// endAlone allows other runs again when the suspect has returned, is stuck, or has run for maxAlone.
func (c *Core) endAlone(r *Run) {
	if c.alone == r {
		c.alone = nil
		c.timers.clear(aloneTimer)
		c.changed()
	}
}
