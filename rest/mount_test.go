package rest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/rest"
)

func TestInvalidOptionsPanic(t *testing.T) {
	for _, prefix := range []string{"", "/", "amboy", "/amboy/", "/a//b", "/a/../b"} {
		assert.Panics(t, func() { rest.Prefix(prefix) }, prefix)
	}
	assert.Panics(t, func() { rest.Tenant("") })
	assert.Panics(t, func() { rest.Authorize(nil) })
	assert.Panics(t, func() { rest.MaskArgs(nil) })
	assert.Panics(t, func() { rest.Actor(nil) })
}

func TestHandlerWithoutAnInspector(t *testing.T) {
	for _, target := range []string{"/", "/v2/queues", "/jobs", "/nowhere"} {
		got := sample{target: target}.ask(t, rest.Handler(nil), http.MethodGet, "", nil)
		assert.Equal(t, http.StatusServiceUnavailable, got.status, target)
		assert.Equal(t, "application/problem+json", got.header.Get("Content-Type"))
	}
}

func TestPrefix(t *testing.T) {
	handler := rest.Handler(&tenants{}, rest.Prefix("/some/where"), everybody())
	for target, status := range map[string]int{
		"/some/where/v2/queues":          http.StatusOK,
		"/some/where/":                   http.StatusOK,
		"/some/where/queues/mine":        http.StatusOK,
		"/some/where":                    http.StatusPermanentRedirect,
		"/some/where/nowhere":            http.StatusNotFound,
		"/some/wherever":                 http.StatusNotFound,
		"/v2/queues":                     http.StatusNotFound,
		"/":                              http.StatusNotFound,
		"/some/where//v2/queues":         http.StatusNotFound,
		"/some/where/assets":             http.StatusNotFound,
		"/some/%77here/queues/a%2Fb":     http.StatusNotFound,
		"/some/where/v2/queues/":         http.StatusNotFound,
		"/some/where/x/../v2/queues":     http.StatusNotFound,
		"/some/where/%76%32/queues":      http.StatusOK,
		"/some/where/v2/queues?limit=x":  http.StatusBadRequest,
		"/some/where/v2/queues?limit=1":  http.StatusOK,
		"/some/where/v2/jobs?limit=1;a":  http.StatusBadRequest,
		"/some/where/v2/queues/a%2Fb%20": http.StatusOK,
	} {
		got := sample{target: target}.ask(t, handler, http.MethodGet, "", nil)
		assert.Equal(t, status, got.status, "%s: %s", target, got.body)
		assert.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"), target)
		if location := got.header.Get("Location"); location != "" {
			assert.Equal(t, "./where/", location)
		}
	}
}

// TestPrefixThatIsEscaped uses a prefix with characters that need escaping, also in the rest of
// the path.
func TestPrefixThatIsEscaped(t *testing.T) {
	handler := rest.Handler(&tenants{}, rest.Prefix("/some where/ü"), everybody())
	for _, target := range []string{"/v2/queues", "/", "/v2/queues/a%2Fb", "/queues/a%2Fb/jobs/%2Fc"} {
		got := sample{target: "/some%20where/%C3%BC" + target}.ask(t, handler, http.MethodGet, "", nil)
		assert.Equal(t, http.StatusOK, got.status, "%s: %s", target, got.body)
	}
	got := sample{target: "/some%20where/%C3%BC"}.ask(t, handler, http.MethodGet, "", nil)
	assert.Equal(t, "./%C3%BC/", got.header.Get("Location"))
}

// TestHeadOfEvents checks that HEAD ends although GET does not.
func TestHeadOfEvents(t *testing.T) {
	url := serve(t, rest.Handler(&tenants{}, everybody()))
	for range 2 { // the second reuses the connection
		for _, target := range []string{"/v2/events", "/live"} {
			request, err := http.NewRequestWithContext(within(t), http.MethodHead, url+target, http.NoBody)
			require.NoError(t, err)
			response, err := http.DefaultClient.Do(request)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			assert.Equal(t, http.StatusOK, response.StatusCode)
			assert.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
		}
	}
}

