package outside

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// Leased is a job that an outside worker has at the moment.
type Leased struct {
	Job
	// Worker is the name that the worker gave.
	Worker string

	lease  lease
	record *driver.Record
}

// Ack returns an acknowledgement for the lease, to be sent once and soon: Acknowledge does not
// read the job again, so a checkpoint that was stored since the job was read is overwritten.
func (l *Leased) Ack() Ack { return Ack{Token: l.Token, read: l.record} }

// Leased returns the jobs among the given ones that outside workers have at the moment, by
// their IDs. It is for protocols whose acknowledgements carry no token: the answer is about
// whichever worker has the job now. length is for how long Heartbeat renews the leases with
// the tokens of the answer, from MinLease to MaxLease. LeaseEnds is not set. The error wraps
// ErrUnknownQueue or ErrClosed, or is an *InvalidError or that of the store.
func (d *Dispatcher) Leased(ctx context.Context, queueName string, length time.Duration, ids ...string) (map[string]*Leased, error) {
	leased, err := d.leased(ctx, queueName, length, ids)
	if err != nil {
		return nil, fmt.Errorf("reading the leases of jobs: %w", err)
	}
	return leased, nil
}

func (d *Dispatcher) leased(ctx context.Context, queueName string, length time.Duration, ids []string) (map[string]*Leased, error) {
	if length < MinLease || length > MaxLease {
		return nil, invalid("lease", length, fmt.Sprintf("must be from %s to %s", MinLease, MaxLease))
	}
	if err := d.serves(queueName); err != nil {
		return nil, err
	}
	leave, err := d.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	records, err := d.leases.Find(ctx, queueName, ids)
	if err != nil {
		return nil, err
	}
	leased := make(map[string]*Leased, len(records))
	for _, r := range records {
		if !r.Status.InProgress || !strings.HasPrefix(r.Status.Owner, queue.OutsideOwner) {
			continue
		}
		j, err := d.leases.Resolve(ctx, r)
		if err != nil {
			return nil, fmt.Errorf("decoding job %q of queue %q: %w", r.JobID(), queueName, err)
		}
		payload, _ := job.PayloadOf(j)
		given := queue.LeasedJob{Job: j, Lease: driver.LeaseOf(r), Record: r}
		_, worker, _ := strings.Cut(r.Status.Owner, workerMark)
		leased[j.ID()] = &Leased{Job: describe(given, payload, length), Worker: worker, lease: leaseOf(given, length), record: r}
	}
	return leased, nil
}

// Watch makes the Dispatcher end the attempts of leases that run out (see
// LeaseRequest.LostFails), though another process has taken them. Their length, which was
// passed to Leased, says when to begin to ask the store for that.
func (d *Dispatcher) Watch(leased ...*Leased) {
	for _, l := range leased {
		d.held.watch(l.lease, l.record.Status.ModificationTime.Add(l.lease.length))
	}
}
