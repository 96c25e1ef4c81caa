package mongodb_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

func TestOptionsAreChecked(t *testing.T) {
	valid := mongodb.Options{URI: "mongodb://localhost", DB: "db", Collection: "jobs"}
	for name, test := range map[string]struct {
		change func(o *mongodb.Options)
		err    string
	}{
		"no server":           {func(o *mongodb.Options) { o.URI = "" }, "Client or URI must be set"},
		"no database":         {func(o *mongodb.Options) { o.DB = "" }, "DB must not be empty"},
		"bad database":        {func(o *mongodb.Options) { o.DB = "a.b" }, `DB must not contain any of / \ . " $, a space or a NUL (is "a.b")`},
		"no collection":       {func(o *mongodb.Options) { o.Collection = "" }, "Collection must not be empty"},
		"bad collection":      {func(o *mongodb.Options) { o.Collection = "a$b" }, `Collection must not contain $ or a NUL (is "a$b")`},
		"negative lock":       {func(o *mongodb.Options) { o.LockTimeout = -1 }, "LockTimeout must not be negative (is -1ns)"},
		"negative poll":       {func(o *mongodb.Options) { o.PollInterval = -time.Second }, "PollInterval must not be negative (is -1s)"},
		"negative window":     {func(o *mongodb.Options) { o.ClaimWindow = -2 }, "ClaimWindow must not be negative (is -2)"},
		"bad URI":             {func(o *mongodb.Options) { o.URI = "mongodb://user:secret@:badport" }, "URI must be a connection string"},
		"URI of another kind": {func(o *mongodb.Options) { o.URI = "http://user:secret@host" }, "URI must be a connection string"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := valid
			test.change(&opts)
			d, err := mongodb.Open(t.Context(), opts)
			require.ErrorContains(t, err, "invalid mongodb driver options: "+test.err)
			assert.NotContains(t, err.Error(), "secret")
			assert.Nil(t, d)
		})
	}
}

func TestOpenEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		begin := time.Now()
		_, err := mongodb.Open(ctx, mongodb.Options{URI: "mongodb://user:secret@127.0.0.1:1", DB: "db", Collection: "jobs"})
		require.ErrorContains(t, err, `opening collection "jobs.jobs" of database "db"`)
		assert.NotContains(t, err.Error(), "secret")
		assert.Equal(t, 50*time.Millisecond, time.Since(begin))
	})
}

func TestOpenByURI(t *testing.T) {
	s := mongotest.Open(t)
	d, err := mongodb.Open(t.Context(), mongodb.Options{URI: s.URI(), DB: s.Database(), Collection: "work.jobs"})
	require.NoError(t, err)
	insert(t, d, newRecord(t, "", "job"))
	require.NoError(t, d.Close(t.Context()))
	require.NoError(t, d.Close(t.Context()))
	_, err = d.Insert(t.Context(), []*driver.Record{newRecord(t, "", "late")})
	require.ErrorIs(t, err, driver.ErrClosed)
	n, err := s.Collection("work.jobs").CountDocuments(t.Context(), bson.D{})
	require.NoError(t, err)
	assert.EqualValues(t, 1, n, "the suffix is not added again")
}

func TestIndexes(t *testing.T) {
	s := newStore(t)
	count := func() int {
		cursor, err := s.jobs(true).Indexes().List(t.Context())
		require.NoError(t, err)
		var all []bson.M
		require.NoError(t, cursor.All(t.Context(), &all))
		return len(all)
	}
	d := s.open(func(o *mongodb.Options) { o.SkipIndexes = true })
	assert.Zero(t, count())
	fewer := s.open(func(o *mongodb.Options) { o.SkipIndexes, o.SkipReportingIndexes = true, true })
	require.NoError(t, fewer.EnsureIndexes(t.Context()))
	some := count()
	require.NoError(t, d.EnsureIndexes(t.Context()))
	assert.Greater(t, count(), some)
	all := count()
	require.NoError(t, d.EnsureIndexes(t.Context()))
	assert.Equal(t, all, count())
}

