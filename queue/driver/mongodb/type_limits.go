package mongodb

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/typelimit"
)

// A claim reads what the limits of types leave, with one command for all queues, and queries no
// candidates of types that have no room. It does so only for the queues in which the last claim met
// jobs of such types. In the other queues it queries no candidates of limited types; it only checks
// if there are any, and begins again if so. Before it chooses candidates, it reads again what the
// limits leave, under the locks of the queues (see findRoom), which all such claims take.

// typeRateKey returns the _id of the bucket of a type.
func typeRateKey(queue, jobType string) string {
	return "type-rate/" + strconv.Quote(queue) + "/" + jobType
}

func (d *Driver) dropTypeBucket(ctx context.Context, queue, jobType string) error {
	return d.dropBucket(ctx, typeRateKey(queue, jobType))
}

// typeLimits are limits of types, by queue.
type typeLimits map[string]map[string]amboy.TypeLimit

// findTypeRooms finds what the limits of types leave, for the queues of a claim that had such
// limits when they were last claimed from.
func (c *claim) findTypeRooms(ctx context.Context) error {
	c.typeRooms, c.unread = map[string]*typelimit.Room{}, map[string]bool{}
	if !c.limits.any() {
		return nil
	}
	met := typeLimits{}
	for _, demand := range c.req.Queues {
		queue := demand.Queue
		limits := c.limits.ofTypes(queue)
		switch {
		case len(limits) == 0:
		case c.limits.hasMet(queue):
			met[queue] = limits
		default:
			c.typeRooms[queue], c.unread[queue] = typelimit.NoRoom(limits), true
		}
	}
	return c.readTypeRooms(ctx, met)
}

// readTypeRooms reads what the limits of types leave.
func (c *claim) readTypeRooms(ctx context.Context, limits typeLimits) error {
	usage, err := c.readTypeUsage(ctx, limits, true)
	if err != nil {
		return err
	}
	for queue, limits := range limits {
		room := typelimit.NewRoom(limits, func(jobType string) int { return usage.running[queue][jobType] }, usage.buckets[queue], usage.now)
		if _, wasSetBack := room.Settle(); wasSetBack { // the clock of the server
			for jobType := range usage.buckets[queue] {
				_, err = c.reserve(ctx, typeRateKey(queue, jobType), *limits[jobType].Rate, 0)
				if err != nil {
					return err
				}
			}
		}
		room.RefuseAs(c.typeRooms[queue])
		c.typeRooms[queue] = room
	}
	return nil
}

// typeUsage is what is used of the limits of types.
type typeUsage struct {
	running map[string]map[string]int    // the numbers of running records of the types with MaxRunning, by queue
	buckets map[string]typelimit.Buckets // of the types with a rate, by queue
	now     int64                        // the time by the server's clock
}

