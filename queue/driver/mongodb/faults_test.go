package mongodb_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// sentCommands are the commands that the driver sends.
var sentCommands = []string{
	"insert", "update", "delete", "find", "aggregate", "getMore", "findAndModify", "commitTransaction", "abortTransaction", "killCursors",
}

// faults are ways in which commands fail on real servers.
var faults = map[string]mongotest.Failure{
	"the connection is cut":             {CloseConnection: true},
	"the server is not the primary":     {ErrorCode: 10107},
	"the server shuts down":             {ErrorCode: 91},
	"another write conflicts":           {ErrorCode: 112},
	"the majority has not acknowledged": {WriteConcernCode: 91},
}

// TestFaultsAtRandom runs jobs while some commands fail. No job is lost, no ended job
// runs again, and each scope has one holder.
func TestFaultsAtRandom(t *testing.T) {
	for name, fault := range faults {
		for _, kind := range []mongotest.Option{mongotest.ReplicaSet(), mongotest.Standalone()} {
			t.Run(name, func(t *testing.T) {
				inParallel(t)
				fault := fault // both kinds run at once
				fault.Commands, fault.Probability = sentCommands, 0.1
				withFaults(t, mongotest.Open(t, kind), fault)
			})
		}
	}
}

// TestFailoversAtRandom runs jobs while the primary is replaced again and again, and what
// the majority did not have is rolled back.
func TestFailoversAtRandom(t *testing.T) {
	t.Parallel()
	d := mongotest.Open(t, mongotest.StandIn())
	ctx, cancel := context.WithCancel(t.Context())
	var failing sync.WaitGroup
	whileJobsRun(t, d, func() {
		failing.Go(func() {
			for round := 0; ctx.Err() == nil; round++ {
				time.Sleep(rand.N(30 * time.Millisecond)) //nolint:forbidigo // The time of a failover is what is random.
				d.Server().HoldReplication()
				time.Sleep(rand.N(30 * time.Millisecond)) //nolint:forbidigo // The same.
				d.Server().FailOver()
				if round%2 == 0 {
					d.Server().Disconnect()
				}
			}
		})
	}, func() {
		cancel()
		failing.Wait()
	})
}

// TestFaultsOfEachCommand makes each kind of command fail a few times.
func TestFaultsOfEachCommand(t *testing.T) {
	for _, command := range sentCommands {
		t.Run(command, func(t *testing.T) {
			inParallel(t)
			withFaults(t, mongotest.Open(t, mongotest.ReplicaSet()), mongotest.Failure{
				Commands: []string{command}, Times: 10, CloseConnection: true,
			})
		})
	}
}

// inParallel runs a test in parallel, except on a real server, which has one fail point
// for all connections.
func inParallel(t *testing.T) {
	t.Helper()
	if serverURI == "" {
		t.Parallel()
	}
}

func withFaults(t *testing.T, d *mongotest.Deployment, fault mongotest.Failure) {
	t.Helper()
	whileJobsRun(t, d, func() { d.Fail(fault) }, d.Heal)
}

// faultTime is how long faults last at most. Clients of a real server leave it alone for half a
// second after some of them, so that a run with all of its faults would take minutes.
const faultTime = 15 * time.Second

// whileJobsRun puts and runs jobs between two calls, and ends those that are left then.
func whileJobsRun(t *testing.T, d *mongotest.Deployment, fail, heal func()) {
	t.Helper()
	const jobs, processes = 12, 2
	r := &rough{T: t, holders: map[string]string{}, ended: map[string]int{}}
	var drivers []driver.Driver
	for range processes {
		opened, err := mongodb.Open(t.Context(), mongodb.Options{
			Client: d.Connect(), DB: d.Database(), Collection: "work", Grouped: true, PollInterval: 10 * time.Millisecond,
		})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, opened.Close(context.Background())) })
		drivers = append(drivers, opened)
	}
	fail()
	heal = sync.OnceFunc(heal)
	defer time.AfterFunc(faultTime, heal).Stop()
	var working sync.WaitGroup
	for i, opened := range drivers {
		working.Go(func() {
			for j := range jobs / processes {
				r.put(opened, fmt.Sprintf("%d-%d", i, j), j)
				r.run(opened, fmt.Sprint("owner", i))
			}
		})
	}
	working.Wait()
	heal()
	healed := time.Now()
	for i := 0; r.left(drivers[0]) > 0; i++ {
		// A sweep completes an interrupted retry only after seconds.
		require.Less(t, time.Since(healed), time.Minute, "the jobs did not end: %v", r.ended)
		r.run(drivers[i%processes], "owner")
		endLeases(t, d.Connect().Database(d.Database()).Collection("work.group"), time.Hour)
		_, err := drivers[0].RecoverStale(t.Context())
		require.NoError(t, err)
	}
	for id, n := range r.ended {
		assert.Equal(t, 1, n, "job %q ended", id)
	}
	assert.Len(t, r.ended, jobs)
}

