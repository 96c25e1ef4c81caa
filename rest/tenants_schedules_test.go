package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest"
)

// nightlyOf returns the schedule of a tenant, whose arguments are secret.
func nightlyOf(queue string) management.StoredSchedule {
	return management.StoredSchedule{Queue: queue, Name: "nightly", ScheduleSpec: management.ScheduleSpec{
		Cron: "@daily", ScheduledJob: management.ScheduledJob{Type: "resize", Args: json.RawMessage(`{"password":"secret"}`)},
	}}
}

func (i *tenants) StoredSchedules(context.Context, management.ScheduleFilter, management.PageRequest) (management.StoredSchedulePage, error) {
	return management.StoredSchedulePage{Schedules: of(nightlyOf)}, nil
}

func (i *tenants) StoredSchedule(_ context.Context, queue, name string) (management.StoredSchedule, error) {
	if name == "nobody" {
		return management.StoredSchedule{}, management.ErrUnknownSchedule
	}
	return nightlyOf(queue), nil
}

func (i *tenants) CreateSchedule(ctx context.Context, queue, _ string, _ management.ScheduleSpec) (management.StoredSchedule, error) {
	i.do(ctx, "schedule", queue)
	return nightlyOf(queue), nil
}

func (i *tenants) ChangeSchedule(ctx context.Context, queue, _ string, _ management.ScheduleChange) (management.StoredSchedule, error) {
	i.do(ctx, "schedule", queue)
	return nightlyOf(queue), nil
}

func (i *tenants) PauseSchedule(ctx context.Context, queue, _ string, _ bool) (management.StoredSchedule, error) {
	i.do(ctx, "schedule", queue)
	return nightlyOf(queue), nil
}

func (i *tenants) DeleteSchedule(ctx context.Context, queue, _ string) error {
	i.do(ctx, "schedule", queue)
	return nil
}

func (i *tenants) TriggerSchedule(ctx context.Context, queue, _, _ string) (management.Created, error) {
	i.do(ctx, "trigger", queue)
	return management.Created{JobRef: management.JobRef{Queue: queue, ID: "nightly@run-1"}}, nil
}

// A request that could pause a schedule, and not read it, was shown its arguments.
func TestAttackTheArgumentsOfAScheduleAreReadByPausingIt(t *testing.T) {
	handler := func(actions ...rest.Action) http.Handler {
		return rest.Handler(&tenants{}, rest.CreateTypes("resize"), rest.Authorize(func(_ *http.Request, access rest.Access) error {
			if slices.Contains(actions, access.Action) {
				return nil
			}
			return errors.New("no")
		}))
	}
	for _, request := range []struct{ method, target, body string }{
		{http.MethodPatch, "/v2/queues/mine/schedules/nightly", `{"paused":true}`},
		{http.MethodPut, "/v2/queues/mine/schedules/nightly", `{"type":"resize","cron":"@daily"}`},
		{http.MethodPost, "/v2/queues/mine/schedules", `{"name":"nightly","type":"resize","cron":"@daily"}`},
	} {
		send := func(handler http.Handler) string {
			r := httptest.NewRequestWithContext(t.Context(), request.method, request.target, strings.NewReader(request.body))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			require.Less(t, w.Code, 300, w.Body.String())
			return w.Body.String()
		}
		shown := send(handler(rest.ActionSchedule, rest.ActionCreate))
		assert.NotContains(t, shown, "secret", request.method)
		assert.Contains(t, shown, `"args_hidden":"not allowed to read"`, request.method)
		assert.Contains(t, send(handler(rest.ActionSchedule, rest.ActionCreate, rest.ActionRead)), "secret", request.method)
	}
}

// A schedule must not be a way around the right to put jobs: of a type that runs commands, or of
// one that this user may not put.
func TestAttackAScheduleOfATypeThatMayNotBePut(t *testing.T) {
	for name, test := range map[string]struct {
		types []string
		deny  func(rest.Access) bool
	}{
		"the type is not allowed":                {[]string{"mail"}, func(rest.Access) bool { return false }},
		"the user may not put any job":           {[]string{"resize", "mail"}, func(a rest.Access) bool { return a.Action == rest.ActionCreate }},
		"the user may not put jobs of this type": {[]string{"resize", "mail"}, func(a rest.Access) bool { return a.Action == rest.ActionCreate && a.Type == "resize" }},
		"the user may not schedule or run the type": {[]string{"resize", "mail"}, func(a rest.Access) bool {
			return (a.Action == rest.ActionSchedule || a.Action == rest.ActionTrigger) && a.Type == "resize"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inspector := &tenants{}
			handler := rest.Handler(inspector, rest.CreateTypes(test.types...), rest.Authorize(func(_ *http.Request, access rest.Access) error {
				if test.deny(access) {
					return errors.New("no")
				}
				return nil
			}))
			const one = "/v2/queues/QUEUE/schedules/nightly"
			for method, s := range map[string]sample{
				http.MethodPost:       {target: "/v2/queues/QUEUE/schedules", body: `{"name":"new","cron":"@daily","type":"resize"}`},
				http.MethodPut:        {target: one, body: `{"cron":"@daily","type":"resize"}`},
				http.MethodPatch:      {target: one, body: `{"paused":false}`},
				http.MethodPost + " ": {target: one + "/trigger"},
			} {
				got := s.ask(t, handler, strings.TrimSpace(method), mine, nil)
				assert.Equal(t, http.StatusForbidden, got.status, "%s %s: %s", method, s.target, got.body)
			}
			for _, body := range []string{"do=trigger", "do=resume", "do=change&cron=@daily&type=resize"} {
				got := sample{target: "/queues/QUEUE/schedules/nightly", body: body}.ask(t, handler, http.MethodPost, mine, nil)
				assert.Equal(t, http.StatusForbidden, got.status, "%s: %s", body, got.body)
			}
			assert.Empty(t, inspector.done())
		})
	}
}

