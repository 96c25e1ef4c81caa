package amboy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy"
)

func TestStateOf(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	before, after := now.Add(-time.Second), now.Add(time.Second)
	retry := amboy.JobRetryInfo{Retryable: true, NeedsRetry: true}

	for _, test := range []struct {
		name   string
		status amboy.JobStatusInfo
		times  amboy.JobTimeInfo
		retry  amboy.JobRetryInfo
		want   amboy.JobState
	}{
		{name: "new", want: amboy.StatePending},
		{name: "due since", times: amboy.JobTimeInfo{WaitUntil: before}, want: amboy.StatePending},
		{name: "due now", times: amboy.JobTimeInfo{WaitUntil: now}, want: amboy.StatePending},
		{name: "due later", times: amboy.JobTimeInfo{WaitUntil: after}, want: amboy.StateScheduled},
		{name: "dispatch by later", times: amboy.JobTimeInfo{DispatchBy: after}, want: amboy.StatePending},
		{name: "dispatch by now", times: amboy.JobTimeInfo{DispatchBy: now}, want: amboy.StatePending},
		{name: "dispatch by passed", times: amboy.JobTimeInfo{DispatchBy: before}, want: amboy.StateExpired},
		{name: "errors of a run that was handed back", status: amboy.JobStatusInfo{ErrorCount: 1}, want: amboy.StatePending},
		{name: "retryable", retry: retry, want: amboy.StatePending},

		{name: "blocked", status: amboy.JobStatusInfo{Hold: amboy.HoldBlocked}, want: amboy.StateBlocked},
		{
			name: "blocked over scheduled", status: amboy.JobStatusInfo{Hold: amboy.HoldBlocked},
			times: amboy.JobTimeInfo{WaitUntil: after}, want: amboy.StateBlocked,
		},
		{
			name: "expired over blocked", status: amboy.JobStatusInfo{Hold: amboy.HoldBlocked},
			times: amboy.JobTimeInfo{DispatchBy: before}, want: amboy.StateExpired,
		},
		{name: "parked", status: amboy.JobStatusInfo{Hold: amboy.HoldParked}, want: amboy.StateParked},
		{
			name: "parked over expired", status: amboy.JobStatusInfo{Hold: amboy.HoldParked},
			times: amboy.JobTimeInfo{DispatchBy: before}, want: amboy.StateParked,
		},
		{
			name: "parked over scheduled", status: amboy.JobStatusInfo{Hold: amboy.HoldParked},
			times: amboy.JobTimeInfo{WaitUntil: after}, want: amboy.StateParked,
		},

		{name: "running", status: amboy.JobStatusInfo{InProgress: true}, want: amboy.StateRunning},
		{
			name: "running over expired", status: amboy.JobStatusInfo{InProgress: true},
			times: amboy.JobTimeInfo{DispatchBy: before}, want: amboy.StateRunning,
		},
		{name: "running over parked", status: amboy.JobStatusInfo{InProgress: true, Hold: amboy.HoldParked}, want: amboy.StateRunning},
		{name: "running with errors", status: amboy.JobStatusInfo{InProgress: true, ErrorCount: 1}, want: amboy.StateRunning},
		{name: "complete over running", status: amboy.JobStatusInfo{Completed: true, InProgress: true}, want: amboy.StateSucceeded},

		{name: "succeeded", status: amboy.JobStatusInfo{Completed: true}, want: amboy.StateSucceeded},
		{
			name: "succeeded over expired", status: amboy.JobStatusInfo{Completed: true},
			times: amboy.JobTimeInfo{DispatchBy: before}, want: amboy.StateSucceeded,
		},
		{name: "failed, by its count", status: amboy.JobStatusInfo{Completed: true, ErrorCount: 1}, want: amboy.StateFailed},
		{name: "failed, by its messages", status: amboy.JobStatusInfo{Completed: true, Errors: []string{"no"}}, want: amboy.StateFailed},
		{
			name:   "errors of earlier attempts alone",
			status: amboy.JobStatusInfo{Completed: true, Attempts: []amboy.AttemptError{{Error: "no"}}},
			want:   amboy.StateSucceeded,
		},
		{name: "canceled", status: amboy.JobStatusInfo{Completed: true, Outcome: amboy.OutcomeCanceled}, want: amboy.StateCanceled},
		{
			name:   "canceled over failed",
			status: amboy.JobStatusInfo{Completed: true, Outcome: amboy.OutcomeCanceled, ErrorCount: 1},
			want:   amboy.StateCanceled,
		},
		{name: "expired", status: amboy.JobStatusInfo{Completed: true, Outcome: amboy.OutcomeExpired}, want: amboy.StateExpired},
		{
			name:   "expired over failed",
			status: amboy.JobStatusInfo{Completed: true, Outcome: amboy.OutcomeExpired, ErrorCount: 1},
			want:   amboy.StateExpired,
		},
		{name: "outcome before the end", status: amboy.JobStatusInfo{Outcome: amboy.OutcomeCanceled}, want: amboy.StatePending},

		{name: "retrying", status: amboy.JobStatusInfo{Completed: true}, retry: retry, want: amboy.StateRetrying},
		{name: "retrying over failed", status: amboy.JobStatusInfo{Completed: true, ErrorCount: 1}, retry: retry, want: amboy.StateRetrying},
		{
			name: "asks for a retry but is not retryable", status: amboy.JobStatusInfo{Completed: true},
			retry: amboy.JobRetryInfo{NeedsRetry: true}, want: amboy.StateSucceeded,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			info := amboy.JobInfo{State: "not read", Status: test.status, Time: test.times, Retry: test.retry}
			assert.Equal(t, test.want, amboy.StateOf(info, now))
		})
	}
}

func TestJobStates(t *testing.T) {
	final := map[amboy.JobState]bool{}
	for _, state := range amboy.JobStates() {
		assert.NotContains(t, final, state, "listed twice")
		final[state] = state.IsFinal()
	}
	assert.Equal(t, map[amboy.JobState]bool{
		amboy.StateScheduled: false,
		amboy.StatePending:   false,
		amboy.StateBlocked:   false,
		amboy.StateParked:    false,
		amboy.StateRunning:   false,
		amboy.StateRetrying:  false,
		amboy.StateSucceeded: true,
		amboy.StateFailed:    true,
		amboy.StateCanceled:  true,
		amboy.StateExpired:   true,
	}, final)
	assert.False(t, amboy.JobState("unknown").IsFinal())
}
