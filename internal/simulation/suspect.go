package simulation

import (
	"context"
	"slices"

	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

// suspectAfter is the number of interruptions after which a job runs alone.
const suspectAfter = 3

func isSuspect(r *driver.Record) bool { return r.Status.Interruptions.Total() >= suspectAfter }

// expectSuspects records which claimed records must run alone.
func (p *process) expectSuspects(records []*driver.Record) {
	for _, r := range records {
		if isSuspect(r) {
			p.suspects = append(p.suspects, driver.LeaseOf(r))
		}
	}
}

// cleared records that a suspect has returned or does not run.
func (p *process) cleared(l driver.Lease) {
	p.suspects = slices.DeleteFunc(p.suspects, func(other driver.Lease) bool { return other == l })
}

// awaitsAlone reports whether a lease belongs to a suspect that waits until it is alone,
// which lasts no longer than a lease.
func (w *World) awaitsAlone(l driver.Lease) bool {
	return slices.ContainsFunc(w.processes, func(p *process) bool {
		return slices.Contains(p.suspects, l) && w.now < p.claimedAt[l]+w.settings.core.LeaseTime
	})
}

// checkAlone checks that a suspect begins only while the process has no other lease,
// unless it has waited for the length of a lease, and that no job begins beside it.
func (p *process) checkAlone(r *run) {
	if limit := p.w.settings.maxInterruptions; limit > 0 && r.Record.Status.Interruptions.Total() >= limit {
		p.w.violate(CoreRule, r.task.ID, "it began after %d interruptions; the limit is %d", r.Record.Status.Interruptions.Total(), limit)
	}
	for _, other := range p.runs {
		if other == r || other.forgotten {
			continue
		}
		switch {
		case isSuspect(r.Record) && p.w.now < r.claimedAt+p.w.settings.core.LeaseTime:
			p.w.violate(CoreRule, r.task.ID, "it was interrupted %d times but begins in process %d beside %s", r.Record.Status.Interruptions.Total(), p.index, other.task.ID)
		case !isSuspect(r.Record) && isSuspect(other.Record) && !other.returned:
			p.w.violate(CoreRule, r.task.ID, "it begins in process %d beside %s, which was interrupted %d times", p.index, other.task.ID, other.Record.Status.Interruptions.Total())
		}
	}
}

// checkStart checks that a run that waited for a worker may still start. A suspect may wait for
// longer.
func (p *process) checkStart(r *run) {
	switch {
	case isSuspect(r.Record):
	case r.Cause() != nil:
		p.w.violate(CoreRule, r.task.ID, "process %d starts it although its run was canceled: %v", p.index, r.Cause())
	case core.HasExpired(r.Record, p.wall()):
		p.w.violate(CoreRule, r.task.ID, "process %d starts it although it has expired", p.index)
	}
}

// checkUnstarted checks that no run waits for a worker while a suspect runs alone or waits until it
// can.
func (p *process) checkUnstarted() {
	if p.alive && p.core.Alone() && p.core.Quiet() && p.hasUnstarted(func(l driver.Lease) bool { return !slices.Contains(p.suspects, l) }) {
		p.w.violate(CoreRule, "", "a run waits for a worker in process %d beside a suspect", p.index)
	}
}

// hasUnstarted reports whether the process has claimed a run that meets a condition, and has not
// started it.
func (p *process) hasUnstarted(is func(driver.Lease) bool) bool {
	for l := range p.claimedAt {
		if is(l) && !slices.ContainsFunc(p.runs, func(r *run) bool { return r.Lease == l }) {
			return true
		}
	}
	return false
}

// park parks a job that was interrupted too often.
func (p *process) park(of *core.Run) {
	interruptions := of.Record.Status.Interruptions.Total()
	if limit := p.w.settings.maxInterruptions; limit == 0 || interruptions < limit {
		p.w.violate(CoreRule, of.Record.JobID(), "it was parked after %d interruptions; the limit is %d", interruptions, limit)
	}
	p.newRun(of, nil).endWith(core.End{HandBack: &driver.HandBack{Park: true, Reason: "interrupted too often"}})
}

// parked records that the store has parked a job.
func (w *World) parked(l driver.Lease) {
	id, _ := w.checker.parse(l)
	w.counts.Parked++
	w.log(Event{Process: Store, Kind: parked, Job: id})
	w.after(w.upTo(2*w.settings.core.LeaseTime), unparks{w.checker.tasks[id]})
}

// unparks is an operator's release of a parked job.
type unparks struct{ task *Task }

func (u unparks) happen(w *World) {
	t := u.task
	_, err := w.driver.Act(context.Background(), driver.ActRequest{
		Query:  driver.Query{Queues: []string{t.Queue}, JobIDs: []string{t.ID}, Latest: true},
		Action: driver.Action{Kind: driver.Unpark},
		Limit:  1,
	})
	if err != nil {
		w.violate(Lost, t.ID, "an operator can't unpark it: %v", err)
	}
	w.log(Event{Process: Store, Kind: unparked, Job: t.ID})
}
