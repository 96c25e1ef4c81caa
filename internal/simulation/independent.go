package simulation

import (
	"context"

	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

// independent returns the only actions that have to be tried in a state, if one process
// has something to do that no other process can affect: whatever the others do at the
// same instant could as well be done after it, with the same result. It returns nil if
// there is no such process. These happenings are independent of other processes:
//
//   - a call that recovers nothing, because no lease is over;
//   - a call that renews leases that the process holds and is not about to end;
//   - if it is all that a process has to do: a timer, the end of a run whose time has
//     come, and the answer to a claim.
//
// All faults of that process, and of its calls, are tried before and after the happening.
// One possible order is not tried: that a process is notified of a change at the very
// instant at which its timer is due, and before the timer.
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

// recoversNothing reports whether a call recovers leases while none is over.
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

// onlyRenews reports whether a call renews unchanged leases that none of the process's
// other happenings at the same time ends.
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
