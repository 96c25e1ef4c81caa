package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/mongodb/amboy/queue/driver"
)

// group contains the indexes of the items of a call that concern one queue.
type group struct {
	queue string
	items []int
}

func (g *group) name() string { return g.queue }

// byQueue groups items by their queues, in the order of the first item of each queue.
func byQueue(n int, queueOf func(i int) (queue string, wanted bool)) (groups []*group) {
	for i := range n {
		queue, wanted := queueOf(i)
		if !wanted {
			continue
		}
		at := slices.IndexFunc(groups, func(g *group) bool { return g.queue == queue })
		if at < 0 {
			at = len(groups)
			groups = append(groups, &group{queue: queue})
		}
		groups[at].items = append(groups[at].items, i)
	}
	return groups
}

// changedAtOnce is the maximum number of records that are changed one by one in one transaction,
// so that other changes of the queue do not wait long.
const changedAtOnce = 16

// eachOf changes items of one queue one by one. It sets isDone and the error of each item that it
// has changed or refused. If waits are bounded and the queue stays locked, the items that are left
// get an error, and are done too. If the queue does not exist, its key is 0, and it has no records. expected returns the
// name of the record of an item, and the scopes that its change is likely to concern; nil if nothing is to be read for
// several items at once.
func (d *Driver) eachOf(ctx context.Context, bounded bool, queue string, items []int, errs []error, isDone []bool,
	expected func(i int) (name string, scopes []string),
	change func(c *changes, queue queueKey, i int) (refusal, err error),
) error {
	key, _, err := d.findQueue(ctx, d.reader(), queue)
	if err != nil {
		return d.failed(ctx, err, false)
	}
	key.name = queue
	for len(items) > 0 {
		some := items[:min(changedAtOnce, len(items))]
		refusals := make([]error, len(some))
		run := func(c *changes) error {
			if failure := c.expect(key, some, expected); failure != nil {
				return failure
			}
			for n, i := range some {
				var failure error
				if refusals[n], failure = change(c, key, i); failure != nil {
					return failure
				}
			}
			return nil
		}
		locked := false
		if bounded {
			locked, err = d.transactUnlessLocked(ctx, key.id, run)
		} else {
			err = d.transact(ctx, key.id, run)
		}
		if err == nil && locked {
			for _, i := range items {
				errs[i], isDone[i] = fmt.Errorf("changing jobs of queue %q: %w", queue, driver.ErrBlocked), true
			}
			return nil
		}
		if err != nil {
			return err
		}
		for n, i := range some {
			errs[i], isDone[i] = refusals[n], true
		}
		items = items[len(some):]
	}
	return nil
}

// expect reads what the changes of some items need, in one round trip if their scopes are as expected.
func (c *changes) expect(queue queueKey, items []int, expected func(i int) (name string, scopes []string)) error {
	if expected == nil {
		return nil
	}
	var names, ids, scopes []string
	for _, i := range items {
		name, some := expected(i)
		if !isStorable(name) {
			continue
		}
		names, ids, scopes = append(names, name), append(ids, idOfName(queue.name, name)), append(scopes, some...)
	}
	c.found = map[string]*job{}
	c.ask(findByNames, func(r *row) error {
		c.found[names[r.integer()-1]] = c.readJob(r)
		return nil
	}, queue.id, names, ids)
	scopes = slices.DeleteFunc(scopes, func(name string) bool { return !isStorable(name) })
	c.askScopes(queue.id, scopes, len(items))
	if err := c.send(); err != nil {
		return err
	}
	for _, j := range c.found {
		scopes = append(scopes, j.AllScopes()...)
	}
	return c.know(queue.id, scopes) // if more than expected
}

// one changes one item.
func (d *Driver) one(ctx context.Context, queue string, change func(c *changes, queue queueKey) (refusal, err error)) error {
	errs := make([]error, 1)
	err := d.eachOf(ctx, false, queue, []int{0}, errs, make([]bool, 1), nil, func(c *changes, queue queueKey, _ int) (refusal, err error) {
		return change(c, queue)
	})
	if err == nil {
		err = errs[0]
	}
	if err == nil {
		d.changed(driver.In(queue))
	}
	return err
}
