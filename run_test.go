package amboy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

func TestRunJob(t *testing.T) {
	for _, test := range []struct {
		name string
		run  func(ctx context.Context, j *testJob)
		want string
	}{
		{name: "marks itself complete", run: func(_ context.Context, j *testJob) { j.MarkComplete() }},
		{name: "just returns", run: func(context.Context, *testJob) {}},
		{
			name: "fails",
			run:  func(_ context.Context, j *testJob) { j.AddError(errors.New("no")); j.AddError(errors.New("no way")) },
			want: "no\nno way",
		},
		{name: "panics", run: func(context.Context, *testJob) { panic("boom") }, want: "panic: boom"},
		{name: "panics with an error", run: func(context.Context, *testJob) { panic(errPlain) }, want: "panic: disk is full"},
		{
			name: "fails and panics",
			run:  func(_ context.Context, j *testJob) { j.AddError(errPlain); panic("boom") },
			want: "disk is full\npanic: boom",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				j := newJob("a")
				j.SetTimeInfo(amboy.JobTimeInfo{Created: someTime, End: someTime, WaitUntil: start.Add(time.Hour)})
				j.run = func(ctx context.Context, j *testJob) {
					status, times := j.Status(), j.TimeInfo()
					assert.True(t, status.InProgress)
					assert.False(t, status.Completed)
					assert.Equal(t, start, times.Start)
					assert.Zero(t, times.End)
					<-time.After(time.Second)
					test.run(ctx, j)
				}

				err := amboy.RunJob(t.Context(), j)
				if test.want == "" {
					require.NoError(t, err)
				} else {
					require.EqualError(t, err, test.want)
				}
				assert.False(t, j.Status().InProgress)
				assert.True(t, j.Status().Completed)
				assert.Equal(t, amboy.JobTimeInfo{
					Created: someTime, Start: start, End: start.Add(time.Second), WaitUntil: start.Add(time.Hour),
				}, j.TimeInfo())
			})
		})
	}
}

func TestRunJobReturnedTheSnoozeOfAnEarlierRun(t *testing.T) {
	j := newJob("a")
	j.run = func(_ context.Context, j *testJob) { j.Snooze(time.Now()) }
	var snooze *amboy.SnoozeError
	require.ErrorAs(t, amboy.RunJob(t.Context(), j), &snooze)
	assert.False(t, j.Status().Completed)

	j.run = nil
	require.NoError(t, amboy.RunJob(t.Context(), j))
	assert.True(t, j.Status().Completed)
}

func TestRunJobKeepsTheStackOfAPanic(t *testing.T) {
	j := newJob("a")
	j.run = func(context.Context, *testJob) { panicForTheStack() }
	require.Error(t, amboy.RunJob(t.Context(), j))
	require.Len(t, j.Status().Attempts, 1)
	assert.Contains(t, j.Status().Attempts[0].Stack, "panicForTheStack")
}

func panicForTheStack() { panic("boom") }

func TestRunJobRefusesBadInput(t *testing.T) {
	var nilJob *testJob
	for _, test := range []struct {
		name string
		job  func(ran *bool) amboy.Job
		want amboy.InvalidJobError
	}{
		{
			name: "nil",
			job:  func(*bool) amboy.Job { return nil },
			want: amboy.InvalidJobError{Field: "job", Rule: "must not be nil"},
		},
		{
			name: "nil pointer",
			job:  func(*bool) amboy.Job { return nilJob },
			want: amboy.InvalidJobError{Field: "job", Rule: "must not be nil"},
		},
		{
			name: "negative max time",
			job: func(ran *bool) amboy.Job {
				j := newJob("a")
				j.run = func(context.Context, *testJob) { *ran = true }
				j.UpdateTimeInfo(amboy.JobTimeInfo{MaxTime: -time.Second})
				return j
			},
			want: amboy.InvalidJobError{JobID: "a", Field: "max time", Value: -time.Second, Rule: "must not be negative"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			ran := false
			j := test.job(&ran)
			var invalid *amboy.InvalidJobError
			require.ErrorAs(t, amboy.RunJob(t.Context(), j), &invalid)
			assert.Equal(t, test.want, *invalid)
			assert.False(t, ran)
			if !amboy.IsNilJob(j) {
				assert.Equal(t, amboy.JobStatusInfo{}, j.Status(), "nothing is changed")
				assert.Equal(t, amboy.JobTimeInfo{MaxTime: -time.Second}, j.TimeInfo(), "nothing is changed")
			}
		})
	}
}

