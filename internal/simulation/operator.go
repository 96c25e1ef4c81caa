package simulation

import (
	"context"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

// cancels is an operator's cancellation of a job.
type cancels struct{ task *Task }

func (c cancels) happen(w *World) {
	t := c.task
	acted, err := w.driver.Act(context.Background(), driver.ActRequest{
		Query:  driver.Query{Queues: []string{t.Queue}, JobIDs: []string{t.ID}, Latest: true},
		Action: driver.Action{Kind: driver.Cancel, Reason: "operator request"},
		Limit:  1,
	})
	if err != nil {
		w.violate(Lost, t.ID, "an operator can't cancel it: %v", err)
	}
	if acted.Done == 0 {
		return
	}
	w.counts.Canceled++
	w.log(Event{Process: Store, Kind: CancelAsked, Job: t.ID})
	w.asked = append(w.asked, t)
	w.noteCanceled(Store)
}

// endsByHand is an operator's report that a job has succeeded.
type endsByHand struct{ task *Task }

func (e endsByHand) happen(w *World) {
	t := e.task
	if j := w.checker.jobs[t.ID]; j.ended || j.asked {
		return
	}
	r, err := w.driver.Get(context.Background(), t.Queue, t.ID)
	if err != nil {
		w.violate(Lost, t.ID, "%v", err)
		return
	}
	done := driver.Completion{Lease: driver.LeaseOf(r), Record: ended(r, amboy.StateSucceeded, timeAt(w.now))}
	if errs, err := w.driver.Complete(context.Background(), []driver.Completion{done}); err != nil || errs[0] != nil {
		w.violate(Lost, t.ID, "an operator can't end it: %v, %v", errs, err)
		return
	}
	w.counts.Canceled++
	w.log(Event{Process: Store, Kind: EndedByHand, Job: t.ID})
}

// noteCanceled logs the ends of the jobs that the store has ended because of an
// operator's cancellation.
func (w *World) noteCanceled(process int) {
	for _, t := range w.asked {
		j := w.checker.jobs[t.ID]
		if j.isDone() {
			continue
		}
		r, err := w.driver.Get(context.Background(), t.Queue, t.ID)
		if err != nil {
			w.violate(Lost, t.ID, "%v", err)
			return
		}
		if driver.StateOf(r, timeAt(w.now)) == amboy.StateCanceled {
			w.log(Event{Process: process, Kind: Ended, Job: t.ID, Attempt: r.RetryInfo.CurrentAttempt, State: amboy.StateCanceled})
		}
	}
}

// stateWritten returns the state of a job whose end was just written: canceled instead of
// failed or retrying, if an operator has canceled it.
func (w *World) stateWritten(run *core.Run) amboy.JobState {
	ended := run.End().Record
	if j := w.checker.jobs[ended.JobID()]; j != nil && j.asked {
		stored, err := w.driver.Get(context.Background(), run.Lease.Queue, ended.JobID())
		if err == nil && stored.Name == run.Lease.Name {
			ended = stored
		}
	}
	return driver.StateOf(ended, time.Time{})
}
