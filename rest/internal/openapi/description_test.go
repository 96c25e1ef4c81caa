package openapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/inspectortest"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest"
	"github.com/mongodb/amboy/rest/internal/api"
)

// everybody may do everything.
var everybody = rest.Authorize(func(*http.Request, rest.Access) error { return nil })

var fuzzRequests = flag.Int("fuzz.requests", 300, "how many requests the client that is made from the description sends")

// TestRequestsOfTheDescription generates requests from the description, some of them invalid,
// for queues with jobs in all states. No answer has a 5xx status, and each matches the
// description.
func TestRequestsOfTheDescription(t *testing.T) {
	inspector := inspectortest.NewWorld(t)
	handler := rest.Handler(inspector, everybody, rest.CreateTypes("resize", "no such"))
	d := newDescription(t)
	generated := d.requests()
	statuses := map[int]int{}
	for seed := range *fuzzRequests {
		request := generated.Example(seed)
		status, err := d.send(t, handler, request)
		require.NoError(t, err, "request %d: %s", seed, request)
		statuses[status]++
	}
	t.Logf("answers by status: %v", statuses)
	require.Positive(t, statuses[http.StatusOK])
	require.Positive(t, statuses[http.StatusBadRequest])
}

// empty is an Inspector that returns zero values, as far as the description has a GET for them.
type empty struct{ management.Inspector }

func (*empty) Queues(context.Context) ([]management.Queue, error)       { return nil, nil }
func (*empty) Schedules(context.Context) ([]management.Schedule, error) { return nil, nil }
func (*empty) Processes(context.Context) ([]management.Process, error) {
	return []management.Process{{}}, nil
}

func (*empty) Watch(ctx context.Context, _ time.Duration) iter.Seq2[[]management.Queue, error] {
	return func(yield func([]management.Queue, error) bool) {
		if yield(nil, nil) {
			<-ctx.Done()
		}
	}
}

func (*empty) FindQueues(context.Context, management.QueueFilter, management.PageRequest) (management.QueuePage, error) {
	return management.QueuePage{}, nil
}

func (*empty) SumQueues(context.Context) (management.QueueTotals, error) {
	return management.QueueTotals{}, nil
}

func (*empty) CountStates(context.Context, management.StateCountRequest) ([]management.StateCount, error) {
	return nil, nil
}

func (*empty) ErrorGroups(context.Context, management.ErrorGroupRequest) (management.ErrorGroups, error) {
	return management.ErrorGroups{}, nil
}

func (*empty) FindJobs(context.Context, management.JobFilter, management.PageRequest) (management.JobPage, error) {
	return management.JobPage{}, nil
}

func (*empty) Queue(context.Context, string) (management.Queue, error) {
	return management.Queue{}, nil
}

func (*empty) CountJobs(context.Context, management.JobFilter, int) (management.Count, error) {
	return management.Count{}, nil
}

func (*empty) Job(context.Context, string, string) (management.Job, error) {
	return management.Job{JobSummary: management.JobSummary{State: amboy.StatePending}}, nil
}

func (*empty) Graph(context.Context, string, string, int) (management.Graph, error) {
	return management.Graph{}, nil
}

func (*empty) Scopes(context.Context, management.ScopeFilter, management.PageRequest) (management.ScopePage, error) {
	return management.ScopePage{}, nil
}

func (*empty) Activity(context.Context, management.ActivityRequest) (management.Activity, error) {
	return management.Activity{}, nil
}

func (*empty) JobTypes(context.Context) ([]management.JobType, error) { return nil, nil }

func (*empty) Diagnose(context.Context) (management.Diagnosis, error) {
	return management.Diagnosis{}, nil
}

func (*empty) Audit(context.Context, management.AuditFilter, management.PageRequest) (management.AuditPage, error) {
	return management.AuditPage{}, nil
}

// TestEmptyAnswersMatchTheDescription checks the answers of an empty Inspector: lists are
// empty arrays, not null.
func TestEmptyAnswersMatchTheDescription(t *testing.T) {
	d := newDescription(t)
	for path, methods := range d.Paths {
		if _, is := methods["get"]; is {
			target := base + strings.NewReplacer("{queue}", "one", "{id}", "two", "{name}", "two").Replace(path)
			status, err := d.send(t, rest.Handler(&empty{}, everybody), generatedRequest{path: path, method: http.MethodGet, target: target})
			require.NoError(t, err, path)
			assert.Equal(t, http.StatusOK, status)
		}
	}
}

