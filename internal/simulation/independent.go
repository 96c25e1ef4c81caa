package simulation

import (
	"context"

	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

// independent returns the actions that have to be tried in a state in which one of the
// processes has something to do that no other can have a part in: whatever the others do
// at the same instant could as well be done after it, with the same result. It is nil if
// there is no such process. These are independent of what others do:
//
//   - a call that recovers nothing, as no lease is over;
//   - a call that renews leases which the process has, none of which it is about to end;
//   - if it is all that a process has to do: a timer, the end of a run whose time has
//     come, and the answer to a claim.
//
// All faults of that process, and of its calls, are tried before and after it. One order is
// not tried that may exist: that a process is notified of a change at the very instant at
// which its timer is due, and before that.
func (w *smallWorld) independent(enabled []*scheduled) []action {
	for _, p := range w.processes {
		if s := w.independentOf(p, enabled); s != nil {
			return append([]action{{goOn, s.seq}}, w.faultsOf(p, enabled)...)
		}
	}
	return nil
}

func (w *smallWorld) independentOf(p *process, enabled []*scheduled) *scheduled {
	var own []*scheduled
	for _, s := range enabled {
		if subjectOf(s.what).process == p {
			own = append(own, s)
		}
	}
	for _, s := range own {
		if e, ok := s.what.(effect); ok && (w.recoversNothing(e.call) || w.onlyRenews(e.call, own)) {
			return s
		}
	}
	if len(own) != 1 {
		return nil
	}
	switch own[0].what.(type) {
	case tick, callEnds:
		return own[0]
	case runReturns:
		if own[0].at <= w.now {
			return own[0]
		}
	}
	return nil
}

// recoversNothing reports whether a call recovers leases, of which none is over.
func (w *smallWorld) recoversNothing(c *call) bool {
	if c.path != recoverPath {
		return false
	}
	for id, j := range w.checker.jobs {
		if r := w.stored(id); isLeased(r) && j.until < w.now {
			return false
		}
	}
	return true
}

// onlyRenews reports whether a call renews leases that are what they were, and that
// nothing ends that its process has to do at the same time.
func (w *smallWorld) onlyRenews(c *call, own []*scheduled) bool {
	do, ok := c.command.(core.Renew)
	if !ok || c.life != c.p.life || c.sent != w.now {
		return false
	}
	for _, s := range own {
		switch h := s.what.(type) {
		case runReturns:
			return false
		case effect:
			if h.call.path == completePath || h.call.path == releasePath {
				return false
			}
		}
	}
	for _, r := range c.p.runs {
		if r.returned {
			return false
		}
	}
	for _, l := range do.Leases {
		id, _ := w.checker.parse(l)
		if r := w.stored(id); !isLeased(r) || driver.LeaseOf(r) != l || w.checker.jobs[id].until < w.now {
			return false
		}
	}
	return true
}

// stored returns the last attempt of a job.
func (w *World) stored(id string) *driver.Record {
	r, err := w.driver.Get(context.Background(), w.checker.tasks[id].Queue, id)
	if err != nil {
		panic("a job of a small world is lost: " + err.Error())
	}
	return r
}

func isLeased(r *driver.Record) bool { return r.Status.InProgress && !r.Status.Completed }
