package mongotest_test

import (
	"context"
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

func index(t *testing.T, c *mongo.Collection, keys string, opts *options.IndexOptions) error {
	t.Helper()
	_, err := c.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: parse(t, keys), Options: opts})
	return err
}

// scopes creates the index that ensures that a scope has one holder.
func scopes(t *testing.T, c *mongo.Collection) {
	t.Helper()
	require.NoError(t, index(t, c, `{"scopes": 1}`, options.Index().SetUnique(true).SetPartialFilterExpression(parse(t, `{"scopes": {"$exists": true}}`))))
}

// A unique index on an array allows each element in only one document. A partial index
// excludes the documents that its filter does not match.
// https://www.mongodb.com/docs/manual/core/index-unique/
// https://www.mongodb.com/docs/manual/core/index-partial/
func TestUniquePartialMultikeyIndex(t *testing.T) {
	c := jobs(t)
	scopes(t, c)
	insert(t, c, `{"_id": 1}`, `{"_id": 2}`, `{"_id": 3, "scopes": ["a", "b", "a"]}`)
	_, err := c.UpdateByID(t.Context(), 1, parse(t, `{"$set": {"scopes": ["c", "b"]}}`))
	assert.Equal(t, 11000, code(err))
	_, err = c.UpdateByID(t.Context(), 1, parse(t, `{"$set": {"scopes": ["c"]}}`))
	require.NoError(t, err)
	_, err = c.UpdateByID(t.Context(), 3, parse(t, `{"$unset": {"scopes": 1}}`))
	require.NoError(t, err)
	_, err = c.UpdateByID(t.Context(), 2, parse(t, `{"$set": {"scopes": ["b"]}}`))
	require.NoError(t, err)
}

// The error contains the index's keys and the duplicate value.
// https://www.mongodb.com/docs/manual/reference/error-codes/#mongodb-error-11000
func TestDuplicateKeyErrors(t *testing.T) {
	c := jobs(t)
	scopes(t, c)
	insert(t, c, `{"_id": 1, "scopes": ["a"]}`, `{"_id": 2}`)
	_, err := c.InsertOne(t.Context(), parse(t, `{"_id": 3, "scopes": ["x", "a"]}`))
	var failed mongo.WriteException
	require.ErrorAs(t, err, &failed)
	entry := failed.WriteErrors[0]
	assert.Equal(t, `E11000 duplicate key error collection: amboy.jobs index: scopes_1 dup key: { scopes: "a" }`, entry.Message)
	assert.JSONEq(t, `{"scopes": 1}`, show(t, entry.Raw.Lookup("keyPattern").Document()))
	assert.JSONEq(t, `{"scopes": "a"}`, show(t, entry.Raw.Lookup("keyValue").Document()))
	err = c.FindOneAndUpdate(t.Context(), parse(t, `{"_id": 2}`), parse(t, `{"$set": {"scopes": ["a"]}}`)).Err()
	var command mongo.CommandError
	require.ErrorAs(t, err, &command)
	assert.EqualValues(t, 11000, command.Code)
	assert.JSONEq(t, `{"scopes": 1}`, show(t, command.Raw.Lookup("keyPattern").Document()))
	_, err = c.InsertOne(t.Context(), parse(t, `{"_id": 1.0}`))
	assert.Equal(t, 11000, code(err), "numbers of different types are equal")
}

// An index with an existing name or existing keys must be equal in all options.
// https://www.mongodb.com/docs/manual/reference/method/db.collection.createIndex/
func TestIndexConflicts(t *testing.T) {
	c := jobs(t)
	require.NoError(t, index(t, c, `{"a": 1}`, options.Index()))
	require.NoError(t, index(t, c, `{"a": 1}`, options.Index()), "the same index again")
	assert.Equal(t, 86, code(index(t, c, `{"a": 1}`, options.Index().SetUnique(true))))
	assert.Equal(t, 86, code(index(t, c, `{"b": 1}`, options.Index().SetName("a_1"))))
	assert.Equal(t, 85, code(index(t, c, `{"a": 1}`, options.Index().SetName("other"))))
	assert.Equal(t, 85, code(index(t, c, `{"a": 1}`, options.Index().SetExpireAfterSeconds(5))))
	insert(t, c, `{"_id": 1, "d": 1}`, `{"_id": 2, "d": 1}`)
	assert.Equal(t, 11000, code(index(t, c, `{"d": 1}`, options.Index().SetUnique(true))))
	assert.Equal(t, 67, code(index(t, c, `{"e": 1}`, options.Index().SetPartialFilterExpression(parse(t, `{"e": {"$exists": false}}`)))))
}

