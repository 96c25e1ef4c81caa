package queue

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

// engine is what the queues of one process on one store share: they claim
// together, their leases are renewed together, and the store is maintained once
// for all of them.
type engine struct {
	// id owns the leases.
	id          string
	driver      driver.Driver
	ownsDriver  bool
	now         func() time.Time
	leaseTime   time.Duration
	claims      *claims
	leases      *leases
	completions *completions
	forgetting  forgetting
	announcer   *announcer
	activity    *activity.Recorder
	// notified is true where the driver tells of changes, and changes counts them.
	notified    bool
	changes     atomic.Int64
	unsubscribe func()

	heartbeat wakeTimer // renews leases
	cancels   wakeTimer // looks for jobs that are to be canceled
	recovery  wakeTimer // maintains the store
	handOvers wakeTimer // looks for retries that somebody left
	// lookForRetries is how often it does.
	lookForRetries time.Duration
	// open ends with the engine, and then what is done in the background does.
	open      context.Context
	end       context.CancelFunc
	closeOnce sync.Once

	mu     sync.Mutex
	queues map[string]*driverQueue
	// begun are the queues in which it was not yet looked for retries.
	begun []string
	// lookedAt is when it was looked in all of them.
	lookedAt time.Time
	// maintained is true from when the first queue began.
	maintained bool
	// wantedWorkers are the numbers of workers that people want queues to have.
	wantedWorkers map[string]int
	// workersSet counts how often somebody set one here.
	workersSet int
}

// newEngine makes an engine with the options of its queues that concern the store,
// which were validated. workers is the number of jobs that run at once, over all
// queues; 0 where their own numbers of workers are the only limit.
func newEngine(opts DriverQueueOptions, workers int) *engine {
	e := &engine{
		id:             newOwnerID("driver"),
		driver:         opts.Driver,
		ownsDriver:     opts.CloseDriver,
		now:            time.Now,
		leaseTime:      opts.LockTimeout,
		lookForRetries: opts.Retryable.StaleRetryingMonitorInterval,
		notified:       opts.Driver.Features().Notifications,
		queues:         map[string]*driverQueue{},
		wantedWorkers:  map[string]int{},
	}
	if opts.now != nil {
		e.now = opts.now
	}
	e.open, e.end = context.WithCancel(context.Background())
	e.announcer = newAnnouncer(e)
	e.activity = e.announcer.activity
	e.claims = newClaims(workers, e, e.inBackground(e.timeCame))
	e.leases = newLeases(e.claims.done)
	// A store that outlives the process takes its time, so that it pays to ask it
	// for several things at once.
	e.completions = newCompletions(e.driver, e.driver.Features().Durable)
	e.heartbeat.fire = e.inBackground(e.renew)
	e.cancels.fire = e.inBackground(e.cancelRequested)
	e.recovery.fire = e.inBackground(e.maintain)
	e.handOvers.fire = e.inBackground(e.takeUpRetries)
	if !e.notified {
		e.claims.poll = opts.PollInterval
	}
	e.unsubscribe = e.driver.Subscribe(e.storeChanged)
	return e
}

// inBackground makes a task that no caller waits for end with the engine, and
// survive a panic, of the driver for instance.
func (e *engine) inBackground(task func(context.Context)) func() {
	return func() {
		err := errorOfPanic(func() error {
			task(e.open)
			return nil
		})
		e.report("a task in the background panicked", err)
	}
}

// report logs an error of what is done in the background, but for those that the
// end of the engine brings.
func (e *engine) report(what string, err error) {
	if err != nil && e.open.Err() == nil {
		logging.Error(e.open, e.failure(what, err))
	}
}

// add makes a queue share the engine, before it is started.
func (e *engine) add(q *driverQueue) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queues[q.name] = q
}

// remove ends that for a queue that was closed.
func (e *engine) remove(q *driverQueue) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.queues[q.name] == q {
		delete(e.queues, q.name)
		e.announcer.queuesChanged()
	}
}

func (e *engine) queue(name string) *driverQueue {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.queues[name]
}

// queueNames names the queues of the engine, in no order.
func (e *engine) queueNames() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Keys(e.queues))
}

// manyQueues is the number of queues from which on a query does not name them.
const manyQueues = 500

// toLookAt are the queues in which to look for retries: those that have begun since
// the last time or, where it is time for that, all of them.
func (e *engine) toLookAt(now time.Time) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	names := e.begun
	e.begun = nil
	if now.Sub(e.lookedAt) >= e.lookForRetries {
		e.lookedAt = now
		names = slices.Collect(maps.Keys(e.queues))
	}
	return names
}

// begin lets a queue that has started have its jobs. What earlier processes left
// behind in it is looked for now; what they ran, when the first queue begins, and
// then with each heartbeat.
func (e *engine) begin(q *driverQueue) {
	q.line.resume()
	e.mu.Lock()
	first := !e.maintained
	e.maintained = true
	e.begun = append(e.begun, q.name)
	e.mu.Unlock()
	if first {
		e.recovery.set(e.now())
	}
	e.handOvers.set(e.now())
	e.obeyFor(q)
	e.announcer.queueStarted()
}

// heartbeatPeriod is how often leases are renewed, so that one late renewal, or
// two, lose none.
func (e *engine) heartbeatPeriod() time.Duration { return e.leaseTime / 4 }

// driverTimeout bounds the calls on the driver that no caller waits for, and the
// one at Close that hands back what was claimed and not run.
const driverTimeout = 10 * time.Second

// close ends the engine after its queues, and closes the driver where it is the
// engine's own.
func (e *engine) close(ctx context.Context) {
	e.closeOnce.Do(func() {
		e.leaveStore()
		e.stopTimers()
		e.completions.close()
		e.announcer.close(ctx)
		if !e.ownsDriver {
			return
		}
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), driverTimeout)
		defer cancel()
		if err := e.driver.Close(closing); err != nil {
			logging.Error(ctx, e.failure("could not close the driver", err))
		}
	})
}

