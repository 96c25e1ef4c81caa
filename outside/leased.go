package outside

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// Ack returns an acknowledgement for the job, to be filled in and sent once, by the Dispatcher that has
// returned the job. For a job that Leased returned it must be sent soon: Acknowledge does not read the job
// again, so a checkpoint that was stored since is overwritten.
func (j *Job) Ack() Ack { return Ack{Token: j.Token, lease: j.lease, read: j.read} }

// held returns the lease of the job.
func (j *Job) held() (lease, error) {
	if j.lease != nil {
		return *j.lease, nil
	}
	l, _, err := j.Token.decode()
	return l, err
}

// Leased returns the given jobs of a queue that outside workers have at the moment, by their
// IDs; others are left out. It is for protocols whose acknowledgements carry no token: the
// answer is about the worker that has the job now, whichever that is, and the Dispatcher
// treats the leases from then on as it treats its own (see LeaseRequest.LostFails). length is
// for how long Heartbeat renews the leases with the tokens of the answer, from MinLease to
// MaxLease. LeaseEnds is not set. If some of the jobs can't be decoded, Leased returns the others and
// an error that wraps ErrUndecodable. Otherwise the error wraps ErrUnknownQueue or ErrClosed, or is an
// *InvalidError or that of the store. Leased blocks until the store has answered, or ctx ends.
func (d *Dispatcher) Leased(ctx context.Context, queueName string, length time.Duration, ids ...string) (map[string]*Job, error) {
	leased, err := d.leased(ctx, queueName, length, ids)
	if err != nil {
		err = fmt.Errorf("reading the leases of jobs: %w", err)
	}
	return leased, err
}

func (d *Dispatcher) leased(ctx context.Context, queueName string, length time.Duration, ids []string) (leased map[string]*Job, err error) {
	if length < MinLease || length > MaxLease {
		return nil, invalid("lease", length, fmt.Sprintf("must be from %s to %s", MinLease, MaxLease))
	}
	err = d.serves(queueName)
	if err != nil {
		return nil, err
	}
	err = d.enter()
	if err != nil {
		return nil, err
	}
	defer d.leave()
	sign, err := d.signer(ctx)
	if err != nil {
		return nil, err
	}
	records, err := d.leases.Find(ctx, queueName, ids)
	if err != nil {
		return nil, err
	}
	leased = make(map[string]*Job, len(records))
	var undecodable []error
	for _, r := range records {
		if !r.Status.InProgress || !strings.HasPrefix(r.Status.Owner, queue.OutsideOwner) {
			continue
		}
		j, err := d.leases.Decode(ctx, r)
		if errors.Is(err, ErrUndecodable) {
			undecodable = append(undecodable, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		payload, _ := job.PayloadOf(j)
		given := queue.LeasedJob{Job: j, Lease: driver.LeaseOf(r), Record: r}
		described := describe(sign, given, payload, length)
		described.read = r
		leased[j.ID()] = &described
		d.held.watch(*described.lease, r.Status.ModificationTime.Add(length))
	}
	return leased, errors.Join(undecodable...)
}
