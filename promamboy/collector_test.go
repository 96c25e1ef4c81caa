package promamboy_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/promamboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main{M: m}) }

var errRefused = errors.New("refused")

// visit succeeds unless its argument is "refuse", and runs until its context ends if it is
// "stay".
var visit = job.Define("promamboy-test.visit", 1, func(ctx context.Context, what string) error {
	switch what {
	case "refuse":
		return errRefused
	case "stay":
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
})

var audit = job.Define("promamboy-test.audit", 1, func(context.Context, string) error { return nil })

const visitType = `type="promamboy-test.visit"`

// brittle is a store that can be made to fail, and counts how often its queues are read.
type brittle struct {
	driver.Driver
	failure atomic.Pointer[error]
	reads   atomic.Int64
	noNotes atomic.Pointer[error]
	// wait is called before each read.
	wait func()
	// durable makes the store one that counts by type in the background.
	durable bool
}

func (b *brittle) Features() driver.Features {
	features := b.Driver.Features()
	features.Durable = b.durable
	return features
}

func (b *brittle) Notes(ctx context.Context, req driver.NoteRequest) ([]driver.Note, error) {
	if err := b.noNotes.Load(); err != nil {
		return nil, *err
	}
	return b.Driver.Notes(ctx, req)
}

func (b *brittle) Queues(ctx context.Context, req driver.QueueRequest) ([]driver.QueueInfo, error) {
	b.reads.Add(1)
	if b.wait != nil {
		b.wait()
	}
	if err := b.failure.Load(); err != nil {
		return nil, *err
	}
	return b.Driver.Queues(ctx, req)
}

// world is a group of queues in memory.
type world struct {
	*testing.T
	store     *brittle
	group     amboy.QueueGroup
	inspector management.Inspector
}

func newWorld(t *testing.T) *world {
	t.Helper()
	inMemory, err := memory.New(memory.Options{KeepFinished: 100})
	require.NoError(t, err)
	store := &brittle{Driver: inMemory}
	group, err := queue.NewDriverGroup(t.Context(), queue.DriverGroupOptions{
		DefaultQueue:              queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 2},
		Workers:                   4,
		BackgroundCreateFrequency: queue.NoBackgroundCreate,
	})
	require.NoError(t, err)
	inspector, err := management.NewGroupInspector(group)
	require.NoError(t, err)
	return &world{T: t, store: store, group: group, inspector: inspector}
}

// inWorld runs a test in a synctest bubble.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer func() {
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			_ = w.group.Close(ended) //nolint:errcheck // It reports the jobs that were still running.
		}()
		test(w)
	})
}

func (w *world) put(name, what string, opts ...job.Option) string {
	w.Helper()
	q, err := w.group.Get(w.Context(), name)
	require.NoError(w, err)
	id, err := visit.Put(w.Context(), q, what, opts...)
	require.NoError(w, err)
	return id
}

func (w *world) handler(opts promamboy.Options) http.Handler {
	w.Helper()
	handler, err := promamboy.Handler(w.inspector, opts)
	require.NoError(w, err)
	return handler
}

func (w *world) collector() *promamboy.Collector {
	w.Helper()
	collector, err := promamboy.New(w.inspector, promamboy.Options{})
	require.NoError(w, err)
	return collector
}

// scrape returns the text that a handler answers.
func scrape(t testing.TB, handler http.Handler) string {
	t.Helper()
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	require.Equal(t, http.StatusOK, recorder.Code, recorder.Body.String())
	return recorder.Body.String()
}

// samples reads the samples of a text, by their names with labels.
func samples(t testing.TB, text string) map[string]float64 {
	t.Helper()
	found := map[string]float64{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		end := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(strings.TrimSpace(line[end:]), 64)
		require.NoError(t, err)
		found[line[:end]] = value
	}
	return found
}

