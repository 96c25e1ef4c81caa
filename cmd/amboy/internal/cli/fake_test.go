package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/inspectortest"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest"
)

// start is the current time for the fake's jobs.
var start = time.Date(2026, 11, 21, 15, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return start.Add(-d) }

// fake is a service with a few jobs and constant answers.
type fake struct {
	management.Inspector // nil: other methods must not be called
	jobs                 []management.Job
	// pageSize is the largest page that it returns; 0 for no limit.
	pageSize int
	// later changes the jobs in the first list after a time; nil for no change.
	later func()
	after time.Time
	// The arguments of the last calls:
	filter  management.JobFilter
	acts    []management.ActRequest
	control management.ControlChange
	created management.NewJob
	edited  management.JobEdit
	audited management.AuditFilter
	// unknown are the kinds of jobs of queue mail that no process can run.
	unknown []management.UnknownJobs
	// err is the error of all calls, if it is set.
	err error
}

func newFake() *fake {
	return &fake{jobs: []management.Job{
		{
			JobSummary: management.JobSummary{
				JobRef: management.JobRef{Queue: "mail", ID: "welcome-ada"}, Type: "send", Version: 1,
				State: amboy.StateFailed, Attempt: 2, MaxAttempts: 3, Tags: []string{"welcome"},
				Created: ago(2 * time.Hour), Started: ago(30 * time.Minute), Ended: ago(30*time.Minute - 2*time.Second),
				Owner: "host-1", Error: "dial mail.example:25: connection refused",
				Args: json.RawMessage(`{"to":"ada@example.org"}`),
			},
			Errors: []amboy.AttemptError{{
				Attempt: 2, At: ago(30*time.Minute - 2*time.Second), Error: "dial mail.example:25: connection refused",
				Stack: "mail.(*sender).send\n\tmail/send.go:31\n",
			}},
			Attempts: []management.Attempt{
				{Number: 2, State: amboy.StateFailed, Owner: "host-1", Started: ago(30 * time.Minute), Ended: ago(30*time.Minute - 2*time.Second)},
			},
			Log:      []amboy.LogLine{{Time: ago(30 * time.Minute), Text: "connecting"}},
			Scopes:   []management.ScopeUse{{Name: "smtp", Holder: &management.JobRef{Queue: "mail", ID: "digest"}}},
			Metadata: map[string]string{"trace": "4bf9"},
			Timeline: []management.Moment{
				{Time: ago(2 * time.Hour), What: "created"},
				{Time: ago(30*time.Minute - 2*time.Second), What: "failed", Detail: "dial mail.example:25: connection refused"},
			},
			Actions: []management.ActionKind{management.Retry, management.Delete},
		},
		{
			JobSummary: management.JobSummary{
				JobRef: management.JobRef{Queue: "mail", ID: "digest"}, Type: "digest", Version: 1,
				State: amboy.StateRunning, Created: ago(10 * time.Minute), Started: ago(time.Minute), Progress: new(0.4),
			},
			ProgressMessage: "400 of 1000",
			DependsOn:       []management.Dependency{{JobRef: management.JobRef{Queue: "reports", ID: "gone"}, Type: ""}},
			Dependents:      []management.Dependency{{JobRef: management.JobRef{Queue: "mail", ID: "later"}, State: amboy.StateBlocked, Type: "send"}},
		},
		{JobSummary: management.JobSummary{
			JobRef: management.JobRef{Queue: "mail", ID: "later"}, Type: "send", Version: 1,
			State: amboy.StateScheduled, Created: ago(5 * time.Second), Due: start.Add(90 * time.Minute), MaxAttempts: 3,
		}},
		{JobSummary: management.JobSummary{
			JobRef: management.JobRef{Queue: "", ID: "old"}, Type: "report", Version: 2,
			State: amboy.StateSucceeded, Created: ago(72 * time.Hour), Ended: ago(71 * time.Hour),
		}},
	}}
}

func (f *fake) Queues(context.Context) ([]management.Queue, error) {
	return []management.Queue{
		{Name: "", Counts: management.Counts{Completed: 1, Total: 1}},
		{
			Name:          "mail",
			Control:       management.Control{MaxRunning: 10},
			Counts:        management.Counts{Pending: 1, Running: 1, Completed: 1, Total: 3},
			OldestPending: ago(5 * time.Second),
			Unknown:       f.unknown,
		},
	}, f.err
}

