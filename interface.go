package amboy

import (
	"context"
	"time"

	"github.com/mongodb/amboy/dependency"
)

// LockTimeout is the default age at which the lock (lease) of a running job
// counts as stale. Another worker may then take the job over.
const LockTimeout = 10 * time.Minute

// MaxIDLength is the longest job ID, in bytes, that queues accept.
const MaxIDLength = 1024

// Job is one unit of work. Types normally embed job.Base, which implements every
// method except Run. A queue calls a job's methods from several goroutines while
// the job runs, so an implementation must be safe for concurrent use; Base is.
type Job interface {
	// ID names the job. It is unique in its queue, not empty, and at most
	// MaxIDLength bytes long.
	ID() string

	// Type names the job's registered type and its version.
	Type() JobType

	// Run does the work. It reports a failure with AddError or
	// AddRetryableError. It should return soon after ctx ends, which happens
	// when the job's MaxTime is used up, the job is aborted, its lease is lost,
	// or the deadline of the pool's Close passes. A panic is recorded as an
	// error of this attempt.
	//
	// By convention Run begins with "defer j.MarkComplete()". A job that
	// returns without calling it is complete all the same.
	Run(ctx context.Context)

	// AddError records an error of this attempt; it ignores nil. A job with
	// errors ends as failed.
	AddError(err error)

	// AddRetryableError is like AddError, and also asks for another attempt if
	// the job is retryable. It ignores nil.
	AddRetryableError(err error)

	// Error joins the messages of this attempt's errors with newlines. It is
	// nil if there are none.
	Error() error

	// Lock takes the job's lock for owner. It fails if another owner holds a
	// lock younger than timeout and the job is in progress, or is complete and
	// awaiting its retry. Otherwise it sets the owner and the modification time
	// and increments the modification count.
	Lock(owner string, timeout time.Duration) error

	// Unlock releases the lock. It does nothing while another owner holds a lock
	// younger than timeout.
	Unlock(owner string, timeout time.Duration)

	// Status reports what a queue stores about the job's progress.
	Status() JobStatusInfo
	// SetStatus replaces the status.
	SetStatus(JobStatusInfo)

	// TimeInfo reports the job's times.
	TimeInfo() JobTimeInfo
	// UpdateTimeInfo changes the fields that are set in the argument.
	UpdateTimeInfo(JobTimeInfo)
	// SetTimeInfo replaces all times.
	SetTimeInfo(JobTimeInfo)

	// RetryInfo reports how the job is retried.
	RetryInfo() JobRetryInfo
	// UpdateRetryInfo changes the fields that are not nil in the argument.
	UpdateRetryInfo(JobRetryOptions)
	// IsLastAttempt reports whether no attempt will follow this one: the job is
	// not retryable, has no attempts left, or does not ask for a retry.
	IsLastAttempt() bool

	// Dependency decides whether the job may run. It is never nil.
	Dependency() dependency.Manager
	// SetDependency replaces the dependency. It must be called before Put.
	SetDependency(dependency.Manager)

	// Scopes names the locks that the job must hold while it runs. Of the jobs
	// in a queue that share a scope, only one runs at a time.
	Scopes() []string
	// SetScopes replaces the scopes. It must be called before Put.
	SetScopes([]string)

	// EnqueueScopes is the subset of Scopes that Put takes and that the job holds
	// until its last attempt ends. It is nil if the subset is empty. If the job depends
	// on one that needs such a scope and has not started, the two wait for each other
	// until one is canceled or expires.
	EnqueueScopes() []string
	// SetEnqueueScopes chooses that subset. It ignores names that are not in
	// Scopes.
	SetEnqueueScopes(...string)
	// EnqueueAllScopes reports whether Put takes all scopes.
	EnqueueAllScopes() bool
	// SetEnqueueAllScopes sets whether Put takes all scopes.
	SetEnqueueAllScopes(bool)
}

