package queue_test

import (
	"context"
	"regexp"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue"
)

// newMongoDBGroup returns a group on a deployment. The group is closed at the end of the
// test.
func newMongoDBGroup(t *testing.T, d *mongotest.Deployment, amend func(*queue.MongoDBQueueGroupOptions)) amboy.QueueGroup {
	t.Helper()
	opts := queue.MongoDBQueueGroupOptions{DefaultQueue: queue.MongoDBQueueOptions{
		DB:         &queue.MongoDBOptions{Client: d.Connect(), DB: d.Database(), Collection: "tenants", CheckWaitUntil: true},
		NumWorkers: new(1),
	}}
	if amend != nil {
		amend(&opts)
	}
	group, err := queue.NewMongoDBSingleQueueGroup(context.WithoutCancel(t.Context()), opts) // it would close with the test, before the cleanup
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // a server may not answer at once
		defer cancel()
		assert.NoError(t, group.Close(ctx))
	})
	return group
}

// callOptions returns the options of a call of Get.
func callOptions(o queue.MongoDBQueueOptions) []amboy.QueueOptions { return []amboy.QueueOptions{&o} }

func TestMongoDBGroupMergesOptions(t *testing.T) {
	d := mongotest.Open(t)
	pattern := func(expr string, o queue.MongoDBQueueOptions) queue.RegexpMongoDBQueueOptions {
		return queue.RegexpMongoDBQueueOptions{Regexp: *regexp.MustCompile(expr), Options: o}
	}
	var wrapped atomic.Int64 // the jobs that ran in middleware
	counting := amboy.Middleware{Run: func(next amboy.RunFunc) amboy.RunFunc {
		return func(ctx context.Context, j amboy.Job) error {
			wrapped.Add(1)
			return next(ctx, j)
		}
	}}
	group := newMongoDBGroup(t, d, func(o *queue.MongoDBQueueGroupOptions) {
		o.DefaultQueue.DB.LockTimeout = time.Minute
		o.RegexpQueue = []queue.RegexpMongoDBQueueOptions{
			pattern("^paying", queue.MongoDBQueueOptions{NumWorkers: new(2), DB: &queue.MongoDBOptions{LockTimeout: 2 * time.Minute}}),
			pattern("large", queue.MongoDBQueueOptions{
				WorkerPoolSize: func(name string) int { return len(name) },
				DB:             &queue.MongoDBOptions{SampleSize: 10, Collection: "elsewhere", GroupName: "another"},
			}),
		}
		o.PerQueue = map[string]queue.MongoDBQueueOptions{
			"paying large first": {
				NumWorkers: new(4),
				Abortable:  new(true),
				Retryable:  &queue.RetryableQueueOptions{},
				Middleware: []amboy.Middleware{counting},
			},
		}
	})
	for name, test := range map[string]struct {
		call        []amboy.QueueOptions
		workers     int
		lockTimeout time.Duration
		abortable   bool
	}{
		"other":              {workers: 1, lockTimeout: time.Minute},
		"paying":             {workers: 2, lockTimeout: 2 * time.Minute},
		"not paying":         {workers: 1, lockTimeout: time.Minute},
		"large":              {workers: len("large"), lockTimeout: time.Minute},
		"paying large one":   {workers: len("paying large one"), lockTimeout: 2 * time.Minute},
		"paying large first": {workers: 4, lockTimeout: 2 * time.Minute, abortable: true},
		"paying large third": {
			call:    append(callOptions(queue.MongoDBQueueOptions{NumWorkers: new(5)}), callOptions(queue.MongoDBQueueOptions{DB: &queue.MongoDBOptions{LockTimeout: time.Hour}})...),
			workers: 5, lockTimeout: time.Hour,
		},
		"same database": {
			call:    callOptions(queue.MongoDBQueueOptions{DB: &queue.MongoDBOptions{DB: d.Database()}}),
			workers: 1, lockTimeout: time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			q, err := group.Get(t.Context(), name, test.call...)
			require.NoError(t, err)
			assert.Equal(t, test.workers, workersOf(t, q))
			assert.Equal(t, test.lockTimeout, q.Info().LockTimeout)
			assert.True(t, q.Info().Started)
			_, abortable := q.Runner().(amboy.AbortableRunner)
			assert.Equal(t, test.abortable, abortable)

			put(t, q, noop(t, "one"))
			drain(t, q)
			n, err := d.Collection("tenants.group").CountDocuments(t.Context(), map[string]string{"_id": name + ".one", "group": name})
			require.NoError(t, err)
			assert.EqualValues(t, 1, n, "all jobs are in one collection")
		})
	}
	assert.EqualValues(t, 1, wrapped.Load())
}

