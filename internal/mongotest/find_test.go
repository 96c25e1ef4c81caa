package mongotest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
)

// Skip is applied before limit, and both after the sort.
// https://www.mongodb.com/docs/manual/reference/method/cursor.skip/
func TestSkipAndLimitAfterSort(t *testing.T) {
	c := jobs(t)
	insert(t, c, `{"_id": 1}`, `{"_id": 2}`, `{"_id": 3}`, `{"_id": 4}`)
	cursor, err := c.Find(t.Context(), bson.D{}, options.Find().SetSort(bson.D{{Key: "_id", Value: -1}}).SetSkip(1).SetLimit(2))
	assert.Equal(t, []string{`{"_id":3}`, `{"_id":2}`}, all(t, cursor, err))
}

// A projection includes or excludes; _id is included unless the projection excludes it.
// https://www.mongodb.com/docs/manual/reference/command/find/#projection
func TestProjections(t *testing.T) {
	c := jobs(t)
	insert(t, c, `{"_id": 1, "a": 1, "b": {"c": 2, "d": 3}, "l": [{"x": 1, "y": 2}, 5]}`)
	for projection, want := range map[string]string{
		`{"a": 1}`:                   `{"_id":1,"a":1}`,
		`{"a": 1, "_id": 0}`:         `{"a":1}`,
		`{"_id": 1}`:                 `{"_id":1}`,
		`{"b.c": 1, "l.x": 1}`:       `{"_id":1,"b":{"c":2},"l":[{"x":1}]}`,
		`{"b": 0, "l": 0}`:           `{"_id":1,"a":1}`,
		`{"b.c": 0, "l.y": 0}`:       `{"_id":1,"a":1,"b":{"d":3},"l":[{"x":1},5]}`,
		`{"_id": 0, "l": 0}`:         `{"a":1,"b":{"c":2,"d":3}}`,
		`{"n": {"$add": ["$a", 1]}}`: `{"_id":1,"n":2}`,

		`{"n": {"$floor": {"$multiply": ["$a", -1.5]}}}`: `{"_id":1,"n":-2.0}`,
		`{"n": {"$floor": "$a"}}`:                        `{"_id":1,"n":1}`,
		`{"n": {"$floor": "$none"}}`:                     `{"_id":1,"n":null}`,
	} {
		cursor, err := c.Find(t.Context(), bson.D{}, options.Find().SetProjection(parse(t, projection)))
		assert.Equal(t, []string{want}, all(t, cursor, err), projection)
	}
	_, err := c.Find(t.Context(), bson.D{}, options.Find().SetProjection(parse(t, `{"a": 1, "b": 0}`)))
	assert.Equal(t, 31254, code(err))
}

// A cursor returns the rest in batches, and is removed when it is killed.
// https://www.mongodb.com/docs/manual/reference/command/getMore/
func TestCursors(t *testing.T) {
	c := jobs(t)
	for i := range 250 {
		insert(t, c, fmt.Sprintf(`{"_id": %d}`, i))
	}
	for _, size := range []int32{1, 7, 249, 250, 251} {
		cursor, err := c.Find(t.Context(), bson.D{}, options.Find().SetBatchSize(size))
		assert.Len(t, all(t, cursor, err), 250)
	}
	cursor, err := c.Find(t.Context(), bson.D{}, options.Find().SetBatchSize(2))
	require.NoError(t, err)
	id := cursor.ID()
	require.NoError(t, cursor.Close(t.Context()))
	err = c.Database().RunCommand(t.Context(), bson.D{{Key: "getMore", Value: id}, {Key: "collection", Value: "jobs"}}).Err()
	assert.Equal(t, 43, code(err))
}

