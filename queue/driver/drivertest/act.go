package drivertest

import (
	"fmt"
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var actRules = []rule{
	{"each action is done in the states that allow it", actStates},
	{"an invalid action is refused", actInvalid},
	{"no more records than the limit are examined, and the cursor continues", actPages},
	{"a dry run counts and changes nothing", actDryRun},
	{"records are acted on in the order in which they were added", actOrder},
	{"records that the query does not select are not changed", actSelected},
}

// allowed lists the jobs of everyState that each action can be done to.
var allowed = map[driver.ActionKind][]string{
	driver.Cancel: {
		"retrying", "parked", "postponed", "running", "scope", "edge", "scheduled", "pending", "late", "overdue edge",
	},
	driver.RunNow:     {"postponed", "scheduled"},
	driver.Reschedule: {"postponed", "scope", "edge", "scheduled", "pending", "late", "overdue edge"},
	driver.Prioritize: {
		"retrying", "parked", "postponed", "running", "scope", "edge", "scheduled", "pending", "late", "overdue edge",
	},
	driver.Park:    {"postponed", "scope", "edge", "scheduled", "pending", "late", "overdue edge"},
	driver.Unpark:  {"parked"},
	driver.Restart: {"failed", "canceled", "expired"},
	driver.Delete:  {"succeeded", "failed", "canceled", "expired"},
	driver.Edit:    {"parked", "postponed", "scope", "edge", "scheduled", "pending", "late", "overdue edge"},
}

// afterAct returns the state of a job after an action.
func afterAct(kind driver.ActionKind, id string, before amboy.JobState) amboy.JobState {
	switch {
	case kind == driver.Cancel && id != "running":
		return amboy.StateCanceled
	case kind == driver.Park:
		return amboy.StateParked
	case kind == driver.RunNow, kind == driver.Unpark, kind == driver.Restart:
		return amboy.StatePending
	case kind == driver.Reschedule && before != amboy.StateExpired && id != "edge":
		return amboy.StateScheduled
	default:
		return before
	}
}

func actStates(f *fixture) {
	for _, kind := range driver.ActionKinds() {
		in := f.in(string(kind))
		in.unchecked = true // checked once
		states := everyState(in)
		action := driver.Action{Kind: kind, Priority: 5, Reason: "operator request"}
		if kind == driver.Reschedule {
			action.At = f.after(3)
		}
		for _, id := range jobIDs(in.list()) {
			want := slices.Contains(allowed[kind], id)
			if kind == driver.Park && id == "parked" {
				continue // the reason may change
			}
			count := in.get(id).Status.ModificationCount
			action.Edit = &driver.EditedFields{Count: count, Priority: new(5)}
			require.Equal(f, want, in.tryAct(action, id), "%s a job that is %s", kind, id)
			state := states[id]
			switch {
			case want && kind == driver.Delete:
				in.missing(id)
				continue
			case want:
				state = afterAct(kind, id, state)
			}
			require.Equal(f, state, stateOf(in.get(id)), "%s a job that is %s", kind, id)
			if want && kind != driver.Prioritize && id != "running" {
				count++
			}
			require.Equal(f, count, in.get(id).Status.ModificationCount, "%s counts a modification of a job that is %s", kind, id)
		}
		f.consistent()
	}
}

func actInvalid(f *fixture) {
	f.insert(spec{id: "job"})
	unchanged := f.unchanged()
	for _, req := range []driver.ActRequest{
		{Action: driver.Action{Kind: "explode"}, Limit: 1},
		{Action: driver.Action{}, Limit: 1},
		{Action: driver.Action{Kind: driver.Edit}, Limit: 1},
		{Action: driver.Action{Kind: driver.Cancel}},
		{Action: driver.Action{Kind: driver.Cancel}, Limit: -1},
	} {
		_, err := f.driver.Act(f.ctx, req)
		require.Error(f, err, "%+v", req)
	}
	unchanged()
}

// fifteen puts jobs 1 to 15 in the queue; every third has ended.
func (f *fixture) fifteen() {
	f.Helper()
	var specs []spec
	for i := 1; i <= 15; i++ {
		s := spec{id: fmt.Sprint(i)}
		if i%3 == 0 {
			s.priority = 9
		}
		specs = append(specs, s)
	}
	f.insert(specs...)
	for _, r := range f.claim(5) {
		f.end(r, amboy.StateSucceeded)
	}
}

func actPages(f *fixture) {
	f.fifteen()
	first, err := f.driver.Act(f.ctx, driver.ActRequest{Action: driver.Action{Kind: driver.Park}, Limit: 4})
	require.NoError(f, err)
	require.NotEmpty(f, first.Next)
	assert.Equal(f, 4, first.Done+first.Skipped)
	assert.Equal(f, []string{"1", "2", "4"}, jobIDs(f.list(amboy.StateParked)))
	rest := f.actInPages(driver.ActRequest{Action: driver.Action{Kind: driver.Park}, After: first.Next, Limit: 4})
	assert.Equal(f, 10, first.Done+rest.Done)
	assert.Equal(f, 5, first.Skipped+rest.Skipped)

	// After the action the query may no longer select the record.
	parked := driver.Query{States: []amboy.JobState{amboy.StateParked}}
	all := f.actInPages(driver.ActRequest{Query: parked, Action: driver.Action{Kind: driver.Unpark}, Limit: 3})
	assert.Equal(f, driver.Acted{Done: 10}, all)
}

// actDryRun acts on jobs in all states, first as a dry run in one queue, and then in
// another queue for each action.
func actDryRun(f *fixture) {
	everyState(f)
	unchanged := f.unchanged()
	request := func(queue string, kind driver.ActionKind, dryRun bool) driver.ActRequest {
		return driver.ActRequest{
			Query:  driver.Query{Queues: []string{queue}},
			Action: driver.Action{Kind: kind, At: f.after(1), Priority: 7, Edit: &driver.EditedFields{Priority: new(7)}},
			Limit:  4,
			DryRun: dryRun,
		}
	}
	would := map[driver.ActionKind]driver.Acted{}
	for _, kind := range driver.ActionKinds() {
		would[kind] = f.actInPages(request(f.queue, kind, true))
	}
	unchanged()
	for kind, want := range would {
		in := f.in(string(kind))
		in.unchecked = true // the states were checked above
		everyState(in)
		require.Equal(f, want, in.actInPages(request(in.queue, kind, false)), "the result of %s and of its dry run", kind)
	}
}

func actOrder(f *fixture) {
	for _, id := range []string{"a", "b", "c"} {
		f.insert(spec{id: id})
	}
	running := f.claim(3)
	for _, i := range []int{2, 0, 1} {
		f.end(running[i], amboy.StateFailed)
	}
	assert.Equal(f, driver.Acted{Done: 3}, f.actOn(driver.Query{}, driver.Action{Kind: driver.Restart}))
	assert.Equal(f, []string{"a", "b", "c"}, jobIDs(f.claim(3)), "they are queued in that order")
}

func actSelected(f *fixture) {
	f.insert(spec{id: "a", tags: []string{"x"}}, spec{id: "b"}, spec{id: "c", tags: []string{"x"}})
	other := f.in("other")
	other.insert(spec{id: "a", tags: []string{"x"}})
	acted := f.actOn(driver.Query{Queues: []string{f.queue}, Tags: []string{"x"}}, driver.Action{Kind: driver.Cancel})
	assert.Equal(f, driver.Acted{Done: 2}, acted)
	f.hasState("b", amboy.StatePending)
	other.hasState("a", amboy.StatePending)
	assert.Equal(f, driver.Acted{}, f.actOn(driver.Query{Tags: []string{"unknown"}}, driver.Action{Kind: driver.Cancel}))
}
