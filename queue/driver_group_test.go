package queue_test

import (
	"context"
	"errors"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

// newDriverGroup returns a group that is closed at the end of the test.
func newDriverGroup(t *testing.T, store driver.Driver, amend func(*queue.DriverGroupOptions)) amboy.QueueGroup {
	t.Helper()
	opts := queue.DriverGroupOptions{DefaultQueue: queue.DriverQueueOptions{
		Driver: store, Format: amboy.JSON, NumWorkers: 2, LockTimeout: time.Minute,
	}}
	if amend != nil {
		amend(&opts)
	}
	group, err := queue.NewDriverGroup(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { closeGroup(t, group) })
	return group
}

// closeGroup closes a group. On a busy machine that takes longer than Close tries after its context has ended.
func closeGroup(t *testing.T, group amboy.QueueGroup) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	assert.NoError(t, group.Close(ctx))
}

// ended returns a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// open returns a queue of a group.
func open(t *testing.T, group amboy.QueueGroup, name string) amboy.RetryableQueue {
	t.Helper()
	q, err := group.Get(t.Context(), name)
	require.NoError(t, err)
	return q.(amboy.RetryableQueue)
}

// recordOf returns the record of a job as another process would insert it into a queue.
func recordOf(t *testing.T, name string, j amboy.Job) *driver.Record {
	t.Helper()
	r, err := registry.MakeJobInterchange(j, amboy.JSON)
	require.NoError(t, err)
	r.Group = name
	r.Name = driver.RecordName(name, j.ID(), r.RetryInfo)
	r.TimeInfo.Created = time.Now()
	return r
}

// workersOf returns the number of workers of a queue.
func workersOf(t *testing.T, q amboy.Queue) int {
	t.Helper()
	runner, ok := q.Runner().(amboy.ResizableRunner)
	require.True(t, ok)
	return runner.Workers()
}

func TestDriverGroupMergesOptions(t *testing.T) {
	workers := func(n int) queue.DriverQueueOptions { return queue.DriverQueueOptions{NumWorkers: n} }
	pattern := func(expr string, o queue.DriverQueueOptions) queue.DriverQueuePattern {
		return queue.DriverQueuePattern{Regexp: regexp.MustCompile(expr), Options: o}
	}
	group := newDriverGroup(t, newStore(t), func(o *queue.DriverGroupOptions) {
		o.DefaultQueue.NumWorkers, o.DefaultQueue.MaxRunning = 1, 10
		o.Patterns = []queue.DriverQueuePattern{
			pattern("^paying", workers(2)),
			pattern("large", queue.DriverQueueOptions{NumWorkers: 3, MaxRunning: 30}),
		}
		o.PerQueue = map[string]queue.DriverQueueOptions{
			"paying large first": workers(4),
			"own runner": {NewRunner: func(q amboy.Queue) (amboy.Runner, error) {
				return pool.NewAbortablePool(7, q), nil
			}},
		}
	})
	for name, test := range map[string]struct {
		call                []amboy.QueueOptions
		workers, maxRunning int
	}{
		"other":               {workers: 1, maxRunning: 10},
		"paying":              {workers: 2, maxRunning: 10},
		"not paying":          {workers: 1, maxRunning: 10},
		"large":               {workers: 3, maxRunning: 30},
		"paying large second": {workers: 3, maxRunning: 30},
		"paying large first":  {workers: 4, maxRunning: 30},
		"own runner":          {workers: 7, maxRunning: 10},
		"paying large third": {
			call:    []amboy.QueueOptions{&queue.DriverQueueOptions{NumWorkers: 5}, &queue.DriverQueueOptions{MaxRunning: 50}},
			workers: 5, maxRunning: 50,
		},
	} {
		t.Run(name, func(t *testing.T) {
			q, err := group.Get(t.Context(), name, test.call...)
			require.NoError(t, err)
			assert.Equal(t, test.workers, workersOf(t, q))
			control, err := q.(amboy.QueueController).Control(t.Context())
			require.NoError(t, err)
			assert.Equal(t, test.maxRunning, control.MaxRunning)
			assert.True(t, q.Info().Started)
			assert.Equal(t, time.Minute, q.Info().LockTimeout)

			again, err := group.Get(t.Context(), name, &queue.DriverQueueOptions{NumWorkers: 9})
			require.NoError(t, err)
			assert.Same(t, q, again, "options do not change an open queue")
			assert.Equal(t, test.workers, workersOf(t, again))
		})
	}
}

