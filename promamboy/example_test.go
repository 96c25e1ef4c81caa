package promamboy_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/promamboy"
	"github.com/mongodb/amboy/queue"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// Mount the metrics in the server of the service.
func ExampleHandler() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(2, 100)
	must(err)
	defer q.Close(ctx)
	must(q.Start(ctx))
	_, err = visit.Put(ctx, q, "")
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
	// amboy_attempts_total{outcome="failed",queue="",type="promamboy-test.visit"} 0
	// amboy_attempts_total{outcome="retried",queue="",type="promamboy-test.visit"} 0
	// amboy_attempts_total{outcome="succeeded",queue="",type="promamboy-test.visit"} 1
	// amboy_store_up 1
}
