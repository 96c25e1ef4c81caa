package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

// path is the purpose of a call of the store.
type path string

const (
	claimPath    path = "claim"
	lookPath     path = "look for work"
	renewPath    path = "renew"
	cancelPath   path = "look for cancels"
	recoverPath  path = "recover"
	forgetPath   path = "forget"
	findPath     path = "look for retries"
	completePath path = "complete"
	releasePath  path = "release"
	checkPath    path = "check"
	retryPath    path = "retry"
	endRetryPath path = "end retry"
)

// counts reports whether a failed call of the path counts as a fault that hit.
func (p path) counts() bool {
	switch p {
	case claimPath, renewPath, completePath, releasePath, retryPath, endRetryPath:
		return true
	default:
		return false
	}
}

// renewLimit bounds the calls that renew leases.
const renewLimit = 5 * time.Second

// checkLimit bounds the calls without their own limit.
const checkLimit = 10 * time.Second

// forgetAtOnce is the number of finished jobs that one call may remove.
const forgetAtOnce = 1000

// call is a call of the store.
type call struct {
	p       *process
	life    int
	path    path
	command core.Command
	retry   *retry // of the retry paths
	sent    time.Duration
	limit   time.Duration
	owner   string
	now     time.Time // when it was sent, by the clock of the process
	fate    fate
	// result is the answer of the store, err is the error if it does not concern the
	// core, and found is the result of a query.
	result   core.Event
	err      error
	found    []*driver.Record
	answered bool
	mayHang  bool // counted among the calls that never return
	hangs    bool // never returns
	again    bool // it only writes an end that had been refused when the call was sent
}

// send makes a call for the core.
func (p *process) send(command core.Command) {
	c := &call{p: p, command: command}
	switch do := command.(type) {
	case core.Claim:
		c.path, c.limit = claimPath, do.Call.Limit
	case core.Look:
		c.path, c.limit = lookPath, do.Call.Limit
	case core.Renew:
		c.path, c.limit = renewPath, do.Call.Limit
	case core.CheckCancels:
		c.path, c.limit = cancelPath, do.Call.Limit
	case core.Recover:
		c.path, c.limit = recoverPath, do.Call.Limit
	case core.Forget:
		c.path, c.limit = forgetPath, do.Call.Limit
	case core.ScanRetries:
		c.path, c.limit = findPath, do.Call.Limit
	case core.Complete:
		c.path, c.limit = completePath, do.Call.Limit
		p.checkEnds(do.Runs)
	case core.Release:
		c.path, c.limit = releasePath, do.Call.Limit
		p.checkEnds(do.Runs)
	case core.Check:
		c.path, c.limit = checkPath, checkLimit
	default:
		panic(fmt.Sprintf("the simulation does not know the command %T", command))
	}
	p.post(c)
}

// checkDemand checks that no more is claimed than waiting workers can run, and a limited number
// ahead.
func (p *process) checkDemand(do core.Claim) {
	waiting := 0
	for _, wk := range p.workers {
		if wk.waiting {
			waiting++
		}
	}
	if do.Ahead > 0 {
		p.w.counts.Ahead++
	}
	now := do.Limit - do.Ahead
	if now > waiting || do.Ahead > core.MaxAhead {
		p.w.violate(CoreRule, "", "process %d claims %d jobs, %d of them ahead, for %d workers", p.index, do.Limit, do.Ahead, waiting)
	}
	if most := p.w.settings.core.MaxRunning; most > 0 && now+p.running() > most {
		p.w.violate(CoreRule, "", "process %d claims %d jobs, runs %d, and may run %d", p.index, now, p.running(), most)
	}
}

// checkRenewed checks that all unexpired leases are renewed, including those of runs
// whose end is waiting.
func (p *process) checkRenewed(do core.Renew) {
	p.renewed = p.w.now
	for _, r := range p.runs {
		if !r.forgotten && !r.isLost() && !slices.Contains(do.Leases, r.Lease) {
			p.w.violate(CoreRule, r.task.ID, "process %d does not renew a lease that it holds", p.index)
		}
	}
}

// checkRecovery checks that no lease is recovered whose run has not returned, and that
// none is recovered while the store fails or before the holders could renew their leases.
func (p *process) checkRecovery(do core.Recover) {
	for _, r := range p.runs {
		if !r.returned && !slices.Contains(do.Keep, r.Lease) {
			p.w.violate(CoreRule, r.task.ID, "process %d would recover a lease whose run has not returned", p.index)
		}
	}
	if heartbeat := p.w.settings.core.LeaseTime / 4; p.failing || p.w.now < p.backAt+heartbeat && p.backAt > 0 {
		p.w.violate(CoreRule, "", "process %d recovers leases before others can have renewed them; the store has been back since %s", p.index, clock(p.backAt))
	}
}

