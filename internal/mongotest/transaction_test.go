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

	"github.com/mongodb/amboy/internal/mongotest"
)

// begin starts a transaction. Its commands use the returned context.
func begin(t *testing.T, c *mongo.Collection) mongo.SessionContext {
	t.Helper()
	session, err := c.Database().Client().StartSession()
	require.NoError(t, err)
	t.Cleanup(func() { session.EndSession(context.Background()) })
	require.NoError(t, session.StartTransaction())
	return mongo.NewSessionContext(t.Context(), session)
}

func set(t *testing.T, ctx context.Context, c *mongo.Collection, id, value int) error { //nolint:revive // t comes first in tests
	t.Helper()
	_, err := c.UpdateByID(ctx, id, bson.D{{Key: "$set", Value: bson.D{{Key: "v", Value: value}}}})
	return err
}

func count(t *testing.T, ctx context.Context, c *mongo.Collection, filter string) int64 { //nolint:revive // t comes first in tests
	t.Helper()
	n, err := c.CountDocuments(ctx, parse(t, filter))
	require.NoError(t, err)
	return n
}

// A transaction reads the snapshot with which it began and its own writes, which others
// see after the commit.
// https://www.mongodb.com/docs/manual/core/transactions/#transactions-and-atomicity
func TestTransactionsReadSnapshots(t *testing.T) {
	c := jobs(t)
	insert(t, c, `{"_id": 1, "v": 0}`, `{"_id": 2, "v": 0}`)
	tx := begin(t, c)
	assert.EqualValues(t, 2, count(t, tx, c, `{"v": 0}`))
	require.NoError(t, set(t, t.Context(), c, 1, 5))
	insert(t, c, `{"_id": 3, "v": 0}`)
	assert.EqualValues(t, 2, count(t, tx, c, `{"v": 0}`))
	require.NoError(t, set(t, tx, c, 2, 7))
	assert.EqualValues(t, 1, count(t, tx, c, `{"v": 7}`))
	assert.Zero(t, count(t, t.Context(), c, `{"v": 7}`))
	require.NoError(t, tx.CommitTransaction(t.Context()))
	assert.EqualValues(t, 1, count(t, t.Context(), c, `{"v": 7}`))
}

func TestAbortUndoes(t *testing.T) {
	c := jobs(t)
	insert(t, c, `{"_id": 1, "v": 0}`)
	tx := begin(t, c)
	require.NoError(t, set(t, tx, c, 1, 7))
	_, err := c.InsertOne(tx, bson.D{{Key: "_id", Value: 2}})
	require.NoError(t, err)
	require.NoError(t, tx.AbortTransaction(t.Context()))
	assert.Equal(t, []any{int32(1)}, ids(t, c, `{}`))
	assert.EqualValues(t, 1, count(t, t.Context(), c, `{"v": 0}`))
	insert(t, c, `{"_id": 2}`)
}

// A transaction that writes what another one has written since it began fails
// and can be run again.
// https://www.mongodb.com/docs/manual/core/transactions-production-consideration/#in-progress-transactions-and-write-conflicts
func TestWriteConflicts(t *testing.T) {
	for name, write := range map[string]func(*testing.T, *mongo.Collection) func(){
		"Open": func(t *testing.T, c *mongo.Collection) func() {
			t.Helper()
			other := begin(t, c)
			require.NoError(t, set(t, other, c, 1, 1))
			return func() { require.NoError(t, other.CommitTransaction(t.Context())) }
		},
		"Committed": func(t *testing.T, c *mongo.Collection) func() {
			t.Helper()
			require.NoError(t, set(t, t.Context(), c, 1, 1))
			return func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := jobs(t)
			insert(t, c, `{"_id": 1, "v": 0}`)
			tx := begin(t, c)
			assert.EqualValues(t, 1, count(t, tx, c, `{}`))
			finish := write(t, c)
			err := set(t, tx, c, 1, 2)
			require.Equal(t, 112, code(err))
			var labeled mongo.LabeledError
			require.ErrorAs(t, err, &labeled)
			assert.True(t, labeled.HasErrorLabel("TransientTransactionError"))
			assert.Equal(t, 251, code(tx.CommitTransaction(t.Context())), "the error has aborted it")
			finish()
			assert.EqualValues(t, 1, count(t, t.Context(), c, `{"v": 1}`))
		})
	}
}

