package mongodb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/internal/sleep"
	"github.com/mongodb/amboy/queue/driver"
)

const (
	// maxRounds is the maximum number of attempts at a change that conflicts with other
	// writers.
	maxRounds = 30
	// maxFailures is the maximum number of times that a change is sent if the server
	// fails.
	maxFailures = 3
)

// apply makes changes, each of them completely or not at all, then does what follows from
// them and notifies the subscribers. It returns an error of the store if the outcome of
// some change is not known. Each change also has its own error.
func (d *Driver) apply(ctx context.Context, changes []*change) error {
	err := d.write(ctx, changes)
	d.follow(ctx, changes)
	if errors.Is(err, driver.ErrOutcomeUnknown) {
		d.tellPeers(driver.Anywhere) // some may have been made, which no event shows them
		d.sweeper.watch()            // and what follows from these is left undone
	}
	return err
}

// write makes changes without doing what follows from them.
func (d *Driver) write(ctx context.Context, changes []*change) error {
	for _, c := range changes {
		if c.before != nil {
			c.state = known
		}
	}
	w := &writing{Driver: d, changes: changes}
	for round := 0; w.has(unread, known, found); round++ {
		if round == maxRounds {
			return w.giveUp()
		}
		err := w.round(ctx, round)
		switch {
		case err == nil:
		case errors.Is(err, driver.ErrOutcomeUnknown):
			return err
		case w.has(found) || slices.ContainsFunc(changes, func(c *change) bool { return c.landed() || len(c.tries) > 0 }):
			return unknown(err) // some changes were made, or may have been
		default:
			return err
		}
	}
	return nil
}

// writing is a write in progress.
type writing struct {
	*Driver
	changes  []*change
	failures int
	unsure   error // of the last command without an answer
	// single is true once a command with several statements took too long.
	single bool
	// foreign is true in a transaction of the caller. All processes, including this one, must be
	// notified when it is committed.
	foreign bool
}

// in returns the changes in a state.
func (w *writing) in(s state) []*change {
	var changes []*change
	for _, c := range w.changes {
		if c.state == s {
			changes = append(changes, c)
		}
	}
	return changes
}

func (w *writing) has(states ...state) bool {
	return slices.ContainsFunc(w.changes, func(c *change) bool { return slices.Contains(states, c.state) })
}

// giveUp ends changes that conflicted too often. The outcome of one that was found and not
// confirmed is unknown.
func (w *writing) giveUp() error {
	if w.has(found) {
		return unknown(errContended)
	}
	for _, c := range w.changes {
		switch {
		case c.state == ended:
		case c.refusal != nil:
			c.end(c.refusal.errorOf(c.before))
		default:
			c.end(errContended)
		}
	}
	return nil
}

// round finds out what became of the tries, and sends the next ones.
func (w *writing) round(ctx context.Context, round int) error {
	if round > 0 {
		if err := pause(ctx, round); err != nil {
			return w.after(err)
		}
	}
	if err := w.read(ctx); err != nil {
		return w.after(fmt.Errorf("reading records: %w", err))
	}
	if err := w.confirm(ctx); err != nil {
		return err
	}
	sending := w.prepare()
	switch {
	case len(sending) == 0:
		return nil
	case w.single || len(sending) == 1 && len(sending[0].changes) == 1:
		return w.sendEach(ctx, sending)
	}
	a, err := w.send(ctx, updating, statementsOf(sending), false, batchLimit)
	if isTimedOut(err) { // some may have been stored before the one that waits
		for _, c := range changesOf(sending) {
			c.state = unread
		}
		w.single, w.unsure = true, err
		return nil
	}
	return w.sent(ctx, sending, a, err)
}

