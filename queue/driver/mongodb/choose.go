package mongodb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

// takeReady claims candidates and returns the number that could not be claimed.
func (c *claim) takeReady(ctx context.Context, v *view, factor int) (skipped int, err error) {
	unlock, err := c.findRoom(ctx, v)
	if err != nil {
		return 0, err
	}
	skipped, err = c.takeInRoom(ctx, v, factor)
	exclusive, unlockErr := unlock(ctx)
	err = errors.Join(err, unlockErr)
	if err == nil && !exclusive {
		err = c.handBackExcess(ctx, v)
	}
	return skipped, err
}

// takeInRoom is takeReady for the queues whose room was found. Queues with limits are locked.
func (c *claim) takeInRoom(ctx context.Context, v *view, factor int) (skipped int, err error) {
	giveBack, err := c.reserveStarts(ctx, v)
	if err != nil {
		return 0, err
	}
	defer giveBack(ctx)
	_, c.taken = c.avoided.at(c.began) // some candidates of an earlier round may have been lost
	c.used = usedSlots{}
	err = c.findSlots(ctx, c.used, v.ready)
	if err != nil {
		return 0, fmt.Errorf("querying the holders of limited scopes: %w", err)
	}
	chosen, skipped := c.choose(v, factor > 1 || c.opts.ClaimWindow > 0)
	chosen, giveBackTypes, err := c.reserveTypes(ctx, v, chosen)
	if err != nil {
		return 0, err
	}
	defer giveBackTypes(ctx)
	rivals := c.rivals(v)
	err = c.take(ctx, append(slices.Clip(chosen), rivals...), true)
	c.avoid(ctx, chosen)
	lost := c.countLost(ctx, chosen)
	c.arrangeAfter(ctx, v, chosen, rivals)
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
			c.avoided.add(key{ch.queue, ch.name}, nil, c.elapsed()) // otherwise it hides the candidates after it
			lost++
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
	avoided, _ := c.avoided.at(c.began)
	for _, doc := range v.expired {
		if avoided[key{doc.Group, doc.Name}] {
			continue
		}
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
				return c.reserveLease(doc)
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
	docs, _ := c.avoided.at(c.began)
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
				if !doc.waits() || doc.Line.In != inReady || doc.Order != p.doc.Order {
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
