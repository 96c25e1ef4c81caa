package postgres

import (
	"context"
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

// page reads the next records that are selected, up to limit. It returns where the next page
// begins; empty if there is none.
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

// count counts the next records that are selected, up to limit. more is false at the end.
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

// checkLimit returns an error for a limit that is not valid.
func checkLimit(limit int) error {
	if limit < 1 {
		return fmt.Errorf("invalid limit: it must be at least 1 (is %d)", limit)
	}
	return nil
}
