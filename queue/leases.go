package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/engine"
)

// OutsideOwner is the prefix of the owners of leases that outside workers have.
const OutsideOwner = "outside-"

// AttemptOwner is the prefix of the owners of leases of outside workers that end the attempt
// as failed if they run out. Other leases that run out are interruptions.
const AttemptOwner = OutsideOwner + "attempt-"

// ErrLeaseRanOut is the error of an attempt whose lease ran out (see AttemptOwner).
var ErrLeaseRanOut = errors.New("the lease of its worker ran out")

// Leases gives the jobs of queues in a store to workers outside of this program. It takes
// leases and ends runs; it neither renews leases by itself nor waits for jobs. Package
// outside is built on it. A job ends as if it had run here: with the same retries,
// retention, events and counts. It is safe for concurrent use.
//
// All calls block as long as the store takes, and return an error when their context ends.
type Leases struct {
	driver driver.Driver
	engine *engine.Engine
	// open returns a queue, which it opens if necessary.
	open func(ctx context.Context, name string) (*engine.Queue, error)
	// queues are the only queues that are served; empty for all.
	queues []string
	kinds  metKinds
}

// LeasesOf returns the leases of a queue's jobs, and false for a queue that is not a queue
// of this package over a driver. The queue must be started before a job of it is leased.
func LeasesOf(q amboy.Queue) (*Leases, bool) {
	inner, ok := overDriver(q)
	if !ok {
		return nil, false
	}
	return leasesOf(inner), true
}

// overDriver returns the queue over a driver that q is, or is made of.
func overDriver(q amboy.Queue) (*engine.Queue, bool) {
	switch q := q.(type) {
	case *engine.Queue:
		return q, true
	case interface{ overDriver() *engine.Queue }:
		return q.overDriver(), true
	default:
		return nil, false
	}
}

// LeasesOfGroup returns the leases of the jobs of all queues of a group, and false for a
// group that is not a group of this package over a driver. Queues are opened when a job of
// theirs is leased or ended.
func LeasesOfGroup(g amboy.QueueGroup) (*Leases, bool) {
	holder, ok := g.(interface{ leases() *Leases })
	if !ok {
		return nil, false
	}
	return holder.leases(), true
}

func leasesOf(q *engine.Queue) *Leases {
	return &Leases{
		driver: q.Driver,
		engine: q.Engine,
		queues: []string{q.Name},
		open: func(context.Context, string) (*engine.Queue, error) {
			if !q.IsStarted() {
				return nil, amboy.ErrQueueNotStarted
			}
			return q, nil
		},
	}
}

func (g *driverGroup) leases() *Leases { return leasesOfGroup(g, g.engine) }

func (g *mongoDBGroup) leases() *Leases { return leasesOfGroup(g, g.engines.opened()[0]) }

func leasesOfGroup(g amboy.QueueGroup, e *engine.Engine) *Leases {
	return &Leases{
		driver: e.Driver,
		engine: e,
		open: func(ctx context.Context, name string) (*engine.Queue, error) {
			q, err := g.Get(ctx, name)
			if err != nil {
				return nil, err
			}
			inner, ok := overDriver(q)
			if !ok {
				return nil, fmt.Errorf("queue %q of the group is a %T, which has no driver", name, q)
			}
			return inner, nil
		},
	}
}

// Queues returns the names of the only queues that are served; none means all queues of the
// store.
func (l *Leases) Queues() []string { return l.queues }

// Now returns the current time of the queues' clock.
func (l *Leases) Now() time.Time { return l.engine.Now() }

// Notifies reports whether Subscribe also reports the changes that other processes make.
func (l *Leases) Notifies() bool { return l.engine.Notified }

// Subscribe calls notify after changes of the store, as driver.Admin describes.
func (l *Leases) Subscribe(notify func(driver.Change)) (cancel func()) {
	return l.driver.Subscribe(notify)
}

// Queue returns a queue, which it opens if necessary.
func (l *Leases) Queue(ctx context.Context, name string) (amboy.Queue, error) {
	q, err := l.queue(ctx, name)
	if err != nil {
		return nil, err
	}
	return q, nil
}

func (l *Leases) queue(ctx context.Context, name string) (*engine.Queue, error) {
	q, err := l.open(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("opening queue %q: %w", name, err)
	}
	return q, nil
}

// Find returns the latest attempts of jobs of a queue, in no particular order. Jobs that do
// not exist are left out.
func (l *Leases) Find(ctx context.Context, queue string, ids []string) (records []*driver.Record, err error) {
	for some := range slices.Chunk(ids, engine.MaxFound) {
		found, err := engine.FindLatest(ctx, l.driver, queue, some)
		if err != nil {
			return nil, err
		}
		records = append(records, found...)
	}
	return records, nil
}

