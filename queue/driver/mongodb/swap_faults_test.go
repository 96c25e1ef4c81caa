package mongodb_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver"
)

// act does an action to the job, or to all of its attempts if it is deleted.
func act(t *testing.T, d driver.Driver, a driver.Action) driver.Acted {
	t.Helper()
	return actOn(t, d, "job", a)
}

func actOn(t *testing.T, d driver.Driver, id string, a driver.Action) driver.Acted {
	t.Helper()
	latest := a.Kind != driver.Delete
	acted, err := d.Act(t.Context(), driver.ActRequest{
		Query: driver.Query{Latest: latest, Queues: []string{"queue"}, JobIDs: []string{id}}, Action: a, Limit: 10,
	})
	require.NoError(t, err)
	return acted
}

// cancelAndDelete ends the job for good and removes it.
func cancelAndDelete(t *testing.T, d driver.Driver) {
	t.Helper()
	require.Equal(t, 1, act(t, d, driver.Action{Kind: driver.Cancel}).Done)
	act(t, d, driver.Action{Kind: driver.Delete})
}

// beforeCommand makes a call before the first command of a name about the jobs is served.
func beforeCommand(s *mongotest.Deployment, name string, call func()) {
	var called atomic.Bool
	s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
		if c.AppName == s.Database() && c.Collection == "work.group" && c.Name == name && !called.Swap(true) {
			call()
		}
		return mongotest.Served
	})
}

// runsNothing requires that no job can be claimed, even after sweeps.
func runsNothing(t *testing.T, d driver.Driver) {
	t.Helper()
	time.Sleep(30 * time.Second)
	assert.Empty(t, names(claimAll(t, d, request("owner", 10, "queue"))))
}

// An operator cancels and deletes the job while a retry is between two of its commands. The unique
// index of IDs then no longer kept the next attempt from taking over without the one before.
func TestACanceledAndDeletedJobRanBecauseItsRetryWasUnderWay(t *testing.T) {
	for _, command := range []string{"insert", "update"} {
		t.Run("before "+command, func(t *testing.T) {
			inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
				d, other := openOn(t, s), openOn(t, s)
				failed, next := awaitingRetry(t, d)
				beforeCommand(s, command, func() { cancelAndDelete(t, other) })
				require.ErrorIs(t, d.Retry(t.Context(), failed, next), driver.ErrLeaseLost)
				runsNothing(t, other)
			})
		})
	}
}

func TestCanceledAndDeletedJobsRanBecauseTheirRetriesWereUnderWay(t *testing.T) {
	for _, command := range []string{"insert", "update"} {
		t.Run("before "+command, func(t *testing.T) {
			inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
				d, other := openOn(t, s), openOn(t, s)
				pairs := awaitingRetries(t, d, 5, fails)
				var n atomic.Int32
				s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
					if c.Collection == "work.group" && c.Name == command && n.Add(1) == 2 { // the first is that of the first call
						for _, kind := range []driver.ActionKind{driver.Cancel, driver.Delete} {
							_, err := other.Act(t.Context(), driver.ActRequest{
								Query: driver.Query{Queues: []string{"queue"}, States: []amboy.JobState{amboy.StateRetrying, amboy.StateCanceled}}, Action: driver.Action{Kind: kind}, Limit: 10,
							})
							assert.NoError(t, err)
						}
					}
					return mongotest.Served
				})
				retried := 0
				for _, err := range retryAll(t.Context(), d, pairs...) {
					if err == nil {
						retried++
						continue
					}
					require.ErrorIs(t, err, driver.ErrLeaseLost)
				}
				require.LessOrEqual(t, retried, 1)
				time.Sleep(30 * time.Second)
				assert.Len(t, claimAll(t, other, request("owner", 10, "queue")), retried)
			})
		})
	}
}

// Its process died after it had stored the next attempt.
func TestACanceledAndDeletedJobRanBecauseOfAnInterruptedRetry(t *testing.T) {
	for _, forgets := range []bool{true, false} {
		inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
			p, dieBefore := newDying(t, s)
			d := openOn(t, s)
			require.Empty(t, claimAll(t, d, request("owner", 1, "queue"))) // from then on it sweeps
			failed, next := awaitingRetry(t, p)
			dieBefore("update", 1)
			require.Error(t, p.Retry(t.Context(), failed, next))
			require.True(t, p.isDead())
			if forgets {
				require.Equal(t, 1, act(t, d, driver.Action{Kind: driver.Cancel, ForgetAt: time.Now()}).Done)
			} else {
				cancelAndDelete(t, d)
			}
			_, err := d.Forget(t.Context(), time.Now(), 10)
			require.NoError(t, err)
			runsNothing(t, d)
			n, err := d.Forget(t.Context(), time.Now(), 10)
			require.NoError(t, err)
			assert.Equal(t, 1, n, "nothing is in its way any more")
			putAll(t, d, plainRecord("job", func(r *driver.Record) { r.RetryInfo, r.Name = failed.RetryInfo, failed.Name }))
		})
	}
}

