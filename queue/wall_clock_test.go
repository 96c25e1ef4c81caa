package queue_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// skewed is a store as used by a process whose wall clock is ahead: it shifts all times
// that calls pass.
type skewed struct {
	driver.Driver
	ahead atomic.Int64
}

// aheadBy returns the store as used by a process whose wall clock is ahead.
func aheadBy(store driver.Driver, by time.Duration) *skewed {
	s := &skewed{Driver: store}
	s.ahead.Store(int64(by))
	return s
}

func (s *skewed) shift(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Round(0).Add(time.Duration(s.ahead.Load()))
}

func (s *skewed) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	req.Now = s.shift(req.Now)
	claimed, err := s.Driver.Claim(ctx, req)
	if !claimed.Next.IsZero() {
		claimed.Next = claimed.Next.Add(-time.Duration(s.ahead.Load()))
	}
	return claimed, err
}

func (s *skewed) Release(ctx context.Context, handBacks []driver.HandBack) ([]error, error) {
	for i := range handBacks {
		handBacks[i].Since, handBacks[i].NotBefore = s.shift(handBacks[i].Since), s.shift(handBacks[i].NotBefore)
	}
	return s.Driver.Release(ctx, handBacks)
}

func (s *skewed) Retry(ctx context.Context, ended, next *driver.Record) error {
	return s.Driver.Retry(ctx, ended, s.shiftNext(next))
}

func (s *skewed) Complete(ctx context.Context, completions []driver.Completion) ([]error, error) {
	for i := range completions {
		completions[i].Next = s.shiftNext(completions[i].Next)
	}
	return s.Driver.Complete(ctx, completions)
}

func (s *skewed) shiftNext(next *driver.Record) *driver.Record {
	if next == nil {
		return nil
	}
	late := *next
	times := &late.TimeInfo
	times.Created, times.WaitUntil, times.DispatchBy = s.shift(times.Created), s.shift(times.WaitUntil), s.shift(times.DispatchBy)
	return &late
}

func (s *skewed) TakeDuty(ctx context.Context, duty driver.Duty, now time.Time) (bool, error) {
	return s.Driver.TakeDuty(ctx, duty, s.shift(now))
}

func TestAProcessThatWasAheadTookAllLiveLeases(t *testing.T) {
	for _, by := range []time.Duration{time.Minute, 8 * time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newStore(t)
				const jobs = 6
				var runs atomic.Int64
				right := startEngine(t, store, jobs)
				defer right.Close(context.Background())
				for i := range jobs {
					require.NoError(t, right.Put(t.Context(), script(t, fmt.Sprint(i), func(context.Context, *scripted) {
						runs.Add(1)
						time.Sleep(10 * time.Minute)
					})))
				}
				synctest.Wait()
				require.EqualValues(t, jobs, runs.Load())
				ahead := startEngine(t, aheadBy(store, by), jobs)
				defer ahead.Close(context.Background())
				require.True(t, amboy.Wait(day(t), right))
				assert.EqualValues(t, jobs, runs.Load(), "each job ran once")
			})
		})
	}
}

// waitsAMinute checks that the second run of a job starts after the minute that it was to
// wait, even if the clock of its process was hours ahead during the first run, and was
// set back then.
func waitsAMinute(t *testing.T, prepare, first func(*scripted)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := aheadBy(newStore(t), 8*time.Hour)
		q := startEngine(t, store, 1)
		defer q.Close(context.Background())
		began := make(chan time.Time, 2)
		j := script(t, "job", func(_ context.Context, j *scripted) {
			began <- time.Now()
			if len(began) == 1 {
				first(j)
			}
		})
		prepare(j)
		require.NoError(t, q.Put(t.Context(), j))
		pass(10 * time.Second)
		require.Len(t, began, 1)
		store.ahead.Store(0)
		require.True(t, amboy.Wait(day(t), q))
		waited := -(<-began).Sub(<-began)
		assert.Greater(t, waited, time.Minute-time.Second)
		assert.Less(t, waited, 2*time.Minute)
	})
}

func TestAStepBackMadeABackoffLastForHours(t *testing.T) {
	waitsAMinute(t, func(j *scripted) { retried(j, 2, time.Minute) }, func(j *scripted) { j.AddRetryableError(errors.New("it failed")) })
}

func TestAStepBackMadeASnoozeLastForHours(t *testing.T) {
	waitsAMinute(t, func(*scripted) {}, func(j *scripted) { j.Snooze(time.Now().Add(time.Minute)) })
}

func TestAStepBackMadeALeaseOfADeadProcessLastForHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		require.NoError(t, putOne(t, store))
		claimed, err := store.Claim(t.Context(), driver.ClaimRequest{
			Owner: "dead", Queues: []driver.Demand{{Limit: 1}}, Limit: 1, Now: time.Now().Add(8 * time.Hour), LeaseTime: time.Minute,
		})
		require.NoError(t, err)
		require.Len(t, claimed.Records, 1)
		q := startEngine(t, store, 1)
		defer q.Close(context.Background())
		began := time.Now()
		require.True(t, amboy.Wait(day(t), q))
		assert.Less(t, time.Since(began), 2*time.Minute)
	})
}

// putOne stores a job through a queue that has not started.
func putOne(t *testing.T, store driver.Driver) error {
	t.Helper()
	q := newTestEngine(t, store, 1)
	defer q.Close(context.Background())
	return q.Put(t.Context(), script(t, "job", func(context.Context, *scripted) {}))
}
