package rest_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/rest"
)

// forgedToken returns a token that nobody has signed.
func forgedToken(queueName string) string {
	form := []byte{2}
	for _, text := range []string{queueName, "one", "scale", queueName + ".one", queue.OutsideOwner + "x"} {
		form = append(append(form, byte(len(text))), text...)
	}
	form = append(form, 2, 0xc0, 0xa9, 0x07, 0)
	form = append(form, make([]byte, 16)...) // instead of the signature
	return base64.RawURLEncoding.EncodeToString(form)
}

// workers is a group of queues in memory whose jobs outside workers run.
type workers struct {
	*testing.T
	store      driver.Driver
	group      amboy.QueueGroup
	dispatcher *outside.Dispatcher
	handler    http.Handler
}

func newWorkers(t *testing.T, opts ...rest.Option) *workers {
	t.Helper()
	store, err := memory.New(memory.Options{KeepFinished: 10_000})
	require.NoError(t, err)
	return newWorkersOn(t, store, opts...)
}

// newWorkersOn is newWorkers on another store.
func newWorkersOn(t *testing.T, store driver.Driver, opts ...rest.Option) *workers {
	t.Helper()
	w := &workers{T: t, store: store}
	var err error
	w.group, err = queue.NewDriverGroup(context.Background(), queue.DriverGroupOptions{DefaultQueue: queue.DriverQueueOptions{
		Driver: store, NewRunner: func(amboy.Queue) (amboy.Runner, error) { return pool.NewNoop(), nil },
	}})
	require.NoError(t, err)
	w.dispatcher, err = outside.NewGroup(w.group, outside.Options{})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, w.dispatcher.Close(context.Background()))
		assert.NoError(t, w.group.Close(context.Background()))
	})
	inspector, err := management.NewGroupInspector(w.group)
	require.NoError(t, err)
	w.handler = rest.Handler(inspector, append([]rest.Option{everybody(), rest.CreateOutside(), rest.Workers(w.dispatcher)}, opts...)...)
	return w
}

// post sends a request, and decodes the answer.
func (w *workers) post(path, body string, header ...string) (status int, answer map[string]any) {
	w.Helper()
	request := httptest.NewRequestWithContext(w.Context(), http.MethodPost, path, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, request)
	require.NoError(w, json.Unmarshal(recorder.Body.Bytes(), &answer), "%s", recorder.Body)
	if recorder.Code >= 400 {
		assert.Equal(w, "application/problem+json", recorder.Header().Get("Content-Type"))
		assert.EqualValues(w, recorder.Code, answer["status"])
	}
	return recorder.Code, answer
}

func (w *workers) create(queueName, body string) string {
	w.Helper()
	status, answer := w.post("/v2/queues/"+queueName+"/jobs", body)
	require.Equal(w, http.StatusCreated, status, "%v", answer)
	return answer["id"].(string)
}

// lease leases jobs of the type resize of the queue images.
func (w *workers) lease(more string) (jobs []map[string]any, answer map[string]any) {
	w.Helper()
	status, answer := w.post("/v2/leases", `{"queues":["images"],"types":["scale"]`+more+`}`)
	require.Equal(w, http.StatusOK, status, "%v", answer)
	for _, j := range answer["jobs"].([]any) {
		jobs = append(jobs, j.(map[string]any))
	}
	return jobs, answer
}

func (w *workers) job(id string) map[string]any {
	w.Helper()
	return w.get("/v2/queues/images/jobs/" + id)
}

func (w *workers) get(path string) map[string]any {
	w.Helper()
	request := httptest.NewRequestWithContext(w.Context(), http.MethodGet, path, nil)
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, request)
	var answer map[string]any
	require.NoError(w, json.Unmarshal(recorder.Body.Bytes(), &answer))
	require.Equal(w, http.StatusOK, recorder.Code, "%v", answer)
	return answer
}

