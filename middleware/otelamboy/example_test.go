package otelamboy_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/middleware/otelamboy"
	"github.com/mongodb/amboy/queue"
)

// must stands for the handling of an error.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

var write = job.Define("otelamboy-example.write", 1, func(context.Context, string) error { return nil })

// Trace and measure the jobs of a queue.
func ExampleNew() {
	ctx := context.Background()
	spans := tracetest.NewSpanRecorder()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	meters := sdkmetric.NewMeterProvider()

	instrumentation, err := otelamboy.New(otelamboy.Options{
		Queue:          "letters",
		TracerProvider: tracers, // default: the global one
		MeterProvider:  meters,  // default: the global one
		Propagator:     propagation.TraceContext{},
	})
	must(err)
	q, err := queue.NewLocal(queue.LocalOptions{
		NumWorkers: 1,
		Middleware: []amboy.Middleware{instrumentation.Middleware()},
	})
	must(err)
	stop, err := instrumentation.Observe(q)
	must(err)
	defer func() { must(stop()) }()

	must(q.Start(ctx))
	_, err = write.Put(ctx, q, "Dear all")
	must(err)
	amboy.Wait(ctx, q)
	q.Close(ctx)
	for _, span := range spans.Ended() {
		fmt.Println(span.Name(), span.SpanKind(), span.Parent().IsValid())
	}
	// Unordered output:
	// put letters producer false
	// run letters consumer true
}
