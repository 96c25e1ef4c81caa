package oteltest

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/middleware/otelamboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// gate blocks jobs.
type gate struct {
	reached chan struct{} // has a token for each job that has reached it
	open    chan struct{}
}

var gates atomic.Pointer[gate]

var work = job.Define("otelamboy-test.work", 1, func(ctx context.Context, what string) error {
	switch what {
	case "fail":
		return errors.New("no")
	case "panic":
		panic("oops")
	case "overrun":
		<-ctx.Done()
	case "wait":
		g := gates.Load()
		g.reached <- struct{}{}
		select {
		case <-g.open:
		case <-ctx.Done():
		}
	}
	return nil
})

// telemetry holds the output of an instrumentation.
type telemetry struct {
	*testing.T
	spans   *tracetest.SpanRecorder
	tracer  *sdktrace.TracerProvider
	metrics *sdkmetric.ManualReader
	*otelamboy.Instrumentation
}

func newTelemetry(t *testing.T) *telemetry {
	spans, reader := tracetest.NewSpanRecorder(), sdkmetric.NewManualReader()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	i, err := otelamboy.New(otelamboy.Options{
		Queue:          "images",
		TracerProvider: tracer,
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		Propagator:     propagation.TraceContext{},
	})
	require.NoError(t, err)
	return &telemetry{T: t, spans: spans, tracer: tracer, metrics: reader, Instrumentation: i}
}

// queues are the queues on which traces must propagate.
func (tel *telemetry) queues() map[string]amboy.Queue {
	local, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1, Middleware: []amboy.Middleware{tel.Middleware()}})
	require.NoError(tel, err)
	store, err := sqlite.Open(tel.Context(), sqlite.Options{Path: filepath.Join(tel.TempDir(), "jobs.db")})
	require.NoError(tel, err)
	stored, err := queue.NewDriverQueue(queue.DriverQueueOptions{
		Driver: store, CloseDriver: true, NumWorkers: 1, Middleware: []amboy.Middleware{tel.Middleware()},
	})
	require.NoError(tel, err)
	for _, q := range []amboy.Queue{local, stored} {
		tel.Cleanup(func() { q.Close(context.Background()) })
		require.NoError(tel, q.Start(tel.Context()))
	}
	return map[string]amboy.Queue{"local": local, "sqlite": stored}
}

// startedSince returns the spans that ended after the first ones, in the order in which
// they started: a job may run before Put has returned and ended its span.
func (tel *telemetry) startedSince(first int) []sdktrace.ReadOnlySpan {
	spans := tel.spans.Ended()[first:]
	slices.SortStableFunc(spans, func(a, b sdktrace.ReadOnlySpan) int { return a.StartTime().Compare(b.StartTime()) })
	return spans
}

func attributesOf(span sdktrace.ReadOnlySpan) map[attribute.Key]any {
	all := map[attribute.Key]any{}
	for _, a := range span.Attributes() {
		all[a.Key] = a.Value.AsInterface()
	}
	return all
}

