package rest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/inspectortest"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/rest"
)

// newAbortable returns a queue that can abort its jobs.
func newAbortable() (amboy.Queue, error) {
	q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1})
	if err == nil {
		err = q.SetRunner(pool.NewAbortablePool(100, q))
	}
	return q, err
}

// abortable returns a queue that runs jobs, and its pool.
func abortable(t *testing.T, ids ...string) (amboy.Queue, amboy.AbortableRunner) {
	q, err := newAbortable()
	require.NoError(t, err)
	require.NoError(t, q.Start(t.Context()))
	t.Cleanup(func() { closeNow(q) })
	run(t, q, ids...)
	return q, q.Runner().(amboy.AbortableRunner)
}

func closeNow(q amboy.Queue) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	q.Close(ended)
}

// run puts jobs that run until they are aborted, and waits until they run.
func run(t *testing.T, q amboy.Queue, ids ...string) {
	for _, id := range ids {
		j, began := holding(t, id)
		require.NoError(t, q.Put(t.Context(), j))
		<-began
	}
}

// poolExchanges returns the exchanges with a pool that runs two jobs, a/1 and b.
func poolExchanges(notRunning int, group string) []exchange {
	unknown := `{"name": "nobody", "status": "not running", "error": "the job is not running"}`
	return []exchange{
		{name: "list", target: "/v1/jobs/list", status: 200, answer: `["a/1", "b"]`},
		{name: "get", target: "/v1/job/a%2F1", status: 200, answer: `{"name": "a/1", "status": "running"` + group + `}`},
		{name: "get unknown", target: "/v1/job/nobody", status: 404, answer: unknown},
		{name: "abort unknown", method: "DELETE", target: "/v1/job/nobody", status: notRunning, answer: unknown},
		{name: "ID not UTF-8", method: "DELETE", target: "/v1/job/%FF", status: 400},
		{name: "method", method: "POST", target: "/v1/jobs/abort", status: 405, allow: "DELETE"},
		{name: "another site", method: "DELETE", target: "/v1/jobs/abort", header: http.Header{"Sec-Fetch-Site": {"cross-site"}}, status: 403},
		{name: "another site, one", method: "DELETE", target: "/v1/job/b", header: http.Header{"Origin": {"https://evil.example"}}, status: 403},
		{name: "still there", target: "/v1/jobs/list", status: 200, answer: `["a/1", "b"]`},
		{name: "abort", method: "DELETE", target: "/v1/job/a%2F1", status: 200, answer: `{"name": "a/1", "status": "aborted"` + group + `}`},
		{name: "list one", target: "/v1/jobs/list", status: 200, answer: `["b"]`},
		{name: "abort all", method: "DELETE", target: "/v1/jobs/abort", status: 200, answer: `{}`},
		{name: "abort none", method: "DELETE", target: "/v1/jobs/abort", status: 200, answer: `{}`},
		{name: "list none", target: "/v1/jobs/list", status: 200, answer: `[]`},
	}
}

func TestAbortablePoolManagementService(t *testing.T) {
	q, runner := abortable(t, "a/1", "b")
	for _, e := range poolExchanges(400, "") {
		t.Run(e.name, func(t *testing.T) { e.check(t, rest.NewAbortablePoolManagementService(runner).Handler()) })
	}
	require.True(t, amboy.Wait(within(t), q))
	for info := range q.JobInfo(t.Context()) {
		assert.Equal(t, amboy.StateCanceled, info.State)
	}
}

func TestManagementGroupService(t *testing.T) {
	group, err := queue.NewLocalQueueGroup(t.Context(), queue.LocalQueueGroupOptions{
		DefaultQueue: queue.LocalQueueOptions{Constructor: func(context.Context) (amboy.Queue, error) { return newAbortable() }},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		assert.NoError(t, group.Close(ctx))
	})
	for name, ids := range map[string][]string{"one": {"a/1"}, "two": {"b"}, "three": nil} {
		q, err := group.Get(t.Context(), name)
		require.NoError(t, err)
		run(t, q, ids...)
	}
	plain := queue.NewLocalLimitedSize(1, 1) // can't abort jobs
	require.NoError(t, plain.Start(t.Context()))
	require.NoError(t, group.Put(t.Context(), "plain", plain))
	for _, e := range poolExchanges(404, `, "group": "one"`) {
		t.Run(e.name, func(t *testing.T) { e.check(t, rest.NewManagementGroupService(group).Handler()) })
	}
}

