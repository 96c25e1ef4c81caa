package pinlater

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/thrift/lib/go/thrift"
	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/codec"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/pinlater/wire"
)

func isLeaseLost(err error) bool { return errors.Is(err, amboy.ErrLeaseLost) }

// change is what a client asks for a job that it names.
type change struct {
	descriptor
	// ack returns the acknowledgement of the job under its current lease.
	ack func(l *outside.Job) outside.Ack
}

// maxChangeTries is how often a change is tried if the job changes meanwhile.
const maxChangeTries = 3

// apply makes changes of jobs that are claimed, and ignores others. Each job must be named
// once, or else by different descriptors, of which at most one is right. It returns the tokens of the leases
// of the changed jobs. Jobs that can't be decoded are left as they are. If their keys may be available later, the
// error says so after all other changes are made.
func (s *Server) apply(ctx context.Context, queueName string, changes []change) (tokens map[string]outside.Token, err error) {
	tokens = map[string]outside.Token{}
	var noKey error
	for some := range slices.Chunk(changes, pageSize) {
		err := s.applySome(ctx, queueName, some, tokens)
		switch {
		case errors.Is(err, codec.ErrKeyUnavailable):
			noKey = err
		case err != nil:
			return nil, err
		}
	}
	return tokens, noKey
}

func (s *Server) applySome(ctx context.Context, queueName string, changes []change, tokens map[string]outside.Token) error {
	for range maxChangeTries {
		ids := make([]string, len(changes))
		for i, c := range changes {
			ids[i] = c.jobID()
		}
		leased, unread := s.dispatcher.Leased(ctx, s.stored(queueName), s.opts.ClaimTimeout, ids...)
		if unread != nil && !errors.Is(unread, outside.ErrUndecodable) {
			return unread
		}
		var err error
		changes, err = s.applyOnce(ctx, queueName, changes, leased, tokens)
		switch {
		case err != nil:
			return err
		case errors.Is(unread, codec.ErrKeyUnavailable):
			return unread
		case unread != nil: // the jobs will be parked when their claims time out
			logging.Error(ctx, message.Fields{"message": "could not change claimed jobs", "queue": queueName, "error": unread.Error()})
		}
		if len(changes) == 0 {
			return nil
		}
	}
	return nil
}

// applyOnce makes changes, and returns those whose jobs changed since they were read.
func (s *Server) applyOnce(ctx context.Context, queueName string, changes []change, leased map[string]*outside.Job, tokens map[string]outside.Token) (again []change, err error) {
	var acks []outside.Ack
	var acked []change
	for _, c := range changes {
		l := leased[c.jobID()]
		if l == nil || l.Type != s.opts.JobType || c.queue != queueName || c.priority != priorityOf(l.Tags) {
			continue
		}
		if ack := c.ack(l); ack.Token != "" {
			acks, acked = append(acks, ack), append(acked, c)
		}
	}
	for i, failure := range s.dispatcher.Acknowledge(ctx, acks...) {
		var tooLong *amboy.MaxTimeError // the attempt has failed already
		switch {
		case failure == nil:
			tokens[acked[i].jobID()] = acks[i].Token
		case isLeaseLost(failure):
			again = append(again, acked[i])
		case !errors.As(failure, &tooLong) && err == nil:
			err = failure
		}
	}
	return again, err
}

func (s *Server) ackDequeuedJobs(ctx context.Context, a *wire.PinLaterAckDequeuedJobsArgs) (thrift.TStruct, error) {
	leave, err := admit(ctx, s.work)
	if err != nil {
		return nil, err
	}
	defer leave()
	return &wire.PinLaterAckDequeuedJobsResult{}, s.acknowledge(ctx, a.Request)
}

func (s *Server) acknowledge(ctx context.Context, request *wire.PinLaterJobAckRequest) error {
	var changes []change
	known := map[descriptor]bool{}
	add := func(infos []*wire.PinLaterJobAckInfo, ack func(*outside.Job, *wire.PinLaterJobAckInfo) outside.Ack) error {
		for _, info := range infos {
			d, err := parseDescriptor(info.JobDescriptor)
			if err != nil {
				return err
			}
			if !known[d] { // the second would find that the job has ended
				known[d] = true
				changes = append(changes, change{d, func(l *outside.Job) outside.Ack { return ack(l, info) }})
			}
		}
		return nil
	}
	if err := errors.Join(add(request.JobsSucceeded, succeed), add(request.JobsFailed, fail)); err != nil {
		return err
	}
	if err := s.exists(ctx, request.QueueName); err != nil {
		return err
	}
	if len(changes) == 0 {
		return nil
	}
	_, err := s.apply(ctx, request.QueueName, changes)
	return err
}

