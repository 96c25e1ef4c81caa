package core

import (
	"errors"
	"slices"
	"time"
)

// callKind is what a call of the store is for. One call of each kind is under way at a
// time, and another only where it is late.
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
	// callLimit bounds the calls that jobs wait for.
	callLimit = 5 * time.Second
	// dutyLimit bounds those that nobody waits for.
	dutyLimit = 10 * time.Second
	// callGrace is how much longer than its limit a call may take before others of its
	// kind are made beside it: it ignores its context.
	callGrace = time.Second
	// maxLate is the number of calls of a kind that may be late. Beyond it nobody makes
	// another.
	maxLate = 4
)

// errNoAnswer is what has become of a call that does not return.
var errNoAnswer = errors.New("the store does not answer")

// call is a call that has not returned.
type call struct {
	Call
	kind callKind
	sent time.Duration
	// unnoticed is the time that may have passed since then without being counted.
	unnoticed time.Duration
	// single keeps others of its kind from being made.
	single bool
	// givenUp is true of one that is late: its ends are offered again by others.
	givenUp bool

	runs    []*Run // whose leases are renewed, or whose ends are written
	asks    []ask  // of a claim
	limit   int    // of a claim
	claims  bool   // of a look, as Core.lookClaims
	opens   bool   // of a look, as Core.lookOpens
	cancels int    // that had been asked for then
}

type calls struct {
	last    uint64
	open    []*call          // few, and most often answered in their order
	current [allCalls]uint64 // the call that keeps others of its kind from being made
	late    [allCalls]int
}

// find returns a call that is open; nil where it was answered.
func (s *calls) find(id uint64) *call {
	for _, made := range s.open {
		if made.ID == id {
			return made
		}
	}
	return nil
}

// isOpen tells whether a call of a kind is under way, and not late.
func (s *calls) isOpen(kind callKind) bool { return s.current[kind] != 0 }

// awaits reports whether an answer to a call of a kind is to come, maybe late.
func (s *calls) awaits(kind callKind) bool {
	return slices.ContainsFunc(s.open, func(made *call) bool { return made.kind == kind })
}

// busy tells whether no call of a kind is to be made now.
func (s *calls) busy(kind callKind) bool {
	return s.current[kind] != 0 || s.late[kind] >= maxLate
}

// call begins a call of the store.
func (c *Core) call(kind callKind, limit time.Duration) *call {
	c.calls.last++
	made := &call{Call: Call{ID: c.calls.last, Limit: limit}, kind: kind, sent: c.now.Mono}
	c.calls.open = append(c.calls.open, made)
	// Where ends are written alone there may be many such calls, unless the store is in
	// doubt.
	made.single = kind != writeCall || c.config.BatchEnds || c.ends.doubt
	if made.single {
		c.calls.current[kind] = made.ID
		c.timers.set(callTimer, made.sent+limit+callGrace)
	}
	return made
}

// answer ends a call. It returns nil for one that was answered before.
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
	if err == nil || !made.isRefusedAgain() {
		c.heardOfStore(err)
	}
	return made
}

// isRefusedAgain reports whether a call writes nothing but an end that was refused before.
// When that fails it says nothing of the store.
func (call *call) isRefusedAgain() bool {
	return call.kind == writeCall && len(call.runs) == 1 && call.runs[0].uncertain
}

// heardOfStore notes whether the store works. When it is back, leases are renewed at
// once, and what others hold is left alone for a heartbeat, so that they can do so too.
func (c *Core) heardOfStore(err error) {
	back := c.failing && err == nil
	c.failing = err != nil
	if back {
		c.recoverFrom = c.now.Mono + c.heartbeat()
		c.timers.putOff(recoverTimer, c.recoverFrom)
		c.timers.set(beatTimer, c.now.Mono)
		c.fire()
	}
}

// giveUpCalls lets others be made beside calls that do not return.
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
		// A long look for what is to be removed says nothing of the store.
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
