package core

import (
	"container/list"
	"math"
	"time"

	"github.com/mongodb/amboy/internal/heap"
	"github.com/mongodb/amboy/queue/driver"
)

// Time is a moment as read from two clocks.
type Time struct {
	// Mono counts from any start. It never jumps, and it continues while the machine is
	// suspended. All durations are measured with it.
	Mono time.Duration
	// Wall is compared with the times in records. It may jump.
	Wall time.Time
}

// Config holds the settings of a core. They do not change.
type Config struct {
	// LeaseTime is how long a lease lasts. Leases are renewed four times in it.
	LeaseTime time.Duration
	// MaxRunning is the maximum number of concurrent runs, over all queues; 0 for no limit.
	MaxRunning int
	// PollMin and PollMax bound the random interval between the polls of free workers. If
	// PollMax is zero, there are no polls.
	PollMin, PollMax time.Duration
	// PollCancels is true if the store does not report requests to cancel a run. The core
	// then queries them after each renewal of leases.
	PollCancels bool
	// BatchEnds is true if calls of the store are slow, so that the ends of several runs
	// are written in one call.
	BatchEnds bool
	// ClaimAhead allows claims of more jobs than workers wait while jobs are short.
	ClaimAhead bool
	// FewLines is the number of queues up to which a change in an unknown queue makes the
	// core claim from all of them. If there are more, the store is queried first for the
	// queues that have work.
	FewLines int
	// RetryScan is the interval between scans for retries that other processes left.
	RetryScan time.Duration
	// Surveys is true if a Look also finds out whether leases have run out. One regular Look then
	// takes the place of recoveries, of scans for retries and of polls, which follow it if it
	// finds something to do. PollMax may be zero.
	Surveys bool
	// Random returns a number in [0, 1). It is the only source of randomness.
	Random func() float64
}

// Core is the state of an engine. It is not safe for concurrent use.
type Core struct {
	config   Config
	now      Time
	commands []Command

	// Queues and their workers; see line.go.
	lines map[string]*Line
	order list.List // of *Line, in the order in which they were opened
	// opened and served are the last numbers that lines got; see Line.served.
	opened, served int

	// Claims; see claim.go.
	candidates candidates
	rated      heap.Heap[*Line] // the lines of queues whose rate lets no more jobs start for a while
	expiring   []*Line          // lines whose mayHaveExpired is true
	// expiredLeft is true if a claim for expired jobs failed.
	expiredLeft bool
	out         int // runs that have not returned, without stuckRuns
	// stuckRuns counts the stuck runs that do not count against MaxRunning.
	stuckRuns int
	yields    int // number of Yield commands since the last claim
	yielding  bool
	gathered  int // workers that were waiting when the last claim was answered
	patience  patience
	ahead     ahead // see ahead.go
	alone     *Run  // the suspect that runs alone or waits until it can; see suspect.go
	due       time.Time
	watched   []*Line // with watchers that want to know when the queue is idle

	// Queries for queues with work; see work_query.go.
	openEvery time.Duration // how often to query for queues to open; 0 for never
	lookAgain bool          // when the look that is under way has ended
	// lookClaims, lookOpens and lookLeft are the purposes of the next look: jobs to claim from
	// open queues, queues to open, and what dead processes left, which makes it a survey.
	lookClaims, lookOpens, lookLeft bool
	lookFrom                        time.Duration // the earliest time of the next look
	opening                         bool          // the shell opens queues

	// unknown holds the kinds that this process does not know, in the order in which they
	// were learned. It is replaced, never changed in place.
	unknown []driver.Kind

	// Leases; see lease.go.
	held []*Run
	// lostEarly holds leases that were lost before the answer to their claim arrived.
	lostEarly    []driver.Lease
	cancelsAsked time.Duration // when CheckCancels was last done
	cancels      int           // counts changes of the store, each of which may be a request to cancel

	ends   ends
	calls  calls
	timers timers
	begun  bool // the first queue was resumed
	// recoverFrom is the earliest time of a recovery after an outage of the store: the
	// owners of leases have had time to renew them by then.
	recoverFrom time.Duration
	// earlyFrom is the earliest time of the next survey that comes early because a lease ends.
	earlyFrom time.Duration
	// retriesFrom is the earliest time of the next scan for retries, and allRetriesFrom that of the
	// next one in all queues.
	retriesFrom, allRetriesFrom time.Duration
	// rescanRetries is true if a scan for retries was requested while one was under way.
	rescanRetries bool
	failing       bool // the last call of the store failed
	// worked is when the last call was sent that succeeded.
	worked time.Duration
	// owesRecovery is true if a recovery was left out because the store failed.
	owesRecovery bool
	closing      bool
	// ending counts the runs that have finished and whose end is not done.
	ending int
}

// New returns the core of an engine without queues.
func New(config Config, now Time) *Core {
	c := &Core{
		config: config, now: now, worked: now.Mono,
		lines: map[string]*Line{}, opened: math.MinInt, candidates: newCandidates(), rated: newRated(),
	}
	c.timers.init()
	c.ends.init()
	return c
}

