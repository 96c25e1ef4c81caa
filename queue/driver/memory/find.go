package memory

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// filter selects records as a query says, at a time.
type filter struct {
	driver.Query
	queues map[string]bool
	now    time.Time
}

func newFilter(q driver.Query, now time.Time) filter {
	f := filter{Query: q, queues: make(map[string]bool, len(q.Queues)), now: now}
	for _, name := range q.Queues {
		f.queues[name] = true
	}
	return f
}

// selects tells whether the record of an entry is selected. What costs most comes
// last.
func (f *filter) selects(e *entry) bool {
	r := &e.Job.record
	return (len(f.queues) == 0 || f.queues[r.Group]) &&
		(len(f.Types) == 0 || slices.Contains(f.Types, r.Type)) &&
		(f.Tag == "" || slices.Contains(r.Tags, f.Tag)) &&
		(f.Scope == "" || slices.Contains(r.RequiredScopes, f.Scope) || slices.Contains(r.EnqueueScopes, f.Scope)) &&
		(f.Error == "" || strings.Contains(lastError(r), f.Error)) &&
		f.Created.Contains(r.TimeInfo.Created) &&
		f.Due.Contains(r.TimeInfo.WaitUntil) &&
		f.Ended.Contains(r.TimeInfo.End) &&
		(f.ID == "" || matches(f.ID, e.ID)) &&
		(!f.Latest || isLatest(e)) &&
		(len(f.States) == 0 || slices.Contains(f.States, stateOf(e, f.now)))
}

func lastError(r *driver.Record) string {
	if len(r.Status.Errors) == 0 {
		return ""
	}
	return r.Status.Errors[len(r.Status.Errors)-1]
}

// walk goes over the records that a filter selects, in the order of arrival.
type walk struct {
	filter
	newest bool
	at     uint64 // the number of the last record that was looked at
	oneJob bool   // no more than the latest attempt of one job is selected
}

// newWalk starts a walk after a cursor.
func (d *Driver) newWalk(q driver.Query, after driver.Cursor, newest bool) (*walk, error) {
	w := &walk{filter: newFilter(q, d.opts.Now()), newest: newest}
	w.oneJob = q.Latest && len(q.Queues) == 1 && q.ID != "" && !strings.ContainsAny(q.ID, "*?")
	switch {
	case after != "":
		number, err := strconv.ParseUint(string(after), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("invalid cursor: After must be the Next of an earlier call (is %q)", after)
		}
		w.at = number
	case newest:
		w.at = math.MaxUint64
	}
	return w, nil
}

// isAhead is true for a number that the walk comes to.
func (w *walk) isAhead(number uint64) bool {
	if w.newest {
		return number < w.at
	}
	return number > w.at
}

// following returns the entry that a walk looks at next; nil where there is none.
// It leaves those of other queues out, and of other jobs, where one is asked for.
func (d *Driver) following(w *walk) *entry {
	records := &d.records
	if len(w.Queues) == 1 {
		q := d.queues[w.Queues[0]]
		if q == nil {
			return nil
		}
		records = &q.records
	}
	switch {
	case w.oneJob:
		if e := d.latest(w.Queues[0], w.ID); e != nil && w.isAhead(e.Job.number) {
			return e
		}
		return nil
	case w.newest:
		return records.previous(w.at)
	default:
		return records.next(w.at)
	}
}

// stride is the number of records that are looked at while others wait for the
// lock.
const stride = 1000

// walk calls visit with the entries that w selects, under a lock, until it
// returns false or there are no more.
func (d *Driver) walk(ctx context.Context, w *walk, lock func(context.Context) error, visit func(*entry) (more bool)) error {
	for more := true; more; {
		if err := lock(ctx); err != nil {
			return err
		}
		for looked := 0; more && looked < stride; looked++ {
			e := d.following(w)
			if e == nil {
				more = false
				break
			}
			w.at = e.Job.number
			more = !w.selects(e) || visit(e)
		}
		d.unlock()
	}
	return nil
}

// cursor is where a walk should go on; empty at the end.
func (d *Driver) cursor(w *walk) driver.Cursor {
	d.mu.Lock()
	defer d.unlock()
	if d.following(w) == nil {
		return ""
	}
	return driver.Cursor(strconv.FormatUint(w.at, 10))
}

// Find implements driver.Driver. A page has fewer records than its limit only
// where there are no more.
func (d *Driver) Find(ctx context.Context, q driver.Query, request driver.PageRequest) (driver.Page, error) {
	if err := checkLimit(request.Limit); err != nil {
		return driver.Page{}, err
	}
	w, err := d.newWalk(q, request.After, request.Newest)
	if err != nil {
		return driver.Page{}, err
	}
	var page driver.Page
	err = d.walk(ctx, w, d.lockToRead, func(e *entry) bool {
		page.Records = append(page.Records, described(e))
		return len(page.Records) < request.Limit
	})
	if err != nil {
		return driver.Page{}, fmt.Errorf("finding records: %w", err)
	}
	page.Next = d.cursor(w)
	return page, nil
}

// Count implements driver.Driver.
func (d *Driver) Count(ctx context.Context, q driver.Query, limit int) (int, error) {
	if err := checkLimit(limit); err != nil {
		return 0, err
	}
	w, err := d.newWalk(q, "", false)
	if err != nil {
		return 0, err
	}
	count := 0
	err = d.walk(ctx, w, d.lockToRead, func(*entry) bool {
		count++
		return count < limit
	})
	if err != nil {
		return 0, fmt.Errorf("counting records: %w", err)
	}
	return count, nil
}

func checkLimit(limit int) error {
	if limit < 1 {
		return fmt.Errorf("invalid limit: it must be at least 1 (is %d)", limit)
	}
	return nil
}
