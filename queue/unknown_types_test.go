package queue_test

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/registry"
)

var longDeploys = flag.Bool("queue.deploys", false, "run the tests of rolling deploys with as many jobs as their bars have")

// newcomer is a job of a type that old processes do not know.
type newcomer struct {
	job.Base `bson:"job_base" json:"job_base"`
}

const newcomerType = "newcomer"

func init() {
	registry.AddJobType(newcomerType, func() amboy.Job { return makeNewcomer() })
}

func makeNewcomer() *newcomer {
	return &newcomer{Base: job.Base{JobType: amboy.JobType{Name: newcomerType, Version: 1}}}
}

func newNewcomer(id string) *newcomer {
	j := makeNewcomer()
	j.SetID(id)
	return j
}

// newcomersRun holds the functions to call for runs of newcomers, by the test's name.
var newcomersRun sync.Map

func (j *newcomer) Run(context.Context) {
	defer j.MarkComplete()
	test, _, _ := strings.Cut(j.ID(), " ")
	if told, ok := newcomersRun.Load(test); ok {
		told.(func(*newcomer))(j)
	}
}

// onNewcomers calls told for each newcomer that runs, and whose ID begins with the test's
// name.
func onNewcomers(t *testing.T, told func(*newcomer)) {
	t.Helper()
	newcomersRun.Store(t.Name(), told)
	t.Cleanup(func() { newcomersRun.Delete(t.Name()) })
}

// hidden is the prefix that hides the names of types from an old process.
const hidden = "hidden "

// outdated is the store as used by an old process, which does not know newcomers. All
// processes of a test share one registry.
type outdated struct {
	driver.Driver
	claims, released atomic.Int64
	newcomers        sync.Map     // names of claimed jobs of the new type
	left             atomic.Int64 // how often such jobs were handed back
}

func (d *outdated) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	d.claims.Add(1)
	req.Except = slices.Clone(req.Except)
	for i := range req.Except {
		req.Except[i].Type = strings.TrimPrefix(req.Except[i].Type, hidden)
	}
	claimed, err := d.Driver.Claim(ctx, req)
	for _, r := range claimed.Records {
		if r.Type == newcomerType {
			r.Type = hidden + r.Type
			d.newcomers.Store(r.Name, true)
		}
	}
	return claimed, err
}

func (d *outdated) Complete(ctx context.Context, completions []driver.Completion) ([]error, error) {
	for i := range completions {
		r := *completions[i].Record
		r.Type = strings.TrimPrefix(r.Type, hidden)
		completions[i].Record = &r
	}
	return d.Driver.Complete(ctx, completions)
}

func (d *outdated) Release(ctx context.Context, handBacks []driver.HandBack) ([]error, error) {
	d.released.Add(int64(len(handBacks)))
	for _, back := range handBacks {
		if _, isNew := d.newcomers.Load(back.Lease.Name); isNew {
			d.left.Add(1)
		}
	}
	return d.Driver.Release(ctx, handBacks)
}

// eachStore runs a test on each kind of store. process opens a driver on the store for
// another process.
func eachStore(t *testing.T, test func(t *testing.T, process func() driver.Driver)) {
	t.Helper()
	eachKindOfStore(t, func(t *testing.T, newStore storeMaker) {
		t.Helper()
		test(t, newStore(t))
	})
}

// storeMaker makes a new store. process opens a driver on it for another process.
type storeMaker func(t *testing.T) (process func() driver.Driver)

// eachKindOfStore runs a test that needs several stores of a kind, or stores in a bubble.
func eachKindOfStore(t *testing.T, test func(t *testing.T, newStore storeMaker)) {
	t.Helper()
	closing := func(t *testing.T, d driver.Driver) driver.Driver {
		t.Helper()
		t.Cleanup(func() { assert.NoError(t, d.Close(context.Background())) })
		return d
	}
	for name, newStore := range map[string]storeMaker{
		"memory": func(t *testing.T) func() driver.Driver {
			t.Helper()
			d, err := memory.New(memory.Options{KeepFinished: 200_000})
			require.NoError(t, err)
			closing(t, d)
			return func() driver.Driver { return d }
		},
		"sqlite": func(t *testing.T) func() driver.Driver {
			t.Helper()
			path := t.TempDir() + "/jobs.db"
			return func() driver.Driver {
				d, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
				require.NoError(t, err)
				return closing(t, d)
			}
		},
		"mongodb": func(t *testing.T) func() driver.Driver {
			t.Helper()
			server := mongotest.Open(t, mongotest.InMemory())
			return func() driver.Driver {
				d, err := mongodb.Open(t.Context(), mongodb.Options{Client: server.Client(), DB: server.Database(), Collection: "queue", Grouped: true})
				require.NoError(t, err)
				return closing(t, d)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { test(t, newStore) })
	}
}

// startProcess starts the queue "q" in a process.
func startProcess(t *testing.T, d driver.Driver, workers int) amboy.RetryableQueue {
	t.Helper()
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: d, Name: "q", NumWorkers: workers, LockTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { q.Close(ended()) })
	require.NoError(t, q.Start(t.Context()))
	return q
}

