package rest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/registry"
	"github.com/mongodb/amboy/rest"
)

// services are the handlers of the legacy services for a queue that runs a job, and an
// inspector of the queue.
type services struct {
	queue, management, pool, group http.Handler
	inspector                      management.Inspector
}

func newServices(t *testing.T, opts func(management.Inspector) []rest.Option) services {
	q, err := queue.NewLocalLimitedSizeSerializable(2, 100)
	require.NoError(t, err)
	runner := pool.NewAbortablePool(2, q)
	require.NoError(t, q.SetRunner(runner))
	t.Cleanup(func() { closeNow(q) })
	require.NoError(t, q.Start(t.Context()))
	run(t, q, "held")
	inspector, err := management.NewInspector(q)
	require.NoError(t, err)
	service := rest.NewQueueService()
	require.NoError(t, service.SetQueue(q))
	var o []rest.Option
	if opts != nil {
		o = opts(inspector)
	}
	return services{
		queue:      service.Handler(o...),
		management: rest.NewManagementService(management.NewQueueManager(q)).Handler(o...),
		pool:       rest.NewAbortablePoolManagementService(runner).Handler(o...),
		group:      rest.NewManagementGroupService(nil).Handler(o...),
		inspector:  inspector,
	}
}

type serviceRequest struct {
	method, target string
	action         rest.Action
}

type serviceSample struct {
	handler  http.Handler
	requests []serviceRequest
}

// serviceSamples returns a request to each route of the services, with its action.
func serviceSamples(s services) []serviceSample {
	running := []serviceRequest{
		{"GET", "/v1/jobs/list", rest.ActionRead},
		{"GET", "/v1/job/held", rest.ActionRead},
		{"DELETE", "/v1/job/held", "cancel"},
		{"DELETE", "/v1/jobs/abort", "cancel"},
	}
	return []serviceSample{
		{s.queue, []serviceRequest{
			{"GET", "/", rest.ActionRead},
			{"GET", "/v1/status", rest.ActionRead},
			{"GET", "/v1/status/wait?timeout=0s", rest.ActionRead},
			{"GET", "/v1/job/held", rest.ActionRead},
			{"GET", "/v1/job/status/held", rest.ActionRead},
			{"GET", "/v1/job/wait/held?timeout=0s", rest.ActionRead},
			{"POST", "/v1/job/create", rest.ActionCreate},
			{"POST", "/v1/jobs/mark_complete/id/held", "complete"},
		}},
		{s.management, []serviceRequest{
			{"GET", "/v1/status/all", rest.ActionRead},
			{"GET", "/v1/id/status/all/type/resize", rest.ActionRead},
			{"POST", "/v1/jobs/mark_complete/id/held", "complete"},
			{"POST", "/v1/jobs/mark_complete/status/all", "complete"},
			{"POST", "/v1/jobs/mark_complete/status/all/type/resize", "complete"},
			{"POST", "/v1/jobs/mark_complete/status/all/pattern/x", "complete"},
		}},
		{s.pool, running},
		{s.group, running},
	}
}

// ask sends a request, and returns the status and the body of the answer.
func ask(t *testing.T, handler http.Handler, method, target, body string, header ...string) (int, string) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), method, "http://jobs.example"+target, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	answer := recorder.Result()
	content, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode, string(content)
}

// newForm returns the body of a request to put the job "new".
func newForm(t *testing.T) string {
	form, err := registry.MakeJobInterchange(newResize("new", ""), amboy.JSON)
	require.NoError(t, err)
	encoded, err := json.Marshal(form)
	require.NoError(t, err)
	return string(encoded)
}

// A service with Authorize calls it before each action.
func TestAttackTheServicesAreUsedWithoutAuthorization(t *testing.T) {
	var asked []rest.Access
	s := newServices(t, func(i management.Inspector) []rest.Option {
		return []rest.Option{
			rest.Authorize(func(_ *http.Request, access rest.Access) error {
				asked = append(asked, access)
				return errNo
			}), rest.CreateTypes("resize"), rest.Audit(i),
		}
	})
	for _, service := range serviceSamples(s) {
		for _, r := range service.requests {
			asked = nil
			status, body := ask(t, service.handler, r.method, r.target, newForm(t))
			assert.Equal(t, http.StatusForbidden, status, "%s %s: %s", r.method, r.target, body)
			assert.NotContains(t, body, errNo.Error())
			require.Len(t, asked, 1, "%s %s", r.method, r.target)
			assert.Equal(t, r.action, asked[0].Action, "%s %s", r.method, r.target)
			if strings.Contains(r.target, "held") {
				assert.Equal(t, "held", asked[0].ID)
			}
			if r.action == rest.ActionCreate {
				assert.Equal(t, "new", asked[0].ID)
				assert.Equal(t, "resize", asked[0].Type)
			}
		}
	}
	job, err := s.inspector.Job(t.Context(), queueName(t, s.inspector), "held")
	require.NoError(t, err)
	assert.Equal(t, amboy.StateRunning, job.State)
}

