package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/codec"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/engine"
	"github.com/mongodb/amboy/queue/internal/jobstate"
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

// LeaseRequest asks for jobs to run outside.
type LeaseRequest struct {
	// Owner is the owner of the leases. It must begin with OutsideOwner.
	Owner string
	// Queues are the queues to take jobs of, each once. The first is served first.
	Queues []string
	// Types are the names of the types of the jobs.
	Types []string
	// Limit is the maximum number of jobs. It must be at least 1.
	Limit int
	// LeaseTime is the length of the leases.
	LeaseTime time.Duration
}

// LeasedJob is a job that an outside worker runs.
type LeasedJob struct {
	// Job is the decoded job.
	Job amboy.Job
	// Lease is the right to run it.
	Lease driver.Lease
	// Record is its stored form.
	Record *driver.Record
}

// Claim takes leases of jobs for outside workers. next is when more jobs may become claimable
// because a time comes or a rate allows it; zero for no such time. Jobs that must not run are ended
// or parked on the way, and jobs of other types are left in their queue. A run whose lease ran out
// after its maximum time was over is ended as a failed attempt.
func (l *Leases) Claim(ctx context.Context, req LeaseRequest) (leased []LeasedJob, next time.Time, err error) {
	for {
		claimed, err := l.driver.Claim(ctx, l.claimRequest(req))
		if err != nil {
			return nil, time.Time{}, fmt.Errorf("claiming jobs for an outside worker: %w", err)
		}
		met := false
		for _, r := range claimed.Records {
			j, isOther := l.begin(ctx, req, r)
			met = met || isOther
			if j != nil {
				leased = append(leased, LeasedJob{Job: j, Lease: driver.LeaseOf(r), Record: r})
			}
		}
		// There may be jobs of the right types behind those of types that were just met.
		if !met || len(leased) > 0 {
			return leased, nextOf(claimed, l.engine.Now()), nil
		}
	}
}

