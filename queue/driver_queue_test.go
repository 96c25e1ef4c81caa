package queue_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

// labeled is a job with a unique key and tags.
type labeled struct {
	job.Base `bson:"job_base" json:"job_base"`
	Key      string            `bson:"key" json:"key"`
	Until    amboy.UniqueUntil `bson:"until" json:"until"`
	Labels   []string          `bson:"labels" json:"labels"`
	Lasts    time.Duration     `bson:"lasts" json:"lasts"`
	Fails    bool              `bson:"fails" json:"fails"`
}

func init() {
	registry.AddJobType("labeled", func() amboy.Job { return newLabeled("", "", "") })
}

func newLabeled(id, key string, until amboy.UniqueUntil) *labeled {
	j := &labeled{Key: key, Until: until}
	j.JobType = amboy.JobType{Name: "labeled"}
	j.SetID(id)
	return j
}

func (j *labeled) UniqueKey() (string, amboy.UniqueUntil) { return j.Key, j.Until }
func (j *labeled) Tags() []string                         { return j.Labels }

func (j *labeled) Run(ctx context.Context) {
	defer j.MarkComplete()
	select {
	case <-time.After(j.Lasts):
	case <-ctx.Done():
	}
	if j.Fails {
		j.AddRetryableError(errors.New("no luck"))
	}
}

// isTaken reports whether a key is taken: it tries to put another job with the key, and
// removes that job again.
func isTaken(t *testing.T, store driver.Driver, q amboy.Queue, key string, until amboy.UniqueUntil) bool {
	t.Helper()
	rival := newLabeled("rival", key, until)
	rival.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(1000 * time.Hour)})
	err := q.Put(t.Context(), rival)
	if err != nil {
		assert.True(t, amboy.IsDuplicateJobError(err), "%v", err)
		assert.False(t, amboy.IsDuplicateJobScopeError(err))
		require.ErrorContains(t, err, fmt.Sprintf("%q", key))
		return true
	}
	for _, kind := range []driver.ActionKind{driver.Cancel, driver.Delete} {
		acted, err := store.Act(t.Context(), driver.ActRequest{
			Query: driver.Query{ID: "rival"}, Action: driver.Action{Kind: kind}, Limit: 10,
		})
		require.NoError(t, err)
		require.Equal(t, 1, acted.Done)
	}
	return false
}

// TestUniqueKeyIsHeldUntilTheChosenStage tries to put another job with the same key at
// each stage of a job's life.
func TestUniqueKeyIsHeldUntilTheChosenStage(t *testing.T) {
	for _, test := range []struct {
		until          amboy.UniqueUntil
		fails          bool
		running, ended bool // whether the key is taken at that stage
	}{
		{until: "", running: true},
		{until: amboy.UniqueUntilEnded, running: true},
		{until: amboy.UniqueUntilEnded, fails: true, running: true},
		{until: amboy.UniqueUntilStarted},
		{until: amboy.UniqueUntilStarted, fails: true},
		{until: amboy.UniqueUntilFailed, running: true, ended: true},
		{until: amboy.UniqueUntilFailed, fails: true, running: true},
		{until: amboy.UniqueUntilForgotten, running: true, ended: true},
		{until: amboy.UniqueUntilForgotten, fails: true, running: true, ended: true},
	} {
		t.Run(fmt.Sprintf("%q, fails %t", test.until, test.fails), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newStore(t)
				q, err := queue.NewDriverQueue(queue.DriverQueueOptions{
					Driver: store, Format: amboy.JSON, NumWorkers: 1,
					Retention: queue.Retention{Succeeded: time.Hour, Failed: time.Hour},
				})
				require.NoError(t, err)
				defer q.Close(context.Background())
				j := newLabeled("one", "key", test.until)
				j.Lasts, j.Fails = time.Minute, test.fails
				if test.fails {
					attempts, wait := 2, time.Minute
					j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true), MaxAttempts: &attempts, WaitUntil: &wait})
				}
				put(t, q, j)
				taken := func() bool { return isTaken(t, store, q, "key", test.until) }
				assert.True(t, taken(), "while it waits")
				assert.False(t, isTaken(t, store, q, "other key", test.until))
				assert.False(t, isTaken(t, store, q, "", test.until), "an empty key is no key")

				require.NoError(t, q.Start(t.Context()))
				pass(30 * time.Second)
				assert.Equal(t, test.running, taken(), "while it runs")
				if test.fails {
					pass(time.Minute)
					assert.Equal(t, test.running, taken(), "between its attempts")
					pass(time.Minute)
					assert.Equal(t, test.running, taken(), "in its second attempt")
				}
				pass(30 * time.Minute)
				assert.Equal(t, test.ended, taken(), "when it has ended")
				pass(time.Hour)
				assert.False(t, taken(), "when it is removed")
			})
		})
	}
}

func TestUniqueKeysAreThoseOfAQueue(t *testing.T) {
	group := newDriverGroup(t, newStore(t), nil)
	for _, name := range []string{"a", "b"} {
		q := open(t, group, name)
		require.NoError(t, controlled(t, q).Pause(t.Context()))
		put(t, q, newLabeled("one", "key", ""))
		assert.True(t, amboy.IsDuplicateJobError(q.Put(t.Context(), newLabeled("two", "key", ""))))
	}
}

