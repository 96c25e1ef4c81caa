package core

import (
	"slices"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// claimRetry is how long nobody claims after an error of the store, unless there is
// something new.
const claimRetry = time.Second

// maxYields is how often others may run before a claim for all. A timer would take
// longer than what it saves.
const maxYields = 8

// ask is what a claim asked for a line.
type ask struct {
	line *Line
	want int
	got  int
}

const (
	// minAsked is the number of lines that one claim asks for in any case, if there are as
	// many.
	minAsked = 16
	// maxAsked is the number of lines that one claim asks for at most.
	maxAsked = 1000
)

// changed says that any queue may have something new to claim.
func (c *Core) changed() {
	if !c.hasFewLines() {
		c.lookClaims = true
		c.look()
		return
	}
	for e := c.order.Front(); e != nil; e = e.Next() {
		c.mayHave(e.Value.(*Line))
	}
	c.claimIfUseful()
	if c.openEvery > 0 && !c.yielding && !c.calls.isOpen(claimCall) {
		c.look() // for when the next job is due
	}
}

func (c *Core) hasFewLines() bool { return len(c.lines) <= c.config.FewLines }

// changedIn says that a queue may have something new to claim.
func (c *Core) changedIn(l *Line) {
	c.mayHave(l)
	c.claimIfUseful()
}

// poll looks again, as there may be something of which the store has not told.
func (c *Core) poll() {
	if c.expiredLeft {
		c.expiredLeft = false
		c.claimDue()
		return
	}
	c.changed()
}

func (c *Core) mayHave(l *Line) {
	l.mayHave, l.changed = true, true
	c.candidates.arrange(l)
}

// dueAt makes sure that somebody looks at a time.
func (c *Core) dueAt(at time.Time) {
	if !at.IsZero() && (c.due.IsZero() || at.Before(c.due)) {
		c.due = at
	}
}

// claimDue looks for jobs that are due, and for those that have expired: these are claimed
// even if all workers are busy, as they need none.
func (c *Core) claimDue() {
	c.due = time.Time{}
	c.lookOpens = c.openEvery > 0
	c.lookClaims = !c.hasFewLines()
	if c.hasFewLines() {
		for e := c.order.Front(); e != nil; e = e.Next() {
			c.mayHave(e.Value.(*Line))
			c.mayHaveExpired(e.Value.(*Line))
		}
		c.claimIfUseful()
	}
	if c.lookOpens || c.lookClaims {
		c.look()
	}
}

func (c *Core) mayHaveExpired(l *Line) {
	if !l.mayHaveExpired {
		l.mayHaveExpired = true
		c.expiring = append(c.expiring, l)
	}
}

// hasRoom tells whether one more run may begin.
func (c *Core) hasRoom() bool {
	return c.alone == nil && (c.config.MaxRunning == 0 || c.out < c.config.MaxRunning)
}

// claimIfUseful claims for the workers that wait, if there may be something for one of
// them, and what may have expired. While a claim is under way nobody else claims.
func (c *Core) claimIfUseful() {
	if c.yielding || c.closing || c.calls.busy(claimCall) {
		return
	}
	var asks []ask
	var limit int
	if c.hasRoom() && len(c.candidates.lines) > 0 {
		if c.yields < maxYields && c.candidates.workers < c.gathered {
			// Where jobs are short all workers of the claim before are about to come again,
			// and one claim for all costs little more than one for each.
			c.yielding = true
			c.yields++
			c.do(Yield{})
			return
		}
		c.yields = 0
		asks, limit = c.asks()
	}
	asks = c.askForExpired(asks)
	if len(asks) > 0 {
		c.sendClaim(asks, limit)
	}
}

func (c *Core) yielded() {
	c.yielding = false
	c.claimIfUseful()
}

// asks lists the candidates in their order: as many as there is room for runs, so that each
// can have one.
func (c *Core) asks() (asks []ask, limit int) {
	most, room := maxAsked, 0
	if c.config.MaxRunning > 0 {
		room = c.config.MaxRunning - c.out
		most = min(most, max(room, minAsked))
	}
	lines := c.candidates.first(most)
	asks = make([]ask, len(lines))
	for i, l := range lines {
		l.asked = i
		asks[i] = ask{line: l, want: len(l.waiting)}
		limit += len(l.waiting)
	}
	if c.config.MaxRunning > 0 {
		limit = min(limit, room)
	}
	return asks, limit
}

// askForExpired adds the lines that are asked for nothing but what has expired.
func (c *Core) askForExpired(asks []ask) []ask {
	for _, l := range c.expiring {
		l.mayHaveExpired = false
		if isAsked := l.asked < len(asks) && asks[l.asked].line == l; l.isActive() && !isAsked {
			l.asked = len(asks)
			asks = append(asks, ask{line: l})
		}
	}
	c.expiring = nil
	return asks
}

func (c *Core) sendClaim(asks []ask, limit int) {
	demands := make([]driver.Demand, len(asks))
	for i, a := range asks {
		a.line.changed = false
		demands[i] = driver.Demand{Queue: a.line.Queue, Limit: a.want}
	}
	call := c.call(claimCall, callLimit)
	call.asks, call.limit, call.cancels = asks, limit, c.cancels
	c.do(Claim{Call: call.Call, Demands: demands, Limit: limit, Except: c.unknown})
	c.flush() // beside the claim, so that the store can do both at once
}

// claimed deals with what a claim gave, which may come late, when another was sent.
func (c *Core) claimed(e Claimed) {
	call := c.answer(e.Call, e.Err)
	if call == nil {
		return
	}
	c.gathered = 0
	for _, a := range call.asks {
		c.gathered += len(a.line.waiting)
	}
	started, left := c.take(call, e.Records)
	c.startAlone()
	if len(e.Records) > 0 && c.cancels != call.cancels {
		c.checkCancelsSoon() // it may have been one of these
	}
	c.exhaust(call, e.Err == nil && call.limit > 0 && started+left >= call.limit)
	c.dueAt(e.Next)
	if e.Err != nil {
		c.do(Report{"could not claim jobs", e.Err})
		c.timers.set(pollTimer, c.now.Mono+claimRetry)
		c.expiredLeft = c.expiredLeft || slices.ContainsFunc(call.asks, func(a ask) bool { return a.want == 0 })
	}
	c.setPoll()
	c.claimIfUseful()
}

// take holds the leases of records that were claimed, and gives the runs to workers. left
// counts those that are left to others, because a run that was claimed before has shown
// meanwhile that this process does not know their kind.
func (c *Core) take(call *call, records []*driver.Record) (started, left int) {
	fence := c.fence(call)
	for _, record := range records {
		r := &Run{Record: record, Lease: driver.LeaseOf(record), fence: fence}
		c.hold(r)
		r.lost = slices.Contains(c.lostEarly, r.Lease)
		switch l := c.lines[record.Group]; {
		case c.now.Mono >= fence || r.lost:
			// Another process may have it by now, or it has ended.
			c.finish(r, End{HandBack: &driver.HandBack{}})
		case c.isExpired(record):
			c.do(Expire{r})
		case c.isUnknown(record):
			c.finish(r, End{HandBack: &driver.HandBack{}})
			left++
		case l == nil || l.stopped || len(l.waiting) == 0 || !c.hasRoom():
			c.finish(r, End{HandBack: &driver.HandBack{}})
		case r.isInterruptedTooOften(l):
			c.do(Park{r})
		case r.isSuspect():
			c.awaitAlone(l, r)
		default:
			c.start(l, r)
			call.got(l)
			started++
		}
	}
	if !c.calls.awaits(claimCall) {
		c.lostEarly = nil
	}
	return started, left
}

func (c *Core) isUnknown(r *driver.Record) bool {
	return len(c.unknown) > 0 && slices.Contains(c.unknown, driver.KindOf(r))
}

// learnUnknown has claims leave a kind to others.
func (c *Core) learnUnknown(kind driver.Kind) {
	if !slices.Contains(c.unknown, kind) {
		c.unknown = append(slices.Clip(c.unknown), kind)
	}
}

// forgetUnknown has claims try all kinds again.
func (c *Core) forgetUnknown() {
	if len(c.unknown) > 0 {
		c.unknown = nil
		c.changed()
	}
}

// Unknown are the kinds that claims leave to others. It must not be changed.
func (c *Core) Unknown() []driver.Kind { return c.unknown }

// isExpired reports whether a record must not be run any more. One that had expired when it
// was claimed, which is its start, was given without its scopes, and its edges were not
// waited for: it must not be run even if the clock was set back since.
func (c *Core) isExpired(r *driver.Record) bool {
	deadline := r.TimeInfo.DispatchBy
	return !deadline.IsZero() && (deadline.Before(c.now.Wall) || deadline.Before(r.TimeInfo.Start))
}

// asksFor reports whether a claim may give something of a line.
func (call *call) asksFor(l *Line) bool {
	return l.asked < len(call.asks) && call.asks[l.asked].line == l
}

// got counts a run of a line.
func (call *call) got(l *Line) {
	if i := l.asked; i < len(call.asks) && call.asks[i].line == l {
		call.asks[i].got++
	}
}

// exhaust notes for which lines there is nothing more, unless there may be, and tells
// those who watch a queue that it had nothing. A late answer says nothing of what is now.
func (c *Core) exhaust(call *call, mayBeMore bool) {
	for _, a := range call.asks {
		if a.want == 0 {
			continue
		}
		if a.got < a.want && !mayBeMore && !a.line.changed && !call.givenUp {
			a.line.mayHave = false
			c.candidates.arrange(a.line)
		}
		if a.got == 0 && a.line.out == 0 && a.line.watching > 0 {
			c.do(Drained{a.line})
		}
	}
}

// setPoll sets the time of the next claim without a reason.
func (c *Core) setPoll() {
	if low, high := c.config.PollMin, c.config.PollMax; high > 0 {
		c.timers.set(pollTimer, c.now.Mono+low+time.Duration(c.config.Random()*float64(high-low)))
	}
}