func percentile(all []time.Duration, p float64) time.Duration {
	all = slices.Sorted(slices.Values(all))
	return all[min(len(all)-1, int(p*float64(len(all))))]
}

// Two old processes used to park the jobs of a new type, so that the new process never
// ran them. The short form is in virtual time, because it shares the machine with other
// packages.
func TestJobsOfANewTypeStartOnANewProcess(t *testing.T) {
	eachKindOfStore(t, func(t *testing.T, newStore storeMaker) {
		if *longDeploys {
			jobsOfANewType(t, newStore(t), 5_000)
			return
		}
		synctest.Test(t, func(t *testing.T) { jobsOfANewType(t, newStore(t), 100) })
	})
}

func jobsOfANewType(t *testing.T, process func() driver.Driver, jobs int) {
	t.Helper()
	old := []*outdated{{Driver: process()}, {Driver: process()}}
	for _, d := range old {
		startProcess(t, d, 4)
	}
	q := startProcess(t, process(), 4)
	var mu sync.Mutex
	put := map[string]time.Time{}
	var waits []time.Duration
	ran := make(chan struct{}, jobs)
	onNewcomers(t, func(j *newcomer) {
		mu.Lock()
		defer mu.Unlock()
		waits = append(waits, time.Since(put[j.ID()]))
		ran <- struct{}{}
	})
	for i := range jobs {
		id := fmt.Sprint(t.Name(), " ", i)
		mu.Lock()
		put[id] = time.Now()
		mu.Unlock()
		require.NoError(t, q.Put(t.Context(), newNewcomer(id)))
		require.NoError(t, q.Put(t.Context(), noop(t, fmt.Sprint("old", i))))
		if i%10 == 9 { // so that the jobs do not wait for each other
			for range 10 {
				receive(t, ran)
			}
		}
	}
	require.True(t, amboy.Wait(within(t), q))
	p99 := percentile(waits, 0.99)
	t.Logf("%d jobs of a new type waited for %s at p50 and %s at p99; old processes handed back %d and %d",
		jobs, percentile(waits, 0.5), p99, old[0].released.Load(), old[1].released.Load())
	assert.Less(t, p99, time.Second)
	for info := range q.JobInfo(t.Context()) {
		assert.Equal(t, amboy.StateSucceeded, info.State, info.ID)
	}
	for _, d := range old {
		// Each of its workers may get one, in each of two claims that were in
		// progress.
		assert.LessOrEqual(t, d.released.Load(), int64(8))
	}
}

func receive[T any](t *testing.T, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-within(t).Done():
		t.Fatal("nothing came in 30 seconds")
	}
	return got
}

