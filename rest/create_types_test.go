package rest_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/registry"
	"github.com/mongodb/amboy/rest"
	"github.com/mongodb/amboy/rest/internal/names"
)

// The right to put jobs must not be the right to run any program: one of the registered types
// of this process runs shell commands.
func TestAttackAJobOfATypeThatRunsCommandsIsPut(t *testing.T) {
	create := func(jobType string) sample {
		return sample{target: "/v2/queues/QUEUE/jobs", body: `{"id":"new","type":"` + jobType + `"}`}
	}
	inspector := &tenants{}
	for name, test := range map[string]struct {
		opts []rest.Option
		may  []string
	}{
		"no types are named":   {nil, nil},
		"an empty list":        {[]rest.Option{rest.CreateTypes()}, nil},
		"types are named":      {[]rest.Option{rest.CreateTypes("resize", "mail")}, []string{"resize", "mail"}},
		"named in two options": {[]rest.Option{rest.CreateTypes("resize"), rest.CreateTypes("mail")}, []string{"resize", "mail"}},
	} {
		t.Run(name, func(t *testing.T) {
			handler := rest.Handler(inspector, append(test.opts, everybody())...)
			for _, jobType := range []string{"resize", "mail", "shell", "", "Resize", "resize ", "group", strings.Repeat("x", 100_000)} {
				inspector.did = nil
				got := create(jobType).ask(t, handler, http.MethodPost, mine, nil)
				if slices.Contains(test.may, jobType) {
					assert.Equal(t, http.StatusCreated, got.status, jobType)
					continue
				}
				want := http.StatusForbidden
				if jobType == "" {
					want = http.StatusBadRequest
				}
				assert.Equal(t, want, got.status, jobType)
				assert.Empty(t, inspector.done())
				assert.Less(t, len(got.body), 2000)
			}
		})
	}
}

// badge is a hand-written job type whose type a queue can't set, so its stored form decides which
// type it claims to have.
type badge struct {
	job.Base `json:"job_base"`
}

// SetType hides the method of job.Base.
func (*badge) SetType() {}

func (b *badge) Run(context.Context) { b.MarkComplete() }

// tag is a hand-written job type whose ID a queue can't set.
type tag struct {
	job.Base `json:"job_base"`
}

// SetID hides the method of job.Base.
func (*tag) SetID() {}

func (n *tag) Run(context.Context) { n.MarkComplete() }

func init() {
	registry.AddJobType("badge", func() amboy.Job {
		b := &badge{}
		b.JobType = amboy.JobType{Name: "badge"}
		return b
	})
	registry.AddJobType("tag", func() amboy.Job {
		n := &tag{}
		n.JobType = amboy.JobType{Name: "tag"}
		return n
	})
}

// The type that Authorize and CreateTypes decide about must be the one that is put.
func TestAttackTheArgumentsOfAJobNameAnotherType(t *testing.T) {
	const claim = `{"job_base":{"name":"new","job_type":{"name":"resize","version":1}}}`
	s := newServices(t, func(management.Inspector) []rest.Option {
		return []rest.Option{rest.CreateTypes("badge"), everybody()}
	})
	name := queueName(t, s.inspector)
	v2 := rest.Handler(s.inspector, rest.CreateTypes("badge"), everybody())
	for what, r := range map[string]struct {
		handler      http.Handler
		target, body string
	}{
		"v1": {s.queue, "/v1/job/create", `{"name":"one","type":"badge","job":` + strings.ReplaceAll(claim, "new", "one") + `}`},
		"v2": {v2, "/v2/queues/" + names.Encode(name) + "/jobs", `{"id":"new","type":"badge","args":` + claim + `}`},
	} {
		status, body := ask(t, r.handler, http.MethodPost, r.target, r.body)
		assert.Equal(t, http.StatusBadRequest, status, "%s: %s", what, body)
	}
	put, err := s.inspector.FindJobs(t.Context(), management.JobFilter{IDs: []string{"one", "new"}}, management.PageRequest{})
	require.NoError(t, err)
	assert.Empty(t, put.Jobs)
	honest := strings.ReplaceAll(claim, `"resize","version":1`, `"badge"`)
	status, body := ask(t, v2, http.MethodPost, "/v2/queues/"+names.Encode(name)+"/jobs", `{"id":"new","type":"badge","args":`+honest+`}`)
	assert.Equal(t, http.StatusCreated, status, body)
}

var _ = job.Declare[map[string]string]("declared", 1)

// CreateOutside is for types that this process does not know. A declared type is known, and a
// Go process may run its jobs.
func TestAttackADeclaredTypeIsPutWithoutBeingNamed(t *testing.T) {
	w := newWorkers(t)
	const body = `{"id":"one","type":"declared","outside":true}`
	status, _ := w.post("/v2/queues/images/jobs", body)
	assert.Equal(t, http.StatusForbidden, status)
	_, err := w.store.Get(t.Context(), "images", "one")
	assert.True(t, amboy.IsJobNotFoundError(err), "%v", err)

	w = newWorkers(t, rest.CreateTypes("declared"))
	status, answer := w.post("/v2/queues/images/jobs", body)
	assert.Equal(t, http.StatusCreated, status, "%v", answer)
}

