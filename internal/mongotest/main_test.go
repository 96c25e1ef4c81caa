package mongotest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
	"go.uber.org/goleak"

	"github.com/mongodb/amboy/internal/mongotest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts a server with a client of the real driver.
func start(t *testing.T, opts mongotest.Options) (*mongotest.Server, *mongo.Client) {
	t.Helper()
	server, err := mongotest.New(opts)
	require.NoError(t, err)
	t.Cleanup(server.Close)
	return server, connect(t, server.ClientOptions())
}

func connect(t *testing.T, opts *options.ClientOptions) *mongo.Client {
	t.Helper()
	client, err := mongo.Connect(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Disconnect(context.Background())) })
	return client
}

// jobs returns an empty collection of an in-memory replica set.
func jobs(t *testing.T) *mongo.Collection {
	t.Helper()
	_, client := start(t, mongotest.Options{InMemory: true})
	return client.Database("amboy").Collection("jobs")
}

// insert inserts documents given as extended JSON.
func insert(t *testing.T, c *mongo.Collection, docs ...string) {
	t.Helper()
	for _, text := range docs {
		_, err := c.InsertOne(t.Context(), parse(t, text))
		require.NoError(t, err)
	}
}

func parse(t *testing.T, text string) bson.D {
	t.Helper()
	var doc bson.D
	require.NoError(t, bson.UnmarshalExtJSON([]byte(text), false, &doc), text)
	return doc
}

// all reads the documents of a cursor as extended JSON.
func all(t *testing.T, cursor *mongo.Cursor, err error) []string {
	t.Helper()
	require.NoError(t, err)
	var docs []bson.D
	require.NoError(t, cursor.All(t.Context(), &docs))
	texts := []string{}
	for _, doc := range docs {
		texts = append(texts, show(t, doc))
	}
	return texts
}

func show(t *testing.T, doc any) string {
	t.Helper()
	text, err := bson.MarshalExtJSON(doc, false, false)
	require.NoError(t, err)
	return string(text)
}

// ids returns the _ids of the documents that a filter matches.
func ids(t *testing.T, c *mongo.Collection, filter string) []any {
	t.Helper()
	cursor, err := c.Find(t.Context(), parse(t, filter))
	require.NoError(t, err)
	var docs []bson.M
	require.NoError(t, cursor.All(t.Context(), &docs))
	found := []any{}
	for _, doc := range docs {
		found = append(found, doc["_id"])
	}
	return found
}

// code returns the code of a server's error, or 0 for another error.
func code(err error) int {
	var command mongo.CommandError
	var write mongo.WriteException
	var bulk mongo.BulkWriteException
	switch {
	case asError(err, &command):
		return int(command.Code)
	case asError(err, &write) && len(write.WriteErrors) > 0:
		return write.WriteErrors[0].Code
	case asError(err, &bulk) && len(bulk.WriteErrors) > 0:
		return bulk.WriteErrors[0].Code
	default:
		return 0
	}
}

const eventually = 10 * time.Second
