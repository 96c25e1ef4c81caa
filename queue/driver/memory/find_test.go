package memory_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
)

func TestPatterns(t *testing.T) {
	for _, test := range []struct {
		pattern, id string
		matches     bool
	}{
		{"job", "job", true},
		{"job", "jobs", false},
		{"jobs", "job", false},
		{"*", "job/1", true},
		{"**", "job", true},
		{"job*", "job", true},
		{"job*", "a job", false},
		{"*job", "a job", true},
		{"*job", "jobs", false},
		{"*a*b*", "xaxxbx", true},
		{"*a*b*", "xbxxax", false},
		{"a*bc", "abcbbc", true},
		{"a*bc", "abcbb", false},
		{"???", "job", true},
		{"???", "jobs", false},
		{"j?b", "jb", false},
		{"j?b", "j/b", true},
		{"j?b", "jöb", true},
		{"j??b", "jöb", false},
		{"?*?", "ö", false},
		{"?*?", "öö", true},
		{"*?b", "öb", true},
		{"[j]ob", "job", false},
		{"[j]ob", "[j]ob", true},
		{`\*`, "*", false},
		{`\*`, `\anything`, true},
		{"*?", "\xff", true},
	} {
		t.Run(fmt.Sprintf("%q in %q", test.pattern, test.id), func(t *testing.T) {
			d := newDriver(t, memory.Options{KeepFinished: 1})
			insert(t, d, record(test.id))
			for _, q := range []driver.Query{
				{ID: test.pattern},
				{ID: test.pattern, Queues: []string{queueName}, Latest: true},
			} {
				n, err := d.Count(t.Context(), q, 10)
				require.NoError(t, err)
				assert.Equal(t, test.matches, n == 1, "the query is %+v", q)
			}
		})
	}
}

// The test reads pages of one queue and of all queues while records come and go. Each record
// that stays must be on exactly one page.
func TestPagesWhileRecordsComeAndGo(t *testing.T) {
	const records, pageSize = 3000, 70
	for name, test := range map[string]struct {
		query  driver.Query
		newest bool
	}{
		"all":                 {},
		"all, newest first":   {newest: true},
		"queue":               {query: driver.Query{Queues: []string{queueName}}},
		"queue, newest first": {query: driver.Query{Queues: []string{queueName}}, newest: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, memory.Options{KeepFinished: records})
			seed := rand.Uint64()
			random := rand.New(rand.NewPCG(seed, 0))
			var want []string
			var others []driver.Query // each for a job that may be removed meanwhile
			for i := range records {
				queue, id := []string{queueName, "other"}[random.IntN(2)], fmt.Sprint(i)
				insert(t, d, recordOf(queue, id))
				switch {
				case i%100 > 0:
					others = append(others, driver.Query{Queues: []string{queue}, ID: id, Latest: true})
				case queue == queueName || test.query.Queues == nil:
					want = append(want, id)
				}
			}
			if test.newest {
				slices.Reverse(want)
			}
			var got []string
			request := driver.PageRequest{Limit: pageSize, Newest: test.newest}
			for {
				page, err := d.Find(t.Context(), test.query, request)
				require.NoError(t, err)
				for _, r := range page.Records {
					if slices.Contains(want, r.JobID()) {
						got = append(got, r.JobID())
					}
				}
				if page.Next == "" {
					break
				}
				assert.Len(t, page.Records, pageSize)
				request.After = page.Next
				for range 50 {
					remove(t, d, others[random.IntN(len(others))])
				}
				insert(t, d, record(fmt.Sprint("new-", page.Next)))
			}
			assert.Equal(t, want, got, "the seed is %d", seed)
		})
	}
}

// remove removes the record of a job if it exists.
func remove(t *testing.T, d driver.Driver, q driver.Query) {
	t.Helper()
	for _, kind := range []driver.ActionKind{driver.Cancel, driver.Delete} {
		_, err := d.Act(t.Context(), driver.ActRequest{Query: q, Action: driver.Action{Kind: kind}, Limit: 1})
		require.NoError(t, err)
	}
}

func TestInvalidReads(t *testing.T) {
	d := newDriver(t, memory.Options{KeepFinished: 1})
	find := func(request driver.PageRequest) error {
		_, err := d.Find(t.Context(), driver.Query{}, request)
		return err
	}
	_, countErr := d.Count(t.Context(), driver.Query{}, 0)
	for message, err := range map[string]error{
		"invalid limit: it must be at least 1 (is 0)":                                                                   countErr,
		"invalid limit: it must be at least 1 (is -1)":                                                                  find(driver.PageRequest{Limit: -1}),
		`invalid cursor: After must be the Next of an earlier call (is "nowhere"): cursor was not issued by this store`: find(driver.PageRequest{Limit: 1, After: "nowhere"}),
	} {
		require.EqualError(t, err, message)
	}
}

// endingContext ends after a number of calls of Err.
type endingContext struct {
	context.Context
	looks int
}

func (c *endingContext) Err() error {
	c.looks--
	if c.looks < 0 {
		return context.Canceled
	}
	return nil
}

func TestLongReadsEndWithTheirContext(t *testing.T) {
	d := newDriver(t, memory.Options{KeepFinished: 1})
	for i := range 2500 {
		insert(t, d, record(fmt.Sprint(i)))
	}
	_, err := d.Find(&endingContext{t.Context(), 2}, driver.Query{}, driver.PageRequest{Limit: 2500})
	require.ErrorIs(t, err, context.Canceled)
	n, err := d.Count(&endingContext{t.Context(), 2}, driver.Query{}, 2500)
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 2000, n, "what was counted until then")
	n, err = d.Count(&endingContext{t.Context(), 3}, driver.Query{}, 2500)
	require.NoError(t, err)
	assert.Equal(t, 2500, n)
}

// A group scans for retries each second while it opens queues. In a store of a million waiting jobs that took
// half a second, and its claims waited for it.
func TestASearchForRetriesReadAllRecordsAlthoughNoneAwaitedARetry(t *testing.T) {
	d := newDriver(t, memory.Options{KeepFinished: 1})
	for i := range 2500 {
		insert(t, d, record(fmt.Sprint(i)))
	}
	retries := driver.Query{States: []amboy.JobState{amboy.StateRetrying}}
	page, err := d.Find(&endingContext{t.Context(), 1}, retries, driver.PageRequest{Limit: 1000})
	require.NoError(t, err, "it takes the lock once")
	assert.Equal(t, driver.Page{}, page)

	run(t, d, 1, func(r *driver.Record) { r.RetryInfo = amboy.JobRetryInfo{Retryable: true, NeedsRetry: true} })
	page, err = d.Find(t.Context(), retries, driver.PageRequest{Limit: 1000})
	require.NoError(t, err)
	assert.Equal(t, []string{"0"}, ids(page.Records))
}
