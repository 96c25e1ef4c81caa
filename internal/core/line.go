package core

import (
	"container/list"
	"slices"
	"time"
)

// Line is a queue with the workers that wait for a job of it.
type Line struct {
	// Queue is the queue's name.
	Queue string
	// MaxInterruptions is how often a job of the queue may be interrupted, unless the job
	// sets its own limit; 0 for no limit.
	MaxInterruptions int

	place   *list.Element
	waiting []*Worker // a stack: the last to come is served first, because its memory is warm
	out     int       // runs that have not returned
	ended   int       // runs that have returned
	ahead   int       // runs that wait for a worker
	workers int       // the most workers that have waited or run at once
	// served is the number of the last service of the line. Until then it is the number of its
	// opening, which is less than that of any service.
	served   int
	watching int
	asked    int // index in the asks of the last claim
	// mayHave is false if the last claim found nothing more in the queue. changed is true
	// if that may have changed since the last claim was sent.
	mayHave, changed bool
	// mayHaveExpired is true if a job may have expired since the last claim was sent.
	mayHaveExpired bool
	candidate      int // position in the candidates; 0 if it is not one
	counted        int // how many of its workers the candidates count
	resumed        bool
	stopped        bool
	// ratedFrom is when the rate of the queue lets more jobs start, while the line is in
	// Core.rated.
	ratedFrom time.Duration
	// waitedForRate is true if the queue has waited for its rate, the last time at waitedAt.
	waitedForRate bool
	waitedAt      time.Duration
	rated         int // position in Core.rated; 0 if it is not in it
}

// Worker takes jobs of a queue.
type Worker struct {
	Line *Line
	// Shell is the shell's own.
	Shell any
}

// watch changes the number of watchers that want to know when a queue is idle.
func (c *Core) watch(l *Line, by int) {
	l.watching += by
	isWatched, at := l.watching > 0 && !l.stopped, slices.Index(c.watched, l)
	switch {
	case isWatched && at < 0:
		c.watched = append(c.watched, l)
	case !isWatched && at >= 0:
		c.watched = slices.Delete(c.watched, at, at+1)
	}
}

// Watching returns the number of watchers that want to know when the queue is idle.
func (l *Line) Watching() int { return l.watching }

func (l *Line) isActive() bool { return l.resumed && !l.stopped }

func (c *Core) open(l *Line) {
	if before := c.lines[l.Queue]; before != nil {
		// The older line is about to be closed, and must not claim for the new line's workers.
		c.stop(before)
		c.order.Remove(before.place)
	}
	c.opened++
	l.served = c.opened
	l.place = c.order.PushBack(l)
	c.lines[l.Queue] = l
}

func (c *Core) resume(l *Line) {
	l.resumed = true
	c.begin()
	c.timers.set(retriesTimer, max(c.now.Mono, c.retriesFrom)) // once for many that are opened at once
	c.fire()
	c.changedIn(l)
}

// begin starts the recovery of leases of dead processes.
func (c *Core) begin() {
	if !c.begun {
		c.begun = true
		c.timers.set(recoverTimer, c.now.Mono)
	}
}

// stop dismisses the waiting workers, and all that come later.
func (c *Core) stop(l *Line) {
	l.stopped = true
	for _, w := range l.waiting {
		c.do(Dismiss{w})
	}
	l.waiting = nil
	c.candidates.arrange(l)
	c.rated.Remove(l)
	c.handBackAhead(l)
	c.watch(l, 0)
	c.endHopelessSuspect()
}

func (c *Core) remove(l *Line) {
	if c.lines[l.Queue] == l {
		delete(c.lines, l.Queue)
	}
	c.order.Remove(l.place)
}

// wait adds a worker to its line, where it stays until Start, Dismiss or Gone.
func (c *Core) wait(w *Worker) {
	l := w.Line
	if l.stopped {
		c.do(Dismiss{w})
		return
	}
	l.waiting = append(l.waiting, w)
	l.workers = max(l.workers, len(l.waiting)+l.out)
	c.candidates.arrange(l)
	c.serveAhead()
	c.claimIfUseful()
}

// leave removes a worker that gives up.
func (c *Core) leave(w *Worker) {
	l := w.Line
	if i := slices.Index(l.waiting, w); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		c.candidates.arrange(l)
	}
	c.endHopelessSuspect()
}

// next removes and returns the worker that is to be served.
func (c *Core) next(l *Line) *Worker {
	last := len(l.waiting) - 1
	w := l.waiting[last]
	l.waiting[last] = nil
	l.waiting = l.waiting[:last]
	c.candidates.arrange(l)
	return w
}
