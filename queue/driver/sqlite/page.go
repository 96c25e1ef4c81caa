package sqlite

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mongodb/amboy/queue/driver"
)

// span is the range of records that a page scans, in an order: the records after one
// sequence number, up to another.
type span struct {
	after  int64
	newest bool
	// until is the last record that the page scans; not valid if it reaches the end.
	until instant
	// end is the last record that existed at the beginning; not valid if later records are
	// included.
	end instant
}

// newSpan returns the span that begins after a cursor.
func newSpan(after driver.Cursor, newest bool) (*span, error) {
	s := &span{newest: newest}
	if after == "" {
		if newest {
			s.after = lastTime.UnixNano() // the largest possible number
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
		return nil, fmt.Errorf("invalid cursor: After must be the Next of another page (is %q): %w", after, driver.ErrBadCursor)
	}
	return s, nil
}

// cursor returns the cursor at which the next span begins.
func (s *span) cursor() driver.Cursor {
	text := strconv.FormatInt(s.after, 10)
	if s.end.Valid {
		text += "/" + strconv.FormatInt(s.end.Int64, 10)
	}
	return driver.Cursor(text)
}

// bounds returns the condition of the span on a column with sequence numbers.
func (s *span) bounds(column string) condition {
	comparison, last := ">", "<="
	if s.newest {
		comparison, last = "<", ">="
	}
	var bounds condition
	bounds.add(column+" "+comparison+" ?", s.after)
	if s.until.Valid {
		bounds.add(column+" "+last+" ?", s.until.Int64)
	}
	if s.end.Valid {
		bounds.add(column+" <= ?", s.end.Int64)
	}
	return bounds
}

// order returns the sort order of the span.
func (s *span) order(column string) string {
	if s.newest {
		return column + " DESC"
	}
	return column
}

// bound ends the page at a record, unless it ends before.
func (s *span) bound(seq int64) {
	if !s.until.Valid || (seq < s.until.Int64) != s.newest {
		s.until = instant{Int64: seq, Valid: true}
	}
}

// textQuerier runs statements that are not kept prepared.
type textQuerier interface {
	queryText(text string, each func(*row) error, args ...any) error
}

// page reads up to limit selected rows. It returns the cursor of the next page; empty if
// there is none.
func (s *selection) page(from textQuerier, columns string, at *span, limit int, each func(*row) error) (driver.Cursor, error) {
	if err := s.choose(from); err != nil {
		return "", err
	}
	s.short = s.short && !s.path.all // a scan of all records decides whether choose takes another path
	numbers, err := s.path.limitPage(from, at, s.path.maxPerScan(limit, s.short))
	if err != nil {
		return "", err
	}
	text, args := s.statement("jobs.seq, "+columns, at, numbers, limit+1)
	n, more, last := 0, false, at.after
	err = from.queryText(text, func(r *row) error {
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

// checkLimit returns an error for an invalid limit.
func checkLimit(limit int) error {
	if limit < 1 {
		return fmt.Errorf("invalid limit: it must be at least 1 (is %d)", limit)
	}
	return nil
}
