package outside_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/retry"
)

func TestLeaseReturnsWhatWasPut(t *testing.T) {
	onEach(t, func(f *fixture) {
		f.put("a", `{"to":"<ann>","n":12345678901234567890}`, job.Priority(3), job.Tags("x", "y"), job.MaxAttempts(4),
			job.Timeout(time.Hour), job.Metadata(map[string]string{"trace": "1"}), job.Scopes("s"))
		j, err := job.NewOutside(jobType, job.Payload{Bytes: []byte{0, 0xff, '"'}}, job.ID("b"))
		require.NoError(f, err)
		require.NoError(f, f.queue().Put(f.ctx, j))

		begin := time.Now().Truncate(time.Millisecond)
		jobs := f.lease(10)
		require.Equal(f, []string{"a", "b"}, ids(jobs))
		a := jobs[0]
		assert.JSONEq(f, `{"to":"<ann>","n":12345678901234567890}`, string(a.Payload.JSON))
		assert.Equal(f, []byte{0, 0xff, '"'}, jobs[1].Payload.Bytes)
		assert.Equal(f, []any{queueName, typeName, 1, 0, 4, 3}, []any{a.Queue, a.Type, a.Version, a.Attempt, a.MaxAttempts, a.Priority})
		assert.Equal(f, []string{"x", "y"}, a.Tags)
		assert.Equal(f, map[string]string{"trace": "1"}, a.Metadata)
		f.isAfter(outside.DefaultLease, begin, a.LeaseEnds)
		f.isAfter(time.Hour, begin, a.RunBy)
		assert.Empty(f, f.lease(10))
		f.hasState("a", amboy.StateRunning)
		assert.Contains(f, f.record("a").Status.Owner, "/w")
	})
}

// isAfter checks that a time is as long after the time of a call that has returned.
func (f *fixture) isAfter(length time.Duration, begin, at time.Time) {
	f.Helper()
	assert.WithinRange(f, at, begin.Add(length), time.Now().Add(length+time.Millisecond))
}

func TestCompletedJobHasItsResult(t *testing.T) {
	onEach(t, func(f *fixture) {
		f.put("a", `1`)
		j := f.leaseOne()
		require.NoError(f, f.complete(j, `{"n":12345678901234567890}`))
		f.hasState("a", amboy.StateSucceeded)
		assert.JSONEq(f, `{"value":{"n":12345678901234567890}}`, string(f.record("a").Result.Raw()))
		stored, ok := f.queue().Get(f.ctx, "a")
		require.True(f, ok)
		require.NoError(f, stored.Error())
		require.ErrorIs(f, f.complete(j, `2`), outside.ErrLeaseLost)
	})
}

func TestFailedAttemptIsRetriedByThePolicy(t *testing.T) {
	onEach(t, func(f *fixture) {
		f.put("a", `{"n":1}`, job.MaxAttempts(3), job.RetryPolicy(retry.Fixed{Wait: time.Millisecond}))
		j := f.leaseOne()
		require.NoError(f, f.fail(j, outside.Fail{Error: "no route", Stack: "main.py:1"}))
		j = f.leaseOne()
		assert.Equal(f, 1, j.Attempt)
		assert.JSONEq(f, `{"n":1}`, string(j.Payload.JSON))
		zero := time.Duration(0)
		require.NoError(f, f.fail(j, outside.Fail{Error: "no route again", RetryIn: &zero}))
		j = f.leaseOne()
		require.NoError(f, f.fail(j, outside.Fail{Error: "the last"}))
		f.reaches("a", amboy.StateFailed)
		errs := f.record("a").Status.Attempts
		var texts []string
		for _, e := range errs {
			if !e.Bookkeeping {
				texts = append(texts, fmt.Sprint(e.Attempt, e.Error, e.Stack))
			}
		}
		assert.Equal(f, []string{"0no routemain.py:1", "1no route again", "2the last"}, texts)
	})
}

func TestPermanentFailureIsNotRetried(t *testing.T) {
	onEach(t, func(f *fixture) {
		f.put("a", `1`, job.MaxAttempts(3))
		require.NoError(f, f.fail(f.leaseOne(), outside.Fail{Error: "bad address", Permanent: true}))
		f.hasState("a", amboy.StateFailed)
		assert.Zero(f, f.record("a").RetryInfo.CurrentAttempt)
	})
}