// An answer to a request that is not authorized must not describe the queue.
func TestAttackADeniedRequestReadsTheStateOfTheQueue(t *testing.T) {
	s := newServices(t, func(management.Inspector) []rest.Option { return []rest.Option{may(nil), rest.CreateTypes("resize")} })
	for body, want := range map[string]int{
		newForm(t): http.StatusForbidden, `{`: http.StatusBadRequest, `{"name":"new","type":"shell"}`: http.StatusForbidden,
	} {
		status, answer := ask(t, s.queue, http.MethodPost, "/v1/job/create", body)
		assert.Equal(t, want, status, answer)
		for _, state := range []string{"supported_job_types", "pending_jobs", "queue_depth", "badge"} {
			assert.NotContains(t, answer, state)
		}
	}
	s = newServices(t, func(management.Inspector) []rest.Option {
		return []rest.Option{may([]rest.Action{rest.ActionCreate}), rest.CreateTypes("resize")}
	})
	status, answer := ask(t, s.queue, http.MethodPost, "/v1/job/create", newForm(t))
	assert.Equal(t, http.StatusOK, status, answer)
	assert.Contains(t, answer, `"queue_depth":0`)
	assert.Contains(t, answer, `"supported_job_types":[]`, "the right to create is not the right to read")
}

// A client must not hold any number of connections and goroutines of the server.
func TestAttackAClientOfAServiceWaitsWithoutEnd(t *testing.T) {
	s := newServices(t, func(management.Inspector) []rest.Option { return []rest.Option{everybody(), rest.WaitingOfClient(2)} })
	for _, target := range []string{"/v1/job/wait/held?timeout=1h", "/v1/status/wait?timeout=1h"} {
		ctx, cancel := context.WithCancel(within(t))
		answers := make(chan *httptest.ResponseRecorder, 3)
		for range 3 {
			go func() {
				recorder := httptest.NewRecorder()
				s.queue.ServeHTTP(recorder, httptest.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody))
				answers <- recorder
			}()
		}
		refused := <-answers
		assert.Equal(t, http.StatusTooManyRequests, refused.Code, target)
		assert.Equal(t, "30", refused.Header().Get("Retry-After"))
		cancel()
		for range 2 {
			assert.Equal(t, http.StatusRequestTimeout, (<-answers).Code, target)
		}
	}
}

// A request that was canceled before its job was read was answered with 400.
func TestARequestThatEndedWasToldThatItsJobDoesNotExist(t *testing.T) {
	s := newServices(t, func(management.Inspector) []rest.Option { return []rest.Option{everybody()} })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, target := range []string{"/v1/job/held", "/v1/job/status/held", "/v1/job/wait/held"} {
		recorder := httptest.NewRecorder()
		s.queue.ServeHTTP(recorder, httptest.NewRequestWithContext(ended, http.MethodGet, target, http.NoBody))
		assert.Equal(t, http.StatusRequestTimeout, recorder.Code, target)
		assert.NotContains(t, recorder.Body.String(), "does not exist", target)
	}
}

// queueName returns the name of the only queue.
func queueName(t *testing.T, i management.Inspector) string {
	queues, err := i.Queues(t.Context())
	require.NoError(t, err)
	require.Len(t, queues, 1)
	return queues[0].Name
}

func TestAttackAServicePutsAJobOfAnyType(t *testing.T) {
	for _, types := range [][]rest.Option{nil, {rest.CreateTypes("mail")}} {
		s := newServices(t, func(management.Inspector) []rest.Option { return append(types, everybody()) })
		status, body := ask(t, s.queue, http.MethodPost, "/v1/job/create", newForm(t))
		assert.Equal(t, http.StatusForbidden, status, body)
	}
	s := newServices(t, func(management.Inspector) []rest.Option {
		return []rest.Option{rest.CreateTypes("resize"), everybody()}
	})
	status, body := ask(t, s.queue, http.MethodPost, "/v1/job/create", newForm(t))
	assert.Equal(t, http.StatusOK, status, body)
}

// In DNS rebinding, a site lets its own name resolve to the address of the server, and so has
// the same origin.
func TestAttackDNSRebinding(t *testing.T) {
	opts := []rest.Option{everybody(), rest.Hosts("jobs.example", "[::1]", "10.0.0.7")}
	s := newServices(t, func(management.Inspector) []rest.Option { return opts })
	for name, handler := range map[string]http.Handler{
		"queue": s.queue, "management": s.management, "pool": s.pool, "v2": rest.Handler(&tenants{}, opts...),
	} {
		target := map[string]string{"queue": "/v1/status", "management": "/v1/status/all", "pool": "/v1/jobs/list", "v2": "/v2/queues"}[name]
		for host, want := range map[string]int{
			"jobs.example": 200, "JOBS.example:8080": 200, "jobs.example.": 200, "[::1]:80": 200, "10.0.0.7:80": 200,
			"evil.example": 421, "jobs.example.evil.example": 421, "10.0.0.8": 421, "": 421, "evil.example:jobs.example": 421, "[::2]": 421,
		} {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody)
			request.Host = host
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, request)
			assert.Equal(t, want, recorder.Code, "%s %q: %s", name, host, recorder.Body)
			assert.Equal(t, "nosniff", recorder.Header().Get("X-Content-Type-Options"))
		}
	}
	assert.Panics(t, func() { rest.Hosts() })
	assert.Panics(t, func() { rest.Hosts("jobs.example", "") })
}

