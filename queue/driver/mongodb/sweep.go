package mongodb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mongodb/grip/message"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

const (
	// sweepEvery is the interval of sweeps while a dead process may have left work
	// undone. It grows to sweepSeldom while documents wait and nothing happens.
	sweepEvery  = 5 * time.Second
	sweepSeldom = 30 * time.Second
	// sweepBatch is the maximum number of ended documents, of jobs that others wait for, and
	// of interrupted retries that one sweep reads.
	sweepBatch = 1000
	// adoptBatch is the maximum number of legacy documents that are read at once, with
	// their bodies.
	adoptBatch = 200
)

// sweeper schedules sweeps, which do what was left undone: remove edges to ended jobs,
// rearrange free scopes, finish retries, and adopt legacy documents.
//
// One process sweeps for all. Before each sweep it writes that it has the duty, which the change
// streams of the others show them. A process that hears of a sweep leaves to it what it knew
// of, and sweeps itself only if it hears neither of another one nor that nothing is left.
// Without change streams, each process sweeps regularly.
type sweeper struct {
	signal chan struct{}
	hears  bool // of the sweeps of others

	mu sync.Mutex
	// due is when this process sweeps because something may be left undone, takeover when it
	// sweeps because the process that swept has stopped, and routine when it sweeps because it
	// does not hear of changes. They are zero for never.
	due, takeover, routine time.Time
	// forced makes the next sweep not need the duty. legacy and committedNow make one begin at
	// once that queries only legacy documents, or what transactions put.
	forced, legacy, committedNow bool
	// deaf is true while this process does not hear of changes that others may leave undone.
	deaf bool
	// mine is true while this process has the duty.
	mine bool
	// news is true if another process has changed something since the last sweep.
	news bool

	committed committed

	// Only the goroutine that sweeps uses the following.
	awaited pages // of the jobs that others wait for
	scopes  pages // of the scopes that documents wait for
	// holders are the holders of limited scopes when they were last arranged.
	holders map[key]string
	// handovers are the revisions of the next attempts that the last sweep found, by _id.
	handovers map[string]int64
	beats     int // makes each state that is written another one
	// interval is the time until the next sweep, if this one leaves something.
	interval time.Duration
}

const (
	sweepDuty = "sweep"
	// sweepDutyTime is how long the duty lasts after a sweep began, and how long others wait
	// after the next one should have begun before they sweep themselves.
	sweepDutyTime = 2 * sweepEvery
	// sweepJitter is the maximum time by which sweeps of processes without the duty are
	// delayed, so that one of them is first and the others hear of it.
	sweepJitter = time.Second
	// deafSweep is the interval of sweeps of a process that does not hear of changes.
	deafSweep = time.Minute
)

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

// pages schedules the checks of what documents wait for, in pages. A check reads an index entry
// of each waiting document on the server, so the more there are, the rarer it is.
type pages struct {
	due   time.Duration // when a check is due, by the driver's clock
	after any           // the last element that the last check read, if there may be more
	left  bool          // the last check, or that of an earlier page, found something
}

// checkShare is how many times as long as a check takes there is none.
const checkShare = 50

// checked records a check that began and ended at two times, and read n elements up to last.
func (p *pages) checked(began, ended time.Duration, n int, last any) {
	p.due = ended + checkShare*(ended-began)
	p.left, p.after = n > 0 || p.after != nil, nil // if this was not the first page, there was one
	if n == sweepBatch {
		p.after = last
	}
}

// ahead returns a filter for the elements after those of the last check.
func (p *pages) ahead() bson.D {
	if p.after == nil {
		return bson.D{}
	}
	return field("_id", field("$gt", p.after))
}

// committed holds the _ids of documents that callers' transactions put, whose edges are checked
// when they were committed.
type committed struct {
	mu  sync.Mutex
	ids []string
}

func (c *committed) add(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids = append(c.ids, id)
}

// take returns the documents to check.
func (c *committed) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.ids), sweepBatch)
	ids := slices.Clone(c.ids[:n])
	c.ids = slices.Delete(c.ids, 0, n)
	return ids
}