func (f *fake) FindQueues(ctx context.Context, filter management.QueueFilter, page management.PageRequest) (management.QueuePage, error) {
	queues, err := f.Queues(ctx)
	if err != nil {
		return management.QueuePage{}, err
	}
	return inspectortest.Page(queues, filter, page)
}

func (f *fake) ErrorGroups(ctx context.Context, req management.ErrorGroupRequest) (management.ErrorGroups, error) {
	page, err := f.FindJobs(ctx, req.Filter, management.PageRequest{})
	groups := inspectortest.ErrorGroups(page.Jobs)
	return management.ErrorGroups{Groups: groups, Examined: len(groups)}, err
}

func (f *fake) SumQueues(ctx context.Context) (management.QueueTotals, error) {
	queues, err := f.Queues(ctx)
	return inspectortest.Sum(queues), err
}

func (f *fake) Queue(ctx context.Context, name string) (management.Queue, error) {
	queues, err := f.Queues(ctx)
	for _, q := range queues {
		if q.Name == name {
			return q, err
		}
	}
	return management.Queue{}, fmt.Errorf("%w: %q", management.ErrUnknownQueue, name)
}

func (f *fake) SetControl(ctx context.Context, name string, change management.ControlChange) (management.Control, error) {
	if _, err := f.Queue(ctx, name); err != nil && !change.Create {
		return management.Control{}, err
	}
	f.control = change
	control := management.Control{MaxRunning: 10, Rate: change.Rate}
	for _, c := range []struct{ to, from *bool }{{&control.Paused, change.Paused}, {&control.Draining, change.Draining}} {
		if c.from != nil {
			*c.to = *c.from
		}
	}
	for _, c := range []struct{ to, from *int }{{&control.MaxRunning, change.MaxRunning}, {&control.Workers, change.Workers}} {
		if c.from != nil {
			*c.to = *c.from
		}
	}
	return control, f.err
}

// Watch yields twice, and then waits.
func (f *fake) Watch(ctx context.Context, every time.Duration) iter.Seq2[[]management.Queue, error] {
	return func(yield func([]management.Queue, error) bool) {
		for range 2 {
			queues, err := f.Queues(ctx)
			if !yield(queues, err) || err != nil {
				return
			}
			time.Sleep(every) // fake time
		}
		<-ctx.Done()
		yield(nil, ctx.Err())
	}
}

func (f *fake) selects(filter management.JobFilter, j management.JobSummary) bool {
	in := func(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }
	return in(filter.Queues, j.Queue) && in(filter.Types, j.Type) && in(filter.IDs, j.ID) &&
		(len(filter.States) == 0 || slices.Contains(filter.States, j.State)) &&
		strings.Contains(j.Error, filter.Error)
}

// find returns a page of jobs; a cursor is the number of jobs before it.
func (f *fake) find(filter management.JobFilter, cursor string, limit int) (found []management.Job, next string) {
	f.filter = filter
	first := len(cursor)
	if f.pageSize > 0 {
		limit = min(limit, f.pageSize)
	}
	for i, j := range f.jobs {
		if i < first || !f.selects(filter, j.JobSummary) {
			continue
		}
		if len(found) == limit {
			return found, strings.Repeat("c", i)
		}
		found = append(found, j)
	}
	return found, ""
}

func (f *fake) FindJobs(_ context.Context, filter management.JobFilter, page management.PageRequest) (management.JobPage, error) {
	if f.later != nil && time.Now().After(f.after) {
		f.later()
		f.later = nil
	}
	found, next := f.find(filter, page.Cursor, page.Limit)
	var jobs []management.JobSummary
	for _, j := range found {
		jobs = append(jobs, j.JobSummary)
	}
	return management.JobPage{Jobs: jobs, Next: next}, f.err
}

func (f *fake) CountJobs(_ context.Context, filter management.JobFilter, most int) (management.Count, error) {
	found, next := f.find(filter, "", most)
	return management.Count{Count: len(found), More: next != ""}, f.err
}

func (f *fake) CountStates(ctx context.Context, req management.StateCountRequest) ([]management.StateCount, error) {
	var counts []management.StateCount
	for _, state := range amboy.JobStates() {
		filter := req.Filter
		if len(filter.States) > 0 && !slices.Contains(filter.States, state) {
			continue
		}
		filter.States = []amboy.JobState{state}
		count, err := f.CountJobs(ctx, filter, management.MaxCount)
		if err != nil {
			return nil, err
		}
		counts = append(counts, management.StateCount{State: state, Count: count})
	}
	return counts, nil
}

