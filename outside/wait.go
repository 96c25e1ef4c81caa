package outside

import (
	"context"
	"fmt"

	"github.com/mongodb/amboy"
)

// WaitForEnd waits until a job has ended for good, and then returns true. It returns false
// and the error of ctx if that ends first, and false and an error if the job does not exist,
// the queue is not served or is closed, or the Dispatcher is closed. The job may be any job,
// also of Go workers. The store's notifications tell of an end in another process, within a
// fraction of a second while few callers wait. For each caller the job is also read every 30
// seconds, in case a notification was lost, and every second if the store has none.
func (d *Dispatcher) WaitForEnd(ctx context.Context, queueName, id string) (ended bool, err error) {
	if err = d.waitForEnd(ctx, queueName, id); err != nil {
		return false, fmt.Errorf("waiting for job %q of queue %q: %w", id, queueName, err)
	}
	return true, nil
}

func (d *Dispatcher) waitForEnd(ctx context.Context, queueName, id string) error {
	if err := d.serves(queueName); err != nil {
		return err
	}
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	if _, err := d.leases.Get(ctx, queueName, id); err != nil {
		return err
	}
	q, err := d.leases.Queue(ctx, queueName)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.open, cancel)() //nolint:contextcheck // It ends with the dispatcher too.
	waiter, ok := q.(amboy.CompletionWaiter)
	switch {
	case ok && waiter.WaitJobComplete(ctx, id):
		return nil
	case d.open.Err() != nil:
		return ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	}
	if _, err = d.leases.Get(ctx, queueName, id); err != nil {
		return err // It was removed before the wait began.
	}
	return amboy.ErrQueueClosed
}
