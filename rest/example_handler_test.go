package rest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/rest"
)

// userOf stands for the program's own authentication of a request, for instance by a password
// or a session.
func userOf(r *http.Request) string {
	user, _, _ := r.BasicAuth()
	return user
}

// One handler shows each tenant its own queue.
func ExampleTenantOf() {
	ctx := context.Background()
	group, err := queue.NewLocalQueueGroup(ctx, queue.LocalQueueGroupOptions{
		DefaultQueue: queue.LocalQueueOptions{Constructor: func(context.Context) (amboy.Queue, error) {
			return queue.NewLocalLimitedSizeSerializable(1, 100)
		}},
	})
	must(err)
	for _, tenant := range []string{"acme", "globex"} {
		_, err = group.Get(ctx, tenant)
		must(err)
	}
	inspector, err := management.NewGroupInspector(group)
	must(err)
	handler := rest.Handler(inspector,
		rest.TenantOf(userOf), // the queue of a tenant has the name of its user
		rest.Authorize(func(*http.Request, rest.Access) error { return nil }),
	)
	for _, name := range []string{"acme", "globex"} {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v2/queues/"+name, http.NoBody)
		r.SetBasicAuth("acme", "")
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, r)
		fmt.Println(name, answer.Code)
	}
	must(group.Close(ctx))
	// Output:
	// acme 200
	// globex 404
}

// Mount the API and the pages below a prefix, and call the API with a client.
func ExampleHandler() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(2, 100)
	must(err)
	defer q.Close(ctx)
	must(q.Start(ctx))
	inspector, err := management.NewInspector(q)
	must(err)

	mux := http.NewServeMux()
	mux.Handle("/amboy/", rest.Handler(inspector,
		rest.Prefix("/amboy"),
		rest.Authorize(func(r *http.Request, access rest.Access) error {
			switch user := userOf(r); {
			case user == "operator", user == "reader" && access.Action == rest.ActionRead:
				return nil
			default:
				return fmt.Errorf("user %q may not do this", user)
			}
		}),
		rest.Actor(userOf),
		rest.CreateTypes("resize"),
		rest.MaskArgs(func(management.JobRef, string, json.RawMessage) json.RawMessage {
			return nil // hide all arguments
		}),
	))
	server := httptest.NewServer(mux)
	defer server.Close()

	client, err := rest.NewClient(server.URL+"/amboy", operator)
	must(err)
	queues, err := client.Queues(ctx)
	must(err)
	name := queues[0].Name
	created, err := client.CreateJob(ctx, management.NewJob{Queue: name, ID: "cat.png", Type: "resize"})
	must(err)
	fmt.Println(created.ID)
	audit, err := client.Audit(ctx, management.AuditFilter{}, management.PageRequest{Limit: 1})
	must(err)
	fmt.Println(audit.Entries[0].Actor, audit.Entries[0].What, audit.Entries[0].JobID)

	reader, err := rest.NewClient(server.URL+"/amboy", nil)
	must(err)
	_, err = reader.SetControl(ctx, name, management.ControlChange{Paused: new(true)})
	var refused *rest.ResponseError
	fmt.Println(errors.As(err, &refused), refused.StatusCode)
	// Output:
	// cat.png
	// operator create cat.png
	// true 403
}
