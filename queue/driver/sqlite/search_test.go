package sqlite_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/registry"
)

// openWithJobs opens a file with 50 jobs.
func openWithJobs(t *testing.T) *sqlite.Driver {
	t.Helper()
	d := open(t, sqlite.Options{Path: newPath(t)})
	var all []*driver.Record
	for i := range 50 {
		all = append(all, newRecord(t, fmt.Sprint("job-", i)))
	}
	insert(t, d, all...)
	return d
}

func TestASearchOfBodiesStopsWhenItsContextEnds(t *testing.T) {
	d := openWithJobs(t)
	ctx, cancel := context.WithCancel(t.Context())
	searched := 0
	_, err := d.Find(ctx, driver.Query{}, driver.PageRequest{Limit: 10, Body: func(registry.Body) bool {
		searched++
		cancel()
		return true
	}})
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 1, searched)
	page, err := d.Find(t.Context(), driver.Query{}, driver.PageRequest{Limit: 100, Body: anyBody})
	require.NoError(t, err)
	assert.Len(t, page.Records, 50)
}

func TestASearchOfBodiesStopsWhenTheDriverIsClosed(t *testing.T) {
	d := openWithJobs(t)
	searched := 0
	_, err := d.Find(t.Context(), driver.Query{}, driver.PageRequest{Limit: 10, Body: func(registry.Body) bool {
		searched++
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		assert.ErrorIs(t, d.Close(ended), context.Canceled) // it goes on in the background
		return true
	}})
	require.ErrorIs(t, err, driver.ErrClosed)
	assert.Equal(t, 1, searched)
	require.NoError(t, d.Close(t.Context()))
}

// The statement of a search whose function panicked would keep the write-ahead log from being emptied.
func TestAPanicOfASearchOfBodiesIsItsError(t *testing.T) {
	d := openWithJobs(t)
	for range 2 * runtime.GOMAXPROCS(0) { // there are no more connections
		_, err := d.Find(t.Context(), driver.Query{}, driver.PageRequest{Limit: 10, Body: func(registry.Body) bool { panic("boom") }})
		var panicked *amboy.PanicError
		require.ErrorAs(t, err, &panicked)
		assert.Equal(t, "boom", panicked.Value)
	}
	page, err := d.Find(t.Context(), driver.Query{}, driver.PageRequest{Limit: 100, Body: anyBody})
	require.NoError(t, err)
	assert.Len(t, page.Records, 50)
}

// searchedRecords opens a file with 23,000 records, and returns the IDs of the records whose bodies
// isWanted selects. Their type is "wanted".
func searchedRecords(t *testing.T) (d *sqlite.Driver, path string, wanted []string) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4)) // as many ranges are searched at once
	path = newPath(t)
	d = open(t, sqlite.Options{Path: path})
	for from := 0; from < 23_000; from += 1000 {
		var all []*driver.Record
		for i := from; i < from+1000; i++ {
			r := newRecord(t, fmt.Sprintf("job-%05d", i))
			text := "other"
			if i%1111 == 3 || 17_010 <= i && i < 17_015 {
				text, wanted = "wanted", append(wanted, r.JobID())
				r.Type = "wanted"
			}
			r.Job = registry.NewBody([]byte(text), true)
			all = append(all, r)
		}
		insert(t, d, all...)
	}
	return d, path, wanted
}

func isWanted(body registry.Body) bool { return string(body.Raw()) == "wanted" }

func TestASearchFindsRecordsInTheirOrderWhateverTheGaps(t *testing.T) {
	d, path, want := searchedRecords(t)
	check := func(q driver.Query, search driver.PageRequest) {
		t.Helper()
		for limit, after := range map[int]time.Duration{1: 0, 13: time.Hour, 14: time.Hour, 100: time.Hour, 101: 0} {
			restore := sqlite.EndPagesAfter(after)
			search.Limit, search.Newest = limit, false
			assert.Equal(t, want, allPages(t, d, q, search), "limit %d", limit)
			search.Newest = true
			found := allPages(t, d, q, search)
			slices.Reverse(found)
			assert.Equal(t, want, found, "newest, limit %d", limit)
			restore()
		}
	}
	checkBoth := func() {
		t.Helper()
		check(driver.Query{}, driver.PageRequest{Body: isWanted})
		check(driver.Query{TypePart: "WANT"}, driver.PageRequest{})
	}
	checkBoth()
	_, err := openRaw(t, path).ExecContext(t.Context(), `UPDATE jobs SET seq = CASE WHEN seq > 14000 THEN seq + 1000000000000
		WHEN seq > 7000 THEN seq * 40 + 1000000 ELSE seq END`)
	require.NoError(t, err)
	checkBoth()
}