func TestRetryDelayOfTheWorkerReplacesThePolicy(t *testing.T) {
	onEach(t, func(f *fixture) {
		f.put("a", `1`, job.MaxAttempts(3), job.RetryPolicy(retry.Fixed{Wait: time.Second}))
		hour, begin := time.Hour, time.Now().Truncate(time.Millisecond)
		require.NoError(f, f.fail(f.leaseOne(), outside.Fail{Error: "busy", RetryIn: &hour}))
		require.Eventually(f, func() bool { return f.record("a").RetryInfo.CurrentAttempt == 1 }, patience, time.Millisecond)
		f.isAfter(hour, begin, f.record("a").TimeInfo.WaitUntil)
		assert.Equal(f, time.Second, f.policyOf("a"))
	})
}

// policyOf returns the delay of the stored retry policy of a job.
func (f *fixture) policyOf(id string) time.Duration {
	f.Helper()
	stored, ok := f.queue().Get(f.ctx, id)
	require.True(f, ok)
	return stored.(amboy.RetryPolicyJob).RetryPolicy().Delay(0)
}

func TestReleaseIsNoAttempt(t *testing.T) {
	onEach(t, func(f *fixture) {
		f.put("a", `1`, job.MaxAttempts(2))
		first := f.leaseOne()
		require.NoError(f, f.ack(outside.Ack{Token: first.Token, Release: &outside.Release{}}))
		second := f.leaseOne()
		assert.Equal(f, []any{"a", 0}, []any{second.ID, second.Attempt})
		assert.NotEqual(f, first.Token, second.Token)

		// Fencing: the first worker no longer has the job.
		require.ErrorIs(f, f.complete(first, `1`), outside.ErrLeaseLost)
		require.ErrorIs(f, f.dispatcher.Heartbeat(f.ctx, outside.Beat{Token: first.Token})[0].Err, outside.ErrLeaseLost)
		require.ErrorIs(f, f.ack(outside.Ack{Token: first.Token, Checkpoint: &outside.Checkpoint{}}), outside.ErrLeaseLost)
		f.hasState("a", amboy.StateRunning)
		require.NoError(f, f.ack(outside.Ack{Token: second.Token, Release: &outside.Release{Delay: time.Hour, Reason: "moon"}}))
		assert.Empty(f, f.lease(1))
		assert.Equal(f, "moon", f.record("a").Status.Reason)
	})
}

func TestCheckpointReplacesThePayload(t *testing.T) {
	onEach(t, func(f *fixture) {
		f.put("a", `{"page":1}`, job.MaxAttempts(2), job.RetryPolicy(retry.Fixed{}))
		j := f.leaseOne()
		page := func(n int) *job.Payload { return &job.Payload{JSON: json.RawMessage(fmt.Sprintf(`{"page":%d}`, n))} }
		require.NoError(f, f.ack(outside.Ack{Token: j.Token, Checkpoint: &outside.Checkpoint{Payload: page(2)}}))
		f.hasState("a", amboy.StateRunning)
		require.NoError(f, f.ack(outside.Ack{Token: j.Token, Checkpoint: &outside.Checkpoint{Payload: page(3), Again: &outside.Release{}}}))
		j = f.leaseOne()
		assert.JSONEq(f, `{"page":3}`, string(j.Payload.JSON))
		require.NoError(f, f.ack(outside.Ack{Token: j.Token, Checkpoint: &outside.Checkpoint{Payload: &job.Payload{Bytes: []byte("four")}}}))
		require.NoError(f, f.fail(j, outside.Fail{Error: "later"}))
		j = f.leaseOne()
		assert.Equal(f, "four", string(j.Payload.Bytes))
		assert.Equal(f, 1, j.Attempt)
	})
}

func TestTokenIsValidInAnotherProcessAndAfterARestart(t *testing.T) {
	onEach(t, func(f *fixture) {
		f.put("a", `1`)
		f.put("b", `2`)
		jobs := f.lease(2)
		other := f.another()
		f.close()
		begin := time.Now().Truncate(time.Millisecond)
		beat := other.dispatcher.Heartbeat(f.ctx, outside.Beat{Token: jobs[0].Token, Progress: &outside.Progress{Fraction: 0.5, Message: "half"}, Log: []string{"line"}})[0]
		require.NoError(f, beat.Err)
		f.isAfter(outside.DefaultLease, begin, beat.LeaseEnds)
		progress := other.record("a").Progress
		require.NotNil(f, progress)
		assert.Equal(f, []any{0.5, "half", 1}, []any{progress.Fraction, progress.Message, len(progress.Log)})
		require.NoError(f, other.complete(jobs[0], `"x"`))
		require.NoError(f, other.fail(jobs[1], outside.Fail{Error: "y"}))
		other.hasState("a", amboy.StateSucceeded)
		other.hasState("b", amboy.StateFailed)
	})
}