// TestPagesHaveRelativeLinks checks that all links of all pages stay below the prefix.
func TestPagesHaveRelativeLinks(t *testing.T) {
	handler := rest.Handler(&tenants{}, everybody())
	forEachSample(t, func(t *testing.T, method string, s sample) {
		if method != http.MethodGet || strings.HasPrefix(s.target, "/v2/") || strings.HasPrefix(s.target, "/assets/") {
			return
		}
		got := s.ask(t, handler, method, mine, nil)
		for _, absolute := range []string{`href="/`, `src="/`, `action="/`, `href="http`, `src="http`, `action="http`} {
			assert.NotContains(t, got.body, absolute)
		}
	})
}

// failing is an Inspector that panics, or fails with a secret error.
type failing struct {
	tenants
	panics bool
}

func (f *failing) Schedules(context.Context) ([]management.Schedule, error) {
	if f.panics {
		panic("the password is secret")
	}
	return nil, errNo
}

func TestInternalErrorsAreNotDisclosed(t *testing.T) {
	for _, panics := range []bool{true, false} {
		handler := rest.Handler(&failing{panics: panics}, everybody())
		got := sample{target: "/v2/schedules"}.ask(t, handler, http.MethodGet, "", nil)
		assert.Equal(t, http.StatusInternalServerError, got.status)
		assert.JSONEq(t, `{"type":"about:blank","title":"Internal Server Error","status":500,"detail":"internal error; the log of the service has the details"}`, got.body)
		got = sample{target: "/schedules"}.ask(t, handler, http.MethodGet, "", nil)
		assert.Equal(t, http.StatusInternalServerError, got.status)
		assert.NotContains(t, got.body, "secret")
		assert.NotContains(t, got.body, errNo.Error())
	}
}

// unrecorded is an Inspector whose audit list can't be written.
type unrecorded struct{ tenants }

func (*unrecorded) ActOn(context.Context, string, string, management.Action) (management.Acted, error) {
	state := &management.StateError{Action: management.Park, Rule: "requires a job that has not started"}
	return management.Acted{}, &management.NotRecordedError{Failure: state, Reason: errNo}
}

// mixed is an Inspector whose errors join a known error with one of a store.
type mixed struct {
	tenants
	known error
}

func (m *mixed) ActOn(context.Context, string, string, management.Action) (management.Acted, error) {
	return management.Acted{}, fmt.Errorf("acting: %w", errors.Join(m.known, errors.New("dial mongodb://secret")))
}

func TestAttackAnAnswerLeaksErrorsOfTheStore(t *testing.T) {
	for _, known := range []error{
		amboy.NewDuplicateJobError("the ID is taken"), amboy.NewDuplicateJobScopeError("held"), amboy.NewJobNotFoundError("no job"),
		amboy.ErrQueueDraining, amboy.ErrQueueClosed, amboy.ErrQueueNotStarted, management.ErrUnknownQueue, management.ErrUnsupported,
		&management.StateError{Action: management.Park, Rule: "requires another state"}, &amboy.DependencyCycleError{Path: []string{"a", "a"}},
		&amboy.InvalidJobError{Field: "id"}, &management.InvalidArgumentError{Field: "id"},
		fmt.Errorf("%w: %w", driver.ErrClosed, errors.New("dial mongodb://secret")),
		fmt.Errorf("%w: %w", amboy.ErrStoreFull, errors.New("dial mongodb://secret")),
	} {
		handler := rest.Handler(&mixed{known: known}, everybody())
		for target, body := range map[string]string{"/v2/queues/mine/jobs/one/actions": `{"action":"park"}`, "/queues/mine/jobs/one/actions": "action=park"} {
			got := sample{target: target, body: body}.ask(t, handler, http.MethodPost, "", nil)
			assert.NotEqual(t, http.StatusInternalServerError, got.status, known)
			assert.NotContains(t, got.body, "secret", known)
			if strings.HasPrefix(target, "/v2/") {
				assert.Contains(t, got.body, `"detail":"`, known)
			}
		}
	}
}

