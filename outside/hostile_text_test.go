package outside_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest"
)

// service is the HTTP API of a fixture.
type service struct {
	*fixture
	handler http.Handler
}

func (f *fixture) service() *service {
	f.Helper()
	inspector, err := management.NewGroupInspector(f.group)
	require.NoError(f, err)
	return &service{f, rest.Handler(inspector, rest.CreateOutside(), rest.Workers(f.dispatcher),
		rest.Authorize(func(*http.Request, rest.Access) error { return nil }))}
}

// ask sends a request, whose answer must not be an internal error, and returns its status and answer.
func (s *service) ask(method, target string, body any) (status int, answer map[string]any) {
	s.Helper()
	encoded, err := json.Marshal(body)
	require.NoError(s, err)
	request := httptest.NewRequestWithContext(s.ctx, method, target, bytes.NewReader(encoded))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	s.handler.ServeHTTP(recorder, request)
	assert.Less(s, recorder.Code, 500, "%s %.100s %.300s: %s", method, target, encoded, recorder.Body)
	require.NoError(s, json.Unmarshal(recorder.Body.Bytes(), &answer), "%s", recorder.Body)
	return recorder.Code, answer
}

// problemsOf returns the internal errors among the answers to the parts of a request.
func problemsOf(answer map[string]any, list string) (problems []any) {
	answers, _ := answer[list].([]any)
	for _, one := range answers {
		problem, _ := one.(map[string]any)["problem"].(map[string]any)
		if status, _ := problem["status"].(float64); status >= 500 {
			problems = append(problems, problem)
		}
	}
	return problems
}

type object = map[string]any

// A key of the metadata with a zero byte, the scopes of a queue with one in its name, and the number of
// workers of a queue with a long name were answered with 500, as if the service were broken.
func TestATextThatAStoreCanNotKeepIsNoInternalError(t *testing.T) {
	texts := []string{"a\x00b", "$a.b", strings.Repeat("é", 500)}
	onEach(t, func(f *fixture) {
		s := f.service()
		for n, text := range texts {
			s.create(n, text)
			s.work(n, text)
			s.find(text)
		}
	})
}

func (s *service) create(n int, text string) {
	s.Helper()
	for i, more := range []object{
		{"type": text},
		{"id": text},
		{"tags": []string{text}},
		{"metadata": object{text: "v"}},
		{"metadata": object{"k": text}},
		{"scopes": []string{text}},
		{"scopes": []string{text}, "enqueue_scopes": true},
		{"unique_key": text},
		{"after": []string{text}},
		{"args": text},
		{"args": object{text: 1}},
		{"bytes": []byte(text)},
	} {
		job := object{"type": "texts", "outside": true, "id": fmt.Sprint("job-", n, "-", i)}
		for key, value := range more {
			job[key] = value
		}
		s.ask(http.MethodPost, "/v2/queues/created/jobs", job)
	}
	name := url.PathEscape(text)
	s.ask(http.MethodPost, "/v2/queues/"+name+"/jobs", object{"type": "texts", "outside": true})
	s.control(name)
	s.ask(http.MethodPatch, "/v2/queues/created", object{"type_limit": object{"type": text, "max_running": 1000}})
	s.ask(http.MethodPost, "/v2/queues/created/schedules", object{"name": text, "type": "texts", "outside": true, "every": "1h"})
	s.ask(http.MethodPost, "/v2/queues/created/schedules", object{"name": fmt.Sprint("s", n), "type": text, "outside": true, "every": "1h"})
	s.ask(http.MethodPost, "/v2/queues/created/schedules", object{"name": fmt.Sprint("t", n), "type": "texts", "outside": true, "every": "1h", "tags": []string{text}, "metadata": object{text: text}})
	for _, action := range []string{"park", "cancel"} {
		s.ask(http.MethodPost, fmt.Sprintf("/v2/queues/created/jobs/job-%d-4/actions", n), object{"action": action, "reason": text})
	}
	s.ask(http.MethodGet, fmt.Sprintf("/v2/queues/created/jobs/job-%d-4", n), nil)
}

// control changes a queue, its schedules and its jobs.
func (s *service) control(name string) {
	s.Helper()
	queue := "/v2/queues/" + name
	for _, change := range []object{
		{"workers": 2},
		{"paused": true},
		{"draining": true},
		{"max_running": 3},
		{"rate": object{"per_second": 5}},
		{"type_limit": object{"type": "texts", "max_running": 3}},
		{"paused": false, "draining": false},
	} {
		s.ask(http.MethodPatch, queue, change)
	}
	s.ask(http.MethodPost, queue+"/schedules", object{"name": "hourly", "type": "texts", "outside": true, "every": "1h"})
	s.ask(http.MethodPut, queue+"/schedules/hourly", object{"type": "texts", "outside": true, "every": "2h"})
	s.ask(http.MethodPatch, queue+"/schedules/hourly", object{"paused": true})
	s.ask(http.MethodPost, queue+"/schedules/hourly/trigger", nil)
	s.ask(http.MethodDelete, queue+"/schedules/hourly", nil)
	for _, id := range []string{"job", name} {
		s.ask(http.MethodPatch, queue+"/jobs/"+id, object{"priority": 3})
		s.ask(http.MethodPost, queue+"/jobs/"+id+"/actions", object{"action": "prioritize", "priority": 3})
		s.ask(http.MethodDelete, queue+"/jobs/"+id, nil)
	}
}