func TestAWorkerOverHTTPRunsJobs(t *testing.T) {
	w := newWorkers(t)
	id := w.create("images", `{"type":"scale","outside":true,"args":{"path":"cat.png","n":12345678901234567890},"max_attempts":3,"backoff":{"wait":"0s"},
		"time_to_run":"1m","tags":["a"],"metadata":{"k":"v"},"scopes":["disk"],"priority":2}`)
	jobs, _ := w.lease(`,"limit":5,"lease":"30s","worker":"me"`)
	require.Len(t, jobs, 1)
	j := jobs[0]
	assert.Equal(t, []any{id, "images", "scale", 1.0, 1.0, 3.0}, []any{j["id"], j["queue"], j["type"], j["version"], j["attempt"], j["max_attempts"]})
	assert.Equal(t, "cat.png", j["args"].(map[string]any)["path"])
	assert.Contains(t, j, "lease_ends")
	assert.Contains(t, j, "run_by")

	status, answer := w.post("/v2/leases/heartbeat", fmt.Sprintf(`{"heartbeats":[{"token":%q,"progress":{"fraction":0.5,"message":"half"},"log":["one"]},{"token":"nonsense"}]}`, j["token"]))
	require.Equal(t, http.StatusOK, status)
	beats := answer["heartbeats"].([]any)
	assert.Equal(t, false, beats[0].(map[string]any)["cancel"])
	assert.Contains(t, beats[0], "lease_ends")
	assert.Equal(t, "urn:amboy:problem:invalid-token", beats[1].(map[string]any)["problem"].(map[string]any)["type"])
	assert.Equal(t, "half", w.job(id)["progress_message"])

	status, answer = w.post("/v2/leases/acknowledge", fmt.Sprintf(`{"acknowledge":[{"token":%q,"fail":{"error":"no disk","stack":"line 1","retry_in":"0s"}}]}`, j["token"]))
	require.Equal(t, http.StatusOK, status)
	assert.Equal(t, []any{map[string]any{"done": true}}, answer["acknowledged"])

	jobs, _ = w.lease(`,"wait":"1m"`)
	require.Len(t, jobs, 1)
	assert.EqualValues(t, 2, jobs[0]["attempt"])
	jobs, answer = w.lease(fmt.Sprintf(`,"acknowledge":[{"token":%q,"complete":{"result":{"w":1}}},{"token":%q,"complete":{}}]`, jobs[0]["token"], j["token"]))
	assert.Empty(t, jobs)
	acknowledged := answer["acknowledged"].([]any)
	assert.Equal(t, map[string]any{"done": true}, acknowledged[0])
	assert.Equal(t, "urn:amboy:problem:lease-lost", acknowledged[1].(map[string]any)["problem"].(map[string]any)["type"])
	shown := w.job(id)
	assert.Equal(t, "succeeded", shown["state"])
	assert.Equal(t, map[string]any{"w": 1.0}, shown["result"])
}

func TestARequestWaitsForTheEndOfAJob(t *testing.T) {
	w := newWorkers(t)
	var worker sync.WaitGroup
	worker.Go(func() {
		for range 2 {
			jobs, _ := w.lease(`,"wait":"1m"`)
			for _, j := range jobs {
				w.post("/v2/leases/acknowledge", fmt.Sprintf(`{"acknowledge":[{"token":%q,"complete":{"result":[%q]}}]}`, j["token"], j["id"]))
			}
		}
	})
	status, answer := w.post("/v2/queues/images/jobs?wait=1m", `{"id":"run","type":"scale","outside":true}`)
	require.Equal(t, http.StatusCreated, status, "%v", answer)
	assert.Equal(t, map[string]any{"queue": "images", "id": "run", "state": "succeeded", "ended": true, "result": []any{"run"}}, answer["outcome"])
	w.create("images", `{"id":"wait","type":"scale","outside":true}`)
	assert.Equal(t, []any{"wait"}, w.get("/v2/queues/images/jobs/wait/result?wait=1m")["result"])
	worker.Wait()

	// Nothing runs these.
	status, answer = w.post("/v2/queues/images/jobs?wait=10ms", `{"id":"late","type":"scale","outside":true}`)
	require.Equal(t, http.StatusCreated, status, "%v", answer)
	assert.Equal(t, false, answer["outcome"].(map[string]any)["ended"])
	assert.Equal(t, "pending", w.get("/v2/queues/images/jobs/late/result?wait=10ms")["state"])
	status, _ = w.post("/v2/queues/images/jobs?wait=1h", `{"type":"scale","outside":true}`)
	assert.Equal(t, http.StatusBadRequest, status)
	inspector, err := management.NewGroupInspector(w.group)
	require.NoError(t, err)
	w.handler = rest.Handler(inspector, may([]rest.Action{rest.ActionCreate}), rest.CreateOutside(), rest.Workers(w.dispatcher))
	status, _ = w.post("/v2/queues/images/jobs?wait=1s", `{"id":"no","type":"scale","outside":true}`)
	assert.Equal(t, http.StatusForbidden, status)
	_, err = w.store.Get(t.Context(), "images", "no")
	assert.True(t, amboy.IsJobNotFoundError(err))
}

