//go:build unix

package benchmarks

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/rest"
)

// BenchmarkDashboard measures the dashboard and the API of a service whose jobs are in a
// database file: 100,000 finished and 10,000 waiting ones, or ten times as many with -full,
// which take some minutes to prepare.
//
// Pages measures the response times of an operator's requests while the service runs 500 jobs
// per second. It reports the slowest 95th percentile, and logs its page. Tabs measures what 20
// open tabs cost the service if their pages are fetched again after each event, as their
// script does: processor time, including that of the client, and throughput, alternating with
// no tabs.
func BenchmarkDashboard(b *testing.B) {
	s := newWatchedService(b)
	defer s.close()
	b.Run("pages", s.benchmarkPages)
	b.Run("tabs", s.benchmarkTabs)
}

// watchedService is a service with jobs and a dashboard.
type watchedService struct {
	group  amboy.QueueGroup
	work   amboy.Queue
	server *httptest.Server
	last   string // the ID of a finished job
}

func newWatchedService(b *testing.B) *watchedService {
	finished, waiting := 100_000, 10_000
	if *full {
		finished, waiting = 1_000_000, 100_000
	}
	file, err := sqlite.Open(b.Context(), sqlite.Options{Path: filepath.Join(b.TempDir(), "jobs.db"), KeepFinished: 10 * finished})
	require.NoError(b, err)
	group, err := queue.NewDriverGroup(b.Context(), queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{Driver: file, CloseDriver: true, NumWorkers: 8},
	})
	require.NoError(b, err)
	s := &watchedService{group: group, work: tenant(b, group, "work")}
	idle := tenant(b, group, "waiting")
	require.NoError(b, idle.(amboy.QueueController).Pause(b.Context()))
	for range waiting / 1000 {
		require.NoError(b, idle.PutMany(b.Context(), newStoredTasks(1000)))
	}
	s.drain(b, finished)
	running := newCountdown(1)
	run := func(*storedTask) { running.run() }
	runStored.Store(&run)
	last := newStoredTask()
	put(b, s.work, last)
	<-running.done
	s.last = last.ID()

	inspector, err := management.NewGroupInspector(group)
	require.NoError(b, err)
	s.server = httptest.NewServer(rest.Handler(inspector, rest.Authorize(func(*http.Request, rest.Access) error { return nil })))
	return s
}

func (s *watchedService) close() {
	s.server.Close()
	_ = s.group.Close(context.Background()) // the results are already measured
}

// drain puts jobs, waits until they have run, and returns how long it took.
func (s *watchedService) drain(b *testing.B, jobs int) time.Duration {
	running := newCountdown(jobs)
	run := func(*storedTask) { running.run() }
	runStored.Store(&run)
	return runThousands(b, s.work, running)
}

// trickle puts 500 jobs per second until stop is called.
func (s *watchedService) trickle(b *testing.B) (stop func()) {
	run := func(*storedTask) {}
	runStored.Store(&run)
	ctx, cancel := context.WithCancel(b.Context())
	var putting sync.WaitGroup
	putting.Go(func() {
		pace := time.NewTicker(20 * time.Millisecond)
		defer pace.Stop()
		for ctx.Err() == nil {
			err := s.work.PutMany(ctx, newStoredTasks(10))
			if err != nil && ctx.Err() == nil {
				b.Errorf("putting jobs: %v", err)
			}
			select {
			case <-pace.C:
			case <-ctx.Done():
			}
		}
	})
	return func() {
		cancel()
		putting.Wait()
	}
}

// visited returns the paths that an operator may request.
func (s *watchedService) visited() []string {
	paths := []string{
		"/", "/jobs", "/queues", "/queues/work", "/queues/waiting", "/workers", "/schedules", "/scopes", "/audit",
		"/queues/work/jobs/" + url.PathEscape(s.last),
		"/v2/queues", "/v2/processes", "/v2/scopes", "/v2/schedules", "/v2/audit", "/v2/activity?last=1h", "/v2/activity?last=48h",
		"/v2/queues/work/jobs/" + url.PathEscape(s.last), "/v2/jobs/count?most=10000", "/v2/jobs/count?states=succeeded&most=10000",
	}
	filters := []string{
		"queue=work", "queue=waiting", "type=" + storedTaskType, "type=nobody", "tag=nobody", "id=" + url.QueryEscape(s.last),
		"id_pattern=*9", "id_pattern=nobody*here", "error=nothing", "state=failed&error=nothing",
		"ended_from=" + url.QueryEscape(time.Now().Add(-time.Hour).Format(time.RFC3339)),
	}
	for _, state := range amboy.JobStates() {
		filters = append(filters, "state="+string(state), "queue=work&state="+string(state), "type="+storedTaskType+"&state="+string(state))
	}
	// The API has the names of the filter in a body.
	names := strings.NewReplacer("queue=", "queues=", "state=", "states=", "type=", "types=", "tag=", "tags=", "ended_from=", "ended[from]=")
	for _, filter := range filters {
		inAPI := strings.Replace(names.Replace(filter), "id=", "ids=", 1)
		paths = append(paths, "/jobs?"+filter, "/v2/jobs?"+inAPI, "/v2/jobs?newest=true&"+inAPI)
	}
	return paths
}

