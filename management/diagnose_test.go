package management_test

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
	_ "modernc.org/sqlite" // the "sqlite" driver of database/sql

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/internal/presence"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/queue/driver/postgres"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/registry"
)

// patient is a store that a test makes ill.
type patient struct {
	*testing.T
	driver.Driver
	inspector management.Inspector
	// The database under the driver: only that of its kind is set.
	file    string
	pool    *pgxpool.Pool
	schema  string
	mongodb *mongotest.Deployment
}

const (
	ill     = "mail"
	process = "host-1.4711"
)

func newPatient(t *testing.T, d driver.Driver) *patient {
	t.Helper()
	t.Cleanup(func() { assert.NoError(t, d.Close(context.Background())) })
	i, err := management.NewStoreInspector(d)
	require.NoError(t, err)
	p := &patient{T: t, Driver: d, inspector: i}
	p.live()
	// Jobs in ordinary states.
	p.insert("pending", nil)
	p.insert("scheduled", func(r *driver.Record) { r.TimeInfo.WaitUntil = time.Now().Add(time.Hour) })
	p.insert("running", func(r *driver.Record) { p.run(r, time.Now()) })
	p.insert("succeeded", func(r *driver.Record) { p.end(r, time.Now().Add(24*time.Hour)) })
	p.insert("failed", func(r *driver.Record) {
		p.end(r, time.Now().Add(24*time.Hour))
		r.Status.Errors, r.Status.ErrorCount = []string{"it failed"}, 1
	})
	return p
}

func (p *patient) insert(id string, change func(*driver.Record)) { p.insertIn(ill, id, change) }

func (p *patient) insertIn(queue, id string, change func(*driver.Record)) {
	p.Helper()
	p.insertAll(p.record(queue, id, change))
}

func (p *patient) insertAll(records ...*driver.Record) {
	p.Helper()
	errs, err := p.Insert(p.Context(), records)
	require.NoError(p, err)
	for _, err := range errs {
		require.NoError(p, err)
	}
}

func (p *patient) record(queue, id string, change func(*driver.Record)) *driver.Record {
	p.Helper()
	j := newTask(id, "alpha")
	j.UpdateTimeInfo(amboy.JobTimeInfo{Created: time.Now()})
	r, err := registry.MakeJobInterchange(j, amboy.BSON)
	require.NoError(p, err)
	r.Group = queue
	if change != nil {
		change(r)
	}
	r.Name = driver.RecordName(queue, id, r.RetryInfo)
	return r
}

func (p *patient) run(r *driver.Record, renewed time.Time) {
	r.Status.InProgress, r.Status.Owner, r.Status.ModificationTime, r.Status.ModificationCount = true, process, renewed, 1
	r.TimeInfo.Start, r.LeaseTime = renewed, 10*time.Minute
}

// takeScopes makes a record take scopes when it is inserted.
func takeScopes(r *driver.Record, scopes ...string) {
	r.RequiredScopes, r.EnqueueScopes = scopes, scopes
}

// countingFinds counts the records that Find returns, and the calls of Find and Count.
type countingFinds struct {
	driver.Driver
	records, calls int
}

func (d *countingFinds) Count(ctx context.Context, q driver.Query, limit int) (int, error) {
	d.calls++
	return d.Driver.Count(ctx, q, limit)
}

func (d *countingFinds) Find(ctx context.Context, q driver.Query, page driver.PageRequest) (driver.Page, error) {
	found, err := d.Driver.Find(ctx, q, page)
	d.calls++
	d.records += len(found.Records)
	return found, err
}

func TestTheHolderOfAScopeWasSearchedAmongAllJobsThatWaitForItAndHoldAnother(t *testing.T) {
	store, err := memory.New(memory.Options{KeepFinished: 100})
	require.NoError(t, err)
	d := &countingFinds{Driver: store}
	p := newPatient(t, d)
	for i := range 500 {
		p.insert(fmt.Sprint("waits", i), func(r *driver.Record) {
			own := fmt.Sprint("own", i)
			takeScopes(r, own)
			r.RequiredScopes = []string{own, "ledger"}
		})
	}
	p.insert("holder", func(r *driver.Record) { takeScopes(r, "ledger") })
	d.records = 0
	j, err := p.inspector.Job(t.Context(), ill, "waits3")
	require.NoError(t, err)
	require.Len(t, j.Scopes, 2)
	assert.Equal(t, &management.JobRef{Queue: ill, ID: "holder"}, j.Scopes[1].Holder)
	assert.Less(t, d.records, 10)
}

