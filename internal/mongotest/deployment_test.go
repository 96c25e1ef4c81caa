package mongotest_test

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy/internal/mongotest"
)

// standIn makes the test run on the stand-in, whatever the environment.
func standIn(t *testing.T) {
	t.Helper()
	t.Setenv(mongotest.URIVariable, "")
}

// realServer makes deployments treat a server of the test as a real one.
func realServer(t *testing.T, opts mongotest.Options) *mongo.Client {
	t.Helper()
	server, client := start(t, opts)
	t.Setenv(mongotest.URIVariable, server.URI())
	return client
}

func TestDeploymentsAreSeparate(t *testing.T) {
	standIn(t)
	one, two := mongotest.Open(t), mongotest.Open(t, mongotest.Standalone())
	assert.NotEqual(t, one.Database(), two.Database())
	assert.False(t, one.IsReal())
	assert.True(t, one.IsReplicaSet())
	assert.False(t, two.IsReplicaSet())
	_, err := one.Client().Database(one.Database()).Collection("c").InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}})
	require.NoError(t, err)
	assert.Equal(t, []any{int32(1)}, ids(t, one.Collection("c"), `{}`))
	other := connect(t, options.Client().ApplyURI(one.URI()))
	assert.Equal(t, []any{int32(1)}, ids(t, other.Database(one.Database()).Collection("c"), `{}`))
	assert.NotNil(t, one.Server())
}

func TestDeploymentsRunInABubble(t *testing.T) {
	standIn(t)
	synctest.Test(t, func(t *testing.T) {
		d := mongotest.Open(t, mongotest.InMemory())
		insert(t, d.Collection("c"), `{"_id": 1}`)
		time.Sleep(time.Hour) // fake
		assert.Equal(t, []any{int32(1)}, ids(t, d.Connect().Database(d.Database()).Collection("c"), `{}`))
	})
}

// A real server keeps nothing of a test.
func TestDeploymentsCleanUpARealServer(t *testing.T) {
	client := realServer(t, mongotest.Options{})
	var database *mongo.Database
	t.Run("Test", func(t *testing.T) {
		d := mongotest.Open(t)
		assert.True(t, d.IsReal())
		assert.True(t, d.IsReplicaSet())
		insert(t, d.Collection("c"), `{"_id": 1}`)
		cursor, err := client.Database(d.Database()).Collection("c").Find(t.Context(), bson.D{})
		assert.Len(t, all(t, cursor, err), 1)
		d.Fail(mongotest.Failure{Commands: []string{"ping"}, ErrorCode: 8000})
		assert.Equal(t, 8000, code(d.Client().Ping(t.Context(), nil)))
		database = client.Database(d.Database())
	})
	names, err := database.ListCollectionNames(t.Context(), bson.D{})
	require.NoError(t, err)
	assert.Empty(t, names)
}

// A test that needs another deployment is skipped.
func TestDeploymentsSkipTests(t *testing.T) {
	for name, test := range map[string]struct {
		server  mongotest.Options
		needs   []mongotest.Option
		skipped bool
	}{
		"ReplicaSet":       {needs: []mongotest.Option{mongotest.ReplicaSet()}},
		"NoReplicaSet":     {server: mongotest.Options{Standalone: true}, needs: []mongotest.Option{mongotest.ReplicaSet()}, skipped: true},
		"Standalone":       {server: mongotest.Options{Standalone: true}, needs: []mongotest.Option{mongotest.Standalone()}},
		"NoStandalone":     {needs: []mongotest.Option{mongotest.Standalone()}, skipped: true},
		"NoStandIn":        {needs: []mongotest.Option{mongotest.StandIn()}, skipped: true},
		"NoStandInByNeeds": {needs: []mongotest.Option{mongotest.InMemory()}, skipped: true},
	} {
		t.Run(name, func(t *testing.T) {
			realServer(t, test.server)
			var inner *testing.T
			t.Run("Open", func(t *testing.T) {
				inner = t
				mongotest.Open(t, test.needs...)
			})
			assert.Equal(t, test.skipped, inner.Skipped())
		})
	}
	t.Run("Server", func(t *testing.T) {
		realServer(t, mongotest.Options{})
		var inner *testing.T
		t.Run("Open", func(t *testing.T) {
			inner = t
			mongotest.Open(t).Server()
		})
		assert.True(t, inner.Skipped())
	})
}

