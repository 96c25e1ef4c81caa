// Package mongodb is a driver that keeps records in a MongoDB collection, which any
// number of processes may share.
package mongodb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mongodb/grip/message"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
	"go.mongodb.org/mongo-driver/mongo/readconcern"
	"go.mongodb.org/mongo-driver/mongo/readpref"
	"go.mongodb.org/mongo-driver/mongo/writeconcern"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/sightings"
)

// Driver keeps the records of queues in a collection. It is safe for concurrent use.
type Driver struct {
	opts      Options
	client    *mongo.Client
	ownClient bool
	jobs      *mongo.Collection
	control   *mongo.Collection // other documents: controls of queues, marks, duties and members
	notes     noteStore
	isReplica bool // the deployment has transactions and change streams
	// scanBatch and timedBatch are the constants of these names; tests set smaller ones.
	scanBatch, timedBatch int

	feed      *feed
	listening listening
	revs      *revisions // of the feed
	orders    orders
	barrier   *drainBarrier

	leases     leases
	opened     time.Time    // with its monotonic reading
	skipped    atomic.Int64 // the nanoseconds by which tests advance the clock
	seen       sightings.Log[lease]
	uncertain  uncertainLeases
	avoided    avoided
	contention contention
	// claimTimes are those of the queries of claims, workTimes those of Work, and surveyTimes those
	// of Survey.
	claimTimes, workTimes answerTimes
	surveyTimes           answerTimes
	hints                 hints
	limits                limits
	retries               retryCalls
	kinds                 kinds
	claimed               queueSet
	sweeper               sweeper
	transacted            transacted
	ends                  transactedEnds
	skew                  skew
	unindexed             atomic.Bool // the collection may have been dropped, and its indexes not built again
	announcer             announcer

	subscribers driver.Subscribers

	mu     sync.RWMutex // held by each call, and by Close
	closed atomic.Bool
	stop   context.CancelFunc // of the goroutines
	joined sync.WaitGroup

	closing  sync.Once
	freed    chan struct{} // closed when the driver is closed
	closeErr error         // set before freed is closed
}

var (
	_ driver.Driver           = (*Driver)(nil)
	_ driver.ClaimSubscriber  = (*Driver)(nil)
	_ driver.IdleProber       = (*Driver)(nil)
	_ driver.EndFollower      = (*Driver)(nil)
	_ driver.QueueLeaver      = (*Driver)(nil)
	_ driver.Surveyor         = (*Driver)(nil)
	_ driver.UnfinishedSummer = (*Driver)(nil)
)

// Open connects to the collection and builds missing indexes, unless the options disable
// that. It returns an error for invalid options, and if no server answers before ctx
// ends. ctx bounds only Open.
func Open(ctx context.Context, opts Options) (*Driver, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if len(opts.Hint) > 0 && !servesClaims(opts.Hint) {
		logging.Warning(ctx, message.Fields{
			"message":    "ignored the preferred index for claims, because it has no key line.in",
			"database":   opts.DB,
			"collection": opts.collection(),
			"keys":       keyText(opts.Hint, false),
		})
		opts.Hint = nil
	}
	d := &Driver{opts: opts, client: opts.Client, scanBatch: scanBatch, timedBatch: timedBatch, freed: make(chan struct{})}
	if d.client == nil {
		d.client, err = mongo.Connect(ctx, options.Client().ApplyURI(opts.URI))
		if err != nil {
			return nil, fmt.Errorf("invalid mongodb driver options: URI must be a connection string: %w", errURI)
		}
		d.ownClient = true
	}
	db := d.client.Database(opts.DB)
	// What the URI or the client say of reads and writes does not suit a queue.
	primary := options.Collection().SetReadPreference(readpref.Primary()).SetReadConcern(readconcern.Local()).SetWriteConcern(writeconcern.Majority())
	d.jobs = db.Collection(opts.collection(), primary)
	d.control = db.Collection(opts.collection()+controlSuffix, primary)
	d.notes.Collection = db.Collection(opts.collection()+notesSuffix, primary)
	d.barrier = newDrainBarrier(d.control, d.jobs, opts.PollInterval)
	d.opened = time.Now()
	// Servers refuse change streams with another read concern.
	d.feed = feedOf(d.client.Database(opts.DB, options.Database().SetReadPreference(readpref.Primary()).SetReadConcern(readconcern.Majority())))
	d.revs = &d.feed.revs
	err = d.start(ctx)
	if err != nil {
		d.feed.release(d)
		return nil, errors.Join(fmt.Errorf("opening collection %q of database %q: %w", d.jobs.Name(), opts.DB, err), d.disconnect(ctx))
	}
	return d, nil
}

