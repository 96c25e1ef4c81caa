package core

import (
	"container/heap"
	"time"
)

// rated are the lines of queues whose rate lets no more jobs start for a while, as a heap by the
// time when it does. The cost of an operation does not depend on the number of other lines.
type rated []*Line

// awaitRates makes sure that queues are claimed from when their rates let jobs start. A wait
// counts from when the claim was answered, so that it is never too short.
func (c *Core) awaitRates(call *call, e Claimed) {
	if call.givenUp || e.Err != nil {
		return // another claim knows more
	}
	if len(c.rated) > 0 {
		for _, a := range call.asks {
			if a.want > 0 {
				c.rated.remove(a.line)
			}
		}
	}
	for _, w := range e.Waits {
		if l := c.lines[w.Queue]; l != nil && !l.stopped {
			l.waitedForRate, l.waitedAt = true, c.now.Mono
			c.rated.set(l, c.now.Mono+max(w.For, minRateWait))
		}
	}
	c.setRateTimer()
}

// minRateWait bounds the claims of a queue whose driver reports no time.
const minRateWait = time.Millisecond

// claimRated claims from the queues whose rates let jobs start by now.
func (c *Core) claimRated() {
	for len(c.rated) > 0 && c.rated[0].ratedFrom <= c.now.Mono {
		l := c.rated[0]
		c.rated.remove(l)
		c.mayHave(l)
	}
	c.setRateTimer()
	c.claimIfUseful()
}

func (c *Core) setRateTimer() {
	if len(c.rated) > 0 {
		c.timers.set(rateTimer, c.rated[0].ratedFrom)
	}
}

// set adds a line, or changes its time.
func (h *rated) set(l *Line, at time.Duration) {
	l.ratedFrom = at
	if l.rated != 0 {
		heap.Fix((*ratedHeap)(h), l.rated-1)
		return
	}
	heap.Push((*ratedHeap)(h), l)
}

// remove removes a line, if it is in the heap.
func (h *rated) remove(l *Line) {
	if l.rated != 0 {
		heap.Remove((*ratedHeap)(h), l.rated-1)
	}
}

// ratedHeap implements heap.Interface for rated.
type ratedHeap rated

func (h *ratedHeap) Len() int { return len(*h) }

func (h *ratedHeap) Less(i, j int) bool { return (*h)[i].ratedFrom < (*h)[j].ratedFrom }

func (h *ratedHeap) Swap(i, j int) {
	s := *h
	s[i], s[j] = s[j], s[i]
	s[i].rated, s[j].rated = i+1, j+1
}

func (h *ratedHeap) Push(l any) {
	*h = append(*h, l.(*Line))
	l.(*Line).rated = len(*h)
}

func (h *ratedHeap) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	l.rated = 0
	return l
}
