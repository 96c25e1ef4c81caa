package sqlite_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/registry"
)

// insertFanIn inserts a job, "dependent", with a number of edges, and the jobs that it
// depends on.
func insertFanIn(tb testing.TB, d *sqlite.Driver, edges int, prefix string) {
	tb.Helper()
	dependent := newRecord(tb, "dependent")
	dependent.Dependency = &registry.DependencyInterchange{}
	all := []*driver.Record{dependent}
	for i := range edges {
		id := fmt.Sprint(prefix, i)
		all = append(all, newRecord(tb, id))
		dependent.Dependency.Edges = append(dependent.Dependency.Edges, id)
	}
	errs, err := d.Insert(tb.Context(), all)
	require.NoError(tb, errors.Join(append(errs, err)...))
}

// endEach ends claimed records, each in a transaction of its own.
func endEach(tb testing.TB, d *sqlite.Driver, records []*driver.Record, outcome amboy.Outcome) {
	tb.Helper()
	for _, r := range records {
		completion := driver.Completion{Lease: driver.LeaseOf(r), Record: r}
		r.Status.Completed, r.Status.Outcome = true, outcome
		errs, err := d.Complete(tb.Context(), []driver.Completion{completion})
		require.NoError(tb, errors.Join(append(errs, err)...))
	}
}

// The bytes that are written when an edge ends do not depend on the number of edges.
func TestTheCostOfEndingAnEdgeDoesNotDependOnTheNumberOfEdges(t *testing.T) {
	for _, outcome := range []amboy.Outcome{"", amboy.OutcomeCanceled} {
		few, many := writtenByEdge(t, 50, outcome), writtenByEdge(t, 500, outcome)
		t.Logf("bytes by edge, of 50 and of 500, outcome %q: %d and %d", outcome, few, many)
		assert.Less(t, float64(many), 1.5*float64(few), "bytes by edge, outcome %q", outcome)
	}
}

// writtenByEdge returns the average number of bytes that are written when an edge ends that
// is not the last.
func writtenByEdge(t *testing.T, edges int, outcome amboy.Outcome) int64 {
	t.Helper()
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	insertFanIn(t, d, edges, strings.Repeat("long-name", 20))
	claimed := claim(t, d, edges)
	require.Len(t, claimed, edges)
	require.NoError(t, sqlite.Exec(d, "PRAGMA wal_autocheckpoint(0)")) // so that the log grows
	before := logSize(t, path)
	endEach(t, d, claimed[1:], outcome)
	written := logSize(t, path) - before
	require.Empty(t, claim(t, d, 1))
	endEach(t, d, claimed[:1], outcome)
	dependent := claim(t, d, 1)
	require.Len(t, dependent, 1)
	if outcome == "" {
		assert.Empty(t, dependent[0].Dependency.Failed)
	} else {
		assert.ElementsMatch(t, dependent[0].Dependency.Edges, dependent[0].Dependency.Failed)
	}
	return written / int64(edges-1)
}

func logSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path + "-wal")
	require.NoError(t, err)
	return info.Size()
}

func TestARecordShowsItsOpenDependencies(t *testing.T) {
	d := open(t, sqlite.Options{Path: newPath(t)})
	insertFanIn(t, d, 4, "edge-")
	claimed := claim(t, d, 4)
	endEach(t, d, claimed[:1], amboy.OutcomeCanceled)
	endEach(t, d, claimed[1:2], "")

	got, err := d.Get(t.Context(), queueName, "dependent")
	require.NoError(t, err)
	assert.Equal(t, "waits for 2 of the 4 jobs that it depends on", got.Status.Reason)
	assert.Equal(t, []string{claimed[0].JobID()}, got.Dependency.Failed)
}

func TestAnEdgeMayBeNamedTwice(t *testing.T) {
	d := open(t, sqlite.Options{Path: newPath(t)})
	r := newRecord(t, "dependent")
	r.Dependency = &registry.DependencyInterchange{Edges: []string{"edge", "edge"}}
	insert(t, d, newRecord(t, "edge"), r)
	endEach(t, d, claim(t, d, 1), amboy.OutcomeCanceled)
	dependent := claim(t, d, 1)
	require.Len(t, dependent, 1)
	assert.Equal(t, []string{"edge", "edge"}, dependent[0].Dependency.Failed)
}

// A job that ended without waiting for its dependencies has no open edge, and a removed job
// has no edges at all.
func TestEdgesOfEndedJobsAreClosed(t *testing.T) {
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	canceled, expired, told := newRecord(t, "canceled"), newRecord(t, "expired"), newRecord(t, "told")
	for _, r := range []*driver.Record{canceled, expired, told} {
		r.Dependency = &registry.DependencyInterchange{Edges: []string{"a", "b"}}
	}
	expired.TimeInfo.DispatchBy = time.Now().Add(-time.Hour)
	insert(t, d, newRecord(t, "a"), newRecord(t, "b"), canceled, expired, told)
	claimed := claim(t, d, 2)
	require.Equal(t, "expired", claimed[0].JobID())
	claimed[0].RetryInfo.Retryable, claimed[0].RetryInfo.NeedsRetry = true, true
	endEach(t, d, claimed[:1], "")
	assert.Equal(t, []string{"expired"}, list(t, d, amboy.StateRetrying))
	endEach(t, d, claimed[1:], amboy.OutcomeCanceled)
	acted, err := d.Act(t.Context(), driver.ActRequest{
		Query: driver.Query{ID: "canceled"}, Action: driver.Action{Kind: driver.Cancel, ForgetAt: time.Now()}, Limit: 1,
	})
	require.NoError(t, err)
	assert.Equal(t, 1, acted.Done)
	endEach(t, d, claim(t, d, 1)[:1], "")
	var edges, open int
	count := func() {
		t.Helper()
		const text = "SELECT count(*), count(*) FILTER (WHERE state = 0) FROM edges"
		require.NoError(t, openRaw(t, path).QueryRowContext(t.Context(), text).Scan(&edges, &open))
	}
	count()
	assert.Equal(t, 6, edges)
	assert.Zero(t, open)
	for id, remove := range map[string]func(){
		"told": func() {
			_, err = d.Act(t.Context(), driver.ActRequest{
				Query: driver.Query{ID: "told"}, Action: driver.Action{Kind: driver.Delete}, Limit: 1,
			})
			require.NoError(t, err)
		},
		"canceled": func() {
			_, err = d.Forget(t.Context(), time.Now().Add(time.Hour), 10)
			require.NoError(t, err)
		},
	} {
		remove()
		_, err = d.Get(t.Context(), queueName, id)
		assert.True(t, amboy.IsJobNotFoundError(err), "job %q is gone", id)
	}
	count()
	assert.Equal(t, 2, edges, "edges of the job that awaits its retry")
}
