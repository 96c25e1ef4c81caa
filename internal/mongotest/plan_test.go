package mongotest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy/internal/mongotest"
)

// examined returns what one action examines.
func examined(server *mongotest.Server, act func()) mongotest.Examined {
	was := server.Examined()
	act()
	now := server.Examined()
	return mongotest.Examined{Keys: now.Keys - was.Keys, Documents: now.Documents - was.Documents}
}

// numbered inserts 100 documents: each of ten groups has the numbers 0 to 9, and odd
// numbers have a field odd.
func numbered(t *testing.T, c *mongo.Collection) {
	t.Helper()
	var docs []any
	for i := range 100 {
		doc := bson.D{{Key: "_id", Value: i}, {Key: "g", Value: i / 10}, {Key: "n", Value: i % 10}, {Key: "done", Value: i%2 == 0}}
		if i%2 == 1 {
			doc = append(doc, bson.E{Key: "odd", Value: i})
		}
		docs = append(docs, doc)
	}
	_, err := c.InsertMany(t.Context(), docs)
	require.NoError(t, err)
}

// An index limits a query by values of its first fields and a range of the next one,
// yields its order in both directions, and ends it at the limit.
// https://www.mongodb.com/docs/manual/core/indexes/index-types/index-compound/
// https://www.mongodb.com/docs/manual/tutorial/sort-results-with-indexes/
func TestIndexesLimitQueries(t *testing.T) {
	server, client := start(t, mongotest.Options{InMemory: true})
	c := client.Database("amboy").Collection("jobs")
	numbered(t, c)
	copied := client.Database("amboy").Collection("unindexed")
	numbered(t, copied)
	require.NoError(t, index(t, c, `{"g": 1, "n": -1}`, options.Index()))
	for _, test := range []struct {
		filter, sort string
		limit        int64
		want         []any
		keys         int64
	}{
		{filter: `{"_id": 5}`, want: []any{5}, keys: 1},
		{filter: `{"_id": {"$in": [7, 5, 7, 200]}}`, want: []any{5, 7}, keys: 2},
		{filter: `{"_id": {"$gte": 3, "$lt": 5}}`, want: []any{3, 4}, keys: 2},
		{filter: `{"_id": {"$gt": 97}}`, want: []any{98, 99}, keys: 2},
		{filter: `{"_id": 5, "n": 4}`, want: []any{}, keys: 1},
		{filter: `{"g": 3, "n": {"$gt": 7}}`, want: []any{39, 38}, keys: 2},
		{filter: `{"g": 3, "n": {"$lte": 1}}`, want: []any{31, 30}, keys: 2},
		{filter: `{"$and": [{"g": 3}, {"n": {"$in": [2, 1]}}]}`, want: []any{32, 31}, keys: 2},
		{filter: `{"g": 3, "n": {"$nin": [9, 8, 4, 4, "x"]}}`, limit: 1, want: []any{37}, keys: 2},
		{filter: `{"g": 3, "n": {"$nin": [9, 8, 7, 5, 4, 3, 2, 1]}}`, want: []any{36, 30}, keys: 2},
		{filter: `{"g": 3, "n": "3"}`, want: []any{}, keys: 0},
		{filter: `{"g": {"$in": []}}`, want: []any{}, keys: 0},
		{filter: `{"g": 3}`, sort: `{"n": 1}`, limit: 2, want: []any{30, 31}, keys: 2},
		{filter: `{"g": 3}`, sort: `{"n": -1}`, limit: 2, want: []any{39, 38}, keys: 2},
		{filter: `{"g": 3, "done": true}`, sort: `{"n": -1}`, limit: 2, want: []any{38, 36}, keys: 4},
		{filter: `{"g": {"$in": [3, 5]}}`, sort: `{"n": 1}`, limit: 3, want: []any{30, 50, 31}, keys: 6},
		{filter: `{"g": {"$in": [5, 3]}}`, sort: `{"g": -1, "n": 1}`, limit: 1, want: []any{50}, keys: 2},
		{filter: `{}`, sort: `{"g": -1, "n": 1}`, limit: 2, want: []any{90, 91}, keys: 2},
		{filter: `{"g": {"$gt": 7}}`, sort: `{"g": 1, "n": -1}`, limit: 1, want: []any{89}, keys: 1},
	} {
		opts := options.Find().SetLimit(test.limit)
		if test.sort != "" {
			opts.SetSort(parse(t, test.sort))
		}
		var found []string
		cost := examined(server, func() {
			cursor, err := c.Find(t.Context(), parse(t, test.filter), opts.SetProjection(bson.D{{Key: "_id", Value: 1}}))
			found = all(t, cursor, err)
		})
		want := []string{}
		for _, id := range test.want {
			want = append(want, fmt.Sprintf(`{"_id":%d}`, id))
		}
		assert.Equal(t, want, found, test)
		assert.Equal(t, test.keys, cost.Keys, test)
	}
	for filter, keys := range map[string]int64{
		`{"$or": [{"_id": 5}, {"g": 3, "n": 5}]}`:                   2,
		`{"$or": [{"_id": 35}, {"g": 3, "n": 5}]}`:                  2, // the same document
		`{"g": 3, "$or": [{"n": 5}, {"n": {"$gt": 7}}]}`:            3,
		`{"n": 5, "$or": [{"g": 3}, {"g": {"$in": [1, 2]}}]}`:       3,
		`{"done": true, "$or": [{"_id": 5}, {"g": 3}, {"_id": 7}]}`: 12,
		`{"$or": [{"_id": 5}, {"done": true}]}`:                     0, // one alternative has no index
	} {
		var found []any
		cost := examined(server, func() { found = ids(t, c, filter) })
		assert.Equal(t, keys, cost.Keys, filter)
		assert.ElementsMatch(t, ids(t, copied, filter), found, filter)
	}
	whole := examined(server, func() { ids(t, c, `{"done": true}`) })
	assert.Equal(t, mongotest.Examined{Documents: 100}, whole, "no index has the field")
}