func TestScrapeCountsTheJobsOfTheStoreByStateAndQueue(t *testing.T) {
	inWorld(t, func(w *world) {
		for range 3 {
			w.put("a", "stay")
		}
		synctest.Wait() // two run
		later := w.put("a", "", job.In(time.Hour))
		w.put("a", "", job.In(time.Hour))
		w.put("a", "", job.In(time.Hour))
		w.put("a", "", job.After(later))
		_, err := w.inspector.ActOn(w.Context(), "a", w.put("a", ""), management.Action{Kind: management.Park})
		require.NoError(w, err)
		yes := true
		w.put("b", "", job.In(time.Hour))
		_, err = w.inspector.SetControl(w.Context(), "b", management.ControlChange{Paused: &yes})
		require.NoError(w, err)
		time.Sleep(time.Minute)

		got := samples(w, scrape(w, w.handler(promamboy.Options{Queues: 10})))
		for state, n := range map[string]float64{"ready": 1, "running": 2, "scheduled": 3, "blocked": 1, "parked": 1, "retrying": 0} {
			assert.InDelta(w, n, got[fmt.Sprintf(`amboy_jobs{queue="a",state=%q}`, state)], 0, state)
		}
		assert.InDelta(w, 1, got[`amboy_jobs{queue="b",state="scheduled"}`], 0)
		assert.InDelta(w, 60, got[`amboy_oldest_ready_job_age_seconds{queue="a"}`], 1)
		assert.Zero(w, got[`amboy_oldest_ready_job_age_seconds{queue="b"}`])
		assert.InDelta(w, 2, got["amboy_queues"], 0)
		assert.InDelta(w, 1, got["amboy_paused_queues"], 0)
		assert.InDelta(w, 1, got["amboy_store_up"], 0)
		assert.InDelta(w, 4, got["amboy_process_workers"], 0)
		assert.InDelta(w, 2, got["amboy_process_running_jobs"], 0)
		assert.InDelta(w, 0.75, got["amboy_workers_wanted"], 1e-9, "3 of 4")

		with := samples(w, scrape(w, w.handler(promamboy.Options{Slots: 2})))
		assert.InDelta(w, 1.5, with["amboy_workers_wanted"], 1e-9)
	})
}

func TestScrapeCountsTheJobsOfTheStoreByType(t *testing.T) {
	inWorld(t, func(w *world) {
		for range 3 {
			w.put("a", "stay")
		}
		synctest.Wait() // two run
		w.put("b", "", job.In(time.Hour))
		q, err := w.group.Get(w.Context(), "b")
		require.NoError(w, err)
		_, err = audit.Put(w.Context(), q, "", job.In(time.Hour))
		require.NoError(w, err)

		got := samples(w, scrape(w, w.handler(promamboy.Options{Queues: 1})))
		assert.InDelta(w, 2, got[`amboy_jobs_by_type{queue="a",state="running",`+visitType+`}`], 0)
		assert.InDelta(w, 1, got[`amboy_jobs_by_type{queue="a",state="ready",`+visitType+`}`], 0)
		assert.InDelta(w, 1, got[`amboy_jobs_by_type{queue="(others)",state="scheduled",`+visitType+`}`], 0)
		assert.InDelta(w, 1, got[`amboy_jobs_by_type{queue="(others)",state="scheduled",type="promamboy-test.audit"}`], 0)
		assert.Contains(w, got, "amboy_jobs_by_type_age_seconds")
		assert.Zero(w, got["amboy_jobs_by_type_age_seconds"])
		for name, n := range got {
			if strings.HasPrefix(name, "amboy_jobs_by_type{") && !strings.Contains(name, "running") {
				assert.LessOrEqual(w, n, 1.0, name)
			}
		}
	})
}