// A command of the retry lands after the job was canceled and deleted.
func TestACanceledJobRanBecauseOfALateRetry(t *testing.T) {
	for _, command := range []string{"insert", "update"} {
		t.Run(command, func(t *testing.T) {
			inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
				d, other := openOn(t, s), openOn(t, s)
				failed, next := awaitingRetry(t, d)
				s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
					if c.Collection == "work.group" && c.Name == command {
						return mongotest.Late
					}
					return mongotest.Served
				})
				require.ErrorIs(t, d.Retry(t.Context(), failed, next), driver.ErrOutcomeUnknown)
				s.Server().Intercept(nil)
				cancelAndDelete(t, other)
				_, err := other.Forget(t.Context(), time.Now(), 10)
				require.NoError(t, err)
				s.Server().RunLate()
				runsNothing(t, other)
			})
		})
	}
}

// A process died in a retry. Then the job was ended for good and restarted, or deleted and put again, and
// failed once more.
func TestARetryUsedTheNextAttemptOfAnEarlierRun(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		p, dieBefore := newDying(t, s)
		d := openOn(t, s)
		failed, next := awaitingRetry(t, d, func(r *driver.Record) { fails(0, r) })
		dieBefore("update", 1)
		require.Error(t, p.Retry(t.Context(), failed, next))
		require.NoError(t, d.EndRetry(t.Context(), failed))
		require.Equal(t, 1, act(t, d, driver.Action{Kind: driver.Restart}).Done)
		running := claimAll(t, d, request("owner", 1, "queue"))
		require.Len(t, running, 1)
		ended := *running[0]
		ended.RetryInfo.NeedsRetry = true
		endAll(t, d, &ended)
		ended.Status.Completed, ended.Status.InProgress = true, false
		again := *next
		again.Priority = 7
		require.NoError(t, d.Retry(t.Context(), &ended, &again))
		running = claimAll(t, d, request("owner", 1, "queue"))
		require.Equal(t, []string{next.Name}, names(running))
		assert.Equal(t, 7, running[0].Priority)
		endAll(t, d, running...)
		runsNothing(t, d)
	})
}

// Attempts that were replaced are removed at once if retention says so. The first of them keeps the
// job's ID from being taken while its attempts change places.
func TestAnAttemptWasRemovedWhileTheNextOneWaitedToTakeItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, next, release := interruptedSwap(t)
		act(t, d, driver.Action{Kind: driver.Delete})
		_, err := d.Forget(t.Context(), time.Now(), 1)
		require.NoError(t, err)
		again := *next
		again.RetryInfo.CurrentAttempt = 0
		again.Name = driver.RecordName("queue", "job", again.RetryInfo)
		errs, err := d.Insert(t.Context(), []*driver.Record{&again})
		require.NoError(t, err)
		assert.True(t, amboy.IsDuplicateJobError(errs[0]), errs[0])
		release()
		takesItsPlace(t, d, next)
		n, err := d.Forget(t.Context(), time.Now(), 10)
		require.NoError(t, err)
		assert.Equal(t, 1, n)
	})
}

// makeLegacy makes an attempt one that the legacy library stored and ended.
func makeLegacy(t *testing.T, s *mongotest.Deployment, name string) {
	t.Helper()
	_, err := s.Collection("work.group").UpdateOne(t.Context(), bson.M{"_id": name}, bson.M{"$unset": bson.M{"job_id": 1, "order": 1, "rev": 1, "line": 1}})
	require.NoError(t, err)
}

// Such a job has no ID of its own by which to see that it was not replaced.
func TestAJobOfTheLegacyLibraryRanAfterItWasEndedForGood(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, d driver.Driver, failed *driver.Record){
		"canceled": func(t *testing.T, d driver.Driver, _ *driver.Record) {
			t.Helper()
			q := driver.Query{Queues: []string{"queue"}, States: []amboy.JobState{amboy.StateRetrying}}
			acted, err := d.Act(t.Context(), driver.ActRequest{Query: q, Action: driver.Action{Kind: driver.Cancel}, Limit: 10})
			require.NoError(t, err)
			require.Equal(t, 1, acted.Done)
		},
		"ended": func(t *testing.T, d driver.Driver, failed *driver.Record) {
			t.Helper()
			require.NoError(t, d.EndRetry(t.Context(), failed))
		},
	} {
		for _, dies := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
					d := openOn(t, s)
					p, dieBefore := newDying(t, s)
					failed, next := awaitingRetry(t, d)
					makeLegacy(t, s, failed.Name)
					if dies {
						dieBefore("update", 1)
						require.Error(t, p.Retry(t.Context(), failed, next))
						end(t, d, failed)
					} else {
						beforeCommand(s, "update", func() { end(t, p, failed) })
						require.ErrorIs(t, d.Retry(t.Context(), failed, next), driver.ErrLeaseLost)
					}
					runsNothing(t, d)
				})
			})
		}
	}
}

