package mongotest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy/internal/mongotest"
)

func asError[T error](err error, target *T) bool { return errors.As(err, target) }

// hello identifies a replica set by setName; a standalone server has none.
// https://www.mongodb.com/docs/manual/reference/command/hello/
func TestHelloDescribesTheDeployment(t *testing.T) {
	for name, opts := range map[string]mongotest.Options{
		"ReplicaSet":         {},
		"ReplicaSetInMemory": {InMemory: true},
		"Standalone":         {Standalone: true},
		"StandaloneInMemory": {Standalone: true, InMemory: true},
	} {
		t.Run(name, func(t *testing.T) {
			_, client := start(t, opts)
			require.NoError(t, client.Ping(t.Context(), nil))
			var reply bson.M
			require.NoError(t, client.Database("admin").RunCommand(t.Context(), bson.D{{Key: "hello", Value: 1}}).Decode(&reply))
			assert.Equal(t, true, reply["isWritablePrimary"])
			if opts.Standalone {
				assert.NotContains(t, reply, "setName")
			} else {
				assert.Equal(t, "rs0", reply["setName"])
			}
		})
	}
}

// https://www.mongodb.com/docs/manual/reference/command/buildInfo/
func TestBuildInfoReturnsTheVersion(t *testing.T) {
	_, client := start(t, mongotest.Options{InMemory: true})
	var reply bson.M
	require.NoError(t, client.Database("admin").RunCommand(t.Context(), bson.D{{Key: "buildInfo", Value: 1}}).Decode(&reply))
	assert.Equal(t, "7.0.0", reply["version"])
}

// Anything that the server does not support is an error that names it.
// https://www.mongodb.com/docs/manual/reference/error-codes/
func TestUnsupportedCommandsAreRefused(t *testing.T) {
	c := jobs(t)
	insert(t, c, `{"_id": 1}`)
	for name, test := range map[string]struct {
		command string
		code    int
		names   string
	}{
		"Command":      {`{"mapReduce": "jobs"}`, 59, "mapReduce"},
		"Field":        {`{"find": "jobs", "foo": 1}`, 40415, "foo"},
		"Operator":     {`{"find": "jobs", "filter": {"a": {"$near": 1}}}`, 2, "$near"},
		"TopOperator":  {`{"find": "jobs", "filter": {"$where": "1"}}`, 2, "$where"},
		"Stage":        {`{"aggregate": "jobs", "pipeline": [{"$lookup": {}}], "cursor": {}}`, 40324, "$lookup"},
		"Expression":   {`{"aggregate": "jobs", "pipeline": [{"$project": {"a": {"$sin": 1}}}], "cursor": {}}`, 168, "$sin"},
		"Accumulator":  {`{"aggregate": "jobs", "pipeline": [{"$group": {"_id": 1, "a": {"$top": 1}}}], "cursor": {}}`, 15952, "$top"},
		"Modifier":     {`{"findAndModify": "jobs", "query": {}, "update": {"$bit": {"a": 1}}}`, 9, "$bit"},
		"UpdateField":  {`{"update": "jobs", "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "arrayFilters": []}]}`, 40415, "arrayFilters"},
		"IndexOption":  {`{"createIndexes": "jobs", "indexes": [{"key": {"a": 1}, "name": "a", "foo": 1}]}`, 197, "foo"},
		"StreamOption": {`{"aggregate": "jobs", "pipeline": [{"$changeStream": {"foo": 1}}], "cursor": {}}`, 40415, "foo"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.Database().RunCommand(t.Context(), parse(t, test.command)).Err()
			require.ErrorContains(t, err, test.names)
			assert.Equal(t, test.code, code(err))
		})
	}
}

func TestCutConnectionsAreReplaced(t *testing.T) {
	server, client := start(t, mongotest.Options{})
	require.NoError(t, client.Ping(t.Context(), nil))
	server.Disconnect()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.NoError(c, client.Ping(t.Context(), nil))
	}, eventually, time.Millisecond)
}

func TestCloseEndsWaits(t *testing.T) {
	server, client := start(t, mongotest.Options{InMemory: true})
	stream, err := client.Database("amboy").Collection("jobs").Watch(t.Context(), mongo.Pipeline{})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	done := make(chan bool, 1)
	go func() { done <- stream.Next(ctx) }()
	server.Close()
	server.Close()
	assert.False(t, <-done)
	assert.Error(t, stream.Err())
}

func TestNegativeLifetimeIsRefused(t *testing.T) {
	_, err := mongotest.New(mongotest.Options{TransactionLifetime: -1})
	assert.ErrorContains(t, err, "TransactionLifetime")
}

// An in-memory server and its clients can run in a bubble with a fake clock.
func TestInMemoryWorksWithFakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := mongotest.New(mongotest.Options{InMemory: true})
		require.NoError(t, err)
		defer server.Close()
		client, err := mongo.Connect(t.Context(), server.ClientOptions())
		require.NoError(t, err)
		c := client.Database("amboy").Collection("jobs")
		insert(t, c, `{"_id": 1}`)
		time.Sleep(time.Hour) // fake
		assert.Equal(t, []any{int32(1)}, ids(t, c, `{}`))
		assert.NoError(t, client.Disconnect(t.Context()))
	})
}

func TestServerKeptTheConnectionOfAClientThatHungUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := mongotest.New(mongotest.Options{InMemory: true})
		require.NoError(t, err)
		defer server.Close()
		client, err := mongo.Connect(t.Context(), server.ClientOptions())
		require.NoError(t, err)
		stream, err := client.Database("db").Collection("c").Watch(t.Context(), mongo.Pipeline{})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan bool)
		go func() { ended <- stream.Next(ctx) }()
		synctest.Wait() // until the server waits for an event
		require.NotZero(t, server.Connections())

		cancel()
		assert.False(t, <-ended)
		require.NoError(t, client.Disconnect(t.Context()))
		synctest.Wait()
		assert.Zero(t, server.Connections())
	})
}
