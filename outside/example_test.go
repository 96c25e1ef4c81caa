package outside_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/rest"
)

// must stands for the handling of an error.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

type image struct {
	Path string `json:"path"`
}

type size struct {
	Width int `json:"width"`
}

// measure has no function in this process: outside workers run it.
var measure = job.DeclareResult[image, size]("measure", 1, job.Defaults[image]{MaxAttempts: 5, Timeout: time.Minute})

// newImages returns a queue whose jobs only outside workers run.
func newImages(ctx context.Context) amboy.RetryableQueue {
	store, err := memory.New(memory.Options{KeepFinished: 1000})
	must(err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{
		Driver: store, CloseDriver: true, Name: "images",
		NewRunner: func(amboy.Queue) (amboy.Runner, error) { return pool.NewNoop(), nil },
	})
	must(err)
	must(q.Start(ctx))
	return q
}

func Example() {
	ctx := context.Background()
	q := newImages(ctx)
	defer q.Close(ctx)
	d, err := outside.New(q, outside.Options{})
	must(err)
	defer d.Close(ctx) //nolint:errcheck // Its context does not end.

	// A Go service puts a job.
	id, err := measure.Put(ctx, q, image{Path: "cat.png"})
	must(err)

	// A protocol leases it to a worker in any language, and passes on the result.
	jobs, err := d.Lease(ctx, outside.LeaseRequest{Queues: []string{"images"}, Types: []string{"measure"}, Wait: 20 * time.Second})
	must(err)
	fmt.Printf("attempt %d of %d: %s\n", jobs[0].Attempt+1, jobs[0].MaxAttempts, jobs[0].Payload.JSON)
	errs := d.Acknowledge(ctx, outside.Ack{Token: jobs[0].Token, Complete: &outside.Complete{Result: json.RawMessage(`{"width":640}`)}})
	must(errs[0])

	// The service reads the result.
	result, err := measure.Wait(ctx, q, id)
	must(err)
	fmt.Println("width:", result.Width)
	// Output:
	// attempt 1 of 5: {"path":"cat.png"}
	// width: 640
}

func ExampleDispatcher() {
	ctx := context.Background()
	q := newImages(ctx)
	defer q.Close(ctx)
	d, err := outside.New(q, outside.Options{})
	must(err)
	defer d.Close(ctx) //nolint:errcheck // Its context does not end.
	inspector, err := management.NewInspector(q)
	must(err)
	userOf := func(*http.Request) string { return "worker" }

	handler := rest.Handler(inspector,
		rest.Workers(d),
		rest.CreateOutside(),
		rest.Authorize(func(r *http.Request, access rest.Access) error {
			if userOf(r) == "worker" && (access.Action == rest.ActionWork || access.Action == rest.ActionCreate) {
				return nil
			}
			return fmt.Errorf("user %q may not do this", userOf(r))
		}),
	)
	server := httptest.NewServer(handler)
	defer server.Close()
	answer, err := http.Post(server.URL+"/v2/leases", "application/json", nil) //nolint:noctx // The server is local.
	must(err)
	must(answer.Body.Close())
	fmt.Println(answer.Status)
	// Output: 400 Bad Request
}

