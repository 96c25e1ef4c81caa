package outside

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/aside"
	"github.com/mongodb/amboy/internal/lazycontext"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// ErrClosed is wrapped by the errors of calls on a closed Dispatcher.
var ErrClosed = errors.New("dispatcher is closed")

// ErrTooManyWaiting is wrapped by the error of a Lease that would have to wait while
// Options.MaxWaiting others do.
var ErrTooManyWaiting = errors.New("too many workers wait for jobs")

// ErrUnsupported is wrapped by the errors of New and NewGroup for queues that outside workers
// can't be given jobs of.
var ErrUnsupported = queue.ErrNoLeases

// ErrUndecodable is wrapped by the error of Leased if jobs can't be decoded.
var ErrUndecodable = queue.ErrUndecodable

// ErrUnknownQueue is wrapped by the error of a call for a queue that the Dispatcher does not
// serve.
var ErrUnknownQueue = errors.New("queue is not served")

// Options configure a Dispatcher.
type Options struct {
	// MaxPayload is the maximum size, in bytes, of the payload of a Checkpoint. Default:
	// job.MaxPayloadBytes. It must not be negative.
	MaxPayload int
	// MaxWaiting is the maximum number of calls of Lease that wait at the same time.
	// Default: 20,000. It must not be negative.
	MaxWaiting int
	// PollInterval is how often a Dispatcher with waiting workers asks a store without
	// notifications for jobs that other processes put. Default: one second. It must not be
	// negative.
	PollInterval time.Duration
}

const (
	defaultMaxWaiting   = 20_000
	defaultPollInterval = time.Second
)

// Validate sets the defaults. It returns an error that names every field that is out of
// range.
func (o *Options) Validate() error {
	var errs []error
	if o.MaxPayload < 0 {
		errs = append(errs, fmt.Errorf("invalid dispatcher options: MaxPayload must not be negative (is %d)", o.MaxPayload))
	}
	if o.MaxWaiting < 0 {
		errs = append(errs, fmt.Errorf("invalid dispatcher options: MaxWaiting must not be negative (is %d)", o.MaxWaiting))
	}
	if o.PollInterval < 0 {
		errs = append(errs, fmt.Errorf("invalid dispatcher options: PollInterval must not be negative (is %s)", o.PollInterval))
	}
	if o.MaxPayload == 0 {
		o.MaxPayload = job.MaxPayloadBytes
	}
	if o.MaxWaiting == 0 {
		o.MaxWaiting = defaultMaxWaiting
	}
	if o.PollInterval == 0 {
		o.PollInterval = defaultPollInterval
	}
	return errors.Join(errs...)
}

// Dispatcher leases jobs to outside workers. Any number of processes on a store may have
// one. It is safe for concurrent use.
//
// Close must be called before the queue or group is closed.
type Dispatcher struct {
	opts   Options
	leases *queue.Leases
	// owner is the part of the owner of all leases that identifies this Dispatcher.
	owner       string
	unsubscribe func()
	// key signs the tokens; nil until it is needed.
	key atomic.Pointer[signer]
	// open ends with the Dispatcher.
	open context.Context
	end  context.CancelFunc
	// background counts the goroutines of the Dispatcher and the calls of Lease.
	background sync.WaitGroup

	mu     sync.Mutex
	closed bool
	lines  lines
	held   held
}

// New returns a Dispatcher for the jobs of a queue, which must be started. It returns an
// error if the options are not valid, and one that wraps ErrUnsupported for a queue that
// holds its jobs by reference.
func New(q amboy.Queue, opts Options) (*Dispatcher, error) {
	leases, ok := queue.LeasesOf(q)
	if !ok {
		return nil, fmt.Errorf("making a dispatcher of a %T: %w", q, ErrUnsupported)
	}
	return newDispatcher(leases, opts)
}

// NewGroup returns a Dispatcher for the jobs of all queues of a group. It returns an error
// if the options are not valid, and one that wraps ErrUnsupported for a group of queues that
// hold their jobs by reference.
func NewGroup(g amboy.QueueGroup, opts Options) (*Dispatcher, error) {
	leases, ok := queue.LeasesOfGroup(g)
	if !ok {
		return nil, fmt.Errorf("making a dispatcher of a %T: %w", g, ErrUnsupported)
	}
	return newDispatcher(leases, opts)
}

