package api

import (
	"net/http"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/numbering"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/guard"
	"github.com/mongodb/amboy/rest/internal/names"
	"github.com/mongodb/amboy/rest/internal/web"
)

// Routes lists all routes.
func Routes() []Route {
	read := []guard.Action{guard.Read}
	var acts []guard.Action
	for _, kind := range management.ActionKinds() {
		acts = append(acts, guard.Action(kind))
	}
	return append(scheduleRoutes(), []Route{
		{Method: http.MethodGet, Pattern: "/v2/queues", Actions: read, Name: "listQueues", Summary: "Lists a page of the queues that a filter selects, by name", Input: new(queuesInput), Answers: answers(management.QueuePage{}), serve: listQueues},
		{Method: http.MethodGet, Pattern: "/v2/totals", Actions: read, Name: "sumQueues", Summary: "Adds up all queues, and describes the busiest", Input: new(none), Answers: answers(management.QueueTotals{}), serve: sumQueues},
		{Method: http.MethodGet, Pattern: "/v2/queues/{queue}", Actions: read, Name: "getQueue", Summary: "Describes a queue", Input: new(queuePath), Answers: answers(management.Queue{}), serve: getQueue},
		{Method: http.MethodPatch, Pattern: "/v2/queues/{queue}", Actions: []guard.Action{guard.Control}, Name: "controlQueue", Summary: "Pauses, resumes or drains a queue, or changes its limits", Input: new(queuePath), Body: new(management.ControlChange), Answers: answers(management.Control{}), serve: controlQueue},
		{Method: http.MethodGet, Pattern: "/v2/jobs", Actions: read, Name: "findJobs", Summary: "Lists a page of the jobs that a filter selects", Input: new(findInput), Answers: answers(management.JobPage{}), serve: findJobs},
		{Method: http.MethodGet, Pattern: "/v2/jobs/count", Actions: read, Name: "countJobs", Summary: "Counts the jobs that a filter selects", Input: new(countInput), Answers: answers(management.Count{}), serve: countJobs},
		{Method: http.MethodGet, Pattern: "/v2/jobs/states", Actions: read, Name: "countStates", Summary: "Counts the jobs that a filter selects by their states. A number whose more is true is that of the jobs that were counted in time", Input: new(statesInput), Answers: answers(StateCountList{}), serve: countStates},
		{Method: http.MethodGet, Pattern: "/v2/jobs/errors", Actions: read, Name: "groupErrors", Summary: "Groups the jobs that a filter selects by their last errors, without numbers and IDs. Examines the latest jobs first, for at most about 1.5 s", Input: new(errorsInput), Answers: answers(management.ErrorGroups{}), serve: groupErrors},
		{Method: http.MethodPost, Pattern: "/v2/jobs/actions", Actions: acts, Name: "actOnJobs", Summary: "Performs an action on the jobs that a filter selects, or reports what it would do", Input: new(none), Body: new(ActOnJobs), Answers: answers(management.Acted{}), serve: actOnJobs},
		{Method: http.MethodPost, Pattern: "/v2/queues/{queue}/jobs", Actions: []guard.Action{guard.Create}, Name: "createJob", Summary: "Creates a job in a queue: of a registered type, or for outside workers. It may wait for the end of the job", Input: new(createInput), Body: new(management.NewJob), Answers: map[int]any{http.StatusCreated: Created{}, http.StatusOK: Created{}}, serve: createJob},
		{Method: http.MethodGet, Pattern: "/v2/queues/{queue}/jobs/{id}", Actions: read, Name: "getJob", Summary: "Describes a job in full", Input: new(jobPath), Answers: answers(management.Job{}), serve: getJob},
		{Method: http.MethodDelete, Pattern: "/v2/queues/{queue}/jobs/{id}", Actions: []guard.Action{guard.Action(management.Delete)}, Name: "deleteJob", Summary: "Removes a job that has ended", Input: new(jobPath), Answers: answers(management.Acted{}), serve: deleteJob},
		{Method: http.MethodPost, Pattern: "/v2/queues/{queue}/jobs/{id}/actions", Actions: acts, Name: "actOnJob", Summary: "Performs an action on a job", Input: new(jobPath), Body: new(management.Action), Answers: answers(management.Acted{}), serve: actOnJob},
		{Method: http.MethodPatch, Pattern: "/v2/queues/{queue}/jobs/{id}", Actions: []guard.Action{guard.Edit}, Name: "editJob", Summary: "Changes the arguments, the priority or the time of a job that has not started, or reports what would change", Input: new(jobPath), Body: new(management.JobEdit), Answers: answers(management.JobEdited{}), serve: editJob},
		{Method: http.MethodGet, Pattern: "/v2/queues/{queue}/jobs/{id}/result", Actions: read, Name: "getResult", Summary: "Shows how a job ended, and may wait for its end", Input: new(outcomeInput), Answers: answers(Outcome{}), serve: getOutcome},
		{Method: http.MethodGet, Pattern: "/v2/queues/{queue}/jobs/{id}/graph", Actions: read, Name: "getGraph", Summary: "Shows a job, the jobs it waits for and the jobs that wait for it", Input: new(graphInput), Answers: answers(management.Graph{}), serve: getGraph},
		{Method: http.MethodPost, Pattern: "/v2/leases", Actions: work, Name: "leaseJobs", Summary: "Acknowledges jobs, and leases jobs to an outside worker, which may wait for them", Input: new(none), Body: new(LeaseBody), Answers: answers(Leased{}), respond: leaseJobs},
		{Method: http.MethodPost, Pattern: "/v2/leases/acknowledge", Actions: work, Name: "acknowledgeJobs", Summary: "Completes, fails, releases or checkpoints leased jobs", Input: new(none), Body: new(AcknowledgeBody), Answers: answers(AcknowledgeAnswer{}), serve: acknowledgeJobs},
		{Method: http.MethodPost, Pattern: "/v2/leases/heartbeat", Actions: work, Name: "renewLeases", Summary: "Renews leases, stores progress, and reports which jobs to cancel", Input: new(none), Body: new(HeartbeatBody), Answers: answers(HeartbeatAnswer{}), serve: renewLeases},
		{Method: http.MethodGet, Pattern: "/v2/scopes", Actions: read, Name: "listScopes", Summary: "Lists a page of the scopes that are held", Input: new(scopesInput), Answers: answers(management.ScopePage{}), serve: listScopes},
		{Method: http.MethodGet, Pattern: "/v2/processes", Actions: read, Name: "listProcesses", Summary: "Lists the processes that run queues", Input: new(none), Answers: answers(ProcessList{}), serve: listProcesses},
		{Method: http.MethodGet, Pattern: "/v2/activity", Actions: read, Name: "getActivity", Summary: "Reports what the queues have done recently", Input: new(activityInput), Answers: answers(management.Activity{}), serve: getActivity},
		{Method: http.MethodGet, Pattern: "/v2/schedules", Actions: read, Name: "listSchedules", Summary: "Lists the schedules that processes run", Input: new(none), Answers: answers(ScheduleList{}), serve: listSchedules},
		{Method: http.MethodGet, Pattern: "/v2/diagnosis", Actions: read, Name: "getDiagnosis", Summary: "Reports what is wrong with the store, with remedies", Input: new(none), Answers: answers(management.Diagnosis{}), serve: getDiagnosis},
		{Method: http.MethodGet, Pattern: "/v2/types", Actions: read, Name: "listTypes", Summary: "Lists the types of jobs that are registered in the process that serves the request", Input: new(none), Answers: answers(TypeList{}), serve: listTypes},
		{Method: http.MethodGet, Pattern: "/v2/audit", Actions: read, Name: "listAudit", Summary: "Lists a page of the audit list, the latest entry first", Input: new(auditInput), Answers: answers(management.AuditPage{}), serve: listAudit},
		{Method: http.MethodGet, Pattern: "/v2/events", Actions: read, Name: "watchQueues", Summary: "Sends the queues, or the busiest of more than 1000, now and after changes, as server-sent events with the name \"queues\" and a QueuePage as data", Input: new(eventsInput), Answers: map[int]any{http.StatusOK: nil}, serve: watchQueues},
		{Method: http.MethodGet, Pattern: "/v2/openapi.json", Actions: read, Name: "getDescription", Summary: "Describes this interface", Input: new(none), Answers: map[int]any{http.StatusOK: nil}, serve: describe},
	}...)
}