// sendEach sends each try with a command of its own. A try that takes too long is blocked.
func (w *writing) sendEach(ctx context.Context, sending []*sending) error {
	answers, errs := make([]*answer, len(sending)), make([]error, len(sending))
	eachAtOnce(len(sending), func(i int) {
		answers[i], errs[i] = w.send(ctx, updating, statementsOf(sending[i:i+1]), false, singleLimit)
	})
	var failure error
	failures := w.failures
	for i, s := range sending {
		if isTimedOut(errs[i]) {
			for _, c := range s.changes {
				c.state, c.blocked = unread, true
			}
			w.unsure = errs[i]
			continue
		}
		w.failures = failures // they are failures of one attempt
		if err := w.sent(ctx, sending[i:i+1], answers[i], errs[i]); err != nil {
			failure = err
		}
	}
	return failure
}

// after returns the error of a call that ends before the outcome of its tries is known.
func (w *writing) after(err error) error {
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
	return sleep.For(ctx, time.Duration(rand.Int64N(int64(time.Millisecond)<<growth)))
}

// read reads the documents that are not known and those that may have been written.
func (w *writing) read(ctx context.Context) error {
	changes := w.in(unread)
	if len(changes) == 0 {
		return nil
	}
	current, err := w.find(ctx, changes)
	if err != nil {
		return err
	}
	for _, c := range changes {
		c.observe(current[key{c.queue, c.name}])
	}
	return nil
}

// confirm waits until the majority of the servers has what was found, and reads what is no
// longer there again: it was rolled back, or has changed since. A write that changes
// nothing waits for all writes before it.
func (w *writing) confirm(ctx context.Context) error {
	changes := w.in(found)
	if len(changes) == 0 {
		return nil
	}
	docs := make([]*document, len(changes))
	for i, c := range changes {
		docs[i] = c.after
	}
	all, err := w.confirmed(ctx, docs)
	switch {
	case err == nil && all:
		for _, c := range changes {
			if c.shown != nil {
				c.end(c.shown)
				continue
			}
			c.land(c.after)
		}
		return nil
	case err != nil:
		w.failures++
		w.unsure = err
		if !isTransient(err) || ctx.Err() != nil || w.failures == maxFailures {
			return unknown(err)
		}
	}
	for _, c := range changes {
		c.state, c.after, c.shown = unread, nil, nil
	}
	return nil
}

// confirmed waits until the majority of the servers has documents that were read. It
// reports whether all of them are still as they were.
func (d *Driver) confirmed(ctx context.Context, docs []*document) (all bool, err error) {
	nothing := make([]bson.D, len(docs))
	for i, doc := range docs {
		nothing[i] = statement(append(field("_id", doc.id), doc.guard...), field("$setOnInsert", field("rev", doc.Rev)))
	}
	statements, err := encodeStatements(nothing...)
	if err != nil {
		return false, fmt.Errorf("encoding %d filters: %w", len(docs), err)
	}
	// It waits for the majority, however long that takes, and for no transaction.
	a, err := d.send(ctx, updating, statements, false, 0)
	if err == nil {
		err = a.unacknowledged
	}
	if err != nil {
		return false, fmt.Errorf("waiting until what was written is acknowledged: %w", err)
	}
	return a.n == len(docs), nil
}

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

// sending is a statement to send, which makes some changes.
type sending struct {
	changes   []*change
	statement bson.Raw
}

func statementsOf(all []*sending) []bson.Raw {
	statements := make([]bson.Raw, len(all))
	for i, s := range all {
		statements[i] = s.statement
	}
	return statements
}

func changesOf(all []*sending) []*change {
	changes := make([]*change, 0, len(all))
	for _, s := range all {
		changes = append(changes, s.changes...)
	}
	return changes
}

