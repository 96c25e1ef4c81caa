package mongotest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy/internal/mongotest"
)

// benchmarked returns a collection with the indexes of a queue and n jobs, one in a
// hundred of which is ready.
func benchmarked(b *testing.B, n int) *mongo.Collection {
	b.Helper()
	server, err := mongotest.New(mongotest.Options{InMemory: true})
	require.NoError(b, err)
	b.Cleanup(server.Close)
	client, err := mongo.Connect(b.Context(), server.ClientOptions())
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, client.Disconnect(context.Background())) })
	c := client.Database("amboy").Collection("jobs")
	keys := func(fields ...string) bson.D {
		doc := bson.D{{Key: "group", Value: 1}}
		for _, field := range fields {
			doc = append(doc, bson.E{Key: field, Value: 1})
		}
		return doc
	}
	_, err = c.Indexes().CreateMany(b.Context(), []mongo.IndexModel{
		{Keys: bson.D{{Key: "scopes", Value: 1}}, Options: options.Index().SetUnique(true).SetPartialFilterExpression(bson.D{{Key: "scopes", Value: bson.D{{Key: "$exists", Value: true}}}})},
		{Keys: append(keys("status.completed", "status.in_prog", "line.in"), bson.E{Key: "line.priority", Value: -1}, bson.E{Key: "line.order", Value: 1})},
		{Keys: keys("status.completed", "retry_info.retryable", "retry_info.needs_retry", "status.mod_ts")},
		{Keys: keys("retry_info.base_job_id", "retry_info.current_attempt")},
		{Keys: keys("status.completed", "status.in_prog", "time_info.wait_until")},
		{Keys: keys("status.completed", "status.in_prog", "status.mod_ts")},
		{Keys: keys("status.completed", "time_info.end")},
		{Keys: keys("status.completed", "time_info.created")},
		{Keys: keys("type", "status.completed", "status.in_prog", "status.mod_ts")},
	})
	require.NoError(b, err)
	for from := 0; from < n; from += 1000 {
		insertJobs(b, c, from, min(1000, n-from))
	}
	return c
}

func insertJobs(b *testing.B, c *mongo.Collection, from, n int) {
	b.Helper()
	docs := make([]any, n)
	for i := range docs {
		docs[i] = jobDocument(from + i)
	}
	_, err := c.InsertMany(b.Context(), docs)
	require.NoError(b, err)
}

func jobDocument(i int) bson.D {
	line := "scheduled"
	if i%100 == 0 {
		line = "ready"
	}
	now := time.Unix(int64(i), 0)
	return bson.D{
		{Key: "_id", Value: fmt.Sprintf("group.job-%d", i)},
		{Key: "type", Value: "benchmark"},
		{Key: "version", Value: 1},
		{Key: "group", Value: "group"},
		{Key: "status", Value: bson.D{{Key: "owner", Value: ""}, {Key: "completed", Value: false}, {Key: "in_prog", Value: false}, {Key: "mod_ts", Value: now}, {Key: "mod_count", Value: 0}, {Key: "err_count", Value: 0}, {Key: "errors", Value: bson.A{}}}},
		{Key: "retry_info", Value: bson.D{{Key: "retryable", Value: false}, {Key: "needs_retry", Value: false}, {Key: "base_job_id", Value: fmt.Sprintf("job-%d", i)}, {Key: "current_attempt", Value: 0}}},
		{Key: "time_info", Value: bson.D{{Key: "created", Value: now}, {Key: "wait_until", Value: now}, {Key: "max_time", Value: int64(0)}}},
		{Key: "line", Value: bson.D{{Key: "in", Value: line}, {Key: "priority", Value: i % 10}, {Key: "order", Value: i}}},
		{Key: "job", Value: bson.D{{Key: "id", Value: fmt.Sprintf("job-%d", i)}, {Key: "payload", Value: "0123456789012345678901234567890123456789"}}},
		{Key: "dependency", Value: bson.D{{Key: "type", Value: "always"}, {Key: "version", Value: 1}, {Key: "edges", Value: bson.A{}}}},
	}
}

func BenchmarkInsertThousand(b *testing.B) {
	c := benchmarked(b, 0)
	b.ReportAllocs()
	inserted := 0
	for b.Loop() {
		insertJobs(b, c, inserted, 1000)
		inserted += 1000
	}
}

func BenchmarkUpdateOne(b *testing.B) {
	c := benchmarked(b, 10000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		_, err := c.UpdateByID(b.Context(), fmt.Sprintf("group.job-%d", i%10000), bson.D{{Key: "$set", Value: bson.D{{Key: "status.mod_ts", Value: time.Unix(int64(i), 0)}, {Key: "status.mod_count", Value: i}}}})
		require.NoError(b, err)
		i++
	}
}

// BenchmarkUpdateThousand makes the updates of the heartbeats of a thousand jobs.
func BenchmarkUpdateThousand(b *testing.B) {
	c := benchmarked(b, 10000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		models := make([]mongo.WriteModel, 1000)
		for k := range models {
			filter := bson.D{{Key: "_id", Value: fmt.Sprintf("group.job-%d", i%10000)}, {Key: "status.completed", Value: false}, {Key: "status.owner", Value: ""}}
			change := bson.D{{Key: "$set", Value: bson.D{{Key: "status.mod_ts", Value: time.Unix(int64(i), 0)}}}, {Key: "$inc", Value: bson.D{{Key: "status.mod_count", Value: 1}}}}
			models[k] = mongo.NewUpdateOneModel().SetFilter(filter).SetUpdate(change)
			i++
		}
		result, err := c.BulkWrite(b.Context(), models, options.BulkWrite().SetOrdered(false))
		require.NoError(b, err)
		require.EqualValues(b, 1000, result.MatchedCount)
	}
}

// BenchmarkClaimable finds the jobs that a claim can take.
func BenchmarkClaimable(b *testing.B) {
	for _, n := range []int{1000, 100000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := benchmarked(b, n)
			filter := bson.D{{Key: "group", Value: "group"}, {Key: "status.completed", Value: false}, {Key: "status.in_prog", Value: false}, {Key: "line.in", Value: "ready"}}
			order := options.Find().SetLimit(64).SetSort(bson.D{{Key: "line.priority", Value: -1}, {Key: "line.order", Value: 1}})
			b.ReportAllocs()
			for b.Loop() {
				cursor, err := c.Find(b.Context(), filter, order)
				require.NoError(b, err)
				var docs []bson.Raw
				require.NoError(b, cursor.All(b.Context(), &docs))
				require.NotEmpty(b, docs)
			}
		})
	}
}

// BenchmarkCountIncomplete counts by index, as reports do.
func BenchmarkCountIncomplete(b *testing.B) {
	c := benchmarked(b, 20000)
	filter := bson.D{{Key: "group", Value: "group"}, {Key: "status.completed", Value: true}}
	b.ReportAllocs()
	for b.Loop() {
		_, err := c.CountDocuments(b.Context(), filter)
		require.NoError(b, err)
	}
}

// BenchmarkDeleteOne inserts and deletes one document in a large collection.
func BenchmarkDeleteOne(b *testing.B) {
	c := benchmarked(b, 10000)
	b.ReportAllocs()
	for b.Loop() {
		_, err := c.InsertOne(b.Context(), jobDocument(-1))
		require.NoError(b, err)
		_, err = c.DeleteOne(b.Context(), bson.D{{Key: "_id", Value: "group.job--1"}})
		require.NoError(b, err)
	}
}
