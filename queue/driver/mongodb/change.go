package mongodb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

const (
	// maxRounds is the maximum number of attempts at a change that conflicts with other
	// writers.
	maxRounds = 30
	// maxFailures is the maximum number of times that a change is sent if the server
	// fails.
	maxFailures = 3
)

// errContended is the error of a change that conflicted with other writers too often.
var errContended = errors.New("other processes kept changing the record; this call did not change it")

// errGone is the error of a change of a document that does not exist.
var errGone = errors.New("no such record")

// errMoved is the error of a change of a document whose state another writer has changed.
var errMoved = errors.New("the record's state has changed")

// change is a change of one document, computed by a step. The step runs in this process.
// What it changed is written only if the document is still as it was read; otherwise the
// document is read again and the step is repeated.
type change struct {
	queue, name string
	// before is the document as last read. If it is nil, it is read without its body.
	before *document
	// step changes the document. It may be called again with a newer version. An error
	// ends the change and becomes its err.
	step func(doc *document) error
	// refused, if set, changes a document in another way after a unique index refused
	// what step made of it. If it is nil, the refusal becomes the change's err.
	refused func(doc *document, r *refusal) error
	// made, if set, reports whether a document shows the change, although it was changed
	// again since.
	made func(doc *document) bool
	// quiet is true for a change that makes nothing claimable and that no caller waits
	// for.
	quiet bool
	// ends is true for a completion. If it ends the document for good, subscribers are
	// notified that nothing new is claimable, unless a queue is limited.
	ends bool
	// timely is true for a change that is made only if the lease was not extended since
	// the document was read.
	timely bool
	// leaseTime is the length of the lease that the change grants, if any, by the
	// server's clock, from when the server makes the change.
	leaseTime time.Duration

	// after is the document as the change left it, or as read if there was nothing to
	// change. It is nil if the change was not made.
	after *document
	// err is why the change was not made.
	err error

	refusal *refusal // by which the last write was rejected
	next    *document
	written bool // the change was stored
	stale   bool // before is out of date
	size    int  // of the document that was sent, as far as known
}

// isUnread reports whether the document must be read, either before it is changed or to
// find out whether the change was stored.
func (c *change) isUnread() bool { return c.before == nil || c.stale || c.next != nil }

// landed reports whether the change was stored.
func (c *change) landed() bool { return c.written }

// apply makes changes, each of them completely or not at all, then does what follows from
// them and notifies the subscribers. It returns an error of the store if the outcome of
// some change is not known. Each change also has its own error.
func (d *Driver) apply(ctx context.Context, changes []*change) error {
	err := d.write(ctx, changes)
	d.follow(ctx, changes)
	return err
}

// write makes changes without doing what follows from them.
func (d *Driver) write(ctx context.Context, changes []*change) error {
	w := &writing{Driver: d, left: changes}
	for round := 0; len(w.left) > 0; round++ {
		if round == maxRounds {
			w.giveUp()
			return nil
		}
		err := w.round(ctx, round)
		switch {
		case err == nil:
		case slices.ContainsFunc(changes, (*change).landed) && !errors.Is(err, driver.ErrOutcomeUnknown):
			return unknown(err) // some changes were made
		default:
			return err
		}
	}
	if w.found == nil {
		return nil
	}
	return d.confirm(ctx, w.found)
}

// confirm waits until the majority of the servers has what was found to be stored after
// an unacknowledged write. A write that changes nothing waits for all writes before it.
func (d *Driver) confirm(ctx context.Context, doc *document) error {
	_, err := d.jobs.UpdateOne(ctx, field("_id", doc.id), field("$setOnInsert", field("rev", doc.Rev)))
	if err != nil {
		return unknown(fmt.Errorf("waiting until what was written is acknowledged: %w", err))
	}
	return nil
}

// writing is a write in progress.
type writing struct {
	*Driver
	left     []*change
	failures int
	unsure   error // of the last write, if it may have been stored
	// found is a document that an unacknowledged write turned out to have stored.
	found *document
}