func (s *service) work(n int, text string) {
	s.Helper()
	for i := range 8 {
		s.ask(http.MethodPost, "/v2/queues/worked/jobs", object{"type": "texts", "outside": true, "id": fmt.Sprint("job-", n, "-", i), "max_attempts": 2, "backoff": object{"wait": "1h"}})
	}
	s.ask(http.MethodPost, "/v2/leases", object{"queues": []string{text}, "types": []string{"texts"}})
	s.ask(http.MethodPost, "/v2/leases", object{"queues": []string{"worked"}, "types": []string{text}})
	s.ask(http.MethodPost, "/v2/leases", object{"queues": []string{"nothing"}, "types": []string{"texts"}, "worker": text})
	var leased []any
	var answer object
	for len(leased) < 8 {
		_, answer = s.ask(http.MethodPost, "/v2/leases", object{"queues": []string{"worked"}, "types": []string{"texts"}, "limit": 8, "wait": "20s"})
		some, _ := answer["jobs"].([]any)
		require.NotEmpty(s, some)
		leased = append(leased, some...)
	}
	token := func(i int) any { return leased[i].(map[string]any)["token"] }
	_, answer = s.ask(http.MethodPost, "/v2/leases/heartbeat", object{"heartbeats": []object{
		{"token": token(0), "progress": object{"fraction": 0.5, "message": text}},
		{"token": token(1), "log": []string{text}},
		{"token": text},
	}})
	assert.Empty(s, problemsOf(answer, "heartbeats"), "%q", text)
	_, answer = s.ask(http.MethodPost, "/v2/leases/acknowledge", object{"acknowledge": []object{
		{"token": token(0), "complete": object{"result": text}},
		{"token": token(1), "complete": object{"result": object{text: text}}},
		{"token": token(2), "fail": object{"error": text, "stack": text}},
		{"token": token(3), "fail": object{"error": text, "permanent": true}},
		{"token": token(4), "release": object{"reason": text, "delay": "1h"}},
		{"token": token(5), "checkpoint": object{"args": object{text: text}}},
		{"token": token(6), "checkpoint": object{"bytes": []byte(text)}},
		{"token": text, "complete": object{}},
	}})
	assert.Empty(s, problemsOf(answer, "acknowledged"), "%q", text)
	for i := range 8 {
		status, _ := s.ask(http.MethodGet, fmt.Sprintf("/v2/queues/worked/jobs/job-%d-%d", n, i), nil)
		assert.Equal(s, http.StatusOK, status)
	}
}

func (s *service) find(text string) {
	s.Helper()
	value := url.QueryEscape(text)
	for _, field := range []string{"queues", "types", "tags", "ids", "id_pattern", "id_part", "type_part", "tag_part", "error", "error_group", "scope"} {
		for _, target := range []string{"/v2/jobs?", "/v2/jobs/count?"} {
			s.ask(http.MethodGet, target+field+"="+value, nil)
		}
		filter := object{field: text}
		if strings.HasSuffix(field, "s") {
			filter[field] = []string{text}
		}
		s.ask(http.MethodPost, "/v2/jobs/actions", object{"action": "prioritize", "priority": 3, "filter": filter, "limit": 10, "dry_run": true})
	}
	path := url.PathEscape(text)
	for _, target := range []string{
		"/v2/queues?name=" + value, "/v2/queues?queues=" + value, "/v2/scopes?name=" + value, "/v2/scopes?queues=" + value,
		"/v2/audit?queues=" + value, "/v2/audit?actors=" + value, "/v2/audit?what=" + value, "/v2/audit?job_id=" + value,
		"/v2/activity?queues=" + value, "/v2/activity?types=" + value, "/v2/schedules/stored?name=" + value, "/v2/schedules/stored?queues=" + value,
		"/v2/queues/" + path, "/v2/queues/" + path + "/jobs/" + path, "/v2/queues/" + path + "/jobs/" + path + "/graph",
		"/v2/queues/" + path + "/jobs/" + path + "/result", "/v2/queues/created/jobs/" + path, "/v2/queues/created/schedules/" + path,
	} {
		s.ask(http.MethodGet, target, nil)
	}
}
