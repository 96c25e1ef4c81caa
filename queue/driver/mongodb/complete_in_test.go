package mongodb_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/event"
	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// endIn ends records that succeed, under a context.
func endIn(ctx context.Context, d driver.Driver, records ...*driver.Record) ([]error, error) {
	completions := make([]driver.Completion, len(records))
	for i, r := range records {
		ended := *r
		ended.Status.Completed, ended.Status.InProgress = true, false
		ended.TimeInfo.End = time.Now()
		completions[i] = driver.Completion{Lease: driver.LeaseOf(r), Record: &ended}
	}
	return d.Complete(ctx, completions)
}

// mustEndIn is endIn without errors.
func mustEndIn(ctx context.Context, t *testing.T, d driver.Driver, records ...*driver.Record) {
	t.Helper()
	errs, err := endIn(ctx, d, records...)
	require.NoError(t, err)
	for _, err := range errs {
		require.NoError(t, err)
	}
}

// writeOwn writes a document of the test's own, and so begins the snapshot of a transaction.
func (s *store) writeOwn(ctx context.Context) error {
	_, err := s.client.Database(s.db).Collection("own").InsertOne(ctx, bson.D{})
	return err
}

// newTransactionalStore returns a store with transactions. A standalone server has none.
func newTransactionalStore(t *testing.T) *store {
	t.Helper()
	s := newStore(t)
	if !s.open().Features().TransactionalEnds {
		t.Skip("the server has no transactions")
	}
	return s
}

// newOwnStore returns a store with transactions and a collection of the test's own.
func newOwnStore(t *testing.T) *store {
	t.Helper()
	s := newTransactionalStore(t)
	require.NoError(t, s.client.Database(s.db).CreateCollection(t.Context(), "own"))
	return s
}

func namesOf(records []*driver.Record) (names []string) {
	for _, r := range records {
		names = append(names, r.Name)
	}
	return names
}

// All workers are busy, so the change stream shows no jobs.
func TestTheEndInATransactionOfABusyProcessIsFollowedWhenTheQueueKnowsOfTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoreOf(t, mongotest.Options{InMemory: true})
		d := s.open()
		putAll(t, d, plainRecord("holder", wantsScope))
		putAll(t, d, plainRecord("waits", wantsScope), plainRecord("dependent", dependsOn("holder")))
		running := claimAll(t, d, request("owner", 1, "queue"))
		require.Len(t, running, 1)
		time.Sleep(20 * time.Second)
		session, inTx := begin(t, s.client)
		mustEndIn(inTx, t, d, running...)
		require.NoError(t, session.CommitTransaction(t.Context()))
		synctest.Wait()
		d.FollowEnd(t.Context(), driver.LeaseOf(running[0]))
		assert.Equal(t, []string{"queue.waits", "queue.dependent"}, namesOf(claimAll(t, d, request("owner", 10, "queue"))))
	})
}

// The change stream shows the commit, although the function of the job does something else after it.
func TestTheEndInATransactionOfAnIdleProcessIsFollowedAtTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoreOf(t, mongotest.Options{InMemory: true})
		d := s.open()
		putAll(t, d, plainRecord("holder", wantsScope))
		putAll(t, d, plainRecord("waits", wantsScope), plainRecord("dependent", dependsOn("holder")))
		running := claimAll(t, d, request("owner", 10, "queue"))
		require.Len(t, running, 1)
		time.Sleep(time.Minute) // the first sweeps are over
		session, inTx := begin(t, s.client)
		mustEndIn(inTx, t, d, running...)
		synctest.Wait()
		require.Empty(t, claimAll(t, d, request("owner", 10, "queue")))
		assert.Zero(t, since(func() {
			require.NoError(t, session.CommitTransaction(t.Context()))
			synctest.Wait()
			assert.ElementsMatch(t, []string{"queue.waits", "queue.dependent"}, namesOf(claimAll(t, d, request("owner", 10, "queue"))))
		}))
	})
}

