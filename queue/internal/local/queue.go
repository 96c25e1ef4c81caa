package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/internal/presence"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/queue/internal/arrivals"
	"github.com/mongodb/amboy/queue/internal/jobstate"
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
	taken     localTaken
	canceling atomic.Int64 // len(cancels)

	changes driver.Subscribers
	notes   notes.Store

	Announcer localAnnouncer
	backlog   backlogSampler
}

// localJob is what the queue stores about a job in addition to its place in the schedule.
type localJob struct {
	job    amboy.Job
	tags   *[]string                // at the time of Put; nil if it has none
	number uint64                   // position in the order in which jobs were put or retried
	run    atomic.Pointer[localRun] // the latest run; nil if JobContext was not called for it
	preset bool                     // put as completed or as in progress
	// ending is set by the one call that ends the attempt.
	ending atomic.Bool
	// first is the first run, which most jobs have and no other.
	first localRun
}

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
	q.backlog.timer.Fire = q.sampleBacklog
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
	q.NoteLeft(ctx, left)
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

// takePutters returns all Puts that wait for room. The caller wakes them, and they are
// refused.
func (q *Queue) takePutters() []*wait.Waiter {
	q.wokenPutters += q.putters.Len()
	return q.putters.TakeAll()
}

// Put implements amboy.Queue.
func (q *Queue) Put(ctx context.Context, j amboy.Job) error {
	if put := q.Middleware.Put.Load(); put != nil {
		return (*put)(ctx, []amboy.Job{j})
	}
	return q.insertOne(ctx, j)
}

// PutMany implements amboy.Queue.
func (q *Queue) PutMany(ctx context.Context, jobs []amboy.Job) error {
	if put := q.Middleware.Put.Load(); put != nil {
		return (*put)(ctx, jobs)
	}
	return q.insert(ctx, jobs)
}

func (q *Queue) insertOne(ctx context.Context, j amboy.Job) error {
	e, err := q.newEntry(j)
	if err != nil {
		return err
	}
	return q.put(ctx, e)
}

func (q *Queue) insert(ctx context.Context, jobs []amboy.Job) error {
	var errs jobstate.PutErrors
	entries := make([]*localEntry, 0, len(jobs))
	for _, j := range jobs {
		e, err := q.newEntry(j)
		if err != nil {
			errs.Add(j, err)
			continue
		}
		entries = append(entries, e)
	}
	sorted, cycles := schedule.Sort(entries)
	for _, e := range sorted {
		if err := q.put(ctx, e); err != nil {
			errs.Add(e.Job.job, err)
		}
	}
	for _, e := range entries {
		if err := cycles[e]; err != nil {
			errs.Add(e.Job.job, fmt.Errorf("putting job %q: %w", e.ID, err))
		}
	}
	return errs.Collate()
}

// newEntry checks a job that is to be put, and makes its entry. A panic of the job is
// returned as an error.
func (q *Queue) newEntry(j amboy.Job) (e *localEntry, err error) {
	err = contain.Panic(func() (err error) {
		e, err = q.describe(j)
		return err
	})
	return e, err
}

// describe reads everything that the queue needs from the job, without holding the lock.
func (q *Queue) describe(j amboy.Job) (*localEntry, error) {
	if q.invalid != nil {
		return nil, fmt.Errorf("queue %q: %w", q.ID(), q.invalid)
	}
	if err := amboy.ValidateJob(j); err != nil {
		return nil, err
	}
	if !amboy.RunsHere(j) {
		return nil, &amboy.InvalidJobError{JobID: j.ID(), Field: "type", Value: j.Type().Name, Rule: "must have a function, because the queue holds its jobs by reference and outside workers can't get them"}
	}
	key, until := amboy.UniqueKeyOf(j)
	if !until.IsValid() {
		return nil, &amboy.InvalidJobError{JobID: j.ID(), Field: "unique until", Value: until, Rule: "must be one of the amboy.UniqueUntil values"}
	}
	times := j.TimeInfo()
	e := &localEntry{
		Job:        localJob{job: j, tags: tagsOf(j)},
		ID:         j.ID(),
		Type:       unique.Make(j.Type().Name),
		Priority:   amboy.PriorityOf(j),
		WaitUntil:  times.WaitUntil,
		DispatchBy: times.DispatchBy,
		Unique:     schedule.NewUnique(key, until),
	}
	if scopes := j.Scopes(); len(scopes) > 0 {
		e.Scopes = schedule.NewScopes(scopes, j.EnqueueScopes())
	}
	status := j.Status()
	e.Job.preset = status.Completed || (status.InProgress && q.now().Before(lockEnds(&status)))
	if m := j.Dependency(); m != nil && !e.Job.preset {
		e.Edges = m.Edges()
	}
	return e, nil
}