func (f *fake) Job(_ context.Context, queue, id string) (management.Job, error) {
	found, _ := f.find(management.JobFilter{Queues: []string{queue}, IDs: []string{id}}, "", 1)
	switch {
	case f.err != nil:
		return management.Job{}, f.err
	case len(found) == 0:
		return management.Job{}, amboy.NewJobNotFoundErrorf("queue %q has no job %q", queue, id)
	default:
		return found[0], nil
	}
}

func (f *fake) Graph(_ context.Context, queue, id string, _ int) (management.Graph, error) {
	ref := func(id string) management.JobRef { return management.JobRef{Queue: queue, ID: id} }
	return management.Graph{
		Jobs: []management.GraphJob{
			{JobRef: ref(id), State: amboy.StateBlocked, Type: "digest"},
			{JobRef: ref("later"), State: amboy.StateBlocked, Type: "send", Distance: 1},
			{JobRef: ref("fetch"), Distance: -1},
		},
		Edges:     []management.GraphEdge{{From: id, To: "fetch"}, {From: "later", To: id}},
		Truncated: true,
	}, f.err
}

func (f *fake) CreateJob(_ context.Context, job management.NewJob) (management.Created, error) {
	f.created = job
	if job.ID == "" {
		job.ID = "made-up"
	}
	return management.Created{
		JobRef:   management.JobRef{Queue: job.Queue, ID: job.ID},
		Repeated: job.IdempotencyKey == "again",
	}, f.err
}

func (f *fake) EditJob(_ context.Context, _, _ string, edit management.JobEdit) (management.JobEdited, error) {
	f.edited = edit
	edited := management.JobEdited{Revision: "4"}
	if edit.Priority != nil {
		edited.Changes = append(edited.Changes, management.FieldChange{Field: "priority", From: json.RawMessage("0"), To: json.RawMessage(fmt.Sprint(*edit.Priority))})
	}
	if edit.Args != nil {
		edited.Changes = append(edited.Changes, management.FieldChange{Field: "args", From: json.RawMessage(`{"n":1}`), To: edit.Args})
	}
	return edited, f.err
}

// allowed lists the states in which the fake allows an action.
var allowed = map[management.ActionKind][]amboy.JobState{
	management.Retry:      {amboy.StateFailed, amboy.StateScheduled},
	management.Cancel:     {amboy.StateScheduled, amboy.StateRunning},
	management.Park:       {amboy.StateScheduled},
	management.Release:    {amboy.StateParked},
	management.Reschedule: {amboy.StateScheduled},
	management.Prioritize: {amboy.StateScheduled, amboy.StateRunning},
	management.Complete:   {amboy.StateScheduled, amboy.StateRunning},
	management.Delete:     {amboy.StateFailed, amboy.StateSucceeded},
}

func (f *fake) ActOn(ctx context.Context, queue, id string, action management.Action) (management.Acted, error) {
	job, err := f.Job(ctx, queue, id)
	if err != nil {
		return management.Acted{}, err
	}
	f.acts = append(f.acts, management.ActRequest{Action: action})
	if !slices.Contains(allowed[action.Kind], job.State) {
		return management.Acted{}, &management.StateError{
			Job: job.JobRef, State: job.State, Action: action.Kind, Rule: "needs another state",
		}
	}
	return management.Acted{Done: 1}, nil
}

func (f *fake) Act(_ context.Context, req management.ActRequest) (management.Acted, error) {
	f.acts = append(f.acts, req)
	found, next := f.find(req.Filter, req.Cursor, req.Limit)
	acted := management.Acted{Next: next}
	for _, j := range found {
		if !slices.Contains(allowed[req.Kind], j.State) {
			acted.Skipped++
			continue
		}
		acted.Done++
		if req.DryRun {
			acted.States.Add(oneOf[j.State])
		}
	}
	return acted, f.err
}

// oneOf is a count of one job by its state.
var oneOf = map[amboy.JobState]management.StateCounts{
	amboy.StateScheduled: {Scheduled: 1},
	amboy.StateRunning:   {Running: 1},
	amboy.StateParked:    {Parked: 1},
	amboy.StateSucceeded: {Succeeded: 1},
	amboy.StateFailed:    {Failed: 1},
}

