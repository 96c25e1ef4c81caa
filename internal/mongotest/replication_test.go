package mongotest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
	"go.mongodb.org/mongo-driver/mongo/readconcern"
	"go.mongodb.org/mongo-driver/mongo/writeconcern"

	"github.com/mongodb/amboy/internal/mongotest"
)

// replicated returns a collection of a replica set, for majority reads and writes and for
// local ones, with a document.
func replicated(t *testing.T) (s *mongotest.Server, majority, local *mongo.Collection) {
	t.Helper()
	d := mongotest.Open(t, mongotest.StandIn())
	db := d.Client().Database(d.Database())
	majority = db.Collection("c", options.Collection().SetWriteConcern(writeconcern.Majority()).SetReadConcern(readconcern.Majority()))
	local = db.Collection("c", options.Collection().SetWriteConcern(writeconcern.W1()))
	_, err := majority.InsertOne(t.Context(), bson.M{"_id": 1, "n": 0})
	require.NoError(t, err)
	return d.Server(), majority, local
}

func numberOf(t *testing.T, c *mongo.Collection) int32 {
	t.Helper()
	var doc struct{ N int32 }
	require.NoError(t, c.FindOne(t.Context(), bson.M{"_id": 1}).Decode(&doc))
	return doc.N
}

func TestFailOverRollsBackWhatTheMajorityDoesNotHave(t *testing.T) {
	s, majority, local := replicated(t)
	s.HoldReplication()
	for range 3 {
		_, err := local.UpdateOne(t.Context(), bson.M{"_id": 1}, bson.M{"$inc": bson.M{"n": 1}})
		require.NoError(t, err)
	}
	_, err := local.InsertOne(t.Context(), bson.M{"_id": 2})
	require.NoError(t, err)
	assert.EqualValues(t, 3, numberOf(t, local))
	assert.EqualValues(t, 0, numberOf(t, majority))

	s.FailOver()
	assert.EqualValues(t, 0, numberOf(t, local))
	n, err := local.CountDocuments(t.Context(), bson.M{})
	require.NoError(t, err)
	assert.EqualValues(t, 1, n)
	_, err = majority.InsertOne(t.Context(), bson.M{"_id": 2}) // its key is free
	require.NoError(t, err)
	_, err = majority.UpdateOne(t.Context(), bson.M{"_id": 1}, bson.M{"$inc": bson.M{"n": 1}})
	require.NoError(t, err)
	assert.EqualValues(t, 1, numberOf(t, majority))
}

func TestWritesWaitForTheMajority(t *testing.T) {
	s, majority, _ := replicated(t)
	s.HoldReplication()
	update := func(limit bson.E) error {
		return majority.Database().RunCommand(t.Context(), bson.D{
			{Key: "update", Value: "c"},
			{Key: "updates", Value: bson.A{bson.M{"q": bson.M{"_id": 1}, "u": bson.M{"$inc": bson.M{"n": 1}}}}},
			{Key: "writeConcern", Value: bson.M{"w": "majority"}},
			limit,
		}).Err()
	}
	var failed mongo.WriteException
	require.ErrorAs(t, update(bson.E{Key: "maxTimeMS", Value: 20}), &failed)
	require.NotNil(t, failed.WriteConcernError)
	assert.Equal(t, 50, failed.WriteConcernError.Code, "MaxTimeMSExpired")

	done := make(chan error)
	go func() { done <- update(bson.E{Key: "comment", Value: ""}) }()
	select {
	case err := <-done:
		t.Fatal("the write did not wait:", err)
	case <-time.After(20 * time.Millisecond):
	}
	s.Replicate()
	require.NoError(t, <-done)
	assert.EqualValues(t, 2, numberOf(t, majority))

	s.HoldReplication()
	go func() { done <- update(bson.E{Key: "comment", Value: ""}) }()
	for numberOf(t, majority.Database().Collection("c", options.Collection().SetReadConcern(readconcern.Local()))) < 3 {
		time.Sleep(time.Millisecond)
	}
	s.FailOver()
	require.ErrorAs(t, <-done, &failed)
	require.NotNil(t, failed.WriteConcernError)
	assert.Equal(t, 189, failed.WriteConcernError.Code, "PrimarySteppedDown")
	assert.EqualValues(t, 2, numberOf(t, majority))
}

func TestChangeStreamsDoNotShowWhatTheMajorityDoesNotHave(t *testing.T) {
	s, majority, local := replicated(t)
	stream, err := majority.Watch(t.Context(), mongo.Pipeline{}, options.ChangeStream().SetMaxAwaitTime(time.Millisecond))
	require.NoError(t, err)
	defer func() { assert.NoError(t, stream.Close(t.Context())) }()
	insert := func(id int) {
		_, err := local.InsertOne(t.Context(), bson.M{"_id": id})
		require.NoError(t, err)
	}
	s.HoldReplication()
	insert(2)
	assert.False(t, stream.TryNext(t.Context()))
	s.FailOver()
	insert(3)
	for !stream.TryNext(t.Context()) {
		require.NoError(t, stream.Err())
	}
	assert.EqualValues(t, 3, stream.Current.Lookup("documentKey", "_id").Int32())
}

func TestALateCommandIsRunAfterItsClientHasGone(t *testing.T) {
	s, majority, _ := replicated(t)
	s.Intercept(func(c mongotest.Intercepted) mongotest.Fate {
		switch c.Name {
		case "update":
			return mongotest.Late
		case "delete":
			return mongotest.Unanswered
		default:
			return mongotest.Served
		}
	})
	update := func() error {
		return majority.Database().RunCommand(t.Context(), bson.D{
			{Key: "update", Value: "c"}, {Key: "updates", Value: bson.A{bson.M{"q": bson.M{"_id": 1}, "u": bson.M{"$inc": bson.M{"n": 1}}}}},
		}).Err()
	}
	assert.True(t, mongo.IsNetworkError(update()))
	assert.EqualValues(t, 0, numberOf(t, majority))
	s.RunLate()
	assert.EqualValues(t, 1, numberOf(t, majority))
	err := majority.Database().RunCommand(t.Context(), bson.D{
		{Key: "delete", Value: "c"}, {Key: "deletes", Value: bson.A{bson.M{"q": bson.M{"_id": 1}, "limit": 1}}},
	}).Err()
	assert.True(t, mongo.IsNetworkError(err))
	n, err := majority.CountDocuments(t.Context(), bson.M{})
	require.NoError(t, err)
	assert.Zero(t, n)
}

func TestKilledSessionsLoseTheirTransactions(t *testing.T) {
	_, majority, local := replicated(t)
	session, err := majority.Database().Client().StartSession()
	require.NoError(t, err)
	defer session.EndSession(t.Context())
	require.NoError(t, session.StartTransaction())
	_, err = majority.UpdateOne(mongo.NewSessionContext(t.Context(), session), bson.M{"_id": 1}, bson.M{"$inc": bson.M{"n": 1}})
	require.NoError(t, err)
	require.NoError(t, local.Database().RunCommand(t.Context(), bson.D{{Key: "killSessions", Value: bson.A{session.ID()}}}).Err())
	_, err = local.UpdateOne(t.Context(), bson.M{"_id": 1}, bson.M{"$inc": bson.M{"n": 10}})
	require.NoError(t, err)
	var failed mongo.CommandError
	require.ErrorAs(t, session.CommitTransaction(t.Context()), &failed)
	assert.EqualValues(t, 251, failed.Code, "NoSuchTransaction")
	assert.EqualValues(t, 10, numberOf(t, majority))
}
