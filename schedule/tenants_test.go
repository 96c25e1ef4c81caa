package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/schedule"
)

// visits are the tenants whose jobs ran, each with the hours since the test began.
var visits struct {
	sync.Mutex
	began time.Time
	all   []visit
}

type visit struct {
	tenant string
	hour   int
}

var visitTenant = job.Define("schedule-test-visit", 1, func(_ context.Context, tenant string) error {
	visits.Lock()
	defer visits.Unlock()
	visits.all = append(visits.all, visit{tenant, int(time.Since(visits.began).Round(time.Minute) / time.Hour)})
	return nil
})

func newVisit(tenant string, _ time.Time) (amboy.Job, error) { return visitTenant.New(tenant) }

// visited returns the visits since its last call, in order.
func visited() []visit {
	visits.Lock()
	defer visits.Unlock()
	all := visits.all
	visits.all = nil
	slices.SortFunc(all, func(a, b visit) int {
		if a.hour != b.hour {
			return a.hour - b.hour
		}
		return int(a.tenant[0]) - int(b.tenant[0])
	})
	return all
}

func beginVisits() {
	visits.Lock()
	defer visits.Unlock()
	visits.began, visits.all = time.Now(), nil
}

// newPruningGroup makes a group whose queues are pruned after a minute without work. It
// simulates a process.
func newPruningGroup(t *testing.T, store driver.Driver) amboy.QueueGroup {
	t.Helper()
	group, err := queue.NewDriverGroup(context.Background(), queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{Driver: store, NumWorkers: 1},
		TTL:          time.Minute,
	})
	require.NoError(t, err)
	return group
}

func newLocalPruningGroup(t *testing.T) amboy.QueueGroup {
	t.Helper()
	group, err := queue.NewLocalQueueGroup(context.Background(), queue.LocalQueueGroupOptions{
		DefaultQueue: queue.LocalQueueOptions{Constructor: func(context.Context) (amboy.Queue, error) {
			return queue.NewLocal(queue.LocalOptions{NumWorkers: 1})
		}},
		TTL: time.Minute,
	})
	require.NoError(t, err)
	return group
}

// onPruningGroups runs a test in a bubble of synctest. reopen makes a group as another
// process would; it may be called again after the previous group was closed.
func onPruningGroups(t *testing.T, test func(t *testing.T, reopen func() amboy.QueueGroup)) {
	for name, newGroup := range map[string]func(t *testing.T) func() amboy.QueueGroup{
		"driver": func(t *testing.T) func() amboy.QueueGroup {
			store, err := memory.New(memory.Options{KeepFinished: 1000})
			require.NoError(t, err)
			return func() amboy.QueueGroup { return newPruningGroup(t, store) }
		},
		"local": func(t *testing.T) func() amboy.QueueGroup {
			return func() amboy.QueueGroup { return newLocalPruningGroup(t) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				beginVisits()
				test(t, newGroup(t))
			})
		})
	}
}

func closeGroup(t *testing.T, group amboy.QueueGroup) {
	t.Helper()
	require.NoError(t, group.Close(context.Background()))
}

func TestASchedulerStoppedSilentlyWhenItsQueueWasPruned(t *testing.T) {
	onPruningGroups(t, func(t *testing.T, reopen func() amboy.QueueGroup) {
		for process := range 2 {
			group := reopen()
			s, err := schedule.NewInGroup(group, "a", schedule.Options{})
			require.NoError(t, err)
			require.NoError(t, s.Add("hourly", every(t, time.Hour), func(tick time.Time) (amboy.Job, error) {
				return newVisit("a", tick)
			}, schedule.CatchUpNone))
			require.NoError(t, s.Start(t.Context()))

			time.Sleep(2*time.Hour + 30*time.Minute)
			assert.Zero(t, group.Len(), "the queue is pruned between two ticks")
			time.Sleep(30 * time.Minute)
			synctest.Wait()

			first := 3*process + 1
			assert.Equal(t, []visit{{"a", first}, {"a", first + 1}, {"a", first + 2}}, visited())
			s.Close(context.Background())
			closeGroup(t, group)
		}
	})
}

func TestSchedulesOfAllTenantsStoppedWhenTheirQueuesWerePruned(t *testing.T) {
	onPruningGroups(t, func(t *testing.T, reopen func() amboy.QueueGroup) {
		tenants := []string{"a", "b"}
		//nolint:unparam // this is the signature of a TenantsFunc
		list := func(context.Context) ([]string, error) { return tenants, nil }
		begin := func(group amboy.QueueGroup) *schedule.Tenants {
			s, err := schedule.NewTenants(group, list, schedule.Options{})
			require.NoError(t, err)
			require.NoError(t, s.Add("hourly", every(t, time.Hour), newVisit, schedule.CatchUpNone))
			require.NoError(t, s.Start(t.Context()))
			return s
		}
		group := reopen()
		s := begin(group)
		time.Sleep(90 * time.Minute)
		assert.Zero(t, group.Len(), "the queues are pruned between two ticks")
		time.Sleep(45 * time.Minute)
		assert.Equal(t, []visit{{"a", 1}, {"b", 1}, {"a", 2}, {"b", 2}}, visited())

		s.Close(context.Background())
		closeGroup(t, group)
		group = reopen()
		tenants = []string{"b", "c"}
		s = begin(group)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, []visit{{"b", 3}, {"c", 3}}, visited())
		s.Close(context.Background())
		closeGroup(t, group)
	})
}

func TestTenantsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		beginVisits()
		group := newLocalPruningGroup(t)
		defer closeGroup(t, group)
		var mu sync.Mutex
		tenants, fail := []string{"a"}, error(nil)
		s, err := schedule.NewTenants(group, func(context.Context) ([]string, error) {
			mu.Lock()
			defer mu.Unlock()
			return tenants, fail
		}, schedule.Options{})
		require.NoError(t, err)
		defer s.Close(context.Background())
		require.NoError(t, s.Add("hourly", every(t, time.Hour), newVisit, schedule.CatchUpNone))
		var duplicate *schedule.DuplicateNameError
		require.ErrorAs(t, s.Add("hourly", every(t, time.Hour), newVisit, schedule.CatchUpNone), &duplicate)
		require.NoError(t, s.Start(t.Context()))
		require.ErrorIs(t, s.Start(t.Context()), amboy.ErrAlreadyStarted)
		set := func(names []string, err error) {
			mu.Lock()
			defer mu.Unlock()
			tenants, fail = names, err
		}
		hour := func() []visit {
			time.Sleep(time.Hour)
			synctest.Wait()
			return visited()
		}
		time.Sleep(30 * time.Minute)
		assert.Equal(t, []visit{{"a", 1}}, hour())
		set([]string{"a", "b"}, nil)
		assert.Equal(t, []visit{{"a", 2}, {"b", 2}}, hour())
		set(nil, errors.New("the list is away"))
		assert.Equal(t, []visit{{"a", 3}, {"b", 3}}, hour(), "they stay while the list fails")
		set([]string{"b"}, nil)
		assert.Equal(t, []visit{{"b", 4}}, hour())
		assert.Len(t, s.List(), 1)
		require.Len(t, s.List()["b"], 1)
		assert.Equal(t, "hourly", s.List()["b"][0].Name)

		require.NoError(t, s.Add("also", every(t, time.Hour), newVisit, schedule.CatchUpNone))
		assert.Equal(t, []visit{{"b", 5}, {"b", 5}}, hour())
		assert.True(t, s.Remove("hourly"))
		assert.False(t, s.Remove("hourly"))
		assert.Equal(t, []visit{{"b", 6}}, hour())
	})
}

// The function may use another group, for instance one that the service has replaced.
func TestSchedulesOfTenantsStoppedWhenTheirFunctionFoundAnotherGroupClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		beginVisits()
		group := newLocalPruningGroup(t)
		called := 0
		s, err := schedule.NewTenants(group, func(context.Context) ([]string, error) {
			called++
			if called == 1 {
				return nil, fmt.Errorf("reading the tenants: %w", amboy.ErrGroupClosed)
			}
			return []string{"a"}, nil
		}, schedule.Options{})
		require.NoError(t, err)
		require.NoError(t, s.Add("hourly", every(t, time.Hour), newVisit, schedule.CatchUpNone))
		require.NoError(t, s.Start(t.Context()))
		time.Sleep(90 * time.Minute)
		synctest.Wait()
		assert.Len(t, visited(), 1)
		s.Close(context.Background())
		closeGroup(t, group)
	})
}

func TestASchedulerEndsWithItsGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := newLocalPruningGroup(t)
		one, err := schedule.NewInGroup(group, "a", schedule.Options{})
		require.NoError(t, err)
		all, err := schedule.NewTenants(group, func(context.Context) ([]string, error) { return []string{"b"}, nil }, schedule.Options{})
		require.NoError(t, err)
		require.NoError(t, one.Add("hourly", every(t, time.Hour), newNumber, schedule.CatchUpNone))
		require.NoError(t, all.Add("hourly", every(t, time.Hour), newVisit, schedule.CatchUpNone))
		require.NoError(t, one.Start(t.Context()))
		require.NoError(t, all.Start(t.Context()))
		closeGroup(t, group)
		time.Sleep(2 * time.Hour) // a leaked goroutine would keep the bubble from ending
	})
}

func TestSchedulersOfGroupsRefuse(t *testing.T) {
	group := newLocalPruningGroup(t)
	defer closeGroup(t, group)
	names := func(context.Context) ([]string, error) { return nil, nil }
	_, err := schedule.NewInGroup(nil, "a", schedule.Options{})
	require.Error(t, err)
	_, err = schedule.NewInGroup(group, "", schedule.Options{})
	require.Error(t, err)
	_, err = schedule.NewTenants(nil, names, schedule.Options{})
	require.Error(t, err)
	_, err = schedule.NewTenants(group, nil, schedule.Options{})
	require.Error(t, err)
	_, err = schedule.NewTenants(group, names, schedule.Options{MaxCatchUp: -1})
	require.Error(t, err)
	s, err := schedule.NewTenants(group, names, schedule.Options{})
	require.NoError(t, err)
	var invalid *schedule.InvalidError
	require.ErrorAs(t, s.Add("hourly", every(t, time.Hour), nil, schedule.CatchUpNone), &invalid)
	require.ErrorAs(t, s.Add("", every(t, time.Hour), newVisit, schedule.CatchUpNone), &invalid)
}