// The claims of an old process used to examine a whole backlog of a new type.
func TestABacklogOfANewTypeDoesNotSlowAnOldProcess(t *testing.T) {
	backlog, jobs, rounds := 2_000, 300, 1
	if *longDeploys {
		backlog, jobs, rounds = 100_000, 3_000, 7
	}
	eachKindOfStore(t, func(t *testing.T, newStore storeMaker) {
		jobs := jobs
		if *longDeploys && strings.HasSuffix(t.Name(), "/memory") {
			jobs *= 10
		}
		empty, full := &outdated{Driver: newStore(t)()}, &outdated{Driver: newStore(t)()}
		var records []*driver.Record
		for i := range backlog {
			records = append(records, inQueue(t, "q", newNewcomer(fmt.Sprint("newcomer", i))))
		}
		insertAll(t, full, records)
		// Rounds on both stores take turns, so that other load on the machine affects
		// both.
		var alone, behind, kept []float64
		for round := range rounds {
			alone = append(alone, drainRate(t, empty, fmt.Sprint("round", round), jobs))
			behind = append(behind, drainRate(t, full, fmt.Sprint("round", round), jobs))
			kept = append(kept, behind[round]/alone[round])
		}
		slices.Sort(kept)
		median := kept[len(kept)/2]
		t.Logf("%.0f jobs/s alone, %.0f behind %d jobs of a new type: %.0f%%", alone, behind, backlog, 100*median)
		if *longDeploys {
			assert.Greater(t, median, 0.8)
		}
		left, err := full.Count(t.Context(), driver.Query{Queues: []string{"q"}, Types: []string{newcomerType}, States: []amboy.JobState{amboy.StatePending}}, backlog+1)
		require.NoError(t, err)
		assert.Equal(t, backlog, left)
		// Each of its four workers may get one in each of two claims that were in progress, and
		// four more that were claimed ahead. A slow process also hands back jobs of its own type that it
		// has claimed ahead.
		assert.LessOrEqual(t, full.left.Load(), int64(rounds*2*4*5))
	})
}

// inQueue returns the record of a job as another process puts it in a queue.
func inQueue(t *testing.T, name string, j amboy.Job) *driver.Record {
	t.Helper()
	r, err := registry.MakeJobInterchange(j, amboy.BSON)
	require.NoError(t, err)
	r.Group, r.Name = name, name+"."+r.Name
	return r
}

func insertAll(t *testing.T, d driver.Driver, records []*driver.Record) {
	t.Helper()
	for some := range slices.Chunk(records, 1000) {
		insertRecord(t, d, some...)
	}
}

// drainRate puts jobs, and returns how many of them a new process runs per second.
func drainRate(t *testing.T, d driver.Driver, name string, jobs int) float64 {
	t.Helper()
	records := make([]*driver.Record, jobs)
	for i := range records {
		records[i] = inQueue(t, "q", noop(t, fmt.Sprint(name, ".", i)))
	}
	insertAll(t, d, records)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: d, Name: "q", NumWorkers: 8, LockTimeout: time.Minute})
	require.NoError(t, err)
	defer q.Close(ended())
	runtime.GC() // as benchmarks do, or one round pays for the garbage of the other
	begin := time.Now()
	require.NoError(t, q.Start(t.Context()))
	for i := jobs - 2*8; i < jobs; i++ { // any of the last jobs may end last
		require.True(t, amboy.WaitJob(long(t), noop(t, fmt.Sprint(name, ".", i)), q))
	}
	return float64(jobs) / time.Since(begin).Seconds()
}

// becomes waits until a job reaches a state, and returns its record.
func becomes(t *testing.T, d driver.Driver, id string, state amboy.JobState) *driver.Record {
	t.Helper()
	for ctx := within(t); ; {
		r, err := d.Get(ctx, "q", id)
		require.NoError(t, err)
		if driver.StateOf(r, time.Now()) == state {
			return r
		}
		require.NoError(t, ctx.Err(), "the job is %s", driver.StateOf(r, time.Now()))
		runtime.Gosched()
	}
}

// long is within for operations that may take minutes.
func long(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// A process used to claim a job again at once after it handed it back, for ever.
func TestAnUnknownTypeDoesNotKeepAProcessBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		d := &outdated{Driver: store}
		startProcess(t, d, 4)
		for i := range 50 {
			insertRecord(t, store, inQueue(t, "q", newNewcomer(fmt.Sprint(i))))
		}
		pass(time.Second)
		claims := d.claims.Load()
		t.Logf("%d claims and %d hand-backs in the first second", claims, d.released.Load())
		assert.LessOrEqual(t, d.released.Load(), int64(8))
		assert.LessOrEqual(t, claims, int64(120), "one per change, and a few")
		pass(time.Hour)
		assert.LessOrEqual(t, d.released.Load(), int64(8))
		assert.LessOrEqual(t, d.claims.Load()-claims, int64(4*60*2), "the polls of an hour")
		stats, err := store.Stats(t.Context(), "q")
		require.NoError(t, err)
		assert.Equal(t, 50, stats.Pending)
	})
}

