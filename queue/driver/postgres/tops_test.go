package postgres_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

func prioritized(id string, priority int) *driver.Record {
	r := newRecord(id)
	r.Priority = priority
	return r
}

// insertPriorities puts jobs with the priorities from 1 to n.
func insertPriorities(t *testing.T, d *postgres.Driver, n int) {
	t.Helper()
	records := make([]*driver.Record, n)
	for i := range records {
		records[i] = prioritized(fmt.Sprint("priority ", i+1), i+1)
	}
	insert(t.Context(), t, d, records...)
}

// 8 workers ran 100 no-op jobs a second beside 2,000 priorities.
func TestEachClaimScannedAllPriorities(t *testing.T) {
	const priorities, claims = 1000, 100
	conn, schema := connect(t, pgtest.URL(t)), pgtest.Schema(t)
	opts := postgres.Options{URL: pgtest.URL(t) + "&application_name=" + schema, Schema: schema}
	d := open(t, opts)
	insertPriorities(t, d, priorities)
	before := tuplesRead(t, conn, d, schema, "lines")

	d = open(t, opts)
	postgres.SetScans(d, 0, math.MaxInt32)
	for i := range claims {
		require.Equal(t, fmt.Sprint("priority ", priorities-i), claim(t, d, 1)[0].JobID())
	}
	ready := tuplesRead(t, conn, d, schema, "lines")
	assert.Less(t, ready-before, 20*claims, "while each priority has ready jobs")

	d = open(t, opts)
	postgres.SetScans(d, 0, math.MaxInt32)
	require.Len(t, claim(t, d, priorities-claims), priorities-claims)
	for i := range claims {
		id := fmt.Sprint("low ", i)
		insert(t.Context(), t, d, prioritized(id, 1))
		require.Equal(t, id, claim(t, d, 1)[0].JobID())
	}
	assert.Less(t, tuplesRead(t, conn, d, schema, "lines")-ready, 20*claims+10*priorities, "while only the lowest priority has ready jobs")
}

// manyPriorities returns two drivers of the same store. The first has scanned all priorities, and found only the
// lowest.
func manyPriorities(t *testing.T, scansApart int) (d, other *postgres.Driver) {
	t.Helper()
	d, schema := openEmpty(t)
	other = open(t, postgres.Options{URL: pgtest.URL(t), Schema: schema})
	postgres.SetScans(d, 0, scansApart)
	insertPriorities(t, d, 300)
	require.Len(t, claim(t, d, 300), 300)
	insert(t.Context(), t, d, prioritized("low 1", 1), prioritized("low 2", 1))
	require.Equal(t, []string{"low 1"}, idsOf(claim(t, d, 1)))
	return d, other
}

func TestAJobThatIsPutAboveTheScannedPrioritiesIsNext(t *testing.T) {
	d, _ := manyPriorities(t, math.MaxInt32)
	insert(t.Context(), t, d, prioritized("high", 200))
	assert.Equal(t, []string{"high"}, idsOf(claim(t, d, 1)))
}

func TestAJobThatAnotherProcessPutsAboveTheScannedPrioritiesWaitsForTheNextScan(t *testing.T) {
	d, other := manyPriorities(t, math.MaxInt32)
	insert(t.Context(), t, other, prioritized("high", 200))
	claimed := claimUpTo(t, d, time.Now(), "", 2)
	assert.Equal(t, []string{"low 2"}, idsOf(claimed.Records))
	assert.NotZero(t, claimed.Next, "the time of the next scan")
}

func TestAJobThatAnotherProcessPutsAboveTheScannedPrioritiesIsFoundInTime(t *testing.T) {
	d, other := manyPriorities(t, 20) // A scan takes a few milliseconds, or a second on a busy machine.
	insert(t.Context(), t, other, prioritized("high", 200))
	deadline := time.Now().Add(time.Minute)
	for claimed := claimUpTo(t, d, time.Now(), "", 2); !slices.Contains(idsOf(claimed.Records), "high"); {
		require.NotZero(t, claimed.Next)
		require.True(t, claimed.Next.Before(deadline))
		next := time.NewTimer(time.Until(claimed.Next))
		<-next.C
		claimed = claimUpTo(t, d, time.Now(), "", 2)
	}
}
