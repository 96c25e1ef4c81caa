// Package schedule decides which job runs next. It is the one structure behind
// the local queue and the in-memory driver: a heap of jobs that may run, a heap
// of jobs that are not due, a wait list for each scope, the edges between jobs,
// their unique keys, and a list of finished ones.
//
// A Schedule does no I/O, starts no goroutine and has no lock: whoever owns it
// guards it. Times are passed in.
package schedule

import (
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/scope"
)

// Place is where an entry stands.
type Place uint8

// The places. An entry is in one at a time.
const (
	// Waiting entries wait for other jobs to end.
	Waiting Place = iota
	// Scheduled entries are not due.
	Scheduled
	// Postponed entries have a dependency that said to ask again later.
	Postponed
	// ScopeBlocked entries wait for a scope.
	ScopeBlocked
	// Ready entries may run.
	Ready
	// Parked entries stay until they are released.
	Parked
	// Running entries were handed out by Next.
	Running
	// Retrying entries ended an attempt, and await the next.
	Retrying
	// Finished entries are done.
	Finished

	places
)

// IsPending is true where an entry has not started, and is not set aside.
func (p Place) IsPending() bool { return p < Parked }

// Entry is one job in a Schedule. The exported fields are set before Add, and
// changed by the Schedule alone after; Job and Backoff are the owner's.
type Entry[J any] struct {
	// Job is what the owner of the schedule keeps with the entry.
	Job J
	// ID is the job's ID.
	ID string
	// Priority is the job's priority, larger first.
	Priority int
	// WaitUntil is when the job is due, and DispatchBy when it expires; zero
	// for now and never.
	WaitUntil, DispatchBy time.Time
	// Since is when a wait for a time began whose length is what matters; zero where
	// the time is. See ShortenWaits.
	Since time.Time
	// Scopes are what the job must hold to run, EnqueueScopes the part of them
	// that Add takes.
	Scopes, EnqueueScopes []string
	// Edges are the IDs of the jobs that must end first.
	Edges []string
	// Unique is the key that no other entry may have; nil for none. Replace sets it.
	Unique *Unique
	// Backoff is how long the entry was last postponed.
	Backoff time.Duration

	seq           uint64
	stamp         uint32
	deadlineStamp uint32
	hasDeadline   bool
	succeeded     bool
	apart         bool // it is Ready, in a lane
	place         Place
	links         *links[J]
	group         *group[J] // while ScopeBlocked
	dispatch      []string  // the part of Scopes that is not in EnqueueScopes
	older, newer  *Entry[J] // in the finishedList
}

// Place is where the entry stands.
func (e *Entry[J]) Place() Place { return e.place }

// Seq numbers the entry in the order of arrival.
func (e *Entry[J]) Seq() uint64 { return e.seq }

// Failed lists the edges that ended without success.
func (e *Entry[J]) Failed() []string {
	if e.links == nil {
		return nil
	}
	return e.links.failed
}

// Block is what a blocked entry waits for.
type Block struct {
	// Scope is the scope that the entry waits for, where it does.
	Scope string
	// Open is how many of its Edges have not ended.
	Open, Edges int
}

// Block is what the entry waits for; the zero Block where it is not ScopeBlocked
// or Waiting.
func (e *Entry[J]) Block() Block {
	switch e.place {
	case ScopeBlocked:
		return Block{Scope: e.group.scope}
	case Waiting:
		return Block{Open: e.links.open, Edges: len(e.Edges)}
	default:
		return Block{}
	}
}

// String describes it to a person.
func (b Block) String() string {
	switch {
	case b.Scope != "":
		return fmt.Sprintf("waits for scope %q", b.Scope)
	case b.Open > 0:
		return fmt.Sprintf("waits for %d of the %d jobs that it depends on", b.Open, b.Edges)
	default:
		return "its dependency says that it must wait"
	}
}

// Describe makes a job's status tell where its entry stands.
func Describe(status *amboy.JobStatusInfo, place Place, block Block) {
	status.InProgress = place == Running
	status.Completed = place == Finished || place == Retrying
	switch place {
	case Waiting, ScopeBlocked, Postponed:
		status.Hold = amboy.HoldBlocked
		status.Reason = block.String()
	case Parked:
		status.Hold = amboy.HoldParked
	case Scheduled, Ready, Running, Retrying, Finished:
	}
}

