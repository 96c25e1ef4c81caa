package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/queue/internal/arrivals"
	"github.com/mongodb/amboy/queue/internal/notes"
	"github.com/mongodb/amboy/queue/internal/schedule"
	"github.com/mongodb/amboy/queue/internal/wait"
)

// local is the queue of jobs by reference.
type local struct {
	lifecycle
	marks   marks
	opts    LocalOptions
	invalid error // why the queue can't be used, where its options are not valid
	now     func() time.Time

	mu       sync.Mutex
	schedule schedule.Schedule[localJob]
	arrivals arrivals.List[localEntry]
	arrived  uint64 // the last number of a job
	control  amboy.QueueControl
	workers  wait.Line // in Next
	putters  wait.Line // in Put, for room
	waking   bool      // a worker was woken, and has not looked yet
	called   int       // Puts that were woken, and have not looked yet
	complete completion
	tags     localTags
	timer    wakeTimer
	// foreign are the entries that were put as in progress, until they end or their
	// locks are stale, and locks is when to look at these.
	foreign map[*localEntry]struct{}
	locks   wakeTimer
	// parked has the reasons of those that a person has set aside, and cancels those
	// of the running ones that somebody has canceled.
	parked, cancels map[*localEntry]string

	// These are read without the lock.
	taken     localTaken
	canceling atomic.Int64 // the length of cancels

	changes driver.Subscribers
	notes   notes.Store

	announcer localAnnouncer
}

// localJob is what the queue keeps of a job beside its place in the schedule.
type localJob struct {
	job    amboy.Job
	tags   *[]string                // as it was put; nil for none
	number uint64                   // in the order in which the jobs were put, or retried
	run    atomic.Pointer[localRun] // the last; nil where nobody told of it
	preset bool                     // it was put as completed or as in progress
	// ending is true from when a call has begun to end the attempt, so that no other
	// ends it too.
	ending atomic.Bool
}

type localEntry = schedule.Entry[localJob]

func newLocal(opts LocalOptions, invalid error) *local {
	q := &local{lifecycle: newLifecycle(newOwnerID("local")), opts: opts, invalid: invalid, now: time.Now}
	q.shut = q.closeAll
	q.announcer.init()
	q.schedule.KeepFinished = opts.KeepFinished
	q.schedule.ForwardEdges = opts.ForwardEdges
	q.schedule.Forget = q.forgot
	q.timer.fire, q.timer.early = q.advance, q.shortenWaits
	q.locks.fire = q.recoverForeign
	q.runner = pool.NewLocalWorkers(opts.NumWorkers, q)
	q.middleware.insert = q.insert
	return q
}

func (q *local) Info() amboy.QueueInfo {
	return amboy.QueueInfo{Started: q.isStarted(), LockTimeout: amboy.LockTimeout}
}

func (q *local) SetRunner(r amboy.Runner) error { return q.setRunner(r, q) }

func (q *local) Start(ctx context.Context) error {
	if q.invalid != nil {
		return fmt.Errorf("starting queue %q: %w", q.id, q.invalid)
	}
	if missing := q.endForwardEdges(); len(missing) > 0 {
		return fmt.Errorf("starting queue %q: jobs depend on jobs that were not put: %q", q.id, missing)
	}
	if err := q.start(ctx); err != nil {
		return err
	}
	q.endWith(ctx)
	return nil
}

// endForwardEdges refuses edges to jobs that are not there from now on, unless
// there are some, which it returns.
func (q *local) endForwardEdges() (missing []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	missing = q.schedule.Missing()
	if len(missing) == 0 {
		q.schedule.ForwardEdges = false
	}
	return missing
}

func (q *local) closeAll(ctx context.Context) {
	late, cancel := afterEnd(ctx, closeGrace)
	defer cancel()
	left := q.close(ctx, late, q.wakeAll)
	if !q.timer.calls.wait(late) || !q.locks.calls.wait(late) {
		left.add("what time brings", amboy.ErrLeftBehind)
	}
	q.noteLeft(ctx, left)
	q.closeEvents(q.now())
}

