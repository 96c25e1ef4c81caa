package dashboard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/inspectortest"
	"github.com/mongodb/amboy/management"
)

// fake is an Inspector with invented data. It records the calls, and returns err if that is
// set.
type fake struct {
	// spec is that of the schedule that was last created or changed, and revision that of the change.
	spec     management.ScheduleSpec
	revision string
	// triggered is the idempotency key of the schedule that was last triggered.
	triggered string

	now time.Time
	err error
	// text replaces every text that may come from users.
	text string
	// empty makes all lists empty.
	empty bool
	// oldestReady is how long the oldest job of the backlog has waited, in seconds.
	oldestReady float64
	// many is the number of jobs that each filter selects.
	many int

	controls []management.ControlChange
	acts     []management.ActRequest
	actions  []management.Action
	edits    []management.JobEdit
	created  []management.NewJob
	filters  []management.JobFilter
	pages    []management.PageRequest
	audits   []management.AuditFilter
	scopes   []management.ScopeFilter
	asking   sync.Mutex
	asked    int // the number of calls that Share can answer
	changes  chan struct{}
}

var _ management.Inspector = (*fake)(nil)

func newFake() *fake {
	return &fake{now: time.Now(), text: "", oldestReady: 1200, many: 1204, changes: make(chan struct{})}
}

func (f *fake) or(text string) string {
	if f.text != "" {
		return f.text
	}
	return text
}

// ask counts a call that Share can answer. It may be called concurrently.
func (f *fake) ask() {
	f.asking.Lock()
	defer f.asking.Unlock()
	f.asked++
}

func (f *fake) ago(d time.Duration) time.Time { return f.now.Add(-d) }

func (f *fake) Queues(context.Context) ([]management.Queue, error) {
	f.ask()
	if f.err != nil || f.empty {
		return nil, f.err
	}
	queues := []management.Queue{
		{
			Name: f.or("billing"), OldestPending: f.ago(11*time.Minute + 20*time.Second),
			Control: management.Control{MaxRunning: 40, Rate: &amboy.Rate{PerSecond: 25.5, Burst: 3}},
			Counts:  management.Counts{Pending: 4213, Blocked: 120, Running: 40, Retrying: 310, Completed: 991_203, Total: 995_766},
		},
		{
			Name: "mail", OldestPending: f.ago(3 * time.Second),
			Counts: management.Counts{Pending: 18, Running: 6, Completed: 120_412, Total: 120_436},
			Unknown: []management.UnknownJobs{{
				JobKind: management.JobKind{Type: f.or("digest"), Version: 2}, Jobs: management.Count{Count: 12},
			}},
		},
		{
			Name: "reports", Control: management.Control{Paused: true}, OldestPending: f.ago(52 * time.Minute),
			Counts: management.Counts{Pending: 77, Blocked: 3, Completed: 4021, Total: 4098},
		},
		{
			Name: "tenant-acme", Control: management.Control{Draining: true, Workers: 8},
			Counts: management.Counts{Running: 2, Completed: 88, Total: 90},
		},
	}
	for i := range 12 {
		queues = append(queues, management.Queue{Name: fmt.Sprintf("tenant-%02d", i), Counts: management.Counts{Completed: 12 * i, Total: 12 * i}})
	}
	return queues, nil
}

func (f *fake) FindQueues(ctx context.Context, filter management.QueueFilter, page management.PageRequest) (management.QueuePage, error) {
	queues, err := f.Queues(ctx)
	if err != nil {
		return management.QueuePage{}, err
	}
	return inspectortest.Page(queues, filter, page)
}

func (f *fake) ErrorGroups(ctx context.Context, req management.ErrorGroupRequest) (management.ErrorGroups, error) {
	page, err := f.FindJobs(ctx, req.Filter, management.PageRequest{Cursor: req.Cursor, Limit: management.MaxLimit})
	groups := inspectortest.ErrorGroups(page.Jobs)
	return management.ErrorGroups{Groups: groups, Examined: len(groups), Next: page.Next}, err
}

func (f *fake) SumQueues(ctx context.Context) (management.QueueTotals, error) {
	queues, err := f.Queues(ctx)
	return inspectortest.Sum(queues), err
}