func answers(value any) map[int]any { return map[int]any{http.StatusOK: value} }

// The answers that are lists.
type (
	// ProcessList contains all processes.
	ProcessList struct {
		// Processes are the processes that have queues open, or had until recently.
		Processes []management.Process `json:"processes"`
	}
	// StateCountList contains the number of jobs in each state.
	StateCountList struct {
		// States are the numbers of jobs, one for each requested state.
		States []management.StateCount `json:"states"`
	}
	// TypeList contains all types of jobs.
	TypeList struct {
		// Types are the registered types, ordered by name.
		Types []management.JobType `json:"types"`
	}
	// ScheduleList contains all schedules.
	ScheduleList struct {
		// Schedules are the schedules that processes run, ordered by queue and name.
		Schedules []management.Schedule `json:"schedules"`
	}
)

// ActOnJobs is a management.ActRequest whose filter is required.
type ActOnJobs struct {
	management.ActRequest
	Filter *management.JobFilter `json:"filter"`
}

// none is the input of a route without parameters.
type none struct{}

type queuePath struct {
	Queue queueName `path:"queue" description:"The name of the queue: _ for the queue without a name; a name that begins with an underscore gets another one in front"`
}

type jobPath struct {
	queuePath
	ID jobID `path:"id" description:"The ID of the job"`
}