// wakeAll wakes everybody who waits on the queue, to see that it stopped.
func (q *local) wakeAll() {
	q.mu.Lock()
	woken := append(q.workers.TakeAll(), q.callPutters()...)
	q.mu.Unlock()
	for _, w := range woken {
		w.Wake()
	}
	q.timer.stop()
	q.locks.stop()
}

// callPutters returns the Puts that wait for room, to be woken and refused.
func (q *local) callPutters() []*wait.Waiter {
	q.called += q.putters.Len()
	return q.putters.TakeAll()
}

func (q *local) Put(ctx context.Context, j amboy.Job) error {
	if put := q.middleware.put.Load(); put != nil {
		return (*put)(ctx, []amboy.Job{j})
	}
	return q.insertOne(ctx, j)
}

func (q *local) PutMany(ctx context.Context, jobs []amboy.Job) error {
	if put := q.middleware.put.Load(); put != nil {
		return (*put)(ctx, jobs)
	}
	return q.insert(ctx, jobs)
}

func (q *local) insertOne(ctx context.Context, j amboy.Job) error {
	e, err := q.newEntry(j)
	if err != nil {
		return err
	}
	return q.put(ctx, e)
}

func (q *local) insert(ctx context.Context, jobs []amboy.Job) error {
	var errs []error
	entries := make([]*localEntry, 0, len(jobs))
	for _, j := range jobs {
		e, err := q.newEntry(j)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		entries = append(entries, e)
	}
	sorted, cycles := schedule.Sort(entries)
	for _, e := range sorted {
		if err := q.put(ctx, e); err != nil {
			errs = append(errs, err)
		}
	}
	for _, e := range entries {
		if err := cycles[e]; err != nil {
			errs = append(errs, fmt.Errorf("putting job %q: %w", e.ID, err))
		}
	}
	return amboy.CollateWriteErrors(errs)
}

// newEntry checks a job that is to be put.
func (q *local) newEntry(j amboy.Job) (e *localEntry, err error) {
	err = errorOfPanic(func() (err error) {
		e, err = q.describe(j)
		return err
	})
	return e, err
}

// describe asks a job for all that the queue needs to know, without the lock.
func (q *local) describe(j amboy.Job) (*localEntry, error) {
	if q.invalid != nil {
		return nil, fmt.Errorf("queue %q: %w", q.id, q.invalid)
	}
	if err := amboy.ValidateJob(j); err != nil {
		return nil, err
	}
	key, until := amboy.UniqueKeyOf(j)
	if !until.IsValid() {
		return nil, &amboy.InvalidJobError{JobID: j.ID(), Field: "unique until", Value: until, Rule: "must be one of the amboy.UniqueUntil values"}
	}
	times := j.TimeInfo()
	e := &localEntry{
		Job:        localJob{job: j, tags: tagsOf(j)},
		ID:         j.ID(),
		Priority:   amboy.PriorityOf(j),
		WaitUntil:  times.WaitUntil,
		DispatchBy: times.DispatchBy,
		Scopes:     j.Scopes(),
		Unique:     schedule.NewUnique(key, until),
	}
	if len(e.Scopes) > 0 {
		e.EnqueueScopes = j.EnqueueScopes()
	}
	status := j.Status()
	e.Job.preset = status.Completed || (status.InProgress && q.now().Before(lockEnds(&status)))
	if m := j.Dependency(); m != nil && !e.Job.preset {
		e.Edges = m.Edges()
	}
	return e, nil
}

