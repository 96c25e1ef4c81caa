package engine

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
	"github.com/mongodb/amboy/queue/internal/jobstate"
	"github.com/mongodb/amboy/queue/internal/lifecycle"
)

// Engine is the part that the queues of one process on one store share: they claim jobs
// together, their leases are renewed together, and the store is maintained once for all
// of them. The engine's core makes the decisions. The engine executes them (see
// calls.go and workers.go), and reports events to the core.
type Engine struct {
	// ID is the owner of the leases.
	ID         string
	Driver     driver.Driver
	ownsDriver bool
	Now        func() time.Time
	started    time.Time
	// maxRunning is the number of jobs that run at once, over all queues; 0 for no limit.
	maxRunning int
	// asleepBefore is how long the machine had been suspended before the engine started.
	asleepBefore time.Duration
	LeaseTime    time.Duration
	// results holds empty channels for the results of ends, to reuse.
	results sync.Pool
	// inline is true if calls of the store take no time. Then the goroutine that needs a
	// call makes it, and each end is written alone.
	inline bool
	// replaces is true if the store writes the end of an attempt and the next attempt in one
	// call.
	replaces bool
	// SharesRetries is true if the store replaces several attempts at once with few calls.
	SharesRetries bool
	// limits is true if the store has limited scopes.
	limits bool
	// manual is true if nothing happens by itself.
	manual     bool
	forgetting forgetting
	Announcer  *announcer
	backlog    *backlogSampler
	Activity   *activity.Recorder
	Meter      meter
	// CountingTypes is true while this engine counts jobs by type.
	CountingTypes atomic.Bool
	rechecks      jobstate.Rechecks
	ends          endWatch
	// Notified is true if the driver sends change notifications.
	Notified    bool
	unsubscribe func()
	// hasUnknown is true if this process may have met a kind of job that it does not
	// know.
	hasUnknown atomic.Bool
	// turnGiven is when giveTurn was last called, in nanoseconds since 1970.
	turnGiven atomic.Int64
	// outsideKinds holds the driver.Kinds that outside workers run.
	outsideKinds sync.Map
	// open ends with the engine. It is the context of background work.
	open context.Context
	end  context.CancelFunc
	// background counts the goroutines of the engine, except for those of its timer.
	background lifecycle.Tasks
	timer      lifecycle.WakeTimer

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

	// opens opens queues that have work. It is nil unless OpenWithWork was called.
	opens func(names []string)

	mu     sync.Mutex
	queues map[string]*Queue
	// begun lists the queues that were not scanned for retries yet.
	begun []string
	// wantedWorkers holds the operator's numbers of workers by queue.
	wantedWorkers map[string]int
	// workersSet counts the calls of SetWorkers.
	workersSet int
}

// minSafetyPoll and maxSafetyPoll limit the time between the claims of an engine whose driver
// sends notifications and is no Surveyor, because notifications may be lost: 30 s ± 50%.
const (
	minSafetyPoll = 15 * time.Second
	maxSafetyPoll = 45 * time.Second
)

// fewQueues is the largest number of open queues that are all claimed from after a change in
// an unknown queue. With more, the engine first asks the store which queues have work.
const fewQueues = 8

// unlimited is longer than any queue lives.
const unlimited = 100 * 365 * 24 * time.Hour

// Options configure an engine. They must be valid.
type Options struct {
	Driver driver.Driver
	// OwnsDriver makes the engine close the driver.
	OwnsDriver bool
	LeaseTime  time.Duration
	// PollInterval is how often a driver without notifications is asked for jobs.
	PollInterval time.Duration
	// RetryScan is how often the store is scanned for retries that were left behind.
	RetryScan time.Duration
	// Workers is the number of jobs that run at once in all queues; 0 means that only the
	// queues' own numbers are a limit.
	Workers int
	// Now is the clock of an engine that does nothing by itself; nil for other engines.
	Now func() time.Time
}