// A wait that failed was answered at once, with status 200 and the state from before the wait, so that
// a client that waits again and again did so without a pause.
func TestAWaitForTheEndOfAJobFailedWithoutAnError(t *testing.T) {
	w := newWorkers(t)
	id := w.create("images", `{"type":"scale","outside":true}`)
	require.NoError(t, w.dispatcher.Close(t.Context()))
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v2/queues/images/jobs/"+id+"/result?wait=1m", http.NoBody))
	assert.Equal(t, http.StatusServiceUnavailable, recorder.Code, "%s", recorder.Body)
}

// The answer had the state from before the wait.
func TestAWaitThatEndsTooEarlyShowsTheJobAsItIsThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers(t)
		id := w.create("images", `{"type":"scale","outside":true}`)
		var shown map[string]any
		var waiting sync.WaitGroup
		waiting.Go(func() { shown = w.get("/v2/queues/images/jobs/" + id + "/result?wait=30s") })
		synctest.Wait()
		jobs, _ := w.lease("")
		require.Len(t, jobs, 1)
		waiting.Wait()
		assert.Equal(t, "running", shown["state"])
		assert.Equal(t, false, shown["ended"])
	})
}

// withTimeLimits runs a test in fake time, with a server of withServer.
func withTimeLimits(t *testing.T, test func(w *workers, client *http.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers(t)
		withServer(t, w.handler, func(client *http.Client) { test(w, client) })
	})
}

// withServer runs a test with a server that gives its clients 100 ms to send a request and to read the
// answer, as a service does because of slow clients.
func withServer(t *testing.T, handler http.Handler, test func(client *http.Client)) {
	t.Helper()
	pipes := outsidetest.NewPipes()
	server := &http.Server{Handler: handler, ReadTimeout: 100 * time.Millisecond, WriteTimeout: 100 * time.Millisecond}
	served := make(chan error, 1)
	go func() { served <- server.Serve(pipes) }()
	defer func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	}()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return pipes.Dial() }}
	defer transport.CloseIdleConnections()
	test(&http.Client{Transport: transport})
}

func TestALeaseOverHTTPWaitsForAJob(t *testing.T) {
	withTimeLimits(t, func(w *workers, client *http.Client) {
		answers := make(chan string, 1)
		go func() {
			defer close(answers)
			answer, err := client.Post("http://host/v2/leases", "application/json", strings.NewReader(`{"queues":["images"],"types":["scale"],"wait":"1m"}`)) //nolint:noctx // The server ends it.
			if !assert.NoError(w, err) {
				return
			}
			body, err := io.ReadAll(answer.Body)
			assert.NoError(w, err)
			assert.NoError(w, answer.Body.Close())
			answers <- string(body)
		}()
		time.Sleep(30 * time.Second) // the limits pass
		id := w.create("images", `{"type":"scale","outside":true}`)
		assert.Contains(w, <-answers, id)
	})
}