// base is the path of the server that the description names, at the mount point of the handler.
const base = "/v2"

// description is the parsed OpenAPI description.
type description struct {
	Paths      map[string]map[string]operation
	Components struct {
		Schemas   map[string]schema
		Responses map[string]answer
	}

	compiler *jsonschema.Compiler
	mu       sync.Mutex
	compiled map[string]*jsonschema.Schema
}

type operation struct {
	Parameters  []parameter
	RequestBody *struct {
		Content map[string]struct{ Schema schema }
	}
	Responses map[string]answer
}

type answer struct {
	Content map[string]struct{ Schema schema }
}

type parameter struct {
	Name, In, Style string
	Required        bool
	Schema          schema
}

// schema is the part of a JSON schema that is needed to generate values.
type schema struct {
	Ref                  string `json:"$ref"`
	Type                 string
	Format               string
	Pattern              string
	Enum                 []any
	Properties           map[string]schema
	Required             []string
	Items                *schema
	Minimum, Maximum     *int
	AdditionalProperties any
}

func newDescription(t *testing.T) *description {
	served := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v2/openapi.json", http.NoBody)
	request.RemoteAddr = "127.0.0.1:1"
	rest.Handler(&empty{}, everybody).ServeHTTP(served, request)
	require.Equal(t, http.StatusOK, served.Code)
	d := &description{compiler: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{}}
	require.NoError(t, json.Unmarshal(served.Body.Bytes(), d))
	text, err := jsonschema.UnmarshalJSON(served.Body)
	require.NoError(t, err)
	d.compiler.AssertFormat()
	require.NoError(t, d.compiler.AddResource("d.json", text))
	return d
}

// generatedRequest is a request that was generated from the description.
type generatedRequest struct {
	path, method string // as in the description
	target       string
	header       http.Header
	body         string
}

func (r generatedRequest) String() string {
	return fmt.Sprintf("%s %s %v %.500s", r.method, r.target, r.header, r.body)
}

// requests generates requests. Most of them are valid, or nearly so.
func (d *description) requests() *rapid.Generator[generatedRequest] {
	type route struct{ path, method string }
	var all []route
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(d.Paths[path])) {
			all = append(all, route{path, method})
		}
	}
	return rapid.Custom(func(t *rapid.T) generatedRequest {
		route := rapid.SampledFrom(all).Draw(t, "route")
		operation := d.Paths[route.path][route.method]
		r := generatedRequest{path: route.path, method: strings.ToUpper(route.method), target: base + route.path, header: http.Header{}}
		query := url.Values{}
		for _, p := range operation.Parameters {
			if !p.Required && !oneOf(t, 4) {
				continue
			}
			value := d.value(p.Schema, p.Name).Draw(t, p.Name)
			if bounds, is := value.(map[string]any); is && p.Style == "deepObject" {
				for bound, at := range bounds {
					query.Add(p.Name+"["+bound+"]", texts(at)[0])
				}
				continue
			}
			for _, value := range texts(value) {
				switch p.In {
				case "path":
					r.target = strings.ReplaceAll(r.target, "{"+p.Name+"}", escape(value))
				case "query":
					query.Add(p.Name, value)
				case "header":
					r.header.Add(p.Name, value)
				}
			}
			r.target = strings.ReplaceAll(r.target, "{"+p.Name+"}", "_")
		}
		if oneOf(t, 30) {
			query.Add(rapid.SampledFrom([]string{"limit", "cursor", "every", "color", ""}).Draw(t, "more"), "1")
		}
		if len(query) > 0 {
			r.target += "?" + query.Encode()
		}
		if operation.RequestBody != nil {
			r.body = d.body(t, operation.RequestBody.Content["application/json"].Schema)
			r.header.Set("Content-Type", rapid.SampledFrom([]string{"application/json", "application/json", "application/json", "application/json; charset=utf-8", "text/plain", "x"}).Draw(t, "type"))
		}
		return r
	})
}

func oneOf(t *rapid.T, n int) bool { return rapid.IntRange(1, n).Draw(t, "whether") == 1 }

