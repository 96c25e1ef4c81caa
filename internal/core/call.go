package core

import (
	"errors"
	"slices"
	"time"
)

// callKind is the purpose of a call of the store. One call of each kind is under way at a
// time, and another only if it is late.
type callKind int

const (
	claimCall callKind = iota
	lookCall
	renewCall
	cancelCall
	writeCall
	recoverCall
	forgetCall
	retriesCall
	allCalls
)

const (
	// callLimit bounds calls that delay jobs.
	callLimit = 5 * time.Second
	// dutyLimit bounds calls that delay no job.
	dutyLimit = 10 * time.Second
	// callGrace is how much longer than its limit a call may take before another of its kind
	// may be made: the call ignores its context.
	callGrace = time.Second
	// maxLate is the maximum number of late calls of a kind. Beyond it no other is made.
	maxLate = 4
)

// errNoAnswer is the error of a call that does not return.
var errNoAnswer = errors.New("the store does not answer")

// call is a call that has not returned.
type call struct {
	Call
	kind callKind
	sent time.Duration
	// unnoticed is the time since sent that may have passed without being counted.
	unnoticed time.Duration
	// single is true if other calls of its kind must not be made until this one is late.
	single bool
	// givenUp is true if the call is late: its ends are offered again in other calls.
	givenUp bool

	runs    []*Run // whose leases are renewed, or whose ends are written
	asks    []ask  // of a claim
	limit   int    // of a claim
	keep    int    // how many runs may wait for a worker after a claim
	left    int    // how many runs of the only line of a claim waited for a worker when it was answered
	claims  bool   // of a look: Core.lookClaims when it was sent
	opens   bool   // of a look: Core.lookOpens when it was sent
	surveys bool   // of a look: Core.lookLeft when it was sent
	cancels int    // Core.cancels when the call was sent
}

type calls struct {
	last     uint64
	open     []*call          // few, and most often answered in order
	current  [allCalls]uint64 // the call that blocks others of its kind; 0 for none
	late     [allCalls]int
	failures [allCalls]failures
}

// failures is a series of failed calls of a kind. A store that is gone for an hour should not fill the
// log with every attempt to reach it.
type failures struct {
	quiet time.Duration // no failure is reported before this time
	pause time.Duration // from the last report to the next
}

// longestQuiet is the longest time without a report while calls of a kind fail.
const longestQuiet = time.Minute

// reportFailure reports that a call failed: at first, then after pauses that grow from a second
// to a minute, until a call of its kind succeeds.
func (c *Core) reportFailure(failed *call, what string, err error) {
	f := &c.calls.failures[failed.kind]
	if c.now.Mono < f.quiet {
		return
	}
	f.pause = min(max(2*f.pause, time.Second), longestQuiet)
	f.quiet = c.now.Mono + f.pause
	c.do(Report{what, err})
}

// find returns an open call; nil if it was answered.
func (s *calls) find(id uint64) *call {
	for _, made := range s.open {
		if made.ID == id {
			return made
		}
	}
	return nil
}

// isOpen reports whether a call of a kind is under way and not late.
func (s *calls) isOpen(kind callKind) bool { return s.current[kind] != 0 }

// awaits reports whether a call of a kind is unanswered, late or not.
func (s *calls) awaits(kind callKind) bool {
	return slices.ContainsFunc(s.open, func(made *call) bool { return made.kind == kind })
}

// busy reports whether no call of a kind may be made now.
func (s *calls) busy(kind callKind) bool {
	return s.current[kind] != 0 || s.late[kind] >= maxLate
}

// call starts a call of the store.
func (c *Core) call(kind callKind, limit time.Duration) *call {
	c.calls.last++
	made := &call{Call: Call{ID: c.calls.last, Limit: limit}, kind: kind, sent: c.now.Mono}
	c.calls.open = append(c.calls.open, made)
	// If ends are written alone, there may be many such calls at once, unless the store is
	// in doubt.
	made.single = kind != writeCall || c.config.BatchEnds || c.ends.doubt
	if made.single {
		c.calls.current[kind] = made.ID
		c.timers.set(callTimer, made.sent+limit+callGrace)
	}
	return made
}

// answer ends a call. It returns nil if the call was answered before.
func (c *Core) answer(answered Call, err error) *call {
	made := c.calls.find(answered.ID)
	if made == nil {
		return nil
	}
	i := slices.Index(c.calls.open, made)
	c.calls.open = slices.Delete(c.calls.open, i, i+1)
	switch {
	case c.calls.current[made.kind] == made.ID:
		c.calls.current[made.kind] = 0
	case made.single:
		c.calls.late[made.kind]--
	}
	if err == nil {
		c.calls.failures[made.kind] = failures{}
	}
	if err == nil || !made.isRefusedAgain() {
		c.heardOfStore(made, err)
	}
	return made
}

// isRefusedAgain reports whether a call writes a single end that was refused before. Its
// failure proves nothing about the store.
func (call *call) isRefusedAgain() bool {
	return call.kind == writeCall && len(call.runs) == 1 && call.runs[0].uncertain
}

// heardOfStore notes whether the store works. When it is back, leases are renewed at
// once, and after an outage recovery waits for a heartbeat, so that other processes can renew
// theirs. An error now and then, or a call that always fails while others succeed, is no outage: it
// must not put off recovery again and again.
func (c *Core) heardOfStore(answered *call, err error) {
	back, outage := c.failing && err == nil, c.now.Mono-c.worked
	c.failing = err != nil
	if err == nil {
		c.worked = max(c.worked, answered.sent-answered.unnoticed)
	}
	if !back {
		return
	}
	if outage > c.shortOutage() {
		c.recoverFrom = c.now.Mono + c.heartbeat()
		c.timers.putOff(recoverTimer, c.recoverFrom)
	}
	if c.owesRecovery {
		c.owesRecovery = false
		c.timers.set(recoverTimer, max(c.now.Mono, c.recoverFrom))
	}
	c.timers.set(beatTimer, c.now.Mono)
	c.fire()
}

// shortOutage is the longest time without a successful call after which recovery does not wait: the
// leases that others renew with each heartbeat have time left, even if a renewal took a heartbeat.
func (c *Core) shortOutage() time.Duration { return c.heartbeat() * 3 / 2 }

// giveUpCalls marks calls as late that do not return, so that others can be made.
func (c *Core) giveUpCalls() {
	for kind, id := range c.calls.current {
		if id == 0 {
			continue
		}
		made := c.calls.find(id)
		if at := made.sent + made.Limit + callGrace; at > c.now.Mono {
			c.timers.set(callTimer, at)
			continue
		}
		c.calls.current[kind] = 0
		c.calls.late[kind]++
		made.givenUp = true
		// A long scan for jobs to remove or retry proves nothing about the store.
		c.failing = c.failing || kind != int(forgetCall) && kind != int(retriesCall)
		switch made.kind {
		case claimCall:
			c.changed()
		case lookCall:
			c.lookFor(made)
			c.look()
		case renewCall:
			c.timers.set(beatTimer, c.now.Mono)
		case writeCall:
			c.refused(made.runs, errNoAnswer, false)
			c.flush()
		}
	}
	c.giveUpChecks()
}
