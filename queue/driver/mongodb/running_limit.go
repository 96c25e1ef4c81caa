package mongodb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy/queue/driver"
)

// Processes claim one after the other from a queue with a limit of running records: a
// claim holds a lock in the control collection while it counts the running records and
// claims others. The lock ends by itself if its holder dies. A claim that finds that its
// lock ended too soon counts again, and hands back what exceeds the limit.

// roomLockTime is the maximum time that a lock lasts.
const roomLockTime = 2 * time.Second

// roomKey returns the _id of the lock of a queue.
func roomKey(queue string) string { return "room/" + queue }

// findRoom finds out how many more records may run of the queues that have a limit, and
// locks the queues that have room. unlock must be called; it reports whether no other
// process can have claimed meanwhile.
func (c *claim) findRoom(ctx context.Context, v *view) (unlock func(context.Context) (bool, error), err error) {
	var locked []string
	holder := primitive.NewObjectID().Hex()
	unlock = func(ctx context.Context) (bool, error) { return c.unlockRooms(ctx, locked, holder) }
	clear(c.room)
	err = c.countRooms(ctx, v, limitedQueues(v)...)
	if err != nil {
		return nil, err
	}
	err = c.findTokens(ctx, v)
	if err != nil {
		return nil, err
	}
	c.postpone(v)
	types := typeLimits{}
	for _, queue := range limitedQueues(v) {
		if room, isLimited := c.room[queue]; isLimited && room <= 0 {
			continue
		}
		if err = c.lockRoom(ctx, queue, holder); err != nil {
			break
		}
		locked = append(locked, queue)
		if v.hasLimitedTypes(queue) {
			types[queue] = v.controls[queue].Types
		}
	}
	if err == nil {
		err = c.countRooms(ctx, v, locked...)
	}
	if err == nil {
		err = c.readTypeRooms(ctx, types)
	}
	if err != nil {
		_, unlockErr := unlock(ctx)
		return nil, errors.Join(err, unlockErr)
	}
	return unlock, nil
}

// postpone leaves queues with limits to the next round, if there is one, of which this round would take no
// job, because it takes one of each queue in turn. Each lock, and the tokens of each rate, cost a command,
// and other processes wait for the locks.
func (c *claim) postpone(v *view) {
	most := max(c.req.Limit-c.ready, fewQueues)
	var postponed []driver.Demand
	for _, demand := range c.req.Queues {
		queue := demand.Queue
		control := v.controls[queue]
		room, isLimited := c.room[queue]
		switch {
		case len(v.ready[queue]) == 0 || control.IsStopped() || isLimited && room <= 0:
		case most > 0:
			most--
		case limitsRunning(control) || control.Rate != nil:
			delete(v.ready, queue)
			postponed = append(postponed, demand)
		}
	}
	c.others = append(postponed, c.others...)
}

// limitedQueues returns the queues that have candidates that a limit applies to, in the order in
// which all processes lock them.
func limitedQueues(v *view) (queues []string) {
	for queue, control := range v.controls {
		isLimited := control.MaxRunning > 0 && len(v.ready[queue]) > 0 || v.hasLimitedTypes(queue)
		if isLimited && !control.IsStopped() {
			queues = append(queues, queue)
		}
	}
	slices.Sort(queues)
	return queues
}

// hasLimitedTypes reports whether a queue has candidates of types with limits.
func (v *view) hasLimitedTypes(queue string) bool {
	limits := v.controls[queue].Types
	return len(limits) > 0 && slices.ContainsFunc(v.ready[queue], func(doc *document) bool {
		_, limited := limits[doc.Type]
		return limited
	})
}

// limitsRunning reports whether the number of running records, or of those of some type, is
// limited, or a type has a rate.
func limitsRunning(control driver.Control) bool {
	return control.MaxRunning > 0 || len(control.Types) > 0
}

// countRooms sets the rooms of the queues that have a MaxRunning.
func (c *claim) countRooms(ctx context.Context, v *view, queues ...string) error {
	queues = slices.DeleteFunc(slices.Clone(queues), func(queue string) bool { return v.controls[queue].MaxRunning == 0 })
	if len(queues) == 0 {
		return nil
	}
	running, err := c.countRunning(ctx, queues...)
	for _, queue := range queues {
		c.room[queue] = v.controls[queue].MaxRunning - running[queue]
	}
	return err
}

