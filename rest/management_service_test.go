package rest_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/inspectortest"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest"
)

func TestManagementService(t *testing.T) {
	const complete = "/v1/jobs/mark_complete/"
	badFilter := `{"error": "filter must be one of [\"pending\" \"in-progress\" \"stale\" \"completed\" \"retrying\" \"stale-retrying\" \"all\"] (is \"done\")",
		"field": "filter", "value": "done", "rule": "must be one of [\"pending\" \"in-progress\" \"stale\" \"completed\" \"retrying\" \"stale-retrying\" \"all\"]"}`
	for _, e := range []exchange{
		{name: "count", target: "/v1/status/all", status: 200, answer: `[{"Type": "resize", "Group": "", "Count": 3}]`},
		{name: "count none", target: "/v1/status/in-progress", status: 200, answer: `[]`},
		{name: "list", target: "/v1/id/status/pending/type/resize", status: 200, answer: `[{"ID": "tonight/ü"}]`},
		{name: "list several", target: "/v1/id/status/completed/type/resize", status: 200, answer: `[{"ID": "done"}, {"ID": "failed"}]`},
		{name: "list none", target: "/v1/id/status/all/type/other", status: 200, answer: `[]`},
		{name: "one", method: "POST", target: complete + "id/tonight%2F%C3%BC", status: 200, answer: `{"message": "marked the job complete", "job_name": "tonight/ü"}`},
		{name: "one that has ended", method: "POST", target: complete + "id/done", status: 200, answer: `{"message": "marked the job complete", "job_name": "done"}`},
		{name: "all", method: "POST", target: complete + "status/all", status: 200, answer: `{"message": "marked the jobs complete"}`},
		{name: "type", method: "POST", target: complete + "status/pending/type/resize", status: 200, answer: `{"message": "marked the jobs of the type complete", "job_type": "resize"}`},
		{name: "pattern", method: "POST", target: complete + "status/pending/pattern/ton.*%2F%5B%C3%BC%5D", status: 200, answer: `{"message": "marked the jobs with matching IDs complete"}`},

		{name: "no such job", method: "POST", target: complete + "id/nobody", status: 404},
		{name: "count, filter", target: "/v1/status/done", status: 400, answer: badFilter},
		{name: "count, filter not UTF-8", target: "/v1/status/%FF", status: 400},
		{name: "list, filter", target: "/v1/id/status/done/type/resize", status: 400, answer: badFilter},
		{name: "list, type not UTF-8", target: "/v1/id/status/all/type/%FF", status: 400},
		{name: "list, long type", target: "/v1/id/status/all/type/" + strings.Repeat("x", 5000), status: 400},
		{name: "one, ID not UTF-8", method: "POST", target: complete + "id/%FF", status: 400},
		{name: "one, long ID", method: "POST", target: complete + "id/" + strings.Repeat("x", 5000), status: 400},
		{name: "one, no ID", method: "POST", target: complete + "id/", status: 404},
		{name: "all, filter", method: "POST", target: complete + "status/done", status: 400, answer: badFilter},
		{name: "type, filter", method: "POST", target: complete + "status/done/type/resize", status: 400, answer: badFilter},
		{name: "pattern, filter", method: "POST", target: complete + "status/done/pattern/x", status: 400, answer: badFilter},
		{name: "pattern", method: "POST", target: complete + "status/all/pattern/%5B", status: 400, answer: `{"error": "pattern must be a regular expression: missing closing ]: ` + "`[`" + ` (is \"[\")", "field": "pattern", "value": "[", "rule": "must be a regular expression: missing closing ]: ` + "`[`" + `"}`},
		{name: "pattern, long", method: "POST", target: complete + "status/all/pattern/" + strings.Repeat("x", 1025), status: 400},
		{name: "pattern, large", method: "POST", target: complete + "status/all/pattern/" + url.PathEscape("(((x{1000}){1000}){1000}){1000}"), status: 400},
		{name: "GET", target: complete + "status/all", status: 405, allow: "POST"},
		{name: "DELETE", method: "DELETE", target: "/v1/status/all", status: 405, allow: "GET, HEAD"},
		{name: "no such route", target: "/", status: 404},
		{name: "another site", method: "POST", target: complete + "status/all", header: map[string][]string{"Sec-Fetch-Site": {"cross-site"}}, status: 403},
	} {
		t.Run(e.name, func(t *testing.T) {
			_, q := newService(t)
			e.check(t, rest.NewManagementService(management.NewQueueManager(q)).Handler())
			completes := e.method == "POST" && e.status == 200 && e.name != "one that has ended"
			assert.Equal(t, completes, q.Stats(t.Context()).IsIdle(), "nothing else must change")
		})
	}
}

// TestManagementServiceFilters checks that each route accepts each filter.
func TestManagementServiceFilters(t *testing.T) {
	for _, filter := range management.ValidStatusFilters() {
		for _, e := range []exchange{
			{target: "/v1/status/" + string(filter), status: 200},
			{target: "/v1/id/status/" + string(filter) + "/type/resize", status: 200},
			{method: "POST", target: "/v1/jobs/mark_complete/status/" + string(filter), status: 200},
			{method: "POST", target: "/v1/jobs/mark_complete/status/" + string(filter) + "/type/resize", status: 200},
			{method: "POST", target: "/v1/jobs/mark_complete/status/" + string(filter) + "/pattern/x", status: 200},
		} {
			t.Run(e.target, func(t *testing.T) {
				_, q := newService(t)
				e.check(t, rest.NewManagementService(management.NewQueueManager(q)).Handler())
			})
		}
	}
}

