package management

import (
	"context"
	"iter"
	"time"
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
	// allow the action, or that leave the states of the filter before their turn, are
	// skipped. Act scans from the latest job to the oldest, and
	// leaves out jobs that are put or run again meanwhile. Within one call it acts on jobs
	// in the order in which they were put, except that it retries a job after those that
	// it depends on. If the store has to search for the jobs, one call reads those that it
	// finds in about 1.5 seconds, maybe none; Next continues.
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
	// MaxCountTime is about how long CountJobs and CountStates count at most, and Scopes the waiting jobs.
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
