package rest_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/inspectortest"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest"
)

// everybody allows everything.
func everybody() rest.Option {
	return rest.Authorize(func(*http.Request, rest.Access) error { return nil })
}

// newInspectorClient returns a client of a handler that is mounted below a prefix.
func newInspectorClient(t testing.TB, inspector management.Inspector, opts ...rest.Option) *rest.Client {
	client, err := rest.NewClient(serve(t, rest.Handler(inspector, append([]rest.Option{everybody(), rest.CreateTypes("resize", "no such")}, opts...)...)), nil)
	require.NoError(t, err)
	return client
}

// TestClientReturnsWhatTheInspectorReturns compares the results of a client with those of the
// local Inspector.
func TestClientReturnsWhatTheInspectorReturns(t *testing.T) {
	inspector := inspectortest.NewWorld(t)
	client := newInspectorClient(t, inspector)
	filter := management.JobFilter{
		Queues: inspectortest.Queues, States: amboy.JobStates(), Types: []string{"resize"}, IDPattern: "*a*", Created: management.TimeRange{From: newYear},
		Due: management.TimeRange{To: time.Now().Add(2 * time.Hour)},
	}
	asks := map[string]func(management.Inspector) (any, error){
		"queues": func(i management.Inspector) (any, error) { return i.Queues(t.Context()) },
		"found queues": func(i management.Inspector) (any, error) {
			page, err := i.FindQueues(t.Context(), management.QueueFilter{Name: "A", Queues: inspectortest.Queues}, management.PageRequest{Limit: 1})
			page.Next = withoutRandom(page.Next)
			return page, err
		},
		"totals": func(i management.Inspector) (any, error) { return i.SumQueues(t.Context()) },
		"count":  func(i management.Inspector) (any, error) { return i.CountJobs(t.Context(), filter, 5) },
		"states": func(i management.Inspector) (any, error) {
			return i.CountStates(t.Context(), management.StateCountRequest{Filter: filter, Most: 5, Within: management.MaxCountTime})
		},
		"scopes": func(i management.Inspector) (any, error) {
			return i.Scopes(t.Context(), management.ScopeFilter{Queues: inspectortest.Queues[:1], Name: "ledger"}, management.PageRequest{})
		},
		"schedules": func(i management.Inspector) (any, error) { return i.Schedules(t.Context()) },
		"diagnosis": func(i management.Inspector) (any, error) {
			diagnosis, err := i.(management.Diagnostician).Diagnose(t.Context())
			diagnosis.Time = time.Time{}
			return diagnosis, err
		},
		"audit": func(i management.Inspector) (any, error) {
			page, err := i.Audit(t.Context(), management.AuditFilter{}, management.PageRequest{Limit: 3})
			page.Next = withoutRandom(page.Next)
			return page, err
		},
		"errors": func(i management.Inspector) (any, error) {
			return i.ErrorGroups(t.Context(), management.ErrorGroupRequest{Filter: management.JobFilter{Queues: inspectortest.Queues, States: amboy.JobStates()}, Limit: 2})
		},
		"jobs": func(i management.Inspector) (any, error) {
			page, err := i.FindJobs(t.Context(), filter, management.PageRequest{Limit: 3, Newest: true, Args: true})
			page.Next = withoutRandom(page.Next)
			return page, err
		},
		"activity": func(i management.Inspector) (any, error) {
			activity, err := i.Activity(t.Context(), management.ActivityRequest{Queues: inspectortest.Queues[:2], Types: []string{"resize"}, Last: 3 * time.Hour})
			for i := range activity.Rows {
				activity.Rows[i].PerSecond = 0 // depends on the time of the request
			}
			return activity.Rows, err
		},
		"graph": func(i management.Inspector) (any, error) {
			return i.Graph(t.Context(), inspectortest.Queues[0], "dependent", 2)
		},
	}
	for _, queue := range inspectortest.Queues {
		asks["queue "+queue] = func(i management.Inspector) (any, error) { return i.Queue(t.Context(), queue) }
		for _, id := range append([]string{"failed", "panicked", "running", "blocked", "dependent", "canceled"}, inspectortest.OddIDs...) {
			asks["job "+queue+"/"+id] = func(i management.Inspector) (any, error) {
				job, err := i.Job(t.Context(), queue, id)
				require.NotEmpty(t, job.Timeline)
				job.Timeline = nil // contains the time of the request
				return job, err
			}
		}
	}
	for name, ask := range asks {
		local, err := ask(inspector)
		require.NoError(t, err, name)
		remote, err := ask(client)
		require.NoError(t, err, name)
		want, err := json.Marshal(local)
		require.NoError(t, err)
		got, err := json.Marshal(remote)
		require.NoError(t, err)
		assert.JSONEq(t, strings.ReplaceAll(string(want), "null", "[]"), strings.ReplaceAll(string(got), "null", "[]"), name)
	}
	processes, err := client.Processes(t.Context())
	require.NoError(t, err)
	assert.NotEmpty(t, processes)
}

