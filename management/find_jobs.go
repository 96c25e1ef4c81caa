package management

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/records"
	"github.com/mongodb/amboy/queue/driver"
)

func (i *inspector) FindJobs(ctx context.Context, filter JobFilter, page PageRequest) (JobPage, error) {
	limit, errLimit := page.limit()
	if err := i.check(filter.Validate(), errLimit); err != nil {
		return JobPage{}, fmt.Errorf("finding jobs: %w", err)
	}
	found, err := i.findJobs(ctx, filter, page, limit)
	if err != nil {
		return JobPage{}, fmt.Errorf("finding jobs: %w", err)
	}
	return found, nil
}

func (i *inspector) findJobs(ctx context.Context, filter JobFilter, page PageRequest, limit int) (JobPage, error) {
	queues, err := i.resolveQueues(filter.Queues)
	if err != nil {
		return JobPage{}, err
	}
	list, err := listDigest("jobs", filter, page.Newest)
	if err != nil {
		return JobPage{}, err
	}
	after, err := i.decodeCursor(ctx, list, page.Cursor)
	if err != nil {
		return JobPage{}, err
	}
	found, err := i.findSelected(ctx, filter, queues, driver.PageRequest{
		After: driver.Cursor(after), Limit: limit, Newest: page.Newest,
	})
	if err != nil {
		return JobPage{}, cursorError(page.Cursor, err)
	}
	jobs := i.summaries(found.Records)
	if page.Args {
		for n, r := range found.Records {
			jobs[n].Args, jobs[n].ArgsHidden = i.listedArgs(r)
		}
	}
	err = i.explainPending(ctx, jobs, found.Records)
	if err != nil {
		return JobPage{}, err
	}
	next, err := i.encodeCursor(ctx, list, string(found.Next))
	return JobPage{Jobs: jobs, Next: next}, err
}

// fillTime is how long a page is filled if its records must be searched for.
const fillTime = 150 * time.Millisecond

// findSelected returns a page of the records that a filter selects in some queues. In a search, it
// reads on until the page is full or fillTime is over.
func (i *inspector) findSelected(ctx context.Context, filter JobFilter, queues []string, page driver.PageRequest) (driver.Page, error) {
	matches, query := filter.matcher(), filter.query(queues)
	page.Body = filter.body()
	if !filter.Searches() {
		return i.store.Admin().Find(ctx, query, page)
	}
	var found driver.Page
	limit := page.Limit
	for begun := time.Now(); ; {
		some, err := i.store.Admin().Find(ctx, query, page)
		if err != nil {
			return driver.Page{}, err
		}
		found.Records = append(found.Records, only(some.Records, matches)...)
		found.Next, page.After = some.Next, some.Next
		page.Limit = limit - len(found.Records)
		if found.Next == "" || page.Limit < 1 || time.Since(begun) > fillTime {
			return found, nil
		}
	}
}

