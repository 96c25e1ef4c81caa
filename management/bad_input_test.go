package management_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
)

func tooMany(n int) []string { return slices.Repeat([]string{"a"}, n) }

var tooLong = strings.Repeat("a", management.MaxFilterBytes+1)

// yearTenThousand can be written as JSON in its own zone, but not in UTC, in which it is shown.
var yearTenThousand = time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("west", -2*60*60))

func TestValuesWithoutAJSONFormAreInvalid(t *testing.T) {
	for field, err := range map[string]error{
		"at":       management.Action{Kind: management.Reschedule, At: yearTenThousand}.Validate(),
		"due":      management.NewJob{Type: "alpha", Due: yearTenThousand}.Validate(),
		"deadline": management.NewJob{Type: "alpha", Deadline: yearTenThousand}.Validate(),
		"reason":   management.Action{Kind: management.Park, Reason: "\xff"}.Validate(),
	} {
		var argument *management.InvalidArgumentError
		require.ErrorAs(t, err, &argument, field)
		assert.Equal(t, field, argument.Field)
	}
	require.NoError(t, management.Action{Kind: management.Reschedule, At: yearTenThousand.Add(-24 * time.Hour)}.Validate())
}

func TestInvalidFilters(t *testing.T) {
	now := time.Now()
	backwards := management.TimeRange{From: now, To: now.Add(-1)}
	for _, test := range []struct {
		field  string
		filter management.JobFilter
	}{
		{"queues", management.JobFilter{Queues: tooMany(management.MaxFilterValues + 1)}},
		{"queues", management.JobFilter{Queues: []string{"\xff"}}},
		{"states", management.JobFilter{States: []amboy.JobState{"asleep"}}},
		{"states", management.JobFilter{States: []amboy.JobState{""}}},
		{"states", management.JobFilter{States: slices.Repeat(amboy.JobStates(), 11)}},
		{"types", management.JobFilter{Types: []string{""}}},
		{"types", management.JobFilter{Types: []string{tooLong}}},
		{"tags", management.JobFilter{Tags: []string{"a", ""}}},
		{"ids", management.JobFilter{IDs: []string{""}}},
		{"ids", management.JobFilter{IDs: tooMany(management.MaxFilterValues + 1)}},
		{"id_pattern", management.JobFilter{IDPattern: tooLong}},
		{"id_pattern", management.JobFilter{IDPattern: strings.Repeat("*a", management.MaxPatternStars+1)}},
		{"id_pattern", management.JobFilter{IDPattern: "\xff*"}},
		{"error", management.JobFilter{Error: tooLong}},
		{"scope", management.JobFilter{Scope: "\xff"}},
		{"created", management.JobFilter{Created: backwards}},
		{"due", management.JobFilter{Due: backwards}},
		{"ended", management.JobFilter{Ended: backwards}},
		{"due", management.JobFilter{Due: management.TimeRange{From: yearTenThousand}}},
	} {
		var argument *management.InvalidArgumentError
		require.ErrorAs(t, test.filter.Validate(), &argument, test.field)
		assert.Equal(t, test.field, argument.Field)
	}
	require.NoError(t, management.JobFilter{
		Queues: []string{""}, IDs: tooMany(management.MaxFilterValues), Error: tooLong[1:], Created: management.TimeRange{From: now, To: now},
	}.Validate())
	err := management.JobFilter{Types: []string{""}, Error: tooLong}.Validate()
	require.ErrorContains(t, err, "types")
	require.ErrorContains(t, err, "error")
}