// Updates, deletes, counts and the first stages of pipelines use indexes too.
// https://www.mongodb.com/docs/manual/core/aggregation-pipeline-optimization/
func TestEveryCommandUsesIndexes(t *testing.T) {
	server, client := start(t, mongotest.Options{InMemory: true})
	c := client.Database("amboy").Collection("jobs")
	numbered(t, c)
	require.NoError(t, index(t, c, `{"g": 1, "n": 1}`, options.Index()))
	group := parse(t, `{"g": 4}`)
	for name, act := range map[string]func() error{
		"Update":   func() error { _, err := c.UpdateMany(t.Context(), group, parse(t, `{"$set": {"x": 1}}`)); return err },
		"Count":    func() error { _, err := c.CountDocuments(t.Context(), group); return err },
		"Distinct": func() error { _, err := c.Distinct(t.Context(), "n", group); return err },
		"Aggregate": func() error {
			_, err := c.Aggregate(t.Context(), stages(t, `[{"$match": {"g": {"$gt": 3}}}, {"$match": {"g": {"$lt": 7}}}, {"$sort": {"g": 1, "n": 1}}, {"$limit": 10}, {"$count": "n"}]`))
			return err
		},
		"Union": func() error {
			_, err := c.Aggregate(t.Context(), stages(t, `[{"$match": {"_id": -1}}, {"$unionWith": {"coll": "jobs", "pipeline": [{"$match": {"g": 4}}]}}]`))
			return err
		},
	} {
		cost := examined(server, func() { require.NoError(t, act(), name) })
		assert.Equal(t, mongotest.Examined{Keys: 10, Documents: 10}, cost, name)
	}
	cost := examined(server, func() {
		require.NoError(t, c.FindOneAndUpdate(t.Context(), group, parse(t, `{"$set": {"x": 2}}`), options.FindOneAndUpdate().SetSort(bson.D{{Key: "n", Value: -1}})).Err())
	})
	assert.Equal(t, mongotest.Examined{Keys: 1, Documents: 1}, cost)
	cost = examined(server, func() {
		_, err := c.DeleteMany(t.Context(), group)
		require.NoError(t, err)
	})
	assert.Equal(t, mongotest.Examined{Keys: 10, Documents: 10}, cost)
	cost = examined(server, func() { assert.Empty(t, ids(t, c, `{"g": 4}`)) })
	assert.Zero(t, cost, "the keys of deleted documents are gone")
}

