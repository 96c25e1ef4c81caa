package guard

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
)

var (
	_ management.Inspector     = (*guarded)(nil)
	_ management.Diagnostician = (*guarded)(nil)
	_ management.TypeLister    = (*guarded)(nil)
)

func (g *guarded) Queues(ctx context.Context) ([]management.Queue, error) {
	if err := g.allow(ctx, Read); err != nil {
		return nil, err
	}
	if !g.ofTenant {
		return g.inner.Queues(ctx)
	}
	queue, err := g.inner.Queue(ctx, g.tenant)
	if errors.Is(err, management.ErrUnknownQueue) {
		return []management.Queue{}, nil
	}
	if err != nil {
		return nil, err
	}
	return []management.Queue{queue}, nil
}

func (g *guarded) FindQueues(ctx context.Context, filter management.QueueFilter, page management.PageRequest) (management.QueuePage, error) {
	if err := filter.Validate(); err != nil {
		return management.QueuePage{}, err
	}
	if err := g.allow(ctx, Read, filter.Queues...); err != nil {
		return management.QueuePage{}, err
	}
	filter.Queues = g.visibleQueues(filter.Queues)
	found, err := g.inner.FindQueues(ctx, filter, page)
	found.Queues = onlyOwn(g, found.Queues, func(q management.Queue) string { return q.Name })
	return found, err
}

// SumQueues describes to a tenant its queue.
func (g *guarded) SumQueues(ctx context.Context) (management.QueueTotals, error) {
	if err := g.allow(ctx, Read); err != nil {
		return management.QueueTotals{}, err
	}
	if !g.ofTenant {
		return g.inner.SumQueues(ctx)
	}
	queue, err := g.inner.Queue(ctx, g.tenant)
	if errors.Is(err, management.ErrUnknownQueue) {
		return management.QueueTotals{Busiest: []management.Queue{}}, nil
	}
	if err != nil {
		return management.QueueTotals{}, err
	}
	totals := management.QueueTotals{Queues: 1, Counts: queue.Counts, Busiest: []management.Queue{}}
	if queue.Counts.Unfinished() > 0 {
		totals.Busiest = append(totals.Busiest, queue)
	}
	return totals, nil
}

func (g *guarded) Queue(ctx context.Context, name string) (management.Queue, error) {
	if err := g.allow(ctx, Read, name); err != nil {
		return management.Queue{}, err
	}
	return g.inner.Queue(ctx, name)
}

func (g *guarded) SetControl(ctx context.Context, queue string, change management.ControlChange) (management.Control, error) {
	if err := g.allow(ctx, Control, queue); err != nil {
		return management.Control{}, err
	}
	return g.inner.SetControl(g.withActor(ctx), queue, change)
}

