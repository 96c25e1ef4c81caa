package mongotest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
	"go.mongodb.org/mongo-driver/mongo/writeconcern"

	"github.com/mongodb/amboy/internal/mongotest"
)

func TestCosts(t *testing.T) {
	t.Parallel()
	server, client := start(t, mongotest.Options{InMemory: true})
	c := client.Database("db").Collection("c", options.Collection().SetWriteConcern(writeconcern.Majority()))
	_, err := c.Indexes().CreateMany(t.Context(), []mongo.IndexModel{
		{Keys: bson.D{{Key: "n", Value: 1}, {Key: "done", Value: 1}}, Options: options.Index().SetName("n")},
		{Keys: bson.D{{Key: "tags", Value: 1}}, Options: options.Index().SetName("tags").SetPartialFilterExpression(bson.M{"done": false})},
	})
	require.NoError(t, err)
	for _, test := range []struct {
		name                           string
		act                            func() error
		many, byMany, inserted, singly int64
		keys                           map[string]int64
		sessions                       int64
	}{
		{
			name: "insert", inserted: 2, keys: map[string]int64{"_id_": 2, "n": 2, "tags": 3}, sessions: 2,
			act: func() error {
				_, err := c.InsertMany(t.Context(), []any{
					bson.M{"_id": 1, "n": 1, "done": false, "tags": bson.A{"a", "b"}}, bson.M{"_id": 2, "n": 1, "done": false, "tags": bson.A{"a"}},
				})
				return err
			},
		},
		{
			name: "a change of one key of three", singly: 1, keys: map[string]int64{"tags": 2}, sessions: 1,
			act: func() error {
				_, err := c.UpdateOne(t.Context(), bson.M{"_id": 1}, bson.M{"$set": bson.M{"tags": bson.A{"a", "c"}}})
				return err
			},
		},
		{
			name: "updateMany", many: 1, byMany: 2, keys: map[string]int64{"n": 4, "tags": 3},
			act: func() error {
				_, err := c.UpdateMany(t.Context(), bson.M{"n": 1}, bson.M{"$set": bson.M{"done": true}})
				return err
			},
		},
		{
			name: "updateMany that changes nothing", many: 1, keys: map[string]int64{},
			act: func() error {
				_, err := c.UpdateMany(t.Context(), bson.M{"n": 1}, bson.M{"$set": bson.M{"done": true}})
				return err
			},
		},
		{
			name: "upsert", singly: 1, keys: map[string]int64{"_id_": 1, "n": 1}, sessions: 1,
			act: func() error {
				_, err := c.UpdateOne(t.Context(), bson.M{"_id": 3}, bson.M{"$set": bson.M{"n": 2}}, options.Update().SetUpsert(true))
				return err
			},
		},
		{
			name: "delete", singly: 1, keys: map[string]int64{"_id_": 1, "n": 1}, sessions: 1,
			act: func() error {
				_, err := c.DeleteOne(t.Context(), bson.M{"_id": 3})
				return err
			},
		},
	} {
		server.ResetCosts()
		require.NoError(t, test.act(), test.name)
		costs := server.Costs()
		w := costs.Writes["c"]
		assert.Equal(t, []int64{test.many, test.byMany, test.inserted, test.singly}, []int64{w.Many, w.ByMany, w.Inserted, w.Singly}, "%s: %s", test.name, costs)
		assert.Equal(t, test.keys, w.Keys, test.name)
		assert.Equal(t, test.sessions, costs.Outside("c"), test.name)
		assert.EqualValues(t, 1, costs.Sent(), test.name)
		if w.Documents() > 0 {
			assert.EqualValues(t, 1, costs.Journaled, test.name)
		}
	}

	server.ResetCosts()
	require.NoError(t, c.FindOne(t.Context(), bson.M{"n": 1}).Err())
	assert.Equal(t, mongotest.Examined{Keys: 1, Documents: 1}, server.Costs().Examined)
	assert.Zero(t, server.Costs().Statements())
}

func TestCostsOfConflicts(t *testing.T) {
	t.Parallel()
	server, client := start(t, mongotest.Options{InMemory: true})
	c := client.Database("db").Collection("c")
	_, err := c.InsertOne(t.Context(), bson.M{"_id": 1})
	require.NoError(t, err)
	session, err := client.StartSession()
	require.NoError(t, err)
	defer session.EndSession(t.Context())
	require.NoError(t, session.StartTransaction())
	inTx := mongo.NewSessionContext(t.Context(), session)
	_, err = c.UpdateOne(inTx, bson.M{"_id": 1}, bson.M{"$set": bson.M{"n": 1}})
	require.NoError(t, err)
	other, err := client.StartSession()
	require.NoError(t, err)
	defer other.EndSession(t.Context())
	require.NoError(t, other.StartTransaction())
	server.ResetCosts()
	_, err = c.UpdateOne(mongo.NewSessionContext(t.Context(), other), bson.M{"_id": 1}, bson.M{"$set": bson.M{"n": 2}})
	require.Error(t, err)
	assert.EqualValues(t, 1, server.Costs().Conflicts)
	require.NoError(t, session.CommitTransaction(t.Context()))
	assert.EqualValues(t, 1, server.Costs().Writes[mongotest.SessionsCollection].Singly)
}
