package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue/internal/schedule"
	"github.com/mongodb/amboy/queue/internal/wait"
)

// LocalOptions configure a local queue.
type LocalOptions struct {
	// NumWorkers is the number of jobs that run at once. It must be at least 1.
	NumWorkers int
	// Capacity is the number of jobs that may wait at a time (running and
	// finished ones are not counted); Put waits while there are as many. 0
	// means that there is no limit.
	Capacity int
	// KeepFinished is the number of finished jobs that the queue remembers, for
	// Get, Results and JobInfo. The default is Capacity, and 10,000 where that
	// is 0.
	KeepFinished int
	// PutBeforeStart lets jobs be put before the queue is started, so that the
	// first job to run is the first of all of them.
	PutBeforeStart bool
	// ForwardEdges lets a job depend on one that is put later. Start returns an
	// error while there are edges to jobs that were not put, and after Start
	// they are refused. It needs PutBeforeStart.
	ForwardEdges bool
}

const defaultKeepFinished = 10_000

// Validate sets the defaults. It returns an error that names every field that
// is out of range, and then changes nothing.
func (o *LocalOptions) Validate() error {
	var errs []error
	if o.NumWorkers < 1 {
		errs = append(errs, fmt.Errorf("invalid local queue options: NumWorkers must be at least 1 (is %d)", o.NumWorkers))
	}
	if o.Capacity < 0 {
		errs = append(errs, fmt.Errorf("invalid local queue options: Capacity must not be negative (is %d)", o.Capacity))
	}
	if o.KeepFinished < 0 {
		errs = append(errs, fmt.Errorf("invalid local queue options: KeepFinished must not be negative (is %d)", o.KeepFinished))
	}
	if o.ForwardEdges && !o.PutBeforeStart {
		errs = append(errs, errors.New("invalid local queue options: ForwardEdges needs PutBeforeStart"))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if o.KeepFinished == 0 {
		o.KeepFinished = o.Capacity
	}
	if o.KeepFinished == 0 {
		o.KeepFinished = defaultKeepFinished
	}
	return nil
}

// NewLocal returns a queue that holds jobs by reference, in this process. It
// honors priorities, schedules, deadlines, scopes and dependencies, and does
// not retry jobs (see NewLocalLimitedSizeSerializable for that). It returns an
// error for options that are not valid.
func NewLocal(opts LocalOptions) (amboy.Queue, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	return newLocal(opts, nil), nil
}

// NewLocalLimitedSize returns a local queue for a number of workers, which holds
// at most capacity waiting jobs and remembers as many finished ones. It must be
// started before jobs are put. Where a number is less than 1, Start and Put
// return an error that says so.
func NewLocalLimitedSize(workers, capacity int) amboy.Queue {
	return newBounded(LocalOptions{NumWorkers: workers, Capacity: capacity})
}

// NewLocalPriority is NewLocalLimitedSize for a queue that can be filled before
// it is started, so that the job with the highest priority of all runs first.
func NewLocalPriority(workers, capacity int) amboy.Queue {
	return newBounded(LocalOptions{NumWorkers: workers, Capacity: capacity, PutBeforeStart: true})
}

// NewLocalOrdered is NewLocalPriority for jobs that depend on each other: until
// the queue is started they may be put in any order. Start returns an error
// while a job depends on one that was not put.
func NewLocalOrdered(workers, capacity int) amboy.Queue {
	return newBounded(LocalOptions{NumWorkers: workers, Capacity: capacity, PutBeforeStart: true, ForwardEdges: true})
}

// newBounded makes a queue whose constructor has no error to return: a queue
// with invalid options refuses to start.
func newBounded(opts LocalOptions) *local {
	err := opts.Validate()
	if err == nil && opts.Capacity == 0 {
		err = errors.New("invalid local queue options: capacity must be at least 1 (is 0)")
	}
	return newLocal(opts, err)
}

// local is the queue of jobs by reference.
type local struct {
	lifecycle
	opts    LocalOptions
	invalid error // why the queue can't be used, where its options are not valid

	mu       sync.Mutex
	schedule schedule.Schedule[amboy.Job]
	workers  wait.Line // in Next
	putters  wait.Line // in Put, for room
	waking   bool      // a worker was woken, and has not looked yet
	complete completion
	timer    wakeTimer
}

type localEntry = schedule.Entry[amboy.Job]

func newLocal(opts LocalOptions, invalid error) *local {
	q := &local{lifecycle: newLifecycle("local"), opts: opts, invalid: invalid}
	q.schedule.KeepFinished = opts.KeepFinished
	q.schedule.ForwardEdges = opts.ForwardEdges
	q.timer.fire = q.advance
	q.runner = pool.NewLocalWorkers(opts.NumWorkers, q)
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
	return q.start(ctx, q.wakeAll)
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

func (q *local) Close(ctx context.Context) { q.close(ctx, q.wakeAll) }

// wakeAll wakes everybody who waits on the queue, to see that it stopped.
func (q *local) wakeAll() {
	q.mu.Lock()
	woken := append(q.workers.TakeAll(), q.putters.TakeAll()...)
	q.mu.Unlock()
	for _, w := range woken {
		w.Wake()
	}
	q.timer.stop()
}

func (q *local) Put(ctx context.Context, j amboy.Job) error {
	e, err := q.newEntry(j)
	if err != nil {
		return err
	}
	return q.put(ctx, e)
}

func (q *local) PutMany(ctx context.Context, jobs []amboy.Job) error {
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
	for _, err := range cycles {
		errs = append(errs, err)
	}
	return amboy.CollateWriteErrors(errs)
}

// newEntry checks a job that is to be put.
func (q *local) newEntry(j amboy.Job) (*localEntry, error) {
	if q.invalid != nil {
		return nil, fmt.Errorf("queue %q: %w", q.id, q.invalid)
	}
	if err := amboy.ValidateJob(j); err != nil {
		return nil, err
	}
	times := j.TimeInfo()
	e := &localEntry{
		Job:           j,
		ID:            j.ID(),
		Priority:      amboy.PriorityOf(j),
		WaitUntil:     times.WaitUntil,
		DispatchBy:    times.DispatchBy,
		Scopes:        j.Scopes(),
		EnqueueScopes: j.EnqueueScopes(),
	}
	if m := j.Dependency(); m != nil {
		e.Edges = m.Edges()
	}
	return e, nil
}

// put adds an entry, waiting for room where there is none. Who came first gets
// room first.
func (q *local) put(ctx context.Context, e *localEntry) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("putting job %q: %w", e.ID, err)
	}
	for inTurn := false; ; inTurn = true {
		q.mu.Lock()
		err := q.accepts(q.opts.PutBeforeStart)
		if err == nil && q.mustWait(e, inTurn) {
			room := q.putters.Join()
			q.mu.Unlock()
			err = q.await(ctx, &q.putters, room)
			if err != nil {
				return fmt.Errorf("putting job %q: waiting for room in the queue: %w", e.ID, err)
			}
			continue
		}
		if err == nil {
			err = q.add(e)
		}
		worker, putter := q.wakeWorker(), q.wakePutter()
		q.mu.Unlock()
		worker.Wake()
		putter.Wake()
		if err != nil {
			return fmt.Errorf("putting job %q: %w", e.ID, err)
		}
		return nil
	}
}