func TestDriverGroupOptionsValidate(t *testing.T) {
	store := newStore(t)
	valid := func() queue.DriverGroupOptions {
		return queue.DriverGroupOptions{DefaultQueue: queue.DriverQueueOptions{Driver: store, NumWorkers: 1}}
	}
	for name, test := range map[string]struct {
		amend func(*queue.DriverGroupOptions)
		errs  []string
	}{
		"required options only": {amend: func(*queue.DriverGroupOptions) {}},
		"ttl":                   {amend: func(o *queue.DriverGroupOptions) { o.TTL, o.PruneFrequency = time.Second, time.Minute }},
		"no background":         {amend: func(o *queue.DriverGroupOptions) { o.BackgroundCreateFrequency = queue.NoBackgroundCreate }},
		"short ttl":             {amend: func(o *queue.DriverGroupOptions) { o.TTL = time.Second - 1 }, errs: []string{"TTL must be 0 or at least 1s (is 999.999999ms)"}},
		"pruning without ttl":   {amend: func(o *queue.DriverGroupOptions) { o.PruneFrequency = 1 }, errs: []string{"PruneFrequency must be 0, or positive if TTL is set (is 1ns)"}},
		"a name":                {amend: func(o *queue.DriverGroupOptions) { o.DefaultQueue.Name = "q" }, errs: []string{`Name must be empty (is "q")`}},
		"nothing":               {amend: func(o *queue.DriverGroupOptions) { *o = queue.DriverGroupOptions{} }, errs: []string{"Driver must not be nil", "NumWorkers must be at least 1"}},
		"negative numbers": {
			amend: func(o *queue.DriverGroupOptions) {
				o.Workers, o.TTL, o.PruneFrequency, o.BackgroundCreateFrequency = -1, -2, -3, -4
				o.DefaultQueue.MaxRunning = -5
				o.DefaultQueue.Retention.Expired = -6
			},
			errs: []string{
				"Workers must not be negative (is -1)", "TTL must be 0 or at least 1s (is -2ns)",
				"PruneFrequency must be 0, or positive if TTL is set (is -3ns)",
				"BackgroundCreateFrequency must be positive, 0 or NoBackgroundCreate (is -4ns)",
				"MaxRunning must not be negative (is -5)", "Expired must be positive, 0 for the default or KeepForever (is -6ns)",
			},
		},
		"patterns": {
			amend: func(o *queue.DriverGroupOptions) {
				o.Patterns = []queue.DriverQueuePattern{
					{Regexp: regexp.MustCompile("a"), Options: queue.DriverQueueOptions{NumWorkers: 2}},
					{Options: queue.DriverQueueOptions{NumWorkers: -1}},
				}
			},
			errs: []string{"Patterns[1]: Regexp must not be nil", "Patterns[1]: NumWorkers and MaxRunning must not be negative (are -1 and 0)"},
		},
		"per queue": {
			amend: func(o *queue.DriverGroupOptions) {
				o.PerQueue = map[string]queue.DriverQueueOptions{"a": {
					Retention: queue.Retention{Failed: -2},
					Retryable: queue.RetryableQueueOptions{RetryHandler: amboy.RetryHandlerOptions{NumWorkers: -3}},
				}}
			},
			errs: []string{`PerQueue["a"]: invalid retention: Failed must be positive`, "NumWorkers must not be negative (is -3)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			opts := valid()
			test.amend(&opts)
			err := opts.Validate()
			if len(test.errs) == 0 {
				require.NoError(t, err)
				return
			}
			_, groupErr := queue.NewDriverGroup(t.Context(), opts)
			for _, text := range test.errs {
				require.ErrorContains(t, err, text)
				require.ErrorContains(t, groupErr, text)
			}
		})
	}
}

