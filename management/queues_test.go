package management_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

func (f *inspected) described() management.Queue {
	f.Helper()
	q, err := f.Queue(f.ctx, f.name)
	require.NoError(f, err)
	all, err := f.Queues(f.ctx)
	require.NoError(f, err)
	assert.Contains(f, all, q)
	return q
}

func TestQueues(t *testing.T) {
	inspectEach(t, []view{ofQueue, ofGroup}, func(f *inspected) {
		q, err := f.Queue(f.ctx, f.name)
		require.NoError(f, err)
		assert.Equal(f, management.Queue{Name: f.name}, q)
		before := time.Now().Add(-time.Second)
		f.putOneInEachState()
		q = f.described()
		assert.True(f, q.OldestPending.After(before) && q.OldestPending.Before(time.Now()), "%s", q.OldestPending)
		want := management.Counts{Pending: 4, Blocked: 1, Running: 2, Completed: 3, Total: 9}
		if f.stored {
			want.Completed, want.Retrying, want.Total = 4, 1, 10
		}
		assert.Equal(f, want, q.Counts)
	})
}

func TestAQueueWithoutJobsIsListed(t *testing.T) {
	inspectEach(t, []view{ofQueue, ofGroup}, func(f *inspected) {
		assert.Equal(f, management.Queue{Name: f.name}, f.described())
		all, err := f.Queues(f.ctx)
		require.NoError(f, err)
		assert.True(f, slices.IsSortedFunc(all, func(a, b management.Queue) int { return cmp.Compare(a.Name, b.Name) }))
	})
}

func typeLimit(jobType string, limit amboy.TypeLimit) management.ControlChange {
	return management.ControlChange{TypeLimit: &management.TypeLimitChange{Type: jobType, TypeLimit: limit}}
}

func TestSetControl(t *testing.T) {
	inspectEach(t, []view{ofQueue, ofGroup}, func(f *inspected) {
		want := management.Control{}
		for _, step := range []struct {
			change management.ControlChange
			apply  func()
		}{
			{management.ControlChange{Paused: new(true), MaxRunning: new(3)}, func() { want.Paused, want.MaxRunning = true, 3 }},
			{management.ControlChange{Draining: new(true)}, func() { want.Draining = true }},
			{management.ControlChange{Workers: new(5)}, func() { want.Workers = 5 }},
			{management.ControlChange{Rate: &amboy.Rate{PerSecond: 0.1, Burst: 2}}, func() { want.Rate = &amboy.Rate{PerSecond: 0.1, Burst: 2} }},
			{management.ControlChange{}, func() {}},
			{management.ControlChange{NoRate: true}, func() { want.Rate = nil }},
			{typeLimit("letter", amboy.TypeLimit{MaxRunning: 2}), func() { want.Types = map[string]amboy.TypeLimit{"letter": {MaxRunning: 2}} }},
			{typeLimit("letter", amboy.TypeLimit{}), func() { want.Types = nil }},
			{management.ControlChange{Workers: new(0), Paused: new(false)}, func() { want.Workers, want.Paused = 0, false }},
			{management.ControlChange{Draining: new(false)}, func() { want.Draining = false }},
		} {
			step.apply()
			got, err := f.SetControl(f.ctx, f.name, step.change)
			require.NoError(f, err)
			assert.Equal(f, want, got)
			assert.Equal(f, want, f.described().Control)
		}
	})
}

func TestSetControlChangesTheNumberOfWorkers(t *testing.T) {
	inspectEach(t, []view{ofQueue}, func(f *inspected) {
		f.hold("one", "alpha")
		f.hold("two", "alpha")
		f.put(newTask("three", "alpha"))
		_, err := f.SetControl(f.ctx, f.name, management.ControlChange{Workers: new(3)})
		require.NoError(f, err)
		f.wait("three")
	})
}

func TestUnknownQueue(t *testing.T) {
	inspectEach(t, []view{ofQueue, ofGroup}, func(f *inspected) {
		const none = "unknown"
		before := f.states()
		for name, call := range map[string]func() error{
			"Queue": func() error { _, err := f.Queue(f.ctx, none); return err },
			"SetControl": func() error {
				_, err := f.SetControl(f.ctx, none, management.ControlChange{Paused: new(true)})
				return err
			},
			"Job":   func() error { _, err := f.Job(f.ctx, none, "a"); return err },
			"Graph": func() error { _, err := f.Graph(f.ctx, none, "a", 1); return err },
			"ActOn": func() error {
				_, err := f.ActOn(f.ctx, none, "a", management.Action{Kind: management.Retry})
				return err
			},
			"CreateJob": func() error { _, err := f.CreateJob(f.ctx, management.NewJob{Queue: none, Type: "alpha"}); return err },
		} {
			require.ErrorIs(f, call(), management.ErrUnknownQueue, name)
		}
		_, err := f.Job(f.ctx, f.name, "gone")
		assert.True(f, amboy.IsJobNotFoundError(err), "%v", err)
		assert.Equal(f, before, f.states())
	})
}