func (p *patient) end(r *driver.Record, forgetAt time.Time) {
	r.Status.Completed, r.TimeInfo.Start, r.TimeInfo.End, r.ForgetAt = true, time.Now(), time.Now(), forgetAt
}

func (p *patient) keep(note driver.Note, err error) {
	p.Helper()
	require.NoError(p, err)
	require.NoError(p, p.Keep(p.Context(), note))
}

// live reports the process that runs the queue.
func (p *patient) live(change ...func(*presence.Process)) {
	p.Helper()
	here := presence.Process{
		ID: process, Host: "host-1", PID: 4711, Started: time.Now().Add(-time.Hour), Seen: time.Now(),
		Queues: []presence.Queue{{Name: ill, Workers: 4, Started: true}}, Types: []presence.Type{{Name: "alpha"}},
	}
	for _, c := range change {
		c(&here)
	}
	p.keep(here.Note())
}

// later lets time pass, in which the process lives on.
func (p *patient) later(d time.Duration) {
	time.Sleep(d) // fake time
	p.live()
}

func (p *patient) control(queue string, change management.ControlChange) {
	p.Helper()
	_, err := p.inspector.SetControl(management.WithActor(p.Context(), "ada"), queue, change)
	require.NoError(p, err)
}

func (p *patient) diagnose() []management.Finding {
	p.Helper()
	diagnosis, err := p.inspector.(management.Diagnostician).Diagnose(p.Context())
	require.NoError(p, err)
	return diagnosis.Findings
}

func (p *patient) execFile(statement string, args ...any) {
	p.Helper()
	db, err := sql.Open("sqlite", "file:"+p.file+"?_pragma=busy_timeout(5000)")
	require.NoError(p, err)
	defer func() { assert.NoError(p, db.Close()) }()
	_, err = db.ExecContext(p.Context(), statement, args...)
	require.NoError(p, err)
}

func (p *patient) execServer(statement string, args ...any) {
	p.Helper()
	_, err := p.pool.Exec(p.Context(), fmt.Sprintf("SET search_path TO %s", p.schema))
	require.NoError(p, err)
	_, err = p.pool.Exec(p.Context(), statement, args...)
	require.NoError(p, err)
}

func inMemory(t *testing.T, test func(*patient)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d, err := memory.New(memory.Options{KeepFinished: 100})
		require.NoError(t, err)
		test(newPatient(t, d))
	})
}

func onSQLite(t *testing.T, test func(*patient)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "jobs.db")
	d, err := sqlite.Open(t.Context(), sqlite.Options{Path: file})
	require.NoError(t, err)
	p := newPatient(t, d)
	p.file = file
	test(p)
}

func onPostgres(t *testing.T, test func(*patient)) {
	t.Helper()
	schema := pgtest.Schema(t) // of its own, because tests drop indexes
	d, err := postgres.Open(t.Context(), postgres.Options{Pool: pgtest.Pool(t), Schema: schema})
	require.NoError(t, err)
	p := newPatient(t, d)
	config, err := pgxpool.ParseConfig(pgtest.URL(t))
	require.NoError(t, err)
	config.MaxConns = 1
	p.pool, err = pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(p.pool.Close)
	p.schema = schema
	test(p)
}

func onMongo(t *testing.T, test func(*patient)) {
	t.Helper()
	deployment := mongotest.Open(t)
	d, err := mongodb.Open(t.Context(), mongodb.Options{Client: deployment.Client(), DB: deployment.Database(), Collection: "jobs", Grouped: true})
	require.NoError(t, err)
	p := newPatient(t, d)
	p.mongodb = deployment
	test(p)
}

