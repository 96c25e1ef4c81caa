package queue

import (
	"context"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue/driver"
)

// LeaseEdit changes a leased job while it runs.
type LeaseEdit struct {
	// JobID is the ID of the job.
	JobID string
	Lease driver.Lease
	// Payload replaces the payload (see job.SetPayload); nil leaves it.
	Payload *job.Payload
	// MaxAttempts is the total number of attempts; 0 leaves it.
	MaxAttempts int
	// Metadata is changed; an empty value removes a key.
	Metadata map[string]string
	// Record is the job as it was just read; nil to read it.
	Record *driver.Record
}

// Edit changes a leased job. The error wraps amboy.ErrLeaseLost if the lease is not the
// job's any more.
func (l *Leases) Edit(ctx context.Context, edit LeaseEdit) error {
	err := l.edit(ctx, edit)
	if err != nil {
		return fmt.Errorf("changing job %q of queue %q, which is leased: %w", edit.JobID, edit.Lease.Queue, err)
	}
	return nil
}

func (l *Leases) edit(ctx context.Context, edit LeaseEdit) error {
	q, r, err := l.held(ctx, edit.JobID, edit.Lease, edit.Record)
	if err != nil {
		return err
	}
	j, err := q.ResolveSafely(r)
	if err != nil {
		return err
	}
	setMetadata(j, edit.Metadata)
	if edit.MaxAttempts > 0 {
		j.UpdateRetryInfo(amboy.JobRetryOptions{MaxAttempts: &edit.MaxAttempts})
	}
	err = contain.Panic(func() (err error) {
		if edit.Payload != nil {
			err = job.SetPayload(j, *edit.Payload)
		}
		if err == nil {
			r, err = q.Record(j)
		}
		if err == nil {
			err = q.Form.Seal(r)
		}
		return err
	})
	if err != nil {
		return err
	}
	r.Stamp = edit.Lease.Stamp
	return l.driver.Save(ctx, r)
}
