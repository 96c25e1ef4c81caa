package mongotest_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy/internal/mongotest"
)

func watch(t *testing.T, c *mongo.Collection, opts *options.ChangeStreamOptions, stages ...string) *mongo.ChangeStream {
	t.Helper()
	pipeline := mongo.Pipeline{}
	for _, text := range stages {
		pipeline = append(pipeline, parse(t, text))
	}
	stream, err := c.Watch(t.Context(), pipeline, opts)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, stream.Close(context.Background())) })
	return stream
}

// next returns the next event without its time and position.
func next(t *testing.T, stream *mongo.ChangeStream) string {
	t.Helper()
	require.True(t, stream.Next(t.Context()), stream.Err())
	var doc bson.D
	require.NoError(t, stream.Decode(&doc))
	kept := bson.D{}
	for _, e := range doc {
		switch e.Key {
		case "_id", "clusterTime", "wallTime", "ns":
		default:
			kept = append(kept, e)
		}
	}
	return show(t, kept)
}

// https://www.mongodb.com/docs/manual/reference/change-events/
func TestChangeEvents(t *testing.T) {
	c := jobs(t)
	stream := watch(t, c, options.ChangeStream())
	insert(t, c, `{"_id": 1, "a": 1, "s": {"x": 1, "y": 2}}`)
	require.NoError(t, c.FindOneAndUpdate(t.Context(), bson.D{}, parse(t, `{"$set": {"s.x": 5}, "$unset": {"a": 1}}`)).Err())
	_, err := c.ReplaceOne(t.Context(), bson.D{}, parse(t, `{"b": 1}`))
	require.NoError(t, err)
	_, err = c.UpdateMany(t.Context(), bson.D{}, parse(t, `{"$set": {"b": 1}}`)) // changes nothing
	require.NoError(t, err)
	_, err = c.DeleteOne(t.Context(), bson.D{})
	require.NoError(t, err)
	require.NoError(t, c.Drop(t.Context()))
	assert.JSONEq(t, `{"operationType":"insert","fullDocument":{"_id":1,"a":1,"s":{"x":1,"y":2}},"documentKey":{"_id":1}}`, next(t, stream))
	assert.JSONEq(t, `{"operationType":"update","documentKey":{"_id":1},"updateDescription":{"updatedFields":{"s.x":5},"removedFields":["a"],"truncatedArrays":[]}}`, next(t, stream))
	assert.JSONEq(t, `{"operationType":"replace","fullDocument":{"_id":1,"b":1},"documentKey":{"_id":1}}`, next(t, stream))
	assert.JSONEq(t, `{"operationType":"delete","documentKey":{"_id":1}}`, next(t, stream))
	assert.JSONEq(t, `{"operationType":"drop"}`, next(t, stream))
	assert.JSONEq(t, `{"operationType":"invalidate"}`, next(t, stream))
	assert.False(t, stream.Next(t.Context()))
	assert.NoError(t, stream.Err())
}

// A stream on a database shows the events of all of its collections, and continues when one is
// dropped. https://www.mongodb.com/docs/manual/changeStreams/#watch-collection--database--or-deployment
func TestStreamsOfADatabase(t *testing.T) {
	c := jobs(t)
	other := c.Database().Collection("other")
	stream, err := c.Database().Watch(t.Context(), mongo.Pipeline{parse(t, `{"$match": {"ns.coll": {"$ne": "left out"}}}`)})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, stream.Close(context.Background())) })
	insert(t, c, `{"_id": 1}`)
	require.NoError(t, c.Drop(t.Context()))
	insert(t, c.Database().Collection("left out"), `{"_id": 2}`)
	insert(t, other, `{"_id": 3}`)
	assert.JSONEq(t, `{"operationType":"insert","fullDocument":{"_id":1},"documentKey":{"_id":1}}`, next(t, stream))
	assert.JSONEq(t, `{"operationType":"drop"}`, next(t, stream))
	assert.JSONEq(t, `{"operationType":"insert","fullDocument":{"_id":3},"documentKey":{"_id":3}}`, next(t, stream))
}

// A stream wakes for an event that comes while it waits, not at the end of the
// wait. https://www.mongodb.com/docs/manual/reference/command/getMore/
func TestStreamsWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := jobs(t)
		stream := watch(t, c, options.ChangeStream().SetMaxAwaitTime(time.Hour))
		got := make(chan bool, 1)
		go func() { got <- stream.Next(t.Context()) }()
		synctest.Wait()
		began := time.Now()
		insert(t, c, `{"_id": 1}`)
		assert.True(t, <-got)
		assert.Zero(t, time.Since(began), "the clock is fake")
	})
}