// fault is something that is wrong with a store.
type fault struct {
	on    func(t *testing.T, test func(*patient))
	plant func(*patient)
	want  management.FindingKind
	about management.Subject
	// says is a part of the detail.
	says string
}

func inIll(s management.Subject) management.Subject {
	s.InQueue, s.Queue = true, ill
	return s
}

var faults = map[string]fault{
	"no live process": {
		inMemory, func(*patient) { time.Sleep(10 * time.Minute) },
		management.NoProcess,
		management.Subject{},
		"1 job is ready, and 1 job has not ended",
	},
	"a queue that no process has started": {
		inMemory, func(p *patient) {
			p.insertIn("orphans", "waits", func(r *driver.Record) { r.TimeInfo.Created = time.Now().Add(-time.Hour) })
		},
		management.NoProcess,
		management.Subject{InQueue: true, Queue: "orphans"},
		"has waited for 1h",
	},
	"a type that no process has registered": {
		inMemory, func(p *patient) {
			p.insert("from the future", func(r *driver.Record) { r.Type, r.Version = "omega", 2 })
			p.live(func(here *presence.Process) { here.Unknown = []driver.Kind{{Type: "omega", Version: 2}} })
		},
		management.UnknownType, inIll(management.Subject{Type: "omega"}), `1 job waits of job type "omega" version 2`,
	},
	"a paused queue": {
		inMemory, func(p *patient) {
			p.control(ill, management.ControlChange{Paused: new(true)})
			p.later(2 * time.Hour)
		},
		management.PausedQueue, inIll(management.Subject{}), "paused since 2h by ada; its oldest job has waited for 2h",
	},
	"a queue with the rate 0": {
		inMemory, func(p *patient) {
			p.control(ill, management.ControlChange{Rate: &amboy.Rate{}})
			p.later(2 * time.Hour)
		},
		management.PausedQueue, inIll(management.Subject{}), "The rate of the queue is 0; its oldest job has waited for 2h",
	},
	"a drained queue": {
		inMemory, func(p *patient) {
			p.control(ill, management.ControlChange{Draining: new(true)})
			p.later(2 * time.Hour)
		},
		management.DrainingQueue, inIll(management.Subject{}), "draining since 2h by ada",
	},
	"a job that was parked long ago": {
		inMemory, func(p *patient) {
			acted, err := p.inspector.ActOn(p.Context(), ill, "pending", management.Action{Kind: management.Park, Reason: "it \x1b[31mfails"})
			require.NoError(p, err)
			require.Equal(p, 1, acted.Done)
			p.later(3 * time.Hour)
		},
		management.ParkedJobs, inIll(management.Subject{JobID: "pending", Type: "alpha"}), "1 job is parked; the oldest, pending, was enqueued or ran 3h ago: it \x1b[31mfails",
	},
	"a job that depends on one that needs its scope": {
		inMemory, func(p *patient) {
			p.insert("first", func(r *driver.Record) { r.RequiredScopes = []string{"other"} })
			p.insert("waiter", func(r *driver.Record) { r.RequiredScopes = []string{"ledger"} })
			p.insert("holder", func(r *driver.Record) {
				takeScopes(r, "ledger")
				r.Dependency = &registry.DependencyInterchange{Edges: []string{"first", "waiter"}}
			})
			p.insert("behind", func(r *driver.Record) { r.RequiredScopes = []string{"ledger"} })
		},
		management.Deadlock, inIll(management.Subject{JobID: "holder", Type: "alpha"}), `holder depends on waiter, which waits for scope "ledger" of holder.`,
	},
	"two jobs of which each took a scope that the other needs": {
		onSQLite, func(p *patient) {
			p.insert("one", func(r *driver.Record) { takeScopes(r, "a"); r.RequiredScopes = []string{"a", "b"} })
			p.insert("two", func(r *driver.Record) { takeScopes(r, "b"); r.RequiredScopes = []string{"a", "b"} })
			p.insert("free", func(r *driver.Record) { takeScopes(r, "c") })
		},
		management.Deadlock, inIll(management.Subject{JobID: "one", Type: "alpha"}), `one waits for scope "b" of two, which waits for scope "a" of one.`,
	},
	"jobs that depend on each other, as those of the legacy library may": {
		onSQLite, func(p *patient) {
			depend := func(on string) func(*driver.Record) {
				return func(r *driver.Record) { r.Dependency = &registry.DependencyInterchange{Edges: []string{on}} }
			}
			p.insert("one", depend("pending"))
			p.insert("two", depend("one"))
			p.insert("holder", func(r *driver.Record) { takeScopes(r, "ledger"); depend("two")(r) })
			p.execFile(`UPDATE jobs SET edges = '["two"]' WHERE job_id = 'one'`)
		},
		management.Deadlock, inIll(management.Subject{JobID: "two", Type: "alpha"}), "two depends on one, which depends on two.",
	},
	"a job that does not return": {
		inMemory, func(p *patient) {
			running := func(r *driver.Record) {
				p.run(r, time.Now())
				r.TimeInfo.Start = time.Now().Add(-2 * time.Hour)
			}
			for _, id := range []string{"stuck", "stuck too"} {
				p.insert(id, running)
				stuck, err := p.Get(p.Context(), ill, id)
				require.NoError(p, err)
				require.NoError(p, p.SetProgress(p.Context(), driver.LeaseOf(stuck), driver.Progress{Stuck: &amboy.StuckRun{Since: time.Now().Add(-time.Hour), Cause: "canceled"}}))
			}
		},
		management.StuckJob, inIll(management.Subject{JobID: "stuck", Type: "alpha", Process: process}), "stuck should have ended 1h ago, and has not returned. The same is true of 1 other job of the queue.",
	},
	"a schedule that fails": {
		inMemory, func(p *patient) {
			p.keep(presence.Schedule{Queue: ill, Name: "digest", Next: time.Now().Add(-time.Hour), Error: "the queue is draining", Seen: time.Now()}.Note())
		},
		management.FailingSchedule, inIll(management.Subject{Schedule: "digest"}), "could not be enqueued: the queue is draining.",
	},
	"a schedule that no process runs": {
		inMemory, func(p *patient) {
			p.keep(presence.Schedule{Queue: ill, Name: "digest", Next: time.Now().Add(-time.Hour), Seen: time.Now()}.Note())
		},
		management.MissedSchedule, inIll(management.Subject{Schedule: "digest"}), "passed 1h ago",
	},
	"a process with an older version of the library": {
		inMemory, func(p *patient) { p.live(func(here *presence.Process) { here.Types = nil }) },
		management.OldProcess,
		management.Subject{Process: process},
		"does not report which types",
	},
	"a process with an older version of the service": {
		inMemory, func(p *patient) {
			met := driver.Kind{Type: "alpha", Version: 2}
			p.live(func(here *presence.Process) { here.Unknown = []driver.Kind{met} })
			p.live(func(here *presence.Process) { here.ID, here.Types = "new", []presence.Type{{Name: "alpha", To: 2}} })
		},
		management.OldProcess,
		management.Subject{Process: process},
		`started 1h ago, knows only older versions of job type "alpha" version 2`,
	},
	"a process that does not report itself": {
		inMemory, func(p *patient) {
			p.insert("legacy", func(r *driver.Record) {
				p.run(r, time.Now())
				r.Status.Owner, r.TimeInfo.Start = "legacy", time.Now().Add(-time.Hour)
			})
		},
		management.OldProcess,
		management.Subject{Process: "legacy"},
		"does not report itself",
	},
	"SQLite: a lease that is not renewed": {
		onSQLite, func(p *patient) {
			p.execFile("UPDATE jobs SET mod_time = ?, lease_until = ? WHERE job_id = 'running'", time.Now().Add(-time.Hour).UnixNano(), time.Now().Add(-50*time.Minute).UnixNano())
		},
		management.ExpiredLease, inIll(management.Subject{JobID: "running", Process: process}), "ran out 50m ago",
	},
	"SQLite: an index is missing": {
		onSQLite, func(p *patient) { p.execFile("DROP INDEX edges_to") },
		management.MissingIndex,
		management.Subject{Name: "edges_to"},
		"edges_to does not exist",
	},
	"SQLite: a large log": {
		onSQLite, func(p *patient) { require.NoError(p, os.Truncate(p.file+"-wal", 100<<20)) },
		management.LargeLog,
		management.Subject{Name: "jobs.db-wal"},
		"has 100 MB",
	},
	"SQLite: free space": {
		onSQLite, func(p *patient) {
			p.execFile("INSERT INTO notes VALUES ('x', 'x', 0, zeroblob(70000000))")
			p.execFile("DELETE FROM notes WHERE kind = 'x'; PRAGMA wal_checkpoint(TRUNCATE)")
		},
		management.Bloat,
		management.Subject{Name: "jobs.db"},
		"66 of the 66 MB",
	},
	"PostgreSQL: a lease that is not renewed": {
		onPostgres, func(p *patient) {
			p.execServer("UPDATE jobs SET mod_time = mod_time - $1, lease_until = lease_until - $1 WHERE job_id = 'running'", int64(time.Hour))
			p.execServer("UPDATE leases SET until = until - $1, taken = taken - $1", int64(time.Hour))
		},
		management.ExpiredLease, inIll(management.Subject{JobID: "running", Process: process}), "ran out 5",
	},
	"PostgreSQL: an index is missing": {
		onPostgres, func(p *patient) { p.execServer("DROP INDEX jobs_due") },
		management.MissingIndex,
		management.Subject{Name: "jobs_due"},
		"jobs_due does not exist",
	},
	"PostgreSQL: an index is not valid": {
		onPostgres, func(p *patient) {
			p.execServer("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'jobs_due'::regclass")
		},
		management.MissingIndex,
		management.Subject{Name: "jobs_due"},
		"is not valid",
	},
	"PostgreSQL: dead rows": {
		onPostgres, func(p *patient) {
			p.execServer("ALTER TABLE marks SET (autovacuum_enabled = false)")
			p.execServer("INSERT INTO marks SELECT 'x', n::text, 0 FROM generate_series(1, 101000) AS n")
			p.execServer("DELETE FROM marks")
			p.execServer("SELECT pg_stat_force_next_flush()")
			p.execServer("SELECT 1")
		},
		management.Bloat,
		management.Subject{Name: "marks"},
		"101000 dead rows and 0 live ones",
	},
	"PostgreSQL: endless retention": {
		onPostgres, func(p *patient) {
			p.insert("kept", func(r *driver.Record) { p.end(r, time.Time{}) })
			p.execServer(`INSERT INTO jobs SELECT (jsonb_populate_record(j, jsonb_build_object('seq', nextval('arrivals'), 'job_id', 'kept ' || n))).*
				FROM jobs j, generate_series(1, 9999) AS n WHERE j.job_id = 'kept'`)
			p.execServer(`INSERT INTO tallies SELECT queue, NULL, place, 9999 FROM jobs WHERE job_id = 'kept'`)
		},
		management.EndlessRetention, inIll(management.Subject{}), "10000 finished jobs or more; 100 of the latest 100",
	},
	"PostgreSQL: a process whose clock is ahead": {
		onPostgres, func(p *patient) {
			p.live(func(here *presence.Process) { here.Seen = time.Now().Add(time.Minute + time.Second) })
		},
		management.ClockSkew,
		management.Subject{Process: process},
		"is 1m ahead of the clock of the store",
	},
	"PostgreSQL: a process whose clock is behind": {
		onPostgres, func(p *patient) {
			p.execServer("UPDATE jobs SET mod_time = mod_time - $1 WHERE job_id = 'running'", int64(time.Hour))
		},
		management.ClockSkew,
		management.Subject{Process: process},
		"behind the clock of the store",
	},
	"MongoDB: a lease that is not renewed": {
		onMongo, func(p *patient) {
			p.updateRunning(bson.M{"status.mod_ts": time.Now().Add(-time.Hour), "lease_until": time.Now().Add(-50 * time.Minute)})
		},
		management.ExpiredLease, inIll(management.Subject{JobID: "running", Process: process}), "ran out 50m",
	},
	"MongoDB: an index is missing": {
		onMongo, func(p *patient) {
			_, err := p.mongodb.Collection("jobs.group").Indexes().DropOne(p.Context(), "due")
			require.NoError(p, err)
		},
		management.MissingIndex,
		management.Subject{Name: "due"},
		"no index with the keys line.due:1",
	},
	"MongoDB: a process whose clock is ahead": {
		onMongo, func(p *patient) {
			p.live(func(here *presence.Process) { here.Seen = time.Now().Add(time.Minute + time.Second) })
		},
		management.ClockSkew,
		management.Subject{Process: process},
		"is 1m ahead of the clock of the store",
	},
}