// stopTimers ends what is done when a time comes.
func (e *engine) stopTimers() {
	for _, timer := range []*wakeTimer{&e.claims.timer, &e.heartbeat, &e.cancels, &e.recovery, &e.handOvers, &e.announcer.timer} {
		timer.stop()
	}
}

// leaveStore ends what comes without a caller. It is all that an engine needs for
// its end that never had a queue.
func (e *engine) leaveStore() {
	e.unsubscribe()
	e.end()
}

// failure describes something that went wrong, for the log.
func (e *engine) failure(what string, err error) message.Fields {
	return message.Fields{"message": what, "owner": e.id, "error": err.Error()}
}

// storeChanged is called after each change of the store, by whomever.
func (e *engine) storeChanged(mayClaim bool) {
	e.changes.Add(1)
	if mayClaim {
		e.claims.signal()
	}
	if e.leases.any() {
		e.cancels.set(e.now().Add(cancelLatency))
	}
}

// changed says that a change by this process may let somebody claim. Where the driver
// tells of changes it has done so already, and only of those that may: after most that
// end a job there is nothing new to claim.
func (e *engine) changed() {
	if !e.notified {
		e.claims.signal()
	}
}

// isExpired tells whether a claimed record must not be run any more.
func (e *engine) isExpired(r *driver.Record) bool {
	deadline := r.TimeInfo.DispatchBy
	return !deadline.IsZero() && deadline.Before(e.now())
}

// claim claims records. Their leases are renewed from now on, also while they
// wait for a worker. Those that have expired are ended.
func (e *engine) claim(ctx context.Context, demands []driver.Demand, limit int) (works []*work, next time.Time, err error) {
	e.completions.flush() // beside the claim, so that the store can do both at once
	changes := e.changes.Load()
	var claimed driver.Claimed
	err = errorOfPanic(func() (err error) {
		claimed, err = e.driver.Claim(ctx, driver.ClaimRequest{
			Owner: e.id, Queues: demands, Limit: limit, Now: e.now(), LeaseTime: e.leaseTime,
		})
		return err
	})
	if err != nil && ctx.Err() == nil {
		logging.Error(ctx, e.failure("could not claim jobs", err))
	}
	for _, r := range claimed.Records {
		w := &work{record: r, lease: driver.LeaseOf(r)}
		if e.leases.add(w) {
			e.heartbeat.set(e.now().Add(e.heartbeatPeriod()))
		}
		works = append(works, w)
	}
	if len(works) > 0 && e.changes.Load() != changes {
		e.cancels.set(e.now().Add(cancelLatency)) // it may have been one of these
	}
	return works, claimed.Next, err
}

// timeCame lets a worker look for jobs that are due. Where all are busy it ends
// the jobs that have expired, for which no worker is needed.
func (e *engine) timeCame(ctx context.Context) {
	if e.claims.signal() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, driverTimeout)
	defer cancel()
	e.claims.claimExpired(ctx)
}

// expire ends jobs that were claimed because they have expired. It hands back
// those whose queue has closed meanwhile.
func (e *engine) expire(ctx context.Context, works []*work) {
	ctx = context.WithoutCancel(ctx)
	var orphans []*work
	for _, w := range works {
		if q := e.queue(w.record.Group); q != nil {
			q.revive(ctx, w)
		} else {
			orphans = append(orphans, w)
		}
	}
	e.giveBack(ctx, orphans)
}

// giveBack hands back what was claimed and is not run.
func (e *engine) giveBack(ctx context.Context, works []*work) {
	if len(works) == 0 {
		return
	}
	handBacks := make([]driver.HandBack, len(works))
	for i, w := range works {
		handBacks[i] = driver.HandBack{Lease: w.lease}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), driverTimeout)
	defer cancel()
	var errs []error
	err := errorOfPanic(func() (err error) {
		errs, err = e.driver.Release(ctx, handBacks)
		return err
	})
	for i, w := range works {
		failure := err
		if err == nil {
			failure = errs[i]
		}
		if failure != nil {
			fields := e.failure("could not hand a job back", failure)
			fields["queue"], fields["record"] = w.lease.Queue, w.lease.Name
			logging.Error(ctx, fields)
		}
		e.leases.end(w)
	}
	e.claims.signal()
}

// renew extends the leases, and cancels the jobs of those that are lost.
func (e *engine) renew(ctx context.Context) {
	if !e.leases.any() {
		return
	}
	e.heartbeat.set(e.now().Add(e.heartbeatPeriod()))
	held := e.leases.all()
	if len(held) == 0 {
		return
	}
	extending, cancel := context.WithTimeout(ctx, e.heartbeatPeriod())
	defer cancel()
	lost, err := e.driver.Extend(extending, held, e.now(), e.leaseTime)
	e.report("could not renew the leases of running jobs", err)
	for _, lease := range lost {
		e.leases.lose(ctx, lease, amboy.ErrLeaseLost)
	}
	if !e.notified {
		e.cancelRequested(ctx)
	}
}

// cancelLatency is how long it takes at most until a running job notices that it
// is to be canceled, where the driver tells of changes.
const cancelLatency = 500 * time.Millisecond

// cancelRequested cancels the running jobs for which that was asked.
func (e *engine) cancelRequested(ctx context.Context) {
	if !e.leases.any() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, driverTimeout)
	defer cancel()
	requests, err := e.driver.CancelRequests(ctx, e.id)
	e.report("could not look for jobs to cancel", err)
	for _, lease := range requests {
		e.leases.lose(ctx, lease, amboy.ErrAborted)
	}
}
