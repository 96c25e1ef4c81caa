package schedule

import (
	"cmp"
	"iter"
	"slices"
	"time"
	"unique"

	"github.com/mongodb/amboy/queue/driver"
)

// typeTally counts the entries of one type in each place.
type typeTally struct {
	jobType unique.Handle[string]
	counts  [places]int
	entries int
}

// tally returns the tally of a type.
func (s *Schedule[J]) tally(jobType unique.Handle[string]) *typeTally {
	if t := s.latestTally; t != nil && t.jobType == jobType {
		return t
	}
	t := s.types[jobType]
	if t == nil {
		if s.types == nil {
			s.types = map[unique.Handle[string]]*typeTally{}
		}
		t = &typeTally{jobType: jobType}
		s.types[jobType] = t
	}
	s.latestTally = t
	return t
}

// nameOf returns the name of a type; empty if none was set.
func nameOf(jobType unique.Handle[string]) string {
	if jobType == (unique.Handle[string]{}) {
		return ""
	}
	return jobType.Value()
}

// TypeName returns the name of the entry's type; empty if none was set.
func (e *Entry[J]) TypeName() string { return nameOf(e.Type) }

// tallyIn counts an entry that comes to a Schedule.
func (s *Schedule[J]) tallyIn(e *Entry[J], p Place) {
	e.place = p
	s.counts[p]++
	t := s.tally(e.Type)
	t.counts[p]++
	t.entries++
}

// tallyOut stops counting an entry that leaves a Schedule.
func (s *Schedule[J]) tallyOut(e *Entry[J]) {
	s.counts[e.place]--
	t := s.tally(e.Type)
	t.counts[e.place]--
	t.entries--
	if t.entries == 0 {
		delete(s.types, e.Type)
		s.latestTally = nil
	}
}

// SetType changes the type of an entry.
func (s *Schedule[J]) SetType(e *Entry[J], jobType string) {
	if nameOf(e.Type) == jobType {
		return
	}
	s.tallyOut(e)
	e.Type = unique.Make(jobType)
	s.tallyIn(e, e.place)
}

// RunningOf returns the number of running entries of a type.
func (s *Schedule[J]) RunningOf(jobType string) int {
	t := s.types[unique.Make(jobType)]
	if t == nil {
		return 0
	}
	return t.counts[Running]
}

// CountTypes adds the entries that have not finished to a count. Its cost depends on the number
// of types, not of entries.
func (s *Schedule[J]) CountTypes(queue string, to TypeCounts) {
	for jobType, t := range s.types {
		for p, n := range t.counts {
			to.Add(queue, nameOf(jobType), Place(p), n)
		}
	}
}

// maxExamined is the maximum number of entries that OldestReady examines, and OldestDue in each of two lists.
const maxExamined = 2000

// OldestReady returns the first Ready entry of the arrived entries, or nil if no entry is Ready.
// If too many entries that are not Ready arrived before, it returns one that Next would return
// first.
func (s *Schedule[J]) OldestReady(arrived iter.Seq[*Entry[J]]) *Entry[J] {
	if s.counts[Ready] == 0 {
		return nil
	}
	examined := 0
	for e := range arrived {
		if e.place == Ready {
			return e
		}
		examined++
		if examined == maxExamined {
			break
		}
	}
	var oldest *Entry[J]
	if first, ok := s.ready.peek(); ok {
		oldest = first.entry
	}
	for _, lane := range s.lanes {
		if first, ok := lane.peek(); ok && (oldest == nil || first.entry.seq < oldest.seq) {
			oldest = first.entry
		}
	}
	return oldest
}

// OldestDue returns the Scheduled entry whose time came first, up to now; nil if there is none.
// Entries are Ready after the next Advance. If too many others are due too, it may miss it.
func (s *Schedule[J]) OldestDue(now time.Time) *Entry[J] {
	key := timeKey(now)
	var oldest *slot[J]
	for _, slots := range [][]slot[J]{s.timers.run[s.timers.start:], s.timers.slots} {
		if len(slots) == 0 || slots[0].key > key { // In both, the first is the earliest.
			continue
		}
		slots = slots[:min(len(slots), maxExamined)]
		for i := range slots {
			next := &slots[i]
			if next.key <= key && next.entry.place == Scheduled && s.timers.valid(next) && (oldest == nil || next.before(oldest)) {
				oldest = next
			}
		}
	}
	if oldest == nil {
		return nil
	}
	return oldest.entry
}

// TypeCounts adds up jobs by queue and type.
type TypeCounts map[typeKey]*driver.TypeCount

type typeKey struct{ queue, jobType string }

// Add counts n jobs in a place. Finished jobs are left out.
func (c TypeCounts) Add(queue, jobType string, p Place, n int) {
	if p == Finished || n == 0 {
		return
	}
	count := c[typeKey{queue, jobType}]
	if count == nil {
		count = &driver.TypeCount{Queue: queue, Type: jobType}
		c[typeKey{queue, jobType}] = count
	}
	switch p {
	case Waiting, Postponed, ScopeBlocked:
		count.Blocked += n
	case Scheduled:
		count.Scheduled += n
	case Ready:
		count.Ready += n
	case Parked:
		count.Parked += n
	case Running:
		count.Running += n
	case Retrying:
		count.Retrying += n
	case Finished:
	}
}

// Sorted returns the counts sorted by queue and type.
func (c TypeCounts) Sorted() []driver.TypeCount {
	all := make([]driver.TypeCount, 0, len(c))
	for _, count := range c {
		all = append(all, *count)
	}
	slices.SortFunc(all, func(a, b driver.TypeCount) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Type, b.Type))
	})
	return all
}