// before tells whether e runs before f.
func (e *Entry[J]) before(f *Entry[J]) bool {
	if e.Priority != f.Priority {
		return e.Priority > f.Priority
	}
	return e.seq < f.seq
}

// Schedule is a set of jobs. The zero value is empty and ready to use.
type Schedule[J any] struct {
	// KeepFinished is the number of finished entries that are kept; the oldest
	// are forgotten first.
	KeepFinished int
	// ForwardEdges allows edges to jobs that are not there yet.
	ForwardEdges bool
	// Forget, where set, is told of every entry that is forgotten.
	Forget func(*Entry[J])
	// KindOf returns the kind of an entry, for NextBut. BeforeChange
	// comes before each change of it.
	KindOf func(*Entry[J]) driver.Kind

	byID     map[string]*Entry[J]
	counts   [places]int
	ended    int
	lastSeq  uint64
	ready    heap[J]
	lanes    map[driver.Kind]*heap[J] // beside ready; see NextBut
	timers   heap[J]
	expiring heap[J]
	holders  scope.Holders
	lines    map[string]*line[J] // of the scopes that are promised or waited for
	groups   map[groupKey]*group[J]
	keys     map[string]*Entry[J] // who has a unique key
	missing  map[string][]*links[J]
	finished finishedList[J]
	// unsettled are the free scopes that may have to be promised still.
	unsettled    []string
	settling     bool
	settleAtOnce int // by tests, else 0
	examined     int // how many groups were, for tests
	// latestSince is not before Since of any entry.
	latestSince time.Time
}

// Add adds an entry. It returns an error that is a duplicate job where the ID or
// the unique key is taken, a duplicate scope where an enqueue scope is held, an
// *amboy.InvalidJobError where an edge names no job, and an
// *amboy.DependencyCycleError where the edges lead back to the entry; then
// nothing is changed.
func (s *Schedule[J]) Add(e *Entry[J], now time.Time) error {
	if err := s.Duplicate(e); err != nil {
		return err
	}
	if path := s.cycle(e); path != nil {
		return &amboy.DependencyCycleError{Path: path}
	}
	return s.add(e, now)
}

// add is Add for an entry whose ID and key are free and whose edges make no cycle.
func (s *Schedule[J]) add(e *Entry[J], now time.Time) error {
	if err := s.checkEdges(e); err != nil {
		return err
	}
	if err := s.take(e, e.EnqueueScopes); err != nil {
		return err
	}
	s.takeKey(e)
	if s.byID == nil {
		s.byID = map[string]*Entry[J]{}
	}
	s.byID[e.ID] = e
	s.lastSeq++
	e.seq = s.lastSeq
	e.dispatch = e.dispatchScopes()
	e.place = Waiting
	s.counts[Waiting]++
	s.watchDeadline(e)
	s.link(e)
	if !e.open() {
		s.wait(e, now)
	}
	return nil
}

// Get returns the entry with that ID.
func (s *Schedule[J]) Get(id string) (*Entry[J], bool) {
	e, ok := s.byID[id]
	return e, ok
}

// All calls yield with every entry, in no order.
func (s *Schedule[J]) All(yield func(*Entry[J]) bool) {
	for _, e := range s.byID {
		if !yield(e) {
			return
		}
	}
}

// Len is the number of entries.
func (s *Schedule[J]) Len() int { return len(s.byID) }

// Stats counts the jobs.
func (s *Schedule[J]) Stats() amboy.QueueStats {
	blocked := s.counts[Waiting] + s.counts[Postponed] + s.counts[ScopeBlocked]
	stats := amboy.QueueStats{
		Blocked:   blocked,
		Pending:   s.Pending(),
		Running:   s.counts[Running],
		Retrying:  s.counts[Retrying],
		Completed: s.ended + s.counts[Retrying],
	}
	stats.Total = stats.Pending + stats.Running + stats.Completed
	return stats
}

