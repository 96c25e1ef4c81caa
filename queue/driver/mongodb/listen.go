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
// hears of claimable jobs. It would hear of each one and ignore it, while the server decodes each claim
// and end for it. It is no shorter, because each change of what the driver needs costs a new change stream.
const busyFor = 2 * time.Second

// followFor is how long a driver listens to all changes after a subscriber of them has left: the next
// one may come soon, as when callers wait for one job after the other.
const followFor = 10 * time.Second

// listening is what a driver listens to.
type listening struct {
	mu sync.Mutex
	// short holds the open queues whose last claim got less than it asked for.
	short map[string]bool
	// idle is on while short holds queues, and for busyFor longer.
	idle      lingering
	claims    bool // a claim was made
	followers int  // of all changes
	// follows is on while there are followers, and for followFor longer.
	follows lingering
	// listens is true once the driver is a member of the feed.
	listens bool
	closed  bool
}

// lingering is a state that lasts for a while longer than its reason.
type lingering struct {
	on   bool
	ends *time.Timer // nil while there is a reason
}

// begin is called if there is a reason.
func (l *lingering) begin() {
	l.stop()
	l.on, l.ends = true, nil
}

func (l *lingering) stop() {
	if l.ends != nil {
		l.ends.Stop()
	}
}

// endIn ends a state after a time if no reason has come until then. listening.mu is locked.
func (d *Driver) endIn(l *lingering, after time.Duration) {
	if !l.on || l.ends != nil || d.listening.closed {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(after, func() {
		leave, err := d.enter(context.Background())
		if err != nil {
			return // it is closed
		}
		defer leave()
		d.listening.mu.Lock()
		defer d.listening.mu.Unlock()
		if l.ends == timer {
			l.on, l.ends = false, nil
			d.listen()
		}
	})
	l.ends = timer
}

// Subscribe implements driver.Driver.
func (d *Driver) Subscribe(notify func(driver.Change)) (cancel func()) {
	d.follows(1)
	unsubscribe := d.subscribers.Subscribe(notify)
	return sync.OnceFunc(func() {
		unsubscribe()
		d.follows(-1)
	})
}

// SubscribeToClaimable implements driver.ClaimSubscriber.
func (d *Driver) SubscribeToClaimable(notify func(driver.Change)) (cancel func()) {
	return d.subscribers.Subscribe(notify)
}

// follows counts the subscribers of all changes.
func (d *Driver) follows(n int) {
	l := &d.listening
	l.mu.Lock()
	defer l.mu.Unlock()
	l.followers += n
	if l.followers > 0 {
		l.follows.begin()
	} else {
		d.endIn(&l.follows, followFor)
	}
	d.listen()
}

// listen adjusts what the feed sends to what the driver needs, and returns a function that waits
// until the feed does. listening.mu is locked, so that no earlier need replaces a later one.
func (d *Driver) listen() (open func(context.Context)) {
	l := &d.listening
	l.listens = l.listens || l.claims || l.follows.on
	if !d.isReplica || l.closed || !l.listens {
		return func(context.Context) {}
	}
	wanted := interest{claimable: l.idle.on || l.follows.on, ends: l.follows.on || d.limits.anyRuns()}
	d.sweeper.setDeaf(l.claims && !wanted.claimable) // a process that runs no jobs leaves the sweeps to others
	return d.feed.want(d, wanted)
}

// beginClaim is called before each claim. The first one waits until the change stream is open,
// so that nothing is missed between its query and the stream.
func (d *Driver) beginClaim(ctx context.Context) {
	open, first := d.claimBegins() //nolint:contextcheck // The change stream outlasts the claim.
	if !first {
		return
	}
	open(ctx)
	d.barrier.listens.Store(d.isReplica)
	if err := d.barrier.listen(ctx); err != nil { // it may have missed a drain between its last poll and the stream
		d.reportControls(ctx, err)
	}
	d.sweeper.hurry() // dead processes may have left work undone
}

// claimBegins begins to listen with the first claim.
func (d *Driver) claimBegins() (open func(context.Context), first bool) {
	l := &d.listening
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.claims {
		return nil, false
	}
	l.claims = true
	l.idle.begin()
	return d.listen(), true
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
	defer l.mu.Unlock()
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
	d.shortChanged()
}

// LeaveQueue implements driver.QueueLeaver.
func (d *Driver) LeaveQueue(queue string) {
	d.listening.mu.Lock()
	defer d.listening.mu.Unlock()
	delete(d.listening.short, queue)
	d.shortChanged()
}

// shortChanged adjusts what the driver listens to, after short may have changed. listening.mu is locked.
func (d *Driver) shortChanged() {
	if l := &d.listening; len(l.short) > 0 {
		l.idle.begin()
	} else {
		d.endIn(&l.idle, busyFor)
	}
	d.listen()
}

// stopListening is called by Close.
func (d *Driver) stopListening() {
	l := &d.listening
	l.mu.Lock()
	l.closed = true
	l.idle.stop()
	l.follows.stop()
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
func (d *Driver) jobChanged(e event, wanted interest) driver.Change {
	rev, known := e.fields().Lookup("rev").AsInt64OK()
	switch {
	case !known:
		return d.legacyChanged(e, wanted)
	case rev < ownRevisions: // put in a caller's transaction
		d.avoided.end(d.elapsed())
		d.committed(e)
	case isForeign(rev): // ended in one
		d.endCommitted(e, rev)
	case rev < endedRevision || rev >= leftRevision:
		d.sweeper.watch() // the other process may leave work undone
	}
	if rev >= endedRevision && !d.limits.anyRuns() {
		return driver.Change{}
	}
	if queue, inserted := e.Document.Lookup("group").StringValueOK(); inserted {
		return driver.In(queue)
	}
	return driver.Anywhere
}

// legacyChanged is called when a legacy process, which stores whole documents, or an operator has changed a job.
// A legacy job that waits can be claimed when it was adopted, which makes an event of its own.
func (d *Driver) legacyChanged(e event, wanted interest) driver.Change {
	d.sweeper.watch() // a legacy process releases neither dependents nor waiters for scopes
	ended, isWhole := e.Document.Lookup("status", "completed").BooleanOK()
	if !ended {
		d.sweeper.sweepLegacy()
	}
	if !isWhole || ended && wanted.ends {
		return driver.Anywhere
	}
	return driver.Change{}
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

// endCommitted is called when a transaction of a caller of this process or another one has ended a job.
func (d *Driver) endCommitted(e event, rev int64) {
	id, _ := e.Key.ID.(string)
	if d.ends.commit(id, rev) {
		d.sweeper.checkCommitted()
		return
	}
	d.sweeper.watch() // the other process may leave work undone
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

// controlChanged is called when a document of the control collection has changed. If a drain
// may have begun or ended, the document is read, because update events do not contain it.
func (d *Driver) controlChanged(ctx context.Context, e event) (driver.Change, error) {
	id, _ := e.Key.ID.(string)
	if id == cancelsKey {
		return driver.Change{Cancels: true}, nil
	}
	set := e.fields()
	if e.Operation != "delete" && set.Lookup("drains").IsZero() && set.Lookup("draining").IsZero() {
		d.barrier.wake() // it may be the answer of a process to a drain
		return driver.Anywhere, nil
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