// copyFinished stores copies of a job that has succeeded, which are kept for ever.
func (p *patient) copyFinished(number int) {
	p.Helper()
	var job bson.M
	jobs := p.mongodb.Collection("jobs.group")
	require.NoError(p, jobs.FindOne(p.Context(), bson.M{"job_id": "succeeded"}).Decode(&job))
	delete(job, "forget_at")
	copies := make([]any, number)
	for n := range copies {
		one := maps.Clone(job)
		one["job_id"] = fmt.Sprint("kept ", n)
		one["_id"] = ill + "." + one["job_id"].(string)
		one["order"] = job["order"].(int64) + int64(n) + 1_000_000
		copies[n] = one
	}
	_, err := jobs.InsertMany(p.Context(), copies)
	require.NoError(p, err)
}

// An index that only operators use keeps no job from running.
func TestMissingIndexForListsTakenForACriticalOne(t *testing.T) {
	onMongo(t, func(p *patient) {
		for name, severity := range map[string]management.Severity{"created": management.Warning, "next_job": management.Critical} {
			_, err := p.mongodb.Collection("jobs.group").Indexes().DropOne(p.Context(), name)
			require.NoError(p, err)
			found := p.diagnose()
			require.NotEmpty(p, found)
			assert.True(p, slices.ContainsFunc(found, func(f management.Finding) bool { return f.Subject.Name == name && f.Severity == severity }), name)
		}
		assert.Equal(p, management.Critical, p.diagnose()[0].Severity, "the most severe findings come first")
	})
}

