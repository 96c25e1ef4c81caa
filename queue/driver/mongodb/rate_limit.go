package mongodb

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/mongodb/grip/message"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/rate"
)

// The tokens of a queue with a rate are in a document of its own, which is not announced to other
// processes. A claim reserves tokens with one command before it takes candidates, and gives back
// unused ones. If the answer to a command is lost, its tokens are too.

// rateKey returns the _id of the bucket of a queue.
func rateKey(queue string) string { return "rate/" + queue }

// bucketDocument is a rate.Bucket after a reservation. Its times are milliseconds of the
// server's clock since 1970.
type bucketDocument struct {
	From    float64 `bson:"from"`    // the bucket
	Now     float64 `bson:"now"`     // when the reservation was made
	Granted int     `bson:"granted"` // the number of tokens that it got
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// reserve takes up to n tokens of a bucket.
func (d *Driver) reserve(ctx context.Context, key string, r amboy.Rate, n int) (stored bucketDocument, err error) {
	interval := milliseconds(rate.Interval(r))
	op := func(name string, args ...any) bson.D { return field(name, bson.A(args)) }
	set := func(name string, value any) bson.D { return field("$set", field(name, value)) }
	// See rate.Bucket, which does the same.
	reservation := mongo.Pipeline{
		set("now", op("$subtract", serverNow, primitive.DateTime(0))),
		set("from", op("$ifNull", "$from", op("$subtract", "$now", interval))),
		set("from", op("$cond", op("$gt", "$from", op("$add", "$now", milliseconds(rate.MaxAhead))), "$now",
			op("$max", "$from", op("$subtract", "$now", milliseconds(rate.Capacity(r)))))),
		set("granted", op("$max", 0, op("$min", n, r.BurstOrDefault(), field("$floor",
			op("$add", rate.Epsilon, op("$multiply", r.PerSecond/1000, op("$subtract", "$now", "$from"))))))),
		set("from", op("$add", "$from", op("$multiply", "$granted", interval))),
	}
	opts := options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)
	err = attempts(ctx, func() error {
		return d.control.FindOneAndUpdate(ctx, field("_id", key), reservation, opts).Decode(&stored)
	}, mongo.IsDuplicateKeyError)
	if err != nil {
		return stored, fmt.Errorf("reserving %d starts of %s: %w", n, key, err)
	}
	return stored, nil
}

// wait returns how long to wait for more tokens.
func (b bucketDocument) wait(r amboy.Rate) time.Duration {
	return rate.Wait(r, time.Duration(math.Floor((b.Now-b.From)*float64(time.Millisecond))))
}

// giveBack returns tokens of a bucket that were not used.
func (d *Driver) giveBack(ctx context.Context, key string, r amboy.Rate, n int) {
	_, err := d.control.UpdateOne(ctx, field("_id", key),
		field("$inc", field("from", -float64(n)*milliseconds(rate.Interval(r)))))
	if err != nil {
		logging.Warning(ctx, message.Fields{
			"message":    "could not give back unused starts of a queue with a rate, which are lost",
			"collection": d.jobs.Name(),
			"bucket":     key,
			"starts":     n,
			"error":      err.Error(),
		})
	}
}

// dropBucket removes the bucket of a rate that does not exist any more.
func (d *Driver) dropBucket(ctx context.Context, key string) error {
	_, err := d.control.DeleteOne(ctx, field("_id", key))
	if err != nil {
		return unknown(fmt.Errorf("removing the unused starts of the rate: %w", err))
	}
	return nil
}

