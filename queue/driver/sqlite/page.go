package sqlite

import (
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// textQuerier runs statements that are not kept prepared.
type textQuerier interface {
	queryText(text string, each func(*row) error, args ...any) error
}

// page reads up to limit selected rows. It returns the cursor of the next page; empty if
// there is none.
func (s *selection) page(from textQuerier, columns string, at *table.Span, limit int, each func(*row) error) (driver.Cursor, error) {
	if err := s.choose(from); err != nil {
		return "", err
	}
	s.short = s.short && !s.path.all // a scan of all records decides whether choose takes another path
	most := s.path.maxPerScan(limit, s.short)
	if s.search != nil && (s.search.Body != nil || s.scansRanges()) {
		return s.pageOfSearch(columns, at, limit, most, each)
	}
	numbers, err := s.path.limitPage(from, at, most)
	if err != nil {
		return "", err
	}
	text, args := s.statement("jobs.seq, "+columns, at, numbers, limit+1)
	n, more, last := 0, false, at.After
	err = from.queryText(text, func(r *row) error {
		if n == limit {
			more = true
			return nil
		}
		n++
		last = r.integer()
		return each(r)
	}, args...)
	if err != nil {
		return "", err
	}
	return cursorAfter(at, last, more), nil
}

// cursorAfter returns the cursor of the page after a row, if there are more rows on this one, or else
// after the end of this page. It is empty if there is none.
func cursorAfter(at *table.Span, last int64, more bool) driver.Cursor {
	switch {
	case more:
		at.After = last
	case at.Until.Valid:
		at.After = at.Until.Int64
	default:
		return ""
	}
	return at.Cursor()
}
