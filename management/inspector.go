package management

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// Inspector is all that a person can see and do of jobs: those of one queue, of the
// queues of a group, or of a store. NewInspector, NewGroupInspector and
// NewDBInspector make one, and rest.NewClient one that asks another process for all of
// it. The values of this package that are a Manager are an Inspector too.
//
// A job is named by its queue and its ID. Of a retryable job the latest attempt is
// meant. All methods block as long as the store takes, stop with an error when ctx ends,
// and are safe for concurrent use. They return an *InvalidArgumentError for what is not
// valid, and change nothing then; an error for which amboy.IsJobNotFoundError is true
// where there is no such job; a *StateError where the state of a job forbids an action;
// and an error that wraps ErrUnknownQueue for a queue that is not there. What changes
// something is idempotent: doing it again changes nothing. It is written to the audit
// list, with the name that ctx carries (see WithActor).
type Inspector interface {
	// Queues describes the queues, by name.
	Queues(ctx context.Context) ([]Queue, error)
	// Queue describes one.
	Queue(ctx context.Context, name string) (Queue, error)
	// SetControl changes what is set for a queue, and returns what is set then.
	SetControl(ctx context.Context, queue string, change ControlChange) (Control, error)
	// Watch yields the queues as they are now, and then after changes, until ctx
	// ends. It waits at least for a time between two, which must be from MinWatch to
	// MaxWatch. An error is the last that it yields.
	Watch(ctx context.Context, every time.Duration) iter.Seq2[[]Queue, error]

	// FindJobs returns a page of the jobs that a filter selects. One that is there
	// from the first page to the last, and is always selected, is on one of them.
	FindJobs(ctx context.Context, filter JobFilter, page PageRequest) (JobPage, error)
	// CountJobs counts the jobs that a filter selects, up to a number from 1 to
	// MaxCount. Where it selects few of many jobs, by what a store has no index for,
	// such as an error, that takes as long as reading them all.
	CountJobs(ctx context.Context, filter JobFilter, most int) (Count, error)
	// Job tells all about one job.
	Job(ctx context.Context, queue, id string) (Job, error)
	// Graph returns a job with those that it waits for, and those that wait for it,
	// also through others, up to a distance from 1 to MaxGraphDistance. It has at most
	// MaxGraphJobs.
	Graph(ctx context.Context, queue, id string, distance int) (Graph, error)
	// CreateJob puts a job of a registered type in a queue. It returns an error that
	// wraps ErrUnsupported where no queue is in this process, and errors as
	// amboy.Queue.Put does. Where the request has an idempotency key, and one with
	// that key was done within a day, it returns the job of that one, and puts none;
	// where that was for another request it returns an *InvalidArgumentError.
	CreateJob(ctx context.Context, job NewJob) (Created, error)

	// ActOn does something to one job. Where the job is as the action would leave it,
	// it does nothing, and says so.
	ActOn(ctx context.Context, queue, id string, action Action) (Acted, error)
	// Act does something to the jobs that a filter selects, or tells what it would do,
	// which it then does where nothing changes meanwhile. Those whose state does not
	// allow it are skipped. It begins with the jobs that came last, and leaves those
	// out that come meanwhile, or that are run again; what it does in one call it does
	// in the order in which they came.
	Act(ctx context.Context, req ActRequest) (Acted, error)

	// Scopes lists the scopes that are held, with who holds them, and how many wait.
	Scopes(ctx context.Context, filter ScopeFilter, page PageRequest) (ScopePage, error)
	// Processes lists the processes that are alive, or were until not long ago.
	Processes(ctx context.Context) ([]Process, error)
	// Activity tells what the queues have done lately.
	Activity(ctx context.Context, req ActivityRequest) (Activity, error)
	// Schedules lists the schedules that processes keep.
	Schedules(ctx context.Context) ([]Schedule, error)
	// Audit returns a page of what was done, the latest first.
	Audit(ctx context.Context, page PageRequest) (AuditPage, error)
}

