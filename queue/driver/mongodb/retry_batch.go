package mongodb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy/internal/sleep"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/nameset"
)

// Concurrent calls of Retry share commands: a call that begins while another one is under way
// waits a moment for further ones, and they are made together. Those that need a transaction share
// one, or several smaller ones if that fails. What can't be made together is made alone, such as a
// call that is refused. No call waits for the end of one that began before.

const (
	// gatherRetries is how long calls gather.
	gatherRetries = 5 * time.Millisecond
	// maxRetries is the maximum number of calls that are made together.
	maxRetries = 500
	// maxSwapped is the maximum number of attempts that are replaced by one command without a
	// transaction, which is soon done.
	maxSwapped = 100
	// fewRetries is the number of calls up to which each is made alone after their transaction has
	// failed.
	fewRetries = 4
	// retriesLimit bounds calls that are made together. They also end when all callers have
	// left.
	retriesLimit = 30 * time.Second
)

// retryCall is a call of Retry.
type retryCall struct {
	ended, next *driver.Record
	done        chan struct{} // closed when err is set
	err         error

	old, waiting *document
}

// retryCalls gathers calls of Retry.
type retryCalls struct {
	mu        sync.Mutex
	underWay  int // calls that are made alone, and groups of others
	gathering *retryGroup
}

// retryGroup is a group of calls. retryCalls.mu guards it until it is taken.
type retryGroup struct {
	calls  []*retryCall
	taken  bool
	left   int                // the number of callers that have left since
	cancel context.CancelFunc // ends the calls
}

// join adds a call to the group that gathers. first is true if the caller must make the calls
// of the group. If no call is under way, group is nil, and the caller makes its own call. In
// both cases it calls leave afterwards.
func (r *retryCalls) join(c *retryCall) (group *retryGroup, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.underWay == 0:
		r.underWay++
		return nil, false
	case r.gathering == nil || len(r.gathering.calls) == maxRetries:
		r.underWay++
		r.gathering = &retryGroup{}
		first = true
	}
	r.gathering.calls = append(r.gathering.calls, c)
	return r.gathering, first
}

func (r *retryCalls) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.underWay--
}

// take ends the gathering of a group and returns its calls.
func (r *retryCalls) take(group *retryGroup, cancel context.CancelFunc) []*retryCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	group.taken, group.cancel = true, cancel
	if r.gathering == group {
		r.gathering = nil
	}
	return group.calls
}

// abandon is called if a caller leaves. It removes the call from a group that gathers, and
// ends the calls of a group that was taken if no caller is left. It reports whether the call
// was not begun.
func (r *retryCalls) abandon(group *retryGroup, c *retryCall) (unbegun bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !group.taken {
		group.calls = slices.DeleteFunc(group.calls, func(other *retryCall) bool { return other == c })
		return true
	}
	group.left++
	if group.left == len(group.calls) {
		group.cancel()
	}
	return false
}

// retryTogether makes a call of Retry, together with concurrent ones. left is called when the
// driver is no longer used for it.
func (d *Driver) retryTogether(ctx context.Context, ended, next *driver.Record, left func()) error {
	c := &retryCall{ended: ended, next: next, done: make(chan struct{})}
	group, first := d.retries.join(c)
	if group == nil {
		defer left()
		defer d.retries.leave()
		return d.retry(ctx, ended, next)
	}
	if first {
		go func() { // not bound to the caller's context: others wait for it too
			defer left()
			d.retryGroup(context.WithoutCancel(ctx), group)
		}()
	} else {
		defer left()
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		if d.retries.abandon(group, c) {
			return ctx.Err()
		}
		return unknown(ctx.Err())
	}
}

// retryGroup makes the calls that gather in a group.
func (d *Driver) retryGroup(ctx context.Context, group *retryGroup) {
	defer d.retries.leave()
	ctx, cancel := context.WithTimeout(ctx, retriesLimit)
	defer cancel()
	_ = sleep.For(ctx, gatherRetries) // the calls are made even if ctx has ended, so that each gets its error
	d.retryAll(ctx, d.retries.take(group, cancel))
}

