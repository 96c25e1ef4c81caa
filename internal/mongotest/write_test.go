package mongotest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
)

// The update operators, each at
// https://www.mongodb.com/docs/manual/reference/operator/update/<name>/. New
// fields come in the order of their names.
func TestUpdateOperators(t *testing.T) {
	for update, want := range map[string]string{
		`{"$set": {"c": 1, "b.y": 2, "a": 3}}`:              `{"_id":1,"a":3,"b":{"x":1,"y":2},"l":[1,2,3],"c":1}`,
		`{"$set": {"z": 1, "d": 2}}`:                        `{"_id":1,"a":1,"b":{"x":1},"l":[1,2,3],"d":2,"z":1}`,
		`{"$set": {"l.1": 9, "l.4": 5}}`:                    `{"_id":1,"a":1,"b":{"x":1},"l":[1,9,3,null,5]}`,
		`{"$unset": {"a": "", "b.x": "", "nope.x": ""}}`:    `{"_id":1,"b":{},"l":[1,2,3]}`,
		`{"$inc": {"a": 2, "n": 1}}`:                        `{"_id":1,"a":3,"b":{"x":1},"l":[1,2,3],"n":1}`,
		`{"$min": {"a": 0, "b.x": 5}}`:                      `{"_id":1,"a":0,"b":{"x":1},"l":[1,2,3]}`,
		`{"$max": {"a": 0, "b.x": 5}}`:                      `{"_id":1,"a":1,"b":{"x":5},"l":[1,2,3]}`,
		`{"$push": {"l": 4, "m": 1}}`:                       `{"_id":1,"a":1,"b":{"x":1},"l":[1,2,3,4],"m":[1]}`,
		`{"$push": {"l": {"$each": [4, 5], "$slice": -2}}}`: `{"_id":1,"a":1,"b":{"x":1},"l":[4,5]}`,
		`{"$push": {"l": {"$each": [4], "$position": 0}}}`:  `{"_id":1,"a":1,"b":{"x":1},"l":[4,1,2,3]}`,
		`{"$pull": {"l": {"$gte": 2}}}`:                     `{"_id":1,"a":1,"b":{"x":1},"l":[1]}`,
		`{"$pull": {"l": 2}}`:                               `{"_id":1,"a":1,"b":{"x":1},"l":[1,3]}`,
		`{"$addToSet": {"l": {"$each": [2, 4]}}}`:           `{"_id":1,"a":1,"b":{"x":1},"l":[1,2,3,4]}`,
		`{"$setOnInsert": {"a": 9}}`:                        `{"_id":1,"a":1,"b":{"x":1},"l":[1,2,3]}`,
		`{"$rename": {"a": "z"}}`:                           `{"_id":1,"b":{"x":1},"l":[1,2,3],"z":1}`,
	} {
		c := jobs(t)
		insert(t, c, `{"_id": 1, "a": 1, "b": {"x": 1}, "l": [1, 2, 3]}`)
		_, err := c.UpdateByID(t.Context(), 1, parse(t, update))
		require.NoError(t, err, update)
		cursor, err := c.Find(t.Context(), bson.D{})
		assert.Equal(t, []string{want}, all(t, cursor, err), update)
	}
}

// https://www.mongodb.com/docs/manual/reference/operator/update/currentDate/
func TestCurrentDate(t *testing.T) {
	c := jobs(t)
	insert(t, c, `{"_id": 1}`)
	_, err := c.UpdateByID(t.Context(), 1, parse(t, `{"$currentDate": {"d": true, "t": {"$type": "timestamp"}}}`))
	require.NoError(t, err)
	assert.Len(t, ids(t, c, `{"d": {"$type": "date"}, "t": {"$type": "timestamp"}}`), 1)
}

// Updates that a document does not allow change nothing.
// https://www.mongodb.com/docs/manual/reference/error-codes/
func TestRefusedUpdates(t *testing.T) {
	c := jobs(t)
	insert(t, c, `{"_id": 1, "s": "x"}`)
	for update, want := range map[string]int{
		`{"$inc": {"s": 1}}`:                       14,
		`{"$push": {"s": 1}}`:                      2,
		`{"$set": {"s.x": 1}}`:                     28,
		`{"$set": {"_id": 2}}`:                     66,
		`{"$set": {"a": 1}, "$inc": {"a": 1}}`:     40,
		`{"$set": {"a": 1, "a.b": 1}}`:             40,
		`{"$set": {"l.$.x": 1}}`:                   2,
		`{"$push": {"l": {"$each": [], "$x": 1}}}`: 2,
	} {
		_, err := c.UpdateByID(t.Context(), 1, parse(t, update))
		assert.Equal(t, want, code(err), update)
	}
	assert.Len(t, ids(t, c, `{"_id": 1, "s": "x"}`), 1)
}