func TestHeartbeatTellsWhichJobsAreToBeCanceled(t *testing.T) {
	onEach(t, func(f *fixture) {
		for _, id := range []string{"a", "b", "c"} {
			f.put(id, `1`, job.MaxAttempts(5))
		}
		jobs := f.lease(3)
		_, err := f.driver.Act(f.ctx, driver.ActRequest{
			Query:  driver.Query{Queues: []string{queueName}, JobIDs: []string{"a", "b"}},
			Action: driver.Action{Kind: driver.Cancel, Reason: "not needed"}, Limit: 10,
		})
		require.NoError(f, err)
		answers := f.dispatcher.Heartbeat(f.ctx, outside.Beat{Token: jobs[0].Token}, outside.Beat{Token: jobs[1].Token}, outside.Beat{Token: jobs[2].Token})
		for i, want := range []bool{true, true, false} {
			require.NoError(f, answers[i].Err)
			assert.Equal(f, want, answers[i].Cancel, jobs[i].ID)
		}
		require.NoError(f, f.fail(jobs[0], outside.Fail{Error: "stopped"}))
		f.hasState("a", amboy.StateCanceled)
		require.NoError(f, f.ack(outside.Ack{Token: jobs[1].Token, Release: &outside.Release{}}))
		f.hasState("b", amboy.StateCanceled)
		require.NoError(f, f.complete(jobs[2], ``))
		f.hasState("c", amboy.StateSucceeded)
	})
}

func TestOnlyJobsOfTheTypesAreLeased(t *testing.T) {
	onEach(t, func(f *fixture) {
		for i := range 20 {
			f.putAs(amboy.JobType{Name: fmt.Sprint("other-", i%5), Version: 1}, fmt.Sprint("other", i), `1`)
		}
		f.put("mine", `1`)
		f.putAs(amboy.JobType{Name: typeName, Version: 2}, "newer", `1`)
		assert.Equal(f, []string{"mine", "newer"}, ids(f.lease(5)))
		req := request()
		req.Types, req.Limit, req.Wait = []string{"other-1", "other-3"}, 100, 30*time.Second
		for leased := 0; leased < 8; { // some may not be handed back yet
			jobs, err := f.dispatcher.Lease(f.ctx, req)
			require.NoError(f, err)
			require.NotEmpty(f, jobs)
			for _, j := range jobs {
				assert.Contains(f, req.Types, j.Type)
			}
			leased += len(jobs)
		}
		stats := f.queue().Stats(f.ctx)
		assert.Equal(f, 12, stats.Pending)
	})
}

func TestJobsOfSeveralQueuesAreLeasedInTurn(t *testing.T) {
	onEach(t, func(f *fixture) {
		for _, name := range []string{"one", "two"} {
			q, err := f.group.Get(f.ctx, name)
			require.NoError(f, err)
			for i := range 3 {
				j, err := job.NewOutside(jobType, job.Payload{}, job.ID(fmt.Sprint(i)))
				require.NoError(f, err)
				require.NoError(f, q.Put(f.ctx, j))
			}
		}
		req := request()
		req.Queues, req.Limit = []string{"one", "none", "two"}, 4
		jobs, err := f.dispatcher.Lease(f.ctx, req)
		require.NoError(f, err)
		counts := map[string]int{}
		for _, j := range jobs {
			counts[j.Queue]++
			assert.JSONEq(f, `null`, string(j.Payload.JSON))
		}
		assert.Equal(f, map[string]int{"one": 2, "two": 2}, counts)
	})
}

func TestWaitingLeaseGetsAJobThatIsPut(t *testing.T) {
	onEach(t, func(f *fixture) {
		other := f.another()
		got := make(chan outside.Job, 1)
		go func() {
			req := request()
			req.Wait = time.Minute
			jobs, err := f.dispatcher.Lease(f.ctx, req)
			if assert.NoError(f, err) && assert.Len(f, jobs, 1) {
				got <- jobs[0]
			}
			close(got)
		}()
		other.put("a", `1`)
		assert.Equal(f, "a", (<-got).ID)
	})
}