// An $or whose alternatives have few keys used to walk through the whole index of the
// order.
// https://www.mongodb.com/docs/manual/core/query-plans/
func TestAnOrOfFewKeysWithAnOrder(t *testing.T) {
	server, client := start(t, mongotest.Options{InMemory: true})
	c := client.Database("amboy").Collection("jobs")
	var many []any
	for i := range 1000 {
		many = append(many, bson.D{{Key: "_id", Value: i}, {Key: "g", Value: 1}, {Key: "name", Value: i}, {Key: "order", Value: -i}, {Key: "even", Value: i%2 == 0}})
	}
	_, err := c.InsertMany(t.Context(), many)
	require.NoError(t, err)
	for _, keys := range []string{`{"g": 1, "order": 1}`, `{"g": 1, "name": 1}`, `{"g": 1, "even": 1}`} {
		require.NoError(t, index(t, c, keys, options.Index()))
	}
	inOrder := options.Find().SetSort(parse(t, `{"order": 1}`)).SetLimit(5)
	find := func(filter string) (found []int) {
		cursor, err := c.Find(t.Context(), parse(t, filter), inOrder)
		require.NoError(t, err)
		var docs []struct {
			ID int `bson:"_id"`
		}
		require.NoError(t, cursor.All(t.Context(), &docs))
		for _, doc := range docs {
			found = append(found, doc.ID)
		}
		return found
	}
	few := examined(server, func() {
		assert.Equal(t, []int{7, 3}, find(`{"$and": [{"g": 1}, {"$or": [{"name": {"$in": [3]}}, {"_id": 7}]}]}`))
	})
	assert.Equal(t, mongotest.Examined{Keys: 2, Documents: 2}, few)
	inOrderOfAll := examined(server, func() {
		assert.Equal(t, []int{998, 996, 994, 992, 990}, find(`{"g": 1, "$or": [{"even": true}, {"name": {"$gt": 999}}]}`))
	})
	assert.Equal(t, mongotest.Examined{Keys: 10, Documents: 10}, inOrderOfAll)
}