func TestTheEndInATransactionOfAProcessThatDiedIsFollowedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoreOf(t, mongotest.Options{InMemory: true})
		other := s.open(func(o *mongodb.Options) { o.Client = s.connect() })
		d := s.open()
		putAll(t, d, plainRecord("holder", wantsScope))
		putAll(t, d, plainRecord("waits", wantsScope), plainRecord("dependent", dependsOn("holder")))
		running := claimAll(t, d, request("owner", 1, "queue"))
		require.Len(t, running, 1)
		require.Empty(t, claimAll(t, other, request("other", 10, "queue")))
		session, inTx := begin(t, s.client)
		mustEndIn(inTx, t, d, running...)
		require.NoError(t, d.Close(t.Context())) // it is too late for it to follow
		require.NoError(t, session.CommitTransaction(t.Context()))
		time.Sleep(7 * time.Second)
		assert.ElementsMatch(t, []string{"queue.waits", "queue.dependent"}, namesOf(claimAll(t, other, request("other", 10, "queue"))))
	})
}

// A caller in another process that waits for the job has no other way to hear of its end.
func TestSubscribersOfOtherProcessesHearOfAnEndInATransactionAtItsCommit(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		s := newTransactionalStore(t)
		d := s.open()
		other := s.open(func(o *mongodb.Options) { o.Client = s.connect() })
		heard := make(chan struct{}, 100)
		defer other.Subscribe(func(driver.Change) { heard <- struct{}{} })()
		putAll(t, d, plainRecord("job"))
		running := claimAll(t, d, request("owner", 1, "queue"))
		require.Len(t, running, 1)
		session, inTx := begin(t, s.client)
		mustEndIn(inTx, t, d, running...)
		if serverURI == "" {
			synctest.Wait()
		}
		for len(heard) > 0 {
			<-heard
		}
		require.NoError(t, session.CommitTransaction(t.Context()))
		<-heard
	})
}

func TestALeaseThatAnotherProcessTookCannotEndInATransaction(t *testing.T) {
	for name, hasSnapshot := range map[string]bool{"before the transaction": false, "since the transaction began": true} {
		t.Run(name, func(t *testing.T) {
			s := newOwnStore(t)
			d, other := s.open(), s.open()
			putAll(t, d, plainRecord("job", wantsScope))
			running := claimAll(t, d, request("owner", 1, "queue"))
			require.Len(t, running, 1)
			session, inTx := begin(t, s.client)
			if hasSnapshot {
				require.NoError(t, s.writeOwn(inTx))
			}
			endLeases(t, s.jobs(true), time.Hour)
			require.Equal(t, 1, recoverStale(t, other))
			theirs := claimAll(t, other, request("other", 1, "queue"))
			require.Len(t, theirs, 1)
			errs, err := endIn(inTx, d, running...)
			require.NoError(t, err)
			require.ErrorIs(t, errs[0], driver.ErrLeaseLost)
			if hasSnapshot {
				require.Error(t, session.CommitTransaction(t.Context()), "the server has aborted it")
			} else {
				require.NoError(t, session.CommitTransaction(t.Context()))
			}
			endAll(t, other, theirs...)
			r, err := d.Get(t.Context(), "queue", "job")
			require.NoError(t, err)
			assert.Equal(t, "other", r.Status.Owner)
		})
	}
}

// The lease runs out while the transaction is open.
func TestALeaseCannotBeTakenFromATransactionThatEndsTheJob(t *testing.T) {
	for name, commits := range map[string]bool{"it commits": true, "it rolls back": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStoreOf(t, mongotest.Options{InMemory: true})
				d, other := s.open(), s.open(func(o *mongodb.Options) { o.Client = s.connect() })
				putAll(t, d, plainRecord("job"))
				running := claimAll(t, d, request("owner", 1, "queue"))
				require.Len(t, running, 1)
				endLeases(t, s.jobs(true), time.Hour)
				session, inTx := begin(t, s.client)
				mustEndIn(inTx, t, d, running...)
				assert.Zero(t, recoverStale(t, other))
				if commits {
					require.NoError(t, session.CommitTransaction(t.Context()))
				} else {
					require.NoError(t, session.AbortTransaction(t.Context()))
				}
				time.Sleep(40 * time.Second)
				assert.Equal(t, !commits, recoverStale(t, other) == 1)
			})
		})
	}
}