func TestDependentJobIsLeasedAfterTheOther(t *testing.T) {
	onEach(t, func(f *fixture) {
		f.put("a", `1`)
		f.put("b", `1`, job.After("a"))
		f.put("c", `1`, job.After("a"))
		first := f.lease(5)
		require.Equal(f, []string{"a"}, ids(first))
		require.NoError(f, f.complete(first[0], ``))
		next := f.lease(1)
		require.Equal(f, []string{"b"}, ids(next))
		// A job whose dependency failed ends as failed without being leased.
		f.put("d", `1`, job.After("b"))
		require.NoError(f, f.fail(next[0], outside.Fail{Error: "no"}))
		assert.Equal(f, []string{"c"}, ids(f.lease(5)))
		f.reaches("d", amboy.StateFailed)
	})
}

func TestManyAreAcknowledgedAtOnce(t *testing.T) {
	onEach(t, func(f *fixture) {
		for i := range 30 {
			f.put(fmt.Sprint(i), `1`)
		}
		jobs := f.lease(20)
		acks := make([]outside.Ack, len(jobs))
		for i, j := range jobs {
			acks[i] = outside.Ack{Token: j.Token, Complete: &outside.Complete{}}
		}
		acks[3].Token = "nonsense"
		acks[4] = outside.Ack{Token: jobs[4].Token}
		req := request()
		req.Limit = 100
		errs := f.dispatcher.Acknowledge(f.ctx, acks...)
		more, err := f.dispatcher.Lease(f.ctx, req)
		require.NoError(f, err)
		assert.Len(f, more, 10)
		for i, err := range errs {
			switch i {
			case 3:
				require.ErrorIs(f, err, outside.ErrBadToken)
			case 4:
				var invalid *outside.InvalidError
				require.ErrorAs(f, err, &invalid)
			default:
				require.NoError(f, err)
			}
		}
		assert.Equal(f, 18, f.queue().Stats(f.ctx).Completed)
	})
}

var declared = job.DeclareResult[map[string]int, int]("outside-declared", 3, job.Defaults[map[string]int]{MaxAttempts: 2, Unique: job.Uniqueness{Args: true}})

func TestDeclaredJobRunsOutsideAndItsResultIsRead(t *testing.T) {
	onEach(t, func(f *fixture) {
		id, err := declared.Put(f.ctx, f.queue(), map[string]int{"n": 20})
		require.NoError(f, err)
		_, err = declared.Put(f.ctx, f.queue(), map[string]int{"n": 20})
		assert.True(f, amboy.IsDuplicateJobError(err))
		req := request()
		req.Types = []string{"outside-declared"}
		jobs, err := f.dispatcher.Lease(f.ctx, req)
		require.NoError(f, err)
		require.Len(f, jobs, 1)
		assert.JSONEq(f, `{"n":20}`, string(jobs[0].Payload.JSON))
		assert.Equal(f, []any{3, 2}, []any{jobs[0].Version, jobs[0].MaxAttempts})
		var invalid *amboy.InvalidJobError
		require.ErrorAs(f, f.complete(jobs[0], `"not a number"`), &invalid)
		assert.Equal(f, "result", invalid.Field)
		require.NoError(f, f.complete(jobs[0], `42`))
		result, err := declared.Result(f.ctx, f.queue(), id)
		require.NoError(f, err)
		assert.Equal(f, 42, result)
	})
}

func TestLeaseThatRunsOutIsAnInterruption(t *testing.T) {
	inMemory(t, outside.Options{}, func(f *fixture) {
		f.put("a", `1`, job.MaxAttempts(2))
		req := request()
		req.Lease, req.Wait = 10*time.Second, time.Minute
		for i := range 3 {
			began := time.Now()
			jobs, err := f.dispatcher.Lease(f.ctx, req)
			require.NoError(f, err)
			require.Len(f, jobs, 1, "run %d", i)
			assert.Zero(f, jobs[0].Attempt)
			assert.Equal(f, i, f.record("a").Status.Interruptions.Total())
			if i > 0 {
				assert.InDelta(f, 11, time.Since(began).Seconds(), 3)
			}
		}
		// The third interruption parks it.
		jobs, err := f.dispatcher.Lease(f.ctx, req)
		require.NoError(f, err)
		assert.Empty(f, jobs)
		f.hasState("a", amboy.StateParked)
	})
}