// TestManagementGroupServiceSameID aborts an ID in all queues that run a job with it.
func TestManagementGroupServiceSameID(t *testing.T) {
	group, err := queue.NewLocalQueueGroup(t.Context(), queue.LocalQueueGroupOptions{
		DefaultQueue: queue.LocalQueueOptions{Constructor: func(context.Context) (amboy.Queue, error) { return newAbortable() }},
	})
	require.NoError(t, err)
	for _, name := range []string{"two", "one"} {
		q, err := group.Get(t.Context(), name)
		require.NoError(t, err)
		run(t, q, "same")
	}
	// A group of another package implements only amboy.QueueGroup.
	handler := rest.NewManagementGroupService(foreignGroup{group}).Handler()
	for _, e := range []exchange{
		{target: "/v1/jobs/list", status: 200, answer: `["same", "same"]`},
		{method: "DELETE", target: "/v1/job/same", status: 200, answer: `{"name": "same", "status": "aborted", "group": "one"}`},
		{target: "/v1/jobs/list", status: 200, answer: `[]`},
	} {
		e.check(t, handler)
	}
	require.NoError(t, group.Close(within(t)))
}

type foreignGroup struct{ amboy.QueueGroup }

// TestManagementGroupServiceOpensNothing checks that a queue is not opened because another
// process has put jobs in it.
func TestManagementGroupServiceOpensNothing(t *testing.T) {
	store, err := memory.New(memory.Options{KeepFinished: 10})
	require.NoError(t, err)
	elsewhere, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, Name: "tenant", NumWorkers: 1})
	require.NoError(t, err)
	require.NoError(t, elsewhere.Put(t.Context(), newResize("one", "")))
	defer elsewhere.Close(t.Context())
	group, err := queue.NewDriverGroup(t.Context(), queue.DriverGroupOptions{
		DefaultQueue:              queue.DriverQueueOptions{Driver: store, NumWorkers: 1},
		BackgroundCreateFrequency: queue.NoBackgroundCreate, // it would open queues that have work
	})
	require.NoError(t, err)
	require.Equal(t, []string{"tenant"}, group.Queues(t.Context()))
	list := exchange{target: "/v1/jobs/list", status: 200, answer: `[]`}
	list.check(t, rest.NewManagementGroupService(group).Handler())
	assert.Zero(t, group.Len())
	require.NoError(t, group.Close(within(t)))
}

func TestServicesOfNil(t *testing.T) {
	for _, handler := range []http.Handler{
		rest.NewAbortablePoolManagementService(nil).Handler(),
		rest.NewManagementGroupService(nil).Handler(),
	} {
		for _, e := range []exchange{
			{target: "/v1/jobs/list", status: 503},
			{target: "/v1/job/one", status: 503},
			{method: "DELETE", target: "/v1/job/one", status: 503},
			{method: "DELETE", target: "/v1/jobs/abort", status: 503},
		} {
			e.check(t, handler)
		}
	}
}

// slowPool runs a job that does not end when it is aborted.
type slowPool struct{ amboy.AbortableRunner }

func (slowPool) IsRunning(string) bool { return true }

func (slowPool) Abort(ctx context.Context, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

func (p slowPool) AbortAll(ctx context.Context) error { return p.Abort(ctx, "") }

// An abort that does not finish before the request ends is answered with 408.
func TestAbortUntilTheRequestEnds(t *testing.T) {
	handler := rest.NewAbortablePoolManagementService(slowPool{}).Handler()
	for _, target := range []string{"/v1/job/one", "/v1/jobs/abort"} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		recorded := httptest.NewRecorder()
		handler.ServeHTTP(recorded, httptest.NewRequestWithContext(ctx, http.MethodDelete, target, http.NoBody))
		assert.Equal(t, http.StatusRequestTimeout, recorded.Code)
		assert.JSONEq(t, `{"error": "the request ended before it completed"}`, recorded.Body.String())
	}
}

func TestAbortablePoolManagementClient(t *testing.T) {
	_, runner := abortable(t, inspectortest.OddIDs...)
	client := rest.NewAbortablePoolManagementClient(serve(t, rest.NewAbortablePoolManagementService(runner).Handler()))
	ctx := within(t)
	ids, err := client.ListJobs(ctx)
	require.NoError(t, err)
	assert.ElementsMatch(t, inspectortest.OddIDs, ids)
	for _, id := range inspectortest.OddIDs[:len(inspectortest.OddIDs)-1] {
		var running bool
		running, err = client.IsRunning(ctx, id)
		require.NoError(t, err)
		assert.True(t, running, "%q", id)
		require.NoError(t, client.AbortJob(ctx, id), "%q", id)
		running, err = client.IsRunning(ctx, id)
		require.NoError(t, err)
		assert.False(t, running, "%q", id)
		assert.True(t, amboy.IsJobNotFoundError(client.AbortJob(ctx, id)), "%q", id)
	}
	require.NoError(t, client.AbortAllJobs(ctx))
	ids, err = client.ListJobs(ctx)
	require.NoError(t, err)
	assert.Empty(t, ids)
	_, err = client.IsRunning(ctx, "")
	require.Error(t, err)
	require.Error(t, client.AbortJob(ctx, ""))

	group := rest.NewAbortablePoolManagementClientFromExisting(&http.Client{}, serve(t, rest.NewManagementGroupService(nil).Handler()))
	var response *rest.ResponseError
	require.ErrorAs(t, group.AbortJob(ctx, "one"), &response)
	assert.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
}
