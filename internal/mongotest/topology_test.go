package mongotest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"
	"go.mongodb.org/mongo-driver/event"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
	"go.mongodb.org/mongo-driver/mongo/readpref"

	"github.com/mongodb/amboy/internal/mongotest"
)

// inBubble runs a test with an in-memory server and a fake clock, which advances only
// while all goroutines wait.
func inBubble(t *testing.T, opts *options.ClientOptions, test func(t *testing.T, server *mongotest.Server, c *mongo.Collection)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, err := mongotest.New(mongotest.Options{InMemory: true})
		require.NoError(t, err)
		t.Cleanup(server.Close)
		client := connect(t, options.MergeClientOptions(server.ClientOptions(), opts))
		c := client.Database("amboy").Collection("jobs")
		insert(t, c, `{"_id": 1, "v": 0}`)
		test(t, server, c)
	})
}

// takes returns how long an action takes by the fake clock.
func takes(act func()) time.Duration {
	began := time.Now()
	act()
	return time.Since(began)
}

// hello returns the server's reply to hello. It may wait for a change.
func hello(t *testing.T, c *mongo.Collection, fields ...bson.E) (bson.M, error) {
	t.Helper()
	var reply bson.M
	command := append(bson.D{{Key: "hello", Value: 1}}, fields...)
	err := c.Database().Client().Database("admin").RunCommand(t.Context(), command, options.RunCmd().SetReadPreference(readpref.Nearest())).Decode(&reply)
	return reply, err
}

// A hello with the server's topology version waits for a change, but no longer than
// maxAwaitTimeMS.
// https://github.com/mongodb/specifications/blob/master/source/server-discovery-and-monitoring/server-monitoring.md#awaitable-hello-or-legacy-hello-server-specification
func TestHelloWaitsForChanges(t *testing.T) {
	inBubble(t, options.Client(), func(t *testing.T, server *mongotest.Server, c *mongo.Collection) {
		known, err := hello(t, c)
		require.NoError(t, err)
		version := bson.E{Key: "topologyVersion", Value: known["topologyVersion"]}
		await := bson.E{Key: "maxAwaitTimeMS", Value: int64(7000)}
		ask := func(fields ...bson.E) (reply bson.M) {
			reply, err = hello(t, c, fields...)
			require.NoError(t, err)
			return reply
		}
		assert.Zero(t, takes(func() { ask() }))
		assert.Equal(t, 7*time.Second, takes(func() { ask(version, await) }))
		time.AfterFunc(3*time.Second, server.StepDown)
		var changed bson.M
		assert.Equal(t, 3*time.Second, takes(func() { changed = ask(version, await) }))
		assert.Equal(t, false, changed["isWritablePrimary"])
		assert.Equal(t, true, changed["secondary"])
		assert.NotEqual(t, known["topologyVersion"], changed["topologyVersion"])
		assert.Zero(t, takes(func() { ask(version, await) }), "the topology version has changed")
		server.StepUp()
		up := ask()
		assert.Equal(t, true, up["isWritablePrimary"])
		assert.Greater(t, up["electionId"].(primitive.ObjectID).Hex(), known["electionId"].(primitive.ObjectID).Hex())

		_, err = hello(t, c, version)
		assert.Equal(t, 31368, code(err))
		_, err = hello(t, c, await)
		assert.Equal(t, 31368, code(err))
		_, err = hello(t, c, bson.E{Key: "topologyVersion", Value: up["topologyVersion"]}, bson.E{Key: "maxAwaitTimeMS", Value: int64(-1)})
		assert.Equal(t, 31373, code(err))
		later := up["topologyVersion"].(bson.M)
		later["counter"] = later["counter"].(int64) + 1
		_, err = hello(t, c, bson.E{Key: "topologyVersion", Value: later}, await)
		assert.Equal(t, 31382, code(err))
	})
}

// The driver's monitor waits in hello, and neither spins nor stops if nothing happens for
// an hour.
func TestMonitorsOfAnIdleServer(t *testing.T) {
	beats := 0
	monitor := options.Client().SetServerMonitor(&event.ServerMonitor{ServerHeartbeatSucceeded: func(e *event.ServerHeartbeatSucceededEvent) {
		if e.Awaited {
			beats++
		}
	}})
	inBubble(t, monitor, func(t *testing.T, _ *mongotest.Server, c *mongo.Collection) {
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.InDelta(t, 360, beats, 2, "one in ten seconds")
		assert.Equal(t, []any{int32(1)}, ids(t, c, `{}`))
	})
}

// An error about the server's role that the fail point returns contains the topology
// version. So the driver knows that nothing has changed and repeats the command at once.
// https://github.com/mongodb/specifications/blob/master/source/server-discovery-and-monitoring/server-discovery-and-monitoring.md#topologyversion
func TestInjectedRoleErrorsAreRetriedAtOnce(t *testing.T) {
	for _, failure := range []string{`"errorCode": 10107`, `"errorCode": 91`, `"errorCode": 11602`, `"writeConcernError": {"code": 91, "errmsg": "x"}`} {
		inBubble(t, options.Client(), func(t *testing.T, _ *mongotest.Server, c *mongo.Collection) {
			failCommand(t, c, `{"times": 1}`, `{"failCommands": ["update"], `+failure+`}`)
			assert.Zero(t, takes(func() { require.NoError(t, set(t, t.Context(), c, 1, 1)) }), failure)
		})
	}
}

