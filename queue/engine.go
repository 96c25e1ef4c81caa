package queue

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/internal/registrations"
	"github.com/mongodb/amboy/internal/suspension"
	"github.com/mongodb/amboy/queue/driver"
)

// engine is what the queues of one process on one store share: they claim
// together, their leases are renewed together, and the store is maintained once
// for all of them. What it does is decided by its core. The engine carries that out (see
// engine_calls.go and engine_workers.go), and tells the core what happens.
type engine struct {
	// id owns the leases.
	id         string
	driver     driver.Driver
	ownsDriver bool
	now        func() time.Time
	started    time.Time
	// maxRunning is the number of jobs that run at once, over all queues; 0 for no limit.
	maxRunning int
	// asleepBefore is for how long the machine had been suspended then.
	asleepBefore time.Duration
	leaseTime    time.Duration
	// inline is true where a call of the store takes no time, so that whoever wants it
	// makes it, and each end is written alone.
	inline bool
	// replaces is true if the store takes the next attempt of a job with the end of this one.
	replaces bool
	// manual is true where nothing is to happen by itself.
	manual     bool
	forgetting forgetting
	announcer  *announcer
	activity   *activity.Recorder
	meter      meter
	rechecks   rechecks
	// notified is true where the driver tells of changes.
	notified    bool
	unsubscribe func()
	// hasUnknown is true from when this process may have met a kind of jobs that it does not
	// know.
	hasUnknown atomic.Bool
	// retryScan is how often to look for retries that somebody left.
	retryScan time.Duration
	// open ends with the engine, and then what is done in the background does.
	open context.Context
	end  context.CancelFunc
	// background are the goroutines of the engine, but for those of its timer.
	background tasks
	timer      wakeTimer

	coreMu sync.Mutex
	core   *core.Core
	// read is when the wall clock was read.
	read core.Time
	// asleep is for how long the machine was suspended since the engine was started.
	asleep time.Duration
	// commands are those of the last step; their memory is used again.
	commands []core.Command
	// runs are those of the jobs that workers have.
	runs map[amboy.Job]*core.Run
	// spare are waiters for workers to come.
	spare []*waiter
	// writing outlasts open: what ran is written, until Close gives it up.
	writing context.Context
	abandon context.CancelFunc
	// moved is closed when a claim was answered, or a run is done with, where somebody
	// waits for that.
	moved chan struct{}

	// opens opens queues that have work, if openWithWork was called.
	opens func(names []string)

	mu     sync.Mutex
	queues map[string]*driverQueue
	// begun are the queues in which it was not yet looked for retries.
	begun []string
	// scannedAt is when it was looked in all of them.
	scannedAt time.Time
	// wantedWorkers are the numbers of workers that people want queues to have.
	wantedWorkers map[string]int
	// workersSet counts how often somebody set one here.
	workersSet int
}

// minSafetyPoll and maxSafetyPoll bound the time between the claims of an engine whose
// driver sends notifications, which may be lost: 30 s ± 50%.
const (
	minSafetyPoll = 15 * time.Second
	maxSafetyPoll = 45 * time.Second
)

// fewQueues is the number of open queues up to which all of them are asked for if something
// has changed and it is not known where.
const fewQueues = 8

// unlimited is longer than any queue lives.
const unlimited = 100 * 365 * 24 * time.Hour

// newEngine makes an engine with the options of its queues that concern the store,
// which were validated. workers is the number of jobs that run at once, over all
// queues; 0 where their own numbers of workers are the only limit.
func newEngine(opts DriverQueueOptions, workers int) *engine {
	features := opts.Driver.Features()
	e := &engine{
		id:            newOwnerID("driver"),
		driver:        opts.Driver,
		ownsDriver:    opts.CloseDriver,
		now:           time.Now,
		maxRunning:    workers,
		leaseTime:     opts.LockTimeout,
		inline:        !features.Durable,
		replaces:      features.NextAttempts,
		retryScan:     opts.Retryable.StaleRetryingMonitorInterval,
		notified:      features.Notifications,
		runs:          map[amboy.Job]*core.Run{},
		queues:        map[string]*driverQueue{},
		wantedWorkers: map[string]int{},
	}
	config := core.Config{
		LeaseTime:   e.leaseTime,
		MaxRunning:  workers,
		PollMin:     minSafetyPoll,
		PollMax:     maxSafetyPoll,
		PollCancels: !e.notified,
		BatchEnds:   features.Durable,
		RetryScan:   e.retryScan,
		FewLines:    fewQueues,
		Random:      rand.Float64,
	}
	if !e.notified {
		config.PollMin, config.PollMax = opts.PollInterval/2, opts.PollInterval
	}
	if opts.now != nil {
		e.now, e.manual = opts.now, true
		config.LeaseTime, config.RetryScan, config.PollMin, config.PollMax = unlimited, unlimited, 0, 0
	}
	e.started, e.asleepBefore = e.now(), suspension.Total()
	e.read = core.Time{Wall: e.started.Round(0)}
	e.core = core.New(config, e.instant())
	e.timer.fire = func() { e.happen(core.Tick{}) }
	e.open, e.end = context.WithCancel(context.Background())
	e.writing, e.abandon = context.WithCancel(context.Background())
	e.announcer = newAnnouncer(e)
	if e.manual {
		e.announcer.timer.stop()
	}
	e.activity = e.announcer.activity
	unsubscribe, ignoreRegistrations := e.driver.Subscribe(e.storeChanged), registrations.Subscribe(e.registered)
	e.unsubscribe = func() {
		ignoreRegistrations()
		unsubscribe()
	}
	return e
}

