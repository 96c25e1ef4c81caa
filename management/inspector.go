package management

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// Inspector shows and changes the jobs of one queue, of the queues of a group, or of a
// whole store. NewInspector, NewGroupInspector, NewStoreInspector and NewDBInspector return one,
// and rest.NewClient returns one that calls another process. The Managers of this package
// are Inspectors too.
//
// A job is identified by its queue and its ID. For a retryable job the methods use the
// latest attempt. All methods block as long as the store takes, stop with an error when
// ctx ends, and are safe for concurrent use. They return
//
//   - an *InvalidArgumentError if an argument is invalid; then nothing has changed,
//   - an error for which amboy.IsJobNotFoundError is true if the job does not exist,
//   - a *StateError if the state of a job forbids an action,
//   - an error that wraps ErrUnknownQueue if the queue does not exist.
//
// Methods that change something are idempotent: a repetition changes nothing. They write
// an entry to the audit list, with the actor that ctx carries (see WithActor); dry runs and invalid
// requests write none.
type Inspector interface {
	// Queues describes all queues, ordered by name. Its cost grows with their number; for a
	// store with many queues, use FindQueues and SumQueues.
	Queues(ctx context.Context) ([]Queue, error)
	// FindQueues returns a page of the queues that a filter selects, ordered by name. A queue
	// that exists from the first page to the last is on exactly one of them. The cost of a
	// page does not depend on the number of queues that are not on it, unless the filter has
	// a Name: then it reads up to 10,000 queues, and may return a page with fewer queues than
	// requested, or none, before the last. page.Newest must be false.
	FindQueues(ctx context.Context, filter QueueFilter, page PageRequest) (QueuePage, error)
	// SumQueues adds up all queues, with one read of the store, and describes the busiest.
	SumQueues(ctx context.Context) (QueueTotals, error)
	// Queue describes one queue.
	Queue(ctx context.Context, name string) (Queue, error)
	// SetControl changes the controls of a queue, and returns the resulting controls.
	SetControl(ctx context.Context, queue string, change ControlChange) (Control, error)
	// Watch yields the queues as they are now, and again after changes, until ctx ends. If
	// there are more than MaxLimit queues, it yields the busiest, as SumQueues does, after
	// changes of them or of the sums over all queues. every is the minimum time between two
	// results, from MinWatch to MaxWatch. If reading the queues takes longer than a tenth of
	// that time, Watch reads them less often. After an error Watch yields nothing more.
	Watch(ctx context.Context, every time.Duration) iter.Seq2[[]Queue, error]

	// FindJobs returns a page of the jobs that a filter selects. A job that exists and is
	// selected from the first page to the last is on exactly one of them. A search for a part
	// of a text, which may have to read all jobs, ends a page after about a quarter of a
	// second; Next continues it.
	FindJobs(ctx context.Context, filter JobFilter, page PageRequest) (JobPage, error)
	// CountJobs counts the jobs that a filter selects, up to most, which must be from 1 to
	// MaxCount, and for at most about MaxCountTime: then Count.More is true.
	CountJobs(ctx context.Context, filter JobFilter, most int) (Count, error)
	// CountStates counts the jobs that a request's filter selects by their states: by those of
	// the filter, or by all if it names none. It takes about as long as Within says.
	CountStates(ctx context.Context, req StateCountRequest) ([]StateCount, error)
	// ErrorGroups groups the jobs that a filter selects by their last errors, folded as FoldError
	// does, and leaves out jobs without an error. It examines the latest jobs first, for about
	// MaxGroupTime, and at most MaxGroupJobs; Next continues with older ones.
	ErrorGroups(ctx context.Context, req ErrorGroupRequest) (ErrorGroups, error)
	// Job returns everything known about one job.
	Job(ctx context.Context, queue, id string) (Job, error)
	// Graph returns a job, the jobs that it waits for and the jobs that wait for it,
	// directly or through others, up to a distance from 1 to MaxGraphDistance. The graph
	// has at most MaxGraphJobs.
	Graph(ctx context.Context, queue, id string, distance int) (Graph, error)
	// CreateJob puts a job of a registered type in a queue. It returns an error that
	// wraps ErrUnsupported if the queue is not open in this process, and the errors of
	// amboy.Queue.Put. If a request with the same idempotency key succeeded within the
	// last day, it puts no job and returns the job of that request. If that request had
	// other contents, it returns an *InvalidArgumentError.
	CreateJob(ctx context.Context, job NewJob) (Created, error)

	// ActOn performs an action on one job. If the action would change nothing, it does
	// nothing, and counts the job as skipped.
	ActOn(ctx context.Context, queue, id string, action Action) (Acted, error)
	// Act performs an action on the jobs that a filter selects. A dry run reports what it
	// would do, which is exact if nothing changes meanwhile. Jobs whose state does not
	// allow the action are skipped. Act scans from the latest job to the oldest, and
	// leaves out jobs that are put or run again meanwhile. Within one call it acts on jobs
	// in the order in which they were put, except that it retries a job after those that
	// it depends on.
	Act(ctx context.Context, req ActRequest) (Acted, error)

	// EditJob changes the arguments, the priority and the time of a job that has not started, in
	// one step: a job that is claimed or changed meanwhile is not edited. Only jobs of job.Define,
	// job.Declare and job.NewOutside have arguments that can be edited, in a process that knows
	// the type; those of an encrypted job only if the context is one of WithReveal. Otherwise the
	// error wraps ErrUnsupported. The type, and scopes, tags and a unique key that were made from
	// the arguments, stay. If nothing would change, EditJob does nothing.
	EditJob(ctx context.Context, queue, id string, edit JobEdit) (JobEdited, error)

	// Scopes lists the scopes that are held, with their holders and the number of waiters.
	Scopes(ctx context.Context, filter ScopeFilter, page PageRequest) (ScopePage, error)
	// Processes lists the processes that are alive, or were until recently.
	Processes(ctx context.Context) ([]Process, error)
	// Activity reports what the queues have done recently.
	Activity(ctx context.Context, req ActivityRequest) (Activity, error)
	// Schedules lists the schedules that processes run.
	Schedules(ctx context.Context) ([]Schedule, error)
	// Audit returns a page of the entries of the audit list that a filter selects, the latest
	// first.
	Audit(ctx context.Context, filter AuditFilter, page PageRequest) (AuditPage, error)
}

