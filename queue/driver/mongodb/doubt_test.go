package mongodb_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// openOn opens a driver of many queues on a deployment.
func openOn(t *testing.T, s *mongotest.Deployment, change ...func(*mongodb.Options)) *mongodb.Driver {
	t.Helper()
	opts := mongodb.Options{Client: s.Connect(), DB: s.Database(), Collection: "work", Grouped: true}
	for _, c := range change {
		c(&opts)
	}
	d, err := mongodb.Open(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.Close(context.Background())) })
	return d
}

// lostAnswer makes the answers to writes of the jobs get lost until the driver reads them.
// first is the fate of these writes. again is called once, before the first write after
// that.
func lostAnswer(s *mongotest.Deployment, first mongotest.Fate, again func()) {
	var mu sync.Mutex
	read, done := false, false
	s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
		if c.AppName != s.Database() || c.Collection != "work.group" {
			return mongotest.Served
		}
		mu.Lock()
		defer mu.Unlock()
		switch c.Name {
		case "find":
			read = true
		case "insert", "update", "findAndModify":
			switch {
			case done:
			case !read:
				return first
			default:
				done = true
				again()
			}
		}
		return mongotest.Served
	})
}

// rolledBack makes the next write of the jobs get lost: its answer by a cut, and the write
// itself by a failover after the driver has read it.
func rolledBack(s *mongotest.Deployment) {
	s.Server().HoldReplication()
	lostAnswer(s, mongotest.Unanswered, s.Server().FailOver)
}

func TestAPutThatWasRolledBackWasConfirmed(t *testing.T) {
	t.Parallel()
	s := mongotest.Open(t, mongotest.StandIn())
	d := openOn(t, s)
	insert(t, d, newRecord(t, "q", "earlier")) // joins the drain barrier
	rolledBack(s)
	insert(t, d, newRecord(t, "q", "first"), newRecord(t, "q", "second"))
	n, err := s.Collection("work.group").CountDocuments(t.Context(), bson.D{})
	require.NoError(t, err)
	assert.EqualValues(t, 3, n)
}

// putFirstOfTwo puts two jobs that exclude each other. The first must be added, and the second refused.
func putFirstOfTwo(t *testing.T, d *mongodb.Driver, records ...*driver.Record) {
	t.Helper()
	errs, err := d.Insert(t.Context(), records)
	require.NoError(t, err)
	require.NoError(t, errs[0])
	assert.True(t, amboy.IsDuplicateJobError(errs[1]), "the error is %v", errs[1])
}

// After the lost answer the stored job was looked up by its _id and taken for the second one. Both were refused.
func TestTheFirstOfTwoJobsOfOneIDWasRefusedAfterALostAnswer(t *testing.T) {
	t.Parallel()
	s := mongotest.Open(t, mongotest.StandIn())
	d := openOn(t, s)
	insert(t, d, newRecord(t, "q", "earlier")) // joins the drain barrier
	lostAnswer(s, mongotest.Unanswered, func() {})
	putFirstOfTwo(t, d, newRecord(t, "q", "job"), newRecord(t, "q", "job"))
}

// After a command with several jobs had taken too long, they were sent at once, each with a command of its own, so
// that the second one could be stored before the first.
func TestASlowServerWasAskedToStoreTheSecondOfTwoJobsBeforeTheFirst(t *testing.T) {
	plain := func(id string, change func(*driver.Record)) *driver.Record {
		return plainRecord(id, change, func(r *driver.Record) { r.Tags = []string{id} })
	}
	for name, records := range map[string][2]*driver.Record{
		"of one ID":         {plainRecord("job", func(r *driver.Record) { r.Tags = []string{"first"} }), plainRecord("job")},
		"of one unique key": {plain("first", func(r *driver.Record) { r.UniqueKey = "key" }), plain("second", func(r *driver.Record) { r.UniqueKey = "key" })},
		"of one scope":      {plain("first", takesScope), plain("second", takesScope)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mongotest.Open(t, mongotest.InMemory())
				d := openOn(t, s)
				putAll(t, d, plainRecord("earlier")) // joins the drain barrier
				const maxTimeExpired = 50
				s.Fail(mongotest.Failure{Commands: []string{"insert"}, Collection: "work.group", Times: 1, ErrorCode: maxTimeExpired})
				s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
					var insert struct {
						Documents []struct {
							Tags []string `bson:"tags"`
						} `bson:"documents"`
					}
					if c.Name == "insert" && bson.Unmarshal(c.Command, &insert) == nil && len(insert.Documents) == 1 && slices.Contains(insert.Documents[0].Tags, "first") {
						time.Sleep(100 * time.Millisecond)
					}
					return mongotest.Served
				})
				putFirstOfTwo(t, d, records[:]...)
			})
		})
	}
}