// isRefusedAgain reports whether a call only writes an end that was refused before.
func (p *process) isRefusedAgain(c *call) bool {
	if c.again {
		return true // its run may be over since
	}
	var runs []*core.Run
	switch do := c.command.(type) {
	case core.Complete:
		runs = do.Runs
	case core.Release:
		runs = do.Runs
	}
	return len(runs) == 1 && slices.Contains(p.refused, runs[0])
}

// recordSuccess records that the store works, as far as the core knows, and reports whether it is
// back. It counts as back from an outage only if others may have failed to renew their leases.
func (p *process) recordSuccess(c *call) (isBack bool) {
	isBack = p.failing
	if isBack && p.w.now-p.worked > p.w.settings.core.LeaseTime*3/8 {
		p.backAt = p.w.now
	}
	p.worked, p.failing = max(p.worked, c.sent), false
	return isBack
}

// checkRenewsNow checks that leases are renewed as soon as the store is back. held are the runs that
// the process had before.
func (p *process) checkRenewsNow(held []*run) {
	if slices.ContainsFunc(p.open, func(c *call) bool { return c.path == renewPath }) {
		return
	}
	for _, r := range held {
		if !r.over && !r.isLost() && p.w.now > p.renewed {
			p.w.violate(CoreRule, r.task.ID, "the store is back, but process %d does not renew its leases", p.index)
		}
	}
}

// running counts the runs that have not returned.
func (p *process) running() (n int) {
	for _, r := range p.runs {
		if !r.returned && r.worker != nil {
			n++
		}
	}
	return n
}

// checkEnds checks that nothing is written for a run whose lease is known to be lost.
func (p *process) checkEnds(runs []*core.Run) {
	for _, of := range runs {
		r := p.runOf(of)
		if r == nil {
			continue
		}
		r.offered = true
		if r.lost && r.End().Record == nil {
			p.w.violate(CoreRule, r.task.ID, "process %d hands back a lease that it knows to be lost", p.index)
		}
	}
}

// post sends a call. The network decides what becomes of it.
func (p *process) post(c *call) {
	w := p.w
	c.life, c.owner, c.now, c.sent = p.life, p.owner, p.wall(), w.now
	c.again = p.isRefusedAgain(c)
	p.open = append(p.open, c)
	if c.path.counts() {
		w.counts.Calls++
	}
	c.fate = w.network.fate(w, c)
	if !w.silent {
		w.log(Event{Process: p.index, Kind: sent, Note: c.describe()})
	}
	if !c.fate.ignoresLimit {
		p.after(c.limit, callEnds{c, context.DeadlineExceeded})
	}
	switch {
	case c.fate.before != nil:
		p.after(c.fate.request, callEnds{c, c.fate.before})
	case !c.fate.requestLost:
		w.after(c.fate.request, effect{c})
	}
}

func (c *call) describe() string {
	switch do := c.command.(type) {
	case core.Claim:
		return fmt.Sprintf("%s %d", c.path, do.Limit)
	case core.Renew:
		return fmt.Sprintf("%s %s", c.path, names(do.Leases))
	case core.Complete:
		return fmt.Sprintf("%s %s", c.path, namesOf(do.Runs))
	case core.Release:
		return fmt.Sprintf("%s %s", c.path, namesOf(do.Runs))
	}
	if c.retry != nil {
		return fmt.Sprintf("%s %s", c.path, c.retry.record.Name)
	}
	return string(c.path)
}

func names(leases []driver.Lease) (list []string) {
	for _, l := range leases {
		list = append(list, l.Name)
	}
	return list
}

func namesOf(runs []*core.Run) (list []string) {
	for _, r := range runs {
		list = append(list, r.Lease.Name)
	}
	return list
}

// effect is the effect of a call on the store.
type effect struct{ call *call }

func (e effect) happen(w *World) {
	c := e.call
	c.takeEffect(w)
	if c.p.life != c.life {
		return
	}
	if !w.network.losesAnswer(w, c) {
		c.p.after(c.fate.answer, callEnds{c, c.fate.after})
	} else if c.fate.ignoresLimit {
		if c.hangs = c.p.mayHang(c); !c.hangs {
			c.p.after(c.fate.answer, callEnds{c, errUnreachable})
		}
	}
}

