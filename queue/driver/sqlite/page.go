package sqlite

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mongodb/amboy/queue/driver"
)

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
		return nil, fmt.Errorf("invalid cursor: After must be the Next of another page (is %q): %w", after, driver.ErrBadCursor)
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

// bounds are those of the span, in terms of a column with the numbers of records.
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

// order is that of the span.
func (s *span) order(column string) string {
	if s.newest {
		return column + " DESC"
	}
	return column
}

// bound takes note of a place where a page must end.
func (s *span) bound(seq int64) {
	if !s.until.Valid || (seq < s.until.Int64) != s.newest {
		s.until = instant{Int64: seq, Valid: true}
	}
}

// textQuerier runs statements that are not kept.
type textQuerier interface {
	queryText(text string, each func(*row) error, args ...any) error
}

// page reads the next rows that are selected, up to limit. It returns where the
// next page begins; empty where there is none.
func (s *selection) page(from textQuerier, columns string, at *span, limit int, each func(*row) error) (driver.Cursor, error) {
	if err := s.choose(from); err != nil {
		return "", err
	}
	numbers, err := s.way.look(from, at)
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

// checkLimit returns an error for a limit that is not valid.
func checkLimit(limit int) error {
	if limit < 1 {
		return fmt.Errorf("invalid limit: it must be at least 1 (is %d)", limit)
	}
	return nil
}
