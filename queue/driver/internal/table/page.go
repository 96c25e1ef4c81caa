package table

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mongodb/amboy/queue/driver"
)

// Span is the range of records that a page scans, in an order: the records after one sequence
// number, up to another.
type Span struct {
	After  int64
	Newest bool
	// Until is the last record that the page scans; not valid if it reaches the end.
	Until Instant
	// End is the last record that existed at the beginning; not valid if later records are
	// included.
	End Instant
}

// NewSpan returns the span that begins after a cursor.
func NewSpan(after driver.Cursor, newest bool) (*Span, error) {
	s := &Span{Newest: newest}
	if after == "" {
		if newest {
			s.After = lastTime.UnixNano() // the largest possible number
		}
		return s, nil
	}
	number, end, hasEnd := strings.Cut(string(after), "/")
	var err, endErr error
	s.After, err = strconv.ParseInt(number, 10, 64)
	if hasEnd {
		s.End.Valid = true
		s.End.Int64, endErr = strconv.ParseInt(end, 10, 64)
	}
	if err != nil || endErr != nil {
		return nil, fmt.Errorf("invalid cursor: After must be the Next of another page (is %q): %w", after, driver.ErrBadCursor)
	}
	return s, nil
}

// Cursor returns the cursor at which the next span begins.
func (s *Span) Cursor() driver.Cursor {
	text := strconv.FormatInt(s.After, 10)
	if s.End.Valid {
		text += "/" + strconv.FormatInt(s.End.Int64, 10)
	}
	return driver.Cursor(text)
}

// Bounds returns the condition of the span on a column with sequence numbers.
func (s *Span) Bounds(column string) Condition {
	comparison, last := ">", "<="
	if s.Newest {
		comparison, last = "<", ">="
	}
	var bounds Condition
	bounds.Add(column+" "+comparison+" ?", s.After)
	if s.Until.Valid {
		bounds.Add(column+" "+last+" ?", s.Until.Int64)
	}
	if s.End.Valid {
		bounds.Add(column+" <= ?", s.End.Int64)
	}
	return bounds
}

// Order returns the sort order of the span.
func (s *Span) Order(column string) string {
	if s.Newest {
		return column + " DESC"
	}
	return column
}

// EndAt ends the page at a record, unless it ends before.
func (s *Span) EndAt(seq int64) {
	if !s.Until.Valid || (seq < s.Until.Int64) != s.Newest {
		s.Until = Instant{Int64: seq, Valid: true}
	}
}

// CheckLimit returns an error for an invalid limit.
func CheckLimit(limit int) error {
	if limit < 1 {
		return fmt.Errorf("invalid limit: it must be at least 1 (is %d)", limit)
	}
	return nil
}
