package rest_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/rest"
)

// newEditable returns an inspector of a paused queue with one job.
func newEditable(t *testing.T) management.Inspector {
	t.Helper()
	store, err := memory.New(memory.Options{KeepFinished: 10})
	require.NoError(t, err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, Name: "cards", NumWorkers: 1})
	require.NoError(t, err)
	t.Cleanup(func() { closeNow(q) })
	require.NoError(t, q.(amboy.QueueController).Pause(t.Context()))
	_, err = charge.Put(t.Context(), q, card{Number: "4111"}, job.ID("one"))
	require.NoError(t, err)
	inspector, err := management.NewInspector(q)
	require.NoError(t, err)
	return inspector
}

// mayDo allows some actions.
func mayDo(actions ...rest.Action) rest.Option {
	return rest.Authorize(func(_ *http.Request, access rest.Access) error {
		for _, action := range actions {
			if access.Action == action {
				return nil
			}
		}
		return errors.New("no")
	})
}

func maskNumbers(management.JobRef, string, json.RawMessage) json.RawMessage {
	return json.RawMessage(`{"number":"****"}`)
}

// Arguments may make a job do anything. The right to edit a job does not include to choose them,
// unless the request may put jobs of the type, and sees all that it replaces.
func TestAttackArgumentsAreChangedWithoutTheRight(t *testing.T) {
	types := rest.CreateTypes(charge.Type().Name)
	for name, test := range map[string]struct {
		opts          []rest.Option
		args, others  int // the statuses of edits of arguments, and of others
		page, posting bool
	}{
		"read":                 {[]rest.Option{mayDo(rest.ActionRead), types}, 403, 403, false, false},
		"read and act":         {[]rest.Option{mayDo(rest.ActionRead, "prioritize", "reschedule", "retry", rest.ActionCreate, rest.ActionControl), types}, 403, 403, false, false},
		"no type is allowed":   {[]rest.Option{mayDo(rest.ActionRead, rest.ActionEdit)}, 403, 200, false, true},
		"another type":         {[]rest.Option{mayDo(rest.ActionRead, rest.ActionEdit), rest.CreateTypes("other")}, 403, 200, false, true},
		"without read":         {[]rest.Option{mayDo(rest.ActionEdit), types}, 403, 200, false, false},
		"arguments are masked": {[]rest.Option{mayDo(rest.ActionRead, rest.ActionEdit), types, rest.MaskArgs(maskNumbers)}, 403, 200, false, true},
		"allowed":              {[]rest.Option{mayDo(rest.ActionRead, rest.ActionEdit), types}, 200, 200, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			inspector := newEditable(t)
			handler := rest.Handler(inspector, test.opts...)
			send := func(method, target, kind, body string) (int, string) {
				r := httptest.NewRequest(method, target, strings.NewReader(body))
				r.Header.Set("Content-Type", kind)
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				return w.Code, w.Body.String()
			}
			patch := func(body string) int {
				code, _ := send(http.MethodPatch, "/v2/queues/cards/jobs/one", "application/json", body)
				return code
			}
			assert.Equal(t, test.args, patch(`{"args":{"number":"666"},"dry_run":true}`), "a preview shows the arguments")
			assert.Equal(t, test.args, patch(`{"args":{"number":"666"}}`))
			assert.Equal(t, test.others, patch(`{"priority":1}`))
			assert.Equal(t, http.StatusBadRequest, patch(`{"type":"shell"}`), "the type can't be changed")
			form := url.Values{"step": {"do"}, "args": {`{"number":"667"}`}}
			code, _ := send(http.MethodPost, "/queues/cards/jobs/one/edit", "application/x-www-form-urlencoded", form.Encode())
			assert.Equal(t, test.args == 200, code == http.StatusSeeOther)

			j, err := inspector.Job(t.Context(), "cards", "one")
			require.NoError(t, err)
			want := `{"number":"4111"}`
			if test.args == 200 {
				want = `{"number":"667"}`
			}
			assert.JSONEq(t, want, string(j.Args))
			if code, page := send(http.MethodGet, "/queues/cards/jobs/one/edit", "", ""); code == 200 {
				assert.Equal(t, test.page, strings.Contains(page, `name="args"`))
				assert.Equal(t, test.posting, strings.Contains(page, `name="priority"`))
			}
		})
	}
}

