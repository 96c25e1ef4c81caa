package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/codec"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/registry"
	"github.com/mongodb/amboy/rest"
)

// must stands for the handling of an error.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// mail is a job that a client may put.
var mail = job.Define("rest-example.mail", 1, func(context.Context, string) error { return nil })

// newQueueAndInspector returns a started queue and what operators see of it.
func newQueueAndInspector(ctx context.Context) (amboy.Queue, management.Inspector) {
	store, err := memory.New(memory.Options{KeepFinished: 100})
	must(err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, Name: "mail", NumWorkers: 1})
	must(err)
	must(q.Start(ctx))
	inspector, err := management.NewInspector(q)
	must(err)
	return q, inspector
}

// userOf stands for the program's own authentication of a request, for instance by a password
// or a session.
func userOf(r *http.Request) string {
	user, _, _ := r.BasicAuth()
	return user
}

// anybody allows everything. A service must not do that.
func anybody(*http.Request, rest.Access) error { return nil }

// get sends a request of a user to a handler, and returns the status and the body of the answer.
func get(handler http.Handler, path, user string) (status int, body string) {
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	r.SetBasicAuth(user, "")
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, r)
	return answer.Code, answer.Body.String()
}

// asUser is an http.RoundTripper that authenticates as a user.
type asUser string

func (user asUser) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.SetBasicAuth(string(user), "")
	return http.DefaultTransport.RoundTrip(r)
}

// Mount the API and the pages below a prefix, and call the API with a client.
func ExampleHandler() {
	ctx := context.Background()
	q, inspector := newQueueAndInspector(ctx)
	defer q.Close(ctx)

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
		rest.CreateTypes(mail.Type().Name),
	))
	server := httptest.NewServer(mux)
	defer server.Close()

	client, err := rest.NewClient(server.URL+"/amboy", &http.Client{Transport: asUser("operator")})
	must(err)
	created, err := client.CreateJob(ctx, management.NewJob{Queue: "mail", ID: "one", Type: mail.Type().Name, Args: json.RawMessage(`"ann"`)})
	must(err)
	fmt.Println(created.ID)
	audit, err := client.Audit(ctx, management.AuditFilter{}, management.PageRequest{Limit: 1})
	must(err)
	fmt.Println(audit.Entries[0].Actor, audit.Entries[0].What, audit.Entries[0].JobID)

	reader, err := rest.NewClient(server.URL+"/amboy", &http.Client{Transport: asUser("reader")})
	must(err)
	_, err = reader.SetControl(ctx, "mail", management.ControlChange{Paused: new(true)})
	var refused *rest.ResponseError
	fmt.Println(errors.As(err, &refused), refused.StatusCode)
	// Output:
	// one
	// operator create one
	// true 403
}

// Without this option every request is refused.
func ExampleAuthorize() {
	ctx := context.Background()
	q, inspector := newQueueAndInspector(ctx)
	defer q.Close(ctx)
	handler := rest.Handler(inspector, rest.Authorize(func(r *http.Request, access rest.Access) error {
		switch userOf(r) {
		case "":
			return rest.ErrUnauthenticated
		case "operator":
			return nil
		default:
			return fmt.Errorf("only operators may: %s", access)
		}
	}))
	for _, user := range []string{"operator", "guest", ""} {
		status, _ := get(handler, "/v2/queues", user)
		fmt.Println(status)
	}
	// Output:
	// 200
	// 403
	// 401
}

// Mount a handler below a path, with the path in its links.
func ExamplePrefix() {
	ctx := context.Background()
	q, inspector := newQueueAndInspector(ctx)
	defer q.Close(ctx)
	mux := http.NewServeMux()
	mux.Handle("/jobs/", rest.Handler(inspector, rest.Prefix("/jobs"), rest.Authorize(anybody)))
	status, _ := get(mux, "/jobs/v2/queues", "")
	fmt.Println(status)
	// Output: 200
}

