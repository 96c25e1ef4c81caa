package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
)

// The claim had read that there was no limit, so its jobs did not count until they ended.
func TestALimitThatWasSetDuringAClaimDidNotCountItsJobs(t *testing.T) {
	for name, limit := range map[string]driver.ControlChange{
		"of the queue": {MaxRunning: new(1)},
		"of a type":    {Type: &driver.TypeChange{Type: "test", Limit: amboy.TypeLimit{MaxRunning: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			const key = 20261130
			d, schema := openEmpty(t)
			insert(t.Context(), t, d, newRecord("first"), newRecord("second"))
			conn, monitor := connect(t, pgtest.URL(t)), connect(t, pgtest.URL(t))
			execute(t, conn, fmt.Sprintf(`CREATE FUNCTION %[1]s.wait() RETURNS trigger LANGUAGE plpgsql AS
				'BEGIN PERFORM pg_advisory_xact_lock_shared(%[2]d); RETURN NULL; END';
				CREATE CONSTRAINT TRIGGER wait AFTER UPDATE ON %[1]s.jobs DEFERRABLE INITIALLY DEFERRED
				FOR EACH ROW WHEN (OLD.place = 4 AND NEW.place = 6) EXECUTE FUNCTION %[1]s.wait()`, schema, key))
			execute(t, conn, fmt.Sprintf("SELECT pg_advisory_lock(%d)", key))
			waiting := func() (n int) {
				require.NoError(t, monitor.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").Scan(&n))
				return n
			}

			claimed := make(chan driver.Claimed, 1)
			go func() {
				got, err := d.Claim(t.Context(), driver.ClaimRequest{
					Owner: "owner", Queues: []driver.Demand{{Limit: 1}}, Limit: 1, Now: time.Now(), LeaseTime: time.Minute,
				})
				assert.NoError(t, err)
				claimed <- got
			}()
			require.Eventually(t, func() bool { return waiting() == 1 }, 10*time.Second, time.Millisecond)
			limited := make(chan error, 1)
			go func() {
				_, err := d.Control(t.Context(), "", limit)
				limited <- err
			}()
			require.Eventually(t, func() bool { return waiting() == 2 || len(limited) > 0 }, 10*time.Second, time.Millisecond)
			execute(t, conn, fmt.Sprintf("SELECT pg_advisory_unlock(%d)", key))
			require.NoError(t, <-limited)
			require.Len(t, (<-claimed).Records, 1)
			assert.Empty(t, claim(t, d, 1))
		})
	}
}