func TestTimeLimitsForSlowClientsDoNotEndEvents(t *testing.T) {
	withTimeLimits(t, func(w *workers, client *http.Client) {
		answer, err := client.Get("http://host/v2/events?every=100ms") //nolint:noctx // The server ends it.
		require.NoError(w, err)
		defer func() { require.NoError(w, answer.Body.Close()) }()
		lines := bufio.NewScanner(answer.Body)
		require.True(w, lines.Scan(), lines.Err())
		time.Sleep(30 * time.Second) // the limits pass
		for i := range 3 {
			w.create("images", fmt.Sprintf(`{"id":"event-%d","type":"scale","outside":true}`, i))
			for lines.Scan() && !strings.HasPrefix(lines.Text(), "data:") { //nolint:revive // It skips lines.
			}
			require.NoError(w, lines.Err())
			require.NotEmpty(w, lines.Text(), "the events have ended")
		}
	})
}

func TestALeaseThatFailsAfterAcknowledgementsSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers(t, rest.WaitingOfClient(1))
		w.create("images", `{"type":"scale","outside":true}`)
		jobs, answer := w.lease("")
		assert.NotContains(t, answer, "problem")
		var waiting sync.WaitGroup
		waiting.Go(func() { w.lease(`,"wait":"1m"`) })
		synctest.Wait()
		more, answer := w.lease(fmt.Sprintf(`,"wait":"1m","acknowledge":[{"token":%q,"complete":{}}]`, jobs[0]["token"]))
		assert.Empty(t, more)
		assert.Equal(t, []any{map[string]any{"done": true}}, answer["acknowledged"])
		require.Contains(t, answer, "problem")
		assert.EqualValues(t, http.StatusTooManyRequests, answer["problem"].(map[string]any)["status"])
		waiting.Wait()
	})
}

func TestShutdownEndsWaitingLeases(t *testing.T) {
	w := newWorkers(t, rest.WaitingOfClient(2))
	server := httptest.NewServer(w.handler)
	defer server.Close()
	var waiting sync.WaitGroup
	statuses := make(chan int, 3)
	const body = `{"queues":["images"],"types":["scale"],"wait":"1m"}`
	for range 3 {
		waiting.Go(func() {
			answer, err := http.Post(server.URL+"/v2/leases", "application/json", strings.NewReader(body)) //nolint:noctx // The server ends it.
			if assert.NoError(t, err) {
				assert.NoError(t, answer.Body.Close())
				statuses <- answer.StatusCode
			}
		})
	}
	// The third one of a client is too much.
	assert.Equal(t, http.StatusTooManyRequests, <-statuses)
	require.NoError(t, server.Config.Shutdown(t.Context()))
	waiting.Wait()
	assert.Equal(t, http.StatusOK, <-statuses)
	assert.Equal(t, http.StatusOK, <-statuses)
}