// wallEvery is how often the wall clock is read. In between, its time is counted on.
const wallEvery = 50 * time.Millisecond

// instant is the time for the core. The caller holds the lock.
func (e *engine) instant() core.Time {
	if !e.manual {
		mono := time.Since(e.started) + e.asleep
		if since := mono - e.read.Mono; since < wallEvery {
			return core.Time{Mono: mono, Wall: e.read.Wall.Add(since)}
		}
	}
	now := e.now()
	e.read = core.Time{Mono: now.Sub(e.started), Wall: now.Round(0)}
	if !e.manual {
		e.read.Mono += e.suspended()
	}
	return e.read
}

// suspended reads for how long the machine was suspended. The caller holds the lock.
func (e *engine) suspended() time.Duration {
	// What the clocks' resolution makes of it must not let time run backwards.
	e.asleep = max(e.asleep, suspension.Total()-e.asleepBefore)
	return e.asleep
}

// happen tells the core what has happened, and does what follows.
func (e *engine) happen(event core.Event) {
	e.carryOut(e.decide(event))
}

// decide is happen for a caller that carries out the commands, with carryOut, when it
// holds no lock.
func (e *engine) decide(event core.Event) []core.Command {
	e.coreMu.Lock()
	defer e.coreMu.Unlock()
	return e.step(event)
}

// step is decide with the lock.
func (e *engine) step(event core.Event) (rest []core.Command) {
	e.commands = e.core.Step(e.instant(), event, e.commands[:0])
	defer clear(e.commands)
	if _, claimed := event.(core.Claimed); claimed {
		e.move()
	}
	for _, command := range e.commands {
		switch do := command.(type) {
		case core.Start:
			do.Worker.Shell.(*waiter).serve(do.Run)
		case core.Dismiss:
			do.Worker.Shell.(*waiter).serve(nil)
		case core.Wake:
			if !e.manual {
				e.timer.set(e.started.Add(do.At - e.asleep))
			}
		case core.Done:
			e.ended(do.Run)
			e.move()
			rest = append(rest, command)
		default:
			rest = append(rest, command)
		}
	}
	return rest
}

// move wakes those who wait until the engine is quiet. The caller holds the lock.
func (e *engine) move() {
	if e.moved != nil {
		close(e.moved)
		e.moved = nil
	}
}