func ExampleDispatcher_Heartbeat() {
	ctx := context.Background()
	q := newImages(ctx)
	defer q.Close(ctx)
	d, err := outside.New(q, outside.Options{})
	must(err)
	defer d.Close(ctx) //nolint:errcheck // Its context does not end.
	_, err = measure.Put(ctx, q, image{Path: "cat.png"}, job.ID("cat"))
	must(err)
	jobs, err := d.Lease(ctx, outside.LeaseRequest{Queues: []string{"images"}, Types: []string{"measure"}, Lease: 30 * time.Second})
	must(err)
	token := jobs[0].Token

	// The worker still works on it.
	beat := d.Heartbeat(ctx, outside.Beat{Token: token, Progress: &outside.Progress{Fraction: 0.5, Message: "row 320"}, Log: []string{"read the header"}})[0]
	fmt.Println("renewed:", beat.Err == nil, "cancel:", beat.Cancel)

	// It stores how far it came, and does the rest later.
	errs := d.Acknowledge(ctx, outside.Ack{Token: token, Checkpoint: &outside.Checkpoint{
		Payload: &job.Payload{JSON: json.RawMessage(`{"path":"cat.png","row":320}`)},
		Again:   &outside.Release{Delay: time.Minute},
	}})
	must(errs[0])

	// Its lease is over.
	beat = d.Heartbeat(ctx, outside.Beat{Token: token})[0]
	fmt.Println(beat.Err)
	// Output:
	// renewed: true cancel: false
	// renewing a lease: job "cat" of queue "images" has ended, was handed back, or belongs to another worker: the job's lease was lost
}

func ExampleDispatcher_End() {
	ctx := context.Background()
	q := newImages(ctx)
	defer q.Close(ctx)
	d, err := outside.New(q, outside.Options{})
	must(err)
	defer d.Close(ctx) //nolint:errcheck // Its context does not end.
	_, err = measure.Put(ctx, q, image{Path: "cat.png"}, job.ID("cat"))
	must(err)

	// A protocol without tokens ends the job by its ID, even while a worker has it.
	done := outside.Ack{Complete: &outside.Complete{Result: json.RawMessage(`{"width":640}`)}}
	must(d.End(ctx, "images", "cat", done))
	fmt.Println(errors.Is(d.End(ctx, "images", "cat", done), outside.ErrEnded))
	// Output: true
}

func ExampleResultBytes() {
	ctx := context.Background()
	q := newImages(ctx)
	defer q.Close(ctx)
	d, err := outside.New(q, outside.Options{})
	must(err)
	defer d.Close(ctx) //nolint:errcheck // Its context does not end.
	j, err := job.NewOutside(amboy.JobType{Name: "compress", Version: 1}, job.Payload{Bytes: []byte("text")}, job.ID("one"))
	must(err)
	must(q.Put(ctx, j))
	must(d.End(ctx, "images", "one", outside.Ack{Complete: &outside.Complete{Bytes: []byte{0xff, 0x00}}}))

	ended, _ := q.Get(ctx, "one")
	result, ok := outside.ResultBytes(ended)
	fmt.Printf("%x %t\n", result, ok)
	// Output: ff00 true
}

// Lease the jobs of a queue.
func ExampleNew() {
	ctx := context.Background()
	q := newImages(ctx)
	defer q.Close(ctx)
	d, err := outside.New(q, outside.Options{MaxWaiting: 1000})
	must(err)
	defer d.Close(ctx) //nolint:errcheck // Its context does not end.

	jobs, err := d.Lease(ctx, outside.LeaseRequest{Queues: []string{"images"}, Types: []string{"measure"}})
	fmt.Println(len(jobs), err)
	// Output: 0 <nil>
}

// Lease the jobs of all queues of a group.
func ExampleNewGroup() {
	ctx := context.Background()
	store, err := memory.New(memory.Options{KeepFinished: 1000})
	must(err)
	group, err := queue.NewDriverGroup(ctx, queue.DriverGroupOptions{DefaultQueue: queue.DriverQueueOptions{
		Driver: store, CloseDriver: true,
		NewRunner: func(amboy.Queue) (amboy.Runner, error) { return pool.NewNoop(), nil },
	}})
	must(err)
	d, err := outside.NewGroup(group, outside.Options{})
	must(err)
	q, err := group.Get(ctx, "acme")
	must(err)
	_, err = measure.Put(ctx, q, image{Path: "cat.png"})
	must(err)

	jobs, err := d.Lease(ctx, outside.LeaseRequest{Queues: []string{"acme"}, Types: []string{"measure"}})
	must(err)
	fmt.Println(jobs[0].Queue)
	must(d.Close(ctx)) // before the group
	must(group.Close(ctx))
	// Output: acme
}
