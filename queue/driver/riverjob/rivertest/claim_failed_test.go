package rivertest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
)

// A claim whose transaction failed in the middle returned its jobs all the same. They ran without a lease, in all
// processes at once.
func TestJobsOfAClaimThatWasNotStoredRan(t *testing.T) {
	w := newWorld(t)
	d := w.open()
	w.insert(pythonJob{kind: "x"})
	w.exec(`CREATE FUNCTION {s}.fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE disk_full; END'`)
	w.exec(`CREATE TRIGGER fail BEFORE UPDATE ON {s}.river_job FOR EACH ROW EXECUTE FUNCTION {s}.fail()`)
	claimed, err := d.Claim(w.ctx, driver.ClaimRequest{
		Owner: "me", Queues: []driver.Demand{{Queue: "default", Limit: 1}}, Limit: 1, Now: time.Now(), LeaseTime: time.Minute,
	})
	assert.Empty(t, claimed.Records)
	require.Error(t, err)
	w.awaitCount("default", "available", 1)
}