// TestDriverGroupRefusesStoreOptionsInChanges sets each of the options that all queues of
// a store share, in each place except the default.
func TestDriverGroupRefusesStoreOptionsInChanges(t *testing.T) {
	store := newStore(t)
	group := newDriverGroup(t, store, nil)
	for name, change := range map[string]queue.DriverQueueOptions{
		"Driver":                       {Driver: store},
		"CloseDriver":                  {CloseDriver: true},
		"Name":                         {Name: "q"},
		"Format":                       {Format: amboy.JSON},
		"Codec":                        {Codec: failing{}},
		"LockTimeout":                  {LockTimeout: time.Second},
		"PollInterval":                 {PollInterval: time.Second},
		"StaleRetryingMonitorInterval": {Retryable: queue.RetryableQueueOptions{StaleRetryingMonitorInterval: time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			opts := queue.DriverGroupOptions{
				DefaultQueue: queue.DriverQueueOptions{Driver: store, NumWorkers: 1},
				Patterns:     []queue.DriverQueuePattern{{Regexp: regexp.MustCompile("."), Options: change}},
				PerQueue:     map[string]queue.DriverQueueOptions{"q": change},
			}
			err := opts.Validate()
			for _, place := range []string{"Patterns[0]", `PerQueue["q"]`} {
				require.ErrorContains(t, err, place+": options of the store are those of the group, and must not be set: Driver, CloseDriver, Name, Format, Codec, LockTimeout, PollInterval and StaleRetryingMonitorInterval")
			}
			_, err = group.Get(t.Context(), "q", &change)
			require.ErrorContains(t, err, `getting queue "q" of a driver group: options of the store are those of the group`)
		})
	}
	for name, test := range map[string]struct {
		name string
		opts []amboy.QueueOptions
		err  string
	}{
		"no name":          {err: "name must not be empty"},
		"other options":    {name: "q", opts: []amboy.QueueOptions{otherOptions{}}, err: "must be a *queue.DriverQueueOptions that is not nil (is queue_test.otherOptions)"},
		"nil options":      {name: "q", opts: []amboy.QueueOptions{(*queue.DriverQueueOptions)(nil)}, err: "must be a *queue.DriverQueueOptions that is not nil"},
		"negative workers": {name: "q", opts: []amboy.QueueOptions{&queue.DriverQueueOptions{NumWorkers: -1}}, err: "NumWorkers and MaxRunning must not be negative (are -1 and 0)"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := group.Get(t.Context(), test.name, test.opts...)
			require.ErrorContains(t, err, test.err)
		})
	}
	assert.Zero(t, group.Len())
	stored, err := store.Queues(t.Context(), driver.QueueRequest{})
	require.NoError(t, err)
	assert.Empty(t, stored)
}

func TestDriverGroupTakesAQueueOfAnotherKind(t *testing.T) {
	group := newDriverGroup(t, newStore(t), nil)
	q := &groupedQueue{}
	require.NoError(t, group.Put(t.Context(), "q", q))
	got, err := group.Get(t.Context(), "q")
	require.NoError(t, err)
	assert.Same(t, q, got)
	require.NoError(t, group.Close(t.Context()))
	assert.Equal(t, 1, q.closed())
}

// TestDriverGroupMakesAQueueOnce makes many concurrent calls for a queue that takes a
// while to make. One of the calls gives up.
func TestDriverGroupMakesAQueueOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		made := 0
		group := newDriverGroup(t, newStore(t), func(o *queue.DriverGroupOptions) {
			o.DefaultQueue.NewRunner = func(q amboy.Queue) (amboy.Runner, error) {
				made++
				<-proceed
				return pool.NewLocalWorkers(1, q), nil
			}
		})
		impatient, giveUp := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		calls.Go(func() {
			_, err := group.Get(impatient, "q")
			assert.ErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		queues := make([]amboy.Queue, 20)
		for i := range queues {
			calls.Go(func() {
				var err error
				queues[i], err = group.Get(t.Context(), "q")
				assert.NoError(t, err)
			})
		}
		synctest.Wait()
		giveUp()
		synctest.Wait()
		close(proceed)
		calls.Wait()
		assert.Equal(t, 1, made)
		for _, q := range queues {
			assert.Same(t, queues[0], q)
		}
		put(t, queues[0], noop(t, "one"))
		drain(t, queues[0])
	})
}

func TestDriverGroupQueueOutlivesTheContextOfItsGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := newDriverGroup(t, newStore(t), nil)
		ctx, cancel := context.WithCancel(t.Context())
		q, err := group.Get(ctx, "q")
		require.NoError(t, err)
		cancel()
		synctest.Wait()
		put(t, q, noop(t, "one"))
		drain(t, q)
	})
}

