package otelamboy

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/middleware"
)

// run creates a span and measurements of each attempt.
func (i *Instrumentation) run(next amboy.RunFunc) amboy.RunFunc {
	return func(ctx context.Context, j amboy.Job) (err error) {
		ctx = i.opts.Propagator.Extract(ctx, propagation.MapCarrier(amboy.MetadataOf(j)))
		ctx, span := i.tracer.Start(ctx, runOperation+" "+i.opts.Queue,
			trace.WithSpanKind(trace.SpanKindConsumer),
			trace.WithLinks(linksTo(ctx)...),
			trace.WithAttributes(i.attributes(
				semconv.MessagingOperationTypeProcess,
				semconv.MessagingOperationName(runOperation),
				semconv.MessagingMessageID(j.ID()),
				jobTypeKey.String(j.Type().Name),
				jobAttemptKey.Int(j.RetryInfo().CurrentAttempt+1),
			)...))
		end := i.measure(ctx, j)
		outcome := middleware.Failed // if next panics
		defer func() {
			failure := failureOf(outcome, err)
			cause := reportedBy(j, failure)
			end(string(outcome), cause)
			span.SetAttributes(outcomeKey.String(string(outcome)))
			endSpan(span, failure, cause)
		}()
		err = next(ctx, j)
		outcome = middleware.OutcomeOf(ctx, j, err)
		return err
	}
}

// linksTo links a span to the span of its job's Put: the conventions require a link, and
// allow the span to be its child as well.
func linksTo(ctx context.Context) []trace.Link {
	if !trace.SpanContextFromContext(ctx).IsRemote() {
		return nil
	}
	return []trace.Link{trace.LinkFromContext(ctx)}
}

// failureOf returns the error of an attempt that did not succeed.
func failureOf(outcome middleware.Outcome, err error) error {
	if outcome == middleware.Snoozed || outcome == middleware.Succeeded {
		return nil
	}
	return err
}

// reportedBy returns the first error that a job reported, if err wraps the errors of the job, and
// otherwise err. A RunFunc wraps the errors of all jobs in the same types, which say nothing about
// the error.
func reportedBy(j amboy.Job, err error) error {
	own := j.Error()
	if own == nil {
		return err
	}
	for one := err; one != nil; one = errors.Unwrap(one) {
		if one.Error() != own.Error() { // Error returns another value at each call
			continue
		}
		var several interface{ Unwrap() []error }
		if errors.As(own, &several) && len(several.Unwrap()) > 0 {
			return several.Unwrap()[0]
		}
		return own
	}
	return err
}

// endSpan ends a span. The type of cause describes err.
func endSpan(span trace.Span, err, cause error) {
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
		span.SetAttributes(semconv.ErrorType(cause))
	}
	span.End()
}

// put creates a span and a count of each Put.
func (i *Instrumentation) put(next amboy.PutFunc) amboy.PutFunc {
	return func(ctx context.Context, jobs []amboy.Job) error {
		attrs := i.attributes(semconv.MessagingOperationTypeSend, semconv.MessagingOperationName(putOperation))
		if len(jobs) == 1 {
			attrs = append(attrs, semconv.MessagingMessageID(jobs[0].ID()), jobTypeKey.String(jobs[0].Type().Name))
		} else {
			attrs = append(attrs, semconv.MessagingBatchMessageCount(len(jobs)))
		}
		ctx, span := i.tracer.Start(ctx, putOperation+" "+i.opts.Queue,
			trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(attrs...))
		for _, j := range jobs {
			if m, ok := j.(amboy.MetadataJob); ok {
				i.opts.Propagator.Inject(ctx, carrier{m})
			}
		}
		begin := time.Now()
		err := next(ctx, jobs)
		i.countPut(ctx, jobs, time.Since(begin), err)
		endSpan(span, err, err)
		return err
	}
}

// countPut counts jobs that were put, by type, and measures how long that took. If some
// jobs of a PutMany were refused, all of them count as refused, because it is not known
// here which ones were.
func (i *Instrumentation) countPut(ctx context.Context, jobs []amboy.Job, took time.Duration, err error) {
	byType := map[string]int64{}
	for _, j := range jobs {
		byType[j.Type().Name]++
	}
	attrs := i.attributes(semconv.MessagingOperationName(putOperation))
	if err != nil {
		attrs = append(attrs, putErrorType(err))
	}
	common := metric.WithAttributes(attrs...)
	i.putting.Record(ctx, took.Seconds(), common, metric.WithAttributes(semconv.MessagingOperationTypeSend))
	for name, n := range byType {
		i.sent.Add(ctx, n, common, metric.WithAttributes(jobTypeKey.String(name)))
	}
}

// putErrorType distinguishes jobs that already exist from other errors.
func putErrorType(err error) attribute.KeyValue {
	switch {
	case amboy.IsDuplicateJobScopeError(err):
		return semconv.ErrorTypeKey.String("duplicate scope")
	case amboy.IsDuplicateJobError(err):
		return semconv.ErrorTypeKey.String("duplicate job")
	case errors.Is(err, amboy.ErrQueueDraining):
		return semconv.ErrorTypeKey.String("queue is draining")
	default:
		return semconv.ErrorType(err)
	}
}

// carrier writes the trace context into the metadata of a job.
type carrier struct{ job amboy.MetadataJob }

func (c carrier) Get(key string) string { return c.job.Metadata()[key] }
func (c carrier) Set(key, value string) { c.job.SetMetadata(key, value) }
func (c carrier) Keys() []string        { return propagation.MapCarrier(c.job.Metadata()).Keys() }
