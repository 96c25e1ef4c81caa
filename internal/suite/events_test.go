package suite_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/retry"
)

// subscribe returns a function that closes the queue and returns all events.
func (f *fixture) subscribe(q amboy.Queue) (all func() []amboy.Event) {
	f.Helper()
	events, cancel, err := amboy.Subscribe(q, 1000)
	require.NoError(f, err)
	f.Cleanup(cancel)
	return func() (all []amboy.Event) {
		q.Close(f.ctx)
		for e := range events {
			assert.Equal(f, q.ID(), e.Queue)
			assert.Zero(f, e.Missed)
			all = append(all, e)
		}
		return all
	}
}

// kindsOf returns the kinds of the events about a job.
func kindsOf(events []amboy.Event, id string) (kinds []amboy.EventKind) {
	for _, e := range events {
		if e.JobID == id {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

func TestEventsOfJobs(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.open(withPolicy(retry.Fixed{Wait: short}))
		all := f.subscribe(q)
		snoozed := false
		expires := f.job("expires", func(context.Context, *funcJob) {})
		expires.UpdateTimeInfo(amboy.JobTimeInfo{DispatchBy: f.now().Add(-time.Second)})
		canceling := &amboy.CancelError{}
		f.put(q,
			f.job("succeeds", func(context.Context, *funcJob) {}),
			retryable(f.job("fails", func(_ context.Context, j *funcJob) { j.AddRetryableError(errors.New("no")) }), 2),
			f.job("cancels", func(_ context.Context, j *funcJob) { j.AddError(canceling) }),
			f.job("snoozes", func(_ context.Context, j *funcJob) {
				if !snoozed {
					snoozed = true
					j.Snooze(f.now().Add(short))
				}
			}),
			expires,
		)
		require.NoError(f, q.Start(f.ctx))
		f.drain(q)
		events := all()
		for id, want := range map[string][]amboy.EventKind{
			"succeeds": {amboy.EventPut, amboy.EventStarted, amboy.EventSucceeded},
			"fails":    {amboy.EventPut, amboy.EventStarted, amboy.EventRetrying, amboy.EventStarted, amboy.EventFailed},
			"cancels":  {amboy.EventPut, amboy.EventStarted, amboy.EventCanceled},
			"snoozes":  {amboy.EventPut, amboy.EventStarted, amboy.EventSnoozed, amboy.EventStarted, amboy.EventSucceeded},
			"expires":  {amboy.EventPut, amboy.EventExpired},
		} {
			assert.Equal(f, want, kindsOf(events, id), "%s", id)
		}
		assert.Equal(f, amboy.EventClosed, events[len(events)-1].Kind)
		for _, e := range events {
			if e.JobID == "" {
				continue
			}
			assert.Equal(f, funcJobType, e.JobType.Name)
			assert.False(f, e.Time.IsZero())
			hasErr := e.Kind == amboy.EventFailed || e.Kind == amboy.EventRetrying || e.Kind == amboy.EventCanceled || e.Kind == amboy.EventExpired
			assert.Equal(f, hasErr, e.Err != nil, "%s of %s", e.Kind, e.JobID)
			if e.Kind == amboy.EventCanceled {
				require.ErrorIs(f, e.Err, canceling)
			}
			wantAttempt := 0
			if e.JobID == "fails" && e.Kind == amboy.EventFailed {
				wantAttempt = 1
			}
			if e.JobID != "fails" || e.Kind.IsEnd() {
				assert.Equal(f, wantAttempt, e.Attempt, "%s of %s", e.Kind, e.JobID)
			}
		}
	})
}

func TestTimesOfEvents(t *testing.T) {
	onThose(t, func(k kind) bool { return k.faked && withWorkers(k) }, func(f *fixture) {
		q := f.start(options{})
		all := f.subscribe(q)
		takes := func(id string) *funcJob {
			return f.job(id, func(context.Context, *funcJob) { time.Sleep(time.Minute) })
		}
		scheduled := takes("scheduled")
		scheduled.UpdateTimeInfo(amboy.JobTimeInfo{WaitUntil: f.now().Add(time.Hour)})
		f.put(q, takes("first"), takes("second"), scheduled)
		f.drain(q)
		waits := map[string]time.Duration{"first": 0, "second": time.Minute, "scheduled": 0}
		seen := 0
		for _, e := range all() {
			switch e.Kind {
			case amboy.EventStarted:
				assert.Equal(f, waits[e.JobID], e.Wait, "%s", e.JobID)
				assert.Zero(f, e.Run)
				seen++
			case amboy.EventSucceeded:
				assert.Equal(f, waits[e.JobID], e.Wait, "%s", e.JobID)
				assert.Equal(f, time.Minute, e.Run)
				seen++
			}
		}
		assert.Equal(f, 6, seen)
	})
}

func TestEventsOfQueues(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		all := f.subscribe(q)
		control := q.(amboy.QueueController)
		require.NoError(f, control.Pause(f.ctx))
		require.NoError(f, control.Drain(f.ctx))
		require.NoError(f, control.Resume(f.ctx))
		var kinds []amboy.EventKind
		for _, e := range all() {
			kinds = append(kinds, e.Kind)
		}
		assert.Equal(f, []amboy.EventKind{amboy.EventPaused, amboy.EventDraining, amboy.EventResumed, amboy.EventClosed}, kinds)
	})
}

func TestAnInterruptedJobIsHandedBack(t *testing.T) {
	onThose(t, withWorkers, func(f *fixture) {
		q := f.start(options{})
		all := f.subscribe(q)
		running := make(chan struct{})
		f.put(q, f.job("j", func(ctx context.Context, _ *funcJob) {
			close(running)
			<-ctx.Done()
		}))
		<-running
		hard, stop := context.WithCancel(f.ctx)
		stop()
		q.Close(hard)
		kinds := kindsOf(all(), "j")
		require.Len(f, kinds, 3)
		// A queue over a store may learn that it was added after it has started.
		assert.ElementsMatch(f, []amboy.EventKind{amboy.EventPut, amboy.EventStarted}, kinds[:2])
		assert.Equal(f, amboy.EventHandedBack, kinds[2])
	})
}

func TestASlowSubscriberDoesNotHoldTheQueueUp(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		events, cancel, err := amboy.Subscribe(q, 2)
		require.NoError(f, err)
		defer cancel()
		for i := range 50 {
			f.put(q, f.job(fmt.Sprint("job", i), func(context.Context, *funcJob) {}))
		}
		f.drain(q)
		q.Close(f.ctx)
		got, missed := 0, 0
		for e := range events {
			got++
			missed += e.Missed
		}
		assert.Equal(f, 3, got, "the buffer and the last event")
		assert.Equal(f, 3*50+1, got+missed, "each event was received or counted")
	})
}

func TestSubscribeRefusesABadBuffer(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.open(options{})
		for _, buffer := range []int{math.MinInt, 0, amboy.MaxEventBuffer + 1, math.MaxInt} {
			_, _, err := amboy.Subscribe(q, buffer)
			require.ErrorContains(f, err, fmt.Sprintf("the buffer must be from 1 to 1048576 (is %d)", buffer))
		}
		events, cancel, err := amboy.Subscribe(q, 1)
		require.NoError(f, err)
		cancel()
		cancel()
		_, open := <-events
		assert.False(f, open)
		q.Close(f.ctx)
		late, cancel, err := amboy.Subscribe(q, 1)
		require.NoError(f, err)
		defer cancel()
		_, open = <-late
		assert.False(f, open)
	})
}

// withWorkers selects the kinds whose jobs run while the test continues.
func withWorkers(k kind) bool { return k.name != "amboytest" }