// callEnds is the end of a call: its answer, or an error instead.
type callEnds struct {
	call *call
	err  error
}

func (e callEnds) happen(w *World) {
	c := e.call
	if c.answered {
		return
	}
	c.answered = true
	p := c.p
	p.open = slices.DeleteFunc(p.open, func(other *call) bool { return other == c })
	if e.err != nil {
		if c.path.counts() {
			w.counts.FailedCalls++
		}
		w.log(Event{Process: p.index, Kind: answered, Note: string(c.path) + ": " + e.err.Error()})
	}
	if c.retry != nil {
		c.retry.answered(c, e.err)
		return
	}
	answer := c.result
	if e.err != nil {
		answer = c.failure(e.err)
	}
	saysNothing := c.path == checkPath || e.err != nil && p.isRefusedAgain(c)
	p.lostClaims = p.lostClaims || e.err != nil && c.path == claimPath
	p.prepare(c, answer)
	held := slices.Clone(p.runs)
	isBack := e.err == nil && !saysNothing && p.recordSuccess(c) // the core may recover leases at once
	p.step(answer)
	if isBack {
		p.checkRenewsNow(held)
	}
	p.failing = p.failing || e.err != nil && !saysNothing
}

// prepare does what a shell does before it passes an answer to the core.
func (p *process) prepare(c *call, answer core.Event) {
	switch a := answer.(type) {
	case core.Claimed:
		p.claimed += len(a.Records)
		for _, r := range a.Records {
			p.claimedAt[driver.LeaseOf(r)] = p.w.now
		}
		p.expectSuspects(a.Records)
	case core.Renewed:
		for _, lease := range a.Lost {
			for _, r := range p.runs {
				r.lost = r.lost || !r.returned && r.Lease == lease
			}
		}
	case core.RetriesScanned:
		if a.Err == nil {
			for _, r := range c.found {
				p.retry(r)
			}
		}
	}
}

// errFinal is an error that repeating the call does not change.
var errFinal = errors.New("the store refuses the write")

// failure returns the answer to a call that failed.
func (c *call) failure(err error) core.Event {
	switch do := c.command.(type) {
	case core.Claim:
		return core.Claimed{Call: do.Call, Err: err}
	case core.Look:
		return core.Looked{Call: do.Call, Err: err}
	case core.Renew:
		return core.Renewed{Call: do.Call, Err: err}
	case core.CheckCancels:
		return core.CancelsFound{Call: do.Call, Err: err}
	case core.Recover:
		return core.Recovered{Call: do.Call, Err: err}
	case core.Forget:
		return core.Forgotten{Call: do.Call, Err: err}
	case core.ScanRetries:
		return core.RetriesScanned{Call: do.Call, Err: err}
	case core.Complete:
		return core.Written{Call: do.Call, Err: err, Final: errors.Is(err, errFinal)}
	case core.Release:
		return core.Written{Call: do.Call, Err: err, Final: errors.Is(err, errFinal)}
	case core.Check:
		return core.Checked{Run: do.Run}
	default:
		panic(fmt.Sprintf("the simulation does not know the command %T", c.command))
	}
}

