package sqlite

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// condition is a part of a WHERE clause, with its arguments.
type condition struct {
	terms []string
	args  []any
}

func (c *condition) add(term string, args ...any) {
	c.terms = append(c.terms, term)
	c.args = append(c.args, args...)
}

func (c *condition) String() string {
	if len(c.terms) == 0 {
		return "1"
	}
	return strings.Join(c.terms, " AND ")
}

// stale is true of a record that has expired, where it can.
const stale = "place < 5 AND dispatch_by IS NOT NULL AND dispatch_by < ?"

// stateTerms select the records that are in a state, as StateOf derives it. Each
// question mark is the time.
var stateTerms = map[amboy.JobState]string{
	amboy.StateScheduled: "(place IN (1, 4) AND wait_until > ? AND NOT (" + stale + "))",
	amboy.StatePending:   "(place IN (1, 4) AND (wait_until IS NULL OR wait_until <= ?) AND NOT (" + stale + "))",
	amboy.StateBlocked:   "(place IN (0, 2, 3) AND NOT (" + stale + "))",
	amboy.StateParked:    "place = 5",
	amboy.StateRunning:   "place = 6",
	amboy.StateRetrying:  "place = 7",
	amboy.StateSucceeded: "place = 8",
	amboy.StateFailed:    "place = 9",
	amboy.StateCanceled:  "place = 10",
	amboy.StateExpired:   "(place = 11 OR (" + stale + "))",
}

// statePlaces are the places where a record can stand that is in a state.
var statePlaces = map[amboy.JobState][]place{
	amboy.StateScheduled: {scheduled, ready},
	amboy.StatePending:   {scheduled, ready},
	amboy.StateBlocked:   {waiting, postponed, scopeBlocked},
	amboy.StateParked:    {parked},
	amboy.StateRunning:   {running},
	amboy.StateRetrying:  {retrying},
	amboy.StateSucceeded: {succeeded},
	amboy.StateFailed:    {failed},
	amboy.StateCanceled:  {canceled},
	amboy.StateExpired:   {expired}, // and those that are stale
}

// selection is a Query in SQL.
type selection struct {
	// condition holds for the records that are selected, of a table called jobs.
	condition
	// queues are those of the records; none where they may be of any.
	queues names
	// ids are those of the jobs, where they are looked for by an index, and prefix
	// is what the ID begins with, where that is known.
	ids    names
	prefix string
	// dependent is true where they depend on one that is known.
	dependent bool
	// tags are those that they have.
	tags names
	// holding is true where they hold scopes.
	holding bool
	// places are those that an index has, where they stand in no others; none where
	// any may be meant.
	places []place
	// stale is the time before which they have expired, where those are meant that
	// were not claimed.
	stale instant
	// dueBy is the current time if scheduled records are selected only if they are due.
	dueBy  instant
	fewDue bool // whether few records are due
	// priorities are the priorities of the ready records of the only queue, the highest
	// first; none if they are unknown or too many.
	priorities []int
	// way is how they are found; nil before the first page. tried is true once
	// another one was looked for, after a page.
	way   *way
	tried bool
}

// inQueues selects by the names of queues. The plus keeps SQLite from taking an
// index that has them in another order.
const inQueues = "+queue IN (" + queueIDs + ")"

const queueIDs = "SELECT id FROM queues WHERE name IN (SELECT value FROM json_each(?))"

// hasTag selects by a tag.
const hasTag = "EXISTS (SELECT 1 FROM tags WHERE tag = ? AND of_seq = jobs.seq)"

// holdsScopes is the term of the index of the records that hold scopes. Those that
// are in it and hold none were claimed because they had expired.
const holdsScopes = "((place < 8 AND enqueue_scopes IS NOT NULL) OR (place = 6 AND scopes IS NOT NULL))"

func newSelection(q driver.Query, now time.Time) (*selection, error) {
	if q.DependsOn != "" && len(q.Queues) == 0 {
		return nil, fmt.Errorf("invalid query: DependsOn needs one of Queues (is %q)", q.DependsOn)
	}
	s := &selection{queues: q.Queues, dependent: q.DependsOn != "", tags: q.Tags, holding: q.Holding}
	s.addList(inQueues, q.Queues)
	s.addList("type IN (SELECT value FROM json_each(?))", q.Types)
	s.addIDs(q)
	s.addStates(q.States, instantOf(now).Int64)
	if q.Scope != "" {
		s.add("(EXISTS (SELECT 1 FROM json_each(scopes) WHERE value = ?) OR EXISTS (SELECT 1 FROM json_each(enqueue_scopes) WHERE value = ?))",
			q.Scope, q.Scope)
	}
	if q.Holding {
		s.add(holdsScopes)
		s.add("(enqueue_scopes IS NOT NULL OR dispatch_by IS NULL OR dispatch_by >= started)")
	}
	if q.DependsOn != "" {
		s.add("jobs.seq IN (SELECT from_seq FROM edges WHERE queue IN ("+queueIDs+") AND to_job = ?)", s.queues, q.DependsOn)
	}
	for _, tag := range q.Tags {
		s.add(hasTag, tag)
	}
	if q.Error != "" {
		s.add("instr(last_error, ?) > 0", q.Error)
	}
	s.addRange("created", q.Created)
	s.addRange("wait_until", q.Due)
	s.addRange("ended", q.Ended)
	if q.Latest {
		s.add("replaced = 0")
	}
	return s, nil
}

func (s *selection) addList(term string, values names) {
	if len(values) > 0 {
		s.add(term, values)
	}
}

// manyJobs is the number of IDs beyond which they are not looked for in each queue of
// the store.
const manyJobs = 10

func (s *selection) addIDs(q driver.Query) {
	s.addList("job_id IN (SELECT value FROM json_each(?))", q.JobIDs)
	if len(q.Queues) > 0 || len(q.JobIDs) <= manyJobs {
		s.ids = q.JobIDs
	}
	if q.ID == "" {
		return
	}
	s.add("job_id GLOB ?", globPattern(q.ID))
	switch wildcard := strings.IndexAny(q.ID, "*?"); {
	case len(s.ids) > 0:
	case wildcard < 0:
		s.ids = names{q.ID}
	default:
		s.prefix = q.ID[:wildcard]
	}
}

func (s *selection) addStates(states []amboy.JobState, now int64) {
	if len(states) == 0 {
		return
	}
	terms := []string{"0"}
	for _, state := range states {
		term := stateTerms[state]
		if term == "" {
			continue // nothing is ever in it
		}
		terms = append(terms, term)
		for range strings.Count(term, "?") {
			s.args = append(s.args, now)
		}
		if state == amboy.StateExpired {
			s.stale = instant{Int64: now, Valid: true}
		}
		for _, p := range statePlaces[state] {
			if !slices.Contains(s.places, p) {
				s.places = append(s.places, p)
			}
		}
	}
	if slices.Contains(states, amboy.StatePending) && !slices.Contains(states, amboy.StateScheduled) {
		s.dueBy = instant{Int64: now, Valid: true}
	}
	s.terms = append(s.terms, "("+strings.Join(terms, " OR ")+")")
	if slices.Contains(s.places, succeeded) {
		s.places = nil // almost all are there
	}
}

func (s *selection) addRange(column string, r driver.TimeRange) {
	if !r.From.IsZero() {
		s.add(column+" >= ?", instantOf(r.From))
	}
	if !r.To.IsZero() {
		s.add(column+" < ?", instantOf(r.To))
	}
}

// globPattern is a pattern in which a bracket stands for itself.
func globPattern(pattern string) string { return strings.ReplaceAll(pattern, "[", "[[]") }