func TestErrorsOfTheAuditListAreNotDisclosed(t *testing.T) {
	handler := rest.Handler(&unrecorded{}, everybody())
	for target, body := range map[string]string{"/v2/queues/mine/jobs/one/actions": `{"action":"park"}`, "/queues/mine/jobs/one/actions": "action=park"} {
		got := sample{target: target, body: body}.ask(t, handler, http.MethodPost, "", nil)
		assert.Equal(t, http.StatusConflict, got.status)
		assert.Contains(t, got.body, "requires a job that has not started")
		assert.NotContains(t, got.body, "secret")
	}
}

func (*unrecorded) Act(context.Context, management.ActRequest) (management.Acted, error) {
	return management.Acted{Done: 7}, &management.NotRecordedError{Reason: errNo}
}

// The answer was that of an unknown error, and a client did the action again.
func TestAnswerHidThatAnActionWasDoneButNotRecorded(t *testing.T) {
	handler := rest.Handler(&unrecorded{}, everybody())
	got := sample{target: "/v2/jobs/actions", body: `{"action":"retry","filter":{"queues":["mine"]},"limit":10}`}.ask(t, handler, http.MethodPost, "", nil)
	assert.Equal(t, http.StatusInternalServerError, got.status)
	assert.Contains(t, got.body, "the action was done or begun, but could not be written to the audit list")
	assert.NotContains(t, got.body, "secret")
}

// A full disk was an internal error, whose cause only the log had.
func TestAnswerHidThatTheStoreWasFull(t *testing.T) {
	full := fmt.Errorf("%w: /var/lib/secret.db", amboy.ErrStoreFull)
	for _, failure := range []error{full, &management.NotRecordedError{Failure: full, Reason: full}} {
		handler := rest.Handler(&mixed{known: failure}, everybody())
		got := sample{target: "/queues/mine/jobs/one/actions", body: "action=park"}.ask(t, handler, http.MethodPost, "", nil)
		assert.Equal(t, http.StatusInsufficientStorage, got.status)
		assert.Contains(t, got.body, "The disk of the store is full")
		assert.NotContains(t, got.body, "secret")

		client, err := rest.NewClient(serve(t, handler), nil)
		require.NoError(t, err)
		_, err = client.ActOn(within(t), "mine", "one", management.Action{Kind: management.Park})
		require.ErrorIs(t, err, amboy.ErrStoreFull)
	}
	done := &management.NotRecordedError{Reason: full}
	got := sample{target: "/queues/mine/jobs/one/actions", body: "action=park"}.ask(t, rest.Handler(&mixed{known: done}, everybody()), http.MethodPost, "", nil)
	assert.Contains(t, got.body, "It was done, but not recorded")
}

// While the store was not reachable, the answer to each action was that it was done or begun.
func TestAnswerSaidThatAFailedActionWasDone(t *testing.T) {
	handler := rest.Handler(&mixed{known: &management.NotRecordedError{Failure: errNo, Reason: errNo}}, everybody())
	got := sample{target: "/v2/queues/mine/jobs/one/actions", body: `{"action":"park"}`}.ask(t, handler, http.MethodPost, "", nil)
	assert.Equal(t, http.StatusInternalServerError, got.status)
	assert.Contains(t, got.body, "the action failed")
	assert.NotContains(t, got.body, "was done")
	assert.NotContains(t, got.body, "secret")
	got = sample{target: "/queues/mine/jobs/one/actions", body: "action=park"}.ask(t, handler, http.MethodPost, "", nil)
	assert.NotContains(t, got.body, "It was done")
}