func TestRunAttemptMaxTime(t *testing.T) {
	const maxTime = time.Minute
	waitForTheEnd := func(ctx context.Context, _ *testJob) { <-ctx.Done() }
	canceled := errors.New("the service shuts down")

	for _, test := range []struct {
		name string
		// cancelAfter ends the context that RunAttempt is given; 0 means never.
		cancelAfter time.Duration
		run         func(ctx context.Context, j *testJob)
		want        string
		wantCause   error
		wantTook    time.Duration
	}{
		{
			name: "used up", run: waitForTheEnd,
			want: "job ran longer than its maximum time of 1m0s", wantCause: context.DeadlineExceeded, wantTook: maxTime,
		},
		{
			name: "used up by a job that marked itself complete at the start",
			run: func(ctx context.Context, j *testJob) {
				defer j.MarkComplete()
				<-ctx.Done()
			},
			want: "job ran longer than its maximum time of 1m0s", wantCause: context.DeadlineExceeded, wantTook: maxTime,
		},
		{
			name: "used up by a job that reports an error",
			run: func(ctx context.Context, j *testJob) {
				<-ctx.Done()
				j.AddError(errPlain)
			},
			want: "disk is full", wantCause: context.DeadlineExceeded, wantTook: maxTime,
		},
		{
			name: "not used up",
			run:  func(context.Context, *testJob) { <-time.After(maxTime - 1) },
			// The context ends with the attempt.
			wantCause: context.Canceled, wantTook: maxTime - 1,
		},
		{
			name: "canceled before", cancelAfter: time.Second, run: waitForTheEnd,
			wantCause: canceled, wantTook: time.Second,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if test.cancelAfter > 0 {
					time.AfterFunc(test.cancelAfter, func() { cancel(canceled) })
				}
				start := time.Now()
				var given context.Context
				j := newJob("a")
				j.UpdateTimeInfo(amboy.JobTimeInfo{MaxTime: maxTime})
				j.run = func(ctx context.Context, j *testJob) {
					given = ctx
					test.run(ctx, j)
				}

				err := amboy.RunAttempt(ctx, j)
				assert.Equal(t, test.wantTook, time.Since(start))
				require.ErrorIs(t, context.Cause(given), test.wantCause)
				if test.want == "" {
					require.NoError(t, j.Error())
					require.NoError(t, err)
				} else {
					require.EqualError(t, j.Error(), test.want)
					require.EqualError(t, err, test.want)
				}
			})
		})
	}
}

func TestRunAttemptWithoutMaxTime(t *testing.T) {
	j := newJob("a")
	ran := false
	j.run = func(ctx context.Context, _ *testJob) {
		ran = true
		_, limited := ctx.Deadline()
		assert.False(t, limited)
	}
	require.NoError(t, amboy.RunAttempt(t.Context(), j))
	assert.True(t, ran)
	assert.NoError(t, j.Error())
}

func TestMaxTimeError(t *testing.T) {
	err := fmt.Errorf("running: %w", &amboy.MaxTimeError{MaxTime: time.Minute})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, context.Canceled)
	var maxTime *amboy.MaxTimeError
	require.ErrorAs(t, err, &maxTime)
	assert.Equal(t, time.Minute, maxTime.MaxTime)
}

