package core

import (
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// lookForQueues queries for queues that have work and are not open.
func (c *Core) lookForQueues() {
	c.timers.set(openTimer, c.now.Mono+c.openEvery)
	c.lookOpens = true
	c.look()
}

// maxLookPause is the longest pause after a look. A pause is as long as the look before it
// took, because a look takes longer if more queues have work, and must leave time for that
// work.
const maxLookPause = 250 * time.Millisecond

// look queries the store for the queues that have work. If a look is under way, another one
// follows it, because the first may miss new jobs.
func (c *Core) look() {
	c.lookAgain = c.calls.busy(lookCall)
	switch {
	case c.closing || c.lookAgain:
	case c.now.Mono < c.lookFrom:
		c.timers.set(lookTimer, c.lookFrom)
	case c.opening && !c.lookClaims: // queuesOpened looks again
	default:
		call := c.call(lookCall, callLimit)
		call.claims, call.opens, call.surveys = c.lookClaims, c.lookOpens, c.lookLeft
		c.lookClaims, c.lookOpens, c.lookLeft = false, false, false
		c.do(Look{Call: call.Call, Survey: call.surveys, Within: c.recoverEvery()})
	}
}

// lookFor adds the purposes of a failed look to those of the next one.
func (c *Core) lookFor(call *call) {
	c.lookClaims = c.lookClaims || call.claims
	c.lookOpens = c.lookOpens || call.opens
	c.lookLeft = c.lookLeft || call.surveys
}

// looked claims from the open queues that have work, and has the others opened.
func (c *Core) looked(e Looked) {
	call := c.answer(e.Call, e.Err)
	if call == nil {
		return
	}
	c.lookFrom = c.now.Mono + min(c.now.Mono-call.sent, maxLookPause)
	if e.Err != nil {
		c.reportFailure(call, "could not query which queues have work", e.Err)
		c.lookFor(call)
		c.timers.set(pollTimer, c.now.Mono+claimRetry)
	}
	var closed []string
	for _, w := range e.Work.Queues {
		l := c.lines[w.Queue]
		switch {
		case l == nil || l.stopped:
			if call.opens {
				closed = append(closed, w.Queue)
			}
		case call.claims:
			if w.Ready {
				c.mayHave(l)
			}
			if w.Expired {
				c.mayHaveExpired(l)
			}
		}
	}
	if call.claims && e.Err == nil {
		c.reportDrained(e.Work)
	}
	if call.opens {
		c.openQueues(closed)
	}
	if call.surveys && e.Err == nil {
		c.surveyed(e)
	}
	c.dueAt(e.Work.Next)
	c.setPoll()
	c.claimIfUseful()
	if c.lookAgain {
		c.lookAgain = false
		c.look()
	}
}

// reportDrained reports the watched queues that have no work.
func (c *Core) reportDrained(work driver.Work) {
	if len(c.watched) == 0 {
		return
	}
	hasWork := make(map[string]bool, len(work.Queues))
	for _, w := range work.Queues {
		hasWork[w.Queue] = w.Ready || w.Expired
	}
	for _, l := range c.watched {
		if l.out == 0 && !hasWork[l.Queue] {
			c.do(Drained{l})
		}
	}
}

// openQueues has queues opened. If others are being opened, another look follows afterwards.
func (c *Core) openQueues(names []string) {
	switch {
	case len(names) == 0 || c.closing:
	case c.opening:
		c.lookOpens = true
	default:
		c.opening = true
		c.do(OpenQueues{names})
	}
}

func (c *Core) queuesOpened() {
	c.opening = false
	if c.lookOpens {
		c.look()
	}
}
