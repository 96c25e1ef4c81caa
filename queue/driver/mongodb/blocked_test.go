package mongodb_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/registry"
)

// begin begins a transaction, and returns its context.
func begin(t *testing.T, client *mongo.Client) (mongo.Session, context.Context) {
	t.Helper()
	session, err := client.StartSession()
	require.NoError(t, err)
	t.Cleanup(func() { session.EndSession(context.Background()) })
	require.NoError(t, session.StartTransaction())
	return session, mongo.NewSessionContext(t.Context(), session)
}

// since returns the time that a call takes.
func since(call func()) time.Duration {
	began := time.Now()
	call()
	return time.Since(began)
}

// insertIn inserts a record in a transaction.
func insertIn(ctx context.Context, t *testing.T, d driver.Driver, r *driver.Record) {
	t.Helper()
	errs, err := d.Insert(ctx, []*driver.Record{r})
	require.NoError(t, err)
	require.NoError(t, errs[0])
}

func dependsOn(id string) func(*driver.Record) {
	return func(r *driver.Record) {
		r.Dependency = &registry.DependencyInterchange{Type: "always", Edges: []string{id}}
	}
}

func takesScope(r *driver.Record) {
	r.RequiredScopes, r.EnqueueScopes = []string{"scope"}, []string{"scope"}
}

func wantsScope(r *driver.Record) { r.RequiredScopes = []string{"scope"} }

func TestAnOpenTransactionThatTookAScopeStalledAllClaims(t *testing.T) {
	for _, commits := range []bool{true, false} {
		t.Run(fmt.Sprintf("it commits: %t", commits), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStoreOf(t, mongotest.Options{InMemory: true})
				d := s.open()
				putAll(t, d, plainRecord("wants it", wantsScope), plainRecord("wants it too", wantsScope))
				session, inTx := begin(t, s.client)
				insertIn(inTx, t, d, plainRecord("takes it", takesScope))
				for i := range 10 {
					putAll(t, d, plainRecord(fmt.Sprint(i)))
				}
				var claimed []*driver.Record
				took := since(func() { claimed = claimAll(t, d, request("owner", 20, "queue")) })
				assert.Len(t, claimed, 10)
				assert.LessOrEqual(t, took, 3100*time.Millisecond)
				putAll(t, d, plainRecord("later"))
				took = since(func() { claimed = claimAll(t, d, request("owner", 20, "queue")) })
				assert.Len(t, claimed, 1)
				assert.Less(t, took, 100*time.Millisecond, "the jobs that wait are left alone")

				if !commits {
					require.NoError(t, session.AbortTransaction(t.Context()))
					time.Sleep(40 * time.Second)
					assert.Len(t, claimAll(t, d, request("owner", 20, "queue")), 1)
					return
				}
				require.NoError(t, session.CommitTransaction(t.Context()))
				synctest.Wait()
				running := claimAll(t, d, request("owner", 20, "queue"))
				require.Len(t, running, 1)
				assert.Equal(t, "queue.takes it", running[0].Name)
				endAll(t, d, running...)
				running = claimAll(t, d, request("owner", 20, "queue"))
				require.Len(t, running, 1)
				assert.Equal(t, "queue.wants it", running[0].Name)
			})
		})
	}
}

// A client with a timeout of its own puts a limit on each command.
func TestAnOpenTransactionStalledClaimsOfAClientWithATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoreOf(t, mongotest.Options{InMemory: true})
		s.options.SetTimeout(time.Minute)
		client := s.connect()
		d := s.open(func(o *mongodb.Options) { o.Client = client })
		putAll(t, d, plainRecord("wants it", wantsScope), plainRecord("other"))
		_, inTx := begin(t, client)
		insertIn(inTx, t, d, plainRecord("takes it", takesScope))
		took := since(func() { assert.Len(t, claimAll(t, d, request("owner", 20, "queue")), 1) })
		assert.LessOrEqual(t, took, 3100*time.Millisecond)
	})
}

func TestAnOpenTransactionWithAnEdgeStalledRenewalsAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoreOf(t, mongotest.Options{InMemory: true})
		d := s.open()
		putAll(t, d, plainRecord("target"), plainRecord("other"))
		running := claimAll(t, d, request("owner", 20, "queue"))
		require.Len(t, running, 2)
		session, inTx := begin(t, s.client)
		insertIn(inTx, t, d, plainRecord("waits", dependsOn("target")))
		assert.Less(t, since(func() {
			lost, err := d.Extend(t.Context(), []driver.Lease{driver.LeaseOf(running[0]), driver.LeaseOf(running[1])}, time.Minute)
			require.NoError(t, err)
			assert.Empty(t, lost)
			endAll(t, d, running...)
		}), 100*time.Millisecond)
		require.NoError(t, session.CommitTransaction(t.Context()))
		synctest.Wait()
		assert.Len(t, claimAll(t, d, request("owner", 20, "queue")), 1, "the target has ended")
	})
}

