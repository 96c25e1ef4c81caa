package mongodb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mongodb/grip/message"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

const (
	// sweepEvery is the interval of sweeps while a dead process may have left work
	// undone.
	sweepEvery = 5 * time.Second
	// sweepBatch is the maximum number of ended documents, of jobs that others wait for, and
	// of interrupted retries that one sweep reads.
	sweepBatch = 1000
	// adoptBatch is the maximum number of legacy documents that are read at once, with
	// their bodies.
	adoptBatch = 200
)

// sweeper schedules sweeps, which do what was left undone: remove edges to ended jobs,
// rearrange free scopes, finish retries, and adopt legacy documents. On replica sets, sweeps
// stop while there is nothing to do.
type sweeper struct {
	signal  chan struct{}
	soon    atomic.Bool // sweep at once
	waiting atomic.Bool // sweep after sweepEvery
	legacy  atomic.Bool // query legacy documents too
	awaited awaited
	// handovers are the revisions of the next attempts that the last sweep found, by _id.
	// Only the goroutine that sweeps uses it.
	handovers map[string]int64
}

// handoverTime is longer than a retry takes from its first write to its last.
const handoverTime = 2 * time.Second

// interrupted returns the next attempts that no process seems to be putting in their places:
// they are old, or the last sweep has found them too. Their processes would otherwise have to
// begin anew.
func (s *sweeper) interrupted(found []*document, now time.Time) (old []*document) {
	revs := make(map[string]int64, len(found))
	for _, doc := range found {
		revs[doc.id] = doc.Rev
		rev, again := s.handovers[doc.id]
		if again && rev == doc.Rev || now.Sub(time.UnixMicro(doc.Order)) > handoverTime {
			old = append(old, doc)
		}
	}
	s.handovers = revs
	return old
}

// awaited schedules the checks of the jobs that others wait for. A check reads the edges of
// all waiting documents on the server, so the more there are, the rarer it is. Jobs that a
// caller's transaction put are checked when it was committed.
type awaited struct {
	mu        sync.Mutex
	committed []string // the _ids of what was put in transactions

	// Only the goroutine that sweeps uses the following.
	due   time.Duration // when a check is due, by the driver's clock
	after any           // the last edge that the last check read, if there may be more
	left  bool          // the last check found edges
}

// checkShare is how many times as long as a check takes there is none.
const checkShare = 50

// add schedules the check of a document that was put in a transaction.
func (a *awaited) add(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.committed = append(a.committed, id)
}

// take returns the documents to check.
func (a *awaited) take() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := min(len(a.committed), sweepBatch)
	ids := slices.Clone(a.committed[:n])
	a.committed = slices.Delete(a.committed, 0, n)
	return ids
}

// more reports whether there are further documents to check.
func (a *awaited) more() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.committed) > 0
}

// checked records a check that began and ended at two times.
func (a *awaited) checked(began, ended time.Duration, found *leftovers) {
	a.due = ended + checkShare*(ended-began)
	a.after, a.left = found.edgesAfter, found.edgesRead > 0
}

func (s *sweeper) wake() {
	select {
	case s.signal <- struct{}{}:
	default: // it is already signaled
	}
}

// hurry requests a sweep at once.
func (s *sweeper) hurry() {
	s.soon.Store(true)
	s.wake()
}

// watch requests sweeps every sweepEvery until nothing is left.
func (s *sweeper) watch() {
	if !s.waiting.Swap(true) {
		s.wake()
	}
}

// sweepLegacy requests a sweep at once that also queries legacy documents.
func (s *sweeper) sweepLegacy() {
	s.legacy.Store(true)
	s.hurry()
}