func TestMalformedRequestsOfWorkersGetAProblem(t *testing.T) {
	w := newWorkers(t, rest.CreateTypes("resize"))
	long := strings.Repeat("x", 70_000)
	for name, test := range map[string]struct {
		path, body string
		status     int
		field      string
	}{
		"no JSON":           {"/v2/leases", `lease`, 400, ""},
		"no queues":         {"/v2/leases", `{"types":["a"]}`, 400, "queues"},
		"no types":          {"/v2/leases", `{"queues":["a"]}`, 400, "types"},
		"unknown field":     {"/v2/leases", `{"queues":["a"],"types":["b"],"block":true}`, 400, "block"},
		"limit":             {"/v2/leases", `{"queues":["a"],"types":["b"],"limit":1001}`, 400, "limit"},
		"wait":              {"/v2/leases", `{"queues":["a"],"types":["b"],"wait":"1h"}`, 400, "wait"},
		"wait without unit": {"/v2/leases", `{"queues":["a"],"types":["b"],"wait":10}`, 400, ""},
		"lease":             {"/v2/leases", `{"queues":["a"],"types":["b"],"lease":"1ms"}`, 400, "lease"},
		"many acks":         {"/v2/leases/acknowledge", `{"acknowledge":[` + strings.TrimSuffix(strings.Repeat(`{"token":"a"},`, 1001), ",") + `]}`, 400, "acknowledge"},
		"many heartbeats":   {"/v2/leases/heartbeat", `{"heartbeats":[` + strings.TrimSuffix(strings.Repeat(`{"token":"a"},`, 1001), ",") + `]}`, 400, "heartbeats"},
		"large":             {"/v2/leases/heartbeat", `{"heartbeats":"` + strings.Repeat("x", 5<<20) + `"}`, 413, ""},
		"large payload":     {"/v2/queues/images/jobs", `{"type":"scale","outside":true,"args":"` + strings.Repeat("x", 2<<20) + `"}`, 400, "args"},
		"bad bytes":         {"/v2/queues/images/jobs", `{"type":"scale","outside":true,"bytes":"***"}`, 400, ""},
		"not outside":       {"/v2/queues/images/jobs", `{"type":"scale"}`, 403, ""},
		"runs here":         {"/v2/queues/images/jobs", `{"type":"resize","outside":true}`, 400, "outside"},
	} {
		status, problem := w.post(test.path, test.body)
		assert.Equal(t, test.status, status, name)
		if test.field != "" && assert.Contains(t, problem, "errors", name) {
			assert.Equal(t, test.field, problem["errors"].([]any)[0].(map[string]any)["field"], name)
		}
	}
	for name, ack := range map[string]string{
		"nothing":   `{"token":"TOKEN"}`,
		"two":       `{"token":"TOKEN","complete":{},"release":{}}`,
		"no error":  `{"token":"TOKEN","fail":{"error":""}}`,
		"long":      `{"token":"TOKEN","fail":{"error":"` + long + `"}}`,
		"bad delay": `{"token":"TOKEN","release":{"delay":"-1s"}}`,
	} {
		status, answer := w.post("/v2/leases/acknowledge", `{"acknowledge":[`+strings.ReplaceAll(ack, "TOKEN", forgedToken("images"))+`]}`)
		require.Equal(t, http.StatusOK, status, name)
		problem := answer["acknowledged"].([]any)[0].(map[string]any)["problem"].(map[string]any)
		assert.Equal(t, "urn:amboy:problem:invalid-argument", problem["type"], name)
	}
}

// The answer did not say why, and the first thing that a user of amboy serve tries gets it.
func TestAJobThatIsNotOutsideIsRefusedWithoutACause(t *testing.T) {
	w := newWorkers(t)
	for body, want := range map[string]string{
		`{"type":"scale"}`:    `create of a job of type "scale" on queue "images" is not allowed: the service does not know this type; if workers outside of Go run it, set "outside" (on the command line --outside)`,
		`{"type":"declared"}`: `create of a job of type "declared" on queue "images" is not allowed: the service does not let clients create jobs of this type`,
	} {
		status, problem := w.post("/v2/queues/images/jobs", body)
		assert.Equal(t, http.StatusForbidden, status)
		assert.Equal(t, want, problem["detail"])
	}
}

