package pinlater

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/apache/thrift/lib/go/thrift"
	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/codec"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/pinlater/wire"
	"github.com/mongodb/amboy/queue/driver"
)

const (
	// maxClaim is the maximum length of a claim, in characters.
	maxClaim = 200
	// maxDequeued is the size of a reply from which on no more jobs are claimed.
	maxDequeued = 32 << 20
	// dequeuedSize is about the size of a job in a reply, without its body.
	dequeuedSize = 256
	// maxLeased is how many jobs are leased at a time: all are in memory before the size of a
	// reply is known.
	maxLeased = 100
)

func (s *Server) dequeueJobs(ctx context.Context, a *wire.PinLaterDequeueJobsArgs) (thrift.TStruct, error) {
	request := a.Request
	if request.Limit <= 0 {
		return nil, internal("limit must be positive")
	}
	if strings.TrimSpace(request.QueueName) == "" {
		return nil, internal("queueName must not be blank")
	}
	if !s.limits.allow(request.QueueName, request.Limit) {
		return nil, exception(wire.ErrorCode_DEQUEUE_RATE_LIMITED, "Dequeue rate limit exceeded for queue: %s", short(request.QueueName))
	}
	if err := s.exists(ctx, request.QueueName); err != nil {
		return nil, err
	}
	if shards := math.Round(request.Coverage); !(shards >= 0 && shards <= 1) || request.Coverage < 0 {
		return nil, fmt.Errorf("coverage must be from 0 to 1 (is %v)", request.Coverage)
	}
	leave, err := admit(ctx, s.work)
	if err != nil {
		return nil, err
	}
	defer leave()
	if acks := request.JobAckRequest; acks != nil {
		err = s.acknowledge(ctx, acks)
		if err != nil {
			return nil, err
		}
	}
	found := &wire.PinLaterDequeueResponse{}
	switch {
	case request.Coverage == 0:
	case request.DryRun:
		err = s.peek(ctx, request, found)
	default:
		err = s.claim(ctx, a.Context.Source, request, found)
	}
	return &wire.PinLaterDequeueJobsResult{Success: found}, err
}

// claimOf returns the claim of a new call.
func (s *Server) claimOf(source string) (string, error) {
	claim := fmt.Sprintf("%s:%s:%d", *s.claimStart.Load(), textOf(source), s.claims.Add(1))
	if n := utf8.RuneCountInString(claim); n > maxClaim {
		return "", fmt.Errorf("the claim must have at most %d characters, with the source (has %d)", maxClaim, n)
	}
	return claim, nil
}

func (s *Server) claim(ctx context.Context, source string, request *wire.PinLaterDequeueRequest, into *wire.PinLaterDequeueResponse) error {
	claim, err := s.claimOf(source)
	if err != nil {
		return err
	}
	for size, left := 0, int(request.Limit); left > 0 && size < maxDequeued; {
		n := min(left, maxLeased)
		jobs, err := s.dispatcher.Lease(ctx, outside.LeaseRequest{
			Queues: []string{s.stored(request.QueueName)}, Types: []string{s.opts.JobType},
			Limit: n, Lease: s.opts.ClaimTimeout, Worker: claim, LostFails: true,
		})
		if err != nil && len(into.Jobs) > 0 {
			break // what is claimed already must reach the client
		}
		if err != nil {
			return err
		}
		for i := range jobs {
			if len(into.Jobs) > 0 && size+sizeOf(jobs[i].Payload) > s.maxReply() {
				s.putBack(ctx, jobs[i:])
				return nil
			}
			size += s.addClaimed(ctx, request.QueueName, &jobs[i], into)
			if claimed, ok := ctx.Value(claimsKey{}).(*claims); ok {
				claimed.jobs = append(claimed.jobs, outside.Job{Token: jobs[i].Token, Queue: jobs[i].Queue, ID: jobs[i].ID})
			}
		}
		left -= len(jobs)
		if len(jobs) < n {
			break
		}
	}
	return nil
}