// brokenManager fails, or panics.
type brokenManager struct {
	management.Manager
	err error
}

func (m brokenManager) CompleteJobs(context.Context, management.StatusFilter) error {
	if m.err == nil {
		panic("broken")
	}
	return m.err
}

func TestManagementServiceFailures(t *testing.T) {
	internal := `{"error": "internal error; the log of the service has the details"}`
	for _, test := range []struct {
		name    string
		manager management.Manager
		exchange
	}{
		{"error", brokenManager{err: errors.New("dialing secret.example")}, exchange{status: 500, answer: internal}},
		{"panic", brokenManager{}, exchange{status: 500, answer: internal}},
		{"closed", brokenManager{err: amboy.ErrQueueClosed}, exchange{status: 503}},
		{"deadline of the store", brokenManager{err: context.DeadlineExceeded}, exchange{status: 500, answer: internal}},
		{"no manager", nil, exchange{status: 503, answer: `{"error": "the service has no manager"}`}},
		{"manager of a nil queue", management.NewQueueManager(nil), exchange{status: 400}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.method, test.target = "POST", "/v1/jobs/mark_complete/status/all"
			test.check(t, rest.NewManagementService(test.manager).Handler())
		})
	}
}

// TestManagementClient compares a client with the manager behind the service.
func TestManagementClient(t *testing.T) {
	q := newQueue(t)
	for _, id := range inspectortest.OddIDs {
		require.NoError(t, q.Put(t.Context(), newResize(id, "")))
	}
	manager := management.NewQueueManager(q)
	base := serve(t, rest.NewManagementService(manager).Handler())
	client := rest.NewManagementClient(base + "/")
	for _, filter := range management.ValidStatusFilters() {
		want, err := manager.JobStatus(t.Context(), filter)
		require.NoError(t, err)
		got, err := client.JobStatus(within(t), filter)
		require.NoError(t, err)
		assert.Equal(t, want, got)
		wantIDs, err := manager.JobIDsByState(t.Context(), "resize", filter)
		require.NoError(t, err)
		gotIDs, err := client.JobIDsByState(within(t), "resize", filter)
		require.NoError(t, err)
		assert.Equal(t, wantIDs, gotIDs)
	}
	for i, id := range inspectortest.OddIDs {
		require.NoError(t, client.CompleteJob(within(t), id), "%q", id)
		assert.Equal(t, i+1, q.Stats(t.Context()).Completed, "%q", id)
	}
	require.NoError(t, q.PutMany(t.Context(), []amboy.Job{newResize("x/1", ""), newResize("x/2", ""), newResize("y", ""), newResize("z", "")}))
	require.NoError(t, client.CompleteJobsByPattern(within(t), management.Pending, `x/[12]|y?`))
	assert.Equal(t, 1, q.Stats(t.Context()).Pending)
	require.NoError(t, client.CompleteJobsByType(within(t), management.Pending, "resize"))
	assert.Equal(t, 0, q.Stats(t.Context()).Pending)
	require.NoError(t, client.CompleteJobs(within(t), management.All))
}

// TestManagementClientErrors checks that the client returns the errors of the manager.
func TestManagementClientErrors(t *testing.T) {
	q := newQueue(t)
	manager := management.NewQueueManager(q)
	client := rest.NewManagementClient(serve(t, rest.NewManagementService(manager).Handler()))
	for name, call := range map[string]func(management.Manager) error{
		"status": func(m management.Manager) error { _, err := m.JobStatus(within(t), "x"); return err },
		"list":   func(m management.Manager) error { _, err := m.JobIDsByState(within(t), "", "all"); return err },
		"type":   func(m management.Manager) error { return m.CompleteJobsByType(within(t), "all", "") },
		"ID":     func(m management.Manager) error { return m.CompleteJob(within(t), "") },
		"all":    func(m management.Manager) error { return m.CompleteJobs(within(t), "") },
		"regexp": func(m management.Manager) error { return m.CompleteJobsByPattern(within(t), "all", "(") },
		"empty":  func(m management.Manager) error { return m.CompleteJobsByPattern(within(t), "all", "") },
	} {
		t.Run(name, func(t *testing.T) {
			var want, got *management.InvalidArgumentError
			require.ErrorAs(t, call(manager), &want)
			require.ErrorAs(t, call(client), &got)
			assert.Equal(t, want, got)
		})
	}
	err := client.CompleteJob(within(t), "nobody")
	assert.True(t, amboy.IsJobNotFoundError(err))
	var response *rest.ResponseError
	require.ErrorAs(t, err, &response)
	assert.Equal(t, 404, response.StatusCode)
	assert.Equal(t, "POST", response.Method)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, client.CompleteJob(ended, "nobody"), context.Canceled)
	wrong := rest.NewManagementClientFromExisting(nil, serve(t, rest.NewQueueService().Handler())+"/nowhere")
	err = wrong.CompleteJob(within(t), "one")
	require.ErrorAs(t, err, &response)
	assert.False(t, amboy.IsJobNotFoundError(err), "the service does not exist, so the job may")
	require.Error(t, rest.NewManagementClient("::").CompleteJob(within(t), "one"))
}
