package mongodb

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/bson"
)

// legacyEvery is the minimum interval between the queries for legacy documents that notifications
// request. A busy legacy process changes documents all the time.
const legacyEvery = 250 * time.Millisecond

// handoverTime is longer than a retry takes from its first write to its last.
const handoverTime = 2 * time.Second

// sweeper schedules sweeps, which do what was left undone: remove edges to ended jobs,
// rearrange free scopes, finish retries, and adopt legacy documents.
//
// One process sweeps for all. Before each sweep it writes that it has the duty, which the others
// read in their change streams. They cancel the sweeps that they had planned, and plan one in case the
// process dies: if they read neither of another sweep nor that nothing is left.
// Without change streams, each process sweeps regularly.
type sweeper struct {
	signal chan struct{}
	hears  bool // whether the process reads of the sweeps of others

	mu sync.Mutex
	// due is when this process sweeps because something may be left undone, takeover when it
	// sweeps because the process that swept has stopped, and routine when it sweeps because it
	// does not hear of changes. Zero means never.
	due, takeover, routine time.Time
	// forced requests a sweep of everything at once, without the duty. legacy requests a query for
	// legacy documents only, and committedNow a check of what transactions put and ended.
	forced, legacy, committedNow bool
	// legacyFrom is when the next query for legacy documents may begin.
	legacyFrom time.Time
	// notBefore is when the next sweep may begin, after one that failed.
	notBefore time.Time
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
	// unadopted are the _ids of the legacy documents that the last sweep could not adopt, if it
	// did not read all.
	unadopted bson.A
	beats     int // makes each state that is written differ from the last one
	// interval is the time until the next sweep, if this one leaves something.
	interval time.Duration
}

// interrupted returns the next attempts that no process seems to be putting in their places:
// they are old, or the last sweep has found them too. The sweep leaves the others to the processes
// that wrote them, which would have to begin anew.
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

// after returns the time in d. Without the duty it adds a random delay, so that one process takes it first.
func (s *sweeper) after(d time.Duration) time.Time {
	if !s.mine && s.hears {
		d += rand.N(sweepJitter)
	}
	return time.Now().Add(d)
}

// in makes a sweep due in d, unless one is due earlier. The caller holds the lock.
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

// sweepLegacy requests a query for legacy documents in the queues of this process: at once, or
// legacyEvery after the last one.
func (s *sweeper) sweepLegacy() { s.change(func() { s.legacy = true }) }

// sweepMoreLegacy requests a query at once for further legacy documents.
func (s *sweeper) sweepMoreLegacy() { s.change(func() { s.legacy, s.legacyFrom = true, time.Time{} }) }

// checkCommitted requests a check at once of what transactions put and ended.
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
			return
		}
		s.in(sweepEvery) // notifications of what other processes left undone meanwhile were missed
		s.news = true
	})
}

// next returns when the next sweep begins; zero for never.
func (s *sweeper) next() (at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, legacy := time.Now(), time.Time{}
	if s.forced || s.committedNow {
		at = now
	}
	if s.legacy {
		legacy = latest(now, s.legacyFrom)
	}
	for _, t := range []time.Time{s.due, s.takeover, s.routine, legacy} {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	if !at.IsZero() && at.Before(s.notBefore) {
		return s.notBefore
	}
	return at
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
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
	routine := !s.hears || !s.routine.IsZero() && !now.Before(s.routine) // there are no notifications of legacy jobs
	forced, what.legacy = s.forced || !s.hears, s.legacy || routine
	if what.legacy {
		s.legacyFrom = now.Add(legacyEvery)
	}
	s.forced, s.legacy, s.committedNow = false, false, false
	what.ready = s.news || !s.hears
	if what.everything {
		s.cancelPlanned() // before the query, which may miss what a caller of watch is about to write
	}
	return what, forced
}

// cancelPlanned is called when this process or another one begins to sweep everything.
func (s *sweeper) cancelPlanned() {
	s.due, s.takeover, s.news = time.Time{}, time.Time{}, false
	if s.deaf {
		s.routine = s.after(deafSweep)
	}
}

// await waits until a sweep is due. It returns false if ctx ends first.
func (s *sweeper) await(ctx context.Context) bool {
	for ctx.Err() == nil {
		at := s.next()
		if !at.IsZero() && !time.Now().Before(at) {
			return true
		}
		var due <-chan time.Time
		if !at.IsZero() {
			due = time.After(time.Until(at))
		}
		select {
		case <-s.signal:
		case <-due:
		case <-ctx.Done():
		}
	}
	return false
}

// requestAgain is called when a sweep failed. The next one does the same, after a pause: a sweep that
// fails at once would otherwise be repeated without end.
func (s *sweeper) requestAgain(forced, legacy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forced, s.legacy = s.forced || forced, s.legacy || legacy
	s.notBefore = time.Now().Add(sweepEvery)
}
