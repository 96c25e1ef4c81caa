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
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/internal/presence"
	"github.com/mongodb/amboy/internal/registrations"
	"github.com/mongodb/amboy/internal/suspension"
	"github.com/mongodb/amboy/queue/driver"
)

// engine is the part that the queues of one process on one store share: they claim jobs
// together, their leases are renewed together, and the store is maintained once for all
// of them. The engine's core makes the decisions. The engine executes them (see
// engine_calls.go and engine_workers.go), and reports events to the core.
type engine struct {
	// id is the owner of the leases.
	id         string
	driver     driver.Driver
	ownsDriver bool
	now        func() time.Time
	started    time.Time
	// maxRunning is the number of jobs that run at once, over all queues; 0 for no limit.
	maxRunning int
	// asleepBefore is how long the machine had been suspended before the engine started.
	asleepBefore time.Duration
	leaseTime    time.Duration
	// results holds empty channels for the results of ends, to reuse.
	results sync.Pool
	// inline is true if calls of the store take no time. Then the goroutine that needs a
	// call makes it, and each end is written alone.
	inline bool
	// replaces is true if the store writes the end of an attempt and the next attempt in one
	// call.
	replaces bool
	// sharesRetries is true if the store replaces several attempts at once with few calls.
	sharesRetries bool
	// limits is true if the store has limited scopes.
	limits bool
	// manual is true if nothing happens by itself.
	manual     bool
	forgetting forgetting
	announcer  *announcer
	activity   *activity.Recorder
	meter      meter
	// countingTypes is true while this engine counts jobs by type.
	countingTypes atomic.Bool
	rechecks      rechecks
	ends          endWatch
	// notified is true if the driver sends change notifications.
	notified    bool
	unsubscribe func()
	// hasUnknown is true if this process may have met a kind of job that it does not
	// know.
	hasUnknown atomic.Bool
	// turnGiven is when giveTurn was last called, in nanoseconds since 1970.
	turnGiven atomic.Int64
	// outsideKinds holds the driver.Kinds that outside workers run.
	outsideKinds sync.Map
	// retryScan is how often the store is scanned for retries that were left behind.
	retryScan time.Duration
	// open ends with the engine. It is the context of background work.
	open context.Context
	end  context.CancelFunc
	// background counts the goroutines of the engine, except for those of its timer.
	background tasks
	timer      wakeTimer

	coreMu sync.Mutex
	core   *core.Core
	// read is the last reading of the clocks.
	read core.Time
	// asleep is how long the machine has been suspended since the engine started.
	asleep time.Duration
	// commands are the commands of the last step. The slice is reused.
	commands []core.Command
	// runs maps the jobs that workers have to their runs.
	runs map[amboy.Job]*core.Run
	// spare holds waiters to reuse.
	spare []*waiter
	// writing is the context of calls that write ends. It outlasts open, until Close
	// gives up.
	writing context.Context
	abandon context.CancelFunc
	// moved is closed when a claim was answered or a run is done. It is nil without
	// waiters.
	moved chan struct{}

	// opens opens queues that have work. It is nil unless openWithWork was called.
	opens func(names []string)

	mu     sync.Mutex
	queues map[string]*driverQueue
	// begun lists the queues that were not scanned for retries yet.
	begun []string
	// scannedAt is when all queues were last scanned.
	scannedAt time.Time
	// wantedWorkers holds the operator's numbers of workers by queue.
	wantedWorkers map[string]int
	// workersSet counts the calls of setWorkers.
	workersSet int
}

// minSafetyPoll and maxSafetyPoll limit the time between the claims of an engine whose
// driver sends notifications, because notifications may be lost: 30 s ± 50%.
const (
	minSafetyPoll = 15 * time.Second
	maxSafetyPoll = 45 * time.Second
)

// fewQueues is the largest number of open queues that are all claimed from after a change in
// an unknown queue. With more, the engine first asks the store which queues have work.
const fewQueues = 8

// unlimited is longer than any queue lives.
const unlimited = 100 * 365 * 24 * time.Hour

