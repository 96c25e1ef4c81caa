package mongodb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mongodb/grip/message"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/typelimit"
	"github.com/mongodb/amboy/registry"
)

// claimRounds is the maximum number of times that one claim queries candidates. It
// repeats the query if documents became ready because they were due, and if candidates
// could not be claimed.
const claimRounds = 10

// Claim implements driver.Driver. A record that can't be read is returned without a job,
// so that it can be parked. If more than 1,000 records have become due or have expired,
// the rest is left for the next claim, which Next requests at once. A claim that has
// begun to take records continues for up to a second after ctx has ended. If the error
// wraps driver.ErrOutcomeUnknown, records that were claimed all the same are handed back
// by the next Claim or by Close.
func (d *Driver) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return driver.Claimed{}, err
	}
	defer leave()
	d.beginClaim(plain(ctx))
	claimed, err := d.claim(ctx, req)
	d.endClaim(req, claimed.Records, err) //nolint:contextcheck // The change stream outlasts the claim.
	return claimed, err
}

func (d *Driver) claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	c := &claim{
		Driver: d, req: req, except: newKindSet(req.Except),
		room: map[string]int{}, left: map[string]int{}, taken: map[key]bool{},
	}
	for _, demand := range req.Queues {
		c.left[demand.Queue] = demand.Limit
		if d.claimed.add(demand.Queue) {
			d.sweeper.sweepLegacy() // the legacy library may have left documents in it
		}
	}
	err := c.run(plain(ctx))
	if err != nil {
		d.uncertain.add(c.given...)
		return driver.Claimed{}, fmt.Errorf("claiming %d records: %w", req.Limit, err)
	}
	records := make([]*driver.Record, len(c.given))
	for i, g := range c.given {
		records[i] = d.give(ctx, g, req.LeaseTime)
	}
	return driver.Claimed{Records: records, Next: c.next, Waits: c.rateWaits()}, nil
}

// claim is a Claim in progress.
type claim struct {
	*Driver
	req   driver.ClaimRequest
	given []*given
	ready int // the number of given that have not expired
	// except holds the kinds that the owner does not know.
	except kindSet
	next   time.Time

	left  map[string]int           // the number of records that may still be returned, by queue
	room  map[string]int           // the number of records that may still start, by queue with a limit
	waits map[string]time.Duration // how long to wait for tokens, by queue that has used up its rate
	taken map[key]bool             // the scopes of the chosen candidates, and those to leave alone
	used  usedSlots                // of the limited scopes that candidates want

	typeRooms map[string]*typelimit.Room // what the limits of types leave, by queue that has some
}

// given is a claimed document.
type given struct {
	doc  *document // without its body
	body registry.Body
	lost error // set if the document can't be read
	// inTime is true if the document has not expired.
	inTime bool
}

// give returns the record of a claimed document.
func (d *Driver) give(ctx context.Context, g *given, leaseTime time.Duration) *driver.Record {
	d.leases.add(g.doc, leaseTime)
	d.announcer.claimed(g.doc)
	d.kinds.add(g.doc.kind())
	r := g.doc.Record
	r.Scopes = g.doc.heldScopes()
	r.Job = g.body
	if g.lost != nil {
		logging.Error(ctx, message.Fields{
			"message":    "a stored job can't be read",
			"collection": d.jobs.Name(),
			"queue":      r.Group,
			"job_id":     g.doc.jobID(),
			"error":      g.lost.Error(),
		})
	}
	return &r
}

func (c *claim) run(ctx context.Context) error {
	if len(c.req.Queues) == 0 {
		return nil
	}
	if err := c.releaseUncertain(ctx); err != nil {
		return err
	}
	for range claimRounds {
		again, err := c.round(ctx)
		if err != nil || !again {
			return err
		}
	}
	// Other processes took candidates first in each round. There may be more.
	c.next = c.req.Now
	return nil
}