// A hint must name an index by its name or its keys.
// https://www.mongodb.com/docs/manual/reference/method/cursor.hint/
func TestHintsNameAnIndex(t *testing.T) {
	c := jobs(t)
	insert(t, c, `{"_id": 1}`)
	for _, hint := range []any{"_id_", bson.D{{Key: "_id", Value: 1}}} {
		cursor, err := c.Find(t.Context(), bson.D{}, options.Find().SetHint(hint))
		assert.Len(t, all(t, cursor, err), 1)
	}
	_, err := c.Find(t.Context(), bson.D{}, options.Find().SetHint("a_1"))
	assert.Equal(t, 2, code(err))
}

// https://www.mongodb.com/docs/manual/reference/command/count/ and distinct/, which treat
// elements of arrays as separate values.
func TestCountAndDistinct(t *testing.T) {
	c := jobs(t)
	insert(t, c, `{"_id": 1, "v": [3, 1]}`, `{"_id": 2, "v": 1.0}`, `{"_id": 3}`)
	n, err := c.EstimatedDocumentCount(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 3, n)
	n, err = c.CountDocuments(t.Context(), bson.D{{Key: "v", Value: 1}})
	require.NoError(t, err)
	assert.EqualValues(t, 2, n)
	n, err = c.CountDocuments(t.Context(), bson.D{{Key: "v", Value: 9}})
	require.NoError(t, err)
	assert.Zero(t, n)
	values, err := c.Distinct(t.Context(), "v", bson.D{})
	require.NoError(t, err)
	assert.Equal(t, []any{int32(1), int32(3)}, values)
}

// The stages of a pipeline, each at
// https://www.mongodb.com/docs/manual/reference/operator/aggregation/<name>/.
func TestPipelines(t *testing.T) {
	c := jobs(t)
	insert(t, c, `{"_id": 1, "g": "a", "n": 1}`, `{"_id": 2, "g": "b", "n": 2}`, `{"_id": 3, "g": "a", "n": 4, "l": [1, 2]}`)
	for pipeline, want := range map[string][]string{
		`[{"$match": {"g": "a"}}, {"$sort": {"n": -1}}, {"$limit": 1}, {"$project": {"n": 1}}]`:                                                      {`{"_id":3,"n":4}`},
		`[{"$sort": {"_id": 1}}, {"$skip": 2}, {"$unset": "l"}]`:                                                                                     {`{"_id":3,"g":"a","n":4}`},
		`[{"$group": {"_id": "$g", "s": {"$sum": "$n"}, "c": {"$sum": 1}, "m": {"$max": "$n"}}}, {"$sort": {"_id": 1}}]`:                             {`{"_id":"a","s":5,"c":2,"m":4}`, `{"_id":"b","s":2,"c":1,"m":2}`},
		`[{"$group": {"_id": null, "avg": {"$avg": "$n"}, "f": {"$first": "$n"}, "l": {"$last": "$n"}, "p": {"$push": "$g"}, "k": {"$count": {}}}}]`: {`{"_id":null,"avg":2.3333333333333335,"f":1,"l":4,"p":["a","b","a"],"k":3}`},
		`[{"$count": "n"}]`:                           {`{"n":3}`},
		`[{"$match": {"n": 9}}, {"$count": "n"}]`:     {},
		`[{"$unwind": "$l"}, {"$project": {"l": 1}}]`: {`{"_id":3,"l":1}`, `{"_id":3,"l":2}`},
		`[{"$match": {"_id": 1}}, {"$addFields": {"big": {"$cond": [{"$gt": ["$n", 1]}, "yes", "no"]}, "x.y": "$g"}}]`: {`{"_id":1,"g":"a","n":1,"big":"no","x":{"y":"a"}}`},
		`[{"$match": {"_id": 1}}, {"$replaceRoot": {"newRoot": {"v": {"$ifNull": ["$nope", "$n"]}}}}]`:                 {`{"v":1}`},
	} {
		var stages struct {
			P mongo.Pipeline `bson:"p"`
		}
		require.NoError(t, bson.UnmarshalExtJSON([]byte(`{"p": `+pipeline+`}`), false, &stages))
		cursor, err := c.Aggregate(t.Context(), stages.P)
		assert.Equal(t, want, all(t, cursor, err), pipeline)
	}
}
