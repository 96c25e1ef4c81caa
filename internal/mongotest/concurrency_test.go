package mongotest_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy/internal/mongotest"
)

// Writes to one document are atomic, and conflicting transactions are repeated until no
// update is lost. https://www.mongodb.com/docs/manual/core/write-operations-atomicity/
func TestNoWriteIsLost(t *testing.T) {
	const workers, rounds = 6, 10
	c := jobs(t)
	insert(t, c, `{"_id": 1, "v": 0}`, `{"_id": 2, "v": 0}`)
	increment := parse(t, `{"$inc": {"v": 1}}`)
	var wait sync.WaitGroup
	for range workers {
		wait.Go(func() {
			for range rounds {
				_, err := c.UpdateByID(t.Context(), 2, increment)
				assert.NoError(t, err)
				assert.NoError(t, c.Database().Client().UseSession(t.Context(), func(s mongo.SessionContext) error {
					_, err := s.WithTransaction(s, func(tx mongo.SessionContext) (any, error) {
						var doc struct {
							V int `bson:"v"`
						}
						if err := c.FindOne(tx, bson.D{{Key: "_id", Value: 1}}).Decode(&doc); err != nil {
							return nil, err
						}
						return c.UpdateByID(tx, 1, bson.D{{Key: "$set", Value: bson.D{{Key: "v", Value: doc.V + 1}}}})
					})
					return err
				}))
			}
		})
	}
	wait.Wait()
	assert.EqualValues(t, 2, count(t, t.Context(), c, `{"v": 60}`))
}

// If many clients take documents by a condition, each document is taken once.
func TestEachDocumentIsTakenOnce(t *testing.T) {
	const workers, documents = 4, 100
	c := jobs(t)
	docs := make([]any, documents)
	for i := range docs {
		docs[i] = bson.D{{Key: "_id", Value: i}}
	}
	_, err := c.InsertMany(t.Context(), docs)
	require.NoError(t, err)
	free, take := parse(t, `{"taken": null}`), parse(t, `{"$set": {"taken": true}}`)
	var mu sync.Mutex
	taken := map[int32]int{}
	var wait sync.WaitGroup
	for range workers {
		wait.Go(func() {
			for {
				var doc struct {
					ID int32 `bson:"_id"`
				}
				err := c.FindOneAndUpdate(t.Context(), free, take).Decode(&doc)
				if err != nil {
					assert.ErrorIs(t, err, mongo.ErrNoDocuments)
					return
				}
				mu.Lock()
				taken[doc.ID]++
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	assert.Len(t, taken, documents)
	for id, times := range taken {
		assert.Equal(t, 1, times, id)
	}
}

// Hundreds of goroutines of several clients claim jobs in the order of an index and take
// scopes by a unique index. No job is claimed twice, no scope has two holders, and a
// stream reports every claim.
func TestManyClaimAtOnce(t *testing.T) {
	const clients, workers, documents, scopeNames = 4, 60, 600, 5
	server, first := start(t, mongotest.Options{})
	c := first.Database("amboy").Collection("jobs")
	scopes(t, c)
	require.NoError(t, index(t, c, `{"taken": 1, "priority": -1}`, options.Index()))
	docs := make([]any, documents)
	for i := range docs {
		docs[i] = bson.D{{Key: "_id", Value: i}, {Key: "taken", Value: false}, {Key: "priority", Value: i % 7}}
	}
	_, err := c.InsertMany(t.Context(), docs)
	require.NoError(t, err)
	stream := watch(t, c, options.ChangeStream(), `{"$match": {"updateDescription.updatedFields.taken": true}}`)
	var holders [scopeNames]atomic.Int32
	claimed := make([]atomic.Int32, documents)
	work := func(c *mongo.Collection, worker int) {
		for {
			var doc struct {
				ID int `bson:"_id"`
			}
			take := bson.D{{Key: "$set", Value: bson.D{{Key: "taken", Value: true}}}}
			err := c.FindOneAndUpdate(t.Context(), bson.D{{Key: "taken", Value: false}}, take, options.FindOneAndUpdate().SetSort(bson.D{{Key: "priority", Value: -1}})).Decode(&doc)
			if err != nil {
				assert.ErrorIs(t, err, mongo.ErrNoDocuments)
				return
			}
			claimed[doc.ID].Add(1)
			scope := (worker + doc.ID) % scopeNames
			_, err = c.UpdateByID(t.Context(), doc.ID, bson.D{{Key: "$set", Value: bson.D{{Key: "scopes", Value: bson.A{scope}}}}})
			if mongo.IsDuplicateKeyError(err) {
				continue
			}
			assert.EqualValues(t, 1, holders[scope].Add(1))
			holders[scope].Add(-1)
			_, err = c.UpdateByID(t.Context(), doc.ID, bson.D{{Key: "$unset", Value: bson.D{{Key: "scopes", Value: ""}}}})
			assert.NoError(t, err)
		}
	}
	var wait sync.WaitGroup
	for range clients {
		own := connect(t, server.ClientOptions()).Database("amboy").Collection("jobs")
		for worker := range workers {
			wait.Go(func() { work(own, worker) })
		}
	}
	wait.Wait()
	for id := range claimed {
		assert.EqualValues(t, 1, claimed[id].Load(), id)
		require.True(t, stream.Next(t.Context()), stream.Err())
	}
	assert.Empty(t, ids(t, c, `{"scopes": {"$exists": true}}`))
}
