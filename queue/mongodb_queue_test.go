package queue_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

func TestMongoDBQueueOptionsValidate(t *testing.T) {
	five := func(string) int { return 5 }
	for name, test := range map[string]struct {
		amend func(*queue.MongoDBQueueOptions)
		errs  []string
	}{
		"required options only": {amend: func(*queue.MongoDBQueueOptions) {}},
		"a function":            {amend: func(o *queue.MongoDBQueueOptions) { o.NumWorkers, o.WorkerPoolSize = nil, five }},
		"both":                  {amend: func(o *queue.MongoDBQueueOptions) { o.WorkerPoolSize = five }},
		"neither":               {amend: func(o *queue.MongoDBQueueOptions) { o.NumWorkers = nil }, errs: []string{"NumWorkers or WorkerPoolSize must be set"}},
		"no workers":            {amend: func(o *queue.MongoDBQueueOptions) { o.NumWorkers = new(0) }, errs: []string{"NumWorkers must be at least 1 (is 0)"}},
		"no database":           {amend: func(o *queue.MongoDBQueueOptions) { o.DB = nil }, errs: []string{"DB must be set"}},
		"invalid nested options": {
			amend: func(o *queue.MongoDBQueueOptions) {
				o.DB.Collection = ""
				o.Retryable = &queue.RetryableQueueOptions{StaleRetryingMonitorInterval: -1}
			},
			errs: []string{"DB: invalid MongoDB options: Collection must be set", "StaleRetryingMonitorInterval must not be negative (is -1ns)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			opts := queue.MongoDBQueueOptions{
				DB:         &queue.MongoDBOptions{URI: "mongodb://localhost", DB: "db", Collection: "jobs"},
				NumWorkers: new(1),
			}
			test.amend(&opts)
			err := opts.Validate()
			if test.errs == nil {
				require.NoError(t, err)
				assert.Equal(t, amboy.LockTimeout, opts.DB.LockTimeout)
			}
			for _, text := range test.errs {
				require.ErrorContains(t, err, text)
				_, buildErr := opts.BuildQueue(t.Context())
				require.ErrorContains(t, buildErr, text)
			}
		})
	}
}

// TestMongoDBQueueOfAURI checks that the queue disconnects when it is closed: TestMain
// finds the goroutines of a client that is still connected.
func TestMongoDBQueueOfAURI(t *testing.T) {
	d := mongotest.Open(t)
	q, err := queue.NewMongoDBQueue(t.Context(), queue.MongoDBQueueOptions{
		DB: &queue.MongoDBOptions{URI: d.URI(), DB: d.Database(), Collection: "queue"}, NumWorkers: new(1),
	})
	require.NoError(t, err)
	put(t, q, noop(t, "one"))
	require.NoError(t, q.Start(t.Context()))
	require.NoError(t, q.Start(t.Context()), "a second Start does nothing")
	drain(t, q)
	q.Close(t.Context())
	require.Error(t, q.Put(t.Context(), noop(t, "two")))
	require.ErrorIs(t, q.Start(t.Context()), amboy.ErrQueueClosed)
}

func TestMongoDBQueueOfAClient(t *testing.T) {
	d := mongotest.Open(t)
	q, err := (&queue.MongoDBQueueOptions{
		DB:         &queue.MongoDBOptions{Client: d.Client(), URI: "not looked at", DB: d.Database(), Collection: "queue"},
		NumWorkers: new(1),
	}).BuildQueue(t.Context())
	require.NoError(t, err)
	put(t, q, noop(t, "one"))
	q.Close(t.Context())
	n, err := d.Client().Database(d.Database()).Collection("queue.jobs").CountDocuments(t.Context(), bson.M{})
	require.NoError(t, err, "the client is the caller's")
	assert.EqualValues(t, 1, n)
}