// An operator could not limit a tenant before its first job.
func TestAQueueWithoutJobsCouldNotBeLimited(t *testing.T) {
	change := management.ControlChange{MaxRunning: new(2), Create: true}
	for name, open := range map[string]func(t *testing.T) driver.Driver{
		"memory": newMemory, "SQLite": newSQLite, "PostgreSQL": newPostgres, "MongoDB": func(t *testing.T) driver.Driver {
			server := mongotest.Open(t)
			d, err := mongodb.Open(t.Context(), mongodb.Options{Client: server.Client(), DB: server.Database(), Collection: "jobs", Grouped: true})
			require.NoError(t, err)
			return d
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := newTwoTenants(t, open(t), 1)
			control, err := i.SetControl(t.Context(), "new", change)
			require.NoError(t, err)
			assert.Equal(t, management.Control{MaxRunning: 2}, control)
			q, err := i.Queue(t.Context(), "new")
			require.NoError(t, err)
			assert.Equal(t, management.Queue{Name: "new", Control: control}, q)
			entries := auditOf(t, i)
			require.Len(t, entries, 1)
			assert.JSONEq(t, `{"max_running":2}`, entries[0].Detail)
		})
	}

	group, err := queue.NewLocalQueueGroup(t.Context(), queue.LocalQueueGroupOptions{
		DefaultQueue: queue.LocalQueueOptions{Constructor: func(context.Context) (amboy.Queue, error) {
			return queue.NewLocal(queue.LocalOptions{NumWorkers: workers})
		}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { closeGroup(t, group) })
	byReference, err := management.NewGroupInspector(group)
	require.NoError(t, err)
	_, err = byReference.SetControl(t.Context(), "new", change)
	require.ErrorIs(t, err, management.ErrUnknownQueue)
}

func TestAnotherQueueIsUnknown(t *testing.T) {
	inspectEach(t, []view{ofQueue}, func(f *inspected) {
		filter := management.JobFilter{Queues: []string{f.name, "tenant"}}
		for name, call := range map[string]func() error{
			"FindJobs":  func() error { _, err := f.FindJobs(f.ctx, filter, management.PageRequest{}); return err },
			"CountJobs": func() error { _, err := f.CountJobs(f.ctx, filter, 1); return err },
			"CountStates": func() error {
				_, err := f.CountStates(f.ctx, management.StateCountRequest{Filter: filter})
				return err
			},
			"Act": func() error {
				_, err := f.Act(f.ctx, management.ActRequest{Action: management.Action{Kind: management.Delete}, Filter: filter, Limit: 1})
				return err
			},
			"Scopes": func() error {
				_, err := f.Scopes(f.ctx, management.ScopeFilter{Queues: filter.Queues}, management.PageRequest{})
				return err
			},
			"Activity": func() error {
				_, err := f.Activity(f.ctx, management.ActivityRequest{Queues: filter.Queues})
				return err
			},
		} {
			require.ErrorIs(f, call(), management.ErrUnknownQueue, name)
		}
	})
}

func TestWatch(t *testing.T) {
	inspectEach(t, []view{ofQueue, ofGroup}, func(f *inspected) {
		ctx, cancel := context.WithCancel(f.ctx)
		defer cancel()
		seen := 0
		for queues, err := range f.Watch(ctx, management.MinWatch) {
			require.NoError(f, err)
			require.NotEmpty(f, queues)
			seen++
			if seen == 1 {
				scheduled := newTask("scheduled", "alpha")
				scheduled.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: inAnHour()})
				f.put(scheduled)
				continue
			}
			for _, q := range queues {
				if q.Name == f.name && q.Counts.Pending == 1 {
					cancel()
				}
			}
		}
		require.Error(f, ctx.Err())
		assert.NoError(f, f.ctx.Err())
	})
}

// Two reads are at least the requested interval apart, and further if nothing changes.
func TestWatchIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: newMemory(t), CloseDriver: true, NumWorkers: 1})
		require.NoError(t, err)
		defer q.Close(ended())
		i, err := management.NewInspector(q)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var times []time.Duration
		start := time.Now()
		for _, err := range i.Watch(ctx, time.Second) {
			require.NoError(t, err)
			times = append(times, time.Since(start))
			if len(times) < 4 {
				require.NoError(t, q.Put(ctx, tonight("job "+time.Since(start).String())))
			}
		}
		assert.Equal(t, []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}, times)
		assert.Equal(t, time.Minute, time.Since(start))
	})
}

