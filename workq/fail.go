package workq

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/outside"
)

// failTries is how often a fail is tried again because the job changed meanwhile.
const failTries = 10

// fail ends a job that a worker has failed, or puts it back if -max-fails and -max-attempts allow
// another attempt. It is for Options.RetryFails.
func (s *Server) fail(ctx context.Context, id string, ack outside.Ack) (err error) {
	for range failTries {
		err = s.failOnce(ctx, id, ack)
		if !errors.Is(err, outside.ErrLeaseLost) {
			break
		}
	}
	return err
}

// failOnce is fail. The error wraps outside.ErrLeaseLost if the job changed meanwhile.
func (s *Server) failOnce(ctx context.Context, id string, ack outside.Ack) error {
	job, err := s.jobs.find(ctx, id)
	if err != nil {
		return err
	}
	lease, err := s.leaseOf(ctx, job)
	if err != nil {
		return err
	}
	fails := map[string]string{failsKey: strconv.Itoa(job.fails + 1)}
	mayFail := job.fails+1 < job.maxFails && job.attempts() < job.attemptsAllowed()
	switch {
	case job.ended() || !mayFail:
		ack.Metadata = fails
		return s.endNow(ctx, id, ack)
	case !job.leased():
		return s.jobs.setMetadata(ctx, job, fails)
	default:
		fails[attemptsKey] = strconv.Itoa(job.putBack + 1)
		back := *lease
		back.Checkpoint, back.Metadata = &outside.Checkpoint{Again: &outside.Release{}}, fails
		err = s.dispatcher.Acknowledge(ctx, back)[0]
		if err == nil || errors.Is(err, outside.ErrLeaseLost) {
			s.clock.dropLease(id, lease) // there may be a later one by now
		}
		return err
	}
}

// leaseOf returns an acknowledgement without content of the lease of a job, if it has one, and sets what
// the job counts to the numbers at the beginning of the lease: an earlier try of a fail may have stored
// others.
func (s *Server) leaseOf(ctx context.Context, job *stored) (*outside.Ack, error) {
	if !job.leased() {
		return nil, nil
	}
	if own, ok := s.clock.lease(job.JobID()); ok {
		job.putBack, job.fails = own.putBack, own.fails
		return own.ack, nil
	}
	leased, err := s.dispatcher.Leased(ctx, job.prefixed, outside.DefaultLease, job.JobID())
	if err != nil {
		return nil, err
	}
	l := leased[job.JobID()]
	if l == nil {
		return nil, fmt.Errorf("job %q of queue %q is not leased any more: %w", job.JobID(), job.prefixed, outside.ErrLeaseLost)
	}
	return &outside.Ack{Token: l.Token}, nil
}

// setMetadata changes the metadata of a job that waits. The error wraps outside.ErrLeaseLost if the job
// has changed since it was read.
func (j *jobs) setMetadata(ctx context.Context, s *stored, change map[string]string) error {
	own, err := j.leases.Decode(ctx, s.Record)
	if err != nil {
		return err
	}
	for key, value := range change {
		own.(amboy.MetadataJob).SetMetadata(key, value)
	}
	q, err := j.leases.Queue(ctx, s.prefixed)
	if err != nil {
		return err
	}
	return q.Save(ctx, own)
}