// put adds an entry. It waits while the queue is full. Waiting Puts are served in FIFO
// order.
func (q *Queue) put(ctx context.Context, e *localEntry) error {
	if err := cmp.Or(ctx.Err(), driver.RefuseTransaction(mongodb.ShowTransaction(ctx))); err != nil {
		return fmt.Errorf("putting job %q: %w", e.ID, err)
	}
	for inTurn := false; ; inTurn = true {
		q.mu.Lock()
		if inTurn {
			q.wokenPutters--
		}
		err := q.Accepts(q.opts.PutBeforeStart)
		if err == nil && q.control.Draining {
			err = fmt.Errorf("queue %q: %w", q.ID(), amboy.ErrQueueDraining)
		}
		isFull := err == nil && q.mustWait(e, inTurn)
		if isFull && q.Is(lifecycle.Created) {
			err = fmt.Errorf("queue %q is full: %w", q.ID(), amboy.ErrQueueNotStarted)
		}
		if isFull && err == nil {
			room := q.putters.Join()
			q.mu.Unlock()
			err = q.await(ctx, &q.putters, room)
			if err != nil {
				return fmt.Errorf("putting job %q: waiting for room in the queue: %w", e.ID, err)
			}
			continue
		}
		if err == nil {
			err = contain.Panic(func() error { return q.add(e) })
			q.dropUnfinished(e, err)
		}
		worker, putter := q.wakeWorker(), q.wakePutter()
		q.mu.Unlock()
		worker.Wake()
		putter.Wake()
		if err != nil {
			return fmt.Errorf("putting job %q: %w", e.ID, err)
		}
		q.changes.Notify(driver.Anywhere)
		return nil
	}
}

// tagsOf returns the tags of a job, or nil if it has none, as most jobs.
func tagsOf(j amboy.Job) *[]string {
	tags := amboy.TagsOf(j)
	if len(tags) == 0 {
		return nil
	}
	kept := tags // only this copy is allocated
	return &kept
}

// dropUnfinished removes an entry whose job panicked while the entry was added.
func (q *Queue) dropUnfinished(e *localEntry, err error) {
	if err == nil {
		return
	}
	var panicked *amboy.PanicError
	if !errors.As(err, &panicked) {
		return
	}
	if added, ok := q.schedule.Get(e.ID); ok && added == e {
		q.schedule.Remove(e)
	}
}

// mustWait reports whether an entry must wait for room. An entry that will be refused
// because its ID or unique key is taken does not wait, nor does a preset entry, which is
// not pending.
func (q *Queue) mustWait(e *localEntry, inTurn bool) bool {
	return !e.Job.preset && !q.hasRoom(inTurn) && q.schedule.Duplicate(e) == nil
}

// hasRoom reports whether a job can be added. inTurn is true for a Put that was woken
// because room became free. Room that is reserved for woken Puts is not available to new
// ones.
func (q *Queue) hasRoom(inTurn bool) bool {
	if q.opts.Capacity == 0 {
		return true
	}
	return q.schedule.Pending()+q.wokenPutters < q.opts.Capacity && (inTurn || q.putters.Len() == 0)
}

// add adds an entry to the schedule.
func (q *Queue) add(e *localEntry) error {
	now := q.now()
	if e.Job.preset {
		if err := q.addPreset(e, now); err != nil {
			return err
		}
	} else {
		if err := q.schedule.Add(e, now); err != nil {
			return err
		}
		jobstate.MarkNew(e.Job.job, now) // before a worker can take the job
	}
	q.arrive(e)
	if e.Job.tags != nil {
		q.tags.add(e.ID, *e.Job.tags)
	}
	q.Publish(amboy.EventPut, e.Job.job, now)
	q.setTimer()
	return nil
}

// arrive makes an entry the last one in the order of arrival.
func (q *Queue) arrive(e *localEntry) {
	q.arrived++
	e.Job.number = q.arrived
	q.arrivals.Add(e.Job.number, e)
	q.backlog.jobArrived()
}