// mustWait tells whether an entry must wait for room. One whose ID is taken need
// not, as it will be refused.
func (q *local) mustWait(e *localEntry, inTurn bool) bool {
	if q.hasRoom(inTurn) {
		return false
	}
	_, taken := q.schedule.Get(e.ID)
	return !taken
}

// hasRoom tells whether a job can be added by somebody whose turn it is, or who
// just came.
func (q *local) hasRoom(inTurn bool) bool {
	if q.opts.Capacity == 0 {
		return true
	}
	return q.schedule.Pending() < q.opts.Capacity && (inTurn || q.putters.Len() == 0)
}

// add adds an entry to the schedule.
func (q *local) add(e *localEntry) error {
	now := time.Now()
	marked := markCreated(e.Job, now)
	if err := q.schedule.Add(e, now); err != nil {
		if marked {
			unmarkCreated(e.Job)
		}
		return err
	}
	q.setTimer()
	return nil
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
	if q.waking || q.schedule.Ready() == 0 {
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
	expired := q.schedule.Advance(time.Now())
	q.setTimer()
	worker, putter := q.wakeWorker(), q.wakePutter()
	q.mu.Unlock()
	worker.Wake()
	putter.Wake()
	for _, e := range expired {
		markExpired(e.Job)
		q.finish(e)
	}
}

func (q *local) Next(ctx context.Context) amboy.Job {
	for {
		e := q.take(ctx)
		if e == nil {
			return nil
		}
		if q.mayRun(e) {
			markRunning(e.Job, q.id, time.Now())
			return e.Job
		}
	}
}

// take returns the next entry to run, nil when ctx or the queue ends.
func (q *local) take(ctx context.Context) *localEntry {
	q.mu.Lock()
	for ctx.Err() == nil && !q.isStopped() {
		if e := q.schedule.Next(); e != nil {
			worker, putter := q.wakeWorker(), q.wakePutter()
			q.mu.Unlock()
			worker.Wake()
			putter.Wake()
			return e
		}
		w := q.workers.Join()
		q.mu.Unlock()
		if q.await(ctx, &q.workers, w) != nil {
			return nil
		}
		q.mu.Lock()
		q.workers.Reuse(w)
		q.waking = false
	}
	worker := q.wakeWorker()
	q.mu.Unlock()
	worker.Wake()
	return nil
}

// mayRun asks the dependency of a job that was taken. Where the job is not to
// run it is ended, or waits.
func (q *local) mayRun(e *localEntry) bool {
	state, reason := consult(e.Job.Dependency(), e.Failed())
	switch state {
	case dependency.Ready:
		return true
	case dependency.Blocked:
		q.postpone(e)
	case dependency.Unresolved:
		e.Job.AddError(reason)
		q.finish(e)
	case dependency.Passed:
		q.finish(e)
	}
	return false
}

func (q *local) postpone(e *localEntry) {
	now := time.Now()
	q.mu.Lock()
	e.Backoff = nextRecheck(e.Backoff)
	q.schedule.Release(e, now.Add(e.Backoff), now)
	q.setTimer()
	worker := q.wakeWorker()
	q.mu.Unlock()
	worker.Wake()
}

// Release takes a job back whose run was interrupted.
func (q *local) Release(_ context.Context, j amboy.Job) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("releasing a job of queue %q: the job must not be nil", q.id)
	}
	forgetRun(j)
	q.mu.Lock()
	e, err := q.running(j.ID())
	var worker *wait.Waiter
	if err == nil {
		q.schedule.Release(e, time.Time{}, time.Now())
		worker = q.wakeWorker()
	}
	q.mu.Unlock()
	worker.Wake()
	if err != nil {
		return fmt.Errorf("releasing job %q: %w", j.ID(), err)
	}
	return nil
}