func TestTheTraceGoesFromPutToRun(t *testing.T) {
	tel := newTelemetry(t)
	for name, q := range tel.queues() {
		t.Run(name, func(t *testing.T) {
			before := len(tel.spans.Ended())
			ctx, caller := tel.tracer.Tracer("caller").Start(t.Context(), "request")
			_, err := work.Put(ctx, q, "fail", job.ID("j"))
			require.NoError(t, err)
			require.True(t, amboy.Wait(t.Context(), q))
			caller.End()
			spans := tel.startedSince(before)
			require.Len(t, spans, 3)
			put, run := spans[1], spans[2]

			assert.Equal(t, "put images", put.Name())
			assert.Equal(t, trace.SpanKindProducer, put.SpanKind())
			assert.Equal(t, caller.SpanContext().SpanID(), put.Parent().SpanID())
			assert.Equal(t, codes.Unset, put.Status().Code)
			assert.Equal(t, map[attribute.Key]any{
				"messaging.system": "amboy", "messaging.destination.name": "images", "messaging.operation.name": "put",
				"messaging.operation.type": "send", "messaging.message.id": "j", "amboy.job.type": "otelamboy-test.work",
			}, attributesOf(put))

			assert.Equal(t, "run images", run.Name())
			assert.Equal(t, trace.SpanKindConsumer, run.SpanKind())
			assert.Equal(t, put.SpanContext().SpanID(), run.Parent().SpanID())
			require.Len(t, run.Links(), 1)
			assert.Equal(t, put.SpanContext().SpanID(), run.Links()[0].SpanContext.SpanID())
			assert.Equal(t, caller.SpanContext().TraceID(), run.SpanContext().TraceID())
			assert.Equal(t, sdktrace.Status{Code: codes.Error, Description: "no"}, run.Status())
			attrs := attributesOf(run)
			assert.Equal(t, "process", attrs["messaging.operation.type"])
			assert.Equal(t, "failed", attrs["amboy.job.outcome"])
			assert.Equal(t, int64(1), attrs["amboy.job.attempt"])
			assert.NotEmpty(t, attrs["error.type"])
		})
	}
}

func TestEachAttemptBelongsToTheTraceOfItsPut(t *testing.T) {
	tel := newTelemetry(t)
	for name, q := range tel.queues() {
		t.Run(name, func(t *testing.T) {
			before := len(tel.spans.Ended())
			_, err := work.Put(t.Context(), q, "fail", job.ID("j"), job.MaxAttempts(2))
			require.NoError(t, err)
			require.True(t, amboy.Wait(t.Context(), q))
			spans := tel.startedSince(before)
			require.Len(t, spans, 3)
			for i, outcome := range []string{"retrying", "failed"} {
				run := spans[i+1]
				assert.Equal(t, spans[0].SpanContext().SpanID(), run.Parent().SpanID())
				assert.Equal(t, int64(i+1), attributesOf(run)["amboy.job.attempt"])
				assert.Equal(t, outcome, attributesOf(run)["amboy.job.outcome"])
			}
		})
	}
}

func TestTheTypesOfAllErrorsOfAttemptsWereTheSame(t *testing.T) {
	tel := newTelemetry(t)
	for name, q := range tel.queues() {
		t.Run(name, func(t *testing.T) {
			for what, want := range map[string]string{"fail": "*errors.errorString", "panic": "*amboy.PanicError", "overrun": "*amboy.MaxTimeError"} {
				before := len(tel.spans.Ended())
				_, err := work.Put(t.Context(), q, what, job.Timeout(time.Millisecond))
				require.NoError(t, err)
				require.True(t, amboy.Wait(t.Context(), q))
				spans := tel.startedSince(before)
				require.Len(t, spans, 2)
				assert.Equal(t, want, attributesOf(spans[1])["error.type"])
				metrics := tel.collect()
				assert.Contains(t, metrics["messaging.client.consumed.messages"], "otelamboy-test.work failed "+want+" ")
				assert.Contains(t, metrics["messaging.process.duration"], "otelamboy-test.work failed "+want+" ")
			}
		})
	}
}

func TestAPutOfSeveralIsOneSpan(t *testing.T) {
	tel := newTelemetry(t)
	q := tel.queues()["local"]
	var jobs []amboy.Job
	for range 3 {
		j, err := work.New("")
		require.NoError(t, err)
		jobs = append(jobs, j)
	}
	require.NoError(t, q.PutMany(t.Context(), jobs))
	require.True(t, amboy.Wait(t.Context(), q))
	q.Close(t.Context())
	puts, runs := 0, 0
	for _, span := range tel.spans.Ended() {
		switch span.Name() {
		case "put images":
			puts++
			assert.Equal(t, int64(3), attributesOf(span)["messaging.batch.message_count"])
		case "run images":
			runs++
		}
	}
	assert.Equal(t, 1, puts)
	assert.Equal(t, 3, runs)
}

