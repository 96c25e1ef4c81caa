package simulation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// Rule is a promise, named by its violation. The first rules are those of the crash
// tests.
type Rule string

// The rules.
const (
	Lost       Rule = "an accepted job was lost"
	WrongEnd   Rule = "a job ended in a way that was not planned"
	RanRefused Rule = "a refused job ran"
	RunsAgain  Rule = "an attempt ran again after it had ended"
	TwoHolders Rule = "two live runs held the same job or scope"
	TooEarly   Rule = "a job began too early"
	TooLate    Rule = "a job began after it had expired"
	Attempts   Rule = "an attempt was used up"
	FailedSoon Rule = "a job failed with attempts left"
	// LeaseOver: a run continued after its lease in the store was over.
	LeaseOver Rule = "a run was live without a lease"
	// Late: something should have happened sooner after the last fault.
	Late        Rule = "something came too late"
	CountsWrong Rule = "the counts are not exact"
	// CoreRule: package core broke one of its invariants.
	CoreRule Rule = "an invariant of the core is broken"
)

// Violation is a broken promise.
type Violation struct {
	At     time.Duration
	Rule   Rule
	Jobs   []string
	Detail string
}

func (v *Violation) String() string {
	return fmt.Sprintf("at %s: %s: %s: %s", clock(v.At), strings.Join(v.Jobs, ", "), v.Rule, v.Detail)
}

// Checker checks a history while it happens. It stops at the first violation.
type Checker struct {
	// clocksAgree is true if no wall clock jumps.
	clocksAgree bool
	tasks       map[string]*Task
	jobs        map[string]*jobHistory
	order       []string // the jobs in the order of their Puts
	live        []*liveRun
	suspended   map[int]bool
	// excused is the time until which a process does not have to know that its leases are
	// over.
	excused map[int]time.Duration
	// leases counts the leases given in each queue, by the priority of their jobs.
	leases    map[queuePriority]int
	violation *Violation
}

type queuePriority struct {
	queue    string
	priority int
}

// jobHistory is the known state of a job.
type jobHistory struct {
	accepted bool
	attempt  int            // the last stored attempt
	ended    bool           // whether that attempt has ended
	state    amboy.JobState // of that attempt, if it has ended
	lease    int            // the count of its last lease
	until    time.Duration  // when that lease ends
	runs     int            // of that attempt
	asked    bool           // an operator has canceled the job
	byHand   bool           // an operator has ended it
}

// liveRun is a run whose context has not ended.
type liveRun struct {
	Event
	task  *Task
	until time.Duration
}

func (r *liveRun) String() string {
	return fmt.Sprintf("%s attempt %d lease %d in process %d, since %s", r.Job, r.Attempt, r.Lease, r.Process, clock(r.At))
}

// NewChecker returns a checker for a history. clocksAgree is true if no wall clock jumps
// in it.
func NewChecker(clocksAgree bool) *Checker {
	return &Checker{
		clocksAgree: clocksAgree,
		tasks:       map[string]*Task{},
		jobs:        map[string]*jobHistory{},
		suspended:   map[int]bool{},
		excused:     map[int]time.Duration{},
		leases:      map[queuePriority]int{},
	}
}

// Expect announces a task that is about to be put.
func (c *Checker) Expect(t *Task) {
	c.tasks[t.ID] = t
	c.jobs[t.ID] = &jobHistory{}
	c.order = append(c.order, t.ID)
}

func (c *Checker) violated(at time.Duration, r Rule, jobs []string, format string, args ...any) {
	if c.violation == nil {
		c.violation = &Violation{at, r, jobs, fmt.Sprintf(format, args...)}
	}
}

// Observe checks an event.
func (c *Checker) Observe(e Event) {
	c.checkLeases(e.At)
	switch e.Kind {
	case Suspended:
		c.suspended[e.Process] = true
	case Resumed:
		delete(c.suspended, e.Process)
		c.excused[e.Process] = max(c.excused[e.Process], e.Until) // it may be suspended again meanwhile
		c.checkResumed(e)
	case Stopped, Closed:
		delete(c.suspended, e.Process)
		delete(c.excused, e.Process)
		c.live = slices.DeleteFunc(c.live, func(r *liveRun) bool { return r.Process == e.Process })
	}
	if j := c.jobs[e.Job]; j != nil {
		c.observe(e, c.tasks[e.Job], j)
	}
}