// Pending counts the jobs that have not started.
func (s *Schedule[J]) Pending() int {
	return s.counts[Waiting] + s.counts[Postponed] + s.counts[ScopeBlocked] +
		s.counts[Scheduled] + s.counts[Ready] + s.counts[Parked]
}

// Running is the number of entries that were handed out.
func (s *Schedule[J]) Running() int { return s.counts[Running] }

// Ready is the number of entries that Next would return now.
func (s *Schedule[J]) Ready() int { return s.counts[Ready] }

// Retrying is the number of entries that await their next attempt.
func (s *Schedule[J]) Retrying() int { return s.counts[Retrying] }

// Scheduled is the number of entries whose time has not come.
func (s *Schedule[J]) Scheduled() int { return s.counts[Scheduled] }

// Parked is the number of entries that were set aside.
func (s *Schedule[J]) Parked() int { return s.counts[Parked] }

// Idle is true where nothing is pending, running or retrying.
func (s *Schedule[J]) Idle() bool {
	return s.Pending() == 0 && s.counts[Running] == 0 && s.counts[Retrying] == 0
}

// Next takes the entry that should run first, with its scopes; nil where none
// may run.
func (s *Schedule[J]) Next() *Entry[J] {
	if len(s.lanes) > 0 {
		return s.next(nil)
	}
	e := s.ready.pop()
	if e == nil {
		return nil
	}
	s.start(e)
	return e
}

// start moves an entry that was taken out of its place to Running.
func (s *Schedule[J]) start(e *Entry[J]) {
	e.stamp++
	s.setPlace(e, Running)
	s.dropDeadline(e)
	s.freeKeyAtStart(e)
	s.fulfill(e)
}

// Advance makes the entries ready whose time has come, and hands out those that
// expired before they started: they are Running, to be finished by the caller.
func (s *Schedule[J]) Advance(now time.Time) (expired []*Entry[J]) {
	key := timeKey(now)
	for {
		slot, ok := s.expiring.peek()
		if !ok || slot.key >= key {
			break
		}
		e := slot.entry
		s.leave(e)
		s.setPlace(e, Running)
		s.dropDeadline(e)
		s.freeKeyAtStart(e)
		expired = append(expired, e)
	}
	for {
		slot, ok := s.timers.peek()
		if !ok || slot.key > key {
			break
		}
		e := s.timers.pop()
		e.stamp++
		s.admit(e)
	}
	s.Settle()
	return expired
}

// Unsettled reports whether a scope was freed for which so many entries wait that Settle,
// or Advance, must go on to look for one that can run.
func (s *Schedule[J]) Unsettled() bool { return len(s.unsettled) > 0 }

// NextTime is when Advance should be called; false where there is no such time.
func (s *Schedule[J]) NextTime() (time.Time, bool) {
	if s.Unsettled() {
		return time.Unix(0, 0), true
	}
	timer, due := s.timers.peek()
	deadline, expires := s.expiring.peek()
	switch {
	case !due && !expires:
		return time.Time{}, false
	case !due || (expires && deadline.key < timer.key):
		// A job may still start at its deadline.
		return time.Unix(0, deadline.key+1), true
	default:
		return time.Unix(0, timer.key), true
	}
}

// Finish ends an entry for good, wherever it stands: its scopes are free, and
// the jobs that depend on it are told whether it succeeded. An entry that is
// Finished already is left alone.
func (s *Schedule[J]) Finish(e *Entry[J], succeeded bool, now time.Time) {
	if e.place == Finished {
		return
	}
	s.leave(e)
	s.setPlace(e, Finished)
	e.succeeded = succeeded
	s.freeKeyAtEnd(e)
	s.free(e, e.Scopes)
	s.unlink(e, now)
	s.end(e)
}

// Retry ends a running entry's attempt: of its scopes it keeps those that Add
// took, and those that depend on it go on waiting.
func (s *Schedule[J]) Retry(e *Entry[J]) {
	s.leave(e)
	s.setPlace(e, Retrying)
	s.free(e, e.dispatch)
}

