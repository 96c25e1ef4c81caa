package schedule_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/schedule"
)

// A machine may start with a clock that is years ahead until it is corrected.
func TestAScheduleStoodStillAfterTheClockWasTurnedBack(t *testing.T) {
	q := newSpyQueue(t)
	daily, err := schedule.Cron("0 13 * * *", "UTC")
	require.NoError(t, err)
	q.now = noon.AddDate(9, 0, 0)
	s := process(t, q, daily, schedule.CatchUpNone)
	_, err = s.PutDue(t.Context())
	require.NoError(t, err)

	next := q.at(t, "12:00:00", s)
	assert.Equal(t, noon.Add(time.Hour), next)
	q.at(t, "13:00:00", s)
	assert.Equal(t, []string{"13:00"}, q.taken())
	q.at(t, "12:59:59", s)
	q.at(t, "13:00:00", s)
	assert.Empty(t, q.taken(), "no job is put twice")
}

func TestAScheduleWaitedForItsNextTryAfterTheClockWasTurnedBack(t *testing.T) {
	q := newSpyQueue(t)
	q.now = noon.AddDate(9, 0, 0)
	s := process(t, q, every(t, time.Hour), schedule.CatchUpNone)
	q.markErr = errors.New("the store is away")
	_, err := s.PutDue(t.Context())
	require.Error(t, err)
	q.markErr = nil
	q.at(t, "12:00:00", s)
	q.at(t, "13:00:00", s)
	assert.Equal(t, []string{"13:00"}, q.taken())
}

// clockQueue is a queue whose clock differs from the clock of the system.
type clockQueue struct {
	amboy.Queue
	amboy.QueueMarker
	mu    sync.Mutex
	ahead time.Duration
}

func (q *clockQueue) Now() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return time.Now().Add(q.ahead)
}

func TestASchedulerSleptForeverWhenItsOnlyTickSeemedToHavePassed(t *testing.T) {
	onRealQueue(t, func(t *testing.T, local amboy.Queue, _ *schedule.Scheduler) {
		q := &clockQueue{Queue: local, QueueMarker: local.(amboy.QueueMarker), ahead: 1000 * time.Hour}
		s, err := schedule.New(q, schedule.Options{})
		require.NoError(t, err)
		defer s.Close(context.Background())
		soon, err := schedule.At(time.Now().Add(time.Hour))
		require.NoError(t, err)
		require.NoError(t, s.Add("soon", soon, tick(), schedule.CatchUpNone))
		require.NoError(t, s.Start(t.Context()))
		synctest.Wait()
		q.mu.Lock()
		q.ahead = 0
		q.mu.Unlock()
		assert.Equal(t, time.Hour, <-ran)
	})
}

// A process whose clock is ahead marks ticks in the future, for which other processes then
// put no job. That must not go unnoticed.
func TestATickInTheFutureWasNotReported(t *testing.T) {
	q := newSpyQueue(t)
	ahead := process(t, q, every(t, time.Hour), schedule.CatchUpNone)
	q.at(t, "12:00:00", ahead)
	q.now = noon.AddDate(9, 0, 0)
	_, err := ahead.PutDue(t.Context())
	require.NoError(t, err)
	q.taken()

	q.now = noon
	s := process(t, q, every(t, time.Hour), schedule.CatchUpNone)
	_, err = s.PutDue(t.Context())
	require.ErrorContains(t, err, "its last tick, 2039-01-02T12:00:00Z, is in the future")
	assert.Error(t, s.List()[0].Err)
}

// The job of a tick must not be put again by a process that starts after the queue has
// removed the job.
func TestATickWasNotMarkedAgainAfterTheMarkFailed(t *testing.T) {
	spy := newSpyQueue(t)
	q := forgetful{spy}
	a := process(t, q, every(t, time.Hour), schedule.CatchUpAll)
	spy.at(t, "12:00:00", a)
	broken := &brokenMark{forgetful: q}
	b := process(t, broken, every(t, time.Hour), schedule.CatchUpAll)
	spy.at(t, "12:00:00", b)
	spy.now = noon.Add(time.Hour)
	broken.err = errors.New("the store is away")
	_, err := b.PutDue(t.Context())
	require.ErrorIs(t, err, broken.err)
	broken.err = nil
	spy.at(t, "13:00:01", b)
	spy.at(t, "13:30:00", process(t, q, every(t, time.Hour), schedule.CatchUpAll))
	assert.Equal(t, []string{"13:00"}, spy.taken())
}

// brokenMark is a queue whose marks can be read but not raised.
type brokenMark struct {
	forgetful
	err error
}

func (q *brokenMark) Mark(ctx context.Context, name string, at time.Time) (time.Time, error) {
	if !at.IsZero() && q.err != nil {
		return time.Time{}, q.err
	}
	return q.forgetful.Mark(ctx, name, at)
}

func TestARemovedSchedulePutsNoMoreJobs(t *testing.T) {
	q := newSpyQueue(t)
	s, err := schedule.New(q, schedule.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Add("first", every(t, time.Hour), func(tick time.Time) (amboy.Job, error) {
		s.Remove("second")
		s.Remove("first")
		return newNumber(tick)
	}, schedule.CatchUpAll))
	require.NoError(t, s.Add("second", every(t, time.Hour), newNumber, schedule.CatchUpAll))
	q.at(t, "12:00:00", s)
	q.at(t, "15:00:00", s)
	assert.Equal(t, []string{"13:00"}, q.taken(), "the job that was just being put")
}
