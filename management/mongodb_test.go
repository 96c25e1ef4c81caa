package management_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

func init() {
	kinds = append(kinds,
		kind{name: "mongodb", variant: true, stored: true, database: true, open: func(t *testing.T) amboy.Queue {
			store, opts := newMongoDB(t, false)
			q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: workers})
			databases.Store(q, opts)
			return started(t, q, err)
		}},
		kind{name: "mongodb in a group", stored: true, wider: true, database: true, group: "tenant.one", open: func(t *testing.T) amboy.Queue {
			store, opts := newMongoDB(t, true)
			q := inDriverGroup(t, store)
			databases.Store(q, opts)
			return q
		}},
	)
}

// databases maps queues to the options of a manager of their database.
var databases sync.Map

// ofDatabase is the inspector that needs no queue. It exists for variants too, whose database
// it queries in another way.
var ofDatabase = view{"database", func(k kind) bool { return k.database }, func(t *testing.T, q amboy.Queue) management.Inspector {
	opts, ok := databases.Load(q)
	require.True(t, ok)
	i, err := management.NewDBInspector(t.Context(), opts.(management.DBQueueManagerOptions))
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, i.(interface{ Close(context.Context) error }).Close(context.Background()))
	})
	return i
}}

func newMongoDB(t *testing.T, grouped bool) (driver.Driver, management.DBQueueManagerOptions) {
	d := mongotest.Open(t)
	store, err := mongodb.Open(t.Context(), mongodb.Options{Client: d.Client(), DB: d.Database(), Collection: "jobs", Grouped: grouped})
	require.NoError(t, err)
	return withoutRetries{store}, management.DBQueueManagerOptions{
		Options: queue.MongoDBOptions{Client: d.Client(), DB: d.Database(), Collection: "jobs"}, ByGroups: grouped,
	}
}

// onMongoDB returns a queue that is not started.
func onMongoDB(t *testing.T, opts queue.MongoDBOptions) amboy.Queue {
	q, err := queue.NewMongoDBQueue(t.Context(), queue.MongoDBQueueOptions{DB: &opts, NumWorkers: new(1)})
	require.NoError(t, err)
	t.Cleanup(func() { q.Close(ended()) })
	return q
}

// closing closes a manager at the end of a test, and waits until it is closed.
func closing(t *testing.T, m management.Manager, err error) management.Manager {
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, m.(interface{ Close(context.Context) error }).Close(context.Background()))
	})
	return m
}

