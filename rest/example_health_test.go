package rest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/rest"
)

// Mount the probes of an orchestrator.
func ExampleHealth() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(2, 100)
	must(err)
	defer q.Close(ctx)
	must(q.Start(ctx))
	inspector, err := management.NewInspector(q)
	must(err)

	mux := http.NewServeMux()
	mux.Handle("/health/", http.StripPrefix("/health", rest.Health(inspector)))
	server := httptest.NewServer(mux)
	defer server.Close()

	for _, path := range []string{"/health/live", "/health/ready"} {
		response, err := http.Get(server.URL + path)
		must(err)
		body, err := io.ReadAll(response.Body)
		must(err)
		must(response.Body.Close())
		fmt.Print(response.StatusCode, " ", string(body))
	}
	// Output:
	// 200 {"status":"ok"}
	// 200 {"status":"ok","checks":[{"name":"store","ok":true},{"name":"schema","ok":true},{"name":"dispatch","ok":true}]}
}