func TestCommandsAreCounted(t *testing.T) {
	standIn(t)
	d := mongotest.Open(t)
	db := d.Client().Database(d.Database())
	insert(t, d.Collection("a"), `{"_id": 1}`, `{"_id": 2}`, `{"_id": 3}`) // not counted
	commands := d.Commands()
	assert.Zero(t, commands.Total(), commands)
	cursor, err := db.Collection("a").Find(t.Context(), bson.D{}, options.Find().SetBatchSize(2))
	assert.Len(t, all(t, cursor, err), 3)
	insert(t, db.Collection("b"), `{"_id": 1}`)
	insert(t, d.Connect().Database(d.Database()).Collection("a"), `{"_id": 4}`)
	require.NoError(t, d.Client().UseSession(t.Context(), func(s mongo.SessionContext) error {
		_, err := s.WithTransaction(s, func(tx mongo.SessionContext) (any, error) {
			return nil, db.Collection("b").FindOne(tx, bson.D{}).Err()
		})
		return err
	}))
	assert.Equal(t, map[string]int{"find": 2, "getMore": 1, "insert": 2, "commitTransaction": 1}, commands.ByName())
	assert.Equal(t, 6, commands.Total())
	assert.Equal(t, 4, commands.Named("find", "insert"))
	assert.Equal(t, 3, commands.On("a"))
	assert.Equal(t, 1, commands.On("a", "getMore", "update"))
	assert.Equal(t, 1, commands.On(""))
	assert.Equal(t, "commitTransaction : 1, find a: 1, find b: 1, getMore a: 1, insert a: 1, insert b: 1", commands.String())
	commands.Reset()
	assert.Zero(t, commands.Total())

	var second mongotest.Commands // of only one client
	client := connect(t, d.ClientOptions().SetMonitor(second.Monitor()))
	require.NoError(t, client.Ping(t.Context(), nil))
	assert.Equal(t, 1, second.Named("ping"))
	assert.Zero(t, commands.Total())
}

func TestCommandsAreCountedConcurrently(t *testing.T) {
	standIn(t)
	d := mongotest.Open(t)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 20 {
				d.Commands().ByName()
				assert.NoError(t, d.Client().Ping(t.Context(), nil))
			}
		})
	}
	wait.Wait()
	assert.Equal(t, 160, d.Commands().Named("ping"))
}

// Fail makes the commands of the test's clients fail, including clients connected by its
// URI, and does not affect the test's own commands.
func TestFail(t *testing.T) {
	standIn(t)
	d := mongotest.Open(t)
	ping := func() error { return d.Client().Ping(t.Context(), nil) }
	pings := []string{"ping"}
	d.Fail(mongotest.Failure{Commands: pings, Times: 1, ErrorCode: 8000, ErrorLabels: []string{"Foo"}})
	var failed mongo.CommandError
	require.ErrorAs(t, ping(), &failed)
	assert.True(t, failed.HasErrorLabel("Foo"))
	require.NoError(t, ping())

	d.Fail(mongotest.Failure{Commands: pings, ErrorCode: 8000})
	byURI := connect(t, options.Client().ApplyURI(d.URI()))
	assert.Equal(t, 8000, code(byURI.Ping(t.Context(), nil)))
	require.NoError(t, d.Collection("c").Database().Client().Ping(t.Context(), nil))
	d.Heal()
	require.NoError(t, ping())

	d.Fail(mongotest.Failure{Commands: pings, Skip: 1, CloseConnection: true})
	require.NoError(t, ping())
	err := ping()
	assert.True(t, mongo.IsNetworkError(err), err)

	d.Fail(mongotest.Failure{Commands: pings, Block: 20 * time.Millisecond})
	began := time.Now()
	require.NoError(t, ping())
	assert.GreaterOrEqual(t, time.Since(began), 20*time.Millisecond)

	d.Fail(mongotest.Failure{Commands: []string{"find"}, Collection: "c", ErrorCode: 8000})
	find := func(collection string) error {
		return d.Client().Database(d.Database()).Collection(collection).FindOne(t.Context(), bson.D{}).Err()
	}
	assert.Equal(t, 8000, code(find("c")))
	require.ErrorIs(t, find("another"), mongo.ErrNoDocuments)

	d.Fail(mongotest.Failure{Commands: []string{"insert"}, Probability: 1, WriteConcernCode: 64})
	_, err = d.Client().Database(d.Database()).Collection("c").InsertOne(t.Context(), bson.D{})
	var unconfirmed mongo.WriteException
	require.ErrorAs(t, err, &unconfirmed)
	assert.Equal(t, 64, unconfirmed.WriteConcernError.Code)
}

// A Failure without an effect fails the test that sets it.
func TestFailuresAreChecked(t *testing.T) {
	standIn(t)
	for _, f := range []mongotest.Failure{
		{ErrorCode: 1},
		{Commands: []string{"ping"}},
		{Commands: []string{"ping"}, ErrorCode: 1, Times: 1, Skip: 1},
		{Commands: []string{"ping"}, ErrorCode: 1, Times: -1},
		{Commands: []string{"ping"}, ErrorCode: 1, Probability: 1.5},
	} {
		fatal := &fatalTB{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			mongotest.Open(fatal).Fail(f)
		}()
		<-done
		assert.True(t, fatal.failed, f)
	}
}

// fatalTB is a testing.TB that records Fatal.
type fatalTB struct {
	testing.TB
	failed bool
}

func (f *fatalTB) Fatal(...any) {
	f.failed = true
	runtime.Goexit()
}