func TestMongoDBGroupRefuses(t *testing.T) {
	d := mongotest.Open(t)
	other := d.Connect()
	group := newMongoDBGroup(t, d, nil)
	for name, test := range map[string]struct {
		queue string
		opts  amboy.QueueOptions
		err   string
	}{
		"no name":          {"", &queue.MongoDBQueueOptions{}, "name must not be empty"},
		"other options":    {"q", &queue.DriverQueueOptions{}, "options must be a *queue.MongoDBQueueOptions that is not nil (is *queue.DriverQueueOptions)"},
		"nil":              {"q", (*queue.MongoDBQueueOptions)(nil), "must be a *queue.MongoDBQueueOptions that is not nil"},
		"another client":   {"q", &queue.MongoDBQueueOptions{DB: &queue.MongoDBOptions{Client: other}}, "Client must not be set, or be that of the group"},
		"another server":   {"q", &queue.MongoDBQueueOptions{DB: &queue.MongoDBOptions{URI: "mongodb://me:secret@other"}}, "URI must not be set, or be that of the group"},
		"another database": {"q", &queue.MongoDBQueueOptions{DB: &queue.MongoDBOptions{DB: "other"}}, `(is "other")`},
		"negative": {
			"q", &queue.MongoDBQueueOptions{NumWorkers: new(-1), DB: &queue.MongoDBOptions{SampleSize: -2}},
			"NumWorkers must be at least 1 (is -1)\ninvalid MongoDB options: SampleSize must not be negative (is -2)",
		},
		"a panic": {"q", &queue.MongoDBQueueOptions{WorkerPoolSize: func(string) int { panic("as planned") }}, "as planned"},
		"retries": {"q", &queue.MongoDBQueueOptions{Retryable: &queue.RetryableQueueOptions{StaleRetryingMonitorInterval: -1}}, "StaleRetryingMonitorInterval must not be negative"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := group.Get(t.Context(), test.queue, test.opts)
			require.ErrorContains(t, err, test.err)
			assert.NotContains(t, err.Error(), "secret")
			assert.Zero(t, group.Len())
		})
	}
}