// Watch authorizes the request again before each yield, because access may be revoked, and the
// session that names its tenant may end, while it watches. It does not yield to a tenant if only
// other queues have changed. If there are many queues, the inspector may leave out that of the
// tenant, which is read then.
func (g *guarded) Watch(ctx context.Context, every time.Duration) iter.Seq2[[]management.Queue, error] {
	return func(yield func([]management.Queue, error) bool) {
		if err := g.allow(ctx, Read); err != nil {
			yield(nil, err)
			return
		}
		var last []management.Queue
		for queues, err := range g.watches.watch(ctx, g.request, g.client(), every) {
			if err == nil {
				err = g.allowStill(ctx)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			queues = onlyOwn(g, queues, func(q management.Queue) string { return q.Name })
			if len(queues) == 0 && g.ofTenant {
				queues, err = g.Queues(ctx)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if last != nil && g.ofTenant && reflect.DeepEqual(queues, last) {
				continue
			}
			last = queues
			if !yield(queues, nil) {
				return
			}
		}
	}
}

// allowStill authorizes reading for a request that continues. It returns an error if the request is
// no longer of the tenant that it began with.
func (g *guarded) allowStill(ctx context.Context) error {
	now := g.of(g.request)
	if err := now.allow(ctx, Read); err != nil {
		return err
	}
	if now.tenant != g.tenant {
		return &DeniedError{Access: Access{Action: Read, AllQueues: true}, Reason: errOtherTenant}
	}
	return nil
}

// errOtherTenant is the reason if the tenant of a request changes during the request.
var errOtherTenant = errors.New("the request belongs to another tenant than before")

// FindJobs validates the filter first, as all methods with a list of queues do: Authorize is
// called for each of them.
func (g *guarded) FindJobs(ctx context.Context, filter management.JobFilter, page management.PageRequest) (management.JobPage, error) {
	if err := filter.Validate(); err != nil {
		return management.JobPage{}, err
	}
	if err := g.allowRead(ctx, filter); err != nil {
		return management.JobPage{}, err
	}
	filter.Queues = g.visibleQueues(filter.Queues)
	found, err := g.inner.FindJobs(ctx, filter, page)
	if err == nil && g.ofTenant {
		found, err = g.filled(ctx, filter, page, found)
	}
	for i := range found.Jobs {
		g.maskArgs(ctx, &found.Jobs[i])
	}
	return found, err
}

// allowRead authorizes reading the jobs that a filter selects. Arguments that are redacted must not be
// searched: the jobs that are found tell what is redacted.
func (g *guarded) allowRead(ctx context.Context, filter management.JobFilter) error {
	if err := g.allow(ctx, Read, filter.Queues...); err != nil {
		return err
	}
	if filter.ArgsPart != "" && g.opts.MaskArgs != nil {
		return &DeniedError{Access: Access{Action: Read, AllQueues: true}, Reason: errMasked, Cause: "the service masks arguments, so they can't be searched"}
	}
	return nil
}

// maxReads is the maximum number of pages that are read for one page of a tenant.
const maxReads = 10

// filled adds to a page of a tenant that is short although it is not the last one. A store
// ends a page early after it has read many jobs, and so such a page reveals how many jobs
// other tenants have.
func (g *guarded) filled(ctx context.Context, filter management.JobFilter, page management.PageRequest, found management.JobPage) (management.JobPage, error) {
	limit := cmp.Or(page.Limit, management.DefaultLimit)
	for n := 1; n < maxReads && found.Next != "" && len(found.Jobs) < limit; n++ {
		page.Cursor, page.Limit = found.Next, limit-len(found.Jobs)
		more, err := g.inner.FindJobs(ctx, filter, page)
		if err != nil {
			return management.JobPage{}, err
		}
		found.Jobs, found.Next = append(found.Jobs, more.Jobs...), more.Next
	}
	return found, nil
}

func (g *guarded) CountJobs(ctx context.Context, filter management.JobFilter, most int) (management.Count, error) {
	if err := filter.Validate(); err != nil {
		return management.Count{}, err
	}
	if err := g.allowRead(ctx, filter); err != nil {
		return management.Count{}, err
	}
	filter.Queues = g.visibleQueues(filter.Queues)
	return g.inner.CountJobs(ctx, filter, most)
}

func (g *guarded) CountStates(ctx context.Context, req management.StateCountRequest) ([]management.StateCount, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	if err := g.allowRead(ctx, req.Filter); err != nil {
		return nil, err
	}
	req.Filter.Queues = g.visibleQueues(req.Filter.Queues)
	return g.inner.CountStates(ctx, req)
}

func (g *guarded) ErrorGroups(ctx context.Context, req management.ErrorGroupRequest) (management.ErrorGroups, error) {
	if err := req.Validate(); err != nil {
		return management.ErrorGroups{}, err
	}
	if err := g.allowRead(ctx, req.Filter); err != nil {
		return management.ErrorGroups{}, err
	}
	req.Filter.Queues = g.visibleQueues(req.Filter.Queues)
	return g.inner.ErrorGroups(ctx, req)
}

func (g *guarded) Job(ctx context.Context, queue, id string) (management.Job, error) {
	if err := g.allowJob(ctx, Access{Action: Read, Queue: queue, ID: id}); err != nil {
		return management.Job{}, err
	}
	job, err := g.inner.Job(ctx, queue, id)
	if err != nil {
		return management.Job{}, err
	}
	if job.Encrypted {
		if job, err = g.revealed(ctx, job); err != nil {
			return management.Job{}, err
		}
	}
	args := job.Args
	g.mask(ctx, &job)
	if job.Args == nil || !bytes.Equal(job.Args, args) { // what is not shown can't be edited
		job.Editable = slices.DeleteFunc(slices.Clone(job.Editable), func(name string) bool { return name == management.FieldArgs })
	}
	queueOf := func(d management.Dependency) string { return d.Queue }
	job.DependsOn = onlyOwn(g, job.DependsOn, queueOf)
	job.Dependents = onlyOwn(g, job.Dependents, queueOf)
	ofAll := func(m management.Moment) bool { return m.AllQueues } // as in the audit list, only for readers of all queues
	if slices.ContainsFunc(job.Timeline, ofAll) && (g.ofTenant || g.ask(ctx, Access{Action: Read, AllQueues: true}) != nil) {
		job.Timeline = slices.DeleteFunc(slices.Clone(job.Timeline), ofAll)
	}
	job.Scopes = slices.Clone(job.Scopes)
	for i, scope := range job.Scopes {
		if scope.Holder != nil && !g.isOwn(scope.Holder.Queue) {
			job.Scopes[i].Holder = nil
		}
	}
	return job, nil
}

// revealed returns an encrypted job with its arguments and its result if the request may read
// them, and otherwise without, even if the inspector showed them.
func (g *guarded) revealed(ctx context.Context, job management.Job) (management.Job, error) {
	if g.mayReveal(ctx, job.Queue, job.ID) {
		return g.inner.Job(management.WithReveal(ctx), job.Queue, job.ID)
	}
	if job.Args != nil {
		job.Args, job.ArgsHidden = nil, management.HiddenEncrypted
	}
	if job.Result != nil {
		job.Result, job.ResultHidden = nil, management.HiddenEncrypted
	}
	return job, nil
}

func (g *guarded) Graph(ctx context.Context, queue, id string, distance int) (management.Graph, error) {
	if err := g.allowJob(ctx, Access{Action: Read, Queue: queue, ID: id}); err != nil {
		return management.Graph{}, err
	}
	graph, err := g.inner.Graph(ctx, queue, id, distance)
	if err != nil || !g.ofTenant {
		return graph, err
	}
	graph.Jobs = onlyOwn(g, graph.Jobs, func(j management.GraphJob) string { return j.Queue })
	edges := graph.Edges
	graph.Edges = make([]management.GraphEdge, 0, len(edges))
	for _, edge := range edges {
		if isOwnEdge(graph.Jobs, edge) {
			graph.Edges = append(graph.Edges, edge)
		}
	}
	return graph, nil
}

func (g *guarded) CreateJob(ctx context.Context, job management.NewJob) (management.Created, error) {
	if err := g.allowCreate(ctx, job); err != nil {
		return management.Created{}, err
	}
	return g.inner.CreateJob(g.withActor(ctx), job)
}

func (g *guarded) ActOn(ctx context.Context, queue, id string, action management.Action) (management.Acted, error) {
	// Authorize is called only for actions that exist.
	if err := action.Validate(); err != nil {
		return management.Acted{}, err
	}
	if err := g.allowJob(ctx, Access{Action: Action(action.Kind), Queue: queue, ID: id}); err != nil {
		return management.Acted{}, err
	}
	return g.inner.ActOn(g.withActor(ctx), queue, id, action)
}

func (g *guarded) Act(ctx context.Context, req management.ActRequest) (management.Acted, error) {
	if err := req.Validate(); err != nil {
		return management.Acted{}, err
	}
	if err := g.allow(ctx, Action(req.Kind), req.Filter.Queues...); err != nil {
		return management.Acted{}, err
	}
	if req.Filter.ArgsPart != "" { // what an action selects tells what it searched for
		if err := g.allowRead(ctx, req.Filter); err != nil {
			return management.Acted{}, err
		}
	}
	req.Filter.Queues = g.visibleQueues(req.Filter.Queues)
	req.All = req.Filter.SelectsAll() // false with the queue of a tenant
	return g.inner.Act(g.withActor(ctx), req)
}

// EditJob edits arguments only of jobs that the request could put as well, and only if it may read
// all of them.
func (g *guarded) EditJob(ctx context.Context, queue, id string, edit management.JobEdit) (management.JobEdited, error) {
	if err := edit.Validate(); err != nil {
		return management.JobEdited{}, err
	}
	if err := g.allowJob(ctx, Access{Action: Edit, Queue: queue, ID: id}); err != nil {
		return management.JobEdited{}, err
	}
	ctx = g.withActor(ctx)
	if edit.Args == nil {
		return g.inner.EditJob(ctx, queue, id, edit)
	}
	if err := g.allowJob(ctx, Access{Action: Read, Queue: queue, ID: id}); err != nil {
		return management.JobEdited{}, err
	}
	job, err := g.inner.Job(ctx, queue, id)
	if err != nil {
		return management.JobEdited{}, err
	}
	if job.Encrypted {
		reveal := Access{Action: Reveal, Queue: queue, ID: id}
		if !g.opts.RevealEncrypted {
			return management.JobEdited{}, &DeniedError{Access: reveal, Reason: errNotRevealed}
		}
		err = g.allowJob(ctx, reveal)
		if err != nil {
			return management.JobEdited{}, err
		}
		ctx = management.WithReveal(ctx)
		if job, err = g.inner.Job(ctx, queue, id); err != nil {
			return management.JobEdited{}, err
		}
	}
	if err := g.allowArgs(ctx, &job); err != nil {
		return management.JobEdited{}, err
	}
	return g.inner.EditJob(ctx, queue, id, edit)
}

// errNotRevealed is the reason if the program does not reveal encrypted jobs.
var errNotRevealed = errors.New("the option RevealEncrypted is not set")

// allowArgs returns an error if a request may not edit the arguments of a job.
func (g *guarded) allowArgs(ctx context.Context, job *management.Job) error {
	access := Access{Action: Edit, Queue: job.Queue, ID: job.ID, Type: job.Type}
	if err := g.allowType(access, !isRegistered(job.Type)); err != nil {
		return err
	}
	if g.opts.MaskArgs == nil || job.Args == nil {
		return nil
	}
	if shown, _ := g.masked(ctx, &job.JobSummary, job.Args); !bytes.Equal(shown, job.Args) {
		return &DeniedError{Access: access, Reason: errMasked, Cause: "the service masks some of the arguments"}
	}
	return nil
}

// errMasked is the reason if MaskArgs redacts the arguments of a job.
var errMasked = errors.New("the option MaskArgs redacts its arguments")

func (g *guarded) Scopes(ctx context.Context, filter management.ScopeFilter, page management.PageRequest) (management.ScopePage, error) {
	if err := filter.Validate(); err != nil {
		return management.ScopePage{}, err
	}
	if err := g.allow(ctx, Read, filter.Queues...); err != nil {
		return management.ScopePage{}, err
	}
	filter.Queues = g.visibleQueues(filter.Queues)
	scopes, err := g.inner.Scopes(ctx, filter, page)
	scopes.Scopes = onlyOwn(g, scopes.Scopes, func(s management.Scope) string { return s.Queue })
	return scopes, err
}

func (g *guarded) Processes(ctx context.Context) ([]management.Process, error) {
	if err := g.allow(ctx, Read); err != nil {
		return nil, err
	}
	processes, err := g.inner.Processes(ctx)
	if err != nil || !g.ofTenant {
		return processes, err
	}
	// The list of running jobs of a process is cut, maybe before the tenant's jobs.
	running, err := g.inner.FindJobs(ctx, management.JobFilter{
		Queues: []string{g.tenant},
		States: []amboy.JobState{amboy.StateRunning},
	}, management.PageRequest{Limit: management.MaxLimit})
	if err != nil {
		return nil, err
	}
	own := make([]management.Process, 0, len(processes))
	for _, process := range processes {
		process.Unknown = nil // may contain types of other tenants
		process.MoreQueues = false
		process.Queues = onlyOwn(g, process.Queues, func(q management.ProcessQueue) string { return q.Name })
		process.Running, process.RunningCount = runBy(process.ID, running)
		if len(process.Queues) > 0 || len(process.Running) > 0 {
			own = append(own, process)
		}
	}
	return own, nil
}

// runBy returns the jobs of a page that a process runs, up to DefaultLimit, and their number.
func runBy(process string, running management.JobPage) ([]management.JobSummary, management.Count) {
	jobs := []management.JobSummary{}
	count := management.Count{More: running.Next != ""}
	for _, job := range running.Jobs {
		if job.Owner != process {
			continue
		}
		count.Count++
		if len(jobs) < management.DefaultLimit {
			jobs = append(jobs, job)
		}
	}
	return jobs, count
}

func (g *guarded) Activity(ctx context.Context, req management.ActivityRequest) (management.Activity, error) {
	if err := req.Validate(); err != nil {
		return management.Activity{}, err
	}
	if err := g.allow(ctx, Read, req.Queues...); err != nil {
		return management.Activity{}, err
	}
	req.Queues = g.visibleQueues(req.Queues)
	activity, err := g.inner.Activity(ctx, req)
	activity.Rows = onlyOwn(g, activity.Rows, func(row management.ActivityRow) string { return row.Queue })
	return activity, err
}

func (g *guarded) Schedules(ctx context.Context) ([]management.Schedule, error) {
	if err := g.allow(ctx, Read); err != nil {
		return nil, err
	}
	schedules, err := g.inner.Schedules(ctx)
	return onlyOwn(g, schedules, func(s management.Schedule) string { return s.Queue }), err
}

// Diagnose shows a tenant the findings about its queue.
func (g *guarded) Diagnose(ctx context.Context) (management.Diagnosis, error) {
	if err := g.allow(ctx, Read); err != nil {
		return management.Diagnosis{}, err
	}
	diagnostician, ok := g.inner.(management.Diagnostician)
	if !ok {
		return management.Diagnosis{}, fmt.Errorf("making a diagnosis: %w", management.ErrUnsupported)
	}
	diagnosis, err := diagnostician.Diagnose(ctx)
	if g.ofTenant {
		diagnosis.Queues, diagnosis.MoreQueues = 1, false
		diagnosis.Findings = slices.DeleteFunc(diagnosis.Findings, func(f management.Finding) bool {
			return !f.Subject.InQueue || !g.isOwn(f.Subject.Queue)
		})
	}
	return diagnosis, err
}

// JobTypes shows a tenant the types that it may put.
func (g *guarded) JobTypes(ctx context.Context) ([]management.JobType, error) {
	if err := g.allow(ctx, Read); err != nil {
		return nil, err
	}
	lister, ok := g.inner.(management.TypeLister)
	if !ok {
		return nil, fmt.Errorf("listing the types of jobs: %w", management.ErrUnsupported)
	}
	types, err := lister.JobTypes(ctx)
	shown := make([]management.JobType, 0, len(types))
	for _, t := range types {
		t.Create = slices.Contains(g.opts.CreateTypes, t.Type)
		if t.Create || !g.ofTenant {
			shown = append(shown, t)
		}
	}
	return shown, err
}

func (g *guarded) Audit(ctx context.Context, filter management.AuditFilter, page management.PageRequest) (management.AuditPage, error) {
	if err := filter.Validate(); err != nil {
		return management.AuditPage{}, err
	}
	if err := g.allow(ctx, Read, filter.Queues...); err != nil {
		return management.AuditPage{}, err
	}
	filter.Queues = g.visibleQueues(filter.Queues)
	audit, err := g.inner.Audit(ctx, filter, page)
	audit.Entries = onlyOwn(g, audit.Entries, func(e management.AuditEntry) string { return e.Queue })
	return audit, err
}
