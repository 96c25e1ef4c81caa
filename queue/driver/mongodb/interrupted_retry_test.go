package mongodb_test

import (
	"context"
	"slices"
	"strings"
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
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// interruptions are what another process does while a job is retried. They report whether that ended
// the job for good.
var interruptions = map[string]func(t *testing.T, d *mongodb.Driver, failed, next *driver.Record) (ends bool){
	"cancel": func(t *testing.T, d *mongodb.Driver, _, _ *driver.Record) bool {
		return act(t, d, driver.Action{Kind: driver.Cancel}).Done > 0
	},
	"cancel and delete": func(t *testing.T, d *mongodb.Driver, _, _ *driver.Record) bool {
		ends := act(t, d, driver.Action{Kind: driver.Cancel}).Done > 0
		act(t, d, driver.Action{Kind: driver.Delete})
		_, err := d.Forget(t.Context(), time.Now(), 10)
		assert.NoError(t, err)
		return ends
	},
	"delete": func(t *testing.T, d *mongodb.Driver, _, _ *driver.Record) bool {
		act(t, d, driver.Action{Kind: driver.Delete})
		_, err := d.Forget(t.Context(), time.Now().Add(time.Hour), 10)
		assert.NoError(t, err)
		return false
	},
	"prioritize": func(t *testing.T, d *mongodb.Driver, _, _ *driver.Record) bool {
		act(t, d, driver.Action{Kind: driver.Prioritize, Priority: 3})
		return false
	},
	"end": func(t *testing.T, d *mongodb.Driver, failed, _ *driver.Record) bool {
		err := d.EndRetry(t.Context(), failed)
		if err != nil {
			assert.ErrorIs(t, err, driver.ErrLeaseLost)
		}
		return err == nil
	},
	"retry": func(t *testing.T, d *mongodb.Driver, failed, next *driver.Record) bool {
		err := d.Retry(t.Context(), failed, next)
		if err != nil {
			assert.ErrorIs(t, err, driver.ErrLeaseLost)
		}
		return false
	},
	"retry and end": func(t *testing.T, d *mongodb.Driver, failed, next *driver.Record) bool {
		_ = d.Retry(t.Context(), failed, next)
		running := claimAll(t, d, request("other", 1, "queue"))
		endAll(t, d, running...)
		return len(running) > 0
	},
	"sweep": func(_ *testing.T, d *mongodb.Driver, _, _ *driver.Record) bool {
		time.Sleep(3 * time.Second)
		mongodb.Sweep(d)
		time.Sleep(3 * time.Second)
		return false
	},
	"cancel and sweep": func(t *testing.T, d *mongodb.Driver, _, _ *driver.Record) bool {
		ends := act(t, d, driver.Action{Kind: driver.Cancel}).Done > 0
		time.Sleep(3 * time.Second)
		mongodb.Sweep(d)
		time.Sleep(3 * time.Second)
		return ends
	},
	"put": func(t *testing.T, d *mongodb.Driver, failed, _ *driver.Record) bool {
		errs, err := d.Insert(t.Context(), []*driver.Record{plainRecord("job", func(r *driver.Record) {
			r.RetryInfo, r.Name = failed.RetryInfo, driver.RecordName("queue", "job", amboy.JobRetryInfo{Retryable: true, BaseJobID: "job"})
		})})
		require.NoError(t, err)
		assert.True(t, amboy.IsDuplicateJobError(errs[0]), errs[0])
		return false
	},
	"put of the key": func(t *testing.T, d *mongodb.Driver, failed, _ *driver.Record) bool {
		errs, err := d.Insert(t.Context(), []*driver.Record{plainRecord("other", func(r *driver.Record) { r.UniqueKey = failed.UniqueKey })})
		assert.NoError(t, err)
		if failed.UniqueKey != "" {
			assert.True(t, amboy.IsDuplicateJobError(errs[0]), errs[0])
		} else {
			act := driver.ActRequest{Query: driver.Query{Queues: []string{"queue"}, JobIDs: []string{"other"}}, Action: driver.Action{Kind: driver.Cancel}, Limit: 1}
			_, err := d.Act(t.Context(), act)
			assert.NoError(t, err)
		}
		return false
	},
	"put of a dependent": func(t *testing.T, d *mongodb.Driver, _, _ *driver.Record) bool {
		putAll(t, d, plainRecord("dependent", dependsOn("job")))
		return false
	},
}

// moments are when another process interrupts a retry. Each makes a call once.
var moments = map[string]func(s *mongotest.Deployment, call func()){
	"before the insert": func(s *mongotest.Deployment, call func()) { beforeCommand(s, "insert", call) },
	"before the second read": func(s *mongotest.Deployment, call func()) {
		var inserted, called atomic.Bool
		s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
			switch {
			case c.Collection != "work.group":
			case c.Name == "insert":
				inserted.Store(true)
			case c.Name == "find" && inserted.Load() && !called.Swap(true):
				call()
			}
			return mongotest.Served
		})
	},
	"before the update": func(s *mongotest.Deployment, call func()) { beforeCommand(s, "update", call) },
	"between the statements": func(s *mongotest.Deployment, call func()) {
		var called atomic.Bool
		s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
			if c.Collection != "work.group" || c.Name != "update" || called.Load() {
				return mongotest.Served
			}
			if c.Command.Lookup("txnNumber").Type != 0 {
				return mongotest.Served // there is nothing between the statements of a transaction
			}
			called.Store(true)
			list, _ := c.Command.Lookup("updates").Array().Values()
			if len(list) > 1 {
				first := bson.D{{Key: "update", Value: c.Collection}, {Key: "updates", Value: bson.A{list[0]}}}
				if err := s.Client().Database(s.Database()).RunCommand(context.Background(), first).Err(); err != nil {
					panic(err)
				}
			}
			call()
			return mongotest.Served
		})
	},
	"after a lost answer": func(s *mongotest.Deployment, call func()) {
		var lost, called atomic.Bool
		s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
			switch {
			case c.Collection != "work.group":
			case c.Name == "update" && !lost.Swap(true):
				return mongotest.Unanswered
			case c.Name == "find" && lost.Load() && !called.Swap(true):
				call()
			}
			return mongotest.Served
		})
	},
}

