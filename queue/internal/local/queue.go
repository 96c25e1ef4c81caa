package local

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/presence"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/arrivals"
	"github.com/mongodb/amboy/queue/internal/lifecycle"
	"github.com/mongodb/amboy/queue/internal/notes"
	"github.com/mongodb/amboy/queue/internal/rate"
	"github.com/mongodb/amboy/queue/internal/schedule"
	"github.com/mongodb/amboy/queue/internal/typelimit"
	"github.com/mongodb/amboy/queue/internal/wait"
)

// Queue is a queue that holds jobs by reference.
type Queue struct {
	lifecycle.Base
	marks   marks
	opts    Options
	invalid error // the error of invalid options; nil if they are valid
	now     func() time.Time

	mu           sync.Mutex
	schedule     schedule.Schedule[localJob]
	arrivals     arrivals.List[localEntry]
	arrived      uint64 // the number of the last job
	control      amboy.QueueControl
	workers      wait.Line // waiting in Next
	putters      wait.Line // waiting in Put for room
	waking       bool      // a worker was woken, and has not tried to take a job yet
	wokenPutters int       // Puts that were woken, and have not tried to add their job yet
	complete     lifecycle.Completion
	tags         localTags
	timer        lifecycle.WakeTimer
	// foreign holds the entries that were put as in progress, until they end or their
	// locks are stale. locks fires when the next of these locks becomes stale.
	foreign map[*localEntry]struct{}
	locks   lifecycle.WakeTimer
	// bucket contains the tokens of the rate, by the time since opened. rates fires when there
	// are more.
	bucket rate.Bucket
	// typeBuckets are the buckets of the types that have a rate.
	typeBuckets typelimit.Buckets
	opened      time.Time
	rates       lifecycle.WakeTimer
	// parked holds the reasons of entries that an operator has parked. cancels holds the
	// reasons of running entries that are to be canceled.
	parked, cancels map[*localEntry]string

	// These are read without the lock.
	taken      localTaken
	latestType atomic.Pointer[unique.Handle[string]] // of the latest job
	canceling  atomic.Int64                          // len(cancels)

	changes driver.Subscribers
	notes   notes.Store

	Announcer localAnnouncer
	backlog   backlogSampler
}

// localJob is what the queue stores about a job in addition to its place in the schedule.
type localJob struct {
	job    amboy.Job
	lists  *jobLists                // nil if it has neither tags nor edges, as most jobs
	number uint64                   // position in the order in which jobs were put or retried
	run    atomic.Pointer[localRun] // the latest run; nil if JobContext was not called for it
	preset bool                     // put as completed or as in progress
	// ending is set by the one call that ends the attempt.
	ending atomic.Bool
	// first is the first run, which most jobs have and no other.
	first localRun
}

// jobLists are lists of a job at the time of Put.
type jobLists struct{ tags, edges []string }

type localEntry = schedule.Entry[localJob]

var (
	_ amboy.ScheduleTeller  = (*Queue)(nil)
	_ amboy.IdleCloser      = (*Queue)(nil)
	_ amboy.CloseReporter   = (*Queue)(nil)
	_ amboy.EventSource     = (*Queue)(nil)
	_ amboy.MiddlewareQueue = (*Queue)(nil)
)

// Options are valid queue.LocalOptions.
type Options struct {
	NumWorkers     int
	Capacity       int
	KeepFinished   int
	PutBeforeStart bool
	ForwardEdges   bool
	RetryPolicy    amboy.RetryPolicy
	Middleware     []amboy.Middleware
}

// New returns a queue. If invalid is not nil, the queue refuses jobs and Start with that error.
func New(opts Options, invalid error) *Queue {
	q := &Queue{Base: lifecycle.New(presence.NewID("local")), opts: opts, invalid: invalid, now: time.Now, opened: time.Now()}
	q.Shut = q.closeAll
	q.Announcer.init()
	q.schedule.KeepFinished = opts.KeepFinished
	q.schedule.ForwardEdges = opts.ForwardEdges
	q.schedule.Forget = q.forgot
	q.timer.Fire, q.timer.Early = q.advance, q.shortenWaits
	q.locks.Fire = q.recoverForeign
	q.rates.Fire = q.startRated
	q.backlog.timer.Fire, q.backlog.timer.Early = q.sampleBacklog, q.scheduleBacklog
	q.schedule.KindOf = func(e *localEntry) driver.Kind { return driver.Kind{Type: e.TypeName()} }
	q.FirstRunner(pool.NewLocalWorkers(opts.NumWorkers, q))
	q.Middleware.Insert = q.insert
	return q
}

// Info implements amboy.Queue.
func (q *Queue) Info() amboy.QueueInfo {
	return amboy.QueueInfo{Started: q.IsStarted(), LockTimeout: amboy.LockTimeout}
}

// SetRunner implements amboy.Queue.
func (q *Queue) SetRunner(r amboy.Runner) error { return q.ReplaceRunner(r, q) }

// Start implements amboy.Queue.
func (q *Queue) Start(ctx context.Context) error {
	if q.invalid != nil {
		return fmt.Errorf("starting queue %q: %w", q.ID(), q.invalid)
	}
	if missing := q.endForwardEdges(); len(missing) > 0 {
		return fmt.Errorf("starting queue %q: jobs depend on jobs that were not put: %q", q.ID(), missing)
	}
	if err := q.StartRunner(ctx); err != nil {
		return err
	}
	q.EndWith(ctx)
	return nil
}

// endForwardEdges makes the queue refuse edges to jobs that do not exist, unless it has
// such edges. It returns the IDs of the missing jobs.
func (q *Queue) endForwardEdges() (missing []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	missing = q.schedule.Missing()
	if len(missing) == 0 {
		q.schedule.ForwardEdges = false
	}
	return missing
}

func (q *Queue) closeAll(ctx context.Context) {
	late, cancel := lifecycle.AfterEnd(ctx, lifecycle.CloseGrace)
	defer cancel()
	left := q.CloseParts(ctx, late, q.wakeAll)
	if !q.timer.Calls.Wait(late) || !q.locks.Calls.Wait(late) || !q.rates.Calls.Wait(late) || !q.backlog.timer.Calls.Wait(late) {
		left.Add("timers", amboy.ErrLeftBehind)
	}
	q.NoteLeft(ctx, amboy.NameOf(q), left)
	q.CloseEvents(q.now())
}

// wakeAll wakes all waiters, so that they find the queue stopped.
func (q *Queue) wakeAll() {
	q.mu.Lock()
	woken := append(q.workers.TakeAll(), q.takePutters()...)
	q.mu.Unlock()
	for _, w := range woken {
		w.Wake()
	}
	q.timer.Stop()
	q.locks.Stop()
	q.rates.Stop()
	q.backlog.timer.Stop()
}
