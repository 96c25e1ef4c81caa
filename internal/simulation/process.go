package simulation

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

// process is a core with a shell that executes the core's commands. It can be killed and
// started again; each life has its own core.
type process struct {
	w         *World
	index     int
	life      int
	alive     bool
	suspended bool
	// uncounted is true while the process is suspended and its monotonic clock stands
	// still. Its wall clock must not be set then, because nothing would show how long it
	// was suspended.
	uncounted bool
	deferred  []*scheduled  // what arrived while it was suspended
	step0     time.Duration // the error of its wall clock
	started   time.Duration // when its monotonic clock was zero
	owner     string
	core      *core.Core
	workers   []*worker
	runs      []*run
	retries   []*retry
	wakes     uint64 // counts the Wakes; only the last is valid
	open      []*call

	refused []*core.Run   // whose end the store refused at first
	failing bool          // the last call of the core failed
	worked  time.Duration // when the last call was sent that succeeded
	backAt  time.Duration // when the store was back from an outage
	renewed time.Duration // when it last began to renew its leases

	claimed, done int // claimed records, and runs that are over
	claimedAt     map[driver.Lease]time.Duration
	lostClaims    bool // the answer to a claim did not come in time
	link          link

	isNew    bool           // it runs the new version of the program
	unknown  []driver.Kind  // kinds that it has met and does not know
	suspects []driver.Lease // of the jobs that run alone, or wait until they can

	lines       []*core.Line
	closing     bool // no more jobs begin
	toldClosing bool
	abandoned   bool // the core has given up what was not written
	spoiled     bool // the store refused the end of a run for good
}

// worker takes runs of a queue.
type worker struct {
	core.Worker
	p       *process
	waiting bool
}

// run is a run that the core has started or wants to end.
type run struct {
	*core.Run
	p        *process
	worker   *worker // nil for an expired job
	task     *Task
	attempt  int
	began    bool
	returned bool
	// claimedAt is when its process claimed it.
	claimedAt time.Duration
	over      bool
	canceled  bool // its context has ended
	stopped   bool // because the process closes
	offered   bool // its end was offered to the store
	// forgotten is true after the core no longer needs the run.
	forgotten bool
	lost      bool // the core knows that the lease is lost
}

// start begins a life.
func (p *process) start() {
	w := p.w
	p.life++
	p.alive, p.suspended, p.uncounted, p.deferred = true, false, false, nil
	p.started = w.now
	p.owner = fmt.Sprintf("p%d.%d", p.index, p.life)
	p.workers, p.runs, p.retries, p.open, p.wakes = nil, nil, nil, nil, 0
	p.claimed, p.done, p.lostClaims, p.failing, p.worked, p.backAt, p.refused = 0, 0, false, false, p.w.now, 0, nil
	p.unknown = nil
	p.suspects, p.claimedAt = nil, map[driver.Lease]time.Duration{}
	p.lines, p.closing, p.toldClosing, p.abandoned, p.spoiled = nil, false, false, false, false
	p.link = link{}
	w.log(Event{Process: p.index, Kind: started, Note: p.owner})
	p.core = core.New(w.settings.core, p.instant())
	for _, name := range w.settings.queues {
		line := &core.Line{Queue: name, MaxInterruptions: w.settings.maxInterruptions}
		p.lines = append(p.lines, line)
		p.step(core.Opened{Line: line})
		p.step(core.Resumed{Line: line})
		for range w.settings.workers {
			wk := &worker{p: p}
			wk.Worker = core.Worker{Line: line, Shell: wk}
			p.workers = append(p.workers, wk)
			p.after(w.upTo(time.Millisecond), workerComes{wk})
		}
	}
}

// kill ends a life. Calls that were sent take effect all the same.
func (p *process) kill() { p.stop(Stopped) }

func (p *process) stop(how Kind) {
	p.w.log(Event{Process: p.index, Kind: how})
	p.life++
	p.alive, p.suspended, p.deferred = false, false, nil
	p.closing = false
	p.core, p.workers, p.runs, p.retries, p.open = nil, nil, nil, nil, nil
}

func (p *process) suspend() {
	p.suspended = true
	p.w.log(Event{Process: p.index, Kind: Suspended})
}

// resume resumes a process that was suspended for a time, which its monotonic clock may
// not have counted. First of all, its core is told the time.
func (p *process) resume(uncounted time.Duration) {
	p.suspended, p.uncounted = false, false
	p.started += uncounted
	arrived := p.deferred
	p.deferred = nil
	p.step(core.Tick{})
	resumed := Event{Process: p.index, Kind: Resumed}
	if uncounted > 0 {
		// It renews its leases at once, and ends what it can't renew.
		resumed.Until = p.w.now + min(p.w.settings.core.LeaseTime/4, renewLimit) + p.w.longestTick()
		resumed.Note = "by a clock that has not counted it"
	}
	p.w.log(resumed)
	for _, s := range arrived {
		p.w.dispatch(s)
	}
}

