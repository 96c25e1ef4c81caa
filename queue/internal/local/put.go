package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"unique"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/queue/internal/jobstate"
	"github.com/mongodb/amboy/queue/internal/lifecycle"
	"github.com/mongodb/amboy/queue/internal/schedule"
	"github.com/mongodb/amboy/queue/internal/wait"
)

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
		Job:        localJob{job: j, lists: listsOf(j)},
		ID:         j.ID(),
		Type:       q.typeHandle(j.Type().Name),
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
	if !e.Job.preset {
		e.Edges = e.Job.edges()
	}
	return e, nil
}

// typeHandle returns the handle of the name of a type. It keeps the latest one, because consecutive jobs
// often have the same type, and making a handle would be the longest step of a Put into an idle queue.
func (q *Queue) typeHandle(name string) unique.Handle[string] {
	if latest := q.latestType.Load(); latest != nil && latest.Value() == name {
		return *latest
	}
	handle := unique.Make(name)
	q.latestType.Store(&handle)
	return handle
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
			err = q.addOrDrop(e)
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

// listsOf asks the dependency of a job, which may call the queue.
func listsOf(j amboy.Job) *jobLists {
	lists := jobLists{tags: amboy.TagsOf(j)}
	if m := j.Dependency(); m != nil {
		lists.edges = m.Edges()
	}
	if len(lists.tags)+len(lists.edges) == 0 {
		return nil
	}
	kept := lists // only this copy is allocated
	return &kept
}

// edges returns the edges that the job had when it was put.
func (j *localJob) edges() []string {
	if j.lists == nil {
		return nil
	}
	return j.lists.edges
}

// addOrDrop is add, but if the job panics, it removes the entry. If the job ends this goroutine, it also
// releases the lock.
func (q *Queue) addOrDrop(e *localEntry) error {
	return contain.Broken(func() error { return q.add(e) }, func(broken error) error {
		q.dropUnfinished(e)
		if errors.Is(broken, contain.ErrExited) {
			q.unlock()
		}
		return broken
	})
}

// dropUnfinished removes an entry whose job broke while the entry was added. The caller holds the lock.
func (q *Queue) dropUnfinished(e *localEntry) {
	if added, ok := q.schedule.Get(e.ID); !ok || added != e {
		return
	}
	q.finished(e, false, q.now())
	if _, kept := q.schedule.Get(e.ID); kept {
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
	if e.Job.lists != nil {
		q.tags.add(e.ID, e.Job.lists.tags)
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
	q.jobArrived()
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

// wakePutter returns the Put to wake, or nil if no Put waits or the queue is full.
func (q *Queue) wakePutter() *wait.Waiter {
	if q.putters.Len() == 0 || !q.hasRoom(true) {
		return nil
	}
	q.wokenPutters++
	return q.putters.TakeFirst()
}