// The keys of existing indexes were not read, so that each Open built all indexes again, and
// Open with SkipIndexes logged all of them as missing.
func TestExistingIndexesCountedAsMissing(t *testing.T) {
	s := newStore(t)
	s.open()
	d := s.open(func(o *mongodb.Options) { o.SkipIndexes = true })
	condition, err := d.Examine(t.Context())
	require.NoError(t, err)
	assert.Empty(t, condition.Defects)
	_, err = s.jobs(true).Indexes().DropOne(t.Context(), "job_id")
	require.NoError(t, err)
	condition, err = d.Examine(t.Context())
	require.NoError(t, err)
	require.Len(t, condition.Defects, 1)
	assert.Equal(t, "job_id", condition.Defects[0].Name)
	assert.Equal(t, `db.runCommand({"createIndexes":"`+s.jobs(true).Name()+`","indexes":[{"key":{"group":1,"job_id":1},"name":"job_id","unique":true,"partialFilterExpression":{"job_id":{"$exists":true}}}]})`,
		condition.Defects[0].Command)
}

// TestIndexThatIsNotUnique creates a plain index with the keys of a unique one.
func TestIndexThatIsNotUnique(t *testing.T) {
	s := newStore(t)
	keys := bson.D{{Key: "group", Value: 1}, {Key: "job_id", Value: 1}}
	_, err := s.jobs(true).Indexes().CreateOne(t.Context(), indexOf(keys))
	require.NoError(t, err)
	s.open()
	cursor, err := s.jobs(true).Indexes().List(t.Context())
	require.NoError(t, err)
	var all []bson.M
	require.NoError(t, cursor.All(t.Context(), &all))
	assert.True(t, slices.ContainsFunc(all, func(i bson.M) bool { return i["name"] == "job_id" && i["unique"] == true }))
}

// TestMalformedDocument stores a document whose fields have wrong types between two valid
// ones.
func TestMalformedDocument(t *testing.T) {
	s := newStore(t)
	d := s.open()
	insert(t, d, newRecord(t, "q", "a"), newRecord(t, "q", "bad"), newRecord(t, "q", "c"))
	_, err := s.jobs(true).UpdateOne(t.Context(), bson.D{{Key: "_id", Value: "q.bad"}}, bson.D{{Key: "$set", Value: bson.D{
		{Key: "status.errors", Value: 7}, {Key: "time_info", Value: "noon"}, {Key: "retry_info", Value: "often"},
	}}})
	require.NoError(t, err)
	claimed := claim(t, d, request("owner", 10, "q"))
	require.Equal(t, []string{"q.a", "q.bad", "q.c"}, names(claimed))
	assert.Empty(t, claimed[1].Type)
	assert.True(t, claimed[1].Job.IsZero())
	errs, err := d.Release(t.Context(), []driver.HandBack{{Lease: driver.LeaseOf(claimed[1]), Park: true, Reason: "undecodable"}})
	require.NoError(t, err)
	require.NoError(t, errs[0])
	endAll(t, d, claimed[0], claimed[2])
	assert.Empty(t, claim(t, d, request("owner", 10, "q")))
	kept := s.document("q.bad")
	assert.Equal(t, "often", kept["retry_info"], "fields that can't be decoded stay")
	assert.NotNil(t, kept["job"])
}

func TestOpenWaitedForAMemberThatWasDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		s.Server().LoseMember()
		openOn(t, s)
	})
}

// An older process began to build a unique index.
func TestOpenWentOnBeforeAUniqueIndexWasBuilt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		s.Server().LoseMember()
		built := make(chan error, 1)
		go func() {
			_, err := s.Collection("work.group").Indexes().CreateOne(t.Context(), mongo.IndexModel{
				Keys:    bson.D{{Key: "group", Value: 1}, {Key: "job_id", Value: 1}},
				Options: options.Index().SetName("job_id").SetUnique(true).SetPartialFilterExpression(bson.M{"job_id": bson.M{"$exists": true}}),
			})
			built <- err
		}()
		synctest.Wait()
		began := time.Now()
		time.AfterFunc(time.Minute, s.Server().RegainMember)
		openOn(t, s)
		assert.Equal(t, time.Minute, time.Since(began))
		require.NoError(t, <-built)
	})
}