// engineOptions configure an engine. They must be valid.
type engineOptions struct {
	driver driver.Driver
	// ownsDriver makes the engine close the driver.
	ownsDriver bool
	leaseTime  time.Duration
	// pollInterval is how often a driver without notifications is asked for jobs.
	pollInterval time.Duration
	// retryScan is how often the store is scanned for retries that were left behind.
	retryScan time.Duration
	// workers is the number of jobs that run at once in all queues; 0 means that only the
	// queues' own numbers are a limit.
	workers int
	// now is the clock of an engine that does nothing by itself; nil for other engines.
	now func() time.Time
}

// newEngine makes an engine.
func newEngine(opts engineOptions) *engine {
	features := opts.driver.Features()
	e := &engine{
		id:            presence.NewID("driver"),
		driver:        opts.driver,
		ownsDriver:    opts.ownsDriver,
		now:           time.Now,
		maxRunning:    opts.workers,
		leaseTime:     opts.leaseTime,
		inline:        !features.Durable,
		replaces:      features.NextAttempts,
		sharesRetries: features.SharedRetries,
		limits:        features.Limits,
		retryScan:     opts.retryScan,
		notified:      features.Notifications,
		runs:          map[amboy.Job]*core.Run{},
		queues:        map[string]*driverQueue{},
		wantedWorkers: map[string]int{},
	}
	config := core.Config{
		LeaseTime:   e.leaseTime,
		MaxRunning:  opts.workers,
		PollMin:     minSafetyPoll,
		PollMax:     maxSafetyPoll,
		PollCancels: !e.notified,
		BatchEnds:   features.Durable,
		RetryScan:   e.retryScan,
		FewLines:    fewQueues,
		Random:      rand.Float64,
	}
	if !e.notified {
		config.PollMin, config.PollMax = opts.pollInterval/2, opts.pollInterval
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
	e.ends.engine = e
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

// wallEvery is how often the wall clock is read. In between, the monotonic clock advances
// its time.
const wallEvery = 50 * time.Millisecond

// instant returns the current time for the core. The caller holds the lock.
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

// suspended updates and returns how long the machine was suspended. The caller holds the
// lock.
func (e *engine) suspended() time.Duration {
	// Rounding by the clocks' resolution must not make time run backwards.
	e.asleep = max(e.asleep, suspension.Total()-e.asleepBefore)
	return e.asleep
}

// fewCommands is room for the commands of most events, on the stack.
type fewCommands [4]core.Command

// happen reports an event to the core, and executes its commands.
func (e *engine) happen(event core.Event) {
	var room fewCommands
	e.carryOut(e.decide(event, room[:0]))
}

// decide reports an event to the core. It appends commands to rest, which the caller
// executes with carryOut when it holds no lock.
func (e *engine) decide(event core.Event, rest []core.Command) []core.Command {
	e.coreMu.Lock()
	defer e.coreMu.Unlock()
	return e.step(event, rest)
}

// step is decide for a caller that holds the lock.
func (e *engine) step(event core.Event, rest []core.Command) []core.Command {
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

// move wakes the callers of settle. The caller holds the lock.
func (e *engine) move() {
	if e.moved != nil {
		close(e.moved)
		e.moved = nil
	}
}

// carryOut executes commands of the core. Calls of a store that takes time are made in
// the background; those of others are made here, and so is what follows from their answers.
func (e *engine) carryOut(commands []core.Command) {
	for i := 0; i < len(commands); i++ {
		command := commands[i]
		if i == len(commands)-1 {
			commands, i = commands[:0], -1 // there is room for what follows
		}
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
			commands = e.call(command, commands)
		}
	}
}

// inBackground wraps a background task: the task's context ends with the engine, and a
// panic is logged.
func (e *engine) inBackground(task func(context.Context)) func() {
	return func() {
		err := contain.Panic(func() error {
			task(e.open)
			return nil
		})
		e.report("a background task panicked", err)
	}
}

// report logs an error of background work, except for errors after the end of the engine.
func (e *engine) report(what string, err error) {
	if err != nil && e.open.Err() == nil {
		logging.Error(e.open, e.failure(what, err))
	}
}

// openWithWork makes the engine call opens with the names of queues that have work: once
// per interval, and when jobs of queues become due.
func (e *engine) openWithWork(every time.Duration, opens func(names []string)) {
	e.opens = opens
	e.note(core.Opens{Every: every})
}

// openQueues makes the group open queues that have work, in the background.
func (e *engine) openQueues(names []string) {
	e.runInBackground(func(context.Context) {
		defer e.happen(core.QueuesOpened{})
		e.opens(names)
	})
}

// add adds a queue that has not started to the engine.
func (e *engine) add(q *driverQueue) {
	e.happen(core.Opened{Line: q.line})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queues[q.name] = q
}

// remove removes a closed queue from the engine.
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

// queueNames returns the names of the engine's queues, in no particular order.
func (e *engine) queueNames() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Keys(e.queues))
}