// Step handles an event that happens now, and appends the resulting commands to
// commands. The shell must not change anything that a command refers to, except the
// fields that are documented as the shell's own.
func (c *Core) Step(now Time, event Event, commands []Command) []Command {
	c.commands = commands
	c.timePassed(now)
	c.handle(event)
	c.setWake()
	commands, c.commands = c.commands, nil
	return commands
}

// handle dispatches an event. The cases are in the order of a job's life.
func (c *Core) handle(event Event) {
	switch e := event.(type) {
	case Opened:
		c.open(e.Line)
	case Resumed:
		c.resume(e.Line)
	case Waiting:
		c.wait(e.Worker)
	case Gone:
		c.leave(e.Worker)
	case Changed:
		if e.Line != nil {
			c.changedIn(e.Line)
		} else {
			c.changed()
		}
	case Controlled:
		c.controlled(e.Line)
	case DueAt:
		c.dueAt(e.Time)
	case Yielded:
		c.yielded()
	case Claimed:
		c.claimed(e)
	case Renewed:
		c.renewedLeases(e)
	case StoreChanged:
		c.storeChanged(e.Change)
	case CancelsFound:
		c.cancelsFound(e)
	case Lost:
		c.lose(e.Lease)
	case Stuck:
		c.stuck(e.Run)
	case Transacted:
		e.Run.transacted = true
	case Finished:
		c.finish(e.Run, e.End)
	case GivenUp:
		c.giveUp(e.Run)
	case Written:
		c.written(e)
	case Checked:
		c.checked(e)
	case Recovered:
		c.recovered(e)
	case Forgotten:
		c.forgotten(e)
	case RetriesScanned:
		c.retriesScanned(e)
	case Unknown:
		c.learnUnknown(e.Kind)
	case Known:
		c.accept(e.Kind)
	case Registered:
		c.forgetUnknown()
	case Looked:
		c.looked(e)
	case Opens:
		c.openEvery = e.Every
		c.begin()
		c.lookForQueues()
	case QueuesOpened:
		c.queuesOpened()
	case Watched:
		c.watch(e.Line, e.By)
	case RecoverNow:
		c.timers.set(recoverTimer, max(c.now.Mono, c.recoverFrom))
	case Tick: // timePassed did what is due; no other Tick of the shell is pending
		c.timers.wake = never
	case Stopped:
		c.stop(e.Line)
	case Left:
		c.remove(e.Line)
	case Closing:
		c.close()
	case Abandoned:
		c.abandon()
	}
}

func (c *Core) do(command Command) { c.commands = append(c.commands, command) }

// Busy reports whether the core holds leases of a queue.
func (c *Core) Busy(queue string) bool {
	for _, r := range c.held {
		if r.Lease.Queue == queue {
			return true
		}
	}
	return false
}

// MayBeIdle reports whether the core holds no leases of a queue and no claim that asks for it is under way.
// The answer of such a claim either brings leases or is followed by Drained, if the queue is watched.
func (c *Core) MayBeIdle(l *Line) bool { return !c.Busy(l.Queue) && !c.claims(l) }

// claims reports whether a claim that asks for a queue is under way.
func (c *Core) claims(l *Line) bool {
	claim := c.calls.find(c.calls.current[claimCall])
	return claim != nil && claim.asksFor(l)
}

// Holds reports whether the core holds leases.
func (c *Core) Holds() bool { return len(c.held) > 0 }

// Quiet reports whether no claim is under way, whose answer may hold leases, and no end
// waits to be written. A late claim does not count.
func (c *Core) Quiet() bool { return !c.calls.isOpen(claimCall) && c.ending == 0 }

// QuietFor reports whether no claim that asks for a queue is under way, and none of its
// ends waits to be written.
func (c *Core) QuietFor(l *Line) bool {
	if c.claims(l) {
		return false
	}
	for _, r := range c.held {
		if r.finishing && r.Lease.Queue == l.Queue {
			return false
		}
	}
	return true
}

// Due returns when more jobs may become claimable because a time comes or a rate allows it;
// zero for never.
func (c *Core) Due() time.Time {
	if c.rated.Len() > 0 {
		at := c.now.Wall.Add(c.rated.First().ratedFrom - c.now.Mono)
		if c.due.IsZero() || at.Before(c.due) {
			return at
		}
	}
	return c.due
}

// heartbeat is the interval between renewals. One or two late renewals lose no lease.
func (c *Core) heartbeat() time.Duration { return c.config.LeaseTime / 4 }

// maxMargin and marginPart define how long before its end a lease counts as over, so that
// the run has ended when another process may take it: a tenth of the lease time, and at
// most two seconds.
const (
	maxMargin  = 2 * time.Second
	marginPart = 10
)

// fence returns when a lease that was taken or renewed by a call counts as over.
func (c *Core) fence(call *call) time.Duration {
	return call.sent - call.unnoticed + c.config.LeaseTime - min(c.config.LeaseTime/marginPart, maxMargin)
}

func leasesOf(runs []*Run) []driver.Lease {
	leases := make([]driver.Lease, len(runs))
	for i, r := range runs {
		leases[i] = r.Lease
	}
	return leases
}
