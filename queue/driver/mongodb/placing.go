package mongodb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy/queue/driver"
)

// insertSize is the maximum number of documents of an insert. All of them share its time limit.
const insertSize = 1000

// place makes documents wait whose scopes are held, or are wanted by earlier documents of
// the batch.
func (b *batch) place(ctx context.Context, docs []*newDocument) error {
	scopes := scopeSet{}
	for _, n := range docs {
		b.hold(n.Group, n.Scopes)
		scopes.add(n.Group, n.Line.Wants...)
	}
	for queue, set := range scopes {
		if err := b.findHeld(ctx, queue, set); err != nil {
			return fmt.Errorf("querying held scopes: %w", err)
		}
	}
	inOrder := slices.Clone(docs)
	slices.SortStableFunc(inOrder, func(m, n *newDocument) int {
		if m.before(n.document) {
			return -1
		}
		return 1
	})
	for _, n := range inOrder {
		if n.Line.In == inReady {
			b.placeOne(n)
		}
	}
	return nil
}

func (b *batch) placeOne(n *newDocument) {
	for _, scope := range n.Line.Wants {
		if b.held[key{n.Group, scope}] >= n.limitOf(scope) {
			n.block(scope)
			return
		}
	}
	b.hold(n.Group, n.Line.Wants)
}

// hold counts what a document holds or is about to take.
func (b *batch) hold(queue string, held []string) {
	for _, name := range held {
		b.held[key{queue, keyOf(name)}]++
	}
}

func (b *batch) findHeld(ctx context.Context, queue string, scopes map[string]int) error {
	filter := b.inQueue(queue, bson.E{Key: "scopes", Value: field("$in", holding(slices.Sorted(maps.Keys(scopes))))})
	return b.each(b.session(ctx), filter, options.Find().SetProjection(bson.D{{Key: "scopes", Value: 1}}), func(doc *document) error {
		b.hold(queue, doc.Scopes)
		return nil
	})
}

// store inserts the documents that are not refused.
func (b *batch) store(ctx context.Context, docs []*newDocument) error {
	p := &placing{batch: b, docs: docs, size: insertSize}
	for round := 0; ; {
		if p.failing {
			p.failing = false
			round++
			if err := pause(ctx, round); err != nil {
				return p.after(err)
			}
			if p.unsure != nil {
				if err := p.findStored(ctx); err != nil {
					return unknown(fmt.Errorf("%w, after %w", err, p.unsure))
				}
			}
		}
		rest := left(docs)
		if len(rest) == 0 {
			b.nameRivals(ctx, docs)
			return nil
		}
		if err := p.send(ctx, rest); err != nil {
			return p.after(err)
		}
	}
}

// placing is an insert of documents in progress.
type placing struct {
	*batch
	docs     []*newDocument
	failures int
	failing  bool // a command of the last round took too long or failed
	// unsure is the error of a command after which it is not known which documents are
	// stored. They may also be stored later.
	unsure error
	// size is the maximum number of documents of a command. It becomes smaller if a command with
	// several took too long.
	size int
	// swept is true once a sweep was requested, because a document has to wait for a
	// transaction, which may be that of a retry of a dead process.
	swept bool
}

// after returns the error of a call that ends before it is known what is stored.
func (p *placing) after(err error) error {
	if p.unsure != nil && !errors.Is(err, driver.ErrOutcomeUnknown) {
		return unknown(fmt.Errorf("%w, after %w", err, p.unsure))
	}
	return err
}

// send inserts documents. Those of a command that took too long are left.
func (p *placing) send(ctx context.Context, docs []*newDocument) error {
	raws, docs := p.encodeAll(docs)
	size := p.size
	var failure error
	failures := p.failures
	for _, part := range p.sendAll(ctx, p.divide(docs, raws)) {
		if isTimedOut(part.err) {
			p.timedOut(part, size)
			continue
		}
		p.failures = failures // they are failures of one attempt
		if err := p.sent(ctx, part.docs, part.answer, part.err); err != nil {
			failure = err
		}
	}
	return failure
}

// part is the documents of one command.
type part struct {
	docs   []*newDocument
	raws   []bson.Raw
	answer *answer
	err    error
}

// divide divides documents into commands. A server stores those of one command in their order. A document that an
// earlier one in another command may exclude is left for the next round, so that it is not stored first.
func (p *placing) divide(docs []*newDocument, raws []bson.Raw) (parts []*part) {
	if len(docs) > 0 && len(docs) <= p.size {
		return []*part{{docs: docs, raws: raws}}
	}
	const later = -1
	takers := map[taken]int{} // the index of the part in which something is taken, or later
	for i, n := range docs {
		at := len(parts) - 1
		if at < 0 || len(parts[at].docs) == p.size {
			at++
		}
		for _, what := range n.takes() {
			if by, is := takers[what]; is && by != at {
				at = later
				break
			}
		}
		for _, what := range n.takes() {
			takers[what] = at
		}
		switch at {
		case later:
			continue
		case len(parts):
			parts = append(parts, &part{})
		}
		parts[at].docs, parts[at].raws = append(parts[at].docs, n), append(parts[at].raws, raws[i])
	}
	return parts
}

// taken is what a unique index lets one document of a queue have.
type taken struct {
	index        uniqueIndex
	queue, value string
}

// takes returns what no other document can have beside this one.
func (n *newDocument) takes() []taken {
	all := []taken{{byName, n.Group, n.id}, {byJobID, n.Group, n.JobID}}
	if n.UniqueLock != "" {
		all = append(all, taken{byUniqueKey, n.Group, n.UniqueLock})
	}
	for _, scope := range n.Scopes {
		all = append(all, taken{byScope, n.Group, scope})
	}
	return all
}