// A partial index is used if the query implies its filter, and a sparse index if the
// query requires one of its fields to exist.
// https://www.mongodb.com/docs/manual/core/index-partial/#query-coverage
// https://www.mongodb.com/docs/manual/core/index-sparse/#sparse-index-and-incomplete-results
func TestWhenPartialIndexesAreUsed(t *testing.T) {
	for _, test := range []struct {
		keys, partial string
		filter        string
		used          bool
	}{
		{`{"g": 1}`, `{"done": false}`, `{"g": 1, "done": false}`, true},
		{`{"g": 1}`, `{"done": false}`, `{"g": 1, "$and": [{"done": {"$eq": false}}]}`, true},
		{`{"g": 1}`, `{"done": false}`, `{"g": 1, "done": true}`, false},
		{`{"g": 1}`, `{"done": false}`, `{"g": 1}`, false},
		{`{"g": 1}`, `{"done": false}`, `{"g": 1, "$or": [{"done": false}, {"n": 1}]}`, false},
		{`{"g": 1}`, `{"odd": {"$exists": true}}`, `{"g": 1, "odd": {"$exists": true}}`, true},
		{`{"g": 1}`, `{"odd": {"$exists": true}}`, `{"g": 1, "odd": {"$gt": 3}}`, true},
		{`{"g": 1}`, `{"odd": {"$exists": true}}`, `{"g": 1, "odd": null}`, false},
		{`{"g": 1}`, `{"odd": {"$exists": true}}`, `{"g": 1, "odd": {"$in": [1, null]}}`, false},
		{`{"g": 1}`, `{"odd": {"$exists": true}}`, `{"g": 1}`, false},
		{`{"odd": 1}`, `{"odd": {"$exists": true}}`, `{"odd": 5}`, true},
		{`{"g": 1}`, `{"n": {"$gt": 5}}`, `{"g": 1, "n": {"$gt": 7}}`, true},
		{`{"g": 1}`, `{"n": {"$gt": 5}}`, `{"g": 1, "n": {"$gte": 5}}`, false},
		{`{"g": 1}`, `{"n": {"$gt": 5}}`, `{"g": 1, "n": {"$in": [6, 9]}}`, true},
		{`{"g": 1}`, `{"n": {"$gt": 5}}`, `{"g": 1, "n": {"$in": [5, 9]}}`, false},
		{`{"g": 1}`, `{"n": {"$in": [1, 2]}, "done": true}`, `{"g": 1, "n": 2, "done": true}`, true},
		{`{"g": 1}`, `{"$or": [{"n": 1}, {"done": true}]}`, `{"g": 1, "done": true}`, true},
		{`{"g": 1, "odd": 1}`, `{"odd": {"$exists": true}}`, `{"g": 1, "$or": [{"odd": 11}, {"odd": 13}]}`, false},
		{`{"g": 1, "odd": 1}`, `{"odd": {"$exists": true}}`, `{"$or": [{"g": 1, "odd": 11}, {"g": 1, "odd": 13}]}`, true},
		{`{"odd": 1}`, ``, `{"odd": 5}`, true},
		{`{"odd": 1}`, ``, `{"odd": null}`, false},
	} {
		server, client := start(t, mongotest.Options{InMemory: true})
		c := client.Database("amboy").Collection("jobs")
		numbered(t, c)
		want := ids(t, c, test.filter)
		opts := options.Index().SetSparse(true)
		if test.partial != "" {
			opts = options.Index().SetPartialFilterExpression(parse(t, test.partial))
		}
		require.NoError(t, index(t, c, test.keys, opts))
		cost := examined(server, func() { assert.Equal(t, want, ids(t, c, test.filter), test) })
		assert.Equal(t, test.used, cost.Keys > 0, test)
		assert.Equal(t, test.used, cost.Documents < 100, test)
	}
}

