package core_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

// claimTime is how long a claim takes in a flood, and shortJob how long a job.
const (
	claimTime = 2 * time.Millisecond
	shortJob  = 100 * time.Microsecond
)

// flood is a story in which each queue has one worker and as many jobs as are claimed. Ends are
// written at once.
type flood struct {
	*story
	handedBack []*core.Run
	expiry     time.Duration // of the jobs, from their claim on; 0 for never
}

func newFlood(t *testing.T) *flood {
	t.Helper()
	return &flood{story: newStory(t)}
}

// open opens another queue.
func (f *flood) open(name string) *core.Line {
	l := &core.Line{Queue: name}
	f.do(core.Opened{Line: l})
	f.do(core.Resumed{Line: l})
	return l
}

// do tells an event, and answers the calls that write ends. No other goroutine is to run.
func (f *flood) do(event core.Event) []core.Command {
	commands := f.tell(event)
	for i := 0; i < len(commands); i++ {
		switch do := commands[i].(type) {
		case core.Yield:
			commands = append(commands, f.tell(core.Yielded{})...)
		case core.Complete:
			commands = append(commands, f.tell(core.Written{Call: do.Call, Errs: make([]error, len(do.Runs))})...)
		case core.Release:
			f.handedBack = append(f.handedBack, do.Runs...)
			commands = append(commands, f.tell(core.Written{Call: do.Call, Errs: make([]error, len(do.Runs))})...)
		}
	}
	return commands
}

// pass lets time pass.
func (f *flood) pass(d time.Duration) {
	f.now += d
	f.do(core.Tick{})
}

// answer answers a claim for one queue, after a time, with all that it requests.
func (f *flood) answer(claim core.Claim) []core.Command {
	f.now += claimTime
	records := make([]*driver.Record, claim.Limit)
	for i := range records {
		queue := claim.Demands[0].Queue
		records[i] = &driver.Record{Name: fmt.Sprintf("%s.%d.%d", queue, claim.Call.ID, i), Group: queue}
		if f.expiry > 0 {
			records[i].TimeInfo.DispatchBy = begin.Add(f.now + f.expiry)
		}
	}
	return f.do(core.Claimed{Call: claim.Call, Records: records})
}

// take gives the worker of a queue its next run. It returns the number of runs that were claimed
// for that.
func (f *flood) take(l *core.Line) (run *core.Run, claimed int) {
	f.t.Helper()
	f.do(core.Changed{Line: l})
	commands := f.do(core.Waiting{Worker: &core.Worker{Line: l}})
	for _, claim := range all[core.Claim](commands) {
		claimed = claim.Limit
		commands = append(commands, f.answer(claim)...)
	}
	return only[core.Start](f.t, commands).Run, claimed
}

// end ends a run after a time.
func (f *flood) end(r *core.Run, after time.Duration) {
	f.now += after
	f.do(core.Finished{Run: r, End: core.End{Record: r.Record}})
}

