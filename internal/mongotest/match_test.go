package mongotest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo/options"
)

// The rules of the query operators, each at
// https://www.mongodb.com/docs/manual/reference/operator/query/<name>/ and
// those of arrays and of null at https://www.mongodb.com/docs/manual/tutorial/query-arrays/
// and https://www.mongodb.com/docs/manual/tutorial/query-for-null-fields/.
func TestFilters(t *testing.T) {
	c := jobs(t)
	insert(t, c,
		`{"_id": 1, "n": 5, "s": "abc", "tags": ["x", "y"], "sub": {"k": 1}}`,
		`{"_id": 2, "n": 7.5, "s": "Abd", "tags": [], "sub": {"k": null}}`,
		`{"_id": 3, "n": null, "items": [{"a": 1, "b": 2}, {"a": 3, "b": 4}]}`,
		`{"_id": 4, "n": [1, 10], "s": "zzz", "items": [1, 2]}`,
	)
	for filter, want := range map[string][]any{
		`{}`:                             {1, 2, 3, 4},
		`{"_id": 2}`:                     {2},
		`{"_id": {"$in": [1, 3]}}`:       {1, 3},
		`{"n": 5.0}`:                     {1},
		`{"n": null}`:                    {3},
		`{"tags": null}`:                 {3, 4},
		`{"sub.k": null}`:                {2, 3, 4},
		`{"items.a": null}`:              {1, 2},
		`{"tags": "x"}`:                  {1},
		`{"tags": ["x", "y"]}`:           {1},
		`{"tags": {"$size": 0}}`:         {2},
		`{"tags": {"$all": ["y", "x"]}}`: {1},
		`{"tags.1": "y"}`:                {1},
		`{"n": {"$gt": 5}}`:              {2, 4},
		`{"n": {"$gte": 5}}`:             {1, 2, 4},
		`{"n": {"$lt": 5}}`:              {4},
		`{"n": {"$lte": null}}`:          {3},
		`{"n": {"$gt": 4, "$lt": 6}}`:    {1, 4}, // different elements may satisfy each
		`{"n": {"$elemMatch": {"$gt": 4, "$lt": 6}}}`: {},
		`{"s": {"$gt": 1}}`:                           {}, // only values of one type compare
		`{"n": {"$ne": 5}}`:                           {2, 3, 4},
		`{"n": {"$nin": [5, null]}}`:                  {2, 4},
		`{"n": {"$in": [null, 10]}}`:                  {3, 4},
		`{"tags": {"$exists": true}}`:                 {1, 2},
		`{"items.a": {"$exists": false}}`:             {1, 2, 4},
		`{"n": {"$not": {"$gt": 5}}}`:                 {1, 3},
		`{"items": {"$elemMatch": {"a": 1, "b": 2}}}`: {3},
		`{"items": {"$elemMatch": {"a": 1, "b": 4}}}`: {},
		`{"items.a": 1, "items.b": 4}`:                {3},
		`{"$or": [{"n": 5}, {"_id": 3}]}`:             {1, 3},
		`{"$and": [{"n": 5}, {"_id": 3}]}`:            {},
		`{"$nor": [{"n": 5}, {"_id": 3}]}`:            {2, 4},
		`{"s": {"$regex": "^ab"}}`:                    {1},
		`{"s": {"$regex": "^ab", "$options": "i"}}`:   {1, 2},
		`{"n": {"$type": "number"}}`:                  {1, 2, 4},
		`{"n": {"$type": "array"}}`:                   {4},
		`{"n": {"$type": 10}}`:                        {3},
		`{"sub": {"k": 1}}`:                           {1},
		`{"$expr": {"$gt": ["$n", "$_id"]}}`:          {1, 2, 4},
	} {
		expected := []any{}
		for _, id := range want {
			expected = append(expected, int32(id.(int)))
		}
		assert.Equal(t, expected, ids(t, c, filter), filter)
	}
}

// Values of different types are sorted in the order of types; an array is sorted by its
// least element, or by its greatest in descending order.
// https://www.mongodb.com/docs/manual/reference/bson-type-comparison-order/
func TestSortOrder(t *testing.T) {
	c := jobs(t)
	insert(t, c,
		`{"_id": "max", "v": {"$maxKey": 1}}`, `{"_id": "date", "v": {"$date": "2026-01-01T00:00:00Z"}}`,
		`{"_id": "bool", "v": false}`, `{"_id": "oid", "v": {"$oid": "000000000000000000000000"}}`,
		`{"_id": "doc", "v": {"a": 1}}`, `{"_id": "text", "v": "a"}`, `{"_id": "array", "v": [-3, "z"]}`,
		`{"_id": "two", "v": 2.5}`, `{"_id": "long", "v": {"$numberLong": "2"}}`, `{"_id": "missing"}`,
		`{"_id": "empty", "v": []}`, `{"_id": "min", "v": {"$minKey": 1}}`,
	)
	order := func(direction int) []string {
		cursor, err := c.Find(t.Context(), bson.D{}, options.Find().SetSort(bson.D{{Key: "v", Value: direction}}))
		require.NoError(t, err)
		var docs []struct {
			ID string `bson:"_id"`
		}
		require.NoError(t, cursor.All(t.Context(), &docs))
		var names []string
		for _, doc := range docs {
			names = append(names, doc.ID)
		}
		return names
	}
	assert.Equal(t, []string{"min", "empty", "missing", "array", "long", "two", "text", "doc", "oid", "bool", "date", "max"}, order(1))
	assert.Equal(t, []string{"max", "date", "bool", "oid", "doc", "array", "text", "two", "long", "missing", "empty", "min"}, order(-1))
}
