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
	numbers, err := s.path.limitPage(from, at, s.path.maxPerScan(limit, s.short))
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