// A database counts in the background. Until it has, and if it fails, the other metrics are there.
func TestScrapeStatesHowOldTheCountsByTypeAre(t *testing.T) {
	inWorld(t, func(w *world) {
		w.store.durable = true
		handler := w.handler(promamboy.Options{})
		w.put("a", "", job.In(24*time.Hour))
		for _, step := range []struct {
			pass  time.Duration
			known bool
			age   float64
		}{{0, false, 0}, {10 * time.Second, true, 10}, {40 * time.Second, true, 50}, {time.Minute, true, 110}, {10 * time.Second, true, 10}} {
			time.Sleep(step.pass)
			got := samples(w, scrape(w, handler))
			synctest.Wait()
			assert.InDelta(w, 1, got["amboy_store_up"], 0)
			age, known := got["amboy_jobs_by_type_age_seconds"]
			assert.Equal(w, step.known, known)
			assert.InDelta(w, step.age, age, 0.1)
			_, known = got[`amboy_jobs_by_type{queue="a",state="scheduled",`+visitType+`}`]
			assert.Equal(w, step.known, known)
		}
		failure := errors.New("no such table: notes")
		w.store.noNotes.Store(&failure)
		time.Sleep(2 * time.Second)
		got := samples(w, scrape(w, handler))
		assert.InDelta(w, 1, got["amboy_store_up"], 0)
		assert.InDelta(w, 1, got["amboy_queues"], 0)
		assert.NotContains(w, got, "amboy_jobs_by_type_age_seconds")
	})
}

// Queues that hold jobs by reference, alone and in a group, have the same metrics of the store.
func TestScrapeOfQueuesByReference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group, err := queue.NewLocalQueueGroup(t.Context(), queue.LocalQueueGroupOptions{
			DefaultQueue: queue.LocalQueueOptions{Constructor: func(context.Context) (amboy.Queue, error) {
				return queue.NewLocalLimitedSize(1, 100), nil
			}},
		})
		require.NoError(t, err)
		q, err := group.Get(t.Context(), "a")
		require.NoError(t, err)
		ofQueue, err := management.NewInspector(q)
		require.NoError(t, err)
		ofGroup, err := management.NewGroupInspector(group)
		require.NoError(t, err)
		_, err = visit.Put(t.Context(), q, "stay")
		require.NoError(t, err)
		synctest.Wait() // it runs
		_, err = visit.Put(t.Context(), q, "")
		require.NoError(t, err)
		_, err = audit.Put(t.Context(), q, "", job.In(time.Hour))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		for name, inspector := range map[string]management.Inspector{"a": ofGroup, q.ID(): ofQueue} {
			handler, err := promamboy.Handler(inspector, promamboy.Options{Queues: 1})
			require.NoError(t, err)
			got := samples(t, scrape(t, handler))
			labels := fmt.Sprintf("queue=%q", name)
			assert.InDelta(t, 60, got["amboy_oldest_ready_job_age_seconds{"+labels+"}"], 0.1, name)
			assert.InDelta(t, 1, got["amboy_jobs_by_type{"+labels+`,state="running",`+visitType+"}"], 0, name)
			assert.InDelta(t, 1, got["amboy_jobs_by_type{"+labels+`,state="ready",`+visitType+"}"], 0, name)
			assert.InDelta(t, 1, got["amboy_jobs_by_type{"+labels+`,state="scheduled",type="promamboy-test.audit"}`], 0, name)
			assert.InDelta(t, 2, got["amboy_workers_wanted"], 0, name)
		}
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = group.Close(ended) //nolint:errcheck // It reports the job that was still running.
	})
}

// A paused queue, or one that is limited, is no reason for more processes.
func TestScrapeWantsNoWorkersForJobsThatMayNotStart(t *testing.T) {
	inWorld(t, func(w *world) {
		yes, one := true, 1
		for queue, change := range map[string]management.ControlChange{"paused": {Paused: &yes}, "limited": {MaxRunning: &one}} {
			_, err := w.group.Get(w.Context(), queue)
			require.NoError(w, err)
			_, err = w.inspector.SetControl(w.Context(), queue, change)
			require.NoError(w, err)
			for range 8 {
				w.put(queue, "stay")
			}
		}
		synctest.Wait()
		got := samples(w, scrape(w, w.handler(promamboy.Options{})))
		assert.InDelta(w, 0.25, got["amboy_workers_wanted"], 1e-9, "1 of 4")
	})
}

