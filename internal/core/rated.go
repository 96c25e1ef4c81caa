package core

import (
	"time"

	"github.com/mongodb/amboy/internal/heap"
)

// newRated returns an empty heap of lines, by when the rates of their queues let more jobs start.
func newRated() heap.Heap[*Line] {
	return heap.New(
		func(a, b *Line) bool { return a.ratedFrom < b.ratedFrom },
		func(l *Line) *int { return &l.rated })
}

// awaitRates makes sure that queues are claimed from when their rates let jobs start. A wait
// counts from when the claim was answered, so that it is never too short.
func (c *Core) awaitRates(call *call, e Claimed) {
	if call.givenUp || e.Err != nil {
		return // another claim knows more
	}
	if c.rated.Len() > 0 {
		for _, a := range call.asks {
			if a.want > 0 {
				c.rated.Remove(a.line)
			}
		}
	}
	for _, w := range e.Waits {
		if l := c.lines[w.Queue]; l != nil && !l.stopped {
			l.waitedForRate, l.waitedAt = true, c.now.Mono
			l.ratedFrom = c.now.Mono + max(w.For, minRateWait)
			c.rated.Put(l)
		}
	}
	c.setRateTimer()
}

// minRateWait bounds the claims of a queue whose driver reports no time.
const minRateWait = time.Millisecond

// claimRated claims from the queues whose rates let jobs start by now.
func (c *Core) claimRated() {
	for c.rated.Len() > 0 && c.rated.First().ratedFrom <= c.now.Mono {
		c.mayHave(c.rated.Pop())
	}
	c.setRateTimer()
	c.claimIfUseful()
}

func (c *Core) setRateTimer() {
	if c.rated.Len() > 0 {
		c.timers.set(rateTimer, c.rated.First().ratedFrom)
	}
}