// more reports whether there are further documents to check.
func (c *committed) more() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ids) > 0
}

// clear is called when another process checks them.
func (c *committed) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids = nil
}

// change changes the plan and wakes the goroutine that sweeps.
func (s *sweeper) change(to func()) {
	s.mu.Lock()
	to()
	s.mu.Unlock()
	select {
	case s.signal <- struct{}{}:
	default: // it is already signaled
	}
}

// after returns a time from now on, and a little later unless this process has the duty.
func (s *sweeper) after(d time.Duration) time.Time {
	if !s.mine && s.hears {
		d += rand.N(sweepJitter)
	}
	return time.Now().Add(d)
}

// in makes a sweep due after a time, or earlier. The caller holds the lock.
func (s *sweeper) in(d time.Duration) {
	if at := s.after(d); s.due.IsZero() || at.Before(s.due) {
		s.due = at
	}
}

// hurry requests a sweep soon.
func (s *sweeper) hurry() {
	s.change(func() {
		s.in(0)
		s.news = true
	})
}

// watch requests a sweep after sweepEvery, because another process may leave work undone.
func (s *sweeper) watch() {
	s.mu.Lock()
	planned := !s.due.IsZero() && s.news
	s.mu.Unlock()
	if !planned {
		s.change(func() {
			s.in(sweepEvery)
			s.news = true
		})
	}
}

// again requests another sweep after the interval.
func (s *sweeper) again() { s.change(func() { s.in(s.interval) }) }

// force requests a sweep by this process at once.
func (s *sweeper) force() { s.change(func() { s.forced = true }) }

// sweepLegacy requests a query at once for legacy documents in the queues of this process.
func (s *sweeper) sweepLegacy() { s.change(func() { s.legacy = true }) }

// checkCommitted requests a check at once of what transactions put.
func (s *sweeper) checkCommitted() { s.change(func() { s.committedNow = true }) }

// setDeaf is called when this process may cease or begin to hear of changes.
func (s *sweeper) setDeaf(deaf bool) {
	s.mu.Lock()
	changes := s.deaf != deaf
	s.mu.Unlock()
	if !changes {
		return
	}
	s.change(func() {
		s.deaf, s.routine = deaf, time.Time{}
		if deaf {
			s.routine = s.after(deafSweep)
		}
	})
}

