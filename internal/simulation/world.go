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

// Options are the parameters of a history.
type Options struct {
	Seed uint64
	// ClockSteps makes wall clocks jump, of one process or of all.
	ClockSteps bool
	// Deaf plants a fault that must be found: contexts of runs do not end.
	Deaf bool
}

// Result is the result of running a world.
type Result struct {
	Processes int
	Events    []Event
	Violation *Violation
	Counts    Counts
	// Lasted is the virtual duration.
	Lasted time.Duration
}

// Counts counts what happened in a world. Only faults with an effect count: on a process
// that held a lease, or on a call of the claim, renew, end or retry path.
type Counts struct {
	Jobs, Refused, Runs, Fenced int
	// Calls counts the calls of these paths, and FailedCalls the failed ones among them.
	Calls, FailedCalls                               int
	Kills, Suspensions, Partitions, ClockSteps, Lost int
	// Deploys counts processes that were closed while they held a lease, Canceled the
	// jobs that an operator has canceled or ended, and Parked the jobs that were
	// interrupted too often.
	Deploys, Canceled, Parked int
	// Ahead counts the claims for more jobs than workers waited.
	Ahead int
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
	c.Ahead += o.Ahead
}

func (c Counts) String() string {
	return fmt.Sprintf("%d jobs (%d more refused, %d canceled, %d parked), %d runs (%d fenced), %d calls (%d claimed ahead); faults that hit: %d kills, %d soft stops, %d suspensions, %d partitions, %d failed calls, %d clock steps, %d lost notifications",
		c.Jobs, c.Refused, c.Canceled, c.Parked, c.Runs, c.Fenced, c.Calls, c.Ahead, c.Kills, c.Deploys, c.Suspensions, c.Partitions, c.FailedCalls, c.ClockSteps, c.Lost)
}

// World is a number of processes over one store, in virtual time. It runs in one
// goroutine, and all randomness comes from one source.
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
	silent      bool // does not keep events
	counts      Counts
	changed     bool // by a call of the store, since the last notifications
	faultsEnded bool
	// quietFrom is when the last fault is over. It is set when faults have ended.
	quietFrom time.Duration
	// calmFrom is when calls lost or hanging because of faults no longer delay anything:
	// everything that happens later happens soon.
	calmFrom time.Duration
	owed     owed
	asked    []*Task // canceled by an operator
}

// settings are the settings of a world and its processes.
type settings struct {
	processes  int
	queues     []string
	workers    int // of each queue in each process
	core       core.Config
	notified   bool
	retryPause time.Duration
	clockSteps bool
	deaf       bool
	// refusals is true if the store refuses the ends of some tasks for a long time.
	// Because these ends are offered all the time, no fault lasts for hours in such a
	// world.
	refusals bool
	// rollout is true if some tasks are of a new type, which the processes learn one by
	// one.
	rollout bool
	// short is true if most jobs take less time than a call of the store, so that processes claim
	// ahead.
	short bool
	// fast is the inverse of the share of slow messages: one in fast messages is slow.
	fast int
	// maxInterruptions is how often a job may be interrupted; 0 means no limit.
	maxInterruptions int
}

// newWorld returns a world whose processes have not started.
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

// step makes the next happening happen.
func (w *World) step() {
	next := w.agenda.next()
	w.now = max(w.now, next.at)
	w.dispatch(next)
	w.notify()
}

// dispatch makes something happen now, or when its suspended process is resumed.
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

// log adds an event to the history and has it checked.
func (w *World) log(e Event) {
	e.At = w.now
	if !w.silent {
		w.events = append(w.events, e)
	}
	w.checker.Observe(e)
}

// violate reports a broken promise that the history does not show.
func (w *World) violate(r Rule, job, format string, args ...any) {
	w.checker.violated(w.now, r, []string{job}, format, args...)
}

// upTo returns a random time. Without a random source it is zero.
func (w *World) upTo(longest time.Duration) time.Duration {
	if w.random == nil || longest <= 0 {
		return 0
	}
	return time.Duration(w.random.Int64N(int64(longest) + 1))
}

// longestTick returns how late a timer may be.
func (w *World) longestTick() time.Duration { return time.Millisecond }

// between returns a random time between two, uniformly distributed over orders of
// magnitude.
func (w *World) between(shortest, longest time.Duration) time.Duration {
	ratio := float64(longest) / float64(shortest)
	return time.Duration(float64(shortest) * math.Pow(ratio, w.random.Float64()))
}

func (w *World) oneIn(n int) bool { return w.random != nil && w.random.IntN(n) == 0 }

// notify notifies the processes if the store has changed.
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

// notification notifies a process that the store has changed.
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