// A hint forces the named index, and documents outside the index are not found. Without a
// collection there is no index to name.
// https://www.mongodb.com/docs/manual/reference/method/cursor.hint/
// https://www.mongodb.com/docs/manual/core/index-sparse/#sparse-index-and-incomplete-results
func TestHints(t *testing.T) {
	server, client := start(t, mongotest.Options{InMemory: true})
	c := client.Database("amboy").Collection("jobs")
	numbered(t, c)
	require.NoError(t, index(t, c, `{"g": 1}`, options.Index()))
	require.NoError(t, index(t, c, `{"n": 1}`, options.Index()))
	require.NoError(t, index(t, c, `{"odd": 1}`, options.Index().SetSparse(true)))
	filter := parse(t, `{"g": 1, "n": {"$lt": 5}}`)
	change := parse(t, `{"$set": {"x": 1}}`)
	commands := map[string]func(hint any) error{
		"Find": func(hint any) error { _, err := c.Find(t.Context(), filter, options.Find().SetHint(hint)); return err },
		"Count": func(hint any) error {
			_, err := c.CountDocuments(t.Context(), filter, options.Count().SetHint(hint))
			return err
		},
		"Aggregate": func(hint any) error {
			_, err := c.Aggregate(t.Context(), mongo.Pipeline{{{Key: "$match", Value: filter}}}, options.Aggregate().SetHint(hint))
			return err
		},
		"Update": func(hint any) error {
			_, err := c.UpdateMany(t.Context(), filter, change, options.Update().SetHint(hint))
			return err
		},
		"Bulk": func(hint any) error {
			_, err := c.BulkWrite(t.Context(), []mongo.WriteModel{mongo.NewUpdateManyModel().SetFilter(filter).SetUpdate(change).SetHint(hint)})
			return err
		},
		"Delete": func(hint any) error {
			_, err := c.DeleteMany(t.Context(), append(filter, bson.E{Key: "none", Value: 1}), options.Delete().SetHint(hint))
			return err
		},
		"Modify": func(hint any) error {
			return c.FindOneAndUpdate(t.Context(), filter, change, options.FindOneAndUpdate().SetHint(hint).SetSort(bson.D{{Key: "x", Value: 1}})).Err()
		},
	}
	for name, run := range commands {
		for hint, keys := range map[any]int64{"g_1": 10, "n_1": 50, "_id_": 100} {
			cost := examined(server, func() { require.NoError(t, run(hint), name) })
			assert.Equal(t, keys, cost.Keys, "%s %s", name, hint)
		}
		cost := examined(server, func() { require.NoError(t, run(bson.D{{Key: "n", Value: 1}}), name) })
		assert.EqualValues(t, 50, cost.Keys, name)
		assert.Equal(t, 2, code(run("none_1")), name)
		assert.Equal(t, 2, code(run(bson.D{{Key: "n", Value: -1}})), name)
	}
	n, err := c.CountDocuments(t.Context(), bson.D{}, options.Count().SetHint("odd_1"))
	require.NoError(t, err)
	assert.EqualValues(t, 50, n)
	_, err = c.Database().Collection("none").Find(t.Context(), bson.D{}, options.Find().SetHint("none_1"))
	require.NoError(t, err)
	err = c.Database().RunCommand(t.Context(), parse(t, `{"distinct": "jobs", "key": "n", "hint": "g_1"}`)).Err()
	assert.Equal(t, 40415, code(err), "distinct has no hint before 7.1")
}

// Results do not depend on the existing indexes, whatever the documents contain, even in
// transactions that see older documents.
func TestIndexesChangeNoResult(t *testing.T) {
	_, client := start(t, mongotest.Options{InMemory: true})
	plain, indexed := client.Database("amboy").Collection("plain"), client.Database("amboy").Collection("indexed")
	require.NoError(t, index(t, indexed, `{"a": 1, "b": -1, "_id": 1}`, options.Index()))
	require.NoError(t, index(t, indexed, `{"b": 1}`, options.Index().SetSparse(true)))
	require.NoError(t, index(t, indexed, `{"b": -1, "c": 1, "_id": -1}`, options.Index().SetPartialFilterExpression(parse(t, `{"c": {"$exists": true}}`))))
	require.NoError(t, index(t, indexed, `{"d.x": 1, "d.y": 1}`, options.Index()))
	require.NoError(t, index(t, indexed, `{"c": 1, "d.x": -1}`, options.Index().SetPartialFilterExpression(parse(t, `{"a": {"$gt": 1}}`))))
	require.NoError(t, index(t, indexed, `{"s": 1, "_id": 1}`, options.Index()))
	require.NoError(t, index(t, indexed, `{"a": 1, "s": -1, "_id": 1}`, options.Index()))
	random := &generator{rand.New(rand.NewPCG(1, 2))} //nolint:gosec // a test's documents
	write := func() {
		id := random.IntN(100)
		doc := append(bson.D{{Key: "_id", Value: id}}, random.document()...)
		upsert := options.Replace().SetUpsert(true)
		if random.IntN(4) == 0 {
			doc = bson.D{{Key: "_id", Value: id}} // nothing but the _id
		}
		if _, err := indexed.ReplaceOne(t.Context(), bson.D{{Key: "_id", Value: id}}, doc, upsert); err != nil {
			require.Equal(t, 171, code(err))
			return
		}
		_, err := plain.ReplaceOne(t.Context(), bson.D{{Key: "_id", Value: id}}, doc, upsert)
		require.NoError(t, err)
	}
	for range 150 {
		write()
	}
	before, beforeIndexed := begin(t, plain), begin(t, indexed)
	orders := []string{`{"_id": 1}`, `{"a": 1, "b": -1, "_id": 1}`, `{"b": 1, "_id": -1}`, `{"b": 1, "c": -1, "_id": 1}`, `{"s": -1, "_id": -1}`, `{"a": -1, "s": 1, "_id": -1}`, `{"s": -1, "_id": 1}`, `{"d.x": 1, "_id": 1}`}
	for range 400 {
		filter := random.filter()
		opts := options.Find().SetSort(parse(t, orders[random.IntN(len(orders))])).SetLimit(int64(random.IntN(5)) * 3).SetSkip(int64(random.IntN(2)))
		cursor, err := plain.Find(before, filter, opts)
		want := all(t, cursor, err)
		cursor, err = indexed.Find(beforeIndexed, filter, opts)
		require.Equal(t, want, all(t, cursor, err), "in a transaction: %s %v", show(t, filter), opts.Sort)
		cursor, err = plain.Find(t.Context(), filter, opts)
		want = all(t, cursor, err)
		cursor, err = indexed.Find(t.Context(), filter, opts)
		require.Equal(t, want, all(t, cursor, err), "%s %v", show(t, filter), opts.Sort)
		cursor, err = indexed.Find(t.Context(), filter)
		unordered := all(t, cursor, err)
		cursor, err = plain.Find(t.Context(), filter)
		require.ElementsMatch(t, all(t, cursor, err), unordered, show(t, filter))
		write()
	}
}