func (p *process) after(delay time.Duration, what happening) {
	p.w.agenda.add(&scheduled{at: p.w.now + delay, to: p, life: p.life, what: what})
}

func (p *process) wall() time.Time { return timeAt(p.w.now + p.step0) }

func (p *process) instant() core.Time {
	return core.Time{Mono: p.w.now - p.started, Wall: p.wall()}
}

// holds reports whether the process has a lease.
func (p *process) holds() bool { return p.alive && p.core.Holds() }

// step passes an event to the core and executes its commands. Commands that affect only
// the process come first, because others may cause another step.
func (p *process) step(event core.Event) {
	var rest []core.Command
	started := 0
	for _, command := range p.core.Step(p.instant(), event, nil) {
		if _, ok := command.(core.Start); ok {
			started++
		}
		if !p.note(command) {
			rest = append(rest, command)
		}
	}
	for _, r := range p.runs[max(0, len(p.runs)-started):] {
		p.checkAlone(r)
	}
	for _, command := range rest {
		p.carryOut(command)
	}
	p.checkUnstarted()
}

// note executes commands to workers and to the timer, and checks commands to the store.
// It returns false for commands that carryOut must execute.
func (p *process) note(command core.Command) bool {
	w := p.w
	switch do := command.(type) {
	case core.Wake:
		p.wakes++
		p.after(max(0, p.started+do.At-w.now)+w.upTo(time.Millisecond), tick{p, p.wakes})
	case core.Start:
		wk := do.Worker.Shell.(*worker)
		if !wk.waiting {
			w.violate(CoreRule, "", "a worker that does not wait was given a run")
		}
		wk.waiting = false
		r := p.newRun(do.Run, wk)
		p.checkStart(r)
		p.after(w.upTo(200*time.Microsecond), runBegins{r})
	case core.Dismiss:
		do.Worker.Shell.(*worker).waiting = false
	case core.Claim:
		p.checkDemand(do)
		p.checkUnknown(do)
		return false
	case core.Done:
		if r := p.runOf(do.Run); r != nil {
			r.forgotten = true
		}
		return false
	case core.Renew:
		p.checkRenewed(do)
		return false
	case core.Recover:
		p.checkRecovery(do)
		return false
	default:
		return false
	}
	return true
}

func (p *process) carryOut(command core.Command) {
	w := p.w
	switch do := command.(type) {
	case core.Yield:
		p.after(w.upTo(20*time.Microsecond), yielded{p})
	case core.Expire:
		p.newRun(do.Run, nil).expire()
	case core.Park:
		p.park(do.Run)
	case core.Cancel:
		p.cancel(do.Run, do.Cause)
	case core.Done:
		p.over(do.Run, do.Err)
	case core.Report:
		w.log(Event{Process: p.index, Kind: reported, Note: do.What + ": " + do.Err.Error()})
	case core.Refused:
		p.refused = append(p.refused, do.Run)
	case core.Drained:
	default:
		p.send(command)
	}
}

// tick is the firing of a timer, unless another was set since.
type tick struct {
	p    *process
	wake uint64
}

func (t tick) happen(*World) {
	if t.wake == t.p.wakes {
		t.p.step(core.Tick{})
	}
}

type yielded struct{ p *process }

func (y yielded) happen(*World) { y.p.step(core.Yielded{}) }

// workerComes makes a worker wait for a run.
type workerComes struct{ worker *worker }

func (c workerComes) happen(*World) {
	c.worker.waiting = true
	c.worker.p.step(core.Waiting{Worker: &c.worker.Worker})
}

// comesAgain makes the worker of a run wait for another.
func (r *run) comesAgain() {
	if r.worker != nil {
		r.p.after(r.p.w.upTo(50*time.Microsecond), workerComes{r.worker})
	}
}

func (p *process) newRun(from *core.Run, wk *worker) *run {
	r := &run{
		Run:     from,
		p:       p,
		worker:  wk,
		task:    p.w.checker.tasks[from.Record.JobID()],
		attempt: from.Record.RetryInfo.CurrentAttempt,

		claimedAt: p.claimedAt[from.Lease],
	}
	p.runs = append(p.runs, r)
	return r
}

func (p *process) runOf(of *core.Run) *run {
	for _, r := range p.runs {
		if r.Run == of {
			return r
		}
	}
	return nil
}

func (r *run) log(k Kind, note string) {
	r.p.w.log(Event{Process: r.p.index, Kind: k, Job: r.task.ID, Attempt: r.attempt, Lease: r.Lease.Count, Note: note})
}

