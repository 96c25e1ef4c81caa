package otelamboy_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

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

var write = job.Define("otelamboy-example.write", 1, func(ctx context.Context, _ string) error {
	fmt.Println("the job belongs to trace", trace.SpanContextFromContext(ctx).TraceID())
	return nil
})

// Trace and measure the jobs of a queue. Spans and metrics go to the global providers, which a
// service sets when it starts (otel.SetTracerProvider and otel.SetMeterProvider).
func ExampleNew() {
	ctx := context.Background()
	instrumentation, err := otelamboy.New(otelamboy.Options{
		Queue:      "letters",
		Propagator: propagation.TraceContext{}, // default: the global one
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
	defer q.Close(ctx)

	// The context of a request belongs to the trace that its caller began.
	request := propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{
		"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	})
	_, err = write.Put(request, q, "Dear all")
	must(err)
	amboy.Wait(ctx, q)
	// Output:
	// the job belongs to trace 0af7651916cd43dd8448eb211c80319c
}