func TestInvalidInputChangesNothing(t *testing.T) {
	inspectEach(t, []view{ofQueue}, func(f *inspected) {
		f.putOneInEachState()
		before := f.states()
		retry := management.Action{Kind: management.Retry}
		find := func(page management.PageRequest) func() error {
			return func() error { _, err := f.FindJobs(f.ctx, management.JobFilter{}, page); return err }
		}
		act := func(req management.ActRequest) func() error {
			return func() error { _, err := f.Act(f.ctx, req); return err }
		}
		actOn := func(id string, action management.Action) func() error {
			return func() error { _, err := f.ActOn(f.ctx, f.name, id, action); return err }
		}
		control := func(change management.ControlChange) func() error {
			return func() error { _, err := f.SetControl(f.ctx, f.name, change); return err }
		}
		create := func(job management.NewJob) func() error {
			job.Queue = f.name
			return func() error { _, err := f.CreateJob(f.ctx, job); return err }
		}
		activity := func(req management.ActivityRequest) func() error {
			return func() error { _, err := f.Activity(f.ctx, req); return err }
		}
		for n, test := range []struct {
			field string
			call  func() error
		}{
			{"limit", find(management.PageRequest{Limit: -1})},
			{"limit", find(management.PageRequest{Limit: 1_000_000_000})},
			{"cursor", find(management.PageRequest{Cursor: "garbage"})},
			{"cursor", find(management.PageRequest{Cursor: strings.Repeat("A", 20_000)})},
			{"cursor", find(management.PageRequest{Cursor: base64.RawURLEncoding.EncodeToString([]byte(`{"v":1,"l":"","a":"x"}`))})},
			{"states", func() error {
				_, err := f.FindJobs(f.ctx, management.JobFilter{States: []amboy.JobState{"x"}}, management.PageRequest{})
				return err
			}},
			{"most", func() error { _, err := f.CountJobs(f.ctx, management.JobFilter{}, 0); return err }},
			{"most", func() error { _, err := f.CountJobs(f.ctx, management.JobFilter{}, management.MaxCount+1); return err }},
			{"most", func() error {
				_, err := f.CountStates(f.ctx, management.StateCountRequest{Most: management.MaxCount + 1})
				return err
			}},
			{"within", func() error { _, err := f.CountStates(f.ctx, management.StateCountRequest{Within: -1}); return err }},
			{"limit", act(management.ActRequest{Action: retry, All: true})},
			{"limit", act(management.ActRequest{Action: retry, All: true, Limit: management.MaxActLimit + 1})},
			{"action", act(management.ActRequest{Limit: 1})},
			{"cursor", act(management.ActRequest{Action: retry, All: true, Limit: 1, Cursor: "x"})},
			{"all", act(management.ActRequest{Action: retry, Limit: 1})},
			{"all", act(management.ActRequest{Action: retry, Limit: 1, Filter: management.JobFilter{IDPattern: "**"}})},
			{"all", act(management.ActRequest{Action: retry, Limit: 1, All: true, Filter: management.JobFilter{Error: "a"}})},
			{"types", act(management.ActRequest{Action: retry, Limit: 1, Filter: management.JobFilter{Types: []string{""}}})},
			{"action", actOn("done", management.Action{Kind: "explode"})},
			{"at", actOn("done", management.Action{Kind: management.Reschedule})},
			{"at", actOn("done", management.Action{Kind: management.Cancel, At: time.Now()})},
			{"priority", actOn("done", management.Action{Kind: management.Prioritize})},
			{"priority", actOn("done", management.Action{Kind: management.Retry, Priority: new(1)})},
			{"reason", actOn("done", management.Action{Kind: management.Retry, Reason: "why"})},
			{"ignore_dependencies", actOn("done", management.Action{Kind: management.Cancel, IgnoreDependencies: true})},
			{"reason", actOn("done", management.Action{Kind: management.Park, Reason: strings.Repeat("a", management.MaxReasonBytes+1)})},
			{"id", actOn("", retry)},
			{"id", actOn("\xff", retry)},
			{"id", actOn(strings.Repeat("a", amboy.MaxIDLength+1), retry)},
			{"id", func() error { _, err := f.Job(f.ctx, f.name, ""); return err }},
			{"queue", func() error { _, err := f.Job(f.ctx, "\xff", "done"); return err }},
			{"distance", func() error { _, err := f.Graph(f.ctx, f.name, "done", 0); return err }},
			{"distance", func() error { _, err := f.Graph(f.ctx, f.name, "done", management.MaxGraphDistance+1); return err }},
			{"max_running", control(management.ControlChange{MaxRunning: new(-1), Paused: new(true)})},
			{"rate", control(management.ControlChange{Rate: &amboy.Rate{PerSecond: -1}})},
			{"rate", control(management.ControlChange{Rate: &amboy.Rate{PerSecond: 1, Burst: -1}})},
			{"no_rate", control(management.ControlChange{Rate: &amboy.Rate{PerSecond: 1}, NoRate: true})},
			{"type_limit", control(typeLimit("", amboy.TypeLimit{MaxRunning: 1}))},
			{"type_limit", control(typeLimit("letter", amboy.TypeLimit{MaxRunning: -1}))},
			{"workers", control(management.ControlChange{Workers: new(-1)})},
			{"workers", control(management.ControlChange{Workers: new(management.MaxWorkers + 1)})},
			{"type", create(management.NewJob{})},
			{"type", create(management.NewJob{Type: "unknown"})},
			{"id", create(management.NewJob{Type: "alpha", ID: strings.Repeat("a", amboy.MaxIDLength+1)})},
			{"args", create(management.NewJob{Type: "alpha", Args: json.RawMessage(`{"key":`)})},
			{"args", create(management.NewJob{Type: "alpha", Args: json.RawMessage(`{"no such":1}`)})},
			{"args", create(management.NewJob{Type: "alpha", Args: json.RawMessage(`{"key":1}`)})},
			{"args", create(management.NewJob{Type: "alpha", Args: json.RawMessage(`[]`)})},
			{"args", create(management.NewJob{Type: "post", Args: json.RawMessage(`{"to":"a","cc":"b"}`)})},
			{"args", create(management.NewJob{Type: "post", Args: json.RawMessage(`"` + strings.Repeat("a", management.MaxArgsBytes) + `"`)})},
			{"due", create(management.NewJob{Type: "alpha", Due: inAnHour(), Deadline: time.Now()})},
			{"idempotency_key", create(management.NewJob{Type: "alpha", IdempotencyKey: strings.Repeat("a", management.MaxIdempotencyKeyBytes+1)})},
			{"last", activity(management.ActivityRequest{Last: time.Second})},
			{"last", activity(management.ActivityRequest{Last: management.MaxActivity + 1})},
			{"types", activity(management.ActivityRequest{Types: []string{""}})},
			{"name", func() error {
				_, err := f.Scopes(f.ctx, management.ScopeFilter{Name: tooLong}, management.PageRequest{})
				return err
			}},
			{"part", func() error {
				_, err := f.Scopes(f.ctx, management.ScopeFilter{Part: tooLong}, management.PageRequest{})
				return err
			}},
			{"cursor", func() error {
				_, err := f.Scopes(f.ctx, management.ScopeFilter{}, management.PageRequest{Cursor: "x"})
				return err
			}},
			{"limit", func() error {
				_, err := f.Audit(f.ctx, management.AuditFilter{}, management.PageRequest{Limit: -1})
				return err
			}},
			{"cursor", func() error {
				_, err := f.Audit(f.ctx, management.AuditFilter{}, management.PageRequest{Cursor: "x"})
				return err
			}},
			{"every", func() error {
				for _, err := range f.Watch(f.ctx, 0) {
					return err
				}
				return nil
			}},
			{"every", func() error {
				for _, err := range f.Watch(f.ctx, management.MaxWatch+1) {
					return err
				}
				return nil
			}},
		} {
			f.Run(fmt.Sprintf("%d %s", n, test.field), func(t *testing.T) {
				var argument *management.InvalidArgumentError
				require.ErrorAs(t, test.call(), &argument)
				assert.Equal(t, test.field, argument.Field)
			})
		}
		assert.Equal(f, before, f.states(), "nothing must change")
		assert.Equal(f, management.Control{}, f.described().Control)
		audit, err := f.Audit(f.ctx, management.AuditFilter{}, management.PageRequest{})
		require.NoError(f, err)
		assert.Len(f, audit.Entries, 2, "only the setup is recorded: one job parked, one canceled")
	})
}

func FuzzCursors(f *testing.F) {
	store, err := memory.New(memory.Options{KeepFinished: 1})
	require.NoError(f, err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1})
	require.NoError(f, err)
	f.Cleanup(func() { q.Close(ended()) })
	for _, id := range []string{"a", "b"} {
		require.NoError(f, q.Put(context.Background(), tonight(id)))
	}
	i, err := management.NewInspector(q)
	require.NoError(f, err)
	page, err := i.FindJobs(context.Background(), management.JobFilter{}, management.PageRequest{Limit: 1})
	require.NoError(f, err)
	for _, seed := range []string{page.Next, "", "eyJ2IjoxfQ"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		_, err := i.FindJobs(t.Context(), management.JobFilter{}, management.PageRequest{Limit: 1, Cursor: cursor})
		var argument *management.InvalidArgumentError
		if err != nil {
			assert.ErrorAs(t, err, &argument)
		}
	})
}