// TestMongoDBQueueWithoutAServer checks that the constructor returns at the latest when
// the context ends, and that its error contains no password.
func TestMongoDBQueueWithoutAServer(t *testing.T) {
	for name, uri := range map[string]string{
		"no server listens": "mongodb://me:secret@127.0.0.1:1",
		"no connection URI": "http://me:secret@127.0.0.1",
		"can't be parsed":   "mongodb://me:secret@:::",
		"percent":           "mongodb://me:secret%@127.0.0.1:1",
		"bad option":        "mongodb://me:secret@127.0.0.1:1/?w=secret&maxPoolSize=many",
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			db := &queue.MongoDBOptions{URI: uri, DB: "db", Collection: "queue"}
			_, err := queue.NewMongoDBQueue(ctx, queue.MongoDBQueueOptions{DB: db, NumWorkers: new(1)})
			require.Error(t, err)
			assert.NotContains(t, err.Error(), "secret")
			_, err = queue.NewMongoDBSingleQueueGroup(ctx, queue.MongoDBQueueGroupOptions{
				DefaultQueue: queue.MongoDBQueueOptions{DB: db, NumWorkers: new(1)},
			})
			require.Error(t, err)
			assert.NotContains(t, err.Error(), "secret")
		})
	}
}

// TestMongoDBQueuesOfOneCollection checks that queues with different names share no jobs.
func TestMongoDBQueuesOfOneCollection(t *testing.T) {
	d := mongotest.Open(t)
	var queues []amboy.RetryableQueue
	for _, name := range []string{"one", "two"} {
		q := startMongoDB(t, d, 1, func(o *queue.MongoDBOptions) { o.UseGroups, o.GroupName = true, name })
		put(t, q, noop(t, "job"))
		drain(t, q)
		queues = append(queues, q)
	}
	group := newMongoDBGroup(t, d, func(o *queue.MongoDBQueueGroupOptions) { o.DefaultQueue.DB.Collection = "queue" })
	assert.Equal(t, 1, open(t, group, "one").Stats(t.Context()).Total, "the group opens the queue of that name")
	assert.Equal(t, 1, queues[1].Stats(t.Context()).Total)
}

// TestMongoDBWorkerPoolSize checks that the function is called with the name of the
// queue.
func TestMongoDBWorkerPoolSize(t *testing.T) {
	d := mongotest.Open(t)
	for name, grouped := range map[string]bool{"queue": false, "a long name": true} {
		q, err := queue.NewMongoDBQueue(t.Context(), queue.MongoDBQueueOptions{
			DB:             &queue.MongoDBOptions{Client: d.Client(), DB: d.Database(), Collection: "queue", UseGroups: grouped, GroupName: "a long name"},
			WorkerPoolSize: func(name string) int { return len(name) },
			Abortable:      new(true),
		})
		require.NoError(t, err)
		assert.Implements(t, (*amboy.AbortableRunner)(nil), q.Runner())
		assert.Equal(t, len(name), workersOf(t, q))
		q.Close(t.Context())
	}
}

// Options with both used to be refused.
func TestMongoDBWorkerPoolSizeComesBeforeNumWorkers(t *testing.T) {
	d := mongotest.Open(t)
	for size, want := range map[int]int{5: 5, 0: 2, -1: 2} {
		opts := queue.MongoDBQueueOptions{
			DB:             &queue.MongoDBOptions{Client: d.Client(), DB: d.Database(), Collection: "queue"},
			NumWorkers:     new(2),
			WorkerPoolSize: func(string) int { return size },
		}
		q, err := queue.NewMongoDBQueue(t.Context(), opts)
		require.NoError(t, err)
		assert.Equal(t, want, workersOf(t, q), "the function returns %d", size)
		q.Close(t.Context())
	}
	_, err := queue.NewMongoDBQueue(t.Context(), queue.MongoDBQueueOptions{
		DB:             &queue.MongoDBOptions{Client: d.Client(), DB: d.Database(), Collection: "queue"},
		WorkerPoolSize: func(string) int { return 0 },
	})
	require.ErrorContains(t, err, `WorkerPoolSize must be at least 1 if NumWorkers is not set (is 0 for queue "queue")`)
	group := newMongoDBGroup(t, d, func(o *queue.MongoDBQueueGroupOptions) {
		o.DefaultQueue.NumWorkers = new(3)
		o.PerQueue = map[string]queue.MongoDBQueueOptions{"tenant": {WorkerPoolSize: func(string) int { return 0 }}}
	})
	assert.Equal(t, 3, workersOf(t, open(t, group, "tenant")))
}

