package mongodb_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// A claim did not know if an earlier one had taken a job, because a transaction was in the way.
// It then took that job itself, under the lease that the earlier one would have had, and the next claim
// handed it back while it ran.
func TestAClaimHandedBackAJobThatWasClaimedAfterADoubtfulClaim(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d := openOn(t, s)
		putAll(t, d, plainRecord("job"))
		touch := func() (end func()) {
			session, inTx := begin(t, s.Client())
			_, err := s.Client().Database(s.Database()).Collection("work.group").UpdateOne(inTx, bson.M{"_id": "queue.job"}, bson.M{"$set": bson.M{"touched": true}})
			require.NoError(t, err)
			return func() { require.NoError(t, session.AbortTransaction(t.Context())) }
		}
		end := touch()
		require.Empty(t, claimAll(t, d, request("owner", 1, "queue")))
		end()
		pass(2 * time.Minute) // the process was suspended
		end = touch()
		ended := make(chan struct{})
		time.AfterFunc(1100*time.Millisecond, func() { // after the claim gave up to undo the earlier one
			defer close(ended)
			end()
		})
		running := claimAll(t, d, request("owner", 1, "queue"))
		<-ended
		require.Equal(t, []string{"queue.job"}, names(running))
		putAll(t, d, plainRecord("other"))
		require.Equal(t, []string{"queue.other"}, names(claimAll(t, d, request("owner", 1, "queue"))))
		endAll(t, d, running...)
		assert.Empty(t, claimAll(t, d, request("owner", 1, "queue")))
	})
}

// operate does an action to all attempts of the job, or to the latest one, and requires that it is done.
func operate(t *testing.T, d driver.Driver, kind driver.ActionKind) {
	t.Helper()
	require.Positive(t, act(t, d, driver.Action{Kind: kind}).Done, kind)
}

// limited makes a record want a scope that may have one holder.
func limited(r *driver.Record) { r.RequiredScopes = []string{amboy.LimitScope("limited", 1)} }

// A claim read a job and was suspended. The job ran, and one of its ID with a limited scope was put, which the
// claim then took without a slot.
func TestAClaimTookALaterJobOfTheSameIDBeyondItsLimit(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d, other := openOn(t, s), openOn(t, s)
		putAll(t, d, plainRecord("job"))
		beforeCommand(s, "update", func() {
			endAll(t, other, claimAll(t, other, request("other", 1, "queue"))...)
			operate(t, other, driver.Delete)
			putAll(t, other, plainRecord("job", limited), plainRecord("next", limited))
		})
		running := claimAll(t, d, request("owner", 1, "queue"))
		running = append(running, claimAll(t, other, request("other", 1, "queue"))...)
		assert.Len(t, running, 1)
	})
}

// A claim made a job wait for a scope that an earlier job of its ID had wanted.
func TestAJobWaitedForAScopeOfAnEarlierJobOfItsID(t *testing.T) {
	again := func(t *testing.T, d driver.Driver) {
		t.Helper()
		operate(t, d, driver.Cancel)
		operate(t, d, driver.Delete)
		time.Sleep(time.Millisecond) // so that the order of the new job differs
		putAll(t, d, plainRecord("job"))
	}
	t.Run("after a claim", func(t *testing.T) {
		inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
			d, other := openOn(t, s, func(o *mongodb.Options) { o.ClaimWindow = 10 }), openOn(t, s)
			putAll(t, d, plainRecord("holder", wantsScope, func(r *driver.Record) { r.Priority = 1 }))
			putAll(t, d, plainRecord("job", wantsScope))
			beforeCommand(s, "update", func() { again(t, other) })
			require.Equal(t, []string{"queue.holder"}, names(claimAll(t, d, request("owner", 1, "queue"))))
			assert.Equal(t, []string{"queue.job"}, names(claimAll(t, other, request("other", 1, "queue"))))
		})
	})
	t.Run("after a put", func(t *testing.T) {
		inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
			d, other := openOn(t, s), openOn(t, s)
			putAll(t, d, plainRecord("job", wantsScope))
			beforeCommand(s, "update", func() { again(t, other) })
			putAll(t, d, plainRecord("holder", takesScope))
			assert.ElementsMatch(t, []string{"queue.job", "queue.holder"}, names(claimAll(t, other, request("other", 5, "queue"))))
		})
	})
}

