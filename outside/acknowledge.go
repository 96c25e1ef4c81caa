package outside

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// Acknowledge does what workers say about their jobs, at most MaxBatch at a time, and
// returns an error or nil for each. The error wraps ErrLeaseLost for a lease that the worker
// no longer has, and then nothing has changed; ErrBadToken for a token that is none. It is
// an *amboy.MaxTimeError if the time to run was over, and then the attempt has failed with
// it; an *InvalidError or *amboy.InvalidJobError if the acknowledgement is not valid, or an earlier
// one of the call ends the run; and
// otherwise the error of the store, after which the acknowledgement may be sent again.
// Acknowledgements without an error are stored. Acknowledge blocks until the store has
// answered, or ctx ends.
//
// A job that is to be canceled ends as canceled unless it is completed.
func (d *Dispatcher) Acknowledge(ctx context.Context, acks ...Ack) []error {
	errs := make([]error, len(acks))
	err := d.enter()
	if err == nil && len(acks) > MaxBatch {
		d.leave()
		err = invalid("acknowledgements", len(acks), fmt.Sprintf("must be at most %d", MaxBatch))
	}
	if err != nil {
		for i := range errs {
			errs[i] = fmt.Errorf("acknowledging jobs: %w", err)
		}
		return errs
	}
	defer d.leave()
	var ends []queue.LeaseEnd
	var places []int
	ended := make(map[driver.Lease]bool, len(acks))
	for i, ack := range acks {
		end, isEnd, err := d.endOf(ctx, ack)
		if isEnd && ended[end.Lease] {
			err = invalid("token", end.JobID, "must not be that of a job whose run another acknowledgement of the call ends")
		}
		switch {
		case err != nil:
			errs[i] = fmt.Errorf("acknowledging a job: %w", err)
		case isEnd:
			ends, places = append(ends, end), append(places, i)
			ended[end.Lease] = true
		}
	}
	for n, err := range d.leases.End(ctx, ends) {
		if endsRun(err) {
			d.held.forget(ends[n].Lease)
		}
		if err != nil {
			errs[places[n]] = fmt.Errorf("acknowledging a job: %w", err)
		}
	}
	return errs
}

// endsRun reports whether a run is over after an end that returned the error. After other errors it continues.
func endsRun(err error) bool {
	if err == nil || errors.Is(err, ErrLeaseLost) {
		return true
	}
	_, tookTooLong := errors.AsType[*amboy.MaxTimeError](err)
	return tookTooLong
}

// endOf returns how an acknowledgement ends its run. isEnd is false if the run continues.
func (d *Dispatcher) endOf(ctx context.Context, ack Ack) (end queue.LeaseEnd, isEnd bool, err error) {
	err = ack.validate(d.opts.MaxPayload)
	if err != nil {
		return end, false, err
	}
	var l lease
	if ack.lease != nil {
		l, err = *ack.lease, d.serves(ack.lease.Queue)
	} else {
		l, err = d.leaseOf(ctx, ack.Token)
	}
	if err != nil {
		return end, false, err
	}
	end = queue.LeaseEnd{JobID: l.jobID, Lease: l.Lease, Metadata: ack.Metadata, Record: ack.read}
	switch {
	case isOver(d.held.runBy(l), time.Now()):
		end.Metadata, end.Over = nil, true
	case ack.Complete != nil || ack.Fail != nil:
		ack.end(&end)
	case ack.Release != nil:
		end.HandBack = d.handBackOf(ack.Release)
	default:
		err = d.leases.Edit(ctx, ack.edit(l))
		if err != nil || ack.Checkpoint.Again == nil {
			return end, false, err
		}
		end.Record, end.HandBack = nil, d.handBackOf(ack.Checkpoint.Again)
	}
	return end, true, nil
}

// end describes how a completion or a failure ends a run.
func (a *Ack) end(end *queue.LeaseEnd) {
	if a.Complete != nil {
		end.Result = a.Complete.Result
		if a.Complete.Bytes != nil {
			end.Result = storedBytes(a.Complete.Bytes)
		}
		return
	}
	end.Failure, end.RetryIn = a.Fail.err(), a.Fail.RetryIn
	if a.Fail.Bytes != nil {
		end.Result = storedBytes(a.Fail.Bytes)
	}
}