// The audit list names who did something.
func ExampleActor() {
	ctx := context.Background()
	q, inspector := newQueueAndInspector(ctx)
	defer q.Close(ctx)
	server := httptest.NewServer(rest.Handler(inspector, rest.Actor(userOf), rest.Authorize(anybody)))
	defer server.Close()

	client, err := rest.NewClient(server.URL, &http.Client{Transport: asUser("ann")})
	must(err)
	_, err = client.SetControl(ctx, "mail", management.ControlChange{MaxRunning: new(2)})
	must(err)
	audit, err := client.Audit(ctx, management.AuditFilter{}, management.PageRequest{})
	must(err)
	fmt.Println(audit.Entries[0].Actor, audit.Entries[0].Detail)
	// Output: ann {"max_running":2}
}

// Clients can put jobs of these types only, because a job may run any program.
func ExampleCreateTypes() {
	ctx := context.Background()
	q, inspector := newQueueAndInspector(ctx)
	defer q.Close(ctx)
	server := httptest.NewServer(rest.Handler(inspector, rest.CreateTypes(mail.Type().Name), rest.Authorize(anybody)))
	defer server.Close()

	client, err := rest.NewClient(server.URL, nil)
	must(err)
	for _, jobType := range []string{mail.Type().Name, "shell"} {
		_, err = client.CreateJob(ctx, management.NewJob{Queue: "mail", Type: jobType, Args: json.RawMessage(`"ann"`)})
		fmt.Println(err == nil)
	}
	// Output:
	// true
	// false
}

// Workers in any language lease jobs over HTTP, and clients put jobs for them.
func ExampleWorkers() {
	ctx := context.Background()
	store, err := memory.New(memory.Options{KeepFinished: 100})
	must(err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{
		Driver: store, CloseDriver: true, Name: "images",
		NewRunner: func(amboy.Queue) (amboy.Runner, error) { return pool.NewNoop(), nil },
	})
	must(err)
	defer q.Close(ctx)
	must(q.Start(ctx))
	dispatcher, err := outside.New(q, outside.Options{})
	must(err)
	defer dispatcher.Close(ctx) //nolint:errcheck // Its context does not end.
	inspector, err := management.NewInspector(q)
	must(err)
	server := httptest.NewServer(rest.Handler(inspector, rest.Workers(dispatcher), rest.CreateOutside(), rest.Authorize(anybody)))
	defer server.Close()

	client, err := rest.NewClient(server.URL, nil)
	must(err)
	_, err = client.CreateJob(ctx, management.NewJob{Queue: "images", Type: "measure", Args: json.RawMessage(`{"path":"cat.png"}`), JobOptions: management.JobOptions{Outside: true}})
	must(err)
	answer, err := http.Post(server.URL+"/v2/leases", "application/json", strings.NewReader(`{"queues":["images"],"types":["measure"]}`))
	must(err)
	body, err := io.ReadAll(answer.Body)
	must(err)
	must(answer.Body.Close())
	fmt.Println(answer.Status, strings.Contains(string(body), `{"path":"cat.png"}`))
	// Output: 200 OK true
}

// Hide secrets in the arguments of jobs.
func ExampleMaskArgs() {
	ctx := context.Background()
	q, inspector := newQueueAndInspector(ctx)
	defer q.Close(ctx)
	_, err := mail.Put(ctx, q, "ann@example.com", job.ID("one"))
	must(err)
	server := httptest.NewServer(rest.Handler(inspector, rest.Authorize(anybody),
		rest.MaskArgs(func(_ management.JobRef, jobType string, args json.RawMessage) json.RawMessage {
			if jobType == mail.Type().Name {
				return json.RawMessage(`"hidden"`)
			}
			return args
		}),
	))
	defer server.Close()

	client, err := rest.NewClient(server.URL, nil)
	must(err)
	j, err := client.Job(ctx, "mail", "one")
	must(err)
	fmt.Println(string(j.Args))
	// Output: "hidden"
}