func TestDBQueueManager(t *testing.T) {
	for name, test := range map[string]struct {
		amend func(*management.DBQueueManagerOptions)
		// completed are the queues whose job CompleteJob completes.
		completed []string
		counts    []management.JobTypeCount
		ids       []management.GroupedID
	}{
		"own": {
			func(*management.DBQueueManagerOptions) {},
			[]string{""},
			[]management.JobTypeCount{{Type: "alpha", Count: 1}},
			[]management.GroupedID{{ID: "same*"}},
		},
		"by groups": {
			func(o *management.DBQueueManagerOptions) { o.ByGroups = true },
			[]string{"one", "two"},
			[]management.JobTypeCount{{Type: "alpha", Group: "one", Count: 2}, {Type: "alpha", Group: "two", Count: 1}},
			[]management.GroupedID{{ID: "same*", Group: "one"}, {ID: "same not", Group: "one"}, {ID: "same*", Group: "two"}},
		},
		"by groups, one is named": {
			func(o *management.DBQueueManagerOptions) { o.ByGroups, o.Options.GroupName = true, "one" },
			[]string{"one", "two"},
			[]management.JobTypeCount{{Type: "alpha", Group: "one", Count: 2}, {Type: "alpha", Group: "two", Count: 1}},
			[]management.GroupedID{{ID: "same*", Group: "one"}, {ID: "same not", Group: "one"}, {ID: "same*", Group: "two"}},
		},
		"single group": {
			func(o *management.DBQueueManagerOptions) { o.SingleGroup, o.Options.GroupName = true, "two" },
			[]string{"two"},
			[]management.JobTypeCount{{Type: "alpha", Group: "two", Count: 1}},
			[]management.GroupedID{{ID: "same*", Group: "two"}},
		},
		"one of a group": {
			func(o *management.DBQueueManagerOptions) { o.Options.UseGroups, o.Options.GroupName = true, "two" },
			[]string{"two"},
			[]management.JobTypeCount{{Type: "alpha", Group: "two", Count: 1}},
			[]management.GroupedID{{ID: "same*", Group: "two"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := mongotest.Open(t)
			db := queue.MongoDBOptions{Client: d.Client(), DB: d.Database(), Collection: "jobs"}
			queues := map[string]amboy.Queue{"": onMongoDB(t, db)}
			for _, group := range []string{"one", "two"} {
				grouped := db
				grouped.UseGroups, grouped.GroupName = true, group
				queues[group] = onMongoDB(t, grouped)
			}
			for _, group := range []string{"one", "two", ""} {
				require.NoError(t, queues[group].Put(t.Context(), newTask("same*", "alpha")))
				if group == "one" {
					require.NoError(t, queues[group].Put(t.Context(), newTask("same not", "alpha")))
				}
			}
			opts := management.DBQueueManagerOptions{Options: db}
			test.amend(&opts)
			m, err := management.MakeDBQueueManager(t.Context(), opts)
			m = closing(t, m, err)
			counts, err := m.JobStatus(t.Context(), management.Pending)
			require.NoError(t, err)
			assert.Equal(t, test.counts, counts)
			ids, err := m.JobIDsByState(t.Context(), "alpha", management.All)
			require.NoError(t, err)
			assert.ElementsMatch(t, test.ids, ids)

			waited := make(chan bool, 1)
			go func() { waited <- amboy.WaitJob(t.Context(), newTask("same*", "alpha"), queues[test.completed[0]]) }()
			require.NoError(t, m.CompleteJob(t.Context(), "same*"))
			assert.True(t, <-waited)
			var completed []string
			for _, group := range []string{"", "one", "two"} {
				if queues[group].Stats(t.Context()).Completed == 1 {
					completed = append(completed, group)
				}
			}
			assert.Equal(t, test.completed, completed)
			assert.True(t, amboy.IsJobNotFoundError(m.CompleteJob(t.Context(), "nobody")))
			require.NoError(t, m.CompleteJobs(t.Context(), management.All))
			counts, err = m.JobStatus(t.Context(), management.Pending)
			require.NoError(t, err)
			assert.Empty(t, counts)
		})
	}
}

func TestDBQueueManagerOptions(t *testing.T) {
	for name, test := range map[string]struct {
		amend func(*management.DBQueueManagerOptions)
		text  string
	}{
		"both":          {func(o *management.DBQueueManagerOptions) { o.SingleGroup, o.ByGroups = true, true }, "SingleGroup and ByGroups must not both be set"},
		"no group":      {func(o *management.DBQueueManagerOptions) { o.SingleGroup = true }, "GroupName must be set"},
		"no collection": {func(o *management.DBQueueManagerOptions) { o.Options.Collection = "" }, "Collection must be set"},
		"nowhere":       {func(o *management.DBQueueManagerOptions) { o.Options.URI = "" }, "Client or URI must be set"},
		"TTL":           {func(o *management.DBQueueManagerOptions) { o.Options.TTL, o.ByGroups = 1, true }, "TTL must be 0 or at least 1s (is 1ns)"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := management.DBQueueManagerOptions{Options: queue.MongoDBOptions{URI: "mongodb://127.0.0.1:1", DB: "db", Collection: "jobs"}}
			require.NoError(t, opts.Validate())
			test.amend(&opts)
			before := opts
			require.ErrorContains(t, opts.Validate(), test.text)
			assert.Equal(t, before, opts)
			_, err := management.NewDBQueueManager(t.Context(), opts)
			require.ErrorContains(t, err, test.text)
		})
	}
	_, err := management.MakeDBQueueManager(t.Context(), management.DBQueueManagerOptions{Options: queue.MongoDBOptions{URI: "mongodb://127.0.0.1:1", DB: "db", Collection: "jobs"}})
	require.ErrorContains(t, err, "Options.Client must be set")
}

// The manager connects, and disconnects when its context ends: TestMain would report the
// goroutines of a client that stays connected.
func TestDBQueueManagerOfAURI(t *testing.T) {
	d := mongotest.Open(t)
	opts := management.DBQueueManagerOptions{Options: queue.MongoDBOptions{URI: d.URI(), DB: d.Database(), Collection: "jobs"}}
	ctx, cancel := context.WithCancel(t.Context())
	m, err := management.NewDBQueueManager(ctx, opts)
	require.NoError(t, err)
	require.NoError(t, m.CompleteJobs(t.Context(), management.All))
	cancel()
	require.NoError(t, m.(interface{ Close(context.Context) error }).Close(t.Context()), "Close waits for the end")
	require.ErrorIs(t, m.CompleteJobs(t.Context(), management.All), driver.ErrClosed)

	opts.Options.URI = "mongodb://me:secret@127.0.0.1:1"
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = management.NewDBQueueManager(short, opts)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "secret")
}

// A job that a manager completes is removed after the TTL of its options.
func TestDBQueueManagerTTL(t *testing.T) {
	d := mongotest.Open(t)
	for name, ttl := range map[string]time.Duration{"kept": 0, "hour": time.Hour} {
		db := queue.MongoDBOptions{Client: d.Client(), DB: d.Database(), Collection: name, TTL: ttl}
		require.NoError(t, onMongoDB(t, db).Put(t.Context(), newTask("one", "alpha")))
		m, err := management.NewDBQueueManager(t.Context(), management.DBQueueManagerOptions{Options: db})
		require.NoError(t, closing(t, m, err).CompleteJob(t.Context(), "one"))
		var stored struct {
			ForgetAt time.Time `bson:"forget_at"`
		}
		require.NoError(t, d.Collection(name+".jobs").FindOne(t.Context(), bson.M{}).Decode(&stored))
		if ttl == 0 {
			assert.True(t, stored.ForgetAt.IsZero())
		} else {
			assert.WithinDuration(t, time.Now().Add(ttl), stored.ForgetAt, time.Minute)
		}
	}
}
