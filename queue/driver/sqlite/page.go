package sqlite

import (
	"fmt"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// textQuerier runs statements that are not kept prepared.
type textQuerier interface {
	queryText(text string, each func(*row) error, args ...any) error
}

// shortBody is the body of a record that is not longer than may be searched. SQLite does not read a
// longer one to know its length.
var shortBody = fmt.Sprintf("CASE WHEN length(body) <= %d THEN body END", driver.MaxSearchedBody)

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
	columns, most := "jobs.seq, "+columns, limit+1
	if s.bodies.Body != nil {
		columns, most = "format, "+shortBody+", "+columns, -1 // its rows are limited by the access path
	}
	text, args := s.statement(columns, at, numbers, most)
	n, more, last := 0, false, at.After
	err = from.queryText(text, func(r *row) error {
		if n == limit {
			more = true
			return nil
		}
		if s.bodies.Body != nil && !s.bodies.Wants(table.BodyOf(r.int(), r.bytes())) {
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
		at.After = last
	case at.Until.Valid:
		at.After = at.Until.Int64
	default:
		return "", nil
	}
	return at.Cursor(), nil
}
