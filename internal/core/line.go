package core

import (
	"container/list"
	"slices"
)

// Line is a queue, and the workers that wait for a job of it.
type Line struct {
	// Queue is its name.
	Queue string
	// MaxInterruptions is how often a job of it may be interrupted, unless the job says; 0
	// for no limit.
	MaxInterruptions int

	place    *list.Element
	waiting  []*Worker // the last to come is the first to be served: its memory is warm
	out      int       // runs that have not returned
	watching int
	asked    int // its place in the last claim
	checked  int // the epoch in which there was nothing more
	resumed  bool
	stopped  bool
}

// Worker is one that takes jobs of a queue.
type Worker struct {
	Line *Line
	// Shell is the shell's own.
	Shell any
}

// Watching is the number of those who want to know when the queue is idle.
func (l *Line) Watching() int { return l.watching }

func (l *Line) isActive() bool { return l.resumed && !l.stopped }

// change changes what makes a line count among those that wait.
func (c *Core) change(l *Line, do func()) {
	c.count(l, -1)
	do()
	c.count(l, 1)
}

func (c *Core) count(l *Line, by int) {
	if !l.isActive() || len(l.waiting) == 0 {
		return
	}
	c.waitingLines += by
	if l.checked == c.epoch {
		c.waitingChecked += by
	}
}

func (c *Core) open(l *Line) {
	if before := c.lines[l.Queue]; before != nil {
		// It is about to be closed, and must not claim for this one's workers.
		c.stop(before)
		c.order.Remove(before.place)
	}
	l.place = c.order.PushFront(l)
	c.lines[l.Queue] = l
}

func (c *Core) resume(l *Line) {
	c.change(l, func() { l.resumed = true })
	if !c.begun {
		c.begun = true
		c.timers.set(recoverTimer, c.now.Mono)
	}
	c.timers.set(retriesTimer, c.now.Mono)
	c.fire()
	c.changed()
}

// stop sends the workers away that wait, and those that will.
func (c *Core) stop(l *Line) {
	c.change(l, func() { l.stopped = true })
	for _, w := range l.waiting {
		c.do(Dismiss{w})
	}
	c.waiting -= len(l.waiting)
	l.waiting = nil
	c.endHopelessSuspect()
}

func (c *Core) remove(l *Line) {
	if c.lines[l.Queue] == l {
		delete(c.lines, l.Queue)
	}
	c.order.Remove(l.place)
}

// wait puts a worker in its line, where it stays until Start, Dismiss or Gone.
func (c *Core) wait(w *Worker) {
	l := w.Line
	if l.stopped {
		c.do(Dismiss{w})
		return
	}
	c.change(l, func() { l.waiting = append(l.waiting, w) })
	c.waiting++
	c.claimIfUseful()
}

// leave takes a worker out that gives up.
func (c *Core) leave(w *Worker) {
	l := w.Line
	if i := slices.Index(l.waiting, w); i >= 0 {
		c.change(l, func() { l.waiting = slices.Delete(l.waiting, i, i+1) })
		c.waiting--
	}
	c.endHopelessSuspect()
}

// next takes the worker out of a line that is to be served.
func (c *Core) next(l *Line) *Worker {
	last := len(l.waiting) - 1
	w := l.waiting[last]
	c.change(l, func() {
		l.waiting[last] = nil
		l.waiting = l.waiting[:last]
	})
	c.waiting--
	return w
}
