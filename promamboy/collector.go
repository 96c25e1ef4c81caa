package promamboy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/internal/sharedread"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue/driver"
)

const (
	// DefaultQueues is the default of Options.Queues.
	DefaultQueues = 100
	// MaxQueues is the largest value of Options.Queues.
	MaxQueues = 1000
	// NoQueues is a value of Options.Queues: no queue has a label of its own.
	NoQueues = -1
	// maxTypes is the number of job types with a label of their own.
	maxTypes = 100
	// Others is the label of the queues and job types that have none of their own.
	Others = "(others)"
)

// Options configure the metrics.
type Options struct {
	// Queues is the number of queues with a label of their own. The others are summed up
	// under the label Others. The metrics of the store name the queues with the most jobs
	// that have not ended, and the metrics of the process the first queues that ended a job.
	// The default, 0, means DefaultQueues. If queues are named for tenants, every client that
	// can scrape learns the names of tenants and how much they do: authorize scrapes, or set
	// NoQueues.
	Queues int
	// Slots is the number of jobs that a process runs at once, by which amboy_workers_wanted
	// is computed. The default is the number of workers of this process. Set it in a
	// process that has no workers.
	Slots int
}

// Validate returns an error that names each field that is out of range.
func (o Options) Validate() error {
	var errs [2]error
	if o.Queues < NoQueues || o.Queues > MaxQueues {
		errs[0] = fmt.Errorf("invalid metrics options: Queues must be from 0 to %d, or NoQueues (is %d)", MaxQueues, o.Queues)
	}
	if o.Slots < 0 {
		errs[1] = fmt.Errorf("invalid metrics options: Slots must not be negative (is %d)", o.Slots)
	}
	return errors.Join(errs[:]...)
}

// Collector collects the metrics of an inspector. It is safe for concurrent use, and can be used
// as long as the inspector can. It has no goroutine between scrapes, unless a store does not
// return from a read when its context ends.
type Collector struct {
	opts   Options
	meter  management.Meter
	reader *storeReader

	mu            sync.Mutex
	queues, types labels // of the metrics of the process
}

var _ prometheus.Collector = (*Collector)(nil)

// New returns a collector of the queues of an inspector of package management. It returns an
// error for invalid options, and for an inspector that is no management.Meter, such as a
// client of another process.
func New(inspector management.Inspector, opts Options) (*Collector, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	meter, ok := inspector.(management.Meter)
	if !ok {
		return nil, fmt.Errorf("making a collector: the inspector must be a management.Meter (is a %T)", inspector)
	}
	opts.Queues = max(0, cmp.Or(opts.Queues, DefaultQueues)) // NoQueues is negative
	return &Collector{
		opts: opts, meter: meter, reader: newStoreReader(meter),
		queues: labels{limit: opts.Queues}, types: labels{limit: maxTypes},
	}, nil
}

// Handler returns a handler that answers GET with the metrics of the queues of an inspector,
// in the text form of Prometheus. It fails as New does. Requests are not authorized: the
// handler may be public only if the number of jobs, and the names of job types and queues, may
// be. The answer names no job, host or user, and with NoQueues no queue.
func Handler(inspector management.Inspector, opts Options) (http.Handler, error) {
	collector, err := New(inspector, opts)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(collector); err != nil {
		return nil, fmt.Errorf("registering the metrics: %w", err)
	}
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		metrics.ServeHTTP(w, r)
	}), nil
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range descriptions {
		to <- d
	}
}

// Collect implements prometheus.Collector. It reads the store for at most five seconds. If
// that fails, amboy_store_up is 0 and the other metrics of the store are missing.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	process := c.meter.MeasureProcess()
	c.collectProcess(to, process)
	read := c.reader.read(context.Background())
	gauge(to, storeReadSeconds, read.Took.Seconds())
	if read.Value.err != nil {
		gauge(to, storeUp, 0)
		return
	}
	gauge(to, storeUp, 1)
	c.collectStore(to, read, cmp.Or(c.opts.Slots, process.Workers))
}

func (c *Collector) collectStore(to chan<- prometheus.Metric, read *sharedread.Result[measured], slots int) {
	shown := slices.Clone(read.Value.queues) // another scrape may read it
	slices.SortStableFunc(shown, func(a, b management.QueueMeasures) int { return cmp.Compare(unended(b), unended(a)) })
	sums, labelOf := map[string]*queueSum{}, map[string]string{}
	wanted, paused := 0, 0
	for n, q := range shown {
		name := Others
		if n < c.opts.Queues {
			name = label(q.Name)
			labelOf[q.Name] = name
		}
		if sums[name] == nil {
			sums[name] = &queueSum{}
		}
		sums[name].add(q, read.At)
		wanted += runnable(q)
		if q.Paused {
			paused++
		}
	}
	for name, sum := range sums {
		for state, n := range sum.jobs() {
			gauge(to, jobs, float64(n), name, state)
		}
		if sum.Ready == 0 || sum.oldest > 0 { // else it was not read
			gauge(to, oldestReady, sum.oldest.Seconds(), name)
		}
	}
	c.collectTypes(to, read, labelOf)
	gauge(to, queues, float64(len(shown)))
	gauge(to, pausedQueues, float64(paused))
	if slots > 0 {
		gauge(to, workersWanted, float64(wanted)/float64(slots))
	}
}