// A renewal of the lease since the transaction began makes the server refuse the end. The client repeats
// the transaction, and the queue does not renew the lease any more.
func TestARenewalSinceTheTransactionBeganRepeatsIt(t *testing.T) {
	s := newOwnStore(t)
	d := s.open()
	putAll(t, d, plainRecord("job"))
	running := claimAll(t, d, request("owner", 1, "queue"))
	require.Len(t, running, 1)
	session, err := s.client.StartSession()
	require.NoError(t, err)
	defer session.EndSession(t.Context())
	tries := 0
	_, err = session.WithTransaction(t.Context(), func(ctx mongo.SessionContext) (any, error) {
		tries++
		if failure := s.writeOwn(ctx); failure != nil {
			return nil, failure
		}
		if tries == 1 {
			lost, failure := d.Extend(t.Context(), []driver.Lease{driver.LeaseOf(running[0])}, 2*time.Minute)
			require.NoError(t, failure)
			require.Empty(t, lost)
		}
		errs, failure := endIn(ctx, d, running...)
		if failure == nil {
			require.NoError(t, errs[0])
		}
		return nil, failure
	})
	require.NoError(t, err)
	assert.Equal(t, 2, tries)
	r, err := d.Get(t.Context(), "queue", "job")
	require.NoError(t, err)
	assert.True(t, driver.HasEndedUnder(r, driver.LeaseOf(running[0])))
}

// If the end is the first statement of the transaction, no renewal before it is in its way.
func TestAnEndAtTheBeginningOfATransactionMeetsNoRenewal(t *testing.T) {
	s := newOwnStore(t)
	d := s.open()
	putAll(t, d, plainRecord("job"))
	running := claimAll(t, d, request("owner", 1, "queue"))
	require.Len(t, running, 1)
	session, inTx := begin(t, s.client)
	lost, err := d.Extend(t.Context(), []driver.Lease{driver.LeaseOf(running[0])}, 2*time.Minute)
	require.NoError(t, err)
	require.Empty(t, lost)
	mustEndIn(inTx, t, d, running...)
	require.NoError(t, s.writeOwn(inTx))
	require.NoError(t, session.CommitTransaction(t.Context()))
}

// A renewal that was sent before the queue knew of the transaction waits for it.
func TestRenewalsOfOtherLeasesPassAnEndInAnOpenTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoreOf(t, mongotest.Options{InMemory: true})
		d := s.open()
		putAll(t, d, plainRecord("ends"), plainRecord("other"))
		running := claimAll(t, d, request("owner", 20, "queue"))
		require.Len(t, running, 2)
		session, inTx := begin(t, s.client)
		mustEndIn(inTx, t, d, running[0])
		time.Sleep(time.Second) // otherwise renewing changes nothing
		leases := []driver.Lease{driver.LeaseOf(running[0]), driver.LeaseOf(running[1])}
		assert.LessOrEqual(t, since(func() {
			lost, err := d.Extend(t.Context(), leases, 2*time.Minute)
			var blocked *driver.BlockedLeasesError
			require.ErrorAs(t, err, &blocked)
			assert.Equal(t, leases[:1], blocked.Leases)
			assert.Empty(t, lost)
		}), 3100*time.Millisecond)
		assert.WithinDuration(t, time.Now().Add(2*time.Minute), s.document("queue.other")["lease_until"].(interface{ Time() time.Time }).Time(), 5*time.Second)
		require.NoError(t, session.CommitTransaction(t.Context()))
	})
}

// The driver knew the jobs as they were when it claimed them.
func TestAnEndInATransactionOfAJobThatHasChangedSinceItsClaim(t *testing.T) {
	s := newOwnStore(t)
	d := s.open()
	putAll(t, d, plainRecords(3)...)
	running := claimAll(t, d, request("owner", 3, "queue"))
	require.Len(t, running, 3)
	require.NoError(t, d.Save(t.Context(), running[1]))
	session, inTx := begin(t, s.client)
	mustEndIn(inTx, t, d, running...)
	errs, err := endIn(inTx, d, running...)
	require.NoError(t, err)
	for _, err := range errs {
		require.ErrorIs(t, err, driver.ErrLeaseLost, "it has ended in this transaction")
	}
	require.NoError(t, session.CommitTransaction(t.Context()))
	for _, r := range running {
		stored, err := d.Get(t.Context(), "queue", r.JobID())
		require.NoError(t, err)
		assert.True(t, driver.HasEndedUnder(stored, driver.LeaseOf(r)), r.Name)
	}
}