// A queue of a group with only unknown jobs used to be opened and closed again and again.
func TestAQueueOfUnknownJobsIsOpenedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		d := &outdated{Driver: store}
		opened := 0
		g := newDriverGroup(t, d, func(o *queue.DriverGroupOptions) {
			o.DefaultQueue.Format = amboy.BSON
			o.TTL, o.PruneFrequency, o.BackgroundCreateFrequency = time.Minute, time.Minute, time.Second
			o.DefaultQueue.NewRunner = func(q amboy.Queue) (amboy.Runner, error) {
				opened++
				return pool.NewLocalWorkers(2, q), nil
			}
		})
		for i := range 10 {
			insertRecord(t, store, inQueue(t, "tenant", newNewcomer(fmt.Sprint(i))))
		}
		pass(time.Minute)
		claims := d.claims.Load()
		pass(time.Hour)
		assert.Equal(t, 1, opened)
		assert.Equal(t, 1, g.Len())
		assert.LessOrEqual(t, d.released.Load(), int64(8))
		assert.LessOrEqual(t, d.claims.Load()-claims, int64(4*60*2), "the polls of an hour")
	})
}

// latecomer is a job of a type that is registered while a test runs.
type latecomer struct{ newcomer }

func (j *latecomer) Run(context.Context) { j.MarkComplete() }

var latecomers atomic.Int64

// lateRecord is a record of a job whose type is not registered yet.
func lateRecord(t *testing.T, id string) (r *driver.Record, register func()) {
	t.Helper()
	r = inQueue(t, "q", newNewcomer(id))
	r.Type = fmt.Sprint("latecomer", latecomers.Add(1))
	return r, func() {
		registry.AddJobType(r.Type, func() amboy.Job {
			return &latecomer{newcomer{Base: job.Base{JobType: amboy.JobType{Name: r.Type, Version: 1}}}}
		})
	}
}

func insertRecord(t *testing.T, d driver.Driver, records ...*driver.Record) {
	t.Helper()
	errs, err := d.Insert(t.Context(), records)
	require.NoError(t, err)
	for _, err := range errs {
		require.NoError(t, err)
	}
}

func TestATypeThatIsRegisteredLaterIsRunAtOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, process func() driver.Driver) {
		d := process()
		q := startProcess(t, d, 2)
		first, register := lateRecord(t, "first")
		second, registerSecond := lateRecord(t, "second")
		manager := *second.Dependency
		manager.Type = fmt.Sprint("late manager ", latecomers.Add(1))
		second.Dependency = &manager
		insertRecord(t, d, first, second)
		put(t, q, noop(t, "next"))
		require.True(t, amboy.WaitJob(within(t), noop(t, "next"), q), "the queue goes on")
		becomes(t, d, "first", amboy.StatePending)
		register()
		becomes(t, d, "first", amboy.StateSucceeded)
		registerSecond()
		put(t, q, noop(t, "another"))
		require.True(t, amboy.WaitJob(within(t), noop(t, "another"), q))
		becomes(t, d, "second", amboy.StatePending)
		registry.AddDependencyType(manager.Type, func() dependency.Manager {
			return &lateManager{Manager: dependency.NewAlways(), info: dependency.TypeInfo{Name: manager.Type}}
		})
		becomes(t, d, "second", amboy.StateSucceeded)
	})
}

// lateManager is a dependency manager with another type name.
type lateManager struct {
	dependency.Manager `bson:"-" json:"-"`
	info               dependency.TypeInfo
}

func (m *lateManager) Type() dependency.TypeInfo { return m.info }