// collectTypes collects the jobs by type. Queues without a label in labelOf are summed up.
func (c *Collector) collectTypes(to chan<- prometheus.Metric, read *sharedread.Result[measured], labelOf map[string]string) {
	types := read.Value.types
	if types.At.IsZero() {
		return
	}
	gauge(to, typeJobsAge, max(0, read.At.Sub(types.At)).Seconds())
	sums := map[typeLabels]*driver.TypeCount{}
	c.mu.Lock()
	add := func(queue string, count driver.TypeCount) {
		key := typeLabels{queue, Others}
		if count.Type != "" { // else it stands for several types
			key.jobType = c.types.of(count.Type)
		}
		if sums[key] == nil {
			sums[key] = &driver.TypeCount{}
		}
		sums[key].Add(&count)
	}
	for _, count := range types.Counts {
		queue, found := labelOf[count.Queue]
		if !found {
			queue = Others
		}
		add(queue, count)
	}
	for _, count := range types.Others {
		add(Others, count)
	}
	c.mu.Unlock()
	for key, sum := range sums {
		for state, n := range map[string]int{
			"ready": sum.Ready, "scheduled": sum.Scheduled, "blocked": sum.Blocked, "parked": sum.Parked,
			"running": sum.Running, "retrying": sum.Retrying,
		} {
			gauge(to, typeJobs, float64(n), key.queue, key.jobType, state)
		}
	}
}

// queueSum is the sum over the queues that share a label.
type queueSum struct {
	management.QueueMeasures
	oldest time.Duration
}

func (s *queueSum) add(q management.QueueMeasures, now time.Time) {
	s.Ready += q.Ready
	s.Scheduled += q.Scheduled
	s.Blocked += q.Blocked
	s.Parked += q.Parked
	s.Running += q.Running
	s.Retrying += q.Retrying
	if !q.OldestReady.IsZero() {
		s.oldest = max(s.oldest, now.Sub(q.OldestReady))
	}
}

func (s *queueSum) jobs() map[string]int {
	return map[string]int{
		"ready": s.Ready, "scheduled": s.Scheduled, "blocked": s.Blocked, "parked": s.Parked,
		"running": s.Running, "retrying": s.Retrying,
	}
}

// unended counts the jobs of a queue that have not ended.
func unended(q management.QueueMeasures) int {
	return q.Ready + q.Scheduled + q.Blocked + q.Parked + q.Running + q.Retrying
}

// runnable counts the jobs of a queue that run or could. More workers do not help jobs that its
// settings hold back.
func runnable(q management.QueueMeasures) int {
	ready := q.Ready
	if q.Paused {
		ready = 0
	}
	if q.MaxRunning > 0 {
		ready = min(ready, max(0, q.MaxRunning-q.Running))
	}
	if q.Rate != nil {
		ready = min(ready, q.Rate.BurstOrDefault())
	}
	return q.Running + ready
}

func (c *Collector) collectProcess(to chan<- prometheus.Metric, m management.ProcessMeasures) {
	gauge(to, processWorkers, float64(m.Workers))
	gauge(to, processRunning, float64(m.Running))
	counter(to, claims, m.Claims)
	counter(to, claimErrors, m.FailedClaims)
	counter(to, claimedJobs, m.ClaimedJobs)
	counter(to, renewals, m.Renewals)
	counter(to, lateRenewals, m.LateRenewals)
	counter(to, leasesLost, m.Fenced, "fenced")
	counter(to, leasesLost, m.Taken, "taken")
	counter(to, interruptions, m.Interruptions)
	counter(to, parkedJobs, m.Parked)
	for key, t := range c.byLabel(m.Attempts) {
		counter(to, attempts, t.Succeeded, key.queue, key.jobType, "succeeded")
		counter(to, attempts, t.Failed, key.queue, key.jobType, "failed")
		counter(to, attempts, t.Retried, key.queue, key.jobType, "retried")
		histogram(to, waitSeconds, t.Wait, key.queue, key.jobType)
		histogram(to, runSeconds, t.Run, key.queue, key.jobType)
	}
}

// typeLabels are the labels of metrics by queue and type.
type typeLabels struct{ queue, jobType string }

// byLabel adds up the attempts that share labels.
func (c *Collector) byLabel(all []management.AttemptMeasures) map[typeLabels]*management.AttemptMeasures {
	c.mu.Lock()
	defer c.mu.Unlock()
	sums := map[typeLabels]*management.AttemptMeasures{}
	for _, t := range all {
		key := typeLabels{Others, Others}
		if t.Type != "" { // else it stands for several types and queues
			key = typeLabels{c.queues.of(t.Queue), c.types.of(t.Type)}
		}
		if sums[key] == nil {
			sums[key] = &management.AttemptMeasures{}
		}
		sums[key].Add(t)
	}
	return sums
}

// labels gives the first names that it meets a label of their own, for good: what is counted
// under a label must not move to another, because counters do not decrease.
type labels struct {
	limit int
	given map[string]string
}

func (l *labels) of(name string) string {
	if given, ok := l.given[name]; ok {
		return given
	}
	if len(l.given) >= l.limit {
		return Others
	}
	if l.given == nil {
		l.given = map[string]string{}
	}
	l.given[name] = label(name)
	return l.given[name]
}

// label returns a name as a label, which must be valid UTF-8.
func label(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

func gauge(to chan<- prometheus.Metric, d *prometheus.Desc, value float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func counter(to chan<- prometheus.Metric, d *prometheus.Desc, value uint64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
}

func histogram(to chan<- prometheus.Metric, d *prometheus.Desc, t activity.Times, labels ...string) {
	buckets, sum := make(map[float64]uint64, len(t.Buckets)), uint64(0)
	for n, count := range t.Buckets {
		sum += count
		buckets[activity.Bounds[n].Seconds()] = sum
	}
	to <- prometheus.MustNewConstHistogram(d, t.Count, t.Sum.Seconds(), buckets, labels...)
}