func (f *fake) Queue(ctx context.Context, name string) (management.Queue, error) {
	queues, err := f.Queues(ctx)
	for _, queue := range queues {
		if queue.Name == name {
			return queue, err
		}
	}
	if err == nil {
		err = fmt.Errorf("queue %q: %w", name, management.ErrUnknownQueue)
	}
	return management.Queue{}, err
}

func (f *fake) SetControl(_ context.Context, _ string, change management.ControlChange) (management.Control, error) {
	f.controls = append(f.controls, change)
	return management.Control{}, f.err
}

func (f *fake) Watch(ctx context.Context, _ time.Duration) iter.Seq2[[]management.Queue, error] {
	return func(yield func([]management.Queue, error) bool) {
		for {
			if !yield(nil, f.err) || f.err != nil {
				return
			}
			select {
			case <-f.changes:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (f *fake) jobs() []management.JobSummary {
	if f.empty {
		return nil
	}
	half := 0.62
	states := amboy.JobStates()
	jobs := make([]management.JobSummary, 0, 24)
	for i := range 24 {
		age := time.Duration(i*i) * 7 * time.Second
		job := management.JobSummary{
			JobRef:  management.JobRef{Queue: "billing", ID: fmt.Sprintf("invoice-2026-11-%04d", 4400-i)},
			Type:    "send-invoice",
			Version: 1,
			State:   states[(i*3+4)%len(states)],
			Attempt: i % 3, MaxAttempts: 5,
			Created: f.ago(age + time.Minute), Due: f.ago(age + time.Minute),
			Tags: []string{f.or("monthly")}, Args: json.RawMessage(fmt.Sprintf(`{"customer": %d,  "note": %q}`, i, f.or("net 30, "+strings.Repeat("thanks ", 40)))),
		}
		switch job.State {
		case amboy.StateRunning:
			job.Progress, job.Started, job.Owner = &half, f.ago(age), "host-3-7f2c"
			job.CancelRequested = i > 12
		case amboy.StateFailed, amboy.StateRetrying:
			job.Started, job.Ended = f.ago(age), f.ago(age-2*time.Second)
			job.Error = f.or(`posting invoice 4711: Post "https://pay.example.com/v1/charge": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`)
		case amboy.StateBlocked:
			job.Reason = f.or(`waits for the scope "customer-77"`)
		case amboy.StateSucceeded:
			job.Started, job.Ended = f.ago(age), f.ago(age-time.Second)
		}
		if f.text != "" {
			job.Queue, job.ID, job.Type = f.text, f.text+strconv.Itoa(i), f.text
		}
		jobs = append(jobs, job)
	}
	return jobs
}

func (f *fake) FindJobs(_ context.Context, filter management.JobFilter, page management.PageRequest) (management.JobPage, error) {
	f.asking.Lock()
	defer f.asking.Unlock()
	f.filters, f.pages = append(f.filters, filter), append(f.pages, page)
	if f.err != nil {
		return management.JobPage{}, f.err
	}
	jobs := f.jobs()
	return management.JobPage{Jobs: jobs[:min(len(jobs), page.Limit)], Next: map[bool]string{true: "c2"}[len(jobs) > 0]}, nil
}

func (f *fake) CountJobs(_ context.Context, _ management.JobFilter, most int) (management.Count, error) {
	f.ask()
	if f.empty {
		return management.Count{}, f.err
	}
	return management.Count{Count: min(f.many, most), More: f.many > most}, f.err
}

func (f *fake) CountStates(_ context.Context, req management.StateCountRequest) ([]management.StateCount, error) {
	f.ask()
	if f.err != nil {
		return nil, f.err
	}
	states := req.Filter.States
	if len(states) == 0 {
		states = amboy.JobStates()
	}
	var counts []management.StateCount
	for i, state := range states {
		count := management.Count{Count: min(f.many/(i+1), req.Most), More: f.many/(i+1) > req.Most}
		if f.empty {
			count = management.Count{}
		}
		counts = append(counts, management.StateCount{State: state, Count: count})
	}
	return counts, nil
}

// stack is the stack of a job that panicked.
const stack = `goroutine 4711 [running]:
example.com/billing.(*invoice).post(0xc0001a2000, {0x1046b8a20, 0x14000120000})
	/src/billing/invoice.go:212 +0x1d4
example.com/billing.(*invoice).Run(0xc0001a2000, {0x1046b8a20, 0x14000120000})
	/src/billing/invoice.go:88 +0x5c
github.com/mongodb/amboy.runJob(...)
	/src/amboy/run_job.go:71`

func (f *fake) Job(_ context.Context, queue, id string) (management.Job, error) {
	if f.err != nil {
		return management.Job{}, f.err
	}
	if id == "missing" {
		return management.Job{}, amboy.NewJobNotFoundErrorf("queue %q has no job %q", queue, id)
	}
	half := 0.62
	job := management.Job{
		JobSummary: management.JobSummary{
			JobRef: management.JobRef{Queue: queue, ID: id},
			Type:   f.or("send-invoice"), Version: 1, State: amboy.StateFailed, Priority: 10,
			Tags: []string{f.or("customer:77"), "monthly"}, Attempt: 2, MaxAttempts: 3,
			Created: f.ago(14 * time.Minute), Due: f.ago(13 * time.Minute), Started: f.ago(4 * time.Minute), Ended: f.ago(3*time.Minute + 50*time.Second),
			Owner: f.or("host-3-7f2c"), Error: f.or("posting invoice 4711: 503 Service Unavailable"),
			Deadline: f.now.Add(time.Hour),
			Args:     json.RawMessage(`{"customer":77,"invoice":4711,"lines":[{"what":"seats","n":12},{"what":"support","n":1}],"note":` + strconv.Quote(f.or("net 30")) + `}`),
		},
		MaxTime: 30, LeaseRenewed: f.ago(3*time.Minute + 55*time.Second),
		Errors: []amboy.AttemptError{
			{Attempt: 0, At: f.ago(12 * time.Minute), Error: f.or("posting invoice 4711: context deadline exceeded")},
			{Attempt: 1, At: f.ago(9 * time.Minute), Error: f.or("panic: runtime error: invalid memory address or nil pointer dereference"), Stack: f.or(stack)},
			{Attempt: 2, At: f.ago(3*time.Minute + 50*time.Second), Error: f.or("posting invoice 4711: 503 Service Unavailable")},
		},
		Attempts: []management.Attempt{
			{Number: 0, State: amboy.StateFailed, Owner: "host-1-11aa", Created: f.ago(14 * time.Minute), Started: f.ago(13 * time.Minute), Ended: f.ago(12 * time.Minute), Errors: []string{f.or("posting invoice 4711: context deadline exceeded")}},
			{Number: 1, State: amboy.StateFailed, Owner: "host-1-11aa", Created: f.ago(12 * time.Minute), Started: f.ago(10 * time.Minute), Ended: f.ago(9 * time.Minute), Errors: []string{"panic: runtime error: invalid memory address or nil pointer dereference"}},
			{Number: 2, State: amboy.StateFailed, Owner: "host-3-7f2c", Created: f.ago(9 * time.Minute), Started: f.ago(4 * time.Minute), Ended: f.ago(3*time.Minute + 50*time.Second), Errors: []string{"posting invoice 4711: 503 Service Unavailable"}},
		},
		Log: []amboy.LogLine{
			{Time: f.ago(4 * time.Minute), Text: f.or("rendering 12 pages")},
			{Time: f.ago(3*time.Minute + 58*time.Second), Text: "posting to pay.example.com"},
			{Time: f.ago(3*time.Minute + 50*time.Second), Text: "answer: 503 Service Unavailable"},
		},
		Metadata: map[string]string{f.or("trace"): f.or("4bf92f3577b34da6a3ce929d0e0e4736")},
		Scopes: []management.ScopeUse{
			{Name: f.or("customer-77"), Holder: &management.JobRef{Queue: "billing", ID: f.or("invoice-2026-11-4398")}},
			{Name: "ledger", Held: true},
		},
		DependsOn:  []management.Dependency{{JobRef: management.JobRef{Queue: "billing", ID: "render-4711"}, State: amboy.StateSucceeded, Type: "render"}},
		Dependents: []management.Dependency{{JobRef: management.JobRef{Queue: "billing", ID: "close-month"}, State: amboy.StateBlocked, Type: "close"}},
		Timeline: []management.Moment{
			{Time: f.ago(14 * time.Minute), What: "created", Detail: "with priority 10"},
			{Time: f.ago(13 * time.Minute), What: "attempt 1 started", Detail: "by host-1-11aa"},
			{Time: f.ago(12 * time.Minute), What: "attempt 1 failed", Detail: f.or("posting invoice 4711: context deadline exceeded")},
			{Time: f.ago(9 * time.Minute), What: "attempt 2 failed", Detail: "panic: runtime error: invalid memory address or nil pointer dereference"},
			{Time: f.ago(4 * time.Minute), What: "attempt 3 started", Detail: "by host-3-7f2c"},
			{Time: f.ago(3*time.Minute + 50*time.Second), What: "failed for good", Detail: "posting invoice 4711: 503 Service Unavailable"},
			{Time: f.now.Add(7 * 24 * time.Hour), What: "is deleted", Future: true},
		},
		Actions: []management.ActionKind{management.Retry, management.Delete},
	}
	switch id {
	case "running":
		job.State, job.Progress, job.ProgressMessage = amboy.StateRunning, &half, f.or("62 of 100 pages")
		job.StuckSince = f.ago(time.Minute)
		job.Stuck = &amboy.StuckRun{Since: job.StuckSince, Cause: f.or("context deadline exceeded"), Stack: f.or(stack)}
		job.Ended, job.Error = time.Time{}, ""
		job.Actions = []management.ActionKind{management.Cancel, management.Prioritize, management.Complete}
		job.CancelRequested = true
	case "close-month":
		job.State, job.Type, job.Reason = amboy.StateBlocked, "close", `waits for the job "invoice-2026-11-4400"`
		job.Errors, job.Attempts, job.Log, job.Error = nil, nil, nil, ""
		job.Actions = []management.ActionKind{
			management.Retry, management.Cancel, management.Park, management.Reschedule, management.Prioritize, management.Complete,
		}
		job.Editable, job.Revision = []string{management.FieldArgs, management.FieldPriority, management.FieldDue}, "7"
	case "bare":
		job = management.Job{JobSummary: management.JobSummary{JobRef: job.JobRef, Type: "bare", State: amboy.StatePending, ArgsHidden: "masked"}}
	}
	return job, nil
}

func (f *fake) Graph(_ context.Context, queue, id string, _ int) (management.Graph, error) {
	job := func(id, jobType string, state amboy.JobState, distance int) management.GraphJob {
		return management.GraphJob{
			JobRef: management.JobRef{Queue: queue, ID: id}, Type: f.or(jobType), State: state,
			Distance: distance, Holds: !state.IsFinal() && state != "",
		}
	}
	graph := management.Graph{
		Jobs: []management.GraphJob{
			job(id, "send-invoice", amboy.StateFailed, 0),
			job("render-4711", "render", amboy.StateSucceeded, -1),
			job("fetch-lines-4711", "fetch", amboy.StateRunning, -2),
			job("fetch-customer-77", "fetch", "", -2),
			job("close-month", "close", amboy.StateBlocked, 1),
			job("remind-4711", "mail", amboy.StateBlocked, 1),
			job("report-2026-11", "report", amboy.StateBlocked, 2),
		},
		Edges: []management.GraphEdge{
			{From: id, To: "render-4711"},
			{From: "render-4711", To: "fetch-lines-4711"},
			{From: "render-4711", To: "fetch-customer-77"},
			{From: "close-month", To: id},
			{From: "remind-4711", To: id},
			{From: "report-2026-11", To: "close-month"},
			{From: "report-2026-11", To: "render-4711"},
		},
		Truncated: true,
	}
	return graph, f.err
}

func (f *fake) CreateJob(_ context.Context, job management.NewJob) (management.Created, error) {
	repeated := job.IdempotencyKey != "" && slices.ContainsFunc(f.created, func(earlier management.NewJob) bool {
		return earlier.IdempotencyKey == job.IdempotencyKey
	})
	f.created = append(f.created, job)
	return management.Created{JobRef: management.JobRef{Queue: job.Queue, ID: "made-up"}, Repeated: repeated}, f.err
}

func (f *fake) ActOn(_ context.Context, queue, id string, action management.Action) (management.Acted, error) {
	f.actions = append(f.actions, action)
	if id == "running" && action.Kind == management.Delete {
		return management.Acted{}, &management.StateError{
			Job: management.JobRef{Queue: queue, ID: id}, State: amboy.StateRunning, Action: action.Kind, Rule: "requires a job that has ended",
		}
	}
	return management.Acted{Done: 1}, f.err
}

func (f *fake) EditJob(_ context.Context, _, _ string, edit management.JobEdit) (management.JobEdited, error) {
	f.edits = append(f.edits, edit)
	edited := management.JobEdited{Revision: "8", Changes: []management.FieldChange{}}
	if edit.Args != nil {
		edited.Changes = append(edited.Changes, management.FieldChange{Field: "args", From: json.RawMessage(`{"to":"ann"}`), To: edit.Args})
	}
	if edit.Due != nil {
		edited.Changes = append(edited.Changes, management.FieldChange{Field: "due", From: json.RawMessage(`"2026-11-25T10:00:00Z"`), To: json.RawMessage(`"0001-01-01T00:00:00Z"`)})
	}
	return edited, f.err
}

// Act acts on many jobs. The state of every tenth job does not allow it.
func (f *fake) Act(_ context.Context, req management.ActRequest) (management.Acted, error) {
	f.acts = append(f.acts, req)
	if f.err != nil {
		return management.Acted{}, f.err
	}
	if len(req.Filter.IDs) > 0 {
		return management.Acted{Done: len(req.Filter.IDs)}, nil
	}
	from := 0
	if req.Cursor != "" {
		var err error
		from, err = strconv.Atoi(req.Cursor)
		if err != nil {
			return management.Acted{}, &management.InvalidArgumentError{Field: "cursor", Value: req.Cursor, Rule: "must be a cursor"}
		}
	}
	looked := min(req.Limit, f.many-from)
	acted := management.Acted{Done: looked - looked/10, Skipped: looked / 10}
	if req.DryRun {
		acted.States = management.StateCounts{Scheduled: 1, Failed: acted.Done - 1}
	}
	if from+looked < f.many {
		acted.Next = strconv.Itoa(from + looked)
	}
	return acted, nil
}

func (f *fake) Scopes(_ context.Context, filter management.ScopeFilter, _ management.PageRequest) (management.ScopePage, error) {
	f.scopes = append(f.scopes, filter)
	if f.err != nil || f.empty {
		return management.ScopePage{}, f.err
	}
	return management.ScopePage{
		Scopes: []management.Scope{
			{Queue: "billing", Name: f.or("customer-77"), Holder: management.JobRef{Queue: "billing", ID: f.or("invoice-2026-11-4398")}, State: amboy.StateRunning, Since: f.ago(4 * time.Minute), Waiting: management.Count{Count: 3}},
			{Queue: "billing", Name: "ledger", Holder: management.JobRef{Queue: "billing", ID: "invoice-2026-11-4400"}, State: amboy.StateRetrying, Since: f.ago(9 * time.Minute), Waiting: management.Count{Count: 1000, More: true}},
		},
		Next: "c2",
	}, nil
}

func (f *fake) Processes(context.Context) ([]management.Process, error) {
	if f.err != nil || f.empty {
		return nil, f.err
	}
	running := f.jobs()[:3]
	return []management.Process{
		{
			ID: f.or("host-3-7f2c"), Host: f.or("worker-3.example.com"), PID: 4711, Started: f.ago(26 * time.Hour), Seen: f.ago(12 * time.Second), Alive: true,
			Queues:  []management.ProcessQueue{{Name: "billing", Workers: 40, Started: true}, {Name: "mail", Workers: 8, Started: true}, {Name: "reports", Workers: 2}},
			Running: running, RunningCount: management.Count{Count: 3},
		},
		{
			ID: "host-1-11aa", Host: "worker-1.example.com", PID: 88, Started: f.ago(49 * time.Hour), Seen: f.ago(8 * time.Minute),
			Queues: []management.ProcessQueue{{Name: "billing", Workers: 40, Started: true}},
		},
	}, nil
}

func (f *fake) Activity(_ context.Context, req management.ActivityRequest) (management.Activity, error) {
	f.ask()
	if f.err != nil {
		return management.Activity{}, f.err
	}
	step := time.Minute
	if req.Last > 2*time.Hour {
		step = time.Hour
	}
	activity := management.Activity{From: f.ago(req.Last), To: f.now, Step: step.Seconds()}
	for i := range int(req.Last / step) {
		point := management.ActivityPoint{Time: f.ago(req.Last).Add(time.Duration(i) * step).Truncate(step)}
		if !f.empty {
			point.Succeeded, point.Failed, point.Retried = 300+(i*i*37)%140+i*4, (i*7)%9, (i*5)%17
			if i >= 30 {
				point.Backlog = &management.Backlog{Ready: 20 * i, Waiting: 40, Running: 48, OldestReady: f.oldestReady}
			}
			if i%20 > 14 {
				point.Failed += 30
			}
		}
		activity.Points = append(activity.Points, point)
	}
	if f.empty {
		return activity, nil
	}
	times := management.Percentiles{P50: 0.012, P90: 0.31, P99: 2.4, Max: 71}
	queue := "billing"
	if len(req.Queues) > 0 {
		queue = req.Queues[0]
	}
	activity.Rows = []management.ActivityRow{
		{Queue: queue, Type: f.or("send-invoice"), Succeeded: 18_210, Failed: 312, Retried: 901, PerSecond: 5.4, FailureRate: 0.062, Wait: times, Run: times},
		{Queue: queue, Type: "render", Succeeded: 8120, PerSecond: 2.2, Wait: times, Run: times},
		{Queue: "mail", Type: "send-mail", Succeeded: 1024, Failed: 1, PerSecond: 0.28, FailureRate: 0.0009, Wait: times, Run: times},
	}
	activity.Sum = management.ActivityRow{Succeeded: 27_354, Failed: 313, Retried: 901, PerSecond: 7.9, FailureRate: 0.042, Wait: times, Run: times}
	return activity, nil
}

func (f *fake) Diagnose(context.Context) (management.Diagnosis, error) {
	if f.err != nil || f.empty {
		return management.Diagnosis{Time: f.now}, f.err
	}
	return management.Diagnosis{Time: f.now, Queues: 3, MoreQueues: true, Findings: []management.Finding{
		{
			Kind: management.ExpiredLease, Severity: management.Critical,
			Subject: management.Subject{InQueue: true, Queue: "billing", JobID: "running", Process: f.or("host-2.12")},
			Detail:  f.or("1 lease has not been renewed."), Why: f.or("The process is dead."), Remedy: f.or("Start a process."),
			Command: f.or("amboy jobs abandon billing running"), Docs: "docs/guides/diagnose-a-store.md#leases",
		},
		{
			Kind: management.FailingSchedule, Severity: management.Critical, Subject: management.Subject{InQueue: true, Queue: f.or(""), Schedule: f.or("digest")},
			Detail: f.or("The job could not be enqueued."), Docs: "docs/guides/schedule-jobs.md",
		},
		{Kind: management.UnknownType, Severity: management.Critical, Subject: management.Subject{InQueue: true, Queue: "mail", Type: f.or("send")}},
		{Kind: management.MissingIndex, Severity: management.Warning, Subject: management.Subject{Name: f.or("next_job")}, Command: f.or("CREATE INDEX")},
	}}, nil
}

func (f *fake) Schedules(context.Context) ([]management.Schedule, error) {
	if f.err != nil || f.empty {
		return nil, f.err
	}
	return []management.Schedule{
		{Queue: "reports", Name: f.or("nightly-report"), Spec: f.or("0 3 * * * Europe/Berlin"), CatchUp: "latest", Last: f.ago(19 * time.Hour), Next: f.now.Add(5 * time.Hour), Seen: f.ago(20 * time.Second)},
		{Queue: "mail", Name: "digest", Spec: "every 15m", CatchUp: "none", Last: f.ago(4 * time.Hour), Next: f.now.Add(6 * time.Minute), Error: f.or("queue is draining"), Seen: f.ago(50 * time.Second)},
	}, nil
}

func (f *fake) Audit(_ context.Context, filter management.AuditFilter, _ management.PageRequest) (management.AuditPage, error) {
	f.audits = append(f.audits, filter)
	if f.err != nil || f.empty {
		return management.AuditPage{}, f.err
	}
	return management.AuditPage{
		Entries: []management.AuditEntry{
			{Time: f.ago(2 * time.Minute), Actor: f.or("ana@example.com"), What: "retry", Detail: f.or(`{"filter":{"queues":["billing"],"states":["failed"],"types":["send-invoice"]},"limit":500}`), Done: 312, Skipped: 4},
			{Time: f.ago(6 * time.Minute), Actor: "ana@example.com", What: "control", Queue: "reports", Detail: `{"paused":true}`},
			{Time: f.ago(40 * time.Minute), What: management.WhatRefused, Queue: "billing", Refused: 1012, Detail: f.or(`{"what":"delete","job_id":"invoice-2026-11-4001","error":"job is running: delete requires a job that has ended"}`)},
		},
		Next: "c2",
	}, nil
}