func TestAnEndThatWasRolledBackWasConfirmed(t *testing.T) {
	t.Parallel()
	s := mongotest.Open(t, mongotest.StandIn())
	d := openOn(t, s)
	insert(t, d, newRecord(t, "q", "first"), newRecord(t, "q", "second"))
	running := claim(t, d, request("owner", 2, "q"))
	require.Len(t, running, 2)
	rolledBack(s)
	endAll(t, d, running...)
	n, err := s.Collection("work.group").CountDocuments(t.Context(), bson.D{{Key: "status.completed", Value: true}})
	require.NoError(t, err)
	assert.EqualValues(t, 2, n)
}

// late makes the next write of the jobs land late: after the driver has read that it is not
// stored, and before it has sent it again.
func late(s *mongotest.Deployment) {
	lostAnswer(s, mongotest.Late, s.Server().RunLate)
}

func TestAClaimThatLandedLateWasDisowned(t *testing.T) {
	t.Parallel()
	s := mongotest.Open(t, mongotest.StandIn())
	d := openOn(t, s)
	insert(t, d, newRecord(t, "q", "job"))
	late(s)
	assert.Len(t, claim(t, d, request("owner", 1, "q")), 1)
}

func TestAnEndThatLandedLateWasDisowned(t *testing.T) {
	t.Parallel()
	s := mongotest.Open(t, mongotest.StandIn())
	d := openOn(t, s)
	insert(t, d, newRecord(t, "q", "job"))
	running := claim(t, d, request("owner", 1, "q"))
	late(s)
	endAll(t, d, running...)
}

func TestAHandBackThatLandedLateWasDisowned(t *testing.T) {
	t.Parallel()
	s := mongotest.Open(t, mongotest.StandIn())
	d := openOn(t, s)
	insert(t, d, newRecord(t, "q", "job"))
	running := claim(t, d, request("owner", 1, "q"))
	late(s)
	errs, err := d.Release(t.Context(), []driver.HandBack{{Lease: driver.LeaseOf(running[0])}})
	require.NoError(t, err)
	require.NoError(t, errs[0])
}

func TestAPutThatLandedLateWasDisowned(t *testing.T) {
	t.Parallel()
	s := mongotest.Open(t, mongotest.StandIn())
	d := openOn(t, s)
	late(s)
	insert(t, d, newRecord(t, "q", "job"))
}

// Each try of the claim landed after the next one had read that the job was not claimed. Until the
// lease ended, a live process had it and did not run the job.
func TestAClaimThatLandedAfterItsHandBackKeptTheJobFromRunning(t *testing.T) {
	t.Parallel()
	for name, handBack := range map[string]func(t *testing.T, d *mongodb.Driver){
		"by another claim": func(t *testing.T, d *mongodb.Driver) {
			t.Helper()
			assert.Empty(t, claim(t, d, request("owner", 1, "other queue")))
		},
		"by Close": func(t *testing.T, d *mongodb.Driver) {
			t.Helper()
			require.NoError(t, d.Close(t.Context()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mongotest.Open(t, mongotest.StandIn())
			d, other := openOn(t, s), openOn(t, s)
			insert(t, d, newRecord(t, "q", "job"))
			s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
				if c.Name == "update" && c.Collection == "work.group" {
					return mongotest.Late
				}
				return mongotest.Served
			})
			_, err := d.Claim(t.Context(), request("owner", 1, "q"))
			require.ErrorIs(t, err, driver.ErrOutcomeUnknown)
			s.Server().Intercept(nil)
			handBack(t, d)
			s.Server().RunLate()
			assert.Len(t, claim(t, other, request("other", 1, "q")), 1)
		})
	}
}

