package schedule_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/schedule"
)

// hangingQueue is a queue one of whose calls gets no answer, as after a network partition. It
// returns when its context ends.
type hangingQueue struct {
	amboy.Queue
	mu    sync.Mutex
	hangs string // the name of the call
}

func (q *hangingQueue) call(ctx context.Context, name string) error {
	q.mu.Lock()
	hangs := q.hangs == name
	if hangs {
		q.hangs = ""
	}
	q.mu.Unlock()
	if !hangs {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (q *hangingQueue) hang(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.hangs = name
}

func (q *hangingQueue) Mark(ctx context.Context, name string, at time.Time) (time.Time, error) {
	if err := q.call(ctx, "Mark"); err != nil {
		return time.Time{}, err
	}
	return q.Queue.(amboy.QueueMarker).Mark(ctx, name, at)
}

func (q *hangingQueue) Put(ctx context.Context, j amboy.Job) error {
	if err := q.call(ctx, "Put"); err != nil {
		return err
	}
	return q.Queue.Put(ctx, j)
}

func (q *hangingQueue) TellSchedules(ctx context.Context, _ ...amboy.ScheduleInfo) error {
	return q.call(ctx, "TellSchedules")
}

func (q *hangingQueue) ForgetSchedules(context.Context, ...string) error { return nil }

// hangingGroup is a group with one queue, whose Get may hang.
type hangingGroup struct {
	amboy.QueueGroup
	queue *hangingQueue
}

func (g *hangingGroup) Get(ctx context.Context, _ string, _ ...amboy.QueueOptions) (amboy.Queue, error) {
	return g.queue, g.queue.call(ctx, "Get")
}

func TestASchedulerStoppedForGoodWhenACallOfTheStoreGotNoAnswer(t *testing.T) {
	for _, name := range []string{"Get", "Mark", "Put", "TellSchedules"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, ran = time.Now(), make(chan time.Duration, 100)
				local, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1})
				require.NoError(t, err)
				require.NoError(t, local.Start(t.Context()))
				defer local.Close(context.Background())
				q := &hangingQueue{Queue: local}
				s, err := schedule.NewInGroup(&hangingGroup{queue: q}, "q", schedule.Options{})
				require.NoError(t, err)
				defer s.Close(context.Background())
				require.NoError(t, s.Add("tell", every(t, time.Hour), tick(), schedule.CatchUpAll))
				require.NoError(t, s.Start(t.Context()))
				time.Sleep(30 * time.Minute)
				q.hang(name)
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				require.Len(t, ran, 2)
				assert.LessOrEqual(t, <-ran, time.Hour+2*time.Minute)
				assert.LessOrEqual(t, <-ran, 2*time.Hour+time.Second)
			})
		})
	}
}

func TestSchedulesOfAllTenantsStoppedForGoodWhenTheListGotNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, ran = time.Now(), make(chan time.Duration, 100)
		group := newLocalPruningGroup(t)
		defer closeGroup(t, group)
		calls := 0
		s, err := schedule.NewTenants(group, func(ctx context.Context) ([]string, error) {
			calls++
			if calls == 30 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return []string{"a"}, nil
		}, schedule.Options{})
		require.NoError(t, err)
		defer s.Close(context.Background())
		require.NoError(t, s.Add("tell", every(t, time.Hour), func(_ string, at time.Time) (amboy.Job, error) {
			return tick()(at)
		}, schedule.CatchUpNone))
		require.NoError(t, s.Start(t.Context()))
		time.Sleep(2*time.Hour + 10*time.Second)
		synctest.Wait()
		assert.Len(t, ran, 2)
	})
}

// blocking returns a JobFunc whose first call returns after a time.
func blocking(d time.Duration) schedule.JobFunc {
	first := true
	return func(at time.Time) (amboy.Job, error) {
		if first {
			first = false
			time.Sleep(d)
		}
		return tick()(at)
	}
}

func TestAJobFuncThatDidNotReturnHeldUpTheOtherSchedules(t *testing.T) {
	onLocalQueue(t, func(t *testing.T, _ amboy.Queue, s *schedule.Scheduler) {
		require.NoError(t, s.Add("blocked", every(t, time.Hour), blocking(90*time.Minute), schedule.CatchUpAll))
		require.NoError(t, s.Add("other", every(t, time.Hour), tick(), schedule.CatchUpNone))
		require.NoError(t, s.Start(t.Context()))
		time.Sleep(150*time.Minute + time.Second)
		synctest.Wait()
		require.Len(t, ran, 4)
		assert.LessOrEqual(t, <-ran, time.Hour+2*time.Second, "other")
		assert.LessOrEqual(t, <-ran, 2*time.Hour+2*time.Second, "other")
		for range 2 {
			assert.Equal(t, 150*time.Minute, <-ran, "blocked")
		}
	})
}

func TestCloseOfASchedulerWaitedForAJobFuncLongerThanItsContext(t *testing.T) {
	onLocalQueue(t, func(t *testing.T, _ amboy.Queue, s *schedule.Scheduler) {
		require.NoError(t, s.Add("blocked", every(t, time.Hour), blocking(time.Hour), schedule.CatchUpNone))
		require.NoError(t, s.Start(t.Context()))
		time.Sleep(90 * time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		s.Close(ctx)
		assert.Equal(t, time.Minute, time.Since(start))
		s.Close(t.Context())
		assert.Equal(t, 30*time.Minute, time.Since(start))
	})
}

func TestFunctionsOfUsersThatDidNotReturnHeldUpTheSchedulesOfAllTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, ran = time.Now(), make(chan time.Duration, 100)
		group := newLocalPruningGroup(t)
		defer closeGroup(t, group)
		calls := 0
		s, err := schedule.NewTenants(group, func(context.Context) ([]string, error) {
			calls++
			if calls == 30 {
				time.Sleep(150 * time.Minute) // whatever its context says
			}
			return []string{"a"}, nil
		}, schedule.Options{})
		require.NoError(t, err)
		blocked := blocking(150 * time.Minute)
		require.NoError(t, s.Add("blocked", every(t, time.Hour), func(_ string, at time.Time) (amboy.Job, error) {
			return blocked(at)
		}, schedule.CatchUpNone))
		require.NoError(t, s.Add("other", every(t, time.Hour), func(_ string, at time.Time) (amboy.Job, error) {
			return tick()(at)
		}, schedule.CatchUpNone))
		require.NoError(t, s.Start(t.Context()))
		time.Sleep(3*time.Hour + 10*time.Second)
		synctest.Wait()
		require.Len(t, ran, 3)
		for hour := range 3 {
			assert.LessOrEqual(t, <-ran-time.Duration(hour+1)*time.Hour, 5*time.Second)
		}
		s.Close(context.Background())
	})
}

// Programs with a loop of their own rely on what PutDue has done when it returns.
func TestPutDueReturnedBeforeASlowJobFunc(t *testing.T) {
	onLocalQueue(t, func(t *testing.T, _ amboy.Queue, s *schedule.Scheduler) {
		require.NoError(t, s.Add("slow", every(t, time.Hour), func(time.Time) (amboy.Job, error) {
			time.Sleep(time.Minute)
			return nil, errNoJob
		}, schedule.CatchUpNone))
		require.NoError(t, s.Add("other", every(t, time.Hour), tick(), schedule.CatchUpNone))
		time.Sleep(time.Hour)
		_, err := s.PutDue(t.Context())
		require.ErrorIs(t, err, errNoJob)
	})
}