// A document that an update leaves as it is is matched and not modified.
// https://www.mongodb.com/docs/manual/reference/command/update/#output
func TestMatchedAndModifiedCounts(t *testing.T) {
	c := jobs(t)
	insert(t, c, `{"_id": 1, "a": 1}`, `{"_id": 2, "a": 2}`, `{"_id": 3, "a": 1}`)
	result, err := c.UpdateMany(t.Context(), bson.D{}, parse(t, `{"$set": {"a": 1}}`))
	require.NoError(t, err)
	assert.EqualValues(t, 3, result.MatchedCount)
	assert.EqualValues(t, 1, result.ModifiedCount)
	result, err = c.ReplaceOne(t.Context(), parse(t, `{"a": 1}`), parse(t, `{"b": 1}`))
	require.NoError(t, err)
	assert.EqualValues(t, 1, result.ModifiedCount)
	assert.Len(t, ids(t, c, `{"_id": 1, "b": 1, "a": {"$exists": false}}`), 1)
	deleted, err := c.DeleteOne(t.Context(), parse(t, `{"a": 1}`))
	require.NoError(t, err)
	assert.EqualValues(t, 1, deleted.DeletedCount)
	deleted, err = c.DeleteMany(t.Context(), bson.D{})
	require.NoError(t, err)
	assert.EqualValues(t, 2, deleted.DeletedCount)
}

// An upsert inserts the filter's equalities and what the update adds.
// https://www.mongodb.com/docs/manual/reference/method/db.collection.update/#upsert-behavior
func TestUpsert(t *testing.T) {
	c := jobs(t)
	result, err := c.UpdateOne(t.Context(), parse(t, `{"_id": "x", "a.b": {"$eq": 1}, "c": {"$gt": 5}}`),
		parse(t, `{"$set": {"d": 1}, "$setOnInsert": {"e": 2}}`), options.Update().SetUpsert(true))
	require.NoError(t, err)
	assert.EqualValues(t, 1, result.UpsertedCount)
	assert.Equal(t, "x", result.UpsertedID)
	cursor, err := c.Find(t.Context(), bson.D{})
	assert.Equal(t, []string{`{"_id":"x","a":{"b":1},"d":1,"e":2}`}, all(t, cursor, err))
	result, err = c.ReplaceOne(t.Context(), parse(t, `{"q": 1}`), parse(t, `{"r": 1}`), options.Replace().SetUpsert(true))
	require.NoError(t, err)
	assert.IsType(t, primitive.ObjectID{}, result.UpsertedID)
}

// The filter of an upsert has no expressions.
// https://www.mongodb.com/docs/manual/reference/method/db.collection.update/
func TestUpsertRefusesExpressions(t *testing.T) {
	const notAllowed = 224
	c := jobs(t)
	insert(t, c, `{"_id": 1, "a": 1}`)
	for _, filter := range []string{
		`{"_id": 1, "$expr": {"$eq": ["$a", 1]}}`,
		`{"_id": 2, "$or": [{"b": 1}, {"$and": [{"$expr": {"$eq": ["$a", 1]}}]}]}`,
	} {
		set := parse(t, `{"$set": {"b": 1}}`)
		_, err := c.UpdateOne(t.Context(), parse(t, filter), set, options.Update().SetUpsert(true))
		assert.Equal(t, notAllowed, code(err), filter)
		err = c.FindOneAndUpdate(t.Context(), parse(t, filter), set, options.FindOneAndUpdate().SetUpsert(true)).Err()
		assert.Equal(t, notAllowed, code(err), filter)
		_, err = c.UpdateOne(t.Context(), parse(t, filter), set)
		assert.NoError(t, err, filter)
	}
}

// An update may be a pipeline.
// https://www.mongodb.com/docs/manual/tutorial/update-documents-with-aggregation-pipeline/
func TestPipelineUpdate(t *testing.T) {
	c := jobs(t)
	insert(t, c, `{"_id": 1, "a": 1, "b": 2}`)
	_, err := c.UpdateByID(t.Context(), 1, mongo.Pipeline{parse(t, `{"$set": {"a": {"$add": ["$a", "$b"]}}}`), parse(t, `{"$unset": "b"}`)})
	require.NoError(t, err)
	cursor, err := c.Find(t.Context(), bson.D{})
	assert.Equal(t, []string{`{"_id":1,"a":3}`}, all(t, cursor, err))
}