// fates decides what becomes of the commands of some clients about the jobs.
func fates(s *mongotest.Deployment, byClient map[string]func(mongotest.Intercepted) mongotest.Fate) {
	s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
		if f := byClient[c.AppName]; f != nil && c.Collection == "work.group" {
			return f(c)
		}
		return mongotest.Served
	})
}

// once makes a call before the first command of a name.
func once(name string, call func()) func(mongotest.Intercepted) mongotest.Fate {
	var called atomic.Bool
	return func(c mongotest.Intercepted) mongotest.Fate {
		if c.Name == name && !called.Swap(true) {
			call()
		}
		return mongotest.Served
	}
}

// half makes a process die when a server has run the first statement of its first update, unless that is a
// transaction.
func (p *dying) half(s *mongotest.Deployment) func(mongotest.Intercepted) mongotest.Fate {
	return func(c mongotest.Intercepted) mongotest.Fate {
		if c.Name == "update" && !p.isDead() {
			list, _ := c.Command.Lookup("updates").Array().Values()
			if c.Command.Lookup("txnNumber").Type == 0 && len(list) > 1 {
				first := bson.D{{Key: "update", Value: c.Collection}, {Key: "updates", Value: bson.A{list[0]}}}
				if err := s.Client().Database(s.Database()).RunCommand(context.Background(), first).Err(); err != nil {
					panic(err)
				}
			}
			p.die()
		}
		return p.fate(c)
	}
}

// runAgain claims the only job, which fails and awaits its retry.
func runAgain(t *testing.T, d driver.Driver) (failed *driver.Record) {
	t.Helper()
	running := claimAll(t, d, request("owner", 1, "queue"))
	require.Len(t, running, 1)
	ended := *running[0]
	fails(0, &ended)
	ended.RetryInfo.NeedsRetry = true
	endAll(t, d, &ended)
	ended.Status.Completed, ended.Status.InProgress = true, false
	return &ended
}

// stateOf returns the state of the job.
func stateOf(t *testing.T, d driver.Driver) amboy.JobState {
	t.Helper()
	r, err := d.Get(t.Context(), "queue", "job")
	require.NoError(t, err)
	return driver.StateOf(r, time.Now())
}

// A process was about to complete a retry whose process had died, and was suspended. The job ended, was put again
// and failed once more. The process let the next attempt of the later job take its place, beside the attempt
// before it, or removed it while that made way.
func TestACompletedRetryWasThatOfALaterJob(t *testing.T) {
	for _, isSlow := range []bool{true, false} {
		t.Run(fmt.Sprint("the later retry is slow too: ", isSlow), func(t *testing.T) {
			inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
				d, slow, first, second := openOn(t, s), newProcess(t, s, "slow"), newProcess(t, s, "first"), newProcess(t, s, "second")
				failed, next := awaitingRetry(t, d, func(r *driver.Record) { fails(0, r) })
				begins, goesOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
				fates(s, map[string]func(mongotest.Intercepted) mongotest.Fate{
					"first": first.half(s),
					"second": once("update", func() {
						close(begins)
						<-goesOn
					}),
					"slow": once("update", func() {
						act(t, d, driver.Action{Kind: driver.Prioritize})
						endAll(t, d, claimAll(t, d, request("owner", 1, "queue"))...)
						act(t, d, driver.Action{Kind: driver.Delete})
						failed, next = awaitingRetry(t, d, func(r *driver.Record) { fails(0, r) })
						go func() { ended <- second.Retry(t.Context(), failed, next) }()
						<-begins
					}),
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				require.Error(t, first.Retry(ctx, failed, next))
				act(t, slow.Driver, driver.Action{Kind: driver.Prioritize})
				var err error
				if isSlow {
					err = d.Retry(t.Context(), failed, next)
				}
				close(goesOn)
				require.NoError(t, <-ended)
				if isSlow {
					require.ErrorIs(t, err, driver.ErrLeaseLost, "it was completed")
				}
				assert.Equal(t, []string{next.Name}, names(claimAll(t, d, request("owner", 5, "queue"))))
				assert.Equal(t, amboy.StateRunning, stateOf(t, d))
			})
		})
	}
}

