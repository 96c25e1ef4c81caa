package mongodb_test

import (
	"context"
	"fmt"
	"sync"
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

// pair is an attempt that awaits its retry, and the next one.
type pair struct{ failed, next *driver.Record }

// awaitingRetries puts, claims and ends jobs that await their retries.
func awaitingRetries(t *testing.T, d driver.Driver, n int, change ...func(i int, r *driver.Record)) []pair {
	t.Helper()
	records := make([]*driver.Record, n)
	for i := range records {
		id := fmt.Sprint(i)
		retry := amboy.JobRetryInfo{Retryable: true, BaseJobID: id, MaxAttempts: 3}
		records[i] = plainRecord(id, func(r *driver.Record) {
			r.RetryInfo, r.Name = retry, driver.RecordName("queue", id, retry)
			for _, c := range change {
				c(i, r)
			}
		})
	}
	putAll(t, d, records...)
	running := claimAll(t, d, request("owner", n, "queue"))
	require.Len(t, running, n)
	pairs := make([]pair, n)
	ended := make([]*driver.Record, n)
	for i, r := range running {
		r.RetryInfo.NeedsRetry = true
		ended[i] = r
		following := *records[i]
		following.RetryInfo.CurrentAttempt = 1
		following.Name = driver.RecordName("queue", following.RetryInfo.BaseJobID, following.RetryInfo)
		pairs[i].next = &following
	}
	endAll(t, d, ended...)
	for i, r := range ended {
		failed := *r
		failed.Status.Completed, failed.Status.InProgress = true, false
		pairs[i].failed = &failed
	}
	return pairs
}

// retryAll calls Retry for all pairs at once.
func retryAll(ctx context.Context, d driver.Driver, pairs ...pair) []error {
	errs := make([]error, len(pairs))
	var calls sync.WaitGroup
	for i, p := range pairs {
		calls.Go(func() { errs[i] = d.Retry(ctx, p.failed, p.next) })
	}
	calls.Wait()
	return errs
}

// hasAttempts requires that the job of each pair has two attempts, of which the second runs
// next, in the order of the jobs.
func hasAttempts(t *testing.T, d driver.Driver, pairs ...pair) {
	t.Helper()
	var want []string
	for _, p := range pairs {
		attempts, err := d.Attempts(t.Context(), "queue", p.next.RetryInfo.BaseJobID)
		require.NoError(t, err)
		require.Len(t, attempts, 2, p.next.Name)
		assert.Equal(t, amboy.StateFailed, driver.StateOf(attempts[0], time.Now()), p.next.Name)
		want = append(want, p.next.Name)
	}
	assert.ElementsMatch(t, want, names(claimAll(t, d, request("owner", len(pairs), "queue"))))
}

func fails(_ int, r *driver.Record) { r.Status.AddError(fmt.Errorf("it failed"), 0, time.Now()) }

// haveKeys gives each record a unique key, so that its retry needs a transaction.
func haveKeys(have bool) func(i int, r *driver.Record) {
	return func(i int, r *driver.Record) {
		if have {
			r.UniqueKey = fmt.Sprint("key ", i)
		}
	}
}

func TestRetriesAtOnceShareCommands(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d := openOn(t, s)
		pairs := awaitingRetries(t, d, 20, fails, func(i int, r *driver.Record) {
			switch i {
			case 3:
				takesScope(r)
			case 4:
				r.UniqueKey = "key"
			case 5:
				r.UniqueKey = "other key"
			}
		})
		putAll(t, d, plainRecord("waits", dependsOn("6")), plainRecord("wants", wantsScope))
		pass(2 * time.Second) // otherwise the sweep after the first claim may come during the calls
		s.Server().Intercept(func(mongotest.Intercepted) mongotest.Fate {
			time.Sleep(time.Millisecond) // all calls have begun before the first one ends
			return mongotest.Served
		})
		s.Server().ResetCosts()
		for _, err := range retryAll(t.Context(), d, pairs...) {
			require.NoError(t, err)
		}
		costs := s.Server().Costs()
		assert.LessOrEqual(t, costs.Commands["commitTransaction"], int64(2), "the first call is made at once: %s", costs)
		assert.LessOrEqual(t, costs.Commands["update"], int64(4), costs)
		hasAttempts(t, d, pairs...)
		errs, err := d.Insert(t.Context(), []*driver.Record{plainRecord("other", func(r *driver.Record) { r.UniqueKey = "key" })})
		require.NoError(t, err)
		assert.True(t, amboy.IsDuplicateJobError(errs[0]))
		assert.Empty(t, claimAll(t, d, request("owner", 10, "queue")), "the others wait for jobs that run")
	})
}

