package rest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/inspectortest"
	"github.com/mongodb/amboy/management"
)

// The queues of two tenants.
const (
	mine   = "mine"
	theirs = "theirs"
)

// tenants is an Inspector of the queues of two tenants. Every answer contains data of both,
// whatever the request, so that only the handler separates the tenants.
type tenants struct {
	mu sync.Mutex
	// did lists the actions, with their actors.
	did []string
}

func (i *tenants) do(ctx context.Context, what, queue string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.did = append(i.did, fmt.Sprintf("%s %s by %q", what, queue, management.ActorOf(ctx)))
}

func (i *tenants) done() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.did
}

var both = []string{mine, theirs}

// of calls a function for each tenant.
func of[T any](thing func(queue string) T) []T { return []T{thing(mine), thing(theirs)} }

func ref(queue string) management.JobRef {
	return management.JobRef{Queue: queue, ID: "job of " + queue}
}

func summary(queue string) management.JobSummary {
	return management.JobSummary{JobRef: ref(queue), Type: "resize", State: amboy.StateRunning, Owner: "process"}
}

func (i *tenants) Queues(context.Context) ([]management.Queue, error) {
	return of(func(queue string) management.Queue { return management.Queue{Name: queue} }), nil
}

func (i *tenants) FindQueues(ctx context.Context, filter management.QueueFilter, page management.PageRequest) (management.QueuePage, error) {
	queues, err := i.Queues(ctx)
	if err != nil {
		return management.QueuePage{}, err
	}
	return inspectortest.Page(queues, filter, page)
}

func (i *tenants) SumQueues(ctx context.Context) (management.QueueTotals, error) {
	queues, err := i.Queues(ctx)
	return inspectortest.Sum(queues), err
}

func (i *tenants) Queue(_ context.Context, name string) (management.Queue, error) {
	return management.Queue{Name: name}, nil
}

func (i *tenants) SetControl(ctx context.Context, queue string, _ management.ControlChange) (management.Control, error) {
	i.do(ctx, "control", queue)
	return management.Control{}, nil
}

func (i *tenants) Watch(ctx context.Context, _ time.Duration) iter.Seq2[[]management.Queue, error] {
	return func(yield func([]management.Queue, error) bool) {
		queues, err := i.Queues(ctx)
		if yield(queues, err) {
			<-ctx.Done()
		}
	}
}

// queuesOf returns the queues of a filter, or all.
func queuesOf(queues []string) []string {
	if len(queues) == 0 {
		return both
	}
	return queues
}

func (i *tenants) FindJobs(_ context.Context, filter management.JobFilter, _ management.PageRequest) (management.JobPage, error) {
	var page management.JobPage
	for _, queue := range queuesOf(filter.Queues) {
		page.Jobs = append(page.Jobs, summary(queue))
	}
	return page, nil
}

func (i *tenants) CountJobs(_ context.Context, filter management.JobFilter, _ int) (management.Count, error) {
	return management.Count{Count: len(queuesOf(filter.Queues))}, nil
}

func (i *tenants) CountStates(_ context.Context, req management.StateCountRequest) ([]management.StateCount, error) {
	return []management.StateCount{{State: amboy.StateFailed, Count: management.Count{Count: len(queuesOf(req.Filter.Queues))}}}, nil
}

func (i *tenants) ErrorGroups(_ context.Context, req management.ErrorGroupRequest) (groups management.ErrorGroups, err error) {
	for _, queue := range queuesOf(req.Filter.Queues) {
		groups.Examined++
		groups.Groups = append(groups.Groups, management.ErrorGroup{Message: "error of " + queue, Jobs: 1, Sample: summary(queue)})
	}
	return groups, nil
}

func (i *tenants) Job(_ context.Context, queue, id string) (management.Job, error) {
	job := management.Job{
		JobSummary: management.JobSummary{JobRef: management.JobRef{Queue: queue, ID: id}, Type: "resize", State: amboy.StateFailed, Args: json.RawMessage(`{"password":"secret"}`)},
		Result:     json.RawMessage(`"secret"`),
		Actions:    management.ActionKinds(),
		Editable:   []string{management.FieldPriority},
	}
	job.DependsOn = of(func(queue string) management.Dependency { return management.Dependency{JobRef: ref(queue)} })
	job.Dependents = job.DependsOn
	job.Scopes = of(func(queue string) management.ScopeUse {
		holder := ref(queue)
		return management.ScopeUse{Name: "scope", Holder: &holder}
	})
	return job, nil
}

