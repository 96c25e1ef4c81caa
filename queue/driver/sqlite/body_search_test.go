package sqlite_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/registry"
)

// openWithJobs opens a file with a number of jobs.
func openWithJobs(t *testing.T, n int) *sqlite.Driver {
	t.Helper()
	d := open(t, sqlite.Options{Path: newPath(t)})
	var all []*driver.Record
	for i := range n {
		all = append(all, newRecord(t, fmt.Sprint("job-", i)))
	}
	insert(t, d, all...)
	return d
}

func TestASearchOfBodiesStopsWhenItsContextEnds(t *testing.T) {
	d := openWithJobs(t, 50)
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
	d := openWithJobs(t, 50)
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

// A search may take long, and reads what was stored when it began.
func TestASearchOfBodiesDoesNotHoldUpWriters(t *testing.T) {
	d := openWithJobs(t, 50)
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