// next returns when the next sweep begins; zero for never.
func (s *sweeper) next() (at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forced || s.legacy || s.committedNow {
		return time.Now()
	}
	for _, t := range []time.Time{s.due, s.takeover, s.routine} {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	return at
}

// begin returns what a sweep is to do, and whether it does not need the duty.
func (s *sweeper) begin() (what sweepQuery, forced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	what.everything = s.forced
	for _, t := range []time.Time{s.due, s.takeover, s.routine} {
		what.everything = what.everything || !t.IsZero() && !now.Before(t)
	}
	forced, what.legacy = s.forced || !s.hears, s.legacy || !s.hears
	s.forced, s.legacy, s.committedNow = false, false, false
	what.ready = s.news || !s.hears
	if what.everything {
		s.rest() // before the query, which may miss what a caller of watch is about to write
	}
	return what, forced
}

// rest is called when this process or another one sweeps everything.
func (s *sweeper) rest() {
	s.due, s.takeover, s.news = time.Time{}, time.Time{}, false
	if s.deaf {
		s.routine = s.after(deafSweep)
	}
}

// The states in the duty's document.
const (
	sweepBegins = "begins"
	sweepDone   = "done"   // nothing was left
	sweepWakes  = "wakes"  // there are ready documents that a dead process may not have announced
	sweepLeaves = "leaves" // the owner closes
)

// hear is called when the duty's document has changed. Another sweep follows after an interval
// unless nothing is left.
func (s *sweeper) hear(state string, interval time.Duration) {
	s.change(func() {
		switch state {
		case sweepBegins:
			s.mine = false
			s.rest()
			s.takeover = s.after(interval + sweepDutyTime)
			s.committed.clear()
		case sweepDone:
			s.takeover = time.Time{}
		case sweepLeaves:
			s.takeover = s.after(0)
		}
	})
}

// sweepHeard is called for an event of the duty's document.
func (d *Driver) sweepHeard(e event) {
	raw := e.Update.Fields
	if len(e.Document) > 0 {
		raw = e.Document
	}
	text, _ := raw.Lookup("beat").StringValueOK()
	beat := strings.Fields(text)
	if len(beat) != 4 || beat[0] == d.barrier.id {
		return
	}
	if beat[1] == sweepWakes {
		d.subscribers.Notify(driver.Anywhere)
		return
	}
	interval, _ := time.ParseDuration(beat[3])
	d.sweeper.hear(beat[1], max(interval, sweepEvery))
}

// takeSweep takes the duty to sweep. It returns false if another process has it.
func (d *Driver) takeSweep(ctx context.Context) (bool, error) {
	now := time.Now()
	until := ceilMillisecond(now.Add(sweepDutyTime))
	isFree := either(field("owner", d.barrier.id), field("until", field("$lte", now)), field("until", field("$gt", until)))
	err := d.beatSweep(ctx, all(field("_id", dutyKey(sweepDuty)), isFree), sweepBegins, until, true)
	won := err == nil
	if mongo.IsDuplicateKeyError(err) { // another process has it
		err = nil
	}
	d.sweeper.mu.Lock()
	defer d.sweeper.mu.Unlock()
	d.sweeper.mine = won
	if !won {
		d.sweeper.takeover = d.sweeper.after(sweepDutyTime)
	}
	return won, err
}

// giveUpSweep gives the duty up, if this process has it.
func (d *Driver) giveUpSweep(ctx context.Context, state string) error {
	d.sweeper.mu.Lock()
	had := d.sweeper.mine
	d.sweeper.mine = false
	d.sweeper.mu.Unlock()
	if !had || !d.isReplica {
		return nil
	}
	mine := bson.D{{Key: "_id", Value: dutyKey(sweepDuty)}, {Key: "owner", Value: d.barrier.id}}
	return d.beatSweep(ctx, mine, state, time.Time{}, false)
}

// wakeOthers makes the processes that have idle workers claim.
func (d *Driver) wakeOthers(ctx context.Context) error {
	if !d.isReplica {
		return nil
	}
	mine := bson.D{{Key: "_id", Value: dutyKey(sweepDuty)}, {Key: "owner", Value: d.barrier.id}}
	return d.beatSweep(ctx, mine, sweepWakes, ceilMillisecond(time.Now().Add(sweepDutyTime)), false)
}

func (d *Driver) beatSweep(ctx context.Context, filter bson.D, state string, until time.Time, upsert bool) error {
	d.sweeper.beats++
	set := field("$set", bson.D{
		{Key: "owner", Value: d.barrier.id},
		{Key: "until", Value: until},
		{Key: "beat", Value: fmt.Sprintf("%s %s %d %s", d.barrier.id, state, d.sweeper.beats, d.sweeper.interval)},
	})
	return attempts(ctx, func() error {
		_, failure := d.control.UpdateOne(ctx, filter, set, options.Update().SetUpsert(upsert))
		return failure
	}, nil)
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
			d.sweeper.watch()
		}
	}
}

