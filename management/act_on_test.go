package management_test

import (
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

// outcome is what becomes of an action on a job.
type outcome string

const (
	done     outcome = "done"
	needless outcome = "needless"
	refused  outcome = "refused"
)

// standings are the jobs of stand. Those that run come last: what is done to them may
// let others run.
var standings = []string{
	"done", "failed", "canceled", "scheduled", "pending", "blocked", "parked", "retrying", "running 1", "running 2",
}

// stand puts a job in each state that a job of the kind can be in, while all workers are
// busy.
func (f *inspected) stand() {
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

// act does something to a job that must be possible.
func (f *inspected) act(id string, action management.Action) {
	f.Helper()
	acted, err := f.ActOn(f.ctx, f.name, id, action)
	require.NoError(f, err)
	require.Equal(f, management.Acted{Done: 1}, acted)
}

// actionTests say what becomes of each action on the jobs of stand. Those that are not
// named are refused.
var actionTests = []struct {
	action management.Action
	want   map[outcome][]string
	// states are those of the jobs to which it was done.
	states map[string]amboy.JobState
}{
	{
		management.Action{Kind: management.Retry},
		map[outcome][]string{done: {"failed", "canceled", "scheduled"}, needless: {"pending", "blocked", "retrying", "running 1", "running 2"}},
		map[string]amboy.JobState{"failed": amboy.StatePending, "canceled": amboy.StatePending, "scheduled": amboy.StatePending},
	},
	{
		management.Action{Kind: management.Cancel, Reason: "enough"},
		map[outcome][]string{
			done:     {"scheduled", "pending", "blocked", "parked", "retrying", "running 1", "running 2"},
			needless: {"canceled"},
		},
		map[string]amboy.JobState{
			"scheduled": amboy.StateCanceled, "pending": amboy.StateCanceled, "blocked": amboy.StateCanceled,
			"parked": amboy.StateCanceled, "retrying": amboy.StateCanceled,
		},
	},
	{
		management.Action{Kind: management.Park, Reason: "later"},
		map[outcome][]string{done: {"scheduled", "pending", "blocked"}, needless: {"parked"}},
		map[string]amboy.JobState{"scheduled": amboy.StateParked, "pending": amboy.StateParked, "blocked": amboy.StateParked},
	},
	{
		management.Action{Kind: management.Release},
		map[outcome][]string{done: {"parked"}, needless: {"scheduled", "pending", "blocked", "retrying", "running 1", "running 2"}},
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
			done:     {"scheduled", "pending", "blocked", "parked", "retrying", "running 1", "running 2"},
			needless: {"done", "failed", "canceled"},
		},
		map[string]amboy.JobState{"scheduled": amboy.StateSucceeded, "parked": amboy.StateSucceeded, "retrying": amboy.StateFailed},
	},
	{
		management.Action{Kind: management.Abandon},
		map[outcome][]string{
			done:     {"running 1", "running 2"},
			needless: {"scheduled", "pending", "blocked"},
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
				f.stand()
				before := f.states()
				wanted := f.wanted(test.action, test.want)
				f.rehearse(test.action, wanted)
				require.Equal(f, before, f.states(), "a dry run changes nothing")

				for _, id := range f.standing() {
					want := outcomeOf(wanted, id)
					assert.Equal(f, want, f.try(id, test.action, before[id]), "%s %s", test.action.Kind, id)
					if state := test.states[id]; want == done && state != "" {
						assert.Equal(f, state, f.job(id).State, id)
					}
				}
				for _, id := range wanted[done] {
					f.again(id, test.action)
				}
			})
		})
	}
}

// standing are the standings of the kind.
func (f *inspected) standing() []string {
	return slices.DeleteFunc(slices.Clone(standings), func(id string) bool { return id == "retrying" && !f.stored })
}

// wanted is what becomes of an action on jobs of the kind.
func (f *inspected) wanted(action management.Action, want map[outcome][]string) map[outcome][]string {
	if action.Kind == management.Abandon && !f.stored {
		return nil // There is only one of each job.
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

// rehearse checks what a dry run says that an action would do.
func (f *inspected) rehearse(action management.Action, want map[outcome][]string) {
	f.Helper()
	count := 0
	for _, id := range f.standing() {
		if outcomeOf(want, id) == done {
			count++
		}
	}
	acted, err := f.Act(f.ctx, management.ActRequest{
		Action: action, Filter: management.JobFilter{IDs: standings}, Limit: 100, DryRun: true,
	})
	require.NoError(f, err)
	assert.Equal(f, management.Acted{Done: count, Skipped: len(f.standing()) - count}, acted)
}

// try does something to a job, and tells what became of it.
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
		return needless
	default:
		assert.Equal(f, management.Acted{Done: 1}, acted)
		return done
	}
}

// again does something again that was done to a job: nothing changes.
func (f *inspected) again(id string, action management.Action) {
	f.Helper()
	if !slices.Contains(f.standing(), id) {
		return
	}
	if action.Kind == management.Abandon {
		return // It may run again.
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

func TestActionsOfAJob(t *testing.T) {
	inspectEach(t, []view{ofQueue}, func(f *inspected) {
		f.stand()
		for _, id := range f.standing() {
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

func TestAnActionIsSeenByAll(t *testing.T) {
	inspectEach(t, []view{ofMore, ofManager, ofDatabase}, func(f *inspected) {
		f.stand()
		f.act("pending", management.Action{Kind: management.Cancel, Reason: "enough"})
		job := f.job("pending")
		assert.Equal(f, amboy.StateCanceled, job.State)
		assert.Equal(f, "enough", job.Reason)
		assert.Equal(f, amboy.StateCanceled, f.state("pending"))
		assert.Subset(f, slices.Collect(maps.Keys(f.states())), f.standing())
	})
}

func TestARunningJobIsCanceled(t *testing.T) {
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

func TestAFailedJobRunsAgain(t *testing.T) {
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
		require.Len(f, job.Errors, 1, "what went wrong is not forgotten")
		assert.Equal(f, assert.AnError.Error(), job.Errors[0].Error)
	})
}