func TestDriverGroupReportsQueuesThatCannotBeMade(t *testing.T) {
	var fails atomic.Bool
	fails.Store(true)
	store := newSpy(newStore(t))
	group := newDriverGroup(t, store, func(o *queue.DriverGroupOptions) {
		o.DefaultQueue.NewRunner = func(q amboy.Queue) (amboy.Runner, error) {
			if fails.Load() {
				panic("no workers today")
			}
			return pool.NewLocalWorkers(1, q), nil
		}
	})
	_, err := group.Get(t.Context(), "q")
	require.ErrorContains(t, err, `making the runner of queue`)
	require.ErrorContains(t, err, "no workers today")
	assert.Zero(t, group.Len())
	fails.Store(false)
	put(t, open(t, group, "q"), noop(t, "one"))
	drain(t, open(t, group, "q"))
}

// TestDriverGroupPrunesOnlyQueuesWithoutWork has jobs that do not end until the test lets
// them.
func TestDriverGroupPrunesOnlyQueuesWithoutWork(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(j *funcJob)
		fails   []string // calls of the driver
		runs    func(ctx context.Context, j *funcJob, release <-chan struct{})
		is      func(amboy.QueueStats) bool
	}{
		"running": {
			runs: func(_ context.Context, _ *funcJob, release <-chan struct{}) { <-release },
			is:   func(s amboy.QueueStats) bool { return s.Running == 1 },
		},
		"pending": {
			fails: []string{"Claim"},
			is:    func(s amboy.QueueStats) bool { return s.Pending == 1 },
		},
		"retrying": {
			prepare: func(j *funcJob) { retryable(j, 2) },
			fails:   []string{"Retry", "EndRetry"},
			runs: func(_ context.Context, j *funcJob, _ <-chan struct{}) {
				if j.RetryInfo().CurrentAttempt == 0 {
					j.AddRetryableError(errors.New("once more"))
				}
			},
			is: func(s amboy.QueueStats) bool { return s.Retrying == 1 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newSpy(newStore(t))
				store.noNextAttempts = true
				group := newDriverGroup(t, store, func(o *queue.DriverGroupOptions) { o.TTL = time.Minute })
				release := make(chan struct{})
				j := newJob(t, "one", func(ctx context.Context, j *funcJob) {
					if test.runs != nil {
						test.runs(ctx, j, release)
					}
				})
				if test.prepare != nil {
					test.prepare(j)
				}
				store.fail(append(test.fails, "none")...)
				q := open(t, group, "q")
				idle := open(t, group, "idle")
				put(t, q, j)
				pass(30 * time.Minute)
				require.True(t, test.is(q.Stats(t.Context())), "stats: %s", q.Stats(t.Context()))
				assert.Equal(t, 1, group.Len(), "the other queue is idle")
				require.ErrorIs(t, idle.Put(t.Context(), noop(t, "late")), amboy.ErrQueueClosed)
				assert.Equal(t, []string{"q"}, group.Queues(t.Context()))

				close(release)
				store.heal()
				pass(3 * time.Minute)
				assert.Zero(t, group.Len())
				require.ErrorIs(t, q.Put(t.Context(), noop(t, "late")), amboy.ErrQueueClosed)

				again := open(t, group, "q")
				got, ok := again.Get(t.Context(), "one")
				require.True(t, ok, "the jobs in the store stay")
				require.NoError(t, got.Error())
				assert.True(t, got.Status().Completed)
				put(t, again, noop(t, "two"))
				drain(t, again)
			})
		})
	}
}

func TestDriverGroupWithoutTTLPrunesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := newDriverGroup(t, newStore(t), nil)
		open(t, group, "q")
		pass(24 * time.Hour)
		require.NoError(t, group.(pruner).Prune(t.Context()))
		assert.Equal(t, 1, group.Len())
	})
}

// A queue whose only jobs were not due or parked used to stay open in every process as long
// as these jobs existed.
func TestDriverGroupClosesQueuesWhoseJobsWait(t *testing.T) {
	for name, background := range map[string]time.Duration{"and opens them again": 0, "but not without background creation": queue.NoBackgroundCreate} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newStore(t)
				group := newDriverGroup(t, store, func(o *queue.DriverGroupOptions) {
					o.TTL, o.BackgroundCreateFrequency = time.Minute, background
				})
				begin := time.Now()
				ran := make(chan time.Time, 1)
				later := newJob(t, "later", func(context.Context, *funcJob) { ran <- time.Now() })
				later.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: begin.Add(time.Hour + time.Millisecond)})
				put(t, open(t, group, "scheduled"), later)
				parked := open(t, group, "parked")
				require.NoError(t, parked.(amboy.QueueController).Pause(t.Context()))
				put(t, parked, noop(t, "one"))
				acted, err := store.Act(t.Context(), driver.ActRequest{
					Query: driver.Query{Queues: []string{"parked"}}, Action: driver.Action{Kind: driver.Park}, Limit: 10,
				})
				require.NoError(t, err)
				require.Equal(t, 1, acted.Done)
				require.NoError(t, parked.(amboy.QueueController).Resume(t.Context()))
				pass(5 * time.Minute)
				if background == queue.NoBackgroundCreate {
					assert.Equal(t, 2, group.Len())
					return
				}
				assert.Zero(t, group.Len())
				assert.Equal(t, []string{"parked", "scheduled"}, group.Queues(t.Context()))
				pass(time.Hour)
				require.Len(t, ran, 1)
				assert.Equal(t, time.Hour+time.Millisecond, (<-ran).Sub(begin), "the job runs when it is due")
				assert.Zero(t, group.Len(), "the queue is closed again")
			})
		})
	}
}