// await waits until a sweep is due. It returns false if ctx ends first.
func (s *sweeper) await(ctx context.Context) bool {
	for ctx.Err() == nil {
		at := s.next()
		if !at.IsZero() && !time.Now().Before(at) {
			return true
		}
		timer := time.NewTimer(max(0, time.Until(at)))
		due := timer.C
		if at.IsZero() {
			due = nil
		}
		select {
		case <-s.signal:
		case <-due:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return false
}

// leftovers holds the results of a sweep's query.
type leftovers struct {
	settle, handovers, legacy []*document
	scopes                    scopeSet
	edges                     jobSet
	ready                     bool // a document is
	// The last scope and edge, and their numbers.
	lastScope, lastEdge   any
	scopesRead, edgesRead int
}

// sweepOnce sweeps once. It sends one command, and on replica sets one before and one after it,
// if there is nothing to do.
func (d *Driver) sweepOnce(ctx context.Context) error {
	s := &d.sweeper
	what, forced := s.begin()
	s.interval = min(max(2*s.interval, sweepEvery), sweepSeldom)
	if what.ready || d.avoided.any() || !s.hears {
		s.interval = sweepEvery
	}
	if what.everything && d.isReplica {
		won, err := d.takeSweep(ctx)
		if err != nil {
			s.requestAgain(forced, what.legacy)
			return fmt.Errorf("taking the duty to sweep: %w", err)
		}
		what.everything = won || forced
	}
	left, err := d.sweepNow(ctx, what)
	if err != nil {
		s.requestAgain(forced, what.legacy)
		return err
	}
	switch {
	case left || !s.hears:
		s.again()
	case what.everything:
		return d.giveUpSweep(ctx, sweepDone)
	}
	return nil
}

// requestAgain is called when a sweep failed.
func (s *sweeper) requestAgain(forced, legacy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forced, s.legacy = s.forced || forced, s.legacy || legacy
}

// sweepNow reads and does what was left undone, and reports whether more may be left soon.
func (d *Driver) sweepNow(ctx context.Context, what sweepQuery) (left bool, err error) {
	s, began := &d.sweeper, d.elapsed()
	what.committed = s.committed.take()
	if what.everything {
		what.edges, what.scopes = began >= s.awaited.due, began >= s.scopes.due
	}
	found, err := d.findLeftovers(ctx, what)
	if err != nil {
		for _, id := range what.committed {
			s.committed.add(id)
		}
		return true, err
	}
	if what.edges {
		s.awaited.checked(began, d.elapsed(), found.edgesRead, found.lastEdge)
	}
	if what.scopes {
		s.scopes.checked(began, d.elapsed(), found.scopesRead, found.lastScope)
	}
	if s.committed.more() {
		s.checkCommitted()
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
	if what.everything {
		for _, next := range s.interrupted(found.handovers, time.Now()) {
			if err = d.resume(ctx, next); !errors.Is(err, errMoved) && !errors.Is(err, driver.ErrLeaseLost) {
				note(fmt.Sprintf("finishing the retry of record %q", next.Handover.From), err)
			}
		}
	}
	misplaced, err := d.misplaced(ctx, found.scopes)
	note("querying the holders of scopes", err)
	d.arrangeNow(ctx, misplaced, false, driver.Change{})
	if found.ready {
		d.tell(driver.Anywhere)
		note("waking other processes", d.wakeOthers(ctx))
	}
	some := len(found.settle)+len(found.handovers)+len(found.legacy) > 0
	if some || len(misplaced) > 0 {
		s.interval = sweepEvery
	}
	return some || s.scopes.left || s.awaited.left, errors.Join(failures...)
}

// misplaced returns the scopes for which documents wait although there may be room: those
// without a holder, and limited ones whose holders have changed since they were arranged.
func (d *Driver) misplaced(ctx context.Context, scopes scopeSet) (scopeSet, error) {
	var queries []bson.D
	for queue, set := range scopes {
		queries = append(queries, d.inQueue(queue, bson.E{Key: "scopes", Value: field("$in", holding(slices.Sorted(maps.Keys(set))))}))
	}
	holders := map[key][]string{}
	if len(queries) > 0 {
		only := options.Find().SetBatchSize(2 * sweepBatch).SetProjection(bson.D{{Key: "scopes", Value: 1}, {Key: "group", Value: 1}})
		err := d.each(ctx, either(queries...), only, func(doc *document) error {
			for _, scope := range doc.Scopes {
				k := key{doc.Group, keyOf(scope)}
				holders[k] = append(holders[k], doc.id)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	misplaced, known := scopeSet{}, d.sweeper.holders
	d.sweeper.holders = map[key]string{}
	for queue, set := range scopes {
		for scope := range set {
			k := key{queue, scope}
			if len(holders[k]) > 0 && !isLimited(scope) {
				continue
			}
			slices.Sort(holders[k])
			now := strings.Join(holders[k], " ")
			if before, is := known[k]; len(holders[k]) == 0 || !is || before != now {
				misplaced.add(queue, scope)
			}
			d.sweeper.holders[k] = now
		}
	}
	return misplaced, nil
}

// sweepQuery is what a sweep reads.
type sweepQuery struct {
	legacy        bool
	everything    bool // beside legacy documents
	ready         bool // whether documents are ready
	edges, scopes bool
	committed     []string
}

func (d *Driver) findLeftovers(ctx context.Context, what sweepQuery) (*leftovers, error) {
	l := &leftovers{scopes: scopeSet{}, edges: jobSet{}}
	some := bson.D{{Key: "$limit", Value: sweepBatch}}
	bodiless := bson.D{{Key: "$project", Value: withoutJob}}
	var branches []bson.A
	if what.everything {
		branches = append(branches,
			bson.A{match(field("settle", true)), some, bodiless, project("settle", "$$ROOT")},
			bson.A{match(field("line.in", inHandover)), some, bodiless, project("handover", "$$ROOT")},
		)
	}
	// What documents wait for comes in pages, because more is read for each element.
	if what.scopes {
		branches = append(branches, bson.A{
			match(d.inAnyQueue("line.scope")),
			bson.D{{Key: "$group", Value: field("_id", bson.D{{Key: "queue", Value: "$group"}, {Key: "name", Value: "$line.scope"}})}},
			match(d.sweeper.scopes.ahead()),
			bson.D{{Key: "$sort", Value: field("_id", 1)}},
			some,
			project("scope", "$_id"),
		})
	}
	if what.edges {
		branches = append(branches, bson.A{
			match(d.inAnyQueue("line.edges")),
			bson.D{{Key: "$unwind", Value: "$line.edges"}},
			bson.D{{Key: "$group", Value: field("_id", bson.D{{Key: "queue", Value: "$group"}, {Key: "name", Value: "$line.edges"}})}},
			match(d.sweeper.awaited.ahead()),
			bson.D{{Key: "$sort", Value: field("_id", 1)}},
			some,
			project("edge", "$_id"),
		})
	}
	if len(what.committed) > 0 {
		branches = append(branches, bson.A{match(field("_id", field("$in", what.committed))), bodiless, project("committed", "$$ROOT")})
	}
	if what.everything && what.ready {
		branches = append(branches, bson.A{match(d.readyAnywhere()), bson.D{{Key: "$limit", Value: 1}}, project("ready", "$_id")})
	}
	if queues := d.claimed.names(); what.legacy && len(queues) > 0 {
		branches = append(branches, bson.A{match(d.legacyDocuments(queues)), bson.D{{Key: "$limit", Value: adoptBatch}}, project("legacy", "$$ROOT")})
	}
	if len(branches) == 0 {
		return l, nil
	}
	pipeline := branches[0]
	for _, b := range branches[1:] {
		pipeline = append(pipeline, d.union(b...))
	}
	return l, d.pipe(ctx, pipeline, l.add)
}

// inAnyQueue returns a filter for the documents that have a field. In a store of many
// queues it matches the index, which begins with the queue.
func (d *Driver) inAnyQueue(path string) bson.D {
	if !d.opts.Grouped {
		return exists(path)
	}
	return append(field("group", field("$gte", "")), exists(path)...)
}

// readyAnywhere returns a filter for the documents that a claim may take.
func (d *Driver) readyAnywhere() bson.D {
	if !d.opts.Grouped {
		return ready
	}
	return append(slices.Clone(anyQueue), ready...)
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
	if elements[0].Key() == "ready" {
		l.ready = true
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
		l.scopesRead++
		l.lastScope = slices.Clone(value)
	case "edge":
		l.edges.add(queue, name)
		l.edgesRead++
		l.lastEdge = slices.Clone(value)
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
