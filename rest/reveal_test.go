package rest_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/codec"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/rest"
)

type card struct {
	Number string `json:"number"`
}

var charge = job.DefineResult("reveal-charge", 1, func(_ context.Context, c card) (string, error) {
	return "charged " + c.Number, nil
})

func newEncryptedQueue(t *testing.T) amboy.Queue {
	t.Helper()
	store, err := memory.New(memory.Options{KeepFinished: 10})
	require.NoError(t, err)
	encrypting, err := codec.NewAESGCM(codec.Key{ID: "key", Secret: make([]byte, codec.KeyBytes)})
	require.NoError(t, err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, Name: "cards", NumWorkers: 1, Codec: encrypting})
	require.NoError(t, err)
	t.Cleanup(func() { closeNow(q) })
	require.NoError(t, q.Start(t.Context()))
	_, err = charge.Put(t.Context(), q, card{"4111"}, job.ID("one"))
	require.NoError(t, err)
	_, err = charge.Wait(t.Context(), q, "one")
	require.NoError(t, err)
	return q
}

func body(t *testing.T, handler http.Handler, target string) (status int, text string) {
	t.Helper()
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody))
	return answer.Code, answer.Body.String()
}

func allowAll(*http.Request, rest.Access) error { return nil }

func TestEncryptedJobsAreHiddenUnlessRevealed(t *testing.T) {
	q := newEncryptedQueue(t)
	inspector, err := management.NewInspector(q)
	require.NoError(t, err)
	mask := func(management.JobRef, string, json.RawMessage) json.RawMessage { return nil }
	for name, test := range map[string]struct {
		opts   []rest.Option
		hidden string
	}{
		"by default":        {[]rest.Option{rest.Authorize(allowAll)}, "encrypted"},
		"without the right": {[]rest.Option{rest.Authorize(denyReveal), rest.RevealEncrypted()}, "encrypted"},
		"with the right":    {[]rest.Option{rest.Authorize(allowAll), rest.RevealEncrypted()}, ""},
		"masked":            {[]rest.Option{rest.Authorize(allowAll), rest.RevealEncrypted(), rest.MaskArgs(mask)}, "masked"},
	} {
		t.Run(name, func(t *testing.T) {
			handler := rest.Handler(inspector, test.opts...)
			for _, target := range []string{"/v2/queues/cards/jobs/one", "/v2/queues/cards/jobs/one/result", "/queues/cards/jobs/one"} {
				status, text := body(t, handler, target)
				require.Equal(t, http.StatusOK, status, text)
				if test.hidden == "" {
					assert.Contains(t, text, "4111", target)
				} else {
					assert.NotContains(t, text, "4111", target)
					assert.Contains(t, text, test.hidden, target)
				}
			}
		})
	}
}

func denyReveal(_ *http.Request, access rest.Access) error {
	if access.Action == rest.ActionReveal {
		return errors.New("no")
	}
	return nil
}

// The access names the job.
func TestRevealIsAskedForTheJob(t *testing.T) {
	inspector, err := management.NewInspector(newEncryptedQueue(t))
	require.NoError(t, err)
	var asked []rest.Access
	handler := rest.Handler(inspector, rest.RevealEncrypted(), rest.Authorize(func(_ *http.Request, access rest.Access) error {
		asked = append(asked, access)
		return nil
	}))
	body(t, handler, "/v2/queues/cards/jobs/one")
	assert.Equal(t, []rest.Access{
		{Action: rest.ActionRead, Queue: "cards", ID: "one"},
		{Action: rest.ActionReveal, Queue: "cards", ID: "one"},
	}, asked)
}

// What another process shows to this one is hidden from its clients.
func TestAHandlerOfAClientHidesEncryptedJobs(t *testing.T) {
	inspector, err := management.NewInspector(newEncryptedQueue(t))
	require.NoError(t, err)
	server := httptest.NewServer(rest.Handler(inspector, rest.Authorize(allowAll), rest.RevealEncrypted()))
	defer server.Close()
	client, err := rest.NewClient(server.URL, server.Client())
	require.NoError(t, err)
	j, err := client.Job(t.Context(), "cards", "one")
	require.NoError(t, err)
	assert.JSONEq(t, `{"number":"4111"}`, string(j.Args))
	assert.True(t, j.Encrypted)
	_, text := body(t, rest.Handler(client, rest.Authorize(allowAll)), "/v2/queues/cards/jobs/one")
	assert.NotContains(t, text, "4111")
	assert.Contains(t, text, `"args_hidden":"encrypted"`)
}

func TestAQueueServiceHidesEncryptedJobs(t *testing.T) {
	service := rest.NewQueueService()
	require.NoError(t, service.SetQueue(newEncryptedQueue(t)))
	for name, opts := range map[string][]rest.Option{
		"open":              nil,
		"by default":        {rest.Authorize(allowAll)},
		"without the right": {rest.Authorize(denyReveal), rest.RevealEncrypted()},
	} {
		t.Run(name, func(t *testing.T) {
			handler := service.Handler(opts...)
			status, text := body(t, handler, "/v1/job/one")
			assert.Equal(t, http.StatusForbidden, status)
			assert.Contains(t, text, `job \"one\" is encrypted`)
			for _, target := range []string{"/v1/job/status/one", "/v1/job/wait/one"} {
				status, text = body(t, handler, target)
				assert.Equal(t, http.StatusOK, status)
				assert.Contains(t, text, `"completed":true`)
				assert.Contains(t, text, `"job":null`)
			}
		})
	}
	handler := service.Handler(rest.Authorize(allowAll), rest.RevealEncrypted())
	for _, target := range []string{"/v1/job/one", "/v1/job/status/one", "/v1/job/wait/one"} {
		_, text := body(t, handler, target)
		assert.Contains(t, text, "4111", target)
	}
}
