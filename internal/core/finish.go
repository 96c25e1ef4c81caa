package core

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

const (
	// gatherTime is the longest time that an end waits for other ends, so that one call
	// writes all of them, unless a claim is about to be sent (see maxGather).
	gatherTime = 300 * time.Microsecond
	// maxBatch is the maximum number of ends in one call.
	maxBatch = 1000
	// firstPause and lastPause bound the pauses between tries while the store fails. Each
	// pause is twice the previous one, so ends are written within a second of the store's
	// return.
	firstPause = 50 * time.Millisecond
	lastPause  = 400 * time.Millisecond
	// longestPause bounds the pauses of an end that the store refuses although it accepts
	// other ends.
	longestPause = 5 * time.Second
)

// ErrGivenUp is the error of an end that was not written when the caller stopped waiting
// for it.
var ErrGivenUp = errors.New("given up before the store accepted it")

// ends holds the runs whose end waits to be written.
type ends struct {
	waiting []*Run
	// checks holds the runs for which Check is unanswered.
	checks []*Run
	// doubt is true from the failure of a call until a call succeeds. Meanwhile single ends
	// are offered at intervals, so that one that can't be written does not hold up the others.
	doubt bool
	probe time.Duration // when the next single end is offered
	pause time.Duration
	// probes is the number of ends that failed alone since the doubt began.
	probes int
	// tookBlocked is true if the last call was for ends that had been blocked.
	tookBlocked bool
	turns       int // counts the single ends that were offered
	batch       int // the maximum number of ends in a call: halved by failures, until the culprit is alone
}

func (e *ends) init() { e.pause, e.batch = firstPause, maxBatch }

// finish ends a run, once.
func (c *Core) finish(r *Run, end End) {
	if r.finishing {
		return
	}
	r.finishing, r.end = true, end
	if end.Unknown {
		c.learnUnknown(driver.KindOf(r.Record))
	}
	c.ending++
	if r.lost && end.Record == nil || end == (End{}) {
		c.done(r, nil)
		return
	}
	switch {
	case !c.config.BatchEnds && !c.ends.doubt:
		c.write([]*Run{r})
	case c.closing:
		c.ends.waiting = append(c.ends.waiting, r)
		c.flush()
	default:
		c.ends.waiting = append(c.ends.waiting, r)
		if !c.calls.busy(writeCall) {
			c.timers.set(writeTimer, max(c.now.Mono+gatherTime, c.patience.until))
		}
	}
	c.returned(r)
}

// giveUp stops trying to write the end of a run. A call that is under way may still write
// it.
func (c *Core) giveUp(r *Run) {
	if i := slices.Index(c.ends.waiting, r); i >= 0 {
		c.ends.waiting = slices.Delete(c.ends.waiting, i, i+1)
	}
	c.done(r, cmp.Or(r.failure, ErrGivenUp))
}

// flush writes the waiting ends that are due. While a call is under way, ends gather for
// the next one.
func (c *Core) flush() {
	for len(c.ends.waiting) > 0 && !c.calls.busy(writeCall) {
		if c.ends.doubt && c.now.Mono < c.ends.probe {
			c.timers.set(writeTimer, c.ends.probe)
			return
		}
		runs := c.takeEnds()
		if len(runs) == 0 {
			return
		}
		c.write(runs)
		if c.ends.doubt {
			return
		}
	}
}

// takeEnds removes the ends that the next call writes from the waiting ends: one that is
// written alone, or several of one kind. Every second call is for others than those that were
// blocked, if there are any: a call with one of these may take long.
func (c *Core) takeEnds() []*Run {
	if c.ends.doubt {
		return c.takeProbe()
	}
	isOther := func(r *Run) bool { return !r.blocked && (!r.alone || r.due <= c.now.Mono) }
	wait := c.ends.tookBlocked && slices.ContainsFunc(c.ends.waiting, isOther)
	var taken []*Run
	kept := make([]*Run, 0, len(c.ends.waiting))
	for _, r := range c.ends.waiting {
		switch {
		case r.blocked && wait:
			kept = append(kept, r)
		case (r.alone || r.blocked) && r.due > c.now.Mono:
			kept = append(kept, r)
			c.timers.set(writeTimer, r.due)
		case len(taken) == 0:
			taken = append(taken, r)
		case len(taken) < c.ends.batch && !r.alone && !taken[0].alone && r.blocked == taken[0].blocked && sameKind(r, taken[0]):
			taken = append(taken, r)
		default:
			kept = append(kept, r)
		}
	}
	c.ends.waiting = kept
	c.ends.tookBlocked = len(taken) > 0 && taken[0].blocked
	return taken
}