// An ordered bulk write ends at its first error, an unordered one continues.
// https://www.mongodb.com/docs/manual/core/bulk-write-operations/
func TestBulkWrites(t *testing.T) {
	models := []mongo.WriteModel{
		mongo.NewInsertOneModel().SetDocument(bson.D{{Key: "_id", Value: 1}}),
		mongo.NewInsertOneModel().SetDocument(bson.D{{Key: "_id", Value: 1}}),
		mongo.NewInsertOneModel().SetDocument(bson.D{{Key: "_id", Value: 2}}),
		mongo.NewUpdateOneModel().SetFilter(bson.D{{Key: "_id", Value: 2}}).SetUpdate(bson.D{{Key: "$set", Value: bson.D{{Key: "a", Value: 1}}}}),
		mongo.NewUpdateOneModel().SetFilter(bson.D{{Key: "_id", Value: 3}}).SetUpdate(bson.D{{Key: "$set", Value: bson.D{{Key: "a", Value: 1}}}}).SetUpsert(true),
		mongo.NewDeleteOneModel().SetFilter(bson.D{{Key: "_id", Value: 1}}),
	}
	for _, ordered := range []bool{true, false} {
		c := jobs(t)
		result, err := c.BulkWrite(t.Context(), models, options.BulkWrite().SetOrdered(ordered))
		var failed mongo.BulkWriteException
		require.ErrorAs(t, err, &failed)
		require.Len(t, failed.WriteErrors, 1)
		assert.Equal(t, 1, failed.WriteErrors[0].Index)
		assert.True(t, mongo.IsDuplicateKeyError(err))
		if ordered {
			assert.Equal(t, []any{int32(1)}, ids(t, c, `{}`))
			continue
		}
		assert.EqualValues(t, 2, result.InsertedCount)
		assert.EqualValues(t, 1, result.ModifiedCount)
		assert.EqualValues(t, 1, result.DeletedCount)
		assert.Equal(t, map[int64]any{4: int32(3)}, result.UpsertedIDs)
		assert.Equal(t, []any{int32(2), int32(3)}, ids(t, c, `{"a": 1}`))
	}
}

// https://www.mongodb.com/docs/manual/reference/command/findAndModify/
func TestFindAndModify(t *testing.T) {
	c := jobs(t)
	insert(t, c, `{"_id": 1, "p": 1}`, `{"_id": 2, "p": 9}`)
	byPriority := bson.D{{Key: "p", Value: -1}}
	var doc bson.D
	take := parse(t, `{"$set": {"taken": true}}`)
	free := parse(t, `{"taken": {"$exists": false}}`)
	require.NoError(t, c.FindOneAndUpdate(t.Context(), free, take, options.FindOneAndUpdate().SetSort(byPriority)).Decode(&doc))
	assert.JSONEq(t, `{"_id":2,"p":9}`, show(t, doc))
	after := options.FindOneAndUpdate().SetSort(byPriority).SetReturnDocument(options.After).SetProjection(bson.D{{Key: "p", Value: 0}})
	require.NoError(t, c.FindOneAndUpdate(t.Context(), free, take, after).Decode(&doc))
	assert.JSONEq(t, `{"_id":1,"taken":true}`, show(t, doc))
	require.ErrorIs(t, c.FindOneAndUpdate(t.Context(), free, take).Err(), mongo.ErrNoDocuments)
	require.NoError(t, c.FindOneAndDelete(t.Context(), bson.D{{Key: "_id", Value: 2}}).Err())
	assert.Equal(t, []any{int32(1)}, ids(t, c, `{}`))
	upsert := options.FindOneAndReplace().SetUpsert(true).SetReturnDocument(options.After)
	require.NoError(t, c.FindOneAndReplace(t.Context(), bson.D{{Key: "_id", Value: 7}}, bson.D{{Key: "p", Value: 3}}, upsert).Decode(&doc))
	assert.JSONEq(t, `{"_id":7,"p":3}`, show(t, doc))
}

// A document may have up to 16 MiB.
// https://www.mongodb.com/docs/manual/reference/limits/#mongodb-limit-BSON-Document-Size
func TestDocumentsHaveALimit(t *testing.T) {
	c := jobs(t)
	half := strings.Repeat("x", 9<<20)
	_, err := c.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}, {Key: "a", Value: half}})
	require.NoError(t, err)
	_, err = c.UpdateByID(t.Context(), 1, bson.D{{Key: "$set", Value: bson.D{{Key: "b", Value: half}}}})
	assert.Equal(t, 17419, code(err))
}

// https://www.mongodb.com/docs/manual/reference/command/listCollections/,
// create/, drop/ and dropDatabase/.
func TestCollections(t *testing.T) {
	c := jobs(t)
	db := c.Database()
	require.NoError(t, db.CreateCollection(t.Context(), "b"))
	assert.Equal(t, 48, code(db.CreateCollection(t.Context(), "b")))
	insert(t, c, `{"_id": 1}`)
	names, err := db.ListCollectionNames(t.Context(), bson.D{})
	require.NoError(t, err)
	assert.Equal(t, []string{"b", "jobs"}, names)
	require.NoError(t, c.Drop(t.Context()))
	require.NoError(t, c.Drop(t.Context()))
	assert.Empty(t, ids(t, c, `{}`))
	require.NoError(t, db.Drop(t.Context()))
	names, err = db.ListCollectionNames(t.Context(), bson.D{})
	require.NoError(t, err)
	assert.Empty(t, names)
}