func TestAServerThatIsTooOldIsRefused(t *testing.T) {
	server, err := mongotest.New(mongotest.Options{WireVersion: 9})
	require.NoError(t, err)
	t.Cleanup(server.Close)
	_, err = mongodb.Open(t.Context(), mongodb.Options{URI: server.URI(), DB: "db", Collection: "jobs"})
	require.ErrorContains(t, err, "MongoDB 5.0 or newer is required")
}

func TestStatsFailedWhileThereWasNoSnapshot(t *testing.T) {
	inParallel(t)
	s := mongotest.Open(t, mongotest.ReplicaSet())
	d := openOn(t, s)
	insert(t, d, newRecord(t, "q", "job"))
	s.Fail(mongotest.Failure{Commands: []string{"aggregate"}, Times: 3, ErrorCode: 246})
	stats, err := d.Stats(t.Context(), "q")
	require.NoError(t, err)
	assert.Equal(t, 1, stats.Total)
}

// A client with a strict API version may not ask which indexes are being built.
func TestOpenWithAStrictAPIVersion(t *testing.T) {
	t.Parallel()
	s := mongotest.Open(t, mongotest.StandIn())
	s.Fail(mongotest.Failure{Commands: []string{"listIndexes"}, Times: 1, ErrorCode: 323})
	openOn(t, s)
}

// The next Put made the collection again, without indexes: claims scanned all jobs, and an ID could
// be stored twice.
func TestACollectionThatWasDroppedWhileAProcessRanHadNoIndexes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoreOf(t, mongotest.Options{InMemory: true})
		d := s.open()
		putAll(t, d, plainRecord("earlier"))
		require.Len(t, claimAll(t, d, request("owner", 1, "queue")), 1) // it listens from now on
		synctest.Wait()
		require.NoError(t, s.jobs(true).Drop(t.Context()))
		pass(5 * time.Second)
		putAll(t, d, plainRecord("job"))
		condition, err := d.Examine(t.Context())
		require.NoError(t, err)
		assert.Empty(t, condition.Defects)
	})
}

// The connection on which the process built the indexes again was dead, without an error.
func TestIndexesWereNotBuiltAgainAfterAConnectionDied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		d := openOn(t, s)
		claimAll(t, d, request("owner", 1, "queue")) // it listens from now on
		synctest.Wait()
		dead := make(chan struct{})
		t.Cleanup(func() { close(dead) })
		var met atomic.Bool
		s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
			if c.Name == "createIndexes" && !met.Swap(true) {
				<-dead
				return mongotest.Unserved
			}
			return mongotest.Served
		})
		require.NoError(t, s.Collection("work.group").Drop(t.Context()))
		pass(2 * time.Minute)
		require.True(t, met.Load())
		putAll(t, d, plainRecord("job"))
		condition, err := d.Examine(t.Context())
		require.NoError(t, err)
		assert.Empty(t, condition.Defects)
	})
}

// The process may not build indexes: an operator has taken the privilege from it. Only sweeps adopt what
// a legacy process puts.
func TestAnIndexThatCouldNotBeBuiltKeptSweepsFromTheirWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		d := openOn(t, s, func(o *mongodb.Options) { o.Grouped = false })
		_, err := claimAs(t.Context(), d, "owner") // it listens from now on
		require.NoError(t, err)
		synctest.Wait()
		const unauthorized = 13
		s.Fail(mongotest.Failure{Commands: []string{"createIndexes"}, ErrorCode: unauthorized})
		jobs := s.Collection("work.jobs")
		require.NoError(t, jobs.Drop(t.Context()))
		pass(10 * time.Second)
		legacy := &legacyProcess{store: &store{TB: t, client: s.Connect(), db: s.Database()}, jobs: jobs}
		legacy.insert("legacy", nil)
		pass(time.Minute)
		claimed, err := claimAs(t.Context(), d, "owner")
		require.NoError(t, err)
		assert.Contains(t, claimed, "legacy")
	})
}