func (w *writing) giveUp() {
	for _, c := range w.left {
		c.err = errContended
		if c.refusal != nil {
			c.err = c.refusal.errorOf(c.before)
		}
	}
}

// round sends the remaining changes and finds out which were stored.
func (w *writing) round(ctx context.Context, round int) error {
	if round > 0 {
		if err := pause(ctx, round); err != nil {
			return w.ended(err)
		}
	}
	if err := w.read(ctx); err != nil {
		return w.ended(fmt.Errorf("reading %d records: %w", len(w.left), err))
	}
	models := w.prepare()
	if len(models) == 0 {
		return nil
	}
	result, err := w.jobs.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	return w.sent(ctx, result, err)
}

// ended returns the error of a call that ends before its writes are confirmed.
func (w *writing) ended(err error) error {
	if w.unsure != nil {
		return unknown(fmt.Errorf("%w, after %w", err, w.unsure))
	}
	return err
}

// pause waits before the next attempt for a random, growing time: up to 64 ms, and up to
// a second after maxRounds, because another process has probably died midway.
func pause(ctx context.Context, round int) error {
	if round == 1 {
		return ctx.Err()
	}
	growth := min(round, 6)
	if round > maxRounds {
		growth = min(6+round-maxRounds, 10)
	}
	timer := time.NewTimer(time.Duration(rand.Int64N(int64(time.Millisecond) << growth)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read reads the documents that are not known and those that may have been written.
func (w *writing) read(ctx context.Context) error {
	var unread []*change
	for _, c := range w.left {
		if c.isUnread() {
			unread = append(unread, c)
		}
	}
	if len(unread) == 0 {
		return nil
	}
	found, err := w.find(ctx, unread)
	if err != nil {
		return err
	}
	wasUnsure := w.unsure != nil
	w.unsure = nil
	left := w.left[:0:0]
	for _, c := range w.left {
		if !c.isUnread() {
			left = append(left, c)
			continue
		}
		current := found[key{c.queue, c.name}]
		switch {
		case current == nil:
			c.err = errGone
		case c.next != nil && current.Rev == c.next.Rev && current.Rev != 0:
			c.land(c.next)
		case c.next != nil && c.made != nil && c.made(current):
			c.land(current)
		default:
			c.before, c.next, c.stale = current, nil, false
			left = append(left, c)
		}
		if wasUnsure && c.landed() {
			w.found = c.after
		}
	}
	w.left = left
	return nil
}

// key identifies a record.
type key struct{ queue, name string }

// find reads the documents of changes without their bodies.
func (d *Driver) find(ctx context.Context, changes []*change) (map[key]*document, error) {
	names := map[string]bson.A{}
	for _, c := range changes {
		names[c.queue] = append(names[c.queue], d.idsOf(c.queue, c.name)...)
	}
	or := make(bson.A, 0, len(names))
	for queue, list := range names {
		or = append(or, d.inQueue(queue, bson.E{Key: "_id", Value: bson.D{{Key: "$in", Value: list}}}))
	}
	filter := bson.D{{Key: "$or", Value: or}}
	if len(or) == 1 {
		filter = or[0].(bson.D)
	}
	found := make(map[key]*document, len(changes))
	err := d.each(ctx, filter, withoutBodies(), func(doc *document) error {
		found[key{doc.Group, doc.Name}] = doc
		return nil
	})
	return found, err
}

// withoutJob is the projection of a document without its body.
var withoutJob = bson.D{{Key: "job", Value: 0}}

// withoutBodies returns the options of a find that excludes the bodies.
func withoutBodies() *options.FindOptions { return options.Find().SetProjection(withoutJob) }

// each calls visit with the documents that a filter selects.
func (d *Driver) each(ctx context.Context, filter bson.D, opts *options.FindOptions, visit func(*document) error) error {
	cursor, err := d.jobs.Find(ctx, filter, opts)
	if err != nil {
		return err
	}
	defer closeCursor(ctx, cursor)
	for cursor.Next(ctx) {
		err = visit(decode(cursor.Current))
		if err != nil {
			return err
		}
	}
	return cursor.Err()
}

// closeCursor closes a cursor that is no longer needed. Its error is ignored, because the
// server removes the cursor itself if the request does not reach it.
func closeCursor(ctx context.Context, cursor *mongo.Cursor) { _ = cursor.Close(ctx) }

// prepare runs the steps and returns the writes to send.
func (w *writing) prepare() []mongo.WriteModel {
	models := make([]mongo.WriteModel, 0, len(w.left))
	left := w.left[:0:0]
	for _, c := range w.left {
		model, err := w.model(c)
		if err != nil {
			c.err = err
		}
		if model != nil {
			models = append(models, model)
			left = append(left, c)
		}
	}
	w.left = left
	return models
}

// model returns the write of a change, or nil if there is nothing to write.
func (w *writing) model(c *change) (mongo.WriteModel, error) {
	next := *c.before
	c.next = nil
	err := c.run(&next)
	if err != nil {
		return nil, err
	}
	filter := append(bson.D{{Key: "_id", Value: next.id}}, c.before.guard...)
	if c.timely {
		filter = append(filter, c.before.leaseGuard...)
	}
	update, err := diff(c.before, &next)
	if err != nil {
		return nil, fmt.Errorf("encoding record %q: %w", c.name, err)
	}
	if update == nil {
		c.after = c.before
		return nil, nil
	}
	c.size = update.size
	if c.size > maxDocumentSize {
		return nil, tooLarge(&next, c.size)
	}
	switch {
	case c.quiet:
		next.Rev = w.revs.nextQuiet()
	case c.ends && next.final():
		next.Rev = w.revs.next() + ended
	default:
		next.Rev = w.revs.next()
	}
	update.set = append(update.set, bson.E{Key: "rev", Value: next.Rev})
	c.next = next.withoutBody()
	if next.Job.IsZero() {
		c.next.body = c.before.body
	}
	if next.runs() {
		update.leaseTime = c.leaseTime
	}
	return mongo.NewUpdateOneModel().SetFilter(filter).SetUpdate(update.document()), nil
}

func (c *change) run(next *document) error {
	if c.refusal == nil {
		return c.step(next)
	}
	if c.refused == nil {
		return c.refusal.errorOf(next)
	}
	return c.refused(next, c.refusal)
}

// sent finds out which of the changes that were sent are stored. The others are left for
// the next round.
func (w *writing) sent(ctx context.Context, result *mongo.BulkWriteResult, err error) error {
	refused := 0
	if err != nil {
		var bulk mongo.BulkWriteException
		if !errors.As(err, &bulk) || bulk.WriteConcernError != nil || len(bulk.WriteErrors) == 0 {
			return w.failed(ctx, err)
		}
		for _, e := range bulk.WriteErrors {
			w.left[e.Index].reject(e.WriteError)
			refused++
		}
	}
	left := w.left[:0:0]
	matched := 0
	if result != nil {
		matched = int(result.MatchedCount)
	}
	sent := len(w.left) - refused
	for _, c := range w.left {
		switch {
		case c.err != nil:
		case c.next == nil: // an index refused it
			left = append(left, c)
		case matched == sent:
			c.land(c.next)
		case matched == 0: // none was stored
			c.next, c.stale = nil, true
			left = append(left, c)
		default: // some were stored: read all again
			left = append(left, c)
		}
	}
	w.left = left
	return nil
}

// reject records the server's error for the change.
func (c *change) reject(e mongo.WriteError) {
	c.refusal = refusalOf(e)
	switch {
	case c.refusal != nil:
	case isTooLarge(e):
		c.err = tooLarge(c.next, c.size)
	case !isConflict(e):
		c.err = fmt.Errorf("writing record %q: %w", c.name, e)
	}
	c.next = nil
}

func (c *change) land(doc *document) {
	doc.reguard()
	c.after, c.next, c.written = doc, nil, true
}

// failed handles a write without a usable answer. The documents are read again unless the
// write must not be repeated.
func (w *writing) failed(ctx context.Context, err error) error {
	err = fmt.Errorf("writing %d records: %w", len(w.left), err)
	switch {
	case isConflict(err):
		for _, c := range w.left {
			c.next = nil
		}
		return nil
	case isTransient(err) && ctx.Err() == nil:
		w.failures++
		w.unsure = err
		if w.failures < maxFailures {
			return nil
		}
	}
	return failed(ctx, err)
}

// update holds the changed fields of a document.
type update struct {
	set, unset bson.D
	size       int // of the document, as far as known
	// leaseTime is the length of a lease that begins, or 0.
	leaseTime time.Duration
}

// document returns the update to send: a pipeline if a lease begins, because only a
// pipeline can refer to the server's clock.
func (u *update) document() any {
	if u.leaseTime > 0 {
		return u.pipeline()
	}
	doc := bson.D{{Key: "$set", Value: u.set}}
	if len(u.unset) > 0 {
		doc = append(doc, bson.E{Key: "$unset", Value: u.unset})
	}
	return doc
}

func (u *update) pipeline() mongo.Pipeline {
	set := make(bson.D, 0, len(u.set))
	for _, e := range u.set {
		if e.Key != leaseBegan && e.Key != leaseEnds {
			set = append(set, bson.E{Key: e.Key, Value: field("$literal", e.Value)})
		}
	}
	stages := mongo.Pipeline{field("$set", set)}
	if len(u.unset) > 0 {
		paths := make(bson.A, len(u.unset))
		for i, e := range u.unset {
			paths[i] = e.Key
		}
		stages = append(stages, field("$unset", paths))
	}
	return append(stages, leaseFor(u.leaseTime))
}

// nested lists the embedded documents of which only the changed fields are written, so
// that a change keeps what other writers store beside them.
var nested = map[string]bool{"status": true, "time_info": true, "retry_info": true, "line": true}

// diff returns the update that turns one document into another, or nil if they are equal.
func diff(before, after *document) (*update, error) {
	was, err := bodyless(before)
	if err != nil {
		return nil, err
	}
	is, err := bodyless(after)
	if err != nil {
		return nil, err
	}
	u := &update{size: len(is) + len(after.Job.Raw())}
	err = u.compare("", was, is, before.replaced)
	if err != nil {
		return nil, err
	}
	if !after.Job.IsZero() && hashOf(after.Job) != before.body {
		u.set = append(u.set, bson.E{Key: "job", Value: after.Job})
	}
	if len(u.set)+len(u.unset) == 0 {
		return nil, nil
	}
	return u, nil
}

func bodyless(doc *document) (bson.Raw, error) {
	copied := *doc
	copied.Job = registry.Body{}
	return bson.Marshal(&copied)
}

// compare adds the fields that differ. Fields of nested documents are addressed by path,
// unless the nested document is replaced as a whole.
func (u *update) compare(prefix string, before, after bson.Raw, replaced map[string]bool) error {
	was, err := before.Elements()
	if err != nil {
		return err
	}
	is, err := after.Elements()
	if err != nil {
		return err
	}
	old := make(map[string]bson.RawValue, len(was))
	for _, e := range was {
		old[e.Key()] = e.Value()
	}
	for _, e := range is {
		name, value := e.Key(), e.Value()
		previous, there := old[name]
		delete(old, name)
		if there && previous.Equal(value) {
			continue
		}
		previousDoc, wasDoc := previous.DocumentOK()
		if doc, isDoc := value.DocumentOK(); prefix == "" && nested[name] && !replaced[name] && there && wasDoc && isDoc {
			err = u.compare(name+".", previousDoc, doc, nil)
			if err != nil {
				return err
			}
			continue
		}
		u.set = append(u.set, bson.E{Key: prefix + name, Value: value})
	}
	for _, e := range was {
		if _, gone := old[e.Key()]; gone {
			u.unset = append(u.unset, bson.E{Key: prefix + e.Key(), Value: ""})
		}
	}
	return nil
}
