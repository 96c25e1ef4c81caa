package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
)

// Each claim first made a thousand due jobs ready, which takes longer than the claim itself.
func TestManyDueJobsKeptClaimsFromTakingWhatWasReady(t *testing.T) {
	const due, atOnce = 3000, 1000
	now := time.Now().Add(2 * time.Hour)
	d, schema := openEmpty(t)
	conn := connect(t, pgtest.URL(t))
	// All but the first thousand do not become ready before go_on has a row.
	execute(t, conn, fmt.Sprintf(`CREATE TABLE %[1]s.go_on ();
		CREATE FUNCTION %[1]s.hold() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
			IF EXISTS (SELECT FROM before WHERE place = 1 AND seq > %[2]d) THEN
				WHILE NOT EXISTS (SELECT FROM %[1]s.go_on) LOOP PERFORM pg_sleep(0.005); END LOOP;
			END IF;
			RETURN NULL;
		END$$;
		CREATE TRIGGER hold AFTER UPDATE ON %[1]s.jobs REFERENCING OLD TABLE AS before FOR EACH STATEMENT EXECUTE FUNCTION %[1]s.hold()`, schema, atOnce))
	all := make([]*driver.Record, due)
	for i := range all {
		all[i] = newRecord(fmt.Sprint(i))
		all[i].TimeInfo.WaitUntil = now.Add(time.Duration(i)*time.Millisecond - time.Hour)
	}
	insert(t.Context(), t, d, all...)

	for range 10 {
		claimed := claimIn(t, d, now, "")
		require.Len(t, claimed.Records, 1)
		assert.Equal(t, now, claimed.Next, "there may be more")
	}
	execute(t, conn, "INSERT INTO "+schema+".go_on DEFAULT VALUES")
	for n := 10; n < due; {
		claimed := claimUpTo(t, d, now, "", due)
		n += len(claimed.Records)
		require.True(t, n == due || claimed.Next.Equal(now), "a claim goes on at once")
	}
}
