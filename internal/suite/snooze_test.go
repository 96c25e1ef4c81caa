package suite_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
)

func TestASnoozedJobRunsAgainLater(t *testing.T) {
	for name, snooze := range map[string]func(*funcJob, time.Time){
		"by method": func(j *funcJob, until time.Time) { j.Snooze(until) },
		"by error":  func(j *funcJob, until time.Time) { j.AddRetryableError(&amboy.SnoozeError{Until: until}) },
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(f *fixture) {
				q := f.start(options{})
				var starts []time.Time
				j := f.job("snoozes", func(_ context.Context, j *funcJob) {
					starts = append(starts, f.now())
					if len(starts) < 3 {
						snooze(j, f.now().Add(short))
					}
				})
				f.put(q, retryable(j, 1))
				f.drain(q)
				require.Len(f, starts, 3)
				for i := range 2 {
					assert.GreaterOrEqual(f, starts[i+1].Sub(starts[i]), short)
				}
				info := f.info(q, "snoozes")
				assert.Equal(f, amboy.StateSucceeded, info.State)
				assert.Equal(f, 0, info.Retry.CurrentAttempt)
				assert.Empty(f, info.Status.Attempts)
			})
		})
	}
}

func TestASnoozedJobGivesItsScopesUp(t *testing.T) {
	onThose(t, faked, func(f *fixture) {
		q := f.start(options{})
		var ran journal
		snoozed := false
		j := f.job("snoozes", func(_ context.Context, j *funcJob) {
			ran.add(j.ID())
			if !snoozed {
				snoozed = true
				j.Snooze(f.now().Add(time.Hour))
			}
		})
		j.SetScopes([]string{"s"})
		other := f.job("other", func(_ context.Context, j *funcJob) { ran.add(j.ID()) })
		other.SetScopes([]string{"s"})
		f.put(q, j, other)
		require.True(f, amboy.WaitJob(f.ctx, other, q))
		info := f.info(q, "snoozes")
		assert.Equal(f, amboy.StateBlocked, info.State)
		assert.Equal(f, "it asked to run again later", info.Status.Reason)
		f.drain(q)
		assert.Equal(f, []string{"snoozes", "other", "snoozes"}, ran.all())
	})
}

func TestAJobThatFailedIsNotSnoozed(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		var runs int
		f.put(q, retryable(f.job("fails", func(_ context.Context, j *funcJob) {
			runs++
			if runs == 1 {
				j.Snooze(f.now().Add(time.Hour))
				j.AddRetryableError(errors.New("no"))
			}
		}), 2))
		f.drain(q)
		assert.Equal(f, 2, runs)
		info := f.info(q, "fails")
		assert.Equal(f, amboy.StateSucceeded, info.State)
		assert.Equal(f, 1, info.Retry.CurrentAttempt)
		assert.Less(f, info.Time.End.Sub(info.Time.Created), time.Hour)
	})
}

func TestAJobThatSnoozesForZeroLetsOthersRun(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.open(options{})
		var polls int
		done := false
		f.put(q, f.job("polls", func(_ context.Context, j *funcJob) {
			polls++
			if !done && polls < 1000 {
				j.Snooze(f.now().Add(-time.Hour))
			}
		}), f.job("other", func(context.Context, *funcJob) { done = true }))
		require.NoError(f, q.Start(f.ctx))
		f.drain(q)
		assert.Less(f, polls, 1000)
	})
}

func TestTheLogOfASnoozedJobIsKept(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		runs := 0
		f.put(q, f.job("logs", func(ctx context.Context, j *funcJob) {
			ctx = job.NewContext(ctx, j)
			runs++
			if runs == 1 {
				job.Log(ctx, "stored at once")
				job.Log(ctx, "not yet stored")
				j.Snooze(f.now().Add(short))
			}
		}))
		f.drain(q)
		var lines []string
		for _, line := range f.info(q, "logs").Progress.Log {
			lines = append(lines, line.Text)
		}
		assert.Equal(f, []string{"stored at once", "not yet stored"}, lines)
	})
}

// The guide to retries promises that a job which asked to run again does so.
func TestAJobThatStartedInTimeExpiredAfterASnooze(t *testing.T) {
	onThose(t, faked, func(f *fixture) {
		q := f.start(options{})
		runs := 0
		j := f.job("snoozes", func(_ context.Context, j *funcJob) {
			runs++
			if runs == 1 {
				j.Snooze(f.now().Add(time.Hour))
			}
		})
		j.UpdateTimeInfo(amboy.JobTimeInfo{DispatchBy: f.now().Add(time.Minute)})
		f.put(q, j)
		f.drain(q)
		assert.Equal(f, 2, runs)
		assert.Equal(f, amboy.StateSucceeded, f.state(q, "snoozes"))
	})
}
