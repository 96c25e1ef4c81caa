package management

import (
	"encoding/json"
	"time"

	"github.com/mongodb/amboy"
)

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
	// ArgsMasked is true if a function of the service has changed Args for this reader (see
	// rest.MaskArgs), so that a job with these would be another one.
	ArgsMasked bool `json:"args_masked,omitempty"`
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
	// HolderState is the state of the holder, and HolderSince when it started, or was
	// created if it has not started. They are empty if this job is the holder.
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
	// Since is when the holder of the scope started, or was created if it has not
	// started.
	Since time.Time `json:"since,omitzero"`
}