// TestInterruptedRetries lets another process do something at each moment of a retry. A job that did not
// end for good runs once more, as its next attempt, and one that did never runs again.
func TestInterruptedRetries(t *testing.T) {
	t.Parallel()
	for job, change := range map[string]func(*driver.Record){"plain": func(*driver.Record) {}, "keyed": keyed, "legacy": nil} {
		for moment, at := range moments {
			for name, do := range interruptions {
				test := func(t *testing.T, kind mongotest.Option) {
					t.Helper()
					synctest.Test(t, func(t *testing.T) { interruptRetry(t, mongotest.Open(t, mongotest.InMemory(), kind), change, at, do) })
				}
				if job == "keyed" && !slices.Contains([]string{"put of the key", "put of a dependent", "cancel and delete", "sweep"}, name) {
					continue
				}
				t.Run(job+"/"+moment+"/"+name, func(t *testing.T) { test(t, mongotest.ReplicaSet()) })
				// Between two statements a standalone server lets others take a unique key.
				if strings.HasPrefix(moment, "be") && job != "keyed" {
					t.Run(job+" on a standalone/"+moment+"/"+name, func(t *testing.T) { test(t, mongotest.Standalone()) })
				}
			}
		}
	}
}

// interruptRetry retries a job, which is a legacy one if change is nil, and makes an interruption.
func interruptRetry(
	t *testing.T, s *mongotest.Deployment, change func(*driver.Record), at func(*mongotest.Deployment, func()),
	do func(*testing.T, *mongodb.Driver, *driver.Record, *driver.Record) bool,
) {
	t.Helper()
	d, other := openOn(t, s), openOn(t, s)
	require.Empty(t, claimAll(t, other, request("owner", 1, "queue"))) // from then on it sweeps
	isLegacy := change == nil
	if isLegacy {
		change = func(*driver.Record) {}
	}
	failed, next := awaitingRetry(t, d, change, func(r *driver.Record) { fails(0, r) })
	failed.ForgetAt = time.Now().Add(-time.Second)
	putAll(t, d, plainRecord("waits", dependsOn("job")))
	if isLegacy {
		makeLegacy(t, s, failed.Name)
	}
	lock := make(chan struct{}, 1) // synctest does not wait for a mutex
	ends, over := false, false
	at(s, func() {
		lock <- struct{}{}
		defer func() { <-lock }()
		if over { // it is a background command
			return
		}
		isIdle, err := other.IsIdle(t.Context(), "queue")
		require.NoError(t, err)
		assert.False(t, isIdle)
		ends = do(t, other, failed, next)
	})
	err := d.Retry(t.Context(), failed, next)
	lock <- struct{}{}
	over = true
	<-lock
	s.Server().Intercept(nil)
	if err != nil {
		require.True(t, errIsSettled(err) || driver.IsRepeatable(err), err)
	}
	time.Sleep(30 * time.Second) // for sweeps
	n, err := s.Collection("work.group").CountDocuments(t.Context(), bson.M{"line.in": "handover"})
	require.NoError(t, err)
	assert.Zero(t, n)
	running := claimAll(t, other, request("owner", 10, "queue"))
	attempts := slices.DeleteFunc(names(running), func(name string) bool { return !strings.HasSuffix(name, ".job") })
	if ends {
		assert.Empty(t, attempts)
		return
	}
	assert.Equal(t, []string{next.Name}, attempts)
	assert.Len(t, running, 1)
	latest, err := d.Get(t.Context(), "queue", "job")
	require.NoError(t, err)
	assert.Equal(t, next.Name, latest.Name)
	endAll(t, other, running...)
	assert.NotEmpty(t, claimAll(t, other, request("owner", 10, "queue")), "those that wait for it")
}
