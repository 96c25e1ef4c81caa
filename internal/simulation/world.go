package simulation

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
)

// Options are all that a history depends on.
type Options struct {
	Seed uint64
	// ClockSteps lets wall clocks jump, of one process or of all.
	ClockSteps bool
	// Deaf makes a mistake that must be found: contexts of runs do not end.
	Deaf bool
}

// Result is what came of a world.
type Result struct {
	Processes int
	Events    []Event
	Violation *Violation
	Counts    Counts
	// Lasted is the virtual time that it took.
	Lasted time.Duration
}

// Counts are of what happened in a world. Of the faults those count that hit: a process
// that held a lease, or a call of the claim, renew, end or retry path.
type Counts struct {
	Jobs, Refused, Runs, Fenced int
	// Calls are those of these paths, and FailedCalls those of them that failed.
	Calls, FailedCalls                               int
	Kills, Suspensions, Partitions, ClockSteps, Lost int
	// Deploys are processes that were closed while they held a lease, and Canceled jobs
	// that an operator has canceled or ended. Parked are those that were interrupted too
	// often.
	Deploys, Canceled, Parked int
}

// Add adds the counts of another world.
func (c *Counts) Add(o Counts) {
	c.Jobs += o.Jobs
	c.Refused += o.Refused
	c.Runs += o.Runs
	c.Fenced += o.Fenced
	c.Calls += o.Calls
	c.FailedCalls += o.FailedCalls
	c.Kills += o.Kills
	c.Suspensions += o.Suspensions
	c.Partitions += o.Partitions
	c.ClockSteps += o.ClockSteps
	c.Lost += o.Lost
	c.Deploys += o.Deploys
	c.Canceled += o.Canceled
	c.Parked += o.Parked
}

func (c Counts) String() string {
	return fmt.Sprintf("%d jobs (%d more refused, %d canceled, %d parked), %d runs (%d fenced), %d calls; faults that hit: %d kills, %d soft stops, %d suspensions, %d partitions, %d failed calls, %d clock steps, %d lost notifications",
		c.Jobs, c.Refused, c.Canceled, c.Parked, c.Runs, c.Fenced, c.Calls, c.Kills, c.Deploys, c.Suspensions, c.Partitions, c.FailedCalls, c.ClockSteps, c.Lost)
}

// World is a number of processes over one store, in virtual time. It runs in one
// goroutine, and all chance comes from one source.
type World struct {
	settings    settings
	random      *rand.Rand
	now         time.Duration
	agenda      agenda
	driver      *memory.Driver
	network     network
	processes   []*process
	checker     *Checker
	events      []Event
	silent      bool // keeps no events
	counts      Counts
	changed     bool // by a call of the store, since the last notifications
	faultsEnded bool
	// quietFrom is when the last fault is over; it is known when faults have ended.
	quietFrom time.Duration
	// calmFrom is when what was lost or hung because of faults keeps nothing waiting any
	// more: what happens from then on happens soon.
	calmFrom time.Duration
	owed     owed
	asked    []*Task // that an operator has canceled
}

// settings are those of the processes of a world.
type settings struct {
	processes  int
	queues     []string
	workers    int // of each queue in each process
	core       core.Config
	notified   bool
	retryPause time.Duration
	clockSteps bool
	deaf       bool
	// refusals is true where the store refuses the ends of some tasks for long. As they
	// are offered all the time, no fault lasts for hours in such a world.
	refusals bool
	// rollout is true if some tasks are of a new type, which the processes come to know one
	// by one.
	rollout bool
	// fast is one in how many messages takes longer than the others.
	fast int
	// maxInterruptions is how often a job may be interrupted; 0 for no limit.
	maxInterruptions int
}

// newWorld makes a world whose processes have not started.
func newWorld(s settings, random *rand.Rand, n network) (*World, error) {
	w := &World{settings: s, random: random, network: n}
	var err error
	w.driver, err = memory.New(memory.Options{
		KeepFinished: 1 << 30,
		Now:          func() time.Time { return timeAt(w.now) },
		Elapsed:      func() time.Duration { return w.now },
	})
	if err != nil {
		return nil, err
	}
	w.driver.Subscribe(func(driver.Change) { w.changed = true })
	w.checker = NewChecker(!s.clockSteps)
	for i := range s.processes {
		w.processes = append(w.processes, &process{w: w, index: i})
	}
	return w, nil
}

// step lets the next thing happen.
func (w *World) step() {
	next := w.agenda.next()
	w.now = max(w.now, next.at)
	w.dispatch(next)
	w.notify()
}

// dispatch lets something happen now, or when the process to which it happens goes on.
func (w *World) dispatch(s *scheduled) {
	if p := s.to; p != nil {
		if p.life != s.life {
			return
		}
		if p.suspended {
			p.deferred = append(p.deferred, s)
			return
		}
	}
	s.what.happen(w)
}

// after arranges for something to happen to the world.
func (w *World) after(delay time.Duration, what happening) {
	w.agenda.add(&scheduled{at: w.now + delay, what: what})
}

// log adds an event to the history, and has it judged.
func (w *World) log(e Event) {
	e.At = w.now
	if !w.silent {
		w.events = append(w.events, e)
	}
	w.checker.Observe(e)
}

// violate says that a promise was broken that the history does not show.
func (w *World) violate(r Rule, job, format string, args ...any) {
	w.checker.violated(w.now, r, []string{job}, format, args...)
}

// upTo is a random time. Without a source of chance it is zero.
func (w *World) upTo(longest time.Duration) time.Duration {
	if w.random == nil || longest <= 0 {
		return 0
	}
	return time.Duration(w.random.Int64N(int64(longest) + 1))
}

// longestTick is how late a timer may be.
func (w *World) longestTick() time.Duration { return time.Millisecond }

// between is a random time between two, of each order of magnitude as often.
func (w *World) between(shortest, longest time.Duration) time.Duration {
	ratio := float64(longest) / float64(shortest)
	return time.Duration(float64(shortest) * math.Pow(ratio, w.random.Float64()))
}

func (w *World) oneIn(n int) bool { return w.random != nil && w.random.IntN(n) == 0 }

// notify tells the processes that the store has changed, if it has.
func (w *World) notify() {
	if !w.changed {
		return
	}
	w.changed = false
	if !w.settings.notified {
		return
	}
	for _, p := range w.processes {
		if !p.alive {
			continue
		}
		delay, lost := w.network.notification(w, p)
		if lost {
			w.counts.Lost++
			continue
		}
		p.after(delay, notification{p})
	}
}

// notification tells a process that the store has changed.
type notification struct{ p *process }

func (n notification) happen(*World) {
	n.p.step(core.StoreChanged{Change: driver.Change{MayClaim: true}})
}

func (w *World) result() *Result {
	return &Result{
		Processes: len(w.processes),
		Events:    w.events,
		Violation: w.checker.violation,
		Counts:    w.counts,
		Lasted:    w.now,
	}
}