func TestPanicError(t *testing.T) {
	withError := &amboy.PanicError{Value: fmt.Errorf("writing: %w", errPlain)}
	require.ErrorIs(t, withError, errPlain)
	require.EqualError(t, withError, "panic: writing: disk is full")

	withText := &amboy.PanicError{Value: "boom"}
	require.NoError(t, errors.Unwrap(withText))
	assert.EqualError(t, withText, "panic: boom")
}

func TestIsNilJob(t *testing.T) {
	var nilJob *testJob
	assert.True(t, amboy.IsNilJob(nil))
	assert.True(t, amboy.IsNilJob(nilJob))
	assert.False(t, amboy.IsNilJob(newJob("a")))
	assert.False(t, amboy.IsNilJob(struct{ amboy.Job }{}), "a job that is not a pointer")
}

func TestValidateJob(t *testing.T) {
	var nilJob *testJob
	longest := strings.Repeat("a", amboy.MaxIDLength)

	for _, test := range []struct {
		name   string
		job    amboy.Job
		change func(j *testJob)
		// field is the refused field, empty if the job is valid.
		field string
	}{
		{name: "nil", job: nil, field: "job"},
		{name: "nil pointer", job: nilJob, field: "job"},
		{name: "everything allowed", change: func(j *testJob) {
			j.SetScopes([]string{"s"})
			j.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: someTime, DispatchBy: someTime, MaxTime: time.Second})
			j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: ptr(true), MaxAttempts: ptr(1)})
		}},
		{name: "empty ID", change: func(j *testJob) { j.SetID("") }, field: "ID"},
		{name: "longest ID", change: func(j *testJob) { j.SetID(longest) }},
		{name: "longer ID", change: func(j *testJob) { j.SetID(longest + "a") }, field: "ID"},
		{name: "longer ID, cut in a character", change: func(j *testJob) { j.SetID("ab" + strings.Repeat("世", amboy.MaxIDLength/3)) }, field: "ID"},
		{name: "no type", change: func(j *testJob) { j.SetType(amboy.JobType{}) }},
		{name: "negative version", change: func(j *testJob) { j.SetType(amboy.JobType{Name: "test", Version: -1}) }, field: "type version"},
		{name: "negative max time", change: func(j *testJob) { j.SetTimeInfo(amboy.JobTimeInfo{MaxTime: -1}) }, field: "max time"},
		{name: "wait-until after dispatch-by", change: func(j *testJob) {
			j.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: someTime.Add(1), DispatchBy: someTime})
		}, field: "wait-until"},
		{name: "empty scope", change: func(j *testJob) { j.SetScopes([]string{"s", ""}) }, field: "scope"},
		{name: "scope that is not UTF-8", change: func(j *testJob) { j.SetScopes([]string{"s", "\xff"}) }, field: "scope"},
		{name: "tag that is not UTF-8", change: func(j *testJob) { j.SetTags([]string{"fine", "\xff"}) }, field: "tag"},
		{name: "negative attempt limit", change: func(j *testJob) {
			j.UpdateRetryInfo(amboy.JobRetryOptions{MaxAttempts: ptr(-1)})
		}, field: "max attempts"},
	} {
		t.Run(test.name, func(t *testing.T) {
			j := test.job
			if test.change != nil {
				valid := newJob("a")
				test.change(valid)
				j = valid
			}
			err := amboy.ValidateJob(j)
			if test.field == "" {
				require.NoError(t, err)
				return
			}
			var invalid *amboy.InvalidJobError
			require.ErrorAs(t, err, &invalid)
			assert.Equal(t, test.field, invalid.Field)
			assert.NotEmpty(t, invalid.Rule)
			assert.True(t, utf8.ValidString(invalid.JobID))
			if invalid.Field != "ID" && invalid.Field != "job" {
				assert.Equal(t, "a", invalid.JobID)
			}
			assert.Less(t, len(err.Error()), 3*amboy.MaxIDLength, "the message is bounded")
		})
	}
}
