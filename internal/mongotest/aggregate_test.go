package mongotest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
)

// stages parses a pipeline from extended JSON.
func stages(t *testing.T, text string) mongo.Pipeline {
	t.Helper()
	var doc struct {
		Stages mongo.Pipeline `bson:"stages"`
	}
	require.NoError(t, bson.UnmarshalExtJSON([]byte(`{"stages": `+text+`}`), false, &doc), text)
	return doc.Stages
}

// $unionWith appends the documents of another collection, or the results of a pipeline
// over it, duplicates included. A missing collection is empty.
// https://www.mongodb.com/docs/manual/reference/operator/aggregation/unionWith/
func TestUnionWith(t *testing.T) {
	c := jobs(t)
	insert(t, c, `{"_id": 1, "n": 1}`, `{"_id": 2, "n": 2}`)
	insert(t, c.Database().Collection("more"), `{"_id": 1, "n": 9}`, `{"_id": 3, "n": 5}`, `{"_id": 4, "n": 7}`)
	for pipeline, want := range map[string][]string{
		`[{"$unionWith": "more"}, {"$project": {"n": 0}}]`:                                                                               {`{"_id":1}`, `{"_id":2}`, `{"_id":1}`, `{"_id":3}`, `{"_id":4}`},
		`[{"$unionWith": {"coll": "more"}}, {"$count": "n"}]`:                                                                            {`{"n":5}`},
		`[{"$unionWith": {"coll": "more", "pipeline": [{"$match": {"n": {"$gt": 5}}}, {"$sort": {"n": -1}}, {"$limit": 1}]}}]`:           {`{"_id":1,"n":1}`, `{"_id":2,"n":2}`, `{"_id":1,"n":9}`},
		`[{"$match": {"n": 1}}, {"$unionWith": {"coll": "jobs", "pipeline": [{"$group": {"_id": "all", "n": {"$sum": "$n"}}}]}}]`:        {`{"_id":1,"n":1}`, `{"_id":"all","n":3}`},
		`[{"$limit": 1}, {"$unionWith": {"coll": "more", "pipeline": [{"$unionWith": "none"}, {"$skip": 2}]}}, {"$unionWith": "none"}]`:  {`{"_id":1,"n":1}`, `{"_id":4,"n":7}`},
		`[{"$match": {"n": 0}}, {"$unionWith": {"coll": "more", "pipeline": [{"$match": {"n": 0}}]}}]`:                                   {},
		`[{"$unionWith": "more"}, {"$sort": {"n": -1}}, {"$group": {"_id": null, "f": {"$first": "$n"}, "s": {"$sum": 1}}}]`:             {`{"_id":null,"f":9,"s":5}`},
		`[{"$unionWith": {"coll": "more", "pipeline": [{"$addFields": {"from": "more"}}]}}, {"$match": {"from": "more"}}, {"$limit":1}]`: {`{"_id":1,"n":9,"from":"more"}`},
	} {
		cursor, err := c.Aggregate(t.Context(), stages(t, pipeline))
		assert.Equal(t, want, all(t, cursor, err), pipeline)
	}
}

// A field that is set to a missing value, or to $$REMOVE, is removed. The documents on its path are made all the same.
// https://www.mongodb.com/docs/manual/reference/aggregation-variables/#mongodb-variable-variable.REMOVE
func TestSettingAMissingValueRemovesTheField(t *testing.T) {
	c := jobs(t)
	insert(t, c, `{"_id": 1, "a": 1, "b": {"x": 1}}`)
	for stage, want := range map[string]string{
		`{"$set": {"a": "$$REMOVE"}}`:                                      `{"_id":1,"b":{"x":1}}`,
		`{"$set": {"a": "$none"}}`:                                         `{"_id":1,"b":{"x":1}}`,
		`{"$set": {"b.x": "$$REMOVE"}}`:                                    `{"_id":1,"a":1,"b":{}}`,
		`{"$set": {"b.y": "$$REMOVE"}}`:                                    `{"_id":1,"a":1,"b":{"x":1}}`,
		`{"$set": {"c.d": "$$REMOVE"}}`:                                    `{"_id":1,"a":1,"b":{"x":1},"c":{}}`,
		`{"$set": {"b": "$$REMOVE", "a": "$b.x"}}`:                         `{"_id":1,"a":1}`,
		`{"$set": {"b.x": 5, "b.q": "$$REMOVE", "a": "$$REMOVE", "e": 1}}`: `{"_id":1,"b":{"x":5},"e":1}`,
	} {
		cursor, err := c.Aggregate(t.Context(), stages(t, `[`+stage+`]`))
		assert.Equal(t, []string{want}, all(t, cursor, err), stage)
	}
}

// A pipeline inside is checked before anything runs. $unionWith must not be used in a
// transaction, or in a pipeline that updates or watches documents.
// https://www.mongodb.com/docs/manual/reference/operator/aggregation/unionWith/
// https://www.mongodb.com/docs/manual/changeStreams/#modify-change-stream-output
func TestUnionWithIsRefused(t *testing.T) {
	c := jobs(t)
	for pipeline, want := range map[string]int{
		`[{"$unionWith": 5}]`:                                               9,
		`[{"$unionWith": {}}]`:                                              73,
		`[{"$unionWith": {"coll": "a", "foo": 1}}]`:                         40415,
		`[{"$unionWith": {"coll": "a", "pipeline": [{"$lookup": {}}]}}]`:    40324,
		`[{"$unionWith": {"coll": "a", "pipeline": [{"$limit": 0}]}}]`:      15958,
		`[{"$unionWith": {"coll": "a", "pipeline": [{"a": 1, "b": 1}]}}]`:   40323,
		`[{"$unionWith": {"coll": "a", "pipeline": [{"$unionWith": ""}]}}]`: 73,
	} {
		_, err := c.Aggregate(t.Context(), stages(t, pipeline))
		assert.Equal(t, want, code(err), pipeline)
	}
	_, err := c.Aggregate(begin(t, c), stages(t, `[{"$unionWith": "a"}]`))
	assert.Equal(t, 263, code(err))
	_, err = c.UpdateByID(t.Context(), 1, stages(t, `[{"$unionWith": "a"}]`))
	assert.Equal(t, 72, code(err))
	_, err = c.Watch(t.Context(), stages(t, `[{"$unionWith": "a"}]`))
	assert.Equal(t, 72, code(err))
}

// countDocuments counts after the skip and up to the limit.
// https://www.mongodb.com/docs/manual/reference/method/db.collection.countDocuments/
func TestCountsWithLimits(t *testing.T) {
	c := jobs(t)
	insert(t, c, `{"_id": 1}`, `{"_id": 2}`, `{"_id": 3}`, `{"_id": 4}`)
	for opts, want := range map[*options.CountOptions]int64{
		options.Count():                        4,
		options.Count().SetLimit(3):            3,
		options.Count().SetLimit(9):            4,
		options.Count().SetSkip(3):             1,
		options.Count().SetSkip(2).SetLimit(1): 1,
	} {
		n, err := c.CountDocuments(t.Context(), bson.D{}, opts)
		require.NoError(t, err)
		assert.Equal(t, want, n)
	}
}