// A queue used to be closed while a caller waited for its jobs.
func TestDriverGroupKeepsAQueueForWhichACallerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := newDriverGroup(t, newStore(t), func(o *queue.DriverGroupOptions) { o.TTL = time.Minute })
		later := noop(t, "later")
		betweenPrunings := time.Now().Add(time.Hour + 30*time.Second)
		later.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: betweenPrunings})
		q := open(t, group, "q")
		put(t, q, later)
		assert.True(t, amboy.Wait(day(t), q))
		assert.Equal(t, 1, group.Len())
	})
}

// TestDriverGroupOpensQueuesWithWork has work from a process that died, and from a
// process that only puts jobs.
func TestDriverGroupOpensQueuesWithWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := &starts{t: t}
		dead := newSpy(store)
		first := newDriverGroup(t, dead, nil)
		put(t, open(t, first, "left"), r.lasting("running", time.Hour))
		later := r.lasting("scheduled", time.Second)
		later.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(time.Hour)})
		put(t, open(t, first, "later"), later)
		put(t, open(t, first, "done"), noop(t, "over"))
		pass(time.Second)
		dead.fail()

		group := newDriverGroup(t, store, nil)
		synctest.Wait()
		assert.Zero(t, group.Len(), "nothing can run")
		pass(2 * time.Minute)
		assert.Equal(t, []string{"running", "running"}, r.all(), "the lease of the dead process has expired")
		pass(time.Hour)
		assert.Equal(t, []string{"running", "running", "scheduled"}, r.all())

		_, err := store.Insert(t.Context(), []*driver.Record{recordOf(t, "new", r.lasting("elsewhere", time.Second))})
		require.NoError(t, err)
		pass(10 * time.Second)
		assert.Contains(t, r.all(), "elsewhere")
		assert.Equal(t, 3, group.Len())
	})
}

func TestDriverGroupWithoutBackgroundCreationOpensNoQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		group := newDriverGroup(t, store, func(o *queue.DriverGroupOptions) { o.BackgroundCreateFrequency = queue.NoBackgroundCreate })
		_, err := store.Insert(t.Context(), []*driver.Record{recordOf(t, "q", noop(t, "one"))})
		require.NoError(t, err)
		pass(time.Hour)
		assert.Zero(t, group.Len())
		drain(t, open(t, group, "q"))
	})
}

// TestDriverGroupOpensQueuesInSpiteOfErrors uses a store that fails for a while, and a
// queue that can't be made.
func TestDriverGroupOpensQueuesInSpiteOfErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpy(newStore(t))
		store.fail("Work")
		for _, name := range []string{"bad", "good"} {
			_, err := store.Insert(t.Context(), []*driver.Record{recordOf(t, name, noop(t, "one"))})
			require.NoError(t, err)
		}
		group := newDriverGroup(t, store, func(o *queue.DriverGroupOptions) {
			o.PerQueue = map[string]queue.DriverQueueOptions{"bad": {
				NewRunner: func(amboy.Queue) (amboy.Runner, error) { return nil, errors.New("no workers today") },
			}}
		})
		pass(time.Minute)
		assert.Zero(t, group.Len())
		store.heal()
		pass(10 * time.Second)
		assert.Equal(t, 1, group.Len())
		assert.Equal(t, []string{"bad", "good"}, group.Queues(t.Context()))
	})
}

func TestDriverGroupNamesItsQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		insert := func(name string, j amboy.Job) {
			_, err := store.Insert(t.Context(), []*driver.Record{recordOf(t, name, j)})
			require.NoError(t, err)
		}
		_, err := store.Control(t.Context(), "never had work", driver.ControlChange{Paused: new(true)})
		require.NoError(t, err)
		group := newDriverGroup(t, store, func(o *queue.DriverGroupOptions) {
			o.TTL = time.Hour
			o.BackgroundCreateFrequency = queue.NoBackgroundCreate
		})
		assert.Empty(t, group.Queues(t.Context()))

		insert("with work", noop(t, "one"))
		insert("", noop(t, "of a queue without a name"))
		put(t, open(t, group, "worked"), noop(t, "one"))
		pass(time.Second)
		assert.Equal(t, []string{"with work", "worked"}, group.Queues(t.Context()))
		open(t, group, "idle")
		assert.Equal(t, []string{"idle", "with work", "worked"}, group.Queues(t.Context()))

		other := newDriverGroup(t, store, func(o *queue.DriverGroupOptions) {
			o.TTL = time.Hour
			o.BackgroundCreateFrequency = queue.NoBackgroundCreate
		})
		pass(30 * time.Minute)
		assert.Equal(t, []string{"with work", "worked"}, other.Queues(t.Context()), "one queue is closed, and worked within the TTL")
		pass(3 * time.Hour)
		assert.Equal(t, []string{"with work"}, other.Queues(t.Context()))
		assert.Zero(t, group.Len())
	})
}

func TestDriverGroupRefusesCallsOnceClosed(t *testing.T) {
	group := newDriverGroup(t, newStore(t), func(o *queue.DriverGroupOptions) { o.DefaultQueue.CloseDriver = true })
	q := open(t, group, "q")
	require.NoError(t, group.Close(t.Context()))
	require.NoError(t, group.Close(t.Context()))
	_, err := group.Get(t.Context(), "q")
	require.ErrorIs(t, err, queue.ErrGroupClosed)
	require.ErrorIs(t, q.Put(t.Context(), noop(t, "one")), amboy.ErrQueueClosed)
	assert.Empty(t, group.Queues(t.Context()))
}

func TestDriverGroupClosesItsDriver(t *testing.T) {
	store := newStore(t)
	group := newDriverGroup(t, store, nil)
	open(t, group, "q")
	require.NoError(t, group.Close(t.Context()))
	_, err := store.Control(t.Context(), "q", driver.ControlChange{})
	require.NoError(t, err, "the driver is not the group's")

	group = newDriverGroup(t, store, func(o *queue.DriverGroupOptions) { o.DefaultQueue.CloseDriver = true })
	open(t, group, "q")
	require.NoError(t, group.Close(t.Context()))
	_, err = store.Control(t.Context(), "q", driver.ControlChange{})
	require.ErrorIs(t, err, driver.ErrClosed)
}

// TestGroupThatIsClosedTwiceAtOnce checks that both calls wait for the running job.
func TestGroupThatIsClosedTwiceAtOnce(t *testing.T) {
	for name, build := range map[string]func(t *testing.T) amboy.QueueGroup{
		"local": func(t *testing.T) amboy.QueueGroup {
			return newLocalGroup(t, queue.LocalQueueGroupOptions{DefaultQueue: queue.LocalQueueOptions{
				Constructor: func(context.Context) (amboy.Queue, error) { return queue.NewLocalLimitedSize(1, 10), nil },
			}})
		},
		"driver": func(t *testing.T) amboy.QueueGroup {
			return newDriverGroup(t, newStore(t), func(o *queue.DriverGroupOptions) { o.DefaultQueue.CloseDriver = true })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				group := build(t)
				q, err := group.Get(t.Context(), "q")
				require.NoError(t, err)
				j, started, release := holder(t, "one")
				put(t, q, j)
				<-started
				var closes sync.WaitGroup
				var returned atomic.Int64
				for range 2 {
					closes.Go(func() {
						assert.NoError(t, group.Close(t.Context())) //nolint:testifylint // It is not the test's goroutine.
						returned.Add(1)
					})
				}
				pass(time.Minute)
				assert.Zero(t, returned.Load(), "both calls wait for the job")
				release()
				closes.Wait()
				assert.Equal(t, amboy.QueueStats{Completed: 1, Total: 1}, q.Stats(t.Context()))
			})
		})
	}
}

