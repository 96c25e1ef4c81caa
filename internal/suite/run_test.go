package suite_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

func TestJobsRunInTurn(t *testing.T) {
	onEach(t, func(f *fixture) {
		var ran journal
		q := f.open(options{})
		for _, id := range []string{"a", "b", "c"} {
			f.put(q, f.job(id, func(context.Context, *funcJob) { ran.add(id) }))
		}
		require.NoError(f, q.Start(f.ctx))
		f.drain(q)
		assert.Equal(f, []string{"a", "b", "c"}, ran.all())
		assert.Equal(f, amboy.StateSucceeded, f.state(q, "b"))
	})
}

func TestAJobWaitsForItsTime(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		due := f.now().Add(short)
		var began time.Time
		j := f.job("late", func(context.Context, *funcJob) { began = f.now() })
		j.UpdateTimeInfo(amboy.JobTimeInfo{WaitUntil: due})
		f.put(q, j)
		f.drain(q)
		assert.False(f, began.Before(due))
	})
}

func TestAJobRunsInAnotherProcess(t *testing.T) {
	onThose(t, shared, func(f *fixture) {
		putter := f.open(options{})
		f.start(options{})
		f.put(putter, f.job("there", func(_ context.Context, j *funcJob) { j.Note = "ran" }))
		f.drain(putter)
		got, ok := putter.Get(f.ctx, "there")
		require.True(f, ok)
		assert.Equal(f, "ran", got.(*funcJob).Note)
	})
}
