package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/schedule"
)

// tellerQueue records what schedules report to it.
type tellerQueue struct {
	amboy.Queue
	amboy.QueueMarker

	mu    sync.Mutex
	calls []string
	last  map[string]amboy.ScheduleInfo
	fail  error
}

func newTellerQueue(q amboy.Queue) *tellerQueue {
	return &tellerQueue{Queue: q, QueueMarker: q.(amboy.QueueMarker), last: map[string]amboy.ScheduleInfo{}}
}

func (q *tellerQueue) TellSchedules(_ context.Context, schedules ...amboy.ScheduleInfo) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	var names []string
	for _, s := range schedules {
		names = append(names, s.Name)
		q.last[s.Name] = s
	}
	q.calls = append(q.calls, fmt.Sprint("tell ", names))
	return q.fail
}

func (q *tellerQueue) ForgetSchedules(_ context.Context, names ...string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calls = append(q.calls, fmt.Sprint("forget ", names))
	return q.fail
}

func (q *tellerQueue) setFail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fail = err
}

// taken returns the calls since its last call.
func (q *tellerQueue) taken() []string {
	synctest.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	calls := q.calls
	q.calls = nil
	return calls
}

func (q *tellerQueue) of(name string) amboy.ScheduleInfo {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.last[name]
}

// onTeller runs a test with a started scheduler.
func onTeller(t *testing.T, test func(t *testing.T, q *tellerQueue, s *schedule.Scheduler)) {
	t.Helper()
	onRealQueue(t, func(t *testing.T, local amboy.Queue, _ *schedule.Scheduler) {
		q := newTellerQueue(local)
		s, err := schedule.New(q, schedule.Options{})
		require.NoError(t, err)
		defer s.Close(context.Background())
		require.NoError(t, s.Start(t.Context()))
		test(t, q, s)
	})
}

func TestSchedulesAreReportedToTheQueue(t *testing.T) {
	onTeller(t, func(t *testing.T, q *tellerQueue, s *schedule.Scheduler) {
		begin := time.Now()
		rare, err := schedule.Every(1000*time.Hour, begin)
		require.NoError(t, err)
		ten, err := schedule.Every(10*time.Minute, begin)
		require.NoError(t, err)
		require.NoError(t, s.Add("rare", rare, tick(), schedule.CatchUpNone))
		require.NoError(t, s.Add("ten", ten, tick(), schedule.CatchUpAll))
		// The scheduler may report a schedule before it has looked for its ticks, and then again.
		assert.NotEmpty(t, q.taken())
		assert.Equal(t, "rare", q.of("rare").Name)
		assert.Equal(t, amboy.ScheduleInfo{
			Name: "ten", Spec: fmt.Sprint(ten), CatchUp: "all", Next: begin.Add(10 * time.Minute).UTC(),
		}, q.of("ten"))

		time.Sleep(30*time.Minute + time.Second)
		assert.Equal(t, []string{"tell [ten]", "tell [ten]", "tell [ten]"}, q.taken(), "after each tick")
		assert.True(t, begin.Add(30*time.Minute).Equal(q.of("ten").Last))
		assert.True(t, begin.Add(40*time.Minute).Equal(q.of("ten").Next))

		assert.True(t, s.Remove("ten"))
		assert.Equal(t, []string{"forget [ten]"}, q.taken())
		time.Sleep(24 * time.Hour)
		told := q.taken()
		assert.Len(t, told, 24, "reported every hour, so that the queue keeps it")
		assert.Equal(t, []string{"tell [rare]"}, slices.Compact(told))
	})
}

func TestTheErrorOfAScheduleIsReportedToTheQueue(t *testing.T) {
	onTeller(t, func(t *testing.T, q *tellerQueue, s *schedule.Scheduler) {
		minutely, err := schedule.Every(time.Minute, time.Now())
		require.NoError(t, err)
		require.NoError(t, s.Add("broken", minutely, func(time.Time) (amboy.Job, error) { return nil, errors.New("no job today") }, schedule.CatchUpNone))
		time.Sleep(time.Minute + 100*time.Millisecond)
		synctest.Wait()
		assert.Contains(t, q.of("broken").Error, "no job today")
	})
}

// failingQueue refuses all jobs.
type failingQueue struct {
	*tellerQueue
	err error
}

func (q *failingQueue) Put(context.Context, amboy.Job) error       { return q.err }
func (q *failingQueue) PutMany(context.Context, []amboy.Job) error { return q.err }

// All tenants of a store can read the error of a schedule.
func TestAttackAScheduleShowsErrorsOfTheStore(t *testing.T) {
	const secret = "dial tcp: lookup db-7.internal.example: user amboy, password hunter2"
	for want, err := range map[string]error{
		"the job could not be enqueued; see the log of its process": errors.New(secret),
		"queue is draining": fmt.Errorf("%s: %w", secret, amboy.ErrQueueDraining),
	} {
		onRealQueue(t, func(t *testing.T, local amboy.Queue, _ *schedule.Scheduler) {
			q := &failingQueue{newTellerQueue(local), err}
			s, err := schedule.New(q, schedule.Options{})
			require.NoError(t, err)
			defer s.Close(context.Background())
			minutely, err := schedule.Every(time.Minute, time.Now())
			require.NoError(t, err)
			require.NoError(t, s.Add("minutely", minutely, tick(), schedule.CatchUpNone))
			require.NoError(t, s.Start(t.Context()))
			time.Sleep(time.Minute + 100*time.Millisecond)
			synctest.Wait()
			assert.Equal(t, want, q.of("minutely").Error)
			assert.ErrorContains(t, s.List()[0].Err, "hunter2", "the program is told all")
		})
	}
}

func TestAScheduleGoesOnIfReportingFails(t *testing.T) {
	onTeller(t, func(t *testing.T, q *tellerQueue, s *schedule.Scheduler) {
		q.setFail(errors.New("the store is full"))
		minutely, err := schedule.Every(time.Minute, time.Now())
		require.NoError(t, err)
		require.NoError(t, s.Add("minutely", minutely, tick(), schedule.CatchUpNone))
		require.NoError(t, s.Add("gone", minutely, tick(), schedule.CatchUpNone))
		require.True(t, s.Remove("gone"))
		for range 3 {
			<-ran
		}
		require.NoError(t, s.List()[0].Err)
		q.setFail(nil)
		<-ran
		q.taken()
		time.Sleep(90 * time.Second)
		<-ran
		assert.Equal(t, []string{"tell [minutely]"}, q.taken(), "what was removed was taken back")
	})
}
