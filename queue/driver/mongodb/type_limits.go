package mongodb

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/rate"
	"github.com/mongodb/amboy/queue/internal/typelimit"
)

// A claim from a queue in which types have limits first reads what the limits leave, and queries
// no candidates of types that have no room. It reads that again under the lock of the queue (see
// findRoom), which all such claims take, before it chooses candidates.

// typeRateKey returns the _id of the bucket of a type.
func typeRateKey(queue, jobType string) string {
	return "type-rate/" + strconv.Quote(queue) + "/" + jobType
}

func (d *Driver) dropTypeBucket(ctx context.Context, queue, jobType string) error {
	return d.dropBucket(ctx, typeRateKey(queue, jobType))
}

// findTypeRooms reads what the limits of types leave, for the queues of a claim that had such
// limits when they were last claimed from.
func (c *claim) findTypeRooms(ctx context.Context) error {
	c.typeRooms = map[string]*typelimit.Room{}
	if !c.limits.any() {
		return nil
	}
	for _, demand := range c.req.Queues {
		limits := c.limits.ofTypes(demand.Queue)
		if len(limits) == 0 {
			continue
		}
		err := c.findTypeRoom(ctx, demand.Queue, limits)
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *claim) findTypeRoom(ctx context.Context, queue string, limits map[string]amboy.TypeLimit) error {
	running, err := c.countRunningTypes(ctx, queue, limits)
	if err != nil {
		return err
	}
	buckets, now, err := c.readTypeBuckets(ctx, queue, limits)
	if err != nil {
		return err
	}
	room := typelimit.NewRoom(limits, func(jobType string) int { return running[jobType] }, buckets, now)
	if _, wasSetBack := room.Settle(); wasSetBack { // the clock of the server
		for jobType := range buckets {
			_, err = c.reserve(ctx, typeRateKey(queue, jobType), *limits[jobType].Rate, 0)
			if err != nil {
				return err
			}
		}
	}
	room.RefuseAs(c.typeRooms[queue])
	c.typeRooms[queue] = room
	return nil
}

// countRunningTypes counts the running records of a queue by type, if the number of some type is
// limited.
func (d *Driver) countRunningTypes(ctx context.Context, queue string, limits map[string]amboy.TypeLimit) (map[string]int, error) {
	names := bson.A{}
	for jobType, limit := range limits {
		if limit.MaxRunning > 0 {
			names = append(names, jobType)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	counts := map[string]int{}
	err := d.pipe(ctx, bson.A{
		match(append(d.inQueue(queue, running...), bson.E{Key: "type", Value: field("$in", names)})),
		bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$type"}, {Key: "n", Value: field("$sum", 1)}}}},
	}, func(raw bson.Raw) {
		var count struct {
			Type string `bson:"_id"`
			N    int    `bson:"n"`
		}
		if bson.Unmarshal(raw, &count) == nil {
			counts[count.Type] = count.N
		}
	})
	if err != nil {
		return nil, fmt.Errorf("counting the running records of queue %q by type: %w", queue, err)
	}
	return counts, nil
}

// readTypeBuckets returns the buckets of the types of a queue that have a rate, and the time by the
// server's clock.
func (d *Driver) readTypeBuckets(ctx context.Context, queue string, limits map[string]amboy.TypeLimit) (buckets typelimit.Buckets, now int64, err error) {
	now = time.Now().UnixNano() // a new bucket has a token at any time
	keys, types := bson.A{}, map[string]string{}
	for jobType, limit := range limits {
		if limit.Rate != nil {
			key := typeRateKey(queue, jobType)
			keys, types[key] = append(keys, key), jobType
		}
	}
	buckets = typelimit.Buckets{}
	if len(keys) == 0 {
		return buckets, now, nil
	}
	cursor, err := d.control.Aggregate(ctx, bson.A{
		match(field("_id", field("$in", keys))),
		bson.D{{Key: "$set", Value: field("now", field("$subtract", bson.A{serverNow, primitive.DateTime(0)}))}},
	})
	var stored []struct {
		ID     string         `bson:"_id"`
		Bucket bucketDocument `bson:",inline"`
	}
	if err == nil {
		err = cursor.All(ctx, &stored)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("reading the rates of the types of queue %q: %w", queue, err)
	}
	for _, b := range stored {
		now = int64(b.Bucket.Now * float64(time.Millisecond))
		buckets[types[b.ID]] = rate.Bucket(b.Bucket.From * float64(time.Millisecond))
	}
	return buckets, now, nil
}

// reserveTypes takes the tokens of the chosen candidates, and leaves out those that get none.
// giveBack must be called when the candidates were taken.
func (c *claim) reserveTypes(ctx context.Context, v *view, chosen []*change) (kept []*change, giveBack func(context.Context), err error) {
	type typeKey struct{ queue, jobType string }
	wanted, reserved := map[typeKey]int{}, map[typeKey]int{}
	of := func(ch *change) typeKey { return typeKey{ch.queue, ch.before.Type} }
	rateOf := func(k typeKey) *amboy.Rate { return v.controls[k.queue].Types[k.jobType].Rate }
	for _, ch := range chosen {
		if k := of(ch); rateOf(k) != nil {
			wanted[k]++
		}
	}
	giveBack = func(ctx context.Context) {
		for _, ch := range kept {
			if ch.landed() && ch.after.runs() {
				reserved[of(ch)]--
			}
		}
		for k, unused := range reserved {
			if unused > 0 && rateOf(k) != nil {
				c.giveBack(ctx, typeRateKey(k.queue, k.jobType), *rateOf(k), unused)
			}
		}
	}
	granted := map[typeKey]int{}
	for k, n := range wanted {
		bucket, err := c.reserve(ctx, typeRateKey(k.queue, k.jobType), *rateOf(k), n)
		if err != nil {
			giveBack(ctx)
			return nil, nil, err
		}
		granted[k], reserved[k] = bucket.Granted, bucket.Granted
	}
	for _, ch := range chosen {
		if _, rated := wanted[of(ch)]; rated {
			if granted[of(ch)] == 0 {
				continue
			}
			granted[of(ch)]--
		}
		kept = append(kept, ch)
	}
	return kept, giveBack, nil
}

// noteTypeWaits notes how long queues wait for the rates of their types.
func (c *claim) noteTypeWaits() {
	for queue, room := range c.typeRooms {
		if _, waits := c.waits[queue]; waits {
			continue // for the rate of the queue
		}
		if wait := room.Wait(); wait > 0 {
			if c.waits == nil {
				c.waits = map[string]time.Duration{}
			}
			c.waits[queue] = wait
		}
	}
}

// refusedTypes returns the branches that find out whether there are candidates of the types whose
// rate lets none start.
func (l *claimQuery) refusedTypes(queue string) (branches []branch) {
	for jobType, limit := range l.limits.ofTypes(queue) {
		if limit.Rate == nil || l.rooms[queue].Left(jobType) > 0 {
			continue
		}
		var kinds []string
		for _, kind := range l.kinds.but(l.except) {
			if driver.TypeOfKey(kind) == jobType {
				kinds = append(kinds, kind)
			}
		}
		if len(kinds) == 0 {
			continue
		}
		which := slices.Concat(ready, field("line.kind", field("$in", values(kinds))))
		branches = append(branches, branch{collection: l.jobs.Name(), stages: bson.A{
			match(l.inQueue(queue, which...)),
			bson.D{{Key: "$limit", Value: 1}},
			project("refused", bson.D{{Key: "queue", Value: field("$literal", queue)}, {Key: "type", Value: field("$literal", jobType)}}),
		}})
	}
	return branches
}

// handBackExcessTypes hands back what was claimed beyond the limits of types, because another
// process claimed at the same time.
func (c *claim) handBackExcessTypes(ctx context.Context, v *view) error {
	for queue := range c.typeRooms {
		limits := v.controls[queue].Types
		running, err := c.countRunningTypes(ctx, queue, limits)
		if err != nil {
			return unknown(err)
		}
		for jobType, n := range running {
			if excess := n - limits[jobType].MaxRunning; excess > 0 {
				err = c.handBackLast(ctx, excess, func(g *given) bool { return g.doc.Group == queue && g.doc.Type == jobType })
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
