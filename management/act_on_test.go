package management_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
)

// outcome is the result of an action on a job.
type outcome string

const (
	done      outcome = "done"
	unchanged outcome = "unchanged"
	refused   outcome = "refused"
)

// exampleIDs are the IDs of the jobs that putOneInEachState puts. The running jobs come
// last, because an action on them may let other jobs run.
var exampleIDs = []string{
	"done", "failed", "canceled", "scheduled", "pending", "blocked", "parked", "retrying", "running 1", "running 2",
}

// putOneInEachState puts a job in each state that the kind of queue supports, while all
// workers are busy.
func (f *inspected) putOneInEachState() {
	f.Helper()
	f.put(newTask("done", "alpha"), f.fail("failed", "beta"))
	f.wait("done", "failed")
	f.hold("running 1", "alpha", "ledger")
	f.hold("running 2", "beta")
	if f.stored {
		j := newTask("retrying", "beta")
		j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true)})
		f.put(j)
		f.askForRetry(f.claim("retrying"))
	}
	scheduled, blocked := newTask("scheduled", "beta"), newTask("blocked", "alpha")
	scheduled.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: inAnHour()})
	blocked.SetScopes([]string{"ledger"})
	f.put(newTask("pending", "alpha"), scheduled, blocked, newTask("parked", "alpha"), newTask("canceled", "beta"))
	f.act("parked", management.Action{Kind: management.Park, Reason: "later"})
	f.act("canceled", management.Action{Kind: management.Cancel, Reason: "a mistake"})
}

// act performs an action on a job, which must change it.
func (f *inspected) act(id string, action management.Action) {
	f.Helper()
	acted, err := f.ActOn(f.ctx, f.name, id, action)
	require.NoError(f, err)
	require.Equal(f, management.Acted{Done: 1}, acted)
}

// actionTests list the outcome of each action on the example jobs. Jobs that are not listed
// are refused.
var actionTests = []struct {
	action management.Action
	want   map[outcome][]string
	// states are the states that the action leaves jobs in.
	states map[string]amboy.JobState
}{
	{
		management.Action{Kind: management.Retry},
		map[outcome][]string{done: {"failed", "canceled", "scheduled"}, unchanged: {"pending", "blocked", "retrying", "running 1", "running 2"}},
		map[string]amboy.JobState{"failed": amboy.StatePending, "canceled": amboy.StatePending, "scheduled": amboy.StatePending},
	},
	{
		management.Action{Kind: management.Cancel, Reason: "enough"},
		map[outcome][]string{
			done:      {"scheduled", "pending", "blocked", "parked", "retrying", "running 1", "running 2"},
			unchanged: {"canceled"},
		},
		map[string]amboy.JobState{
			"scheduled": amboy.StateCanceled, "pending": amboy.StateCanceled, "blocked": amboy.StateCanceled,
			"parked": amboy.StateCanceled, "retrying": amboy.StateCanceled,
		},
	},
	{
		management.Action{Kind: management.Park, Reason: "later"},
		map[outcome][]string{done: {"scheduled", "pending", "blocked"}, unchanged: {"parked"}},
		map[string]amboy.JobState{"scheduled": amboy.StateParked, "pending": amboy.StateParked, "blocked": amboy.StateParked},
	},
	{
		management.Action{Kind: management.Release},
		map[outcome][]string{done: {"parked"}, unchanged: {"scheduled", "pending", "blocked", "retrying", "running 1", "running 2"}},
		map[string]amboy.JobState{"parked": amboy.StatePending},
	},
	{
		management.Action{Kind: management.Reschedule, At: time.Now().Add(2 * time.Hour)},
		map[outcome][]string{done: {"scheduled", "pending", "blocked"}},
		map[string]amboy.JobState{"scheduled": amboy.StateScheduled, "pending": amboy.StateScheduled, "blocked": amboy.StateScheduled},
	},
	{
		management.Action{Kind: management.Prioritize, Priority: new(7)},
		map[outcome][]string{done: {"scheduled", "pending", "blocked", "parked", "retrying", "running 1", "running 2"}},
		map[string]amboy.JobState{"parked": amboy.StateParked},
	},
	{
		management.Action{Kind: management.Complete},
		map[outcome][]string{
			done:      {"scheduled", "pending", "blocked", "parked", "retrying", "running 1", "running 2"},
			unchanged: {"done", "failed", "canceled"},
		},
		map[string]amboy.JobState{"scheduled": amboy.StateSucceeded, "parked": amboy.StateSucceeded, "retrying": amboy.StateFailed},
	},
	{
		management.Action{Kind: management.Abandon},
		map[outcome][]string{
			done:      {"running 1", "running 2"},
			unchanged: {"scheduled", "pending", "blocked"},
		},
		nil, // It may run again by now.
	},
	{
		management.Action{Kind: management.Delete},
		map[outcome][]string{done: {"done", "failed", "canceled"}},
		nil,
	},
}

func TestActOn(t *testing.T) {
	assert.Len(t, actionTests, len(management.ActionKinds()))
	for _, test := range actionTests {
		t.Run(string(test.action.Kind), func(t *testing.T) {
			inspectEach(t, []view{ofQueue}, func(f *inspected) {
				f.putOneInEachState()
				before := f.states()
				wanted := f.wanted(test.action, test.want)
				f.checkDryRun(test.action, wanted)
				require.Equal(f, before, f.states(), "a dry run must not change anything")

				for _, id := range f.examples() {
					want := outcomeOf(wanted, id)
					assert.Equal(f, want, f.try(id, test.action, before[id]), "%s %s", test.action.Kind, id)
					if state := test.states[id]; want == done && state != "" {
						assert.Equal(f, state, f.job(id).State, id)
					}
				}
				for _, id := range wanted[done] {
					f.repeat(id, test.action)
				}
			})
		})
	}
}

