package pinlater

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/pinlater/wire"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/retry"
)

func (s *Server) enqueueJobs(ctx context.Context, a *wire.PinLaterEnqueueJobsArgs) (thrift.TStruct, error) {
	request := a.Request
	if len(request.Jobs) == 0 {
		return nil, internal("jobs must not be empty")
	}
	if err := s.exists(ctx, request.QueueName); err != nil {
		return nil, err
	}
	if err := s.mayEnqueue(request); err != nil {
		return nil, err
	}
	q, err := s.group.Get(ctx, s.stored(request.QueueName))
	if err != nil {
		return nil, fmt.Errorf("opening queue %q: %w", request.QueueName, err)
	}
	ids, err := s.ids.take(ctx, len(request.Jobs))
	if err != nil {
		return nil, err
	}
	now := s.store.Now()
	descriptors := make([]string, 0, len(request.Jobs))
	for some := range slices.Chunk(request.Jobs, maxPut) {
		jobs := make([]amboy.Job, len(some))
		for i, j := range some {
			d := descriptor{queue: request.QueueName, priority: int(j.Priority), localID: ids[len(descriptors)]}
			descriptors = append(descriptors, d.String())
			if jobs[i], err = s.newJob(d, j, now); err != nil {
				return nil, err
			}
		}
		if err = q.PutMany(driver.WithoutWaiting(ctx), jobs); err != nil {
			return nil, rejected(err)
		}
	}
	return &wire.PinLaterEnqueueJobsResult{Success: &wire.PinLaterEnqueueResponse{JobDescriptors: descriptors}}, nil
}

// maxPut is how many jobs are put at a time.
const maxPut = 500

// mayEnqueue returns an exception for jobs that are not accepted.
func (s *Server) mayEnqueue(request *wire.PinLaterEnqueueRequest) error {
	for i, j := range request.Jobs {
		if j.Priority < 1 || int(j.Priority) > s.opts.PriorityLevels {
			return exception(wire.ErrorCode_PRIORITY_NOT_SUPPORTED, "%d", j.Priority)
		}
		if err := s.mayStore(j.Body); err != nil {
			return fmt.Errorf("job %d: %w", i, err)
		}
	}
	if s.dequeueOnly.Load() {
		return exception(wire.ErrorCode_ENQUEUE_REJECTED, "The server accepts no new jobs.")
	}
	return nil
}

// mayStore returns an exception for a body that is too large.
func (s *Server) mayStore(body []byte) error {
	if limit := min(s.opts.MaxBody, s.maxBody()); len(body) > limit {
		return exception(wire.ErrorCode_ENQUEUE_REJECTED, "The body of a job must have at most %d bytes (has %d).", limit, len(body))
	}
	return nil
}

// rejected returns the exception for a queue that takes no jobs.
func rejected(err error) error {
	if errors.Is(err, amboy.ErrQueueDraining) || errors.Is(err, driver.ErrFull) {
		return exception(wire.ErrorCode_ENQUEUE_REJECTED, "%v", err)
	}
	return err
}

func (s *Server) newJob(d descriptor, j *wire.PinLaterJob, now time.Time) (amboy.Job, error) {
	metadata := map[string]string{createdKey: strconv.FormatInt(now.UnixMilli(), 10)}
	if status := statusOf(j.CustomStatus); status != "" {
		metadata[statusKey] = status
	}
	allowed := int(j.NumAttemptsAllowed)
	if allowed < 1 {
		metadata[allowedKey] = strconv.Itoa(allowed)
	}
	body := j.Body
	if body == nil {
		body = []byte{}
	}
	options := []job.Option{
		job.ID(d.jobID()), job.Priority(-d.priority), job.Tags(tagsOf(d.priority)...), job.Metadata(metadata),
		// All are retryable, because retryFailedJobs may allow any of them more attempts.
		job.MaxAttempts(2), job.RetryPolicy(retry.Fixed{}),
		job.Retention(amboy.Retention{Succeeded: s.opts.KeepSucceeded, Failed: s.opts.KeepFailed}),
		job.PayloadLimit(s.opts.MaxBody),
	}
	if j.RunAfterTimestampMillis != nil {
		options = append(options, job.At(timeOf(*j.RunAfterTimestampMillis)))
	}
	made, err := job.NewOutside(amboy.JobType{Name: s.opts.JobType, Version: 1}, job.Payload{Bytes: body}, options...)
	if err != nil {
		return nil, err
	}
	attempts := max(1, allowed)
	made.UpdateRetryInfo(amboy.JobRetryOptions{MaxAttempts: &attempts})
	return made, nil
}

// The bounds of times that clients name: stores can't keep others.
const minMillis = 1

var maxMillis = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

// timeOf returns a time that a client has named.
func timeOf(millis int64) time.Time { return time.UnixMilli(min(max(millis, minMillis), maxMillis)) }

// durationOf returns a duration that a client has named, from 0 to a limit.
func durationOf(millis int64, limit time.Duration) time.Duration {
	if millis <= 0 {
		return 0
	}
	if millis > math.MaxInt64/int64(time.Millisecond) {
		return limit
	}
	return min(time.Duration(millis)*time.Millisecond, limit)
}