// The ID that Authorize decides about must be the one that is put.
func TestAttackTheBodyOfAJobNamesAnotherID(t *testing.T) {
	s := newServices(t, func(management.Inspector) []rest.Option {
		return []rest.Option{rest.CreateTypes("tag"), everybody()}
	})
	status, body := ask(t, s.queue, http.MethodPost, "/v1/job/create", `{"name":"mine","type":"tag","job":{"job_base":{"name":"reserved","job_type":{"name":"tag"}}}}`)
	assert.Equal(t, http.StatusBadRequest, status, body)
	_, err := s.inspector.Job(t.Context(), queueName(t, s.inspector), "reserved")
	assert.True(t, amboy.IsJobNotFoundError(err), "%v", err)
}

// A job that may be put must not come with a dependency that reveals whether a file of the
// server exists.
func TestAttackADependencyTellsWhetherAFileExists(t *testing.T) {
	s := newServices(t, func(management.Inspector) []rest.Option {
		return []rest.Option{rest.CreateTypes("resize"), everybody()}
	})
	for _, dep := range []dependency.Manager{dependency.NewCreatesFile("/etc/passwd"), dependency.NewLocalFile("/etc/passwd")} {
		j := newResize("new", "")
		j.SetDependency(dep)
		form, err := registry.MakeJobInterchange(j, amboy.JSON)
		require.NoError(t, err)
		encoded, err := json.Marshal(form)
		require.NoError(t, err)
		status, body := ask(t, s.queue, http.MethodPost, "/v1/job/create", string(encoded))
		assert.Equal(t, http.StatusForbidden, status, body)
		_, err = s.inspector.Job(t.Context(), queueName(t, s.inspector), "new")
		assert.True(t, amboy.IsJobNotFoundError(err), "%v", err)
	}
}

// Authorize can decide by the ID and the type of the job.
func TestAuthorizeReceivesTheJob(t *testing.T) {
	var mu sync.Mutex
	var asked []rest.Access
	handler := rest.Handler(&tenants{}, rest.CreateTypes("resize", "mail"), rest.Authorize(func(_ *http.Request, access rest.Access) error {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, access)
		if access.Type == "mail" || access.ID == "secret" {
			return errors.New("reserved for other users")
		}
		return nil
	}))
	for _, test := range []struct {
		method, target, body string
		status               int
		access               rest.Access
	}{
		{http.MethodPost, "/v2/queues/mine/jobs", `{"id":"new","type":"resize"}`, http.StatusCreated, rest.Access{Action: rest.ActionCreate, Queue: mine, ID: "new", Type: "resize"}},
		{http.MethodPost, "/v2/queues/mine/jobs", `{"id":"new","type":"mail"}`, http.StatusForbidden, rest.Access{Action: rest.ActionCreate, Queue: mine, ID: "new", Type: "mail"}},
		{http.MethodPost, "/v2/queues/mine/jobs", `{"id":"secret","type":"resize"}`, http.StatusForbidden, rest.Access{Action: rest.ActionCreate, Queue: mine, ID: "secret", Type: "resize"}},
		{http.MethodPost, "/v2/queues/mine/jobs/one/actions", `{"action":"park"}`, http.StatusOK, rest.Access{Action: rest.Action(management.Park), Queue: mine, ID: "one"}},
		{http.MethodPost, "/v2/queues/mine/jobs/secret/actions", `{"action":"park"}`, http.StatusForbidden, rest.Access{Action: rest.Action(management.Park), Queue: mine, ID: "secret"}},
		{http.MethodDelete, "/v2/queues/mine/jobs/secret", ``, http.StatusForbidden, rest.Access{Action: rest.Action(management.Delete), Queue: mine, ID: "secret"}},
		{http.MethodGet, "/v2/queues/mine/jobs/secret", ``, http.StatusForbidden, rest.Access{Action: rest.ActionRead, Queue: mine, ID: "secret"}},
		{http.MethodGet, "/v2/queues/mine/jobs/secret/graph", ``, http.StatusForbidden, rest.Access{Action: rest.ActionRead, Queue: mine, ID: "secret"}},
		{http.MethodGet, "/queues/mine/jobs/secret", ``, http.StatusForbidden, rest.Access{Action: rest.ActionRead, Queue: mine, ID: "secret"}},
		{http.MethodGet, "/v2/jobs?queues=mine&ids=secret", ``, http.StatusOK, rest.Access{Action: rest.ActionRead, Queue: mine}},
		{http.MethodPost, "/v2/jobs/actions", `{"action":"park","filter":{"queues":["mine"],"ids":["secret"]},"limit":1}`, http.StatusOK, rest.Access{Action: rest.Action(management.Park), Queue: mine}},
		{http.MethodGet, "/v2/queues/mine", ``, http.StatusOK, rest.Access{Action: rest.ActionRead, Queue: mine}},
	} {
		asked = nil
		got := sample{target: test.target, body: test.body}.ask(t, handler, test.method, "", nil)
		assert.Equal(t, test.status, got.status, got.body)
		assert.Equal(t, []rest.Access{test.access}, asked, test.target)
	}
}