func (d *description) body(t *rapid.T, s schema) string {
	value, err := json.Marshal(d.value(s, "").Draw(t, "body"))
	if err != nil {
		panic(err)
	}
	if oneOf(t, 30) {
		return rapid.SampledFrom([]string{"", "null", "[]", "{", "{}{}", `{"action":"retry","action":"cancel"}`, "\xff", string(value) + "x", strings.Repeat("[", 1<<16), strings.Repeat(" ", rest.MaxBodyBytes+1)}).Draw(t, "broken body")
	}
	return string(value)
}

// texts returns a value as the values of a parameter.
func texts(value any) []string {
	list, is := value.([]any)
	if !is {
		list = []any{value}
	}
	var all []string
	for _, one := range list {
		if text, is := one.(string); is {
			all = append(all, text)
			continue
		}
		encoded, err := json.Marshal(one)
		if err != nil {
			panic(err)
		}
		all = append(all, string(encoded))
	}
	return all
}

// escape encodes a text as a segment of a path, as clients do.
func escape(text string) string {
	if text == "." || text == ".." {
		return strings.ReplaceAll(text, ".", "%2E")
	}
	return url.PathEscape(text)
}

// known are values that exist in a test world, by the names of parameters and properties.
var known = map[string][]string{
	"queue":  {"orders", "__tenant", "a/b ü", "_", "_x", "nowhere"},
	"queues": {"orders", "_tenant", "a/b ü", "", "nowhere"},
	"id":     append([]string{"succeeded", "failed", "panicked", "running", "scheduled", "blocked", "dependent", "pending", "parked", "canceled", "nothing"}, inspectortest.OddIDs...),
	"type":   {"resize", "resize", "resize", "nothing"},
	"types":  {"resize", "nothing"},
	"scope":  {"ledger"}, "name": {"ledger"},
	"id_pattern": {"*", "*a*b*c*d*e*f*g*h*", "?a*", "succeeded", "[", strings.Repeat("*a", 300)},
	"error":      {"failed", "it"},
	"cursor":     {"x", "AAAA", "e30"},
	"last":       {"1h", "47h59m", "1m", "3h"},
	"every":      {"100ms", "1h", "1ns", "2s"},
}

// broken are values that are invalid almost everywhere.
var broken = []any{
	nil, true, "", "\x00", "a\nb", "\u2028", strings.Repeat("é", 2000), -1, 0, 1e9, 1e300, 0.5, "99999999999999999999",
	[]any{},
	[]any{nil},
	map[string]any{},
	map[string]any{"x": 1},
	"0000-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
}

// value generates values of a schema, some of them invalid.
func (d *description) value(s schema, name string) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		if oneOf(t, 40) {
			return rapid.SampledFrom(broken).Draw(t, "broken")
		}
		return d.valid(t, s, name)
	})
}

func (d *description) valid(t *rapid.T, s schema, name string) any {
	if component, is := strings.CutPrefix(s.Ref, "#/components/schemas/"); is {
		s = d.Components.Schemas[component]
	}
	switch {
	case s.Enum != nil:
		return rapid.SampledFrom(s.Enum).Draw(t, name)
	case known[name] != nil && s.Type == "string" && !oneOf(t, 8):
		return rapid.SampledFrom(known[name]).Draw(t, name)
	case s.Pattern != "":
		return rapid.StringMatching(strings.ReplaceAll(s.Pattern, "]+$", "]{1,300}$")).Draw(t, name)
	case s.Format == "date-time":
		return rapid.SampledFrom([]string{"2026-01-01T00:00:00Z", "2040-01-01T00:00:00.123456789+14:00", "1970-01-01T00:00:00Z"}).Draw(t, name)
	case s.Type == "string":
		return rapid.String().Draw(t, name)
	case s.Type == "integer":
		return rapid.OneOf(rapid.IntRange(bound(s.Minimum, -5), bound(s.Maximum, 100)), rapid.Int()).Draw(t, name)
	case s.Type == "boolean":
		return rapid.Bool().Draw(t, name)
	case s.Type == "array":
		return d.array(t, *s.Items, name)
	case s.Type == "object":
		return d.object(t, s)
	default: // any JSON: arguments of a job
		return rapid.SampledFrom([]any{map[string]any{"path": "p"}, map[string]any{"path": "p"}, map[string]any{}, map[string]any{"x": 1}, "text", 1, nil}).Draw(t, name)
	}
}

