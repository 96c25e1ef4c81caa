package pinlater

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/pinlater/wire"
	"github.com/mongodb/amboy/queue/driver"
)

func (s *Server) deleteJobs(ctx context.Context, a *wire.PinLaterDeleteJobsArgs) (thrift.TStruct, error) {
	r := a.Request
	if err := checkState(r.JobState); err != nil {
		return nil, err
	}
	if err := s.exists(ctx, r.QueueName); err != nil {
		return nil, err
	}
	leave, err := admit(ctx, s.reads)
	if err != nil {
		return nil, err
	}
	defer leave()
	sel, ok, err := s.selectionOf(r.QueueName, r.JobState, &r.Priority, r.BodyRegexToMatch)
	if err != nil {
		return nil, err
	}
	deleted := int32(0)
	for ok && deleted < r.Limit {
		var some []*driver.Record
		left := int(min(r.Limit-deleted, pageSize))
		err = s.find(ctx, sel, func(found *driver.Record) (bool, error) {
			some = append(some, found)
			return len(some) < left, nil
		})
		n := 0
		if err == nil {
			n, err = s.remove(ctx, r.QueueName, some)
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		deleted += int32(n) //nolint:gosec // It is bounded by the page.
	}
	return &wire.PinLaterDeleteJobsResult{Success: &deleted}, nil
}

// maxFailed is the maximum number of failed jobs among which retryFailedJobs finds the ones
// that failed first.
const maxFailed = 100_000

func (s *Server) retryFailedJobs(ctx context.Context, a *wire.PinLaterRetryFailedJobsArgs) (thrift.TStruct, error) {
	r := a.Request
	if err := s.exists(ctx, r.QueueName); err != nil {
		return nil, err
	}
	leave, err := admit(ctx, s.reads)
	if err != nil {
		return nil, err
	}
	defer leave()
	sel, ok, err := s.selectionOf(r.QueueName, wire.PinLaterJobState_FAILED, &r.Priority, nil)
	if err != nil {
		return nil, err
	}
	retried := int32(0)
	if !ok || r.Limit <= 0 {
		return &wire.PinLaterRetryFailedJobsResult{Success: &retried}, nil
	}
	ids, err := s.failedFirst(ctx, sel, int(r.Limit))
	if err != nil {
		return nil, err
	}
	again := retrying{Server: s, queue: s.stored(r.QueueName), attempts: max(1, int(r.AttemptsToAllow))}
	if r.RunAfterTimestampMillis != nil {
		again.runAfter = timeOf(*r.RunAfterTimestampMillis)
	}
	for some := range slices.Chunk(ids, pageSize) {
		n, err := again.run(ctx, some)
		retried += int32(n) //nolint:gosec // It is bounded by the page.
		if err != nil {
			return nil, fmt.Errorf("retrying jobs of queue %q: %w", r.QueueName, err)
		}
	}
	return &wire.PinLaterRetryFailedJobsResult{Success: &retried}, nil
}

// failedFirst returns the IDs of the selected jobs that ended first.
func (s *Server) failedFirst(ctx context.Context, sel selection, limit int) ([]string, error) {
	type ended struct {
		id string
		at time.Time
	}
	var all []ended
	err := s.find(ctx, sel, func(r *driver.Record) (bool, error) {
		all = append(all, ended{r.JobID(), r.TimeInfo.End})
		return len(all) < maxFailed, nil
	})
	slices.SortStableFunc(all, func(a, b ended) int { return a.at.Compare(b.at) })
	all = all[:min(limit, len(all))]
	ids := make([]string, len(all))
	for i, one := range all {
		ids[i] = one.id
	}
	return ids, err
}

// retrying is a call of retryFailedJobs.
type retrying struct {
	*Server
	queue    string
	attempts int
	// runAfter is when the jobs are due; zero for at once.
	runAfter time.Time
}

// run lets failed jobs run again, and returns how many.
func (r *retrying) run(ctx context.Context, ids []string) (int, error) {
	records, err := r.leases.Find(ctx, r.queue, ids)
	if err != nil {
		return 0, err
	}
	var allowed []string
	now := r.store.Now()
	for _, record := range records {
		j := newStoredJob(record, now)
		if j.state != wire.PinLaterJobState_FAILED {
			continue
		}
		err = r.allow(ctx, j, now)
		if err != nil && !isLeaseLost(err) && !amboy.IsJobNotFoundError(err) {
			return 0, err
		}
		if err == nil {
			allowed = append(allowed, j.JobID())
		}
	}
	again := driver.Action{Kind: driver.Restart}
	if r.runAfter.After(now) {
		again.At = r.runAfter
	}
	return r.act(ctx, allowed, again)
}

// allow stores how many attempts a failed job gets.
func (r *retrying) allow(ctx context.Context, j *storedJob, now time.Time) error {
	record := *j.Record
	record.RetryInfo.MaxAttempts = record.RetryInfo.CurrentAttempt + r.attempts
	record.Metadata = map[string]string{}
	for key, value := range j.Metadata {
		record.Metadata[key] = value
	}
	record.Metadata[allowedKey] = strconv.Itoa(j.attempts().allowed)
	c := checkpoint{attempt: record.RetryInfo.CurrentAttempt, runAfter: r.runAfter, updated: now}
	if c.runAfter.IsZero() {
		c.runAfter = now
	}
	record.Metadata[checkpointKey] = c.encode()
	return r.driver.Save(ctx, &record)
}

func (r *retrying) act(ctx context.Context, ids []string, action driver.Action) (done int, err error) {
	if len(ids) == 0 {
		return 0, nil
	}
	request := driver.ActRequest{
		Query: driver.Query{Queues: []string{r.queue}, JobIDs: ids, Latest: true}, Action: action, Limit: len(ids),
	}
	for {
		acted, err := r.driver.Act(ctx, request)
		done += acted.Done
		if err != nil || acted.Next == "" {
			return done, err
		}
		request.After = acted.Next
	}
}
