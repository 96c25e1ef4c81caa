package mongodb

import (
	"context"
	"sync"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/internal/sleep"
	"github.com/mongodb/amboy/queue/driver"
)

// A driver listens from its first claim, or while it has subscribers that want to be notified of
// all changes, so a process that only inserts has no change stream. What it needs to hear of
// depends on its claims: if the last one got less than it asked for, there are idle workers.

// busyFor is how long all claims must have got what they asked for before a process no longer
// hears of claimable jobs. It would hear of each one and ignore it.
const busyFor = 10 * time.Second

// followFor is how long a driver listens to all changes after a subscriber of them has left: the next
// one may come soon, as when callers wait for one job after the other, and each change of what the driver needs costs a
// new change stream.
const followFor = busyFor

// listening is what a driver listens to.
type listening struct {
	mu sync.Mutex
	// short holds the queues whose last claim got less than it asked for.
	short map[string]bool
	// idle is true while short holds queues, and for busyFor longer.
	idle      bool
	claims    bool // a claim was made
	followers int  // of all changes
	narrow    *time.Timer
	closed    bool
}

// interest returns what the driver needs to hear of, and whether it listens at all.
func (l *listening) interest(limited bool) (wanted interest, listens bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	follows := l.followers > 0
	return interest{claimable: l.idle || follows, ends: follows || limited}, (l.claims || follows) && !l.closed
}

// Subscribe implements driver.Driver.
func (d *Driver) Subscribe(notify func(driver.Change)) (cancel func()) {
	d.follows(1)
	unsubscribe := d.subscribers.Subscribe(notify)
	return sync.OnceFunc(func() {
		unsubscribe()
		time.AfterFunc(followFor, d.ceasesToFollow)
	})
}

// ceasesToFollow is called some time after a subscriber of all changes has left.
func (d *Driver) ceasesToFollow() {
	leave, err := d.enter(context.Background())
	if err != nil {
		return // it is closed
	}
	defer leave()
	d.follows(-1)
}

// SubscribeToClaimable implements driver.ClaimSubscriber.
func (d *Driver) SubscribeToClaimable(notify func(driver.Change)) (cancel func()) {
	return d.subscribers.Subscribe(notify)
}

// follows counts the subscribers of all changes.
func (d *Driver) follows(n int) {
	d.listening.mu.Lock()
	d.listening.followers += n
	d.listening.mu.Unlock()
	d.listen()
}

// listen adjusts what the feed sends to what the driver needs, and returns a function that waits
// until the feed does.
func (d *Driver) listen() (open func(context.Context)) {
	wanted, listens := d.listening.interest(d.limits.anyRuns())
	if !d.isReplica || !listens {
		return func(context.Context) {}
	}
	d.sweeper.setDeaf(!wanted.claimable)
	return d.feed.want(d, wanted)
}

// beginClaim is called before each claim. The first one waits until the change stream is open,
// so that nothing is missed between its query and the stream.
func (d *Driver) beginClaim(ctx context.Context) {
	l := &d.listening
	l.mu.Lock()
	first := !l.claims
	if first {
		l.claims, l.idle = true, true
	}
	l.mu.Unlock()
	if !first {
		return
	}
	d.listen()(ctx) //nolint:contextcheck // The change stream outlasts the claim.
	d.barrier.listens.Store(d.isReplica)
	if err := d.barrier.listen(ctx); err != nil { // it may have missed a drain between its last poll and the stream
		d.reportControls(ctx, err)
	}
	d.sweeper.hurry() // dead processes may have left work undone
}

// endClaim is called after each claim with the number of records that it returned for idle workers, by queue: without
// those that have expired.
func (d *Driver) endClaim(req driver.ClaimRequest, got map[string]int, err error) {
	all := 0
	for _, n := range got {
		all += n
	}
	l := &d.listening
	l.mu.Lock()
	for _, demand := range req.Queues {
		switch {
		case demand.Limit == 0: // nothing is known of its workers
		case err != nil || got[demand.Queue] < demand.Limit && all < req.Limit:
			if l.short == nil {
				l.short = map[string]bool{}
			}
			l.short[demand.Queue] = true
		case got[demand.Queue] >= demand.Limit:
			delete(l.short, demand.Queue)
		}
	}
	if len(l.short) > 0 {
		l.idle = true
		if l.narrow != nil {
			l.narrow.Stop()
			l.narrow = nil
		}
	} else if l.idle && l.narrow == nil && !l.closed {
		l.narrow = time.AfterFunc(busyFor, d.stopHearing)
	}
	l.mu.Unlock()
	d.listen()
}

// stopHearing is called when all workers were busy for a while.
func (d *Driver) stopHearing() {
	l := &d.listening
	l.mu.Lock()
	l.idle, l.narrow = len(l.short) > 0, nil
	l.mu.Unlock()
	d.listen()
}