func TestAnEndInATransactionTakesOneCommand(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		s := newTransactionalStore(t)
		d := s.open()
		putAll(t, d, plainRecord("job", wantsScope))
		running := claimAll(t, d, request("owner", 1, "queue"))
		require.Len(t, running, 1)
		session, inTx := begin(t, s.client)
		if serverURI == "" {
			synctest.Wait()
		}
		assert.Equal(t, []string{"update work.group"}, s.commands(func() { mustEndIn(inTx, t, d, running...) }))
		require.NoError(t, session.CommitTransaction(t.Context()))
	})
}

func TestAnEndInATransactionOfAnotherClientIsForeign(t *testing.T) {
	s := newTransactionalStore(t)
	d := s.open()
	putAll(t, d, plainRecord("job"))
	running := claimAll(t, d, request("owner", 1, "queue"))
	require.Len(t, running, 1)
	session, inTx := begin(t, s.connect())
	_, err := endIn(inTx, d, running...)
	require.ErrorIs(t, err, driver.ErrForeignTransaction)
	require.NoError(t, session.AbortTransaction(t.Context()))
	mustEndIn(t.Context(), t, d, running...)
}

func TestAnEndInATransactionThatWasNotCommittedIsForgotten(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		s := newTransactionalStore(t)
		d := s.open()
		putAll(t, d, plainRecord("holder", wantsScope))
		putAll(t, d, plainRecord("waits", wantsScope))
		running := claimAll(t, d, request("owner", 1, "queue"))
		require.Len(t, running, 1)
		session, inTx := begin(t, s.client)
		mustEndIn(inTx, t, d, running...)
		require.NoError(t, session.AbortTransaction(t.Context()))
		assert.Empty(t, claimAll(t, d, request("owner", 1, "queue")))
		endAll(t, d, running...)
		assert.Empty(t, s.commands(func() { d.FollowEnd(t.Context(), driver.LeaseOf(running[0])) }))
		assert.Equal(t, []string{"queue.waits"}, namesOf(claimAll(t, d, request("owner", 10, "queue"))))
	})
}

// The driver kept each job that had ended in a transaction in memory until its lease would have ended.
func TestTheLeasesOfJobsThatEndedInTransactionsStayedInMemory(t *testing.T) {
	s := newTransactionalStore(t)
	d := s.open()
	putAll(t, d, plainRecord("job"))
	running := claimAll(t, d, request("owner", 1, "queue"))
	require.Len(t, running, 1)
	session, inTx := begin(t, s.client)
	mustEndIn(inTx, t, d, running...)
	require.NoError(t, session.CommitTransaction(t.Context()))
	d.FollowEnd(t.Context(), driver.LeaseOf(running[0]))
	assert.Zero(t, mongodb.KnownLeases(d))
}

func TestProgressInATransactionDoesNotKeepTheJobFromEndingInIt(t *testing.T) {
	s := newOwnStore(t)
	d := s.open()
	putAll(t, d, plainRecord("job"))
	running := claimAll(t, d, request("owner", 1, "queue"))
	require.Len(t, running, 1)
	session, inTx := begin(t, s.client)
	require.NoError(t, s.writeOwn(inTx))
	require.NoError(t, d.SetProgress(inTx, driver.LeaseOf(running[0]), driver.Progress{}))
	mustEndIn(inTx, t, d, running...)
	require.NoError(t, session.CommitTransaction(t.Context()))
}

// No process hears of what the transaction has put, because all workers are busy, and the job was not marked as one
// with dependents. The dependent waited for up to a minute.
func TestAJobThatAnEndingJobPutInItsTransactionToWaitForItRunsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoreOf(t, mongotest.Options{InMemory: true})
		d := s.open()
		ending := makeBusy(t, d)
		session, inTx := begin(t, s.client)
		insertIn(inTx, t, d, plainRecord("dependent", dependsOn("job")))
		mustEndIn(inTx, t, d, ending)
		require.NoError(t, session.CommitTransaction(t.Context()))
		d.FollowEnd(t.Context(), driver.LeaseOf(ending))
		assert.Equal(t, []string{"queue.dependent"}, namesOf(claimAll(t, d, request("owner", 10, "queue"))))
	})
}