// nextOf returns when more jobs may become claimable because a time comes, or because a rate
// lets more jobs start.
func nextOf(claimed driver.Claimed, now time.Time) time.Time {
	next := claimed.Next
	for _, w := range claimed.Waits {
		if at := now.Add(w.For); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

func (l *Leases) claimRequest(req LeaseRequest) driver.ClaimRequest {
	claim := driver.ClaimRequest{
		Owner: req.Owner, Limit: req.Limit, Now: l.engine.Now(), LeaseTime: req.LeaseTime,
		Except: l.kinds.but(req.Types, l.engine.Now()),
	}
	for _, name := range req.Queues {
		claim.Queues = append(claim.Queues, driver.Demand{Queue: name, Limit: req.Limit})
	}
	return claim
}

// begin returns the job of a claimed record, or nil if it is not to run. isOther reports
// whether the record is of a kind that is left to others from then on.
func (l *Leases) begin(ctx context.Context, req LeaseRequest, r *driver.Record) (begun amboy.Job, isOther bool) {
	run := &core.Run{Record: r, Lease: driver.LeaseOf(r)}
	q, err := l.queue(ctx, r.Group)
	if err != nil {
		logging.Error(ctx, l.engine.Failure("could not open the queue of a claimed job", err))
		l.engine.HandBack(run, engine.HandBackNow)
		return nil, false
	}
	now := q.Engine.Now()
	l.kinds.add(driver.KindOf(r))
	switch {
	case core.HasExpired(r, now):
		q.Expire(ctx, run)
		return nil, false
	case !hasType(req.Types, r):
		q.Engine.HandBack(run, engine.HandBackNow)
		return nil, true
	case q.Line.IsInterruptedTooOften(r) && !hasLostAttempt(r):
		q.Engine.Park(run)
		return nil, false
	}
	begin := func(ctx context.Context, j amboy.Job) {
		switch {
		case !amboy.IsForOutside(j):
			isOther = l.leave(q, run)
		case hasLostAttempt(r):
			isOther = true // the next attempt may be ready
			failLost(j)
			endOutside(ctx, q, j, run, func(err error) { q.ReportEnd(ctx, j, err) })
		case hasRunTooLong(r):
			j.AddRetryableError(&amboy.MaxTimeError{MaxTime: r.TimeInfo.MaxTime})
			endOutside(ctx, q, j, run, func(err error) { q.ReportEnd(ctx, j, err) })
		case q.MayBegin(ctx, j, run):
			q.Publish(amboy.EventStarted, j, now)
			begun = j
		}
	}
	q.DecodeAnd(ctx, run, begin, func(ctx context.Context, err error) {
		if errors.Is(err, codec.ErrKeyUnavailable) {
			q.LeaveForKey(ctx, run, err)
			isOther = true
			return
		}
		isOther = l.leave(q, run)
	})
	return begun, isOther
}

// leave hands back a record that outside workers can't run, and leaves its kind in the queue
// for a while.
func (l *Leases) leave(q *engine.Queue, run *core.Run) (isOther bool) {
	l.kinds.leave(driver.KindOf(run.Record), q.Engine.Now())
	q.Engine.HandBack(run, engine.HandBackNow)
	return true
}

func hasType(types []string, r *driver.Record) bool {
	for _, name := range types {
		if name == r.Type {
			return true
		}
	}
	return false
}

// hasRunTooLong reports whether the maximum time of the last run was over when its lease
// was found to have run out. The server that gave the lease would otherwise have ended it.
func hasRunTooLong(r *driver.Record) bool {
	if r.TimeInfo.MaxTime <= 0 || r.Status.Interruptions.Total() == 0 || len(r.Status.Interruptions.Latest) == 0 {
		return false
	}
	last := r.Status.Interruptions.Latest[len(r.Status.Interruptions.Latest)-1]
	return strings.HasPrefix(last.Owner, OutsideOwner) && !last.At.Before(last.Start.Add(r.TimeInfo.MaxTime))
}

// hasLostAttempt reports whether a record does not run because the lease of an AttemptOwner
// ran out, so that its attempt has failed.
func hasLostAttempt(r *driver.Record) bool {
	lost := r.Status.Interruptions
	return lost.Total() > 0 && len(lost.Latest) > 0 && strings.HasPrefix(lost.Latest[len(lost.Latest)-1].Owner, AttemptOwner)
}

// EndLost ends the attempt of a job as failed if its lease, that of an AttemptOwner, was
// found to have run out. over is false while the job still runs under the lease. The job may
// have ended, or have been leased again; then EndLost changes nothing.
func (l *Leases) EndLost(ctx context.Context, id string, lease driver.Lease) (over bool, err error) {
	r, err := l.driver.Get(ctx, lease.Queue, id)
	switch {
	case amboy.IsJobNotFoundError(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("reading job %q of queue %q, whose lease may have run out: %w", id, lease.Queue, err)
	case r.Status.InProgress:
		return driver.LeaseOf(r) != lease, nil
	case r.Status.Completed || r.Name != lease.Name || !hasLostAttempt(r):
		return true, nil
	}
	if err = l.endLost(ctx, r); err != nil && !errors.Is(err, amboy.ErrLeaseLost) {
		return false, fmt.Errorf("ending the attempt of job %q of queue %q, whose lease ran out: %w", id, lease.Queue, err)
	}
	return true, nil
}

func (l *Leases) endLost(ctx context.Context, r *driver.Record) error {
	q, err := l.queue(ctx, r.Group)
	if err != nil {
		return err
	}
	j, err := q.ResolveSafely(r)
	if err != nil {
		return err
	}
	failLost(j)
	run := &core.Run{Record: r, Lease: driver.LeaseOf(r)}
	done := q.Engine.Result()
	endOutside(context.WithoutCancel(ctx), q, j, run, func(err error) { done <- err })
	return q.Engine.WaitForEnd(ctx, run, done)
}

// failLost fails the attempt of a job whose lease ran out.
func failLost(j amboy.Job) {
	if retry := j.RetryInfo(); retry.Retryable && retry.GetRemainingAttempts() > 0 {
		j.AddRetryableError(ErrLeaseRanOut)
		return
	}
	j.AddError(ErrLeaseRanOut)
}

// Resolve decodes the job of a record.
func (l *Leases) Resolve(ctx context.Context, r *driver.Record) (amboy.Job, error) {
	q, err := l.queue(ctx, r.Group)
	if err != nil {
		return nil, err
	}
	return q.ResolveSafely(r)
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

// SetProgress stores the progress of a leased job.
func (l *Leases) SetProgress(ctx context.Context, lease driver.Lease, progress amboy.JobProgress) error {
	return l.driver.SetProgress(ctx, lease, progress)
}

// Recover soon hands back the leases that ran out, those of all workers on the store. It
// does not wait for that.
func (l *Leases) Recover() { l.engine.Note(core.RecoverNow{}) }

// LeaseEnd ends the run of a leased job.
type LeaseEnd struct {
	// JobID is the ID of the job.
	JobID string
	Lease driver.Lease
	// Result is the job's result, as JSON; empty for none. If the run failed, it is kept
	// unless the job is retried.
	Result json.RawMessage
	// Failure is why the run failed; nil if it succeeded. The attempt is retried if the job
	// allows it, unless amboy.IsNonRetryable is true for the failure.
	Failure error
	// RetryIn is how long the next attempt waits; nil for the job's retry policy.
	RetryIn *time.Duration
	// Over is true if the job's time to run is known to be over.
	Over bool
	// HandBack hands the job back instead of ending the attempt, if it is not nil.
	HandBack *driver.HandBack
	// Metadata is changed with the end; an empty value removes a key. It is ignored if the
	// job is handed back.
	Metadata map[string]string
	// Record is the job as it was just read; nil to read it.
	Record *driver.Record
}

// End ends runs, or hands their jobs back, and returns an error or nil for each. The error
// wraps amboy.ErrLeaseLost if the lease is not the job's any more, and is an
// *amboy.MaxTimeError if the run took too long: then the attempt has failed with that
// error. Other errors are those of the store, or describe a result that can't be stored.
func (l *Leases) End(ctx context.Context, ends []LeaseEnd) []error {
	errs := make([]error, len(ends))
	begun := make([]*begunEnd, len(ends))
	for i, end := range ends {
		begun[i], errs[i] = l.beginEnd(ctx, end)
	}
	for i, b := range begun {
		if b == nil {
			continue
		}
		if err := b.engine.WaitForEnd(ctx, b.run, b.done); err != nil {
			errs[i] = err
		}
	}
	for i, err := range errs {
		if err != nil {
			errs[i] = fmt.Errorf("ending the run of job %q of queue %q: %w", ends[i].JobID, ends[i].Lease.Queue, err)
		}
	}
	return errs
}

// ErrJobEnded is wrapped by the error of EndJob for a job that has ended already.
var ErrJobEnded = errors.New("the job has ended already")

// endTries is how often EndJob tries again because the job changed meanwhile.
const endTries = 10

// EndJob ends a job by its ID, whether it runs, waits or is parked. A worker that runs it
// loses its lease. It is for clients that have no lease. JobID and Lease of end are ignored,
// and HandBack must be nil. The error wraps ErrJobEnded if the job has ended before, and is
// a job not found if it does not exist (see amboy.IsJobNotFoundError); otherwise it is as
// for End. EndJob returns the lease that the job had, and no lease if it did not run.
func (l *Leases) EndJob(ctx context.Context, queue, id string, end LeaseEnd) (was driver.Lease, err error) {
	for range endTries {
		was, err = l.endJob(ctx, queue, id, end)
		if !errors.Is(err, amboy.ErrLeaseLost) {
			break
		}
	}
	if err != nil {
		return driver.Lease{}, fmt.Errorf("ending job %q of queue %q: %w", id, queue, err)
	}
	return was, nil
}

func (l *Leases) endJob(ctx context.Context, queue, id string, end LeaseEnd) (was driver.Lease, err error) {
	r, err := l.driver.Get(ctx, queue, id)
	if err != nil {
		return driver.Lease{}, err
	}
	if r.Status.Completed {
		return driver.Lease{}, ErrJobEnded
	}
	q, err := l.queue(ctx, queue)
	if err != nil {
		return driver.Lease{}, err
	}
	end.JobID, end.Lease = id, driver.LeaseOf(r)
	if r.Status.InProgress {
		was = end.Lease
	}
	begun, err := l.beginEndOf(ctx, q, r, end)
	if begun != nil {
		if failed := begun.engine.WaitForEnd(ctx, begun.run, begun.done); failed != nil {
			err = failed
		}
	}
	return was, err
}

// Job returns the latest attempt of a job, with its stored form. The error is a job not
// found if there is none.
func (l *Leases) Job(ctx context.Context, queue, id string) (amboy.Job, *driver.Record, error) {
	r, err := l.driver.Get(ctx, queue, id)
	if err != nil {
		return nil, nil, fmt.Errorf("reading job %q of queue %q: %w", id, queue, err)
	}
	j, err := l.Decode(ctx, r)
	return j, r, err
}

// Decode returns the job of a stored record.
func (l *Leases) Decode(ctx context.Context, r *driver.Record) (amboy.Job, error) {
	q, err := l.queue(ctx, r.Group)
	if err != nil {
		return nil, err
	}
	j, err := q.ResolveSafely(r)
	if err != nil {
		return nil, fmt.Errorf("job %q of queue %q: %w", r.JobID(), r.Group, err)
	}
	return j, nil
}

// begunEnd is an end that is being written. The result arrives in done.
type begunEnd struct {
	engine *engine.Engine
	run    *core.Run
	done   chan error
}

// beginEnd begins to end a run; it returns nil if nothing is written. err is what the caller
// is told even if the end is stored.
func (l *Leases) beginEnd(ctx context.Context, end LeaseEnd) (begun *begunEnd, err error) {
	q, r, err := l.held(ctx, end.JobID, end.Lease, end.Record)
	if err != nil {
		return nil, err
	}
	return l.beginEndOf(ctx, q, r, end)
}

// beginEndOf is beginEnd for the record of the job, which need not run.
func (l *Leases) beginEndOf(ctx context.Context, q *engine.Queue, r *driver.Record, end LeaseEnd) (begun *begunEnd, err error) {
	j, err := q.ResolveSafely(r)
	if err != nil {
		return nil, err
	}
	setMetadata(j, end.Metadata)
	begun = &begunEnd{engine: q.Engine, run: &core.Run{Record: r, Lease: end.Lease}, done: q.Engine.Result()}
	then := func(err error) { begun.done <- err }
	late := r.Status.InProgress && r.TimeInfo.MaxTime > 0 && q.Engine.Now().Sub(r.TimeInfo.Start) > r.TimeInfo.MaxTime
	switch {
	case late || end.Over:
		err = &amboy.MaxTimeError{MaxTime: r.TimeInfo.MaxTime}
		j.AddRetryableError(err)
	case end.HandBack != nil && !r.CancelRequested:
		q.Publish(amboy.EventHandedBack, j, q.Engine.Now())
		q.Engine.Finish(begun.run, core.End{HandBack: end.HandBack}, then)
		return begun, nil
	case end.HandBack != nil:
		j.AddError(fmt.Errorf("job %q: %w", j.ID(), amboy.ErrAborted))
	case end.Failure != nil:
		j.AddRetryableError(end.Failure)
		if delayed, ok := j.(interface{ RetryIn(time.Duration) }); ok && end.RetryIn != nil {
			delayed.RetryIn(*end.RetryIn)
		}
	}
	if len(end.Result) > 0 && err == nil && end.HandBack == nil {
		err = job.SetResultJSON(j, end.Result)
		if err != nil {
			return nil, err
		}
	}
	if r.CancelRequested {
		jobstate.MarkCanceled(j)
	}
	endOutside(context.WithoutCancel(ctx), q, j, begun.run, then)
	return begun, err
}

// endOutside ends a run of an outside worker. A job that is to be retried has its next
// attempt, if the store is well, before then is called: its worker may ask for it at once.
func endOutside(ctx context.Context, q *engine.Queue, j amboy.Job, run *core.Run, then func(error)) {
	q.End(ctx, j, run, func(err error) {
		switch {
		case err != nil:
		case run.End().Next == nil && j.RetryInfo().ShouldRetry():
			q.Engine.RunInBackground(func(ctx context.Context) {
				retryAtOnce(ctx, q, j)
				then(nil)
			})
			return
		default:
			q.AfterWrite(ctx, j, run)
		}
		then(err)
	})
}

// retryAtOnce replaces a job by its next attempt, or hands it to the retry handler if that is
// not possible now.
func retryAtOnce(ctx context.Context, q *engine.Queue, j amboy.Job) {
	handler, ok := q.RetryHandler().(*BasicRetryHandler)
	if !ok || !handler.Started() {
		q.HandOver(ctx, j)
		return
	}
	err := handler.try(ctx, &jobRetry{retryKey: retryKey{j.ID(), j.RetryInfo().CurrentAttempt}, job: j, start: handler.now()})
	if err == nil {
		return
	}
	// The copy is locked by now. If the store fails, maintenance hands the job over later.
	again, err := q.GetAttempt(ctx, j.ID(), j.RetryInfo().CurrentAttempt)
	if err == nil && again.RetryInfo().ShouldRetry() {
		q.HandOver(ctx, again)
	}
}

func setMetadata(j amboy.Job, change map[string]string) {
	m, ok := j.(amboy.MetadataJob)
	if !ok {
		return
	}
	for key, value := range change {
		m.SetMetadata(key, value)
	}
}

// held returns the record of a leased job, which it reads if r is nil. The error wraps
// amboy.ErrLeaseLost if the job does not run under the lease.
func (l *Leases) held(ctx context.Context, id string, lease driver.Lease, r *driver.Record) (*engine.Queue, *driver.Record, error) {
	var err error
	if r == nil {
		r, err = l.driver.Get(ctx, lease.Queue, id)
	}
	switch {
	case amboy.IsJobNotFoundError(err):
		return nil, nil, fmt.Errorf("the job does not exist any more: %w", amboy.ErrLeaseLost)
	case err != nil:
		return nil, nil, err
	case !r.Status.InProgress || driver.LeaseOf(r) != lease:
		return nil, nil, fmt.Errorf("the job has ended, was handed back, or belongs to another worker: %w", amboy.ErrLeaseLost)
	}
	q, err := l.queue(ctx, lease.Queue)
	return q, r, err
}

// LeaseEdit changes a leased job while it runs.
type LeaseEdit struct {
	// JobID is the ID of the job.
	JobID string
	Lease driver.Lease
	// Payload replaces the payload (see job.SetPayload); nil leaves it.
	Payload *job.Payload
	// MaxAttempts is the total number of attempts; 0 leaves it.
	MaxAttempts int
	// Metadata is changed; an empty value removes a key.
	Metadata map[string]string
	// Record is the job as it was just read; nil to read it.
	Record *driver.Record
}

// Edit changes a leased job. The error wraps amboy.ErrLeaseLost if the lease is not the
// job's any more.
func (l *Leases) Edit(ctx context.Context, edit LeaseEdit) error {
	err := l.edit(ctx, edit)
	if err != nil {
		return fmt.Errorf("changing job %q of queue %q, which is leased: %w", edit.JobID, edit.Lease.Queue, err)
	}
	return nil
}

func (l *Leases) edit(ctx context.Context, edit LeaseEdit) error {
	q, r, err := l.held(ctx, edit.JobID, edit.Lease, edit.Record)
	if err != nil {
		return err
	}
	j, err := q.ResolveSafely(r)
	if err != nil {
		return err
	}
	setMetadata(j, edit.Metadata)
	if edit.MaxAttempts > 0 {
		j.UpdateRetryInfo(amboy.JobRetryOptions{MaxAttempts: &edit.MaxAttempts})
	}
	err = contain.Panic(func() (err error) {
		if edit.Payload != nil {
			err = job.SetPayload(j, *edit.Payload)
		}
		if err == nil {
			r, err = q.Record(j)
		}
		if err == nil {
			err = q.Form.Seal(r)
		}
		return err
	})
	if err != nil {
		return err
	}
	return l.driver.Save(ctx, r)
}

// ErrNoLeases is returned for queues and groups whose jobs can't be leased, because they
// are held by reference or by another package.
var ErrNoLeases = errors.New("jobs for outside workers need a queue in a store")
