package core

import "time"

// recoverPeriod is the longest interval between recoveries, or between surveys. A lease that a
// driver must observe for its whole length may last up to twice this time longer, which is a
// minute.
const recoverPeriod = 30 * time.Second

// surveySpread is the part of the longest interval by which surveys come earlier at random, so that
// the processes on a store do not all claim at once what a survey finds.
const surveySpread = 5

// minLag and maxLag bound the random time from the end of a lease to an early survey. minLag allows
// for clocks that do not run alike.
const (
	minLag = 50 * time.Millisecond
	maxLag = time.Second
)

// cancelsPeriod is about how long a process runs jobs without asking which of them are to be canceled.
const cancelsPeriod = 2 * time.Minute

// recover hands back the leases of dead processes, so that their jobs run again less than a
// heartbeat after the leases ran out. Each process on the store does so: electing one
// process would cost more than the query, which most often finds nothing. While the store
// fails, or has just come back, recovery waits, so that live processes renew their leases
// first.
func (c *Core) recover() {
	c.timers.set(recoverTimer, c.now.Mono+c.untilRecovery())
	if c.closing || c.calls.busy(recoverCall) {
		return
	}
	if c.failing {
		// Any call shows whether the store is back.
		c.owesRecovery = true
		if !c.calls.busy(cancelCall) {
			c.do(CheckCancels{c.call(cancelCall, callLimit).Call})
		}
		return
	}
	if c.config.Surveys {
		c.lookClaims, c.lookLeft = true, true
		c.look()
		return
	}
	c.recoverLeases()
}

// recoverEvery returns the longest time from one recovery or survey to the next.
func (c *Core) recoverEvery() time.Duration {
	period := min(c.heartbeat(), recoverPeriod)
	if c.config.Surveys {
		period = min(period, c.config.RetryScan)
	}
	return period
}

// untilRecovery returns the time from one recovery or survey to the next.
func (c *Core) untilRecovery() time.Duration {
	period := c.recoverEvery()
	if c.config.Surveys && period == recoverPeriod {
		period -= c.random(period / surveySpread)
	}
	return period
}

// random returns a random time, less than a limit.
func (c *Core) random(limit time.Duration) time.Duration {
	return time.Duration(c.config.Random() * float64(limit))
}

func (c *Core) recoverLeases() {
	c.do(Recover{Call: c.call(recoverCall, dutyLimit).Call, Keep: leasesOf(c.held)})
}

// surveyed does what a survey found to be necessary.
func (c *Core) surveyed(e Looked) {
	switch {
	case e.StaleIn > 0:
		c.surveyEarly(e.StaleIn)
		c.maintain()
	case c.now.Mono < c.recoverFrom: // the store is back with this answer
		c.timers.set(recoverTimer, c.recoverFrom)
	case !c.closing && !c.calls.busy(recoverCall):
		c.recoverLeases()
	}
	for _, w := range e.Work.Queues {
		if l := c.lines[w.Queue]; w.Retrying && l != nil && l.isActive() {
			c.timers.set(retriesTimer, max(c.now.Mono, c.allRetriesFrom))
		}
	}
	c.fire()
}

// surveyEarly makes the next survey come soon after a lease ends, if that is before its regular
// time. Live processes renew their leases long before, so that is rare. But there may always be
// leases that end soon: of processes with shorter leases, or of outside workers, who do not renew
// theirs. So one survey in a period may be early.
func (c *Core) surveyEarly(in time.Duration) {
	at := c.now.Mono + in + minLag + c.random(min(c.recoverEvery()/surveySpread, maxLag))
	if at >= c.earlyFrom && at < c.timers.at[recoverTimer] {
		c.earlyFrom = at + c.recoverEvery()
		c.timers.set(recoverTimer, at)
	}
}

// recovered continues with maintain, whether the recovery failed or not.
func (c *Core) recovered(e Recovered) {
	call := c.answer(e.Call, e.Err)
	if call == nil {
		return
	}
	if e.Err != nil {
		c.reportFailure(call, "could not recover stale jobs", e.Err)
	}
	if e.Jobs > 0 {
		c.claimDue() // some may have expired, while all workers are busy
	}
	c.maintain()
}

// maintain asks for lost requests to cancel and removes finished jobs, after each recovery and
// after each survey without one.
func (c *Core) maintain() {
	if c.now.Mono-c.cancelsAsked >= cancelsPeriod {
		c.checkCancels() // a notification can be lost
	}
	if !c.closing && !c.calls.busy(forgetCall) {
		c.do(Forget{c.call(forgetCall, dutyLimit).Call})
	}
}

func (c *Core) forgotten(e Forgotten) {
	if call := c.answer(e.Call, e.Err); call != nil && e.Err != nil {
		c.reportFailure(call, "could not remove finished jobs", e.Err)
	}
}

// retriesPause is the minimum interval between scans for retries that are made because queues
// were opened.
const retriesPause = time.Second

// failedScanPause is the longest time from a scan for retries that failed to the next.
const failedScanPause = 10 * time.Second

// scanRetries scans for jobs whose retry was left by a dead process: in queues that were resumed
// since the last scan, and once per interval in all.
func (c *Core) scanRetries() {
	if !c.config.Surveys {
		c.timers.set(retriesTimer, c.now.Mono+c.config.RetryScan)
	}
	if c.closing {
		return
	}
	c.rescanRetries = c.calls.busy(retriesCall)
	if !c.rescanRetries {
		c.retriesFrom = c.now.Mono + retriesPause
		all := c.now.Mono >= c.allRetriesFrom
		if all {
			c.allRetriesFrom = c.now.Mono + c.config.RetryScan
		} else {
			c.timers.set(retriesTimer, c.allRetriesFrom)
		}
		c.do(ScanRetries{Call: c.call(retriesCall, dutyLimit).Call, All: all})
	}
}

func (c *Core) retriesScanned(e RetriesScanned) {
	call := c.answer(e.Call, e.Err)
	if call == nil {
		return
	}
	if e.Err != nil {
		c.reportFailure(call, "could not scan for jobs to retry", e.Err)
		c.timers.set(retriesTimer, c.now.Mono+min(c.config.RetryScan, failedScanPause))
	}
	if c.rescanRetries {
		c.scanRetries()
	}
}