// JobType names the type of a job and its version. The version is stored with
// the job. A job stored under an older version runs only in processes that have
// registered an upgrade for it.
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
// concurrent use. Unless stated otherwise, a method blocks only for the calls to
// the queue's storage, and returns when its context ends.
type Queue interface {
	// ID identifies this instance of the queue, in errors and in the log.
	ID() string

	// Put adds a job. It sets the job's creation time if that is unset, and takes
	// the job's enqueue scopes.
	//
	// If the job's status says that it is completed, it is stored as ended and
	// never runs; it waits for no dependency and takes no scope. If its status
	// says that it is in progress, it is stored with its owner and modification
	// time, counts as running, and takes all of its scopes; it runs once its lock
	// is older than the lock timeout.
	//
	// Put returns an *InvalidJobError for a job that no queue accepts. For its
	// error, IsDuplicateJobError is true if the ID or the unique key is taken,
	// and IsDuplicateJobScopeError if another job holds one of the enqueue
	// scopes. If the queue is full, Put waits until there is room or ctx ends; if
	// the queue was not started, nothing makes room, and Put returns an error
	// that wraps ErrQueueNotStarted. A Put that fails leaves nothing behind, unless
	// its error wraps ErrOutcomeUnknown of package queue/driver: then the job may
	// have been added.
	Put(ctx context.Context, j Job) error

	// PutMany adds jobs. It tries all of them. Its error wraps the error of every
	// job that was not added (see CollateWriteErrors). Jobs that depend on each
	// other may be given in any order. The error of a job that depends on one that
	// was not added is a *DependencyNotPutError.
	PutMany(ctx context.Context, jobs []Job) error

	// Get returns the job with that ID, or its latest attempt if it is retryable.
	Get(ctx context.Context, id string) (Job, bool)

	// Next returns a job to run and marks it as running. It blocks until a job
	// may run, and returns nil when ctx ends or the queue is closed. Runners call
	// it.
	Next(ctx context.Context) Job

	// Complete ends the current attempt of a job that Next returned. If the job
	// should be retried and the queue has a retry handler, Complete hands the job
	// to that handler. Runners call it.
	Complete(ctx context.Context, j Job) error

	// Save replaces the stored content of a job that the queue holds. If j is
	// stale, Save changes nothing and returns an error that wraps ErrLeaseLost. A
	// copy is stale if its owner or modification count differs from the queue's,
	// because the job was claimed, handed back or ended since j was read.
	// Renewing a lease changes neither, so a running job can save itself for as
	// long as it holds its lease. Calling Lock or Unlock on a copy does not make
	// it stale; Save then also stores its owner, count and time, unless another
	// owner runs the job.
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
	// SetRunner replaces the runner. It fails once the queue has started.
	SetRunner(Runner) error

	// Start starts the queue and its runner. The end of ctx acts like Close with
	// an ended context: running jobs are canceled and handed back, goroutines end,
	// connections are closed, and the queue is closed. A later Close waits for
	// that to finish. A queue that is never started ends with the context of its
	// constructor, if that takes one; once the queue is started, only the context
	// of Start counts.
	Start(ctx context.Context) error

	// Close stops the queue. It takes no new jobs, waits for the running ones
	// until ctx ends, cancels the jobs that still run, and returns when all of
	// the queue's goroutines have ended. The queues of this module return within
	// a second of the end of ctx. They leave behind the jobs, callbacks and driver
	// calls that ignore their contexts, and report such jobs as a CloseReporter.
	// Those in a file or a database still take jobs that running jobs put under
	// their own contexts, and let these wait for others.
	Close(ctx context.Context)
}

