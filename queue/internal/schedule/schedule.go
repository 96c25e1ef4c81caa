// Package schedule decides which job runs next. It is the one job table behind the local
// queue and the memory driver: a heap of ready jobs, a heap of jobs that are not due, a line
// of waiting jobs for each scope, the dependencies between jobs, their unique keys, and a
// list of finished jobs.
//
// A Schedule does no I/O, starts no goroutine and has no lock: its owner guards it. Times are
// passed in.
package schedule

import (
	"fmt"
	"time"
	"unique"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/nameset"
	"github.com/mongodb/amboy/queue/internal/scope"
)

// Place is the position of an entry in its life.
type Place uint8

// An entry is in one place at a time.
const (
	// Waiting entries wait for their dependencies to end.
	Waiting Place = iota
	// Scheduled entries are not due yet.
	Scheduled
	// Postponed entries were handed back until a time.
	Postponed
	// ScopeBlocked entries wait for a scope.
	ScopeBlocked
	// Ready entries may run.
	Ready
	// Parked entries wait for Unpark.
	Parked
	// Running entries were returned by Next or Advance.
	Running
	// Retrying entries ended an attempt and await the next.
	Retrying
	// Finished entries have ended for good.
	Finished

	places
)

// IsPending reports whether an entry in this place has not started and is not parked.
func (p Place) IsPending() bool { return p < Parked }

// Entry is a job in a Schedule. The exported fields are set before Add. Afterwards only the
// Schedule changes them, except Job and Backoff, which are the owner's.
type Entry[J any] struct {
	// Job is the owner's data.
	Job J
	// ID is the job's ID.
	ID string
	// Type is the name of the job's type, for CountTypes. A handle keeps entries small.
	Type unique.Handle[string]
	// Priority is the job's priority, larger first.
	Priority int
	// WaitUntil is when the job is due; zero for now. DispatchBy is when it expires; zero
	// for never.
	WaitUntil, DispatchBy time.Time
	// Since is when a wait of a given length began; zero if the wait ends at a given
	// time. See ShortenWaits.
	Since time.Time
	// Scopes are the scopes that the job must hold to run.
	Scopes *Scopes
	// Edges are the IDs of the jobs that must end before this one.
	Edges []string
	// Unique is the key that no other entry may hold; nil for none. Replace sets it.
	Unique *Unique
	// Backoff is the length of the last postponement.
	Backoff time.Duration

	seq           uint64
	stamp         uint32
	deadlineStamp uint32
	hasDeadline   bool
	succeeded     bool
	restarted     bool
	apart         bool // the entry is Ready, and in a lane
	place         Place
	links         *links[J]
	group         *group[J] // while ScopeBlocked
	older, newer  *Entry[J] // in the finishedList
}

// Place returns the place of the entry.
func (e *Entry[J]) Place() Place { return e.place }

// Seq returns the number of the entry in the order of arrival.
func (e *Entry[J]) Seq() uint64 { return e.seq }

// Failed returns the edges that ended without success.
func (e *Entry[J]) Failed() []string {
	if e.links == nil {
		return nil
	}
	return e.links.failed
}

// Block is what blocks an entry.
type Block struct {
	// Scope is the scope that the entry waits for; empty for none.
	Scope string
	// Open is the number of its Edges that have not ended.
	Open, Edges int
}

// Block returns what blocks the entry; the zero Block if it is neither ScopeBlocked nor
// Waiting.
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

// String describes the block to an operator.
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

// Describe sets the fields of a job's status that follow from its entry's place.
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

// before reports whether e runs before f.
func (e *Entry[J]) before(f *Entry[J]) bool {
	if e.Priority != f.Priority {
		return e.Priority > f.Priority
	}
	return e.seq < f.seq
}