func (i *inspector) CountJobs(ctx context.Context, filter JobFilter, most int) (Count, error) {
	var errMost error
	if most < 1 || most > MaxCount {
		errMost = invalid("most", fmt.Sprint(most), fmt.Sprintf("must be from 1 to %d", MaxCount))
	}
	if err := i.check(filter.Validate(), errMost); err != nil {
		return Count{}, fmt.Errorf("counting jobs: %w", err)
	}
	queues, err := i.resolveQueues(filter.Queues)
	if err != nil {
		return Count{}, fmt.Errorf("counting jobs: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, MaxCountTime)
	defer cancel()
	count, err := i.countSelected(limited, filter, queues, most)
	if err != nil && !endedAlone(limited, ctx) {
		return Count{}, fmt.Errorf("counting jobs: %w", err)
	}
	return count, nil // what was counted until then
}

// endedAlone reports whether the time of a limited context is over and that of its parent is not.
func endedAlone(limited, parent context.Context) bool { return isOver(limited) && !isOver(parent) }

// isOver reports whether a context has ended, or is about to: connections have timers of their own for
// its deadline, so a call may fail before the context has ended.
func isOver(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// countSelected counts the jobs that a filter selects in some queues, up to most. If ctx ends
// first, it returns what it has counted until then, and the error.
func (i *inspector) countSelected(ctx context.Context, filter JobFilter, queues []string, most int) (Count, error) {
	matches, body := filter.matcher(), filter.body()
	if matches == nil && body == nil {
		return i.count(ctx, filter.query(queues), most)
	}
	n := 0
	for r, err := range i.records(ctx, filter.query(queues), driver.PageRequest{Limit: examinedAtOnce, Brief: true, Body: body}) {
		if err != nil {
			return Count{Count: min(n, most), More: true}, err
		}
		if matches == nil || matches(r) {
			n++
		}
		if n > most {
			break
		}
	}
	return Count{Count: min(n, most), More: n > most}, nil
}

// count counts the jobs that a query selects, up to most. If ctx ends first, it returns what it
// has counted until then, and the error.
func (i *inspector) count(ctx context.Context, query driver.Query, most int) (Count, error) {
	n, err := i.store.Admin().Count(ctx, query, most+1)
	if err != nil {
		return Count{Count: min(n, most), More: true}, err
	}
	return Count{Count: min(n, most), More: n > most}, nil
}

// records yields, page by page, the jobs that a query selects. After an error it yields
// nothing more.
func (i *inspector) records(ctx context.Context, query driver.Query, page driver.PageRequest) iter.Seq2[*driver.Record, error] {
	return records.Each(ctx, i.store.Admin(), query, page)
}

// listedArgs returns the arguments of a job for a list, or why they are hidden. No list shows
// those of encrypted jobs.
func (i *inspector) listedArgs(r *driver.Record) (args json.RawMessage, hidden string) {
	if isEncrypted(r) {
		return nil, HiddenEncrypted
	}
	args, hidden = argsOf(r, i.store.ByReference())
	if len(args) > MaxListedArgs {
		return nil, fmt.Sprintf("%d bytes", len(args))
	}
	return args, hidden
}

func (i *inspector) summaries(all []*driver.Record) []JobSummary {
	summaries := make([]JobSummary, len(all))
	for n, r := range all {
		summaries[n] = i.summary(r)
	}
	return summaries
}

// summary returns the summary of a record for a list.
func (i *inspector) summary(r *driver.Record) JobSummary {
	s := JobSummary{
		JobRef:          refOf(r),
		Type:            r.Type,
		Version:         r.Version,
		State:           driver.StateOf(r, i.store.Now()),
		Priority:        r.Priority,
		Tags:            r.Tags,
		Attempt:         r.RetryInfo.CurrentAttempt,
		Created:         r.TimeInfo.Created,
		Due:             showable(r.TimeInfo.WaitUntil),
		Deadline:        showable(r.TimeInfo.DispatchBy),
		Started:         r.TimeInfo.Start,
		Ended:           r.TimeInfo.End,
		Owner:           r.Status.Owner,
		Reason:          r.Status.Reason,
		Error:           cut(driver.LastError(r.Status.Errors), MaxFilterBytes),
		CancelRequested: r.CancelRequested,
	}
	if r.RetryInfo.Retryable {
		s.MaxAttempts = r.RetryInfo.GetMaxAttempts()
	}
	if r.Progress != nil && !r.Progress.Time.IsZero() { // otherwise the job has only written to its log
		s.Progress = new(r.Progress.Fraction)
	}
	if stuck := (amboy.JobInfo{State: s.State, Time: r.TimeInfo, Progress: r.Progress}).Stuck(); stuck != nil {
		s.StuckSince = stuck.Since
	}
	return s
}

// showable returns a time that a program has set, or the nearest time that JSON has a form for: some mean never by a
// time after the year 9999.
func showable(t time.Time) time.Time {
	switch {
	case validTime("", t) == nil:
		return t
	case t.Year() < 0:
		return time.Date(0, time.January, 1, 0, 0, 0, 0, time.UTC)
	default:
		return time.Date(10_000, time.January, 1, 0, 0, 0, -1, time.UTC)
	}
}

func refOf(r *driver.Record) JobRef { return JobRef{Queue: r.Group, ID: r.JobID()} }

// cut shortens a text to at most size bytes, plus an ellipsis.
func cut(text string, size int) string {
	if len(text) <= size {
		return text
	}
	return strings.ToValidUTF8(text[:size], "") + "…"
}
