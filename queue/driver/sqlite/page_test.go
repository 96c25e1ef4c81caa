package sqlite_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/registry"
)

func anyBody(registry.Body) bool { return true }

// Records that an index finds are all on the first page.
func TestPagesAreInOrder(t *testing.T) {
	defer sqlite.EndPagesAfter(time.Hour)()
	d := open(t, sqlite.Options{Path: newPath(t)})
	var all []*driver.Record
	for i := range 12_000 {
		r := newRecord(t, fmt.Sprintf("job-%05d", i))
		if i%4000 == 5 {
			r.Tags = []string{"rare"}
		}
		r.Priority = i % 7
		all = append(all, r)
	}
	for len(all) > 0 {
		insert(t, d, all[:1000]...)
		all = all[1000:]
	}
	for name, q := range map[string]driver.Query{
		"tag":    {Tags: []string{"rare"}, Queues: []string{queueName}},
		"prefix": {ID: "job-0?005", Tags: []string{"rare"}},
		"ID":     {JobIDs: []string{"job-00005", "job-04005", "job-08005"}},
		"few":    {ID: "job-*005", Tags: []string{"rare"}},
	} {
		for _, newest := range []bool{false, true} {
			page, err := d.Find(t.Context(), q, driver.PageRequest{Limit: 50, Newest: newest})
			require.NoError(t, err)
			assert.Len(t, page.Records, 3, name)
			assert.Empty(t, page.Next, name)
		}
	}
	most := []amboy.JobState{amboy.StateScheduled, amboy.StatePending, amboy.StateExpired, amboy.StateFailed}
	for _, states := range [][]amboy.JobState{nil, {amboy.StatePending}, most} {
		for _, newest := range []bool{false, true} {
			for _, page := range []driver.PageRequest{{Limit: 4999}, {Limit: 4999, Brief: true, Body: anyBody}, {Limit: 5000, Brief: true, Body: anyBody}} {
				page.Newest = newest
				found := allPages(t, d, driver.Query{States: states}, page)
				assert.Len(t, slices.Compact(slices.Clone(found)), 12_000, "in states %v, newest %t, limit %d", states, newest, page.Limit)
				if newest {
					slices.Reverse(found)
				}
				assert.True(t, slices.IsSorted(found), "in states %v, newest %t, limit %d", states, newest, page.Limit)
			}
		}
	}
}

// The records of a queue are found, however many records other queues have.
func TestPagesOfASmallQueue(t *testing.T) {
	defer sqlite.EndPagesAfter(time.Hour)()
	d := open(t, sqlite.Options{Path: newPath(t)})
	var want []string
	for i := range 12 {
		var all []*driver.Record
		for j := range 1000 {
			all = append(all, newRecord(t, fmt.Sprintf("job-%d-%d", i, j)))
		}
		if i%5 == 4 {
			r := newRecord(t, fmt.Sprintf("small-%02d", i))
			r.Group, r.Name = "small", driver.RecordName("small", r.JobID(), r.RetryInfo)
			all = append(all, r)
			want = append(want, r.JobID())
		}
		insert(t, d, all...)
	}
	q := driver.Query{Queues: []string{"small", "nobody"}}
	for _, newest := range []bool{false, true} {
		page, err := d.Find(t.Context(), q, driver.PageRequest{Limit: 10, Newest: newest})
		require.NoError(t, err)
		assert.Len(t, page.Records, 2)
		assert.Empty(t, page.Next)
	}
	assert.Equal(t, want, allPages(t, d, q, driver.PageRequest{Limit: 1}))
	n, err := d.Count(t.Context(), q, 10)
	require.NoError(t, err)
	assert.Equal(t, 2, n)

	// If the time is over, a page scans 5,000 records, and the next one continues.
	defer sqlite.EndPagesAfter(0)()
	page, err := d.Find(t.Context(), q, driver.PageRequest{Limit: 10, Newest: true})
	require.NoError(t, err)
	assert.Len(t, page.Records, 1)
	assert.NotEmpty(t, page.Next)
	assert.Equal(t, want, allPages(t, d, q, driver.PageRequest{Limit: 10}))
	acted, err := d.Act(t.Context(), driver.ActRequest{Query: driver.Query{ID: "*-09"}, Action: driver.Action{Kind: driver.Cancel}, Limit: 10})
	require.NoError(t, err)
	assert.Zero(t, acted.Done)
	assert.NotEmpty(t, acted.Next)
}

// allPages returns the IDs of the jobs on all pages, in order.
func allPages(t *testing.T, d *sqlite.Driver, q driver.Query, request driver.PageRequest) (ids []string) {
	t.Helper()
	for {
		page, err := d.Find(t.Context(), q, request)
		require.NoError(t, err)
		for _, r := range page.Records {
			ids = append(ids, r.JobID())
		}
		if request.After = page.Next; page.Next == "" {
			return ids
		}
	}
}

// The ready records of a queue are found in their order, whatever their priorities are, and
// each on one page.
func TestPagesOfReadyRecordsOfManyPriorities(t *testing.T) {
	defer sqlite.EndPagesAfter(0)()
	for _, priorities := range []int{1, 8, 9, 100} {
		d := open(t, sqlite.Options{Path: newPath(t)})
		var want []string
		for i := range 6 {
			var all []*driver.Record
			for j := range 1000 {
				r := newRecord(t, fmt.Sprintf("job-%d-%03d", i, j))
				r.Priority = (i*1000+j*7)%priorities - 2
				all, want = append(all, r), append(want, r.JobID())
			}
			insert(t, d, all...)
		}
		q := driver.Query{Queues: []string{queueName}, States: []amboy.JobState{amboy.StatePending}}
		for _, newest := range []bool{false, true} {
			assert.Equal(t, want, allPages(t, d, q, driver.PageRequest{Limit: 700, Newest: newest}), "%d priorities, newest %t", priorities, newest)
			slices.Reverse(want)
		}
	}
}

// A query for pending jobs of one queue read the scheduled jobs of all queues.
func TestPendingJobsAreFoundWithoutTheScheduledJobsOfOtherQueues(t *testing.T) {
	d := open(t, sqlite.Options{Path: newPath(t)})
	for i := range 6 {
		var all []*driver.Record
		for j := range 1000 {
			r := newRecord(t, fmt.Sprintf("job-%d-%d", i, j))
			r.TimeInfo.WaitUntil = time.Now().Add(time.Hour)
			all = append(all, r)
		}
		insert(t, d, all...)
	}
	for i, due := range []time.Time{{}, time.Now().Add(200 * time.Millisecond)} {
		r := newRecord(t, fmt.Sprint("small-", i))
		r.TimeInfo.WaitUntil = due
		r.Group, r.Name = "small", driver.RecordName("small", r.JobID(), r.RetryInfo)
		insert(t, d, r)
	}
	defer sqlite.EndPagesAfter(0)()
	pending := driver.Query{Queues: []string{"small"}, States: []amboy.JobState{amboy.StatePending}}
	require.Eventually(t, func() bool {
		page, err := d.Find(t.Context(), pending, driver.PageRequest{Limit: 10})
		require.NoError(t, err)
		require.Empty(t, page.Next, "one page is enough")
		return len(page.Records) == 2 // also the one that was scheduled, and is due now
	}, 10*time.Second, 10*time.Millisecond)
}
