package crashtest_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/simulation"
)

// judge runs the checker of the simulation on a history. The journals contain less than
// the checker expects, and only almost in the order of the store:
//
//   - A lease is taken when its run begins. A lease whose run never began is unknown.
//   - A run counts as live until it ended, its process was killed, or its lease ran out. A
//     process that is held up counts as suspended.
//   - An attempt ended when its process began to write the end, if the store acknowledged
//     it or if the attempt was not run again.
//   - An attempt is replaced when a run of the next attempt begins.
func judge(h *history) (*simulation.Violation, []simulation.Event) {
	c := simulation.NewChecker(false)
	tasks := maps.Clone(h.plan.tasks)
	for _, id := range slices.Sorted(maps.Keys(tasks)) {
		c.Expect(simulatedTask(tasks[id]))
	}
	events := simulatedEvents(h)
	for _, e := range events {
		c.Observe(e)
	}
	return c.End(events[len(events)-1].At), events
}

func simulatedTask(t *task) *simulation.Task {
	s := &simulation.Task{ID: t.ID, Scopes: t.Scopes, Attempts: t.Failures + 1, Failures: t.Failures}
	if t.Fails {
		s.Failures++
	}
	if !t.RunOnFailure {
		s.Edges = t.Edges
	}
	return s
}

// processNumber returns the part of the plan that a process puts. The last process, which
// only puts jobs, has none.
func processNumber(name string) int {
	var part, number int
	if _, err := fmt.Sscanf(strings.ReplaceAll(name, "-", " "), "process %d %d", &part, &number); err != nil {
		return processes
	}
	return part
}

// simulatedEvents converts a history to events of the simulation.
func simulatedEvents(h *history) []simulation.Event {
	began := h.events[0].At.Add(-time.Minute) // leases may be older than the first entry
	at := func(t time.Time) time.Duration { return t.Sub(began) }
	events := make([]simulation.Event, 0, 2*len(h.events))
	add := func(e event, t time.Time, k simulation.Kind, state amboy.JobState) {
		events = append(events, simulation.Event{
			At: at(t), Process: processNumber(e.Process), Kind: k, Job: e.Job, Attempt: e.Attempt, Lease: e.Lease, State: state,
		})
	}
	lease := func(r *run) {
		add(r.event, r.At, simulation.Leased, "")
		events[len(events)-1].Until = at(r.leaseUntil)
	}
	c := newChecker(h)
	for id := range c.accepted {
		add(event{Job: id}, began, simulation.Accepted, "")
	}
	for _, death := range slices.Sorted(maps.Keys(h.deaths)) {
		add(event{Process: death}, h.deaths[death], simulation.Stopped, "")
	}
	for _, runs := range c.runs {
		for i, r := range runs {
			if !r.leaseUntil.After(r.At) {
				continue // its process was suspended before the run began
			}
			lease(r)
			add(r.event, r.At, simulation.Began, "")
			add(r.event, minTime(r.until, r.leaseUntil), simulation.ContextEnded, "")
			if r.Attempt > 0 && (i == 0 || runs[i-1].Attempt < r.Attempt) {
				before := r.event
				before.Attempt--
				add(before, r.At, simulation.Replaced, "")
			}
		}
	}
	for _, e := range endsOf(h, c) {
		add(e, e.At, simulation.Ended, e.State)
	}
	slices.SortStableFunc(events, func(a, b simulation.Event) int {
		if a.At != b.At {
			return int(a.At - b.At)
		}
		return rank(a.Kind) - rank(b.Kind)
	})
	return events
}

// rank orders simultaneous events: events that free something come before events that
// take it.
func rank(k simulation.Kind) int {
	return slices.Index([]simulation.Kind{
		simulation.Accepted, simulation.Stopped, simulation.Ended, simulation.Replaced, simulation.Leased, simulation.Began, simulation.ContextEnded,
	}, k)
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// endsOf returns the stored ends of attempts. Each has the time at which its process
// began to write it.
func endsOf(h *history, c *checker) (ends []event) {
	type key struct {
		attempt
		lease int
	}
	begun := map[key]event{}
	for _, e := range h.events {
		k := key{attempt{e.Job, e.Attempt}, e.Lease}
		switch e.Kind {
		case completing:
			if _, again := begun[k]; !again {
				begun[k] = e
			}
		case completed:
			if first, ok := begun[k]; ok {
				ends = append(ends, first)
				delete(begun, k)
			}
		}
	}
	for k, e := range begun {
		_, isKnown := c.completed[k.attempt]
		runsAgain := slices.ContainsFunc(c.runs[k.job], func(r *run) bool { return r.Attempt == k.number && r.Lease > k.lease })
		if !isKnown && !runsAgain {
			ends = append(ends, e)
		}
	}
	return ends
}