// maxReply is the size up to which a reply has room for another job.
func (s *Server) maxReply() int { return s.opts.MaxFrame - dequeuedSize }

// sizeOf returns about the size of a job in a reply.
func sizeOf(p job.Payload) int { return p.Size() + dequeuedSize }

// putBack puts claimed jobs back that no client is given.
func (s *Server) putBack(ctx context.Context, jobs []outside.Job) {
	acks := make([]outside.Ack, len(jobs))
	for i, j := range jobs {
		acks[i] = outside.Ack{Token: j.Token, Release: &outside.Release{}}
	}
	for i, err := range s.dispatcher.Acknowledge(ctx, acks...) {
		if err != nil && !isLeaseLost(err) {
			logging.Error(ctx, message.Fields{"message": "could not put back a job that no client was given", "queue": jobs[i].Queue, "job_id": jobs[i].ID, "error": err.Error()})
		}
	}
}

// addClaimed adds a claimed job to a reply, and returns its size.
func (s *Server) addClaimed(ctx context.Context, queueName string, j *outside.Job, into *wire.PinLaterDequeueResponse) int {
	localID, ok := localIDOf(j.ID)
	if !ok {
		s.refuse(ctx, j)
		return 0
	}
	d := descriptor{queue: queueName, priority: priorityOf(j.Tags), localID: localID}
	addDequeued(into, d, bytesOf(j.Payload), attemptsOf(j.Attempt, j.MaxAttempts, j.Metadata))
	return sizeOf(j.Payload)
}

// refuse ends a job that another protocol has put, and that has no descriptor.
func (s *Server) refuse(ctx context.Context, j *outside.Job) {
	text := fmt.Sprintf("a PinLater worker can't be given the job: its ID must be %s and a number", idPrefix)
	for _, err := range s.dispatcher.Acknowledge(ctx, outside.Ack{Token: j.Token, Fail: &outside.Fail{Error: text, Permanent: true}}) {
		if err != nil {
			logging.Error(ctx, message.Fields{"message": "could not end a job without a PinLater descriptor", "queue": j.Queue, "job_id": j.ID, "error": err.Error()})
		}
	}
}

func addDequeued(into *wire.PinLaterDequeueResponse, d descriptor, body []byte, a attempts) {
	if into.Jobs == nil {
		into.Jobs, into.JobMetadata = map[string][]byte{}, map[string]*wire.PinLaterDequeueMetadata{}
	}
	allowed, remaining := int32(a.allowed), int32(a.remaining) //nolint:gosec // They were i32.
	into.Jobs[d.String()] = body
	into.JobMetadata[d.String()] = &wire.PinLaterDequeueMetadata{AttemptsAllowed: &allowed, AttemptsRemaining: &remaining}
}

var errEnough = errors.New("enough")

// peek returns the jobs that claim would claim.
func (s *Server) peek(ctx context.Context, request *wire.PinLaterDequeueRequest, into *wire.PinLaterDequeueResponse) error {
	size := 0
	for priority := 1; priority <= s.opts.PriorityLevels; priority++ {
		err := s.find(ctx, selection{queue: request.QueueName, states: currentStates(), priority: priority}, func(r *driver.Record) (bool, error) {
			j := newStoredJob(r, s.store.Now())
			localID, ok := j.localID()
			if !ok {
				return true, nil
			}
			body, err := s.bodyOf(ctx, r)
			if errors.Is(err, codec.ErrKeyUnavailable) {
				return true, nil // it would not be claimed here
			}
			if err != nil {
				return false, err
			}
			size += len(body) + dequeuedSize
			if len(into.Jobs) > 0 && size > s.maxReply() {
				return false, errEnough
			}
			addDequeued(into, descriptor{queue: request.QueueName, priority: priority, localID: localID}, body, j.attempts())
			if len(into.Jobs) >= int(request.Limit) || size >= maxDequeued {
				return false, errEnough
			}
			return true, nil
		})
		if errors.Is(err, errEnough) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
