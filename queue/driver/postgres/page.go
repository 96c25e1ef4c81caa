package postgres

import (
	"context"
	"strconv"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// page reads up to limit selected records. It returns the cursor of the next page; empty if there
// is none.
func (s *selection) page(ctx context.Context, d *Driver, on querier, at *table.Span, limit int) (found []*stored, next driver.Cursor, err error) {
	err = s.bound(ctx, d, on, at)
	if err != nil {
		return nil, "", err
	}
	if s.bodies.Body != nil {
		return s.pageOfBodies(ctx, d, on, at, limit)
	}
	text, args := s.statement(s.columns, at, limit+1)
	found, err = d.records(ctx, on, d.inSchema(text), args...)
	switch {
	case err != nil:
		return nil, "", err
	case len(found) > limit:
		found = found[:limit]
		at.After = found[limit-1].Seq
	case at.Until.Valid:
		at.After = at.Until.Int64
	default:
		return found, "", nil
	}
	return found, at.Cursor(), nil
}

// pageOfBodies is page for a selection by bodies. It reads all bodies up to the end of the span, and
// then the selected records.
func (s *selection) pageOfBodies(ctx context.Context, d *Driver, on querier, at *table.Span, limit int) (found []*stored, next driver.Cursor, err error) {
	text, args := s.statement("seq, format, CASE WHEN octet_length(body) <= "+strconv.Itoa(driver.MaxSearchedBody)+" THEN body END", at, readAtOnce)
	read, last, numbers := 0, int64(0), []int64(nil)
	err = on.query(ctx, d.inSchema(text), func(r *row) error {
		if len(numbers) == limit {
			return nil
		}
		read++
		last = r.integer()
		if s.bodies.Wants(table.BodyOf(r.int(), r.bytes())) {
			numbers = append(numbers, last)
		}
		return nil
	}, args...)
	if err == nil && len(numbers) > 0 {
		chosen := *s
		chosen.few = &table.Condition{}
		chosen.few.Add("SELECT unnest(?::bigint[]) AS seq", numbers)
		text, args = chosen.statement(s.columns, at, len(numbers))
		found, err = d.records(ctx, on, d.inSchema(text), args...)
	}
	switch {
	case err != nil:
		return nil, "", err
	case len(numbers) == limit || read == readAtOnce:
		at.After = last
	case at.Until.Valid:
		at.After = at.Until.Int64
	default:
		return found, "", nil
	}
	return found, at.Cursor(), nil
}

// count counts up to limit selected records. more is false at the end.
func (s *selection) count(ctx context.Context, d *Driver, on querier, at *table.Span, limit int) (n int, more bool, err error) {
	err = s.bound(ctx, d, on, at)
	if err != nil {
		return 0, false, err
	}
	text, args := s.statement("seq", at, limit)
	err = on.query(ctx, d.inSchema("SELECT count(*) FROM ("+text+") AS selected"), func(r *row) error {
		n = r.int()
		return nil
	}, args...)
	at.After = at.Until.Int64
	return n, at.Until.Valid, err
}