// begin makes a started queue claim jobs. Retries that earlier processes left behind in
// the queue are scanned for now. Stale leases are recovered when the first queue begins,
// and with each heartbeat.
func (e *engine) begin(q *driverQueue) {
	e.mu.Lock()
	e.begun = append(e.begun, q.name)
	e.mu.Unlock()
	e.happen(core.Resumed{Line: q.line})
	e.applyWorkerCount(q)
	e.announcer.queueStarted()
}

// heartbeatPeriod returns how often leases are renewed, and finished jobs are removed.
func (e *engine) heartbeatPeriod() time.Duration { return e.leaseTime / 4 }

// driverTimeout limits the calls of the driver that no caller waits for.
const driverTimeout = 10 * time.Second

// close ends the engine after its queues have closed, and closes the driver if the engine
// owns it. It is called once. Until late ends it waits for claims in progress and for
// ends that are not written. Then it gives up what has not ended.
func (e *engine) close(late context.Context) (left leftover) {
	unsubscribing, cancelUnsubscribing := afterEnd(late, lastGrace)
	defer cancelUnsubscribing()
	left.add("subscription of the driver", inTime(unsubscribing, func() error {
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

// closeDriver closes the driver. It returns an error only if the driver does not close in
// time.
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

// settle waits until isQuiet returns true: the engine holds no leases and is claiming
// none, and all ends are written or given up. It returns false if ctx ends first.
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

// stopWriting cancels the calls that write ends that no caller waits for any more. Later
// calls are limited only by their own time limit, because a job may be completed after
// Close.
func (e *engine) stopWriting() {
	e.coreMu.Lock()
	defer e.coreMu.Unlock()
	e.abandon()
	e.writing, e.abandon = context.Background(), func() {}
}

// forWriting returns the context of calls that write ends.
func (e *engine) forWriting() context.Context {
	e.coreMu.Lock()
	defer e.coreMu.Unlock()
	return e.writing
}

// leaveStore unsubscribes the engine and ends its background work. It is enough to end an
// engine that never had a queue.
func (e *engine) leaveStore() {
	e.unsubscribe()
	e.end()
}

// failure returns the log fields of an error.
func (e *engine) failure(what string, err error) message.Fields {
	return message.Fields{"message": what, "owner": e.id, "error": err.Error()}
}

// storeChanged is called after each change of the store by any process.
func (e *engine) storeChanged(change driver.Change) {
	e.note(core.StoreChanged{Change: change})
	e.ends.storeChanged()
}

// note is happen for a caller that may hold a lock, or is called by the store: commands
// are executed in the background.
func (e *engine) note(event core.Event) {
	if commands := e.decide(event, nil); len(commands) > 0 {
		e.runInBackground(func(context.Context) { e.carryOut(commands) })
	}
}

// runInBackground runs a task in the background.
func (e *engine) runInBackground(task func(context.Context)) { e.background.Go(e.inBackground(task)) }

// changed reports a change of a queue by this process that may allow a claim. It does
// nothing if the driver sends notifications: the driver notifies only of changes that may
// allow a claim, which most ends of jobs do not.
func (e *engine) changed(q *driverQueue) {
	if !e.notified {
		e.happen(core.Changed{Line: q.line})
	}
}
