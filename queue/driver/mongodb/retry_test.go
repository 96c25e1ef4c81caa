package mongodb_test

import (
	"context"
	"errors"
	"slices"
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

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// awaitingRetry puts, claims and ends a job that awaits its retry. It returns what Retry
// takes.
func awaitingRetry(t *testing.T, d driver.Driver, change ...func(*driver.Record)) (failed, next *driver.Record) {
	t.Helper()
	retryable := amboy.JobRetryInfo{Retryable: true, BaseJobID: "job", MaxAttempts: 3}
	r := plainRecord("job", append(change, func(r *driver.Record) {
		r.RetryInfo, r.Name = retryable, driver.RecordName("queue", "job", retryable)
	})...)
	putAll(t, d, r)
	running := claimAll(t, d, request("owner", 1, "queue"))
	require.Len(t, running, 1)
	ended := *running[0]
	ended.RetryInfo.NeedsRetry = true
	endAll(t, d, &ended)
	ended.Status.Completed, ended.Status.InProgress = true, false
	following := *r
	following.RetryInfo.CurrentAttempt = 1
	following.Name = driver.RecordName("queue", "job", following.RetryInfo)
	return &ended, &following
}

// dying is a process that dies, so that the server hears nothing of it any more.
type dying struct {
	*mongodb.Driver
	mu   sync.Mutex
	dead bool
}

func (p *dying) die() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
}

func (p *dying) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// fate returns what becomes of a command of the process.
func (p *dying) fate(c mongotest.Intercepted) mongotest.Fate {
	if p.isDead() && !slices.Contains([]string{"hello", "isMaster", "ismaster"}, c.Name) {
		return mongotest.Unserved
	}
	return mongotest.Served
}

// newProcess returns a process with a client of its own, which the server knows by name.
func newProcess(t *testing.T, s *mongotest.Deployment, name string) *dying {
	t.Helper()
	client, err := mongo.Connect(t.Context(), s.ClientOptions().SetAppName(name).SetServerSelectionTimeout(time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Disconnect(context.Background())) })
	return &dying{Driver: openOn(t, s, func(o *mongodb.Options) { o.Client = client })}
}

// newDying returns a process that dies instead of sending the n-th command of a name about
// the jobs, or without a collection, after fail was called.
func newDying(t *testing.T, s *mongotest.Deployment) (p *dying, fail func(name string, n int)) {
	t.Helper()
	const name = "dying"
	p = newProcess(t, s, name)
	var mu sync.Mutex
	last, left := "", 0
	s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
		if c.AppName != name {
			return mongotest.Served
		}
		time.Sleep(time.Millisecond) // calls that begin together wait for the first one's commands, and so are one batch
		mu.Lock()
		defer mu.Unlock()
		if c.Name == last && (c.Collection == "work.group" || c.Collection == "") {
			left--
			if left == 0 {
				p.die()
			}
		}
		return p.fate(c)
	})
	return p, func(name string, n int) {
		mu.Lock()
		defer mu.Unlock()
		last, left = name, n
	}
}

// A process dies in each place of a retry. The server would keep its transaction for a
// minute.
func TestARetryOfAProcessThatDiedCostTheJobItsAttempts(t *testing.T) {
	for _, command := range []string{"find", "insert", "update", "commitTransaction"} {
		t.Run("before "+command, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mongotest.Open(t, mongotest.InMemory())
				p, dieBefore := newDying(t, s)
				d := openOn(t, s)
				failed, next := awaitingRetry(t, p, takesScope, func(r *driver.Record) { r.UniqueKey = "key" })
				dieBefore(command, 1)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				require.Error(t, p.Retry(ctx, failed, next))
				require.True(t, p.isDead())

				assert.Less(t, since(func() { retryUntilSettled(t, d, failed, next) }), 5*time.Second)
				running := claimAll(t, d, request("owner", 1, "queue"))
				require.Len(t, running, 1)
				assert.Equal(t, next.Name, running[0].Name)
				attempts, err := d.Attempts(t.Context(), "queue", "job")
				require.NoError(t, err)
				assert.Len(t, attempts, 2)
			})
		})
	}
}

