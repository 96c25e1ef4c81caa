package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/cmd/amboy/internal/cli"
	"github.com/mongodb/amboy/management"
)

// nasty is what would color a terminal, move its cursor, ring its bell, reorder what it
// shows, begin a line that looks like another job, or is no UTF-8.
const nasty = "a\x1b[31m\u009b31m\x07\r\n\tmail  b\u202e\u2028\x7f\xff\U000E0001z"

// hostile is a service all of whose texts are nasty.
type hostile struct{ *fake }

// poison makes all texts in a value nasty.
func poison[T any](value T, err error) (T, error) {
	poisonAll(reflect.ValueOf(&value).Elem())
	return value, err
}

func poisonAll(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(nasty)
	case reflect.Pointer:
		if !v.IsNil() {
			poisonAll(v.Elem())
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "Next" { // else there would be no end of pages
				poisonAll(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`{"a":"\u001b[31m` + "\u009b\u202e\U000E0001" + `"}`))
			return
		}
		for i := range v.Len() {
			poisonAll(v.Index(i))
		}
	case reflect.Map:
		if v.Len() > 0 {
			v.Set(reflect.ValueOf(map[string]string{nasty: nasty}))
		}
	}
}

func (h hostile) Queues(ctx context.Context) ([]management.Queue, error) {
	return poison(h.fake.Queues(ctx))
}

func (h hostile) Queue(ctx context.Context, _ string) (management.Queue, error) {
	return poison(h.fake.Queue(ctx, "mail"))
}

func (h hostile) Watch(ctx context.Context, _ time.Duration) iter.Seq2[[]management.Queue, error] {
	return func(yield func([]management.Queue, error) bool) {
		if queues, err := h.Queues(ctx); yield(queues, err) {
			yield(nil, errors.New(nasty))
		}
	}
}

func (h hostile) FindJobs(ctx context.Context, f management.JobFilter, p management.PageRequest) (management.JobPage, error) {
	return poison(h.fake.FindJobs(ctx, f, p))
}

func (h hostile) Job(ctx context.Context, _, id string) (management.Job, error) {
	return poison(h.fake.Job(ctx, "mail", id))
}

func (h hostile) Graph(ctx context.Context, queue, id string, distance int) (management.Graph, error) {
	return poison(h.fake.Graph(ctx, queue, id, distance))
}

func (h hostile) CreateJob(ctx context.Context, job management.NewJob) (management.Created, error) {
	return poison(h.fake.CreateJob(ctx, job))
}

func (h hostile) ActOn(context.Context, string, string, management.Action) (management.Acted, error) {
	return management.Acted{}, errors.New(nasty)
}

func (h hostile) Scopes(ctx context.Context, f management.ScopeFilter, p management.PageRequest) (management.ScopePage, error) {
	return poison(h.fake.Scopes(ctx, f, p))
}

func (h hostile) Processes(ctx context.Context) ([]management.Process, error) {
	return poison(h.fake.Processes(ctx))
}

func (h hostile) Activity(ctx context.Context, req management.ActivityRequest) (management.Activity, error) {
	return poison(h.fake.Activity(ctx, req))
}

func (h hostile) Schedules(ctx context.Context) ([]management.Schedule, error) {
	return poison(h.fake.Schedules(ctx))
}

func (h hostile) Audit(ctx context.Context, p management.PageRequest) (management.AuditPage, error) {
	return poison(h.fake.Audit(ctx, p))
}

func TestNothingUnprintableReachesATerminal(t *testing.T) {
	for _, args := range [][]string{
		{"queues", "list"},
		{"queues", "show", nasty},
		{"queues", "watch"},
		{"queues", "pause", nasty},
		{"queues", nasty},
		{"jobs", "list"},
		{"jobs", "list", "--limit", "1"},
		{"jobs", "list", "--state", nasty},
		{"jobs", "list", "--due-after", nasty},
		{"jobs", "list", "--" + nasty},
		{"jobs", "show", nasty, "welcome-ada"},
		{"jobs", "show", nasty, "digest"},
		{"jobs", "show", nasty, nasty},
		{"jobs", "watch", nasty, "old"},
		{"jobs", "graph", nasty, nasty},
		{"jobs", "create", nasty, nasty},
		{"jobs", "retry", nasty, nasty},
		{"jobs", "retry", nasty},
		{"scopes"},
		{"processes"},
		{"schedules"},
		{"activity"},
		{"audit"},
		{"__complete", "queues", "show", ""},
		{nasty},
	} {
		for _, format := range []string{"table", "json"} {
			for _, width := range []int{0, 60} {
				all := append([]string{"-o", format}, args...)
				if args[0] == "__complete" {
					all = args
				}
				got := runIn(t.Context(), hostile{newFake()}, func(env *cli.Env) { env.Width = width }, all...)
				requirePrintable(t, got.out, args)
				requirePrintable(t, got.errOut, args)
				if format == "json" && args[0] != "__complete" && got.out != "" {
					assert.NoError(t, json.NewDecoder(strings.NewReader(got.out)).Decode(new(any)), got.out)
				}
			}
		}
	}
}

func requirePrintable(t *testing.T, text string, args []string) {
	t.Helper()
	require.True(t, utf8.ValidString(text), "%q prints %q", args, text)
	for _, r := range text {
		require.True(t, r == '\n' || unicode.IsPrint(r), "%q prints %U in %q", args, r, text)
	}
}

func TestUnprintableTextKeepsItsPlace(t *testing.T) {
	got := run(t, hostile{newFake()}, "jobs", "list", "--queue", "")
	require.Zero(t, got.code)
	assert.Equal(t, 2, strings.Count(got.out, "\n"), "a title, and a line for the only job")
	assert.Contains(t, got.out, `a\x1b[31m\u009b31m\a\r\n\tmail  b\u202e\u2028\x7f\xff\U000e0001z`)
}

// FuzzJSONStaysTheSameDocument shows that what is escaped in JSON means the same.
func FuzzJSONStaysTheSameDocument(f *testing.F) {
	f.Add(nasty)
	f.Add("\u2029\ufffe\U0010ffff<>&\"\\")
	f.Fuzz(func(t *testing.T, text string) {
		service := newFake()
		service.jobs[0].Error = text
		got := run(t, service, "jobs", "list", "--limit", "1", "-o", "json")
		require.Zero(t, got.code)
		requirePrintable(t, got.out, []string{text})
		var page management.JobPage
		require.NoError(t, json.Unmarshal([]byte(got.out), &page))
		assert.Equal(t, string([]rune(text)), page.Jobs[0].Error, "but for bytes that are no UTF-8")
	})
}
