package arrivals

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mongodb/amboy/queue/driver"
)

// Walk goes over the things of a List, in either direction, as the pages of a query do.
// Where the query names the jobs it goes over those alone, which its owner finds by
// their IDs. It has no lock.
type Walk[E any] struct {
	// At is the number of the last thing that was looked at.
	At uint64
	// IDs are those of the jobs that are looked at; nil where all are.
	IDs []string

	newest bool
	found  []*E // those that are left, of the ones with these IDs
}

// NewWalk begins where a cursor says. Its error is that of a query, or a cursor, that is
// not valid.
func NewWalk[E any](q driver.Query, after driver.Cursor, newest bool) (*Walk[E], error) {
	if q.DependsOn != "" && len(q.Queues) == 0 {
		return nil, fmt.Errorf("invalid query: DependsOn needs one of Queues (is %q)", q.DependsOn)
	}
	w := &Walk[E]{newest: newest}
	switch {
	case len(q.JobIDs) > 0:
		w.IDs = slices.Compact(slices.Sorted(slices.Values(q.JobIDs)))
	case q.ID != "" && !strings.ContainsAny(q.ID, "*?"):
		w.IDs = []string{q.ID}
	}
	switch {
	case after != "":
		number, err := strconv.ParseUint(string(after), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("invalid cursor: After must be the Next of an earlier call (is %q): %w", after, driver.ErrBadCursor)
		}
		w.At = number
	case newest:
		w.At = math.MaxUint64
	}
	return w, nil
}

// IsAhead is true for a number that the walk comes to.
func (w *Walk[E]) IsAhead(number uint64) bool {
	if w.newest {
		return number < w.At
	}
	return number > w.At
}

// Find sets the things that have the IDs. It leaves out those that are not ahead.
func (w *Walk[E]) Find(found []*E, number func(*E) uint64) {
	w.found = slices.DeleteFunc(found, func(e *E) bool { return !w.IsAhead(number(e)) })
	slices.SortFunc(w.found, func(a, b *E) int {
		if w.newest {
			a, b = b, a
		}
		return cmp.Compare(number(a), number(b))
	})
}

// Following returns the thing that the walk comes to next; nil where there is none.
// Those with the IDs, where there are any, must have been found since the list was last
// changed.
func (w *Walk[E]) Following(list *List[E]) *E {
	switch {
	case w.IDs != nil && len(w.found) == 0:
		return nil
	case w.IDs != nil:
		e := w.found[0]
		w.found = w.found[1:]
		return e
	case w.newest:
		return list.Previous(w.At)
	default:
		return list.Next(w.At)
	}
}

// Cursor is where the walk is.
func (w *Walk[E]) Cursor() driver.Cursor { return driver.Cursor(strconv.FormatUint(w.At, 10)) }