// lockRoom waits until it has the lock of a queue.
func (d *Driver) lockRoom(ctx context.Context, queue, holder string) error {
	end := serverTimeAfter(roomLockTime)
	// A lock that ends later than that was taken before the server's clock was set back.
	// This condition can't be part of the filter, because the filter of an upsert must
	// not contain an expression.
	isOver := either(
		field("$lt", bson.A{"$until", serverNow}),
		field("$gt", bson.A{"$until", end}),
	)
	ifOver := func(then, otherwise any) bson.D { return field("$cond", bson.A{isOver, then, otherwise}) }
	take := mongo.Pipeline{field("$set", bson.D{
		{Key: "holder", Value: ifOver(field("$literal", holder), "$holder")},
		{Key: "until", Value: ifOver(end, "$until")},
	})}
	opts := options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)
	for round := 1; ; round++ {
		var lock struct {
			Holder string `bson:"holder"`
		}
		err := d.control.FindOneAndUpdate(ctx, field("_id", roomKey(queue)), take, opts).Decode(&lock)
		if err == nil && lock.Holder == holder {
			return nil
		}
		// A duplicate key error means that another process has just created the lock.
		if err != nil && !mongo.IsDuplicateKeyError(err) {
			return fmt.Errorf("locking queue %q: %w", queue, err)
		}
		if err = pause(ctx, min(round, 5)); err != nil {
			return fmt.Errorf("waiting to lock queue %q: %w", queue, err)
		}
	}
}

// unlockRooms releases the locks and reports whether they were still held. It removes them, because there is one for each
// name of a queue that ever had a limit.
func (d *Driver) unlockRooms(ctx context.Context, queues []string, holder string) (held bool, err error) {
	if len(queues) == 0 {
		return true, nil
	}
	keys := make(bson.A, len(queues))
	for i, queue := range queues {
		keys[i] = roomKey(queue)
	}
	filter := bson.D{{Key: "_id", Value: field("$in", keys)}, {Key: "holder", Value: holder}}
	result, err := d.control.DeleteMany(ctx, filter)
	if err != nil {
		return false, unknown(fmt.Errorf("unlocking %d queues: %w", len(queues), err))
	}
	return int(result.DeletedCount) == len(queues), nil
}

// handBackExcess hands back what was claimed beyond the limit of a queue because another
// process claimed at the same time. If both hand back, the queue stays below its limit.
func (c *claim) handBackExcess(ctx context.Context, v *view) error {
	for queue := range c.room {
		mine := 0
		for _, g := range c.given {
			if g.inTime && g.doc.Group == queue {
				mine++
			}
		}
		if mine == 0 || v.controls[queue].MaxRunning == 0 {
			continue
		}
		running, err := c.countRunning(ctx, queue)
		if err != nil {
			return unknown(err)
		}
		excess := min(mine, running[queue]-v.controls[queue].MaxRunning)
		if excess <= 0 {
			continue
		}
		err = c.handBackLast(ctx, excess, func(g *given) bool { return g.doc.Group == queue })
		if err != nil {
			return err
		}
	}
	return c.handBackExcessTypes(ctx, v)
}

// handBackLast hands back the last n claimed documents that match.
func (c *claim) handBackLast(ctx context.Context, n int, matches func(*given) bool) error {
	var leases []driver.Lease
	for i := len(c.given) - 1; i >= 0 && len(leases) < n; i-- {
		if g := c.given[i]; g.inTime && matches(g) {
			leases = append(leases, g.doc.lease())
			c.given = slices.Delete(c.given, i, i+1)
			c.ready--
		}
	}
	errs, err := c.release(ctx, handBacksOf(leases))
	if err != nil {
		c.doubtful = append(c.doubtful, leases...)
		return unknown(err)
	}
	for i, err := range errs {
		if err != nil && !errors.Is(err, driver.ErrLeaseLost) {
			c.doubtful = append(c.doubtful, leases[i])
		}
	}
	return nil
}

// countRunning counts the running records of queues.
func (c *claim) countRunning(ctx context.Context, queues ...string) (map[string]int, error) {
	filter := running
	if c.opts.Grouped {
		filter = append(slices.Clip(running), bson.E{Key: "group", Value: field("$in", queues)})
	}
	counts := map[string]int{}
	err := c.pipe(ctx, bson.A{
		match(filter),
		field("$group", bson.D{{Key: "_id", Value: "$group"}, {Key: "n", Value: field("$sum", 1)}}),
	}, func(raw bson.Raw) {
		queue, _ := raw.Lookup("_id").StringValueOK() // null in a store of one queue
		n, _ := raw.Lookup("n").AsInt64OK()
		counts[queue] = int(n)
	})
	if err != nil {
		return nil, fmt.Errorf("counting the running records of queues %q: %w", queues, err)
	}
	return counts, nil
}