// Extend renews leases, so that they last for a time from now, and returns the lost ones.
func (l *Leases) Extend(ctx context.Context, leases []driver.Lease, leaseTime time.Duration) (lost []driver.Lease, err error) {
	return l.driver.Extend(ctx, leases, leaseTime)
}

// CancelRequests returns the leases of an owner whose jobs are to be canceled.
func (l *Leases) CancelRequests(ctx context.Context, owner string) ([]driver.Lease, error) {
	return l.driver.CancelRequests(ctx, owner)
}

// Get returns the latest attempt of a job. The error is a job not found if there is none.
func (l *Leases) Get(ctx context.Context, queue, id string) (*driver.Record, error) {
	return l.driver.Get(ctx, queue, id)
}

// Work returns which queues of the store have something to do at a time.
func (l *Leases) Work(ctx context.Context, now time.Time) (driver.Work, error) {
	return l.driver.Work(ctx, now)
}

// KeepNew keeps a note unless its kind and key have one, and returns the note that is kept then.
func (l *Leases) KeepNew(ctx context.Context, note driver.Note) (kept driver.Note, err error) {
	kept, _, err = l.driver.KeepNew(ctx, note, l.Now())
	return kept, err
}

// SetProgress stores the progress of a leased job.
func (l *Leases) SetProgress(ctx context.Context, lease driver.Lease, progress amboy.JobProgress) error {
	return l.driver.SetProgress(ctx, lease, progress)
}

// Recover soon hands back the leases that ran out, those of all workers on the store. It
// does not wait for that.
func (l *Leases) Recover() { l.engine.Note(core.RecoverNow{}) }

// ErrUndecodable is wrapped by the error of Leases.Decode for a record that this process can't decode. It
// also wraps codec.ErrKeyUnavailable if a later try, or another process, may decode it.
var ErrUndecodable = errors.New("the job can't be decoded")

// Decode returns the job of a stored record. The error wraps ErrUndecodable, or is that of opening its queue.
func (l *Leases) Decode(ctx context.Context, r *driver.Record) (amboy.Job, error) {
	q, err := l.queue(ctx, r.Group)
	if err != nil {
		return nil, err
	}
	j, err := q.ResolveSafely(r)
	if err != nil {
		return nil, fmt.Errorf("job %q of queue %q: %w: %w", r.JobID(), r.Group, ErrUndecodable, err)
	}
	return j, nil
}

// Stamped returns a lease whose Stamp is not known with the Stamp of the stored job, which must have
// its owner and count, and which it reads. The error wraps amboy.ErrLeaseLost if the job does not run under it.
func (l *Leases) Stamped(ctx context.Context, id string, lease driver.Lease) (driver.Lease, error) {
	r, err := l.driver.Get(ctx, lease.Queue, id)
	if err == nil {
		lease.Stamp = r.Stamp
	}
	_, err = heldUnder(lease, r, err)
	return lease, err
}

// heldUnder returns a record that was read, or the error of reading it. The error wraps
// amboy.ErrLeaseLost if the job does not run under the lease.
func heldUnder(lease driver.Lease, r *driver.Record, err error) (*driver.Record, error) {
	switch {
	case amboy.IsJobNotFoundError(err):
		return nil, fmt.Errorf("the job does not exist any more: %w", amboy.ErrLeaseLost)
	case err != nil:
		return nil, err
	case !r.Status.InProgress || driver.LeaseOf(r) != lease:
		return nil, fmt.Errorf("the job has ended, was handed back, or belongs to another worker: %w", amboy.ErrLeaseLost)
	default:
		return r, nil
	}
}

// held returns the record of a leased job, which it reads if r is nil. The error wraps
// amboy.ErrLeaseLost if the job does not run under the lease.
func (l *Leases) held(ctx context.Context, id string, lease driver.Lease, r *driver.Record) (*engine.Queue, *driver.Record, error) {
	var err error
	if r == nil {
		r, err = l.driver.Get(ctx, lease.Queue, id)
	}
	r, err = heldUnder(lease, r, err)
	if err != nil {
		return nil, nil, err
	}
	q, err := l.queue(ctx, lease.Queue)
	return q, r, err
}

// ErrNoLeases is returned for queues and groups whose jobs can't be leased, because they
// are held by reference or by another package.
var ErrNoLeases = errors.New("jobs for outside workers need a queue in a store")