func TestUniqueUntilIsChecked(t *testing.T) {
	q := newTestEngine(t, newStore(t), 1)
	defer q.Close(context.Background())
	err := q.Put(t.Context(), newLabeled("one", "key", "tomorrow"))
	var invalid *amboy.InvalidJobError
	require.ErrorAs(t, err, &invalid)
	assert.Equal(t, "one", invalid.JobID)
	assert.Equal(t, "unique until", invalid.Field)
	assert.Zero(t, q.Stats(t.Context()).Total)
}

// TestTagsFindJobs checks that the attempts of a job keep its tags.
func TestTagsFindJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		q := startEngine(t, store, 1)
		defer q.Close(context.Background())
		both, one := newLabeled("both", "", ""), newLabeled("one", "", "")
		both.Labels, one.Labels = []string{"red", "large"}, []string{"red"}
		both.Fails = true
		attempts := 2
		both.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true), MaxAttempts: &attempts})
		put(t, q, both, one, newLabeled("none", "", ""))
		require.True(t, amboy.Wait(day(t), q))
		tagged := func(tag string) (found []string) {
			page, err := store.Find(t.Context(), driver.Query{Tags: []string{tag}, Latest: true}, driver.PageRequest{Limit: 10})
			require.NoError(t, err)
			for _, r := range page.Records {
				found = append(found, r.JobID())
			}
			return found
		}
		assert.ElementsMatch(t, []string{"both", "one"}, tagged("red"))
		assert.Equal(t, []string{"both"}, tagged("large"))
		assert.Empty(t, tagged("lar"))
	})
}

// TestStreamsWhileJobsComeAndGo reads many pages of jobs, some of which exist all the
// time and some of which do not.
func TestStreamsWhileJobsComeAndGo(t *testing.T) {
	const kept, pageSize = 1300, 500
	store := newSpy(newStore(t))
	q := startEngine(t, store, 4)
	defer q.Close(context.Background())
	ctx := long(t)
	var jobs []amboy.Job
	for _, id := range ids("kept", kept) {
		j := newFuncJob()
		j.SetID(id)
		jobs = append(jobs, j)
	}
	require.NoError(t, q.PutMany(ctx, jobs))
	require.True(t, amboy.Wait(ctx, q))

	var ended atomic.Bool
	var others sync.WaitGroup
	for i := range 2 {
		others.Go(func() {
			for n := 0; !ended.Load(); n++ {
				j := newFuncJob()
				j.SetID(fmt.Sprintf("passing %d-%d", i, n))
				err := q.Put(ctx, j)
				if err == nil {
					amboy.WaitJob(ctx, j, q)
					_, err = store.Act(ctx, driver.ActRequest{
						Query: driver.Query{ID: j.ID()}, Action: driver.Action{Kind: driver.Delete}, Limit: 10,
					})
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	store.reset()
	for range 2 {
		results, infos := map[string]int{}, map[string]int{}
		for j := range q.Results(ctx) {
			results[j.ID()]++
			if len(results)%pageSize == 0 {
				pause(ctx)
			}
		}
		for info := range q.JobInfo(ctx) {
			infos[info.ID]++
		}
		for _, id := range ids("kept", kept) {
			require.Equal(t, 1, results[id], "job %q is in the results once", id)
			require.Equal(t, 1, infos[id], "job %q is in the infos once", id)
		}
		for id, times := range results {
			require.Equal(t, 1, times, "job %q", id)
		}
	}
	assert.GreaterOrEqual(t, store.count("Find"), 2*2*(kept/pageSize))
	ended.Store(true)
	others.Wait()
	require.NoError(t, ctx.Err())
}

// pause lets other goroutines run.
func pause(ctx context.Context) {
	for range 100 {
		if ctx.Err() == nil {
			runtime.Gosched()
		}
	}
}

// TestStreamEndsWithItsReader stops reading streams of many pages before their end.
func TestStreamEndsWithItsReader(t *testing.T) {
	q := newTestEngine(t, newStore(t), 1)
	var jobs []amboy.Job
	for _, id := range ids("", 2000) {
		j := newFuncJob()
		j.SetID(id)
		jobs = append(jobs, j)
	}
	require.NoError(t, q.PutMany(t.Context(), jobs))
	ctx, cancel := context.WithCancel(t.Context())
	left, kept := q.JobInfo(ctx), q.JobInfo(t.Context())
	assert.Equal(t, "0", (<-left).ID)
	assert.Equal(t, "0", (<-kept).ID)
	cancel()
	q.Close(t.Context()) // goleak fails if it does not wait for both
	rest := 0
	for range kept {
		rest++
	}
	assert.Less(t, rest, 1999)
}

// TestQueueThatCannotBeMadeLeavesTheDriverOpen uses a runner that can't be made.
func TestQueueThatCannotBeMadeLeavesTheDriverOpen(t *testing.T) {
	store := newStore(t)
	opts := queue.DriverQueueOptions{
		Driver:      store,
		CloseDriver: true,
		NewRunner:   func(amboy.Queue) (amboy.Runner, error) { return nil, errors.New("no workers today") },
	}
	_, err := queue.NewDriverQueue(opts)
	require.ErrorContains(t, err, "no workers today")
	opts.NewRunner, opts.NumWorkers = nil, 1
	q, err := queue.NewDriverQueue(opts)
	require.NoError(t, err)
	defer q.Close(context.Background())
	require.NoError(t, q.Put(t.Context(), noop(t, "one")))
}