// A job used to run an hour before its time because CheckWaitUntil was false.
func TestMongoDBJobsKeepTheirTimesWhateverIsChecked(t *testing.T) {
	for _, check := range []bool{true, false} {
		t.Run(map[bool]string{true: "checked", false: "not checked"}[check], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := mongotest.Open(t, mongotest.InMemory())
				q := onMongoDB(t, d, 1, func(o *queue.MongoDBOptions) { o.CheckWaitUntil, o.CheckDispatchBy = check, check })
				later, late := noop(t, "later"), noop(t, "late")
				later.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(10 * time.Minute)})
				late.SetTimeInfo(amboy.JobTimeInfo{DispatchBy: time.Now().Add(time.Minute)})
				put(t, q, later, late)
				pass(2 * time.Minute)
				require.NoError(t, q.Start(t.Context()))
				pass(time.Minute)
				want := map[string]amboy.JobState{"later": amboy.StateScheduled, "late": amboy.StateExpired}
				for id, state := range want {
					assert.Equal(t, state, infoOf(t, q, id).State, id)
				}
				pass(10 * time.Minute)
				assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "later").State)
			})
		})
	}
}

// TestMongoDBTTL checks that only jobs that have ended are removed.
func TestMongoDBTTL(t *testing.T) {
	for name, test := range map[string]struct {
		ttl  time.Duration
		left []string
	}{
		"set":     {10 * time.Minute, []string{"scheduled"}},
		"not set": {0, []string{"ended", "scheduled"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := mongotest.Open(t, mongotest.InMemory())
				q := startMongoDB(t, d, 1, func(o *queue.MongoDBOptions) { o.TTL = test.ttl })
				scheduled := noop(t, "scheduled")
				scheduled.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(1000 * time.Hour)})
				put(t, q, noop(t, "ended"), scheduled)
				pass(9 * time.Minute)
				assert.Equal(t, 2, q.Stats(t.Context()).Total)
				_, there := q.Get(t.Context(), "ended")
				assert.True(t, there)
				pass(10 * time.Minute)
				var left []string
				for info := range q.JobInfo(t.Context()) {
					left = append(left, info.ID)
				}
				assert.ElementsMatch(t, test.left, left)
				d.Server().Expire(time.Now().Add(10000 * time.Hour)) // applies any TTL index
				assert.Equal(t, 1, q.Stats(t.Context()).Pending, "an unfinished job is never removed")
			})
		})
	}
}

// TestMongoDBWaitsEndAtOnce checks that waiters learn at once of the last end, after
// which no worker claims.
func TestMongoDBWaitsEndAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := mongotest.Open(t, mongotest.InMemory())
		q := startMongoDB(t, d, 2, nil)
		const takes = time.Minute + time.Second/2
		fails := func(_ context.Context, j *funcJob) {
			<-time.After(takes)
			j.AddRetryableError(errors.New("no luck"))
		}
		for name, j := range map[string]*funcJob{
			"succeeds":  newJob(t, "succeeds", func(context.Context, *funcJob) { <-time.After(takes) }),
			"fails":     newJob(t, "fails", fails),
			"last time": retryable(newJob(t, "last time", fails), 1),
		} {
			begin := time.Now()
			put(t, q, j)
			require.True(t, amboy.Wait(day(t), q))
			assert.Less(t, time.Since(begin), takes+time.Millisecond, name)
		}
	})
}

// sliceJob has fields that may be nil.
type sliceJob struct {
	funcJob `bson:"inline"`
	Names   []string          `bson:"names"`
	Tags    map[string]string `bson:"tags"`
}

