// Package otelamboy creates OpenTelemetry spans and metrics for a queue. The names follow
// the semantic conventions for messaging, and begin with "amboy." if the conventions define
// none.
package otelamboy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/mongodb/amboy"
)

const scopeName = "github.com/mongodb/amboy/middleware/otelamboy"

// System is the value of the attribute messaging.system.
const System = "amboy"

// Options configure an Instrumentation.
type Options struct {
	// Queue is the name of the queue, which must be the same in all processes and all runs
	// of a program. It is the attribute messaging.destination.name. It is required.
	Queue string
	// TracerProvider creates the spans. Default: the global one.
	TracerProvider trace.TracerProvider
	// MeterProvider creates the metrics. Default: the global one.
	MeterProvider metric.MeterProvider
	// Propagator writes the trace context into the metadata of jobs, and reads it from
	// there. Default: the global one, which does nothing unless it was set.
	Propagator propagation.TextMapPropagator
}

// Validate sets the defaults. It returns an error if Queue is empty.
func (o *Options) Validate() error {
	if o.Queue == "" {
		return errors.New("invalid otelamboy options: Queue must not be empty")
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	if o.Propagator == nil {
		o.Propagator = otel.GetTextMapPropagator()
	}
	return nil
}

// Instrumentation creates the spans and metrics of one queue in this process. It is safe
// for concurrent use.
//
// Each Put is a span "put <queue>", whose context the jobs carry in their metadata. Each
// attempt of a job is a span "run <queue>", a child of the span of its Put, even in another
// process. The metrics are
//
//   - messaging.client.sent.messages: the jobs that were put or refused, by type;
//   - messaging.client.operation.duration: how long Put and PutMany took;
//   - messaging.client.consumed.messages: the attempts that ended, by job type and
//     outcome (see middleware.Outcome);
//   - messaging.process.duration: how long attempts ran;
//   - amboy.job.wait.duration: how long attempts waited to run after they were put and
//     due;
//   - amboy.worker.busy: the workers that run a job.
//
// Observe adds metrics of the queue as a whole.
type Instrumentation struct {
	opts   Options
	tracer trace.Tracer
	meter  metric.Meter
	common []attribute.KeyValue // attributes of all spans and metrics

	sent     metric.Int64Counter
	putting  metric.Float64Histogram
	consumed metric.Int64Counter
	ran      metric.Float64Histogram
	waited   metric.Float64Histogram
	busy     metric.Int64UpDownCounter
	running  atomic.Int64

	queues *sync.Map // the instrumentations of all queues, by name
}

// For returns the instrumentation of another queue with the same providers, for the
// queues of a group (see queue.DriverGroupOptions.MiddlewareFor). It returns the same one for the
// same name, and keeps it for the life of the process. Each name is a value of the attribute
// messaging.destination.name, so that the number of series grows with the number of queues.
func (i *Instrumentation) For(queue string) *Instrumentation {
	if known, ok := i.queues.Load(queue); ok {
		return known.(*Instrumentation)
	}
	other := &Instrumentation{
		opts: i.opts, tracer: i.tracer, meter: i.meter,
		sent: i.sent, putting: i.putting, consumed: i.consumed, ran: i.ran, waited: i.waited, busy: i.busy,
		queues: i.queues,
	}
	other.opts.Queue = queue
	other.common = commonAttributes(queue)
	known, _ := i.queues.LoadOrStore(queue, other)
	return known.(*Instrumentation)
}

// commonAttributes returns the attributes of all spans and metrics of a queue.
func commonAttributes(queue string) []attribute.KeyValue {
	return []attribute.KeyValue{
		semconv.MessagingSystemKey.String(System),
		semconv.MessagingDestinationName(queue),
	}
}

// durationBounds are the bounds of the histograms, in seconds. The conventions propose the
// bounds up to 10; jobs may take longer.
var durationBounds = metric.WithExplicitBucketBoundaries(
	0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60, 300, 1800, 3600)

// New makes the instrumentation of a queue. It returns an error for invalid options, and
// the errors of the meter.
func New(opts Options) (*Instrumentation, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	i := &Instrumentation{
		opts:   opts,
		tracer: opts.TracerProvider.Tracer(scopeName, trace.WithSchemaURL(semconv.SchemaURL)),
		meter:  opts.MeterProvider.Meter(scopeName, metric.WithSchemaURL(semconv.SchemaURL)),
		common: commonAttributes(opts.Queue),
		queues: &sync.Map{},
	}
	i.queues.Store(opts.Queue, i)
	var errs [6]error
	i.sent, errs[0] = i.meter.Int64Counter("messaging.client.sent.messages",
		metric.WithUnit("{message}"), metric.WithDescription("Jobs that were put, or refused."))
	i.consumed, errs[1] = i.meter.Int64Counter("messaging.client.consumed.messages",
		metric.WithUnit("{message}"), metric.WithDescription("Attempts of jobs that ended."))
	i.ran, errs[2] = i.meter.Float64Histogram("messaging.process.duration", durationBounds,
		metric.WithUnit("s"), metric.WithDescription("How long attempts of jobs ran."))
	i.waited, errs[3] = i.meter.Float64Histogram("amboy.job.wait.duration", durationBounds,
		metric.WithUnit("s"), metric.WithDescription("How long attempts of jobs that could start waited."))
	i.busy, errs[4] = i.meter.Int64UpDownCounter("amboy.worker.busy",
		metric.WithUnit("{worker}"), metric.WithDescription("Workers that run a job."))
	i.putting, errs[5] = i.meter.Float64Histogram("messaging.client.operation.duration", durationBounds,
		metric.WithUnit("s"), metric.WithDescription("How long Put and PutMany took."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("making the instruments of queue %q: %w", opts.Queue, err)
	}
	return i, nil
}

// Middleware returns the middleware to add to the queue. It should be the outermost, so
// that it sees the effect of other middleware on an attempt.
func (i *Instrumentation) Middleware() amboy.Middleware {
	return amboy.Middleware{Run: i.run, Put: i.put}
}

// attributes returns the common attributes and others.
func (i *Instrumentation) attributes(others ...attribute.KeyValue) []attribute.KeyValue {
	return append(i.common[:len(i.common):len(i.common)], others...)
}

// The attributes for which the conventions define no name.
const (
	jobTypeKey    = attribute.Key("amboy.job.type")
	jobAttemptKey = attribute.Key("amboy.job.attempt")
	outcomeKey    = attribute.Key("amboy.job.outcome")
	jobStateKey   = attribute.Key("amboy.job.state")
)

// The names of the operations.
const (
	putOperation = "put"
	runOperation = "run"
)

// measure measures an attempt from now until the returned function is called.
func (i *Instrumentation) measure(ctx context.Context, j amboy.Job) (end func(outcome string, err error)) {
	begin := time.Now()
	jobType := jobTypeKey.String(j.Type().Name)
	common := metric.WithAttributes(i.common...)
	i.waited.Record(ctx, j.TimeInfo().Waited().Seconds(), metric.WithAttributes(i.attributes(jobType)...))
	i.busy.Add(ctx, 1, common)
	i.running.Add(1)
	return func(outcome string, err error) {
		i.running.Add(-1)
		i.busy.Add(ctx, -1, common)
		attrs := i.attributes(jobType, outcomeKey.String(outcome), semconv.MessagingOperationName(runOperation))
		if err != nil {
			attrs = append(attrs, semconv.ErrorType(err))
		}
		set := metric.WithAttributes(attrs...)
		i.consumed.Add(ctx, 1, set)
		i.ran.Record(ctx, time.Since(begin).Seconds(), set)
	}
}
