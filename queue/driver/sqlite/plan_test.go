package sqlite_test

import (
	"database/sql"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// openRaw opens the file of a driver with database/sql.
func openRaw(tb testing.TB, path string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, db.Close()) })
	return db
}

// A query that reads a whole table, or sorts its result, slows down with the backlog.
func TestEveryQueryUsesAnIndex(t *testing.T) {
	path := newPath(t)
	open(t, sqlite.Options{Path: path})
	db := openRaw(t, path)
	for _, query := range sqlite.Queries() {
		for _, step := range explain(t, db, query) {
			assert.NotContains(t, step, "TEMP B-TREE", query)
			searches(t, step, query)
		}
	}
}

// searches requires that a step of a plan that reads a table of records uses an index.
func searches(t *testing.T, step, query string) {
	t.Helper()
	if strings.Contains(step, "jobs") || strings.Contains(step, "edges") || strings.Contains(step, "scope_") || strings.Contains(step, "tags") {
		assert.Regexp(t, `^SEARCH jobs$|^SEARCH .* USING (COVERING )?(INDEX|INTEGER PRIMARY KEY|PRIMARY KEY)`, step, query)
	}
}

// isWholeIndex reports whether a step reads a whole index of waiting records, without their
// rows.
var isWholeIndex = regexp.MustCompile("^SCAN jobs USING COVERING INDEX jobs_(ready|overdue)$")

// The state of most records, succeeded, has no index; for it a page scans a part of all
// records.
func TestPagesUseAnIndex(t *testing.T) {
	path := newPath(t)
	open(t, sqlite.Options{Path: path})
	db := openRaw(t, path)
	assert.Equal(t, []amboy.JobState{
		amboy.StateScheduled, amboy.StatePending, amboy.StateBlocked, amboy.StateParked, amboy.StateRunning,
		amboy.StateRetrying, amboy.StateFailed, amboy.StateCanceled, amboy.StateExpired,
	}, sqlite.IndexedStates())
	for name, test := range map[string]struct {
		query driver.Query
		index string
	}{
		"all":    {driver.Query{}, "INTEGER PRIMARY KEY"},
		"queues": {driver.Query{Queues: []string{"a", "b"}, ID: "a*", Latest: true}, "INTEGER PRIMARY KEY"},
		"tag":    {driver.Query{Queues: []string{"a"}, Tags: []string{"tag"}, Latest: true}, "INDEX tags_queue (tag=? AND of_queue=? AND of_seq"},
		"tags":   {driver.Query{Queues: []string{"a", "b"}, Tags: []string{"tag", "x"}}, "USING PRIMARY KEY (tag=? AND of_seq"},
		"a tag":  {driver.Query{Tags: []string{"tag"}}, "USING PRIMARY KEY (tag=? AND of_seq"},
		"states": {driver.Query{States: sqlite.IndexedStates(), Queues: []string{"a"}}, "INDEX jobs_place (place=? AND seq"},
		"ready":  {driver.Query{States: []amboy.JobState{amboy.StatePending}, Queues: []string{"a"}}, "INDEX jobs_ready (queue=?)"},
		"stale":  {driver.Query{States: []amboy.JobState{amboy.StateExpired}}, "INDEX jobs_expires (expires<?)"},
		"failed": {driver.Query{States: []amboy.JobState{amboy.StateFailed}}, "INDEX jobs_place (place=? AND seq"},
		"queue":  {driver.Query{Queues: []string{"a"}}, "INTEGER PRIMARY KEY (rowid"},
		"prefix": {driver.Query{ID: "a*"}, "INDEX jobs_name (queue=? AND name>? AND name<?)"},
		"job":    {driver.Query{Queues: []string{"a"}, ID: "job"}, "INDEX jobs_name (queue=? AND name=?)"},
		"jobs":   {driver.Query{JobIDs: []string{"a", "b"}, States: sqlite.IndexedStates()}, "INDEX jobs_attempts (queue=? AND job_id=?"},
		"edges":  {driver.Query{Queues: []string{"a"}, DependsOn: "job"}, "INDEX edges_to (queue=? AND to_job=?)"},
		"scopes": {driver.Query{Holding: true}, "INDEX jobs_holding"},
		"held":   {driver.Query{Holding: true, Scope: "s"}, "held USING PRIMARY KEY (queue=? AND scope=?)"},
		"holder": {driver.Query{Queues: []string{"a"}, Holding: true, Scope: "s", Latest: true}, "held USING PRIMARY KEY (queue=? AND scope=?)"},
	} {
		for _, newest := range []bool{false, true} {
			for _, query := range sqlite.Selections(test.query, newest) {
				steps := explain(t, db, query)
				for _, step := range steps {
					if !isWholeIndex.MatchString(step) {
						searches(t, step, query)
					}
				}
				if !strings.Contains(query, "jobs.seq IN (SELECT value FROM json_each(?))") { // found by an index
					assert.Contains(t, strings.Join(steps, "\n"), test.index, name)
				}
			}
		}
	}
}

// A group queries which of its queues have work after most changes. The query read all records of
// the file, also those that had ended, to find the few that await their retry.
func TestWorkReadAllRecords(t *testing.T) {
	path := newPath(t)
	open(t, sqlite.Options{Path: path})
	steps := explain(t, openRaw(t, path), sqlite.WorkQuery())
	assert.NotEmpty(t, steps)
	for _, step := range steps {
		searches(t, step, "Work")
	}
}

// explain returns the steps of the plan of a query.
func explain(t *testing.T, db *sql.DB, query string) (steps []string) {
	t.Helper()
	args := make([]any, strings.Count(query, "?"))
	for i := range args {
		args[i] = 1
	}
	rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	require.NoError(t, err, query)
	defer func() { assert.NoError(t, rows.Close()) }()
	for rows.Next() {
		var id, parent, unused int
		var detail string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
		steps = append(steps, detail)
	}
	require.NoError(t, rows.Err())
	return steps
}

// A claim that excludes kinds skips from one kind to the next, and reads no record of an
// excluded kind.
func TestClaimsSkipKinds(t *testing.T) {
	path := newPath(t)
	open(t, sqlite.Options{Path: path})
	db := openRaw(t, path)
	var plans []string
	for _, query := range sqlite.Queries() {
		for _, step := range explain(t, db, query) {
			if strings.Contains(step, "jobs_kind") {
				plans = append(plans, step)
			}
		}
	}
	assert.Equal(t, []string{
		"SEARCH jobs USING INDEX jobs_kind (queue=?)",
		"SEARCH jobs USING INDEX jobs_kind (queue=? AND kind>?)",
		"SEARCH jobs USING INDEX jobs_kind (queue=? AND kind=?)",
	}, plans)
}
