package sqlite

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// search scans many records for few, some of them by their bodies. Package database/sql takes longer for
// a row than SQLite does, so a search uses connections that bypass it, one for each range that it scans at once.
type search struct {
	driver.PageRequest
	on  *connections
	ctx context.Context
	// atOnce is true if several ranges of all records are scanned at once. It is false at first, because the
	// first range often has all that is wanted.
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

// wants reads the columns of a row after its sequence number, and reports whether the row is selected.
func (s *search) wants(r *row) bool {
	if s.Body == nil {
		return r.bool()
	}
	return s.Wants(table.BodyOf(r.int(), r.borrow()))
}

// pageOfSearch is page for a search. It reads up to most rows in each scan of the access path, and then
// the selected rows in full. A record that is restarted meanwhile moves to the end, where a later range
// must find it: the rows of a range are scanned and read in one transaction, and these begin in the order of the
// ranges.
func (s *selection) pageOfSearch(columns string, at *table.Span, limit, most int, each func(*row) error) (next driver.Cursor, err error) {
	n := 1
	if s.scansRanges() {
		n = cap(s.search.on.free)
	}
	conns, err := s.search.on.take(s.search.ctx, n)
	if err != nil {
		return "", err
	}
	defer s.search.on.give(conns)
	defer func() {
		for _, conn := range conns {
			err = errors.Join(err, named(conn.endReading()))
		}
	}()
	for _, conn := range conns {
		if err = conn.beginReading(); err != nil {
			return "", named(err)
		}
	}
	scans, err := s.scan(conns, at, limit, most)
	if err != nil {
		return "", err
	}
	for i, scan := range scans {
		switch n := len(scan.found); {
		case n > limit:
			scan.found, scan.last, scan.more = scan.found[:limit], scan.found[limit-1], true
		case n == limit && !scan.more && scan.span.Until.Valid:
			scan.last, scan.more = scan.span.Until.Int64, true
		}
		if err := s.readFound(conns[i], columns, at, scan.found, each); err != nil {
			return "", err
		}
		if scan.more {
			return cursorAfter(at, scan.last, true), nil
		}
		limit -= len(scan.found)
	}
	return cursorAfter(at, 0, false), nil
}

// readFound reads rows that a scan has found.
func (s *selection) readFound(conn *ownConnection, columns string, at *table.Span, found []int64, each func(*row) error) error {
	if len(found) == 0 {
		return nil
	}
	selected := *s
	selected.path = &accessPath{table: "jobs", seq: "jobs.seq", merged: true}
	text, args := selected.statement(columns, at, found, len(found))
	return s.search.query(conn, text, each, args...)
}

// query runs a statement. It stops at a row if the context has ended or the driver is being closed.
func (s *search) query(conn *ownConnection, text string, each func(*row) error, args ...any) error {
	return named(conn.queryText(text, func(r *row) error {
		if err := s.on.ended(s.ctx); err != nil {
			return err
		}
		return each(r)
	}, args...))
}

// scan scans a span for up to limit selected rows. A scan of all records is divided into as many ranges as
// there are connections.
func (s *selection) scan(conns []*ownConnection, at *table.Span, limit, most int) ([]*rangeScan, error) {
	var numbers []int64
	if s.path.merged || len(s.path.scans) != 1 {
		var err error
		if numbers, err = s.path.limitPage(conns[0], at, most); err != nil {
			return nil, named(err)
		}
		most = -1
	} else {
		at.Until = table.Instant{}
	}
	scans := divide(at, len(conns))
	var running sync.WaitGroup
	for i, scan := range scans[1:] {
		running.Go(func() { s.scanRange(conns[i+1], scan, numbers, limit, most) })
	}
	s.scanRange(conns[0], scans[0], numbers, limit, most)
	running.Wait()
	for _, scan := range scans {
		if scan.err != nil {
			return nil, scan.err
		}
	}
	return scans, nil
}

// scansRanges reports whether several ranges are scanned at once.
func (s *selection) scansRanges() bool { return s.path.all && s.search.atOnce }

// divide returns the scans of n ranges of a span, in its order. Each covers maxScanned sequence numbers, and so
// at most as many rows; the last one reaches to the end of the span.
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

// scanRange scans a span.
func (s *selection) scanRange(conn *ownConnection, scan *rangeScan, numbers []int64, limit, most int) {
	defer func() {
		if value := recover(); value != nil {
			scan.err = &amboy.PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	text, args := s.scanStatement(&scan.span, numbers, most)
	scan.err = s.search.query(conn, text, func(r *row) error {
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
	}, args...)
	scan.more = scan.more || scan.read == most && !scan.span.Until.Valid
}