// Schedule is a set of jobs. The zero value is empty and ready to use.
type Schedule[J any] struct {
	// KeepFinished is the maximum number of finished entries that are kept; the oldest
	// are removed first.
	KeepFinished int
	// ForwardEdges allows edges to jobs that do not exist yet.
	ForwardEdges bool
	// Forget, if set, is called with every entry that is removed.
	Forget func(*Entry[J])
	// KindOf returns the kind of an entry, for NextBut. BeforeChange must be called
	// before the kind changes.
	KindOf func(*Entry[J]) driver.Kind

	byID     map[string]*Entry[J]
	counts   [places]int
	types    map[unique.Handle[string]]*typeTally
	ended    int
	lastSeq  uint64
	ready    heap[J]
	lanes    map[driver.Kind]*heap[J] // beside ready; see NextBut
	timers   heap[J]
	expiring heap[J]
	holders  scope.Holders
	lines    map[string]*line[J] // of the scopes that are promised or waited for
	groups   map[groupKey]*group[J]
	keys     map[string]*Entry[J] // the holders of unique keys
	missing  map[string][]*links[J]
	finished finishedList[J]
	// unsettled holds the free scopes that may still have to be promised.
	unsettled    []string
	settling     bool
	settleAtOnce int // set by tests; 0 for the constant of that name
	examined     int // the number of groups that were examined, for tests
	// latestTally is that of the latest entry; nil if it is not known.
	latestTally *typeTally
	// latestSince is not before the Since of any entry.
	latestSince time.Time
}

// Add adds an entry. It returns a duplicate job error if the ID or the unique key exists, a
// duplicate scope error if an enqueue scope is held, an *amboy.InvalidJobError if an edge
// names no job, and an *amboy.DependencyCycleError if the edges lead back to the entry. After
// an error nothing has changed.
func (s *Schedule[J]) Add(e *Entry[J], now time.Time) error {
	if err := s.Duplicate(e); err != nil {
		return err
	}
	if path := s.cycle(e); path != nil {
		return &amboy.DependencyCycleError{Path: path}
	}
	return s.add(e, now)
}