// The legacy library can make the server remove jobs by their age.
func TestServerThatRemovesJobsTakenForOneThatKeepsThem(t *testing.T) {
	onMongo(t, func(p *patient) {
		p.copyFinished(10_000)
		found := p.diagnose()
		require.Len(p, found, 1)
		assert.Equal(p, management.EndlessRetention, found[0].Kind)
		assert.Contains(p, found[0].Detail, "10000 finished jobs or more; 100 of the latest 100 are kept")
		_, err := p.mongodb.Collection("jobs.group").Indexes().CreateOne(p.Context(), mongo.IndexModel{
			Keys: bson.D{{Key: "time_info.end", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(86_400),
		})
		require.NoError(p, err)
		assert.Empty(p, p.diagnose())
	})
}

func (p *patient) updateRunning(set bson.M) {
	p.Helper()
	changed, err := p.mongodb.Collection("jobs.group").UpdateOne(p.Context(), bson.M{"job_id": "running"}, bson.M{"$set": set})
	require.NoError(p, err)
	require.EqualValues(p, 1, changed.ModifiedCount)
}

// Each fault is named, with what it concerns, and nothing else is.
func TestDiagnosisNamesTheFaultAndNothingElse(t *testing.T) {
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			f.on(t, func(p *patient) {
				require.Empty(p, p.diagnose(), "a healthy store has no findings")
				f.plant(p)
				found := p.diagnose()
				require.Len(p, found, 1)
				assert.Equal(p, f.want, found[0].Kind)
				assert.Equal(p, f.about, found[0].Subject)
				assert.Contains(p, found[0].Detail, f.says)
				assert.NotEmpty(p, found[0].Severity)
				assert.NotEmpty(p, found[0].Why)
				assert.NotEmpty(p, found[0].Remedy)
				page, heading, _ := strings.Cut(found[0].Docs, "#")
				text, err := os.ReadFile(filepath.Join("..", page))
				require.NoError(p, err)
				assert.Contains(p, strings.ReplaceAll(strings.ToLower(string(text)), " ", "-"), "#-"+heading)
			})
		})
	}
}

