package queue_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

// exitingAtExpiry returns a job that ends the goroutine that ends it because it has expired.
func exitingAtExpiry(after time.Duration) *overriding {
	j := newOverriding("AddError", whenCopied, true)
	j.original = false
	j.UpdateTimeInfo(amboy.JobTimeInfo{DispatchBy: time.Now().Add(after)})
	return j
}

func TestAnExpiredJobThatEndedTheGoroutineKeptOthersFromEndingInAStore(t *testing.T) {
	onEachFaked(t, 10, func(t *testing.T, q amboy.Queue) {
		control := q.(amboy.QueueController)
		require.NoError(t, control.Pause(t.Context()))
		other := noop(t, "other")
		other.UpdateTimeInfo(amboy.JobTimeInfo{DispatchBy: time.Now().Add(time.Minute)})
		put(t, q, exitingAtExpiry(time.Minute), other)
		pass(time.Hour)
		assert.True(t, q.Stats(t.Context()).IsIdle(), q.Stats(t.Context()).String())
	})
}

// A worker that a job ended while it claimed was given another job all the same, which never ran.
func TestAnExpiredJobThatEndedAWorkerTookAnotherJobWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		q := startEngine(t, store, 1)
		defer q.Close(context.Background())
		j, started, release := holder(t, "holder")
		put(t, q, j)
		<-started
		put(t, q, noop(t, "next"))
		r := recordOf(t, "", exitingAtExpiry(time.Millisecond))
		time.Sleep(time.Second)
		errs, err := store.Insert(t.Context(), []*driver.Record{r})
		require.NoError(t, err)
		require.NoError(t, errs[0])
		release()
		pass(time.Minute)
		for _, id := range ids("job", 3) {
			put(t, q, noop(t, id))
		}
		pass(time.Minute)
		assert.True(t, q.Stats(t.Context()).IsIdle(), q.Stats(t.Context()).String())
	})
}

// The ends of jobs that were written together were reported on one goroutine.
func TestAJobThatEndedTheGoroutineKeptTheWorkersOfOthersWaiting(t *testing.T) {
	withAndWithoutDurableWrites(t, func(t *testing.T, store *spy) {
		const workers = 4
		q := startEngine(t, store, workers)
		defer q.Close(context.Background())
		_, cancel := q.(amboy.EventSource).SubscribeEvents(1000)
		defer cancel()
		overridingWritten.Store(false)
		store.do(func(_ context.Context, call string) error {
			if call == "Complete" {
				time.Sleep(time.Second)
				overridingWritten.Store(true)
			}
			return nil
		})
		put(t, q, noop(t, "first"))
		synctest.Wait()
		put(t, q, newOverriding("RetryInfo", whenWritten, true))
		synctest.Wait()
		for _, id := range ids("beside", 2) {
			put(t, q, noop(t, id))
		}
		pass(time.Minute)
		store.heal()
		for _, id := range ids("after", 200) {
			put(t, q, noop(t, id))
		}
		pass(time.Hour)
		assert.True(t, q.Stats(t.Context()).IsIdle(), q.Stats(t.Context()).String())
	})
}

// undecodable is a job that ends the goroutine that decodes it.
type undecodable struct {
	job.Base `json:"job_base"`
}

func init() {
	registry.AddJobType("undecodable", func() amboy.Job { return &undecodable{} })
}

func (*undecodable) Run(context.Context) {}

func (*undecodable) UnmarshalJSON([]byte) error {
	runtime.Goexit()
	return nil
}

func TestAJobThatEndedTheGoroutineOfItsDecodingKeptOthersFromBeingRetried(t *testing.T) {
	withAndWithoutDurableWrites(t, func(t *testing.T, store *spy) {
		broken := &undecodable{Base: job.Base{JobType: amboy.JobType{Name: "undecodable"}}}
		broken.SetID("broken")
		for _, j := range []amboy.Job{broken, noop(t, "other")} {
			j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true), MaxAttempts: new(2), NeedsRetry: new(true)})
			r := recordOf(t, "", j)
			r.Status.Completed = true
			errs, err := store.Insert(t.Context(), []*driver.Record{r})
			require.NoError(t, err)
			require.NoError(t, errs[0])
		}
		inTime(t, func() {
			q := startEngine(t, store, 1)
			defer q.Close(context.Background())
			pass(10 * time.Second)
			assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "other").State)
		})
		assert.Equal(t, 1, statsOf(t, store.Driver).Retrying)
	})
}