// The bounds of what an Inspector takes.
const (
	// DefaultLimit is the number of items on a page where none is given, and MaxLimit
	// the largest.
	DefaultLimit = 50
	MaxLimit     = 1000
	// MaxActLimit is the largest number of jobs that one call of Act looks at.
	MaxActLimit = 10_000
	// MaxCount is the largest number up to which jobs are counted.
	MaxCount = 100_000
	// MaxGraphDistance is the largest distance in a Graph, and MaxGraphJobs the
	// largest number of jobs.
	MaxGraphDistance = 5
	MaxGraphJobs     = 200
	// MaxFilterValues is the largest number of values in a list of a JobFilter, and
	// MaxFilterBytes the length of the longest.
	MaxFilterValues = 100
	MaxFilterBytes  = 1024
	// MinWatch and MaxWatch bound how often Watch yields.
	MinWatch = 100 * time.Millisecond
	MaxWatch = time.Hour
)

// Control is what is set for a queue.
type Control struct {
	// Paused keeps jobs from being run.
	Paused bool `json:"paused"`
	// Draining keeps jobs from being put.
	Draining bool `json:"draining"`
	// MaxRunning is the number of jobs that run at once, over all processes; 0 for no
	// limit.
	MaxRunning int `json:"max_running"`
	// Workers is the number of workers that each process has for the queue; 0 for
	// that with which it was configured. Another process learns of it within a minute.
	Workers int `json:"workers"`
}

// ControlChange changes a Control. Fields that are nil stay as they are.
type ControlChange struct {
	Paused     *bool `json:"paused,omitempty"`
	Draining   *bool `json:"draining,omitempty"`
	MaxRunning *int  `json:"max_running,omitempty"`
	Workers    *int  `json:"workers,omitempty"`
}

// MaxWorkers is the largest number of workers of a process for a queue.
const MaxWorkers = 10_000

// Queue describes a queue.
type Queue struct {
	// Name is that in the store; the ID of a queue that has none.
	Name    string  `json:"name"`
	Control Control `json:"control"`
	Counts  Counts  `json:"counts"`
	// OldestPending is since when the first job waits that could start; zero where
	// there is none. Queues tells it of the hundred queues that have the most pending
	// jobs.
	OldestPending time.Time `json:"oldest_pending,omitzero"`
	// Unknown are the kinds of jobs that wait here, and that no live process can run.
	// Queues tells them of the hundred queues that have the most pending jobs.
	Unknown []UnknownJobs `json:"unknown,omitempty"`
}

// JobKind is what a process must know to run a job.
type JobKind struct {
	// Type and Version are those of the job, when it was stored.
	Type    string `json:"type"`
	Version int    `json:"version"`
	// Dependency is the type of its dependency manager, with its version; empty for one
	// that every process knows.
	Dependency        string `json:"dependency,omitempty"`
	DependencyVersion int    `json:"dependency_version,omitempty"`
}

// String describes the kind.
func (k JobKind) String() string {
	return driver.Kind{Type: k.Type, Version: k.Version, Manager: k.Dependency, ManagerVersion: k.DependencyVersion}.String()
}

// UnknownJobs are jobs that wait and that no live process can run: their type, or that of
// their dependency manager, is registered in none, or in another version. They run as soon
// as a process comes that knows it.
type UnknownJobs struct {
	JobKind
	// Jobs is their number, up to MaxLimit.
	Jobs Count `json:"jobs"`
}

// Counts counts the jobs of a queue.
type Counts struct {
	// Pending have not started: due, scheduled, blocked or parked.
	Pending int `json:"pending"`
	// Blocked are those among them that wait for a scope or a dependency.
	Blocked int `json:"blocked"`
	// Running run.
	Running int `json:"running"`
	// Retrying await their retry.
	Retrying int `json:"retrying"`
	// Completed have ended, also those that are gone.
	Completed int `json:"completed"`
	// Total is all of them.
	Total int `json:"total"`
}

// TimeRange is the times from From on and before To. Where either is zero there is no
// such bound.
type TimeRange struct {
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
}

// JobFilter selects jobs by what they are now. A field that is empty selects all;
// fields that are not select what meets all of them. What a list names is selected where
// one of its values fits, but for Tags.
type JobFilter struct {
	Queues []string         `json:"queues,omitempty"`
	States []amboy.JobState `json:"states,omitempty"`
	Types  []string         `json:"types,omitempty"`
	// Tags are those that the job has, all of them.
	Tags []string `json:"tags,omitempty"`
	// IDs are those that it may have.
	IDs []string `json:"ids,omitempty"`
	// IDPattern is a pattern for its ID: * stands for any characters, ? for one, and
	// all others for themselves.
	IDPattern string `json:"id_pattern,omitempty"`
	// Error is a part of the last of its errors. Case matters.
	Error string `json:"error,omitempty"`
	// Scope is one that it needs, whether it holds it or not.
	Scope string `json:"scope,omitempty"`
	// Created, Due and Ended are when it was put, when it may start, and when it ended.
	Created TimeRange `json:"created,omitzero"`
	Due     TimeRange `json:"due,omitzero"`
	Ended   TimeRange `json:"ended,omitzero"`
}