// A queue in ordinary use has no findings, whatever its kind.
func TestDiagnosisOfAHealthyQueue(t *testing.T) {
	inspectEach(t, []view{ofQueue, ofGroup, ofDatabase, ofClient}, func(f *inspected) {
		f.put(newTask("done", "alpha"), f.fail("failed", "beta"))
		f.wait("done", "failed")
		f.hold("running", "alpha", "ledger")
		scheduled, blocked := newTask("scheduled", "beta"), newTask("blocked", "alpha")
		scheduled.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: inAnHour()})
		blocked.SetScopes([]string{"ledger"})
		f.put(scheduled, blocked)
		diagnosis, err := f.Inspector.(management.Diagnostician).Diagnose(f.ctx)
		require.NoError(f, err)
		assert.Empty(f, diagnosis.Findings)
		assert.GreaterOrEqual(f, diagnosis.Queues, 1)
		assert.WithinDuration(f, time.Now(), diagnosis.Time, time.Minute)
	})
}

var million = flag.Bool("management.million", false, "diagnose stores with a million jobs in TestDiagnosisOfManyJobs, instead of some")

// A diagnosis reads a bounded part of the store, however many jobs have ended or wait.
func TestDiagnosisOfManyJobs(t *testing.T) {
	number := 2000
	if *million {
		number = 500_000 // that have ended, and as many that are scheduled
	}
	copied := map[string]func(p *patient, id string, place string){
		"SQLite": func(p *patient, id, place string) {
			var columns []string
			p.queryFile(&columns, "SELECT name FROM pragma_table_info('jobs') WHERE name NOT IN ('seq', 'name', 'job_id')")
			list := strings.Join(columns, ", ")
			p.execFile("INSERT INTO jobs (name, job_id, "+list+") WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?) SELECT name || n, job_id || n, "+list+" FROM jobs, n WHERE job_id = ?", number, id)
			p.execFile("UPDATE queues SET "+place+" = "+place+" + ?", number)
			p.execFile("PRAGMA wal_checkpoint(TRUNCATE)") // the log of the copy is large
		},
		"PostgreSQL": func(p *patient, id, _ string) {
			p.execServer(`INSERT INTO jobs SELECT (jsonb_populate_record(j, jsonb_build_object('seq', nextval('arrivals'), 'job_id', j.job_id || n))).*
				FROM jobs j, generate_series(1, $1::bigint) AS n WHERE j.job_id = $2`, number, id)
			p.execServer(`INSERT INTO tallies SELECT queue, NULL, place, $1::bigint FROM jobs WHERE job_id = $2`, number, id)
			p.execServer(`ANALYZE jobs`)
		},
	}
	for name, on := range map[string]func(*testing.T, func(*patient)){"SQLite": onSQLite, "PostgreSQL": onPostgres} {
		t.Run(name, func(t *testing.T) {
			on(t, func(p *patient) {
				copied[name](p, "succeeded", "ended")
				copied[name](p, "scheduled", "scheduled")
				p.live() // copying may take minutes
				began := time.Now()
				assert.Empty(p, p.diagnose())
				p.Logf("a diagnosis of %d jobs took %s", 2*number, time.Since(began))
			})
		})
	}
}