// A key of a unique index that another transaction has taken is a conflict, an existing
// key is a duplicate, and both abort the transaction.
// https://www.mongodb.com/docs/manual/core/transactions/
func TestUniqueKeysInTransactions(t *testing.T) {
	c := jobs(t)
	scopes(t, c)
	insert(t, c, `{"_id": 1, "scopes": ["a"]}`)
	first, second, third := begin(t, c), begin(t, c), begin(t, c)
	_, err := c.InsertOne(first, parse(t, `{"_id": 2, "scopes": ["b"]}`))
	require.NoError(t, err)
	_, err = c.InsertOne(second, parse(t, `{"_id": 3, "scopes": ["b"]}`))
	assert.Equal(t, 112, code(err))
	_, err = c.InsertOne(third, parse(t, `{"_id": 4, "scopes": ["a"]}`))
	assert.Equal(t, 11000, code(err))
	assert.Equal(t, 251, code(third.CommitTransaction(t.Context())))
	require.NoError(t, first.CommitTransaction(t.Context()))
}

// A write outside a transaction waits for the transaction that has written the document.
// https://www.mongodb.com/docs/manual/core/transactions-production-consideration/
func TestPlainWritesWaitForTransactions(t *testing.T) {
	c := jobs(t)
	insert(t, c, `{"_id": 1, "v": 0}`)
	tx := begin(t, c)
	require.NoError(t, set(t, tx, c, 1, 1))
	done := make(chan error, 1)
	go func() {
		_, err := c.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: 1}, {Key: "v", Value: 1}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "v", Value: 10}}}})
		done <- err
	}()
	require.NoError(t, tx.CommitTransaction(t.Context()))
	require.NoError(t, <-done)
	// The write came before the transaction or saw its writes.
	assert.Zero(t, count(t, t.Context(), c, `{"v": 0}`))

	tx = begin(t, c)
	require.NoError(t, set(t, tx, c, 1, 2))
	err := c.Database().RunCommand(t.Context(), parse(t, `{"findAndModify": "jobs", "query": {}, "update": {"$set": {"v": 9}}, "maxTimeMS": 20}`)).Err()
	assert.Equal(t, 50, code(err))
}

// A transaction that is older than its lifetime is aborted.
// https://www.mongodb.com/docs/manual/reference/parameters/#mongodb-parameter-param.transactionLifetimeLimitSeconds
func TestOldTransactionsAreAborted(t *testing.T) {
	_, client := start(t, mongotest.Options{InMemory: true, TransactionLifetime: 20 * time.Millisecond})
	c := client.Database("amboy").Collection("jobs")
	insert(t, c, `{"_id": 1, "v": 0}`)
	tx := begin(t, c)
	require.NoError(t, set(t, tx, c, 1, 1))
	require.NoError(t, set(t, t.Context(), c, 1, 2))
	assert.Equal(t, 251, code(tx.CommitTransaction(t.Context())))
	assert.EqualValues(t, 1, count(t, t.Context(), c, `{"v": 2}`))
}

// https://www.mongodb.com/docs/manual/reference/parameters/#mongodb-parameter-param.transactionLifetimeLimitSeconds
func TestTheLifetimeOfTransactionsIsAParameter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := start(t, mongotest.Options{InMemory: true})
		admin := client.Database("admin")
		for _, change := range []struct{ to, was int }{{1, 60}, {2, 1}} {
			answer, err := admin.RunCommand(t.Context(), bson.D{{Key: "setParameter", Value: 1}, {Key: "transactionLifetimeLimitSeconds", Value: change.to}}).Raw()
			require.NoError(t, err)
			assert.EqualValues(t, change.was, answer.Lookup("was").Int32())
		}
		err := admin.RunCommand(t.Context(), bson.D{{Key: "setParameter", Value: 1}, {Key: "transactionLifetimeLimitSeconds", Value: 0}}).Err()
		assert.Equal(t, 2, code(err))
		c := client.Database("amboy").Collection("jobs")
		insert(t, c, `{"_id": 1, "v": 0}`)
		tx := begin(t, c)
		require.NoError(t, set(t, tx, c, 1, 1))
		began := time.Now()
		require.NoError(t, set(t, t.Context(), c, 1, 2))
		assert.Equal(t, 2*time.Second, time.Since(began))
		assert.Equal(t, 251, code(tx.CommitTransaction(t.Context())))
	})
}

