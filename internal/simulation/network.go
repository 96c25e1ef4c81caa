package simulation

import (
	"errors"
	"slices"
	"time"

	"github.com/mongodb/amboy/internal/core"
)

// network decides what becomes of messages between processes and their store.
type network interface {
	// fate is what becomes of a call that is sent.
	fate(w *World, c *call) fate
	// losesAnswer reports whether the answer to a call is lost that has taken effect.
	losesAnswer(w *World, c *call) bool
	// notification is how long it takes to tell a process of a change, and whether
	// that is lost.
	notification(w *World, p *process) (delay time.Duration, lost bool)
}

// fate is what becomes of a call.
type fate struct {
	// request and answer are how long these two take.
	request, answer         time.Duration
	requestLost, answerLost bool
	// before is the error of a call that takes no effect, after that of one that does.
	before, after error
	// ignoresLimit is true for a call that goes on when its context ends.
	ignoresLimit bool
}

// link is the way between a process and its store.
type link struct {
	// noRequests, noAnswers and noNotes are until when nothing comes through.
	noRequests, noAnswers, noNotes time.Duration
	// refuses is until when calls that don't come through fail at once.
	refuses time.Duration
	// slow is until when answers take up to slowest.
	slow, slowest time.Duration
	// hangs counts, by path, the calls that will never return.
	hangs map[path]int
}

var (
	errUnreachable = errors.New("the store can't be reached")
	errStoreFails  = errors.New("the store fails")
)

// randomNetwork is a network with faults as they come.
type randomNetwork struct {
	// flaky is until when calls fail now and then: one in oneIn.
	flaky time.Duration
	oneIn int
	// late is the latest time at which something happens that was held up.
	late time.Duration
	off  bool
}

// maxHangs is the number of calls of a path that may never return in one life of a
// process. With one more the core would make no others.
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

// spoil makes a call go wrong, in one of many ways.
func (n *randomNetwork) spoil(w *World, c *call, f *fate) {
	ways := 9
	if !w.settings.core.BatchEnds {
		ways = 7 // such a store answers in time: whoever wants a call makes it
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

// longest is how late an answer may be.
func (w *World) longest() time.Duration {
	if w.settings.refusals {
		return time.Minute
	}
	return time.Hour
}

// mayHang reports whether one more call of a path may never return, and counts it if so.
// A call that can't be counted any more returns with an error instead.
func (p *process) mayHang(c *call) bool {
	if c.mayHang {
		return true
	}
	if p.link.hangs == nil {
		p.link.hangs = map[path]int{}
	}
	if p.link.hangs[c.path] == maxHangs {
		return false
	}
	p.link.hangs[c.path]++
	c.mayHang = true
	return true
}

// longestLatency is that of a message without a fault.
const longestLatency = 200 * time.Millisecond

// latency is that of a message without a fault.
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