// takeEffect makes the call of the driver.
func (c *call) takeEffect(w *World) {
	ctx := context.Background()
	lease := w.settings.core.LeaseTime
	switch do := c.command.(type) {
	case core.Claim:
		claimed, err := w.driver.Claim(ctx, driver.ClaimRequest{
			Owner: c.owner, Queues: do.Demands, Limit: do.Limit, Now: c.now, LeaseTime: lease, Except: do.Except,
		})
		for _, r := range claimed.Records {
			w.logRecord(c, Leased, r, timeAt(w.now).Add(lease))
		}
		c.result = core.Claimed{Call: do.Call, Records: claimed.Records, Next: claimed.Next, Waits: claimed.Waits, Err: err}
	case core.Look:
		work, err := w.driver.Work(ctx, c.now)
		c.result = core.Looked{Call: do.Call, Work: work, StaleIn: w.staleIn(do), Err: err}
	case core.Renew:
		lost, err := w.driver.Extend(ctx, do.Leases, lease)
		for _, l := range do.Leases {
			if !slices.Contains(lost, l) {
				w.logLease(c, Renewed, l, "", timeAt(w.now).Add(lease))
			}
		}
		c.result = core.Renewed{Call: do.Call, Lost: lost, Err: err}
	case core.CheckCancels:
		leases, err := w.driver.CancelRequests(ctx, c.owner)
		c.result = core.CancelsFound{Call: do.Call, Leases: leases, Err: err}
	case core.Recover:
		jobs, err := w.driver.RecoverStale(ctx, do.Keep...)
		if jobs > 0 {
			w.log(Event{Process: c.p.index, Kind: reported, Note: fmt.Sprintf("recovered %d jobs", jobs)})
			w.noteCanceled(c.p.index)
		}
		c.result = core.Recovered{Call: do.Call, Jobs: jobs, Err: err}
	case core.Forget:
		_, err := w.driver.Forget(ctx, c.now, forgetAtOnce)
		c.result = core.Forgotten{Call: do.Call, Err: err}
	case core.ScanRetries:
		var err error
		c.found, err = w.retrying()
		c.result = core.RetriesScanned{Call: do.Call, Err: err}
	case core.Complete:
		batch := make([]driver.Completion, len(do.Runs))
		for i, r := range do.Runs {
			batch[i] = driver.Completion{Lease: r.Lease, Record: r.End().Record}
		}
		errs, err := w.driver.Complete(ctx, batch)
		for i := range errs {
			w.logWrite(c, Ended, batch[i].Lease, w.stateWritten(do.Runs[i]), errs[i])
		}
		c.result = core.Written{Call: do.Call, Errs: errs, Err: err}
	case core.Release:
		batch := make([]driver.HandBack, len(do.Runs))
		for i, r := range do.Runs {
			batch[i] = *r.End().HandBack
			batch[i].Lease = r.Lease
		}
		errs, err := w.driver.Release(ctx, batch)
		for i := range errs {
			w.logWrite(c, Unleased, batch[i].Lease, "", errs[i])
			if batch[i].Park && errs[i] == nil {
				w.parked(batch[i].Lease)
			}
		}
		w.noteCanceled(c.p.index)
		c.result = core.Written{Call: do.Call, Errs: errs, Err: err}
	case core.Check:
		c.result = core.Checked{Run: do.Run, Written: w.isWritten(do.Run)}
	default:
		c.retry.takeEffect(w, c)
	}
}

// staleIn returns how long a recovery will find nothing. The memory driver can't tell: the history
// knows when leases end, and clocks that were set back may have made waits too long.
func (w *World) staleIn(do core.Look) time.Duration {
	if w.settings.clockSteps {
		return 0
	}
	in := do.Within
	for _, j := range w.checker.jobs {
		if !j.ended && j.until > 0 {
			in = min(in, max(0, j.until-w.now))
		}
	}
	return in
}

// retrying returns the records that await their retry. The history knows them; a query
// would read all ended jobs.
func (w *World) retrying() (records []*driver.Record, err error) {
	for _, id := range w.checker.order {
		if j := w.checker.jobs[id]; !j.ended || j.state != amboy.StateRetrying {
			continue
		}
		r, err := w.driver.Get(context.Background(), w.checker.tasks[id].Queue, id)
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, nil
}

// isWritten reports whether the end of a run was written by a call that seemed to fail.
func (w *World) isWritten(run *core.Run) bool {
	ended := run.End().Record
	r, err := w.driver.Get(context.Background(), run.Lease.Queue, ended.JobID())
	if err != nil {
		return false
	}
	if ended.RetryInfo.ShouldRetry() {
		return r.Name != run.Lease.Name || (r.Status.Completed && r.Status.ModificationCount == run.Lease.Count)
	}
	return driver.HasEndedUnder(r, run.Lease)
}

func (w *World) logRecord(c *call, k Kind, r *driver.Record, until time.Time) {
	w.log(Event{
		Process: c.p.index, Kind: k, Job: r.JobID(), Attempt: r.RetryInfo.CurrentAttempt,
		Lease: r.Status.ModificationCount, Until: until.Sub(epoch),
	})
}

func (w *World) logLease(c *call, k Kind, l driver.Lease, state amboy.JobState, until time.Time) {
	id, attempt := w.checker.parse(l)
	e := Event{Process: c.p.index, Kind: k, Job: id, Attempt: attempt, Lease: l.Count, State: state}
	if !until.IsZero() {
		e.Until = until.Sub(epoch)
	}
	w.log(e)
}

// logWrite logs that the store has stored or refused the end of a run.
func (w *World) logWrite(c *call, k Kind, l driver.Lease, state amboy.JobState, err error) {
	if err == nil {
		w.logLease(c, k, l, state, time.Time{})
		return
	}
	id, attempt := w.checker.parse(l)
	w.log(Event{Process: c.p.index, Kind: reported, Job: id, Attempt: attempt, Lease: l.Count, Note: "the store refused its end"})
}
