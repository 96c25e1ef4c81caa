package mongodb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mongodb/grip/message"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

const (
	// sweepEvery is how often it is looked for what a process has left undone that
	// died, while there may be something.
	sweepEvery = 5 * time.Second
	// sweepAtOnce is the number of documents, at most, of each kind.
	sweepAtOnce = 1000
	// adoptAtOnce is the number of documents of the former library, at most, that
	// are read at once, with their bodies.
	adoptAtOnce = 200
)

// sweeper does what was left undone: it settles edges, looks who waits for scopes
// that are free, finishes retries of standalone servers, and adopts documents of
// the former library. It sleeps while there is nothing of the kind.
type sweeper struct {
	signal  chan struct{}
	soon    atomic.Bool // it should look at once
	waiting atomic.Bool // there may be something in a while
	formers atomic.Bool // it should look for documents of the former library, too
}

func (s *sweeper) wake() {
	select {
	case s.signal <- struct{}{}:
	default: // it is awake
	}
}

// hurry has it look at once.
func (s *sweeper) hurry() {
	s.soon.Store(true)
	s.wake()
}

// watch has it look in a while, and again until nobody waits.
func (s *sweeper) watch() {
	if !s.waiting.Swap(true) {
		s.wake()
	}
}

// lookForFormers has it look at once, also for documents of the former library.
func (s *sweeper) lookForFormers() {
	s.formers.Store(true)
	s.hurry()
}

// sweep looks again and again, until ctx ends.
func (d *Driver) sweep(ctx context.Context) {
	broken := false
	for d.sweeper.await(ctx) {
		err := d.sweepOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !broken {
			logging.Warning(ctx, message.Fields{
				"message":    "what others have left undone can't be looked for; it is tried again",
				"collection": d.jobs.Name(),
				"error":      err.Error(),
			})
		}
		broken = err != nil
		if broken {
			d.sweeper.waiting.Store(true)
		}
	}
}