func sameKind(a, b *Run) bool { return (a.end.Record == nil) == (b.end.Record == nil) }

// maxProbes is the number of ends that are offered in turns while the store is in doubt. It
// is more than one because the store may refuse just that one, and small because each of
// them is written alone from then on.
const maxProbes = 4

// takeProbe removes one waiting end, to find out with it whether the store is back.
func (c *Core) takeProbe() []*Run {
	c.ends.turns++
	// Every second probe is an end that has not been probed: the store may refuse all of
	// the probed ones. It is one that was never refused if there is one.
	again := c.ends.probes >= maxProbes && c.ends.turns%2 == 0
	at := slices.IndexFunc(c.ends.waiting, func(r *Run) bool { return !r.alone && !again && r.failure == nil })
	if at < 0 {
		at = max(0, slices.IndexFunc(c.ends.waiting, func(r *Run) bool { return !r.alone && r.probed == again }))
	}
	r := c.ends.waiting[at]
	c.ends.waiting = slices.Delete(c.ends.waiting, at, at+1)
	return []*Run{r}
}

// write calls the store to write ends of one kind.
func (c *Core) write(runs []*Run) {
	call := c.call(writeCall, callLimit)
	call.runs = runs
	if runs[0].end.Record != nil {
		c.do(Complete{Call: call.Call, Runs: runs})
	} else {
		c.do(Release{Call: call.Call, Runs: runs})
	}
}

// written handles the answer to a call that wrote ends.
func (c *Core) written(e Written) {
	call := c.answer(e.Call, e.Err)
	if call == nil {
		return
	}
	switch {
	case call.givenUp:
		c.writtenLate(call.runs, e)
	case e.Err == nil:
		c.taken(call.runs, e.Errs)
	case e.Final && len(call.runs) == 1:
		c.done(call.runs[0], e.Err)
	default:
		c.refused(call.runs, e.Err, e.Final)
	}
	if len(c.ends.waiting) > 0 && !c.closing && !c.ends.doubt && c.now.Mono < c.patience.until {
		c.timers.set(writeTimer, c.patience.until) // or with the next claim
		return
	}
	c.flush()
}

// taken ends runs after a call that succeeded as a whole; errs holds the error of each run.
func (c *Core) taken(runs []*Run, errs []error) {
	if c.ends.doubt {
		c.believe()
	} else if len(runs) == c.ends.batch {
		c.ends.batch = min(2*c.ends.batch, maxBatch)
	}
	for i, r := range runs {
		switch {
		case r.uncertain && errors.Is(errs[i], amboy.ErrLeaseLost) && r.end.Record != nil:
			c.check(r)
		case driver.IsRepeatable(errs[i]):
			r.blocked = errors.Is(errs[i], driver.ErrBlocked)
			r.alone = r.alone || !r.blocked // it may be the only one that the store refuses
			r.postpone(c.now.Mono)
			c.again(r, errs[i])
		default:
			c.done(r, errs[i])
		}
	}
	if runs[0].end.HandBack != nil {
		c.changed()
	}
}

// believe ends the doubt. Ends that failed alone are offered alone again, so that they hold
// up no others, and at once, because the store may have been unreachable.
func (c *Core) believe() {
	c.ends.doubt, c.ends.pause, c.ends.probes = false, firstPause, 0
	for _, r := range c.ends.waiting {
		r.alone = r.alone || r.probed
		r.probed, r.due = false, c.now.Mono
	}
}

