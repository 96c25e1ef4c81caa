package job_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
)

func TestErrorWrapsItsCauses(t *testing.T) {
	var b job.Base
	first, second := errors.New("first"), errors.New("second")
	b.AddError(fmt.Errorf("wrapped: %w", first))
	b.AddRetryableError(second)
	err := b.Error()
	require.EqualError(t, err, "wrapped: first\nsecond")
	require.ErrorIs(t, err, first)
	require.ErrorIs(t, err, second)

	status := b.Status()
	b.SetStatus(status)
	require.ErrorIs(t, b.Error(), first, "the errors are the same")
	status.Errors = []string{"another"}
	b.SetStatus(status)
	require.EqualError(t, b.Error(), "another")
	assert.NotErrorIs(t, b.Error(), first)
}

// lazy is an error that takes its message from its job.
type lazy struct{ job *job.Base }

func (e lazy) Error() string {
	return fmt.Sprintf("attempt %d failed", e.job.RetryInfo().CurrentAttempt)
}

func TestAnErrorThatCallsItsJobBlockedTheJobForEver(t *testing.T) {
	var b job.Base
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		b.AddError(lazy{&b})
	}()
	select {
	case <-reported:
	case <-time.After(10 * time.Second):
		require.Fail(t, "AddError does not return")
	}
	require.EqualError(t, b.Error(), "attempt 0 failed")
	require.ErrorAs(t, b.Error(), &lazy{})
	assert.Equal(t, "attempt 0 failed", b.Status().Attempts[0].Error)
}

func TestErrorsThatPreventARetry(t *testing.T) {
	no, yes := amboy.NonRetryable(errors.New("no")), errors.New("yes")
	for name, test := range map[string]struct {
		report  func(*job.Base)
		retry   bool
		outcome amboy.Outcome
	}{
		"retryable":        {func(b *job.Base) { b.AddRetryableError(yes) }, true, ""},
		"not retryable":    {func(b *job.Base) { b.AddRetryableError(no) }, false, ""},
		"first":            {func(b *job.Base) { b.AddRetryableError(no); b.AddRetryableError(yes) }, false, ""},
		"last":             {func(b *job.Base) { b.AddRetryableError(yes); b.AddError(no) }, false, ""},
		"canceled":         {func(b *job.Base) { b.AddRetryableError(yes); b.AddError(&amboy.CancelError{}) }, false, amboy.OutcomeCanceled},
		"wrapped canceled": {func(b *job.Base) { b.AddError(fmt.Errorf("x: %w", &amboy.CancelError{Err: yes})) }, false, amboy.OutcomeCanceled},
		"nil":              {func(b *job.Base) { b.AddRetryableError(amboy.NonRetryable(nil)) }, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var b job.Base
			b.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true)})
			test.report(&b)
			assert.Equal(t, test.retry, b.RetryInfo().NeedsRetry)
			assert.Equal(t, test.outcome, b.Status().Outcome)
		})
	}
}

func TestSnooze(t *testing.T) {
	var b job.Base
	b.Snooze(time.Time{})
	assert.Zero(t, b.SnoozedUntil())
	until := time.Now().Add(time.Hour)
	b.Snooze(until)
	assert.Equal(t, until, b.SnoozedUntil())
	b.Snooze(time.Time{})
	assert.Zero(t, b.SnoozedUntil())

	b.AddRetryableError(fmt.Errorf("later: %w", &amboy.SnoozeError{Until: until}))
	assert.Equal(t, until, b.SnoozedUntil())
	require.NoError(t, b.Error(), "snoozing is not a failure")
	b.AddError(&amboy.SnoozeError{})
	assert.WithinDuration(t, time.Now(), b.SnoozedUntil(), time.Minute, "a time that is unset is now")
}

func TestMetadata(t *testing.T) {
	var b job.Base
	assert.Nil(t, b.Metadata())
	b.SetMetadata("a", "1")
	b.SetMetadata("b", "2")
	b.SetMetadata("b", "")
	b.SetMetadata("c", "")
	got := b.Metadata()
	assert.Equal(t, map[string]string{"a": "1"}, got)
	got["a"] = "changed"
	assert.Equal(t, map[string]string{"a": "1"}, b.Metadata())
}

// countingError counts how often its type is checked.
type countingError struct{ looks *int }

func (countingError) Error() string { return "no" }

func (e countingError) As(any) bool {
	*e.looks++
	return false
}

func TestEachErrorIsClassifiedOnce(t *testing.T) {
	var j job.Base
	j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true)})
	looks := 0
	for range 1000 {
		j.AddRetryableError(countingError{&looks})
	}
	assert.LessOrEqual(t, looks, 10*1000)
}

func TestRunJobReturnsASnoozeError(t *testing.T) {
	j := newMember(t, "snoozes", func(_ context.Context, m *member) { m.Snooze(time.Now().Add(time.Hour)) })
	var snooze *amboy.SnoozeError
	require.ErrorAs(t, amboy.RunJob(t.Context(), j), &snooze)
	assert.Equal(t, j.SnoozedUntil(), snooze.Until)
	assert.False(t, j.Status().Completed)
	assert.False(t, j.Status().InProgress)
}