func TestHeartbeatsKeepALease(t *testing.T) {
	inMemory(t, outside.Options{}, func(f *fixture) {
		f.put("a", `1`)
		req := request()
		req.Lease = 10 * time.Second
		jobs, err := f.dispatcher.Lease(f.ctx, req)
		require.NoError(f, err)
		for i := range 20 {
			time.Sleep(8 * time.Second)
			beat := f.dispatcher.Heartbeat(f.ctx, outside.Beat{Token: jobs[0].Token, Log: []string{fmt.Sprint("line ", i)}})[0]
			require.NoError(f, beat.Err)
			assert.Equal(f, time.Now().Add(10*time.Second), beat.LeaseEnds)
		}
		assert.Len(f, f.record("a").Progress.Log, 20)
		require.NoError(f, f.complete(jobs[0], ``))
	})
}

// Each server stored the log as it remembered it.
func TestHeartbeatsThatAlternateBetweenServersLostLogLines(t *testing.T) {
	onEach(t, func(f *fixture) {
		f.put("a", `1`)
		f.put("b", `1`)
		jobs := f.lease(2)
		servers := []*fixture{f, f.another()}
		for i := range 6 {
			for n, beaten := range servers[i%2].dispatcher.Heartbeat(f.ctx,
				outside.Beat{Token: jobs[0].Token, Log: []string{fmt.Sprint("line ", i)}},
				outside.Beat{Token: jobs[1].Token, Progress: &outside.Progress{Fraction: float64(i) / 10}},
			) {
				require.NoError(f, beaten.Err, n)
			}
		}
		var lines []string
		for _, line := range f.record("a").Progress.Log {
			lines = append(lines, line.Text)
		}
		assert.Equal(f, []string{"line 0", "line 1", "line 2", "line 3", "line 4", "line 5"}, lines)
		assert.InDelta(f, 0.5, f.record("b").Progress.Fraction, 0.001)
		for _, j := range jobs {
			require.NoError(f, f.complete(j, ``))
		}
	})
}

// On PostgreSQL the lease was said to be lost.
func TestTwoHeartbeatsOfAJobInOneCall(t *testing.T) {
	onEach(t, func(f *fixture) {
		f.put("a", `1`)
		j := f.leaseOne()
		for _, beaten := range f.dispatcher.Heartbeat(f.ctx,
			outside.Beat{Token: j.Token, Log: []string{"one"}},
			outside.Beat{Token: j.Token, Log: []string{"two"}},
		) {
			require.NoError(f, beaten.Err)
		}
		assert.Len(f, f.record("a").Progress.Log, 2)
		require.NoError(f, f.complete(j, ``))
	})
}

func TestTimeToRunIsAFailedAttempt(t *testing.T) {
	for name, lease := range map[string]time.Duration{"same lease": time.Minute, "longer lease": time.Hour, "shorter lease with heartbeats": 10 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, outside.Options{}, func(f *fixture) {
				f.put("a", `1`, job.MaxAttempts(2), job.Timeout(time.Minute), job.RetryPolicy(retry.Fixed{}))
				req := request()
				req.Lease = lease
				jobs, err := f.dispatcher.Lease(f.ctx, req)
				require.NoError(f, err)
				for time.Until(jobs[0].RunBy) > 5*time.Second {
					time.Sleep(5 * time.Second)
					require.NoError(f, f.dispatcher.Heartbeat(f.ctx, outside.Beat{Token: jobs[0].Token})[0].Err)
				}
				req.Wait = time.Minute
				again, err := f.dispatcher.Lease(f.ctx, req)
				require.NoError(f, err)
				require.Len(f, again, 1)
				assert.Equal(f, 1, again[0].Attempt)
				assert.Equal(f, jobs[0].RunBy, time.Now().Truncate(time.Millisecond))
				assert.Nil(f, f.record("a").Status.Interruptions)
				require.ErrorIs(f, f.complete(jobs[0], `1`), outside.ErrLeaseLost)
				require.NoError(f, f.complete(again[0], ``))
			})
		})
	}
}