func (c *Checker) observe(e Event, t *Task, j *jobHistory) {
	switch e.Kind {
	case Accepted:
		j.accepted = true
	case Leased:
		if j.ended || e.Attempt != j.attempt {
			c.violated(e.At, RunsAgain, []string{e.Job}, "attempt %d was claimed, but attempt %d is stored (ended: %t)", e.Attempt, j.attempt, j.ended)
		}
		j.lease, j.until = e.Lease, e.Until
		c.leases[queuePriority{t.Queue, t.Priority}]++
	case Renewed:
		// A renewal that was overtaken by a later one changes nothing.
		j.until = max(j.until, e.Until)
		for _, r := range c.live {
			if r.Job == e.Job && r.Attempt == e.Attempt && r.Lease == e.Lease {
				r.until = j.until
			}
		}
	case Began:
		c.began(e, t, j)
	case ContextEnded, Returned:
		c.live = slices.DeleteFunc(c.live, func(r *liveRun) bool {
			return r.Process == e.Process && r.Job == e.Job && r.Attempt == e.Attempt && r.Lease == e.Lease
		})
	case Ended:
		c.ended(e, t, j)
	case Replaced:
		if !j.ended || j.state != amboy.StateRetrying || j.attempt != e.Attempt {
			c.violated(e.At, Attempts, []string{e.Job}, "attempt %d was replaced but must not be retried", e.Attempt)
		}
		*j = jobHistory{accepted: true, attempt: e.Attempt + 1, asked: j.asked}
	case CancelAsked:
		j.asked = true
	case EndedByHand:
		j.ended, j.state, j.byHand = true, amboy.StateSucceeded, true
	}
}

// checkLeases finds runs that are live after their lease is over.
func (c *Checker) checkLeases(now time.Duration) {
	for _, r := range c.live {
		if now > r.until && !c.isExcused(r.Process, now) {
			c.violated(now, LeaseOver, []string{r.Job}, "%s; its lease ended at %s", r, clock(r.until))
		}
	}
}

func (c *Checker) began(e Event, t *Task, j *jobHistory) {
	jobs := []string{e.Job}
	r := &liveRun{Event: e, task: t, until: j.until}
	isOver := e.Attempt < j.attempt || e.Attempt == j.attempt && (j.ended || e.Lease < j.lease)
	excused := false
	switch {
	case !j.accepted:
		c.violated(e.At, RanRefused, jobs, "%s", r)
	case j.byHand && e.Lease == j.lease:
		// The process does not know yet.
	case isOver && c.isExcused(e.Process, e.At):
		// A worker got the run before the process was suspended.
		excused, r.until = true, 0
	case e.Attempt < j.attempt || j.ended && e.Attempt == j.attempt:
		c.violated(e.At, RunsAgain, jobs, "%s", r)
	case e.Attempt > j.attempt:
		c.violated(e.At, Attempts, jobs, "%s; attempt %d has not ended", r, j.attempt)
	case e.Lease != j.lease:
		c.violated(e.At, LeaseOver, jobs, "%s; it has lease %d now", r, j.lease)
	case c.clocksAgree && e.Attempt == 0 && e.At < t.NotBefore:
		c.violated(e.At, TooEarly, jobs, "it had to wait until %s", clock(t.NotBefore))
	case c.clocksAgree && e.Attempt == 0 && t.DispatchBy > 0 && e.At > t.DispatchBy:
		c.violated(e.At, TooLate, jobs, "it had to begin by %s", clock(t.DispatchBy))
	}
	j.runs++
	for _, edge := range t.Edges {
		if before := c.jobs[edge]; !before.ended || before.state == amboy.StateRetrying {
			c.violated(e.At, TooEarly, []string{e.Job, edge}, "job %s has not ended", edge)
		} else if before.state != amboy.StateSucceeded {
			c.violated(e.At, WrongEnd, []string{e.Job, edge}, "it runs although job %s is %s", edge, before.state)
		}
	}
	if !excused {
		c.checkHolders(r)
	}
	c.live = append(c.live, r)
}

// checkHolders finds other runs that hold the same job or scope as a run.
func (c *Checker) checkHolders(r *liveRun) {
	for _, other := range c.live {
		if other == r || c.isExcused(other.Process, r.At) {
			continue
		}
		if other.Job == r.Job {
			c.violated(r.At, TwoHolders, []string{r.Job}, "%s; %s", r, other)
		}
		if other.task.Queue != r.task.Queue {
			continue
		}
		for _, scope := range r.task.Scopes {
			if slices.Contains(other.task.Scopes, scope) {
				c.violated(r.At, TwoHolders, []string{r.Job, other.Job}, "scope %s: %s; %s", scope, r, other)
			}
		}
	}
}

// isExcused reports whether a process can't know that it has lost leases.
func (c *Checker) isExcused(process int, now time.Duration) bool {
	return c.suspended[process] || now <= c.excused[process]
}

