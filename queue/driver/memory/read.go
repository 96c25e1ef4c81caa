package memory

import (
	"context"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// Get implements driver.Driver.
func (d *Driver) Get(ctx context.Context, queue, id string) (*driver.Record, error) {
	if err := d.lockToRead(ctx); err != nil {
		return nil, err
	}
	defer d.unlock()
	if e := d.latest(queue, id); e != nil {
		return described(e), nil
	}
	return nil, amboy.NewJobNotFoundErrorf("there is no job %q in queue %q", id, queue)
}

// latest returns the entry of the last attempt of a job; nil if there is none.
func (d *Driver) latest(queue, id string) *entry {
	q := d.queues[queue]
	if q == nil {
		return nil
	}
	e, _ := q.schedule.Get(id)
	return e
}

// isLatest reports whether an entry is the last attempt of its job.
func isLatest(e *entry) bool {
	latest, ok := e.Job.queue.schedule.Get(e.ID)
	return ok && latest == e
}

// described returns a copy of an entry's record whose status shows the entry's place.
func described(e *entry) *driver.Record {
	r := e.Job.record
	place := e.Place()
	schedule.Describe(&r.Status, place, e.Block())
	if place == schedule.Parked || (place == schedule.Postponed && e.Job.reason != "") {
		r.Status.Reason = e.Job.reason
	}
	return &r
}

// stateOf returns the state of an entry's record.
func stateOf(e *entry, now time.Time) amboy.JobState {
	r := &e.Job.record
	info := amboy.JobInfo{Status: r.Status, Time: r.TimeInfo, Retry: r.RetryInfo}
	schedule.Describe(&info.Status, e.Place(), schedule.Block{})
	return amboy.StateOf(info, now)
}

// Attempts implements driver.Driver.
func (d *Driver) Attempts(ctx context.Context, queue, id string) ([]*driver.Record, error) {
	if err := d.lockToRead(ctx); err != nil {
		return nil, err
	}
	defer d.unlock()
	latest := d.latest(queue, id)
	if latest == nil || !latest.Job.record.RetryInfo.Retryable {
		return nil, nil
	}
	var attempts []*driver.Record
	retry := latest.Job.record.RetryInfo
	last := retry.CurrentAttempt
	for retry.CurrentAttempt = 0; retry.CurrentAttempt <= last; retry.CurrentAttempt++ {
		if e := d.byName(queue, driver.RecordName(queue, id, retry)); e != nil {
			attempts = append(attempts, described(e))
		}
	}
	return attempts, nil
}

// Stats implements driver.Driver.
func (d *Driver) Stats(ctx context.Context, queue string) (amboy.QueueStats, error) {
	if err := d.lockToRead(ctx); err != nil {
		return amboy.QueueStats{}, err
	}
	defer d.unlock()
	q := d.queues[queue]
	if q == nil {
		return amboy.QueueStats{}, nil
	}
	return q.schedule.Stats(), nil
}
