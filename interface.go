package amboy

import (
	"context"
	"time"

	"github.com/mongodb/amboy/dependency"
)

// LockTimeout is the default age at which the lock (lease) of a running job
// counts as stale, so that another worker may take the job over.
const LockTimeout = 10 * time.Minute

// MaxIDLength is the longest job ID, in bytes, that queues accept.
const MaxIDLength = 1024

// Job is one unit of work. Types normally embed job.Base, which implements all
// of it but Run. A queue calls a job's methods from several goroutines while
// the job runs, so an implementation must be safe for concurrent use; Base is.
type Job interface {
	// ID names the job. It is unique in its queue, not empty, and at most
	// MaxIDLength bytes long.
	ID() string

	// Type names the job's registered type and its version.
	Type() JobType

	// Run does the work. It reports failure with AddError or
	// AddRetryableError, and should return soon after ctx ends: at the job's
	// MaxTime, when it is aborted, when its lease is lost, and when its pool
	// is closed and out of patience. A panic is recorded as an error of this
	// attempt.
	//
	// By convention Run begins with "defer j.MarkComplete()". A job that
	// returns without it is complete all the same.
	Run(ctx context.Context)

	// AddError records an error of this attempt; nil does nothing. A job with
	// errors ends as failed.
	AddError(err error)

	// AddRetryableError is AddError for a retryable job that should be tried
	// again; nil does nothing. Where the job is not retryable it is AddError.
	AddRetryableError(err error)

	// Error joins the messages of this attempt's errors with newlines. It is
	// nil where there are none.
	Error() error

	// Lock takes the job's lock for owner. It fails while another owner holds
	// a lock that is younger than timeout and the job is in progress, or
	// complete and awaiting its retry. Otherwise it sets owner and time and
	// counts the modification.
	Lock(owner string, timeout time.Duration) error

	// Unlock gives the lock up. It does nothing while somebody else holds it.
	Unlock(owner string, timeout time.Duration)

	// Status reports what a queue stores about the job's progress.
	Status() JobStatusInfo
	// SetStatus replaces it.
	SetStatus(JobStatusInfo)

	// TimeInfo reports the job's times.
	TimeInfo() JobTimeInfo
	// UpdateTimeInfo changes the fields that are set in the argument.
	UpdateTimeInfo(JobTimeInfo)
	// SetTimeInfo replaces all of them.
	SetTimeInfo(JobTimeInfo)

	// RetryInfo reports how the job is retried.
	RetryInfo() JobRetryInfo
	// UpdateRetryInfo changes the fields that are not nil in the argument.
	UpdateRetryInfo(JobRetryOptions)
	// IsLastAttempt is true where no attempt will follow this one: the job is
	// not retryable, has no attempts left, or does not ask for a retry.
	IsLastAttempt() bool

	// Dependency tells whether the job may run. It is never nil.
	Dependency() dependency.Manager
	// SetDependency replaces it. It must be called before Put.
	SetDependency(dependency.Manager)

	// Scopes names the locks that the job must hold while it runs. Of the jobs
	// of a queue that share a scope only one runs at a time.
	Scopes() []string
	// SetScopes replaces the scopes. It must be called before Put.
	SetScopes([]string)

	// EnqueueScopes is the part of Scopes that is taken by Put and held until
	// the job's last attempt ends; nil where there is none.
	EnqueueScopes() []string
	// SetEnqueueScopes chooses that part; names that are not among Scopes are
	// left out.
	SetEnqueueScopes(...string)
	// EnqueueAllScopes is true where all scopes are taken by Put.
	EnqueueAllScopes() bool
	// SetEnqueueAllScopes chooses that.
	SetEnqueueAllScopes(bool)
}

// Prioritized is implemented by jobs that have a priority. job.Base implements
// it.
type Prioritized interface {
	// Priority is the job's priority. Of two jobs that may run, the one with
	// the larger priority is run first; the default is 0, and jobs of equal
	// priority run in the order in which they were put.
	Priority() int
	// SetPriority changes it. It must be called before Put.
	SetPriority(int)
}

// PriorityOf returns the priority of a job, 0 for a type that has none.
func PriorityOf(j Job) int {
	if p, ok := j.(Prioritized); ok {
		return p.Priority()
	}
	return 0
}

// JobType names the type of a job and its version. The version is part of what
// is stored: a job stored under an older version runs only where an upgrade is
// registered for it.
type JobType struct {
	Name    string `json:"name" bson:"name" yaml:"name"`
	Version int    `json:"version" bson:"version" yaml:"version"`
}

// QueueInfo describes a queue.
type QueueInfo struct {
	// Started is true between Start and Close.
	Started bool
	// LockTimeout is the age at which the lease of a running job is stale.
	LockTimeout time.Duration
}