func (i *tenants) Graph(context.Context, string, string, int) (management.Graph, error) {
	graph := management.Graph{
		Jobs: of(func(queue string) management.GraphJob { return management.GraphJob{JobRef: ref(queue)} }),
	}
	for _, from := range graph.Jobs {
		for _, to := range graph.Jobs {
			graph.Edges = append(graph.Edges, management.GraphEdge{From: from.ID, To: to.ID})
		}
	}
	return graph, nil
}

func (i *tenants) CreateJob(ctx context.Context, job management.NewJob) (management.Created, error) {
	i.do(ctx, "create", job.Queue)
	return management.Created{JobRef: management.JobRef{Queue: job.Queue, ID: job.ID}}, nil
}

func (i *tenants) ActOn(ctx context.Context, queue, _ string, action management.Action) (management.Acted, error) {
	i.do(ctx, string(action.Kind), queue)
	return management.Acted{Done: 1}, nil
}

func (i *tenants) EditJob(ctx context.Context, queue, _ string, edit management.JobEdit) (management.JobEdited, error) {
	if !edit.DryRun {
		i.do(ctx, string(management.Edit), queue)
	}
	return management.JobEdited{Changes: []management.FieldChange{}, Revision: "1"}, nil
}

func (i *tenants) Act(ctx context.Context, req management.ActRequest) (management.Acted, error) {
	for _, queue := range queuesOf(req.Filter.Queues) {
		if !req.DryRun {
			i.do(ctx, string(req.Kind), queue)
		}
	}
	return management.Acted{Done: len(queuesOf(req.Filter.Queues))}, nil
}

func (i *tenants) Scopes(context.Context, management.ScopeFilter, management.PageRequest) (management.ScopePage, error) {
	return management.ScopePage{Scopes: of(func(queue string) management.Scope {
		return management.Scope{Queue: queue, Name: "scope", Holder: ref(queue), State: amboy.StateRunning}
	})}, nil
}

func (i *tenants) Processes(context.Context) ([]management.Process, error) {
	return []management.Process{{
		ID:           "process",
		Host:         "host",
		Queues:       of(func(queue string) management.ProcessQueue { return management.ProcessQueue{Name: queue, Workers: 2} }),
		Running:      of(summary),
		RunningCount: management.Count{Count: 2},
	}, {ID: "process of theirs", Queues: []management.ProcessQueue{{Name: theirs}}}}, nil
}

func (i *tenants) Activity(_ context.Context, req management.ActivityRequest) (management.Activity, error) {
	activity := management.Activity{From: newYear, To: newYear.Add(time.Minute), Step: 60}
	activity.Points = []management.ActivityPoint{{Time: newYear, Succeeded: len(queuesOf(req.Queues))}}
	activity.Rows = of(func(queue string) management.ActivityRow {
		return management.ActivityRow{Queue: queue, Type: "resize", Succeeded: 1, Failed: 1}
	})
	return activity, nil
}

func (i *tenants) Schedules(context.Context) ([]management.Schedule, error) {
	return of(func(queue string) management.Schedule {
		return management.Schedule{Queue: queue, Name: "nightly", Spec: "@daily"}
	}), nil
}

func (i *tenants) JobTypes(context.Context) ([]management.JobType, error) { return nil, nil }

func (i *tenants) Diagnose(context.Context) (management.Diagnosis, error) {
	findings := of(func(queue string) management.Finding {
		return management.Finding{Kind: management.PausedQueue, Severity: management.Critical, Subject: management.Subject{InQueue: true, Queue: queue}, Detail: "queue " + queue}
	})
	findings = append(findings, management.Finding{Kind: management.OldProcess, Severity: management.Warning, Subject: management.Subject{Process: "process of theirs"}})
	return management.Diagnosis{Time: newYear, Queues: 2, Findings: findings}, nil
}

func (i *tenants) Audit(_ context.Context, _ management.AuditFilter, page management.PageRequest) (management.AuditPage, error) {
	if page.Cursor != "" {
		return management.AuditPage{Entries: []management.AuditEntry{{Time: newYear, What: "retry", Queue: mine, JobID: "old"}}}, nil
	}
	return management.AuditPage{Next: "more", Entries: of(func(queue string) management.AuditEntry {
		return management.AuditEntry{Time: newYear, What: "retry", Queue: queue, JobID: "job of " + queue}
	})}, nil
}