func newDispatcher(leases *queue.Leases, opts Options) (*Dispatcher, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	d := &Dispatcher{opts: opts, leases: leases, owner: queue.OutsideOwner + rand.Text()}
	d.open, d.end = context.WithCancel(context.Background())
	d.lines.init(d)
	d.held.init(d)
	d.unsubscribe = leases.Subscribe(d.lines.changed)
	return d, nil
}

// Close ends all waiting calls of Lease, which return ErrClosed, and then waits for the
// goroutines of the Dispatcher, until ctx ends. Leases stay valid: workers can acknowledge
// them through another Dispatcher on the store. It returns the error of ctx if that ended
// first. Closing a closed Dispatcher only waits.
func (d *Dispatcher) Close(ctx context.Context) error {
	d.mu.Lock()
	first := !d.closed
	d.closed = true
	d.lines.close()
	d.held.close()
	d.mu.Unlock()
	if first {
		d.unsubscribe()
		d.end()
	}
	done := make(chan struct{})
	go func() { // It ends with the goroutines that it waits for.
		d.background.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("closing a dispatcher: %w", ctx.Err())
	}
}

// enter begins a call. leave must be called at its end.
func (d *Dispatcher) enter() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return ErrClosed
	}
	d.background.Add(1)
	return nil
}

func (d *Dispatcher) leave() { d.background.Done() }

// serves returns an error for a queue that the Dispatcher does not serve.
func (d *Dispatcher) serves(queues ...string) error {
	only := d.leases.Queues()
	if len(only) == 0 {
		return nil
	}
	for _, name := range queues {
		if name != only[0] {
			return fmt.Errorf("queue %q: %w", name, ErrUnknownQueue)
		}
	}
	return nil
}

// Lease takes leases of jobs. If there are none, it waits, up to Wait, and returns none if
// there still are none then. It returns an *InvalidError for an invalid request, and errors
// that wrap ErrUnknownQueue, ErrTooManyWaiting or ErrClosed. If ctx ends, it returns its
// error, and no job is leased. Jobs whose dependencies, times or scopes do not allow a run
// are not leased, and the jobs of a paused queue are not. A queue that does not exist has no
// jobs.
//
// Workers with the same queues and types are served in FIFO order. A waiting call costs
// nothing while no job comes.
func (d *Dispatcher) Lease(ctx context.Context, req LeaseRequest) ([]Job, error) {
	return d.lease(ctx, &req)
}