// Queue holds jobs and hands them to a runner. Implementations are safe for
// concurrent use. Unless it says otherwise a method blocks only as long as the
// storage of the queue takes, and stops when its context ends.
type Queue interface {
	// ID identifies this instance of the queue, in errors and in the log.
	ID() string

	// Put adds a job. It sets the job's creation time where that is unset, and
	// takes the job's enqueue scopes. A job whose status says that it is completed
	// is stored as ended and never runs; it waits for no dependency and takes no
	// scope. One whose status says that it is in progress is stored with its owner
	// and modification time, counts as running, and takes all of its scopes; it
	// runs once its lock is older than the lock timeout. It returns an *InvalidJobError for a job
	// that no queue accepts, an error for which IsDuplicateJobError is true
	// where the ID or the unique key is taken, and one for which
	// IsDuplicateJobScopeError is true where an enqueue scope is held. On a full
	// queue Put waits until there is room or ctx ends; if the queue was not
	// started, nothing makes room, and it returns an error that wraps
	// ErrQueueNotStarted. A Put that fails leaves nothing behind.
	Put(ctx context.Context, j Job) error

	// PutMany adds jobs, trying all of them. Its error wraps that of every job
	// that was not added (see CollateWriteErrors). Jobs that depend on each
	// other may stand in any order.
	PutMany(ctx context.Context, jobs []Job) error

	// Get returns the job with that ID, of a retryable job its latest attempt.
	Get(ctx context.Context, id string) (Job, bool)

	// Next returns a job to run and marks it as running. It blocks until there
	// is one, and returns nil when ctx ends or the queue is closed. Runners
	// call it.
	Next(ctx context.Context) Job

	// Complete ends the current attempt of a job that Next returned. A job
	// that should be retried is handed to the retry handler, where the queue
	// has one. Runners call it.
	Complete(ctx context.Context, j Job) error

	// Save replaces what the queue stores about a job that it holds. It returns an
	// error that wraps ErrLeaseLost, and changes nothing, if j is stale: the owner
	// or the modification count that the queue has is not that of j, because the
	// job was claimed, handed back or ended since j was read. Renewing a lease
	// changes neither, so a running job may save itself for as long as it has its
	// lease. A copy is not stale because Lock or Unlock was called on it; then Save
	// stores its owner, count and time too, unless another owner runs the job.
	Save(ctx context.Context, j Job) error

	// Info describes the queue.
	Info() QueueInfo

	// Results streams the finished jobs that will not be retried. The channel
	// is closed at the end, when ctx ends, and when the queue is closed.
	Results(ctx context.Context) <-chan Job

	// JobInfo streams a description of every job in the queue. The channel is
	// closed at the end, when ctx ends, and when the queue is closed.
	JobInfo(ctx context.Context) <-chan JobInfo

	// Stats counts the jobs by their progress.
	Stats(ctx context.Context) QueueStats

	// Runner returns the runner that runs this queue's jobs.
	Runner() Runner
	// SetRunner replaces it. It fails once the queue has started.
	SetRunner(Runner) error

	// Start starts the queue and its runner. When ctx ends, all that the queue
	// owns ends, as at Close with an ended context: running jobs are canceled
	// and handed back, goroutines end and connections are closed, and the queue
	// behaves as a closed one. Close then waits for that. A queue that is never
	// started ends with the context of its constructor, if that takes one; once
	// the queue is started, only the context of Start counts.
	Start(ctx context.Context) error

	// Close stops the queue: it takes no new jobs, waits for the running ones
	// until ctx ends, then cancels those that remain, and returns when all of
	// the queue's goroutines are gone. The queues of this module return within a
	// second of the end of ctx: jobs, callbacks and calls of a driver that ignore
	// their contexts are left behind, and the queue is a CloseReporter.
	Close(ctx context.Context)
}

// RetryableQueue is a queue that runs a failed job again.
type RetryableQueue interface {
	Queue

	// RetryHandler returns the handler that replaces jobs by their next
	// attempt.
	RetryHandler() RetryHandler
	// SetRetryHandler replaces it. It fails once the queue has started.
	SetRetryHandler(RetryHandler) error

	// GetAttempt returns one attempt (from 0) of a retryable job. It returns
	// an error for which IsJobNotFoundError is true where there is none.
	GetAttempt(ctx context.Context, id string, attempt int) (Job, error)
	// GetAllAttempts returns the attempts of a retryable job, oldest first. It
	// returns an error for which IsJobNotFoundError is true where there are
	// none.
	GetAllAttempts(ctx context.Context, id string) ([]Job, error)

	// CompleteRetryingAndPut ends the retry of toComplete and adds toPut, its
	// next attempt, in one atomic step: both happen or neither. The scopes
	// that toComplete holds pass to toPut without a gap.
	CompleteRetryingAndPut(ctx context.Context, toComplete, toPut Job) error
	// CompleteRetrying ends the retry of a job without another attempt, and
	// frees its scopes.
	CompleteRetrying(ctx context.Context, j Job) error
}

