package job_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
)

// written is a hand-written job.
type written struct{ job.Base }

func (j *written) Run(context.Context) {}

// bare is a job that does not embed Base.
type bare struct{ amboy.Job }

func TestContextOfAJob(t *testing.T) {
	j := &written{}
	j.SetID("j")
	j.UpdateRetryInfo(amboy.JobRetryOptions{CurrentAttempt: new(2)})
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "kept")

	_, ok := job.FromContext(ctx)
	assert.False(t, ok)
	assert.Empty(t, job.IDFrom(ctx))
	assert.Zero(t, job.AttemptFrom(ctx))

	ctx, cancel := context.WithCancelCause(job.NewContext(ctx, j))
	got, ok := job.FromContext(ctx)
	require.True(t, ok)
	assert.Same(t, j, got)
	assert.Equal(t, "j", job.IDFrom(ctx))
	assert.Equal(t, 2, job.AttemptFrom(ctx))
	assert.Equal(t, "kept", ctx.Value(key{}))

	other := &written{}
	got, _ = job.FromContext(job.NewContext(ctx, other))
	assert.Same(t, other, got)

	errStop := errors.New("stop")
	cancel(errStop)
	assert.Equal(t, errStop, context.Cause(job.NewContext(ctx, j)))
}

func TestContextWithoutAJob(t *testing.T) {
	require.ErrorIs(t, job.SetProgress(t.Context(), 0.5, "half"), job.ErrNoJob)
	require.ErrorIs(t, job.Checkpoint(t.Context(), 1), job.ErrNoJob)
	job.Log(t.Context(), "nobody's")
}

func TestProgressOutOfRangeWasCalledAnInvalidJob(t *testing.T) {
	j := &written{}
	j.SetID("j")
	ctx := job.NewContext(t.Context(), j)
	for _, fraction := range []float64{-0.01, 1.01, math.NaN(), math.Inf(1)} {
		err := job.SetProgress(ctx, fraction, "much")
		var refused *job.InvalidProgressError
		require.ErrorAs(t, err, &refused)
		require.EqualError(t, err, fmt.Sprintf(`progress of job "j" must be from 0 to 1 (is %v)`, fraction))
		var invalid *amboy.InvalidJobError
		require.NotErrorAs(t, err, &invalid)
	}
	assert.Nil(t, j.Progress())

	ctx = job.NewContext(t.Context(), &bare{j})
	var invalid *amboy.InvalidJobError
	require.ErrorAs(t, job.SetProgress(ctx, 1, ""), &invalid)
	assert.Equal(t, "*job_test.bare", invalid.Value)
	job.Log(ctx, "lost")
	assert.Nil(t, j.Progress())
}

func TestCheckpointIsRefused(t *testing.T) {
	d := job.Define(newName(), 1, func(ctx context.Context, _ string) error { return job.Checkpoint(ctx, 7) })
	j, err := d.New("x", job.ID("x"))
	require.NoError(t, err)
	err = amboy.RunJob(t.Context(), j)
	var invalid *amboy.InvalidJobError
	require.ErrorAs(t, err, &invalid)
	assert.Equal(t, amboy.InvalidJobError{JobID: "x", Field: "type of the checkpoint", Value: "int", Rule: "must be the type of the arguments of the job's definition"}, *invalid)
}

// storing is a queue that stores progress.
type storing struct {
	amboy.Queue
	mu     sync.Mutex
	stored []amboy.JobProgress
	fails  error
}

func (q *storing) SetProgress(_ context.Context, _ amboy.Job, p amboy.JobProgress) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stored = append(q.stored, p)
	return q.fails
}

func TestLogIsStoredOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, j := &storing{}, &written{}
		ctx := job.NewContext(amboy.ContextWithQueue(t.Context(), q), j)
		sizes := func() (sizes []int) {
			for _, p := range q.stored {
				sizes = append(sizes, len(p.Log))
			}
			return sizes
		}
		for range 5 {
			job.Log(ctx, "line")
		}
		assert.Equal(t, []int{1}, sizes())
		time.Sleep(time.Second - 1)
		job.Log(ctx, "line")
		assert.Equal(t, []int{1}, sizes())
		time.Sleep(time.Nanosecond)
		job.Log(ctx, "line")
		assert.Equal(t, []int{1, 7}, sizes())
		require.NoError(t, job.SetProgress(ctx, 0.5, "half"))
		job.Log(ctx, "line")
		require.NoError(t, job.SetProgress(ctx, 0.6, "more"))
		assert.Equal(t, []int{1, 7, 7, 8}, sizes())

		q.fails = errors.New("disk full")
		require.ErrorIs(t, job.SetProgress(ctx, 0.7, "much"), q.fails)
		time.Sleep(time.Second)
		job.Log(ctx, "kept all the same")
		assert.Len(t, j.Progress().Log, 9)
		assert.Equal(t, "much", j.Progress().Message)
	})
}

func TestLogsOfSeveralGoroutines(t *testing.T) {
	j := &written{}
	ctx := job.NewContext(amboy.ContextWithQueue(t.Context(), &storing{}), j)
	var logging sync.WaitGroup
	for g := range 8 {
		logging.Go(func() {
			for i := range 100 {
				job.Log(ctx, "%d.%d", g, i)
				assert.NoError(t, job.SetProgress(ctx, float64(i)/100, ""))
			}
		})
	}
	logging.Wait()
	p := j.Progress()
	assert.Len(t, p.Log, amboy.MaxLogLines)
	assert.Equal(t, 800, len(p.Log)+p.DroppedLines)
}

func TestSnoozeAndCancel(t *testing.T) {
	before := time.Now()
	var snooze *amboy.SnoozeError
	require.ErrorAs(t, job.Snooze(time.Hour), &snooze)
	assert.WithinRange(t, snooze.Until, before.Add(time.Hour), time.Now().Add(time.Hour))

	var invalid *amboy.InvalidJobError
	require.ErrorAs(t, job.Snooze(-time.Hour), &invalid)
	assert.Equal(t, amboy.InvalidJobError{Field: "snooze delay", Value: -time.Hour, Rule: "must not be negative"}, *invalid)

	errUnwanted := errors.New("unwanted")
	err := fmt.Errorf("wrapped: %w", job.Cancel(errUnwanted))
	require.ErrorIs(t, err, errUnwanted)
	assert.True(t, amboy.IsNonRetryable(err))
	assert.Error(t, job.Cancel(nil))
}

func TestAHandWrittenJobSnoozesByAnError(t *testing.T) {
	j := &written{}
	j.AddError(fmt.Errorf("not yet: %w", job.Snooze(time.Hour)))
	require.NoError(t, j.Error())
	assert.False(t, amboy.SnoozedUntil(j).IsZero())
}

func TestProgressBelongsToAnAttempt(t *testing.T) {
	j := &written{}
	assert.Nil(t, j.Progress())
	j.SetProgress(amboy.JobProgress{Message: "half", Log: []amboy.LogLine{{Text: "a"}}})
	j.Progress().Log[0].Text = "changed"
	assert.Equal(t, "a", j.Progress().Log[0].Text)
	assert.Equal(t, "half", amboy.NewJobInfo(j).Progress.Message)
	j.UpdateRetryInfo(amboy.JobRetryOptions{CurrentAttempt: new(1)})
	assert.Nil(t, j.Progress())
	job.Log(job.NewContext(t.Context(), j), "%s", strings.Repeat("x", amboy.MaxLogLineBytes+1))
	assert.Len(t, j.Progress().Log, 1)
	assert.Empty(t, j.Progress().Message)
}