// The audit list contains the actions of the services, with their actors.
func TestAttackTheServicesLeaveNoTrace(t *testing.T) {
	s := newServices(t, func(i management.Inspector) []rest.Option {
		return []rest.Option{everybody(), rest.CreateTypes("resize"), rest.Audit(i), rest.Actor(func(*http.Request) string { return "eve" })}
	})
	do := func(handler http.Handler, method, target, body string, want int) {
		t.Helper()
		status, answer := ask(t, handler, method, target, body)
		require.Equal(t, want, status, answer)
	}
	do(s.queue, http.MethodPost, "/v1/job/create", newForm(t), http.StatusOK)
	do(s.queue, http.MethodPost, "/v1/job/create", newForm(t), http.StatusBadRequest)
	do(s.pool, http.MethodDelete, "/v1/job/held", "", http.StatusOK)
	do(s.management, http.MethodPost, "/v1/jobs/mark_complete/status/pending", "", http.StatusOK)
	do(s.management, http.MethodPost, "/v1/jobs/mark_complete/id/nothing", "", http.StatusNotFound)
	do(s.queue, http.MethodGet, "/v1/status", "", http.StatusOK)
	do(s.management, http.MethodPost, "/v1/jobs/mark_complete/id/"+strings.Repeat("x", 5000), "", http.StatusBadRequest)
	page, err := s.inspector.Audit(t.Context(), management.AuditFilter{}, management.PageRequest{})
	require.NoError(t, err)
	var got []string
	refused := 0
	for _, e := range page.Entries {
		assert.Equal(t, "eve", e.Actor)
		got = append(got, fmt.Sprintf("%s %s %d", e.What, e.JobID, e.Done))
		refused += e.Refused
	}
	assert.Contains(t, got, "create new 1")
	assert.Contains(t, got, "cancel held 1")
	assert.Contains(t, got, "complete  0")
	assert.Equal(t, 3, refused)
	assert.Contains(t, page.Entries[len(page.Entries)-1].Detail, "/v1/job/create")
}

// Programs that mount the services without options get the legacy behavior.
func TestServicesWithoutOptionsAllowEveryRequest(t *testing.T) {
	s := newServices(t, nil)
	status, body := ask(t, s.queue, http.MethodPost, "/v1/job/create", newForm(t))
	assert.Equal(t, http.StatusOK, status, body)
	status, _ = ask(t, s.management, http.MethodGet, "/v1/status/all", "", "Sec-Fetch-Site", "cross-site")
	assert.Equal(t, http.StatusOK, status)
	page, err := s.inspector.Audit(t.Context(), management.AuditFilter{}, management.PageRequest{})
	require.NoError(t, err)
	assert.Empty(t, page.Entries)
}

func TestAttackAPageOfAnotherSiteReadsAService(t *testing.T) {
	s := newServices(t, func(management.Inspector) []rest.Option { return []rest.Option{everybody()} })
	status, _ := ask(t, s.management, http.MethodGet, "/v1/status/all", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script")
	assert.Equal(t, http.StatusForbidden, status)
}

func TestServicesPanicForUnsupportedOptions(t *testing.T) {
	for name, option := range map[string]rest.Option{
		"Tenant": rest.Tenant("mine"), "Title": rest.Title("Jobs"), "CreateOutside": rest.CreateOutside(),
		"MaskArgs": rest.MaskArgs(func(management.JobRef, string, json.RawMessage) json.RawMessage { return nil }),
	} {
		assert.PanicsWithValue(t, "rest: the option "+name+" is not for a service", func() { rest.NewQueueService().Handler(option) })
	}
	assert.Panics(t, func() { rest.Audit(nil) })
	assert.Panics(t, func() { rest.Audit(&tenants{}) }, "it is not a Recorder")
}

// A request may wait for an hour. It was answered although its token had been revoked.
func TestARequestToAServiceWhoseRightsEndedWhileItWaitedWasAnswered(t *testing.T) {
	asked := 0
	s := newServices(t, func(management.Inspector) []rest.Option {
		return []rest.Option{rest.Authorize(func(*http.Request, rest.Access) error {
			asked++
			if asked > 1 {
				return errNo
			}
			return nil
		})}
	})
	for _, target := range []string{"/v1/job/wait/held?timeout=0s", "/v1/status/wait?timeout=0s"} {
		asked = 0
		status, body := ask(t, s.queue, http.MethodGet, target, "")
		assert.Equal(t, http.StatusForbidden, status, target)
		assert.NotContains(t, body, "pending", target)
	}
}
