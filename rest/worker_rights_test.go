package rest_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/rest"
)

// leased leases the job of a queue, and returns its token.
func (w *workers) leased(queueName, jobType string) string {
	w.Helper()
	status, answer := w.post("/v2/leases", fmt.Sprintf(`{"queues":[%q],"types":[%q]}`, queueName, jobType))
	require.Equal(w, http.StatusOK, status)
	require.Len(w, answer["jobs"], 1)
	return answer["jobs"].([]any)[0].(map[string]any)["token"].(string)
}

// as returns the same service with other options.
func (w *workers) as(opts ...rest.Option) *workers {
	w.Helper()
	inspector, err := management.NewGroupInspector(w.group)
	require.NoError(w, err)
	other := *w
	other.handler = rest.Handler(inspector, append([]rest.Option{rest.CreateOutside(), rest.Workers(w.dispatcher)}, opts...)...)
	return &other
}

func (w *workers) isRunning(queueName, id string) {
	w.Helper()
	r, err := w.store.Get(w.Context(), queueName, id)
	require.NoError(w, err)
	assert.Equal(w, amboy.StateRunning, driver.StateOf(r, time.Now()))
}

// A request may wait for ten minutes. It received a job although its token had been revoked.
func TestAWorkerWhoseRightsEndedWhileItWaitedGotAJob(t *testing.T) {
	w := newWorkers(t)
	w.create("images", `{"id":"secret","type":"scale","outside":true}`)
	asked := 0
	limited := w.as(rest.Authorize(func(*http.Request, rest.Access) error {
		asked++
		if asked > 1 {
			return errNo
		}
		return nil
	}))
	status, problem := limited.post("/v2/leases", `{"queues":["images"],"types":["scale"],"wait":"1m"}`)
	assert.Equal(t, http.StatusForbidden, status)
	assert.Equal(t, "urn:amboy:problem:denied", problem["type"])
	w.leased("images", "scale")
}

// Authorize was asked about acknowledgements and heartbeats without the type of the job.
func TestAWorkerOfATypeEndedAJobOfAnother(t *testing.T) {
	w := newWorkers(t)
	w.create("images", `{"id":"secret","type":"audit","outside":true}`)
	token := w.leased("images", "audit")
	limited := w.as(rest.Authorize(func(_ *http.Request, access rest.Access) error {
		if access.Action != rest.ActionWork || access.Type == "audit" {
			return errNo
		}
		return nil
	}))
	for path, body := range map[string]string{
		"/v2/leases/acknowledge": `{"acknowledge":[{"token":%q,"complete":{}}]}`,
		"/v2/leases/heartbeat":   `{"heartbeats":[{"token":%q,"progress":{"fraction":0.5}}]}`,
	} {
		status, problem := limited.post(path, fmt.Sprintf(body, token))
		assert.Equal(t, http.StatusForbidden, status, path)
		assert.Equal(t, "urn:amboy:problem:denied", problem["type"], path)
	}
	_, answer := limited.post("/v2/leases", fmt.Sprintf(`{"queues":["images"],"types":["scale"],"acknowledge":[{"token":%q,"complete":{}}]}`, token))
	assert.Equal(t, []any{"urn:amboy:problem:denied"}, typesOf(answer["acknowledged"]))
	w.isRunning("images", "secret")
}

// typesOf returns the types of the problems of answers; nil for those without one.
func typesOf(answers any) (types []any) {
	list, _ := answers.([]any)
	for _, one := range list {
		problem, _ := one.(map[string]any)["problem"].(map[string]any)
		types = append(types, problem["type"])
	}
	return types
}

// The other leases were not renewed then, and ran out.
func TestALeaseThatIsNotAllowedRefusedTheWholeRequest(t *testing.T) {
	w := newWorkers(t)
	for _, queueName := range both {
		w.create(queueName, `{"id":"one","type":"scale","outside":true}`)
	}
	own, other := w.leased(mine, "scale"), w.leased(theirs, "scale")
	ofMine := w.as(everybody(), rest.Tenant(mine))
	unknown := "urn:amboy:problem:unknown-queue"
	status, answer := ofMine.post("/v2/leases/heartbeat", fmt.Sprintf(`{"heartbeats":[{"token":%q},{"token":%q},{"token":"x"}]}`, other, own))
	require.Equal(t, http.StatusOK, status, "%v", answer)
	assert.Equal(t, []any{unknown, nil, "urn:amboy:problem:invalid-token"}, typesOf(answer["heartbeats"]))
	assert.Contains(t, answer["heartbeats"].([]any)[1], "lease_ends")

	status, answer = ofMine.post("/v2/leases", fmt.Sprintf(`{"queues":["mine"],"types":["scale"],"acknowledge":[{"token":%q,"complete":{}}]}`, other))
	require.Equal(t, http.StatusOK, status, "%v", answer)
	assert.Equal(t, []any{unknown}, typesOf(answer["acknowledged"]))

	status, answer = ofMine.post("/v2/leases/acknowledge", fmt.Sprintf(`{"acknowledge":[{"token":%q,"complete":{}},{"token":%q,"complete":{}}]}`, other, own))
	require.Equal(t, http.StatusOK, status, "%v", answer)
	assert.Equal(t, []any{unknown, nil}, typesOf(answer["acknowledged"]))
	assert.Equal(t, true, answer["acknowledged"].([]any)[1].(map[string]any)["done"])
	w.isRunning(theirs, "one")
}