func (p *patient) queryFile(into *[]string, query string) {
	p.Helper()
	db, err := sql.Open("sqlite", "file:"+p.file+"?_pragma=busy_timeout(5000)")
	require.NoError(p, err)
	defer func() { assert.NoError(p, db.Close()) }()
	rows, err := db.QueryContext(p.Context(), query)
	require.NoError(p, err)
	defer func() { assert.NoError(p, rows.Close()) }()
	for rows.Next() {
		var text string
		require.NoError(p, rows.Scan(&text))
		*into = append(*into, text)
	}
	require.NoError(p, rows.Err())
}

// A group closes the queues of idle tenants: a process is not missing while their jobs are
// scheduled, or have just become due.
func TestIdleGroupTakenForAMissingProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := memory.New(memory.Options{KeepFinished: 100})
		require.NoError(t, err)
		i, err := management.NewStoreInspector(d)
		require.NoError(t, err)
		p := &patient{T: t, Driver: d, inspector: i}
		defer func() { assert.NoError(t, d.Close(t.Context())) }()
		idle := func(here *presence.Process) { here.Queues = nil }
		p.insert("scheduled", func(r *driver.Record) { r.TimeInfo.WaitUntil = time.Now().Add(time.Hour) })
		assert.Empty(t, p.diagnose(), "no process has had work yet")
		time.Sleep(time.Hour + time.Second) // fake time
		p.live(idle)
		assert.Empty(t, p.diagnose(), "the job has just become due")
		time.Sleep(2 * time.Minute)
		p.live(idle)
		found := p.diagnose()
		require.Len(t, found, 1)
		assert.Equal(t, management.NoProcess, found[0].Kind)
		assert.Equal(t, management.Subject{}, found[0].Subject)
	})
}