func TestMongoDBQueueGroupOptionsAreValidated(t *testing.T) {
	for name, test := range map[string]struct {
		amend func(*queue.MongoDBQueueGroupOptions)
		errs  []string
	}{
		"nothing":    {func(o *queue.MongoDBQueueGroupOptions) { *o = queue.MongoDBQueueGroupOptions{} }, []string{"DefaultQueue: DB must be set"}},
		"no name":    {func(o *queue.MongoDBQueueGroupOptions) { o.DefaultQueue.DB.Collection = "" }, []string{"DefaultQueue: invalid MongoDB options: Collection must be set"}},
		"short ttl":  {func(o *queue.MongoDBQueueGroupOptions) { o.TTL, o.PruneFrequency = time.Second-1, 1 }, []string{"TTL must be 0 or at least 1s (is 999.999999ms)"}},
		"no pruning": {func(o *queue.MongoDBQueueGroupOptions) { o.TTL = time.Second }, []string{"TTL and PruneFrequency must both be set, or neither (are 1s and 0s)"}},
		"no ttl":     {func(o *queue.MongoDBQueueGroupOptions) { o.PruneFrequency = time.Second }, []string{"must both be set, or neither (are 0s and 1s)"}},
		"negative": {
			func(o *queue.MongoDBQueueGroupOptions) {
				o.TTL, o.PruneFrequency, o.BackgroundCreateFrequency = -1, -2, -3
			},
			[]string{"TTL must be 0 or at least 1s (is -1ns)", "PruneFrequency must not be negative (is -2ns)", "BackgroundCreateFrequency must not be negative (is -3ns)"},
		},
		"changes": {
			func(o *queue.MongoDBQueueGroupOptions) {
				o.RegexpQueue = []queue.RegexpMongoDBQueueOptions{{Options: queue.MongoDBQueueOptions{NumWorkers: new(0)}}}
				o.PerQueue = map[string]queue.MongoDBQueueOptions{"": {}, "q": {DB: &queue.MongoDBOptions{DB: "other", TTL: 1}}}
			},
			[]string{
				"RegexpQueue[0]: Regexp must not be empty", "RegexpQueue[0]: invalid MongoDB queue options: NumWorkers must be at least 1 (is 0)",
				"PerQueue: a name must not be empty", `PerQueue["q"]: `, `(is "other")`, "TTL must be 0 or at least 1s (is 1ns)",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			opts := queue.MongoDBQueueGroupOptions{DefaultQueue: queue.MongoDBQueueOptions{
				DB: &queue.MongoDBOptions{URI: "mongodb://localhost", DB: "db", Collection: "jobs"}, NumWorkers: new(1),
			}}
			test.amend(&opts)
			_, err := queue.NewMongoDBSingleQueueGroup(t.Context(), opts)
			for _, text := range test.errs {
				assert.ErrorContains(t, err, text)
			}
		})
	}
}

// TestMongoDBGroupWithoutADefaultNumberOfWorkers takes the number from the options of a
// queue.
func TestMongoDBGroupWithoutADefaultNumberOfWorkers(t *testing.T) {
	group := newMongoDBGroup(t, mongotest.Open(t), func(o *queue.MongoDBQueueGroupOptions) { o.DefaultQueue.NumWorkers = nil })
	_, err := group.Get(t.Context(), "q")
	require.ErrorContains(t, err, "NumWorkers or WorkerPoolSize must be set")
	_, err = group.Get(t.Context(), "q", &queue.MongoDBQueueOptions{NumWorkers: new(1)})
	require.NoError(t, err)
}

// TestMongoDBGroupLeavesOptionsAlone uses the same options for two groups.
func TestMongoDBGroupLeavesOptionsAlone(t *testing.T) {
	d := mongotest.Open(t)
	db := queue.MongoDBOptions{Client: d.Client(), DB: d.Database(), Collection: "tenants"}
	before := db
	group, err := queue.NewMongoDBSingleQueueGroup(t.Context(), queue.MongoDBQueueGroupOptions{
		DefaultQueue: queue.MongoDBQueueOptions{DB: &db, NumWorkers: new(1)},
	})
	require.NoError(t, err)
	_, err = group.Get(t.Context(), "q")
	require.NoError(t, err)
	require.NoError(t, group.Close(t.Context()))
	assert.Equal(t, before, db)
}