func TestOneOfSeveralRetriesIsRefused(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d := openOn(t, s)
		pairs := awaitingRetries(t, d, 6, fails)
		require.NoError(t, d.EndRetry(t.Context(), pairs[2].failed))
		putAll(t, d, plainRecord("holder", takesScope))
		held := *pairs[3].next
		held.RequiredScopes, held.EnqueueScopes = []string{"scope"}, []string{"scope"}
		pairs[3].next = &held
		errs := retryAll(t.Context(), d, append(pairs, pairs[5])...)
		for i, err := range errs[:5] {
			switch i {
			case 2:
				require.ErrorIs(t, err, driver.ErrLeaseLost)
			case 3:
				assert.True(t, amboy.IsDuplicateJobScopeError(err), err)
			default:
				require.NoError(t, err)
			}
		}
		if errs[5] == nil {
			errs[5] = errs[6]
		}
		require.ErrorIs(t, errs[5], driver.ErrLeaseLost, "one of two calls for the same job")
		endAll(t, d, claimAll(t, d, request("owner", 1, "queue"))...) // the holder of the scope
		hasAttempts(t, d, pairs[0], pairs[1], pairs[4], pairs[5])
	})
}

func TestAnOpenTransactionOnOneJobHeldUpTheRetriesOfOthers(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d := openOn(t, s)
		pairs := awaitingRetries(t, d, 6, fails)
		_, inTx := begin(t, s.Client())
		_, err := s.Client().Database(s.Database()).Collection("work.group").UpdateOne(inTx, bson.M{"_id": pairs[4].failed.Name}, bson.M{"$set": bson.M{"touched": true}})
		require.NoError(t, err)
		var errs []error
		assert.LessOrEqual(t, since(func() { errs = retryAll(t.Context(), d, pairs...) }), 3100*time.Millisecond)
		for i, err := range errs {
			assert.Equal(t, i == 4, err != nil, err)
		}
	})
}

// A process dies in each place of several retries.
func TestRetriesOfAProcessThatDiedWereLost(t *testing.T) {
	for _, command := range []string{"find", "insert", "update", "commitTransaction"} {
		t.Run("before "+command, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mongotest.Open(t, mongotest.InMemory())
				p, dieBefore := newDying(t, s)
				d := openOn(t, s)
				pairs := awaitingRetries(t, p, 5, fails, haveKeys(command == "commitTransaction"))
				dieBefore(command, 2) // the first is that of the first call
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				retryAll(ctx, p, pairs...)
				require.True(t, p.isDead())
				assert.Less(t, since(func() {
					for _, one := range pairs {
						retryUntilSettled(t, d, one.failed, one.next)
					}
				}), 5*time.Second)
				hasAttempts(t, d, pairs...)
			})
		})
	}
}

func TestRetriesAtOnceWhoseAnswerWasLost(t *testing.T) {
	for _, command := range []string{"insert", "update", "commitTransaction"} {
		t.Run(command, func(t *testing.T) {
			inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
				d := openOn(t, s)
				pairs := awaitingRetries(t, d, 5, fails, haveKeys(command == "commitTransaction"))
				var mu sync.Mutex
				seen := 0
				s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
					if c.AppName != s.Database() || c.Name != command {
						return mongotest.Served
					}
					mu.Lock()
					defer mu.Unlock()
					seen++
					if seen == 2 {
						return mongotest.Unanswered
					}
					return mongotest.Served
				})
				retryAll(t.Context(), d, pairs...)
				for _, p := range pairs {
					retryUntilSettled(t, d, p.failed, p.next)
				}
				hasAttempts(t, d, pairs...)
			})
		})
	}
}

func TestRetriesAtOnceOnAStandaloneServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openOn(t, mongotest.Open(t, mongotest.InMemory(), mongotest.Standalone()))
		pairs := awaitingRetries(t, d, 5, fails)
		for _, err := range retryAll(t.Context(), d, pairs...) {
			require.NoError(t, err)
		}
		hasAttempts(t, d, pairs...)
	})
}

// A caller that gives up does not end the calls that are made together with its own.
func TestARetryThatIsGivenUpEndsNoOther(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d := openOn(t, s)
		pairs := awaitingRetries(t, d, 4, fails)
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		beforeUpdate(s, cancel)
		for i, p := range pairs {
			ctx := ctx
			if i%2 == 1 {
				ctx = context.WithoutCancel(ctx)
			}
			calls.Go(func() {
				err := d.Retry(ctx, p.failed, p.next)
				if i%2 == 1 {
					assert.NoError(t, err)
				}
			})
		}
		calls.Wait()
		for _, p := range pairs {
			retryUntilSettled(t, d, p.failed, p.next)
		}
		hasAttempts(t, d, pairs...)
	})
}