// round claims what it can and reports whether there may be more.
func (c *claim) round(ctx context.Context) (again bool, err error) {
	factor := c.contention.factor()
	err = c.findTypeRooms(ctx)
	if err != nil {
		return false, err
	}
	l := &claimQuery{
		Driver: c.Driver, req: c.req, now: stored(c.req.Now), factor: factor, windows: map[string]int{}, wanted: map[string]int{}, except: c.except,
		rooms: c.typeRooms,
	}
	l.req.Limit -= c.ready
	for _, demand := range c.req.Queues {
		l.queues = append(l.queues, demand.Queue)
	}
	v, err := l.execute(ctx)
	if err != nil {
		return false, fmt.Errorf("querying candidates: %w", err)
	}
	defer func() {
		c.next = v.next(c.given)
		if len(v.expired) == timedBatch || len(v.due) == timedBatch || v.moreKinds {
			c.next = c.req.Now
		}
	}()
	resumed := c.limits.observe(v.controls, l.asked)
	expired := c.expirations(v)
	err = c.take(ctx, expired, false)
	if err != nil {
		return false, err
	}
	c.follow(ctx, expired)
	if len(v.due) > 0 {
		// They may come before the candidates that are ready.
		return c.req.Limit > c.ready, c.admitDue(ctx, v)
	}
	if resumed {
		return true, nil // its candidates were not queried, or not by type
	}
	marked, err := c.markKinds(ctx, v)
	if err != nil {
		return false, err
	}
	skipped, err := c.takeReady(ctx, v, factor)
	c.noteTypeWaits()
	return skipped+marked > 0 && c.ready < c.req.Limit, err
}

// takeReady claims candidates and returns the number that could not be claimed.
func (c *claim) takeReady(ctx context.Context, v *view, factor int) (skipped int, err error) {
	unlock, err := c.findRoom(ctx, v)
	if err != nil {
		return 0, err
	}
	giveBack, err := c.reserveStarts(ctx, v)
	if err != nil {
		_, unlockErr := unlock(ctx)
		return 0, errors.Join(err, unlockErr)
	}
	_, c.taken = c.avoided.at(c.elapsed()) // some candidates of an earlier round may have been lost
	c.used = usedSlots{}
	err = c.findSlots(ctx, c.used, v.ready)
	if err != nil {
		giveBack(ctx)
		_, unlockErr := unlock(ctx)
		return 0, errors.Join(fmt.Errorf("querying the holders of limited scopes: %w", err), unlockErr)
	}
	chosen, skipped := c.choose(v, factor > 1 || c.opts.ClaimWindow > 0)
	chosen, giveBackTypes, err := c.reserveTypes(ctx, v, chosen)
	if err != nil {
		giveBack(ctx)
		_, unlockErr := unlock(ctx)
		return 0, errors.Join(err, unlockErr)
	}
	rivals := c.rivals(v)
	err = c.take(ctx, append(slices.Clip(chosen), rivals...), true)
	c.avoid(ctx, chosen)
	lost := c.countLost(ctx, chosen)
	c.arrangeAfter(ctx, v, chosen, rivals)
	giveBack(ctx)
	giveBackTypes(ctx)
	exclusive, unlockErr := unlock(ctx)
	if err == nil {
		err = unlockErr
	}
	if err == nil && !exclusive {
		err = c.handBackExcess(ctx, v)
	}
	return skipped + lost, err
}

// countLost counts the chosen candidates that were not claimed, and adjusts the
// contention to the number that other processes claimed first.
func (c *claim) countLost(ctx context.Context, chosen []*change) (lost int) {
	moved := 0
	for _, ch := range chosen {
		switch {
		case errors.Is(ch.err, errBlocked):
			lost++
		case ch.err != nil && !errors.Is(ch.err, errMoved) && !errors.Is(ch.err, errGone):
			logging.Error(ctx, message.Fields{
				"message":    "claiming a job failed",
				"collection": c.jobs.Name(),
				"queue":      ch.queue,
				"record":     ch.name,
				"error":      ch.err.Error(),
			})
		case ch.after == nil:
			moved++
			lost++
		case !ch.after.runs():
			lost++
		default:
			continue
		}
		c.left[ch.queue]++
	}
	c.contention.observe(moved, len(chosen))
	return lost
}

// expirations returns the changes that claim expired documents.
func (c *claim) expirations(v *view) []*change {
	var changes []*change
	for _, doc := range v.expired {
		if limited, ok := c.room[doc.Group]; ok {
			c.room[doc.Group] = limited - 1
		}
		changes = append(changes, &change{
			queue:  doc.Group,
			name:   doc.Name,
			before: doc,
			quiet:  true,
			step: func(doc *document) error {
				if !doc.waits() || !doc.hasExpired(c.req.Now) {
					return errMoved
				}
				doc.start(c.req, true, nil)
				return nil
			},
			leaseTime: c.req.LeaseTime,
			shares:    true,
		})
	}
	return changes
}