func bound(given *int, otherwise int) int {
	if given == nil {
		return otherwise
	}
	return *given
}

func (d *description) array(t *rapid.T, items schema, name string) []any {
	list := []any{}
	for range rapid.SampledFrom([]int{0, 1, 1, 1, 2, 3, 101}).Draw(t, "length") {
		list = append(list, d.value(items, name).Draw(t, name))
	}
	return list
}

func (d *description) object(t *rapid.T, s schema) map[string]any {
	object := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		wanted := oneOf(t, 6)
		if slices.Contains(s.Required, name) {
			wanted = !oneOf(t, 20)
		}
		if wanted {
			object[name] = d.value(s.Properties[name], name).Draw(t, name)
		}
	}
	if oneOf(t, 40) {
		object["color"] = "red"
	}
	return object
}

// send sends a request, and returns an error if the description does not allow the answer.
func (d *description) send(t *testing.T, handler http.Handler, r generatedRequest) (int, error) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request := httptest.NewRequestWithContext(ctx, r.method, r.target, strings.NewReader(r.body))
	request.Host, request.RemoteAddr = "localhost:8080", "127.0.0.1:5000"
	maps.Copy(request.Header, r.header)
	got := &inspectortest.Endless{ResponseRecorder: httptest.NewRecorder(), End: cancel}
	handler.ServeHTTP(got, request)
	body := got.Body.String()
	if got.Code >= 500 {
		return got.Code, fmt.Errorf("status %d: %s", got.Code, body)
	}
	media, _, _ := strings.Cut(got.Header().Get("Content-Type"), ";")
	answer, known := d.Paths[r.path][strings.ToLower(r.method)].Responses[strconv.Itoa(got.Code)]
	place := "#/paths/" + pointer(r.path) + "/" + strings.ToLower(r.method) + "/responses/" + strconv.Itoa(got.Code) + "/content/" + pointer(media) + "/schema"
	if !known {
		answer, place = d.Components.Responses["Problem"], "#/components/responses/Problem/content/"+pointer(media)+"/schema"
	}
	if _, has := answer.Content[media]; !has {
		return got.Code, fmt.Errorf("status %d with %s is not described: %s", got.Code, media, got.Body)
	}
	if media == api.EventStream {
		event, data, _ := strings.Cut(strings.TrimSpace(body), "\ndata: ")
		body = fmt.Sprintf(`{"event":%q,"data":%s}`, strings.TrimPrefix(event, "event: "), data)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(body)))
	if err != nil {
		return got.Code, fmt.Errorf("%w: %s", err, got.Body)
	}
	schema, err := d.schema(place)
	if err != nil {
		return got.Code, err
	}
	if err := schema.Validate(value); err != nil {
		return got.Code, fmt.Errorf("%w: %s", err, got.Body)
	}
	return got.Code, nil
}

// pointer escapes a text for a JSON pointer in a URL.
func pointer(text string) string {
	return url.PathEscape(strings.ReplaceAll(strings.ReplaceAll(text, "~", "~0"), "/", "~1"))
}

func (d *description) schema(place string) (*jsonschema.Schema, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.compiled[place] == nil {
		compiled, err := d.compiler.Compile("d.json" + place)
		if err != nil {
			return nil, err
		}
		d.compiled[place] = compiled
	}
	return d.compiled[place], nil
}

func (*empty) StoredSchedules(context.Context, management.ScheduleFilter, management.PageRequest) (management.StoredSchedulePage, error) {
	return management.StoredSchedulePage{}, nil
}

func (*empty) StoredSchedule(context.Context, string, string) (management.StoredSchedule, error) {
	return management.StoredSchedule{}, nil
}

func (*empty) CreateSchedule(context.Context, string, string, management.ScheduleSpec) (management.StoredSchedule, error) {
	return management.StoredSchedule{}, nil
}

func (*empty) ChangeSchedule(context.Context, string, string, management.ScheduleChange) (management.StoredSchedule, error) {
	return management.StoredSchedule{}, nil
}

func (*empty) PauseSchedule(context.Context, string, string, bool) (management.StoredSchedule, error) {
	return management.StoredSchedule{}, nil
}

func (*empty) DeleteSchedule(context.Context, string, string) error { return nil }

func (*empty) TriggerSchedule(context.Context, string, string, string) (management.Created, error) {
	return management.Created{}, nil
}
