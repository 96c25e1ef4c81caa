package queue_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// fleet replaces a process that a job kills by another process on the same store.
type fleet struct {
	t       *testing.T
	store   driver.Driver
	workers int
	current *spy
	kills   atomic.Int64
	queues  []amboy.Queue
}

func (f *fleet) start() amboy.RetryableQueue {
	f.current = newSpy(f.store)
	f.current.durable = true
	q := startEngine(f.t, f.current, f.workers)
	f.queues = append(f.queues, q)
	return q
}

// kill cuts off the current process for ever. To the store, it is dead.
func (f *fleet) kill() {
	f.kills.Add(1)
	f.current.fail()
	f.queues[len(f.queues)-1].Close(ended())
}

func (f *fleet) close() {
	for _, q := range f.queues {
		q.Close(ended())
	}
}

func TestAJobThatKillsItsProcessKillsTheFleetForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{t: t, store: newStore(t), workers: 8}
		defer f.close()
		var running, most atomic.Int64 // beside the job that kills, from its fourth run on
		killed := make(chan struct{}, 100)
		f.start()
		jobs := []amboy.Job{newJob(t, "killer", func(ctx context.Context, _ *funcJob) {
			if f.kills.Load() >= 3 {
				most.Store(max(most.Load(), running.Load()))
			}
			killed <- struct{}{}
			<-ctx.Done()
		})}
		for i := range 999 {
			jobs = append(jobs, newJob(t, fmt.Sprint("good", i), func(ctx context.Context, _ *funcJob) {
				running.Add(1)
				defer running.Add(-1)
				select {
				case <-time.After(100 * time.Millisecond):
				case <-ctx.Done():
				}
			}))
		}
		loader := newTestEngine(t, f.store, 1)
		defer loader.Close(ended())
		require.NoError(t, loader.PutMany(t.Context(), jobs))
		end := time.After(time.Hour)
		var q amboy.RetryableQueue
		for over := false; !over; {
			select {
			case <-killed:
				f.kill()
				q = f.start()
			case <-end:
				over = true
			}
		}
		assert.EqualValues(t, amboy.DefaultMaxInterruptions, f.kills.Load())
		assert.Zero(t, most.Load(), "the job runs alone from its fourth run on")
		stats := q.Stats(t.Context())
		assert.Equal(t, amboy.QueueStats{Completed: 999, Pending: 1, Total: 1000}, stats)
		killer := infoOf(t, q, "killer")
		assert.Equal(t, amboy.StateParked, killer.State)
		assert.Contains(t, killer.Status.Reason, "interrupted 10 times (limit 10): the lease of")
		assert.Len(t, killer.Status.Interruptions.Latest, 10)
	})
}

// TestAnOperatorReleasesAJobThatWasInterruptedTooOften checks that a released job may be
// interrupted as often again.
func TestAnOperatorReleasesAJobThatWasInterruptedTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{t: t, store: newStore(t), workers: 1}
		defer f.close()
		q := f.start()
		began := make(chan struct{}, 100)
		j := newJob(t, "job", func(ctx context.Context, _ *funcJob) {
			interrupted := f.kills.Load() < 2
			began <- struct{}{}
			if interrupted {
				<-ctx.Done()
			}
		})
		j.UpdateRetryInfo(amboy.JobRetryOptions{MaxInterruptions: new(2)})
		put(t, q, j)
		for range 2 {
			<-began
			f.kill()
			q = f.start()
		}
		pass(10 * time.Minute)
		require.Equal(t, amboy.StateParked, infoOf(t, q, "job").State, "the job's own limit counts")
		admin, _ := queue.StoreOf(q)
		_, err := admin.Admin().Act(t.Context(), driver.ActRequest{
			Query: driver.Query{Queues: admin.Queues()}, Action: driver.Action{Kind: driver.Unpark}, Limit: 10,
		})
		require.NoError(t, err)
		pass(time.Minute)
		assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "job").State)
	})
}

