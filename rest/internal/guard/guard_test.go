package guard_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/guard"
)

// oneJob is an Inspector that contains one job.
type oneJob struct {
	management.Inspector
	job management.Job
}

func (o oneJob) Job(context.Context, string, string) (management.Job, error) { return o.job, nil }

func (o oneJob) FindJobs(context.Context, management.JobFilter, management.PageRequest) (management.JobPage, error) {
	return management.JobPage{Jobs: []management.JobSummary{o.job.JobSummary}}, nil
}

func everything(*http.Request, guard.Access) error { return nil }

func request(t *testing.T) *http.Request {
	return httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", http.NoBody)
}

func TestMaskArgs(t *testing.T) {
	tests := []struct {
		name         string
		mask         guard.MaskArgs
		args, result string // empty if hidden
		hidden       string
	}{
		{name: "none", args: `{"password":"secret"}`, result: `"secret"`},
		{
			name:   "replaced",
			mask:   func(management.JobRef, string, json.RawMessage) json.RawMessage { return json.RawMessage(`"***"`) },
			args:   `"***"`,
			result: `"***"`,
		},
		{
			name:   "hidden",
			mask:   func(management.JobRef, string, json.RawMessage) json.RawMessage { return nil },
			hidden: "masked",
		},
		{
			name:   "not JSON",
			mask:   func(management.JobRef, string, json.RawMessage) json.RawMessage { return json.RawMessage(`secret`) },
			hidden: "masking failed",
		},
		{
			name:   "panic",
			mask:   func(management.JobRef, string, json.RawMessage) json.RawMessage { panic("no") },
			hidden: "masking failed",
		},
		{
			name: "changed in place",
			mask: func(_ management.JobRef, _ string, args json.RawMessage) json.RawMessage {
				for i := range args {
					args[i] = '1'
				}
				return args
			},
			args:   "111111111111111111111",
			result: "11111111",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			stored := management.Job{Result: json.RawMessage(`"secret"`)}
			stored.Args = json.RawMessage(`{"password":"secret"}`)
			stored.JobRef, stored.Type = management.JobRef{Queue: "q", ID: "one"}, "login"
			mask := test.mask
			if mask != nil {
				mask = func(job management.JobRef, jobType string, args json.RawMessage) json.RawMessage {
					assert.Equal(t, stored.JobRef, job)
					assert.Equal(t, "login", jobType)
					return test.mask(job, jobType, args)
				}
			}
			g := guard.New(guard.Options{Inspector: oneJob{job: stored}, Authorize: everything, MaskArgs: mask})
			job, err := g.Inspector(request(t)).Job(t.Context(), "q", "one")
			require.NoError(t, err)
			assert.Equal(t, test.args, string(job.Args))
			assert.Equal(t, test.result, string(job.Result))
			assert.Equal(t, test.hidden, job.ArgsHidden)
			assert.Equal(t, test.hidden == "" && test.mask != nil, job.ArgsMasked)
			assert.Equal(t, test.hidden, job.ResultHidden)
			page, err := g.Inspector(request(t)).FindJobs(t.Context(), management.JobFilter{}, management.PageRequest{Args: true})
			require.NoError(t, err)
			assert.Equal(t, test.args, string(page.Jobs[0].Args))
			assert.Equal(t, test.hidden, page.Jobs[0].ArgsHidden)
			assert.JSONEq(t, `{"password":"secret"}`, string(stored.Args)) //nolint:testifylint // Both are JSON.
		})
	}
}

func TestMaskArgsIsNotCalledWithoutArgs(t *testing.T) {
	g := guard.New(guard.Options{
		Inspector: oneJob{job: management.Job{JobSummary: management.JobSummary{ArgsHidden: "the job runs"}}},
		Authorize: everything,
		MaskArgs:  func(management.JobRef, string, json.RawMessage) json.RawMessage { panic("MaskArgs must not be called") },
	})
	job, err := g.Inspector(request(t)).Job(t.Context(), "q", "one")
	require.NoError(t, err)
	assert.Equal(t, "the job runs", job.ArgsHidden)
}

// illStore is an Inspector with findings about two queues and the store.
type illStore struct{ management.Inspector }

func (illStore) Diagnose(context.Context) (management.Diagnosis, error) {
	return management.Diagnosis{Queues: 7, MoreQueues: true, Findings: []management.Finding{
		{Kind: management.PausedQueue, Subject: management.Subject{InQueue: true, Queue: "a"}},
		{Kind: management.PausedQueue, Subject: management.Subject{InQueue: true, Queue: "b"}},
		{Kind: management.MissingIndex, Subject: management.Subject{Name: "next_job"}},
		{Kind: management.OldProcess, Subject: management.Subject{Process: "host-1"}},
	}}, nil
}