// examples returns the IDs of the example jobs that the kind of queue supports.
func (f *inspected) examples() []string {
	return slices.DeleteFunc(slices.Clone(exampleIDs), func(id string) bool { return id == "retrying" && !f.stored })
}

// wanted returns the expected outcomes for the kind of queue.
func (f *inspected) wanted(action management.Action, want map[outcome][]string) map[outcome][]string {
	if action.Kind == management.Abandon && !f.stored {
		return nil // A job by reference has no lease to take away.
	}
	return want
}

func outcomeOf(want map[outcome][]string, id string) outcome {
	for which, ids := range want {
		if slices.Contains(ids, id) {
			return which
		}
	}
	return refused
}

// checkDryRun compares the counts of a dry run with the expected outcomes.
func (f *inspected) checkDryRun(action management.Action, want map[outcome][]string) {
	f.Helper()
	count, states := 0, management.StateCounts{}
	for _, id := range f.examples() {
		if outcomeOf(want, id) == done {
			count++
			states.Add(oneOf(f.states()[id]))
		}
	}
	acted, err := f.Act(f.ctx, management.ActRequest{
		Action: action, Filter: management.JobFilter{IDs: exampleIDs}, Limit: 100, DryRun: true,
	})
	require.NoError(f, err)
	assert.Equal(f, management.Acted{Done: count, Skipped: len(f.examples()) - count, States: states}, acted)
}

// oneOf counts one job in a state.
func oneOf(state amboy.JobState) (one management.StateCounts) {
	text, _ := json.Marshal(map[amboy.JobState]int{state: 1})
	_ = json.Unmarshal(text, &one) // a state is the name of its field
	return one
}

// try performs an action on a job, and returns the outcome.
func (f *inspected) try(id string, action management.Action, state amboy.JobState) outcome {
	f.Helper()
	acted, err := f.ActOn(f.ctx, f.name, id, action)
	var notAllowed *management.StateError
	switch {
	case errors.As(err, &notAllowed):
		assert.Equal(f, management.JobRef{Queue: f.name, ID: id}, notAllowed.Job)
		assert.Equal(f, state, notAllowed.State)
		assert.Equal(f, action.Kind, notAllowed.Action)
		assert.Contains(f, err.Error(), notAllowed.Rule)
		return refused
	case err != nil:
		return outcome(err.Error())
	case acted == management.Acted{Skipped: 1}:
		return unchanged
	default:
		assert.Equal(f, management.Acted{Done: 1}, acted)
		return done
	}
}

// repeat performs an action again on a job that it has changed, and expects no change.
func (f *inspected) repeat(id string, action management.Action) {
	f.Helper()
	if !slices.Contains(f.examples(), id) {
		return
	}
	if action.Kind == management.Abandon {
		return // The job may be running again.
	}
	if action.Kind == management.Delete {
		_, err := f.ActOn(f.ctx, f.name, id, action)
		assert.True(f, amboy.IsJobNotFoundError(err), "%v", err)
		return
	}
	acted, err := f.ActOn(f.ctx, f.name, id, action)
	require.NoError(f, err, id)
	assert.Equal(f, management.Acted{Skipped: 1}, acted, "%s %s", action.Kind, id)
}

func TestJobListsTheActionsItsStateAllows(t *testing.T) {
	inspectEach(t, []view{ofQueue}, func(f *inspected) {
		f.putOneInEachState()
		for _, id := range f.examples() {
			want := []management.ActionKind{}
			for _, test := range actionTests {
				if outcomeOf(f.wanted(test.action, test.want), id) == done {
					want = append(want, test.action.Kind)
				}
			}
			assert.Equal(f, want, f.job(id).Actions, id)
		}
	})
}

func TestActionIsVisibleInEveryView(t *testing.T) {
	inspectEach(t, []view{ofGroup, ofManager, ofDatabase}, func(f *inspected) {
		f.putOneInEachState()
		f.act("pending", management.Action{Kind: management.Cancel, Reason: "enough"})
		job := f.job("pending")
		assert.Equal(f, amboy.StateCanceled, job.State)
		assert.Equal(f, "enough", job.Reason)
		assert.Equal(f, amboy.StateCanceled, f.state("pending"))
		assert.Subset(f, slices.Collect(maps.Keys(f.states())), f.examples())
	})
}

func TestCancelEndsARunningJob(t *testing.T) {
	inspectEach(t, []view{ofQueue}, func(f *inspected) {
		f.hold("long", "alpha")
		f.act("long", management.Action{Kind: management.Cancel, Reason: "enough"})
		f.wait("long")
		require.ErrorIs(f, <-f.canceled, amboy.ErrAborted)
		job := f.job("long")
		assert.Equal(f, amboy.StateCanceled, job.State)
		assert.Equal(f, "enough", job.Reason)
		assert.NotContains(f, job.Actions, management.Cancel)
	})
}

func TestRetryRunsAFailedJobAgain(t *testing.T) {
	inspectEach(t, []view{ofQueue}, func(f *inspected) {
		f.put(f.fail("bad", "alpha"))
		f.wait("bad")
		require.Equal(f, amboy.StateFailed, f.job("bad").State)
		runs.Delete(f.Name() + "/bad")
		f.act("bad", management.Action{Kind: management.Retry})
		f.wait("bad")
		job := f.job("bad")
		assert.Equal(f, amboy.StateSucceeded, job.State)
		assert.Empty(f, job.Error)
		require.Len(f, job.Errors, 1, "the earlier error is kept")
		assert.Equal(f, assert.AnError.Error(), job.Errors[0].Error)
	})
}