// put adds an entry, waiting for room where there is none. Who came first gets
// room first.
func (q *local) put(ctx context.Context, e *localEntry) error {
	if err := cmp.Or(ctx.Err(), driver.RefuseTransaction(mongodb.ShowTransaction(ctx))); err != nil {
		return fmt.Errorf("putting job %q: %w", e.ID, err)
	}
	for inTurn := false; ; inTurn = true {
		q.mu.Lock()
		if inTurn {
			q.called--
		}
		err := q.accepts(q.opts.PutBeforeStart)
		if err == nil && q.control.Draining {
			err = fmt.Errorf("queue %q: %w", q.id, amboy.ErrQueueDraining)
		}
		isFull := err == nil && q.mustWait(e, inTurn)
		if isFull && q.is(created) {
			err = fmt.Errorf("queue %q is full: %w", q.id, amboy.ErrQueueNotStarted)
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
			err = errorOfPanic(func() error { return q.add(e) })
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

// tagsOf are the tags of a job; nil for none, as most have.
func tagsOf(j amboy.Job) *[]string {
	tags := amboy.TagsOf(j)
	if len(tags) == 0 {
		return nil
	}
	kept := tags // which alone is allocated
	return &kept
}

// dropUnfinished takes an entry out whose job panicked while it was added.
func (q *local) dropUnfinished(e *localEntry, err error) {
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

// mustWait tells whether an entry must wait for room. One whose ID or unique key
// is taken need not, as it will be refused, nor one that is not to run.
func (q *local) mustWait(e *localEntry, inTurn bool) bool {
	return !e.Job.preset && !q.hasRoom(inTurn) && q.schedule.Duplicate(e) == nil
}

// hasRoom tells whether a job can be added by somebody whose turn it is, or who
// just came. The room for those who were called is theirs.
func (q *local) hasRoom(inTurn bool) bool {
	if q.opts.Capacity == 0 {
		return true
	}
	return q.schedule.Pending()+q.called < q.opts.Capacity && (inTurn || q.putters.Len() == 0)
}

// add adds an entry to the schedule.
func (q *local) add(e *localEntry) error {
	now := q.now()
	if e.Job.preset {
		if err := q.addPreset(e, now); err != nil {
			return err
		}
	} else {
		if err := q.schedule.Add(e, now); err != nil {
			return err
		}
		markNew(e.Job.job, now) // before a worker can take it
	}
	q.arrive(e)
	if e.Job.tags != nil {
		q.tags.add(e.ID, *e.Job.tags)
	}
	q.tell(amboy.EventPut, e.Job.job, now)
	q.setTimer()
	return nil
}

// arrive makes an entry the last in the order of arrival.
func (q *local) arrive(e *localEntry) {
	q.arrived++
	e.Job.number = q.arrived
	q.arrivals.Add(e.Job.number, e)
}

// await waits to be woken. Where ctx ends first it passes a signal on that came
// at the same time, and returns an error.
func (q *local) await(ctx context.Context, line *wait.Line, w *wait.Waiter) error {
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
		q.called--
	}
	worker, putter := q.wakeWorker(), q.wakePutter()
	q.mu.Unlock()
	worker.Wake()
	putter.Wake()
	return err
}

// wakeWorker returns the worker to wake, where there is something to run and
// none is waking up already. Each worker that starts a job wakes the next, so
// that a burst of Puts costs one wake-up and not one for each.
func (q *local) wakeWorker() *wait.Waiter {
	if q.waking || !q.mayStart() {
		return nil
	}
	w := q.workers.TakeLast()
	q.waking = w != nil
	return w
}

// wakePutter returns the Put to wake, where there is room for its job.
func (q *local) wakePutter() *wait.Waiter {
	if q.putters.Len() == 0 || !q.hasRoom(true) {
		return nil
	}
	q.called++
	return q.putters.TakeFirst()
}

// setTimer arranges for advance to be called when the time of a job comes.
func (q *local) setTimer() {
	if at, ok := q.schedule.NextTime(); ok {
		q.timer.set(at)
	}
}

// advance makes the jobs ready whose time has come, and ends those that have
// expired.
func (q *local) advance() {
	q.mu.Lock()
	expired := q.schedule.Advance(q.now())
	q.unlock()
	for _, e := range expired {
		q.expire(e)
	}
}

// shortenWaits makes backoffs and snoozes begin now that were set before the clock was
// set back, so that they do not last longer.
func (q *local) shortenWaits() {
	q.mu.Lock()
	shortened := q.schedule.ShortenWaits(q.now())
	if len(shortened) == 0 {
		q.mu.Unlock()
		return
	}
	q.unlock()
	for _, s := range shortened {
		if !s.Scheduled {
			continue // the job knows nothing of that wait
		}
		err := errorOfPanic(func() error {
			times := s.Entry.Job.job.TimeInfo()
			s.Entry.Job.job.UpdateTimeInfo(amboy.JobTimeInfo{ // It may run by now, so that its other times change.
				WaitUntil:  earlier(times.WaitUntil, s.By),
				DispatchBy: earlier(times.DispatchBy, s.By),
			})
			return nil
		})
		if err != nil {
			logging.Error(q.open, message.Fields{
				"message": "could not change the times of a job after the clock was set back",
				"queue":   q.id,
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

// expire ends a job that did not start in time.
func (q *local) expire(e *localEntry) {
	markExpired(e.Job.job)
	q.finish(e)
}

func (q *local) Next(ctx context.Context) amboy.Job {
	for {
		e, failed := q.take(ctx)
		if e == nil {
			return nil
		}
		runs := false
		err := errorOfPanic(func() error {
			runs = q.mayRun(e, failed)
			if runs {
				now := q.now()
				markRunning(e.Job.job, q.id, now)
				q.tell(amboy.EventStarted, e.Job.job, now)
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

// endPanicked ends an entry that was taken, and whose job has panicked outside of its
// run.
func (q *local) endPanicked(e *localEntry, panicked error) {
	j, now := e.Job.job, q.now()
	err := errorOfPanic(func() error {
		j.AddError(panicked)
		doNotRetry(j)
		markComplete(j, now)
		return nil
	})
	logging.Error(q.open, message.Fields{
		"message": "ended a job that panicked outside of its run",
		"queue":   q.id,
		"job_id":  e.ID,
		"error":   errors.Join(panicked, err).Error(),
	})
	q.mu.Lock()
	if e.Place() == schedule.Running {
		q.finished(e, false, now)
	}
	q.unlock()
}

// take returns the next entry to run, with its edges that failed; nil when ctx or
// the queue ends.
func (q *local) take(ctx context.Context) (e *localEntry, failed []string) {
	q.mu.Lock()
	for ctx.Err() == nil && !q.isStopped() {
		if q.mayStart() {
			e = q.schedule.Next()
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

// mayRun asks the dependency of a job that was taken. Where the job is not to
// run it is ended, or waits.
func (q *local) mayRun(e *localEntry, failed []string) bool {
	if deadline := e.DispatchBy; !deadline.IsZero() && deadline.Before(q.now()) {
		q.expire(e)
		return false
	}
	m := e.Job.job.Dependency()
	if isReady(m, failed) {
		return true
	}
	state, reason := consult(m, failed)
	if running, err := q.running(e.ID); err != nil || running != e {
		return false // it was completed meanwhile
	}
	switch state {
	case dependency.Ready:
		return true
	case dependency.Blocked:
		q.postpone(e)
	case dependency.Unresolved:
		e.Job.job.AddError(reason)
		q.finish(e)
	case dependency.Passed:
		q.finish(e)
	}
	return false
}

func (q *local) postpone(e *localEntry) {
	now := q.now()
	q.mu.Lock()
	e.Backoff = nextRecheck(e.Backoff)
	q.schedule.ReleaseSince(e, now, now.Add(e.Backoff), now)
	q.wentOn(e, now)
}

// wentOn is called with the lock, which it releases, when an entry has run and is to
// run again. Where somebody has canceled it, it ends instead.
func (q *local) wentOn(e *localEntry, now time.Time) {
	q.taken.remove(e)
	reason, canceled := q.cancels[e]
	if canceled {
		q.endCanceled(e, reason, now)
	}
	q.unlock()
	if canceled {
		q.tellEnd(e.Job.job, now)
	}
}

// unlock releases the lock after a change, and wakes those who can go on now.
func (q *local) unlock() {
	q.setTimer()
	worker, putter := q.wakeWorker(), q.wakePutter()
	q.mu.Unlock()
	worker.Wake()
	putter.Wake()
	q.changes.Notify(driver.Anywhere)
}

// Release takes a job back whose run was interrupted.
func (q *local) Release(ctx context.Context, j amboy.Job) error {
	if err := q.release(ctx, j, time.Time{}, amboy.EventHandedBack); err != nil {
		return fmt.Errorf("releasing a job of queue %q: %w", q.id, err)
	}
	return nil
}

// Snooze takes a job back that wants to run again later.
func (q *local) Snooze(ctx context.Context, j amboy.Job, until time.Time) error {
	until = notTooSoon(until, q.now())
	if err := q.release(ctx, j, until, amboy.EventSnoozed); err != nil {
		return fmt.Errorf("snoozing a job of queue %q: %w", q.id, err)
	}
	return nil
}

// release takes a job back, unless somebody has canceled it.
func (q *local) release(ctx context.Context, j amboy.Job, until time.Time, kind amboy.EventKind) error {
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
	q.tell(kind, j, now)
	forgetRun(j)
	q.mu.Lock()
	e.Backoff = 0
	q.schedule.ReleaseSince(e, now, until, now)
	q.wentOn(e, now)
	return nil
}

// running returns the entry of a job that runs.
func (q *local) running(id string) (*localEntry, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e, ok := q.schedule.Get(id)
	if !ok {
		return nil, amboy.NewJobNotFoundErrorf("queue %q has no job %q", q.id, id)
	}
	if e.Place() != schedule.Running {
		return nil, fmt.Errorf("it is not running: %w", amboy.ErrLeaseLost)
	}
	return e, nil
}

// Complete ends a job. One that is not running yet never will, and the context of one
// that still runs ends.
func (q *local) Complete(_ context.Context, j amboy.Job) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("completing a job of queue %q: the job must not be nil", q.id)
	}
	e, err := q.unended(j.ID())
	if err != nil {
		return fmt.Errorf("completing job %q: %w", j.ID(), err)
	}
	if reason, canceled := q.cancelReason(e); canceled {
		markCanceledFor(e.Job.job, reason)
	}
	if !e.Job.ending.CompareAndSwap(false, true) {
		return fmt.Errorf("completing job %q: its attempt has ended already: %w", j.ID(), amboy.ErrLeaseLost)
	}
	run := e.Job.run.Load() // before another attempt can begin
	if run.isOver() {
		e.Job.run.CompareAndSwap(run, nil) // it need not be kept with the job
		run = nil
	}
	q.endOnce(e)
	if run != nil {
		run.cancel(amboy.ErrLeaseLost)
	}
	return nil
}

// unended returns the entry of a job that has not ended. It takes the lock only for
// one that a worker has not taken, or that was missed.
func (q *local) unended(id string) (*localEntry, error) {
	if e := q.taken.get(id); e != nil {
		return e, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	e, ok := q.schedule.Get(id)
	if !ok {
		return nil, amboy.NewJobNotFoundErrorf("queue %q does not have it", q.id)
	}
	if e.Place() == schedule.Finished {
		return nil, fmt.Errorf("it has ended already: %w", amboy.ErrLeaseLost)
	}
	return e, nil
}

// finish ends an attempt of a job, and the job, unless another attempt follows. It does
// nothing if another call ends the attempt.
func (q *local) finish(e *localEntry) {
	if e.Job.ending.CompareAndSwap(false, true) {
		q.endOnce(e)
	}
}

// endOnce is finish for the only call that ends the attempt.
func (q *local) endOnce(e *localEntry) {
	err := errorOfPanic(func() error {
		q.endAttempt(e)
		return nil
	})
	if err != nil {
		q.endPanicked(e, err)
	}
}

func (q *local) endAttempt(e *localEntry) {
	j := e.Job.job
	if j.RetryInfo().ShouldRetry() && q.retry(e) {
		return
	}
	now := q.now()
	succeeded := markComplete(j, now)
	q.countEnd(succeeded, j, now)
	q.mu.Lock()
	q.finished(e, succeeded, now)
	q.unlock()
	q.tellEnd(j, now)
}

// finished ends an entry. The caller holds the lock.
func (q *local) finished(e *localEntry, succeeded bool, now time.Time) {
	delete(q.parked, e)
	if len(q.cancels) > 0 {
		delete(q.cancels, e)
		q.canceling.Store(int64(len(q.cancels)))
	}
	q.taken.remove(e)
	q.schedule.Finish(e, succeeded, now)
	q.complete.ended(e.ID, q.schedule.Idle())
}
