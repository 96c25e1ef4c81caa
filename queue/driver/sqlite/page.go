package sqlite

import (
	"fmt"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// shortBody is the body of a record that is not longer than may be searched. SQLite does not read a
// longer one to know its length.
var shortBody = fmt.Sprintf("CASE WHEN length(body) <= %d THEN body END", driver.MaxSearchedBody)

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
	numbers, err := s.path.limitPage(from, at, s.path.maxPerScan(limit, s.short))
	if err != nil {
		return "", err
	}
	if s.bodies != nil {
		return s.pageOfBodies(from, columns, at, numbers, limit, each)
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

// pageOfBodies is page for a selection by bodies. It reads the bodies up to the end of the page, and
// then the rows of the selected ones.
func (s *selection) pageOfBodies(from textQuerier, columns string, at *table.Span, numbers []int64, limit int, each func(*row) error) (driver.Cursor, error) {
	found, last, more, err := s.searchBodies(at, numbers, limit)
	if err == nil && len(found) > 0 {
		selected := *s
		selected.path = &accessPath{table: "jobs", seq: "jobs.seq", merged: true}
		text, args := selected.statement("jobs.seq, "+columns, at, found, len(found))
		err = from.queryText(text, func(r *row) error {
			r.integer()
			return each(r)
		}, args...)
	}
	if err != nil {
		return "", err
	}
	return cursorAfter(at, last, more), nil
}

// searchBodies finds up to limit of the selected rows. It returns their sequence numbers, and that of
// the last row that it read. more is false if it read all rows of the page.
func (s *selection) searchBodies(at *table.Span, numbers []int64, limit int) (found []int64, last int64, more bool, err error) {
	text, args := s.statement("jobs.seq, format, "+shortBody, at, numbers, -1) // its rows are limited by the access path
	err = s.bodies.queryText(text, func(r *row) error {
		if len(found) == limit {
			more = true
			return nil
		}
		last = r.integer()
		if s.bodies.Wants(table.BodyOf(r.int(), r.borrow())) {
			found = append(found, last)
		}
		return nil
	}, args...)
	return found, last, more, err
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