// collect returns the data points by metric, with the attributes in which they differ.
func (tel *telemetry) collect() map[string]map[string]float64 {
	tel.Helper()
	var data metricdata.ResourceMetrics
	require.NoError(tel, tel.metrics.Collect(context.Background(), &data))
	points := map[string]map[string]float64{}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			points[m.Name] = pointsOf(tel, m)
		}
	}
	return points
}

func pointsOf(t require.TestingT, m metricdata.Metrics) map[string]float64 {
	points := map[string]float64{}
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			points[key(p.Attributes)] = float64(p.Value)
		}
	case metricdata.Gauge[int64]:
		for _, p := range data.DataPoints {
			points[key(p.Attributes)] = float64(p.Value)
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			points[key(p.Attributes)] = p.Value
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			points[key(p.Attributes)] = float64(p.Count)
		}
	default:
		require.Fail(t, "unexpected kind of data", "%T", data)
	}
	return points
}

// key returns the attributes in which the points of a metric differ.
func key(set attribute.Set) (text string) {
	for _, name := range []attribute.Key{"amboy.job.type", "amboy.job.state", "amboy.job.outcome", "error.type"} {
		if v, ok := set.Value(name); ok {
			text += v.AsString() + " "
		}
	}
	return text
}

func TestMetricsOfJobs(t *testing.T) {
	tel := newTelemetry(t)
	q := tel.queues()["local"]
	for _, what := range []string{"", "", "fail", "panic"} {
		_, err := work.Put(t.Context(), q, what)
		require.NoError(t, err)
	}
	_, err := work.Put(t.Context(), q, "", job.ID("twice"))
	require.NoError(t, err)
	_, err = work.Put(t.Context(), q, "", job.ID("twice"))
	require.Error(t, err)
	require.True(t, amboy.Wait(t.Context(), q))
	q.Close(t.Context())
	got := tel.collect()
	const jobType, duplicate = "otelamboy-test.work ", "duplicate job "
	assert.Equal(t, map[string]float64{jobType: 5, jobType + duplicate: 1}, got["messaging.client.sent.messages"])
	ended := 0.0
	for name, n := range got["messaging.client.consumed.messages"] {
		assert.Contains(t, name, jobType)
		ended += n
	}
	assert.InDelta(t, 5, ended, 0)
	assert.InDelta(t, 3, got["messaging.client.consumed.messages"][jobType+"succeeded "], 0)
	assert.Equal(t, got["messaging.client.consumed.messages"], got["messaging.process.duration"], "the histogram has as many")
	assert.Equal(t, map[string]float64{jobType: 5}, got["amboy.job.wait.duration"])
	assert.Equal(t, map[string]float64{"": 5, duplicate: 1}, got["messaging.client.operation.duration"])
	assert.Equal(t, map[string]float64{"": 0}, got["amboy.worker.busy"])
}

func TestMetricsOfTheQueue(t *testing.T) {
	tel := newTelemetry(t)
	for name, q := range tel.queues() {
		t.Run(name, func(t *testing.T) {
			g := &gate{reached: make(chan struct{}, 3), open: make(chan struct{})}
			gates.Store(g)
			stop, err := tel.Observe(q)
			require.NoError(t, err)
			for range 3 {
				_, err = work.Put(t.Context(), q, "wait")
				require.NoError(t, err)
			}
			<-g.reached
			got := tel.collect()
			assert.Equal(t, map[string]float64{"pending ": 2, "running ": 1, "blocked ": 0, "retrying ": 0}, got["amboy.queue.jobs"])
			assert.Equal(t, map[string]float64{"": 1}, got["amboy.worker.limit"])
			assert.Equal(t, map[string]float64{"": 1}, got["amboy.worker.saturation"])
			assert.Positive(t, got["amboy.queue.oldest_pending.age"][""])
			close(g.open)
			require.True(t, amboy.Wait(t.Context(), q))
			got = tel.collect()
			assert.Equal(t, map[string]float64{"": 0}, got["amboy.queue.oldest_pending.age"])
			assert.InDelta(t, 0, got["amboy.queue.jobs"]["pending "], 0)
			require.NoError(t, stop())
			require.NoError(t, stop())
			assert.NotContains(t, tel.collect(), "amboy.queue.jobs")
		})
	}
}