// An autoscaler added processes for jobs that the rate of their queue held back.
func TestScrapeWantedWorkersForJobsThatTheRateHoldsBack(t *testing.T) {
	inWorld(t, func(w *world) {
		_, err := w.group.Get(w.Context(), "rated")
		require.NoError(w, err)
		_, err = w.inspector.SetControl(w.Context(), "rated", management.ControlChange{Rate: &amboy.Rate{PerSecond: 0.001, Burst: 2}})
		require.NoError(w, err)
		for range 8 {
			w.put("rated", "stay")
		}
		synctest.Wait()
		got := samples(w, scrape(w, w.handler(promamboy.Options{})))
		assert.InDelta(w, 1, got[`amboy_jobs{queue="rated",state="running"}`], 0)
		assert.InDelta(w, 0.75, got["amboy_workers_wanted"], 1e-9, "one that runs and a burst of two, of 4")
	})
}

// The default showed all queues as "(others)", so that no queue could be told from another.
func TestScrapeNamesNoQueueByDefault(t *testing.T) {
	inWorld(t, func(w *world) {
		for n := range promamboy.DefaultQueues + 1 {
			w.put(fmt.Sprint("deep-", n), "", job.In(time.Hour))
			w.put(fmt.Sprint("deep-", n), "", job.In(time.Hour))
		}
		w.put("deep-0", "")
		w.put("shallow", "", job.In(time.Hour))
		synctest.Wait()
		got := samples(w, scrape(w, w.handler(promamboy.Options{})))
		assert.InDelta(w, 2, got[`amboy_jobs{queue="deep-0",state="scheduled"}`], 0)
		assert.InDelta(w, 1, got[`amboy_attempts_total{outcome="succeeded",queue="deep-0",`+visitType+`}`], 0)
		assert.InDelta(w, 3, got[`amboy_jobs{queue="(others)",state="scheduled"}`], 0, "the last of the deep ones, and the shallow one")
		named := map[string]bool{}
		for sample := range got {
			labels, _, _ := strings.Cut(sample, ",")
			if strings.HasPrefix(labels, `amboy_jobs{queue="deep-`) {
				named[labels] = true
			}
		}
		assert.Len(w, named, promamboy.DefaultQueues)
	})
}

func TestScrapeNamesNoQueueIfAsked(t *testing.T) {
	inWorld(t, func(w *world) {
		for n := range 5 {
			for range n + 1 {
				w.put(fmt.Sprint("tenant-", n), "", job.In(time.Hour))
			}
			w.put(fmt.Sprint("tenant-", n), "")
			synctest.Wait()
		}
		text := scrape(w, w.handler(promamboy.Options{Queues: promamboy.NoQueues}))
		assert.NotContains(w, text, "tenant")
		got := samples(w, text)
		assert.InDelta(w, 15, got[`amboy_jobs{queue="(others)",state="scheduled"}`], 0)
		assert.InDelta(w, 5, got[`amboy_attempts_total{outcome="succeeded",queue="(others)",`+visitType+`}`], 0)

		got = samples(w, scrape(w, w.handler(promamboy.Options{Queues: 2})))
		assert.InDelta(w, 5, got[`amboy_jobs{queue="tenant-4",state="scheduled"}`], 0, "the deepest")
		assert.InDelta(w, 4, got[`amboy_jobs{queue="tenant-3",state="scheduled"}`], 0)
		assert.InDelta(w, 6, got[`amboy_jobs{queue="(others)",state="scheduled"}`], 0)
		assert.NotContains(w, got, `amboy_jobs{queue="tenant-2",state="scheduled"}`)
		assert.InDelta(w, 1, got[`amboy_attempts_total{outcome="succeeded",queue="tenant-0",`+visitType+`}`], 0, "the first")
		assert.InDelta(w, 3, got[`amboy_attempts_total{outcome="succeeded",queue="(others)",`+visitType+`}`], 0)
	})
}