// One process signs the next attempt and dies, while the transaction of another one is on its
// way. That transaction then holds only the attempt before, and its process dies too.
func TestARetryWaitedForTheTransactionOfAProcessWhoseSignatureWasOverwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		first, second, d := newProcess(t, s, "first"), newProcess(t, s, "second"), openOn(t, s)
		failed, next := awaitingRetry(t, first, takesScope)
		held, signed := make(chan struct{}), make(chan struct{})
		var updates int
		s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
			process := map[string]*dying{"first": first, "second": second}[c.AppName]
			isUpdate := c.Name == "update" && c.Collection == "work.group"
			switch {
			case process == nil:
				return mongotest.Served
			case process == first && isUpdate && !first.isDead():
				close(held)
				<-signed
			case process == first && c.Name == "abortTransaction":
				first.die()
			case process == second && isUpdate:
				updates++
				if updates == 2 { // the first one signs
					second.die()
				}
			}
			return process.fate(c)
		})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- first.Retry(ctx, failed, next) }()
		<-held
		signing, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		require.Error(t, second.Retry(signing, failed, next))
		require.True(t, second.isDead())
		close(signed)
		require.Error(t, <-ended)
		require.True(t, first.isDead())
		assert.Less(t, since(func() { retryUntilSettled(t, d, failed, next) }), 5*time.Second)
		running := claimAll(t, d, request("owner", 1, "queue"))
		require.Len(t, running, 1)
		assert.Equal(t, next.Name, running[0].Name)
	})
}

// retryUntilSettled retries a job as another process does, until it finds that this is done.
func retryUntilSettled(t *testing.T, d driver.Driver, failed, next *driver.Record) {
	t.Helper()
	for {
		err := d.Retry(t.Context(), failed, next)
		if err == nil || errIsSettled(err) {
			return
		}
		time.Sleep(time.Second)
	}
}

func errIsSettled(err error) bool {
	return amboy.IsDuplicateJobError(err) || errors.Is(err, driver.ErrLeaseLost)
}

// A Put of the same ID, scope and unique key comes while the transaction of a dead process
// is open.
func TestAPutWaitedAMinuteForTheTransactionOfAProcessThatDied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		p, dieBefore := newDying(t, s)
		d := openOn(t, s)
		failed, next := awaitingRetry(t, p, takesScope)
		dieBefore("commitTransaction", 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, p.Retry(ctx, failed, next))
		took := since(func() {
			errs, err := d.Insert(t.Context(), []*driver.Record{plainRecord("other", takesScope)})
			require.NoError(t, err)
			assert.True(t, amboy.IsDuplicateJobScopeError(errs[0]), "the job keeps its scope: %v", errs[0])
		})
		assert.Less(t, took, 10*time.Second, "the sweep of the other process ends the transaction")
		pass(time.Second) // and then lets the next attempt take over
		running := claimAll(t, d, request("owner", 1, "queue"))
		require.Len(t, running, 1)
		assert.Equal(t, next.Name, running[0].Name)
	})
}

// The transaction is not one of this library, so no process ends it.
func TestARetryBehindAnOpenTransactionIsLeftToTheSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoreOf(t, mongotest.Options{InMemory: true})
		d := s.open()
		failed, next := awaitingRetry(t, d)
		session, inTx := begin(t, s.client)
		_, err := s.jobs(true).UpdateOne(inTx, bson.M{"_id": failed.Name}, bson.M{"$set": bson.M{"touched": true}})
		require.NoError(t, err)
		took := since(func() { require.ErrorIs(t, d.Retry(t.Context(), failed, next), driver.ErrOutcomeUnknown) })
		assert.Less(t, took, 10*time.Second)
		require.NoError(t, session.AbortTransaction(t.Context()))
		time.Sleep(11 * time.Second) // the second sweep after a retry finishes it, and comes within 10
		running := claimAll(t, d, request("owner", 1, "queue"))
		require.Len(t, running, 1)
		assert.Equal(t, next.Name, running[0].Name)
	})
}

