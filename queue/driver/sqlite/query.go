package sqlite

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// lookedAt is the number of rows, at most, that a page looks at.
const lookedAt = 5000

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
	amboy.StateExpired:   {waiting, scheduled, postponed, scopeBlocked, ready, expired},
}

// selection is a Query in SQL.
type selection struct {
	condition
	// places are those that the index of places has, where the records stand in
	// no others; none where any may be meant.
	places []place
	// few selects by an index the attempts of one job, or the records that have a
	// tag, where the query is for that.
	few condition
}

func newSelection(q driver.Query, now time.Time) (*selection, error) {
	s := &selection{}
	if err := s.addLists(q); err != nil {
		return nil, err
	}
	s.addStates(q.States, instantOf(now).Int64)
	if q.ID != "" {
		s.add("job_id GLOB ?", globPattern(q.ID))
	}
	if q.Scope != "" {
		s.add("(EXISTS (SELECT 1 FROM json_each(scopes) WHERE value = ?) OR EXISTS (SELECT 1 FROM json_each(enqueue_scopes) WHERE value = ?))",
			q.Scope, q.Scope)
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
	err := s.addFew(q)
	return s, err
}

// addFew adds what an index of its own finds.
func (s *selection) addFew(q driver.Query) error {
	if q.Tag == "" {
		s.addJob(q)
		return nil
	}
	if len(q.Queues) == 0 {
		s.few.add("seq IN (SELECT seq FROM tags WHERE tag = ?)", q.Tag)
		return nil
	}
	list, err := json.Marshal(q.Queues)
	if err != nil {
		return err
	}
	s.few.add("seq IN (SELECT seq FROM tags WHERE tag = ? AND queue IN (SELECT id FROM queues WHERE name IN (SELECT value FROM json_each(?))))",
		q.Tag, string(list))
	return nil
}

func (s *selection) addJob(q driver.Query) {
	if q.ID == "" || len(q.Queues) != 1 || strings.ContainsAny(q.ID, "*?") {
		return
	}
	s.few.add(`seq IN (SELECT seq FROM jobs WHERE queue = (SELECT id FROM queues WHERE name = ?) AND name = ?
		UNION ALL SELECT seq FROM jobs WHERE queue = (SELECT id FROM queues WHERE name = ?) AND job_id = ? AND attempt IS NOT NULL)`,
		q.Queues[0], driver.RecordName(q.Queues[0], q.ID, amboy.JobRetryInfo{}), q.Queues[0], q.ID)
}

func (s *selection) addLists(q driver.Query) error {
	if len(q.Queues) > 0 {
		list, err := json.Marshal(q.Queues)
		if err != nil {
			return err
		}
		s.add("queue IN (SELECT id FROM queues WHERE name IN (SELECT value FROM json_each(?)))", string(list))
	}
	if len(q.Types) > 0 {
		list, err := json.Marshal(q.Types)
		if err != nil {
			return err
		}
		s.add("type IN (SELECT value FROM json_each(?))", string(list))
	}
	return nil
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
		for _, p := range statePlaces[state] {
			if !slices.Contains(s.places, p) {
				s.places = append(s.places, p)
			}
		}
	}
	s.terms = append(s.terms, "("+strings.Join(terms, " OR ")+")")
	if slices.Contains(s.places, ready) || slices.Contains(s.places, succeeded) {
		s.places = nil
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

// span is the part of the records that a page looks at: those after a number up
// to another, in an order.
type span struct {
	after  int64
	newest bool
	// until is the last that it looks at; not valid where it comes to the end.
	until instant
	// end is the last of the records that were there at the beginning, where
	// only those are meant.
	end instant
}

// newSpan is the one that begins after a cursor.
func newSpan(after driver.Cursor, newest bool) (*span, error) {
	s := &span{newest: newest}
	if after == "" {
		if newest {
			s.after = lastTime.UnixNano() // as large as numbers get
		}
		return s, nil
	}
	number, end, hasEnd := strings.Cut(string(after), "/")
	var err, endErr error
	s.after, err = strconv.ParseInt(number, 10, 64)
	if hasEnd {
		s.end.Valid = true
		s.end.Int64, endErr = strconv.ParseInt(end, 10, 64)
	}
	if err != nil || endErr != nil {
		return nil, fmt.Errorf("invalid cursor: After must be the Next of another page (is %q)", after)
	}
	return s, nil
}

// cursor is where the next span begins.
func (s *span) cursor() driver.Cursor {
	text := strconv.FormatInt(s.after, 10)
	if s.end.Valid {
		text += "/" + strconv.FormatInt(s.end.Int64, 10)
	}
	return driver.Cursor(text)
}

// beyond and order are in terms of seq.
func (s *span) beyond() (comparison, order string) {
	if s.newest {
		return "seq < ?", "seq DESC"
	}
	return "seq > ?", "seq"
}

// bounds are the statements that find where a page may have to end: each gives
// the last of so many rows, or none.
func (s *selection) bounds(at *span) (texts []string) {
	comparison, order := at.beyond()
	if len(s.few.terms) > 0 {
		return nil
	}
	if len(s.places) == 0 {
		return []string{fmt.Sprintf("SELECT seq FROM jobs WHERE %s ORDER BY %s LIMIT 1 OFFSET %d", comparison, order, lookedAt-1)}
	}
	for _, p := range s.places {
		texts = append(texts, fmt.Sprintf("SELECT seq FROM jobs WHERE place = %d AND place NOT IN (4, 8) AND %s ORDER BY %s LIMIT 1 OFFSET %d",
			p, comparison, order, lookedAt-1))
	}
	return texts
}

// bound takes note of a place where a page must end.
func (s *span) bound(seq int64) {
	if !s.until.Valid || (seq < s.until.Int64) != s.newest {
		s.until = instant{Int64: seq, Valid: true}
	}
}

// statement selects rows of a span.
func (s *selection) statement(columns string, at *span, limit int) (text string, args []any) {
	comparison, order := at.beyond()
	where := condition{}
	where.add(comparison, at.after)
	switch {
	case len(s.few.terms) > 0:
		where.add(s.few.String(), s.few.args...)
	case len(s.places) > 0:
		list := make([]string, len(s.places))
		for i, p := range s.places {
			list[i] = strconv.Itoa(int(p))
		}
		where.add("place IN (" + strings.Join(list, ", ") + ") AND place NOT IN (4, 8)")
	}
	if at.until.Valid && at.newest {
		where.add("seq >= ?", at.until.Int64)
	} else if at.until.Valid {
		where.add("seq <= ?", at.until.Int64)
	}
	if at.end.Valid {
		where.add("seq <= ?", at.end.Int64)
	}
	where.add(s.String(), s.args...)
	text = fmt.Sprintf("SELECT %s FROM jobs WHERE %s ORDER BY %s LIMIT ? + 0", columns, where.String(), order)
	return text, append(where.args, limit)
}

// textQuerier runs statements that are not kept.
type textQuerier interface {
	queryText(text string, each func(*row) error, args ...any) error
}

// page reads the next rows that are selected, up to limit. It returns where the
// next page begins; empty where there is none.
func (s *selection) page(from textQuerier, columns string, at *span, limit int, each func(*row) error) (driver.Cursor, error) {
	at.until = instant{}
	for _, text := range s.bounds(at) {
		err := from.queryText(text, func(r *row) error {
			at.bound(r.integer())
			return nil
		}, at.after)
		if err != nil {
			return "", err
		}
	}
	text, args := s.statement("seq, "+columns, at, limit+1)
	n, more, last := 0, false, at.after
	err := from.queryText(text, func(r *row) error {
		if n == limit {
			more = true
			return nil
		}
		n++
		last = r.integer()
		return each(r)
	}, args...)
	switch {
	case err != nil:
		return "", err
	case more:
		at.after = last
	case at.until.Valid:
		at.after = at.until.Int64
	default:
		return "", nil
	}
	return at.cursor(), nil
}

// checkLimit returns an error for a limit that is not valid.
func checkLimit(limit int) error {
	if limit < 1 {
		return fmt.Errorf("invalid limit: it must be at least 1 (is %d)", limit)
	}
	return nil
}