// withoutRandom replaces a cursor with a constant, because equal cursors differ.
func withoutRandom(cursor string) string {
	if cursor == "" {
		return ""
	}
	return "more"
}

// numbersFrom is an Inspector whose attempts have known numbers.
type numbersFrom struct {
	management.Inspector
	attempt int
}

func (n numbersFrom) summary() management.JobSummary {
	return management.JobSummary{Attempt: n.attempt}
}

func (n numbersFrom) Job(context.Context, string, string) (management.Job, error) {
	return management.Job{
		JobSummary: n.summary(),
		Errors:     []amboy.AttemptError{{Attempt: n.attempt, Bookkeeping: true}},
		Attempts:   []management.Attempt{{Number: n.attempt}},
	}, nil
}

func (n numbersFrom) FindJobs(context.Context, management.JobFilter, management.PageRequest) (management.JobPage, error) {
	return management.JobPage{Jobs: []management.JobSummary{n.summary()}}, nil
}

func (n numbersFrom) Processes(context.Context) ([]management.Process, error) {
	return []management.Process{{Running: []management.JobSummary{n.summary()}}}, nil
}

func TestV2CountsAttemptsFromOne(t *testing.T) {
	url := serve(t, rest.Handler(numbersFrom{}, everybody()))
	for path, want := range map[string]string{
		"/v2/queues/q/jobs/j": `"attempt":1,`,
		"/v2/jobs":            `"attempt":1}`,
		"/v2/processes":       `"attempt":1}`,
	} {
		response, err := http.Get(url + path) //nolint:noctx // It is a test's own server.
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Contains(t, string(body), want, path)
		assert.NotContains(t, string(body), `"attempt":0`, path)
		assert.NotContains(t, string(body), `"number":0`, path)
	}

	client, err := rest.NewClient(url, nil)
	require.NoError(t, err)
	job, err := client.Job(t.Context(), "q", "j")
	require.NoError(t, err)
	assert.Zero(t, job.Attempt)
	assert.Zero(t, job.Errors[0].Attempt)
	assert.True(t, job.Errors[0].Bookkeeping)
	assert.Zero(t, job.Attempts[0].Number)
}

func TestClientActs(t *testing.T) {
	inspector := inspectortest.NewWorld(t)
	client := newInspectorClient(t, inspector, rest.Actor(func(*http.Request) string { return "ann" }))
	ctx := within(t)

	control, err := client.SetControl(ctx, "_tenant", management.ControlChange{Paused: new(true), MaxRunning: new(3)})
	require.NoError(t, err)
	assert.Equal(t, management.Control{Paused: true, MaxRunning: 3}, control)

	limited := management.Control{Paused: true, MaxRunning: 3, Rate: &amboy.Rate{PerSecond: 0.1, Burst: 2}}
	control, err = client.SetControl(ctx, "_tenant", management.ControlChange{Rate: limited.Rate})
	require.NoError(t, err)
	assert.Equal(t, limited, control)
	control, err = client.SetControl(ctx, "_tenant", management.ControlChange{NoRate: true})
	require.NoError(t, err)
	assert.Nil(t, control.Rate)

	for _, id := range inspectortest.OddIDs {
		var acted management.Acted
		acted, err = client.ActOn(ctx, "a/b ü", id, management.Action{Kind: management.Park, Reason: "later"})
		require.NoError(t, err, id)
		assert.Equal(t, management.Acted{Done: 1}, acted, id)
		var job management.Job
		job, err = inspector.Job(ctx, "a/b ü", id)
		require.NoError(t, err)
		assert.Equal(t, amboy.StateParked, job.State)
	}
	request := management.ActRequest{Action: management.Action{Kind: management.Release}, Filter: management.JobFilter{Queues: []string{"a/b ü"}, IDs: inspectortest.OddIDs[:3]}, Limit: 100, DryRun: true}
	acted, err := client.Act(ctx, request)
	require.NoError(t, err)
	assert.Equal(t, management.Acted{Done: 3, States: management.StateCounts{Parked: 3}}, acted)
	request.DryRun = false
	acted, err = client.Act(ctx, request)
	require.NoError(t, err)
	assert.Equal(t, management.Acted{Done: 3}, acted)

	audit, err := client.Audit(ctx, management.AuditFilter{}, management.PageRequest{Limit: 1})
	require.NoError(t, err)
	require.Len(t, audit.Entries, 1)
	assert.Equal(t, "ann", audit.Entries[0].Actor)
	assert.Equal(t, "release", audit.Entries[0].What)

	job := management.NewJob{Queue: "orders", Type: "resize", Args: json.RawMessage(`{"path":"made"}`), Priority: 3, IdempotencyKey: "key-1"}
	created, err := client.CreateJob(ctx, job)
	require.NoError(t, err)
	assert.False(t, created.Repeated)
	again, err := client.CreateJob(ctx, job)
	require.NoError(t, err)
	assert.Equal(t, management.Created{JobRef: created.JobRef, Repeated: true}, again)
	made, err := client.Job(ctx, created.Queue, created.ID)
	require.NoError(t, err)
	assert.Equal(t, 3, made.Priority)
}

