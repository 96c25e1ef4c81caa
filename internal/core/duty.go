package core

import "time"

// recoverPeriod is the longest time between two recoveries. A lease that a driver must
// see for its whole length lasts up to twice as long as that longer, which is a minute.
const recoverPeriod = 30 * time.Second

// recover hands back what processes held that died, so that it runs again less than a
// heartbeat after its leases ran out. Each process on the store does so: to agree on one
// would cost more than the look, which finds nothing most of the time. While the store
// fails, or has just come back, it waits: those who live must renew their leases first.
func (c *Core) recover() {
	c.timers.set(recoverTimer, c.now.Mono+min(c.heartbeat(), recoverPeriod))
	if c.closing || c.calls.busy(recoverCall) {
		return
	}
	if c.failing {
		// It has to be found out when it is back.
		if !c.calls.busy(cancelCall) {
			c.do(CheckCancels{c.call(cancelCall, callLimit).Call})
		}
		return
	}
	c.do(Recover{Call: c.call(recoverCall, dutyLimit).Call, Keep: leasesOf(c.held)})
}

// recovered goes on with removing finished jobs, which is done as often and whatever
// came of it.
func (c *Core) recovered(e Recovered) {
	if c.answer(e.Call, e.Err) == nil {
		return
	}
	if e.Err != nil {
		c.do(Report{"could not recover stale jobs", e.Err})
	}
	if e.Jobs > 0 {
		c.claimDue() // they may have expired, and all workers be busy
	}
	if !c.closing && !c.calls.busy(forgetCall) {
		c.do(Forget{c.call(forgetCall, dutyLimit).Call})
	}
}

func (c *Core) forgotten(e Forgotten) {
	if c.answer(e.Call, e.Err) != nil && e.Err != nil {
		c.do(Report{"could not remove finished jobs", e.Err})
	}
}

// retriesPause is how long after a look for retries the next one is made at the earliest,
// because of queues that were opened.
const retriesPause = time.Second

// scanRetries looks for jobs whose retry was left by a process that died.
func (c *Core) scanRetries() {
	c.timers.set(retriesTimer, c.now.Mono+c.config.RetryScan)
	if c.closing {
		return
	}
	c.rescanRetries = c.calls.busy(retriesCall)
	if !c.rescanRetries {
		c.retriesFrom = c.now.Mono + retriesPause
		c.do(ScanRetries{c.call(retriesCall, dutyLimit).Call})
	}
}

func (c *Core) retriesScanned(e RetriesScanned) {
	if c.answer(e.Call, e.Err) == nil {
		return
	}
	if e.Err != nil {
		c.do(Report{"could not look for jobs to retry", e.Err})
	}
	if c.rescanRetries {
		c.scanRetries()
	}
}