// carryOut does what the core has decided. Calls of a store that takes its time are made
// in the background.
func (e *engine) carryOut(commands []core.Command) {
	for _, command := range commands {
		switch do := command.(type) {
		case core.Yield:
			e.yield()
		case core.Expire:
			e.expire(do.Run)
		case core.Park:
			e.park(do.Run)
		case core.Cancel:
			e.cancel(do.Run, do.Cause)
		case core.Drained:
			e.drained(do.Line)
		case core.OpenQueues:
			e.openQueues(do.Names)
		case core.Refused:
			e.refused(do.Run, do.Err)
		case core.Done:
			e.done(do.Run, do.Err)
		case core.Report:
			e.report(do.What, do.Err)
		default:
			e.call(command)
		}
	}
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

// openWithWork has queues opened that have work, beside when their jobs are due this often.
func (e *engine) openWithWork(every time.Duration, opens func(names []string)) {
	e.opens = opens
	e.note(core.Opens{Every: every})
}

// openQueues has the group open queues that have work.
func (e *engine) openQueues(names []string) {
	e.goOn(func(context.Context) {
		defer e.happen(core.QueuesOpened{})
		e.opens(names)
	})
}

// add makes a queue share the engine, before it is started.
func (e *engine) add(q *driverQueue) {
	e.happen(core.Opened{Line: q.line})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queues[q.name] = q
}

// remove ends that for a queue that was closed.
func (e *engine) remove(q *driverQueue) {
	e.note(core.Left{Line: q.line})
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

// begin lets a queue that has started have its jobs. What earlier processes left
// behind in it is looked for now; what they ran, when the first queue begins, and
// then with each heartbeat.
func (e *engine) begin(q *driverQueue) {
	e.mu.Lock()
	e.begun = append(e.begun, q.name)
	e.mu.Unlock()
	e.happen(core.Resumed{Line: q.line})
	e.obeyFor(q)
	e.announcer.queueStarted()
}

// heartbeatPeriod is how often leases are renewed, and finished jobs removed.
func (e *engine) heartbeatPeriod() time.Duration { return e.leaseTime / 4 }

// driverTimeout bounds the calls on the driver that no caller waits for.
const driverTimeout = 10 * time.Second

// close ends the engine after its queues, and closes the driver where it is the
// engine's own. It is called once. Until late ends it waits for what gives leases, and for
// ends that are not written; then it gives up whatever has not ended.
func (e *engine) close(late context.Context) (left leftover) {
	left.add("subscription of the driver", inTime(late, func() error {
		e.unsubscribe()
		return nil
	}))
	e.note(core.Closing{})
	if !e.settle(late, e.core.Quiet) {
		e.note(core.Abandoned{})
	}
	e.end()
	e.stopWriting()
	e.timer.stop()
	e.announcer.timer.stop()
	last, cancel := afterEnd(late, lastGrace)
	defer cancel()
	if !e.timer.calls.wait(last) || !e.announcer.timer.calls.wait(last) || !e.background.wait(last) {
		left.add("calls of the driver", amboy.ErrLeftBehind)
	}
	left.add("last call of the driver", inTime(last, func() error {
		e.announcer.close(last)
		return nil
	}))
	if e.ownsDriver {
		left.add("driver", e.closeDriver(last))
	}
	return left
}

// closeDriver closes the driver. It returns an error if that does not return in time.
func (e *engine) closeDriver(last context.Context) error {
	later, stop := afterEnd(last, lastGrace)
	defer stop()
	closing, cancel := context.WithTimeout(later, driverTimeout)
	defer cancel()
	err := inTime(later, func() error { return e.driver.Close(closing) })
	if err == nil || errors.Is(err, amboy.ErrLeftBehind) {
		return err
	}
	logging.Error(last, e.failure("could not close the driver", err))
	return nil
}

// settle waits until all leases are given up that the engine has, or is about to have, and
// all ends are written or given up. It returns false where ctx ends first.
func (e *engine) settle(ctx context.Context, isQuiet func() bool) bool {
	for {
		e.coreMu.Lock()
		quiet := isQuiet()
		if !quiet && e.moved == nil {
			e.moved = make(chan struct{})
		}
		moved := e.moved
		e.coreMu.Unlock()
		if quiet {
			return true
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return false
		}
	}
}

// stopWriting ends the calls that write ends for which nobody waits any more. Later ones
// end with their limit only: a job may be completed after Close.
func (e *engine) stopWriting() {
	e.coreMu.Lock()
	defer e.coreMu.Unlock()
	e.abandon()
	e.writing, e.abandon = context.Background(), func() {}
}

// forWriting is the context of calls that write ends.
func (e *engine) forWriting() context.Context {
	e.coreMu.Lock()
	defer e.coreMu.Unlock()
	return e.writing
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
func (e *engine) storeChanged(change driver.Change) { e.note(core.StoreChanged{Change: change}) }

// note is happen for a caller that may hold a lock, or be the store: what follows is done
// in the background.
func (e *engine) note(event core.Event) {
	if commands := e.decide(event); len(commands) > 0 {
		e.goOn(func(context.Context) { e.carryOut(commands) })
	}
}

// goOn runs a task in the background.
func (e *engine) goOn(task func(context.Context)) { e.background.Go(e.inBackground(task)) }

// changed says that a change of a queue by this process may let somebody claim. Where the driver
// tells of changes it has done so already, and only of those that may: after most that
// end a job there is nothing new to claim.
func (e *engine) changed(q *driverQueue) {
	if !e.notified {
		e.happen(core.Changed{Line: q.line})
	}
}
