package rest_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest"
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
				allowed := false
				for _, may := range test.may {
					allowed = allowed || may == jobType
				}
				if allowed {
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
		{http.MethodGet, "/v2/queues/mine", ``, http.StatusOK, rest.Access{Action: rest.ActionRead, Queue: mine}},
	} {
		asked = nil
		got := sample{target: test.target, body: test.body}.ask(t, handler, test.method, "", nil)
		assert.Equal(t, test.status, got.status, got.body)
		assert.Equal(t, []rest.Access{test.access}, asked, test.target)
	}
}