// The limits of the arguments of an Inspector.
const (
	// DefaultLimit is the default number of items on a page, and MaxLimit the largest.
	DefaultLimit = 50
	MaxLimit     = 1000
	// MaxActLimit is the largest number of jobs that one call of Act reads.
	MaxActLimit = 10_000
	// MaxCount is the largest number up to which CountJobs counts.
	MaxCount = 100_000
	// MaxGraphDistance is the largest distance in a Graph, and MaxGraphJobs the
	// largest number of jobs.
	MaxGraphDistance = 5
	MaxGraphJobs     = 200
	// MaxListedArgs is the maximum length, in bytes, of the arguments of a job in a list.
	MaxListedArgs = 16 << 10
	// MaxFilterValues is the largest number of values in a list of a JobFilter, and
	// MaxFilterBytes the maximum length of a value.
	MaxFilterValues = 100
	MaxFilterBytes  = 1024
	// MaxCountTime is about how long CountJobs and CountStates count at most.
	MaxCountTime = 1500 * time.Millisecond
	// MaxGroupTime is about how long, and MaxGroupJobs how many jobs, one call of ErrorGroups
	// examines. MaxGroupTypes is the largest number of types in an ErrorGroup.
	MaxGroupTime  = 1500 * time.Millisecond
	MaxGroupJobs  = 200_000
	MaxGroupTypes = 10
	// MinWatch and MaxWatch bound the interval of Watch.
	MinWatch = 100 * time.Millisecond
	MaxWatch = time.Hour
)

// Control contains the settings of a queue that an operator changes.
type Control struct {
	// Paused keeps jobs from starting.
	Paused bool `json:"paused"`
	// Draining keeps jobs from being put.
	Draining bool `json:"draining"`
	// MaxRunning is the maximum number of running jobs, over all processes; 0 means no
	// limit.
	MaxRunning int `json:"max_running"`
	// Rate limits how many jobs start in a time, over all processes; nil means no limit.
	Rate *amboy.Rate `json:"rate,omitempty"`
	// Types holds the limits of job types, over all processes, by the name of the type.
	Types map[string]amboy.TypeLimit `json:"types,omitempty"`
	// Workers is the number of workers that each process has for the queue; 0 means the
	// number that the process was configured with. Other processes apply it within a
	// minute.
	Workers int `json:"workers"`
}

// ControlChange changes a Control. Fields that are nil stay as they are.
type ControlChange struct {
	// Paused is true to keep jobs from starting, and Draining is true to keep jobs from being
	// put. MaxRunning is the maximum number of running jobs, over all processes; 0 means no
	// limit.
	Paused     *bool `json:"paused,omitempty"`
	Draining   *bool `json:"draining,omitempty"`
	MaxRunning *int  `json:"max_running,omitempty"`
	// Rate replaces the rate, and NoRate removes it.
	Rate   *amboy.Rate `json:"rate,omitempty"`
	NoRate bool        `json:"no_rate,omitempty"`
	// Workers is the number of workers that each process has for the queue, at most 10,000; 0
	// means the number that the process was configured with.
	Workers *int `json:"workers,omitempty"`
	// TypeLimit replaces the limit of a job type.
	TypeLimit *TypeLimitChange `json:"type_limit,omitempty"`
}