// New makes an engine.
func New(opts Options) *Engine {
	features := opts.Driver.Features()
	e := &Engine{
		ID:            presence.NewID("driver"),
		Driver:        opts.Driver,
		ownsDriver:    opts.OwnsDriver,
		Now:           time.Now,
		maxRunning:    opts.Workers,
		LeaseTime:     min(opts.LeaseTime, unlimited), // so that the end of a lease does not overflow
		inline:        !features.Durable,
		replaces:      features.NextAttempts,
		SharesRetries: features.SharedRetries,
		limits:        features.Limits,
		Notified:      features.Notifications,
		runs:          map[amboy.Job]*core.Run{},
		queues:        map[string]*Queue{},
		wantedWorkers: map[string]int{},
	}
	config := core.Config{
		LeaseTime:   e.LeaseTime,
		MaxRunning:  opts.Workers,
		PollMin:     minSafetyPoll,
		PollMax:     maxSafetyPoll,
		PollCancels: !e.Notified,
		BatchEnds:   features.Durable,
		ClaimAhead:  features.Durable && !features.CostlyClaims,
		RetryScan:   opts.RetryScan,
		FewLines:    fewQueues,
		Random:      rand.Float64,
	}
	if !e.Notified {
		config.PollMin, config.PollMax = opts.PollInterval/2, opts.PollInterval
	}
	_, config.Surveys = opts.Driver.(driver.Surveyor)
	if config.Surveys && e.Notified {
		config.PollMin, config.PollMax = 0, 0 // a lost notification is made up for by the surveys
	}
	if opts.Now != nil {
		e.Now, e.manual = opts.Now, true
		config.LeaseTime, config.RetryScan, config.PollMin, config.PollMax = unlimited, unlimited, 0, 0
	}
	e.started, e.asleepBefore = e.Now(), suspension.Total()
	e.read = core.Time{Wall: e.started.Round(0)}
	e.core = core.New(config, e.instant())
	e.timer.Fire = func() { e.Happen(core.Tick{}) }
	e.open, e.end = context.WithCancel(context.Background())
	e.writing, e.abandon = context.WithCancel(context.Background())
	e.ends.engine = e
	e.Announcer, e.backlog = newAnnouncer(e), newBacklogSampler(e)
	if e.manual {
		e.Announcer.timer.Stop()
		e.backlog.timer.Stop()
	}
	e.Activity = e.Announcer.activity
	subscribe := e.Driver.Subscribe
	if claimable, ok := e.Driver.(driver.ClaimSubscriber); ok {
		subscribe = claimable.SubscribeToClaimable
		e.ends.partly = true
	}
	unsubscribe, ignoreRegistrations := subscribe(e.storeChanged), registrations.Subscribe(e.registered)
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
func (e *Engine) instant() core.Time {
	if !e.manual {
		mono := time.Since(e.started) + e.asleep
		if since := mono - e.read.Mono; since < wallEvery {
			return core.Time{Mono: mono, Wall: e.read.Wall.Add(since)}
		}
	}
	now := e.Now()
	e.read = core.Time{Mono: now.Sub(e.started), Wall: now.Round(0)}
	if !e.manual {
		e.read.Mono += e.suspended()
	}
	return e.read
}

// suspended updates and returns how long the machine was suspended. The caller holds the
// lock.
func (e *Engine) suspended() time.Duration {
	// Rounding by the clocks' resolution must not make time run backwards.
	e.asleep = max(e.asleep, suspension.Total()-e.asleepBefore)
	return e.asleep
}

// fewCommands is room for the commands of most events, on the stack.
type fewCommands [4]core.Command

// Happen reports an event to the core, and executes its commands.
func (e *Engine) Happen(event core.Event) {
	var room fewCommands
	e.carryOut(e.decide(event, room[:0]))
}

// decide reports an event to the core. It appends commands to rest, which the caller
// executes with carryOut when it holds no lock.
func (e *Engine) decide(event core.Event, rest []core.Command) []core.Command {
	e.coreMu.Lock()
	defer e.coreMu.Unlock()
	return e.step(event, rest)
}

// step is decide for a caller that holds the lock.
func (e *Engine) step(event core.Event, rest []core.Command) []core.Command {
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
				e.timer.Set(e.started.Add(do.At - e.asleep))
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
func (e *Engine) move() {
	if e.moved != nil {
		close(e.moved)
		e.moved = nil
	}
}

// carryOut executes commands of the core. Calls of a store that takes time are made in
// the background, and so are the ends of expired jobs; those of others are made here, and so is
// what follows from their answers.
// If the code of a job ends this goroutine, the rest is executed in the background.
func (e *Engine) carryOut(commands []core.Command) {
	i, isOver := 0, false
	defer func() {
		if rest := commands[min(i+1, len(commands)):]; !isOver && len(rest) > 0 {
			others := append([]core.Command{}, rest...)
			e.RunInBackground(func(context.Context) { e.carryOut(others) })
		}
	}()
	for ; i < len(commands); i++ {
		command := commands[i]
		if i == len(commands)-1 {
			commands, i = commands[:0], -1 // there is room for what follows
		}
		switch do := command.(type) {
		case core.Yield:
			e.yield()
		case core.Expire:
			if e.inline {
				e.expire(do.Run)
				continue
			}
			// The code of the job may take long. The other commands are about other jobs, and may be a claim.
			e.RunInBackground(func(context.Context) { e.expire(do.Run) })
		case core.Park:
			e.Park(do.Run)
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
			e.Report(do.What, do.Err)
		default:
			if e.inline {
				commands = e.decide(e.answer(command), commands)
			} else {
				e.RunInBackground(func(context.Context) { e.Happen(e.answer(command)) })
			}
		}
	}
	isOver = true
}

// inBackground wraps a background task: the task's context ends with the engine, and a
// panic is logged.
func (e *Engine) inBackground(task func(context.Context)) func() {
	return func() {
		err := contain.Panic(func() error {
			task(e.open)
			return nil
		})
		e.Report("a background task panicked", err)
	}
}

// Report logs an error of background work, except for errors after the end of the engine.
func (e *Engine) Report(what string, err error) {
	if err != nil && e.open.Err() == nil {
		logging.Error(e.open, e.Failure(what, err))
	}
}

// OpenWithWork makes the engine call opens with the names of queues that have work: once
// per interval, and when jobs of queues become due.
func (e *Engine) OpenWithWork(every time.Duration, opens func(names []string)) {
	e.opens = opens
	e.Note(core.Opens{Every: every})
}

// openQueues makes the group open queues that have work, in the background.
func (e *Engine) openQueues(names []string) {
	e.RunInBackground(func(context.Context) {
		defer e.Happen(core.QueuesOpened{})
		e.opens(names)
	})
}

// add adds a queue that has not started to the engine.
func (e *Engine) add(q *Queue) {
	e.Happen(core.Opened{Line: q.Line})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queues[q.Name] = q
}

// remove removes a closed queue from the engine.
func (e *Engine) remove(q *Queue) {
	e.Note(core.Left{Line: q.Line})
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.queues[q.Name] != q {
		return // another one with its name is open
	}
	delete(e.queues, q.Name)
	e.Announcer.queuesChanged()
	if leaver, ok := e.Driver.(driver.QueueLeaver); ok {
		leaver.LeaveQueue(q.Name) // with the lock, so that no queue with its name claims before
	}
}

// Queue returns the open queue with that name, or nil.
func (e *Engine) Queue(name string) *Queue {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.queues[name]
}

// QueueNames returns the names of the engine's queues, in no particular order.
func (e *Engine) QueueNames() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Keys(e.queues))
}

