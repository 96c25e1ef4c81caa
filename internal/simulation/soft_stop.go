package simulation

import (
	"context"
	"slices"
	"time"

	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

// closeGrace is how long a closing process waits for canceled runs to return and for
// their ends to be written.
const closeGrace = 800 * time.Millisecond

// closePeriod is how often a closing process checks whether it is done.
const closePeriod = 20 * time.Millisecond

// closes continues the closing of a process.
type closes struct {
	p     *process
	until time.Duration
}

// close closes the queues of a process, as a service does when another version replaces
// it. Jobs may run until patience is over. Then their contexts end, and runs that return
// in time are handed back.
func (p *process) close(patience time.Duration) {
	w := p.w
	p.closing = true
	w.log(Event{Process: p.index, Kind: closing, Until: w.now + patience})
	for _, l := range p.lines {
		p.step(core.Stopped{Line: l})
		p.checkStopped(l)
	}
	p.after(patience, stopsHard{p})
	p.after(closePeriod, closes{p, w.now + patience + closeGrace})
}

// stopsHard ends the contexts of the runs of a closing process.
type stopsHard struct{ p *process }

func (s stopsHard) happen(*World) {
	for _, r := range slices.Clone(s.p.runs) {
		if !r.began || r.returned || r.canceled {
			continue
		}
		r.canceled, r.stopped = true, true
		r.log(ContextEnded, "the process closes")
		if !r.task.IgnoresContext {
			s.p.after(s.p.w.upTo(latency), runReturns{r})
		}
	}
}

func (c closes) happen(w *World) {
	p := c.p
	late := w.now >= c.until
	if !p.toldClosing && (p.running() == 0 || late) {
		p.toldClosing = true
		p.step(core.Closing{})
	}
	switch {
	case p.toldClosing && p.core.Quiet():
	case late:
		p.abandoned = true
		p.step(core.Abandoned{})
		for _, r := range p.runs {
			if r.returned {
				w.violate(CoreRule, r.task.ID, "process %d has closed but waits for the end of a run", p.index)
			}
		}
	default:
		p.after(closePeriod, c)
		return
	}
	p.checkClosed()
	p.stop(Closed)
	p.replaces()
	w.after(w.upTo(time.Second), starts{p})
}

// checkStopped checks that a process that stops a queue keeps no lease of it, except those of runs
// and of calls that are under way.
func (p *process) checkStopped(l *core.Line) {
	if p.core.QuietFor(l) && p.hasUnstarted(func(lease driver.Lease) bool { return lease.Queue == l.Queue }) {
		p.w.violate(CoreRule, "", "process %d has stopped queue %s but keeps leases that it does not run", p.index, l.Queue)
	}
}

// checkClosed checks that no worker of a closed process waits, and that the store
// contains none of its leases, unless the process gave up writing or can't know of the
// lease.
func (p *process) checkClosed() {
	for _, wk := range p.workers {
		if wk.waiting {
			p.w.violate(CoreRule, "", "process %d has closed but a worker of queue %s waits for a job", p.index, wk.Line.Queue)
		}
	}
	if p.abandoned || p.spoiled || p.running() > 0 || p.hasLostClaims() {
		return
	}
	for _, id := range p.w.checker.Open() {
		r, err := p.w.driver.Get(context.Background(), p.w.checker.tasks[id].Queue, id)
		if err != nil {
			p.w.violate(Lost, id, "%v", err)
			return
		}
		if r.Status.InProgress && !r.Status.Completed && r.Status.Owner == p.owner {
			p.w.violate(CoreRule, id, "process %d has closed but holds its lease", p.index)
		}
	}
}

// hasLostClaims reports whether the answer to a claim did not come in time.
func (p *process) hasLostClaims() bool {
	return p.lostClaims || slices.ContainsFunc(p.open, func(c *call) bool {
		return c.path == claimPath && p.w.now >= c.sent+c.limit
	})
}
