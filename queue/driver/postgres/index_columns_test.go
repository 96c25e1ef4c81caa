package postgres_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

// An index on the owner of jobs that are to be canceled made each claim write an entry of each index of the
// table: the server makes a HOT update only if neither an index nor the condition of one contains a changed column.
func TestClaimsWroteAnEntryOfEachIndex(t *testing.T) {
	conn, schema := connect(t, pgtest.URL(t)), pgtest.Schema(t)
	d := open(t, postgres.Options{URL: pgtest.URL(t), Schema: schema})
	indexed := columns(t, conn, `SELECT DISTINCT attname::text FROM pg_index i
		JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid AND d.refobjid = i.indrelid
		JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = d.refobjsubid
		WHERE i.indrelid = ($1 || '.jobs')::regclass`, schema)
	require.Contains(t, indexed, "line")
	require.Contains(t, indexed, "unique_held", "of a condition alone")

	insert(t.Context(), t, d, newRecord("plain"))
	execute(t, conn, "CREATE TABLE "+schema+".before AS SELECT * FROM "+schema+".jobs")
	changed := func() []string {
		t.Helper()
		return columns(t, conn, `SELECT a.key FROM `+schema+`.before b, `+schema+`.jobs j,
			LATERAL jsonb_each(to_jsonb(b)) w, LATERAL jsonb_each(to_jsonb(j)) a WHERE w.key = a.key AND w.value <> a.value`)
	}
	claimed := claim(t, d, 1)
	require.Contains(t, changed(), "lease_until")
	assert.Empty(t, both(indexed, changed()), "of a claim")
	end(t.Context(), t, d, claimed[0], "")
	require.NotContains(t, changed(), "lease_until")
	assert.Empty(t, both(indexed, changed()), "of an end")
}

func columns(t *testing.T, conn *pgx.Conn, query string, args ...any) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), query, args...)
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return names
}

func both(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
}