// TypeLimitChange replaces the limit of a job type in a queue. The zero limit removes it.
type TypeLimitChange struct {
	Type string `json:"type"`
	amboy.TypeLimit
}

// MaxWorkers is the largest number of workers of a process for a queue.
const MaxWorkers = 10_000

// Queue describes a queue.
type Queue struct {
	// Name is the name of the queue in the store, or the ID of a queue that has none.
	Name    string  `json:"name"`
	Control Control `json:"control"`
	Counts  Counts  `json:"counts"`
	// OldestPending is the time since which the first pending job could have started;
	// zero if no job is pending. A list has it for the hundred of its queues with the most
	// pending jobs that are not blocked.
	OldestPending time.Time `json:"oldest_pending,omitzero"`
	// Unknown are the kinds of waiting jobs that no live process can run. A list
	// has them for the hundred of its queues with the most pending jobs.
	Unknown []UnknownJobs `json:"unknown,omitempty"`
}

// QueueFilter selects queues. Empty fields match everything; non-empty fields are ANDed.
type QueueFilter struct {
	// Name is a part of the name of the queue. Case does not matter.
	Name string `json:"name,omitempty"`
	// Queues are names of queues. Queues that do not exist are left out.
	Queues []string `json:"queues,omitempty"`
}

// QueuePage is a page of queues.
type QueuePage struct {
	// Queues are the queues of the page, ordered by name.
	Queues []Queue `json:"queues"`
	// Next is the cursor of the next page; empty on the last page.
	Next string `json:"next,omitempty"`
}

// MaxBusiest is the largest number of queues in QueueTotals.Busiest.
const MaxBusiest = 100

// QueueTotals describes all queues together.
type QueueTotals struct {
	// Queues is the number of queues that the store has. A queue without jobs and settings
	// may be open in a process, and so be listed, before the store has it.
	Queues int `json:"queues"`
	// Counts are the sums over all queues.
	Counts Counts `json:"counts"`
	// Busiest are the queues with the most jobs that have not ended for good, at most
	// MaxBusiest, in descending order of that number.
	Busiest []Queue `json:"busiest"`
}

// JobKind identifies what a process must be able to decode to run a job.
type JobKind struct {
	// Type and Version are those of the job when it was stored.
	Type    string `json:"type"`
	Version int    `json:"version"`
	// Dependency and DependencyVersion are the type and version of its dependency
	// manager; empty for a type that every process knows.
	Dependency        string `json:"dependency,omitempty"`
	DependencyVersion int    `json:"dependency_version,omitempty"`
}

// String describes the kind.
func (k JobKind) String() string {
	return driver.Kind{Type: k.Type, Version: k.Version, Manager: k.Dependency, ManagerVersion: k.DependencyVersion}.String()
}

// UnknownJobs are waiting jobs that no live process can run: no process has registered
// their type, or that of their dependency manager, in their version. They run as soon as
// a process starts that has.
type UnknownJobs struct {
	JobKind
	// Jobs is their number, up to MaxLimit.
	Jobs Count `json:"jobs"`
}

// Counts counts the jobs of a queue.
type Counts struct {
	// Pending counts the jobs that have not started: due, scheduled, blocked or parked.
	Pending int `json:"pending"`
	// Blocked counts the pending jobs that wait for a scope or a dependency.
	Blocked int `json:"blocked"`
	// Running counts the running jobs.
	Running int `json:"running"`
	// Retrying counts the completed attempts that await a retry.
	Retrying int `json:"retrying"`
	// Completed counts the attempts that have ended, including Retrying and removed jobs.
	Completed int `json:"completed"`
	// Total is Pending + Running + Completed.
	Total int `json:"total"`
}

// Unfinished counts the jobs that have not ended for good.
func (c Counts) Unfinished() int { return c.Pending + c.Running + c.Retrying }

// TimeRange is the range of times from From, inclusive, to To, exclusive. A zero bound is
// no bound.
type TimeRange struct {
	// From is the earliest time, inclusive, and To the latest, exclusive. Default: no bound.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
}