type pageInput struct {
	Cursor string `query:"cursor" description:"The next of the previous page"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" description:"The maximum number of items; the default is 50"`
	Newest bool   `query:"newest" description:"Whether the latest items come first"`
}

func (p pageInput) page() management.PageRequest {
	return management.PageRequest{Cursor: p.Cursor, Limit: p.Limit, Newest: p.Newest}
}

type filterInput struct {
	Queue      []string             `query:"queues" maxItems:"100" description:"Any of these queues"`
	State      []amboy.JobState     `query:"states" maxItems:"100" description:"Any of these states"`
	Type       []string             `query:"types" maxItems:"100" description:"Any of these types"`
	Tag        []string             `query:"tags" maxItems:"100" description:"All of these tags"`
	ID         []string             `query:"ids" maxItems:"100" description:"Any of these IDs"`
	IDPattern  string               `query:"id_pattern" description:"A pattern for the ID: * matches any characters, ? matches one"`
	IDPart     string               `query:"id_part" description:"A part of the ID. As for the other parts and error, the case of the letters A to Z does not matter"`
	TypePart   string               `query:"type_part" description:"A part of the type"`
	TagPart    string               `query:"tag_part" description:"A part of a tag"`
	ArgsPart   string               `query:"args_part" description:"A part of the arguments, as JSON without spaces between its values. Arguments that are encrypted, or longer than 16384 bytes, are not searched. Denied if the service redacts arguments"`
	Error      string               `query:"error" description:"A part of the last error"`
	ErrorGroup string               `query:"error_group" description:"The message of a group of errors, or an error of one of its jobs"`
	Scope      string               `query:"scope" description:"A scope that the job needs"`
	Created    management.TimeRange `query:"created" description:"When the job was created"`
	Due        management.TimeRange `query:"due" description:"When the job may start"`
	Ended      management.TimeRange `query:"ended" description:"When the job ended"`
}

func (f filterInput) filter() management.JobFilter {
	return management.JobFilter{
		Queues: f.Queue, States: f.State, Types: f.Type, Tags: f.Tag, IDs: f.ID,
		IDPattern: f.IDPattern, IDPart: f.IDPart, TypePart: f.TypePart, TagPart: f.TagPart, ArgsPart: f.ArgsPart, Error: f.Error, ErrorGroup: f.ErrorGroup, Scope: f.Scope,
		Created: f.Created, Due: f.Due, Ended: f.Ended,
	}
}

type findInput struct {
	filterInput
	pageInput
	Args bool `query:"args" description:"Whether the jobs have their arguments, if they are at most 16384 bytes long"`
}