func (r *run) isExpired() bool {
	deadline := r.Record.TimeInfo.DispatchBy
	return !deadline.IsZero() && deadline.Before(r.p.wall())
}

// expire ends a run that must no longer begin.
func (r *run) expire() {
	if r.isExpired() {
		r.end(amboy.StateExpired)
		return
	}
	r.handBack() // the clock was set back
}

func (r *run) end(state amboy.JobState) {
	r.endWith(core.End{Record: ended(r.Record, state, r.p.wall())})
}

func (r *run) handBack() { r.endWith(core.End{HandBack: &driver.HandBack{}}) }

func (r *run) endWith(end core.End) {
	r.returned = true
	r.p.cleared(r.Lease)
	r.p.step(core.Finished{Run: r.Run, End: end})
}

// runBegins is a worker that has got a run.
type runBegins struct{ run *run }

func (b runBegins) happen(w *World) {
	r := b.run
	switch {
	case r.isExpired():
		r.end(amboy.StateExpired)
		r.comesAgain()
	case !r.p.knows(r.task):
		r.leave()
		r.comesAgain()
	case r.Record.Dependency != nil && len(r.Record.Dependency.Failed) > 0:
		r.end(amboy.StateFailed)
		r.comesAgain()
	case r.isLost() || r.p.closing:
		r.handBack()
		r.comesAgain()
	default:
		r.began = true
		w.counts.Runs++
		r.log(Began, "")
		r.p.after(r.task.Lasts, runReturns{r})
		if r.Cause() != nil {
			r.p.cancel(r.Run, r.Cause())
		}
	}
}

func (r *run) isLost() bool { return r.Cause() == amboy.ErrLeaseLost } //nolint:errorlint // never wrapped here

// latency is the maximum time in which a handler returns after its context has ended.
const latency = 50 * time.Millisecond

// cancel ends the context of a run.
func (p *process) cancel(of *core.Run, cause error) {
	r := p.runOf(of)
	if r == nil || !r.began || r.returned || r.canceled || p.w.settings.deaf {
		return
	}
	r.canceled = true
	if r.isLost() {
		p.w.counts.Fenced++
	}
	r.log(ContextEnded, cause.Error())
	if !r.task.IgnoresContext {
		p.after(p.w.upTo(latency), runReturns{r})
	}
}

// runReturns is the end of a handler.
type runReturns struct{ run *run }

func (e runReturns) happen(*World) {
	r := e.run
	if r.returned {
		return
	}
	switch {
	case r.isLost() || r.stopped && r.Cause() == nil:
		r.log(Returned, "handed back")
		r.handBack()
		r.comesAgain()
	case r.Cause() != nil:
		r.log(Returned, "canceled")
		r.end(amboy.StateCanceled)
		r.comesAgain()
	case r.attempt >= r.task.Failures:
		r.log(Returned, "done")
		r.end(amboy.StateSucceeded)
		r.comesAgain()
	case r.task.Attempts > 1:
		r.log(Returned, "failed, with a retry")
		r.end(amboy.StateRetrying) // the worker waits until that is written
	default:
		r.log(Returned, "failed")
		r.end(amboy.StateFailed)
		r.comesAgain()
	}
}

// over is the end of a run.
func (p *process) over(of *core.Run, err error) {
	p.done++
	p.cleared(of.Lease)
	delete(p.claimedAt, of.Lease)
	p.refused = slices.DeleteFunc(p.refused, func(other *core.Run) bool { return other == of })
	r := p.runOf(of)
	if r == nil {
		return // it never began
	}
	if r.over {
		p.w.violate(CoreRule, r.task.ID, "a run ended twice")
	}
	r.over = true
	p.spoiled = p.spoiled || err != nil
	if err != nil && !errors.Is(err, amboy.ErrLeaseLost) && !errors.Is(err, errFinal) && !p.abandoned {
		p.w.violate(CoreRule, r.task.ID, "process %d gave up the end of a run: %v", p.index, err)
	}
	if err == nil && !r.offered && !r.lost {
		p.w.violate(CoreRule, r.task.ID, "process %d finished a run whose end was not written", p.index)
	}
	p.runs = slices.DeleteFunc(p.runs, func(other *run) bool { return other == r })
	record := r.End().Record
	if record == nil {
		return
	}
	if !record.RetryInfo.ShouldRetry() {
		p.changedStore()
		return
	}
	if err == nil {
		p.retry(record)
	}
	p.changedStore()
	r.comesAgain()
}

// changedStore notifies the core of this process's own changes, unless the store does.
func (p *process) changedStore() {
	if !p.w.settings.notified {
		p.step(core.Changed{})
	}
}