// A process was about to end an attempt, whose next one had to wait for a scope, and was suspended. The job was
// ended for good, restarted, and failed once more. The process ended it without a next attempt.
func TestAFailedJobWasNotRetriedBecauseOfARetryOfAnEarlierRun(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d, slow := openOn(t, s), newProcess(t, s, "slow")
		require.Empty(t, claimAll(t, d, request("owner", 1, "queue")))                     // from then on it sweeps
		failed, next := awaitingRetry(t, d, keyed, func(r *driver.Record) { fails(0, r) }) // so that it needs a transaction
		takesScope(next)
		updates := 0
		fates(s, map[string]func(mongotest.Intercepted) mongotest.Fate{"slow": func(c mongotest.Intercepted) mongotest.Fate {
			if c.Name != "update" {
				return mongotest.Served
			}
			updates++
			switch updates {
			case 1:
				putAll(t, d, plainRecord("holder", takesScope, func(r *driver.Record) { r.TimeInfo.WaitUntil = time.Now().Add(time.Hour) }))
			case 2:
				require.NoError(t, d.EndRetry(t.Context(), failed))
				pass(30 * time.Second) // a sweep removes the next attempt
				operate(t, d, driver.Restart)
				failed = runAgain(t, d)
			}
			return mongotest.Served
		}})
		require.ErrorIs(t, slow.Retry(t.Context(), failed, next), driver.ErrLeaseLost)
		require.GreaterOrEqual(t, updates, 2)
		require.Equal(t, amboy.StateRetrying, stateOf(t, d))
		plain := *next
		plain.EnqueueScopes, plain.RequiredScopes = nil, nil
		require.NoError(t, d.Retry(t.Context(), failed, &plain))
	})
}

// A process that was slow to retry a job, or to end its retry, did so after another one had ended it for good
// and the job had failed again, in a run that is to be retried by itself.
func TestALaterRunWasEndedByTheRetryOfAnEarlierOne(t *testing.T) {
	for name, retry := range map[string]func(t *testing.T, d driver.Driver, failed, next *driver.Record) error{
		"retry": func(t *testing.T, d driver.Driver, failed, next *driver.Record) error {
			t.Helper()
			return d.Retry(t.Context(), failed, next)
		},
		"end": func(t *testing.T, d driver.Driver, failed, _ *driver.Record) error {
			t.Helper()
			return d.EndRetry(t.Context(), failed)
		},
		"retries": func(t *testing.T, d driver.Driver, failed, next *driver.Record) error {
			t.Helper()
			pairs := awaitingRetries(t, d, 5, fails)
			pairs = append(pairs, pair{failed, next})
			errs := retryAll(t.Context(), d, pairs...)
			for _, err := range errs[:5] {
				require.NoError(t, err)
			}
			return errs[5]
		},
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
				d, other := openOn(t, s), openOn(t, s)
				failed, next := awaitingRetry(t, d, func(r *driver.Record) { fails(0, r) })
				require.NoError(t, other.EndRetry(t.Context(), failed))
				operate(t, other, driver.Restart)
				again := runAgain(t, other)
				require.ErrorIs(t, retry(t, d, failed, next), driver.ErrLeaseLost)
				require.Equal(t, amboy.StateRetrying, stateOf(t, d))
				require.NoError(t, d.Retry(t.Context(), again, next))
			})
		})
	}
}