// retryAll makes several calls, in groups whose bodies fit in one command.
func (d *Driver) retryAll(ctx context.Context, calls []*retryCall) {
	for len(calls) > 0 {
		n, size := 0, 0
		for n < len(calls) && (n == 0 || size+len(calls[n].next.Job.Raw()) <= maxCommandSize) {
			size += len(calls[n].next.Job.Raw())
			n++
		}
		d.retrySome(ctx, calls[:n])
		calls = calls[n:]
	}
}

func (d *Driver) retrySome(ctx context.Context, calls []*retryCall) {
	alone := calls
	if len(calls) > 1 {
		var err error
		if alone, err = d.retryAtOnce(ctx, calls); err != nil {
			for _, c := range calls {
				if !c.isDone() {
					c.end(err)
				}
			}
			return
		}
	}
	eachAtOnce(len(alone), func(i int) {
		c := alone[i]
		if c.waiting != nil {
			err := d.finishRetry(ctx, c)
			if !errors.Is(err, errMoved) {
				c.end(err)
				return
			}
		}
		c.end(d.retry(ctx, c.ended, c.next))
	})
}

func (c *retryCall) end(err error) {
	c.err = err
	close(c.done)
}

func (c *retryCall) isDone() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// finishRetry lets the next attempt of a call take over, which is stored.
func (d *Driver) finishRetry(ctx context.Context, c *retryCall) error {
	r, err := d.newRetrying(c.ended)
	if err != nil {
		return err
	}
	defer r.leave(ctx)
	return r.handOver(ctx, nil, c.waiting)
}

// retryAtOnce makes calls together, and returns those that must be made alone.
func (d *Driver) retryAtOnce(ctx context.Context, calls []*retryCall) (alone []*retryCall, err error) {
	r, err := d.newRetrying(nil)
	if err != nil {
		return nil, err
	}
	defer r.leave(ctx)
	together, alone, err := d.findPairs(ctx, calls)
	if err != nil {
		return nil, err
	}
	together, refused, err := r.insertHandovers(ctx, together)
	if err != nil {
		return nil, err
	}
	alone = append(alone, refused...)
	var plain, inTransaction []*retryCall
	for _, c := range together {
		if r.needsTransaction(c.old) {
			inTransaction = append(inTransaction, c)
		} else {
			plain = append(plain, c)
		}
	}
	plain, moved, err := r.stillAwaiting(ctx, plain)
	if err != nil {
		return nil, unknown(err) // the sweep completes them
	}
	alone = append(alone, moved...)
	for _, some := range append(slices.Collect(slices.Chunk(plain, maxSwapped)), inTransaction) {
		failed, err := r.swapTogether(ctx, some)
		if err != nil {
			return nil, err
		}
		alone = append(alone, failed...)
	}
	return alone, nil
}

// stillAwaiting reads the attempts that await their retries again, as handOver does, now that their
// next attempts are stored. It returns the calls whose attempts have not changed, and the others.
func (r *retrying) stillAwaiting(ctx context.Context, calls []*retryCall) (still, moved []*retryCall, err error) {
	if len(calls) == 0 {
		return nil, nil, nil
	}
	var changes []*change
	for _, c := range calls {
		changes = append(changes, &change{queue: c.ended.Group, name: c.ended.Name}, &change{queue: c.ended.Group, name: firstName(c.ended)})
	}
	found, err := r.find(ctx, changes)
	if err != nil {
		return nil, nil, fmt.Errorf("reading %d records again: %w", len(calls), err)
	}
	for _, c := range calls {
		old, first := found[key{c.ended.Group, c.ended.Name}], found[key{c.ended.Group, firstName(c.ended)}]
		isTaken := r.session == nil || first != nil && first.id == first.Name && first.keepsID() // otherwise it needs a transaction now
		if old != nil && old.retries() && old.Rev == c.old.Rev && isTaken {
			still = append(still, c)
		} else {
			moved = append(moved, c)
		}
	}
	return still, moved, nil
}

