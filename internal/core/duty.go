package core

import "time"

// recoverPeriod is the longest interval between recoveries. A lease that a driver must
// observe for its whole length may last up to twice this time longer, which is a minute.
const recoverPeriod = 30 * time.Second

// cancelsPeriod is about how long a process runs jobs without asking which of them are to be canceled.
const cancelsPeriod = 2 * time.Minute

// recover hands back the leases of dead processes, so that their jobs run again less than a
// heartbeat after the leases ran out. Each process on the store does so: electing one
// process would cost more than the query, which most often finds nothing. While the store
// fails, or has just come back, recovery waits, so that live processes renew their leases
// first.
func (c *Core) recover() {
	c.timers.set(recoverTimer, c.now.Mono+min(c.heartbeat(), recoverPeriod))
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
	c.do(Recover{Call: c.call(recoverCall, dutyLimit).Call, Keep: leasesOf(c.held)})
}

// recovered continues with the removal of finished jobs, which happens after each recovery,
// whether it failed or not.
func (c *Core) recovered(e Recovered) {
	if c.answer(e.Call, e.Err) == nil {
		return
	}
	if e.Err != nil {
		c.do(Report{"could not recover stale jobs", e.Err})
	}
	if e.Jobs > 0 {
		c.claimDue() // some may have expired, while all workers are busy
	}
	if c.now.Mono-c.cancelsAsked >= cancelsPeriod {
		c.checkCancels() // a notification can be lost
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

// retriesPause is the minimum interval between scans for retries that are made because queues
// were opened.
const retriesPause = time.Second

// failedScanPause is the longest time from a scan for retries that failed to the next.
const failedScanPause = 10 * time.Second

// scanRetries scans for jobs whose retry was left by a dead process: in queues that were resumed
// since the last scan, and once per interval in all.
func (c *Core) scanRetries() {
	c.timers.set(retriesTimer, c.now.Mono+c.config.RetryScan)
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
	if c.answer(e.Call, e.Err) == nil {
		return
	}
	if e.Err != nil {
		c.do(Report{"could not scan for jobs to retry", e.Err})
		c.timers.set(retriesTimer, c.now.Mono+min(c.config.RetryScan, failedScanPause))
	}
	if c.rescanRetries {
		c.scanRetries()
	}
}