// choose chooses one candidate of each queue in turn, and returns the changes that claim
// them. It passes over candidates that want a scope of a chosen one, and returns their
// number.
func (c *claim) choose(v *view, mix bool) (changes []*change, skipped int) {
	wanted := c.req.Limit - c.ready
	queues := make([]string, 0, len(c.req.Queues))
	for _, demand := range c.req.Queues {
		if v.controls[demand.Queue].IsStopped() {
			continue
		}
		if mix {
			v.ready[demand.Queue] = shuffle(v.ready[demand.Queue], min(wanted, c.left[demand.Queue]))
		}
		queues = append(queues, demand.Queue)
	}
	for len(queues) > 0 && wanted > 0 {
		round := queues
		queues = nil
		for _, queue := range round {
			if wanted == 0 {
				break
			}
			doc, missed := c.first(v, queue)
			skipped += missed
			if doc == nil {
				continue
			}
			changes = append(changes, c.start(doc))
			wanted--
			queues = append(queues, queue)
		}
	}
	return changes, skipped
}

// first removes and returns the first candidate of a queue that may run beside the chosen
// ones, or nil if there is none.
func (c *claim) first(v *view, queue string) (doc *document, skipped int) {
	room, limited := c.room[queue]
	docs, _ := c.avoided.at(c.elapsed())
	if c.left[queue] <= 0 || (limited && room <= 0) {
		return nil, 0
	}
	for len(v.ready[queue]) > 0 {
		doc = v.ready[queue][0]
		v.ready[queue] = v.ready[queue][1:]
		if docs[key{queue, doc.Name}] {
			continue
		}
		typeRoom := c.typeRooms[queue]
		if typeRoom.Left(doc.Type) <= 0 {
			typeRoom.Refuse(doc.Type)
			skipped++
			continue
		}
		scope, conflicts := c.conflict(doc)
		if conflicts {
			v.passed = append(v.passed, passed{doc, scope})
		}
		if conflicts || doc.hasExpired(c.req.Now) {
			skipped++
			continue
		}
		c.left[queue]--
		typeRoom.Take(doc.Type)
		if limited {
			c.room[queue]--
		}
		return doc, skipped
	}
	return nil, skipped
}

// conflict returns a scope that a document wants and a chosen candidate takes.
func (c *claim) conflict(doc *document) (scope string, conflicts bool) {
	for _, scope := range doc.Line.Wants {
		if c.isFull(doc, scope) {
			return scope, true
		}
	}
	return "", false
}

// isFull reports whether the chosen candidates, and the holders of a limited scope, leave no room
// for a document that wants a scope.
func (c *claim) isFull(doc *document, scope string) bool {
	k := key{doc.Group, scope}
	return c.taken[k] || (isLimited(scope) && len(c.used[k]) >= doc.limitOf(scope))
}

// reserveScopes reserves the scopes that a chosen candidate wants, and returns the slots of limited
// ones.
func (c *claim) reserveScopes(doc *document) (slots map[string]string) {
	for _, scope := range doc.Line.Wants {
		k := key{doc.Group, scope}
		if !isLimited(scope) {
			c.taken[k] = true
			continue
		}
		if slots == nil {
			slots = map[string]string{}
		}
		slots[scope] = c.used.take(k, doc.limitOf(scope))
	}
	return slots
}

// passed is a candidate that was not chosen because another one takes the scope.
type passed struct {
	doc   *document
	scope string
}

// rivals returns the changes that make candidates wait for the scopes that chosen
// candidates take, so that the next claim does not meet them.
func (c *claim) rivals(v *view) []*change {
	for _, docs := range v.ready {
		for _, doc := range docs {
			if scope, conflicts := c.conflict(doc); conflicts {
				v.passed = append(v.passed, passed{doc, scope})
			}
		}
	}
	changes := make([]*change, len(v.passed))
	for i, p := range v.passed {
		changes[i] = &change{
			queue:  p.doc.Group,
			name:   p.doc.Name,
			before: p.doc,
			quiet:  true,
			step: func(doc *document) error {
				if !doc.waits() || doc.Line.In != inReady {
					return errMoved
				}
				doc.block(p.scope)
				return nil
			},
		}
	}
	return changes
}