// Whether a schedule exists must not show to a user who may do nothing with it.
func TestAttackNamesOfSchedulesAreGuessed(t *testing.T) {
	handler := rest.Handler(&tenants{}, rest.CreateTypes("resize"), rest.Authorize(func(*http.Request, rest.Access) error { return errNo }))
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		there := sample{target: "/v2/queues/QUEUE/schedules/nightly"}.ask(t, handler, method, mine, nil)
		missing := sample{target: "/v2/queues/QUEUE/schedules/nobody"}.ask(t, handler, method, mine, nil)
		assert.Equal(t, http.StatusForbidden, there.status)
		assert.Equal(t, there.status, missing.status)
	}
}

// changes is an Inspector that keeps the latest specification of a schedule.
type changes struct {
	tenants
	latest management.ScheduleSpec
}

func (c *changes) ChangeSchedule(_ context.Context, queue, _ string, change management.ScheduleChange) (management.StoredSchedule, error) {
	c.latest = change.ScheduleSpec
	return nightlyOf(queue), nil
}

// A client changes a schedule as it has read it.
func TestAChangeOfAScheduleStoredTheMasksForItsArguments(t *testing.T) {
	inspector := &changes{}
	handler := rest.Handler(inspector, everybody(), rest.CreateTypes("resize", "mail"), rest.MaskArgs(func(_ management.JobRef, _ string, args json.RawMessage) json.RawMessage {
		return bytes.ReplaceAll(args, []byte("secret"), []byte("<hidden>"))
	}))
	client, err := rest.NewClient(serve(t, handler), nil)
	require.NoError(t, err)
	found, err := client.StoredSchedule(within(t), mine, "nightly")
	require.NoError(t, err)
	require.JSONEq(t, `{"password":"<hidden>"}`, string(found.Args))
	found.Cron = "@hourly"
	_, err = client.ChangeSchedule(within(t), mine, "nightly", management.ScheduleChange{ScheduleSpec: found.ScheduleSpec})
	require.NoError(t, err)
	assert.Equal(t, "@hourly", inspector.latest.Cron)
	assert.Nil(t, inspector.latest.Args, "they stay")

	found.Args = json.RawMessage(`{"password":"new"}`)
	_, err = client.ChangeSchedule(within(t), mine, "nightly", management.ScheduleChange{ScheduleSpec: found.ScheduleSpec})
	require.NoError(t, err)
	assert.JSONEq(t, `{"password":"new"}`, string(inspector.latest.Args))

	for args, jobType := range map[string]string{
		`{"password":"<hidden>","width":9}`: found.Type, // a part of them changes
		`{"password":"<hidden>"}`:           "mail",
	} {
		found.Args, found.Type = json.RawMessage(args), jobType
		_, err = client.ChangeSchedule(within(t), mine, "nightly", management.ScheduleChange{ScheduleSpec: found.ScheduleSpec})
		var refused *rest.ResponseError
		require.ErrorAs(t, err, &refused, args)
		assert.Equal(t, http.StatusForbidden, refused.StatusCode)
	}
}

func TestArgumentsOfSchedulesAreMasked(t *testing.T) {
	handler := rest.Handler(&tenants{}, everybody(), rest.CreateTypes("resize"), rest.MaskArgs(func(job management.JobRef, jobType string, _ json.RawMessage) json.RawMessage {
		assert.Equal(t, management.JobRef{Queue: job.Queue}, job)
		assert.Equal(t, "resize", jobType)
		return nil
	}))
	one := "/v2/queues/QUEUE/schedules/nightly"
	for _, s := range []struct {
		method string
		sample
	}{
		{http.MethodGet, sample{target: "/v2/schedules/stored"}},
		{http.MethodGet, sample{target: one}},
		{http.MethodPut, sample{target: one, body: `{"cron":"@daily","type":"resize"}`}},
		{http.MethodPatch, sample{target: one, body: `{"paused":true}`}},
		{http.MethodPost, sample{target: "/v2/queues/QUEUE/schedules", body: `{"name":"new","cron":"@daily","type":"resize"}`}},
		{http.MethodGet, sample{target: "/queues/QUEUE/schedules/nightly"}},
	} {
		got := s.ask(t, handler, s.method, mine, nil)
		require.Less(t, got.status, 300, got.body)
		assert.NotContains(t, got.body, "secret")
		assert.Contains(t, got.body, "masked")
	}
}