// https://www.mongodb.com/docs/manual/reference/command/listIndexes/ and dropIndexes/
func TestListAndDropIndexes(t *testing.T) {
	c := jobs(t)
	_, err := c.Indexes().DropOne(t.Context(), "a_1")
	assert.Equal(t, 26, code(err))
	require.NoError(t, index(t, c, `{"a": 1, "b": -1}`, options.Index().SetSparse(true)))
	scopes(t, c)
	cursor, err := c.Indexes().List(t.Context())
	assert.Equal(t, []string{
		`{"v":2,"key":{"_id":1},"name":"_id_"}`,
		`{"v":2,"key":{"a":1,"b":-1},"name":"a_1_b_-1","sparse":true}`,
		`{"v":2,"key":{"scopes":1},"name":"scopes_1","unique":true,"partialFilterExpression":{"scopes":{"$exists":true}}}`,
	}, all(t, cursor, err))
	_, err = c.Indexes().DropOne(t.Context(), "nope")
	assert.Equal(t, 27, code(err))
	_, err = c.Indexes().DropOne(t.Context(), "_id_")
	assert.Equal(t, 72, code(err))
	_, err = c.Indexes().DropOne(t.Context(), "scopes_1")
	require.NoError(t, err)
	insert(t, c, `{"scopes": ["a"]}`, `{"scopes": ["a"]}`)
	_, err = c.Indexes().DropAll(t.Context())
	require.NoError(t, err)
	specs, err := c.Indexes().ListSpecifications(t.Context())
	require.NoError(t, err)
	assert.Len(t, specs, 1)
}

// Arrays in two fields of one index are refused.
// https://www.mongodb.com/docs/manual/core/indexes/index-types/index-multikey/
func TestParallelArraysAreRefused(t *testing.T) {
	c := jobs(t)
	require.NoError(t, index(t, c, `{"a": 1, "b": 1}`, options.Index()))
	_, err := c.InsertOne(t.Context(), parse(t, `{"a": [1], "b": [2]}`))
	assert.Equal(t, 171, code(err))
	require.NoError(t, index(t, c, `{"l.a": 1, "l.b": 1}`, options.Index().SetUnique(true)))
	insert(t, c, `{"l": [{"a": 1, "b": 1}, {"a": 2, "b": 2}]}`, `{"l": [{"a": 1, "b": 2}]}`) // one array
	_, err = c.InsertOne(t.Context(), parse(t, `{"l": {"a": 2, "b": 2}}`))
	assert.Equal(t, 11000, code(err))
}

// A TTL index lets documents expire by a date, or by the earliest date of an array.
// Values that are no dates never expire, and neither do documents that a partial index
// excludes. https://www.mongodb.com/docs/manual/core/index-ttl/
func TestTTL(t *testing.T) {
	server, client := start(t, mongotest.Options{InMemory: true})
	c := client.Database("amboy").Collection("jobs")
	done := parse(t, `{"done": true}`)
	require.NoError(t, index(t, c, `{"end": 1}`, options.Index().SetExpireAfterSeconds(60).SetPartialFilterExpression(done)))
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for id, doc := range map[string]bson.D{
		"old":   {{Key: "end", Value: now.Add(-time.Minute)}, {Key: "done", Value: true}},
		"open":  {{Key: "end", Value: now.Add(-time.Minute)}},
		"young": {{Key: "end", Value: now.Add(-59 * time.Second)}, {Key: "done", Value: true}},
		"text":  {{Key: "end", Value: "x"}, {Key: "done", Value: true}},
		"array": {{Key: "end", Value: bson.A{now, now.Add(-time.Hour)}}, {Key: "done", Value: true}},
	} {
		_, err := c.InsertOne(t.Context(), append(bson.D{{Key: "_id", Value: id}}, doc...))
		require.NoError(t, err)
	}
	assert.Equal(t, 2, server.Expire(now))
	assert.ElementsMatch(t, []any{"open", "young", "text"}, ids(t, c, `{}`))
}

// build builds a unique index on n, with a commit quorum unless that is empty.
func build(ctx context.Context, c *mongo.Collection, quorum string) error {
	opts := options.CreateIndexes()
	if quorum != "" {
		opts.SetCommitQuorumString(quorum)
	}
	_, err := c.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "n", Value: 1}}, Options: options.Index().SetUnique(true)}, opts)
	return err
}

func TestABuildWaitsForAMemberThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := mongotest.Open(t, mongotest.InMemory())
		d.Server().LoseMember()
		require.NoError(t, build(t.Context(), d.Collection("other"), "majority"))

		c := d.Collection("c")
		built := make(chan error, 2)
		go func() { built <- build(t.Context(), c, "") }()
		synctest.Wait()
		names, err := c.Indexes().ListSpecifications(t.Context())
		require.NoError(t, err)
		assert.Len(t, names, 2, "it is listed")
		_, err = c.InsertMany(t.Context(), []any{bson.M{"n": 1}, bson.M{"n": 1}})
		require.NoError(t, err, "it refuses nothing yet")
		_, err = c.DeleteOne(t.Context(), bson.M{"n": 1})
		require.NoError(t, err)
		go func() { built <- build(t.Context(), c, "majority") }() // joins the build
		time.Sleep(time.Hour)
		require.Empty(t, built)
		d.Server().RegainMember()
		require.NoError(t, <-built)
		require.NoError(t, <-built)
		_, err = c.InsertOne(t.Context(), bson.M{"n": 1})
		require.True(t, mongo.IsDuplicateKeyError(err))
	})
}

func TestAStandaloneRefusesACommitQuorum(t *testing.T) {
	d := mongotest.Open(t, mongotest.StandIn(), mongotest.Standalone())
	require.ErrorContains(t, build(t.Context(), d.Collection("c"), "majority"), "commitQuorum")
}