// checkResumed finds runs that continue in a resumed process although another run holds
// the same job or scope.
func (c *Checker) checkResumed(e Event) {
	c.checkLeases(e.At)
	for _, r := range c.live {
		if r.Process == e.Process && !c.isExcused(e.Process, e.At) {
			c.checkHolders(r)
		}
	}
}

func (c *Checker) ended(e Event, t *Task, j *jobHistory) {
	jobs := []string{e.Job}
	endsRetry := j.ended && j.state == amboy.StateRetrying && (e.State == amboy.StateFailed || e.State == amboy.StateCanceled)
	if e.Attempt != j.attempt || j.ended && !endsRetry {
		c.violated(e.At, RunsAgain, jobs, "attempt %d ended as %s, but attempt %d is stored as %s", e.Attempt, e.State, j.attempt, j.state)
		return
	}
	j.ended, j.state = true, e.State
	unrun := e.State == amboy.StateExpired || e.State == amboy.StateCanceled || e.State == amboy.StateFailed && c.hasFailedEdge(t)
	switch {
	case e.State == amboy.StateCanceled && !j.asked:
		c.violated(e.At, WrongEnd, jobs, "it was canceled without a request of an operator")
	case e.State == amboy.StateFailed && e.Attempt+1 < t.Attempts && !unrun:
		c.violated(e.At, FailedSoon, jobs, "attempt %d of %d", e.Attempt+1, t.Attempts)
	case j.runs == 0 && !unrun:
		c.violated(e.At, WrongEnd, jobs, "it is %s but did not run", e.State)
	case e.State == amboy.StateExpired && (t.DispatchBy == 0 || c.clocksAgree && e.At < t.DispatchBy):
		c.violated(e.At, WrongEnd, jobs, "it expired before its dispatch-by time %s", clock(t.DispatchBy))
	}
}

func (c *Checker) hasFailedEdge(t *Task) bool {
	return slices.ContainsFunc(t.Edges, func(edge string) bool {
		j := c.jobs[edge]
		return j.ended && j.state != amboy.StateSucceeded && j.state != amboy.StateRetrying
	})
}

// isDone reports whether a job has ended for good, or was refused.
func (j *jobHistory) isDone() bool {
	return !j.accepted || j.ended && j.state != amboy.StateRetrying
}

// LeasesBefore counts the leases given in the queue of a task to jobs of at least its priority.
func (c *Checker) LeasesBefore(t *Task) (leases int) {
	for of, n := range c.leases {
		if of.queue == t.Queue && of.priority >= t.Priority {
			leases += n
		}
	}
	return leases
}

// Open lists the jobs that have not ended.
func (c *Checker) Open() (open []string) {
	for _, id := range c.order {
		if !c.jobs[id].isDone() {
			open = append(open, id)
		}
	}
	return open
}

// End checks a complete history.
func (c *Checker) End(at time.Duration) *Violation {
	for _, id := range c.order {
		c.checkEnd(at, c.tasks[id], c.jobs[id])
	}
	for _, r := range c.live {
		c.violated(at, LeaseOver, []string{r.Job}, "%s; it is still live at the end", r)
	}
	return c.violation
}

func (c *Checker) checkEnd(at time.Duration, t *Task, j *jobHistory) {
	jobs := []string{t.ID}
	if !j.accepted {
		return
	}
	if !j.isDone() {
		c.violated(at, Lost, jobs, "attempt %d is %q at the end", j.attempt, j.state)
		return
	}
	want, attempt := amboy.StateSucceeded, t.Failures
	switch {
	case j.state == amboy.StateExpired, j.state == amboy.StateCanceled, j.byHand:
		return // checked when it ended
	case c.hasFailedEdge(t):
		want, attempt = amboy.StateFailed, 0
	case t.Failures >= t.Attempts:
		want, attempt = amboy.StateFailed, t.Attempts-1
	}
	if j.state != want || j.attempt != attempt {
		c.violated(at, WrongEnd, jobs, "it is %s in attempt %d instead of %s in attempt %d", j.state, j.attempt, want, attempt)
	}
}

// parse returns the job and the attempt of a lease.
func (c *Checker) parse(l driver.Lease) (id string, attempt int) {
	id = strings.TrimPrefix(l.Name, l.Queue+".")
	if number, rest, ok := strings.Cut(strings.TrimPrefix(id, "attempt-"), "."); ok && rest != "" && strings.HasPrefix(id, "attempt-") {
		if n, err := strconv.Atoi(number); err == nil {
			return rest, n
		}
	}
	return id, 0
}

// Violation returns the first violation so far, or nil.
func (c *Checker) Violation() *Violation { return c.violation }