// RetryableQueue is a queue that retries failed jobs.
type RetryableQueue interface {
	Queue

	// RetryHandler returns the handler that replaces jobs by their next
	// attempt.
	RetryHandler() RetryHandler
	// SetRetryHandler replaces the handler. It fails once the queue has started.
	SetRetryHandler(RetryHandler) error

	// GetAttempt returns one attempt (from 0) of a retryable job. If it does not
	// exist, it returns an error for which IsJobNotFoundError is true.
	GetAttempt(ctx context.Context, id string, attempt int) (Job, error)
	// GetAllAttempts returns the attempts of a retryable job, oldest first. If
	// there are none, it returns an error for which IsJobNotFoundError is true.
	GetAllAttempts(ctx context.Context, id string) ([]Job, error)

	// CompleteRetryingAndPut ends the retry of toComplete and adds toPut, its
	// next attempt, in one atomic step: both happen or neither. The scopes
	// that toComplete holds pass to toPut without a gap.
	CompleteRetryingAndPut(ctx context.Context, toComplete, toPut Job) error
	// CompleteRetrying ends the retry of a job without another attempt, and
	// releases its scopes.
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
	// Put hands a job to the handler. It never waits for room or for a worker.
	Put(ctx context.Context, j Job) error
	// Close stops the handler and waits for its goroutines, at most until a second
	// after ctx has ended. A job that was not handled yet stays in the queue as
	// retrying.
	Close(ctx context.Context)
}

// Runner runs the jobs of a queue. Implementations are safe for concurrent
// use, and keep these rules:
//
//   - They take jobs with Queue.Next under a context that ends when Close is called. They run
//     them under another, which ends with the context of Close or of Start and carries the
//     queue (see ContextWithQueue).
//   - They run a job with RunFuncOf, which applies the job's maximum time and the queue's
//     middleware, and turns a panic into an error.
//   - They pass each job that Next returned to Complete or JobReleaser.Release, except one whose
//     lease was lost. These calls need a context that outlives a hard stop. If the queue is no
//     JobReleaser, an interrupted job gets a retryable error before it is completed.
//   - They use the queue as a JobContexter and a JobSnoozer if it is one.
//   - They are CloseReporters if Close may leave jobs behind.
type Runner interface {
	// Started is true between Start and Close.
	Started() bool
	// SetQueue sets the queue. It fails once the runner has started.
	SetQueue(Queue) error
	// Start starts the workers. It fails without a queue. A second Start has no effect.
	Start(ctx context.Context) error
	// Close takes no more jobs, waits for the running ones until ctx ends, then
	// cancels their contexts, and returns when every worker has ended. Even if a
	// job ignores its context, Close should return within a second of the end of
	// ctx, because a queue waits no longer for it.
	Close(ctx context.Context)
}

// AbortableRunner is a runner that can cancel single running jobs.
type AbortableRunner interface {
	Runner

	// IsRunning reports whether the job with that ID is running in this runner.
	IsRunning(id string) bool
	// RunningJobs lists the IDs of the jobs that this runner is running, sorted.
	RunningJobs() []string
	// Abort cancels the context of a running job and waits until the job or ctx
	// has ended. An aborted job ends as canceled and is not retried. If this
	// runner is not running the job, Abort returns an error for which
	// IsJobNotFoundError is true.
	Abort(ctx context.Context, id string) error
	// AbortAll aborts every job that is running at the time of the call.
	AbortAll(ctx context.Context) error
}

// QueueOptions configure a queue of a group.
type QueueOptions interface {
	// Validate checks the options and sets defaults.
	Validate() error
	// BuildQueue makes the queue but does not start it.
	BuildQueue(ctx context.Context) (Queue, error)
}

// QueueGroup is a set of named queues that are made on first use. Implementations
// are safe for concurrent use.
type QueueGroup interface {
	// Get returns the queue with that name. If it does not exist, Get makes and
	// starts it. The queue outlives ctx: it ends with the group, or by pruning. The
	// group ends with Close, or with the context of its constructor.
	Get(ctx context.Context, id string, opts ...QueueOptions) (Queue, error)
	// Put adds a queue under a name. It fails if the name is taken.
	Put(ctx context.Context, id string, q Queue) error
	// Len is the number of queues that this process has open.
	Len() int
	// Queues lists the names of the queues.
	Queues(ctx context.Context) []string
	// Prune closes the queues that have no work and were not used within the
	// group's time to live.
	Prune(ctx context.Context) error
	// Close closes every queue, as Queue.Close does. In groups of this module in a file
	// or a database, Get still returns queues to running jobs, so that these can put
	// others. If ctx ended and something was left behind, its error names that and
	// wraps ErrLeftBehind.
	Close(ctx context.Context) error
}