// The command of a finding is pasted into a shell: a name that a user made up must not become a
// part of it.
func TestAttackTheCommandOfAFindingRunsAnother(t *testing.T) {
	for name, want := range map[string]string{
		"mail":              "amboy queues resume mail",
		"":                  "amboy queues resume ''",
		"a b":               "amboy queues resume 'a b'",
		"x; rm -rf ~":       "amboy queues resume 'x; rm -rf ~'",
		"x'; rm -rf ~; '":   `amboy queues resume 'x'\''; rm -rf ~; '\'''`,
		"$(rm -rf ~)`id`":   "amboy queues resume '$(rm -rf ~)`id`'",
		"x\nrm -rf ~":       "",
		"x\x1b[2J":          "",
		"--url=http://evil": "",
	} {
		inMemory(t, func(p *patient) {
			p.insertIn(name, "waits", nil)
			p.control(name, management.ControlChange{Paused: new(true)})
			time.Sleep(time.Hour) // fake time
			p.live(func(here *presence.Process) {
				here.Queues = append(here.Queues, presence.Queue{Name: name, Started: true})
			})
			var commands []string
			for _, f := range p.diagnose() {
				if f.Kind == management.PausedQueue {
					commands = append(commands, f.Command)
				}
			}
			assert.Equal(p, []string{want}, commands, name)
		})
	}
}

// The report of a process with very many queues has the first of them, by name. The others are not
// taken for queues that no process runs.
func TestAQueueBeyondTheReportOfItsProcessWasTakenForOneThatNoneRuns(t *testing.T) {
	inMemory(t, func(p *patient) {
		name := func(n int) string { return fmt.Sprintf("queue %05d %s", n, strings.Repeat("x", 100)) }
		const number = 20_000
		due := func(r *driver.Record) { r.TimeInfo.WaitUntil = time.Now().Add(-time.Hour) }
		p.insertIn(name(0), "first", due)
		p.insertIn(name(number-1), "last", due)
		time.Sleep(time.Hour)
		many := func(here *presence.Process) {
			here.Queues = nil
			for n := range number {
				here.Queues = append(here.Queues, presence.Queue{Name: name(n), Workers: 1, Started: n > 0})
			}
		}
		p.live(many)
		found := p.diagnose()
		require.Len(p, found, 1)
		assert.Equal(p, management.NoProcess, found[0].Kind)
		assert.Equal(p, name(0), found[0].Subject.Queue)
	})
}

// examinedSlowly is a store whose condition takes a while to read. Then a process reports itself.
type examinedSlowly struct {
	driver.Driver
	reports func()
}

// Examine implements driver.Examiner.
func (s examinedSlowly) Examine(context.Context) (driver.Condition, error) {
	time.Sleep(10 * time.Second) // fake time
	s.reports()
	return driver.Condition{}, nil
}

// The time of a report was compared with the time at which the diagnosis had begun.
func TestTheClockOfAProcessThatReportedDuringADiagnosisSeemedWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := memory.New(memory.Options{KeepFinished: 100})
		require.NoError(t, err)
		var p *patient
		p = newPatient(t, examinedSlowly{d, func() { p.live() }})
		assert.Empty(t, p.diagnose())
	})
}