// sweep runs sweeps until ctx ends.
func (d *Driver) sweep(ctx context.Context) {
	broken := false
	for d.sweeper.await(ctx) {
		err := d.sweepOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !broken {
			logging.Warning(ctx, message.Fields{
				"message":    "maintenance sweep failed; trying again",
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

// await waits until a sweep is due. It returns false if ctx ends first.
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

// leftovers holds the results of a sweep's query.
type leftovers struct {
	settle, handovers, legacy []*document
	scopes                    scopeSet
	edges                     jobSet
	// edgesAfter is the last of the edges if there may be more.
	edgesAfter any
	edgesRead  int
}

// sweepOnce sweeps once. It sends one command if there is nothing to do.
func (d *Driver) sweepOnce(ctx context.Context) error {
	s, began := &d.sweeper, d.elapsed()
	what := sweepQuery{legacy: s.legacy.Swap(false) || !d.isReplica, edges: began >= s.awaited.due, committed: s.awaited.take()}
	s.waiting.Store(false) // before the query, which may miss what a caller of watch is about to write
	found, err := d.findLeftovers(ctx, what)
	if err != nil {
		s.legacy.Store(what.legacy)
		for _, id := range what.committed {
			s.awaited.add(id)
		}
		return err
	}
	if what.edges {
		s.awaited.checked(began, d.elapsed(), found)
	}
	some := len(found.settle)+len(found.handovers)+len(found.legacy)+len(found.scopes) > 0
	if some || s.awaited.left || !d.isReplica {
		s.waiting.Store(true)
	}
	if s.awaited.more() {
		s.hurry()
	}
	var failures []error
	note := func(what string, err error) {
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", what, err))
		}
	}
	note("adopting jobs of the legacy library", d.adoptLegacy(ctx, found.legacy))
	note("releasing dependents of ended jobs", d.settle(ctx, found.settle))
	for queue, ids := range found.edges {
		note("checking whether dependencies have ended", d.checkEdges(ctx, queue, ids))
	}
	for _, next := range s.interrupted(found.handovers, time.Now()) {
		if err = d.resume(ctx, next); !errors.Is(err, errMoved) && !errors.Is(err, driver.ErrLeaseLost) {
			note(fmt.Sprintf("finishing the retry of record %q", next.Handover.From), err)
		}
	}
	// There may be ready documents that a dead process did not announce.
	d.arrangeNow(ctx, found.scopes, true, driver.Anywhere)
	return errors.Join(failures...)
}

// sweepQuery is what a sweep reads beside what it always does.
type sweepQuery struct {
	legacy, edges bool
	committed     []string
}

func (d *Driver) findLeftovers(ctx context.Context, what sweepQuery) (*leftovers, error) {
	l := &leftovers{scopes: scopeSet{}, edges: jobSet{}}
	some := bson.D{{Key: "$limit", Value: sweepBatch}}
	bodiless := bson.D{{Key: "$project", Value: withoutJob}}
	pipeline := bson.A{
		match(field("settle", true)), some, bodiless, project("settle", "$$ROOT"),
		d.union(
			match(d.inAnyQueue("line.scope")),
			bson.D{{Key: "$group", Value: field("_id", bson.D{{Key: "queue", Value: "$group"}, {Key: "name", Value: "$line.scope"}})}},
			project("scope", "$_id"),
		),
		d.union(match(field("line.in", inHandover)), some, bodiless, project("handover", "$$ROOT")),
	}
	if what.edges {
		// The jobs that others wait for come in pages, because each of them is read.
		pipeline = append(pipeline, d.union(
			match(d.inAnyQueue("line.edges")), bson.D{{Key: "$unwind", Value: "$line.edges"}},
			bson.D{{Key: "$group", Value: field("_id", bson.D{{Key: "queue", Value: "$group"}, {Key: "name", Value: "$line.edges"}})}},
			match(d.sweeper.awaited.ahead()), bson.D{{Key: "$sort", Value: field("_id", 1)}}, some,
			project("edge", "$_id"),
		))
	}
	if len(what.committed) > 0 {
		pipeline = append(pipeline, d.union(match(field("_id", field("$in", what.committed))), bodiless, project("committed", "$$ROOT")))
	}
	if queues := d.claimed.names(); what.legacy && len(queues) > 0 {
		pipeline = append(pipeline, d.union(match(d.legacyDocuments(queues)), bson.D{{Key: "$limit", Value: adoptBatch}}, project("legacy", "$$ROOT")))
	}
	return l, d.pipe(ctx, pipeline, l.add)
}

// ahead returns a filter for the edges after those of the last check.
func (a *awaited) ahead() bson.D {
	if a.after == nil {
		return bson.D{}
	}
	return field("_id", field("$gt", a.after))
}

// inAnyQueue returns a filter for the documents that have a field. In a store of many
// queues it matches the index, which begins with the queue.
func (d *Driver) inAnyQueue(path string) bson.D {
	if !d.opts.Grouped {
		return exists(path)
	}
	return append(field("group", field("$gte", "")), exists(path)...)
}

// legacyDocuments returns a filter for the legacy documents in some queues.
func (d *Driver) legacyDocuments(queues bson.A) bson.D {
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
	case "legacy":
		l.legacy = append(l.legacy, decode(value))
	case "committed":
		doc := decode(value)
		l.edges.add(doc.Group, doc.Line.Edges...)
	case "scope":
		l.scopes.add(queue, name)
	case "edge":
		l.edges.add(queue, name)
		l.edgesRead++
		if l.edgesAfter = nil; l.edgesRead == sweepBatch {
			l.edgesAfter = slices.Clone(value)
		}
	}
}

// adoptLegacy adds this library's fields to legacy documents, in the order in which the
// documents were put. If there may be more documents, it requests another sweep.
func (d *Driver) adoptLegacy(ctx context.Context, docs []*document) error {
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
	for queue, ids := range awaitedBy(changes) {
		err = d.checkEdges(ctx, queue, ids)
		if err != nil {
			return err
		}
	}
	if len(docs) == adoptBatch {
		d.sweeper.sweepLegacy()
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
			if !doc.isLegacy() {
				return errMoved
			}
			now := time.Now()
			doc.scopes = scopes
			doc.adopt(d.orders.next(now, 1), doc.edges(), now)
			return nil
		},
		refused: func(*document, *refusal) error { return errMoved }, // another attempt has the job's ID
	}
}

// checkEdges marks the jobs that documents depend on, which may not be marked yet, and
// removes the edges to jobs that have ended or do not exist.
func (d *Driver) checkEdges(ctx context.Context, queue string, ids map[string]bool) error {
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
	return d.endAllEdges(ctx, queue, succeeded)
}