// Ranges that are searched at once do not overlap, and none is searched again.
func TestASearchOfBodiesReadsEachOnce(t *testing.T) {
	d, _, want := searchedRecords(t)
	defer sqlite.EndPagesAfter(time.Hour)()
	for _, newest := range []bool{false, true} {
		var read atomic.Int64
		page, err := d.Find(t.Context(), driver.Query{}, driver.PageRequest{Limit: 100, Newest: newest, Body: func(body registry.Body) bool {
			read.Add(1)
			return isWanted(body)
		}})
		require.NoError(t, err)
		assert.Len(t, page.Records, len(want))
		assert.Empty(t, page.Next)
		assert.EqualValues(t, 23_000, read.Load(), "newest %t", newest)
	}
}

func TestARangeOfASearchStopsWhenItsContextEnds(t *testing.T) {
	d, _, _ := searchedRecords(t)
	defer sqlite.EndPagesAfter(time.Hour)()
	ctx, cancel := context.WithCancel(t.Context())
	var read atomic.Int64
	_, err := d.Find(ctx, driver.Query{}, driver.PageRequest{Limit: 10, Body: func(registry.Body) bool {
		if read.Add(1) == 6000 { // after the first page, which scans one range
			cancel()
		}
		return false
	}})
	require.ErrorIs(t, err, context.Canceled)
	assert.Less(t, read.Load(), int64(6100), "each of the ranges may read some more")
}

// A restart moves a record to the end. It came after the search had scanned the record at its old place, and was
// behind the last row of the search.
func TestASearchMissedARecordThatWasRestartedMeanwhile(t *testing.T) {
	d := open(t, sqlite.Options{Path: newPath(t)})
	failed(t, d, "job", time.Time{})
	insert(t, d, newRecord(t, "other"))
	searched := 0
	page, err := d.Find(t.Context(), driver.Query{}, driver.PageRequest{Limit: 10, Body: func(registry.Body) bool {
		searched++
		if searched == 2 {
			act(t, d, driver.Restart)
		}
		return true
	}})
	require.NoError(t, err)
	require.Empty(t, page.Next)
	require.Len(t, page.Records, 2)
	assert.Equal(t, "job", page.Records[0].JobID())
}

// A search may take long, and reads what was stored when it began.
func TestASearchOfBodiesDoesNotHoldUpWriters(t *testing.T) {
	d := openWithJobs(t)
	var during []*driver.Record
	page, err := d.Find(t.Context(), driver.Query{}, driver.PageRequest{Limit: 100, Body: func(registry.Body) bool {
		if during == nil {
			during = append(during, newRecord(t, "during"))
			insert(t, d, during...)
			list(t, d)
		}
		return true
	}})
	require.NoError(t, err)
	assert.Len(t, page.Records, 50)
}

// All bodies are read into one buffer, so a short one after a long one must not end with a rest of that.
func TestASearchOfBodiesSeesEachBodyAsItIsStored(t *testing.T) {
	d := open(t, sqlite.Options{Path: newPath(t)})
	var all []*driver.Record
	var want []int
	for i, size := range []int{10, driver.MaxSearchedBody, 0, 1000, driver.MaxSearchedBody + 1, 20} {
		r := newRecord(t, fmt.Sprint("job-", i))
		r.Job = registry.NewBody(slices.Repeat([]byte{byte(i)}, size), i%2 == 1)
		all = append(all, r)
		if 0 < size && size <= driver.MaxSearchedBody {
			want = append(want, i)
		}
	}
	insert(t, d, all...)
	var searched []int
	_, err := d.Find(t.Context(), driver.Query{}, driver.PageRequest{Limit: 100, Body: func(body registry.Body) bool {
		i := int(body.Raw()[0])
		searched = append(searched, i)
		return assert.Equal(t, all[i].Job, body)
	}})
	require.NoError(t, err)
	assert.Equal(t, want, searched)
}