func TestADependentOfALegacyJobThatIsRetriedWaitedForASweep(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d, other := openOn(t, s), openOn(t, s)
		failed, next := awaitingRetry(t, d)
		makeLegacy(t, s, failed.Name)
		beforeCommand(s, "update", func() { putAll(t, other, plainRecord("waits", dependsOn("job"))) })
		require.NoError(t, d.Retry(t.Context(), failed, next))
		running := claimAll(t, d, request("owner", 10, "queue"))
		require.Equal(t, []string{next.Name}, names(running))
		endAll(t, d, running...)
		assert.Equal(t, []string{"queue.waits"}, names(claimAll(t, d, request("owner", 10, "queue"))))
	})
}

// keyed makes a record keep others with its unique key from being put.
func keyed(r *driver.Record) { r.UniqueKey = "key" }

// putOfTheKey reports whether another job of the unique key can be put.
func putOfTheKey(t *testing.T, d driver.Driver) bool {
	t.Helper()
	errs, err := d.Insert(t.Context(), []*driver.Record{plainRecord("other", keyed)})
	assert.NoError(t, err)
	return errs[0] == nil
}

// A dependent was put while a retry was between its two steps. The retry then gave up its transaction,
// although that had only met a change.
func TestAUniqueKeyWasTakenFromAJobWhoseRetryMetAChange(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d, other := openOn(t, s), openOn(t, s)
		failed, next := awaitingRetry(t, d, keyed)
		var mu sync.Mutex
		updates, busy, taken := 0, false, false
		s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
			if c.Collection != "work.group" || c.Name != "update" {
				return mongotest.Served
			}
			mu.Lock()
			defer mu.Unlock()
			if busy {
				return mongotest.Served
			}
			updates++
			n := updates
			busy = true
			mu.Unlock()
			if n == 1 {
				putAll(t, other, plainRecord("waits", dependsOn("job")))
			} else if !taken {
				taken = putOfTheKey(t, other)
			}
			mu.Lock()
			busy = false
			return mongotest.Served
		})
		require.NoError(t, d.Retry(t.Context(), failed, next))
		assert.False(t, taken)
		assert.False(t, putOfTheKey(t, other))
	})
}

// A server that steps down refuses single statements, as it does for duplicates.
func TestAUniqueKeyWasTakenFromAJobWhoseRetryMetAStepDown(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d, other := openOn(t, s), openOn(t, s)
		failed, next := awaitingRetry(t, d, keyed)
		var updates atomic.Int32
		var taken atomic.Bool
		s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
			if c.Collection == "work.group" && c.Name == "update" {
				switch updates.Add(1) {
				case 1:
					return mongotest.Deposed
				default:
					if putOfTheKey(t, other) {
						taken.Store(true)
					}
				}
			}
			return mongotest.Served
		})
		retryUntilSettled(t, d, failed, next)
		s.Server().Intercept(nil)
		assert.False(t, taken.Load())
		assert.False(t, putOfTheKey(t, other))
		time.Sleep(11 * time.Second)
		assert.Equal(t, []string{next.Name}, names(claimAll(t, d, request("owner", 10, "queue"))))
	})
}

// The next attempt has a scope that the one before has not, and another job takes it just before the
// next one takes over.
func TestARetryThatWaitsForANewScopeIsMade(t *testing.T) {
	for name, kind := range map[string]mongotest.Option{"replica set": mongotest.InMemory(), "standalone": mongotest.Standalone()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mongotest.Open(t, mongotest.InMemory(), kind)
				d, other := openOn(t, s), openOn(t, s)
				failed, next := awaitingRetry(t, d)
				takesScope(next)
				beforeCommand(s, "update", func() { putAll(t, other, plainRecord("holder", takesScope)) })
				err := d.Retry(t.Context(), failed, next)
				if err != nil {
					require.ErrorIs(t, err, driver.ErrOutcomeUnknown)
				}
				running := claimAll(t, d, request("owner", 10, "queue"))
				require.Equal(t, []string{"queue.holder"}, names(running))
				endAll(t, d, running...)
				takesItsPlace(t, d, next)
			})
		})
	}
}

