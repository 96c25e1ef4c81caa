package management_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
)

// inspectorOfQueues returns an inspector of a group whose store has the named queues.
func inspectorOfQueues(t *testing.T, names ...string) (i management.Inspector, open func(name string)) {
	t.Helper()
	store, err := memory.New(memory.Options{KeepFinished: 10})
	require.NoError(t, err)
	for _, name := range names {
		_, err = store.Control(t.Context(), name, driver.ControlChange{Paused: new(true)})
		require.NoError(t, err)
	}
	group, err := queue.NewDriverGroup(t.Context(), queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1},
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, group.Close(t.Context())) })
	i, err = management.NewGroupInspector(group)
	require.NoError(t, err)
	return i, func(name string) {
		_, err := group.Get(t.Context(), name)
		require.NoError(t, err)
	}
}

func namesOf(queues []management.Queue) []string {
	names := make([]string, len(queues))
	for i, q := range queues {
		names[i] = q.Name
	}
	return names
}

// pagesOfQueues returns the names on each page.
func pagesOfQueues(t *testing.T, i management.Inspector, filter management.QueueFilter, limit int) (pages [][]string) {
	t.Helper()
	page := management.PageRequest{Limit: limit}
	for {
		found, err := i.FindQueues(t.Context(), filter, page)
		require.NoError(t, err)
		pages = append(pages, namesOf(found.Queues))
		if found.Next == "" {
			return pages
		}
		page.Cursor = found.Next
	}
}

func TestPagesOfQueues(t *testing.T) {
	i, open := inspectorOfQueues(t, "a", "b", "c", "Mail one", "mail two", "d")
	open("between b and c")
	open("c")
	open("zoo")
	all := [][]string{{"Mail one", "a", "b"}, {"between b and c", "c", "d"}, {"mail two", "zoo"}}
	assert.Equal(t, all, pagesOfQueues(t, i, management.QueueFilter{}, 3))
	listed, err := i.Queues(t.Context())
	require.NoError(t, err)
	assert.Equal(t, slices.Concat(all...), namesOf(listed))
	assert.Equal(t, [][]string{{"Mail one"}, {"mail two"}}, pagesOfQueues(t, i, management.QueueFilter{Name: "MAIL"}, 1))
	assert.Equal(t, [][]string{{"a", "c"}, {"zoo"}}, pagesOfQueues(t, i, management.QueueFilter{Queues: []string{"zoo", "c", "unknown", "a"}}, 2))
	assert.Equal(t, [][]string{{}}, pagesOfQueues(t, i, management.QueueFilter{Name: "none"}, 2))
	found, err := i.FindQueues(t.Context(), management.QueueFilter{Queues: []string{"a"}}, management.PageRequest{})
	require.NoError(t, err)
	assert.True(t, found.Queues[0].Control.Paused)
}

func TestAPageOfQueuesEndsAfterManyWithoutTheName(t *testing.T) {
	var names []string
	for n := range 10_500 {
		names = append(names, fmt.Sprintf("tenant %05d", n))
	}
	i, _ := inspectorOfQueues(t, append(names, "zoo")...)
	assert.Equal(t, [][]string{{}, {"zoo"}}, pagesOfQueues(t, i, management.QueueFilter{Name: "zoo"}, 10))
}

func TestBadRequestsForPagesOfQueues(t *testing.T) {
	i, _ := inspectorOfQueues(t, "a", "b")
	first, err := i.FindQueues(t.Context(), management.QueueFilter{}, management.PageRequest{Limit: 1})
	require.NoError(t, err)
	for field, call := range map[string]struct {
		filter management.QueueFilter
		page   management.PageRequest
	}{
		"limit":  {page: management.PageRequest{Limit: management.MaxLimit + 1}},
		"newest": {page: management.PageRequest{Newest: true}},
		"cursor": {filter: management.QueueFilter{Name: "b"}, page: management.PageRequest{Cursor: first.Next}},
		"name":   {filter: management.QueueFilter{Name: "\xff"}},
	} {
		_, err = i.FindQueues(t.Context(), call.filter, call.page)
		var invalid *management.InvalidArgumentError
		require.ErrorAs(t, err, &invalid, field)
		assert.Equal(t, field, invalid.Field)
	}
}

func TestSumOfQueues(t *testing.T) {
	inspectEach(t, []view{ofQueue, ofGroup, ofClient}, func(f *inspected) {
		f.putOneInEachState()
		q := f.described()
		all, err := f.Queues(f.ctx)
		require.NoError(f, err)
		var want management.Counts
		for _, one := range all {
			want.Pending += one.Counts.Pending
			want.Blocked += one.Counts.Blocked
			want.Running += one.Counts.Running
			want.Retrying += one.Counts.Retrying
			want.Completed += one.Counts.Completed
			want.Total += one.Counts.Total
		}
		totals, err := f.SumQueues(f.ctx)
		require.NoError(f, err)
		assert.Equal(f, want, totals.Counts)
		assert.Equal(f, []management.Queue{q}, totals.Busiest)
		assert.Len(f, all, totals.Queues)
		page, err := f.FindQueues(f.ctx, management.QueueFilter{}, management.PageRequest{})
		require.NoError(f, err)
		assert.Contains(f, page.Queues, q)
	})
}
