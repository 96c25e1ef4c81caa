package local

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue/driver"
)

// again is a job that fails once.
type again struct {
	job.Base
	runs int
}

// shiftedClock is a wall clock that is ahead of the system's by a duration.
type shiftedClock struct{ by atomic.Int64 }

func (c *shiftedClock) now() time.Time { return time.Now().Round(0).Add(time.Duration(c.by.Load())) }

// setClock makes a queue, and its timers, read a clock.
func setClock(q *Queue, now func() time.Time) {
	q.now, q.timer.Now, q.backlog.timer.Now = now, now, now
}

func (j *again) Run(context.Context) {
	defer j.MarkComplete()
	j.runs++
	if j.runs == 1 {
		j.AddRetryableError(errors.New("once more"))
	}
}

// TestABackoffLastsForHoursAfterTheClockWasSetBack has a backoff of half a minute in a
// queue by reference, and a job that is scheduled for a time of the wall clock.
func TestABackoffLastsForHoursAfterTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &shiftedClock{}
		q := New(Options{NumWorkers: 1}, nil)
		setClock(q, clock.now)
		require.NoError(t, q.Start(t.Context()))
		defer q.Close(context.Background())
		j := &again{}
		j.SetID("again")
		j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true), WaitUntil: new(30 * time.Second)})
		tonight := &again{runs: 1}
		tonight.SetID("tonight")
		at := clock.now().Add(time.Hour)
		tonight.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: at})
		require.NoError(t, q.PutMany(t.Context(), []amboy.Job{j, tonight}))
		synctest.Wait()
		clock.by.Store(-int64(8 * time.Hour))
		time.Sleep(90 * time.Second)
		synctest.Wait()
		assert.Equal(t, 2, j.runs)
		assert.False(t, j.TimeInfo().WaitUntil.After(clock.now()), "the job shows when it was due")
		assert.Equal(t, at, tonight.TimeInfo().WaitUntil, "a time that a user set is unchanged")
		assert.Equal(t, 1, tonight.runs)
	})
}

// startsMeanwhile is a job that begins to run when its TimeInfo is called.
type startsMeanwhile struct {
	again
	start func()
}

func (j *startsMeanwhile) TimeInfo() amboy.JobTimeInfo {
	times := j.again.TimeInfo()
	if j.start != nil {
		j.start()
	}
	return times
}

func TestAShortenedBackoffTakesBackThatTheJobHasStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &shiftedClock{}
		q := New(Options{NumWorkers: 1}, nil)
		setClock(q, clock.now)
		require.NoError(t, q.Start(t.Context()))
		defer q.Close(context.Background())
		j := &startsMeanwhile{}
		j.SetID("again")
		j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true), WaitUntil: new(30 * time.Second)})
		require.NoError(t, q.Put(t.Context(), j))
		synctest.Wait()
		clock.by.Store(-int64(8 * time.Hour))
		started := clock.now()
		j.start = func() { j.UpdateTimeInfo(amboy.JobTimeInfo{Start: started}) }
		q.shortenWaits()
		assert.Equal(t, started, j.again.TimeInfo().Start)
		assert.Equal(t, started.Add(30*time.Second), j.again.TimeInfo().WaitUntil)
		j.start = nil
	})
}

// The next sample waited for the time that the clock had shown before.
func TestNoBacklogWasRecordedForHoursAfterTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &shiftedClock{}
		clock.by.Store(int64(8 * time.Hour))
		q := New(Options{NumWorkers: 1}, nil)
		setClock(q, clock.now)
		require.NoError(t, q.Start(t.Context()))
		defer q.Close(context.Background())
		tomorrow := &again{}
		tomorrow.SetID("tomorrow")
		tomorrow.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: clock.now().Add(24 * time.Hour)})
		require.NoError(t, q.Put(t.Context(), tomorrow))
		time.Sleep(90 * time.Second)
		clock.by.Store(0)
		set := clock.now()
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		notes, err := q.Admin().Notes(t.Context(), driver.NoteRequest{
			Kind: activity.BacklogMinuteKind, From: activity.KeyOf(set), To: activity.KeyOf(set.Add(time.Hour)), Limit: 10,
		})
		require.NoError(t, err)
		assert.GreaterOrEqual(t, len(notes), 2)
	})
}