// The answer to the last write of a retry is lost.
func TestNobodyHeardOfARetryWhoseAnswerWasLost(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d := openOn(t, s)
		failed, next := awaitingRetry(t, d)
		var heard atomic.Int32
		defer d.Subscribe(func(driver.Change) { heard.Add(1) })()
		synctest.Wait()
		beforeCommand(s, "update", func() { heard.Store(0) })
		s.Fail(mongotest.Failure{Commands: []string{"update"}, WriteConcernCode: 91, Times: 1})
		require.NoError(t, d.Retry(t.Context(), failed, next))
		synctest.Wait()
		assert.Positive(t, heard.Load())
	})
}

// An operator acts on a job at the moment when an attempt has ended and the next one has not taken its
// place.
func TestAnActionDidNothingToAJobWhoseAttemptsChangedPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for kind, want := range map[driver.ActionKind]amboy.JobState{driver.Cancel: amboy.StateCanceled, driver.Park: amboy.StateParked} {
			d, next, release := interruptedSwap(t)
			release()
			assert.Equal(t, driver.Acted{Done: 1}, act(t, d, driver.Action{Kind: kind}))
			r, err := d.Get(t.Context(), "queue", "job")
			require.NoError(t, err)
			assert.Equal(t, next.Name, r.Name)
			assert.Equal(t, want, driver.StateOf(r, time.Now()))
			runsNothing(t, d)
		}
	})
}

// The retries are made with several updates, of which one in the middle fails.
func TestRetriesOfWhichOneCommandFailed(t *testing.T) {
	for name, fate := range map[string]mongotest.Fate{"unanswered": mongotest.Unanswered, "late": mongotest.Late, "deposed": mongotest.Deposed} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
				d := openOn(t, s)
				pairs := awaitingRetries(t, d, 230, fails)
				var n atomic.Int32
				s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
					if c.Collection == "work.group" && c.Name == "update" && n.Add(1) == 3 { // the first is that of the first call
						return fate
					}
					return mongotest.Served
				})
				for _, err := range retryAll(t.Context(), d, pairs...) {
					require.NoError(t, err)
				}
				s.Server().Intercept(nil)
				s.Server().RunLate()
				hasAttempts(t, d, pairs...)
			})
		})
	}
}

// The answer to the update was lost, what it wrote was read, and then it was rolled back.
func TestARetryThatWasRolledBackWasConfirmed(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d := openOn(t, s)
		failed, next := awaitingRetry(t, d)
		var lost, rolledBack atomic.Bool
		s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
			if c.Collection == "work.group" && c.Name == "update" && !lost.Swap(true) {
				s.Server().HoldReplication()
				return mongotest.Unanswered
			}
			return mongotest.Served
		})
		go func() {
			time.Sleep(10 * time.Second)
			rolledBack.Store(true)
			s.Server().FailOver()
		}()
		err := d.Retry(t.Context(), failed, next)
		require.True(t, err != nil || rolledBack.Load())
		if err != nil {
			require.ErrorIs(t, err, driver.ErrOutcomeUnknown)
		}
		takesItsPlace(t, d, next)
	})
}

// A call whose outcome was unknown is repeated.
func TestARepeatedRetryLeftTheNextAttemptToASweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, next, release := interruptedSwap(t)
		release()
		failed := *next
		failed.RetryInfo.CurrentAttempt = 0
		failed.Name = driver.RecordName("queue", "job", failed.RetryInfo)
		require.ErrorIs(t, d.Retry(t.Context(), &failed, next), driver.ErrLeaseLost)
		assert.Equal(t, []string{next.Name}, names(claimAll(t, d, request("owner", 1, "queue"))))
	})
}

// The attempt before changes once more before the majority is known to have what was written.
func TestARetryWasNotConfirmedBecauseOfAnotherChange(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d := openOn(t, s)
		failed, next := awaitingRetry(t, d)
		var n atomic.Int32
		s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
			if c.Collection != "work.group" || c.Name != "update" {
				return mongotest.Served
			}
			switch n.Add(1) {
			case 1:
				return mongotest.Unanswered
			case 2:
				_, err := s.Collection("work.group").UpdateOne(t.Context(), bson.M{"_id": failed.Name}, bson.M{"$inc": bson.M{"rev": 1}})
				assert.NoError(t, err)
			}
			return mongotest.Served
		})
		require.NoError(t, d.Retry(t.Context(), failed, next))
		assert.Equal(t, []string{next.Name}, names(claimAll(t, d, request("owner", 1, "queue"))))
	})
}