// lease does all but the wait aside if ctx requires that: a server may have thousands of calls that wait.
func (d *Dispatcher) lease(ctx context.Context, req *LeaseRequest) (jobs []Job, err error) {
	var w *worker
	aside.DoIfSmall(ctx, func() { w, jobs, err = d.beginLease(ctx, req) })
	if w != nil {
		jobs, err = w.wait(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("leasing jobs: %w", err)
	}
	return jobs, nil
}

// beginLease leases jobs, or returns the worker that is to wait for them.
func (d *Dispatcher) beginLease(ctx context.Context, req *LeaseRequest) (*worker, []Job, error) {
	if err := req.Validate(); err != nil {
		return nil, nil, err
	}
	if err := d.serves(req.Queues...); err != nil {
		return nil, nil, err
	}
	if err := d.enter(); err != nil {
		return nil, nil, err
	}
	defer d.leave()
	return d.lines.begin(ctx, req)
}

// callLimit bounds the calls of the store for a lease. They do not end with the context of
// the caller, because the store may have given leases by then.
const callLimit = 10 * time.Second

const (
	// maxLeasedBytes is the maximum size of all payloads of one lease, except for the first.
	maxLeasedBytes = 32 << 20
	// leasedAtOnce is how many jobs are claimed before the size of their payloads is known: all are in
	// memory then, and what does not fit is handed back.
	leasedAtOnce = maxLeasedBytes / job.MaxPayloadBytes
)

// workerMark separates the worker from the rest of the owner of a lease.
const workerMark = "/"

// claim takes leases without waiting. next is when there may be more because a time comes.
func (d *Dispatcher) claim(ctx context.Context, req *LeaseRequest) (jobs []Job, next time.Time, err error) {
	err = ctx.Err()
	if err != nil {
		return nil, time.Time{}, err
	}
	call, cancel := lazycontext.WithTimeout(context.WithoutCancel(ctx), callLimit)
	defer cancel()
	var sign *signer
	if !req.NoTokens {
		if sign, err = d.signer(call); err != nil {
			return nil, time.Time{}, err
		}
	}
	owner := d.owner
	if req.LostFails {
		owner = queue.AttemptOwner + strings.TrimPrefix(owner, queue.OutsideOwner)
	}
	if req.Worker != "" {
		owner += workerMark + req.Worker
	}
	var back []queue.LeaseEnd
	size, began := 0, time.Now()
	for n := min(req.Limit, leasedAtOnce); n > 0; n = min(req.Limit-len(jobs), roomFor(size, len(jobs))) {
		var leased []queue.LeasedJob
		taken := time.Now()
		leased, next, err = d.leases.Claim(call, queue.LeaseRequest{
			Owner: owner, Queues: turned(req.Queues), Types: req.Types, Limit: n, LeaseTime: req.Lease,
		})
		for _, given := range leased {
			payload, _ := job.PayloadOf(given.Job)
			size += payload.Size()
			tooMuch := len(jobs) > 0 && size > maxLeasedBytes
			if tooMuch || ctx.Err() != nil || d.open.Err() != nil {
				back = append(back, queue.LeaseEnd{JobID: given.Job.ID(), Lease: given.Lease, HandBack: &driver.HandBack{}})
				continue
			}
			jobs = append(jobs, d.given(sign, given, payload, req.Lease, taken))
		}
		if len(leased) < n || len(back) > 0 {
			break
		}
	}
	if err != nil && len(jobs) == 0 {
		return nil, time.Time{}, err
	}
	d.handBack(ctx, back)
	d.cover(call, jobs, time.Since(began))
	jobs, err = d.lengthen(call, sign, req, jobs)
	if ctx.Err() != nil {
		d.takeBack(call, jobs)
		return nil, time.Time{}, ctx.Err()
	}
	jobs = d.withTime(call, jobs)
	if len(jobs) > 0 {
		err = nil // the worker gets the others
	}
	return jobs, next, err
}

// roomFor returns how many more jobs probably fit into a lease of a number of jobs, at least one, whose
// payloads have a size.
func roomFor(size, jobs int) int { return max(0, maxLeasedBytes-size) / max(1, size/jobs) }

// withTime returns the jobs whose leases have not run out. The store may have taken longer for the
// claim, or for the end of another job that was claimed with them. It hands the others back, because
// another worker may have them by now.
func (d *Dispatcher) withTime(ctx context.Context, jobs []Job) (current []Job) {
	now := time.Now()
	current = jobs[:0]
	var late []Job
	for _, j := range jobs {
		if j.LeaseEnds.After(now) {
			current = append(current, j)
		} else {
			late = append(late, j)
		}
	}
	d.takeBack(ctx, late)
	return current
}

// TakeBack hands back jobs that Lease has returned and that do not reach their worker, for instance
// because its connection is broken, even if ctx has ended. A job for which that fails is leased again
// when its lease has run out. TakeBack blocks until the store has answered, for ten seconds at most. It
// does nothing if the Dispatcher is closed.
func (d *Dispatcher) TakeBack(ctx context.Context, jobs []Job) {
	if err := d.enter(); err != nil {
		return
	}
	defer d.leave()
	d.takeBack(ctx, jobs)
}

// takeBack hands back jobs that were described to a worker that does not get them, even if ctx has
// ended.
func (d *Dispatcher) takeBack(ctx context.Context, jobs []Job) {
	var back []queue.LeaseEnd
	for i := range jobs {
		l, err := jobs[i].held()
		if err != nil {
			logging.Error(ctx, d.failure("could not hand back a job that no worker was given", jobs[i].Queue, jobs[i].ID, err))
			continue
		}
		d.held.forget(l.Lease)
		back = append(back, queue.LeaseEnd{JobID: l.jobID, Lease: l.Lease, HandBack: &driver.HandBack{}})
	}
	d.handBack(ctx, back)
}

// handBack hands back jobs that no worker was given, even if ctx has ended.
func (d *Dispatcher) handBack(ctx context.Context, back []queue.LeaseEnd) {
	if len(back) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callLimit)
	defer cancel()
	for i, err := range d.leases.End(ctx, back) {
		if err != nil && !errors.Is(err, ErrLeaseLost) {
			logging.Error(ctx, d.failure("could not hand back a job that no worker was given", back[i].Lease.Queue, back[i].JobID, err))
		}
	}
}

func (d *Dispatcher) failure(what, queueName, id string, err error) message.Fields {
	return message.Fields{"message": what, "queue": queueName, "job_id": id, "owner": d.owner, "error": err.Error()}
}

// given describes a leased job to its worker, and remembers the lease.
func (d *Dispatcher) given(sign *signer, g queue.LeasedJob, payload job.Payload, length time.Duration, taken time.Time) Job {
	given := describe(sign, g, payload, length)
	given.LeaseEnds = taken.Add(length)
	d.held.add(*given.lease, taken, g.Record.TimeInfo.MaxTime)
	return given
}

