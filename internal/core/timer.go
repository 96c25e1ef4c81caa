package core

import (
	"math"
	"time"
)

// timer identifies an action that is due at a time.
type timer int

const (
	fenceTimer   timer = iota // ends runs whose lease is over
	beatTimer                 // renews leases
	writeTimer                // writes ends
	pollTimer                 // claims jobs
	cancelTimer               // queries runs to cancel
	recoverTimer              // recovers leases of dead processes
	retriesTimer              // scans for retries that other processes left
	callTimer                 // gives up calls
	aloneTimer                // starts a suspect although it is not alone, or others beside it
	lookTimer                 // queries which queues have work
	openTimer                 // queries for queues to open
	gatherTimer               // claims jobs for the workers that have gathered
	rateTimer                 // claims jobs of the queues whose rate lets some start
	aheadTimer                // hands back runs that have waited too long for a worker
	allTimers
)

const never = time.Duration(math.MaxInt64)

// maxWake is the longest time without a Tick, so that nothing depends on a timer that
// was set before the wall clock jumped, or the machine was suspended.
const maxWake = 30 * time.Second

// maxHolderWake is that time while leases are held. A timer does not count the time of a
// suspension, and the runs whose leases have ended meanwhile must end soon after the machine
// resumes.
const maxHolderWake = time.Second

// maxDrift is how far the clocks may move apart between two events before the wall clock
// counts as having jumped.
const maxDrift = time.Second

// timers holds when each action is due.
type timers struct {
	at   [allTimers]time.Duration
	next time.Duration // not later than the earliest timer
	wake time.Duration // the time of the last Wake command
}

func (t *timers) init() {
	for i := range t.at {
		t.at[i] = never
	}
	t.next, t.wake = never, never
}

// set makes sure that an action happens at a time or before.
func (t *timers) set(which timer, at time.Duration) {
	if at < t.at[which] {
		t.at[which] = at
		t.next = min(t.next, at)
	}
}

// clear cancels an action.
func (t *timers) clear(which timer) { t.at[which] = never }

// putOff delays an action until a time, if it is set at all.
func (t *timers) putOff(which timer, to time.Duration) {
	if t.at[which] != never {
		t.at[which] = max(t.at[which], to)
	}
}

// take clears and returns the first timer that is due.
func (t *timers) take(now time.Duration) (which timer, due bool) {
	for i, at := range t.at {
		if at <= now {
			t.at[i] = never
			return timer(i), true
		}
	}
	t.next = never
	for _, at := range t.at {
		t.next = min(t.next, at)
	}
	return 0, false
}

// timePassed does what is due. It runs before the event is handled.
func (c *Core) timePassed(now Time) {
	drift := now.Wall.Sub(c.now.Wall) - (now.Mono - c.now.Mono)
	c.now = now
	if now.Mono >= c.timers.wake {
		c.timers.wake = never
	}
	if drift.Abs() > maxDrift {
		// The process may have been stopped in a way that its clocks do not count, as a host
		// can stop a virtual machine.
		c.timers.set(beatTimer, now.Mono)
		c.timers.set(pollTimer, now.Mono)
		if c.begun {
			// Waits that were computed before the jump may now be too long.
			c.timers.set(recoverTimer, max(now.Mono, c.recoverFrom))
		}
		c.doubtFences(drift)
		c.worked -= max(0, drift) // an outage may have been longer too
	}
	c.fire()
	if !c.due.IsZero() && !c.due.After(now.Wall) {
		c.claimDue()
	}
}

// fire runs all actions that are due.
func (c *Core) fire() {
	for c.timers.next <= c.now.Mono {
		which, due := c.timers.take(c.now.Mono)
		if !due {
			return
		}
		c.fired(which)
	}
}

func (c *Core) fired(which timer) {
	switch which {
	case fenceTimer:
		c.checkFences()
	case beatTimer:
		c.beat()
	case writeTimer:
		c.flush()
	case pollTimer:
		c.poll()
	case cancelTimer:
		c.checkCancels()
	case recoverTimer:
		c.recover()
	case retriesTimer:
		c.scanRetries()
	case aloneTimer:
		c.aloneForLong()
	case lookTimer:
		c.look()
	case openTimer:
		c.lookForQueues()
	case callTimer:
		c.giveUpCalls()
	case gatherTimer:
		c.claimIfUseful()
	case rateTimer:
		c.claimRated()
	case aheadTimer:
		c.endPatience()
	}
}

// setWake asks for a Tick when the next action is due.
func (c *Core) setWake() {
	next := c.timers.next
	if !c.due.IsZero() {
		// The limit is for a time in the far future, which would overflow.
		next = min(next, c.now.Mono+min(max(0, c.due.Sub(c.now.Wall)), maxWake))
	}
	if next == never {
		return
	}
	longest := maxWake
	if len(c.held) > 0 {
		longest = maxHolderWake
	}
	next = min(next, c.now.Mono+longest)
	if next < c.timers.wake {
		c.timers.wake = next
		c.do(Wake{At: next})
	}
}