// A set without a primary accepts no writes. The driver waits for the next primary and
// learns of it at once.
// https://www.mongodb.com/docs/manual/reference/command/replSetStepDown/
func TestStepDownAndUp(t *testing.T) {
	inBubble(t, options.Client(), func(t *testing.T, server *mongotest.Server, c *mongo.Collection) {
		server.StepDown()
		server.StepDown()
		time.AfterFunc(2*time.Second, server.StepUp)
		assert.Equal(t, 2*time.Second, takes(func() { require.NoError(t, set(t, t.Context(), c, 1, 1)) }))
		server.StepUp()
		server.StepDown()
		secondary, err := c.Clone(options.Collection().SetReadPreference(readpref.SecondaryPreferred()))
		require.NoError(t, err)
		assert.Equal(t, []any{int32(1)}, ids(t, secondary, `{"v": 1}`))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, c.FindOne(ctx, bson.D{}).Err())
		server.StepUp()
		assert.Zero(t, takes(func() { require.NoError(t, set(t, t.Context(), c, 1, 2)) }))
	})
}

// A command sent to a previous primary fails with an error about its role and is not
// executed. The driver sends it again.
// https://www.mongodb.com/docs/manual/core/retryable-writes/
func TestCommandsSentToASecondary(t *testing.T) {
	for _, retry := range []bool{false, true} {
		inBubble(t, options.Client().SetRetryWrites(retry).SetRetryReads(retry), func(t *testing.T, server *mongotest.Server, c *mongo.Collection) {
			late := `{"failCommands": ["update", "find"], "blockConnection": true, "blockTimeMS": 1000}`
			for name, test := range map[string]struct {
				send func() error
				code int
			}{
				"Write": {func() error { return set(t, t.Context(), c, 1, 5) }, 10107},
				"Read":  {func() error { return c.FindOne(t.Context(), bson.D{}).Err() }, 13435},
			} {
				failCommand(t, c, `{"times": 1}`, late)
				time.AfterFunc(500*time.Millisecond, server.StepDown)
				time.AfterFunc(1500*time.Millisecond, server.StepUp)
				err := test.send()
				if retry {
					require.NoError(t, err, name)
					continue
				}
				assert.Equal(t, test.code, code(err), name)
				time.Sleep(time.Second)
				assert.Empty(t, ids(t, c, `{"v": 5}`))
			}
		})
	}
}

// A primary that steps down aborts open transactions and ends the commands that wait for
// them. https://www.mongodb.com/docs/manual/core/transactions-production-consideration/
func TestStepDownAbortsTransactions(t *testing.T) {
	inBubble(t, options.Client(), func(t *testing.T, server *mongotest.Server, c *mongo.Collection) {
		tx := begin(t, c)
		require.NoError(t, set(t, tx, c, 1, 7))
		waiting := make(chan error, 1)
		go func() { waiting <- set(t, t.Context(), c, 1, 8) }()
		synctest.Wait()
		began := time.Now()
		server.StepDown()
		synctest.Wait()
		secondary, err := c.Clone(options.Collection().SetReadPreference(readpref.Nearest()))
		require.NoError(t, err)
		assert.Len(t, ids(t, secondary, `{"v": 0}`), 1)
		server.StepUp()
		require.NoError(t, <-waiting, "sent again")
		assert.Equal(t, 251, code(tx.CommitTransaction(t.Context())))
		assert.Len(t, ids(t, c, `{"v": 8}`), 1)
		assert.Zero(t, time.Since(began))
	})
}

// The history of retryable writes survives a step-down, so that no write is
// applied twice. https://www.mongodb.com/docs/manual/core/retryable-writes/
func TestStepDownKeepsRetryableWrites(t *testing.T) {
	inBubble(t, options.Client(), func(t *testing.T, server *mongotest.Server, c *mongo.Collection) {
		session, err := c.Database().Client().StartSession()
		require.NoError(t, err)
		defer session.EndSession(t.Context())
		ctx := mongo.NewSessionContext(t.Context(), session)
		increment := append(parse(t, `{"update": "jobs", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"v": 1}}}]}`), bson.E{Key: "txnNumber", Value: int64(3)})
		for range 2 {
			require.NoError(t, c.Database().RunCommand(ctx, increment).Err())
			server.StepDown()
			server.StepUp()
		}
		assert.Len(t, ids(t, c, `{"v": 1}`), 1)
	})
}

func TestAStandaloneHasNoRole(t *testing.T) {
	server, client := start(t, mongotest.Options{InMemory: true, Standalone: true})
	server.StepDown()
	insert(t, client.Database("amboy").Collection("jobs"), `{"_id": 1}`)
}

// Clients find a server again that was unreachable.
func TestRefusedConnections(t *testing.T) {
	inBubble(t, options.Client().SetServerSelectionTimeout(2*time.Second), func(t *testing.T, server *mongotest.Server, c *mongo.Collection) {
		server.Refuse()
		require.NoError(t, set(t, t.Context(), c, 1, 1), "the connections stay")
		server.Disconnect()
		require.Error(t, set(t, t.Context(), c, 1, 2))
		server.Accept()
		assert.LessOrEqual(t, takes(func() { require.NoError(t, set(t, t.Context(), c, 1, 3)) }), time.Second)
	})
	server, _ := start(t, mongotest.Options{})
	server.Refuse()
	late := connect(t, server.ClientOptions().SetServerSelectionTimeout(50*time.Millisecond))
	require.Error(t, late.Ping(t.Context(), nil))
}
