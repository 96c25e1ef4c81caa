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
	if s.bodies != nil {
		return s.pageOfBodies(from, columns, at, limit, most, each)
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

// pageOfBodies is page for a selection by bodies. It reads the bodies of at most most rows of each scan,
// and then the rows of the selected ones.
func (s *selection) pageOfBodies(from textQuerier, columns string, at *table.Span, limit, most int, each func(*row) error) (driver.Cursor, error) {
	found, last, more, err := s.searchBodies(from, at, limit, most)
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
// the last row that it read. more is true if it left rows of the page.
func (s *selection) searchBodies(from textQuerier, at *table.Span, limit, most int) (found []int64, last int64, more bool, err error) {
	var numbers []int64
	if s.path.merged || len(s.path.scans) != 1 {
		numbers, err = s.path.limitPage(from, at, most)
		if err != nil {
			return nil, 0, false, err
		}
		most = -1
	} else {
		at.Until = table.Instant{}
	}
	text, args := s.bodiesStatement(at, numbers, most)
	read := 0
	err = s.bodies.queryText(text, func(r *row) error {
		if len(found) == limit {
			more = true
			return nil
		}
		read++
		last = r.integer()
		if s.bodies.Wants(table.BodyOf(r.int(), r.borrow())) {
			found = append(found, last)
		}
		return nil
	}, args...)
	return found, last, more || read == most, err
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