// begin makes a started queue claim jobs. Retries that earlier processes left behind in
// the queue are scanned for now. Stale leases are recovered when the first queue begins,
// and with each heartbeat.
func (e *Engine) begin(q *Queue) {
	e.mu.Lock()
	e.begun = append(e.begun, q.Name)
	e.mu.Unlock()
	e.Happen(core.Resumed{Line: q.Line})
	e.applyWorkerCount(q)
	e.Announcer.queueStarted()
	e.backlog.begin()
}

// heartbeatPeriod returns how often leases are renewed, and finished jobs are removed.
func (e *Engine) heartbeatPeriod() time.Duration { return e.LeaseTime / 4 }

// DriverTimeout limits the calls of the driver that no caller waits for.
const DriverTimeout = 10 * time.Second

// Close ends the engine after its queues have closed, and closes the driver if the engine
// owns it. It is called once. Until late ends it waits for claims in progress and for
// ends that are not written. Then it gives up what has not ended.
func (e *Engine) Close(late context.Context) (left lifecycle.Leftover) {
	unsubscribing, cancelUnsubscribing := lifecycle.AfterEnd(late, lifecycle.LastGrace)
	defer cancelUnsubscribing()
	left.Add("subscription of the driver", lifecycle.InTime(unsubscribing, func() error {
		e.unsubscribe()
		return nil
	}))
	e.Note(core.Closing{})
	if !e.settle(late, e.core.Quiet) {
		e.Note(core.Abandoned{})
	}
	e.end()
	e.stopWriting()
	e.timer.Stop()
	e.Announcer.timer.Stop()
	e.backlog.timer.Stop()
	last, cancel := lifecycle.AfterEnd(late, lifecycle.LastGrace)
	defer cancel()
	if !e.timer.Calls.Wait(last) || !e.Announcer.timer.Calls.Wait(last) || !e.backlog.timer.Calls.Wait(last) || !e.background.Wait(last) {
		left.Add("calls of the driver", amboy.ErrLeftBehind)
	}
	left.Add("last call of the driver", lifecycle.InTime(last, func() error {
		e.Announcer.close(last)
		return nil
	}))
	if e.ownsDriver {
		left.Add("driver", e.closeDriver(last))
	}
	return left
}