// Let some users read the arguments of encrypted jobs.
func ExampleRevealEncrypted() {
	ctx := context.Background()
	secret := bytes.Repeat([]byte("s"), codec.KeyBytes) // read it from a secret store
	encrypting, err := codec.NewAESGCM(codec.Key{ID: "2026-03", Secret: secret})
	must(err)
	store, err := memory.New(memory.Options{KeepFinished: 100})
	must(err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, Name: "mail", NumWorkers: 1, Codec: encrypting})
	must(err)
	defer q.Close(ctx)
	must(q.Start(ctx))
	_, err = mail.Put(ctx, q, "ann@example.com", job.ID("one"))
	must(err)
	inspector, err := management.NewInspector(q)
	must(err)
	server := httptest.NewServer(rest.Handler(inspector, rest.RevealEncrypted(),
		rest.Authorize(func(r *http.Request, access rest.Access) error {
			if access.Action == rest.ActionReveal && userOf(r) != "auditor" {
				return errors.New("only auditors may")
			}
			return nil
		}),
	))
	defer server.Close()

	for _, user := range []string{"operator", "auditor"} {
		client, err := rest.NewClient(server.URL, &http.Client{Transport: asUser(user)})
		must(err)
		j, err := client.Job(ctx, "mail", "one")
		must(err)
		fmt.Printf("%s %q %q\n", user, j.Args, j.ArgsHidden)
	}
	// Output:
	// operator "" "encrypted"
	// auditor "\"ann@example.com\"" ""
}

// Limit how many requests of a client wait for the end of jobs.
func ExampleWaitingOfClient() {
	ctx := context.Background()
	q, inspector := newQueueAndInspector(ctx)
	defer q.Close(ctx)
	_, err := mail.Put(ctx, q, "ann", job.ID("one"), job.In(time.Hour))
	must(err)
	dispatcher, err := outside.New(q, outside.Options{})
	must(err)
	defer dispatcher.Close(ctx) //nolint:errcheck // Its context does not end.
	handler := rest.Handler(inspector, rest.Workers(dispatcher), rest.WaitingOfClient(2), rest.Authorize(anybody))

	statuses := make(chan int, 3)
	for range 3 {
		go func() {
			status, _ := get(handler, "/v2/queues/mail/jobs/one/result?wait=1m", "")
			statuses <- status
		}()
	}
	fmt.Println(<-statuses) // two wait
	_, err = inspector.ActOn(ctx, "mail", "one", management.Action{Kind: management.Cancel})
	must(err)
	fmt.Println(<-statuses, <-statuses)
	// Output:
	// 429
	// 200 200
}

// A handler for one tenant: other queues appear not to exist.
func ExampleTenant() {
	ctx := context.Background()
	q, inspector := newQueueAndInspector(ctx)
	defer q.Close(ctx)
	handler := rest.Handler(inspector, rest.Tenant("mail"), rest.Authorize(anybody))
	for _, name := range []string{"mail", "bills"} {
		status, _ := get(handler, "/v2/queues/"+name, "")
		fmt.Println(name, status)
	}
	// Output:
	// mail 200
	// bills 404
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
	// The queue of a tenant has the name of its user.
	handler := rest.Handler(inspector, rest.TenantOf(userOf), rest.Authorize(anybody))
	for _, name := range []string{"acme", "globex"} {
		status, _ := get(handler, "/v2/queues/"+name, "acme")
		fmt.Println(name, status)
	}
	must(group.Close(ctx))
	// Output:
	// acme 200
	// globex 404
}

// Name the pages after the service.
func ExampleTitle() {
	ctx := context.Background()
	q, inspector := newQueueAndInspector(ctx)
	defer q.Close(ctx)
	handler := rest.Handler(inspector, rest.Title("Shop"), rest.Authorize(anybody))
	_, page := get(handler, "/", "")
	fmt.Println(strings.Contains(page, "Shop</title>"))
	// Output: true
}

// Refuse requests that name another host, so that other sites can't reach the service by DNS rebinding.
func ExampleHosts() {
	ctx := context.Background()
	q, inspector := newQueueAndInspector(ctx)
	defer q.Close(ctx)
	handler := rest.Handler(inspector, rest.Hosts("jobs.example.com"), rest.Authorize(anybody))
	for _, host := range []string{"jobs.example.com", "evil.example"} {
		status, _ := get(handler, "http://"+host+"/v2/queues", "")
		fmt.Println(host, status)
	}
	// Output:
	// jobs.example.com 200
	// evil.example 421
}

