// Package mongodb is a driver that keeps records in a MongoDB collection, which
// any number of processes share.
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
	"go.mongodb.org/mongo-driver/mongo/readpref"
	"go.mongodb.org/mongo-driver/mongo/writeconcern"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/sightings"
)

// Driver keeps the records of queues in a collection. It is safe for concurrent
// use.
type Driver struct {
	opts      Options
	client    *mongo.Client
	ownClient bool
	jobs      *mongo.Collection
	control   *mongo.Collection // what is no job: the controls of queues, and duties
	notes     noteStore
	isReplica bool // it has transactions and change streams
	// scannedAtOnce is the constant of that name; tests have a smaller one.
	scannedAtOnce int

	revs   revisions
	orders orders
	gate   *gate

	leases     leases
	elapsed    func() time.Duration // by a monotonic clock
	seen       sightings.Log[lease]
	doubts     doubts
	contention contention
	hints      hints
	limits     limits
	kinds      kinds
	claimed    queueNames
	sweeper    sweeper
	herald     herald

	subscribers driver.Subscribers

	mu     sync.RWMutex // held by each call, and by Close
	closed atomic.Bool
	stop   context.CancelFunc // of the goroutines
	joined sync.WaitGroup

	closing  sync.Once
	freed    chan struct{} // closed when everything is
	closeErr error         // set before freed is closed
}

var _ driver.Driver = (*Driver)(nil)

// Open connects to the collection and builds the indexes that are missing, unless
// the options say otherwise. It returns an error for invalid options, and where no
// server answers before ctx ends. ctx bounds Open alone.
func Open(ctx context.Context, opts Options) (*Driver, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &Driver{opts: opts, client: opts.Client, scannedAtOnce: scannedAtOnce, freed: make(chan struct{})}
	if d.client == nil {
		d.client, err = mongo.Connect(ctx, options.Client().ApplyURI(opts.URI))
		if err != nil {
			return nil, fmt.Errorf("invalid mongodb driver options: URI must be a connection string: %w", errURI)
		}
		d.ownClient = true
	}
	db := d.client.Database(opts.DB)
	primary := options.Collection().SetReadPreference(readpref.Primary()).SetWriteConcern(writeconcern.Majority())
	d.jobs = db.Collection(opts.collection(), primary)
	d.control = db.Collection(opts.collection()+controlSuffix, primary)
	d.notes.Collection = db.Collection(opts.collection()+notesSuffix, primary)
	d.gate = newGate(d.control, opts.PollInterval)
	opened := time.Now()
	d.elapsed = func() time.Duration { return time.Since(opened) }
	d.revs.driver = 1 + rand.Int64N(1<<29-1)
	err = d.start(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening collection %q of database %q: %w", d.jobs.Name(), opts.DB, err), d.disconnect(ctx))
	}
	return d, nil
}

// start finds out what there is, and starts what goes on until Close.
func (d *Driver) start(ctx context.Context) error {
	err := d.sniff(ctx)
	if err != nil {
		return err
	}
	if !d.opts.SkipIndexes {
		err = d.ensureIndexes(ctx)
	} else {
		err = d.reportMissing(ctx)
	}
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(plain(context.WithoutCancel(ctx)))
	d.stop = stop
	d.sweeper.signal = make(chan struct{}, 1)
	d.herald.signal = make(chan struct{}, 1)
	d.sweeper.lookForFormers()
	err = d.watch(ctx, running)
	if err == nil {
		err = d.gate.join(ctx)
	}
	if err != nil {
		stop()
		d.joined.Wait()
		return err
	}
	d.joined.Go(func() { d.sweep(running) })
	d.joined.Go(func() { d.announce(running) })
	return nil
}

// sniff finds out what the deployment can do.
func (d *Driver) sniff(ctx context.Context) error {
	var hello struct {
		SetName string `bson:"setName"`
		Msg     string `bson:"msg"`
	}
	err := d.hello(ctx, &hello)
	if err != nil {
		return fmt.Errorf("asking the server what it is: %w", err)
	}
	d.isReplica = hello.SetName != "" || hello.Msg == "isdbgrid"
	return nil
}

// Features implements driver.Driver. A standalone server has neither
// transactions nor change streams.
func (d *Driver) Features() driver.Features {
	return driver.Features{Notifications: d.isReplica, Transactions: d.isReplica, Durable: true}
}

// Subscribe implements driver.Driver.
func (d *Driver) Subscribe(notify func(driver.Change)) (cancel func()) {
	return d.subscribers.Subscribe(notify)
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

// Close implements driver.Driver. It waits for the calls that are under way, as
// long as ctx lives.
func (d *Driver) Close(ctx context.Context) error {
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

// leavePatience is how long Close tries to tell the others that the process has
// left.
const leavePatience = time.Second

// free ends what goes on in the background, after the calls that are under way.
func (d *Driver) free(ctx context.Context) {
	defer close(d.freed)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stop()
	d.joined.Wait()
	leaving, cancel := context.WithTimeout(ctx, leavePatience)
	defer cancel()
	if err := d.resolveDoubts(leaving); err != nil {
		logging.Warning(ctx, message.Fields{
			"message":    "jobs may be held by a process that has left, until their leases run out",
			"collection": d.jobs.Name(),
			"error":      err.Error(),
		})
	}
	due, _ := d.herald.take(time.Now())
	d.tellOthers(leaving, due)
	if err := d.gate.leave(leaving); err != nil {
		logging.Debug(ctx, func() message.Fields {
			return message.Fields{"message": "the others will take this process for dead", "error": err.Error()}
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

// inQueue is a filter for the documents of a queue, to which others are added.
func (d *Driver) inQueue(queue string, and ...bson.E) bson.D {
	if !d.opts.Grouped {
		return and
	}
	return append(bson.D{{Key: "group", Value: queue}}, and...)
}

// named is a filter for the record of a queue that has a name.
func (d *Driver) named(queue, name string) bson.D {
	return d.inQueue(queue, bson.E{Key: "_id", Value: bson.D{{Key: "$in", Value: d.idsOf(queue, name)}}})
}

// idsOf are the _ids that the record of a queue may have that has a name.
func (d *Driver) idsOf(queue, name string) bson.A {
	if !d.opts.Grouped {
		return bson.A{name}
	}
	return bson.A{name, aliasOf(queue, name)}
}

// revisions makes the values of document.Rev. Those of a driver lie in ranges of
// its own, so that a change stream can leave out what the driver does itself.
type revisions struct {
	driver int64
	last   atomic.Uint32
}

// The parts of the values say what a change means to others. From ended on it is the
// end of a job, which makes nobody ready; from quiet on it is nothing.
const (
	ended = int64(1) << 61
	quiet = int64(1) << 62
)

// first is the first value of the driver's own ones, of which there are
// ownRevisions in each part.
func (r *revisions) first() int64 { return r.driver * ownRevisions }

const ownRevisions = int64(1) << 32

func (r *revisions) next() int64 { return r.first() + int64(r.last.Add(1)) }

func (r *revisions) nextQuiet() int64 { return r.next() + quiet }

// nextForeign is one of no driver, so that all of them are told of the change.
func (r *revisions) nextForeign() int64 { return 1 + rand.Int64N(1<<32-1) }

// orders makes the values of document.Order.
type orders struct {
	mu   sync.Mutex
	last int64
}

// next is the first of n values that follow each other, after all that were seen.
func (o *orders) next(now time.Time, n int) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	first := max(o.last+1, now.UnixMicro())
	o.last = first + int64(n) - 1
	return first
}

// saw has the values that follow be larger.
func (o *orders) saw(order int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = max(o.last, order)
}