// The wait ends with an empty batch after maxTimeMS, and the token moves on.
func TestAwaitEnds(t *testing.T) {
	c := jobs(t)
	stream := watch(t, c, options.ChangeStream().SetMaxAwaitTime(time.Millisecond), `{"$match": {"operationType": "delete"}}`)
	before := stream.ResumeToken()
	insert(t, c, `{"_id": 1}`)
	for range 2 { // the first batch, and that of the wait
		assert.False(t, stream.TryNext(t.Context()))
		require.NoError(t, stream.Err())
	}
	assert.NotEqual(t, before, stream.ResumeToken())
}

// A token resumes after its event; updateLookup adds the document as it is.
// https://www.mongodb.com/docs/manual/changeStreams/#resume-a-change-stream
func TestResume(t *testing.T) {
	server, client := start(t, mongotest.Options{InMemory: true})
	c := client.Database("amboy").Collection("jobs")
	stream := watch(t, c, options.ChangeStream())
	insert(t, c, `{"_id": 1}`, `{"_id": 2}`)
	next(t, stream)
	token := stream.ResumeToken()
	require.NoError(t, set(t, t.Context(), c, 1, 1))
	require.NoError(t, set(t, t.Context(), c, 1, 2))
	for _, opts := range []*options.ChangeStreamOptions{
		options.ChangeStream().SetResumeAfter(token),
		options.ChangeStream().SetStartAfter(token),
	} {
		resumed := watch(t, c, opts.SetFullDocument(options.UpdateLookup))
		assert.Contains(t, next(t, resumed), `"documentKey":{"_id":2}`)
		assert.Contains(t, next(t, resumed), `"fullDocument":{"_id":1,"v":2}`)
	}
	server.ForgetHistory()
	_, err := c.Watch(t.Context(), mongo.Pipeline{}, options.ChangeStream().SetResumeAfter(token))
	assert.Equal(t, 286, code(err))
	_, err = c.Watch(t.Context(), mongo.Pipeline{}, options.ChangeStream().SetResumeAfter(bson.D{{Key: "_data", Value: "zz"}}))
	assert.Equal(t, 260, code(err))
}

// The driver resumes a stream whose connection was cut, and no event is lost.
func TestStreamsSurviveDisconnection(t *testing.T) {
	server, client := start(t, mongotest.Options{})
	c := client.Database("amboy").Collection("jobs")
	stream := watch(t, c, options.ChangeStream())
	insert(t, c, `{"_id": 1}`)
	assert.Contains(t, next(t, stream), `"_id":1`)
	insert(t, c, `{"_id": 2}`)
	server.Disconnect()
	assert.Contains(t, next(t, stream), `"_id":2`)
}

// Streams show a transaction's events when it is committed.
// https://www.mongodb.com/docs/manual/changeStreams/
func TestStreamsShowCommittedTransactions(t *testing.T) {
	c := jobs(t)
	stream := watch(t, c, options.ChangeStream().SetMaxAwaitTime(time.Millisecond))
	tx := begin(t, c)
	_, err := c.InsertOne(tx, bson.D{{Key: "_id", Value: 1}})
	require.NoError(t, err)
	require.NoError(t, set(t, tx, c, 1, 3))
	for range 2 { // the first batch, and that of the wait
		assert.False(t, stream.TryNext(t.Context()))
	}
	require.NoError(t, tx.CommitTransaction(t.Context()))
	assert.Contains(t, next(t, stream), `"fullDocument":{"_id":1}`)
	assert.Contains(t, next(t, stream), `"updatedFields":{"v":3}`)
}

// A batch of events ends before it is too large for a message, and the stream continues
// with the next one.
// https://www.mongodb.com/docs/manual/reference/limits/#mongodb-limit-BSON-Document-Size
func TestLargeBatchesOfEvents(t *testing.T) {
	c := jobs(t)
	stream := watch(t, c, options.ChangeStream())
	large := strings.Repeat("x", 6<<20)
	const events = 4
	for i := range events {
		_, err := c.InsertOne(t.Context(), bson.D{{Key: "_id", Value: i}, {Key: "large", Value: large}})
		require.NoError(t, err)
	}
	for i := range events {
		require.True(t, stream.Next(t.Context()), stream.Err())
		assert.Equal(t, []int{2, 1, 0, 0}[i], stream.RemainingBatchLength())
		assert.EqualValues(t, i, stream.Current.Lookup("documentKey", "_id").AsInt64())
	}
}