// What followed from an end without a transaction made the driver forget the end of the job's next run, in a transaction:
// the dependent waited for a sweep.
func TestTheEndOfARunMadeTheDriverForgetTheEndOfTheNextRunInATransaction(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		var armed atomic.Bool
		written, goesOn := make(chan struct{}), make(chan struct{})
		client := watched(t, s, &event.CommandMonitor{Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			if e.CommandName == "update" && armed.CompareAndSwap(true, false) {
				close(written)
				<-goesOn
			}
		}})
		d := openOn(t, s, func(o *mongodb.Options) { o.Client = client })
		putAll(t, d, plainRecord("job"))
		first := claimAll(t, d, request("owner", 1, "queue"))
		require.Len(t, first, 1)
		first[0].Status.AddError(errors.New("it failed"), 0, time.Now())
		var ending sync.WaitGroup
		armed.Store(true)
		ending.Go(func() { endAll(t, d, first...) })
		<-written
		require.Equal(t, 1, act(t, d, driver.Action{Kind: driver.Restart}).Done)
		putAll(t, d, plainRecord("dependent", dependsOn("job")))
		second := claimAll(t, d, request("owner", 1, "queue"))
		require.Equal(t, []string{"queue.job"}, namesOf(second))
		session, inTx := begin(t, client)
		mustEndIn(inTx, t, d, second...)
		close(goesOn)
		ending.Wait()
		require.NoError(t, session.CommitTransaction(t.Context()))
		d.FollowEnd(t.Context(), driver.LeaseOf(second[0]))
		synctest.Wait()
		assert.Equal(t, []string{"queue.dependent"}, namesOf(claimAll(t, d, request("owner", 1, "queue"))))
	})
}

// The end that was rolled back stayed in memory, with the job.
func TestAnEndInATransactionOfAJobThatWasHandedBackIsForgotten(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		s := newTransactionalStore(t)
		d := s.open()
		putAll(t, d, plainRecord("holder", wantsScope))
		running := claimAll(t, d, request("owner", 1, "queue"))
		require.Len(t, running, 1)
		session, inTx := begin(t, s.client)
		mustEndIn(inTx, t, d, running...)
		require.NoError(t, session.AbortTransaction(t.Context()))
		errs, err := d.Release(t.Context(), []driver.HandBack{{Lease: driver.LeaseOf(running[0])}})
		require.NoError(t, err)
		require.NoError(t, errs[0])
		if serverURI == "" {
			synctest.Wait()
		}
		assert.Empty(t, s.commands(func() { d.FollowEnd(t.Context(), driver.LeaseOf(running[0])) }))
	})
}

// It waits for the end of the transaction, as a Put of the same ID does. It failed after a second.
func TestAPutOfADependentOfAJobThatEndsInAnOpenTransactionFailed(t *testing.T) {
	for name, commits := range map[string]bool{"it commits": true, "it rolls back": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStoreOf(t, mongotest.Options{InMemory: true})
				d := s.open()
				putAll(t, d, plainRecord("job"))
				ending := claimAll(t, d, request("owner", 1, "queue"))
				require.Len(t, ending, 1)
				session, inTx := begin(t, s.client)
				mustEndIn(inTx, t, d, ending...)
				ends := session.AbortTransaction
				if commits {
					ends = session.CommitTransaction
				}
				ended := make(chan error, 1)
				time.AfterFunc(5*time.Second, func() { ended <- ends(t.Context()) })
				putAll(t, d, plainRecord("dependent", dependsOn("job")))
				require.NoError(t, <-ended)
				claimed := claimAll(t, d, request("owner", 10, "queue"))
				if commits {
					assert.Equal(t, []string{"queue.dependent"}, namesOf(claimed))
					return
				}
				require.Empty(t, claimed)
				endAll(t, d, ending...)
				assert.Equal(t, []string{"queue.dependent"}, namesOf(claimAll(t, d, request("owner", 10, "queue"))))
			})
		})
	}
}