// running returns the entry of a job that runs.
func (q *local) running(id string) (*localEntry, error) {
	e, ok := q.schedule.Get(id)
	if !ok {
		return nil, amboy.NewJobNotFoundErrorf("queue %q has no job %q", q.id, id)
	}
	if e.Place() != schedule.Running {
		return nil, fmt.Errorf("it is not running: %w", amboy.ErrLeaseLost)
	}
	return e, nil
}

// Complete ends a job. One that is not running yet never will.
func (q *local) Complete(_ context.Context, j amboy.Job) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("completing a job of queue %q: the job must not be nil", q.id)
	}
	q.mu.Lock()
	e, ok := q.schedule.Get(j.ID())
	ended := ok && e.Place() == schedule.Finished
	q.mu.Unlock()
	switch {
	case !ok:
		return amboy.NewJobNotFoundErrorf("completing job %q: queue %q does not have it", j.ID(), q.id)
	case ended:
		return fmt.Errorf("completing job %q: it has ended already: %w", j.ID(), amboy.ErrLeaseLost)
	}
	q.finish(e)
	return nil
}

// finish ends a job for good.
func (q *local) finish(e *localEntry) {
	if e.Job.RetryInfo().NeedsRetry {
		doNotRetry(e.Job) // this kind of queue does not retry
	}
	now := time.Now()
	succeeded := markComplete(e.Job, now)

	q.mu.Lock()
	q.schedule.Finish(e, succeeded, now)
	q.setTimer()
	q.complete.ended(e.ID, q.schedule.Idle())
	worker, putter := q.wakeWorker(), q.wakePutter()
	q.mu.Unlock()
	worker.Wake()
	putter.Wake()
}

func (q *local) Get(_ context.Context, id string) (amboy.Job, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e, ok := q.schedule.Get(id)
	if !ok {
		return nil, false
	}
	return e.Job, true
}

// Save has nothing to write, because the queue holds the job itself. It returns
// an error for a job that is not in the queue.
func (q *local) Save(ctx context.Context, j amboy.Job) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("saving a job in queue %q: the job must not be nil", q.id)
	}
	if _, ok := q.Get(ctx, j.ID()); !ok {
		return amboy.NewJobNotFoundErrorf("saving job %q: queue %q does not have it", j.ID(), q.id)
	}
	return nil
}

func (q *local) Stats(context.Context) amboy.QueueStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.schedule.Stats()
}

func (q *local) Results(ctx context.Context) <-chan amboy.Job {
	q.mu.Lock()
	var jobs []amboy.Job
	for e := range q.schedule.Finished {
		jobs = append(jobs, e.Job)
	}
	q.mu.Unlock()
	return stream(ctx, &q.lifecycle, jobs, func(j amboy.Job) amboy.Job { return j })
}

func (q *local) JobInfo(ctx context.Context) <-chan amboy.JobInfo {
	type seen struct {
		job   amboy.Job
		place schedule.Place
		block schedule.Block
	}
	q.mu.Lock()
	jobs := make([]seen, 0, q.schedule.Len())
	for e := range q.schedule.All {
		jobs = append(jobs, seen{e.Job, e.Place(), e.Block()})
	}
	q.mu.Unlock()
	return stream(ctx, &q.lifecycle, jobs, func(s seen) amboy.JobInfo {
		return infoAt(s.job, time.Now(), func(status *amboy.JobStatusInfo) {
			schedule.Describe(status, s.place, s.block)
		})
	})
}

// WaitComplete waits until nothing is pending or running.
func (q *local) WaitComplete(ctx context.Context) bool {
	q.mu.Lock()
	done := q.complete.untilIdle(q.schedule.Idle())
	q.mu.Unlock()
	return q.waitFor(ctx, done)
}

// WaitJobComplete waits until a job ended.
func (q *local) WaitJobComplete(ctx context.Context, id string) bool {
	q.mu.Lock()
	e, ok := q.schedule.Get(id)
	if !ok {
		q.mu.Unlock()
		return false
	}
	done := q.complete.untilEnded(id, e.Place() == schedule.Finished)
	q.mu.Unlock()
	return q.waitFor(ctx, done)
}
