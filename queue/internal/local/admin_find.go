package local

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/arrivals"
	"github.com/mongodb/amboy/queue/internal/pattern"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// localStride is the number of jobs that are examined before the lock is released for
// other callers.
const localStride = 256

// localWalk iterates over the jobs that a query selects, in the order of arrival.
type localWalk struct {
	driver.Query
	*arrivals.Walk[localEntry]
	nothing bool // matches, because the query names other queues
	now     time.Time
	end     time.Time // when the walk stops; zero for never
}

// newWalk returns a walk that starts after a cursor.
func (a localAdmin) newWalk(q driver.Query, after driver.Cursor, newest bool, limit int) (*localWalk, error) {
	if limit < 1 {
		return nil, fmt.Errorf("invalid limit: it must be at least 1 (is %d)", limit)
	}
	w, err := arrivals.NewWalk[localEntry](q, after, newest)
	if err != nil {
		return nil, err
	}
	nothing := len(q.Queues) > 0 && !slices.Contains(q.Queues, a.ID())
	return &localWalk{Query: q, Walk: w, nothing: nothing, now: a.now()}, nil
}

// find looks up the jobs whose IDs, or a scope that they hold, the query names. It is called with
// the lock.
func (w *localWalk) find(q *Queue) {
	if w.NeedsFind() {
		w.Find(q.schedule.Find(w.IDs, w.Held), func(e *localEntry) uint64 { return e.Job.number })
	}
}

// following returns the next entry of a walk, or nil at the end. It is called with the
// lock, after find.
func (w *localWalk) following(q *Queue) *localEntry {
	if w.nothing {
		return nil
	}
	return w.Following(&q.arrivals)
}

// mayMatch reports whether an entry may match the query, judged by what the queue knows
// about it. It is called with the lock.
func (w *localWalk) mayMatch(q *Queue, e *localEntry) bool {
	return hasAllTags(q.tags.of(e.ID), w.Tags) &&
		(!w.Holding || q.schedule.Holds(e, w.Scope)) &&
		(w.Scope == "" || slices.Contains(e.Scopes.Names(), w.Scope)) &&
		w.Due.Contains(e.WaitUntil) &&
		(w.IDPart == "" || driver.HasPart(e.ID, w.IDPart)) &&
		(w.TagPart == "" || hasTagPart(q.tags.of(e.ID), w.TagPart)) &&
		(w.ID == "" || pattern.Matches(w.ID, e.ID)) &&
		(len(w.States) == 0 || e.Place() == schedule.Finished || slices.Contains(w.States, unendedState(e, w.now)))
}

func hasAllTags(tags, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(w string) bool { return !slices.Contains(tags, w) })
}

func hasTagPart(tags []string, part string) bool {
	return slices.ContainsFunc(tags, func(tag string) bool { return driver.HasPart(tag, part) })
}

// unendedState returns the state of an entry that has not ended. It depends on the
// entry's place only.
func unendedState(e *localEntry, now time.Time) amboy.JobState {
	info := amboy.JobInfo{Time: amboy.JobTimeInfo{WaitUntil: e.WaitUntil, DispatchBy: e.DispatchBy}}
	schedule.Describe(&info.Status, e.Place(), schedule.Block{})
	return amboy.StateOf(info, now)
}

// matches reports whether an entry for which mayMatch returned true matches the query,
// judged by the job itself. It calls only the methods of the job that the query needs, so that a job with broken methods
// is found by its ID.
func (w *localWalk) matches(v *localView) bool {
	return (len(w.Types) == 0 || slices.Contains(w.Types, v.job.Type().Name)) &&
		(w.DependsOn == "" || slices.Contains(v.edges, w.DependsOn)) &&
		(w.TypePart == "" || driver.HasPart(v.job.Type().Name, w.TypePart)) &&
		(w.Error == "" || driver.HasPart(driver.LastError(v.job.Status().Errors), w.Error)) &&
		(w.Created.IsZero() || w.Created.Contains(v.times().Created)) &&
		(w.Ended.IsZero() || w.Ended.Contains(v.times().End)) &&
		(len(w.States) == 0 || slices.Contains(w.States, v.state(w.now)))
}

// stride returns the next entries that may match, at most `most`, and whether more
// entries may follow. It examines at most localStride entries under the lock.
func (a localAdmin) stride(w *localWalk, most int) (views []localView, more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.find(a.Queue)
	for range localStride {
		e := w.following(a.Queue)
		if e == nil {
			return views, false
		}
		w.At = e.Job.number
		if w.mayMatch(a.Queue, e) {
			views = append(views, a.view(e))
		}
		if len(views) == most {
			break
		}
	}
	return views, true
}

// walk calls visit with the matching jobs, until it has returned true limit times. It logs a panic of a job's methods and
// leaves out the job.
func (a localAdmin) walk(ctx context.Context, w *localWalk, limit int, visit func(*localView) bool) error {
	for more := true; more && limit > 0 && (w.end.IsZero() || time.Now().Before(w.end)); {
		if err := ctx.Err(); err != nil {
			return err
		}
		var views []localView
		views, more = a.stride(w, limit)
		for i := range views {
			v := &views[i]
			err := contain.Panic(func() error {
				if w.matches(v) && visit(v) {
					limit--
				}
				return nil
			})
			if err != nil {
				a.logBroken("could not describe a job", v.id, err)
			}
		}
	}
	return nil
}

// cursor returns where the walk continues, or an empty cursor at the end.
func (a localAdmin) cursor(w *localWalk) driver.Cursor {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.find(a.Queue)
	if w.following(a.Queue) == nil {
		return ""
	}
	return w.Cursor()
}

// findTime is the time after which a page of jobs whose stored forms are checked ends.
const findTime = 40 * time.Millisecond

// Find implements driver.Admin. A page that is not full is the last one, unless stored forms were
// checked for 40 ms.
func (a localAdmin) Find(ctx context.Context, q driver.Query, request driver.PageRequest) (driver.Page, error) {
	w, err := a.newWalk(q, request.After, request.Newest, request.Limit)
	if err != nil {
		return driver.Page{}, err
	}
	if request.Body != nil {
		w.end = time.Now().Add(findTime)
	}
	var page driver.Page
	err = a.walk(ctx, w, request.Limit, func(v *localView) bool {
		r := a.record(*v)
		wanted := request.Wants(r.Job)
		if wanted {
			page.Records = append(page.Records, r)
		}
		return wanted
	})
	if err != nil {
		return driver.Page{}, fmt.Errorf("finding records: %w", err)
	}
	page.Next = a.cursor(w)
	return page, nil
}

// Count implements driver.Admin.
func (a localAdmin) Count(ctx context.Context, q driver.Query, limit int) (int, error) {
	w, err := a.newWalk(q, "", false, limit)
	if err != nil {
		return 0, err
	}
	count := 0
	err = a.walk(ctx, w, limit, func(*localView) bool { count++; return true })
	if err != nil {
		return count, fmt.Errorf("counting records: %w", err)
	}
	return count, nil
}
