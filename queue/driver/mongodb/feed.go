package mongodb

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/mongodb/grip/message"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/internal/sleep"
	"github.com/mongodb/amboy/queue/driver"
)

// A feed is the change stream of a client on a database. It serves all drivers on them,
// because a change stream occupies a connection. The server sends only events that a driver
// has an interest in; when the interests change, the stream is opened again where it was.
// The server decodes all events of what a stream watches before it filters them: in a drain that
// takes a third of its processor time. So while the drivers need to hear of controls only, as when
// all workers are busy, the stream watches only their collection. A stream that watches something
// else than the one before begins anew.
//
// The drivers of a feed generate their revisions together, so that the server can leave out
// what the process did itself. They notify each other: see Driver.tell.

const (
	// awaitEvents is how long the server waits for events before it returns an empty batch.
	awaitEvents = 30 * time.Second
	// answerTime is how much longer an answer of the stream may take. The connection may be dead without an
	// error, for instance because a firewall dropped it.
	answerTime = 5 * time.Second
	// betweenEvents is how long further events are gathered after subscribers were notified.
	betweenEvents = 10 * time.Millisecond
	// listenTimeout is how long the first claim waits until the stream is open.
	listenTimeout = 2 * time.Second
)

// removals are the operations after which documents are gone that events did not name.
var removals = []string{"drop", "rename", "dropDatabase", "invalidate"}

// interest is what a driver needs to hear of, besides controls and requests to cancel.
type interest struct {
	// claimable are changes by other processes after which there may be something to claim,
	// or something that those processes leave undone if they die.
	claimable bool
	// ends are ends of jobs after which nothing more may be claimed.
	ends bool
}

// feed is described above.
type feed struct {
	key  feedKey
	db   *mongo.Database
	revs revisions

	mu      sync.Mutex
	drivers int // that were opened and not closed
	members map[*Driver]interest
	// widened are the members that want to hear of more than before. The stream may have passed over
	// what they want to hear of since the claim that made them idle.
	widened map[*Driver]bool
	// asked counts the changes of interests, and opened is the count that the stream was
	// last opened for, or failed to.
	asked, opened int
	seen          chan struct{} // closed and replaced when opened changes
	interrupt     context.CancelFunc
	running       bool
	stop          context.CancelFunc
	joined        sync.WaitGroup

	// Only the goroutine that follows the stream uses the following.
	watched string // the only collection that the stream watches; empty for all
	cursor  int64  // of the stream, on the server
	token   bson.Raw
	broken  bool
	// unchecked is true if a collection may have been dropped unnoticed, so that it has no indexes.
	unchecked bool
}

type feedKey struct {
	client *mongo.Client
	db     string
}

// feeds are the feeds of this process.
var feeds = struct {
	mu  sync.Mutex
	all map[feedKey]*feed
}{all: map[feedKey]*feed{}}

// feedOf returns the feed of a database. Each call needs a call of release.
func feedOf(db *mongo.Database) *feed {
	feeds.mu.Lock()
	defer feeds.mu.Unlock()
	key := feedKey{db.Client(), db.Name()}
	f := feeds.all[key]
	if f == nil {
		f = &feed{key: key, db: db, members: map[*Driver]interest{}, widened: map[*Driver]bool{}, seen: make(chan struct{})}
		f.revs.driver = 1 + rand.Int64N(1<<29-1)
		feeds.all[key] = f
	}
	f.drivers++
	return f
}

// release removes a driver. The last one ends the stream, which otherwise continues unchanged.
func (f *feed) release(d *Driver) {
	feeds.mu.Lock()
	f.drivers--
	last := f.drivers == 0
	if last {
		delete(feeds.all, f.key)
	}
	feeds.mu.Unlock()
	f.mu.Lock()
	delete(f.members, d)
	delete(f.widened, d)
	stop := f.stop
	f.mu.Unlock()
	if last && stop != nil {
		stop()
		f.joined.Wait()
	}
}

// has reports whether a driver was not released.
func (f *feed) has(d *Driver) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, is := f.members[d]
	return is
}

// change makes the stream be opened again. The caller holds the lock.
func (f *feed) change() {
	f.asked++
	if f.interrupt != nil {
		f.interrupt()
	}
}

// want sets the interest of a driver, which becomes a member, and returns a function that waits
// until the stream covers it. A member that did not hear of all of it before is notified then.
func (f *feed) want(d *Driver, wanted interest) (open func(context.Context)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	had, is := f.members[d]
	if is && had == wanted {
		return func(context.Context) {}
	}
	if is && (wanted.claimable && !had.claimable || wanted.ends && !had.ends) {
		f.widened[d] = true
	}
	f.members[d] = wanted
	f.change()
	if !f.running {
		f.running = true
		ctx, stop := context.WithCancel(plain(context.Background()))
		f.stop = stop
		f.joined.Go(func() { f.run(ctx) })
	}
	asked := f.asked
	return func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, listenTimeout)
		defer cancel()
		f.await(ctx, func() bool { return f.opened >= asked })
	}
}