// JobFilter selects jobs by their current values. Empty fields match everything; non-empty
// fields are ANDed. A list matches if one of its values does; Tags must all match.
type JobFilter struct {
	// Queues are names of queues, States are states, and Types are types of jobs: one of each
	// list must match. Each has at most 100 values; an empty list matches all.
	Queues []string         `json:"queues,omitempty"`
	States []amboy.JobState `json:"states,omitempty"`
	Types  []string         `json:"types,omitempty"`
	// Tags are tags that the job must have, all of them.
	Tags []string `json:"tags,omitempty"`
	// IDs are IDs of jobs.
	IDs []string `json:"ids,omitempty"`
	// IDPattern is a pattern for the ID: * matches any characters, ? matches one, and
	// every other character matches itself.
	IDPattern string `json:"id_pattern,omitempty"`
	// IDPart and TypePart are parts of the ID and the type, and TagPart is a part of a tag. As
	// for Error, the case of the letters A to Z does not matter.
	IDPart   string `json:"id_part,omitempty"`
	TypePart string `json:"type_part,omitempty"`
	TagPart  string `json:"tag_part,omitempty"`
	// Error is a part of the job's last error.
	Error string `json:"error,omitempty"`
	// ErrorGroup is a message as FoldError folds it, or one to fold: it selects the jobs
	// whose last error folds to the same.
	ErrorGroup string `json:"error_group,omitempty"`
	// Scope is a scope that the job needs, whether it holds it or not.
	Scope string `json:"scope,omitempty"`
	// Created is when the job was put, Due when it may start, and Ended when it ended.
	Created TimeRange `json:"created,omitzero"`
	Due     TimeRange `json:"due,omitzero"`
	Ended   TimeRange `json:"ended,omitzero"`
}

// PageRequest requests a page of a list.
type PageRequest struct {
	// Cursor is the Next of the previous page; empty for the first.
	Cursor string `json:"cursor,omitempty"`
	// Limit is the maximum number of items, up to MaxLimit; 0 means DefaultLimit.
	Limit int `json:"limit,omitempty"`
	// Newest returns the newest items first. The default is the oldest first.
	Newest bool `json:"newest,omitempty"`
	// Args asks FindJobs for the arguments of the jobs.
	Args bool `json:"args,omitempty"`
}

// JobPage is a page of jobs. A page before the last may have fewer jobs than requested,
// or none.
type JobPage struct {
	// Jobs are the jobs of the page.
	Jobs []JobSummary `json:"jobs"`
	// Next is the cursor of the next page; empty on the last page.
	Next string `json:"next,omitempty"`
}

// Count is a number of jobs.
type Count struct {
	Count int `json:"count"`
	// More is true if more jobs exist, or may exist, than were counted.
	More bool `json:"more"`
}

// StateCountRequest requests the numbers of jobs in each state.
type StateCountRequest struct {
	Filter JobFilter `json:"filter"`
	// Most is the largest number that is counted in each state, up to MaxCount; 0 means
	// MaxCount.
	Most int `json:"most,omitempty"`
	// Within is about how long jobs are counted, up to MaxCountTime; 0 means MaxCountTime.
	Within time.Duration `json:"within,omitempty"`
}

// StateCount is the number of jobs in a state. More is true too if counting took too long; then
// Count may be 0.
type StateCount struct {
	State amboy.JobState `json:"state"`
	Count
}

// ErrorGroupRequest requests groups of errors.
type ErrorGroupRequest struct {
	Filter JobFilter `json:"filter"`
	// Cursor is the Next of the previous result; empty for the latest jobs.
	Cursor string `json:"cursor,omitempty"`
	// Limit is the maximum number of groups, up to MaxLimit; 0 means DefaultLimit.
	Limit int `json:"limit,omitempty"`
}

// ErrorGroups are groups of jobs by their errors.
type ErrorGroups struct {
	// Groups are the groups with the most jobs, in descending order of that number.
	Groups []ErrorGroup `json:"groups"`
	// MoreGroups is the number of smaller groups that were left out.
	MoreGroups int `json:"more_groups"`
	// Examined counts the jobs that were examined, and have an error.
	Examined int `json:"examined"`
	// Next is the cursor for older jobs, whose groups are counted separately. It is empty if
	// all jobs were examined.
	Next string `json:"next,omitempty"`
}

// ErrorGroup describes the jobs of one group.
type ErrorGroup struct {
	// Message is the folded message. As JobFilter.ErrorGroup it selects the jobs of the group.
	Message string `json:"message"`
	// Jobs is the number of examined jobs.
	Jobs int `json:"jobs"`
	// Types are the types of the jobs, sorted, at most MaxGroupTypes.
	Types []string `json:"types"`
	// MoreTypes is true if the jobs have more types than Types lists.
	MoreTypes bool `json:"more_types,omitempty"`
	// First and Last are when the first and the last of the jobs ended, or started if
	// they have not ended.
	First time.Time `json:"first,omitzero"`
	Last  time.Time `json:"last,omitzero"`
	// Sample is the latest of the jobs.
	Sample JobSummary `json:"sample"`
}