func succeed(l *outside.Job, info *wire.PinLaterJobAckInfo) outside.Ack {
	ack := l.Ack()
	ack.Complete, ack.Metadata = &outside.Complete{}, appended(l, info)
	return ack
}

// failed is the error of an attempt unless the client appends to the custom status.
const failed = "its PinLater worker reported a failure"

func fail(l *outside.Job, info *wire.PinLaterJobAckInfo) outside.Ack {
	ack := l.Ack()
	ack.Fail, ack.Metadata = &outside.Fail{Error: failed}, appended(l, info)
	if text := statusOf(info.AppendCustomStatus); text != "" {
		ack.Fail.Error = text
	}
	if l.MaxAttempts-l.Attempt > 1 {
		delay := durationOf(info.RetryDelayMillis, outside.MaxDelay)
		ack.Fail.RetryIn = &delay
	} else {
		ack.Fail.Permanent = true // it ends at once
	}
	return ack
}

func appended(l *outside.Job, info *wire.PinLaterJobAckInfo) map[string]string {
	if info.AppendCustomStatus == "" {
		return nil
	}
	return map[string]string{statusKey: statusOf(l.Metadata[statusKey], info.AppendCustomStatus)}
}

func (s *Server) checkpointJobs(ctx context.Context, a *wire.PinLaterCheckpointJobsArgs) (thrift.TStruct, error) {
	changes := make([]change, len(a.Request.Requests))
	for i, r := range a.Request.Requests {
		d, err := parseDescriptor(r.JobDescriptor)
		if err == nil && r.NewBody_ != nil {
			err = s.mayStore([]byte(*r.NewBody_))
		}
		if err != nil {
			return nil, err
		}
		changes[i] = change{d, func(l *outside.Job) outside.Ack {
			if !strings.Contains(l.Worker, textOf(a.Context.Source)) {
				return outside.Ack{}
			}
			return s.checkpoint(l, r)
		}}
	}
	if err := s.exists(ctx, a.Request.QueueName); err != nil {
		return nil, err
	}
	leave, err := admit(ctx, s.work)
	if err != nil {
		return nil, err
	}
	defer leave()
	for len(changes) > 0 {
		var now []change
		now, changes = distinct(changes)
		tokens, err := s.apply(ctx, a.Request.QueueName, now)
		err = errors.Join(err, s.renew(ctx, tokens))
		if err != nil {
			return nil, err
		}
	}
	return &wire.PinLaterCheckpointJobsResult{}, nil
}

// distinct splits changes into those of distinct jobs, and the rest.
func distinct(changes []change) (first, rest []change) {
	known := map[string]bool{}
	for _, c := range changes {
		if id := c.jobID(); known[id] {
			rest = append(rest, c)
		} else {
			known[id] = true
			first = append(first, c)
		}
	}
	return first, rest
}

func (s *Server) checkpoint(l *outside.Job, r *wire.PinLaterCheckpointJobRequest) outside.Ack {
	now := s.store.Now()
	c := checkpoint{attempt: l.Attempt, runAfter: now, updated: now}
	if r.RunAfterTimestampMillis != nil {
		c.runAfter = timeOf(*r.RunAfterTimestampMillis)
	}
	ack := l.Ack()
	ack.Metadata = map[string]string{checkpointKey: c.encode()}
	ack.Checkpoint = &outside.Checkpoint{}
	if r.NewBody_ != nil {
		ack.Checkpoint.Payload = &job.Payload{Bytes: []byte(*r.NewBody_)}
	}
	if n := r.NumOfAttemptsAllowed; n != nil {
		ack.Checkpoint.MaxAttempts = l.Attempt + max(1, int(*n))
		ack.Metadata[allowedKey] = strconv.Itoa(int(*n))
	}
	if r.PrependCustomStatus != nil {
		ack.Metadata[statusKey] = statusOf(*r.PrependCustomStatus, l.Metadata[statusKey])
	}
	if r.MoveToPending {
		ack.Checkpoint.Again = &outside.Release{Delay: min(max(0, c.runAfter.Sub(now)), outside.MaxDelay), Reason: "its PinLater worker put it back"}
	}
	return ack
}

// renew makes the timeouts of claims start anew.
func (s *Server) renew(ctx context.Context, tokens map[string]outside.Token) error {
	beats := make([]outside.Beat, 0, len(tokens))
	for _, token := range tokens {
		beats = append(beats, outside.Beat{Token: token})
	}
	for some := range slices.Chunk(beats, outside.MaxBatch) {
		for _, beaten := range s.dispatcher.Heartbeat(ctx, some...) {
			var tooLong *amboy.MaxTimeError
			if err := beaten.Err; err != nil && !isLeaseLost(err) && !errors.As(err, &tooLong) {
				return fmt.Errorf("renewing a claim: %w", err)
			}
		}
	}
	return nil
}
