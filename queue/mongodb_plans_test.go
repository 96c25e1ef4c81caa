package queue_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// TestMongoDBPlansOfAClaim fills a collection with many jobs that can't be claimed, and
// counts what a claim of other jobs examines. A real server explains its plan. The
// in-process server has a simple planner, which counts with fewer jobs.
func TestMongoDBPlansOfAClaim(t *testing.T) {
	const claimed, most = 64, 3
	d := mongotest.Open(t)
	scheduled, finished, blocked := 500, 500, 200
	if d.IsReal() {
		if testing.Short() {
			t.Skip("it inserts two million documents")
		}
		scheduled, finished, blocked = 1_000_000, 1_000_000, 100_000
	}
	release := backlogOnMongoDB(t, d, scheduled, finished, blocked)
	defer release()

	var log commandLog
	store, err := mongodb.Open(t.Context(), mongodb.Options{Client: log.connect(t, d), DB: d.Database(), Collection: "queue"})
	require.NoError(t, err)
	defer func() { assert.NoError(t, store.Close(t.Context())) }()
	round := 0
	claim := func() {
		round++
		var ready []*driver.Record
		for i := range claimed {
			ready = append(ready, &driver.Record{Name: fmt.Sprint("ready", round, ".", i), Type: "type"})
		}
		_, err := store.Insert(t.Context(), ready)
		require.NoError(t, err)
		log.reset()
		given, err := store.Claim(t.Context(), driver.ClaimRequest{
			Owner: "me", Queues: []driver.Demand{{Limit: claimed}}, Limit: claimed, Now: time.Now(), LeaseTime: time.Hour,
		})
		require.NoError(t, err)
		require.Len(t, given.Records, claimed)
	}
	claim()
	var keys, docs int64
	if d.IsReal() {
		var again []*driver.Record
		for i := range claimed {
			again = append(again, &driver.Record{Name: fmt.Sprint("again", i), Type: "type"})
		}
		_, err := store.Insert(t.Context(), again) // so that the commands find the same number of jobs again
		require.NoError(t, err)
		for _, command := range append(log.named("aggregate"), log.named("find")...) {
			k, n := explain(t, d, command)
			keys, docs = keys+k, docs+n
		}
	} else {
		// The update of each job examines one key and one document too. Other commands of
		// the queue also count, so the smallest of several claims is used.
		for range 5 {
			before := d.Server().Examined()
			claim()
			after := d.Server().Examined()
			if keys == 0 || after.Keys-before.Keys < keys {
				keys, docs = after.Keys-before.Keys, after.Documents-before.Documents
			}
		}
	}
	t.Logf("%.2f keys and %.2f documents for each job", float64(keys)/claimed, float64(docs)/claimed)
	assert.LessOrEqual(t, float64(keys)/claimed, float64(most))
	assert.LessOrEqual(t, float64(docs)/claimed, float64(most))
}

// backlogOnMongoDB fills a collection with jobs that are not due, jobs that have ended,
// and jobs that wait for a scope. The scope is held until release is called.
func backlogOnMongoDB(t *testing.T, d *mongotest.Deployment, scheduled, finished, blocked int) (release func()) {
	t.Helper()
	q := startMongoDB(t, d, 2, func(o *queue.MongoDBOptions) { o.LockTimeout = time.Hour })
	later, waits := noop(t, "later"), noop(t, "waits")
	later.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(1000 * time.Hour)})
	waits.SetScopes([]string{"held"})
	put(t, q, noop(t, "done"), later)
	require.True(t, amboy.WaitJob(within(t), noop(t, "done"), q))
	holds, started, freeScope := holder(t, "holds")
	holds.SetScopes([]string{"held"})
	put(t, q, holds)
	<-started
	put(t, q, waits, noop(t, "after"))
	require.True(t, amboy.WaitJob(within(t), noop(t, "after"), q))
	require.Equal(t, amboy.StateBlocked, infoOf(t, q, "waits").State, "a claim has examined the job")
	busy, started, freeWorker := holder(t, "busy") // so that no worker here claims the following jobs
	put(t, q, busy)
	<-started
	for id, n := range map[string]int{"later": scheduled, "done": finished, "waits": blocked} {
		clone(t, d, id, n)
	}
	return func() {
		freeScope()
		freeWorker()
	}
}

// clone inserts n copies of a stored job into a queue.
func clone(t *testing.T, d *mongotest.Deployment, id string, n int) {
	t.Helper()
	jobs := d.Collection("queue.jobs")
	var original bson.M
	require.NoError(t, jobs.FindOne(t.Context(), bson.M{"_id": id}).Decode(&original))
	const atOnce = 10_000
	for i := 0; i < n; i += atOnce {
		var copies []any
		for k := range min(atOnce, n-i) {
			document := bson.M{}
			for field, value := range original {
				document[field] = value
			}
			name := fmt.Sprint(id, i+k)
			document["_id"] = name
			if _, ok := document["job_id"]; ok {
				document["job_id"] = name
			}
			copies = append(copies, document)
		}
		_, err := jobs.InsertMany(t.Context(), copies)
		require.NoError(t, err)
	}
}

// explain returns what a server examines for a command.
func explain(t *testing.T, d *mongotest.Deployment, command bson.Raw) (keys, docs int64) {
	t.Helper()
	elements, err := command.Elements()
	require.NoError(t, err)
	var explained bson.D
	for _, e := range elements {
		switch e.Key() {
		case "lsid", "$clusterTime", "$db", "$readPreference", "txnNumber", "writeConcern":
		default:
			explained = append(explained, bson.E{Key: e.Key(), Value: e.Value()})
		}
	}
	var plan bson.M
	database := d.Collection("queue.jobs").Database()
	err = database.RunCommand(context.Background(), bson.D{{Key: "explain", Value: explained}, {Key: "verbosity", Value: "executionStats"}}).Decode(&plan)
	require.NoError(t, err, command)
	return examinedIn(plan)
}

// examinedIn returns the sums of what the stages of a plan have examined.
func examinedIn(part any) (keys, docs int64) {
	var values []any
	switch part := part.(type) {
	case bson.A:
		values = part
	case bson.M:
		for name, value := range part {
			stats, ok := value.(bson.M)
			if name != "executionStats" || !ok {
				values = append(values, value)
				continue
			}
			keys += number(stats["totalKeysExamined"])
			docs += number(stats["totalDocsExamined"])
		}
	}
	for _, value := range values {
		k, n := examinedIn(value)
		keys, docs = keys+k, docs+n
	}
	return keys, docs
}

func number(value any) int64 {
	switch value := value.(type) {
	case int32:
		return int64(value)
	case int64:
		return value
	default:
		return 0
	}
}