func TestMongoDBFormats(t *testing.T) {
	for format, want := range map[amboy.Format]bson.M{
		amboy.BSON:  {"names": bson.A{}, "tags": bson.M{}},
		amboy.BSON2: {"names": nil, "tags": nil},
	} {
		t.Run(format.String(), func(t *testing.T) {
			d := mongotest.Open(t)
			q := onMongoDB(t, d, 1, func(o *queue.MongoDBOptions) { o.Format = format })
			j := &sliceJob{funcJob: *noop(t, "one")}
			put(t, q, j)
			var stored struct {
				Job bson.M `bson:"job"`
			}
			require.NoError(t, d.Collection("queue.jobs").FindOne(t.Context(), bson.M{"_id": "one"}).Decode(&stored))
			for field, value := range want {
				assert.Equal(t, value, stored.Job[field])
			}
		})
	}
}

// TestMongoDBIndexesAreBuiltAsConfigured checks which indexes exist.
func TestMongoDBIndexesAreBuiltAsConfigured(t *testing.T) {
	counts := map[string]int{}
	for name, amend := range map[string]func(*queue.MongoDBOptions){
		"all":          nil,
		"no reporting": func(o *queue.MongoDBOptions) { o.SkipReportingIndexBuilds = true },
		"none":         func(o *queue.MongoDBOptions) { o.SkipQueueIndexBuilds = true },
	} {
		d := mongotest.Open(t)
		q := onMongoDB(t, d, 1, amend)
		put(t, q, noop(t, "one")) // creates the collection
		indexes, err := d.Collection("queue.jobs").Indexes().ListSpecifications(t.Context())
		require.NoError(t, err)
		counts[name] = len(indexes)
	}
	assert.Equal(t, 1, counts["none"], "the index on _id")
	assert.Greater(t, counts["no reporting"], 5)
	assert.Greater(t, counts["all"], counts["no reporting"])
}

// TestMongoDBOptionsOfClaims checks the query for jobs that are ready.
func TestMongoDBOptionsOfClaims(t *testing.T) {
	d := mongotest.Open(t)
	hint := bson.D{{Key: "status.completed", Value: int32(1)}, {Key: "status.in_prog", Value: int32(1)}, {Key: "line.in", Value: int32(1)}}
	_, err := d.Collection("queue.jobs").Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: hint})
	require.NoError(t, err)
	var seen commandLog
	client := seen.connect(t, d)
	q := startMongoDB(t, d, 1, func(o *queue.MongoDBOptions) {
		o.Client, o.SampleSize, o.PreferredIndexes.NextJob = client, 7, hint
	})
	put(t, q, noop(t, "one"))
	drain(t, q)
	var hinted bool
	for _, command := range seen.named("aggregate") {
		value, err := command.LookupErr("hint")
		hinted = hinted || err == nil && strings.Contains(value.String(), "in_prog")
	}
	assert.True(t, hinted, "%s", seen.named("aggregate"))
	assert.Condition(t, func() bool {
		for _, command := range seen.named("aggregate") {
			if strings.Contains(command.String(), `"$limit": {"$numberLong":"7"}`) || strings.Contains(command.String(), `"$limit": {"$numberInt":"7"}`) {
				return true
			}
		}
		return false
	}, "it has one worker, and chooses from seven: %s", seen.named("aggregate"))
}

// TestMongoDBGroupQueuesClaimWithAnIndexHint names the keys as in the indexes of a queue
// with its own collection; those of a group begin with the queue's name.
func TestMongoDBGroupQueuesClaimWithAnIndexHint(t *testing.T) {
	keys := bson.D{{Key: "status.completed", Value: 1}, {Key: "status.in_prog", Value: 1}, {Key: "line.in", Value: 1}}
	inGroup := append(bson.D{{Key: "group", Value: 1}}, keys...)
	for name, hint := range map[string]bson.D{"without the group": keys, "with the group": inGroup} {
		t.Run(name, func(t *testing.T) {
			d := mongotest.Open(t)
			var seen commandLog
			client := seen.connect(t, d)
			group := newMongoDBGroup(t, d, func(o *queue.MongoDBQueueGroupOptions) {
				o.DefaultQueue.DB.Client, o.DefaultQueue.DB.PreferredIndexes.NextJob = client, hint
			})
			q := open(t, group, "tenant")
			put(t, q, noop(t, "one"))
			drain(t, q)
			assert.Equal(t, []string{`{"group": {"$numberInt":"1"},"status.completed": {"$numberInt":"1"},` +
				`"status.in_prog": {"$numberInt":"1"},"line.in": {"$numberInt":"1"}}`}, hintsOf(&seen))
		})
	}
}