// add is Add for an entry whose ID and key are free, and whose edges form no cycle.
func (s *Schedule[J]) add(e *Entry[J], now time.Time) error {
	if err := s.checkEdges(e); err != nil {
		return err
	}
	if err := s.take(e, e.Scopes.AtPut()); err != nil {
		return err
	}
	s.takeKey(e)
	if s.byID == nil {
		s.byID = map[string]*Entry[J]{}
	}
	s.byID[e.ID] = e
	s.lastSeq++
	e.seq = s.lastSeq
	s.tallyIn(e, Waiting)
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

// Len returns the number of entries.
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

// Running returns the number of running entries.
func (s *Schedule[J]) Running() int { return s.counts[Running] }

// Ready returns the number of entries that Next would return now.
func (s *Schedule[J]) Ready() int { return s.counts[Ready] }

// Retrying returns the number of entries that await their next attempt.
func (s *Schedule[J]) Retrying() int { return s.counts[Retrying] }

// Scheduled returns the number of entries whose time has not come.
func (s *Schedule[J]) Scheduled() int { return s.counts[Scheduled] }

// Parked returns the number of entries that were set aside.
func (s *Schedule[J]) Parked() int { return s.counts[Parked] }

// Unstarted returns the number of entries in each place before Running. If it is the same
// after an entry has ended, no other entry became Ready or got a time at which it will be.
func (s *Schedule[J]) Unstarted() [places]int {
	counts := s.counts
	counts[Running], counts[Retrying], counts[Finished] = 0, 0, 0
	return counts
}

// Idle reports whether no entry is pending, running or retrying.
func (s *Schedule[J]) Idle() bool {
	return s.Pending() == 0 && s.counts[Running] == 0 && s.counts[Retrying] == 0
}

// Next removes and returns the entry that should run first, with its scopes; nil if none may
// run.
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

// start moves an entry that left its place to Running.
func (s *Schedule[J]) start(e *Entry[J]) {
	e.stamp++
	s.setPlace(e, Running)
	s.dropDeadline(e)
	s.freeKeyAtStart(e)
	s.fulfill(e)
}

// advanceAtOnce is the maximum number of due entries, and of expired ones, that one call of Advance
// moves, so that other goroutines do not wait long for the lock of the owner.
const advanceAtOnce = 1000

// Advance makes due entries ready, and returns the entries that expired before they started:
// they are Running, and the caller must finish them. If IsBehind is true then, there are too many of
// them for one call.
func (s *Schedule[J]) Advance(now time.Time) (expired []*Entry[J]) {
	key := timeKey(now)
	for range advanceAtOnce {
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
	for range advanceAtOnce {
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

// Unsettled reports whether so many entries wait for a freed scope that Settle or Advance
// must continue to examine them.
func (s *Schedule[J]) Unsettled() bool { return len(s.unsettled) > 0 }

// NextTime returns when Advance should be called; false if there is no such time.
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

// IsBehind reports whether Advance should be called now.
func (s *Schedule[J]) IsBehind(now time.Time) bool {
	next, ok := s.NextTime()
	return ok && !next.After(now)
}

// Finish ends an entry for good, from any place: its scopes are freed, and its dependents are
// updated. It does nothing if the entry is Finished.
func (s *Schedule[J]) Finish(e *Entry[J], succeeded bool, now time.Time) {
	if e.place == Finished {
		return
	}
	s.leave(e)
	s.setPlace(e, Finished)
	e.succeeded = succeeded
	s.freeKeyAtEnd(e)
	s.free(e, e.Scopes.Names())
	s.unlink(e, now)
	s.end(e)
}

// Retry ends the attempt of a running entry. The entry keeps its enqueue scopes, and its
// dependents keep waiting.
func (s *Schedule[J]) Retry(e *Entry[J]) {
	s.leave(e)
	s.setPlace(e, Retrying)
	s.free(e, e.Scopes.AtStart())
}

// Replace replaces an unfinished entry by the next attempt of its job. The scopes that the
// entry holds and next takes at Put pass to next, and so do its unique key, its edges and its
// dependents. Other scopes of the entry are freed, and other enqueue scopes of next are taken.
// If one of these is held, Replace returns a duplicate scope error and changes nothing.
func (s *Schedule[J]) Replace(e, next *Entry[J], now time.Time) error {
	if err := s.take(next, next.Scopes.AtPut()); err != nil {
		return err
	}
	s.leave(e)
	s.setPlace(e, Finished)
	s.lastSeq++
	next.seq = s.lastSeq
	next.inherit(e)
	s.setSince(next, next.Since)
	s.passKey(e, next)
	s.byID[e.ID] = next
	s.tallyIn(next, Waiting)
	s.watchDeadline(next)
	s.free(e, nameset.Without(e.Scopes.Names(), next.Scopes.AtPut()))
	if !next.open() {
		s.wait(next, now)
	}
	s.end(e)
	return nil
}

// Release takes back a running entry. It may run again at until, or now if that is zero; it is
// Postponed until then. Release does nothing if the entry is not Running.
func (s *Schedule[J]) Release(e *Entry[J], until, now time.Time) {
	s.ReleaseSince(e, time.Time{}, until, now)
}

// ReleaseSince is Release for a wait that began at since; zero if until does not depend on
// the beginning.
func (s *Schedule[J]) ReleaseSince(e *Entry[J], since, until, now time.Time) {
	if e.place != Running {
		return
	}
	s.leave(e)
	s.free(e, e.Scopes.AtStart())
	s.watchDeadline(e)
	switch {
	case e.open(): // it expired before its edges ended
		s.setPlace(e, Waiting)
	case until.After(now):
		s.setSince(e, since)
		s.setPlace(e, Postponed)
		s.timers.push(e.slot(timeKey(until)))
	default:
		s.admit(e)
	}
}

// Park parks an entry until Unpark.
func (s *Schedule[J]) Park(e *Entry[J]) {
	s.leave(e)
	s.setPlace(e, Parked)
	s.free(e, e.Scopes.AtStart())
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

// wait makes an entry wait for its time, or admits it.
func (s *Schedule[J]) wait(e *Entry[J], now time.Time) {
	if e.WaitUntil.After(now) {
		s.setSince(e, e.Since)
		s.setPlace(e, Scheduled)
		s.timers.push(e.slot(timeKey(e.WaitUntil)))
		return
	}
	s.admit(e)
}

// leave removes an entry from the structure of its place. The caller moves it to another
// place.
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
		// Entries that waited behind it may have a larger limit.
		s.promote(e.Scopes.AtStart())
	case Waiting, Parked, Running, Retrying, Finished:
	}
	if e.place < Running {
		s.dropDeadline(e)
	}
}

func (s *Schedule[J]) setPlace(e *Entry[J], p Place) {
	s.counts[e.place]--
	s.counts[p]++
	tally := s.tally(e.Type)
	tally.counts[e.place]--
	tally.counts[p]++
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

// NeverExpire removes the deadline of a running entry, whose job has begun, so that it does not expire
// if it is released.
func (s *Schedule[J]) NeverExpire(e *Entry[J]) { e.DispatchBy = time.Time{} }

// dropDeadline prevents an entry that started or ended from expiring.
func (s *Schedule[J]) dropDeadline(e *Entry[J]) {
	if e.hasDeadline {
		e.hasDeadline = false
		e.deadlineStamp++
		s.expiring.left()
	}
}