func TestAJobThatIsLeftToOtherProcessesIsUnchanged(t *testing.T) {
	eachStore(t, func(t *testing.T, process func() driver.Driver) {
		d := process()
		q := startProcess(t, d, 2)
		events, cancel, err := amboy.Subscribe(q, 100)
		require.NoError(t, err)
		defer cancel()
		r, _ := lateRecord(t, "late")
		r.RetryInfo = amboy.JobRetryInfo{Retryable: true, BaseJobID: "late", MaxAttempts: 3}
		r.Name = driver.RecordName("q", "late", r.RetryInfo)
		r.Scopes, r.RequiredScopes = nil, []string{"s"}
		insertRecord(t, d, r)
		put(t, q, noop(t, "next"))
		require.True(t, amboy.WaitJob(within(t), noop(t, "next"), q))
		got := becomes(t, d, "late", amboy.StatePending)
		assert.Equal(t, r.RetryInfo, got.RetryInfo)
		assert.Empty(t, got.Status.Owner)
		assert.Empty(t, got.Status.Reason)
		assert.Empty(t, got.Status.Errors)
		assert.Empty(t, got.Status.Attempts)
		assert.Empty(t, got.Scopes)
		assert.True(t, got.TimeInfo.Start.IsZero())
		attempts, err := d.Attempts(t.Context(), "q", "late")
		require.NoError(t, err)
		assert.Len(t, attempts, 1)
		put(t, q, noop(t, "last"))
		require.True(t, amboy.WaitJob(within(t), noop(t, "last"), q))
		for {
			e := receive(t, events)
			assert.NotEqual(t, "late", e.JobID, "event %s", e.Kind)
			if e.JobID == "last" && e.Kind.IsEnd() {
				break
			}
		}
	})
}

// A job that no process could decode used to stay beyond its dispatch-by time.
func TestAnUnknownJobExpires(t *testing.T) {
	eachStore(t, func(t *testing.T, process func() driver.Driver) {
		d := process()
		q := startProcess(t, d, 2)
		r, _ := lateRecord(t, "late")
		r.TimeInfo.DispatchBy = time.Now().Add(100 * time.Millisecond)
		dependent := noop(t, "dependent")
		insertRecord(t, d, r)
		require.NoError(t, dependent.Dependency().AddEdge("late"))
		dependent.Dependency().(interface {
			SetOnFailure(p dependency.FailurePolicy)
		}).SetOnFailure(dependency.RunOnFailure)
		put(t, q, dependent)
		require.True(t, amboy.WaitJob(within(t), dependent, q))
		got := becomes(t, d, "late", amboy.StateExpired)
		assert.Contains(t, got.Status.Errors[0], "was not started by its dispatch-by time")
		assert.Equal(t, r.Type, got.Type)
		assert.NotEmpty(t, got.Raw())
	})
}

// A job that can't be decoded is parked once, with the reason, by any process.
func TestUndecodableIsNotUnknown(t *testing.T) {
	eachStore(t, func(t *testing.T, process func() driver.Driver) {
		d := &outdated{Driver: process()}
		q := startProcess(t, d, 2)
		r := inQueue(t, "q", noop(t, "broken"))
		require.NoError(t, r.Job.UnmarshalJSON([]byte(`{"job_base": 7}`)))
		insertRecord(t, d, r)
		put(t, q, noop(t, "next"))
		require.True(t, amboy.WaitJob(within(t), noop(t, "next"), q))
		got := becomes(t, d, "broken", amboy.StateParked)
		assert.Contains(t, got.Status.Reason, "can't be read")
		assert.Equal(t, int64(1), d.released.Load())
	})
}

// An old process used to retry a job of a new type that its handler had left, and logged
// with each scan that the job could not be decoded.
func TestARetryOfAnUnknownJobIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r, register := lateRecord(t, "late")
		r.RetryInfo = amboy.JobRetryInfo{Retryable: true, NeedsRetry: true, BaseJobID: "late", MaxAttempts: 3}
		r.Name = driver.RecordName("q", "late", r.RetryInfo)
		r.Status.Completed = true
		insertRecord(t, store, r)
		q, err := queue.NewDriverQueue(queue.DriverQueueOptions{
			Driver: store, Name: "q", NumWorkers: 1, LockTimeout: time.Minute,
			Retryable: queue.RetryableQueueOptions{StaleRetryingMonitorInterval: time.Minute},
		})
		require.NoError(t, err)
		defer q.Close(ended())
		require.NoError(t, q.Start(t.Context()))
		pass(10 * time.Minute)
		got, err := store.Get(t.Context(), "q", "late")
		require.NoError(t, err)
		assert.Equal(t, amboy.StateRetrying, driver.StateOf(got, time.Now()))
		register()
		pass(2 * time.Minute)
		got, err = store.Get(t.Context(), "q", "late")
		require.NoError(t, err)
		assert.Equal(t, 1, got.RetryInfo.CurrentAttempt)
		assert.Equal(t, amboy.StateSucceeded, driver.StateOf(got, time.Now()))
	})
}