// PageRequest asks for a page.
type PageRequest struct {
	// Cursor is the Next of the page before; empty for the first.
	Cursor string `json:"cursor,omitempty"`
	// Limit is the number of items at most, to MaxLimit; 0 stands for DefaultLimit.
	Limit int `json:"limit,omitempty"`
	// Newest reverses the order, which else is that in which the items came.
	Newest bool `json:"newest,omitempty"`
}

// JobPage is a page of jobs. It may have fewer than were asked for, also none, before
// the end.
type JobPage struct {
	Jobs []JobSummary `json:"jobs"`
	// Next is the cursor of the next page; empty where there is none.
	Next string `json:"next,omitempty"`
}

// Count is a number of jobs.
type Count struct {
	Count int `json:"count"`
	// More is true where there are more than were counted.
	More bool `json:"more"`
}

// JobRef names a job.
type JobRef struct {
	Queue string `json:"queue"`
	ID    string `json:"id"`
}

// JobSummary is what a list shows of a job.
type JobSummary struct {
	JobRef
	Type     string         `json:"type"`
	Version  int            `json:"version"`
	State    amboy.JobState `json:"state"`
	Priority int            `json:"priority"`
	Tags     []string       `json:"tags,omitempty"`
	// Attempt numbers the attempt, from 0. MaxAttempts is 0 for a job that is not
	// retried.
	Attempt     int `json:"attempt"`
	MaxAttempts int `json:"max_attempts,omitempty"`

	Created time.Time `json:"created,omitzero"`
	// Due is the earliest time at which it may start.
	Due time.Time `json:"due,omitzero"`
	// Deadline is the latest time at which it may start.
	Deadline time.Time `json:"deadline,omitzero"`
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`

	// Owner is the ID of the process that runs it, or did last.
	Owner string `json:"owner,omitempty"`
	// Reason says why it is blocked or parked, or was canceled.
	Reason string `json:"reason,omitempty"`
	// Error is the last of the job's own errors in the attempt, at most MaxFilterBytes
	// of it.
	Error string `json:"error,omitempty"`
	// Progress is the part of it that is done, from 0 to 1; nil where it said nothing.
	Progress *float64 `json:"progress,omitempty"`
	// CancelRequested is true for a running job that is to be canceled.
	CancelRequested bool `json:"cancel_requested,omitempty"`
	// StuckSince is set for a running job whose run goes on although it should have ended
	// then.
	StuckSince time.Time `json:"stuck_since,omitzero"`
}

// Job is all about a job.
type Job struct {
	JobSummary
	// MaxTime is the longest that it may run, in seconds; 0 for no limit.
	MaxTime float64 `json:"max_time,omitempty"`
	// LeaseRenewed is when the process that runs it last said so.
	LeaseRenewed time.Time `json:"lease_renewed,omitzero"`
	// Errors are those of its attempts, the oldest first, also those of the queue, which
	// are marked as bookkeeping. DroppedErrors counts those that were too many to keep.
	Errors        []amboy.AttemptError `json:"errors"`
	DroppedErrors int                  `json:"dropped_errors,omitempty"`
	// Attempts are those that are stored, the oldest first.
	Attempts []Attempt `json:"attempts"`
	// ProgressMessage is what it last said of its progress.
	ProgressMessage string `json:"progress_message,omitempty"`
	// Interruptions are the runs of the attempt whose leases ran out.
	Interruptions *amboy.Interruptions `json:"interruptions,omitempty"`
	// Stuck is how its run, or its last one, went on although it should have ended.
	Stuck *amboy.StuckRun `json:"stuck,omitempty"`
	// Log is what it logged. DroppedLines counts the lines that were too many to keep.
	Log          []amboy.LogLine `json:"log"`
	DroppedLines int             `json:"dropped_lines,omitempty"`
	// Args are its arguments, as JSON: those of a job of job.Define, and else the
	// stored form of the job. They are absent where ArgsHidden says why.
	Args       json.RawMessage `json:"args,omitempty"`
	ArgsHidden string          `json:"args_hidden,omitempty"`
	// Result is what it left when it ended, as JSON.
	Result json.RawMessage `json:"result,omitempty"`
	// ResultHidden says why what it left is absent.
	ResultHidden string            `json:"result_hidden,omitempty"`
	Metadata     map[string]string `json:"metadata,omitempty"`
	// Scopes are those that it needs.
	Scopes []ScopeUse `json:"scopes"`
	// DependsOn are the jobs that it waits for, or waited for: at most MaxLimit of them.
	DependsOn     []Dependency `json:"depends_on"`
	MoreDependsOn bool         `json:"more_depends_on,omitempty"`
	// Dependents are those that wait, or waited, for it: at most DefaultLimit of them.
	Dependents     []Dependency `json:"dependents"`
	MoreDependents bool         `json:"more_dependents,omitempty"`
	// Timeline is what happened to it, the oldest first, and what is to come.
	Timeline []Moment `json:"timeline"`
	// Actions are those that its state allows.
	Actions []ActionKind `json:"actions"`
}

// Attempt is one run of a job that ended, or the latest.
type Attempt struct {
	Number  int            `json:"number"`
	State   amboy.JobState `json:"state"`
	Owner   string         `json:"owner,omitempty"`
	Created time.Time      `json:"created,omitzero"`
	Started time.Time      `json:"started,omitzero"`
	Ended   time.Time      `json:"ended,omitzero"`
	Errors  []string       `json:"errors,omitempty"`
}

// ScopeUse is a scope that a job needs.
type ScopeUse struct {
	Name string `json:"name"`
	// Held is true where the job itself holds it.
	Held bool `json:"held"`
	// Holder is the job that holds it; nil where none does.
	Holder *JobRef `json:"holder,omitempty"`
}

// Dependency is a job at the other end of an edge.
type Dependency struct {
	JobRef
	// State is empty where there is no such job, or not any more.
	State amboy.JobState `json:"state,omitempty"`
	Type  string         `json:"type,omitempty"`
	// Failed is true where the job that was waited for ended without success.
	Failed bool `json:"failed,omitempty"`
}

// Moment is a point in the life of a job.
type Moment struct {
	Time time.Time `json:"time"`
	// What happened, in a few words.
	What string `json:"what"`
	// Detail says more, for instance an error.
	Detail string `json:"detail,omitempty"`
	// Future is true for what is to come.
	Future bool `json:"future,omitempty"`
}

// Graph is a job among those that depend on each other. An edge leads from a job to one
// that it waits for.
type Graph struct {
	Jobs  []GraphJob  `json:"jobs"`
	Edges []GraphEdge `json:"edges"`
	// Truncated is true where there are more jobs than the graph has.
	Truncated bool `json:"truncated,omitempty"`
}

// GraphJob is a job in a Graph.
type GraphJob struct {
	JobRef
	State amboy.JobState `json:"state,omitempty"`
	Type  string         `json:"type,omitempty"`
	// Distance is that from the job that was asked for, which has 0: it is negative
	// for jobs that are waited for, and positive for those that wait.
	Distance int `json:"distance"`
	// Holds is true where it has not ended, and so keeps others of the graph waiting.
	Holds bool `json:"holds,omitempty"`
}

// GraphEdge leads from a job that waits to one that is waited for, both by their IDs.
type GraphEdge struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// NewJob is a job to be put.
type NewJob struct {
	Queue string `json:"-"`
	// ID is that of the job. Default: one that is made up.
	ID string `json:"id,omitempty"`
	// Type is the name of a registered type. It is required.
	Type string `json:"type"`
	// Args are the arguments, as a JSON object.
	Args     json.RawMessage `json:"args,omitempty"`
	Priority int             `json:"priority,omitempty"`
	Due      time.Time       `json:"due,omitzero"`
	Deadline time.Time       `json:"deadline,omitzero"`
	// IdempotencyKey is that of the request; empty for none.
	IdempotencyKey string `json:"-"`
}

// Created tells of a job that was put.
type Created struct {
	JobRef
	// Repeated is true where an earlier request with the same idempotency key has put
	// it.
	Repeated bool `json:"repeated"`
}

// ScopeFilter selects scopes.
type ScopeFilter struct {
	Queues []string `json:"queues,omitempty"`
	// Name is that of the scope; empty for all.
	Name string `json:"name,omitempty"`
}

// Scope is a scope that is held.
type Scope struct {
	Queue string `json:"queue"`
	Name  string `json:"name"`
	// Holder is the job that holds it, and State the state of that.
	Holder JobRef         `json:"holder"`
	State  amboy.JobState `json:"state"`
	// Since is when the holder started, or was put where it has not.
	Since time.Time `json:"since,omitzero"`
	// Waiting counts the jobs that wait, up to MaxLimit.
	Waiting Count `json:"waiting"`
}

// ScopePage is a page of scopes.
type ScopePage struct {
	Scopes []Scope `json:"scopes"`
	Next   string  `json:"next,omitempty"`
}

// Process is a process that has queues.
type Process struct {
	// ID is that by which the process owns jobs.
	ID   string `json:"id"`
	Host string `json:"host"`
	PID  int    `json:"pid"`
	// Started is since when it is there, and Seen when it last said that it is. Of one
	// that says nothing of itself, and is known by the jobs that it runs, Started is
	// zero.
	Started time.Time `json:"started,omitzero"`
	Seen    time.Time `json:"seen,omitzero"`
	// Alive is false where it has not said so for longer than it should have.
	Alive  bool           `json:"alive"`
	Queues []ProcessQueue `json:"queues"`
	// Unknown are the kinds of jobs that it has met and can't run, and leaves to others.
	Unknown []JobKind `json:"unknown,omitempty"`
	// Running are the jobs that it runs, at most DefaultLimit of them, and RunningCount
	// their number.
	Running      []JobSummary `json:"running"`
	RunningCount Count        `json:"running_count"`
}

// ProcessQueue is a queue in a process.
type ProcessQueue struct {
	Name string `json:"name"`
	// Workers is the number of its workers; 0 where its runner does not tell.
	Workers int  `json:"workers"`
	Started bool `json:"started"`
}

// ActivityRequest asks what queues did.
type ActivityRequest struct {
	// Queues and Types are those that are meant; all where none are named.
	Queues []string `json:"queues,omitempty"`
	Types  []string `json:"types,omitempty"`
	// Last is how far to look back: from a minute to MaxActivity. Default: an hour. Up
	// to two hours are told by the minute, and more by the hour.
	Last time.Duration `json:"last,omitempty"`
}

// MaxActivity is how far activity is kept.
const MaxActivity = 48 * time.Hour

// Activity is what queues did in a time.
type Activity struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Step is the time that a point stands for, in seconds.
	Step float64 `json:"step"`
	// Points are the sums over all queues and types, a point for each step, the oldest
	// first, also where nothing happened.
	Points []ActivityPoint `json:"points"`
	// Rows are the sums over the whole time, for each queue and type, ordered by these.
	Rows []ActivityRow `json:"rows"`
	// Sum is that over all.
	Sum ActivityRow `json:"sum"`
}

// ActivityPoint is what happened in one step.
type ActivityPoint struct {
	Time      time.Time `json:"time"`
	Succeeded int       `json:"succeeded"`
	Failed    int       `json:"failed"`
	Retried   int       `json:"retried"`
}

// ActivityRow is what happened to the jobs of a type in a queue. Where the types of a
// process are too many, some are counted together, with an empty Type.
type ActivityRow struct {
	Queue string `json:"queue"`
	Type  string `json:"type"`
	// Succeeded and Failed ended for good; canceled and expired ones are Failed.
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	// Retried are the attempts that failed and were followed by another.
	Retried int `json:"retried"`
	// PerSecond is the number of attempts that ended in a second, and FailureRate the
	// part of them that failed, from 0 to 1.
	PerSecond   float64 `json:"per_second"`
	FailureRate float64 `json:"failure_rate"`
	// Wait is how long attempts that ended had waited since they could start, and Run
	// how long they ran.
	Wait Percentiles `json:"wait"`
	Run  Percentiles `json:"run"`
}

// Percentiles are times in seconds, exact to a few percent, that so many of a hundred do
// not exceed.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Schedule is a schedule that a process keeps.
type Schedule struct {
	Queue string `json:"queue"`
	Name  string `json:"name"`
	// Spec says when it ticks.
	Spec    string `json:"spec"`
	CatchUp string `json:"catch_up"`
	// Last is the last tick whose job was put, and Next the next tick.
	Last time.Time `json:"last,omitzero"`
	Next time.Time `json:"next,omitzero"`
	// Error is why the last tick's job could not be put; empty where it could.
	Error string `json:"error,omitempty"`
	// Seen is when a process last said that it keeps it.
	Seen time.Time `json:"seen"`
}
