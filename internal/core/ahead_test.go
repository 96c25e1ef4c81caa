package core_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

// claimTime is how long a claim takes in a flood, slowClaim how long on a slow store, and shortJob how
// long a job takes.
const (
	claimTime = 2 * time.Millisecond
	slowClaim = 40 * time.Millisecond
	shortJob  = 100 * time.Microsecond
)

// flood is a story in which each queue has one worker and as many jobs as are claimed. Ends are
// written at once, and so are claims answered, until a test answers them.
type flood struct {
	*story
	waiting    []*driver.Record // that were claimed, and wait for a worker
	handedBack []*core.Run
	expiry     time.Duration // of the jobs, from their claim on; 0 for never
	claimTime  time.Duration
	// claims are the claims that the test answers, if byHand is true.
	claims []core.Claim
	byHand bool
}

func newFlood(t *testing.T) *flood {
	t.Helper()
	config := storyConfig()
	config.ClaimAhead = true
	return &flood{story: newStoryWith(t, config), claimTime: claimTime}
}

// open opens another queue.
func (f *flood) open(name string) *core.Line {
	l := &core.Line{Queue: name}
	f.do(core.Opened{Line: l})
	f.do(core.Resumed{Line: l})
	return l
}

// do tells an event, and answers calls. No other goroutine is to run.
func (f *flood) do(event core.Event) []core.Command {
	commands := f.tell(event)
	for i := 0; i < len(commands); i++ {
		switch do := commands[i].(type) {
		case core.Yield:
			commands = append(commands, f.tell(core.Yielded{})...)
		case core.Claim:
			f.claims = append(f.claims, do)
			if !f.byHand {
				commands = append(commands, f.tell(f.answer(do))...)
			}
		case core.Start:
			f.dropWaiting(do.Run)
		case core.Expire:
			f.dropWaiting(do.Run)
		case core.Complete:
			commands = append(commands, f.tell(core.Written{Call: do.Call, Errs: make([]error, len(do.Runs))})...)
		case core.Release:
			f.handedBack = append(f.handedBack, do.Runs...)
			for _, r := range do.Runs {
				f.dropWaiting(r)
			}
			commands = append(commands, f.tell(core.Written{Call: do.Call, Errs: make([]error, len(do.Runs))})...)
		}
	}
	return commands
}

func (f *flood) dropWaiting(r *core.Run) {
	f.waiting = slices.DeleteFunc(f.waiting, func(other *driver.Record) bool { return other == r.Record })
}

// pass lets time pass.
func (f *flood) pass(d time.Duration) {
	f.now += d
	f.do(core.Tick{})
}

// answer returns the answer to a claim for one queue, after a time, with all that it requests.
func (f *flood) answer(claim core.Claim) core.Claimed {
	f.now += f.claimTime
	records := make([]*driver.Record, claim.Limit)
	for i := range records {
		queue := claim.Demands[0].Queue
		records[i] = &driver.Record{Name: fmt.Sprintf("%s.%d.%d", queue, claim.Call.ID, i), Group: queue}
		if f.expiry > 0 {
			records[i].TimeInfo.DispatchBy = begin.Add(f.now + f.expiry)
		}
	}
	f.waiting = append(f.waiting, records...)
	return core.Claimed{Call: claim.Call, Records: records}
}

// come makes the worker of a queue wait for a run.
func (f *flood) come(l *core.Line) []core.Command {
	return append(f.do(core.Changed{Line: l}), f.do(core.Waiting{Worker: &core.Worker{Line: l}})...)
}

// take gives the worker of a queue its next run.
func (f *flood) take(l *core.Line) *core.Run {
	f.t.Helper()
	return only[core.Start](f.t, f.come(l)).Run
}

// end ends a run after a time.
func (f *flood) end(r *core.Run, after time.Duration) {
	f.now += after
	f.do(core.Finished{Run: r, End: core.End{Record: r.Record}})
}

// fill lets the worker of a queue run short jobs until some runs wait for it. It returns the run that
// the worker has then, and the number of those that wait.
func (f *flood) fill(l *core.Line) (running *core.Run, waiting int) {
	f.t.Helper()
	for range 100 {
		running = f.take(l)
		if waiting = f.waitingFor(l); waiting >= 3 {
			return running, waiting
		}
		f.end(running, shortJob)
	}
	require.Fail(f.t, "never claimed ahead")
	return nil, 0
}

// runShort lets the worker of the queue run some short jobs.
func (f *flood) runShort() {
	f.t.Helper()
	for range 100 {
		f.end(f.take(f.line), shortJob)
	}
}

func (f *flood) waitingFor(l *core.Line) (n int) {
	for _, r := range f.waiting {
		if r.Group == l.Queue {
			n++
		}
	}
	return n
}

// starve lets the worker of the queue run short jobs until it waits for a claim, which the test answers.
func (f *flood) starve() core.Claim {
	f.t.Helper()
	f.byHand, f.claims = true, nil
	for starts := all[core.Start](f.come(f.line)); len(starts) > 0; starts = all[core.Start](f.come(f.line)) {
		f.end(starts[0].Run, shortJob)
	}
	require.Len(f.t, f.claims, 1)
	f.now += f.claimTime
	return f.claims[0]
}

