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
	// gatherTime is the longest that ends wait for others, so that one call writes all
	// of them.
	gatherTime = 300 * time.Microsecond
	// maxBatch is the number of ends that one call writes.
	maxBatch = 1000
	// firstPause and lastPause are the waits between tries while the store takes
	// nothing: each is twice the one before. So what can be written is written within a
	// second of the store's return.
	firstPause = 50 * time.Millisecond
	lastPause  = 400 * time.Millisecond
	// longestPause is that of an end that the store does not take although it takes
	// others.
	longestPause = 5 * time.Second
)

// ErrGivenUp is what becomes of an end that was not written when nobody waited for it
// any more.
var ErrGivenUp = errors.New("it was given up before the store took it")

// ends are the runs whose end waits to be written.
type ends struct {
	waiting []*Run
	// checks are those of which it is asked whether it was written.
	checks []*Run
	// doubt is true from when a call has failed until one succeeds. Meanwhile a single
	// end is offered now and then, so that one that can't be written keeps no others.
	doubt bool
	probe time.Duration // when the next one is
	pause time.Duration
	// probes is the number of ends that failed alone since.
	probes int
	turns  int // of offering one of them, or another
	batch  int // the most ends in a call: fewer after one failed, until the culprit is alone
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
			c.timers.set(writeTimer, c.now.Mono+gatherTime)
		}
	}
	c.returned(r)
}

// giveUp stops trying to write the end of a run. A call that is writing it may do so
// still.
func (c *Core) giveUp(r *Run) {
	if i := slices.Index(c.ends.waiting, r); i >= 0 {
		c.ends.waiting = slices.Delete(c.ends.waiting, i, i+1)
	}
	c.done(r, cmp.Or(r.failure, ErrGivenUp))
}

// flush writes ends that wait, as far as it is time for them. While a call is under way,
// others gather for the next.
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

// takeEnds takes the ends out that the next call is to write: one alone, or several of
// one kind.
func (c *Core) takeEnds() []*Run {
	if c.ends.doubt {
		return c.takeProbe()
	}
	var taken []*Run
	kept := make([]*Run, 0, len(c.ends.waiting))
	for _, r := range c.ends.waiting {
		switch {
		case r.alone && r.due > c.now.Mono:
			kept = append(kept, r)
			c.timers.set(writeTimer, r.due)
		case len(taken) == 0:
			taken = append(taken, r)
		case len(taken) < c.ends.batch && !r.alone && !taken[0].alone && sameKind(r, taken[0]):
			taken = append(taken, r)
		default:
			kept = append(kept, r)
		}
	}
	c.ends.waiting = kept
	return taken
}

func sameKind(a, b *Run) bool { return (a.end.Record == nil) == (b.end.Record == nil) }

// maxProbes is the number of ends that are offered in turns while in doubt. More than one,
// as it may be that one which the store refuses; and few, as each is then written alone.
const maxProbes = 4

// takeProbe takes one end out, to find out with it whether the store is back.
func (c *Core) takeProbe() []*Run {
	at := 0
	c.ends.turns++
	// Each second time it is another than those few: the store may refuse all of them.
	again := c.ends.probes >= maxProbes && c.ends.turns%2 == 0
	for i, r := range c.ends.waiting {
		if !r.alone && r.probed == again {
			at = i
			break
		}
	}
	r := c.ends.waiting[at]
	c.ends.waiting = slices.Delete(c.ends.waiting, at, at+1)
	return []*Run{r}
}

// write makes the call that writes ends of one kind.
func (c *Core) write(runs []*Run) {
	call := c.call(writeCall, callLimit)
	call.runs = runs
	if runs[0].end.Record != nil {
		c.do(Complete{Call: call.Call, Runs: runs})
	} else {
		c.do(Release{Call: call.Call, Runs: runs})
	}
}

// written deals with what became of ends.
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
	c.flush()
}

// taken ends the runs that a call wrote, or that the store refused one by one.
func (c *Core) taken(runs []*Run, errs []error) {
	if c.ends.doubt {
		c.believe()
	} else if len(runs) == c.ends.batch {
		c.ends.batch = min(2*c.ends.batch, maxBatch)
	}
	for i, r := range runs {
		if r.uncertain && errors.Is(errs[i], amboy.ErrLeaseLost) && r.end.Record != nil {
			c.check(r)
			continue
		}
		c.done(r, errs[i])
	}
	if runs[0].end.HandBack != nil {
		c.changed()
	}
}

// believe ends the doubt. What failed alone is offered alone again, so that it keeps no
// others, and at once: the store may have been gone.
func (c *Core) believe() {
	c.ends.doubt, c.ends.pause, c.ends.probes = false, firstPause, 0
	for _, r := range c.ends.waiting {
		r.alone = r.alone || r.probed
		r.probed, r.due = false, c.now.Mono
	}
}

// writtenLate ends the runs that a call has written after all. The others are offered
// again already.
func (c *Core) writtenLate(runs []*Run, e Written) {
	for i, r := range runs {
		if e.Err == nil && e.Errs[i] == nil {
			c.ends.waiting = slices.DeleteFunc(c.ends.waiting, func(other *Run) bool { return other == r })
			c.done(r, nil)
		}
	}
}

// checkLimit is how long an answer to Check is waited for.
const checkLimit = dutyLimit + callGrace

// check asks whether the end of a run was written, unless that is known meanwhile.
func (c *Core) check(r *Run) {
	if r.done {
		return
	}
	r.due = c.now.Mono + checkLimit
	c.ends.checks = append(c.ends.checks, r)
	c.timers.set(callTimer, r.due)
	c.do(Check{r})
}

// giveUpChecks ends the runs for whose Check there is no answer. Their leases are
// another's, whatever it would be.
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

// checked ends a run that the store refused after a call that may have written it.
func (c *Core) checked(e Checked) {
	if e.Written {
		c.done(e.Run, nil)
	} else {
		c.done(e.Run, amboy.ErrLeaseLost)
	}
}

// refused has ends tried again that a call as a whole did not write.
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
		runs[0].postpone(c.now.Mono) // others go on
	default:
		if !runs[0].probed && c.ends.probes < maxProbes {
			runs[0].probed = true
			c.ends.probes++
		}
		c.doubt()
	}
	for _, r := range runs {
		c.again(r, err)
	}
}

// doubt stops the writing, but for a single end now and then.
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

// again puts an end back among those that wait.
func (c *Core) again(r *Run, err error) {
	if r.done {
		return // nobody waits for it any more
	}
	r.failure = err
	if !r.uncertain {
		r.uncertain = true
		c.do(Refused{Run: r, Err: err})
	}
	c.ends.waiting = append(c.ends.waiting, r)
}

// done forgets a run.
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

// close has all ends written at once, and nothing claimed any more.
func (c *Core) close() {
	c.closing = true
	c.endHopelessSuspect()
	c.flush()
}

// abandon gives all ends up.
func (c *Core) abandon() {
	for i := len(c.held) - 1; i >= 0; i-- {
		if r := c.held[i]; r.finishing {
			c.giveUp(r)
		}
	}
	for len(c.ends.waiting) > 0 {
		c.giveUp(c.ends.waiting[0]) // one that was never held
	}
}
