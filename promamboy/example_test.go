package promamboy_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/promamboy"
	"github.com/mongodb/amboy/queue"
)

// must stands for the handling of an error.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// greet is a job that prints a text.
var greet = job.Define("promamboy-example.greet", 1, func(_ context.Context, text string) error {
	_, err := fmt.Println(text)
	return err
})

// Mount the metrics in the server of the service.
func ExampleHandler() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(2, 100)
	must(err)
	defer q.Close(ctx)
	must(q.Start(ctx))
	_, err = greet.Put(ctx, q, "hello")
	must(err)
	amboy.Wait(ctx, q)

	inspector, err := management.NewInspector(q)
	must(err)
	metrics, err := promamboy.Handler(inspector, promamboy.Options{})
	must(err)
	mux := http.NewServeMux()
	mux.Handle("/metrics", metrics)
	server := httptest.NewServer(mux)
	defer server.Close()

	response, err := http.Get(server.URL + "/metrics")
	must(err)
	defer func() { must(response.Body.Close()) }()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "amboy_attempts_total") || strings.HasPrefix(lines.Text(), "amboy_store_up") {
			fmt.Println(lines.Text())
		}
	}
	// Output:
	// hello
	// amboy_attempts_total{outcome="failed",queue="",type="promamboy-example.greet"} 0
	// amboy_attempts_total{outcome="retried",queue="",type="promamboy-example.greet"} 0
	// amboy_attempts_total{outcome="succeeded",queue="",type="promamboy-example.greet"} 1
	// amboy_store_up 1
}

// Register the metrics beside those of the service.
func ExampleNew() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(2, 100)
	must(err)
	defer q.Close(ctx)
	inspector, err := management.NewInspector(q)
	must(err)
	collector, err := promamboy.New(inspector, promamboy.Options{})
	must(err)
	metrics := prometheus.NewRegistry()
	must(metrics.Register(collector))
	_, err = metrics.Gather()
	fmt.Println(err)
	// Output: <nil>
}
