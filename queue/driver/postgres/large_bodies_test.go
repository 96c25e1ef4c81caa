package postgres_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/postgres"
	"github.com/mongodb/amboy/registry"
)

// The jobs of a Put, and those that ended together, were one message to the server, whatever their size. It refuses a
// message of a gigabyte, which was sent twenty times.
func TestLargeBodiesOfSeveralJobsWereOneMessage(t *testing.T) {
	const jobs, size = 3, 10 << 20
	conn := connect(t, pgtest.URL(t))
	schema := pgtest.Schema(t)
	d := open(t, postgres.Options{URL: pgtest.URL(t), Schema: schema})
	transactions := func() (n int) {
		t.Helper()
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(DISTINCT xmin::text) FROM "+schema+".jobs").Scan(&n))
		return n
	}
	records := make([]*driver.Record, jobs)
	for i := range records {
		records[i] = newRecord(fmt.Sprint(i))
		records[i].Job = registry.NewBody(bytes.Repeat([]byte{'x'}, size), false)
	}
	insert(t.Context(), t, d, records...)
	assert.Equal(t, jobs, transactions(), "of the Put")

	var completions []driver.Completion
	for _, r := range claim(t, d, jobs) {
		r.Status.Completed = true
		completions = append(completions, driver.Completion{Lease: driver.LeaseOf(r), Record: r})
	}
	require.Len(t, completions, jobs)
	errs, err := d.Complete(t.Context(), completions)
	require.NoError(t, errors.Join(append(errs, err)...))
	assert.Equal(t, jobs, transactions(), "of the ends")
}

// Errors are grouped, and jobs counted, by pages of 5,000 brief records.
func TestABriefPageReadAllBodies(t *testing.T) {
	const jobs, size = 20, 1 << 20
	d := open(t, postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)})
	records := make([]*driver.Record, jobs)
	for i := range records {
		records[i] = newRecord(fmt.Sprint(i))
		records[i].Job = registry.NewBody(bytes.Repeat([]byte{'x'}, size), false)
	}
	insert(t.Context(), t, d, records...)
	allocated := func(brief bool) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		page, err := d.Find(t.Context(), driver.Query{}, driver.PageRequest{Limit: 100, Brief: brief})
		require.NoError(t, err)
		require.Len(t, page.Records, jobs)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	assert.GreaterOrEqual(t, allocated(false), uint64(jobs*size))
	assert.Less(t, allocated(true), uint64(jobs*size/2))
}