// The outcome of a first call was unknown. A second one reads that the job has ended, and
// then that is rolled back.
func TestAnEndThatWasRolledBackWasRefusedAsLost(t *testing.T) {
	t.Parallel()
	s := mongotest.Open(t, mongotest.StandIn())
	d := openOn(t, s)
	insert(t, d, newRecord(t, "q", "job"))
	running := claim(t, d, request("owner", 1, "q"))
	require.Len(t, running, 1)
	ended := *running[0]
	ended.Status.Completed, ended.Status.InProgress, ended.TimeInfo.End = true, false, time.Now()
	completions := []driver.Completion{{Lease: driver.LeaseOf(running[0]), Record: &ended}}

	s.Server().HoldReplication()
	s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
		switch {
		case c.AppName != s.Database() || c.Collection != "work.group":
			return mongotest.Served
		case c.Name == "update":
			return mongotest.Unanswered
		default:
			return mongotest.Unserved
		}
	})
	_, err := d.Complete(t.Context(), completions)
	require.ErrorIs(t, err, driver.ErrOutcomeUnknown)

	rollBack := sync.OnceFunc(s.Server().FailOver)
	s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
		if c.AppName == s.Database() && c.Name == "update" {
			rollBack()
		}
		return mongotest.Served
	})
	errs, err := d.Complete(t.Context(), completions)
	require.NoError(t, err)
	require.NoError(t, errs[0])
	n, err := s.Collection("work.group").CountDocuments(t.Context(), bson.D{{Key: "status.completed", Value: true}})
	require.NoError(t, err)
	assert.EqualValues(t, 1, n)
}

// A claim met an open transaction, and took the same job in its second round, because that transaction
// had ended. The next claim handed it back as one that the first round might have taken, and the job ran
// twice at once.
func TestARunningJobWasHandedBackByTheNextClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		d := openOn(t, s)
		client := connectWith(t, s.Server().ClientOptions().SetAppName("other"))
		other := openOn(t, s, func(o *mongodb.Options) { o.Client = client })
		require.Empty(t, claimAll(t, d, request("owner", 20, "queue")))
		pass(time.Minute) // for its first sweeps
		putAll(t, d, plainRecord("wants it", wantsScope))
		blocking, inTx := begin(t, client)
		insertIn(inTx, t, other, plainRecord("takes it", takesScope))
		ended, inTx := begin(t, client)
		insertIn(inTx, t, other, plainRecord("of a transaction"))
		aggregates := atomic.Int32{}
		s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
			if c.AppName != s.Database() || c.Collection != "work.group" || c.Name != "aggregate" {
				return mongotest.Served
			}
			if aggregates.Add(1) == 3 { // the first is the claim's, the second arranges the scope
				assert.NoError(t, blocking.AbortTransaction(t.Context()))
				assert.NoError(t, ended.CommitTransaction(t.Context())) // so that nothing is left alone
				pass(100 * time.Millisecond)
			}
			return mongotest.Served
		})
		running := claimAll(t, d, request("owner", 20, "queue"))
		s.Server().Intercept(nil)
		require.NotEmpty(t, running)
		claimAll(t, d, request("owner", 20, "queue"))
		leases := make([]driver.Lease, len(running))
		for i, r := range running {
			leases[i] = driver.LeaseOf(r)
		}
		lost, err := d.Extend(t.Context(), leases, time.Minute)
		require.NoError(t, err)
		assert.Empty(t, lost)
	})
}

func connectWith(t *testing.T, opts *options.ClientOptions) *mongo.Client {
	t.Helper()
	client, err := mongo.Connect(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Disconnect(context.Background())) })
	return client
}

// The first call ended before the majority had what it stored. The second one found it.
func TestWhatWaitsForAnEndWithAnUnknownOutcomeWasLeftWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, server := newLaggingStore(t)
		d := s.open()
		putAll(t, d, plainRecord("target", takesScope))
		putAll(t, d, plainRecord("waits", wantsScope), plainRecord("depends", dependsOn("target")))
		running := claimAll(t, d, request("owner", 20, "queue"))
		require.Len(t, running, 1)
		ended := *running[0]
		ended.Status.Completed, ended.Status.InProgress, ended.TimeInfo.End = true, false, time.Now()
		completions := []driver.Completion{{Lease: driver.LeaseOf(running[0]), Record: &ended}}

		server.HoldReplication()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := d.Complete(ctx, completions)
		require.ErrorIs(t, err, driver.ErrOutcomeUnknown)
		server.Replicate()
		errs, err := d.Complete(t.Context(), completions)
		require.NoError(t, err)
		require.ErrorIs(t, errs[0], driver.ErrLeaseLost)

		time.Sleep(30 * time.Second)
		assert.Len(t, claimAll(t, d, request("owner", 20, "queue")), 2)
	})
}