// edit returns the change of a checkpoint.
func (a *Ack) edit(l lease) queue.LeaseEdit {
	return queue.LeaseEdit{
		JobID: l.jobID, Lease: l.Lease, Payload: a.Checkpoint.Payload, MaxAttempts: a.Checkpoint.MaxAttempts, Metadata: a.Metadata, Record: a.read,
	}
}

func (d *Dispatcher) leaseOf(ctx context.Context, t Token) (lease, error) {
	sign, err := d.signer(ctx)
	if err != nil {
		return lease{}, err
	}
	l, err := sign.lease(t)
	if err == nil {
		err = d.serves(l.Queue)
	}
	if err == nil && l.unstamped {
		l.Lease, err = d.leases.Stamped(ctx, l.jobID, l.Lease)
	}
	return l, err
}

// defaultReason is shown to operators while a released job waits, unless its worker gave
// another.
const defaultReason = "its worker released it"

func (d *Dispatcher) handBackOf(r *Release) *driver.HandBack {
	if r.Delay == 0 {
		return &driver.HandBack{}
	}
	now := d.leases.Now()
	reason := r.Reason
	if reason == "" {
		reason = defaultReason
	}
	return &driver.HandBack{NotBefore: now.Add(r.Delay), Since: now, Reason: reason}
}

// Heartbeat renews leases, for as long as each was taken for, stores the progress of their
// jobs, and returns which jobs are to be canceled. A lease is not renewed beyond the job's
// time to run; if that is over, the attempt fails and Err is an *amboy.MaxTimeError. At most
// MaxBatch are allowed in a call. An error of the store is returned for all, and then the
// leases may or may not have been renewed.
func (d *Dispatcher) Heartbeat(ctx context.Context, beats ...Beat) []Beaten {
	answers := make([]Beaten, len(beats))
	err := d.enter()
	if err == nil && len(beats) > MaxBatch {
		d.leave()
		err = invalid("heartbeats", len(beats), fmt.Sprintf("must be at most %d", MaxBatch))
	}
	if err != nil {
		for i := range answers {
			answers[i].Err = fmt.Errorf("renewing leases: %w", err)
		}
		return answers
	}
	defer d.leave()
	r := renewal{Dispatcher: d, beats: beats, answers: answers, leases: make([]lease, len(beats))}
	r.run(ctx)
	for i := range answers {
		if answers[i].Err != nil {
			answers[i].Err = fmt.Errorf("renewing a lease: %w", answers[i].Err)
		}
	}
	return answers
}

// renewal is a call of Heartbeat.
type renewal struct {
	*Dispatcher
	beats   []Beat
	leases  []lease
	answers []Beaten
}

func (r *renewal) run(ctx context.Context) {
	byLength := map[time.Duration][]int{}
	var over []int
	now := time.Now()
	for i := range r.beats {
		err := r.beats[i].validate()
		if err == nil {
			r.leases[i], err = r.leaseOf(ctx, r.beats[i].Token)
		}
		if err != nil {
			r.answers[i].Err = err
			continue
		}
		runBy := r.held.runBy(r.leases[i])
		if isOver(runBy, now) {
			over = append(over, i)
			continue
		}
		length := lengthOf(r.leases[i], runBy, now)
		byLength[length] = append(byLength[length], i)
	}
	r.endOver(ctx, over)
	for length, places := range byLength {
		r.extend(ctx, length, places)
	}
	r.storeProgress(ctx)
	r.findCanceled(ctx)
}

// lengthOf returns for how long a lease is renewed: not for longer than the time to run, and
// a little more (see runGrace).
func lengthOf(l lease, runBy, now time.Time) time.Duration {
	if runBy.IsZero() {
		return l.length
	}
	left := runBy.Sub(now)
	if l.length < left {
		return l.length
	}
	return left + runGrace
}

func (r *renewal) endOver(ctx context.Context, places []int) {
	ends := make([]queue.LeaseEnd, len(places))
	for n, i := range places {
		ends[n] = queue.LeaseEnd{JobID: r.leases[i].jobID, Lease: r.leases[i].Lease, Over: true}
	}
	for n, err := range r.Dispatcher.leases.End(ctx, ends) {
		if endsRun(err) {
			r.held.forget(ends[n].Lease)
		}
		r.answers[places[n]].Err = err
	}
}