// Replace puts the next attempt of a job in the place of an entry that is
// Retrying. The scopes that the entry holds pass to next, but for those that are
// no enqueue scopes of it, and so do the unique key and the edges of the entry and
// the jobs that depend on it. Other enqueue scopes of next are taken; an error that is a
// duplicate scope says that one is held, and then nothing is changed.
func (s *Schedule[J]) Replace(e, next *Entry[J], now time.Time) error {
	if err := s.take(next, next.EnqueueScopes); err != nil {
		return err
	}
	s.leave(e)
	s.setPlace(e, Finished)
	s.lastSeq++
	next.seq = s.lastSeq
	next.dispatch = next.dispatchScopes()
	next.inherit(e)
	s.setSince(next, next.Since)
	s.passKey(e, next)
	s.byID[e.ID] = next
	next.place = Waiting
	s.counts[Waiting]++
	s.watchDeadline(next)
	s.free(e, without(e.EnqueueScopes, next.EnqueueScopes))
	if !next.open() {
		s.wait(next, now)
	}
	s.end(e)
	return nil
}

// Release takes a running entry back: it may run again at a time, now where
// that is zero. It counts as Postponed until then. An entry that is not Running
// is left alone.
func (s *Schedule[J]) Release(e *Entry[J], until, now time.Time) {
	s.ReleaseSince(e, time.Time{}, until, now)
}

// ReleaseSince is Release for a wait that began at a time; zero where until is meant
// as it is.
func (s *Schedule[J]) ReleaseSince(e *Entry[J], since, until, now time.Time) {
	if e.place != Running {
		return
	}
	s.setSince(e, since)
	s.leave(e)
	s.free(e, e.dispatch)
	s.watchDeadline(e)
	switch {
	case e.open(): // it expired before its edges ended
		s.setPlace(e, Waiting)
	case until.After(now):
		s.setPlace(e, Postponed)
		s.timers.push(e.slot(timeKey(until)))
	default:
		s.admit(e)
	}
}

// Park takes an entry out until Unpark.
func (s *Schedule[J]) Park(e *Entry[J]) {
	s.leave(e)
	s.setPlace(e, Parked)
	s.free(e, e.dispatch)
}

// Unpark lets a parked entry run again.
func (s *Schedule[J]) Unpark(e *Entry[J], now time.Time) {
	if e.place != Parked {
		return
	}
	s.watchDeadline(e)
	if e.open() {
		s.setPlace(e, Waiting)
		return
	}
	s.wait(e, now)
}

// wait makes an entry wait for its time, or else admits it.
func (s *Schedule[J]) wait(e *Entry[J], now time.Time) {
	if e.WaitUntil.After(now) {
		s.setSince(e, e.Since)
		s.setPlace(e, Scheduled)
		s.timers.push(e.slot(timeKey(e.WaitUntil)))
		return
	}
	s.admit(e)
}

// leave takes an entry out of the structure that its place stands for. The
// caller moves it to another place.
func (s *Schedule[J]) leave(e *Entry[J]) {
	e.stamp++
	switch e.place {
	case Scheduled, Postponed:
		s.timers.left()
	case Ready:
		s.leftReady(e)
		s.withdraw(e)
	case ScopeBlocked:
		s.leaveGroup(e)
	case Waiting, Parked, Running, Retrying, Finished:
	}
	if e.place < Running {
		s.dropDeadline(e)
	}
}

func (s *Schedule[J]) setPlace(e *Entry[J], p Place) {
	s.counts[e.place]--
	s.counts[p]++
	e.place = p
}

func (e *Entry[J]) slot(key int64) slot[J] {
	return slot[J]{key: key, seq: e.seq, stamp: e.stamp, entry: e}
}

// watchDeadline makes the entry expire at its dispatch-by time.
func (s *Schedule[J]) watchDeadline(e *Entry[J]) {
	if e.DispatchBy.IsZero() {
		return
	}
	s.expiring.deadlines = true
	e.hasDeadline = true
	s.expiring.push(slot[J]{key: timeKey(e.DispatchBy), seq: e.seq, stamp: e.deadlineStamp, entry: e})
}

// dropDeadline keeps an entry that started, or ended, from expiring.
func (s *Schedule[J]) dropDeadline(e *Entry[J]) {
	if e.hasDeadline {
		e.hasDeadline = false
		e.deadlineStamp++
		s.expiring.left()
	}
}