// JobRef identifies a job.
type JobRef struct {
	Queue string `json:"queue"`
	ID    string `json:"id"`
}

// JobSummary describes a job in a list.
type JobSummary struct {
	JobRef
	Type     string         `json:"type"`
	Version  int            `json:"version"`
	State    amboy.JobState `json:"state"`
	Priority int            `json:"priority"`
	Tags     []string       `json:"tags,omitempty"`
	// Attempt is the number of the attempt, from 0. MaxAttempts is 0 for a job that is not
	// retryable.
	Attempt     int `json:"attempt"`
	MaxAttempts int `json:"max_attempts,omitempty"`

	Created time.Time `json:"created,omitzero"`
	// Due is the earliest time at which it may start.
	Due time.Time `json:"due,omitzero"`
	// Deadline is the latest time at which it may start.
	Deadline time.Time `json:"deadline,omitzero"`
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`

	// Owner is the ID of the process that runs it, or ran it last.
	Owner string `json:"owner,omitempty"`
	// Reason is why the job is blocked or parked, or was canceled. For a pending job it is what,
	// other than busy workers, keeps it from starting: the queue is paused, its rate is 0, it runs
	// as many jobs as it may, or no live process knows the type. A page explains the pending jobs
	// of its first 20 queues.
	Reason string `json:"reason,omitempty"`
	// Error is the last error that the job itself added in this attempt, cut to
	// MaxFilterBytes.
	Error string `json:"error,omitempty"`
	// Progress is the fraction that is done, from 0 to 1; nil if the job reported none.
	Progress *float64 `json:"progress,omitempty"`
	// CancelRequested is true for a running job that was asked to end.
	CancelRequested bool `json:"cancel_requested,omitempty"`
	// StuckSince is when a running job should have ended; zero if its run is not overdue.
	StuckSince time.Time `json:"stuck_since,omitzero"`
	// Args are its arguments as JSON: those of a job of job.Define, or else the stored
	// form of the job. If they are absent, ArgsHidden is the reason. A list has both only if
	// PageRequest.Args asks for them, and hides arguments of more than MaxListedArgs bytes, and
	// those of encrypted jobs.
	Args       json.RawMessage `json:"args,omitempty"`
	ArgsHidden string          `json:"args_hidden,omitempty"`
}

// Run returns how long the job has run at a time since its latest attempt started: until the
// attempt ended, or until now if it runs. It returns 0 if it does neither.
func (s JobSummary) Run(now time.Time) time.Duration {
	switch {
	case s.Started.IsZero():
		return 0
	case !s.Ended.IsZero():
		return max(0, s.Ended.Sub(s.Started))
	case s.State == amboy.StateRunning:
		return max(0, now.Sub(s.Started))
	default:
		return 0
	}
}

// Job describes everything known about a job.
type Job struct {
	JobSummary
	// MaxTime is the maximum length of a run, in seconds; 0 means no limit.
	MaxTime float64 `json:"max_time,omitempty"`
	// LeaseRenewed is when the process that runs the job last renewed its lease.
	LeaseRenewed time.Time `json:"lease_renewed,omitzero"`
	// Errors are the errors of its attempts, the oldest first. Errors of the queue are
	// marked as bookkeeping. DroppedErrors counts the errors that were too many to keep.
	Errors        []amboy.AttemptError `json:"errors"`
	DroppedErrors int                  `json:"dropped_errors,omitempty"`
	// Attempts are the stored attempts, the oldest first.
	Attempts []Attempt `json:"attempts"`
	// ProgressMessage is the last message about its progress.
	ProgressMessage string `json:"progress_message,omitempty"`
	// Interruptions are the runs of the attempt whose leases expired.
	Interruptions *amboy.Interruptions `json:"interruptions,omitempty"`
	// Stuck describes its current or last run that went on although it should have ended.
	Stuck *amboy.StuckRun `json:"stuck,omitempty"`
	// Log contains the lines that it logged. DroppedLines counts the lines that were too
	// many to keep.
	Log          []amboy.LogLine `json:"log"`
	DroppedLines int             `json:"dropped_lines,omitempty"`
	// Result is the result that it stored when it ended, as JSON.
	Result json.RawMessage `json:"result,omitempty"`
	// ResultHidden is why the result is absent.
	ResultHidden string `json:"result_hidden,omitempty"`
	// Encrypted is true if a codec of the queue encoded the arguments and the result. They are
	// hidden unless the context is one of WithReveal.
	Encrypted bool              `json:"encrypted,omitempty"`
	Metadata  map[string]string `json:"metadata,omitempty"`
	// AttemptedBy are the owners of its runs, the oldest first: of all of them in a store that
	// keeps them with the job (River's), otherwise of the stored attempts and interruptions.
	AttemptedBy []string `json:"attempted_by,omitempty"`
	// UniqueKey is its unique key, and UniqueStates are the states in which it keeps another job
	// with this key out of the queue.
	UniqueKey    string           `json:"unique_key,omitempty"`
	UniqueStates []amboy.JobState `json:"unique_states,omitempty"`
	// Scopes are the scopes that it needs.
	Scopes []ScopeUse `json:"scopes"`
	// DependsOn are the jobs that it waits for, or waited for, at most MaxLimit.
	DependsOn []Dependency `json:"depends_on"`
	// MoreDependsOn is true if the job depends on more jobs than DependsOn lists.
	MoreDependsOn bool `json:"more_depends_on,omitempty"`
	// Dependents are the jobs that wait, or waited, for it, at most DefaultLimit.
	Dependents []Dependency `json:"dependents"`
	// MoreDependents is true if more jobs depend on the job than Dependents lists.
	MoreDependents bool `json:"more_dependents,omitempty"`
	// Blocked describes what a blocked job waits for; nil in another state.
	Blocked *Block `json:"blocked,omitempty"`
	// Timeline contains past and expected events, the oldest first.
	Timeline []Moment `json:"timeline"`
	// Actions are the actions that its state allows.
	Actions []ActionKind `json:"actions"`
	// Editable are the fields that EditJob can change: FieldArgs, FieldPriority and FieldDue.
	Editable []string `json:"editable"`
	// Revision changes with each change of the job, except of its progress and its priority.
	Revision string `json:"revision"`
}

// Attempt is a stored attempt of a job.
type Attempt struct {
	// Number is the number of the attempt, from 0.
	Number  int            `json:"number"`
	State   amboy.JobState `json:"state"`
	Owner   string         `json:"owner,omitempty"`
	Created time.Time      `json:"created,omitzero"`
	Started time.Time      `json:"started,omitzero"`
	Ended   time.Time      `json:"ended,omitzero"`
	// Errors are the errors of the attempt, in the order in which they occurred; absent if it
	// had none.
	Errors []string `json:"errors,omitempty"`
}

// ScopeUse is a scope that a job needs.
type ScopeUse struct {
	Name string `json:"name"`
	// Held is true if this job holds it.
	Held bool `json:"held"`
	// Holder is the job that holds it, or one of several; nil if none does.
	Holder *JobRef `json:"holder,omitempty"`
	// HolderState is the state of the holder, and HolderSince when it started, or was put if it
	// has not started. They are empty if this job is the holder.
	HolderState amboy.JobState `json:"holder_state,omitempty"`
	HolderSince time.Time      `json:"holder_since,omitzero"`
}

// Dependency is a job that another job depends on, or that depends on it.
type Dependency struct {
	JobRef
	// State is empty if the job does not exist, or no longer exists.
	State amboy.JobState `json:"state,omitempty"`
	Type  string         `json:"type,omitempty"`
	// Failed is true if the job that is waited for ended without success.
	Failed bool `json:"failed,omitempty"`
}

// Moment is an event in the life of a job.
type Moment struct {
	Time time.Time `json:"time"`
	// What describes the event in a few words.
	What string `json:"what"`
	// Detail adds details, for instance an error.
	Detail string `json:"detail,omitempty"`
	// Actor is who acted, if the event is the action of an operator. The last 200 entries of the
	// audit list of the queue, and of those of no queue, are searched.
	Actor string `json:"actor,omitempty"`
	// AllQueues is true for an action by a filter that names no queue or several.
	AllQueues bool `json:"all_queues,omitempty"`
	// Future is true for an expected event.
	Future bool `json:"future,omitempty"`
}

// Block describes what a blocked job waits for.
type Block struct {
	// Since is since when the job could have run but for the block.
	Since time.Time `json:"since,omitzero"`
	// By are the jobs that it waits for, and the scopes that others hold.
	By []Blocker `json:"by"`
}

// Blocker is a job that another one waits for, directly or because it holds a scope.
type Blocker struct {
	// Scope is the scope; empty if the job waits for the other one itself.
	Scope string `json:"scope,omitempty"`
	// Job is the job that is waited for; absent if it is not known.
	Job   *JobRef        `json:"job,omitempty"`
	State amboy.JobState `json:"state"`
	// Since is when the holder of the scope started, or was put if it has not started.
	Since time.Time `json:"since,omitzero"`
}

// Graph contains a job and the jobs it is connected to by dependencies. An edge leads from
// a job to one that it waits for.
type Graph struct {
	// Jobs are the jobs of the graph: the requested job, and those up to the requested distance.
	Jobs []GraphJob `json:"jobs"`
	// Edges lead from each waiting job of the graph to the jobs that it waits for.
	Edges []GraphEdge `json:"edges"`
	// Truncated is true if not all jobs fit into the graph.
	Truncated bool `json:"truncated,omitempty"`
}

// GraphJob is a job in a Graph.
type GraphJob struct {
	JobRef
	State amboy.JobState `json:"state,omitempty"`
	Type  string         `json:"type,omitempty"`
	// Distance is the distance from the requested job: negative for jobs that are waited
	// for, positive for jobs that wait, and 0 for the job itself.
	Distance int `json:"distance"`
	// Holds is true if the job has not ended, and other jobs of the graph wait for it.
	Holds bool `json:"holds,omitempty"`
}

// GraphEdge leads from the ID of a waiting job to the ID of the job it waits for.
type GraphEdge struct {
	// From is the ID of the waiting job, and To the ID of the job that it waits for.
	From string `json:"from"`
	To   string `json:"to"`
}

// NewJob describes a job to put.
type NewJob struct {
	Queue string `json:"-"`
	// ID is the ID of the job. Default: a random one.
	ID string `json:"id,omitempty"`
	// Type is the name of a registered type or, with Outside, any name. It is required.
	Type string `json:"type"`
	// Args are the arguments, as JSON.
	Args     json.RawMessage `json:"args,omitempty"`
	Priority int             `json:"priority,omitempty"`
	Due      time.Time       `json:"due,omitzero"`
	Deadline time.Time       `json:"deadline,omitzero"`
	JobOptions
	// IdempotencyKey is the idempotency key of the request; empty for none.
	IdempotencyKey string `json:"-"`
}

// Created is the result of CreateJob.
type Created struct {
	JobRef
	// Repeated is true if an earlier request with the same idempotency key put the job.
	Repeated bool `json:"repeated"`
}

// ScopeFilter selects scopes.
type ScopeFilter struct {
	Queues []string `json:"queues,omitempty"`
	// Name is the name of a scope; empty for all.
	Name string `json:"name,omitempty"`
}

// Scope is a scope that is held, and one of its holders: a limited scope (see
// amboy.LimitScope) has an entry for each.
type Scope struct {
	Queue string `json:"queue"`
	Name  string `json:"name"`
	// Holder is the job that holds it, and State the state of that job.
	Holder JobRef         `json:"holder"`
	State  amboy.JobState `json:"state"`
	// Since is when the holder started, or was put if it has not started.
	Since time.Time `json:"since,omitzero"`
	// Waiting counts the jobs that wait for it, up to MaxLimit.
	Waiting Count `json:"waiting"`
}

// ScopePage is a page of scopes.
type ScopePage struct {
	// Scopes are the scopes of the page with their holders.
	Scopes []Scope `json:"scopes"`
	Next   string  `json:"next,omitempty"`
}

// Process is a process that has open queues.
type Process struct {
	// ID is the ID by which the process owns jobs.
	ID string `json:"id"`
	// Host is the name of the machine of the process, and PID its process ID there.
	Host string `json:"host"`
	PID  int    `json:"pid"`
	// Started is when the process opened its first queue, and Seen when it last reported
	// itself. Started is zero for a process that does not report itself and is only known
	// by the jobs that it runs.
	Started time.Time `json:"started,omitzero"`
	Seen    time.Time `json:"seen,omitzero"`
	// Alive is false if the process has missed its reports.
	Alive bool `json:"alive"`
	// Queues are the queues that the process has open.
	Queues []ProcessQueue `json:"queues"`
	// Unknown are the kinds of jobs that it has met and can't run.
	Unknown []JobKind `json:"unknown,omitempty"`
	// Running are the jobs that it runs, at most DefaultLimit, and RunningCount is their
	// number.
	Running      []JobSummary `json:"running"`
	RunningCount Count        `json:"running_count"`
}

// ProcessQueue is a queue in a process.
type ProcessQueue struct {
	Name string `json:"name"`
	// Workers is the number of its workers; 0 if its runner does not report it.
	Workers int  `json:"workers"`
	Started bool `json:"started"`
}

// ActivityRequest requests the activity of queues.
type ActivityRequest struct {
	// Queues and Types select by queue and job type; empty selects all.
	Queues []string `json:"queues,omitempty"`
	Types  []string `json:"types,omitempty"`
	// Last is the length of the period up to now, from a minute to MaxActivity. Default:
	// an hour. Up to two hours are reported by the minute, up to 48 hours by the hour, and longer
	// periods by six hours.
	Last time.Duration `json:"last,omitempty"`
}

// MaxActivity is how long activity is kept.
const MaxActivity = 30 * 24 * time.Hour

// Activity is what queues did in a period.
type Activity struct {
	// From is the start of the period, which is the start of its first step, and To its end,
	// exclusive.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Step is the length of the time between two points, in seconds.
	Step float64 `json:"step"`
	// Points are the sums over all queues and types, one for each step, the oldest first,
	// including steps in which nothing happened.
	Points []ActivityPoint `json:"points"`
	// Rows are the sums over the whole period for each queue and type, ordered by these.
	// If there are more than 1,000, the rows with the fewest attempts are left out.
	Rows []ActivityRow `json:"rows"`
	// Sum is the sum over everything.
	Sum ActivityRow `json:"sum"`
}

// ActivityPoint is what happened in one step.
type ActivityPoint struct {
	Time time.Time `json:"time"`
	// Succeeded and Failed count the jobs that ended for good in the step, and Retried the
	// failed attempts that were followed by another.
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	Retried   int `json:"retried"`
	// WaitP99 is the 99th percentile of how long the ended attempts had waited, in seconds.
	WaitP99 float64 `json:"wait_p99"`
	// Backlog is what was waiting in the step. It is missing if nothing is known: no process was
	// alive, the queues in memory had no jobs, or the request names types.
	Backlog *Backlog `json:"backlog,omitempty"`
}

// Backlog counts the jobs that have not ended. One process counts them once a minute for all
// processes on a store. Each field is the largest of the counts in a step.
//
// In a request for some queues each field is added up over these queues. The jobs of a queue are
// known while it is one of the 100 queues of the store with the most such jobs; otherwise it counts
// as empty, and the step has no backlog if none of the queues is known. In a request for all queues
// all jobs are counted.
type Backlog struct {
	// Ready counts the jobs that could start.
	Ready int `json:"ready"`
	// Waiting counts the jobs that are scheduled, blocked or parked, or await a retry.
	Waiting int `json:"waiting"`
	// Running counts the running jobs.
	Running int `json:"running"`
	// OldestReady is for how long the oldest ready job could have started already, in seconds;
	// 0 if no job was ready.
	OldestReady float64 `json:"oldest_ready"`
}

// ActivityRow is what happened to the jobs of one type in one queue. If a process runs too
// many types, some of them are counted together, with an empty Type.
type ActivityRow struct {
	Queue string `json:"queue"`
	Type  string `json:"type"`
	// Succeeded and Failed ended for good. Canceled and expired jobs count as Failed.
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	// Retried counts the failed attempts that were followed by another.
	Retried int `json:"retried"`
	// PerSecond is the number of ended attempts per second.
	PerSecond float64 `json:"per_second"`
	// Current is the number of attempts per second that ended in the last minute, whatever the
	// period. Processes report every ten seconds.
	Current float64 `json:"current"`
	// FailureRate is the fraction of the ended attempts that failed, from 0 to 1.
	FailureRate float64 `json:"failure_rate"`
	// Wait is how long the ended attempts had waited since they could start, and Run how
	// long they ran.
	Wait Percentiles `json:"wait"`
	Run  Percentiles `json:"run"`
}

// Percentiles are durations in seconds, exact to a few percent.
type Percentiles struct {
	// P50, P90 and P99 are the times that 50, 90 and 99 percent of the attempts did not exceed,
	// and Max is the longest, in seconds.
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Schedule is a schedule that a process runs.
type Schedule struct {
	Queue string `json:"queue"`
	Name  string `json:"name"`
	// Spec is the specification of its ticks.
	Spec string `json:"spec"`
	// CatchUp is which of the missed ticks get a job: none, latest or all.
	CatchUp string `json:"catch_up"`
	// Last is the last tick whose job was put, and Next the next tick.
	Last time.Time `json:"last,omitzero"`
	Next time.Time `json:"next,omitzero"`
	// Error is why the last tick's job could not be put; empty if it was put.
	Error string `json:"error,omitempty"`
	// Seen is when a process last reported that it runs the schedule.
	Seen time.Time `json:"seen"`
}