// swapTogether lets the next attempts of calls take over with one command. If that fails and they
// need a transaction, each half of the calls gets one of its own, so that the others are not made
// alone because of one that conflicts, or because a busy server takes too long. It returns the calls
// that must be made alone.
func (r *retrying) swapTogether(ctx context.Context, calls []*retryCall) (alone []*retryCall, err error) {
	if len(calls) == 0 {
		return nil, nil
	}
	s := newSwap(r)
	for _, c := range calls {
		s.add(c.ended, c.old, c.waiting)
	}
	outcome, err := s.run(ctx)
	switch {
	case outcome == swapped:
		r.follow(ctx, s.changes())
		for _, c := range calls {
			c.end(nil)
		}
		return nil, nil
	case ctx.Err() != nil:
		return nil, unknown(errors.Join(ctx.Err(), err)) // the sweep completes them
	case outcome == swapUnknown || len(calls) <= fewRetries || !s.inTransaction:
		return calls, nil
	}
	for _, half := range [][]*retryCall{calls[:len(calls)/2], calls[len(calls)/2:]} {
		some, err := r.swapTogether(ctx, half)
		if err != nil {
			return nil, err
		}
		alone = append(alone, some...)
	}
	return alone, nil
}

// findPairs reads the documents of records to be replaced, in the order in which their next
// attempts will be. It returns the calls that can be made together, and the others.
func (d *Driver) findPairs(ctx context.Context, calls []*retryCall) (together, alone []*retryCall, err error) {
	var ids bson.A
	for _, c := range calls {
		ids = append(ids, d.idsOf(c.ended.Group, c.ended.Name)...)
		ids = append(append(ids, d.idsOf(c.next.Group, c.next.Name)...), firstName(c.ended))
	}
	found, taken := map[key]*document{}, map[string]bool{}
	// With the bodies, so that those that did not change are not written again.
	err = d.each(ctx, field("_id", field("$in", ids)), options.Find(), func(doc *document) error {
		found[key{doc.Group, doc.Name}] = doc
		taken[doc.id] = true
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("reading %d records and their next attempts: %w", len(calls), err)
	}
	seen := map[key]bool{}
	for _, c := range calls {
		k := key{c.ended.Group, c.ended.Name}
		c.old = found[k]
		isTaken := taken[c.next.Name] || found[key{c.next.Group, c.next.Name}] != nil
		if c.old == nil || !c.old.awaits(c.ended) || seen[k] || isTaken || len(nameset.Without(c.next.EnqueueScopes, c.old.Scopes)) > 0 ||
			!d.isReplica && (c.old.holdsMore() || c.old.JobID == "") { // so that the time between the statements is shorter
			alone = append(alone, c)
			continue
		}
		if first := found[key{c.ended.Group, firstName(c.ended)}]; first != nil {
			c.old.idIsTaken = first.id == first.Name && first.keepsID()
		}
		seen[k] = true
		together = append(together, c)
	}
	slices.SortStableFunc(together, func(a, b *retryCall) int { return cmp.Compare(a.old.Order, b.old.Order) })
	return together, alone, nil
}

// insertHandovers writes the next attempts of calls without what they will take over. It
// returns the calls whose next attempts are stored and waiting, and those that were refused.
func (r *retrying) insertHandovers(ctx context.Context, calls []*retryCall) (stored, refused []*retryCall, err error) {
	var raws []bson.Raw
	for _, c := range calls {
		waiting := r.handoverOf(c.old, r.successor(c.old, c.next, nil))
		raw, failure := r.encode(waiting)
		if failure != nil || len(raw) > maxDocumentSize {
			refused = append(refused, c)
			continue
		}
		c.waiting = waiting
		raws, stored = append(raws, raw), append(stored, c)
	}
	if len(raws) == 0 {
		return nil, refused, nil
	}
	r.sweeper.watch()
	a, err := r.send(ctx, inserting, raws, false, batchLimit)
	if err == nil {
		err = a.unacknowledged
	}
	if err != nil {
		return nil, nil, failed(ctx, fmt.Errorf("inserting %d next attempts: %w", len(raws), err))
	}
	for _, e := range a.refused {
		c := stored[e.Index]
		c.waiting = nil
		refused = append(refused, c)
	}
	stored = slices.DeleteFunc(stored, func(c *retryCall) bool { return c.waiting == nil })
	for _, c := range stored {
		c.waiting.body = hashOf(c.waiting.Job)
		c.waiting.reguard()
	}
	return stored, refused, nil
}