// TestStopsOfAProcessAreNoInterruptions hands a job back more often than it may be
// interrupted.
func TestStopsOfAProcessAreNoInterruptions(t *testing.T) {
	onDurable(t, func(t *testing.T, store *spy) {
		began := make(chan struct{}, 100)
		var stops atomic.Int64
		j := newJob(t, "job", func(ctx context.Context, _ *funcJob) {
			interrupted := stops.Load() < 2*amboy.DefaultMaxInterruptions
			began <- struct{}{}
			if interrupted {
				<-ctx.Done()
			}
		})
		for q := startEngine(t, store, 1); ; q = startEngine(t, store, 1) {
			if stops.Load() == 0 {
				put(t, q, j)
			}
			<-began
			if stops.Load() == 2*amboy.DefaultMaxInterruptions {
				pass(time.Second)
				assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "job").State)
				assert.Nil(t, infoOf(t, q, "job").Status.Interruptions)
				q.Close(ended())
				return
			}
			q.Close(ended())
			stops.Add(1)
		}
	})
}

// TestASuspectStopsAProcessWhoseJobsRunForHours has a suspect that waits for a job that
// takes a day.
func TestASuspectStopsAProcessWhoseJobsRunForHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{t: t, store: newStore(t), workers: 1}
		defer f.close()
		began := make(chan struct{}, 100)
		suspect := newJob(t, "suspect", func(ctx context.Context, _ *funcJob) {
			interrupted := f.kills.Load() < 3
			began <- struct{}{}
			if interrupted {
				<-ctx.Done()
			}
		})
		put(t, f.start(), suspect)
		for range 2 {
			<-began
			f.kill()
			f.start()
		}
		<-began
		f.kill()
		f.workers = 2
		q := f.start()
		put(t, q, newJob(t, "long", func(ctx context.Context, _ *funcJob) { <-ctx.Done() }))
		synctest.Wait()
		pass(5 * time.Minute)
		put(t, q, noop(t, "other"))
		pass(time.Second)
		assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "suspect").State)
		assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "other").State)
		assert.Equal(t, amboy.StateRunning, infoOf(t, q, "long").State)
	})
}

// Nothing else ran in its process for as long as it did: a job that hangs stopped a service of one process for good, once
// three processes had left it behind.
func TestASuspectThatDoesNotReturnStoppedItsProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{t: t, store: newStore(t), workers: 2}
		defer f.close()
		began := make(chan struct{}, 100)
		put(t, f.start(), newJob(t, "suspect", func(ctx context.Context, _ *funcJob) {
			began <- struct{}{}
			<-ctx.Done()
		}))
		q := amboy.Queue(nil)
		for range 3 {
			<-began
			f.kill()
			q = f.start()
		}
		<-began
		put(t, q, noop(t, "other"))
		pass(5 * time.Minute)
		assert.Equal(t, amboy.StatePending, infoOf(t, q, "other").State, "it runs alone at first")
		pass(10 * time.Minute)
		assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "other").State)
		assert.Equal(t, amboy.StateRunning, infoOf(t, q, "suspect").State)
	})
}

// The log counted the jobs whose process had died, but named none of them.
func TestTheLogDidNotNameTheJobsWhoseProcessHadDied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{t: t, store: newStore(t), workers: 1}
		defer f.close()
		lines := logged(t, func() {
			q := f.start()
			began := make(chan struct{}, 2)
			put(t, q, newJob(t, "job", func(ctx context.Context, _ *funcJob) {
				began <- struct{}{}
				if f.kills.Load() == 0 {
					<-ctx.Done()
				}
			}))
			<-began
			f.kill()
			q = f.start()
			<-began
			drain(t, q)
		}, "message", "job_id", "interruptions")
		assert.Contains(t, lines, "warning|running a job again, because its process died or lost the store|job|1")
	})
}