func TestClientErrors(t *testing.T) {
	inspector := inspectortest.NewWorld(t)
	client := newInspectorClient(t, inspector)
	ctx := within(t)
	one := func(_ any, err error) error { return err }
	invalid := func(field string) func(error) bool {
		return func(err error) bool {
			var argument *management.InvalidArgumentError
			return errors.As(err, &argument) && argument.Field == field && argument.Rule != ""
		}
	}
	is := func(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }
	_, err := client.SetControl(ctx, "_tenant", management.ControlChange{Draining: new(true)})
	require.NoError(t, err)
	tests := []struct {
		name  string
		err   error
		check func(error) bool
	}{
		{"no job", one(client.Job(ctx, "orders", "nothing")), amboy.IsJobNotFoundError},
		{"no job to act on", one(client.ActOn(ctx, "orders", "nothing", management.Action{Kind: management.Retry})), amboy.IsJobNotFoundError},
		{"no queue", one(client.Queue(ctx, "nowhere")), is(management.ErrUnknownQueue)},
		{"taken", one(client.CreateJob(ctx, management.NewJob{Queue: "orders", Type: "resize", ID: "failed"})), amboy.IsDuplicateJobError},
		{"draining", one(client.CreateJob(ctx, management.NewJob{Queue: "_tenant", Type: "resize"})), is(amboy.ErrQueueDraining)},
		{"type", one(client.CreateJob(ctx, management.NewJob{Queue: "orders", Type: "no such"})), invalid("type")},
		{"args", one(client.CreateJob(ctx, management.NewJob{Queue: "orders", Type: "resize", Args: json.RawMessage("{")})), invalid("args")},
		{"key", one(client.CreateJob(ctx, management.NewJob{Queue: "orders", Type: "resize", IdempotencyKey: "a\nb"})), invalid("idempotency_key")},
		{"limit", one(client.FindJobs(ctx, management.JobFilter{}, management.PageRequest{Limit: -1})), invalid("limit")},
		{"cursor", one(client.FindJobs(ctx, management.JobFilter{}, management.PageRequest{Cursor: "x"})), invalid("cursor")},
		{"most", one(client.CountJobs(ctx, management.JobFilter{}, 0)), invalid("most")},
		{"time", one(client.CountStates(ctx, management.StateCountRequest{Within: time.Minute})), invalid("within")},
		{"distance", one(client.Graph(ctx, "orders", "failed", 0)), invalid("distance")},
		{"empty ID", one(client.Job(ctx, "orders", "")), invalid("id")},
		{"action", one(client.ActOn(ctx, "orders", "failed", management.Action{Kind: "explode"})), invalid("action")},
		{"many", one(client.Act(ctx, management.ActRequest{Action: management.Action{Kind: management.Retry}, All: true})), invalid("limit")},
		{"state", one(client.ActOn(ctx, "orders", "succeeded", management.Action{Kind: management.Park})), func(err error) bool {
			var state *management.StateError
			return errors.As(err, &state) && state.State == amboy.StateSucceeded && state.Action == management.Park && state.Rule != "" && state.Job.ID == "succeeded"
		}},
	}
	var taken *amboy.DuplicateJobError
	require.ErrorAs(t, one(client.CreateJob(ctx, management.NewJob{Queue: "orders", Type: "resize", ID: "failed"})), &taken)
	assert.Equal(t, amboy.DuplicateJobError{JobID: "failed", Reason: amboy.DuplicateID, Value: "failed", ExistingID: "failed"}, *taken)
	for _, test := range tests {
		require.Error(t, test.err, test.name)
		assert.True(t, test.check(test.err), "%s: %v", test.name, test.err)
	}
	denied := newInspectorClient(t, inspector, may(nil))
	_, err = denied.Queues(ctx)
	var response *rest.ResponseError
	require.ErrorAs(t, err, &response)
	assert.Equal(t, http.StatusForbidden, response.StatusCode)
	assert.Equal(t, "read on all queues is not allowed", response.Message)
}

