package queue_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// startIdle starts a queue that runs nothing by itself.
func startIdle(t *testing.T, store driver.Driver) amboy.RetryableQueue {
	t.Helper()
	q := newTestEngine(t, store, 1)
	require.NoError(t, q.SetRunner(pool.NewNoop()))
	require.NoError(t, q.Start(t.Context()))
	return q
}

// loseLeases takes away all leases, as a recovery by another process does.
func loseLeases(ctx context.Context, t *testing.T, store driver.Driver) {
	t.Helper()
	running, err := store.Find(ctx, driver.Query{States: []amboy.JobState{amboy.StateRunning}}, driver.PageRequest{Limit: 100})
	require.NoError(t, err)
	require.NotEmpty(t, running.Records)
	for _, r := range running.Records {
		errs, err := store.Release(ctx, []driver.HandBack{{Lease: driver.LeaseOf(r)}})
		require.NoError(t, err)
		require.NoError(t, errs[0])
	}
}

// TestAJobThatLostItsLeaseDoesNotEndAnotherRun completes a job through a runner that does
// not know that the lease was lost, while another process runs the job.
func TestAJobThatLostItsLeaseDoesNotEndAnotherRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		q, other := startIdle(t, store), startIdle(t, store)
		defer q.Close(context.Background())
		defer other.Close(context.Background())
		put(t, q, noop(t, "one"))
		mine := q.Next(within(t))
		require.NotNil(t, mine)
		stopping, stop := context.WithCancel(t.Context())
		_, unlease := q.(amboy.JobContexter).JobContext(stopping, mine)
		stop()
		loseLeases(t.Context(), t, store)
		theirs := other.Next(within(t))
		require.NotNil(t, theirs)
		pass(time.Minute) // a heartbeat finds that the lease is lost
		unlease()

		require.ErrorIs(t, q.Complete(within(t), mine), amboy.ErrLeaseLost)
		assert.Equal(t, amboy.QueueStats{Running: 1, Total: 1}, q.Stats(t.Context()), "the other process runs the job")
		require.NoError(t, other.Complete(within(t), theirs))
	})
}

// TestCloseDoesNotWaitForAStoreThatHangs uses a store on which a background call blocks
// until its context ends.
func TestCloseDoesNotWaitForAStoreThatHangs(t *testing.T) {
	const grace = time.Second
	for _, call := range []string{"TakeDuty", "RecoverStale", "Forget", "Find", "Extend", "CancelRequests", "Claim", "Release"} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newSpy(newStore(t))
				store.deaf = call == "CancelRequests" // it is called only without notifications while nothing changes
				q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, Format: amboy.JSON, NumWorkers: 2})
				require.NoError(t, err)
				require.NoError(t, q.Start(t.Context()))
				s := &starts{t: t}
				put(t, q, s.lasting("running", 24*time.Hour))
				synctest.Wait()
				hangs := make(chan struct{}, 1)
				store.do(func(ctx context.Context, name string) error {
					if name != call {
						return nil
					}
					select {
					case hangs <- struct{}{}:
					default:
					}
					<-ctx.Done()
					return ctx.Err()
				})
				if call == "Release" {
					unreadable := recordOf(t, "", noop(t, "unreadable"))
					unreadable.Type = "from the future"
					_, err = store.Insert(t.Context(), []*driver.Record{unreadable})
					require.NoError(t, err)
				}
				if call == "Claim" {
					put(t, q, noop(t, "one"))
				}
				<-hangs
				begun := time.Now()
				closed := make(chan struct{})
				go func() {
					defer close(closed)
					q.Close(ended())
				}()
				select {
				case <-closed:
				case <-time.After(2 * grace):
					t.Error("Close waits for the store")
					store.heal()
				}
				<-closed
				assert.LessOrEqual(t, time.Since(begun), grace)
			})
		})
	}
}

// TestLeaseEndsIfTheDriverPanics makes the driver panic once while it handles a job.
// The lease must not be renewed for ever.
func TestLeaseEndsIfTheDriverPanics(t *testing.T) {
	for call, test := range map[string]struct {
		durable bool
		add     func(t *testing.T, store driver.Driver, q amboy.Queue)
	}{
		"Release": {add: func(t *testing.T, store driver.Driver, _ amboy.Queue) {
			t.Helper()
			unreadable := recordOf(t, "", noop(t, "one"))
			require.NoError(t, unreadable.Job.UnmarshalJSON([]byte(`{"job_base": 7}`)))
			_, err := store.Insert(t.Context(), []*driver.Record{unreadable})
			require.NoError(t, err)
		}},
		"Get": {durable: true, add: func(t *testing.T, _ driver.Driver, q amboy.Queue) {
			t.Helper()
			j := newGreedy()
			j.SetID("one")
			put(t, q, j)
		}},
	} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newSpy(newStore(t))
				store.durable = test.durable
				q := startEngine(t, store, 1)
				defer q.Close(context.Background())
				panicked := false
				store.do(func(_ context.Context, name string) error {
					if name == call && !panicked {
						panicked = true
						panic("as planned")
					}
					return nil
				})
				test.add(t, store.Driver, q)
				pass(5 * time.Minute)
				require.True(t, panicked)
				assert.Zero(t, q.Stats(t.Context()).Running, "the job does not run: %s", q.Stats(t.Context()))
				assert.GreaterOrEqual(t, store.count(call), 2, "the call was repeated")
			})
		})
	}
}