// start checks the deployment and starts the goroutines that run until Close.
func (d *Driver) start(ctx context.Context) error {
	err := d.detectDeployment(ctx)
	if err != nil {
		return err
	}
	err = d.prepareIndexes(ctx)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(plain(context.WithoutCancel(ctx)))
	d.stop = stop
	d.sweeper.signal = make(chan struct{}, 1)
	d.sweeper.hears = d.isReplica
	d.announcer.signal = make(chan struct{}, 1)
	d.barrier.background = func(call func(context.Context)) { d.joined.Go(func() { call(running) }) }
	d.joined.Go(func() { d.poll(running) })
	d.joined.Go(func() { d.sweep(running) })
	d.joined.Go(func() { d.announce(running) })
	return nil
}

// minWireVersion is the version of the wire protocol of MongoDB 5.0.
const minWireVersion = 13

// detectDeployment finds out what the deployment can do, and refuses a server that is too
// old.
func (d *Driver) detectDeployment(ctx context.Context) error {
	var hello struct {
		SetName     string `bson:"setName"`
		Msg         string `bson:"msg"`
		WireVersion int    `bson:"maxWireVersion"`
	}
	err := d.hello(ctx, &hello)
	if err != nil {
		return fmt.Errorf("querying the type of the server: %w", err)
	}
	if hello.WireVersion < minWireVersion {
		return fmt.Errorf("the server is too old: it has wire version %d; MongoDB 5.0 or newer is required, which has %d", hello.WireVersion, minWireVersion)
	}
	d.isReplica = hello.SetName != "" || hello.Msg == "isdbgrid"
	return nil
}

// elapsed returns the time since the driver was opened, by a monotonic clock.
func (d *Driver) elapsed() time.Duration {
	return time.Since(d.opened) + time.Duration(d.skipped.Load())
}

// Features implements driver.Driver. A standalone server has neither
// transactions nor change streams.
func (d *Driver) Features() driver.Features {
	return driver.Features{Notifications: d.isReplica, Transactions: d.isReplica, TransactionalEnds: d.isReplica, Durable: true, Limits: true, SharedRetries: d.isReplica}
}

// enter begins a call. leave must be called at its end.
func (d *Driver) enter(ctx context.Context) (leave func(), err error) {
	err = ctx.Err()
	if err != nil {
		return nil, err
	}
	if d.closed.Load() {
		return nil, driver.ErrClosed
	}
	d.mu.RLock()
	if d.closed.Load() {
		d.mu.RUnlock()
		return nil, driver.ErrClosed
	}
	return d.mu.RUnlock, nil
}

// Close implements driver.Driver. It waits for calls in progress until ctx ends. Close of a
// nil driver does nothing.
func (d *Driver) Close(ctx context.Context) error {
	if d == nil {
		return nil // a driver.Driver holds it after a failed Open
	}
	d.closing.Do(func() {
		d.closed.Store(true)
		go d.free(context.WithoutCancel(ctx))
	})
	select {
	case <-d.freed:
		return d.closeErr
	default:
	}
	select {
	case <-d.freed:
		return d.closeErr
	case <-ctx.Done():
		return fmt.Errorf("closing collection %q: %w", d.jobs.Name(), ctx.Err())
	}
}

// leaveTimeout bounds the writes by which Close hands back leases and deregisters the
// process.
const leaveTimeout = time.Second

