package management

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// maxQuiet is the longest time between two reads of the queues. Not all stores notify of
// all changes.
const maxQuiet = 10 * time.Second

func (i *inspector) Watch(ctx context.Context, every time.Duration) iter.Seq2[[]Queue, error] {
	return func(yield func([]Queue, error) bool) {
		var errEvery error
		if every < MinWatch || every > MaxWatch {
			errEvery = invalid("every", every.String(), fmt.Sprintf("must be from %s to %s", MinWatch, MaxWatch))
		}
		if err := i.check(errEvery); err != nil {
			yield(nil, fmt.Errorf("watching queues: %w", err))
			return
		}
		if err := i.watch(ctx, every, yield); err != nil && ctx.Err() == nil {
			yield(nil, fmt.Errorf("watching queues: %w", err))
		}
	}
}

// watch yields the queues as they are now, and after changes.
func (i *inspector) watch(ctx context.Context, every time.Duration, yield func([]Queue, error) bool) error {
	changed := make(chan struct{}, 1)
	cancel := i.store.Admin().Subscribe(func(driver.Change) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	defer cancel()
	last, err := i.queues(ctx)
	if err != nil {
		return err
	}
	if !yield(last, nil) {
		return nil
	}
	for busy := true; ; {
		if !i.awaitChange(ctx, every, busy, changed) {
			return nil
		}
		queues, err := i.queues(ctx)
		if err != nil {
			return err
		}
		// More changes without a notification may follow, such as starts of jobs.
		busy = !reflect.DeepEqual(queues, last)
		if busy && !yield(queues, nil) {
			return nil
		}
		last = queues
	}
}

// awaitChange waits for the minimum interval and then, unless the queues are busy, for a
// change. It returns false when ctx ends.
func (i *inspector) awaitChange(ctx context.Context, every time.Duration, busy bool, changed <-chan struct{}) bool {
	timer := time.NewTimer(every)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	}
	if busy || every >= maxQuiet {
		return true
	}
	timer.Reset(maxQuiet - every)
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-timer.C:
	}
	return true
}