// prepare runs the steps and returns the statements to send.
func (w *writing) prepare() []*sending {
	var models []*model
	for _, c := range w.in(known) {
		m, err := w.model(c)
		switch {
		case errors.Is(err, driver.ErrLeaseLost) && c.made != nil && c.made(c.before):
			// An earlier call, whose outcome was unknown, has made the change.
			c.state, c.after, c.shown = found, c.before, err
		case err != nil:
			c.end(err)
		case m == nil:
			c.after, c.state = c.before, ended // there is nothing to change
		default:
			models = append(models, m)
		}
	}
	var all []*sending
	for _, shared := range w.shared(models) {
		s := &sending{changes: make([]*change, len(shared))}
		rev := w.revision(shared[0])
		for i, m := range shared {
			s.changes[i] = m.change
		}
		raw, err := encodeStatements(statementFor(shared, rev))
		if err != nil {
			for _, c := range s.changes {
				c.end(fmt.Errorf("encoding record %q: %w", c.name, err))
			}
			continue
		}
		for _, m := range shared {
			m.change.try(m.next, rev)
		}
		s.statement = raw[0]
		all = append(all, s)
	}
	return all
}

// model is what a change writes.
type model struct {
	change *change
	next   *document // as it will be stored, but without a new revision
	update *update
}

// model returns what a change writes, or nil if there is nothing to write.
func (w *writing) model(c *change) (*model, error) {
	next := *c.before
	err := c.run(&next)
	if err != nil {
		return nil, err
	}
	changed, err := diff(c.before, &next)
	switch {
	case err != nil:
		return nil, fmt.Errorf("encoding record %q: %w", c.name, err)
	case changed == nil && !c.fences:
		return nil, nil
	case changed == nil:
		changed = &update{}
	}
	c.size = changed.size
	if c.size > maxDocumentSize {
		return nil, tooLarge(&next, c.size)
	}
	if next.runs() {
		changed.leaseTime = c.leaseTime
	}
	return &model{change: c, next: &next, update: changed}, nil
}

// kindOfRevision is the range of a revision.
type kindOfRevision int

const (
	plainRevision kindOfRevision = iota
	quietRevision
	finalRevision
	unsettledRevision
)

func (m *model) revision() kindOfRevision {
	switch {
	case m.change.quiet:
		return quietRevision
	case m.change.ends && m.next.final() && (m.next.Settle || len(m.change.before.Scopes) > 0):
		return unsettledRevision
	case m.change.ends && m.next.final():
		return finalRevision
	default:
		return plainRevision
	}
}

// revision returns a new revision for a change.
func (w *writing) revision(m *model) int64 {
	next := w.revs.next
	if w.foreign {
		next = w.revs.nextForeign
	}
	switch m.revision() {
	case quietRevision:
		return next() + quiet
	case finalRevision:
		return next() + endedRevision
	case unsettledRevision:
		return next() + leftRevision
	default:
		return next()
	}
}

// sent records the outcome of the tries that were sent. It returns an error if the call
// must end.
func (w *writing) sent(ctx context.Context, sending []*sending, a *answer, err error) error {
	changes := changesOf(sending)
	for _, c := range changes {
		c.state = unread
	}
	if err != nil {
		return w.failed(ctx, changes, err)
	}
	stored, some := len(changes), false
	for _, e := range a.refused {
		refused := sending[e.Index].changes
		stored -= len(refused)
		if len(refused) == 1 {
			refused[0].reject(e)
			continue
		}
		some = true // those before the one that was refused may have been stored
		for _, c := range refused {
			c.alone, c.lastTry().answered = true, a.unacknowledged == nil
		}
	}
	if a.unacknowledged != nil {
		return w.failed(ctx, changes, a.unacknowledged)
	}
	for _, c := range changes {
		switch {
		case c.state != unread: // the server refused it
		case a.n == stored && !some:
			c.land(c.lastTry().doc)
		case a.n == 0 && !some: // none was stored
			c.dropTry()
		default: // some were stored: read all again
			c.lastTry().answered = true
		}
	}
	return nil
}

// failed handles tries without a usable answer. The documents are read again unless the
// tries must not be repeated.
func (w *writing) failed(ctx context.Context, changes []*change, err error) error {
	err = fmt.Errorf("writing %d records: %w", len(changes), err)
	switch {
	case isConflict(err):
		return nil
	case (isTransient(err) || isUnacknowledged(err)) && ctx.Err() == nil:
		w.failures++
		w.unsure = err
		if w.failures < maxFailures {
			return nil
		}
	}
	return failed(ctx, err)
}