// backOf returns the number of runs of a queue that were handed back.
func (f *flood) backOf(l *core.Line) (n int) {
	for _, r := range f.handedBack {
		if r.Record.Group == l.Queue {
			n++
		}
	}
	return n
}

func TestAWorkerDoesNotWaitForClaimsWhileJobsAreShort(t *testing.T) {
	f := newFlood(t)
	f.runShort()
	f.byHand, f.claims = true, nil
	for len(f.claims) == 0 {
		f.end(f.take(f.line), shortJob)
	}
	left := f.waitingFor(f.line)
	assert.GreaterOrEqual(t, left, 5, "for the worker until the answer")
	for range left {
		f.end(f.take(f.line), shortJob)
	}
	assert.Len(t, f.claims, 1, "one at a time")
}

// A claim got the jobs of 20 ms, so on a store whose claims take longer the workers waited for each.
func TestWorkersWaitedForEachClaimOfASlowStore(t *testing.T) {
	f := newFlood(t)
	f.claimTime = slowClaim
	f.runShort()
	assert.LessOrEqual(t, len(f.claims), 20)
}

func TestRunsFromASlowStoreWaitForAWorkerForLongerThanItsClaims(t *testing.T) {
	f := newFlood(t)
	f.claimTime = slowClaim
	fast := f.open("fast")
	_, waiting := f.fill(f.line)
	filled := f.now
	f.claimTime = claimTime
	_, waitingFast := f.fill(fast)
	f.pass(100 * time.Millisecond)
	f.pass(time.Millisecond)
	assert.Zero(t, f.backOf(f.line))
	assert.Equal(t, waitingFast, f.backOf(fast), "its claims are fast")
	f.pass(filled + 250*time.Millisecond - f.now)
	f.pass(time.Millisecond)
	assert.Equal(t, waiting, f.backOf(f.line))
}

func TestRunsThatWaitForAWorkerAreHandedBackWhileAnotherQueueClaimsAhead(t *testing.T) {
	f := newFlood(t)
	busy, fast := f.line, f.open("fast")
	_, waiting := f.fill(busy) // it has a long job from here on
	filled := f.now
	var running []*core.Run
	note := func(commands []core.Command) {
		for _, start := range all[core.Start](commands) {
			running = append(running, start.Run)
		}
	}
	f.do(core.Changed{Line: fast})
	for range 8 {
		note(f.do(core.Waiting{Worker: &core.Worker{Line: fast}}))
	}
	for f.now < filled+time.Second {
		f.now += shortJob
		ended := running
		running = nil
		for _, r := range ended {
			note(f.do(core.Finished{Run: r, End: core.End{Record: r.Record}}))
			note(f.do(core.Waiting{Worker: &core.Worker{Line: fast}}))
		}
		note(f.do(core.Tick{}))
	}
	assert.Equal(t, waiting, f.backOf(busy))
}

func TestAQueueMayClaimAheadWhileRunsOfAnotherWait(t *testing.T) {
	f := newFlood(t)
	busy, fast := f.line, f.open("fast")
	f.fill(busy)
	filled := f.now
	for f.now < filled+40*time.Millisecond { // less than the runs wait
		f.end(f.take(fast), shortJob)
	}
	f.pass(time.Millisecond)
	assert.Zero(t, f.backOf(busy))
	assert.Zero(t, f.backOf(fast), "what a claim requested is handed back at once")
}

func TestACanceledRunThatWaitsForAWorkerDoesNotStart(t *testing.T) {
	f := newFlood(t)
	running, _ := f.fill(f.line)
	lease := driver.LeaseOf(f.waiting[0])
	call := only[core.CheckCancels](t, f.do(core.StoreChanged{Change: driver.Change{Cancels: true}})).Call
	commands := f.do(core.CancelsFound{Call: call, Leases: []driver.Lease{lease}})
	assert.Empty(t, all[core.Cancel](commands), "no worker runs it")
	f.end(running, shortJob)
	next := f.take(f.line)
	assert.NotEqual(t, lease, next.Lease)
	assert.NotEqual(t, amboy.ErrAborted, next.Cause())
}

func TestRunsThatWaitForAWorkerAreHandedBackInOneCallAtClose(t *testing.T) {
	f := newFlood(t)
	_, waiting := f.fill(f.line)
	assert.Len(t, only[core.Release](t, f.do(core.Closing{})).Runs, waiting)
}

func TestRunsThatWaitForAWorkerAreHandedBackInTime(t *testing.T) {
	f := newFlood(t)
	_, waiting := f.fill(f.line)
	f.pass(51 * time.Millisecond)
	f.pass(time.Millisecond)
	assert.Equal(t, waiting, f.backOf(f.line))
}

