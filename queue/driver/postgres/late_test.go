package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

// Claims began at the first job of a line that had become ready, and read all that had ended since it was put:
// 0.4 s beside 300,000 jobs.
func TestClaimsReadAllJobsThatHadEndedSinceAJobBecameReadyLate(t *testing.T) {
	conn, schema := connect(t, pgtest.URL(t)), pgtest.Schema(t)
	opts := postgres.Options{URL: pgtest.URL(t) + "&application_name=" + schema, Schema: schema}
	d := open(t, opts)
	now := time.Now()
	nightly := newRecord("nightly")
	nightly.TimeInfo.WaitUntil = now.Add(time.Hour)
	insert(t.Context(), t, d, nightly, newRecord("finished"))
	end(t.Context(), t, d, claim(t, d, 1)[0], "")
	multiply(t, conn, schema, "finished", *others)
	execute(t, conn, "UPDATE "+schema+".lines SET low = (SELECT last_value + 1 FROM "+schema+".arrivals)")
	before := tuplesRead(t, conn, d, schema, "jobs")

	d = open(t, opts)
	insert(t.Context(), t, d, newRecord("new"))
	late, _ := claimAt(t, d, 10, now.Add(2*time.Hour))
	require.Equal(t, []string{"nightly", "new"}, idsOf(late), "in the order of Put")
	for range 10 {
		require.Empty(t, claim(t, d, 10))
	}
	read := tuplesRead(t, conn, d, schema, "jobs") - before
	assert.Less(t, read, 1000, fmt.Sprint("rows and index entries, beside ", *others))
}