func TestDiagnosisForATenantIsAboutItsQueue(t *testing.T) {
	diagnose := func(inspector management.Inspector, tenant string, authorize guard.Authorize) (management.Diagnosis, error) {
		opts := guard.Options{Inspector: inspector, Authorize: authorize}
		if tenant != "" {
			opts.Tenant = func(*http.Request) string { return tenant }
		}
		g := guard.New(opts)
		return g.Inspector(request(t)).(management.Diagnostician).Diagnose(t.Context())
	}
	all, err := diagnose(illStore{}, "", everything)
	require.NoError(t, err)
	assert.Len(t, all.Findings, 4)
	own, err := diagnose(illStore{}, "a", everything)
	require.NoError(t, err)
	assert.Equal(t, management.Diagnosis{Queues: 1, Findings: all.Findings[:1]}, own)
	_, err = diagnose(illStore{}, "", nil)
	var denied *guard.DeniedError
	require.ErrorAs(t, err, &denied)
	_, err = diagnose(oneJob{}, "", everything)
	require.ErrorIs(t, err, management.ErrUnsupported)
}

func TestPanicOfAuthorizeDeniesAccess(t *testing.T) {
	g := guard.New(guard.Options{Inspector: oneJob{}, Authorize: func(*http.Request, guard.Access) error { panic("no") }})
	_, err := g.Inspector(request(t)).Job(t.Context(), "q", "one")
	var denied *guard.DeniedError
	require.ErrorAs(t, err, &denied)
	assert.Equal(t, guard.Access{Action: guard.Read, Queue: "q", ID: "one"}, denied.Access)
	assert.NotContains(t, denied.Text(), "panicked")
}

func TestDeniedError(t *testing.T) {
	reason := errors.New("the reason")
	g := guard.New(guard.Options{Inspector: oneJob{}, Authorize: func(*http.Request, guard.Access) error { return reason }})
	_, err := g.Inspector(request(t)).Queues(t.Context())
	require.ErrorIs(t, err, reason)
	require.EqualError(t, err, "read on all queues is not allowed: the reason")
	_, err = g.Inspector(request(t)).Queue(t.Context(), "q")
	require.EqualError(t, err, `read on queue "q" is not allowed: the reason`)
	assert.ErrorIs(t, g.Check(request(t), guard.Read), reason)
}

func TestMay(t *testing.T) {
	g := guard.New(guard.Options{Inspector: oneJob{}, Authorize: func(_ *http.Request, access guard.Access) error {
		if access != (guard.Access{Action: "retry", Queue: "q"}) {
			return errors.New("no")
		}
		return nil
	}})
	assert.True(t, g.May(request(t), "retry", "q"))
	assert.False(t, g.May(request(t), "retry", "other"))
	assert.False(t, g.May(request(t), "retry", ""))
	assert.False(t, g.May(request(t), "cancel", "q"))
}

// TestAuthorizeIsNotCalledForUnknownActions checks that unknown actions are refused first.
func TestAuthorizeIsNotCalledForUnknownActions(t *testing.T) {
	g := guard.New(guard.Options{Inspector: oneJob{}, Authorize: func(*http.Request, guard.Access) error { panic("Authorize must not be called") }})
	var argument *management.InvalidArgumentError
	_, err := g.Inspector(request(t)).ActOn(t.Context(), "q", "one", management.Action{Kind: "explode"})
	require.ErrorAs(t, err, &argument)
	_, err = g.Inspector(request(t)).Act(t.Context(), management.ActRequest{Action: management.Action{Kind: "read"}, Limit: 1})
	require.ErrorAs(t, err, &argument)
}

func TestActions(t *testing.T) {
	assert.Equal(t, []guard.Action{"read", "create", "control", "work", "reveal", "schedule", "trigger", "edit", "retry", "cancel", "park", "release", "reschedule", "prioritize", "complete", "abandon", "delete"}, guard.Actions())
}

// TestAuthorizeIsNotCalledForTooManyQueues checks that a request with too many queues is
// refused before Authorize is called for each of them.
func TestAuthorizeIsNotCalledForTooManyQueues(t *testing.T) {
	asked := 0
	g := guard.New(guard.Options{Authorize: func(*http.Request, guard.Access) error {
		asked++
		return nil
	}})
	inspector, ctx := g.Inspector(request(t)), t.Context()
	queues := make([]string, management.MaxFilterValues+1)
	filter := management.JobFilter{Queues: queues}
	_, errFind := inspector.FindJobs(ctx, filter, management.PageRequest{})
	_, errCount := inspector.CountJobs(ctx, filter, 1)
	_, errScopes := inspector.Scopes(ctx, management.ScopeFilter{Queues: queues}, management.PageRequest{})
	_, errActivity := inspector.Activity(ctx, management.ActivityRequest{Queues: queues})
	_, errAct := inspector.Act(ctx, management.ActRequest{Action: management.Action{Kind: management.Retry}, Filter: filter, Limit: 1})
	for _, err := range []error{errFind, errCount, errScopes, errActivity, errAct} {
		var argument *management.InvalidArgumentError
		require.ErrorAs(t, err, &argument)
		assert.Equal(t, "queues", argument.Field)
	}
	assert.Zero(t, asked)
}
