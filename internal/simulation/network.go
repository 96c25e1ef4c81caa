package simulation

import (
	"errors"
	"slices"
	"time"

	"github.com/mongodb/amboy/internal/core"
)

// network decides what becomes of messages between processes and their store.
type network interface {
	// fate decides what becomes of a sent call.
	fate(w *World, c *call) fate
	// losesAnswer reports whether the answer to a call that took effect is lost.
	losesAnswer(w *World, c *call) bool
	// notification returns how long it takes to notify a process of a change, and whether
	// the notification is lost.
	notification(w *World, p *process) (delay time.Duration, lost bool)
}

// fate is what becomes of a call.
type fate struct {
	// request and answer are the delays of the request and of the answer.
	request, answer         time.Duration
	requestLost, answerLost bool
	// before is the error of a call that fails without effect, after that of a call that fails
	// although it took effect.
	before, after error
	// ignoresLimit is true for a call that continues after its context ends.
	ignoresLimit bool
}

// link is the connection between a process and the store.
type link struct {
	// noRequests, noAnswers and noNotes are the times until which nothing comes through.
	noRequests, noAnswers, noNotes time.Duration
	// refuses is the time until which calls that don't come through fail at once.
	refuses time.Duration
	// slow is the time until which answers take up to slowest.
	slow, slowest time.Duration
	// hangs counts, by path, the calls that will never return; releases as completions.
	hangs map[path]int
}

var (
	errUnreachable = errors.New("the store can't be reached")
	errStoreFails  = errors.New("the store fails")
)

// randomNetwork is a network with random faults.
type randomNetwork struct {
	// flaky is the time until which one in oneIn calls fails.
	flaky time.Duration
	oneIn int
	// late is the latest time at which a delayed event happens.
	late time.Duration
	off  bool
}

// maxHangs is the number of calls of a kind that may never return in one life of a
// process. With one more, the core would make no further calls of that kind.
const maxHangs = 3

func (n *randomNetwork) fate(w *World, c *call) fate {
	f := fate{request: w.latency(), answer: w.latency()}
	link := &c.p.link
	if w.now < link.slow {
		f.answer = w.upTo(min(link.slowest, c.limit*9/10))
	}
	switch {
	case w.now < link.noRequests && w.now < link.refuses:
		f.before = errUnreachable
	case w.now < link.noRequests:
		f.requestLost = true
	case w.refuses(c):
		f.before = errStoreFails
	case w.now < n.flaky && w.oneIn(n.oneIn):
		n.spoil(w, c, &f)
	}
	return f
}

// refusedFor is how long after the last fault the store refuses the ends of some tasks.
const refusedFor = 5 * time.Minute

// refuses reports whether the store refuses a call for one of the ends that it would write.
func (w *World) refuses(c *call) bool {
	do, ok := c.command.(core.Complete)
	if !ok || w.quietFrom > 0 && w.now > w.quietFrom+refusedFor {
		return false
	}
	return slices.ContainsFunc(do.Runs, func(r *core.Run) bool {
		return w.checker.tasks[r.Record.JobID()].Refused
	})
}

// spoil makes a call fail in one of many ways.
func (n *randomNetwork) spoil(w *World, c *call, f *fate) {
	ways := 9
	if !w.settings.core.BatchEnds {
		ways = 7 // such a store answers in time: the caller makes the call itself
	}
	switch w.random.IntN(ways) {
	case 0, 1:
		f.before = errStoreFails
	case 2, 3:
		f.after = errStoreFails
	case 4:
		f.answerLost = true
	case 5:
		f.requestLost = true
	case 6: // slow
		f.request, f.answer = w.upTo(c.limit), w.upTo(c.limit)
	case 7: // late
		f.request, f.answer = w.upTo(c.limit/2), w.between(c.limit/2, w.longest())
		f.ignoresLimit = true
		if w.oneIn(2) {
			f.request, f.answer = f.answer, f.request
		}
		n.late = max(n.late, w.now+f.request+f.answer)
	case 8:
		if c.path == completePath && w.oneIn(2) {
			f.before = errFinal
		} else if c.p.mayHang(c) {
			f.answerLost, f.ignoresLimit = true, true
		}
	}
}

// longest returns how late an answer may be.
func (w *World) longest() time.Duration {
	if w.settings.refusals {
		return time.Minute
	}
	return time.Hour
}

// mayHang reports whether another call of a path may never return, and counts it if so. A
// call that can no longer be counted returns with an error instead.
func (p *process) mayHang(c *call) bool {
	if c.mayHang {
		return true
	}
	if p.link.hangs == nil {
		p.link.hangs = map[path]int{}
	}
	kind := c.path
	if kind == releasePath {
		kind = completePath // the core limits both together
	}
	if p.link.hangs[kind] == maxHangs {
		return false
	}
	p.link.hangs[kind]++
	c.mayHang = true
	return true
}

// longestLatency is the maximum latency of a message without a fault.
const longestLatency = 200 * time.Millisecond

// latency returns the latency of a message without a fault.
func (w *World) latency() time.Duration {
	if w.oneIn(w.settings.fast) {
		return w.upTo(longestLatency)
	}
	return w.upTo(2 * time.Millisecond)
}

func (n *randomNetwork) losesAnswer(w *World, c *call) bool {
	return c.fate.answerLost || w.now < c.p.link.noAnswers && !n.off
}

func (n *randomNetwork) notification(w *World, p *process) (delay time.Duration, lost bool) {
	return w.latency(), w.now < p.link.noAnswers || w.now < p.link.noNotes
}