// Commands that must not be part of a transaction are refused, and a standalone server
// has no transactions. https://www.mongodb.com/docs/manual/core/transactions-operations/
func TestTransactionsAreRefused(t *testing.T) {
	c := jobs(t)
	tx := begin(t, c)
	_, err := c.EstimatedDocumentCount(tx)
	assert.Equal(t, 263, code(err))

	_, client := start(t, mongotest.Options{InMemory: true, Standalone: true})
	alone := client.Database("amboy").Collection("jobs")
	insert(t, alone, `{"_id": 1}`)
	_, err = alone.InsertOne(begin(t, alone), bson.D{})
	assert.Equal(t, 20, code(err))
	_, err = alone.Watch(t.Context(), mongo.Pipeline{})
	assert.Equal(t, 40573, code(err))
}

// WithTransaction runs a transaction again after a transient error.
// https://www.mongodb.com/docs/manual/core/transactions-in-applications/
func TestWithTransactionRetries(t *testing.T) {
	c := jobs(t)
	insert(t, c, `{"_id": 1, "v": 0}`)
	session, err := c.Database().Client().StartSession()
	require.NoError(t, err)
	defer session.EndSession(t.Context())
	tries := 0
	_, err = session.WithTransaction(t.Context(), func(tx mongo.SessionContext) (any, error) {
		tries++
		if n := count(t, tx, c, `{}`); n == 1 && tries == 1 {
			require.NoError(t, set(t, t.Context(), c, 1, 1))
		}
		return nil, set(t, tx, c, 1, 2)
	})
	require.NoError(t, err)
	assert.Equal(t, 2, tries)
	assert.EqualValues(t, 1, count(t, t.Context(), c, `{"v": 2}`))
}

// A statement repeated with the same number is not applied again and gets the first
// reply; an older number is refused.
// https://www.mongodb.com/docs/manual/core/retryable-writes/
func TestStatementsAreAppliedOnce(t *testing.T) {
	c := jobs(t)
	insert(t, c, `{"_id": 1, "v": 0}`)
	session, err := c.Database().Client().StartSession()
	require.NoError(t, err)
	defer session.EndSession(t.Context())
	ctx := mongo.NewSessionContext(t.Context(), session)
	run := func(number int64, command string) error {
		return c.Database().RunCommand(ctx, append(parse(t, command), bson.E{Key: "txnNumber", Value: number})).Err()
	}
	increment := `{"update": "jobs", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"v": 1}}}]}`
	for range 2 {
		err = run(5, increment)
		require.NoError(t, err)
	}
	assert.EqualValues(t, 1, count(t, t.Context(), c, `{"v": 1}`))
	for range 2 {
		err = run(6, `{"findAndModify": "jobs", "query": {"_id": 1}, "update": {"$inc": {"v": 1}}}`)
		require.NoError(t, err)
	}
	assert.EqualValues(t, 1, count(t, t.Context(), c, `{"v": 2}`))
	err = run(5, increment)
	assert.Equal(t, 225, code(err))
	err = run(7, `{"update": "jobs", "updates": [{"q": {}, "u": {"$inc": {"v": 1}}, "multi": true}]}`)
	assert.Equal(t, 72, code(err))
}

// The driver repeats a write after an error that leaves its outcome unknown. Here it was
// applied, and it is not applied twice.
func TestDriverRetryIsAppliedOnce(t *testing.T) {
	c := jobs(t)
	insert(t, c, `{"_id": 1, "v": 0}`)
	again := `{"failCommands": ["update", "findAndModify", "insert", "delete"], "writeConcernError": {"code": 91, "errmsg": "stopping"}}`
	increment := parse(t, `{"$inc": {"v": 1}}`)
	failCommand(t, c, `{"times": 1}`, again)
	result, err := c.UpdateByID(t.Context(), 1, increment)
	require.NoError(t, err)
	assert.EqualValues(t, 1, result.ModifiedCount)
	failCommand(t, c, `{"times": 1}`, again)
	require.NoError(t, c.FindOneAndUpdate(t.Context(), bson.D{}, increment).Err())
	assert.EqualValues(t, 1, count(t, t.Context(), c, `{"v": 2}`))
	failCommand(t, c, `{"times": 1}`, again)
	inserted, err := c.InsertMany(t.Context(), []any{bson.D{{Key: "_id", Value: 2}}, bson.D{{Key: "_id", Value: 3}}})
	require.NoError(t, err)
	assert.Len(t, inserted.InsertedIDs, 2)
	failCommand(t, c, `{"times": 1}`, again)
	deleted, err := c.DeleteOne(t.Context(), bson.D{{Key: "_id", Value: 2}})
	require.NoError(t, err)
	assert.EqualValues(t, 1, deleted.DeletedCount)
}