// rough runs jobs despite faults.
type rough struct {
	*testing.T
	mu      sync.Mutex
	holders map[string]string
	ended   map[string]int
}

// put inserts a job, and repeats that until it is stored. One job in three is retryable,
// one in two needs a scope, and one in four takes its scope when it is put.
func (r *rough) put(d driver.Driver, id string, number int) {
	record := newRecord(r, "q", id, func(j *job.ShellJob) {
		if number%2 == 0 {
			j.SetScopes([]string{fmt.Sprint(number % 4)})
		}
		if number%3 == 0 {
			retryable := true
			j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: &retryable})
		}
	})
	if number%4 == 0 {
		record.EnqueueScopes = []string{"put " + id}
		record.RequiredScopes = append(record.RequiredScopes, record.EnqueueScopes...)
	}
	for range 200 {
		given := *record
		errs, err := d.Insert(r.Context(), []*driver.Record{&given})
		if err == nil {
			err = errs[0]
		}
		if err == nil || amboy.IsDuplicateJobError(err) {
			return
		}
		require.NotErrorIs(r, err, driver.ErrLeaseLost)
	}
	r.Errorf("job %q could not be put", id)
}

// run claims jobs and ends them. Retryable jobs are retried once.
func (r *rough) run(d driver.Driver, owner string) {
	claimed, err := d.Claim(r.Context(), driver.ClaimRequest{
		Owner: owner, Queues: []driver.Demand{{Queue: "q", Limit: 3}}, Limit: 3, Now: time.Now(), LeaseTime: 10 * time.Minute,
	})
	if err != nil {
		return // the next claim hands back what this one may have claimed
	}
	for _, record := range claimed.Records {
		r.hold(record)
	}
	for _, record := range claimed.Records {
		r.end(d, record)
	}
}

func (r *rough) hold(record *driver.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, scope := range record.RequiredScopes {
		if holder := r.holders[scope]; holder != "" {
			r.Errorf("%q runs while %q has scope %q", record.Name, holder, scope)
		}
		r.holders[scope] = record.Name
	}
	if r.ended[record.JobID()] > 0 {
		r.Errorf("%q runs again", record.Name)
	}
}

// leave releases the scopes of a record. It is called before the record is ended.
func (r *rough) leave(record *driver.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, scope := range record.RequiredScopes {
		delete(r.holders, scope)
	}
}

func (r *rough) end(d driver.Driver, record *driver.Record) {
	ended := *record
	ended.Status.Completed, ended.Status.InProgress = true, false
	ended.TimeInfo.End = time.Now()
	retries := ended.RetryInfo.Retryable && ended.RetryInfo.CurrentAttempt == 0
	ended.RetryInfo.NeedsRetry = retries
	r.leave(record)
	isSure := r.insist(func() error {
		errs, err := d.Complete(r.Context(), []driver.Completion{{Lease: driver.LeaseOf(record), Record: &ended}})
		if err != nil {
			return err
		}
		return errs[0]
	})
	if !retries {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ended[record.JobID()]++
		return
	}
	if !isSure {
		return // another process may retry it
	}
	final, next := ended, *record
	final.RetryInfo.NeedsRetry = false
	next.RetryInfo.CurrentAttempt, next.RetryInfo.NeedsRetry = 1, false
	next.Name = driver.RecordName("q", record.JobID(), next.RetryInfo)
	next.Status, next.Scopes = amboy.JobStatusInfo{}, nil
	next.TimeInfo.Start, next.TimeInfo.End = time.Time{}, time.Time{}
	r.insist(func() error { return d.Retry(r.Context(), &final, &next) })
}

// insist repeats a change until it is made, or was made by a call with an unknown
// outcome. It reports whether the last call was certain.
func (r *rough) insist(call func() error) bool {
	unsure := false
	for range 200 {
		err := call()
		switch {
		case err == nil:
			return true
		case errors.Is(err, driver.ErrLeaseLost) || amboy.IsDuplicateJobError(err):
			assert.True(r, unsure, "no other call can have made it: %v", err)
			return unsure
		case errors.Is(err, driver.ErrOutcomeUnknown):
			unsure = true
		}
	}
	r.Error("the change could not be made")
	return false
}

// left returns the number of jobs that have not ended.
func (r *rough) left(d driver.Driver) int {
	stats, err := d.Stats(r.Context(), "q")
	require.NoError(r, err)
	return stats.Total - stats.Completed + stats.Retrying
}