// listing counts the queues that it describes. It takes some time for that.
type listing struct {
	driver.Driver
	most atomic.Int64
	time time.Duration
}

func (d *listing) Queues(ctx context.Context, req driver.QueueRequest) ([]driver.QueueInfo, error) {
	time.Sleep(d.time)
	infos, err := d.Driver.Queues(ctx, req)
	d.most.Store(max(d.most.Load(), int64(len(infos))))
	return infos, err
}

func TestWatchDoesNotListManyQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &listing{Driver: newMemory(t)}
		for n := range 3 * management.MaxLimit {
			_, err := d.Control(t.Context(), fmt.Sprint("tenant ", n), driver.ControlChange{Paused: new(true)})
			require.NoError(t, err)
		}
		group, err := queue.NewDriverGroup(t.Context(), queue.DriverGroupOptions{
			DefaultQueue: queue.DriverQueueOptions{Driver: d, CloseDriver: true, NumWorkers: 1},
		})
		require.NoError(t, err)
		defer func() { assert.NoError(t, group.Close(ended())) }()
		i, err := management.NewGroupInspector(group)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		d.most.Store(0)
		var yielded [][]string
		for queues, err := range i.Watch(ctx, time.Second) {
			require.NoError(t, err)
			var names []string
			for _, q := range queues {
				names = append(names, q.Name)
			}
			yielded = append(yielded, names)
			if len(yielded) < 3 {
				q, err := group.Get(ctx, fmt.Sprint("tenant ", 2500-len(yielded)))
				require.NoError(t, err)
				require.NoError(t, q.Put(ctx, newTask("job", "alpha")))
			}
		}
		assert.Equal(t, [][]string{nil, {"tenant 2499"}, {"tenant 2498", "tenant 2499"}}, yielded)
		assert.Equal(t, int64(management.MaxLimit+1), d.most.Load())
	})
}

func TestWatchOfASlowStoreIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &listing{Driver: newMemory(t), time: 2 * time.Second}
		group, err := queue.NewDriverGroup(t.Context(), queue.DriverGroupOptions{
			DefaultQueue: queue.DriverQueueOptions{Driver: d, CloseDriver: true, NumWorkers: 1},
		})
		require.NoError(t, err)
		defer func() { assert.NoError(t, group.Close(ended())) }()
		q, err := group.Get(t.Context(), "tenant")
		require.NoError(t, err)
		i, err := management.NewGroupInspector(group)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var times []time.Duration
		start := time.Now()
		for _, err := range i.Watch(ctx, time.Second) {
			require.NoError(t, err)
			times = append(times, time.Since(start))
			require.NoError(t, q.Put(ctx, tonight(fmt.Sprint("job ", len(times)))))
		}
		assert.Equal(t, []time.Duration{2 * time.Second, 24 * time.Second, 46 * time.Second}, times)
	})
}

func TestOldestPendingOfAQueueThatNoProcessRunsIsAJobWhoseTimeHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: newMemory(t), CloseDriver: true, NumWorkers: 1})
		require.NoError(t, err)
		defer q.Close(ended())
		i, err := management.NewInspector(q)
		require.NoError(t, err)
		oldest := func() time.Time {
			all, err := i.Queues(t.Context())
			require.NoError(t, err)
			one, err := i.Queue(t.Context(), all[0].Name)
			require.NoError(t, err)
			assert.Equal(t, []management.Queue{one}, all)
			return one.OldestPending
		}
		require.NoError(t, q.Put(t.Context(), tonight("later")))
		due := time.Now().Add(time.Minute)
		j := newTask("due", "alpha")
		j.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: due})
		require.NoError(t, q.Put(t.Context(), j))
		assert.Zero(t, oldest())
		time.Sleep(30 * time.Minute)
		assert.WithinDuration(t, due, oldest(), 0)
		require.NoError(t, q.Put(t.Context(), newTask("ready", "alpha")))
		assert.WithinDuration(t, due, oldest(), 0)
	})
}

// panicky panics in OldestReady.
type panicky struct{ driver.Driver }

func (panicky) OldestReady(context.Context, []string, time.Time) (map[string]time.Time, error) {
	panic("no more")
}

func TestPanicOfADriverIsReturnedAsAnError(t *testing.T) {
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: panicky{newMemory(t)}, CloseDriver: true, NumWorkers: 1})
	require.NoError(t, err)
	defer q.Close(ended())
	require.NoError(t, q.Put(t.Context(), newTask("a", "alpha")))
	i, err := management.NewInspector(q)
	require.NoError(t, err)
	_, err = i.Queues(t.Context())
	var panicked *amboy.PanicError
	require.ErrorAs(t, err, &panicked)
	assert.Equal(t, "no more", panicked.Value)
}