// closeDriver closes the driver. It returns an error only if the driver does not close in
// time.
func (e *Engine) closeDriver(last context.Context) error {
	later, stop := lifecycle.AfterEnd(last, lifecycle.LastGrace)
	defer stop()
	closing, cancel := context.WithTimeout(later, DriverTimeout)
	defer cancel()
	err := lifecycle.InTime(later, func() error { return e.Driver.Close(closing) })
	if err == nil || errors.Is(err, amboy.ErrLeftBehind) {
		return err
	}
	logging.Error(last, e.Failure("could not close the driver", err))
	return nil
}

// settle waits until isQuiet returns true: the engine holds no leases and is claiming
// none, and all ends are written or given up. It returns false if ctx ends first.
func (e *Engine) settle(ctx context.Context, isQuiet func() bool) bool {
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
func (e *Engine) stopWriting() {
	e.coreMu.Lock()
	defer e.coreMu.Unlock()
	e.abandon()
	e.writing, e.abandon = context.Background(), func() {}
}

// forWriting returns the context of calls that write ends.
func (e *Engine) forWriting() context.Context {
	e.coreMu.Lock()
	defer e.coreMu.Unlock()
	return e.writing
}

// LeaveStore unsubscribes the engine and ends its background work. It is enough to end an
// engine that never had a queue.
func (e *Engine) LeaveStore() {
	e.unsubscribe()
	e.end()
}

// Failure returns the log fields of an error.
func (e *Engine) Failure(what string, err error) message.Fields {
	return message.Fields{"message": what, "owner": e.ID, "error": err.Error()}
}

// storeChanged is called after each change of the store by any process.
func (e *Engine) storeChanged(change driver.Change) {
	if change.MayClaim && change.InOneQueue {
		e.backlog.noteJobs()
	}
	e.Note(core.StoreChanged{Change: change})
	e.ends.storeChanged()
}

// Note is Happen for a caller that may hold a lock, or is called by the store: commands
// are executed in the background.
func (e *Engine) Note(event core.Event) {
	if commands := e.decide(event, nil); len(commands) > 0 {
		e.RunInBackground(func(context.Context) { e.carryOut(commands) })
	}
}

// RunInBackground runs a task in the background.
func (e *Engine) RunInBackground(task func(context.Context)) { e.background.Go(e.inBackground(task)) }

// changed reports a change of a queue by this process that may allow a claim. It does
// nothing if the driver sends notifications: the driver notifies only of changes that may
// allow a claim, which most ends of jobs do not.
func (e *Engine) changed(q *Queue) {
	if !e.Notified {
		e.Happen(core.Changed{Line: q.Line})
	}
}