// TestMongoDBGroupsShareJobs has a process that puts jobs, and a process that opens the
// queues that have jobs.
func TestMongoDBGroupsShareJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := mongotest.Open(t, mongotest.InMemory())
		var ran atomic.Int64
		putting := newMongoDBGroup(t, d, nil)
		running := newMongoDBGroup(t, d, func(o *queue.MongoDBQueueGroupOptions) {
			o.BackgroundCreateFrequency = 10 * time.Second
			o.TTL, o.PruneFrequency = time.Minute, time.Minute
		})
		synctest.Wait() // until it has checked for the first time, and found nothing
		q := open(t, putting, "tenant")
		require.NoError(t, q.(amboy.QueueController).Pause(t.Context()))
		put(t, q, newJob(t, "one", func(context.Context, *funcJob) { ran.Add(1) }))
		assert.Equal(t, []string{"tenant"}, running.Queues(t.Context()), "including queues that are not open here")
		assert.Zero(t, running.Len())
		pass(10 * time.Second)
		assert.Zero(t, running.Len(), "the queue is paused")
		require.NoError(t, q.(amboy.QueueController).Resume(t.Context()))
		pass(10 * time.Second)
		assert.EqualValues(t, 1, ran.Load())
		assert.Equal(t, []string{"tenant"}, running.Queues(t.Context()), "the queue had work within the TTL")
		pass(2 * time.Minute)
		assert.Zero(t, running.Len())
		assert.Empty(t, running.Queues(t.Context()))
	})
}

// The server went on decoding all changes for it, because the closed queue had had an idle worker.
func TestABusyGroupThatHadClosedAQueueListenedToAllChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := mongotest.Open(t, mongotest.InMemory())
		var watched atomic.Value
		d.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
			if c.Command.Lookup("pipeline", "0", "$changeStream").Type != 0 {
				collection, _ := c.Command.Lookup("aggregate").StringValueOK()
				watched.Store(collection)
			}
			return mongotest.Served
		})
		group := newMongoDBGroup(t, d, func(o *queue.MongoDBQueueGroupOptions) {
			o.TTL, o.PruneFrequency = time.Minute, time.Minute
		})
		open(t, group, "idle")
		end := make(chan struct{})
		defer close(end)
		put(t, open(t, group, "busy"), newJob(t, "long", func(context.Context, *funcJob) { <-end }))
		synctest.Wait()
		require.Equal(t, 2, group.Len())
		assert.Empty(t, watched.Load(), "the whole database")
		pass(time.Hour)
		require.Equal(t, 1, group.Len())
		assert.Equal(t, "tenants.group.control", watched.Load())
	})
}

// TestMongoDBGroupMakesAQueueOnceItsServerIsBack asks for a queue that needs its own
// driver while no server runs. The queue is made once the server is back.
func TestMongoDBGroupMakesAQueueOnceItsServerIsBack(t *testing.T) {
	d := mongotest.Open(t)
	group := newMongoDBGroup(t, d, nil)
	slow := &queue.MongoDBQueueOptions{DB: &queue.MongoDBOptions{LockTimeout: time.Hour}}
	d.Fail(mongotest.Failure{Commands: []string{"listIndexes", "createIndexes"}, ErrorCode: 13})
	_, err := group.Get(t.Context(), "q", slow)
	require.Error(t, err)
	d.Heal()
	_, err = group.Get(t.Context(), "q", slow)
	require.NoError(t, err)
}

// TestQueueCanBePutInAMongoDBGroup puts a queue that is not in the group's collection.
func TestQueueCanBePutInAMongoDBGroup(t *testing.T) {
	group := newMongoDBGroup(t, mongotest.Open(t), nil)
	open(t, group, "taken")
	q := queue.NewLocalLimitedSize(1, 10)
	require.NoError(t, q.Start(t.Context()))
	require.ErrorContains(t, group.Put(t.Context(), "nil", nil), "queue must not be nil")
	require.ErrorContains(t, group.Put(t.Context(), "taken", q), "the name is taken")
	require.NoError(t, group.Put(t.Context(), "added", q))
	got, err := group.Get(t.Context(), "added")
	require.NoError(t, err)
	assert.Same(t, q, got)
	assert.Equal(t, []string{"added", "taken"}, group.Queues(t.Context()))
	put(t, q, noop(t, "one"))
	drain(t, q)
	require.NoError(t, group.Close(t.Context()))
	require.ErrorIs(t, q.Put(t.Context(), noop(t, "two")), amboy.ErrQueueClosed)
}
