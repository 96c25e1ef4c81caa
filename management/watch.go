package management

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

const (
	// maxQuiet is the longest time between two reads of the queues. Not all stores notify of
	// all changes.
	maxQuiet = 10 * time.Second
	// maxWatched is the largest number of queues that are read one by one.
	maxWatched = MaxLimit
	// restPerRead is how many times as long as a read of the queues the time to the next one
	// is, at least.
	restPerRead = 10
	// maxRead is how long a read may take. The connection of a longer read is taken to be dead.
	maxRead = time.Minute
)

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
	for last := (watched{}); ; { // unlike any result, so that the first is yielded
		began := time.Now()
		now, err := i.readWatched(ctx, last)
		if err != nil {
			return err
		}
		took := time.Since(began)
		// More changes without a notification may follow, such as starts of jobs.
		busy := !reflect.DeepEqual(now, last)
		if busy && !yield(now.queues, nil) {
			return nil
		}
		last = now
		if !i.awaitChange(ctx, max(every, restPerRead*took), busy, changed) {
			return nil
		}
	}
}

// watched is what a watch compares. queues are all queues, or the busiest of more than maxWatched.
type watched struct {
	queues []Queue
	number int
	counts Counts // if not all queues are in queues
}

// readWatched reads the sums first if there were many queues at the last read.
func (i *inspector) readWatched(ctx context.Context, last watched) (watched, error) {
	ctx, cancel := context.WithTimeout(ctx, maxRead)
	defer cancel()
	if last.number > maxWatched {
		totals, err := i.sumQueues(ctx)
		if err != nil || totals.Queues > maxWatched {
			return watched{totals.Busiest, totals.Queues, totals.Counts}, err
		}
	}
	var infos []driver.QueueInfo
	var err error
	if len(i.store.Queues()) > 0 {
		infos, err = i.infos(ctx)
	} else {
		infos, err = i.store.QueueInfos(ctx, driver.QueueRequest{Limit: maxWatched + 1})
	}
	if err != nil {
		return watched{}, err
	}
	if len(infos) > maxWatched {
		totals, errSum := i.sumQueues(ctx)
		return watched{totals.Busiest, max(totals.Queues, len(infos)), totals.Counts}, errSum
	}
	queues, err := i.describeQueues(ctx, infos) // not nil
	return watched{queues: queues, number: len(queues)}, err
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