// await waits until the goroutine has reached a condition, which is called with the lock held.
func (f *feed) await(ctx context.Context, condition func() bool) {
	for {
		f.mu.Lock()
		reached, seen := condition(), f.seen
		f.mu.Unlock()
		if reached {
			return
		}
		select {
		case <-seen:
		case <-ctx.Done():
			return
		}
	}
}

// peers returns the other drivers of the feed on a collection.
func (f *feed) peers(of *Driver) (peers []*Driver) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for d := range f.members {
		if d != of && d.jobs.Name() == of.jobs.Name() {
			peers = append(peers, d)
		}
	}
	return peers
}

// begin returns the members, those that want to hear of more than before, and a context that ends
// when their interests change.
func (f *feed) begin(ctx context.Context) (members map[*Driver]interest, widened map[*Driver]bool, asked int, covering context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	covering, f.interrupt = context.WithCancel(ctx)
	members, widened, asked = maps.Clone(f.members), f.widened, f.asked
	f.widened = map[*Driver]bool{}
	return members, widened, asked, covering
}

// reached records that the stream was opened, or failed to open.
func (f *feed) reached(asked int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened = asked
	close(f.seen)
	f.seen = make(chan struct{})
}

// run follows the stream until ctx ends.
func (f *feed) run(ctx context.Context) {
	for ctx.Err() == nil {
		members, widened, asked, covering := f.begin(ctx)
		f.serve(covering, members, widened, asked)
		f.interrupt()
	}
}

// serve follows a stream for some members until it breaks, or ctx ends because their interests
// have changed.
func (f *feed) serve(ctx context.Context, members map[*Driver]interest, widened map[*Driver]bool, asked int) {
	if len(members) == 0 {
		f.token = nil // nothing is missed
		<-ctx.Done()
		return
	}
	missed, watched := f.token == nil, onlyCollection(members)
	switches := watched != f.watched
	if switches {
		f.watched, f.token = watched, nil
		f.unchecked = f.unchecked || watched == ""
	}
	stream, err := f.open(ctx, members)
	switch {
	case err != nil:
	case missed:
		err = f.readAnew(ctx, members)
	case switches:
		err = f.catchUp(ctx, members)
	default:
		for d := range widened {
			d.sweeper.sweepLegacy() // no claim finds what a legacy process has put
			d.subscribers.Notify(driver.Anywhere)
		}
	}
	if err == nil && f.unchecked {
		err = f.checkIndexes(ctx, members)
		f.unchecked = err != nil
	}
	if err != nil && ctx.Err() != nil {
		f.token = nil // the next stream does what was interrupted
	}
	f.reached(asked)
	if err == nil {
		f.broken = false
		err = f.follow(ctx, stream, members)
	}
	if stream != nil {
		f.end(ctx, stream)
	}
	if ctx.Err() != nil {
		return
	}
	f.failed(ctx, err)
	if sleep.For(ctx, pollInterval(members)) != nil {
		return
	}
	if err = f.readAnew(ctx, members); err != nil {
		f.report(ctx, err)
	}
}

func (f *feed) open(ctx context.Context, members map[*Driver]interest) (*mongo.ChangeStream, error) {
	opts := options.ChangeStream().SetMaxAwaitTime(awaitEvents)
	if f.token != nil {
		opts.SetResumeAfter(f.token)
	}
	watch := f.db.Watch
	if f.watched != "" {
		watch = f.db.Collection(f.watched).Watch
	}
	bounded, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	stream, err := watch(bounded, f.pipeline(members), opts)
	if err == nil && f.token == nil {
		f.token = stream.ResumeToken()
	}
	return stream, err
}

// onlyCollection returns the collection of controls if the members need to hear of nothing else.
func onlyCollection(members map[*Driver]interest) (name string) {
	for d, wanted := range members {
		if wanted != (interest{}) || name != "" && name != d.control.Name() {
			return ""
		}
		name = d.control.Name()
	}
	return name
}

// readAnew is called if events may have been missed.
func (f *feed) readAnew(ctx context.Context, members map[*Driver]interest) error {
	var failures []error
	for d := range members {
		failures = append(failures, d.readAnew(ctx))
	}
	return errors.Join(failures...)
}

// catchUp is called when the stream watches something else than before, after a moment in which
// it watched nothing.
func (f *feed) catchUp(ctx context.Context, members map[*Driver]interest) error {
	var failures []error
	for d := range members {
		d.subscribers.Notify(driver.Change{MayClaim: true, Cancels: true})
		failures = append(failures, d.refreshDrains(ctx))
		if f.watched == "" {
			d.sweeper.sweepLegacy() // no claim finds what a legacy process has put
		}
	}
	return errors.Join(failures...)
}