func (f *fake) Scopes(_ context.Context, _ management.ScopeFilter, page management.PageRequest) (management.ScopePage, error) {
	next := ""
	if page.Limit == 1 {
		next = "c1"
	}
	return management.ScopePage{Scopes: []management.Scope{{
		Queue: "mail", Name: "smtp", Holder: management.JobRef{Queue: "mail", ID: "digest"}, State: amboy.StateRunning,
		Since: ago(time.Minute), Waiting: management.Count{Count: 1000, More: true},
	}}, Next: next}, f.err
}

func (f *fake) Processes(context.Context) ([]management.Process, error) {
	return []management.Process{
		{
			ID: "host-1.4711", Host: "host-1", PID: 4711, Started: ago(26 * time.Hour), Seen: ago(20 * time.Second), Alive: true,
			Queues:       []management.ProcessQueue{{Name: "mail", Workers: 4, Started: true}, {Name: "reports"}},
			RunningCount: management.Count{Count: 1},
		},
		{ID: "host-2.12", Host: "host-2", PID: 12, Started: ago(26 * time.Hour), Seen: ago(10 * time.Minute)},
	}, f.err
}

func (f *fake) Activity(_ context.Context, req management.ActivityRequest) (management.Activity, error) {
	row := management.ActivityRow{
		Queue: "mail", Type: "send", Succeeded: 3400, Failed: 100, Retried: 250, PerSecond: 1.0416, FailureRate: 0.0933,
		Wait: management.Percentiles{P50: 0.0032, P90: 0.1, P99: 1.52, Max: 3},
		Run:  management.Percentiles{P50: 0.25, P90: 0.5, P99: 2.5, Max: 75},
	}
	sum := row
	sum.Queue, sum.Type = "", ""
	return management.Activity{
		From: start.Add(-req.Last), To: start, Step: 60, Points: []management.ActivityPoint{},
		Rows: []management.ActivityRow{row}, Sum: sum,
	}, f.err
}

func (f *fake) Schedules(context.Context) ([]management.Schedule, error) {
	return []management.Schedule{{
		Queue: "mail", Name: "digest", Spec: "@daily", CatchUp: "one", Last: ago(15 * time.Hour), Next: start.Add(9 * time.Hour),
		Seen: ago(10 * time.Second), Error: "queue is\ndraining",
	}}, f.err
}

func (f *fake) Audit(_ context.Context, filter management.AuditFilter, _ management.PageRequest) (management.AuditPage, error) {
	f.audited = filter
	return management.AuditPage{Entries: []management.AuditEntry{
		{Time: ago(time.Minute), Actor: "ada", What: "retry", Queue: "mail", JobID: "welcome-ada", Detail: `{"action":"retry"}`, Done: 1},
		{Time: ago(time.Hour), What: "control", Queue: "mail", Detail: `{"paused":true}`, Error: "no connection"},
		{Time: ago(2 * time.Hour), Actor: "eve", What: management.WhatRefused, Queue: "mail", Detail: `{"what":"delete","job_id":"digest","error":"…"}`, Refused: 10_400},
	}}, f.err
}

// Diagnose finds a lease that ran out. It makes no diagnosis if the
// fake fails, and finds nothing if there are no jobs.
func (f *fake) Diagnose(context.Context) (management.Diagnosis, error) {
	diagnosis := management.Diagnosis{Time: start, Queues: 2, Findings: []management.Finding{}}
	if f.err != nil || len(f.jobs) == 0 {
		return diagnosis, f.err
	}
	diagnosis.Findings = []management.Finding{
		{
			Kind: management.ExpiredLease, Severity: management.Critical,
			Subject: management.Subject{InQueue: true, Queue: "mail", JobID: "digest", Process: "host-2.12"},
			Detail:  "1 lease has not been renewed by host-2.12; the first, of digest, ran out 40m ago.",
			Why:     "The process is dead or hangs, and no live process has taken its jobs back: they hold their scopes, and do not end.",
			Remedy:  "Start a process that runs the queue: it takes the jobs back within one and a half times their leases. To let one run at once, abandon its run.",
			Command: "amboy jobs abandon mail digest",
			Docs:    "docs/guides/diagnose-a-store.md#leases",
		},
	}
	return diagnosis, nil
}

func refusal(status int) error {
	return fmt.Errorf("listing: %w", &rest.ResponseError{
		Method: http.MethodGet, URL: "http://jobs.example/v2/queues", StatusCode: status, Message: "not for you",
	})
}
