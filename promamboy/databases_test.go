package promamboy_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/promamboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/queue/driver/postgres"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// databases open an empty store.
var databases = map[string]func(t testing.TB) (driver.Driver, error){
	"sqlite": func(t testing.TB) (driver.Driver, error) {
		return sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "jobs.db")})
	},
	"postgres": func(t testing.TB) (driver.Driver, error) {
		return postgres.Open(t.Context(), postgres.Options{Pool: pgtest.Pool(t), Schema: pgtest.EmptySchema(t)})
	},
	"mongodb": func(t testing.TB) (driver.Driver, error) {
		d := mongotest.Open(t)
		return mongodb.Open(t.Context(), mongodb.Options{Client: d.Client(), DB: d.Database(), Collection: "jobs", Grouped: true})
	},
}

func TestScrapeOfADatabase(t *testing.T) {
	for name, open := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, err := open(t)
			require.NoError(t, err)
			group, err := queue.NewDriverGroup(t.Context(), queue.DriverGroupOptions{
				DefaultQueue:              queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1},
				Workers:                   2,
				BackgroundCreateFrequency: queue.NoBackgroundCreate,
			})
			require.NoError(t, err)
			defer func() {
				ended, cancel := context.WithCancel(context.Background())
				cancel()
				_ = group.Close(ended) //nolint:errcheck // It reports the jobs that were still running.
			}()
			inspector, err := management.NewGroupInspector(group)
			require.NoError(t, err)
			q, err := group.Get(t.Context(), "a")
			require.NoError(t, err)
			yes := true
			_, err = inspector.SetControl(t.Context(), "a", management.ControlChange{Paused: &yes})
			require.NoError(t, err)
			var last string
			for _, what := range []string{"", "", ""} {
				last, err = visit.Put(t.Context(), q, what)
				require.NoError(t, err)
			}
			_, err = inspector.ActOn(t.Context(), "a", last, management.Action{Kind: management.Park})
			require.NoError(t, err)
			_, err = audit.Put(t.Context(), q, "", job.In(time.Hour))
			require.NoError(t, err)
			_, err = audit.Put(t.Context(), q, "", job.After(last))
			require.NoError(t, err)

			want := map[string]float64{
				`amboy_jobs_by_type{queue="a",state="ready",` + visitType + `}`:               2,
				`amboy_jobs_by_type{queue="a",state="parked",` + visitType + `}`:              1,
				`amboy_jobs_by_type{queue="a",state="scheduled",type="promamboy-test.audit"}`: 1,
				`amboy_jobs_by_type{queue="a",state="blocked",type="promamboy-test.audit"}`:   1,
				`amboy_jobs{queue="a",state="ready"}`:                                         2,
				`amboy_jobs{queue="a",state="parked"}`:                                        1,
				`amboy_jobs{queue="a",state="scheduled"}`:                                     1,
				`amboy_jobs{queue="a",state="blocked"}`:                                       1,
				"amboy_paused_queues":                                                         1, "amboy_workers_wanted": 0, "amboy_store_up": 1, "amboy_process_workers": 2,
			}
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				handler, err := promamboy.Handler(inspector, promamboy.Options{Queues: 1})
				require.NoError(c, err)
				got := samples(t, scrape(t, handler))
				for sample, n := range want {
					assert.Contains(c, got, sample)
					assert.InDelta(c, n, got[sample], 0, sample)
				}
				assert.Positive(c, got[`amboy_oldest_ready_job_age_seconds{queue="a"}`])
			}, 20*time.Second, 10*time.Millisecond)
		})
	}
}