// readTypeUsage reads what is used of limits, with one command.
func (d *Driver) readTypeUsage(ctx context.Context, limits typeLimits, rates bool) (*typeUsage, error) {
	// A new bucket has a token at any time.
	u := &typeUsage{running: map[string]map[string]int{}, buckets: map[string]typelimit.Buckets{}, now: time.Now().UnixNano()}
	var counted []bson.D
	keys := bson.A{}
	type queueAndType struct{ queue, jobType string }
	byKey := map[string]queueAndType{}
	for queue, limits := range limits {
		u.running[queue], u.buckets[queue] = map[string]int{}, typelimit.Buckets{}
		types := bson.A{}
		for jobType, limit := range limits {
			if limit.MaxRunning > 0 {
				types = append(types, jobType)
			}
			if limit.Rate != nil && rates {
				key := typeRateKey(queue, jobType)
				keys, byKey[key] = append(keys, key), queueAndType{queue, jobType}
			}
		}
		if len(types) > 0 {
			counted = append(counted, append(d.inQueue(queue, running...), bson.E{Key: "type", Value: field("$in", types)}))
		}
	}
	var branches []branch
	if len(counted) > 0 {
		branches = append(branches, branch{collection: d.jobs.Name(), stages: bson.A{
			match(either(counted...)),
			field("$group", bson.D{
				{Key: "_id", Value: bson.D{{Key: "queue", Value: "$group"}, {Key: "type", Value: "$type"}}},
				{Key: "n", Value: field("$sum", 1)},
			}),
		}})
	}
	if len(keys) > 0 {
		branches = append(branches, d.buckets(keys))
	}
	err := d.pipeBranches(ctx, branches, func(raw bson.Raw) {
		if key, bucket, now, isBucket := readBucket(raw); isBucket {
			of := byKey[key]
			u.now, u.buckets[of.queue][of.jobType] = now, bucket
			return
		}
		queue, _ := raw.Lookup("_id", "queue").StringValueOK() // missing in a store of one queue
		jobType, _ := raw.Lookup("_id", "type").StringValueOK()
		n, _ := raw.Lookup("n").AsInt64OK()
		if u.running[queue] != nil {
			u.running[queue][jobType] = int(n)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("reading what is used of the limits of types of %d queues: %w", len(limits), err)
	}
	return u, nil
}

// pipeBranches runs branches with one command, or none if there are none.
func (d *Driver) pipeBranches(ctx context.Context, branches []branch, visit func(bson.Raw)) error {
	if len(branches) == 0 {
		return nil
	}
	first := branches[0]
	pipeline := first.stages
	for _, b := range branches[1:] {
		pipeline = append(pipeline, union(b.collection, b.stages...))
	}
	if first.collection != d.jobs.Name() {
		cursor, err := d.control.Aggregate(ctx, pipeline)
		if err != nil {
			return err
		}
		return visitAll(ctx, cursor, visit)
	}
	return d.pipe(ctx, pipeline, visit)
}

// meetTypes records which queues have candidates of types with limits. It reports whether there
// are some in a queue for which it was not read what the limits leave.
func (c *claim) meetTypes(v *view) (unread bool) {
	left := map[string]bool{} // for the next round
	for _, demand := range v.others {
		left[demand.Queue] = true
	}
	for _, demand := range c.req.Queues {
		queue := demand.Queue
		limits := c.limits.ofTypes(queue)
		if len(limits) == 0 || left[queue] {
			continue
		}
		met := v.limited[queue] || slices.ContainsFunc(v.ready[queue], func(doc *document) bool {
			_, limited := limits[doc.Type]
			return limited
		})
		c.limits.setMet(queue, met)
		unread = unread || met && c.unread[queue]
	}
	return unread
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
			c.noteWait(queue, wait)
		}
	}
}

// limitedTypes returns the branches that find out whether ready jobs have types without room. Types whose
// rate lets none start have a branch each, because the claim must know for which of them to wait.
func (l *claimQuery) limitedTypes(queue string) []branch {
	limits, kinds := l.limits.ofTypes(queue), map[string][]string{}
	var full []string
	for _, kind := range l.kinds.but(l.except) {
		jobType := driver.TypeOfKey(kind)
		if limit, limited := limits[jobType]; !limited || l.rooms[queue].Left(jobType) > 0 {
			continue
		} else if limit.Rate != nil && !l.unread[queue] {
			kinds[jobType] = append(kinds[jobType], kind)
		} else {
			full = append(full, kind)
		}
	}
	some := func(kinds []string, result bson.D) branch {
		return branch{collection: l.jobs.Name(), stages: bson.A{
			match(l.inQueue(queue, slices.Concat(ready, field("line.kind", field("$in", values(kinds))))...)),
			bson.D{{Key: "$limit", Value: 1}},
			result,
		}}
	}
	literal := field("$literal", queue)
	var branches []branch
	if len(full) > 0 {
		branches = append(branches, some(full, project("limited", literal)))
	}
	for jobType, kinds := range kinds {
		branches = append(branches, some(kinds, project("refused", bson.D{{Key: "queue", Value: literal}, {Key: "type", Value: field("$literal", jobType)}})))
	}
	return branches
}

// handBackExcessTypes hands back what was claimed beyond the limits of types, because another
// process claimed at the same time.
func (c *claim) handBackExcessTypes(ctx context.Context, v *view) error {
	limits := typeLimits{}
	for _, g := range c.given {
		queue, jobType := g.doc.Group, g.doc.Type
		if limit := v.controls[queue].Types[jobType]; g.inTime && limit.MaxRunning > 0 {
			if limits[queue] == nil {
				limits[queue] = map[string]amboy.TypeLimit{}
			}
			limits[queue][jobType] = limit
		}
	}
	usage, err := c.readTypeUsage(ctx, limits, false)
	if err != nil {
		return unknown(err)
	}
	for queue, running := range usage.running {
		for jobType, n := range running {
			if excess := n - limits[queue][jobType].MaxRunning; excess > 0 {
				err = c.handBackLast(ctx, excess, func(g *given) bool { return g.doc.Group == queue && g.doc.Type == jobType })
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