// The next attempt is stored by then, so a sweep completes the retry, and another call then says that
// the lease was lost.
func TestARetryWhoseSwapTookTooLongSaidThatNothingWasChanged(t *testing.T) {
	server := mongotest.Open(t, mongotest.ReplicaSet())
	d := openOn(t, server)
	failed, next := awaitingRetry(t, d)
	server.Fail(mongotest.Failure{Commands: []string{"update"}, Collection: "work.group", ErrorCode: 50, Times: 1}) // MaxTimeMSExpired
	require.ErrorIs(t, d.Retry(t.Context(), failed, next), driver.ErrOutcomeUnknown)
}

// A sweep queries what is left, and then a retry begins, before the sweep has the answer.
func TestASweepForgotTheRetryThatBeganDuringItsQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoreOf(t, mongotest.Options{InMemory: true})
		queried, answer := make(chan struct{}), make(chan struct{})
		var held atomic.Bool
		s.options.SetMonitor(&event.CommandMonitor{Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			if e.CommandName == "aggregate" && held.Swap(false) {
				close(queried)
				<-answer
			}
		}})
		d := s.open(func(o *mongodb.Options) { o.Client = s.connect() })
		failed, next := awaitingRetry(t, d)
		time.Sleep(time.Minute)
		held.Store(true)
		mongodb.Sweep(d)
		<-queried
		session, inTx := begin(t, s.client)
		_, err := s.jobs(true).UpdateOne(inTx, bson.M{"_id": failed.Name}, bson.M{"$set": bson.M{"touched": true}})
		require.NoError(t, err)
		require.ErrorIs(t, d.Retry(t.Context(), failed, next), driver.ErrOutcomeUnknown)
		require.NoError(t, session.AbortTransaction(t.Context()))
		close(answer)
		time.Sleep(11 * time.Second)
		running := claimAll(t, d, request("owner", 1, "queue"))
		require.Len(t, running, 1)
		assert.Equal(t, next.Name, running[0].Name)
	})
}

// While a retry is between its two steps, a second process ends the job for good, and its sweep
// removes the next attempt.
func TestARetryThatLostToAnEndReportedSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		d, other := openOn(t, s), openOn(t, s)
		failed, next := awaitingRetry(t, d)
		held, removed := make(chan struct{}), make(chan struct{})
		var swaps atomic.Bool
		s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
			if c.Name == "update" && c.Collection == "work.group" && !swaps.Swap(true) {
				close(held)
				<-removed
			}
			return mongotest.Served
		})
		retried := make(chan error, 1)
		go func() { retried <- d.Retry(t.Context(), failed, next) }()
		<-held
		ended := *failed
		ended.RetryInfo.NeedsRetry = false
		ended.RetryInfo.End = time.Now()
		require.NoError(t, other.EndRetry(t.Context(), &ended))
		for range 2 { // the first one only notes the next attempt
			mongodb.Sweep(other)
			synctest.Wait()
		}
		close(removed)
		require.ErrorIs(t, <-retried, driver.ErrLeaseLost)
		assert.Empty(t, claimAll(t, d, request("owner", 1, "queue")))
	})
}

// Another process sweeps while a retry is between its two steps.
func TestASweepMadeARetryBeginAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		d, other := openOn(t, s), openOn(t, s)
		failed, next := awaitingRetry(t, d)
		time.Sleep(time.Minute)
		var swaps atomic.Bool
		s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
			if c.Name == "update" && c.Collection == "work.group" && !swaps.Swap(true) {
				time.Sleep(time.Second)
			}
			return mongotest.Served
		})
		s.Commands().Reset()
		retried := make(chan error, 1)
		go func() { retried <- d.Retry(t.Context(), failed, next) }()
		time.Sleep(time.Second / 2)
		mongodb.Sweep(other)
		require.NoError(t, <-retried)
		synctest.Wait()
		assert.Equal(t, 1, s.Commands().On("work.group", "update"), "%s", s.Commands())
	})
}