func (r *renewal) extend(ctx context.Context, length time.Duration, places []int) {
	sent := time.Now()
	isLost := make(map[driver.Lease]bool, len(places)) // a job may have several heartbeats
	for _, i := range places {
		isLost[r.leases[i].Lease] = false
	}
	lost, err := r.Dispatcher.leases.Extend(ctx, slices.Collect(maps.Keys(isLost)), length)
	for _, l := range lost {
		isLost[l] = true
	}
	var blocked *driver.BlockedLeasesError
	allFailed := err != nil && !errors.As(err, &blocked)
	for _, i := range places {
		l := r.leases[i]
		switch {
		case allFailed, blocked != nil && slices.Contains(blocked.Leases, l.Lease):
			r.answers[i].Err = err
		case isLost[l.Lease]:
			r.answers[i].Err = fmt.Errorf("job %q of queue %q has ended, was handed back, or belongs to another worker: %w", l.jobID, l.Queue, ErrLeaseLost)
			r.held.forget(l.Lease)
		default:
			r.answers[i].LeaseEnds = sent.Add(min(length, l.length))
			r.held.renew(l, sent.Add(length))
		}
	}
}

// storeProgress stores the progress that was sent with renewed leases.
func (r *renewal) storeProgress(ctx context.Context) {
	byQueue := map[string][]int{}
	for i := range r.beats {
		b := &r.beats[i]
		if r.answers[i].Err == nil && (b.Progress != nil || len(b.Log) > 0) {
			byQueue[r.leases[i].Queue] = append(byQueue[r.leases[i].Queue], i)
		}
	}
	for name, places := range byQueue {
		stored, err := r.storedProgress(ctx, name, places)
		for _, i := range places {
			failure := err
			if failure == nil {
				failure = r.storeOne(ctx, &r.beats[i], r.leases[i], stored)
			}
			if failure != nil {
				r.answers[i] = Beaten{Err: failure}
			}
		}
	}
}

// storedProgress reads the progress of jobs of a queue, by ID. The last heartbeat may have reached
// another server, so this one can't remember it.
func (r *renewal) storedProgress(ctx context.Context, name string, places []int) (map[string]*amboy.JobProgress, error) {
	ids := make([]string, len(places))
	for n, i := range places {
		ids[n] = r.leases[i].jobID
	}
	records, err := r.Dispatcher.leases.Find(ctx, name, ids)
	stored := make(map[string]*amboy.JobProgress, len(records))
	for _, found := range records {
		stored[found.JobID()] = found.Progress
	}
	return stored, err
}

// storeOne adds what a heartbeat has reported to the stored progress of its job.
func (r *renewal) storeOne(ctx context.Context, b *Beat, l lease, stored map[string]*amboy.JobProgress) error {
	var progress amboy.JobProgress
	if earlier := stored[l.jobID]; earlier != nil {
		progress = earlier.Clone()
	}
	now := r.Dispatcher.leases.Now()
	if b.Progress != nil {
		progress.Report(b.Progress.Fraction, b.Progress.Message, now)
	}
	progress.Time = now
	for _, text := range b.Log {
		progress.AddLine(amboy.LogLine{Time: now, Text: text})
	}
	err := r.Dispatcher.leases.SetProgress(ctx, l.Lease, progress)
	if err == nil {
		stored[l.jobID] = &progress // for another heartbeat of the job in the same call
	}
	return err
}

// findCanceled finds out which of the renewed jobs are to be canceled.
func (r *renewal) findCanceled(ctx context.Context) {
	canceled := map[driver.Lease]bool{}
	failed := map[string]error{}
	asked := map[string]bool{}
	for i, l := range r.leases {
		if r.answers[i].Err != nil || asked[l.Owner] {
			continue
		}
		asked[l.Owner] = true
		requests, err := r.Dispatcher.leases.CancelRequests(ctx, l.Owner)
		failed[l.Owner] = err
		for _, request := range requests {
			canceled[request] = true
		}
	}
	for i, l := range r.leases {
		switch {
		case r.answers[i].Err != nil:
		case failed[l.Owner] != nil:
			r.answers[i] = Beaten{Err: failed[l.Owner]}
		default:
			r.answers[i].Cancel = canceled[l.Lease]
		}
	}
}
