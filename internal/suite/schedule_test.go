package suite_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/schedule"
)

// scheduler returns a scheduler with a schedule of two ticks in the near future, as
// another process would create it.
func (f *fixture) scheduler(q amboy.Queue, ran *journal, ticks ...time.Time) *schedule.Scheduler {
	f.Helper()
	s, err := schedule.New(q, schedule.Options{})
	require.NoError(f, err)
	f.Cleanup(func() { s.Close(context.Background()) })
	soon, err := schedule.At(ticks...)
	require.NoError(f, err)
	require.NoError(f, s.Add("soon", soon, func(time.Time) (amboy.Job, error) {
		return f.job("", func(_ context.Context, j *funcJob) { ran.add(j.ID()) }), nil
	}, schedule.CatchUpAll))
	return s
}

// putDue puts the due ticks in a number of processes.
func (f *fixture) putDue(processes ...*schedule.Scheduler) {
	f.Helper()
	for _, s := range processes {
		_, err := s.PutDue(f.ctx)
		require.NoError(f, err)
	}
}

func TestEachTickOfAScheduleRunsOnce(t *testing.T) {
	onEach(t, func(f *fixture) {
		var ran journal
		q := f.start(options{})
		other := q
		if f.shared {
			other = f.start(options{})
		}
		start := f.now()
		ticks := []time.Time{start.Add(short), start.Add(2 * short)}
		a, b := f.scheduler(q, &ran, ticks...), f.scheduler(other, &ran, ticks...)
		f.putDue(a, b)
		f.sleep(short)
		f.putDue(a, b)
		f.sleep(short)
		f.putDue(b, a)
		f.drain(q)
		first, second := schedule.TickID("soon", a.List()[0].Last.Add(-short)), schedule.TickID("soon", a.List()[0].Last)
		assert.ElementsMatch(f, []string{first, second}, ran.all(), "each tick once, by any process")
		assert.Equal(f, amboy.StateSucceeded, f.state(q, second))
		assert.Zero(f, a.List()[0].Next)
	})
}

func TestMissedTicksAreCaughtUp(t *testing.T) {
	onEach(t, func(f *fixture) {
		var ran journal
		q := f.start(options{})
		start := f.now()
		ticks := []time.Time{start.Add(short), start.Add(2 * short)}
		f.putDue(f.scheduler(q, &ran, ticks...)) // and its process ends
		f.sleep(3 * short)
		again := f.scheduler(q, &ran, ticks...)
		f.putDue(again)
		f.putDue(again)
		f.drain(q)
		assert.Len(f, ran.all(), 2)
	})
}

func TestAStartedSchedulerPutsWhatIsDue(t *testing.T) {
	onEach(t, func(f *fixture) {
		var ran journal
		q := f.start(options{})
		if f.inline != nil {
			f.Skip("the queue has its own clock")
		}
		s := f.scheduler(q, &ran, f.now().Add(short))
		require.NoError(f, s.Start(f.ctx))
		for len(ran.all()) == 0 && f.ctx.Err() == nil {
			f.sleep(short)
		}
		assert.Len(f, ran.all(), 1)
	})
}

func TestMarks(t *testing.T) {
	onEach(t, func(f *fixture) {
		q, ok := f.open(options{}).(amboy.QueueMarker)
		require.True(f, ok)
		mark := func(name string, at time.Time) time.Time {
			last, err := q.Mark(f.ctx, name, at)
			require.NoError(f, err)
			return last
		}
		at := time.Date(2030, 1, 2, 3, 4, 5, 6e6, time.UTC)
		assert.Zero(f, mark("a", time.Time{}))
		assert.Zero(f, mark("a", at.Add(time.Microsecond)))
		assert.Equal(f, at, mark("a", at.Add(-time.Hour)))
		assert.Equal(f, at, mark("a", at.Add(time.Hour)))
		assert.Equal(f, at.Add(time.Hour), mark("a", time.Time{}))
		assert.Zero(f, mark("b", time.Time{}))

		ctx, cancel := context.WithCancel(f.ctx)
		cancel()
		_, err := q.Mark(ctx, "a", at.Add(2*time.Hour))
		require.ErrorIs(f, err, context.Canceled)
		assert.Equal(f, at.Add(time.Hour), mark("a", time.Time{}))

		q.(amboy.Queue).Close(f.ctx)
		_, err = q.Mark(f.ctx, "a", time.Time{})
		require.ErrorIs(f, err, amboy.ErrQueueClosed)
	})
}