// findTokens leaves out the queues that have used up their rates. A reservation is a write for each queue, so if
// there are several queues, their buckets are read first, with one command.
func (c *claim) findTokens(ctx context.Context, v *view) error {
	for _, demand := range c.req.Queues {
		delete(c.waits, demand.Queue)
	}
	keys, queues := bson.A{}, map[string]string{}
	for queue, control := range v.controls {
		room, limited := c.room[queue]
		if control.Rate == nil || control.IsStopped() || len(v.ready[queue]) == 0 || limited && room <= 0 {
			continue
		}
		key := rateKey(queue)
		keys, queues[key] = append(keys, key), queue
	}
	if len(keys) < 2 {
		return nil
	}
	err := c.pipeBranches(ctx, []branch{c.buckets(keys)}, func(raw bson.Raw) {
		key, bucket, now, isBucket := readBucket(raw)
		queue := queues[key]
		if !isBucket || bucket.IsAhead(now) { // a reservation sets it back
			return
		}
		if r := *v.controls[queue].Rate; bucket.Tokens(r, now) == 0 {
			c.room[queue] = 0
			c.noteWait(queue, bucket.Wait(r, now))
		}
	})
	if err != nil {
		return fmt.Errorf("reading the buckets of %d queues: %w", len(keys), err)
	}
	return nil
}

// buckets returns the branch that reads buckets, with the time by the server's clock.
func (d *Driver) buckets(keys bson.A) branch {
	return branch{collection: d.control.Name(), stages: bson.A{
		match(field("_id", field("$in", keys))),
		field("$set", field("now", field("$subtract", bson.A{serverNow, primitive.DateTime(0)}))),
	}}
}

// readBucket reads a result of that branch; isBucket is false for results of other branches.
func readBucket(raw bson.Raw) (key string, bucket rate.Bucket, now int64, isBucket bool) {
	key, isBucket = raw.Lookup("_id").StringValueOK()
	var stored bucketDocument
	if !isBucket || bson.Unmarshal(raw, &stored) != nil {
		return "", 0, 0, false
	}
	return key, rate.Bucket(stored.From * float64(time.Millisecond)), int64(stored.Now * float64(time.Millisecond)), true
}

// noteWait notes how long a queue waits for tokens.
func (c *claim) noteWait(queue string, wait time.Duration) {
	if c.waits == nil {
		c.waits = map[string]time.Duration{}
	}
	c.waits[queue] = wait
}

// reserveStarts reserves tokens for the candidates of the queues with a rate. giveBack must be
// called when candidates were taken.
func (c *claim) reserveStarts(ctx context.Context, v *view) (giveBack func(context.Context), err error) {
	if !v.hasRates() {
		return func(context.Context) {}, nil
	}
	reserved := map[string]int{}
	before := c.startedIn()
	giveBack = func(ctx context.Context) {
		for queue, n := range reserved {
			if unused := n - (c.startedIn()[queue] - before[queue]); unused > 0 {
				c.giveBack(ctx, rateKey(queue), *v.controls[queue].Rate, unused)
			}
		}
	}
	for queue, control := range v.controls {
		want := min(len(v.ready[queue]), c.left[queue], c.req.Limit-c.ready)
		room, limited := c.room[queue]
		if limited {
			want = min(want, room)
		}
		if control.Rate == nil || control.IsStopped() || want <= 0 {
			continue
		}
		bucket, err := c.reserve(ctx, rateKey(queue), *control.Rate, want)
		if err != nil {
			giveBack(ctx)
			return nil, err
		}
		reserved[queue], c.room[queue] = bucket.Granted, bucket.Granted
		if bucket.Granted < want {
			c.noteWait(queue, bucket.wait(*control.Rate))
		}
	}
	return giveBack, nil
}

// hasRates reports whether any queue of the view has a rate.
func (v *view) hasRates() bool {
	for _, control := range v.controls {
		if control.Rate != nil {
			return true
		}
	}
	return false
}

// startedIn counts the claimed records that have not expired, by queue.
func (c *claim) startedIn() map[string]int {
	n := map[string]int{}
	for _, g := range c.given {
		if g.inTime {
			n[g.doc.Group]++
		}
	}
	return n
}

// rateWaits returns the queues that have used up their tokens.
func (c *claim) rateWaits() (waits []driver.RateWait) {
	for queue, wait := range c.waits {
		waits = append(waits, driver.RateWait{Queue: queue, For: wait})
	}
	return waits
}