// An index contains only keys of visible versions: no keys of an aborted transaction, of
// versions overwritten in it, or of documents deleted or changed before the last old
// transaction ended.
func TestKeysAreRemovedWithTheirDocuments(t *testing.T) {
	server, client := start(t, mongotest.Options{InMemory: true})
	c := client.Database("amboy").Collection("jobs")
	require.NoError(t, index(t, c, `{"v": 1}`, options.Index()))
	keys := func() int64 {
		return examined(server, func() { ids(t, c, `{"v": {"$gte": 0}}`) }).Keys
	}
	insert(t, c, `{"_id": 1, "v": 0}`, `{"_id": 2, "v": 0}`)
	tx := begin(t, c)
	_, err := c.InsertOne(tx, bson.D{{Key: "_id", Value: 3}, {Key: "v", Value: 1}})
	require.NoError(t, err)
	for v := range 5 {
		require.NoError(t, set(t, tx, c, 1, v))
	}
	assert.EqualValues(t, 4, keys(), "0 and 4 of the first, one of each of the others")
	require.NoError(t, tx.AbortTransaction(t.Context()))
	assert.EqualValues(t, 2, keys())

	tx = begin(t, c)
	assert.EqualValues(t, 2, count(t, tx, c, `{"v": 0}`))
	for v := range 5 {
		require.NoError(t, set(t, t.Context(), c, 1, v))
	}
	_, err = c.DeleteOne(t.Context(), bson.D{{Key: "_id", Value: 2}})
	require.NoError(t, err)
	assert.EqualValues(t, 2, count(t, tx, c, `{"v": 0}`))
	require.NoError(t, tx.CommitTransaction(t.Context()))
	assert.EqualValues(t, 1, keys())
	assert.Len(t, ids(t, c, `{"v": 4}`), 1)
}

// generator generates documents and filters that often match.
type generator struct{ *rand.Rand }

func (g *generator) scalar() any {
	values := []any{0, 1, 2, 3, 1.5, int64(2), "a", "b", nil, true, bson.D{{Key: "x", Value: 1}}}
	return values[g.IntN(len(values))]
}

func (g *generator) value() any {
	switch g.IntN(8) {
	case 0:
		list := bson.A{}
		for range g.IntN(4) {
			list = append(list, g.scalar())
		}
		return list
	case 1:
		return bson.A{bson.A{g.scalar()}, g.scalar()}
	default:
		return g.scalar()
	}
}

