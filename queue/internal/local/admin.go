package local

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// localAdmin is the driver.Admin of a local queue, the view for management. It presents
// jobs as records. The queue is the only queue of its store, and its ID is its name.
//
// A record describes a job as it is now. Its Body and result are left out until the job
// has ended, because the job's owner may change them until then, and if the job can't be
// encoded. The queue keeps a fixed number of finished jobs and ignores ForgetAt.
type localAdmin struct{ *Queue }

// Admin returns the administrative view of the queue.
func (q *Queue) Admin() driver.Admin { return localAdmin{q} }

// Get implements driver.Admin.
func (a localAdmin) Get(ctx context.Context, queue, id string) (*driver.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("getting job %q: %w", id, err)
	}
	a.mu.Lock()
	e, ok := a.schedule.Get(id)
	if !ok || queue != a.ID() {
		a.mu.Unlock()
		return nil, amboy.NewJobNotFoundErrorf("there is no job %q in queue %q", id, queue)
	}
	v := a.view(e)
	a.mu.Unlock()
	var r *driver.Record
	err := contain.Panic(func() error {
		r = a.record(v)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("describing job %q: %w", id, err)
	}
	return r, nil
}

// Attempts implements driver.Admin. A local queue keeps only the latest attempt of a job,
// the job itself.
func (a localAdmin) Attempts(ctx context.Context, queue, id string) ([]*driver.Record, error) {
	r, err := a.Get(ctx, queue, id)
	switch {
	case amboy.IsJobNotFoundError(err):
		return nil, nil
	case err != nil:
		return nil, err
	case !r.RetryInfo.Retryable:
		return nil, nil
	default:
		return []*driver.Record{r}, nil
	}
}

// Stats implements driver.Admin.
func (a localAdmin) Stats(ctx context.Context, queue string) (amboy.QueueStats, error) {
	if err := ctx.Err(); err != nil {
		return amboy.QueueStats{}, fmt.Errorf("counting the jobs of queue %q: %w", queue, err)
	}
	if queue != a.ID() {
		return amboy.QueueStats{}, nil
	}
	return a.Queue.Stats(ctx), nil
}

// Queues implements driver.Admin.
func (a localAdmin) Queues(ctx context.Context, req driver.QueueRequest) ([]driver.QueueInfo, error) {
	err := cmp.Or(ctx.Err(), req.Validate())
	if err != nil {
		return nil, fmt.Errorf("describing queue %q: %w", a.ID(), err)
	}
	if a.ID() < req.From {
		return nil, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return []driver.QueueInfo{{
		Name: a.ID(), Control: a.control, Stats: a.schedule.Stats(),
		Scheduled: a.schedule.Scheduled(), Parked: a.schedule.Parked(),
	}}, nil
}

// SumQueues implements driver.Admin.
func (a localAdmin) SumQueues(ctx context.Context, busiest int) (totals driver.QueueTotals, err error) {
	infos, err := a.Queues(ctx, driver.QueueRequest{})
	for _, info := range infos {
		totals.Add(info, busiest)
	}
	return totals, err
}

// CountTypes implements driver.Admin. Its cost does not depend on the number of jobs.
func (a localAdmin) CountTypes(ctx context.Context) ([]driver.TypeCount, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("counting the jobs of queue %q by type: %w", a.ID(), err)
	}
	counts := schedule.TypeCounts{}
	a.mu.Lock()
	a.schedule.CountTypes(a.ID(), counts)
	a.mu.Unlock()
	return counts.Sorted(), nil
}

// OldestReady implements driver.Admin, as package memory does.
func (a localAdmin) OldestReady(ctx context.Context, queues []string, now time.Time) (map[string]time.Time, error) {
	err := ctx.Err()
	since := map[string]time.Time{}
	if err == nil && slices.Contains(queues, a.ID()) {
		var found []amboy.Job
		a.mu.Lock()
		for _, e := range []*localEntry{a.schedule.OldestReady(a.arrivals.All), a.schedule.OldestDue(now)} {
			if e != nil {
				found = append(found, e.Job.job)
			}
		}
		a.mu.Unlock()
		err = contain.Alone(func() error {
			for _, j := range found {
				driver.SetOldest(since, a.ID(), j.TimeInfo())
			}
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("finding the oldest ready job of queue %q: %w", a.ID(), err)
	}
	return since, nil
}

// Control implements driver.Admin. It returns an error for a change to a queue that does
// not exist.
func (a localAdmin) Control(ctx context.Context, queue string, change driver.ControlChange) (driver.Control, error) {
	err := ctx.Err()
	switch {
	case err != nil:
	case change.Validate() != nil:
		err = change.Validate()
	case change == driver.ControlChange{} && queue != a.ID():
		return driver.Control{}, nil
	case change == driver.ControlChange{}:
		return a.Queue.Control(ctx)
	case queue != a.ID():
		err = fmt.Errorf("the only queue is %q", a.ID())
	case a.IsStopped():
		err = amboy.ErrQueueClosed
	default:
		return a.setControl(change)
	}
	return driver.Control{}, fmt.Errorf("controlling queue %q: %w", queue, err)
}

// Keep implements driver.Admin.
func (a localAdmin) Keep(ctx context.Context, notes ...driver.Note) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("keeping %d notes: %w", len(notes), err)
	}
	return a.notes.Keep(notes...)
}

// KeepNew implements driver.Admin.
func (a localAdmin) KeepNew(ctx context.Context, note driver.Note, now time.Time) (kept driver.Note, isNew bool, err error) {
	if err = ctx.Err(); err != nil {
		return driver.Note{}, false, fmt.Errorf("keeping note %q of kind %q: %w", note.Key, note.Kind, err)
	}
	return a.notes.KeepNew(note, now)
}

// Replace implements driver.Admin.
func (a localAdmin) Replace(ctx context.Context, note driver.Note, old []byte) (replaced bool, err error) {
	if err = ctx.Err(); err != nil {
		return false, fmt.Errorf("replacing note %q of kind %q: %w", note.Key, note.Kind, err)
	}
	return a.notes.Replace(note, old)
}

// Notes implements driver.Admin.
func (a localAdmin) Notes(ctx context.Context, req driver.NoteRequest) ([]driver.Note, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("reading notes of kind %q: %w", req.Kind, err)
	}
	return a.notes.Notes(req)
}

// Drop implements driver.Admin.
func (a localAdmin) Drop(ctx context.Context, kind string, keys ...string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("dropping %d notes of kind %q: %w", len(keys), kind, err)
	}
	a.notes.Drop(kind, keys...)
	return nil
}

// Subscribe implements driver.Admin.
func (a localAdmin) Subscribe(notify func(driver.Change)) (cancel func()) {
	return a.changes.Subscribe(notify)
}