// await waits to be woken, and returns an error if ctx ends first. A wake-up that comes
// at the same time is passed on to another waiter.
func (q *Queue) await(ctx context.Context, line *wait.Line, w *wait.Waiter) error {
	err := w.Wait(ctx)
	if err == nil {
		return nil
	}
	q.mu.Lock()
	left := line.Leave(w)
	q.mu.Unlock()
	if left {
		return err
	}
	w.Drain()
	q.mu.Lock()
	if line == &q.workers {
		q.waking = false
	} else {
		q.wokenPutters--
	}
	worker, putter := q.wakeWorker(), q.wakePutter()
	q.mu.Unlock()
	worker.Wake()
	putter.Wake()
	return err
}

// wakeWorker returns the worker to wake, or nil if no job may start or a woken worker has
// not tried to take a job yet. Each worker that takes a job wakes the next, so a burst of
// Puts costs one wake-up instead of one per job.
func (q *Queue) wakeWorker() *wait.Waiter {
	if q.waking || !q.mayStart() {
		return nil
	}
	w := q.workers.TakeLast()
	q.waking = w != nil
	return w
}

// wakePutter returns the Put to wake, or nil if no Put waits or the queue is full.
func (q *Queue) wakePutter() *wait.Waiter {
	if q.putters.Len() == 0 || !q.hasRoom(true) {
		return nil
	}
	q.wokenPutters++
	return q.putters.TakeFirst()
}

// setTimer schedules the call of advance for the next time in the schedule.
func (q *Queue) setTimer() {
	if at, ok := q.schedule.NextTime(); ok {
		q.timer.Set(at)
	}
}

// advance makes jobs ready whose time has come, and ends jobs that have expired.
func (q *Queue) advance() {
	q.mu.Lock()
	expired := q.schedule.Advance(q.now())
	q.unlock()
	for _, e := range expired {
		q.expire(e)
	}
}

// shortenWaits shortens the backoffs and snoozes that were set before the clock was set
// back, so that they do not last longer than intended.
func (q *Queue) shortenWaits() {
	q.mu.Lock()
	shortened := q.schedule.ShortenWaits(q.now())
	if len(shortened) == 0 {
		q.mu.Unlock()
		return
	}
	q.unlock()
	for _, s := range shortened {
		if !s.Scheduled {
			continue // this wait is not part of the job's times
		}
		err := contain.Panic(func() error {
			times := s.Entry.Job.job.TimeInfo()
			s.Entry.Job.job.UpdateTimeInfo(amboy.JobTimeInfo{ // Only these: it may run by now and change its other times.
				WaitUntil:  earlier(times.WaitUntil, s.By),
				DispatchBy: earlier(times.DispatchBy, s.By),
			})
			return nil
		})
		if err != nil {
			logging.Error(q.Open, message.Fields{
				"message": "could not change the times of a job after the clock was set back",
				"queue":   q.ID(),
				"job_id":  s.Entry.ID,
				"error":   err.Error(),
			})
		}
	}
}

func earlier(t time.Time, by time.Duration) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(-by)
}

// expire ends a job that did not start before its DispatchBy.
func (q *Queue) expire(e *localEntry) {
	jobstate.MarkExpired(e.Job.job)
	q.finish(e)
}

// Next implements amboy.Queue.
func (q *Queue) Next(ctx context.Context) amboy.Job {
	for {
		e, failed := q.take(ctx)
		if e == nil {
			return nil
		}
		runs := false
		err := contain.Panic(func() error {
			runs = q.mayRun(e, failed)
			if runs {
				now := q.now()
				jobstate.MarkRunning(e.Job.job, q.ID(), now)
				q.Publish(amboy.EventStarted, e.Job.job, now)
			}
			return nil
		})
		switch {
		case err != nil:
			q.endPanicked(e, err)
		case runs:
			q.changes.Notify(driver.Change{})
			return e.Job.job
		}
	}
}