// TestDriverGroupEndsWithItsContext checks that running jobs are handed back at once.
func TestDriverGroupEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		ctx, cancel := context.WithCancel(t.Context())
		group, err := queue.NewDriverGroup(ctx, queue.DriverGroupOptions{
			DefaultQueue: queue.DriverQueueOptions{Driver: store, NumWorkers: 1, Format: amboy.JSON},
			Workers:      1,
		})
		require.NoError(t, err)
		r := &starts{t: t}
		for _, name := range ids("tenant", 3) {
			r.putAll(open(t, group, name), name+" ", 2, time.Hour)
		}
		synctest.Wait()
		cancel()
		require.NoError(t, group.Close(t.Context()))
		// While the end of the context is passed on, the free worker may begin another
		// job.
		assert.NotEmpty(t, r.all())
		assert.LessOrEqual(t, len(r.all()), 3)
		for _, name := range ids("tenant", 3) {
			stats, statsErr := store.Stats(t.Context(), name)
			require.NoError(t, statsErr)
			assert.Equal(t, amboy.QueueStats{Pending: 2, Total: 2}, stats, "queue %q", name)
		}
		_, err = group.Get(t.Context(), "other")
		require.ErrorIs(t, err, queue.ErrGroupClosed)
	})
}

// TestOneQueueOfAGroupIsClosed checks that another queue continues, and that records
// claimed for the closed queue are handed back at once.
func TestOneQueueOfAGroupIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		group := newDriverGroup(t, store, func(o *queue.DriverGroupOptions) {
			o.Workers = 4
			o.DefaultQueue.NumWorkers = 3
			o.BackgroundCreateFrequency = queue.NoBackgroundCreate
		})
		goes, stays := open(t, group, "goes"), open(t, group, "stays")
		r := &starts{t: t}
		r.putAll(goes, "goes", 6, time.Hour)
		synctest.Wait()
		var interrupted atomic.Int64
		var jobs []amboy.Job
		for _, id := range ids("stays", 6) {
			jobs = append(jobs, newJob(t, id, func(ctx context.Context, _ *funcJob) {
				select {
				case <-time.After(time.Minute):
				case <-ctx.Done():
					interrupted.Add(1)
				}
			}))
		}
		require.NoError(t, stays.PutMany(t.Context(), jobs))
		synctest.Wait()
		assert.Equal(t, 3, goes.Stats(t.Context()).Running)
		assert.Equal(t, 1, stays.Stats(t.Context()).Running)

		goes.Close(ended())
		synctest.Wait()
		assert.Equal(t, amboy.QueueStats{Pending: 6, Total: 6}, goes.Stats(t.Context()), "all jobs were handed back")
		assert.Equal(t, 3, stays.Stats(t.Context()).Running, "the workers of the closed queue are free for other queues")
		drainTo := day(t)
		require.True(t, amboy.Wait(drainTo, stays))
		assert.Zero(t, interrupted.Load())
	})
}

// TestDriverThatPanicsInTheBackground makes each call that no caller waits for panic
// once. It must be made again.
func TestDriverThatPanicsInTheBackground(t *testing.T) {
	for bad, period := range map[string]time.Duration{
		"Extend": 10 * time.Minute, "TakeDuty": 65 * time.Minute, "RecoverStale": 10 * time.Minute, "Forget": 65 * time.Minute,
		"Find": 10 * time.Minute, "CancelRequests": 10 * time.Minute, "Work": 10 * time.Minute,
	} {
		t.Run(bad, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newSpy(newStore(t))
				store.deaf = bad == "CancelRequests" // it is called only without notifications while nothing changes
				group := newDriverGroup(t, store, nil)
				q := open(t, group, "q")
				s := &starts{t: t}
				put(t, q, s.lasting("long", 3*period))
				pass(time.Minute)
				var panics atomic.Int64
				store.do(func(_ context.Context, call string) error {
					if call == bad && panics.Add(1) == 1 {
						panic("as planned")
					}
					return nil
				})
				pass(period)
				assert.Positive(t, panics.Load())
				store.reset()
				pass(period)
				assert.Positive(t, store.count(bad))
				require.True(t, amboy.Wait(day(t), q))
				assert.Equal(t, []string{"long"}, s.all())
			})
		})
	}
}

