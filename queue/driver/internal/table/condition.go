package table

import (
	"strings"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// Condition is a part of a WHERE clause, with one argument per question mark.
type Condition struct {
	Terms []string
	Args  []any
}

// Add adds a term that must also hold.
func (c *Condition) Add(term string, args ...any) {
	c.Terms = append(c.Terms, term)
	c.Args = append(c.Args, args...)
}

// AddRange adds that a column with a time is in a range.
func (c *Condition) AddRange(column string, r driver.TimeRange) {
	if !r.From.IsZero() {
		c.Add(column+" >= ?", InstantOf(r.From))
	}
	if !r.To.IsZero() {
		c.Add(column+" < ?", InstantOf(r.To))
	}
}

func (c *Condition) String() string {
	if len(c.Terms) == 0 {
		return "true"
	}
	return strings.Join(c.Terms, " AND ")
}

// stale selects the records that have expired before they were claimed.
const stale = "place < 5 AND dispatch_by IS NOT NULL AND dispatch_by < ?"

// stateTerms select the records in a state, as StateOf derives it. Each question mark is the
// current time.
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

// AddStates adds that a record is in one of the states. No record is ever in an unknown one.
func (c *Condition) AddStates(states []amboy.JobState, now int64) {
	terms := []string{"false"}
	for _, state := range states {
		if term := stateTerms[state]; term != "" {
			terms = append(terms, term)
			for range strings.Count(term, "?") {
				c.Args = append(c.Args, now)
			}
		}
	}
	c.Terms = append(c.Terms, "("+strings.Join(terms, " OR ")+")")
}