// fill lets the worker of a queue run short jobs until a claim leaves a number of runs that wait
// for it. It returns the run that the worker has then.
func (f *flood) fill(l *core.Line, waiting int) *core.Run {
	f.t.Helper()
	for range 100 {
		run, claimed := f.take(l)
		if claimed == waiting+1 {
			return run
		}
		f.end(run, shortJob)
	}
	require.Fail(f.t, "never claimed ahead", "%d runs", waiting)
	return nil
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

func TestRunsThatWaitForAWorkerAreHandedBackWhileAnotherQueueClaimsAhead(t *testing.T) {
	f := newFlood(t)
	busy, fast := f.line, f.open("fast")
	f.fill(busy, 3) // it has a long job from here on
	filled := f.now
	var running []*core.Run
	var claims []core.Claim
	note := func(commands []core.Command) {
		claims = append(claims, all[core.Claim](commands)...)
		for _, start := range all[core.Start](commands) {
			running = append(running, start.Run)
		}
	}
	f.do(core.Changed{Line: fast})
	for range 8 {
		note(f.do(core.Waiting{Worker: &core.Worker{Line: fast}}))
	}
	for f.now < filled+time.Second {
		for len(claims) > 0 {
			claim := claims[0]
			claims = claims[1:]
			note(f.answer(claim))
		}
		f.now += shortJob
		ended := running
		running = nil
		for _, r := range ended {
			note(f.do(core.Finished{Run: r, End: core.End{Record: r.Record}}))
			note(f.do(core.Waiting{Worker: &core.Worker{Line: fast}}))
		}
		note(f.do(core.Tick{}))
	}
	assert.Equal(t, 3, f.backOf(busy))
}

func TestAQueueMayClaimAheadWhileRunsOfAnotherWait(t *testing.T) {
	f := newFlood(t)
	busy, fast := f.line, f.open("fast")
	f.fill(busy, 7)
	filled := f.now
	for f.now < filled+40*time.Millisecond { // less than the runs wait
		run, _ := f.take(fast)
		f.end(run, shortJob)
	}
	f.pass(time.Millisecond)
	assert.Zero(t, f.backOf(busy))
	assert.Zero(t, f.backOf(fast), "what a claim requested is handed back at once")
}

func TestACanceledRunThatWaitsForAWorkerDoesNotStart(t *testing.T) {
	f := newFlood(t)
	running := f.fill(f.line, 3)
	lease := running.Lease
	lease.Name = lease.Name[:len(lease.Name)-1] + "1" // the next one
	call := only[core.CheckCancels](t, f.do(core.StoreChanged{Change: driver.Change{Cancels: true}})).Call
	commands := f.do(core.CancelsFound{Call: call, Leases: []driver.Lease{lease}})
	assert.Empty(t, all[core.Cancel](commands), "no worker runs it")
	f.end(running, shortJob)
	next, _ := f.take(f.line)
	assert.NotEqual(t, lease, next.Lease)
	assert.NotEqual(t, amboy.ErrAborted, next.Cause())
}

func TestRunsThatWaitForAWorkerAreHandedBackInOneCallAtClose(t *testing.T) {
	f := newFlood(t)
	f.fill(f.line, 7)
	assert.Len(t, only[core.Release](t, f.do(core.Closing{})).Runs, 7)
}

func TestRunsThatWaitForAWorkerAreHandedBackInTime(t *testing.T) {
	f := newFlood(t)
	f.fill(f.line, 3)
	f.pass(51 * time.Millisecond)
	f.pass(time.Millisecond)
	assert.Equal(t, 3, f.backOf(f.line))
}

// newSuspect returns the record of a job that was interrupted three times.
func newSuspect(queue string) *driver.Record {
	r := &driver.Record{Name: "suspect", Group: queue}
	for range 3 {
		driver.Interrupt(r, begin)
	}
	return r
}

func TestASuspectDoesNotWaitForAWorker(t *testing.T) {
	f := newFlood(t)
	running := f.fill(f.line, 3)
	f.end(running, shortJob)
	var claims []core.Claim
	for len(claims) == 0 {
		commands := f.do(core.Waiting{Worker: &core.Worker{Line: f.line}})
		claims = all[core.Claim](commands)
		for _, start := range all[core.Start](commands) {
			f.end(start.Run, shortJob)
		}
	}
	require.Greater(t, claims[0].Limit, 1)
	suspect := newSuspect("q")
	f.now += claimTime
	first := only[core.Start](t, f.do(core.Claimed{Call: claims[0].Call, Records: []*driver.Record{{Name: "first", Group: "q"}, suspect}})).Run
	require.Equal(t, "first", first.Record.Name)
	f.pass(time.Millisecond)
	assert.Equal(t, 1, f.backOf(f.line))
}

func TestRunsThatWaitForAWorkerAreHandedBackForASuspect(t *testing.T) {
	f := newFlood(t)
	other := f.open("other")
	f.fill(f.line, 3)
	f.do(core.Changed{Line: other})
	claim := only[core.Claim](t, f.do(core.Waiting{Worker: &core.Worker{Line: other}}))
	suspect := newSuspect("other")
	f.do(core.Claimed{Call: claim.Call, Records: []*driver.Record{suspect}})
	f.pass(time.Millisecond)
	assert.Equal(t, 3, f.backOf(f.line))
}

func TestRunsThatWaitForAWorkerAreHandedBackWhenTheirLeasesAreInDoubt(t *testing.T) {
	f := newFlood(t)
	f.fill(f.line, 3)
	f.skew = time.Hour // the host stopped the machine
	f.pass(time.Millisecond)
	f.pass(time.Millisecond)
	assert.Equal(t, 3, f.backOf(f.line))
}

func TestARunWhoseLeaseIsLostWhileItWaitsForAWorkerIsOver(t *testing.T) {
	f := newFlood(t)
	running := f.fill(f.line, 3)
	lease := running.Lease
	lease.Name = lease.Name[:len(lease.Name)-1] + "1"
	commands := f.do(core.Lost{Lease: lease})
	assert.Empty(t, all[core.Cancel](commands))
	assert.Equal(t, lease, only[core.Done](t, commands).Run.Lease)
	assert.Empty(t, f.handedBack)
	f.end(running, shortJob)
	next, _ := f.take(f.line)
	assert.NotEqual(t, lease, next.Lease)
}

func TestRunsThatExpireWhileTheyWaitForAWorkerDoNotStart(t *testing.T) {
	f := newFlood(t)
	f.expiry = time.Millisecond
	running := f.fill(f.line, 3)
	f.end(running, 2*time.Millisecond)
	f.do(core.Changed{Line: f.line})
	commands := f.do(core.Waiting{Worker: &core.Worker{Line: f.line}})
	assert.Empty(t, all[core.Start](commands))
	assert.Len(t, all[core.Expire](commands), 3)
}

func TestRunsThatWaitForAWorkerAreHandedBackWhenTheirQueueStops(t *testing.T) {
	f := newFlood(t)
	other := f.open("other")
	f.fill(f.line, 3)
	f.do(core.Stopped{Line: other})
	assert.Empty(t, f.handedBack)
	f.do(core.Stopped{Line: f.line})
	assert.False(t, f.core.QuietFor(f.line), "Close waits for the hand-backs")
	f.pass(time.Millisecond)
	assert.Equal(t, 3, f.backOf(f.line))
}

func TestRunsThatWaitForAWorkerAreHandedBackIfTheSettingsOfTheirQueueChange(t *testing.T) {
	f := newFlood(t)
	f.fill(f.line, 3)
	f.do(core.Controlled{Line: f.line})
	f.pass(time.Millisecond)
	assert.Equal(t, 3, f.backOf(f.line))
}

// claimsAhead answers the next claim of the queue, and reports whether it requests more than one job.
func (f *flood) claimsAhead(answer core.Claimed) bool {
	f.t.Helper()
	f.do(core.Changed{Line: f.line})
	for {
		commands := f.do(core.Waiting{Worker: &core.Worker{Line: f.line}})
		for _, start := range all[core.Start](commands) {
			f.end(start.Run, shortJob)
		}
		if claims := all[core.Claim](commands); len(claims) > 0 {
			answer.Call = claims[0].Call
			for _, start := range all[core.Start](f.do(answer)) {
				f.end(start.Run, shortJob)
			}
			return claims[0].Limit > 1
		}
	}
}

func TestAQueueThatWaitedForItsRateClaimsNothingAhead(t *testing.T) {
	f := newFlood(t)
	f.end(f.fill(f.line, 3), shortJob)
	waits := core.Claimed{
		Records: []*driver.Record{{Name: "last", Group: "q"}},
		Waits:   []driver.RateWait{{Queue: "q", For: time.Millisecond}},
	}
	require.True(t, f.claimsAhead(waits))
	for range 10 {
		f.now += 5 * time.Millisecond
		run, claimed := f.take(f.line)
		assert.Equal(t, 1, claimed)
		f.end(run, shortJob)
	}
	f.now += time.Minute
	run, _ := f.take(f.line)
	f.end(run, shortJob)
	_, claimed := f.take(f.line)
	assert.Greater(t, claimed, 1)
}

func TestNothingIsClaimedAheadBesideAnInterruptedJob(t *testing.T) {
	f := newFlood(t)
	f.end(f.fill(f.line, 3), shortJob)
	interrupted := &driver.Record{Name: "interrupted", Group: "q"}
	driver.Interrupt(interrupted, begin)
	f.now += claimTime
	require.True(t, f.claimsAhead(core.Claimed{Records: []*driver.Record{interrupted, {Name: "other", Group: "q"}}}))
	f.pass(time.Millisecond)
	assert.Equal(t, 1, f.backOf(f.line), "the other job")
}