func TestAJobPutInATransactionRunsOnceItsTargetHasEndedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoreOf(t, mongotest.Options{InMemory: true})
		d := s.open()
		putAll(t, d, plainRecord("target"))
		running := claimAll(t, d, request("owner", 20, "queue"))
		session, inTx := begin(t, s.client)
		insertIn(inTx, t, d, plainRecord("waits", dependsOn("target")))
		require.NoError(t, session.CommitTransaction(t.Context()))
		synctest.Wait()
		require.Empty(t, claimAll(t, d, request("owner", 20, "queue")))
		endAll(t, d, running...)
		assert.Len(t, claimAll(t, d, request("owner", 20, "queue")), 1)
	})
}

// A transaction that is not of this library has changed a running job.
func TestATransactionOnOneRunningJobStalledTheRenewalsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoreOf(t, mongotest.Options{InMemory: true})
		d := s.open()
		putAll(t, d, plainRecord("touched"), plainRecord("other"))
		running := claimAll(t, d, request("owner", 20, "queue"))
		_, inTx := begin(t, s.client)
		_, err := s.jobs(true).UpdateOne(inTx, bson.M{"_id": "queue.touched"}, bson.M{"$set": bson.M{"touched": true}})
		require.NoError(t, err)
		time.Sleep(time.Second) // otherwise renewing changes nothing
		leases := []driver.Lease{driver.LeaseOf(running[0]), driver.LeaseOf(running[1])}
		assert.LessOrEqual(t, since(func() {
			lost, err := d.Extend(t.Context(), leases, time.Minute)
			var blocked *driver.BlockedLeasesError
			require.ErrorAs(t, err, &blocked)
			require.Len(t, blocked.Leases, 1)
			assert.Equal(t, "queue.touched", blocked.Leases[0].Name)
			assert.Empty(t, lost)
		}), 3100*time.Millisecond)
		ended := make([]driver.Completion, len(running))
		for i, r := range running {
			record := *r
			record.Status.Completed, record.Status.InProgress = true, false
			ended[i] = driver.Completion{Lease: driver.LeaseOf(r), Record: &record}
		}
		assert.LessOrEqual(t, since(func() {
			errs, err := d.Complete(t.Context(), ended)
			require.NoError(t, err)
			for i, r := range running {
				assert.Equal(t, r.Name == "queue.touched", errors.Is(errs[i], driver.ErrBlocked), r.Name)
				assert.NotErrorIs(t, errs[i], driver.ErrLeaseLost)
			}
		}), 3100*time.Millisecond)
	})
}

func TestATransactionOnOneStaleJobStalledTheRecoveryOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoreOf(t, mongotest.Options{InMemory: true})
		d := s.open()
		putAll(t, d, plainRecord("touched"), plainRecord("other"))
		require.Len(t, claimAll(t, d, request("owner", 20, "queue")), 2)
		endLeases(t, s.jobs(true), time.Hour)
		_, inTx := begin(t, s.client)
		_, err := s.jobs(true).UpdateOne(inTx, bson.M{"_id": "queue.touched"}, bson.M{"$set": bson.M{"touched": true}})
		require.NoError(t, err)
		assert.LessOrEqual(t, since(func() { assert.Equal(t, 1, recoverStale(t, d)) }), 3100*time.Millisecond)
		assert.Less(t, since(func() { assert.Zero(t, recoverStale(t, d)) }), 100*time.Millisecond, "it is left alone")
	})
}

func TestAPutBehindAnOpenTransactionHeldUpTheOthersOfItsBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoreOf(t, mongotest.Options{InMemory: true})
		d := s.open()
		session, inTx := begin(t, s.client)
		insertIn(inTx, t, d, plainRecord("same"))
		stored := make(chan []error)
		go func() {
			errs, err := d.Insert(t.Context(), []*driver.Record{plainRecord("first"), plainRecord("same"), plainRecord("last")})
			assert.NoError(t, err)
			stored <- errs
		}()
		time.Sleep(3100 * time.Millisecond)
		assert.Len(t, claimAll(t, d, request("owner", 20, "queue")), 2)
		time.Sleep(20 * time.Second)
		require.NoError(t, session.CommitTransaction(t.Context()))
		errs := <-stored
		require.NoError(t, errs[0])
		require.Error(t, errs[1], "the ID is taken")
		require.NoError(t, errs[2])
	})
}

