package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/mongodb/amboy/queue/driver"
)

// span is the range of records that a page scans, in an order: the records after one sequence
// number, up to another.
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

// page reads up to limit selected records. It returns the cursor of the next page; empty if there
// is none.
func (s *selection) page(ctx context.Context, d *Driver, on querier, at *span, limit int) (found []*stored, next driver.Cursor, err error) {
	err = s.bound(ctx, d, on, at)
	if err != nil {
		return nil, "", err
	}
	text, args := s.statement(d.inSchema(recordColumns), at, limit+1)
	found, err = d.records(ctx, on, d.inSchema(text), args...)
	switch {
	case err != nil:
		return nil, "", err
	case len(found) > limit:
		found = found[:limit]
		at.after = found[limit-1].seq
	case at.until.Valid:
		at.after = at.until.Int64
	default:
		return found, "", nil
	}
	return found, at.cursor(), nil
}

// count counts up to limit selected records. more is false at the end.
func (s *selection) count(ctx context.Context, d *Driver, on querier, at *span, limit int) (n int, more bool, err error) {
	err = s.bound(ctx, d, on, at)
	if err != nil {
		return 0, false, err
	}
	text, args := s.statement("seq", at, limit)
	err = on.query(ctx, d.inSchema("SELECT count(*) FROM ("+text+") AS selected"), func(r *row) error {
		n = r.int()
		return nil
	}, args...)
	at.after = at.until.Int64
	return n, at.until.Valid, err
}

// checkLimit returns an error for an invalid limit.
func checkLimit(limit int) error {
	if limit < 1 {
		return fmt.Errorf("invalid limit: it must be at least 1 (is %d)", limit)
	}
	return nil
}