func (g *generator) document() bson.D {
	doc := bson.D{{Key: "s", Value: g.scalar()}} // never an array
	for _, name := range []string{"a", "b", "c"} {
		if g.IntN(5) > 0 {
			doc = append(doc, bson.E{Key: name, Value: g.value()})
		}
	}
	inner := func() any { return bson.D{{Key: "x", Value: g.scalar()}, {Key: "y", Value: g.scalar()}} }
	switch g.IntN(4) {
	case 0:
		doc = append(doc, bson.E{Key: "d", Value: inner()})
	case 1:
		doc = append(doc, bson.E{Key: "d", Value: bson.A{inner(), inner(), g.scalar()}})
	case 2:
		doc = append(doc, bson.E{Key: "d", Value: g.value()})
	}
	return doc
}

func (g *generator) filter() bson.D {
	filter := bson.D{}
	for _, name := range []string{"a", "b", "c", "d.x", "d.y", "s"} {
		if g.IntN(4) == 0 {
			filter = append(filter, bson.E{Key: name, Value: g.condition()})
		}
	}
	if g.IntN(4) == 0 {
		filter = append(filter, bson.E{Key: "$and", Value: bson.A{bson.D{{Key: "a", Value: g.condition()}}}})
	}
	if g.IntN(4) == 0 {
		filter = append(filter, bson.E{Key: "$or", Value: bson.A{
			bson.D{{Key: "b", Value: g.condition()}, {Key: "c", Value: g.condition()}},
			bson.D{{Key: "s", Value: g.condition()}},
		}})
	}
	return filter
}

func (g *generator) condition() any {
	operators := []string{"$eq", "$gt", "$gte", "$lt", "$lte", "$ne"}
	operator := operators[g.IntN(len(operators))]
	switch g.IntN(6) {
	case 0:
		return bson.D{{Key: "$in", Value: bson.A{g.value(), g.scalar()}}}
	case 1:
		return bson.D{{Key: "$exists", Value: g.IntN(2) == 0}}
	case 2:
		return bson.D{{Key: operator, Value: g.value()}}
	case 3:
		return bson.D{{Key: "$gte", Value: g.scalar()}, {Key: "$lt", Value: g.scalar()}}
	case 4:
		return bson.D{{Key: "$nin", Value: bson.A{g.value(), g.scalar()}}}
	default:
		return g.value()
	}
}

// Bounds are correct for all types: a comparison applies only to values of its type.
// https://www.mongodb.com/docs/manual/reference/method/db.collection.find/#type-bracketing
func TestBoundsApplyToOneType(t *testing.T) {
	c := jobs(t)
	values := []string{`null`, `5`, `7.5`, `"x"`, `{"k": 1}`, `false`, `true`, `{"$date": "2026-01-01T00:00:00Z"}`, `{"$oid": "000000000000000000000000"}`, `{"$minKey": 1}`, `{"$maxKey": 1}`, `{"$numberDouble": "NaN"}`, `{"$timestamp": {"t": 1, "i": 1}}`}
	for i, v := range values {
		insert(t, c, fmt.Sprintf(`{"_id": %d, "v": %s}`, i, v))
	}
	find := func() [][]any {
		var found [][]any
		for _, operator := range []string{"$eq", "$gt", "$gte", "$lt", "$lte"} {
			for _, v := range values {
				got := ids(t, c, `{"v": {"`+operator+`": `+v+`}}`)
				slices.SortFunc(got, func(a, b any) int { return int(a.(int32) - b.(int32)) })
				found = append(found, got)
			}
		}
		return found
	}
	want := find()
	require.NoError(t, index(t, c, `{"v": 1}`, options.Index()))
	assert.Equal(t, want, find())
	require.NoError(t, index(t, c, `{"v": -1}`, options.Index()))
	_, err := c.Indexes().DropOne(t.Context(), "v_1")
	require.NoError(t, err)
	assert.Equal(t, want, find())
}