// TestRetriesInAGroupAreMadeAtOnce checks that a job whose lease names the whole group is
// retried by its queue all the same.
func TestRetriesInAGroupAreMadeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := open(t, newDriverGroup(t, newStore(t), nil), "q")
		put(t, q, retryable(newJob(t, "one", func(_ context.Context, j *funcJob) {
			if j.RetryInfo().CurrentAttempt < 2 {
				j.AddRetryableError(errors.New("once more"))
			}
		}), 3))
		begun := time.Now()
		require.True(t, amboy.Wait(day(t), q))
		assert.Less(t, time.Since(begun), time.Second)
		assert.Equal(t, 3, q.Stats(t.Context()).Completed)
	})
}

// TestRecordWithoutAWorkerIsHandedBack claims a record for a worker that is retired
// meanwhile.
func TestRecordWithoutAWorkerIsHandedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		hooked := &claimHook{Driver: store}
		group := newDriverGroup(t, hooked, func(o *queue.DriverGroupOptions) { o.BackgroundCreateFrequency = queue.NoBackgroundCreate })
		goes, stays := open(t, group, "goes"), open(t, group, "stays")
		var resizeErr error
		hooked.before = func() {
			resizeErr = goes.Runner().(amboy.ResizableRunner).SetWorkers(1)
			synctest.Wait()
		}
		synctest.Wait()
		s := &starts{t: t}
		s.putAll(goes, "goes", 2, time.Hour)
		pass(time.Minute)
		require.NoError(t, resizeErr)
		assert.Equal(t, amboy.QueueStats{Pending: 1, Running: 1, Total: 2}, goes.Stats(t.Context()), "there is one worker")
		require.Len(t, s.all(), 1)
		put(t, stays, s.lasting("stays", time.Hour))
		other := newDriverGroup(t, store, nil)
		synctest.Wait()
		assert.Equal(t, 2, open(t, other, "goes").Stats(t.Context()).Running, "another process gets the job at once")
		goes.Close(ended())
		require.True(t, amboy.Wait(day(t), stays))
		require.True(t, amboy.Wait(day(t), open(t, other, "goes")))
		assert.Len(t, s.all(), 4, "the job that was handed back ran again")
	})
}

func TestMiddlewareOfAGroup(t *testing.T) {
	named := func(r *journal, name string) []amboy.Middleware {
		return []amboy.Middleware{{Put: func(next amboy.PutFunc) amboy.PutFunc {
			return func(ctx context.Context, jobs []amboy.Job) error {
				r.add(name)
				return next(ctx, jobs)
			}
		}}}
	}
	var calls journal
	group := newDriverGroup(t, newStore(t), func(opts *queue.DriverGroupOptions) {
		opts.DefaultQueue.Middleware = named(&calls, "default")
		opts.PerQueue = map[string]queue.DriverQueueOptions{
			"own": {Middleware: named(&calls, "own")},
			// A policy that can't be compared must not cause a panic.
			"policy": {Retryable: queue.RetryableQueueOptions{RetryHandler: amboy.RetryHandlerOptions{RetryPolicy: slicePolicy{1}}}},
		}
	})
	for _, name := range []string{"any", "own", "policy"} {
		put(t, open(t, group, name), noop(t, "j"))
	}
	assert.Equal(t, []string{"default", "own", "default"}, calls.all())
}

type slicePolicy []time.Duration

func (p slicePolicy) Delay(int) time.Duration { return p[0] }

// A group opened no more queues that had work while the hook of one of them did not return.
func TestAHookThatDoesNotReturnKeptOtherQueuesFromBeingOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		release := make(chan struct{})
		newDriverGroup(t, store, func(o *queue.DriverGroupOptions) {
			o.OnOpen = func(name string, _ amboy.Queue) {
				if name == "hangs" {
					<-release
				}
			}
		})
		defer close(release)
		for _, name := range []string{"hangs", "other"} {
			insertRecord(t, store, recordOf(t, name, noop(t, "job")))
			pass(time.Minute)
		}
		stats, err := store.Stats(t.Context(), "other")
		require.NoError(t, err)
		assert.Equal(t, 1, stats.Completed)
	})
}

// The group went on with the attempt to open the queue until TCP gave up the connection, and all callers
// waited for that attempt.
func TestAQueueCouldNotBeOpenedAfterItsLimitsWereSentOnADeadConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpy(newStore(t))
		store.hangOnce("Control")
		group := newDriverGroup(t, store, func(o *queue.DriverGroupOptions) { o.DefaultQueue.MaxRunning = 10 })
		for _, isOpen := range []bool{false, true} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := group.Get(ctx, "tenant")
			cancel()
			assert.Equal(t, isOpen, err == nil, err)
			pass(2 * time.Minute)
		}
	})
}
