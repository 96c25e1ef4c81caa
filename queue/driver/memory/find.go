package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/arrivals"
	"github.com/mongodb/amboy/queue/internal/pattern"
)

// filter selects the records of a query, at a time.
type filter struct {
	driver.Query
	queues, jobs map[string]bool
	now          time.Time
}

func newFilter(q driver.Query, now time.Time) filter {
	return filter{Query: q, queues: setOf(q.Queues), jobs: setOf(q.JobIDs), now: now}
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// selects reports whether the record of an entry is selected. The most expensive conditions
// come last.
func (f *filter) selects(e *entry) bool {
	r := &e.Job.record
	return (len(f.queues) == 0 || f.queues[r.Group]) &&
		(len(f.Types) == 0 || slices.Contains(f.Types, r.Type)) &&
		(len(f.jobs) == 0 || f.jobs[e.ID]) &&
		hasAll(r.Tags, f.Tags) &&
		(!f.Holding || len(r.Scopes) > 0 && (f.Scope == "" || slices.Contains(r.Scopes, f.Scope))) &&
		(f.DependsOn == "" || dependsOn(r, f.DependsOn)) &&
		(f.Scope == "" || slices.Contains(r.RequiredScopes, f.Scope) || slices.Contains(r.EnqueueScopes, f.Scope)) &&
		(f.Error == "" || driver.HasPart(driver.LastError(r.Status.Errors), f.Error)) &&
		(f.IDPart == "" || driver.HasPart(e.ID, f.IDPart)) &&
		(f.TypePart == "" || driver.HasPart(r.Type, f.TypePart)) &&
		(f.TagPart == "" || hasPart(r.Tags, f.TagPart)) &&
		f.Created.Contains(r.TimeInfo.Created) &&
		f.Due.Contains(r.TimeInfo.WaitUntil) &&
		f.Ended.Contains(r.TimeInfo.End) &&
		(f.ID == "" || pattern.Matches(f.ID, e.ID)) &&
		(!f.Latest || isLatest(e)) &&
		(len(f.States) == 0 || slices.Contains(f.States, stateOf(e, f.now)))
}

// hasAll reports whether a list contains all wanted values.
func hasAll(list, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(w string) bool { return !slices.Contains(list, w) })
}

// hasPart reports whether one of a list of texts contains a part.
func hasPart(list []string, part string) bool {
	return slices.ContainsFunc(list, func(text string) bool { return driver.HasPart(text, part) })
}

func dependsOn(r *driver.Record, id string) bool {
	return r.Dependency != nil && slices.Contains(r.Dependency.Edges, id)
}

// walk visits the records that a filter selects, in the order of arrival.
type walk struct {
	filter
	*arrivals.Walk[entry]
	// stride is the maximum number of records that are checked before the lock is released.
	stride int
	// retries is true if only records that await their next attempt are selected. Most often there
	// are none.
	retries bool
}

// newWalk starts a walk after a cursor.
func (d *Driver) newWalk(q driver.Query, after driver.Cursor, newest bool) (*walk, error) {
	w, err := arrivals.NewWalk[entry](q, after, newest)
	if err != nil {
		return nil, err
	}
	if !q.Latest {
		w.IDs = nil // only the latest attempt of a job is found by its ID
	}
	retries := len(q.States) == 1 && q.States[0] == amboy.StateRetrying
	return &walk{filter: newFilter(q, d.opts.Now()), Walk: w, stride: stride, retries: retries}, nil
}

// following returns the next entry that a walk must check; nil if there is none. If the
// query names one queue, it skips the entries of others. If the walk needs findJobs, that must
// have been called.
func (d *Driver) following(w *walk) *entry {
	if w.retries && d.index.retrying == 0 {
		return nil
	}
	records := &d.records
	if len(w.Queues) == 1 {
		q := d.queues[w.Queues[0]]
		if q == nil {
			return nil
		}
		records = &q.records
	}
	e := w.Following(records)
	for e != nil && w.NeedsFind() && !isLatest(e) { // An earlier action may have removed it.
		e = w.Following(records)
	}
	return e
}

// findJobs finds the latest attempts of the jobs that the query names, or that hold the scope which
// it names. Earlier attempts hold none.
func (d *Driver) findJobs(w *walk) {
	if !w.NeedsFind() {
		return
	}
	var found []*entry
	findIn := func(q *queue) { found = append(found, q.schedule.Find(w.IDs, w.Held)...) }
	for name := range w.queues {
		if q := d.queues[name]; q != nil {
			findIn(q)
		}
	}
	if len(w.queues) == 0 {
		for _, q := range d.queues {
			findIn(q)
		}
	}
	w.Find(found, func(e *entry) uint64 { return e.Job.number })
}

const (
	// stride is the usual stride of a walk.
	stride = 1000
	// bodiesStride is the stride of a walk that checks bodies, which takes longer.
	bodiesStride = 50
)

// findTime is the time after which a page of records whose bodies are checked ends.
const findTime = 40 * time.Millisecond

// walk calls visit with the entries that w selects, under the lock, until visit returns
// false or there are no more.
func (d *Driver) walk(ctx context.Context, w *walk, lock func(context.Context) error, visit func(*entry) (more bool)) error {
	for more := true; more; {
		if err := lock(ctx); err != nil {
			return err
		}
		d.findJobs(w)
		for looked := 0; more && looked < w.stride; looked++ {
			e := d.following(w)
			if e == nil {
				more = false
				break
			}
			w.At = e.Job.number
			more = !w.selects(e) || visit(e)
		}
		d.unlock()
	}
	return nil
}

// cursor returns the cursor at which a walk continues; empty at the end.
func (d *Driver) cursor(w *walk) driver.Cursor {
	d.mu.Lock()
	defer d.unlock()
	d.findJobs(w)
	if d.following(w) == nil {
		return ""
	}
	return w.Cursor()
}

// Find implements driver.Driver. A page has fewer records than its limit only if there are
// no more, or if bodies were checked for 40 ms.
func (d *Driver) Find(ctx context.Context, q driver.Query, request driver.PageRequest) (driver.Page, error) {
	if err := checkLimit(request.Limit); err != nil {
		return driver.Page{}, err
	}
	w, err := d.newWalk(q, request.After, request.Newest)
	if err != nil {
		return driver.Page{}, err
	}
	if request.Body != nil {
		w.stride = bodiesStride
		w.Latest = false // few bodies are selected, so that is checked after them
	}
	var page driver.Page
	begun := time.Now()
	err = d.walk(ctx, w, d.lockToRead, func(e *entry) bool {
		if request.Wants(e.Job.record.Job) && (!q.Latest || isLatest(e)) {
			page.Records = append(page.Records, described(e))
		}
		return len(page.Records) < request.Limit && (request.Body == nil || time.Since(begun) < findTime)
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
		return count, fmt.Errorf("counting records: %w", err)
	}
	return count, nil
}

func checkLimit(limit int) error {
	if limit < 1 {
		return fmt.Errorf("invalid limit: it must be at least 1 (is %d)", limit)
	}
	return nil
}