// Ask for a token in a handler beside that of the library.
func ExampleRefuseUnauthenticated() {
	answer := httptest.NewRecorder()
	rest.RefuseUnauthenticated(answer, httptest.NewRequest(http.MethodGet, "/", http.NoBody), "A token is required.")
	fmt.Println(answer.Code, answer.Header().Get("WWW-Authenticate"))
	// Output: 401 Bearer realm="amboy"
}

// Mount the probes of an orchestrator.
func ExampleHealth() {
	ctx := context.Background()
	q, inspector := newQueueAndInspector(ctx)
	defer q.Close(ctx)
	mux := http.NewServeMux()
	mux.Handle("/health/", http.StripPrefix("/health", rest.Health(inspector)))
	for _, path := range []string{"/health/live", "/health/ready"} {
		status, body := get(mux, path, "")
		fmt.Print(status, " ", body)
	}
	// Output:
	// 200 {"status":"ok"}
	// 200 {"status":"ok","checks":[{"name":"store","ok":true},{"name":"schema","ok":true},{"name":"dispatch","ok":true}]}
}

// browse opens a page as a browser does, and reports whether it is the dashboard.
func browse(link string) (status string, isDashboard bool) {
	jar, err := cookiejar.New(nil)
	must(err)
	response, err := (&http.Client{Jar: jar}).Get(link)
	must(err)
	page, err := io.ReadAll(response.Body)
	must(err)
	must(response.Body.Close())
	return response.Status, strings.Contains(string(page), "Overview")
}

// Mount the dashboard, and print a link that logs a browser in.
func ExampleLogin() {
	ctx := context.Background()
	store, err := memory.New(memory.Options{KeepFinished: 100})
	must(err)
	group, err := queue.NewDriverGroup(ctx, queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 2},
	})
	must(err)
	const address = "localhost:0"

	inspector, err := management.NewGroupInspector(group) // or NewInspector(q)
	must(err)
	mux := http.NewServeMux()
	login := rest.NewLogin("/jobs")
	mux.Handle("/jobs/login", login)
	mux.Handle("/jobs/", rest.Handler(inspector, rest.Prefix("/jobs"), rest.Authorize(login.Authorize)))

	listener, err := net.Listen("tcp", address) // for instance "localhost:8080"
	must(err)
	link := fmt.Sprintf("http://%s/jobs/login?ticket=%s", listener.Addr(), login.Ticket())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // until server.Shutdown

	fmt.Println(browse(link))
	must(server.Shutdown(ctx))
	must(group.Close(ctx))
	// Output:
	// 200 OK true
}

// A program sends the token of a login.
func ExampleWithToken() {
	ctx := context.Background()
	q, inspector := newQueueAndInspector(ctx)
	defer q.Close(ctx)
	login := rest.NewLogin("")
	server := httptest.NewServer(rest.Handler(inspector, rest.Authorize(login.Authorize)))
	defer server.Close()

	client, err := rest.NewClient(server.URL, nil, rest.WithToken(login.Token()))
	must(err)
	queues, err := client.Queues(ctx)
	must(err)
	fmt.Println(queues[0].Name)
	// Output: mail
}

// The errors of a client are those of an inspector in this process.
func ExampleNewClient() {
	ctx := context.Background()
	q, inspector := newQueueAndInspector(ctx)
	defer q.Close(ctx)
	server := httptest.NewServer(rest.Handler(inspector, rest.Authorize(anybody)))
	defer server.Close()

	client, err := rest.NewClient(server.URL, nil) // or http.Client with your authentication
	must(err)
	_, err = client.Queue(ctx, "bills")
	fmt.Println(errors.Is(err, management.ErrUnknownQueue))
	_, err = client.Job(ctx, "mail", "no-such-job")
	fmt.Println(amboy.IsJobNotFoundError(err))
	// Output:
	// true
	// true
}

// thumbnail is a hand-written job.
type thumbnail struct {
	job.Base `bson:"job_base" json:"job_base"`
}

var thumbnailType = amboy.JobType{Name: "rest-example.thumbnail", Version: 1}

func init() {
	registry.AddJobType(thumbnailType.Name, func() amboy.Job { return &thumbnail{Base: job.Base{JobType: thumbnailType}} })
}

func (j *thumbnail) Run(context.Context) { j.MarkComplete() }

