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

	"github.com/mongodb/amboy/internal/logging"
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
		return nil, wrong("coverage must be from 0 to 1 (is %v)", request.Coverage)
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
	reply := &dequeueReply{PinLaterDequeueJobsResult: wire.PinLaterDequeueJobsResult{Success: found}}
	switch {
	case request.Coverage == 0:
	case request.DryRun:
		err = s.peek(ctx, request, found)
	default:
		reply.claimed, err = s.claim(ctx, a.Context.Source, request, found)
	}
	return reply, err
}

// dequeueReply is the reply of dequeueJobs.
type dequeueReply struct {
	wire.PinLaterDequeueJobsResult
	// claimed are the jobs that were claimed, without their payloads. They are put back if the reply
	// can't be sent.
	claimed []outside.Job
}

// claimOf returns the claim of a new call.
func (s *Server) claimOf(source string) (string, error) {
	claim := fmt.Sprintf("%s:%s:%d", *s.claimStart.Load(), textOf(source), s.claims.Add(1))
	if n := utf8.RuneCountInString(claim); n > maxClaim {
		return "", wrong("the claim must have at most %d characters, with the source (has %d)", maxClaim, n)
	}
	return claim, nil
}

// claim claims jobs, and adds them to a reply.
func (s *Server) claim(ctx context.Context, source string, request *wire.PinLaterDequeueRequest, into *wire.PinLaterDequeueResponse) (claimed []outside.Job, err error) {
	claim, err := s.claimOf(source)
	if err != nil {
		return nil, err
	}
	for size := 0; len(claimed) < int(request.Limit) && size < maxDequeued; {
		n := min(int(request.Limit)-len(claimed), maxLeased)
		jobs, err := s.dispatcher.Lease(ctx, outside.LeaseRequest{
			Queues: []string{s.stored(request.QueueName)}, Types: []string{s.opts.JobType},
			Limit: n, Lease: s.opts.ClaimTimeout, Worker: claim, LostFails: true,
		})
		if err != nil && len(claimed) > 0 {
			break // what is claimed already must reach the client
		}
		if err != nil {
			return nil, err
		}
		for i := range jobs {
			j := &jobs[i]
			localID, refusal := s.dequeueable(j)
			if refusal != "" {
				s.refuse(ctx, j, refusal)
				continue
			}
			if size += sizeOf(j.Payload.Size()); len(claimed) > 0 && size > s.maxReply() {
				s.putBack(ctx, jobs[i:])
				return claimed, nil
			}
			d := descriptor{queue: request.QueueName, priority: priorityOf(j.Tags), localID: localID}
			addDequeued(into, d, bytesOf(j.Payload), attemptsOf(j.Attempt, j.MaxAttempts, j.Metadata))
			claimed = append(claimed, outside.Job{Token: j.Token, Queue: j.Queue, ID: j.ID})
		}
		if len(jobs) < n {
			break
		}
	}
	return claimed, nil
}

// dequeueable returns the local ID of a job, or why no client can be given the job, whatever else is
// in the reply.
func (s *Server) dequeueable(j *outside.Job) (localID int64, refusal string) {
	localID, ok := localIDOf(j.ID)
	switch {
	case !ok:
		refusal = fmt.Sprintf("its ID must be %s and a number", idPrefix)
	case !s.hasRoom(j.Payload.Size()):
		refusal = fmt.Sprintf("its body must have at most %d bytes (has %d)", s.maxBody(), j.Payload.Size())
	}
	return localID, refusal
}

// maxReply is the size up to which a reply has room for another job.
func (s *Server) maxReply() int { return s.opts.MaxFrame - dequeuedSize }

// sizeOf returns about the size of a job in a reply. body is that of its body.
func sizeOf(body int) int { return body + dequeuedSize }

// hasRoom reports whether a reply has room for a job with a body of a size.
func (s *Server) hasRoom(body int) bool { return sizeOf(body) <= s.maxReply() }

// maxBody is the size of the largest body in a reply.
func (s *Server) maxBody() int { return s.maxReply() - dequeuedSize }

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

// refuse ends a claimed job that no client can be given, so that it does not keep others from them.
func (s *Server) refuse(ctx context.Context, j *outside.Job, why string) {
	text := "a PinLater worker can't be given the job: " + why
	for _, err := range s.dispatcher.Acknowledge(ctx, outside.Ack{Token: j.Token, Fail: &outside.Fail{Error: text, Permanent: true}}) {
		if err != nil && !isLeaseLost(err) {
			logging.Error(ctx, message.Fields{"message": "could not end a job that no PinLater worker can be given", "queue": j.Queue, "job_id": j.ID, "error": err.Error()})
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
			if errors.Is(err, outside.ErrUndecodable) {
				return true, nil // it would not be claimed here, or be parked
			}
			if err != nil {
				return false, err
			}
			if !s.hasRoom(len(body)) {
				return true, nil // it would be ended
			}
			if size += sizeOf(len(body)); len(into.Jobs) > 0 && size > s.maxReply() {
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
