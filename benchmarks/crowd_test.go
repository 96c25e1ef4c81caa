package benchmarks

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/queue"
	memorydriver "github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/registry"
)

// crowdStores are the stores in which a crowd of jobs waits.
var crowdStores = []struct {
	name  string
	start func(testing.TB) amboy.Queue
}{
	{"local", func(tb testing.TB) amboy.Queue { return start(tb, queue.NewLocalLimitedSize(8, 1_000_000)) }},
	{"memory", func(tb testing.TB) amboy.Queue {
		store, err := memorydriver.New(memorydriver.Options{KeepFinished: 1000})
		require.NoError(tb, err)
		q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 8})
		require.NoError(tb, err)
		return start[amboy.Queue](tb, q)
	}},
	{"sqlite", func(tb testing.TB) amboy.Queue {
		return start[amboy.Queue](tb, newAmboyFile(tb, 8, sqlite.Options{Path: newDurableSetup(tb, "NORMAL", nil).path}))
	}},
}

// crowd is a queue with jobs that run until they are released, and other jobs that wait for
// them.
type crowd struct {
	amboy.Queue
	plain   chan time.Duration
	mu      sync.Mutex
	holders map[string]*holder
}

type holder struct{ started, end chan struct{} }

func newCrowd(q amboy.Queue) *crowd {
	c := &crowd{Queue: q, plain: make(chan time.Duration, 1), holders: map[string]*holder{}}
	run := c.run
	runStored.Store(&run)
	return c
}

func (c *crowd) run(t *storedTask) {
	if strings.HasPrefix(t.ID(), "plain-") {
		c.plain <- t.sinceMade()
		return
	}
	c.mu.Lock()
	h := c.holders[t.ID()]
	c.mu.Unlock()
	if h != nil {
		close(h.started)
		<-h.end
	}
}

// hold runs a job that holds a scope until it is released.
func (c *crowd) hold(tb testing.TB, id, scope string) *holder {
	h := &holder{make(chan struct{}), make(chan struct{})}
	c.mu.Lock()
	c.holders[id] = h
	c.mu.Unlock()
	t := newStoredTask()
	t.SetID(id)
	t.SetScopes([]string{scope})
	put(tb, c, t)
	<-h.started
	return h
}

// wait puts jobs that wait.
func (c *crowd) wait(tb testing.TB, jobs int, change func(*storedTask)) {
	for jobs > 0 {
		tasks := newStoredTasks(min(jobs, 1000))
		for _, t := range tasks {
			change(t.(*storedTask))
		}
		require.NoError(tb, c.PutMany(tb.Context(), tasks))
		jobs -= len(tasks)
	}
}

// latencies measures the latencies of plain jobs, one after the other, until done is closed.
func (c *crowd) latencies(tb testing.TB, done <-chan struct{}) (took samples) {
	for i := 0; ; i++ {
		select {
		case <-done:
			return took
		case <-time.After(2 * time.Millisecond):
		}
		t := newStoredTask()
		t.SetID("plain-" + t.ID())
		t.SetPriority(1)
		t.Made = time.Now().UnixNano()
		put(tb, c, t)
		took = append(took, <-c.plain)
	}
}

// during measures the latencies until a function returns.
func (c *crowd) during(tb testing.TB, f func()) samples {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return c.latencies(tb, done)
}

func (c *crowd) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c.Close(ctx)
}

// crowdSize is the number of waiting jobs.
const crowdSize = 100_000

// report reports the latency of plain jobs.
func (s samples) report(b *testing.B, prefix string) {
	b.ReportMetric(float64(s.quantile(0.5).Microseconds())/1000, prefix+"p50-ms")
	b.ReportMetric(float64(s.quantile(0.99).Microseconds())/1000, prefix+"p99-ms")
	b.ReportMetric(float64(s.quantile(1).Microseconds())/1000, prefix+"max-ms")
}

// BenchmarkScopeFreedForACrowd measures the latency of plain jobs in a second in which a scope
// is freed for which 100,000 jobs wait that also need a second, held scope. For comparison it
// measures a second in which nothing else happens.
func BenchmarkScopeFreedForACrowd(b *testing.B) {
	for _, store := range crowdStores {
		b.Run(store.name, func(b *testing.B) {
			var quiet, busy samples
			for b.Loop() {
				c := newCrowd(store.start(b))
				first, second := c.hold(b, "first", "first"), c.hold(b, "second", "second")
				c.wait(b, crowdSize, func(t *storedTask) { t.SetScopes([]string{"first", "second"}) })
				quiet = append(quiet, c.during(b, func() { <-time.After(time.Second) })...)
				busy = append(busy, c.during(b, func() {
					close(first.end)
					<-time.After(time.Second)
				})...)
				close(second.end)
				c.close()
			}
			b.ReportMetric(0, "ns/op")
			quiet.report(b, "quiet-")
			busy.report(b, "")
		})
	}
}