// A worker died, and its time to run was over before anybody noticed that its lease had run out. The attempt
// failed, although the job had only been interrupted.
func TestALeaseThatRanOutShortlyBeforeTheTimeToRunWasAFailedAttempt(t *testing.T) {
	for _, serverDies := range []bool{false, true} {
		t.Run(fmt.Sprintf("server dies %t", serverDies), func(t *testing.T) {
			inMemory(t, outside.Options{}, func(f *fixture) {
				f.put("a", `1`, job.MaxAttempts(2), job.Timeout(13*time.Second), job.RetryPolicy(retry.Fixed{}))
				req := request()
				req.Lease = 12 * time.Second
				_, err := f.dispatcher.Lease(f.ctx, req)
				require.NoError(f, err)
				if serverDies {
					other := f.another()
					f.close()
					defer other.close()
					f = other
				}
				req.Wait = 2 * time.Minute
				again, err := f.dispatcher.Lease(f.ctx, req)
				require.NoError(f, err)
				require.Len(f, again, 1)
				assert.Equal(f, 0, again[0].Attempt)
				assert.Equal(f, 1, f.record("a").Status.Interruptions.Total())
			})
		})
	}
}

func TestTimeToRunEndsTheAttemptAlthoughTheServerDied(t *testing.T) {
	inMemory(t, outside.Options{}, func(f *fixture) {
		f.put("a", `1`, job.MaxAttempts(2), job.Timeout(time.Minute), job.RetryPolicy(retry.Fixed{}))
		f.put("b", `1`, job.MaxAttempts(2), job.Timeout(time.Minute), job.RetryPolicy(retry.Fixed{}))
		jobs := f.lease(2)
		other := f.another()
		f.close()
		time.Sleep(2 * time.Minute)
		// A late acknowledgement is told.
		var tooLong *amboy.MaxTimeError
		err := other.complete(jobs[0], `1`)
		assert.True(f, errors.As(err, &tooLong) || errors.Is(err, outside.ErrLeaseLost), "%v", err)
		for range 2 {
			assert.Equal(f, 1, other.leaseOne().Attempt)
		}
		other.close()
	})
}

func TestWaitEndsInTime(t *testing.T) {
	inMemory(t, outside.Options{}, func(f *fixture) {
		began := time.Now()
		req := request()
		req.Wait = 10 * time.Second
		jobs, err := f.dispatcher.Lease(f.ctx, req)
		require.NoError(f, err)
		assert.Empty(f, jobs)
		assert.Equal(f, 10*time.Second, time.Since(began))
	})
}

func TestWaitingLeaseGetsAScheduledJobWhenItIsDue(t *testing.T) {
	inMemory(t, outside.Options{}, func(f *fixture) {
		f.put("a", `1`, job.In(7*time.Second))
		began := time.Now()
		assert.Equal(f, "a", f.leaseOne().ID)
		assert.Equal(f, 7*time.Second, time.Since(began).Truncate(time.Millisecond))
	})
}

// TestLeaseWaitsForTheRate also raises the rate while a worker waits for hours.
func TestLeaseWaitsForTheRate(t *testing.T) {
	inMemory(t, outside.Options{}, func(f *fixture) {
		require.NoError(f, amboy.SetRate(f.ctx, f.queue(), &amboy.Rate{PerSecond: 0.1}))
		for i := range 4 {
			f.put(fmt.Sprint(i), `1`)
		}
		began := time.Now()
		for i := range 3 {
			assert.Equal(f, fmt.Sprint(i), f.leaseOne().ID)
			assert.Equal(f, time.Duration(i)*10*time.Second, time.Since(began).Truncate(time.Second))
		}
		require.NoError(f, amboy.SetRate(f.ctx, f.queue(), &amboy.Rate{PerSecond: 0.001}))
		var waiting sync.WaitGroup
		waiting.Go(func() { assert.Equal(f, "3", f.leaseOne().ID) })
		synctest.Wait()
		require.NoError(f, amboy.SetRate(f.ctx, f.queue(), &amboy.Rate{PerSecond: 1}))
		waiting.Wait()
		assert.Less(f, time.Since(began), 25*time.Second)
	})
}