func TestMaskedArgsAreInNoAnswer(t *testing.T) {
	handler := rest.Handler(&tenants{}, everybody(), rest.MaskArgs(func(management.JobRef, string, json.RawMessage) json.RawMessage { return nil }))
	open := rest.Handler(&tenants{}, everybody())
	forEachSample(t, func(t *testing.T, method string, s sample) {
		if method == http.MethodGet {
			assert.NotContains(t, s.ask(t, handler, method, mine, nil).body, "secret")
		}
	})
	assert.Contains(t, sample{target: "/v2/queues/mine/jobs/one"}.ask(t, open, http.MethodGet, "", nil).body, "secret")
}

// A search would tell what is masked: one tries the digits of a card number until a job is found.
func TestMaskedArgsAreNotSearched(t *testing.T) {
	inspector := &tenants{}
	handler := rest.Handler(inspector, everybody(), rest.MaskArgs(func(management.JobRef, string, json.RawMessage) json.RawMessage { return nil }))
	open := rest.Handler(&tenants{}, everybody())
	blind := rest.Handler(inspector, mayDo("retry"))
	act := sample{target: "/v2/jobs/actions", body: `{"action":"retry","filter":{"queues":["mine"],"args_part":"4111"},"limit":10,"dry_run":true}`}
	for _, path := range []string{"/v2/jobs", "/v2/jobs/count", "/v2/jobs/states", "/v2/jobs/errors", "/jobs"} {
		s := sample{target: path + "?args_part=4111"}
		assert.Equal(t, http.StatusForbidden, s.ask(t, handler, http.MethodGet, "", nil).status, path)
		assert.Equal(t, http.StatusOK, s.ask(t, open, http.MethodGet, "", nil).status, path)
	}
	got := act.ask(t, handler, http.MethodPost, "", nil)
	assert.Equal(t, http.StatusForbidden, got.status)
	assert.Contains(t, got.body, "the service masks arguments, so they can't be searched")
	assert.Equal(t, http.StatusForbidden, act.ask(t, blind, http.MethodPost, "", nil).status, "who may not read may not search")
	assert.Equal(t, http.StatusOK, act.ask(t, open, http.MethodPost, "", nil).status)
	assert.Empty(t, inspector.done())
	const box = `name="args_part"`
	assert.NotContains(t, sample{target: "/jobs"}.ask(t, handler, http.MethodGet, "", nil).body, box)
	assert.Contains(t, sample{target: "/jobs"}.ask(t, open, http.MethodGet, "", nil).body, box)
}

// TestOverHTTP sends requests through a real server, which also handles paths.
func TestOverHTTP(t *testing.T) {
	url := serve(t, rest.Handler(&tenants{}, everybody(), rest.CreateTypes("resize")))
	request, err := http.NewRequestWithContext(within(t), http.MethodPost, url+"/v2/queues/__mine/jobs", strings.NewReader(`{"id":"a/b","type":"resize"}`))
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusCreated, response.StatusCode, string(body))
	assert.JSONEq(t, `{"queue":"_mine","id":"a/b","repeated":false}`, string(body))
	location, err := response.Location()
	require.NoError(t, err)
	assert.Equal(t, url+"/v2/queues/__mine/jobs/a%2Fb", location.String())
}

// A client could not tell an action that was done, and must not be repeated, from a failure of the service.
func TestClientCouldNotTellThatAnActionWasDoneButNotRecorded(t *testing.T) {
	handler := rest.Handler(&unrecorded{}, everybody())
	client, err := rest.NewClient(serve(t, handler), nil)
	require.NoError(t, err)
	_, err = client.Act(within(t), management.ActRequest{
		Action: management.Action{Kind: management.Retry}, Filter: management.JobFilter{Queues: []string{"mine"}}, Limit: 10,
	})
	require.ErrorIs(t, err, management.ErrNotRecorded)
	got := sample{target: "/jobs/actions", body: "action=retry&which=all&queue=mine&step=do"}.ask(t, handler, http.MethodPost, "", nil)
	assert.Equal(t, http.StatusInternalServerError, got.status)
	assert.Contains(t, got.body, "It was done, but not recorded")
	assert.NotContains(t, got.body, "Try again")
}