// An operator restarts a failed job and is slow. Meanwhile it is restarted by another one and fails, and an
// interrupted retry of it is completed by a process that is slow too.
func TestAReplacedAttemptWasRestartedBesideTheNextOne(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d, slow, operator, first := openOn(t, s), newProcess(t, s, "slow"), newProcess(t, s, "operator"), newProcess(t, s, "first")
		failed, next := awaitingRetry(t, d, func(r *driver.Record) { fails(0, r) })
		require.NoError(t, d.EndRetry(t.Context(), failed))
		isSlow, goesOn, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
		fates(s, map[string]func(mongotest.Intercepted) mongotest.Fate{
			"first": first.half(s),
			"slow": once("update", func() {
				close(isSlow)
				<-goesOn
			}),
			"operator": once("update", func() {
				operate(t, d, driver.Restart)
				again := runAgain(t, d)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				require.Error(t, first.Retry(ctx, again, next))
				require.True(t, first.isDead())
				go func() {
					defer close(done)
					_, err := slow.Act(t.Context(), driver.ActRequest{
						Query: driver.Query{Latest: true, Queues: []string{"queue"}}, Action: driver.Action{Kind: driver.Prioritize}, Limit: 10,
					})
					assert.NoError(t, err)
				}()
				<-isSlow
			}),
		})
		acted := act(t, operator.Driver, driver.Action{Kind: driver.Restart})
		close(goesOn)
		<-done
		assert.Equal(t, 1, acted.Skipped)
		s.Server().Intercept(nil)
		pass(30 * time.Second)
		assert.Len(t, claimAll(t, d, request("owner", 5, "queue")), 1)
	})
}

// A process is slow to remove the first attempt of a job. Meanwhile another one begins to retry the job and dies. Once
// the first attempt is gone, nothing kept the ID from being taken.
func TestAJobOfTheIDOfOneThatIsRetriedWasPutAfterItsFirstAttemptWasRemoved(t *testing.T) {
	for name, remove := range map[string]func(t *testing.T, d driver.Driver){
		"delete": func(t *testing.T, d driver.Driver) {
			t.Helper()
			act(t, d, driver.Action{Kind: driver.Delete})
		},
		"forget": func(t *testing.T, d driver.Driver) {
			t.Helper()
			n, err := d.Forget(t.Context(), time.Now(), 10)
			require.NoError(t, err)
			require.Equal(t, 1, n)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
				d, slow, first := openOn(t, s), newProcess(t, s, "slow"), newProcess(t, s, "first")
				failed, second := awaitingRetry(t, d, func(r *driver.Record) { fails(0, r) })
				failed.ForgetAt = time.Now()
				require.NoError(t, d.Retry(t.Context(), failed, second))
				failed = runAgain(t, d)
				third := *second
				third.RetryInfo.CurrentAttempt = 2
				third.Name = driver.RecordName("queue", "job", third.RetryInfo)
				fates(s, map[string]func(mongotest.Intercepted) mongotest.Fate{
					"first": first.half(s),
					"slow": once("delete", func() {
						ctx, cancel := context.WithTimeout(t.Context(), time.Second)
						defer cancel()
						require.Error(t, first.Retry(ctx, failed, &third))
						require.True(t, first.isDead())
					}),
				})
				remove(t, slow.Driver)
				require.True(t, first.isDead())
				again := *second
				again.RetryInfo.CurrentAttempt = 0
				again.Name = driver.RecordName("queue", "job", again.RetryInfo)
				errs, err := d.Insert(t.Context(), []*driver.Record{&again})
				require.NoError(t, err)
				assert.True(t, amboy.IsDuplicateJobError(errs[0]), errs[0])
				takesItsPlace(t, d, &third)
			})
		})
	}
}
