package mongotest_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
)

// Writes to one document are atomic, and transactions that conflict are run
// again until none is lost.
// https://www.mongodb.com/docs/manual/core/write-operations-atomicity/
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

// Of many that take documents by a condition, one gets each.
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
