package mongodb

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/grip/message"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo/options"

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
// so that it can be parked. If more than 200 records have become due or have expired,
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
	claimed, started, err := d.claim(ctx, req)
	d.endClaim(req, started, err) //nolint:contextcheck // The change stream outlasts the claim.
	return claimed, err
}

// claim also returns the number of records that have not expired, by queue.
func (d *Driver) claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, map[string]int, error) {
	c := &claim{
		Driver: d, req: req, except: newKindSet(req.Except),
		began: d.elapsed(), room: map[string]int{}, left: map[string]int{}, taken: map[key]bool{},
	}
	defer func() { c.leases.release(c.tried...) }()
	for _, demand := range req.Queues {
		c.left[demand.Queue] = demand.Limit
		if d.claimed.add(demand.Queue) {
			d.sweeper.sweepLegacy() // the legacy library may have left documents in it
		}
	}
	err := c.run(plain(ctx))
	if err != nil {
		for _, g := range c.given {
			c.doubtful = append(c.doubtful, g.doc.lease())
		}
		c.given = nil
	}
	c.keepDoubts()
	if err != nil {
		return driver.Claimed{}, nil, fmt.Errorf("claiming %d records: %w", req.Limit, err)
	}
	records := make([]*driver.Record, len(c.given))
	for i, g := range c.given {
		records[i] = d.give(ctx, g, req.LeaseTime)
	}
	return driver.Claimed{Records: records, Next: c.next, Waits: c.rateWaits()}, c.startedIn(), nil
}

// claim is a Claim in progress.
type claim struct {
	*Driver
	req driver.ClaimRequest
	// began is when the claim began, by the driver's clock. What is left alone then, or
	// later, is left alone in all rounds.
	began time.Duration
	given []*given
	ready int // the number of given that have not expired
	// admitted is true once due documents were made ready.
	admitted bool
	// doubtful holds leases that this claim may have taken, and some that it took later.
	doubtful []driver.Lease
	// tried holds the leases that are reserved for this claim.
	tried []driver.Lease
	// except holds the kinds that the owner does not know.
	except kindSet
	next   time.Time
	// others are queues with candidates that the last round did not query, because others came
	// first.
	others []driver.Demand

	left  map[string]int           // the number of records that may still be returned, by queue
	room  map[string]int           // the number of records that may still start, by queue with a limit
	waits map[string]time.Duration // how long to wait for tokens, by queue that has used up its rate
	taken map[key]bool             // the scopes of the chosen candidates, and those to leave alone
	used  usedSlots                // of the limited scopes that candidates want

	typeRooms map[string]*typelimit.Room // what the limits of types leave, by queue that has some
	unread    map[string]bool            // the queues for which it was not read what these limits leave
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
	r.Scopes, r.Stamp = g.doc.heldScopes(), g.doc.Order
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
	for attempts := 0; attempts < claimRounds; {
		again, err := c.round(ctx)
		switch {
		case err != nil:
			return err
		case again:
			attempts++
		case len(c.others) == 0 || c.ready == c.req.Limit:
			return nil
		default: // the queues that came first have no more jobs that may run
			c.req.Queues = c.others
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
	v, err := hedge(ctx, &c.claimTimes, func(ctx context.Context) (*view, error) { return c.newQuery(factor).execute(ctx) })
	if err != nil {
		return false, fmt.Errorf("querying candidates: %w", err)
	}
	for _, refused := range v.refused {
		c.typeRooms[refused.queue].Refuse(refused.name)
	}
	expired, due := c.expirations(v), c.admissions(v)
	isLeft := len(due) > 0 && c.admitted || len(due) >= c.timedBatch || len(expired) >= c.timedBatch
	defer func() {
		c.next = v.next(c.given)
		c.nextAfterPause()
		if isLeft || v.moreKinds {
			c.next = c.req.Now
			c.others = nil // they are left for the next claim too
		}
	}()
	c.others = v.others
	resumed := c.limits.observe(v.controls, v.asked)
	err = c.take(ctx, expired, false)
	if err != nil {
		return false, err
	}
	c.avoid(ctx, expired)
	c.follow(ctx, expired)
	if len(due) > 0 && !c.admitted {
		// They may come before the candidates that are ready. There may be more, and others add to
		// them, so those that are ready do not wait for all of them.
		c.admitted = true
		return c.req.Limit > c.ready, c.admitDue(ctx, due)
	}
	if c.meetTypes(v) || resumed {
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

// newQuery returns the query of a round.
func (c *claim) newQuery(factor int) *claimQuery {
	l := &claimQuery{
		Driver: c.Driver, req: c.req, now: stored(c.req.Now), factor: factor, windows: map[string]int{}, wanted: map[string]int{}, except: c.except,
		rooms: c.typeRooms, unread: c.unread, began: c.began,
	}
	l.req.Limit -= c.ready
	for _, demand := range c.req.Queues {
		l.queues = append(l.queues, demand.Queue)
	}
	return l
}

// nextAfterPause lets the next claim come when the first pause of a document ends.
func (c *claim) nextAfterPause() {
	ends, some := c.avoided.nextEnd(c.began)
	if at := c.req.Now.Add(ends - c.began); some && (c.next.IsZero() || at.Before(c.next)) {
		c.next = at
	}
}

// start returns the change that claims a candidate. If a scope turns out to be held, the
// candidate waits for it. A later run of the job, or another job of its ID, may want other scopes.
func (c *claim) start(doc *document) *change {
	slots, order := c.reserveScopes(doc), doc.Order
	return &change{
		queue:  doc.Group,
		name:   doc.Name,
		before: doc,
		quiet:  true,

		leaseTime: c.req.LeaseTime,
		shares:    true,
		step: func(doc *document) error {
			if !doc.waits() || doc.Line.In != inReady || doc.Order != order || c.except.leaves(doc) {
				return errMoved
			}
			doc.start(c.req, false, slots)
			return c.reserveLease(doc)
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

// reserveLease reserves the lease of a document that is about to be claimed.
func (c *claim) reserveLease(doc *document) error {
	lease := doc.lease()
	isDoubt := c.uncertain.remove(lease)
	if isDoubt {
		c.doubtful = append(c.doubtful, lease)
	}
	if !c.leases.reserve(lease, c, isDoubt) {
		return errMoved
	}
	c.tried = append(c.tried, lease)
	return nil
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
				c.doubtful = append(c.doubtful, t.doc.lease())
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

// admissions returns the changes that make due documents ready.
func (c *claim) admissions(v *view) []*change {
	var changes []*change
	avoided, _ := c.avoided.at(c.began)
	for _, doc := range v.due {
		if avoided[key{doc.Group, doc.Name}] {
			continue
		}
		changes = append(changes, &change{
			queue:  doc.Group,
			name:   doc.Name,
			before: doc,
			shares: true,
			step: func(doc *document) error {
				if (doc.Line.In != inScheduled && doc.Line.In != inPostponed) || doc.Line.Due.After(c.req.Now) {
					return errMoved
				}
				doc.admit()
				return nil
			},
		})
	}
	return changes
}

// admitDue makes due documents ready.
func (c *claim) admitDue(ctx context.Context, changes []*change) error {
	err := c.apply(ctx, changes)
	c.avoid(ctx, changes)
	if err != nil {
		return fmt.Errorf("making %d due records ready: %w", len(changes), err)
	}
	return nil
}
