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

// Walk visits the items of a List, in either direction, as the pages of a query do. If the
// query names jobs, or a scope that they hold, it visits only their items, which the owner
// finds. It has no lock.
type Walk[E any] struct {
	// At is the number of the last item that was visited.
	At uint64
	// IDs are the IDs of the jobs that are visited. If it is nil, Held is the scope that the
	// visited jobs hold. If that is empty too, all are visited.
	IDs  []string
	Held string

	newest bool
	found  []*E // the items of these jobs that are still to be visited
}

// NewWalk begins after a cursor. It returns an error if the query or the cursor is invalid.
func NewWalk[E any](q driver.Query, after driver.Cursor, newest bool) (*Walk[E], error) {
	if q.DependsOn != "" && len(q.Queues) == 0 {
		return nil, fmt.Errorf("invalid query: DependsOn needs one of Queues (is %q)", q.DependsOn)
	}
	w := &Walk[E]{newest: newest}
	if q.Holding {
		w.Held = q.Scope
	}
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

// IsAhead reports whether the walk has not passed a number yet.
func (w *Walk[E]) IsAhead(number uint64) bool {
	if w.newest {
		return number < w.At
	}
	return number > w.At
}

// NeedsFind reports whether the walk visits only items that Find has set.
func (w *Walk[E]) NeedsFind() bool { return w.IDs != nil || w.Held != "" }

// Find sets the items with the IDs, or of the holders. It drops those that the walk has passed.
func (w *Walk[E]) Find(found []*E, number func(*E) uint64) {
	w.found = slices.DeleteFunc(found, func(e *E) bool { return !w.IsAhead(number(e)) })
	slices.SortFunc(w.found, func(a, b *E) int {
		if w.newest {
			a, b = b, a
		}
		return cmp.Compare(number(a), number(b))
	})
}

// Following returns the next item of the walk; nil at the end. If the walk needs Find, that
// must have been called since the list was last changed.
func (w *Walk[E]) Following(list *List[E]) *E {
	switch {
	case w.NeedsFind() && len(w.found) == 0:
		return nil
	case w.NeedsFind():
		e := w.found[0]
		w.found = w.found[1:]
		return e
	case w.newest:
		return list.Previous(w.At)
	default:
		return list.Next(w.At)
	}
}

// Cursor returns the cursor of the current item.
func (w *Walk[E]) Cursor() driver.Cursor { return driver.Cursor(strconv.FormatUint(w.At, 10)) }