// RetryHandler replaces jobs that asked for a retry by their next attempt.
// Implementations are safe for concurrent use.
type RetryHandler interface {
	// SetQueue sets the queue whose jobs are retried. It fails once the
	// handler has started.
	SetQueue(RetryableQueue) error
	// Start starts the handler's workers. It does nothing on a started handler.
	Start(ctx context.Context) error
	// Started is true between Start and Close.
	Started() bool
	// Put hands a job over. It never waits for room or for a worker.
	Put(ctx context.Context, j Job) error
	// Close ends the handler and waits for its goroutines, and no longer than a
	// second after ctx has ended. A job that was not handled yet stays in the queue
	// as retrying.
	Close(ctx context.Context)
}

// Runner runs the jobs of a queue. Implementations are safe for concurrent
// use.
type Runner interface {
	// Started is true between Start and Close.
	Started() bool
	// SetQueue sets the queue. It fails once the runner has started.
	SetQueue(Queue) error
	// Start starts the workers. It fails without a queue. A second Start has no effect.
	Start(ctx context.Context) error
	// Close takes no more jobs, waits for the running ones until ctx ends,
	// then cancels their contexts, and returns when every worker is gone. It
	// should return within a second of the end of ctx even so: a queue does not
	// wait longer for it.
	Close(ctx context.Context)
}

// AbortableRunner is a runner whose running jobs can be canceled one by one.
type AbortableRunner interface {
	Runner

	// IsRunning tells whether the job with that ID is running here.
	IsRunning(id string) bool
	// RunningJobs lists the IDs of the jobs that are running here, sorted.
	RunningJobs() []string
	// Abort cancels the context of a running job and waits until it ended, or
	// ctx does. An aborted job ends as canceled and is not retried. Abort
	// returns an error for which IsJobNotFoundError is true where the job does
	// not run here.
	Abort(ctx context.Context, id string) error
	// AbortAll does so with every job that is running at the time of the call.
	AbortAll(ctx context.Context) error
}

// ResizableRunner is a runner whose number of workers can change while it
// runs.
type ResizableRunner interface {
	Runner

	// Workers is the number of workers that the runner was asked for.
	Workers() int
	// SetWorkers changes it, to at least 1. Workers that are too many end
	// after the job that they are running. It does not wait for that.
	SetWorkers(n int) error
}

// JobReleaser is implemented by queues that take back a job whose run was
// interrupted, so that it runs again. Runners use it at a hard stop.
type JobReleaser interface {
	// Release hands back a job that Next returned. What the interrupted run
	// recorded in the job's status is forgotten, and the run is not counted as
	// an attempt. The job's own fields are as they were before the run where
	// the queue stores jobs, and as the run left them where it holds the job
	// itself.
	Release(ctx context.Context, j Job) error
}

// JobSnoozer is implemented by queues that take back a job that wants to run again
// later. Runners use it for a SnoozableJob.
type JobSnoozer interface {
	// Snooze hands back a job that Next returned, to run again at a time, but not
	// before MinSnooze is over. It is Release but for that, and forgets that the
	// job wanted it.
	Snooze(ctx context.Context, j Job, until time.Time) error
}

// JobContexter is implemented by queues that can lose a job while it runs, for
// instance because its lease went stale and another process took it over, or that
// are told to cancel it.
type JobContexter interface {
	// JobContext derives the context for a run of a job that Next returned. It
	// ends, with ErrLeaseLost as its cause, when the job is lost, and with
	// ErrAborted when somebody cancels the job. The caller must call the cancel
	// function when the run ends.
	JobContext(ctx context.Context, j Job) (context.Context, context.CancelFunc)
}

// JobCompleter is implemented by queues whose store is so slow that it pays to
// write the ends of several jobs at once. A runner that does not need to know
// whether the end of a job was written uses it, and takes the next job meanwhile.
type JobCompleter interface {
	// CompleteLater is Complete, but returns before the end of the job is
	// written. From then on the job is the queue's, and must not be changed. wait
	// blocks until it is written, or given up after ctx has ended; the runner's
	// Close must not return before. The queue logs an error.
	CompleteLater(ctx context.Context, j Job) (wait func())
}

// QueueOptions describe a queue of a group.
type QueueOptions interface {
	// Validate checks the options and sets defaults.
	Validate() error
	// BuildQueue makes the queue. It does not start it.
	BuildQueue(ctx context.Context) (Queue, error)
}

// QueueGroup is a set of queues by name, made when they are first used.
// Implementations are safe for concurrent use.
type QueueGroup interface {
	// Get returns the queue with that name, making and starting it where there
	// is none. The queue outlives ctx: it ends with the group, or by pruning.
	// The group ends with Close, or with the context of its constructor.
	Get(ctx context.Context, id string, opts ...QueueOptions) (Queue, error)
	// Put adds a queue under a name. It fails where the name is taken.
	Put(ctx context.Context, id string, q Queue) error
	// Len is the number of queues that this process holds.
	Len() int
	// Queues names the queues.
	Queues(ctx context.Context) []string
	// Prune closes the queues that have no work and were not used for the
	// group's time to live.
	Prune(ctx context.Context) error
	// Close closes every queue, as Queue.Close does. Its error wraps ErrLeftBehind
	// if ctx ended and something was left behind, and names that.
	Close(ctx context.Context) error
}