// Put a hand-written job over HTTP, with the routes of the legacy library.
func ExampleQueueService() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(2, 100)
	must(err)
	defer q.Close(ctx)
	must(q.Start(ctx))
	service := rest.NewQueueService()
	must(service.SetQueue(q))
	server := httptest.NewServer(http.StripPrefix("/amboy", service.Handler())) // behind your own authentication
	defer server.Close()

	address, err := url.Parse(server.URL)
	must(err)
	port, err := strconv.Atoi(address.Port())
	must(err)
	client, err := rest.NewQueueClient("http://"+address.Hostname(), port, "/amboy")
	must(err)
	j := &thumbnail{Base: job.Base{JobType: thumbnailType}}
	j.SetID("cat.png")
	id, err := client.SubmitJob(ctx, j)
	must(err)
	fmt.Println(id, client.Wait(ctx, id))
	// Output: cat.png true
}

// Record the jobs that are put with the routes of the legacy library.
func ExampleAudit() {
	ctx := context.Background()
	q, inspector := newQueueAndInspector(ctx)
	defer q.Close(ctx)
	service := rest.NewQueueService()
	must(service.SetQueue(q))
	server := httptest.NewServer(service.Handler(
		rest.Audit(inspector), rest.Actor(userOf), rest.Authorize(anybody), rest.CreateTypes(thumbnailType.Name),
	))
	defer server.Close()

	address, err := url.Parse(server.URL)
	must(err)
	port, err := strconv.Atoi(address.Port())
	must(err)
	client, err := rest.NewQueueClientFromExisting(&http.Client{Transport: asUser("ann")}, "http://"+address.Hostname(), port, "")
	must(err)
	j := &thumbnail{Base: job.Base{JobType: thumbnailType}}
	j.SetID("cat.png")
	_, err = client.SubmitJob(ctx, j)
	must(err)
	audit, err := inspector.Audit(ctx, management.AuditFilter{}, management.PageRequest{Limit: 1})
	must(err)
	fmt.Println(audit.Entries[0].Actor, audit.Entries[0].What, audit.Entries[0].JobID)
	// Output: ann create cat.png
}

// Count jobs over HTTP, with the routes of the legacy library.
func ExampleNewManagementService() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(2, 100)
	must(err)
	defer q.Close(ctx)
	_, err = mail.Put(ctx, q, "ann")
	must(err)
	server := httptest.NewServer(rest.NewManagementService(management.NewQueueManager(q)).Handler()) // behind your own authentication
	defer server.Close()

	manager := rest.NewManagementClient(server.URL)
	fmt.Println(manager.JobStatus(ctx, management.Pending))
	fmt.Println(manager.CompleteJobs(ctx, "done"))
	// Output:
	// [{rest-example.mail  1}] <nil>
	// invalid argument: filter must be one of ["pending" "in-progress" "stale" "completed" "retrying" "stale-retrying" "all"] (is "done")
}

// List and abort the running jobs of the queues of a group.
func ExampleManagementGroupService() {
	ctx := context.Background()
	running := make(chan struct{})
	endless := job.Define("rest-example.endless", 1, func(ctx context.Context, _ string) error {
		close(running)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	group, err := queue.NewLocalQueueGroup(ctx, queue.LocalQueueGroupOptions{
		DefaultQueue: queue.LocalQueueOptions{Constructor: func(context.Context) (amboy.Queue, error) {
			q := queue.NewLocalLimitedSize(1, 100)
			return q, q.SetRunner(pool.NewAbortablePool(1, q))
		}},
	})
	must(err)
	defer func() { must(group.Close(ctx)) }()
	server := httptest.NewServer(rest.NewManagementGroupService(group).Handler())
	defer server.Close()
	tenant, err := group.Get(ctx, "tenant")
	must(err)
	_, err = endless.Put(ctx, tenant, "", job.ID("endless"))
	must(err)
	<-running

	client := rest.NewAbortablePoolManagementClient(server.URL)
	fmt.Println(client.ListJobs(ctx))
	must(client.AbortJob(ctx, "endless"))
	fmt.Println(client.IsRunning(ctx, "endless"))
	// Output:
	// [endless] <nil>
	// false <nil>
}