// BenchmarkEndWithACrowdOfDependents measures how long it takes to release the 100,000
// dependents of a job that ends, and the latency of plain jobs meanwhile.
func BenchmarkEndWithACrowdOfDependents(b *testing.B) {
	for _, store := range crowdStores {
		b.Run(store.name, func(b *testing.B) {
			var busy, released samples
			for b.Loop() {
				c := newCrowd(store.start(b))
				job := c.hold(b, "job", "scope")
				due := time.Now().Add(24 * time.Hour) // so that they are released but do not run
				c.wait(b, crowdSize, func(t *storedTask) {
					d := dependency.NewAlways()
					if err := d.AddEdge("job"); err != nil {
						b.Fatal(err)
					}
					t.SetDependency(d)
					t.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: due})
				})
				busy = append(busy, c.during(b, func() {
					begin := time.Now()
					close(job.end)
					for c.Stats(b.Context()).Blocked > 0 && time.Since(begin) < time.Minute {
						<-time.After(20 * time.Millisecond)
					}
					released = append(released, time.Since(begin))
				})...)
				c.close()
			}
			b.ReportMetric(0, "ns/op")
			busy.report(b, "")
			b.ReportMetric(released.quantile(0.5).Seconds(), fmt.Sprintf("%d-released-s", crowdSize))
		})
	}
}

// BenchmarkManyFailures measures how many next attempts of 100,000 failing jobs are stored per
// second, from the first claim on. The attempts wait for an hour.
func BenchmarkManyFailures(b *testing.B) {
	for _, store := range crowdStores[1:] {
		b.Run(store.name, func(b *testing.B) {
			var took samples
			for b.Loop() {
				q := store.start(b)
				run := func(*storedTask) {}
				runStored.Store(&run)
				pause(b, q, true)
				c := &crowd{Queue: q}
				retryable, attempts, backoff := true, 2, time.Hour
				c.wait(b, crowdSize, func(t *storedTask) {
					t.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: &retryable, MaxAttempts: &attempts, WaitUntil: &backoff})
					t.Fails = true
				})
				begin := time.Now()
				pause(b, q, false)
				for s := q.Stats(b.Context()); s.Pending < crowdSize || s.Completed < crowdSize; s = q.Stats(b.Context()) {
					<-time.After(20 * time.Millisecond)
				}
				took = append(took, time.Since(begin))
				c.close()
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(took.rate(crowdSize), "jobs/s")
		})
	}
}

func pause(tb testing.TB, q amboy.Queue, paused bool) {
	control := q.(amboy.QueueController)
	if paused {
		require.NoError(tb, control.Pause(tb.Context()))
	} else {
		require.NoError(tb, control.Resume(tb.Context()))
	}
}

// blockedTime is the duration of BenchmarkCrowdOfBlockedManagers.
var blockedTime = flag.Duration("blocked", 10*time.Second, "how long BenchmarkCrowdOfBlockedManagers measures")

// gate is a dependency manager that is Blocked until gateOpen is set.
type gate struct{ dependency.JobEdges }

var gateOpen atomic.Bool

const gateType = "benchmarks-gate"

func (*gate) Type() dependency.TypeInfo { return dependency.TypeInfo{Name: gateType} }

func (*gate) State() dependency.State {
	if gateOpen.Load() {
		return dependency.Ready
	}
	return dependency.Blocked
}

func init() {
	registry.AddDependencyType(gateType, func() dependency.Manager { return &gate{} })
}

// BenchmarkCrowdOfBlockedManagers measures the latency of plain jobs and the processor time
// while the dependency managers of 20,000 other jobs return Blocked. It also measures how long
// it takes to run all of these jobs once their managers return Ready.
func BenchmarkCrowdOfBlockedManagers(b *testing.B) {
	const jobs = 20_000
	for _, store := range crowdStores {
		b.Run(store.name, func(b *testing.B) {
			var busy, noticed samples
			var used float64
			for b.Loop() {
				gateOpen.Store(false)
				c := newCrowd(store.start(b))
				c.wait(b, jobs, func(t *storedTask) { t.SetDependency(&gate{}) })
				for c.Stats(b.Context()).Blocked < jobs*9/10 {
					<-time.After(20 * time.Millisecond)
				}
				<-time.After(*blockedTime / 2)
				before := processorTime(b)
				<-time.After(*blockedTime)
				used = max(used, (processorTime(b)-before).Seconds()/blockedTime.Seconds())
				busy = append(busy, c.during(b, func() { <-time.After(*blockedTime) })...)
				gateOpen.Store(true)
				begin := time.Now()
				for c.Stats(b.Context()).Pending > 0 && time.Since(begin) < 2*time.Minute {
					<-time.After(20 * time.Millisecond)
				}
				noticed = append(noticed, time.Since(begin))
				c.close()
			}
			b.ReportMetric(0, "ns/op")
			busy.report(b, "")
			b.ReportMetric(100*used, "cpu-%")
			b.ReportMetric(noticed.quantile(1).Seconds(), "noticed-s")
		})
	}
}