// A job that was put early, to run late, was mistaken for the job that has waited longest.
func TestTheQueuesOfAGroupHadOneName(t *testing.T) {
	tel := newTelemetry(t)
	assert.Same(t, tel.Instrumentation, tel.For("images"))
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "jobs.db")})
	require.NoError(t, err)
	var stops sync.Map
	group, err := queue.NewDriverGroup(t.Context(), queue.DriverGroupOptions{
		DefaultQueue:  queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1},
		MiddlewareFor: func(name string) []amboy.Middleware { return []amboy.Middleware{tel.For(name).Middleware()} },
		OnOpen: func(name string, q amboy.Queue) {
			stop, observeErr := tel.For(name).Observe(q)
			assert.NoError(t, observeErr) //nolint:testifylint // It is not the test's goroutine.
			stops.Store(name, stop)
		},
		OnClose: func(name string) {
			stop, _ := stops.Load(name)
			assert.NoError(t, stop.(func() error)())
		},
	})
	require.NoError(t, err)
	for _, tenant := range []string{"acme", "globex"} {
		q, err := group.Get(t.Context(), tenant)
		require.NoError(t, err)
		_, err = work.Put(t.Context(), q, "x")
		require.NoError(t, err)
		require.True(t, amboy.Wait(t.Context(), q))
	}
	var before metricdata.ResourceMetrics
	require.NoError(t, tel.metrics.Collect(t.Context(), &before))
	seen := map[string]map[string]bool{}
	for _, scope := range before.ScopeMetrics {
		for _, m := range scope.Metrics {
			seen[m.Name] = map[string]bool{}
			note := func(set attribute.Set) {
				name, _ := set.Value("messaging.destination.name")
				seen[m.Name][name.AsString()] = true
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					note(p.Attributes)
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					note(p.Attributes)
				}
			}
		}
	}
	for _, name := range []string{"messaging.client.sent.messages", "messaging.client.consumed.messages", "amboy.queue.jobs"} {
		assert.Equal(t, map[string]bool{"acme": true, "globex": true}, seen[name], name)
	}
	require.NoError(t, group.Close(t.Context()))
	names := map[string]bool{}
	for _, span := range tel.spans.Ended() {
		names[span.Name()] = true
	}
	assert.Equal(t, map[string]bool{"put acme": true, "run acme": true, "put globex": true, "run globex": true}, names)
}

func TestTheOldestJobWasTheFirstThatWasPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := newTelemetry(t)
		q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1, PutBeforeStart: true})
		require.NoError(t, err)
		defer q.Close(context.Background())
		stop, err := tel.Observe(q)
		require.NoError(t, err)
		defer func() { require.NoError(t, stop()) }()
		for _, wait := range []time.Duration{time.Hour, 0, time.Minute, 0} {
			_, err = work.Put(t.Context(), q, "", job.In(wait))
			require.NoError(t, err)
		}
		time.Sleep(2 * time.Hour)
		assert.Equal(t, map[string]float64{"": 7200}, tel.collect()["amboy.queue.oldest_pending.age"])
	})
}

func TestOptions(t *testing.T) {
	_, err := otelamboy.New(otelamboy.Options{})
	require.ErrorContains(t, err, "Queue must not be empty")
	_, err = otelamboy.New(otelamboy.Options{Queue: "q"})
	require.NoError(t, err, "the global providers are the default")
}