// arrangeAfter rearranges the scopes whose waiters or holders may not be queued correctly
// after a claim.
func (c *claim) arrangeAfter(ctx context.Context, v *view, chosen, rivals []*change) {
	scopes := scopeSet{}
	for _, ch := range chosen {
		wants := ch.before.Line.Wants
		switch {
		case len(wants) == 0:
		case ch.after == nil || !ch.after.runs():
			scopes.add(ch.queue, wants...)
		case v.full[ch.queue]: // there are candidates beyond the window
			scopes.add(ch.queue, wants...)
		}
	}
	for _, ch := range rivals {
		for _, scope := range ch.before.Line.Wants {
			if !c.isFull(ch.before, scope) {
				scopes.add(ch.queue, scope)
			}
		}
	}
	c.arrangeNow(ctx, scopes, false, driver.Change{})
}

// shuffle mixes the candidates of the lowest priority that is needed for the wanted
// number, if there are more of them than needed, so that processes that claim at the same
// time do not all want the same ones.
func shuffle(docs []*document, wanted int) []*document {
	if wanted <= 0 || len(docs) <= wanted {
		return docs
	}
	last := docs[wanted-1].Line.Priority
	first := slices.IndexFunc(docs, func(doc *document) bool { return doc.Line.Priority == last })
	end := first
	for end < len(docs) && docs[end].Line.Priority == last {
		end++
	}
	class := docs[first:end]
	chosen := rand.Perm(len(class))[:wanted-first]
	slices.Sort(chosen)
	mixed := slices.Clone(docs[:first])
	for _, i := range chosen {
		mixed = append(mixed, class[i])
	}
	for i, doc := range docs[first:] {
		if _, is := slices.BinarySearch(chosen, i); !is {
			mixed = append(mixed, doc)
		}
	}
	return mixed
}

// start returns the change that claims a candidate. If a scope turns out to be held, the
// candidate waits for it.
func (c *claim) start(doc *document) *change {
	slots := c.reserveScopes(doc)
	return &change{
		queue:  doc.Group,
		name:   doc.Name,
		before: doc,
		quiet:  true,

		leaseTime: c.req.LeaseTime,
		shares:    true,
		step: func(doc *document) error {
			if !doc.waits() || doc.Line.In != inReady || c.except.leaves(doc) {
				return errMoved
			}
			doc.start(c.req, false, slots)
			return nil
		},
		refused: func(doc *document, r *refusal) error {
			if r.index != byScope || doc.Line.In != inReady {
				return errMoved
			}
			doc.block(keyOf(r.value))
			return nil
		},
		made: func(doc *document) bool {
			return doc.runs() && doc.Status.Owner == c.req.Owner && doc.TimeInfo.Start.Equal(stored(c.req.Now))
		},
	}
}

// take makes the changes that claim documents, which are in time or have expired. It then
// reads the bodies of documents that were queried without them.
func (c *claim) take(ctx context.Context, changes []*change, inTime bool) error {
	if len(changes) == 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	ctx, cancel := withGrace(ctx)
	defer cancel()
	seen := make([]*document, len(changes))
	for i, ch := range changes {
		seen[i] = ch.before
	}
	err := c.write(ctx, changes)
	for _, ch := range changes {
		for _, t := range ch.doubtful() {
			if t.doc.runs() {
				c.uncertain.add(&given{doc: t.doc})
			}
		}
	}
	var unread []*given
	for i, ch := range changes {
		if !ch.landed() || !ch.after.runs() {
			continue
		}
		g := &given{doc: ch.after, body: seen[i].Job, lost: seen[i].malformed, inTime: inTime}
		c.given = append(c.given, g)
		if inTime {
			c.ready++
		}
		if ch.before != seen[i] || !seen[i].complete {
			unread = append(unread, g)
		}
	}
	if err != nil {
		return err
	}
	return c.readBodies(ctx, unread)
}

// readBodies reads the bodies of claimed documents.
func (c *claim) readBodies(ctx context.Context, unread []*given) error {
	if len(unread) == 0 {
		return nil
	}
	ids := make(bson.A, len(unread))
	byID := make(map[string]*given, len(unread))
	for i, g := range unread {
		ids[i] = g.doc.id
		byID[g.doc.id] = g
	}
	err := c.each(ctx, field("_id", field("$in", ids)), options.Find(), func(doc *document) error {
		if g := byID[doc.id]; g != nil {
			g.body, g.lost = doc.Job, doc.malformed
			g.doc.body = doc.body
		}
		return nil
	})
	if err != nil {
		return unknown(fmt.Errorf("reading the bodies of claimed jobs: %w", err))
	}
	return nil
}

