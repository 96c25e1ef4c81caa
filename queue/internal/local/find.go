package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/internal/jobstate"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

var _ amboy.JobFinder = (*Queue)(nil)

// FindJobs yields jobs as they are when the iteration starts, and at last an error if methods of some panicked.
func (q *Queue) FindJobs(ctx context.Context, query amboy.JobQuery) iter.Seq2[amboy.JobInfo, error] {
	return func(yield func(amboy.JobInfo, error) bool) {
		var errs []error
		for _, s := range q.snapshots(query) {
			if err := ctx.Err(); err != nil {
				errs = append(errs, err)
				break
			}
			switch info, err := q.infoOf(s); {
			case err != nil:
				errs = append(errs, err)
			case matchesQuery(query, info) && !yield(info, nil):
				return
			}
		}
		if err := errors.Join(errs...); err != nil {
			yield(amboy.JobInfo{}, fmt.Errorf("finding jobs in queue %q: %w", q.ID(), err))
		}
	}
}

// CountJobs counts the jobs that match a query now.
func (q *Queue) CountJobs(ctx context.Context, query amboy.JobQuery) (count int, err error) {
	for _, err := range q.FindJobs(ctx, query) {
		if err != nil {
			return 0, err
		}
		count++
	}
	return count, nil
}

// matchesQuery reports whether a job matches the query's states and types.
func matchesQuery(query amboy.JobQuery, info amboy.JobInfo) bool {
	return (len(query.States) == 0 || slices.Contains(query.States, info.State)) &&
		(len(query.Types) == 0 || slices.Contains(query.Types, info.Type.Name))
}

// jobSnapshot is a snapshot of a job of the queue.
type jobSnapshot struct {
	job      amboy.Job
	id       string
	number   uint64
	priority int
	place    schedule.Place
	block    schedule.Block
	tags     []string
	// reason is why the job waits, if the queue knows more than its block.
	reason string
}

// snapshots returns snapshots of the jobs with the query's tag, or of all jobs if it has
// none, in the order in which they were put. They are not all of the same moment: other calls
// would have to wait while those of a large queue are made.
func (q *Queue) snapshots(query amboy.JobQuery) []jobSnapshot {
	entries := q.entries(query.Tag)
	jobs := make([]jobSnapshot, 0, len(entries))
	for some := range slices.Chunk(entries, localStride) {
		jobs = q.addSnapshots(jobs, some)
	}
	if query.Tag != "" {
		slices.SortFunc(jobs, func(a, b jobSnapshot) int { return cmp.Compare(a.number, b.number) })
	}
	return jobs
}

// entries returns the entries of the jobs with a tag, in no order, or of all jobs if it is empty, in
// the order in which they were put.
func (q *Queue) entries(tag string) (found []*localEntry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if tag == "" {
		found = slices.Grow(found, q.schedule.Len())
		for e := range q.arrivals.All {
			found = append(found, e)
		}
		return found
	}
	for id := range q.tags.jobs(tag) {
		if e, ok := q.schedule.Get(id); ok {
			found = append(found, e)
		}
	}
	return found
}

// addSnapshots appends snapshots of entries that the queue still has.
func (q *Queue) addSnapshots(jobs []jobSnapshot, entries []*localEntry) []jobSnapshot {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range entries {
		if kept, ok := q.schedule.Get(e.ID); ok && kept == e {
			jobs = append(jobs, q.snapshot(e))
		}
	}
	return jobs
}

// snapshot returns a snapshot of an entry. It is called with the lock.
func (q *Queue) snapshot(e *localEntry) jobSnapshot {
	return jobSnapshot{
		job:      e.Job.job,
		id:       e.ID,
		number:   e.Job.number,
		priority: e.Priority,
		place:    e.Place(),
		block:    e.Block(),
		tags:     q.tags.of(e.ID),
		reason:   q.reason(e),
	}
}

// reason returns why a job waits or is to be canceled, or "" if no reason is known. It is
// called with the lock.
func (q *Queue) reason(e *localEntry) string {
	switch e.Place() {
	case schedule.Postponed:
		if e.Backoff == 0 { // snoozed, not postponed by its dependency
			return jobstate.SnoozeReason
		}
	case schedule.Parked:
		return q.parked[e]
	case schedule.Running:
		return q.cancels[e]
	}
	return ""
}

// info describes the job, with its state at now.
func (s jobSnapshot) info(now time.Time) amboy.JobInfo {
	info := jobstate.InfoAt(s.job, now, func(info *amboy.JobInfo) {
		info.Retry = s.retryInfo()
		schedule.Describe(&info.Status, s.place, s.block)
		if s.reason != "" {
			info.Status.Reason = s.reason
		}
	})
	info.Priority = s.priority
	info.Tags = slices.Clone(s.tags)
	return info
}

// retryInfo returns the job's retry info. A job that was ended while it ran may have asked for another attempt since then,
// which does not follow.
func (s jobSnapshot) retryInfo() amboy.JobRetryInfo {
	retry := s.job.RetryInfo()
	if s.place == schedule.Finished && retry.ShouldRetry() {
		retry.NeedsRetry = false
	}
	return retry
}

// forgot is called with the lock when the schedule removes an entry.
func (q *Queue) forgot(e *localEntry) {
	if current, ok := q.schedule.Get(e.ID); !ok || current == e {
		q.tags.remove(e.ID)
	}
	if e.Job.number > 0 { // 0 if the job panicked before it had a number
		q.arrivals.Remove(e.Job.number)
	}
}