// checkIndexes is called if the members may not have heard that a collection was dropped.
func (f *feed) checkIndexes(ctx context.Context, members map[*Driver]interest) error {
	var failures []error
	for d := range members {
		failures = append(failures, d.checkIndexes(ctx))
	}
	return errors.Join(failures...)
}

// pollInterval is the least interval of the members.
func pollInterval(members map[*Driver]interest) time.Duration {
	least := time.Duration(0)
	for d := range members {
		if least == 0 || d.opts.PollInterval < least {
			least = d.opts.PollInterval
		}
	}
	return least
}

// event is a change in a collection.
type event struct {
	Operation  string `bson:"operationType"`
	Collection struct {
		Name string `bson:"coll"`
	} `bson:"ns"`
	Key struct {
		ID any `bson:"_id"`
	} `bson:"documentKey"`
	Document bson.Raw `bson:"fullDocument"`
	Update   struct {
		Fields bson.Raw `bson:"updatedFields"`
	} `bson:"updateDescription"`
}

// fields returns the known fields that the document got.
func (e *event) fields() bson.Raw {
	if len(e.Document) > 0 {
		return e.Document
	}
	return e.Update.Fields
}

// follow passes events on until the stream is interrupted.
func (f *feed) follow(ctx context.Context, stream *mongo.ChangeStream, members map[*Driver]interest) error {
	news := map[*Driver]driver.Change{}
	tell := func() {
		for d, change := range news {
			d.subscribers.Notify(change)
		}
		clear(news)
	}
	defer tell() // of the events before an interruption, which the next stream does not repeat
	for f.next(ctx, stream) {
		var e event
		err := bson.Unmarshal(stream.Current, &e)
		if err == nil {
			err = f.pass(ctx, e, members, news)
		}
		if err != nil {
			return err
		}
		f.token = stream.ResumeToken()
		if stream.RemainingBatchLength() > 0 {
			continue
		}
		tell()
		// Handling a single change costs a subscriber as much as handling all of them.
		if err := sleep.For(ctx, betweenEvents); err != nil {
			return err
		}
	}
	if token := stream.ResumeToken(); token != nil {
		f.token = token
	}
	return stream.Err()
}

// next waits for an event. It returns false if there is none because of an error.
func (f *feed) next(ctx context.Context, stream *mongo.ChangeStream) bool {
	for {
		f.cursor = stream.ID()
		bounded, cancel := context.WithTimeout(ctx, awaitEvents+answerTime)
		found := stream.TryNext(bounded)
		cancel()
		if found || stream.Err() != nil || stream.ID() == 0 {
			return found
		}
	}
}

// end ends a stream. If ctx ended while the stream waited for events, the client has forgotten the
// cursor, and the server would go on reading events for it until the wait is over. What fails here,
// the server does later.
func (f *feed) end(ctx context.Context, stream *mongo.ChangeStream) {
	forgotten := stream.ID() == 0 && ctx.Err() != nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listenTimeout)
	defer cancel()
	_ = stream.Close(ctx)
	if forgotten && f.cursor != 0 {
		of := f.watched
		if of == "" {
			of = "$cmd.aggregate"
		}
		_ = f.db.RunCommand(ctx, bson.D{{Key: "killCursors", Value: of}, {Key: "cursors", Value: bson.A{f.cursor}}}).Err()
	}
	f.cursor = 0
}

// pass passes an event on to the members that it concerns, and adds what it means to news.
func (f *feed) pass(ctx context.Context, e event, members map[*Driver]interest, news map[*Driver]driver.Change) error {
	everywhere := e.Collection.Name == ""
	for d, wanted := range members {
		isJob, isControl := e.Collection.Name == d.jobs.Name(), e.Collection.Name == d.control.Name()
		if !isJob && !isControl && !everywhere || !f.has(d) {
			continue
		}
		var change driver.Change
		var err error
		switch {
		case slices.Contains(removals, e.Operation):
			d.unindexed.Store(true) // the sweep that readAnew requests prepares the indexes
			change, err = driver.Anywhere, d.readAnew(ctx)
		case isControl && e.Key.ID == dutyKey(sweepDuty):
			d.sweepHeard(e) // which concerns no subscriber
			continue
		case isControl:
			change, err = d.controlChanged(ctx, e)
		default:
			change = d.jobChanged(e, wanted)
		}
		if err != nil {
			return err
		}
		news[d] = news[d].With(change)
	}
	return nil
}