// admitDue makes due documents ready.
func (c *claim) admitDue(ctx context.Context, v *view) error {
	var changes []*change
	for _, doc := range v.due {
		changes = append(changes, &change{
			queue:  doc.Group,
			name:   doc.Name,
			before: doc,
			step: func(doc *document) error {
				if (doc.Line.In != inScheduled && doc.Line.In != inPostponed) || doc.Line.Due.After(c.req.Now) {
					return errMoved
				}
				doc.admit()
				return nil
			},
		})
	}
	if err := c.apply(ctx, changes); err != nil {
		return fmt.Errorf("making %d due records ready: %w", len(changes), err)
	}
	return nil
}

// contention controls how many candidates a claim chooses from.
type contention struct{ doubled atomic.Int32 }

// maxDoubled is the maximum number of times that the window is doubled.
const maxDoubled = 3

func (c *contention) factor() int { return 1 << c.doubled.Load() }

// observe records how many of the chosen candidates other processes claimed first.
func (c *contention) observe(lost, chosen int) {
	doubled := c.doubled.Load()
	switch {
	case lost > 0 && doubled < maxDoubled:
		doubled++
	case lost == 0 && chosen > 0 && doubled > 0:
		doubled--
	}
	c.doubled.Store(doubled)
}

// grace is how long a claim that has begun to take documents continues after its context
// ended. Giving up at once would leave leases without an owner that knows of them.
const grace = time.Second

// withGrace returns a context that ends grace after ctx.
func withGrace(ctx context.Context) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(grace, cancel)
		context.AfterFunc(later, func() { timer.Stop() })
	})
	return later, func() {
		stop()
		cancel()
	}
}

// uncertainLeases holds the leases that failed calls may have taken.
type uncertainLeases struct {
	mu     sync.Mutex
	leases []driver.Lease
}

func (s *uncertainLeases) add(docs ...*given) {
	for _, g := range docs {
		s.put([]driver.Lease{g.doc.lease()})
	}
}

func (s *uncertainLeases) put(leases []driver.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leases = append(s.leases, leases...)
}

func (s *uncertainLeases) take() []driver.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	leases := s.leases
	s.leases = nil
	return leases
}

// releaseUncertain hands back the leases that failed calls have taken all the same.
func (d *Driver) releaseUncertain(ctx context.Context) error {
	leases := d.uncertain.take()
	if len(leases) == 0 {
		return nil
	}
	errs, err := d.release(ctx, handBacksOf(leases))
	if err != nil {
		d.uncertain.put(leases)
		return fmt.Errorf("handing back what an earlier claim may have taken: %w", err)
	}
	for _, err := range errs {
		if err != nil && !errors.Is(err, driver.ErrLeaseLost) {
			return fmt.Errorf("handing back what an earlier claim may have taken: %w", err)
		}
	}
	return nil
}

func handBacksOf(leases []driver.Lease) []driver.HandBack {
	handBacks := make([]driver.HandBack, len(leases))
	for i, l := range leases {
		handBacks[i] = driver.HandBack{Lease: l}
	}
	return handBacks
}

// limits holds the controls of the queues that the last claim found stopped or limited.
type limits struct {
	mu       sync.Mutex
	controls map[string]driver.Control
}

func (l *limits) isStopped(queue string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.controls[queue].IsStopped()
}

func (l *limits) isLimited(queue string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return limitsRunning(l.controls[queue])
}

// ofTypes returns the limits of a queue's types; nil if there were none.
func (l *limits) ofTypes(queue string) map[string]amboy.TypeLimit {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.controls[queue].Types
}

// any reports whether a queue is stopped or limited.
func (l *limits) any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.controls) > 0
}

// observe records the controls of the queues that a claim asked for. It reports whether a queue is
// no longer stopped, or the limits of its types have changed.
func (l *limits) observe(controls map[string]driver.Control, asked []string) (resumed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, queue := range asked {
		now := controls[queue]
		before := l.controls[queue]
		resumed = resumed || (before.IsStopped() && !now.IsStopped()) || !reflect.DeepEqual(before.Types, now.Types)
		if !now.IsStopped() && !limitsRunning(now) {
			delete(l.controls, queue)
			continue
		}
		if l.controls == nil {
			l.controls = map[string]driver.Control{}
		}
		l.controls[queue] = now
	}
	return resumed
}

// queueSet is the set of queues that this process has claimed from.
type queueSet struct{ all sync.Map }

// add reports whether the name is new.
func (n *queueSet) add(name string) bool {
	_, there := n.all.LoadOrStore(name, true)
	return !there
}

func (n *queueSet) names() bson.A {
	var names bson.A
	for name := range n.all.Range {
		names = append(names, name)
	}
	return names
}
