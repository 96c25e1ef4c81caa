package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/schedule"
)

var errNoJob = errors.New("there is no job")

var ran = make(chan time.Duration, 100)

// began is the start of the test. Jobs report when they run relative to it.
var began time.Time

var tell = job.Define("schedule-test-tell", 1, func(context.Context, time.Time) error {
	ran <- time.Since(began)
	return nil
})

// onLocalQueue runs a test in a bubble of synctest, with a scheduler of a local queue.
func onLocalQueue(t *testing.T, test func(t *testing.T, q amboy.Queue, s *schedule.Scheduler)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began, ran = time.Now(), make(chan time.Duration, 100)
		q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1})
		require.NoError(t, err)
		require.NoError(t, q.Start(t.Context()))
		defer q.Close(context.Background())
		s, err := schedule.New(q, schedule.Options{})
		require.NoError(t, err)
		defer s.Close(context.Background())
		test(t, q, s)
	})
}

// onRealQueue is onLocalQueue with a schedule that ticks each 90 s.
func onRealQueue(t *testing.T, test func(t *testing.T, q amboy.Queue, s *schedule.Scheduler)) {
	t.Helper()
	onLocalQueue(t, func(t *testing.T, q amboy.Queue, s *schedule.Scheduler) {
		require.NoError(t, s.Add("tell", every(t, 90*time.Second), tick(), schedule.CatchUpAll))
		test(t, q, s)
	})
}

func tick() schedule.JobFunc {
	return schedule.JobOf(tell, func(tick time.Time) time.Time { return tick })
}

func TestAStartedSchedulerPutsTheJobsOfTicksAsTheyCome(t *testing.T) {
	onRealQueue(t, func(t *testing.T, _ amboy.Queue, s *schedule.Scheduler) {
		require.NoError(t, s.Start(t.Context()))
		require.ErrorIs(t, s.Start(t.Context()), amboy.ErrAlreadyStarted)
		first := <-ran
		assert.Equal(t, 90*time.Second, first)
		assert.Equal(t, first+90*time.Second, <-ran)
		assert.Equal(t, first+180*time.Second, <-ran)
		s.Close(context.Background())
		s.Close(context.Background())
		time.Sleep(time.Hour)
		assert.Empty(t, ran)
		require.ErrorIs(t, s.Start(t.Context()), amboy.ErrAlreadyStarted)
	})
}

func TestAScheduleIsAddedWhileTheSchedulerRuns(t *testing.T) {
	onRealQueue(t, func(t *testing.T, _ amboy.Queue, s *schedule.Scheduler) {
		s.Remove("tell")
		require.NoError(t, s.Start(t.Context()))
		time.Sleep(time.Hour)
		soon, err := schedule.At(time.Now().Add(5 * time.Second))
		require.NoError(t, err)
		require.NoError(t, s.Add("soon", soon, tick(), schedule.CatchUpNone))
		assert.Equal(t, time.Hour+5*time.Second, <-ran)
	})
}

func TestASchedulerEndsWithItsContextOrItsQueue(t *testing.T) {
	for name, end := range map[string]func(q amboy.Queue, cancel func()){
		"context": func(_ amboy.Queue, cancel func()) { cancel() },
		"queue":   func(q amboy.Queue, _ func()) { q.Close(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			onRealQueue(t, func(t *testing.T, q amboy.Queue, s *schedule.Scheduler) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				require.NoError(t, s.Start(ctx))
				<-ran
				end(q, cancel)
				time.Sleep(time.Hour)
				assert.Empty(t, ran)
				s.Close(context.Background())
			})
		})
	}
}

func TestCloseWithoutStart(t *testing.T) {
	onRealQueue(t, func(_ *testing.T, _ amboy.Queue, s *schedule.Scheduler) { s.Close(context.Background()) })
}

// A function that makes jobs and does not return kept Close waiting for ever.
func TestCloseWaitsAsLongAsItsContextAllows(t *testing.T) {
	onRealQueue(t, func(t *testing.T, _ amboy.Queue, s *schedule.Scheduler) {
		release := make(chan struct{})
		defer close(release)
		soon, err := schedule.At(time.Now().Add(time.Second))
		require.NoError(t, err)
		require.NoError(t, s.Add("hangs", soon, func(time.Time) (amboy.Job, error) {
			<-release
			return nil, errNoJob
		}, schedule.CatchUpNone))
		require.NoError(t, s.Start(t.Context()))
		time.Sleep(2 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s.Close(ctx)
		assert.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
	})
}

func TestArgumentsThatCanNotBeStored(t *testing.T) {
	q := newSpyQueue(t)
	s, err := schedule.New(q, schedule.Options{})
	require.NoError(t, err)
	bad := schedule.JobOf(tell, func(time.Time) time.Time { return time.Time{} }, job.In(-time.Hour))
	require.NoError(t, s.Add("bad", every(t, time.Hour), bad, schedule.CatchUpNone))
	q.at(t, "12:00:00", s)
	q.now = noon.Add(time.Hour)
	_, err = s.PutDue(t.Context())
	var invalid *amboy.InvalidJobError
	require.ErrorAs(t, err, &invalid)
}

// The function may use another queue, for instance that of a tenant, which was pruned.
func TestASchedulerStoppedWhenAFunctionFoundAnotherQueueClosed(t *testing.T) {
	onRealQueue(t, func(t *testing.T, _ amboy.Queue, s *schedule.Scheduler) {
		once, err := schedule.At(time.Now().Add(time.Second))
		require.NoError(t, err)
		require.NoError(t, s.Add("fails", once, func(time.Time) (amboy.Job, error) {
			return nil, fmt.Errorf("counting jobs: %w", amboy.ErrQueueClosed)
		}, schedule.CatchUpNone))
		require.NoError(t, s.Start(t.Context()))
		time.Sleep(time.Hour)
		assert.NotEmpty(t, ran)
	})
}

// brokenQueue is a queue that takes no jobs until a time.
type brokenQueue struct {
	amboy.Queue
	amboy.QueueMarker
	until time.Time
}

func (q brokenQueue) Put(ctx context.Context, j amboy.Job) error {
	if time.Now().Before(q.until) {
		return errNoJob
	}
	return q.Queue.Put(ctx, j)
}

func TestATickWasMissedAlthoughTheQueueTookJobsAgainWithinAMinute(t *testing.T) {
	onRealQueue(t, func(t *testing.T, local amboy.Queue, _ *schedule.Scheduler) {
		at := time.Now().Add(time.Hour)
		s, err := schedule.New(brokenQueue{local, local.(amboy.QueueMarker), at.Add(35 * time.Second)}, schedule.Options{})
		require.NoError(t, err)
		defer s.Close(context.Background())
		once, err := schedule.At(at)
		require.NoError(t, err)
		require.NoError(t, s.Add("once", once, tick(), schedule.CatchUpNone))
		require.NoError(t, s.Start(t.Context()))
		time.Sleep(2 * time.Hour)
		require.Len(t, ran, 1)
		assert.Less(t, <-ran, time.Hour+time.Minute)
	})
}