type countInput struct {
	filterInput
	Most int `query:"most" minimum:"1" maximum:"100000" description:"The largest number that is counted; the default is 100000"`
}

type statesInput struct {
	filterInput
	Most   int      `query:"most" minimum:"1" maximum:"100000" description:"The largest number that is counted in each state; the default is 100000"`
	Within Duration `query:"within" description:"About how long jobs are counted, at most 1.5s, which is the default"`
}

type errorsInput struct {
	filterInput
	Cursor string `query:"cursor" description:"The next of the previous answer"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" description:"The maximum number of groups; the default is 50"`
}

type createInput struct {
	queuePath
	IdempotencyKey string   `header:"Idempotency-Key" maxLength:"255" pattern:"^[!-~]+$" description:"A request whose key was used within the last day is not repeated"`
	Wait           Duration `query:"wait" description:"How long to wait for the end of the job, at most 10m; the answer contains its outcome. The default is not to wait"`
}

type graphInput struct {
	jobPath
	Distance int `query:"distance" minimum:"1" maximum:"5" description:"The maximum distance from the job; the default is 2"`
}

type queuesInput struct {
	Name   string   `query:"name" description:"A part of the name; case does not matter"`
	Queue  []string `query:"queues" maxItems:"100" description:"Any of these queues"`
	Cursor string   `query:"cursor" description:"The next of the previous page"`
	Limit  int      `query:"limit" minimum:"1" maximum:"1000" description:"The maximum number of items; the default is 50"`
}

type scopesInput struct {
	Queue []string `query:"queues" maxItems:"100" description:"Any of these queues"`
	Name  string   `query:"name" description:"The name of the scope"`
	Part  string   `query:"part" description:"A part of the name"`
	pageInput
}

type auditInput struct {
	Queue []string             `query:"queues" maxItems:"100" description:"Any of these queues"`
	Actor []string             `query:"actors" maxItems:"100" description:"Any of these actors; the empty name selects the entries without one"`
	What  []string             `query:"what" maxItems:"100" description:"Any of these: the name of an action, create, control, or refused"`
	JobID string               `query:"job_id" description:"The ID of a job"`
	Time  management.TimeRange `query:"time" description:"When the entry was written"`
	pageInput
}

type activityInput struct {
	Queue []string `query:"queues" maxItems:"100" description:"Any of these queues"`
	Type  []string `query:"types" maxItems:"100" description:"Any of these types"`
	Last  Duration `query:"last" description:"The length of the period up to now, at most 720h; the default is 1h"`
}

type eventsInput struct {
	Every Duration `query:"every" description:"The minimum time between two events, from 100ms to 1h; the default is 2s"`
}

func listQueues(c *call) (answer, error) {
	var in queuesInput
	if err := c.input(&in, nil); err != nil {
		return answer{}, err
	}
	found, err := c.FindQueues(c.r.Context(), management.QueueFilter{Name: in.Name, Queues: in.Queue}, management.PageRequest{Cursor: in.Cursor, Limit: in.Limit})
	found.Queues = notNil(found.Queues)
	return page(found, found.Next), err
}

func sumQueues(c *call) (answer, error) {
	if err := c.input(new(none), nil); err != nil {
		return answer{}, err
	}
	totals, err := c.SumQueues(c.r.Context())
	totals.Busiest = notNil(totals.Busiest)
	return ok(totals), err
}

// notNil returns a list that is an empty array in JSON if it is nil.
func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func getQueue(c *call) (answer, error) {
	var in queuePath
	if err := c.input(&in, nil); err != nil {
		return answer{}, err
	}
	queue, err := c.Queue(c.r.Context(), string(in.Queue))
	return ok(queue), err
}

func controlQueue(c *call) (answer, error) {
	var in queuePath
	var change management.ControlChange
	if err := c.input(&in, &change); err != nil {
		return answer{}, err
	}
	control, err := c.SetControl(c.r.Context(), string(in.Queue), change)
	return ok(control), err
}