// An operator who copied such a job put one with the masks as its arguments.
func TestTheCopyOfAJobHadMasksForArguments(t *testing.T) {
	allowed := []rest.Option{mayDo(rest.ActionRead, rest.ActionCreate), rest.CreateTypes(charge.Type().Name)}
	get := func(target string, opts ...rest.Option) (int, string) {
		w := httptest.NewRecorder()
		rest.Handler(newEditable(t), opts...).ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, http.NoBody))
		return w.Code, w.Body.String()
	}
	const page, form = "/queues/cards/jobs/one", "/queues/cards/create?like=one"
	_, body := get(page, allowed...)
	assert.Contains(t, body, "create?like=one")
	code, body := get(form, allowed...)
	assert.Equal(t, http.StatusOK, code)
	assert.Contains(t, body, "4111")

	masked := []rest.Option{allowed[0], allowed[1], rest.MaskArgs(maskNumbers)}
	_, body = get(page, masked...)
	assert.NotContains(t, body, "create?like=one")
	assert.Contains(t, body, "Some are masked.")
	code, body = get(form, masked...)
	assert.Equal(t, http.StatusConflict, code)
	assert.NotContains(t, body, "****")
	_, body = get("/v2/queues/cards/jobs/one", masked...)
	assert.Contains(t, body, `"args_masked":true`)
}

// An encrypted job is edited only by requests that may read it.
func TestAttackAnEncryptedJobIsEditedWithoutReveal(t *testing.T) {
	inspector, err := management.NewInspector(newEncryptedQueue(t))
	require.NoError(t, err)
	types := rest.CreateTypes(charge.Type().Name)
	for name, test := range map[string]struct {
		opts []rest.Option
		want string
	}{
		"not revealed":      {[]rest.Option{mayDo(rest.ActionRead, rest.ActionEdit, rest.ActionReveal), types}, `"urn:amboy:problem:denied"`},
		"without the right": {[]rest.Option{mayDo(rest.ActionRead, rest.ActionEdit), types, rest.RevealEncrypted()}, `"urn:amboy:problem:denied"`},
		// The job has ended.
		"with the right": {[]rest.Option{mayDo(rest.ActionRead, rest.ActionEdit, rest.ActionReveal), types, rest.RevealEncrypted()}, `"urn:amboy:problem:state"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPatch, "/v2/queues/cards/jobs/one", strings.NewReader(`{"args":{"number":"666"},"dry_run":true}`))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			rest.Handler(inspector, test.opts...).ServeHTTP(w, r)
			assert.Contains(t, w.Body.String(), test.want)
			assert.NotContains(t, w.Body.String(), "4111")
		})
	}
}

func TestClientEditsAJob(t *testing.T) {
	server := httptest.NewServer(rest.Handler(newEditable(t), rest.Authorize(allowAll), rest.CreateTypes(charge.Type().Name)))
	defer server.Close()
	client, err := rest.NewClient(server.URL, server.Client())
	require.NoError(t, err)
	was, err := client.Job(t.Context(), "cards", "one")
	require.NoError(t, err)
	assert.Equal(t, []string{"args", "priority", "due"}, was.Editable)
	edited, err := client.EditJob(t.Context(), "cards", "one", management.JobEdit{Args: json.RawMessage(`{"number":"5555"}`), Revision: was.Revision})
	require.NoError(t, err)
	assert.Len(t, edited.Changes, 1)
	_, err = client.EditJob(t.Context(), "cards", "one", management.JobEdit{Priority: new(2), Revision: was.Revision})
	var state *management.StateError
	require.ErrorAs(t, err, &state)
	assert.Equal(t, management.Edit, state.Action)
	_, err = client.EditJob(t.Context(), "cards", "one", management.JobEdit{Args: json.RawMessage(`{`)})
	var wrong *management.InvalidArgumentError
	require.ErrorAs(t, err, &wrong)
}