// Each layer named the job and the queue again.
func TestErrorsRepeatThemselves(t *testing.T) {
	w := newWorkers(t)
	w.create("q", `{"type":"t","outside":true,"id":"a","unique_key":"k","scopes":["s"],"enqueue_scopes":true}`)
	const create = "/v2/queues/q/jobs"
	for _, test := range []struct{ method, path, body, want string }{
		{http.MethodPost, create, `{"type":"t","outside":true,"id":"a"}`, `job "a" is in the queue already`},
		{http.MethodPost, create, `{"type":"t","outside":true,"id":"b","unique_key":"k"}`, `unique key "\"t\" key=\"k\"" of job "b" is held by job "a"`},
		{http.MethodPost, create, `{"type":"t","outside":true,"id":"b","scopes":["s"],"enqueue_scopes":true}`, `enqueue scope "s" of job "b" is held by job "a"`},
		{http.MethodPost, create, `{"type":"t","outside":true,"id":"b","after":["b"]}`, `dependency cycle: b -> b`},
		{http.MethodPost, create, `{"type":"t","outside":true,"backoff":{"wait":"-1s"}}`, `backoff.wait must not be negative (is "-1s")`},
		{http.MethodPost, create, `{"type":"t","outside":true,"backoff":{"wait":"1s","factor":0.5}}`, `backoff.factor must be at least 1 (is "0.5")`},
		{http.MethodPost, create, `{"type":"t","outside":true,"backoff":{"wait":"1s","jitter":2}}`, `backoff.jitter must be from 0 to 1 (is "2")`},
		{http.MethodPost, create, `{"type":"t","outside":true,"keep":{"failed":"-1s"}}`, `keep.failed must not be negative (is "-1s")`},
		{http.MethodPost, create + "/a/actions", `{"action":"delete"}`, `job "a" of queue "q" is pending: delete requires a job that has ended; cancel it first`},
		{http.MethodPost, create + "/b/actions", `{"action":"retry"}`, `there is no job "b" in queue "q"`},
		{http.MethodGet, create + "/b", "", `there is no job "b" in queue "q"`},
		{http.MethodGet, create + "/b/graph", "", `there is no job "b" in queue "q"`},
		{http.MethodGet, "/v2/queues/none", "", `queue "none": no such queue`},
		{http.MethodGet, "/v2/queues/none/jobs/b", "", `queue "none": no such queue`},
		{http.MethodPatch, "/v2/queues/none", `{"paused":true}`, `queue "none": no such queue`},
		{http.MethodPatch, "/v2/queues/new", `{"max_running":2,"create":true}`, ``},
		{http.MethodPatch, "/v2/queues/q", `{"draining":true}`, ``},
		{http.MethodPost, create, `{"type":"t","outside":true,"id":"b"}`, `inserting record "q.b": queue "q": queue is draining`},
	} {
		status, body := ask(t, w.handler, test.method, test.path, test.body)
		var problem struct{ Detail string }
		require.NoError(t, json.Unmarshal([]byte(body), &problem))
		assert.Equal(t, test.want, problem.Detail, "%s %s %s", test.method, test.path, test.body)
		assert.Equal(t, test.want == "", status == http.StatusOK, body)
	}
}

// Some refusals named the body as a whole, or a field by a name that it does not have over HTTP.
func TestRefusalsDidNotNameTheField(t *testing.T) {
	w := newWorkers(t)
	const create = "/v2/queues/q/jobs"
	for _, test := range []struct{ path, body, field, want string }{
		{create, `{"type":"t","outside":true,"max_attempts":-1}`, "max_attempts", `max_attempts must not be negative (is "-1")`},
		{create, `{"type":"t","outside":true,"max_interruptions":-1}`, "max_interruptions", `max_interruptions must not be negative (is "-1")`},
		{create, `{"type":"t","outside":true,"backoff":{"wait":"soon"}}`, "backoff.wait", `invalid JSON body: must be a duration such as "10s" (is "soon")`},
		{create, `{"type":"t","outside":true,"time_to_run":5}`, "body", `invalid JSON body: must be a duration such as "10s" (is 5)`},
		{"/v2/leases", `{"queues":[],"types":["t"]}`, "queues", `queues must have from 1 to 100 names (is "0")`},
	} {
		status, body := ask(t, w.handler, http.MethodPost, test.path, test.body)
		assert.Equal(t, http.StatusBadRequest, status)
		var problem struct {
			Detail string
			Errors []struct{ Field string }
		}
		require.NoError(t, json.Unmarshal([]byte(body), &problem))
		assert.Equal(t, test.want, problem.Detail)
		require.Len(t, problem.Errors, 1)
		assert.Equal(t, test.field, problem.Errors[0].Field)
	}
}