// stopListening is called by Close.
func (d *Driver) stopListening() {
	l := &d.listening
	l.mu.Lock()
	l.closed = true
	if l.narrow != nil {
		l.narrow.Stop()
	}
	l.mu.Unlock()
	d.feed.release(d)
}

// tell notifies the subscribers of a change that this driver made, and those of the other
// drivers on the collection in this process, which their change stream does not show it.
func (d *Driver) tell(change driver.Change) {
	d.subscribers.Notify(change)
	d.tellPeers(change)
}

func (d *Driver) tellPeers(change driver.Change) {
	for _, peer := range d.feed.peers(d) {
		peer.subscribers.Notify(change)
	}
}

// readAnew is called if the driver may have missed changes by others.
func (d *Driver) readAnew(ctx context.Context) error {
	d.sweeper.hurry()
	d.sweeper.sweepLegacy()
	d.subscribers.Notify(driver.Change{MayClaim: true, Cancels: true})
	return d.refreshDrains(ctx)
}

// refreshDrains reads which queues are draining, for the goroutine of the change stream.
func (d *Driver) refreshDrains(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return d.barrier.refresh(ctx)
}

// jobChanged is called when another process has changed a job.
func (d *Driver) jobChanged(e event) driver.Change {
	raw := e.Update.Fields
	if len(e.Document) > 0 {
		raw = e.Document
	}
	rev, known := raw.Lookup("rev").AsInt64OK()
	switch {
	case !known:
		d.sweeper.sweepLegacy()
		d.sweeper.watch() // a legacy process releases neither dependents nor waiters for scopes
	case rev < ownRevisions: // committed with a caller's transaction
		d.avoided.end(d.elapsed())
		d.committed(e)
	case rev < endedRevision || rev >= leftRevision:
		d.sweeper.watch() // the other process may leave work undone
	}
	if rev >= endedRevision && !d.limits.anyRuns() {
		return driver.Change{}
	}
	queue, inserted := e.Document.Lookup("group").StringValueOK()
	if known && inserted {
		return driver.In(queue)
	}
	return driver.Anywhere
}

// committed is called when a document was committed with a transaction of a caller of this process
// or another one.
func (d *Driver) committed(e event) {
	id, _ := e.Key.ID.(string)
	if _, waits := e.Document.Lookup("line", "edges").ArrayOK(); !waits {
		d.sweeper.watch()
		return
	}
	d.sweeper.committed.add(id)
	if d.transacted.remove(id) {
		d.sweeper.checkCommitted()
		return
	}
	d.sweeper.hurry() // if its process has died
}

// transacted holds the _ids of documents with edges that this process put in callers'
// transactions.
type transacted struct {
	mu  sync.Mutex
	ids map[string]bool
}

// maxTransacted is the number of _ids that are kept. Those of transactions that were not
// committed are among them.
const maxTransacted = 10_000

func (t *transacted) add(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ids == nil || len(t.ids) == maxTransacted {
		t.ids = map[string]bool{} // a sweep checks the others
	}
	t.ids[id] = true
}

func (t *transacted) remove(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer delete(t.ids, id)
	return t.ids[id]
}

// controlChanged is called when a document of the control collection has changed. Update
// events do not contain the document, so it is read.
func (d *Driver) controlChanged(ctx context.Context, e event) (driver.Change, error) {
	id, _ := e.Key.ID.(string)
	switch id {
	case dutyKey(sweepDuty):
		d.sweepHeard(e)
		return driver.Change{}, nil
	case cancelsKey:
		return driver.Change{Cancels: true}, nil
	}
	var doc *controlDocument
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if e.Operation != "delete" {
		docs, err := d.barrier.read(ctx, field("_id", id))
		if err != nil {
			return driver.Anywhere, err
		}
		if len(docs) > 0 {
			doc = &docs[0]
		}
	}
	if id == d.barrier.id {
		return driver.Change{}, d.barrier.event(ctx, id, doc)
	}
	return driver.Anywhere, d.barrier.event(ctx, id, doc)
}

// poll reads the controls that other processes set, while the driver has no change stream and
// inserts. Claims query the jobs themselves.
func (d *Driver) poll(ctx context.Context) {
	broken := false
	for sleep.For(ctx, d.opts.PollInterval) == nil {
		bounded, cancel := context.WithTimeout(ctx, answerTime)
		err := d.barrier.poll(bounded)
		cancel()
		if err != nil && !broken {
			d.reportControls(ctx, err)
		}
		broken = err != nil
	}
}

func (d *Driver) reportControls(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	logging.Warning(ctx, message.Fields{
		"message":    "reading the settings of the queues failed",
		"collection": d.control.Name(),
		"error":      err.Error(),
	})
}