func findJobs(c *call) (answer, error) {
	var in findInput
	if err := c.input(&in, nil); err != nil {
		return answer{}, err
	}
	request := in.page()
	request.Args = in.Args
	found, err := c.FindJobs(c.r.Context(), in.filter(), request)
	found.Jobs = notNil(numbering.ShowJobs(found.Jobs))
	return page(found, found.Next), err
}

func countJobs(c *call) (answer, error) {
	in := countInput{Most: management.MaxCount}
	if err := c.input(&in, nil); err != nil {
		return answer{}, err
	}
	count, err := c.CountJobs(c.r.Context(), in.filter(), in.Most)
	return ok(count), err
}

func countStates(c *call) (answer, error) {
	var in statesInput
	if err := c.input(&in, nil); err != nil {
		return answer{}, err
	}
	counts, err := c.CountStates(c.r.Context(), management.StateCountRequest{Filter: in.filter(), Most: in.Most, Within: time.Duration(in.Within)})
	return ok(StateCountList{notNil(counts)}), err
}

func groupErrors(c *call) (answer, error) {
	var in errorsInput
	if err := c.input(&in, nil); err != nil {
		return answer{}, err
	}
	groups, err := c.ErrorGroups(c.r.Context(), management.ErrorGroupRequest{Filter: in.filter(), Cursor: in.Cursor, Limit: in.Limit})
	groups = numbering.ShowErrorGroups(groups)
	groups.Groups = notNil(groups.Groups)
	return page(groups, groups.Next), err
}

func actOnJobs(c *call) (answer, error) {
	var body ActOnJobs
	if err := c.input(new(none), &body); err != nil {
		return answer{}, err
	}
	if body.Filter == nil {
		return answer{}, invalid("filter", "", "is required")
	}
	req := body.ActRequest
	req.Filter = *body.Filter
	acted, err := c.Act(c.r.Context(), req)
	return ok(acted), err
}

func createJob(c *call) (answer, error) {
	var in createInput
	var job management.NewJob
	if err := c.input(&in, &job); err != nil {
		return answer{}, err
	}
	job.Queue, job.IdempotencyKey = string(in.Queue), in.IdempotencyKey
	if c.r.Header.Values(IdempotencyKey) != nil {
		if err := CheckKey(IdempotencyKey, job.IdempotencyKey); err != nil {
			return answer{}, err
		}
	}
	if err := c.mayCreate(job, in.Wait); err != nil {
		return answer{}, err
	}
	made, err := c.CreateJob(c.r.Context(), job)
	created := Created{Created: made}
	if err == nil && in.Wait > 0 {
		// The job is created: the answer says so, whatever becomes of the wait.
		outcome, failure := c.outcome(made.JobRef, time.Duration(in.Wait))
		created.Outcome = &outcome
		if failure != nil {
			web.LogFailure(c.r, failureOf(c.r.Context(), failure), failure)
			created.Outcome = nil
		}
	}
	result := answer{status: http.StatusCreated, value: created, location: "jobs/" + names.Escape(created.ID)}
	if created.Repeated {
		result.status = http.StatusOK
	}
	return result, err
}

// mayCreate returns an error if the request can't wait for the end of the job that it creates.
func (c *call) mayCreate(job management.NewJob, wait Duration) error {
	if wait == 0 {
		return nil
	}
	if err := checkWait(wait); err != nil {
		return err
	}
	if err := c.allowOutcome(job); err != nil {
		return err
	}
	_, err := c.dispatcher()
	return err
}

func getJob(c *call) (answer, error) {
	var in jobPath
	if err := c.input(&in, nil); err != nil {
		return answer{}, err
	}
	job, err := c.Job(c.r.Context(), string(in.Queue), string(in.ID))
	return ok(complete(job)), err
}

// complete prepares a job for JSON: its lists are arrays, and its attempts are counted from 1.
func complete(job management.Job) management.Job {
	job = numbering.ShowJob(job)
	job.Errors, job.Attempts, job.Log = notNil(job.Errors), notNil(job.Attempts), notNil(job.Log)
	job.Scopes, job.DependsOn, job.Dependents = notNil(job.Scopes), notNil(job.DependsOn), notNil(job.Dependents)
	job.Timeline, job.Actions, job.Editable = notNil(job.Timeline), notNil(job.Actions), notNil(job.Editable)
	return job
}

