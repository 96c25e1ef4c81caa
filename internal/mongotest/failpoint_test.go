package mongotest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy/internal/mongotest"
)

// failCommand sets the fail point.
func failCommand(t *testing.T, c *mongo.Collection, mode, data string) {
	t.Helper()
	command := parse(t, `{"configureFailPoint": "failCommand", "mode": `+mode+`, "data": `+data+`}`)
	require.NoError(t, c.Database().Client().Database("admin").RunCommand(t.Context(), command).Err())
}

// The rules of failCommand are at
// https://github.com/mongodb/mongo/wiki/The-failCommand-Fail-Point.
func TestFailCommand(t *testing.T) {
	c := jobs(t)
	failCommand(t, c, `{"times": 2}`, `{"failCommands": ["insert"], "errorCode": 8000}`)
	for i, want := range []int{8000, 8000, 0} {
		_, err := c.InsertOne(t.Context(), bson.D{{Key: "_id", Value: i}})
		assert.Equal(t, want, code(err))
	}
	failCommand(t, c, `"alwaysOn"`, `{"failCommands": ["find"], "errorCode": 8000, "errorLabels": ["Foo"]}`)
	for range 3 {
		err := c.FindOne(t.Context(), bson.D{}).Err()
		var failed mongo.CommandError
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, []string{"Foo"}, failed.Labels)
	}
	failCommand(t, c, `"off"`, `{}`)
	require.NoError(t, c.FindOne(t.Context(), bson.D{}).Err())
	failCommand(t, c, `{"skip": 1}`, `{"failCommands": ["ping"], "errorCode": 8000}`)
	require.NoError(t, c.Database().Client().Ping(t.Context(), nil))
	assert.Equal(t, 8000, code(c.Database().Client().Ping(t.Context(), nil)))
}

// Errors after which a write can be repeated have the label for that, and the driver
// repeats the write once. https://www.mongodb.com/docs/manual/core/retryable-writes/
func TestRetryableFaults(t *testing.T) {
	for name, data := range map[string]string{
		"Network":            `"closeConnection": true`,
		"NotWritablePrimary": `"errorCode": 10107`,
		"ShutdownInProgress": `"errorCode": 91`,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, options.Client(), func(t *testing.T, _ *mongotest.Server, c *mongo.Collection) {
				failCommand(t, c, `{"times": 1}`, `{"failCommands": ["insert"], `+data+`}`)
				_, err := c.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 2}})
				require.NoError(t, err)
				failCommand(t, c, `{"times": 2}`, `{"failCommands": ["insert"], `+data+`}`)
				_, err = c.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 3}})
				require.Error(t, err)
				assert.Equal(t, []any{int32(1), int32(2)}, ids(t, c, `{}`))
			})
		})
	}
}

func TestFaultsInTransactionsAreTransient(t *testing.T) {
	c := jobs(t)
	failCommand(t, c, `{"times": 1}`, `{"failCommands": ["insert"], "errorCode": 112}`)
	_, err := c.InsertOne(begin(t, c), bson.D{})
	var failed mongo.CommandError
	require.ErrorAs(t, err, &failed)
	assert.True(t, failed.HasErrorLabel("TransientTransactionError"))
}

func TestBlockConnection(t *testing.T) {
	c := jobs(t)
	failCommand(t, c, `{"times": 1}`, `{"failCommands": ["ping"], "blockConnection": true, "blockTimeMS": 30}`)
	began := time.Now()
	require.NoError(t, c.Database().Client().Ping(t.Context(), nil))
	assert.GreaterOrEqual(t, time.Since(began), 30*time.Millisecond)
}

// A write concern error comes with a write that was applied.
// https://www.mongodb.com/docs/manual/reference/write-concern/
func TestWriteConcernErrors(t *testing.T) {
	c := jobs(t)
	failCommand(t, c, `{"times": 1}`, `{"failCommands": ["insert"], "writeConcernError": {"code": 64, "errmsg": "timed out"}}`)
	_, err := c.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}})
	var failed mongo.WriteException
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, 64, failed.WriteConcernError.Code)
	assert.Equal(t, []any{int32(1)}, ids(t, c, `{}`))
}

// appName limits the faults to one client.
func TestFaultsOfOneClient(t *testing.T) {
	server, client := start(t, mongotest.Options{InMemory: true})
	other := connect(t, server.ClientOptions().SetAppName("other"))
	c := client.Database("amboy").Collection("jobs")
	failCommand(t, c, `"alwaysOn"`, `{"failCommands": ["ping"], "errorCode": 8000, "appName": "other"}`)
	require.NoError(t, client.Ping(t.Context(), nil))
	assert.Equal(t, 8000, code(other.Ping(t.Context(), nil)))
}

// The fail point is as strict as the rest.
func TestFailPointsAreChecked(t *testing.T) {
	c := jobs(t)
	for _, command := range []string{
		`{"configureFailPoint": "other", "mode": "off"}`,
		`{"configureFailPoint": "failCommand", "mode": "sometimes", "data": {"failCommands": ["ping"]}}`,
		`{"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": {"failCommands": ["ping"], "foo": 1}}`,
		`{"configureFailPoint": "failCommand", "mode": {"times": -1}, "data": {"failCommands": ["ping"]}}`,
		`{"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": {"failCommands": []}}`,
	} {
		err := c.Database().Client().Database("admin").RunCommand(t.Context(), parse(t, command)).Err()
		assert.NotZero(t, code(err), command)
	}
}