// TestStreamEndsIfTheDriverPanics makes the driver panic at the second page, which is
// read in the background.
func TestStreamEndsIfTheDriverPanics(t *testing.T) {
	store := newSpy(newStore(t))
	q := newTestEngine(t, store, 1)
	defer q.Close(context.Background())
	var jobs []amboy.Job
	for _, id := range ids("", 1200) {
		j := newFuncJob()
		j.SetID(id)
		jobs = append(jobs, j)
	}
	require.NoError(t, q.PutMany(t.Context(), jobs))
	store.reset()
	store.do(func(_ context.Context, call string) error {
		if call == "Find" && store.count("Find") == 2 {
			panic("as planned")
		}
		return nil
	})
	n := 0
	for range q.JobInfo(within(t)) {
		n++
	}
	assert.Equal(t, 500, n, "the first page")
}

// TestWaitEndsForARetryThatWasCanceled cancels a running job that asks for a retry
// before it learns of the cancellation.
func TestWaitEndsForARetryThatWasCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		q := startEngine(t, store, 1)
		defer q.Close(context.Background())
		proceed := make(chan struct{})
		j := newJob(t, "one", func(_ context.Context, j *funcJob) {
			<-proceed
			j.AddRetryableError(errors.New("once more"))
		})
		put(t, q, retryable(j, 5))
		waited := make(chan time.Time, 1)
		go func() {
			amboy.WaitJob(day(t), j, q)
			waited <- time.Now()
		}()
		pass(100 * time.Millisecond)
		cancelJob(t, store, "one")
		ended := time.Now()
		close(proceed)
		assert.Equal(t, ended, <-waited)
		assert.Equal(t, amboy.StateCanceled, infoOf(t, q, "one").State)
	})
}

// TestAJobThatExpiresDuringAClaimEnds lets a job expire while other jobs are claimed for the
// last free workers.
func TestAJobThatExpiresDuringAClaimEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpy(newStore(t))
		q := startEngine(t, store, 2)
		defer q.Close(ended())
		s := &starts{t: t}
		never := s.lasting("never", 0)
		never.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(24 * time.Hour)})
		late := s.lasting("late", 0)
		late.SetTimeInfo(amboy.JobTimeInfo{DispatchBy: time.Now().Add(time.Second)})
		require.NoError(t, late.Dependency().AddEdge("never"))
		put(t, q, never, late)
		synctest.Wait()
		after := func(_ driver.ClaimRequest, claimed driver.Claimed) {
			if len(claimed.Records) == 2 {
				<-time.After(2 * time.Second)
			}
		}
		store.claimed.Store(&after)
		s.putAll(q, "long", 2, 12*time.Hour)
		pass(3 * time.Second)
		require.Len(t, s.all(), 2)
		assert.True(t, infoOf(t, q, "late").Status.Completed, "the expired job did not end")
	})
}

// TestNextThatGivesUpKeepsNoJob ends the context of a Next while it claims.
func TestNextThatGivesUpKeepsNoJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpy(newStore(t))
		q := startIdle(t, store)
		defer q.Close(context.Background())
		ctx, giveUp := context.WithCancel(t.Context())
		after := func(driver.ClaimRequest, driver.Claimed) { giveUp() }
		store.claimed.Store(&after)
		put(t, q, noop(t, "one"))
		assert.Nil(t, q.Next(ctx))
		assert.Equal(t, amboy.QueueStats{Pending: 1, Total: 1}, q.Stats(t.Context()))
		store.claimed.Store(nil)
		require.NotNil(t, q.Next(within(t)))
	})
}

// TestAnAbandonedRetryWaitedForTheNextMonitorIntervalAfterAFailedScan starts a queue while its
// store fails for a moment.
func TestAnAbandonedRetryWaitedForTheNextMonitorIntervalAfterAFailedScan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpy(newStore(t))
		r := recordOf(t, "q", noop(t, "one"))
		r.RetryInfo = amboy.JobRetryInfo{Retryable: true, NeedsRetry: true, BaseJobID: "one", MaxAttempts: 3}
		r.Name = driver.RecordName("q", "one", r.RetryInfo)
		r.Status.Completed = true
		insertRecord(t, store, r)
		store.fail("Find")
		q, err := queue.NewDriverQueue(queue.DriverQueueOptions{
			Driver: store, Name: "q", Format: amboy.JSON, NumWorkers: 1,
			Retryable: queue.RetryableQueueOptions{StaleRetryingMonitorInterval: time.Hour},
		})
		require.NoError(t, err)
		defer q.Close(ended())
		require.NoError(t, q.Start(t.Context()))
		pass(time.Second)
		store.heal()
		pass(20 * time.Second)
		assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "one").State)
		assert.Equal(t, 1, jobOf(t, q, "one").RetryInfo().CurrentAttempt)
	})
}

// Opening a queue put off the scan for retries of all others, each time for a minute.
func TestAQueueThatWasOpenedDelayedTheRetriesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		group := newDriverGroup(t, store, nil)
		a := open(t, group, "a")
		pass(time.Second)
		r := recordOf(t, "a", noop(t, "one"))
		r.RetryInfo = amboy.JobRetryInfo{Retryable: true, NeedsRetry: true, BaseJobID: "one", MaxAttempts: 3}
		r.Name = driver.RecordName("a", "one", r.RetryInfo)
		r.Status.Completed = true
		insertRecord(t, store, r)
		pass(49 * time.Second)
		open(t, group, "b")
		pass(12 * time.Second)
		assert.Equal(t, 1, jobOf(t, a, "one").RetryInfo().CurrentAttempt)
	})
}
