package queue_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// startTimes records when jobs start.
type startTimes struct {
	begun time.Time
	mu    sync.Mutex
	at    []time.Duration
}

func newStartTimes() *startTimes { return &startTimes{begun: time.Now()} }

func (s *startTimes) run(context.Context, *funcJob) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = append(s.at, time.Since(s.begun))
}

func (s *startTimes) all() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Duration(nil), s.at...)
}

// jobs returns jobs that record their start.
func (s *startTimes) jobs(t *testing.T, prefix string, n int) (jobs []amboy.Job) {
	t.Helper()
	for _, id := range ids(prefix, n) {
		jobs = append(jobs, newJob(t, id, s.run))
	}
	return jobs
}

func setRate(t *testing.T, q amboy.Queue, perSecond float64, burst int) {
	t.Helper()
	require.NoError(t, amboy.SetRate(t.Context(), q, &amboy.Rate{PerSecond: perSecond, Burst: burst}))
}

// TestEachQueueStartsJobsAtItsRate requires that each start comes as soon as its token.
func TestEachQueueStartsJobsAtItsRate(t *testing.T) {
	onEachFaked(t, 100, func(t *testing.T, q amboy.Queue) {
		setRate(t, q, 0.5, 1)
		s := newStartTimes()
		require.NoError(t, q.PutMany(t.Context(), s.jobs(t, "job", 4)))
		pass(time.Minute)
		require.Len(t, s.all(), 4)
		for i, at := range s.all() {
			assert.InDelta(t, float64(2*i), at.Seconds(), 0.03)
		}
		setRate(t, q, 0, 0)
		require.NoError(t, q.PutMany(t.Context(), s.jobs(t, "more", 4)))
		pass(time.Hour)
		assert.Len(t, s.all(), 4, "a rate of 0 starts nothing")
		assert.Equal(t, &amboy.Rate{}, control(t, q).Rate)
		setRate(t, q, 100, 3)
		pass(time.Millisecond)
		assert.Len(t, s.all(), 7, "a burst")
		setRate(t, q, 0.001, 1)
		pass(time.Second)
		assert.Len(t, s.all(), 7)
		require.NoError(t, amboy.SetRate(t.Context(), q, nil))
		pass(time.Millisecond)
		assert.Len(t, s.all(), 8, "no limit")
		assert.Nil(t, control(t, q).Rate)
	})
}

func TestInvalidRateIsRefused(t *testing.T) {
	onEach(t, 1, 10, func(t *testing.T, q amboy.Queue) {
		err := amboy.SetRate(t.Context(), q, &amboy.Rate{PerSecond: -1})
		require.ErrorContains(t, err, "PerSecond must be 0, or between 0.000001 and 1000000 (is -1)")
		require.ErrorContains(t, err, q.ID())
		require.ErrorContains(t, amboy.SetRate(t.Context(), q, &amboy.Rate{PerSecond: 1, Burst: -1}), "Burst must be between 0 and 1000000 (is -1)")
		assert.Nil(t, control(t, q).Rate)
	})
}

// TestRateHoldsOverAllProcesses has three engines with free workers. The first sets the rate when
// it starts. None of them may ask the store again and again.
func TestRateHoldsOverAllProcesses(t *testing.T) {
	for name, deaf := range map[string]bool{"notified": false, "polling": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newStore(t)
				spies := make([]*spy, 3)
				var queues []amboy.Queue
				for i := range spies {
					spies[i] = &spy{Driver: store, deaf: deaf, calls: map[string]int{}}
					opts := queue.DriverQueueOptions{
						Driver: spies[i], Format: amboy.JSON, NumWorkers: 4, LockTimeout: time.Minute, PollInterval: time.Minute,
					}
					if i == 0 {
						opts.Rate = &amboy.Rate{PerSecond: 20, Burst: 2}
					}
					q, err := queue.NewDriverQueue(opts)
					require.NoError(t, err)
					queues = append(queues, q)
				}
				defer func() {
					for _, q := range queues {
						q.Close(context.Background())
					}
				}()
				s := newStartTimes()
				require.NoError(t, queues[0].PutMany(t.Context(), s.jobs(t, "job", 1000)))
				for _, q := range queues {
					require.NoError(t, q.Start(t.Context()))
					assert.Equal(t, amboy.Rate{PerSecond: 20, Burst: 2}, *control(t, q).Rate)
				}
				pass(10 * time.Second)
				at := s.all()
				assert.InDelta(t, 200, len(at), 3)
				for i := range len(at) - 23 {
					assert.Greater(t, at[i+23]-at[i], time.Second, "at most 20 and a burst of 2 in a second")
				}
				for _, spy := range spies {
					assert.Less(t, spy.count("Claim"), 420, "no more than two claims for a token")
				}
			})
		})
	}
}

// TestQueueAtItsRateDoesNotHoldUpOthers drains a queue beside one at its rate, with shared workers.
func TestQueueAtItsRateDoesNotHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := newDriverGroup(t, newStore(t), func(o *queue.DriverGroupOptions) {
			o.PerQueue = map[string]queue.DriverQueueOptions{"slow": {Rate: &amboy.Rate{PerSecond: 0.01}}}
			o.Workers = 2
		})
		slow, fast := newStartTimes(), newStartTimes()
		put := func(name string, s *startTimes) {
			q, err := group.Get(t.Context(), name)
			require.NoError(t, err)
			require.NoError(t, q.PutMany(t.Context(), s.jobs(t, name, 50)))
		}
		put("slow", slow)
		for i := range 20 { // so many that the engine first asks the store which have work
			put(fmt.Sprint("fast", i), fast)
		}
		pass(time.Second)
		assert.Len(t, fast.all(), 20*50)
		assert.Len(t, slow.all(), 1)
		pass(5 * time.Minute)
		assert.Len(t, slow.all(), 4)
	})
}

// TestRateRaisedByAnotherProcessAppliesAtOnce raises a rate whose next token is hours away.
func TestRateRaisedByAnotherProcessAppliesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		front, back := newTestEngine(t, store, 1), startEngine(t, store, 2)
		defer front.Close(context.Background())
		defer back.Close(context.Background())
		setRate(t, front, 0.0001, 1)
		s := newStartTimes()
		require.NoError(t, front.PutMany(t.Context(), s.jobs(t, "job", 10)))
		pass(time.Minute)
		assert.Len(t, s.all(), 1)
		_, err := store.Control(t.Context(), "", driver.ControlChange{Rate: &amboy.Rate{PerSecond: 1}})
		require.NoError(t, err)
		pass(time.Minute)
		assert.Len(t, s.all(), 10)
	})
}
