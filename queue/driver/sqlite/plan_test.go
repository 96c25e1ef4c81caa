package sqlite_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// openRaw opens the file of a driver beside it.
func openRaw(tb testing.TB, path string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, db.Close()) })
	return db
}

// A query that read a whole table, or sorted what it found, would slow down with
// the backlog.
func TestEveryQueryUsesAnIndex(t *testing.T) {
	path := newPath(t)
	open(t, sqlite.Options{Path: path})
	db := openRaw(t, path)
	for _, query := range sqlite.Queries() {
		for _, step := range explain(t, db, query) {
			assert.NotContains(t, step, "TEMP B-TREE", query)
			if strings.Contains(step, "jobs") || strings.Contains(step, "edges") || strings.Contains(step, "scope_") {
				assert.Regexp(t, `^SEARCH .* USING (COVERING )?(INDEX|INTEGER PRIMARY KEY|PRIMARY KEY)`, step, query)
			}
		}
	}
}

// explain returns the steps of the plan of a query.
func explain(t *testing.T, db *sql.DB, query string) (steps []string) {
	t.Helper()
	args := make([]any, 20)
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