func TestWorkersAreServedInTheirOrder(t *testing.T) {
	inMemory(t, outside.Options{}, func(f *fixture) {
		const workers = 50
		order := make(chan int, workers)
		var waiting sync.WaitGroup
		for i := range workers {
			waiting.Go(func() {
				j := f.leaseOne()
				order <- i
				assert.Equal(f, fmt.Sprint(i), j.ID)
			})
			synctest.Wait()
		}
		for i := range workers {
			f.put(fmt.Sprint(i), `1`)
			synctest.Wait()
		}
		waiting.Wait()
		for i := range workers {
			assert.Equal(f, i, <-order)
		}
	})
}

func TestABurstServesAllWaitingWorkers(t *testing.T) {
	inMemory(t, outside.Options{}, func(f *fixture) {
		const workers = 50
		var waiting sync.WaitGroup
		for range workers {
			waiting.Go(func() { f.leaseOne() })
		}
		synctest.Wait()
		jobs := make([]amboy.Job, workers)
		for i := range jobs {
			var err error
			jobs[i], err = job.NewOutside(jobType, job.Payload{}, job.ID(fmt.Sprint(i)))
			require.NoError(f, err)
		}
		began := time.Now()
		require.NoError(f, f.queue().PutMany(f.ctx, jobs))
		waiting.Wait()
		assert.Zero(f, time.Since(began))
	})
}

func TestAWorkerThatLeavesGetsNoJob(t *testing.T) {
	inMemory(t, outside.Options{}, func(f *fixture) {
		ctx, cancel := context.WithCancel(f.ctx)
		var waiting sync.WaitGroup
		waiting.Go(func() {
			req := request()
			req.Wait = time.Minute
			_, err := f.dispatcher.Lease(ctx, req)
			require.ErrorIs(f, err, context.Canceled)
		})
		synctest.Wait()
		cancel()
		waiting.Wait()
		f.put("a", `1`)
		synctest.Wait()
		f.hasState("a", amboy.StatePending)
		assert.Nil(f, f.record("a").Status.Interruptions)
	})
}

func TestTooManyWaiting(t *testing.T) {
	inMemory(t, outside.Options{MaxWaiting: 2}, func(f *fixture) {
		var waiting sync.WaitGroup
		req := request()
		req.Wait = time.Minute
		for range 2 {
			waiting.Go(func() {
				_, err := f.dispatcher.Lease(f.ctx, req)
				require.NoError(f, err)
			})
		}
		synctest.Wait()
		_, err := f.dispatcher.Lease(f.ctx, req)
		require.ErrorIs(f, err, outside.ErrTooManyWaiting)
		waiting.Wait()
		_, err = f.dispatcher.Lease(f.ctx, req)
		require.NoError(f, err)
	})
}

func TestCloseEndsWaitingLeases(t *testing.T) {
	inMemory(t, outside.Options{}, func(f *fixture) {
		var waiting sync.WaitGroup
		waiting.Go(func() {
			req := request()
			req.Wait = time.Minute
			_, err := f.dispatcher.Lease(f.ctx, req)
			require.ErrorIs(f, err, outside.ErrClosed)
		})
		synctest.Wait()
		require.NoError(f, f.dispatcher.Close(f.ctx))
		waiting.Wait()
		_, err := f.dispatcher.Lease(f.ctx, request())
		require.ErrorIs(f, err, outside.ErrClosed)
		require.ErrorIs(f, f.ack(outside.Ack{Token: "x", Complete: &outside.Complete{}}), outside.ErrClosed)
		require.ErrorIs(f, f.dispatcher.Heartbeat(f.ctx, outside.Beat{Token: "x"})[0].Err, outside.ErrClosed)
	})
}

func TestExpiredJobIsNotLeased(t *testing.T) {
	inMemory(t, outside.Options{}, func(f *fixture) {
		f.put("a", `1`, job.DispatchBy(time.Now().Add(time.Second)))
		time.Sleep(2 * time.Second)
		assert.Empty(f, f.lease(1))
		synctest.Wait()
		f.hasState("a", amboy.StateExpired)
	})
}

func TestPausedQueueLeasesNothing(t *testing.T) {
	inMemory(t, outside.Options{}, func(f *fixture) {
		f.put("a", `1`)
		controller := f.queue().(amboy.QueueController)
		require.NoError(f, controller.Pause(f.ctx))
		assert.Empty(f, f.lease(1))
		var waiting sync.WaitGroup
		waiting.Go(func() { assert.Equal(f, "a", f.leaseOne().ID) })
		synctest.Wait()
		require.NoError(f, controller.Resume(f.ctx))
		waiting.Wait()
	})
}
