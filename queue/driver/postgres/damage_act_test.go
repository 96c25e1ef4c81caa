package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

// An action on a page of jobs failed as a whole if one of them could not be read, and again at each try, so that it
// never came to the jobs behind it.
func TestAnActionOnADamagedJobStoppedThatOnTheOthers(t *testing.T) {
	for kind, prepare := range map[driver.ActionKind]func(t *testing.T, d *postgres.Driver){
		driver.Cancel: func(*testing.T, *postgres.Driver) {},
		driver.Restart: func(t *testing.T, d *postgres.Driver) {
			for _, r := range claim(t, d, 3) {
				r.Status.Errors, r.Status.ErrorCount = []string{"failed"}, 1
				end(t.Context(), t, d, r, "")
			}
		},
	} {
		t.Run(string(kind), func(t *testing.T) {
			schema := pgtest.EmptySchema(t)
			d := open(t, postgres.Options{Pool: pgtest.Pool(t), Schema: schema})
			insert(t.Context(), t, d, newRecord("one"), newRecord("two"), newRecord("three"))
			prepare(t, d)
			execute(t, connect(t, pgtest.URL(t)), "UPDATE "+schema+`.jobs SET extra = '\xff' WHERE job_id = 'two'`)
			for _, dryRun := range []bool{true, false} {
				acted, err := d.Act(t.Context(), driver.ActRequest{Query: driver.Query{}, Action: driver.Action{Kind: kind}, Limit: 10, DryRun: dryRun})
				require.NoError(t, err)
				assert.Equal(t, driver.Acted{Done: 2, Skipped: 1}, acted)
			}
		})
	}
}
