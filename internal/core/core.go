package core

import (
	"container/list"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// Time is a moment, by two clocks.
type Time struct {
	// Mono counts from any start. It never jumps, and goes on while the machine is
	// suspended. All that lasts for a time is measured with it.
	Mono time.Duration
	// Wall is what records are due by, and may jump.
	Wall time.Time
}

// Config says how a core works. It does not change.
type Config struct {
	// LeaseTime is how long a lease lasts. It is renewed every quarter of it.
	LeaseTime time.Duration
	// MaxRunning is the number of runs at once, over all queues; 0 for no limit.
	MaxRunning int
	// PollMin and PollMax bound the time from one claim to the next that free workers make
	// without a reason. Zero means never.
	PollMin, PollMax time.Duration
	// PollCancels says that the store does not tell of runs that are to be canceled, so
	// that it is asked with each heartbeat.
	PollCancels bool
	// BatchEnds says that the store takes its time, so that the ends of several runs are
	// written in one call.
	BatchEnds bool
	// FewLines is the number of queues up to which all of them are asked for if something
	// has changed and it is not known where. If there are more, the store is asked first
	// which of them have work.
	FewLines int
	// RetryScan is how often to look for jobs whose retry somebody left.
	RetryScan time.Duration
	// Random returns a number between 0 and 1. It is where all variation comes from.
	Random func() float64
}

// Core is the state of an engine. It is not safe for concurrent use.
type Core struct {
	config   Config
	now      Time
	commands []Command

	// Queues and their workers; see line.go.
	lines map[string]*Line
	order list.List // of *Line: first the one that was served least lately
	// firstServed and lastServed are the numbers of the first and the last in that order.
	firstServed, lastServed int

	// Claims; see claim.go.
	candidates candidates
	expiring   []*Line // of which mayHaveExpired is true
	// expiredLeft is true if a claim failed that asked for what has expired.
	expiredLeft bool
	out         int // runs that have not returned, without stuckRuns
	// stuckRuns counts the runs that are stuck and do not count against the limit of runs.
	stuckRuns int
	yields    int // since the claim before, for the next
	yielding  bool
	gathered  int  // workers that waited for the claim before when it ended
	alone     *Run // that runs alone, or waits until it can; see suspect.go
	due       time.Time
	watched   []*Line // by those who want to know when they are idle

	// Looks for queues with work; see look.go.
	openEvery time.Duration // how often to look for queues to open; 0 for never
	lookAgain bool          // when the look that is under way has ended
	// lookClaims and lookOpens say what the next look is for: for what may be claimed of
	// queues that are open, and for queues that are to be opened.
	lookClaims, lookOpens bool
	lookFrom              time.Duration // when the next look may be made
	opening               bool          // the shell opens queues

	// unknown are the kinds that this process does not know, in the order in which it met
	// them. It is replaced, and never changed.
	unknown []driver.Kind

	// Leases; see lease.go.
	held []*Run
	// lostEarly are leases that were lost while a claim was under way, and were not held.
	lostEarly []driver.Lease
	cancels   int // changes that may ask for canceling

	ends   ends
	calls  calls
	timers timers
	begun  bool // the first queue was resumed
	// recoverFrom is when holders have had time to renew, after the store came back.
	recoverFrom time.Duration
	// retriesFrom is when retries may be looked for again.
	retriesFrom time.Duration
	// rescanRetries is true from when a queue may have retries that a look under way misses.
	rescanRetries bool
	failing       bool // the last call of the store has failed
	closing       bool
	// ending counts the runs whose end is not done with.
	ending int
}

// New returns the core of an engine that has no queue yet.
func New(config Config, now Time) *Core {
	c := &Core{config: config, now: now, lines: map[string]*Line{}}
	c.timers.init()
	c.ends.init()
	return c
}

// Step says that something has happened, now, and appends what is to be done to
// commands. Nothing that a command refers to may be changed by the shell, other than
// the fields that are said to be its own.
func (c *Core) Step(now Time, event Event, commands []Command) []Command {
	c.commands = commands
	c.timePassed(now)
	c.handle(event)
	c.setWake()
	commands, c.commands = c.commands, nil
	return commands
}

// handle is the table of all that can happen, in the order in which a job lives.
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
	case Tick: // timePassed did what is due; the shell has no other Tick to come
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

// Busy tells whether there are leases of a queue.
func (c *Core) Busy(queue string) bool {
	for _, r := range c.held {
		if r.Lease.Queue == queue {
			return true
		}
	}
	return false
}

// Holds tells whether there are leases.
func (c *Core) Holds() bool { return len(c.held) > 0 }

// Quiet tells whether no claim is under way, of which the answer may hold leases, and no
// end waits to be written. A claim that is late does not count.
func (c *Core) Quiet() bool { return !c.calls.isOpen(claimCall) && c.ending == 0 }

// QuietFor tells whether that holds for a queue.
func (c *Core) QuietFor(l *Line) bool {
	if claim := c.calls.find(c.calls.current[claimCall]); claim != nil && claim.asksFor(l) {
		return false
	}
	for _, r := range c.held {
		if r.finishing && r.Lease.Queue == l.Queue {
			return false
		}
	}
	return true
}

// Due is when there may be more to claim because a time comes; zero for never.
func (c *Core) Due() time.Time { return c.due }

// heartbeat is how often leases are renewed, so that one late renewal, or two, lose
// none.
func (c *Core) heartbeat() time.Duration { return c.config.LeaseTime / 4 }

// maxMargin and marginPart say how long before its end a lease counts as over, so that a
// run has ended when another process may take it: a tenth of it, and two seconds at most.
const (
	maxMargin  = 2 * time.Second
	marginPart = 10
)

// fence is when a lease counts as over that was taken, or renewed, by a call.
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