func leaseOf(g queue.LeasedJob, length time.Duration) lease {
	l := lease{Lease: g.Lease, jobID: g.Job.ID(), jobType: g.Job.Type().Name, length: length}
	if times := g.Record.TimeInfo; times.MaxTime > 0 {
		l.runBy = times.Start.Add(times.MaxTime)
	}
	return l
}

// describe describes a leased job to its worker. It has no token if sign is nil.
func describe(sign *signer, g queue.LeasedJob, payload job.Payload, length time.Duration) Job {
	l := leaseOf(g, length)
	retry := g.Job.RetryInfo()
	attempts := 1
	if retry.Retryable {
		attempts = retry.GetMaxAttempts()
	}
	jobType := g.Job.Type()
	_, worker, _ := strings.Cut(g.Record.Status.Owner, workerMark)
	return Job{
		Token: sign.token(l), lease: &l, Queue: l.Queue, ID: l.jobID, Type: jobType.Name, Version: jobType.Version,
		Attempt: retry.CurrentAttempt, MaxAttempts: attempts, Payload: payload,
		Interruptions: g.Record.Status.Interruptions.Total(),
		RunBy:         l.runBy, Created: g.Record.TimeInfo.Created, Priority: amboy.PriorityOf(g.Job),
		Tags: amboy.TagsOf(g.Job), Metadata: amboy.MetadataOf(g.Job), Worker: worker,
	}
}

// runGrace is how much longer than its time to run a lease lasts, so that the attempt is
// ended for its time and not interrupted for its lease.
const runGrace = 5 * time.Second

// cover renews the leases that would run out at about the time when the jobs must have
// ended. A lease counts from before its claim, which took a time, and a run from during that.
func (d *Dispatcher) cover(ctx context.Context, jobs []Job, took time.Duration) {
	for i := range jobs {
		j := &jobs[i]
		if j.RunBy.IsZero() || j.RunBy.After(j.LeaseEnds.Add(took)) || j.LeaseEnds.After(j.RunBy.Add(runGrace)) {
			continue
		}
		if err := d.coverOne(ctx, j); err != nil {
			logging.Error(ctx, d.failure("could not renew a lease that ends with the time to run", j.Queue, j.ID, err))
		}
	}
}

func (d *Dispatcher) coverOne(ctx context.Context, j *Job) error {
	l, err := j.held()
	if err != nil {
		return err
	}
	sent := time.Now()
	length := d.held.runBy(l).Sub(sent) + runGrace
	lost, err := d.leases.Extend(ctx, []driver.Lease{l.Lease}, length)
	if err == nil && len(lost) == 0 {
		d.held.renew(l, sent.Add(length))
	}
	return err
}

// lengthen renews the leases that must last longer than the request says. It returns the jobs
// whose leases last long enough, and the error of the others, which it hands back: their worker
// can't renew a lease that is too short.
func (d *Dispatcher) lengthen(ctx context.Context, sign *signer, req *LeaseRequest, jobs []Job) (kept []Job, err error) {
	if req.LeaseOf == nil {
		return jobs, nil
	}
	kept = jobs[:0]
	var back []Job
	for i := range jobs {
		j := &jobs[i]
		length := min(req.LeaseOf(*j), MaxLease)
		if length <= req.Lease {
			kept = append(kept, *j)
			continue
		}
		l, failure := j.held()
		sent := time.Now()
		var lost []driver.Lease
		if failure == nil {
			lost, failure = d.leases.Extend(ctx, []driver.Lease{l.Lease}, length)
		}
		switch {
		case failure != nil:
			logging.Error(ctx, d.failure("could not lengthen a lease", j.Queue, j.ID, failure))
			back, err = append(back, *j), failure
			continue
		case len(lost) > 0:
			d.held.forget(l.Lease)
			continue
		}
		l.length = length
		j.Token, j.lease, j.LeaseEnds = sign.token(l), &l, sent.Add(length)
		d.held.renew(l, j.LeaseEnds)
		kept = append(kept, *j)
	}
	d.takeBack(ctx, back)
	return kept, err
}

// turned returns queues beginning at a random one, so that each is served first at times.
func turned(queues []string) []string {
	if len(queues) < 2 {
		return queues
	}
	first := mathrand.IntN(len(queues))
	return slices.Concat(queues[first:], queues[:first])
}