// writtenLate ends the runs that a late call has written after all. The others are already
// being offered again.
func (c *Core) writtenLate(runs []*Run, e Written) {
	for i, r := range runs {
		if e.Err == nil && e.Errs[i] == nil {
			c.ends.waiting = slices.DeleteFunc(c.ends.waiting, func(other *Run) bool { return other == r })
			c.done(r, nil)
		}
	}
}

// checkLimit is how long the core waits for the answer to a Check.
const checkLimit = dutyLimit + callGrace

// check queries whether the end of a run was written, unless the run is done.
func (c *Core) check(r *Run) {
	if r.done {
		return
	}
	r.due = c.now.Mono + checkLimit
	c.ends.checks = append(c.ends.checks, r)
	c.timers.set(callTimer, r.due)
	c.do(Check{r})
}

// giveUpChecks ends the runs whose Check was not answered in time. Another process has
// their leases, whatever the answer would be.
func (c *Core) giveUpChecks() {
	checks := c.ends.checks
	c.ends.checks = nil
	for _, r := range checks {
		switch {
		case r.done:
		case r.due > c.now.Mono:
			c.ends.checks = append(c.ends.checks, r)
			c.timers.set(callTimer, r.due)
		default:
			c.done(r, amboy.ErrLeaseLost)
		}
	}
}

// checked ends a run whose end the store refused after a call that may have written it.
func (c *Core) checked(e Checked) {
	if e.Written {
		c.done(e.Run, nil)
	} else {
		c.done(e.Run, amboy.ErrLeaseLost)
	}
}

// refused schedules another try for ends that were not written because a whole call failed.
func (c *Core) refused(runs []*Run, err error, final bool) {
	several := len(runs) > 1
	switch {
	case final:
		for _, r := range runs {
			r.alone, r.due = true, c.now.Mono // so that only the culprit fails
		}
	case several:
		c.ends.batch = (len(runs) + 1) / 2
		c.doubt()
	case runs[0].alone && !c.ends.doubt:
		runs[0].postpone(c.now.Mono) // the other ends are still written
	default:
		if !runs[0].probed && !runs[0].alone && c.ends.probes < maxProbes {
			runs[0].probed = true
			c.ends.probes++
		}
		c.doubt()
	}
	for _, r := range runs {
		c.again(r, err)
	}
}

// doubt stops all writes except single ends at intervals.
func (c *Core) doubt() {
	if c.ends.doubt {
		c.ends.pause = min(2*c.ends.pause, lastPause)
	}
	c.ends.doubt = true
	c.ends.probe = c.now.Mono + c.ends.pause
}

func (r *Run) postpone(now time.Duration) {
	r.pause = min(max(2*r.pause, firstPause), longestPause)
	r.due = now + r.pause
}

// again puts an end back into the waiting ends.
func (c *Core) again(r *Run, err error) {
	if r.done {
		return // the caller has given up
	}
	r.failure = err
	if !r.uncertain {
		r.uncertain = true
		c.do(Refused{Run: r, Err: err})
	}
	c.ends.waiting = append(c.ends.waiting, r)
}

// done ends a run and reports it as Done. It has no effect the second time.
func (c *Core) done(r *Run, err error) {
	if r.done {
		return
	}
	r.done = true
	c.ending--
	c.letGo(r)
	c.returned(r)
	c.startAlone()
	c.do(Done{Run: r, Err: err})
}

// close makes all ends be written at once, and ends claiming.
func (c *Core) close() {
	c.handBackAhead(nil) // first, so that one call writes all
	c.closing = true
	c.endHopelessSuspect()
	c.flush()
}

// abandon gives up all ends.
func (c *Core) abandon() {
	for i := len(c.held) - 1; i >= 0; i-- {
		if r := c.held[i]; r.finishing {
			c.giveUp(r)
		}
	}
	for len(c.ends.waiting) > 0 {
		c.giveUp(c.ends.waiting[0]) // its lease is not held
	}
}