// failed records that the stream was interrupted, and logs the reason once. The next one begins anew,
// because it may fail in the same place again: a server that has lost the place, or meets an event there
// that it can't send, never gets beyond it, and one that has much to read from there never answers in time.
func (f *feed) failed(ctx context.Context, err error) {
	f.token, f.unchecked = nil, true
	if !f.broken {
		f.broken = true
		f.report(ctx, err)
	}
}

func (f *feed) report(ctx context.Context, err error) {
	if ctx.Err() != nil || err == nil {
		return
	}
	logging.Warning(ctx, message.Fields{
		"message":  "change stream is interrupted; polling for changes until it is reopened",
		"database": f.db.Name(),
		"error":    err.Error(),
	})
}

// pipeline returns the stages that select the events that members have an interest in, and
// keep only the needed fields.
func (f *feed) pipeline(members map[*Driver]interest) mongo.Pipeline {
	var own, controls, jobs, claimable, ends []string
	for d, wanted := range members {
		own = append(own, d.barrier.id)
		controls, jobs = append(controls, d.control.Name()), append(jobs, d.jobs.Name())
		if wanted.claimable {
			claimable = append(claimable, d.jobs.Name())
		}
		if wanted.ends {
			ends = append(ends, d.jobs.Name())
		}
	}
	const updated = "updateDescription.updatedFields."
	// Counting removed records changes no settings. A document that it creates has none, but one
	// that an operator restores may.
	isSetting := all(field(updated+"removed", nil), either(field("fullDocument.removed", nil), exists("fullDocument.drains")))
	of := func(names []string, events ...bson.D) bson.D {
		slices.Sort(names)
		return all(append([]bson.D{field("ns.coll", field("$in", slices.Compact(names)))}, events...)...)
	}
	wanted := []bson.D{
		field("operationType", field("$in", []string{"dropDatabase", "invalidate"})),
		of(slices.Concat(controls, jobs), field("operationType", field("$in", removals))),
		of(controls, either(
			all(field("operationType", "delete"), field("documentKey._id", field("$in", own))), // as of a dead process
			field("documentKey._id", field("$in", []string{dutyKey(sweepDuty), cancelsKey})),
			all(field("documentKey._id", withPrefix(controlPrefix)), isSetting),
		)),
	}
	if len(claimable) > 0 {
		// What a legacy process claims concerns no other.
		notStartedByLegacy := all(field("fullDocument.rev", nil), field("fullDocument.status.in_prog", field("$ne", true)))
		isClaimable := func(path string) bson.D { return f.byOthers(path, 0, leftRevision) }
		wanted = append(wanted, of(claimable, either(
			all(field("operationType", field("$in", []string{"insert", "replace"})),
				either(isClaimable("fullDocument.rev"), notStartedByLegacy)),
			all(field("operationType", "update"), isClaimable(updated+"rev")),
			// The legacy library sets no rev. Neither do Extend and SetProgress, which
			// are excluded.
			all(field("operationType", "update"), field(updated+"rev", nil), field(updated+"lease_until", nil), field(updated+"progress", nil)),
		)))
	}
	if len(ends) > 0 {
		isEnd := func(path string) bson.D { return f.byOthers(path, endedRevision, leftRevision) }
		wanted = append(wanted, of(ends, either(isEnd("fullDocument.rev"), isEnd(updated+"rev"))))
	}
	return mongo.Pipeline{
		match(either(wanted...)),
		{{Key: "$project", Value: bson.D{
			{Key: "operationType", Value: 1},
			{Key: "ns.coll", Value: 1},
			{Key: "documentKey._id", Value: 1},
			{Key: "fullDocument.rev", Value: 1},
			{Key: "fullDocument.group", Value: 1},
			{Key: "fullDocument.status.completed", Value: 1},
			{Key: "fullDocument.line.edges", Value: 1},
			{Key: "fullDocument.beat", Value: 1},
			{Key: "fullDocument.draining", Value: 1},
			{Key: "fullDocument.drains", Value: 1},
			{Key: "updateDescription.updatedFields.rev", Value: 1},
			{Key: "updateDescription.updatedFields.beat", Value: 1},
			{Key: "updateDescription.updatedFields.draining", Value: 1},
			{Key: "updateDescription.updatedFields.drains", Value: 1},
		}}},
	}
}

// byOthers returns a filter for revisions in the ranges that begin at some values, without
// those of this feed.
func (f *feed) byOthers(path string, ranges ...int64) bson.D {
	own := f.revs.first()
	between := func(from, to int64) bson.D {
		return field(path, bson.D{{Key: "$gte", Value: from}, {Key: "$lte", Value: to}})
	}
	var parts []bson.D
	for _, from := range ranges {
		parts = append(parts, between(from, from+own-1), between(from+own+ownRevisions, from+(endedRevision-1)))
	}
	return either(parts...)
}