func TestNewClientRefuses(t *testing.T) {
	for _, url := range []string{"", "localhost:8080", "ftp://host", "http://", "http://host?x=1", "http://host#x", "http://ho st", "://"} {
		_, err := rest.NewClient(url, nil)
		var argument *management.InvalidArgumentError
		require.ErrorAs(t, err, &argument, url)
		assert.Equal(t, "URL", argument.Field)
	}
	_, err := rest.NewClient("ftp://user:secret@host", nil)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "secret")
}

func TestWithToken(t *testing.T) {
	handler := rest.Handler(&tenants{}, rest.Authorize(func(r *http.Request, _ rest.Access) error {
		if r.Header.Get("Authorization") != "Bearer s3cret" {
			return errNo
		}
		return nil
	}))
	url := serve(t, handler)
	with, err := rest.NewClient(url, nil, rest.WithToken("s3cret"))
	require.NoError(t, err)
	_, err = with.Queues(within(t))
	require.NoError(t, err)
	without, err := rest.NewClient(url, nil)
	require.NoError(t, err)
	_, err = without.Queues(within(t))
	require.Error(t, err)
}

func TestClientWatches(t *testing.T) {
	inspector := inspectortest.NewWorld(t)
	client := newInspectorClient(t, inspector)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	times := 0
	for all, err := range client.Watch(ctx, management.MinWatch) {
		require.NoError(t, err)
		require.Len(t, all, len(inspectortest.Queues))
		if all[0].Control.Paused {
			cancel() // ends the watch without an error
		}
		times++
		if times == 1 {
			_, err = inspector.SetControl(ctx, all[0].Name, management.ControlChange{Paused: new(true)})
			require.NoError(t, err)
		}
	}
	assert.Greater(t, times, 1)
	require.ErrorIs(t, ctx.Err(), context.Canceled)

	for _, err := range client.Watch(within(t), time.Nanosecond) {
		var argument *management.InvalidArgumentError
		require.ErrorAs(t, err, &argument)
		assert.Equal(t, "every", argument.Field)
	}
}

// TestWatchEndsWithTheServer checks that a watching request does not delay the shutdown of a
// server, and that the client gets an error.
func TestWatchEndsWithTheServer(t *testing.T) {
	inspector := inspectortest.NewWorld(t)
	server := httptest.NewServer(rest.Handler(inspector, everybody()))
	defer server.Close()
	client, err := rest.NewClient(server.URL, nil)
	require.NoError(t, err)
	var last error
	for _, err := range client.Watch(within(t), time.Second) {
		if err == nil {
			go func() { _ = server.Config.Shutdown(within(t)) }()
		}
		last = err
	}
	require.ErrorIs(t, last, io.ErrUnexpectedEOF)
}

// The request can't be encoded. That looked like a failure of the service, and not like a wrong argument.
func TestARateThatIsNoNumberWasAFailureOfTheClient(t *testing.T) {
	client := newInspectorClient(t, inspectortest.NewWorld(t))
	_, err := client.SetControl(t.Context(), "orders", management.ControlChange{Rate: &amboy.Rate{PerSecond: math.Inf(1)}})
	var invalid *management.InvalidArgumentError
	require.ErrorAs(t, err, &invalid)
	assert.Equal(t, "rate", invalid.Field)
}