// sendAll sends commands and returns those that were sent. At first it sends them one by one,
// because the server may be too slow for several, and ends with one that failed. Once one took
// too long, probably because of a transaction, it sends several at once.
func (p *placing) sendAll(ctx context.Context, parts []*part) (sent []*part) {
	send := func(i int) {
		limit := batchLimit
		if len(parts[i].docs) == 1 {
			limit = singleLimit
		}
		parts[i].answer, parts[i].err = p.batch.send(ctx, inserting, parts[i].raws, false, limit)
	}
	if p.size < insertSize {
		eachAtOnce(len(parts), send)
		return parts
	}
	for i, part := range parts {
		send(i)
		if part.err != nil && !isTimedOut(part.err) {
			return parts[:i+1]
		}
	}
	return parts
}

// timedOut records that a command took too long. Some of its documents may be stored, or even a
// single one, if only the client gave up on it.
func (p *placing) timedOut(part *part, size int) {
	p.unsure, p.failing = part.err, true
	switch {
	case len(part.docs) > 1 && p.size == size: // this part is the first, so none is larger
		p.size = max(1, len(part.docs)/atOnce)
	case len(part.docs) == 1 && !p.swept:
		p.swept = true
		p.sweeper.force()
	}
}

// sent records which documents are stored and which are refused.
func (p *placing) sent(ctx context.Context, docs []*newDocument, a *answer, err error) error {
	if err != nil {
		return p.failed(ctx, err)
	}
	if a.unacknowledged != nil { // what refused some of them may be rolled back
		return p.failed(ctx, a.unacknowledged)
	}
	var clashes, refused []*newDocument
	for _, e := range a.refused {
		n := docs[e.Index]
		r := refusalOf(e)
		if r == nil {
			n.refusal = fmt.Errorf("inserting record %q: %w", n.Name, e)
			continue
		}
		n.refusal, n.clash = r.errorOf(n.document), r
		if refused = append(refused, n); r.index == byName && p.opts.Grouped && n.id == n.Name {
			clashes = append(clashes, n)
		}
	}
	for _, n := range docs {
		n.stored = n.refusal == nil
	}
	if p.unsure != nil && len(refused) > 0 {
		// What refused them may be themselves, stored late by an earlier command.
		err = p.findOwn(ctx, refused)
	}
	if err == nil && len(clashes) > 0 {
		err = p.sendClashes(ctx, clashes)
	}
	return err
}

// failed handles a command without a usable answer.
func (p *placing) failed(ctx context.Context, err error) error {
	p.failures++
	p.failing = true
	switch {
	case ctx.Err() != nil || p.failures == maxFailures:
	case isTransient(err) || isUnacknowledged(err):
		p.unsure = err
		return nil
	case isConflict(err):
		return nil
	}
	return failed(ctx, err)
}

// sendClashes inserts documents again under another _id if a record of another queue has
// their name.
func (p *placing) sendClashes(ctx context.Context, docs []*newDocument) error {
	names := make(bson.A, len(docs))
	for i, n := range docs {
		names[i] = n.id
	}
	queues := map[string]string{}
	filter := bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: names}}}}
	err := p.each(ctx, filter, options.Find().SetProjection(bson.D{{Key: "group", Value: 1}}), func(doc *document) error {
		queues[doc.id] = doc.Group
		return nil
	})
	if err != nil {
		return err
	}
	var again []*newDocument
	for _, n := range docs {
		if queue, there := queues[n.id]; n.refusal != nil && there && queue != n.Group {
			n.id, n.refusal = aliasOf(n.Group, n.Name), nil
			again = append(again, n)
		}
	}
	return p.send(ctx, again)
}

func (b *batch) encodeAll(docs []*newDocument) (raws []bson.Raw, left []*newDocument) {
	for _, n := range docs {
		raw, err := b.encode(n.document)
		switch {
		case err != nil:
			n.refusal = err
		case len(raw) > maxNewSize:
			n.refusal = tooLargeToRun(n.document, len(raw))
		default:
			raws, left = append(raws, raw), append(left, n)
		}
	}
	return raws, left
}

// findStored finds out which of the documents that are left are stored.
func (p *placing) findStored(ctx context.Context) error { return p.findOwn(ctx, left(p.docs)) }

// findOwn finds out which documents are stored, whether other processes have changed them
// since or not, and waits until the majority has them. What was rolled back meanwhile is
// not stored.
func (p *placing) findOwn(ctx context.Context, docs []*newDocument) error {
	ids := bson.A{}
	byOrder := map[int64]*newDocument{} // several may have one _id
	for _, n := range docs {
		ids = append(ids, n.id)
		byOrder[n.Order] = n
	}
	for round := range maxRounds {
		if round > 0 {
			if err := pause(ctx, round); err != nil {
				return err
			}
		}
		var found []*document
		filter := bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}
		err := p.each(ctx, filter, options.Find().SetProjection(bson.D{{Key: "order", Value: 1}}), func(doc *document) error {
			if n := byOrder[doc.Order]; n != nil && n.id == doc.id {
				doc.guard = field("order", doc.Order)
				found = append(found, doc)
			}
			return nil
		})
		if err != nil || len(found) == 0 {
			return err
		}
		all, err := p.confirmed(ctx, found)
		if err != nil {
			return err
		}
		if !all {
			continue
		}
		for _, doc := range found {
			byOrder[doc.Order].stored, byOrder[doc.Order].refusal = true, nil
		}
		return nil
	}
	return errContended
}