func TestScrapeCountsWhatTheProcessDid(t *testing.T) {
	inWorld(t, func(w *world) {
		handler := w.handler(promamboy.Options{Queues: 1})
		last := map[string]float64{}
		for n := range 3 {
			w.put("a", "")
			w.put("a", "refuse")
			synctest.Wait() // so that this queue is the first in which a job ends
			w.put(fmt.Sprint("other-", n), "")
			synctest.Wait()
			got := samples(w, scrape(w, handler))
			for name, value := range last {
				if strings.Contains(name, "_total") || strings.Contains(name, "_count") {
					assert.GreaterOrEqual(w, got[name], value, name)
				}
			}
			last = got
			time.Sleep(time.Minute)
		}
		assert.InDelta(w, 3, last[`amboy_attempts_total{outcome="succeeded",queue="a",`+visitType+`}`], 0)
		assert.InDelta(w, 3, last[`amboy_attempts_total{outcome="failed",queue="a",`+visitType+`}`], 0)
		assert.InDelta(w, 6, last[`amboy_job_run_seconds_count{queue="a",`+visitType+`}`], 0)
		assert.InDelta(w, 6, last[`amboy_job_wait_seconds_count{queue="a",`+visitType+`}`], 0)
		assert.InDelta(w, 3, last[`amboy_job_wait_seconds_count{queue="(others)",`+visitType+`}`], 0)
		assert.InDelta(w, 9, last["amboy_claimed_jobs_total"], 0)
	})
}

func TestScrapeOfAFailingStoreGivesTheMetricsOfTheProcess(t *testing.T) {
	failure := errors.New("dial tcp db-7.internal.example: password hunter2")
	inWorld(t, func(w *world) {
		handler := w.handler(promamboy.Options{Queues: 10})
		w.put("a", "")
		synctest.Wait()
		for _, fail := range []func(){func() { w.store.failure.Store(&failure) }, func() { w.store.wait = func() { panic(failure) } }} {
			fail()
			time.Sleep(2 * time.Second)
			text := scrape(w, handler)
			assert.NotContains(w, text, "hunter2")
			assert.NotContains(w, text, "db-7")
			got := samples(w, text)
			assert.Contains(w, got, "amboy_store_up")
			assert.Zero(w, got["amboy_store_up"])
			assert.NotContains(w, got, "amboy_queues")
			assert.InDelta(w, 1, got["amboy_claimed_jobs_total"], 0)
		}
		w.store.failure.Store(nil)
		w.store.wait = nil
		time.Sleep(2 * time.Second)
		assert.InDelta(w, 1, samples(w, scrape(w, handler))["amboy_store_up"], 0)
	})
}

func TestAttackScrapesWithoutEndShareReads(t *testing.T) {
	inWorld(t, func(w *world) {
		release := make(chan struct{})
		w.store.wait = func() { <-release }
		handler := w.handler(promamboy.Options{})
		var scrapes sync.WaitGroup
		for range 200 {
			scrapes.Go(func() { scrape(w, handler) })
		}
		synctest.Wait()
		time.Sleep(3 * time.Second) // a slow store is read less often
		close(release)
		scrapes.Wait()
		for range 20 {
			time.Sleep(time.Second)
			scrape(w, handler)
		}
		assert.EqualValues(w, 1, w.store.reads.Load())
		time.Sleep(10 * time.Second)
		scrape(w, handler)
		assert.EqualValues(w, 2, w.store.reads.Load())
	})
}

func TestMetricsFollowTheConventionsOfPrometheus(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("a\xff\"\n", "")
		synctest.Wait()
		text := scrape(w, w.handler(promamboy.Options{Queues: 10}))
		registry := prometheus.NewPedanticRegistry()
		require.NoError(w, registry.Register(w.collector()))
		_, err := registry.Gather()
		require.NoError(w, err)
		problems, err := promlint.New(strings.NewReader(text)).Lint()
		require.NoError(w, err)
		assert.Empty(w, problems)
	})
}

func TestHandlerRefuses(t *testing.T) {
	inWorld(t, func(w *world) {
		_, err := promamboy.Handler(w.inspector, promamboy.Options{Queues: -2, Slots: -2})
		require.ErrorContains(w, err, "Queues must be from 0 to 1000, or NoQueues (is -2)")
		require.ErrorContains(w, err, "Slots must not be negative (is -2)")
		_, err = promamboy.Handler(nil, promamboy.Options{})
		require.ErrorContains(w, err, "must be a management.Meter")
		recorder := httptest.NewRecorder()
		w.handler(promamboy.Options{}).ServeHTTP(recorder, httptest.NewRequestWithContext(w.Context(), http.MethodPost, "/metrics", http.NoBody))
		assert.Equal(w, http.StatusMethodNotAllowed, recorder.Code)
	})
}