// TestMongoDBJobsRunIfTheIndexOfTheHintIsMissing also checks that the hint is used again
// once the index exists.
func TestMongoDBJobsRunIfTheIndexOfTheHintIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := mongotest.Open(t, mongotest.InMemory())
		keys := bson.D{{Key: "time_info.created", Value: 1}, {Key: "line.in", Value: 1}}
		var seen commandLog
		client := seen.connect(t, d)
		q := startMongoDB(t, d, 1, func(o *queue.MongoDBOptions) {
			o.Client, o.PreferredIndexes.NextJob = client, keys
		})
		put(t, q, noop(t, "one"))
		drain(t, q)
		require.Len(t, hintsOf(&seen), 1, "the hint was tried")

		seen.reset()
		put(t, q, noop(t, "two"))
		drain(t, q)
		assert.Empty(t, hintsOf(&seen), "the server has just reported that the index is missing")

		_, err := d.Collection("queue.jobs").Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: keys})
		require.NoError(t, err)
		pass(2 * time.Minute)
		put(t, q, noop(t, "three"))
		drain(t, q)
		assert.Len(t, hintsOf(&seen), 1)
	})
}

// hintsOf returns the distinct hints of the aggregations that were sent.
func hintsOf(l *commandLog) (hints []string) {
	for _, command := range l.named("aggregate") {
		if hint, err := command.LookupErr("hint"); err == nil && !slices.Contains(hints, hint.String()) {
			hints = append(hints, hint.String())
		}
	}
	return hints
}

// TestCompletionFromOutsideRaisesTheStoredModificationCount covers processes with the
// legacy library: they take a job that they have read before if its count is unchanged.
func TestCompletionFromOutsideRaisesTheStoredModificationCount(t *testing.T) {
	d := mongotest.Open(t)
	q := onMongoDB(t, d, 1, nil)
	store, ok := queue.StoreOf(q)
	require.True(t, ok)
	count := func(id string) int {
		t.Helper()
		var doc struct {
			Status amboy.JobStatusInfo `bson:"status"`
		}
		require.NoError(t, d.Collection("queue.jobs").FindOne(t.Context(), bson.M{"_id": id}).Decode(&doc))
		return doc.Status.ModificationCount
	}
	retrying := noop(t, "retrying")
	retrying.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true)})
	put(t, q, noop(t, "by management"), noop(t, "by the queue"), noop(t, "canceled"), retrying)

	r, err := store.Driver().Get(t.Context(), "", "by management")
	require.NoError(t, err)
	require.NoError(t, store.MarkComplete(t.Context(), []*driver.Record{r})[0])
	assert.Equal(t, 1, count("by management"))

	copied := jobOf(t, q, "by the queue")
	require.NoError(t, q.Complete(t.Context(), copied))
	assert.Equal(t, 1, count("by the queue"))
	require.NoError(t, q.Save(t.Context(), copied), "the copy is what is stored")

	_, err = store.Admin().Act(t.Context(), driver.ActRequest{
		Query: driver.Query{JobIDs: []string{"canceled"}}, Action: driver.Action{Kind: driver.Cancel}, Limit: 1,
	})
	require.NoError(t, err)
	assert.Equal(t, 1, count("canceled"))

	copied = jobOf(t, q, "retrying")
	copied.UpdateRetryInfo(amboy.JobRetryOptions{NeedsRetry: new(true)})
	require.NoError(t, q.Complete(t.Context(), copied))
	before := count("attempt-0.retrying")
	require.NoError(t, q.CompleteRetrying(t.Context(), copied))
	assert.Greater(t, count("attempt-0.retrying"), before)
}