// free waits for calls in progress, then stops the goroutines and frees the driver's
// resources.
func (d *Driver) free(ctx context.Context) {
	defer close(d.freed)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopListening()
	d.stop()
	d.joined.Wait()
	leaving, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if err := d.releaseUncertain(leaving); err != nil {
		logging.Warning(ctx, message.Fields{
			"message":    "failed to hand back leases while closing; their jobs wait until the leases run out",
			"collection": d.jobs.Name(),
			"error":      err.Error(),
		})
	}
	due, _ := d.announcer.take(time.Now())
	d.announceReady(leaving, due)
	if err := d.giveUpSweep(leaving, sweepLeaves); err != nil {
		logging.Debug(ctx, func() message.Fields {
			return message.Fields{"message": "failed to give up the duty to sweep; another process takes it later", "error": err.Error()}
		})
	}
	if err := d.barrier.leave(leaving, func() bool { return true }); err != nil {
		logging.Debug(ctx, func() message.Fields {
			return message.Fields{"message": "failed to deregister; peers will treat this process as dead", "error": err.Error()}
		})
	}
	d.closeErr = d.disconnect(ctx)
}

func (d *Driver) disconnect(ctx context.Context) error {
	if !d.ownClient {
		return nil
	}
	if err := d.client.Disconnect(ctx); err != nil {
		return fmt.Errorf("disconnecting from MongoDB: %w", err)
	}
	return nil
}

// inQueue returns a filter for the documents of a queue that satisfy further conditions.
func (d *Driver) inQueue(queue string, and ...bson.E) bson.D {
	if !d.opts.Grouped {
		return and
	}
	return append(bson.D{{Key: "group", Value: queue}}, and...)
}

// inQueues is inQueue for several queues.
func (d *Driver) inQueues(queues map[string]bool, and ...bson.E) bson.D {
	if !d.opts.Grouped {
		return and
	}
	return append(field("group", field("$in", keysOf(queues))), and...)
}

// named returns a filter for the record of a queue with the given name.
func (d *Driver) named(queue, name string) bson.D {
	return d.inQueue(queue, bson.E{Key: "_id", Value: bson.D{{Key: "$in", Value: d.idsOf(queue, name)}}})
}

// idsOf returns the _ids that the record of a queue with the given name may have.
func (d *Driver) idsOf(queue, name string) bson.A {
	if !d.opts.Grouped {
		return bson.A{name}
	}
	return bson.A{name, aliasOf(queue, name)}
}

// revisions generates the values of document.Rev. Each feed has its own ranges of
// values, so that its change stream can filter out its own changes.
type revisions struct {
	driver int64
	last   atomic.Uint32
}

// The range of a value shows other processes what a change means. Values from
// endedRevision on mark the end of a job that makes nothing claimable; values from quiet on
// mark changes without consequences for others; and values from leftRevision on mark changes
// that make nothing claimable, but after which there is something left to do, by another
// process if this one dies.
const (
	endedRevision = int64(1) << 61
	quiet         = int64(1) << 62
	leftRevision  = int64(3) << 61
)

// first is the first of the feed's own values. Each part has ownRevisions of them.
func (r *revisions) first() int64 { return r.driver * ownRevisions }

const ownRevisions = int64(1) << 32

func (r *revisions) next() int64 { return r.first() + int64(r.last.Add(1)) }

func (r *revisions) nextQuiet() int64 { return r.next() + quiet }

// nextForeign returns a value of no driver, so that all drivers are notified of the
// change.
func (r *revisions) nextForeign() int64 { return 1 + rand.Int64N(ownRevisions-1) }

// isForeign reports whether a revision is one of no driver, in whichever range.
func isForeign(rev int64) bool { return rev%endedRevision < ownRevisions }

// orders generates the values of document.Order.
type orders struct {
	mu   sync.Mutex
	last int64
}

// next returns the first of n consecutive values that follow all known ones.
func (o *orders) next(now time.Time, n int) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	first := max(o.last+1, now.UnixMicro())
	o.last = first + int64(n) - 1
	return first
}

// observe makes later values larger than order.
func (o *orders) observe(order int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = max(o.last, order)
}