// endPanicked ends an entry that was taken, after its job has panicked outside its run.
func (q *Queue) endPanicked(e *localEntry, panicked error) {
	j, now := e.Job.job, q.now()
	err := contain.Panic(func() error {
		j.AddError(panicked)
		jobstate.DoNotRetry(j)
		jobstate.MarkComplete(j, now)
		return nil
	})
	logging.Error(q.Open, message.Fields{
		"message": "ended a job that panicked outside its run",
		"queue":   q.ID(),
		"job_id":  e.ID,
		"error":   errors.Join(panicked, err).Error(),
	})
	q.mu.Lock()
	if e.Place() == schedule.Running {
		q.finished(e, false, now)
	}
	q.unlock()
}

// take waits for an entry to run, and returns it with its failed edges. It returns nil
// when ctx or the queue ends.
func (q *Queue) take(ctx context.Context) (e *localEntry, failed []string) {
	q.mu.Lock()
	for ctx.Err() == nil && !q.IsStopped() {
		if e = q.startNext(); e != nil {
			e.Job.run.Store(nil)
			q.taken.add(e)
			failed = e.Failed()
			worker, putter := q.wakeWorker(), q.wakePutter()
			q.mu.Unlock()
			worker.Wake()
			putter.Wake()
			return e, failed
		}
		w := q.workers.Join()
		q.mu.Unlock()
		if q.await(ctx, &q.workers, w) != nil {
			return nil, nil
		}
		q.mu.Lock()
		q.workers.Reuse(w)
		q.waking = false
	}
	worker := q.wakeWorker()
	q.mu.Unlock()
	worker.Wake()
	return nil, nil
}

// mayRun reports whether a job that was taken may run, by its deadline and its
// dependency. If not, mayRun ends or postpones the job.
func (q *Queue) mayRun(e *localEntry, failed []string) bool {
	if deadline := e.DispatchBy; !deadline.IsZero() && deadline.Before(q.now()) {
		q.expire(e)
		return false
	}
	m := e.Job.job.Dependency()
	if jobstate.IsReady(m, failed) {
		return true
	}
	state, reason := jobstate.Consult(m, failed)
	if running, err := q.running(e.ID); err != nil || running != e {
		return false // completed meanwhile
	}
	switch state {
	case dependency.Ready:
		return true
	case dependency.Blocked:
		q.postpone(e)
	case dependency.Unresolved:
		e.Job.job.AddError(reason)
		logging.Warning(q.Open, message.Fields{
			"message":  "job failed without running",
			"queue":    q.ID(),
			"job_id":   e.ID,
			"job_type": e.Type.Value(),
			"error":    reason.Error(),
		})
		q.finish(e)
	case dependency.Passed:
		q.finish(e)
	}
	return false
}

func (q *Queue) postpone(e *localEntry) {
	now := q.now()
	q.mu.Lock()
	e.Backoff = jobstate.NextRecheck(e.Backoff)
	q.schedule.ReleaseSince(e, now, now.Add(e.Backoff), now)
	q.requeued(e, now)
}

// requeued is called with the lock, and releases it, when an entry has run and was put back
// to run again. If a cancel was requested meanwhile, requeued ends the entry.
func (q *Queue) requeued(e *localEntry, now time.Time) {
	q.taken.remove(e)
	reason, canceled := q.cancels[e]
	if canceled {
		q.endCanceled(e, reason, now)
	}
	q.unlock()
	if canceled {
		q.publishEnd(e.Job.job, now)
	}
}

// unlock releases the lock after a change, and wakes a worker and a Put that can proceed.
func (q *Queue) unlock() {
	q.setTimer()
	worker, putter := q.wakeWorker(), q.wakePutter()
	q.mu.Unlock()
	worker.Wake()
	putter.Wake()
	q.changes.Notify(driver.Anywhere)
}

// Release implements amboy.JobReleaser: it takes back a job whose run was interrupted.
func (q *Queue) Release(ctx context.Context, j amboy.Job) error {
	if err := q.release(ctx, j, time.Time{}, amboy.EventHandedBack); err != nil {
		return fmt.Errorf("releasing a job of queue %q: %w", q.ID(), err)
	}
	return nil
}

// Snooze implements amboy.JobSnoozer: it takes back a job that is to run again later.
func (q *Queue) Snooze(ctx context.Context, j amboy.Job, until time.Time) error {
	until = jobstate.NotTooSoon(until, q.now())
	if err := q.release(ctx, j, until, amboy.EventSnoozed); err != nil {
		return fmt.Errorf("snoozing a job of queue %q: %w", q.ID(), err)
	}
	return nil
}

