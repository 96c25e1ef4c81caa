package sqlite

import (
	"context"
	"runtime/debug"
	"sync"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// search scans many records for few, some of them by their bodies. Package database/sql takes longer for
// a row than SQLite does, so a search has connections without it, as many as scan at once.
type search struct {
	driver.PageRequest
	on  *connections
	ctx context.Context
	// atOnce is true if several ranges of all records are scanned at once. First one is scanned, because
	// it often has all that is wanted.
	atOnce bool
}

// rangeScan is a scan of the rows in a span.
type rangeScan struct {
	span  table.Span
	found []int64 // the sequence numbers of selected rows
	read  int     // the number of rows
	last  int64   // the last of these rows
	more  bool    // whether rows of the span were not read
	err   error
}

// wants reports whether the rest of a row of a scan is selected.
func (s *search) wants(r *row) bool {
	if s.Body == nil {
		return r.bool()
	}
	return s.Wants(table.BodyOf(r.int(), r.borrow()))
}

// pageOfSearch is page for a search. It scans at most most rows of each scan of the access path, and
// then reads the selected ones.
func (s *selection) pageOfSearch(from textQuerier, columns string, at *table.Span, limit, most int, each func(*row) error) (driver.Cursor, error) {
	found, last, more, err := s.scan(from, at, limit, most)
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

// scan finds up to limit of the selected rows of a page. It returns their sequence numbers, and that of
// the row where the page ends if there are more.
func (s *selection) scan(from textQuerier, at *table.Span, limit, most int) (found []int64, last int64, more bool, err error) {
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
	scans, err := s.scanRanges(at, numbers, limit, most)
	if err != nil {
		return nil, 0, false, err
	}
	for _, scan := range scans {
		if scan.err != nil {
			return nil, 0, false, scan.err
		}
		if room := limit - len(found); len(scan.found) > room {
			scan.found, scan.more = scan.found[:room], true
			scan.last = scan.found[room-1]
		}
		found = append(found, scan.found...)
		if scan.more {
			return found, scan.last, true, nil
		}
		if len(found) == limit && scan.span.Until.Valid {
			return found, scan.span.Until.Int64, true, nil
		}
	}
	return found, 0, false, nil
}

// scanRanges scans a span. A scan of all records is divided into as many ranges as there are free
// connections.
func (s *selection) scanRanges(at *table.Span, numbers []int64, limit, most int) ([]*rangeScan, error) {
	n := 1
	if s.scansRanges() {
		n = cap(s.search.on.free)
	}
	conns, err := s.search.on.take(s.search.ctx, n)
	if err != nil {
		return nil, err
	}
	defer s.search.on.give(conns)
	scans := divide(at, len(conns))
	var running sync.WaitGroup
	for i, scan := range scans[1:] {
		running.Go(func() { s.scanRange(conns[i+1], scan, numbers, limit, most) })
	}
	s.scanRange(conns[0], scans[0], numbers, limit, most)
	running.Wait()
	return scans, nil
}

// scansRanges reports whether several ranges are scanned at once.
func (s *selection) scansRanges() bool { return s.path.all && s.search.atOnce }

// divide returns the scans of n ranges of a span, in its order. Each has maxScanned sequence numbers, so
// that it has no more rows, but the last one reaches to the end of the span.
func divide(at *table.Span, n int) []*rangeScan {
	scans := make([]*rangeScan, n)
	rest, width := *at, int64(maxScanned)
	if at.Newest {
		width = -width
	}
	for i := range scans {
		scans[i] = &rangeScan{span: rest}
		if i < n-1 {
			rest.After += width
			scans[i].span.Until = table.Instant{Int64: rest.After, Valid: true}
		}
	}
	return scans
}

// scanRange scans a span. It stops at a row if the context has ended or the driver is
// being closed.
func (s *selection) scanRange(conn *ownConnection, scan *rangeScan, numbers []int64, limit, most int) {
	defer func() {
		if value := recover(); value != nil {
			scan.err = &amboy.PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	text, args := s.scanStatement(&scan.span, numbers, most)
	scan.err = named(conn.queryText(text, func(r *row) error {
		if err := s.search.on.ended(s.search.ctx); err != nil {
			return err
		}
		if len(scan.found) == limit {
			scan.more = true
			return nil
		}
		scan.read++
		scan.last = r.integer()
		if s.search.wants(r) {
			scan.found = append(scan.found, scan.last)
		}
		return nil
	}, args...))
	scan.more = scan.more || scan.read == most && !scan.span.Until.Valid
}