// await waits until it is to look. It returns false where ctx ends first.
func (s *sweeper) await(ctx context.Context) bool {
	timer := time.NewTimer(sweepEvery)
	defer timer.Stop()
	for {
		if s.soon.Swap(false) {
			return ctx.Err() == nil
		}
		var due <-chan time.Time
		if s.waiting.Load() {
			due = timer.C
		}
		select {
		case <-s.signal:
			timer.Reset(sweepEvery)
		case <-due:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// leftovers are what a look finds.
type leftovers struct {
	settle, handovers, formers []*document
	scopes                     scopeSet
	edges                      map[string]map[string]bool // by queue
}

// sweepOnce looks once, with one command where there is nothing.
func (d *Driver) sweepOnce(ctx context.Context) error {
	formers := d.sweeper.formers.Swap(false) || !d.isReplica
	found, err := d.findLeftovers(ctx, formers)
	if err != nil {
		d.sweeper.formers.Store(formers)
		return err
	}
	some := len(found.settle)+len(found.handovers)+len(found.formers)+len(found.scopes)+len(found.edges) > 0
	d.sweeper.waiting.Store(some || !d.isReplica)
	if err = d.adoptFormers(ctx, found.formers); err != nil {
		return fmt.Errorf("adopting jobs of the former library: %w", err)
	}
	if err = d.settle(ctx, found.settle); err != nil {
		return fmt.Errorf("telling those that depend on jobs which ended: %w", err)
	}
	for queue, ids := range found.edges {
		if err = d.endThoseThatEnded(ctx, queue, ids); err != nil {
			return fmt.Errorf("looking whether jobs on which others depend have ended: %w", err)
		}
	}
	for _, next := range found.handovers {
		if err = d.resume(ctx, next); err != nil && !errors.Is(err, errMoved) && !errors.Is(err, driver.ErrLeaseLost) {
			return fmt.Errorf("finishing the retry of record %q: %w", next.Handover.From, err)
		}
	}
	// There may be some of which one that died has told nobody.
	d.arrangeNow(ctx, found.scopes, true, driver.Anywhere)
	return nil
}

func (d *Driver) findLeftovers(ctx context.Context, formers bool) (*leftovers, error) {
	l := &leftovers{scopes: scopeSet{}, edges: map[string]map[string]bool{}}
	some := bson.D{{Key: "$limit", Value: sweepAtOnce}}
	bodiless := bson.D{{Key: "$project", Value: withoutJob}}
	pipeline := bson.A{
		match(field("settle", true)), some, bodiless, project("settle", "$$ROOT"),
		d.union(
			match(d.inAnyQueue("line.scope")),
			bson.D{{Key: "$group", Value: field("_id", bson.D{{Key: "queue", Value: "$group"}, {Key: "name", Value: "$line.scope"}})}},
			project("scope", "$_id"),
		),
		d.union(
			match(d.inAnyQueue("line.edges")), some, bson.D{{Key: "$unwind", Value: "$line.edges"}},
			bson.D{{Key: "$group", Value: field("_id", bson.D{{Key: "queue", Value: "$group"}, {Key: "name", Value: "$line.edges"}})}},
			project("edge", "$_id"),
		),
	}
	if !d.isReplica {
		pipeline = append(pipeline, d.union(match(field("line.in", inHandover)), some, bodiless, project("handover", "$$ROOT")))
	}
	if queues := d.claimed.names(); formers && len(queues) > 0 {
		pipeline = append(pipeline, d.union(match(d.former(queues)), bson.D{{Key: "$limit", Value: adoptAtOnce}}, project("former", "$$ROOT")))
	}
	return l, d.pipe(ctx, pipeline, l.add)
}

// inAnyQueue is a filter for the documents that have a field, of which the index
// begins with the queue where there are many.
func (d *Driver) inAnyQueue(path string) bson.D {
	if !d.opts.Grouped {
		return exists(path)
	}
	return append(field("group", field("$gte", "")), exists(path)...)
}

// former is a filter for the documents of the former library in some queues.
func (d *Driver) former(queues bson.A) bson.D {
	filter := bson.D{
		{Key: "status.completed", Value: false},
		{Key: "status.in_prog", Value: false},
		{Key: "line.in", Value: nil},
	}
	if d.opts.Grouped {
		filter = append(field("group", field("$in", queues)), filter...)
	}
	return filter
}

func (l *leftovers) add(raw bson.Raw) {
	elements, err := raw.Elements()
	if err != nil || len(elements) == 0 {
		return
	}
	value := elements[0].Value().Document()
	queue, _ := value.Lookup("queue").StringValueOK()
	name, _ := value.Lookup("name").StringValueOK()
	switch elements[0].Key() {
	case "settle":
		l.settle = append(l.settle, decode(value))
	case "handover":
		l.handovers = append(l.handovers, decode(value))
	case "former":
		l.formers = append(l.formers, decode(value))
	case "scope":
		l.scopes.add(queue, name)
	case "edge":
		if l.edges[queue] == nil {
			l.edges[queue] = map[string]bool{}
		}
		l.edges[queue][name] = true
	}
}

// adoptFormers gives documents of the former library what those of this one have,
// in the order in which they were put. Those that are left are looked for again at
// once.
func (d *Driver) adoptFormers(ctx context.Context, docs []*document) error {
	if len(docs) == 0 {
		return nil
	}
	slices.SortStableFunc(docs, func(a, b *document) int { return a.TimeInfo.Created.Compare(b.TimeInfo.Created) })
	changes := make([]*change, len(docs))
	for i, doc := range docs {
		changes[i] = d.adoption(doc)
	}
	err := d.apply(ctx, changes)
	if err != nil {
		return err
	}
	edges := map[string]map[string]bool{}
	for _, c := range changes {
		if !c.landed() {
			continue
		}
		for _, edge := range c.after.Line.Edges {
			if edges[c.queue] == nil {
				edges[c.queue] = map[string]bool{}
			}
			edges[c.queue][edge] = true
		}
	}
	for queue, ids := range edges {
		err = d.endFormerEdges(ctx, queue, ids)
		if err != nil {
			return err
		}
	}
	if len(docs) == adoptAtOnce {
		d.sweeper.lookForFormers()
	}
	return nil
}

func (d *Driver) adoption(doc *document) *change {
	scopes := doc.scopes
	return &change{
		queue:  doc.Group,
		name:   doc.Name,
		before: doc,
		step: func(doc *document) error {
			if !doc.isFormer() {
				return errMoved
			}
			now := time.Now()
			doc.scopes = scopes
			doc.adopt(d.orders.next(now, 1), doc.edges(), now)
			return nil
		},
		refused: func(*document, *refusal) error { return errMoved }, // another attempt is the latest
	}
}

// endFormerEdges marks the jobs on which adopted ones depend, and tells these which
// have ended, or are not there.
func (d *Driver) endFormerEdges(ctx context.Context, queue string, ids map[string]bool) error {
	b := &batch{Driver: d}
	targets := map[key]target{}
	if err := b.markTargets(ctx, queue, ids, targets); err != nil {
		return err
	}
	succeeded := map[string]bool{}
	for id := range ids {
		t, there := targets[key{queue, id}]
		if !there || t.hasEnded {
			succeeded[id] = !there || t.succeeded
		}
	}
	if len(succeeded) == 0 {
		return nil
	}
	for {
		n, err := d.endEdges(ctx, queue, succeeded)
		if err != nil || n < dependentsAtOnce {
			return err
		}
	}
}