// release takes a job back. It completes the job if a cancel was requested.
func (q *Queue) release(ctx context.Context, j amboy.Job, until time.Time, kind amboy.EventKind) error {
	if amboy.IsNilJob(j) {
		return errors.New("the job must not be nil")
	}
	e, err := q.running(j.ID())
	if err != nil {
		return fmt.Errorf("job %q: %w", j.ID(), err)
	}
	if _, canceled := q.cancelReason(e); canceled {
		j.AddError(fmt.Errorf("job %q: %w", j.ID(), amboy.ErrAborted))
		return q.Complete(ctx, j)
	}
	now := q.now()
	q.Publish(kind, j, now)
	jobstate.ForgetRun(j)
	q.mu.Lock()
	e.Backoff = 0
	q.schedule.ReleaseSince(e, now, until, now)
	q.requeued(e, now)
	return nil
}

// running returns the entry of a running job.
func (q *Queue) running(id string) (*localEntry, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e, ok := q.schedule.Get(id)
	if !ok {
		return nil, amboy.NewJobNotFoundErrorf("queue %q has no job %q", q.ID(), id)
	}
	if e.Place() != schedule.Running {
		return nil, fmt.Errorf("not running: %w", amboy.ErrLeaseLost)
	}
	return e, nil
}

// Complete ends a job. A job that has not started never will. If the job still runs, its
// context ends.
func (q *Queue) Complete(_ context.Context, j amboy.Job) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("completing a job of queue %q: the job must not be nil", q.ID())
	}
	e, err := q.unended(j.ID())
	if err != nil {
		return fmt.Errorf("completing job %q: %w", j.ID(), err)
	}
	if reason, canceled := q.cancelReason(e); canceled {
		markCanceledFor(e.Job.job, reason)
	}
	if !e.Job.ending.CompareAndSwap(false, true) {
		return fmt.Errorf("completing job %q: attempt has already ended: %w", j.ID(), amboy.ErrLeaseLost)
	}
	run := e.Job.run.Load() // read it before another attempt can begin
	if run.isOver() {
		e.Job.run.CompareAndSwap(run, nil) // free it: the queue keeps the finished entry
		run = nil
	}
	q.endOnce(e)
	if run != nil {
		run.cancel(amboy.ErrLeaseLost)
	}
	return nil
}

// unended returns the entry of a job that has not ended. It takes the lock only if
// q.taken does not contain the job.
func (q *Queue) unended(id string) (*localEntry, error) {
	if e := q.taken.get(id); e != nil {
		return e, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	e, ok := q.schedule.Get(id)
	if !ok {
		return nil, amboy.NewJobNotFoundErrorf("not found in queue %q", q.ID())
	}
	if e.Place() == schedule.Finished {
		return nil, fmt.Errorf("already ended: %w", amboy.ErrLeaseLost)
	}
	return e, nil
}

// finish ends an attempt of a job, and also the job, unless another attempt follows. It
// does nothing if another call ends the attempt.
func (q *Queue) finish(e *localEntry) {
	if e.Job.ending.CompareAndSwap(false, true) {
		q.endOnce(e)
	}
}

// endOnce ends the attempt. Only the call that has set e.Job.ending calls it.
func (q *Queue) endOnce(e *localEntry) {
	err := contain.Panic(func() error {
		q.endAttempt(e)
		return nil
	})
	if err != nil {
		q.endPanicked(e, err)
	}
}

func (q *Queue) endAttempt(e *localEntry) {
	j := e.Job.job
	if j.RetryInfo().ShouldRetry() && q.retry(e) {
		return
	}
	now := q.now()
	succeeded := jobstate.MarkComplete(j, now)
	q.countEnd(succeeded, j, now)
	q.mu.Lock()
	q.finished(e, succeeded, now)
	q.unlock()
	q.publishEnd(j, now)
}

// finished removes the bookkeeping of an entry that ended, and wakes its waiters. The
// caller holds the lock.
func (q *Queue) finished(e *localEntry, succeeded bool, now time.Time) {
	delete(q.parked, e)
	if len(q.cancels) > 0 {
		delete(q.cancels, e)
		q.canceling.Store(int64(len(q.cancels)))
	}
	q.taken.remove(e)
	q.schedule.Finish(e, succeeded, now)
	q.complete.Ended(e.ID, q.schedule.Idle())
}
