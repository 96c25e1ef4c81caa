package rest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/rest"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// onlyFor stands for the program's own access check.
func onlyFor(user string, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, _, ok := r.BasicAuth(); !ok || name != user {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// operator is an HTTP client that authenticates as an operator.
var operator = &http.Client{Transport: asOperator{}}

type asOperator struct{}

func (asOperator) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.SetBasicAuth("operator", "")
	return http.DefaultTransport.RoundTrip(r)
}

// Mount services in a server, and call them.
func Example() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(2, 100)
	must(err)
	defer q.Close(ctx)
	must(q.Start(ctx))
	service := rest.NewQueueService()
	must(service.SetQueue(q))

	mux := http.NewServeMux()
	mount := func(prefix string, handler http.Handler) {
		mux.Handle(prefix+"/", http.StripPrefix(prefix, handler))
	}
	mount("/amboy/queue", service.Handler())
	mount("/amboy/manage", rest.NewManagementService(management.NewQueueManager(q)).Handler())
	server := httptest.NewServer(onlyFor("operator", mux))
	defer server.Close()

	address, err := url.Parse(server.URL)
	must(err)
	port, err := strconv.Atoi(address.Port())
	must(err)
	client, err := rest.NewQueueClientFromExisting(operator, "http://"+address.Hostname(), port, "/amboy/queue")
	must(err)
	id, err := client.SubmitJob(ctx, newResize("cat.png", ""))
	must(err)
	fmt.Println(id, client.Wait(ctx, id))

	manager := rest.NewManagementClientFromExisting(operator, server.URL+"/amboy/manage")
	counts, err := manager.JobStatus(ctx, management.Completed)
	must(err)
	fmt.Println(counts)
	fmt.Println(manager.CompleteJobs(ctx, "done"))
	// Output:
	// cat.png true
	// [{resize  1}]
	// invalid argument: filter must be one of ["pending" "in-progress" "stale" "completed" "retrying" "stale-retrying" "all"] (is "done")
}

// List and abort the running jobs of the queues of a group.
func ExampleManagementGroupService() {
	ctx := context.Background()
	group, err := queue.NewLocalQueueGroup(ctx, queue.LocalQueueGroupOptions{
		DefaultQueue: queue.LocalQueueOptions{Constructor: func(context.Context) (amboy.Queue, error) { return newAbortable() }},
	})
	must(err)
	defer func() { must(group.Close(ctx)) }()
	server := httptest.NewServer(rest.NewManagementGroupService(group).Handler())
	defer server.Close()

	tenant, err := group.Get(ctx, "tenant")
	must(err)
	running := make(chan struct{})
	runs.Store("example", func(ctx context.Context, _ *resize) {
		close(running)
		<-ctx.Done()
	})
	must(tenant.Put(ctx, newResize("endless", "example")))
	<-running

	client := rest.NewAbortablePoolManagementClient(server.URL)
	ids, err := client.ListJobs(ctx)
	must(err)
	fmt.Println(ids)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	must(client.AbortJob(ctx, "endless"))
	fmt.Println(client.IsRunning(ctx, "endless"))
	// Output:
	// [endless]
	// false <nil>
}