// fetch requests a path, and reads the response.
func (s *watchedService) fetch(b *testing.B, path string) time.Duration {
	begin := time.Now()
	response, err := http.Get(s.server.URL + path)
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
		err = errors.Join(err, response.Body.Close())
	}
	if err != nil || response.StatusCode != http.StatusOK {
		b.Errorf("requesting %s: %v", path, err) // not Fatalf, because fetch runs in several goroutines
	}
	return time.Since(begin)
}

func (s *watchedService) benchmarkPages(b *testing.B) {
	defer s.trickle(b)()
	const visits = 20
	took, paths := map[string]samples{}, s.visited()
	for b.Loop() {
		for range visits {
			for _, path := range paths {
				took[path] = append(took[path], s.fetch(b, path))
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	slowest := ""
	for path, times := range took {
		if slowest == "" || times.quantile(0.95) > took[slowest].quantile(0.95) {
			slowest = path
		}
		if times.quantile(0.95) > 100*time.Millisecond {
			b.Logf("%s: p50 %s, p95 %s", path, times.quantile(0.5), times.quantile(0.95))
		}
	}
	b.Logf("%d paths, the slowest is %s", len(took), slowest)
	b.Logf("/jobs: p50 %s, p95 %s", took["/jobs"].quantile(0.5), took["/jobs"].quantile(0.95))
	b.ReportMetric(float64(took[slowest].quantile(0.5).Microseconds())/1000, "slowest-p50-ms")
	b.ReportMetric(float64(took[slowest].quantile(0.95).Microseconds())/1000, "slowest-p95-ms")
}

func (s *watchedService) benchmarkTabs(b *testing.B) {
	const period, jobs, turns = 5 * time.Second, 20_000, 4
	var idle, watched, measured time.Duration
	var alone, beside samples
	s.busy(b, period) // in which remaining work of the preparation is done
	for b.Loop() {
		for range turns {
			idle += s.busy(b, period)
			closeTabs := s.openTabs(b, 20)
			watched += s.busy(b, period)
			closeTabs()
			measured += period
		}
		for range turns {
			alone = append(alone, s.drain(b, jobs))
			closeTabs := s.openTabs(b, 20)
			beside = append(beside, s.drain(b, jobs))
			closeTabs()
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(100*(watched-idle).Seconds()/measured.Seconds(), "tabs-cpu-%")
	b.ReportMetric(100*idle.Seconds()/measured.Seconds(), "jobs-cpu-%")
	b.ReportMetric(beside.rate(jobs)/alone.rate(jobs), "x-without-tabs")
}

// busy returns the processor time of a period in which 500 jobs per second run.
func (s *watchedService) busy(b *testing.B, period time.Duration) time.Duration {
	stop := s.trickle(b)
	defer stop()
	before := processorTime(b)
	<-time.After(period)
	return processorTime(b) - before
}

// openTabs opens tabs, most of them with the overview, and keeps them up to date as a browser
// does, until close is called.
func (s *watchedService) openTabs(b *testing.B, tabs int) (closeAll func()) {
	ctx, cancel := context.WithCancel(b.Context())
	var open sync.WaitGroup
	for i := range tabs {
		path := []string{"/", "/", "/jobs", "/queues/work"}[i%4]
		s.fetch(b, path)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.server.URL+"/live", http.NoBody)
		require.NoError(b, err)
		response, err := http.DefaultClient.Do(request)
		require.NoError(b, err)
		require.Equal(b, http.StatusOK, response.StatusCode)
		open.Go(func() {
			defer func() { _ = response.Body.Close() }() // the stream has ended
			lines := bufio.NewScanner(response.Body)
			for lines.Scan() {
				if strings.HasPrefix(lines.Text(), "event:") {
					s.fetch(b, path)
				}
			}
		})
	}
	return func() {
		cancel()
		open.Wait()
	}
}