// newLaggingStore returns a store with a server whose majority can be made to lag.
func newLaggingStore(t *testing.T) (*store, *mongotest.Server) {
	t.Helper()
	server, err := mongotest.New(mongotest.Options{InMemory: true})
	require.NoError(t, err)
	t.Cleanup(server.Close)
	return newStoreOn(t, server.ClientOptions()), server
}

// The majority lagged for longer than the limit of a command. Each lease then got a command of its
// own, which did not get an answer in time either.
func TestALaggingMajorityWasTakenForOpenTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, server := newLaggingStore(t)
		d := s.open()
		putAll(t, d, plainRecords(100)...)
		running := claimAll(t, d, request("owner", 100, "queue"))
		require.Len(t, running, 100)
		time.Sleep(3 * time.Second) // otherwise renewing changes nothing, and the change stream is opened for a busy process meanwhile
		leases := make([]driver.Lease, len(running))
		for i, r := range running {
			leases[i] = driver.LeaseOf(r)
		}
		server.HoldReplication()
		time.AfterFunc(4*time.Second, server.Replicate)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		sent := s.commands(func() {
			lost, err := d.Extend(ctx, leases, time.Minute)
			require.NoError(t, err)
			assert.Empty(t, lost)
		})
		assert.LessOrEqual(t, len(sent), 2)
	})
}

// The client of a URI with a timeout gave up on an insert that was stored.
func TestAPutOfAClientWithATimeoutReportedItsOwnJobAsADuplicate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, server := newLaggingStore(t)
		s.options.SetTimeout(time.Minute)
		s.client = s.connect()
		d := s.open()
		putAll(t, d, plainRecord("earlier"))
		server.HoldReplication()
		time.AfterFunc(3*time.Second, server.Replicate)
		putAll(t, d, plainRecord("job"))
	})
}

func TestALargePutBehindAnOpenTransactionTookACommandForEachJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoreOf(t, mongotest.Options{InMemory: true})
		d := s.open()
		session, inTx := begin(t, s.client)
		insertIn(inTx, t, d, plainRecord("500"))
		committed := make(chan error)
		time.AfterFunc(10*time.Second, func() { committed <- session.CommitTransaction(context.Background()) })
		inserts := 0
		for _, c := range s.commands(func() {
			stored := make(chan []error)
			go func() {
				errs, err := d.Insert(t.Context(), plainRecords(3000))
				assert.NoError(t, err)
				stored <- errs
			}()
			require.NoError(t, <-committed)
			errs := <-stored
			for i, err := range errs {
				assert.Equal(t, i == 500, err != nil, i)
			}
		}) {
			if c == "insert work.group" {
				inserts++
			}
		}
		assert.LessOrEqual(t, inserts, 100)
	})
}

// A transaction that is not of this library has changed the first waiter of the scope.
func TestAnEndTriedAWaiterBehindAnOpenTransactionAThousandTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoreOf(t, mongotest.Options{InMemory: true})
		d := s.open()
		putAll(t, d, plainRecord("holder", takesScope))
		putAll(t, d, plainRecord("waits", wantsScope))
		running := claimAll(t, d, request("owner", 20, "queue"))
		require.Len(t, running, 1)
		session, inTx := begin(t, s.client)
		_, err := s.jobs(true).UpdateOne(inTx, bson.M{"_id": "queue.waits"}, bson.M{"$set": bson.M{"touched": true}})
		require.NoError(t, err)
		assert.LessOrEqual(t, since(func() { endAll(t, d, running...) }), 3100*time.Millisecond)
		require.NoError(t, session.AbortTransaction(t.Context()))
		time.Sleep(40 * time.Second)
		assert.Len(t, claimAll(t, d, request("owner", 20, "queue")), 1)
	})
}

// Each claim tried the document again, and took nothing, or no other document, meanwhile.
func TestAJobBehindAnOpenTransactionStalledEachClaim(t *testing.T) {
	for name, change := range map[string]func(*driver.Record){
		"due":           func(r *driver.Record) { r.TimeInfo.WaitUntil = time.Now().Add(time.Second) },
		"expired":       func(r *driver.Record) { r.TimeInfo.DispatchBy = time.Now().Add(time.Second) },
		"wants a scope": wantsScope,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStoreOf(t, mongotest.Options{InMemory: true})
				d := s.open()
				putAll(t, d, plainRecord("touched", change))
				for i := range 20 {
					putAll(t, d, plainRecord(fmt.Sprint(i)))
				}
				_, inTx := begin(t, s.client)
				_, err := s.jobs(true).UpdateOne(inTx, bson.M{"_id": "queue.touched"}, bson.M{"$set": bson.M{"touched": true}})
				require.NoError(t, err)
				pass(2 * time.Second)
				assert.LessOrEqual(t, since(func() { assert.NotEmpty(t, claimAll(t, d, request("owner", 3, "queue"))) }), 3100*time.Millisecond)
				for range 3 {
					took := since(func() { assert.Len(t, claimAll(t, d, request("owner", 3, "queue")), 3) })
					assert.Less(t, took, 100*time.Millisecond)
				}
			})
		})
	}
}