func deleteJob(c *call) (answer, error) {
	var in jobPath
	if err := c.input(&in, nil); err != nil {
		return answer{}, err
	}
	acted, err := c.ActOn(c.r.Context(), string(in.Queue), string(in.ID), management.Action{Kind: management.Delete})
	return ok(acted), err
}

func editJob(c *call) (answer, error) {
	var in jobPath
	var edit management.JobEdit
	if err := c.input(&in, &edit); err != nil {
		return answer{}, err
	}
	edited, err := c.EditJob(c.r.Context(), string(in.Queue), string(in.ID), edit)
	edited.Changes = notNil(edited.Changes)
	return ok(edited), err
}

func actOnJob(c *call) (answer, error) {
	var in jobPath
	var action management.Action
	if err := c.input(&in, &action); err != nil {
		return answer{}, err
	}
	acted, err := c.ActOn(c.r.Context(), string(in.Queue), string(in.ID), action)
	return ok(acted), err
}

// defaultDistance is the default distance of a graph.
const defaultDistance = 2

func getGraph(c *call) (answer, error) {
	in := graphInput{Distance: defaultDistance}
	if err := c.input(&in, nil); err != nil {
		return answer{}, err
	}
	graph, err := c.Graph(c.r.Context(), string(in.Queue), string(in.ID), in.Distance)
	graph.Jobs, graph.Edges = notNil(graph.Jobs), notNil(graph.Edges)
	return ok(graph), err
}

func listScopes(c *call) (answer, error) {
	var in scopesInput
	if err := c.input(&in, nil); err != nil {
		return answer{}, err
	}
	found, err := c.Scopes(c.r.Context(), management.ScopeFilter{Queues: in.Queue, Name: in.Name, Part: in.Part}, in.page())
	found.Scopes = notNil(found.Scopes)
	return page(found, found.Next), err
}

func listProcesses(c *call) (answer, error) {
	if err := c.input(new(none), nil); err != nil {
		return answer{}, err
	}
	processes, err := c.Processes(c.r.Context())
	list := ProcessList{Processes: make([]management.Process, len(processes))}
	for i, process := range numbering.ShowProcesses(processes) {
		process.Queues, process.Running = notNil(process.Queues), notNil(process.Running)
		list.Processes[i] = process
	}
	return ok(list), err
}

func getActivity(c *call) (answer, error) {
	var in activityInput
	if err := c.input(&in, nil); err != nil {
		return answer{}, err
	}
	activity, err := c.Activity(c.r.Context(), management.ActivityRequest{Queues: in.Queue, Types: in.Type, Last: time.Duration(in.Last)})
	activity.Points, activity.Rows = notNil(activity.Points), notNil(activity.Rows)
	return ok(activity), err
}

func listSchedules(c *call) (answer, error) {
	if err := c.input(new(none), nil); err != nil {
		return answer{}, err
	}
	schedules, err := c.Schedules(c.r.Context())
	return ok(ScheduleList{notNil(schedules)}), err
}

func listTypes(c *call) (answer, error) {
	if err := c.input(new(none), nil); err != nil {
		return answer{}, err
	}
	types, err := c.Inspector.(management.TypeLister).JobTypes(c.r.Context()) // that of a guard
	return ok(TypeList{notNil(types)}), err
}

func getDiagnosis(c *call) (answer, error) {
	if err := c.input(new(none), nil); err != nil {
		return answer{}, err
	}
	diagnosis, err := c.Inspector.(management.Diagnostician).Diagnose(c.r.Context()) // that of a guard
	diagnosis.Findings = notNil(diagnosis.Findings)
	return ok(diagnosis), err
}

func listAudit(c *call) (answer, error) {
	var in auditInput
	if err := c.input(&in, nil); err != nil {
		return answer{}, err
	}
	found, err := c.Audit(c.r.Context(), management.AuditFilter{Queues: in.Queue, Actors: in.Actor, What: in.What, JobID: in.JobID, Time: in.Time}, in.page())
	found.Entries = notNil(found.Entries)
	return page(found, found.Next), err
}
