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
	// maxRounds is how often a change is tried that others come in the way of.
	maxRounds = 30
	// maxFailures is how often a change is sent while the server can't do it.
	maxFailures = 3
)

// errContended is the error of a change that others came in the way of too often.
var errContended = errors.New("others kept changing the record; it is unchanged by this call")

// errGone is the error of a change of a document that is not there.
var errGone = errors.New("there is no such record")

// errMoved is the error of a change of a document that others have moved on.
var errMoved = errors.New("the record has moved on")

// change is one document on its way from what it was to what a step makes of it.
// The step runs here, and what it changed is written where the document still is
// as it was read; else it is read and done again.
type change struct {
	queue, name string
	// before is the document as it was last seen. Where it is nil it is read,
	// without its body.
	before *document
	// step changes the document. It may be called again, with another one. An
	// error ends the change, and becomes its err.
	step func(doc *document) error
	// refused, where set, changes a document in another way after a unique index
	// has refused what step made of it. Else the refusal becomes the change's err.
	refused func(doc *document, r *refusal) error
	// made, where set, tells that a document shows the change, which others have
	// changed since.
	made func(doc *document) bool
	// quiet is true of a change that can let nobody claim, and that nobody waits for.
	quiet bool
	// ends is true of one of which only this process's own callers need not be
	// told, where it can let nobody claim.
	ends bool
	// timely is true of a change that is made only where the lease has not been
	// extended since the document was read.
	timely bool
	// leaseTime is how long the lease lasts that the change gives, if it gives one, from
	// when the server makes it, and by the server's clock.
	leaseTime time.Duration

	// after is the document as the change left it; nil where it was not made.
	// Where there was nothing to change it is what was read.
	after *document
	// err is why the change was not made.
	err error

	refusal *refusal // of the last time it was sent
	next    *document
	written bool // after is not before
	stale   bool // before is not what is stored
	size    int  // of the document that was sent, as far as it is known
}

// isUnread is true of a change whose document must be read before it is made, or
// to find out whether it was.
func (c *change) isUnread() bool { return c.before == nil || c.stale || c.next != nil }

// landed is true of a change that was made, and changed something.
func (c *change) landed() bool { return c.written }

// apply makes changes, each of them or not at all, then does what follows from
// them, and tells the subscribers. The error is that of the store, where it is not
// known of all changes whether they were made; each has its own besides.
func (d *Driver) apply(ctx context.Context, changes []*change) error {
	err := d.write(ctx, changes)
	d.follow(ctx, changes)
	return err
}

// write makes changes.
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
			return unknown(err) // some were made
		default:
			return err
		}
	}
	if w.found == nil {
		return nil
	}
	return d.confirm(ctx, w.found)
}

// confirm waits until the majority has what was found to be stored after a write
// that was not acknowledged. A write that changes nothing waits for all before it.
func (d *Driver) confirm(ctx context.Context, doc *document) error {
	_, err := d.jobs.UpdateOne(ctx, field("_id", doc.id), field("$setOnInsert", field("rev", doc.Rev)))
	if err != nil {
		return unknown(fmt.Errorf("waiting until what was written is acknowledged: %w", err))
	}
	return nil
}

// writing is a write that is under way.
type writing struct {
	*Driver
	left     []*change
	failures int
	unsure   error // of the last time that it was sent, where it may have landed
	// found is a document that was found to have been written after that.
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

// round sends what is left, and finds out what has landed.
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

// ended is the error of a call that ends here.
func (w *writing) ended(err error) error {
	if w.unsure != nil {
		return unknown(fmt.Errorf("%w, after %w", err, w.unsure))
	}
	return err
}

// pause lets others come first, for a time that is random and grows: up to 64 ms, and to
// a second after maxRounds, when another process is likely to have died midway.
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

// read reads the documents that are not known, and those that may have been
// written.
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

// key names a record.
type key struct{ queue, name string }

// find reads the documents of changes, without their bodies.
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

// withoutBodies are the options of a find that leaves the bodies out.
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

// closeCursor closes a cursor of which nothing more is wanted. The server ends it
// itself where it can't be told.
func closeCursor(ctx context.Context, cursor *mongo.Cursor) { _ = cursor.Close(ctx) }

// prepare lets the steps run, and returns what is to be sent.
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

// model is what is sent of a change; nil where there is nothing to send.
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

// sent finds out what has landed of what was sent. What has not is left for the
// next round.
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
		case c.next == nil: // refused
			left = append(left, c)
		case matched == sent:
			c.land(c.next)
		case matched == 0: // none has landed
			c.next, c.stale = nil, true
			left = append(left, c)
		default: // they are read again
			left = append(left, c)
		}
	}
	w.left = left
	return nil
}

// reject takes note of the error of one of the documents that were sent.
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

// failed is called where there was no good answer. The documents are read again,
// as long as it makes sense to try.
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

// update is what has changed of a document.
type update struct {
	set, unset bson.D
	size       int // of the document, as far as it is known
	// leaseTime is that of a lease that begins; 0 if none does.
	leaseTime time.Duration
}

// document is what is sent: a pipeline where a lease begins, as only that can refer to
// the clock of the server.
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

// nested are the fields of which only those within are written that changed, so
// that a change keeps what others write beside it.
var nested = map[string]bool{"status": true, "time_info": true, "retry_info": true, "line": true}

// diff is what is to be written so that a document is as another one; nil where it
// is.
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

// compare adds the fields that differ. Those of nested documents have a path, but
// where these are replaced.
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
		former, there := old[name]
		delete(old, name)
		if there && former.Equal(value) {
			continue
		}
		formerDoc, wasDoc := former.DocumentOK()
		if doc, isDoc := value.DocumentOK(); prefix == "" && nested[name] && !replaced[name] && there && wasDoc && isDoc {
			err = u.compare(name+".", formerDoc, doc, nil)
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