func TestIdempotencyKeyOfAJobForOutsideWorkers(t *testing.T) {
	w := newWorkers(t)
	const body = `{"type":"scale","outside":true,"tags":["a"]}`
	status, first := w.post("/v2/queues/images/jobs", body, "Idempotency-Key", "k")
	require.Equal(t, http.StatusCreated, status, "%v", first)
	status, again := w.post("/v2/queues/images/jobs", body, "Idempotency-Key", "k")
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, first["id"], again["id"])
	status, _ = w.post("/v2/queues/images/jobs", `{"type":"scale","outside":true,"tags":["b"]}`, "Idempotency-Key", "k")
	assert.Equal(t, http.StatusBadRequest, status)
}

// A tenant can neither lease nor acknowledge jobs of another one, even with its token.
func TestAttackAWorkerReachesForTheQueueOfAnotherTenant(t *testing.T) {
	w := newWorkers(t)
	w.create(theirs, `{"type":"scale","outside":true}`)
	status, answer := w.post("/v2/leases", `{"queues":["theirs"],"types":["scale"]}`)
	require.Equal(t, http.StatusOK, status)
	token := answer["jobs"].([]any)[0].(map[string]any)["token"].(string)

	inspector, err := management.NewGroupInspector(w.group)
	require.NoError(t, err)
	ofMine := &workers{T: t, handler: rest.Handler(inspector, everybody(), rest.CreateOutside(), rest.Workers(w.dispatcher), rest.Tenant(mine))}
	for path, body := range map[string]string{
		"/v2/leases":              `{"queues":["mine","theirs"],"types":["scale"]}`,
		"/v2/leases/acknowledge":  `{"acknowledge":[{"token":"TOKEN","complete":{}}]}`,
		"/v2/leases/heartbeat":    `{"heartbeats":[{"token":"TOKEN"}]}`,
		"/v2/queues/theirs/jobs":  `{"type":"scale","outside":true}`,
		"/v2/queues/theirs2/jobs": `{"type":"scale","outside":true}`,
	} {
		status, answer := ofMine.post(path, strings.ReplaceAll(body, "TOKEN", token))
		assert.Equal(t, http.StatusNotFound, status, path)
		assert.Equal(t, "urn:amboy:problem:unknown-queue", answer["type"], path)
	}
	r, err := w.store.Find(t.Context(), driver.Query{Queues: []string{theirs}}, driver.PageRequest{Limit: 10})
	require.NoError(t, err)
	require.Len(t, r.Records, 1)
	assert.Equal(t, amboy.StateRunning, driver.StateOf(r.Records[0], time.Now()))
}

func TestWithoutADispatcherWorkersAreNotServed(t *testing.T) {
	w := newWorkers(t)
	inspector, err := management.NewGroupInspector(w.group)
	require.NoError(t, err)
	w.handler = rest.Handler(inspector, everybody())
	status, problem := w.post("/v2/leases", `{"queues":["a"],"types":["b"]}`)
	assert.Equal(t, http.StatusConflict, status)
	assert.Equal(t, "urn:amboy:problem:unsupported", problem["type"])
}

func TestInvalidOptionsOfWorkersPanic(t *testing.T) {
	assert.Panics(t, func() { rest.Workers(nil) })
	assert.Panics(t, func() { rest.WaitingOfClient(0) })
}

// The examples in the description are valid requests.
func TestExamplesOfWorkersAreServed(t *testing.T) {
	w := newWorkers(t)
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v2/openapi.json", nil)
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, request)
	type media struct{ Example json.RawMessage }
	var description struct {
		Paths map[string]map[string]struct {
			RequestBody struct{ Content map[string]media }
		}
	}
	require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &description))
	served := 0
	for path, methods := range description.Paths {
		example := methods["post"].RequestBody.Content["application/json"].Example
		if example == nil || strings.Contains(path, "{id}") {
			continue
		}
		var compact bytes.Buffer
		require.NoError(t, json.Compact(&compact, example))
		body := strings.Replace(compact.String(), `"wait":"30s"`, `"wait":"0s"`, 1)
		status, answer := w.post("/v2"+strings.ReplaceAll(path, "{queue}", "images"), body)
		assert.Less(t, status, 300, "%s: %v", path, answer)
		served++
	}
	assert.Equal(t, 6, served)
}