// newSuspect returns the record of a job that was interrupted three times.
func newSuspect(queue string) *driver.Record {
	r := &driver.Record{Name: "suspect", Group: queue}
	for range 3 {
		driver.Interrupt(r, begin, begin)
	}
	return r
}

func TestASuspectDoesNotWaitForAWorker(t *testing.T) {
	f := newFlood(t)
	f.runShort()
	claim := f.starve()
	require.Greater(t, claim.Limit, 1)
	first := only[core.Start](t, f.do(core.Claimed{Call: claim.Call, Records: []*driver.Record{{Name: "first", Group: "q"}, newSuspect("q")}})).Run
	require.Equal(t, "first", first.Record.Name)
	f.pass(time.Millisecond)
	assert.Equal(t, 1, f.backOf(f.line))
}

func TestRunsThatWaitForAWorkerAreHandedBackForASuspect(t *testing.T) {
	f := newFlood(t)
	other := f.open("other")
	_, waiting := f.fill(f.line)
	f.byHand = true
	f.do(core.Changed{Line: other})
	claim := only[core.Claim](t, f.do(core.Waiting{Worker: &core.Worker{Line: other}}))
	suspect := newSuspect("other")
	f.do(core.Claimed{Call: claim.Call, Records: []*driver.Record{suspect}})
	f.pass(time.Millisecond)
	assert.Equal(t, waiting, f.backOf(f.line))
}

func TestRunsThatWaitForAWorkerAreHandedBackWhenTheirLeasesAreInDoubt(t *testing.T) {
	f := newFlood(t)
	_, waiting := f.fill(f.line)
	f.skew = time.Hour // the host stopped the machine
	f.pass(time.Millisecond)
	f.pass(time.Millisecond)
	assert.Equal(t, waiting, f.backOf(f.line))
}

func TestARunWhoseLeaseIsLostWhileItWaitsForAWorkerIsOver(t *testing.T) {
	f := newFlood(t)
	running, _ := f.fill(f.line)
	lease := driver.LeaseOf(f.waiting[0])
	commands := f.do(core.Lost{Lease: lease})
	assert.Empty(t, all[core.Cancel](commands))
	assert.Equal(t, lease, only[core.Done](t, commands).Run.Lease)
	assert.Empty(t, f.handedBack)
	f.end(running, shortJob)
	next := f.take(f.line)
	assert.NotEqual(t, lease, next.Lease)
}

func TestRunsThatExpireWhileTheyWaitForAWorkerDoNotStart(t *testing.T) {
	f := newFlood(t)
	f.expiry = time.Millisecond
	running, waiting := f.fill(f.line)
	f.byHand = true
	f.end(running, 2*time.Millisecond)
	commands := f.come(f.line)
	assert.Empty(t, all[core.Start](commands))
	assert.Len(t, all[core.Expire](commands), waiting)
}

func TestRunsThatWaitForAWorkerAreHandedBackWhenTheirQueueStops(t *testing.T) {
	f := newFlood(t)
	other := f.open("other")
	_, waiting := f.fill(f.line)
	f.do(core.Stopped{Line: other})
	assert.Empty(t, f.handedBack)
	f.do(core.Stopped{Line: f.line})
	assert.False(t, f.core.QuietFor(f.line), "Close waits for the hand-backs")
	f.pass(time.Millisecond)
	assert.Equal(t, waiting, f.backOf(f.line))
}

func TestRunsThatWaitForAWorkerAreHandedBackIfTheSettingsOfTheirQueueChange(t *testing.T) {
	f := newFlood(t)
	_, waiting := f.fill(f.line)
	f.do(core.Controlled{Line: f.line})
	f.pass(time.Millisecond)
	assert.Equal(t, waiting, f.backOf(f.line))
}

func TestAQueueThatWaitedForItsRateClaimsNothingAhead(t *testing.T) {
	f := newFlood(t)
	f.runShort()
	claim := f.starve()
	require.Greater(t, claim.Limit, 1)
	f.byHand = false
	f.end(only[core.Start](t, f.do(core.Claimed{
		Call:    claim.Call,
		Records: []*driver.Record{{Name: "last", Group: "q"}},
		Waits:   []driver.RateWait{{Queue: "q", For: time.Millisecond}},
	})).Run, shortJob)
	for range 10 {
		f.now += 5 * time.Millisecond
		f.end(f.take(f.line), shortJob)
		assert.Zero(t, f.waitingFor(f.line))
	}
	f.now += time.Minute
	f.fill(f.line)
}

func TestNothingIsClaimedAheadBesideAnInterruptedJob(t *testing.T) {
	f := newFlood(t)
	f.runShort()
	claim := f.starve()
	interrupted := &driver.Record{Name: "interrupted", Group: "q"}
	driver.Interrupt(interrupted, begin, begin)
	f.do(core.Claimed{Call: claim.Call, Records: []*driver.Record{interrupted, {Name: "other", Group: "q"}}})
	f.pass(2 * claimTime)
	assert.Equal(t, 1, f.backOf(f.line), "the other job")
}
