package core

import (
	"slices"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// claimRetry is the minimum time between a claim that fails and the next one, unless there is something new to claim.
const claimRetry = time.Second

// claimPause is the pause after a claim that got nothing, if its answer asks for another one
// at once. What is due may belong to a queue that is only being opened.
const claimPause = time.Millisecond

// maxYields bounds the Yield commands before a claim. If calls of the store take no time, a
// timer would take longer than what it saves.
const maxYields = 8

// A claim waits for the workers of the previous one for half as long as that one took, at
// least gatherTime and at most maxGather, and so do the ends of their runs. It does not wait
// if that claim took less than minTook, because it would cost more than it saves.
const (
	minTook   = 100 * time.Microsecond
	maxGather = 20 * time.Millisecond
)

// maxHasty is the maximum number of claims in a row that do not wait.
const maxHasty = 63

// patience decides whether a claim waits for the workers of the previous one. If they did
// not come in time, because their jobs take longer, the next claims do not wait: first one
// of them, then three, then seven, and so on.
type patience struct {
	until   time.Duration // how long to wait
	waiting bool          // a claim has waited
	hasty   int           // how many claims do not wait
	missed  int           // the last number of hasty claims
}

// begin is called when a claim was answered that took a time.
func (p *patience) begin(now, took time.Duration) {
	p.until = 0
	switch {
	case took < minTook:
	case p.hasty > 0:
		p.hasty--
	default:
		p.until = now + max(gatherTime, min(took/2, maxGather))
	}
}

// met is called when all workers have come.
func (p *patience) met() {
	if p.waiting {
		p.missed = 0
	}
	p.waiting, p.until = false, 0
}

// over is called when a claim does not wait any longer.
func (p *patience) over() {
	if p.waiting {
		p.missed = min(2*p.missed+1, maxHasty)
		p.hasty = p.missed
	}
	p.waiting, p.until = false, 0
}

// ask is what a claim requests for a line.
type ask struct {
	line *Line
	want int
	got  int
}

const (
	// minAsked is the number of lines that one claim may request jobs for in any case.
	minAsked = 16
	// maxAsked is the maximum number of lines in one claim.
	maxAsked = 1000
)

// changed notes that any queue may have something new to claim.
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

// changedIn notes that a queue may have something new to claim.
func (c *Core) changedIn(l *Line) {
	c.mayHave(l)
	c.claimIfUseful()
}

// poll claims again, because the store may have lost a notification.
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

// dueAt makes sure that there is a claim at a time.
func (c *Core) dueAt(at time.Time) {
	if !at.IsZero() && (c.due.IsZero() || at.Before(c.due)) {
		c.due = at
	}
}

// claimDue claims jobs that are due or have expired. Expired jobs are claimed even if all
// workers are busy, because they need none.
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

// hasRoom reports whether one more run may start.
func (c *Core) hasRoom() bool {
	return c.alone == nil && (c.config.MaxRunning == 0 || c.out < c.config.MaxRunning)
}

// claimIfUseful sends a claim for the waiting workers, if there may be something for one of
// them, and for jobs that may have expired. Only one claim is under way at a time.
func (c *Core) claimIfUseful() {
	if c.yielding || c.closing || c.calls.busy(claimCall) {
		return
	}
	var asks []ask
	var limit, ahead int
	switch {
	case !c.hasRoom():
	case c.candidates.lines.Len() > 0:
		if c.candidates.lines.Len() == 1 {
			ahead = c.wantedAhead(c.candidates.lines.First())
		}
		if ahead == 0 && c.gather() {
			return
		}
		c.yields = 0
		asks, limit = c.asks()
		asks[0].want += ahead
		limit += ahead
	case c.claimsAhead():
		l := c.ahead.line
		l.asked, ahead = 0, c.wantedAhead(l)
		asks, limit = []ask{{line: l, want: ahead}}, ahead
	}
	asks = c.askForExpired(asks)
	if len(asks) > 0 {
		c.sendClaim(asks, limit, ahead)
	}
}

// gather reports whether a claim must wait for further workers. If jobs are scarce or short,
// all workers of the previous claim are about to wait again, and one claim for all costs
// little more than one for each.
func (c *Core) gather() bool {
	switch {
	case c.candidates.workers >= c.gathered:
		c.patience.met()
		return false
	case c.now.Mono < c.patience.until:
		c.patience.waiting = true
		c.timers.set(gatherTimer, c.patience.until)
		return true
	case c.yields < maxYields && !c.patience.waiting:
		c.yielding = true
		c.yields++
		c.do(Yield{})
		return true
	default:
		c.patience.over()
		return false
	}
}

// canStart reports whether a run of a line may start now.
func (c *Core) canStart(l *Line) bool { return len(l.waiting) > 0 && c.hasRoom() }

func (c *Core) yielded() {
	c.yielding = false
	c.claimIfUseful()
}

// asks lists the candidates in their order: as many as there is room for runs, so that each
// can get one.
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

// askForExpired adds the lines that are asked only for expired jobs.
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

func (c *Core) sendClaim(asks []ask, limit, ahead int) {
	demands := make([]driver.Demand, len(asks))
	for i, a := range asks {
		a.line.changed = false
		demands[i] = driver.Demand{Queue: a.line.Queue, Limit: a.want}
	}
	call := c.call(claimCall, callLimit)
	call.asks, call.limit, call.cancels = asks, limit, c.cancels
	if ahead > 0 {
		call.keep = ahead + asks[0].line.ahead
	}
	c.do(Claim{Call: call.Call, Demands: demands, Limit: limit, Ahead: ahead, Except: c.unknown})
	c.flush() // while the claim is under way, so that the store can do both at once
}

// claimed handles the answer to a claim. It may come late, after another claim was sent.
func (c *Core) claimed(e Claimed) {
	call := c.answer(e.Call, e.Err)
	if call == nil {
		return
	}
	c.gathered = 0
	for _, a := range call.asks {
		c.gathered += len(a.line.waiting)
		call.left = a.line.ahead
	}
	started, left := c.take(call, e.Records)
	if c.config.BatchEnds && started > 1 {
		c.patience.begin(c.now.Mono, c.now.Mono-call.sent)
	}
	c.startAlone()
	if len(e.Records) > 0 && c.cancels != call.cancels {
		c.checkCancelsSoon() // a request may concern one of these records
	}
	c.noteClaim(call, e.Records)
	c.exhaust(call, e.Err == nil && call.limit > 0 && started+left >= call.limit)
	c.dueAt(c.afterClaim(e))
	c.awaitRates(call, e)
	if e.Err != nil {
		c.reportFailure(call, "could not claim jobs", e.Err)
		c.timers.set(pollTimer, max(c.now.Mono, call.sent+claimRetry))
		c.expiredLeft = c.expiredLeft || slices.ContainsFunc(call.asks, func(a ask) bool { return a.want == 0 })
	}
	c.setPoll()
	c.claimIfUseful()
}

// afterClaim returns the time of the claim that an answer asks for.
func (c *Core) afterClaim(e Claimed) time.Time {
	if e.Next.IsZero() || len(e.Records) > 0 || e.Next.After(c.now.Wall) {
		return e.Next
	}
	return c.now.Wall.Add(claimPause)
}

// take holds the leases of claimed records, and gives the runs to workers. left counts the
// runs that are not started because their kind was found to be unknown, or they expired, after the
// claim was sent.
func (c *Core) take(call *call, records []*driver.Record) (started, left int) {
	fence := c.fence(call)
	for _, record := range records {
		r := &Run{Record: record, Lease: driver.LeaseOf(record), fence: fence}
		c.hold(r)
		r.lost = slices.Contains(c.lostEarly, r.Lease)
		switch l := c.lines[record.Group]; {
		case c.now.Mono >= fence || r.lost:
			// Another process may have the lease by now, or the job has ended.
			c.finish(r, End{HandBack: &driver.HandBack{}})
		case c.isExpired(record):
			c.do(Expire{r})
			if !hadExpired(record) {
				left++
			}
		case c.isUnknown(record):
			c.finish(r, End{HandBack: &driver.HandBack{}})
			left++
		case l == nil || l.stopped || !c.canStart(l) && !c.mayKeep(call, l, r):
			c.finish(r, End{HandBack: &driver.HandBack{}})
		case r.isInterruptedTooOften(l):
			c.do(Park{r})
		case r.isSuspect():
			c.awaitAlone(l, r)
		case c.canStart(l):
			c.start(l, r)
			call.got(l)
			started++
		default:
			c.keep(l, r)
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

// learnUnknown excludes a kind from later claims.
func (c *Core) learnUnknown(kind driver.Kind) {
	if !slices.Contains(c.unknown, kind) {
		c.unknown = append(slices.Clip(c.unknown), kind)
	}
}

// accept makes claims accept a kind again.
func (c *Core) accept(kind driver.Kind) {
	left := slices.DeleteFunc(slices.Clone(c.unknown), func(unknown driver.Kind) bool { return unknown == kind })
	if len(left) < len(c.unknown) {
		c.unknown = left
		c.changed()
	}
}

// forgetUnknown makes claims accept all kinds again.
func (c *Core) forgetUnknown() {
	if len(c.unknown) > 0 {
		c.unknown = nil
		c.changed()
	}
}

// Unknown returns the kinds that claims exclude. The slice must not be changed.
func (c *Core) Unknown() []driver.Kind { return c.unknown }

func (c *Core) isExpired(r *driver.Record) bool { return HasExpired(r, c.now.Wall) }

// HasExpired reports whether a claimed record must no longer be run. A record that had
// expired when it was claimed (at its Start) was given without its scopes and before its
// dependencies ended, so it must not be run even if the clock was set back since.
func HasExpired(r *driver.Record, now time.Time) bool {
	deadline := r.TimeInfo.DispatchBy
	return !deadline.IsZero() && deadline.Before(now) || hadExpired(r)
}

// hadExpired reports whether a record had expired when it was claimed. The limits of a claim do not count it.
func hadExpired(r *driver.Record) bool {
	deadline := r.TimeInfo.DispatchBy
	return !deadline.IsZero() && deadline.Before(r.TimeInfo.Start)
}

// asksFor reports whether a claim may return jobs of a line.
func (call *call) asksFor(l *Line) bool {
	return l.asked < len(call.asks) && call.asks[l.asked].line == l
}

// got counts a run for its line.
func (call *call) got(l *Line) {
	if i := l.asked; i < len(call.asks) && call.asks[i].line == l {
		call.asks[i].got++
	}
}

// exhaust marks the lines that have nothing more to claim, unless there may be more, and
// reports watched queues that had nothing. A late answer does not describe the current
// state.
func (c *Core) exhaust(call *call, mayBeMore bool) {
	for _, a := range call.asks {
		if a.want == 0 {
			continue
		}
		if a.got < a.want && !mayBeMore && !a.line.changed && !call.givenUp {
			a.line.mayHave = false
			c.candidates.arrange(a.line)
		}
		if a.got == 0 && a.line.out+a.line.ahead == 0 && a.line.watching > 0 {
			c.do(Drained{a.line})
		}
	}
}

// setPoll sets the time of the next poll.
func (c *Core) setPoll() {
	if low, high := c.config.PollMin, c.config.PollMax; high > 0 {
		c.timers.set(pollTimer, c.now.Mono+low+time.Duration(c.config.Random()*float64(high-low)))
	}
}