// Claims of all queues did nothing else until the due jobs of one were ready.
func TestManyDueJobsKeptClaimsFromTheJobsOfOtherQueues(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) { // a store that answers late is left alone for a while
		d := openOn(t, s)
		due := plainRecords(2950) // the last batch is not full
		for _, r := range due {
			r.TimeInfo.WaitUntil = time.Now().Add(time.Millisecond)
		}
		putAll(t, d, due...)
		quiet := plainRecord("quiet")
		quiet.Group, quiet.Name = "other", driver.RecordName("other", "quiet", quiet.RetryInfo)
		putAll(t, d, quiet)
		pass(time.Millisecond)
		s.Server().ResetCosts()
		claimed, err := d.Claim(t.Context(), request("owner", 1, "other"))
		require.NoError(t, err)
		assert.Len(t, claimed.Records, 1)
		assert.LessOrEqual(t, s.Server().Costs().Sent(), int64(12), s.Server().Costs())
		assert.False(t, claimed.Next.After(time.Now()), "the rest is left for the next claim")
		for n := 0; n < len(due); {
			require.False(t, claimed.Next.IsZero() || claimed.Next.After(time.Now()), "%d of them were claimed", n)
			claimed, err = d.Claim(t.Context(), request("owner", 1000, "queue"))
			require.NoError(t, err)
			n += len(claimed.Records)
		}
	})
}

// The answers came 3 seconds late, and the jobs were left alone for 30 s.
func TestReadyJobsWaitedForHalfAMinuteAfterTheServerWasSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoreOf(t, mongotest.Options{InMemory: true})
		d := s.open()
		const jobs = 10
		putAll(t, d, plainRecords(jobs)...)
		require.NoError(t, s.client.Database("admin").RunCommand(t.Context(), bson.D{
			{Key: "configureFailPoint", Value: "failCommand"},
			{Key: "mode", Value: bson.D{{Key: "times", Value: 1 + jobs}}}, // one for all, and one for each
			{Key: "data", Value: bson.D{
				{Key: "failCommands", Value: bson.A{"update"}},
				{Key: "namespace", Value: s.db + ".work.group"},
				{Key: "blockConnection", Value: true},
				{Key: "blockTimeMS", Value: 1500},
				{Key: "errorCode", Value: 50}, // MaxTimeMSExpired
			}},
		}).Err())
		began := time.Now()
		claimed, err := d.Claim(t.Context(), request("owner", 20, "queue"))
		require.NoError(t, err)
		require.Empty(t, claimed.Records)
		slow := time.Since(began)
		require.False(t, claimed.Next.IsZero(), "nothing else wakes this process")
		time.Sleep(time.Until(claimed.Next))
		assert.Len(t, claimAll(t, d, request("owner", 20, "queue")), jobs)
		assert.LessOrEqual(t, time.Since(began)-slow, 1100*time.Millisecond)
	})
}

func TestAJobBehindALongTransactionStallsFewClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoreOf(t, mongotest.Options{InMemory: true})
		d := s.open()
		putAll(t, d, plainRecord("touched"))
		touch := func() mongo.Session {
			session, inTx := begin(t, s.client)
			_, err := s.jobs(true).UpdateOne(inTx, bson.M{"_id": "queue.touched"}, bson.M{"$set": bson.M{"touched": true}})
			require.NoError(t, err)
			return session
		}
		claimIsStalled := func() bool {
			return since(func() { require.Empty(t, claimAll(t, d, request("owner", 20, "queue"))) }) > 100*time.Millisecond
		}
		session := touch()
		stalls := 0
		for began := time.Now(); time.Since(began) < 50*time.Second; time.Sleep(500 * time.Millisecond) {
			if claimIsStalled() {
				stalls++
			}
		}
		assert.LessOrEqual(t, stalls, 6)
		require.NoError(t, session.AbortTransaction(t.Context()))
		time.Sleep(30 * time.Second)
		running := claimAll(t, d, request("owner", 20, "queue"))
		require.Len(t, running, 1)

		_, err := d.Release(t.Context(), []driver.HandBack{{Lease: driver.LeaseOf(running[0])}})
		require.NoError(t, err)
		session = touch()
		require.True(t, claimIsStalled())
		require.NoError(t, session.AbortTransaction(t.Context()))
		time.Sleep(time.Second)
		assert.Len(t, claimAll(t, d, request("owner", 20, "queue")), 1, "the first pause of another transaction is short")
	})
}
