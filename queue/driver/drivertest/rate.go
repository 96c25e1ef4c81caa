package drivertest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// The rates of these rules are so low that no token comes while a rule runs, except by elapse.
var rateRules = []rule{
	{"a rate is set, replaced and removed beside other settings", rateIsSet},
	{"an invalid rate is refused, and changes nothing", rateInvalid},
	{"a new rate has one token", rateFirst},
	{"a token comes after each interval, and Waits says when", rateFractions},
	{"a burst is what has gathered, and no more", rateBurst},
	{"a rate of 0 starts nothing, and expired records are still claimed", rateZero},
	{"a rate that is raised applies at once", rateRaised},
	{"a rate that is removed limits nothing", rateRemoved},
	{"a change of the rate gives no tokens", rateChanged},
	{"tokens that a claim does not use stay", rateUnused},
	{"a retry, a released record and a recovered one take tokens again", rateCountsStarts},
	{"an expired record takes no token", rateExpired},
	{"a queue at its rate leaves its turns to other queues", rateTurns},
	{"each queue has a rate of its own", rateOfEach},
	{"a rate holds beside MaxRunning, and for claims that exclude kinds", rateBesides},
	{"a queue with a rate takes scopes as any other", rateScopes},
	{"Work leaves out a queue with a rate of 0", rateWork},
	{"a queue without jobs keeps its rate", rateStays},
	{"concurrent claims hold the rate, and each that gets too few says when to come again", rateRace},
}

// rateClockRules are about the clock that measures rates.
var rateClockRules = []rule{
	{"a clock that is set back delays the next start by a second at most", rateClockBack},
	{"a clock that is set forth starts one burst", rateClockForth},
}

// rate sets a rate of one token in some hours.
func (f *fixture) rate(hours float64, burst int) { f.rateOf(1/(hours*3600), burst) }

func (f *fixture) rateOf(perSecond float64, burst int) {
	f.Helper()
	f.control(driver.ControlChange{Rate: &amboy.Rate{PerSecond: perSecond, Burst: burst}})
}

// rated claims, and requires a number of records, and whether to wait for tokens.
func (f *fixture) rated(limit, want int, waits bool) driver.Claimed {
	f.Helper()
	claimed := f.tryClaim(owner, time.Now(), limit)
	assert.Len(f, claimed.Records, want)
	if waits && assert.Len(f, claimed.Waits, 1) {
		assert.Equal(f, f.queue, claimed.Waits[0].Queue)
		assert.Positive(f, claimed.Waits[0].For)
	}
	if !waits {
		assert.Empty(f, claimed.Waits)
	}
	return claimed
}

// waitIs requires that a claim waits for about some hours.
func (f *fixture) waitIs(claimed driver.Claimed, hours float64) {
	f.Helper()
	require.Len(f, claimed.Waits, 1)
	assert.InDelta(f, hours*3600, claimed.Waits[0].For.Seconds(), 60)
}

// jobs inserts jobs with the numbers of a range.
func (f *fixture) jobs(from, to int) {
	f.Helper()
	var specs []spec
	for i := from; i < to; i++ {
		specs = append(specs, spec{id: fmt.Sprintf("job%04d", i)})
	}
	f.insert(specs...)
}

func hours(n float64) time.Duration { return time.Duration(n * float64(time.Hour)) }

func rateIsSet(f *fixture) {
	yes, three := true, 3
	slow, fast := &amboy.Rate{PerSecond: 0.1}, &amboy.Rate{PerSecond: 250, Burst: 7}
	f.controls([]controlStep{
		{driver.ControlChange{Rate: slow}, driver.Control{Rate: slow}},
		{driver.ControlChange{Paused: &yes, MaxRunning: &three}, driver.Control{Paused: true, MaxRunning: 3, Rate: slow}},
		{driver.ControlChange{Rate: fast}, driver.Control{Paused: true, MaxRunning: 3, Rate: fast}},
		{driver.ControlChange{Rate: &amboy.Rate{}}, driver.Control{Paused: true, MaxRunning: 3, Rate: &amboy.Rate{}}},
		{driver.ControlChange{NoRate: true}, driver.Control{Paused: true, MaxRunning: 3}},
	})
}

// controlStep is a change of a queue's settings, and the settings after it.
type controlStep struct {
	change driver.ControlChange
	want   driver.Control
}

// controls makes changes of the settings of the only queue, and checks each result in all calls
// that return settings.
func (f *fixture) controls(steps []controlStep) {
	f.Helper()
	for i, step := range steps {
		assert.Equal(f, step.want, f.control(step.change), "step %d", i)
		assert.Equal(f, step.want, f.control(driver.ControlChange{}), "step %d", i)
		infos, err := f.driver.Queues(f.ctx, driver.QueueRequest{})
		require.NoError(f, err)
		require.Len(f, infos, 1)
		assert.Equal(f, step.want, infos[0].Control, "step %d", i)
	}
}

func rateInvalid(f *fixture) {
	for _, change := range []driver.ControlChange{
		{Rate: &amboy.Rate{PerSecond: -1}},
		{Rate: &amboy.Rate{PerSecond: 1e9}},
		{Rate: &amboy.Rate{PerSecond: 1, Burst: -1}},
		{Rate: &amboy.Rate{PerSecond: 1}, NoRate: true},
	} {
		_, err := f.driver.Control(f.ctx, f.queue, change)
		require.ErrorContains(f, err, f.queue)
	}
	assert.Equal(f, driver.Control{}, f.control(driver.ControlChange{}))
}

func rateFirst(f *fixture) {
	f.jobs(0, 5)
	f.rate(1, 3)
	f.waitIs(f.rated(10, 1, true), 1)
	f.rated(10, 0, true)
}

func rateFractions(f *fixture) {
	f.jobs(0, 5)
	f.rate(1, 1)
	f.rated(10, 1, true)
	for range 3 {
		f.elapseUnseen(hours(0.9))
		f.waitIs(f.rated(10, 0, true), 0.1)
		f.elapseUnseen(hours(0.1))
		f.waitIs(f.rated(10, 1, true), 1)
	}
	f.elapseUnseen(hours(1))
	f.rated(10, 1, false)
	f.rated(10, 0, false)
}

func rateBurst(f *fixture) {
	f.jobs(0, 20)
	f.rate(1, 4)
	f.rated(10, 1, true)
	f.elapseUnseen(hours(2))
	f.rated(10, 2, true)
	f.elapseUnseen(hours(100))
	f.rated(10, 4, true)
	f.elapseUnseen(hours(100))
	f.rated(3, 3, false)
	f.waitIs(f.rated(3, 1, true), 1)
}

func rateZero(f *fixture) {
	f.jobs(0, 3)
	f.insert(spec{id: "late", dispatchBy: f.after(1)})
	f.rateOf(0, 5)
	f.rated(10, 0, false)
	f.elapseUnseen(hours(100))
	f.rated(10, 0, false)
	assert.Equal(f, []string{"late"}, jobIDs(f.claimAt(2, 10).Records))
	f.rate(1, 1)
	f.rated(10, 1, true)
}

func rateRaised(f *fixture) {
	f.jobs(0, 20)
	f.rate(100, 1)
	f.rated(10, 1, true)
	f.elapseUnseen(hours(10))
	f.rated(10, 0, true)
	f.rate(5, 4)
	f.rated(10, 2, true)
}

func rateRemoved(f *fixture) {
	f.jobs(0, 5)
	f.rate(1, 1)
	f.rated(10, 1, true)
	f.control(driver.ControlChange{NoRate: true})
	f.rated(10, 4, false)
	f.jobs(5, 10)
	f.rate(1, 3)
	f.rated(10, 1, true)
}

func rateChanged(f *fixture) {
	f.jobs(0, 10)
	f.rate(1, 1)
	f.rated(10, 1, true)
	for range 5 {
		f.rate(2, 5)
		f.rated(10, 0, true)
		f.rate(1, 1)
		f.rated(10, 0, true)
	}
}

func rateUnused(f *fixture) {
	f.rate(1, 5)
	f.elapseUnseen(hours(1))
	f.rated(10, 0, false)
	f.jobs(0, 1)
	f.rated(10, 1, false)
	f.elapseUnseen(hours(10))
	f.rated(10, 0, false)
	f.jobs(1, 3)
	f.rated(10, 2, false)
	f.jobs(3, 10)
	f.rated(2, 2, false)
	f.rated(2, 1, true)
}

func rateCountsStarts(f *fixture) {
	f.insert(spec{id: "job", retryable: true})
	f.rate(1, 3)
	r := f.claimOne("job")
	f.release(driver.HandBack{Lease: driver.LeaseOf(r)})
	f.rated(1, 0, true)
	f.elapseUnseen(hours(1))
	r = f.claimOne("job")
	f.end(r, amboy.StateRetrying)
	f.retry(r)
	f.rated(1, 0, true)
	f.elapseUnseen(hours(1))
	records := f.rated(1, 1, false).Records
	require.Len(f, records, 1)
	f.elapse(leaseTime + time.Second)
	require.Equal(f, 1, f.recover())
	f.rated(1, 0, true)
}

func rateExpired(f *fixture) {
	f.insert(spec{id: "late", dispatchBy: f.after(1)}, spec{id: "job"}, spec{id: "next"})
	f.rate(1, 1)
	claimed := f.claimAt(2, 10)
	assert.ElementsMatch(f, []string{"late", "job"}, jobIDs(claimed.Records))
	assert.Len(f, claimed.Waits, 1)
}

func rateTurns(f *fixture) {
	f.fill("a", 0, 5)
	f.fill("b", 0, 5)
	f.in("a").rate(1, 1)
	demands := []driver.Demand{{Queue: "a", Limit: 5}, {Queue: "b", Limit: 5}}
	assert.Equal(f, map[string][]string{"a": {"a1"}, "b": {"b1", "b2", "b3"}}, f.claimOf(4, demands...))
	assert.Equal(f, map[string][]string{"b": {"b4"}}, f.claimOf(1, demands...))
}

func rateOfEach(f *fixture) {
	const queues = 12
	var demands []driver.Demand
	for i := range queues {
		name := fmt.Sprint("queue", i)
		f.fill(name, 0, 4)
		if i%2 == 0 {
			f.in(name).rate(float64(i+1), 1)
		}
		demands = append(demands, driver.Demand{Queue: name, Limit: 2})
	}
	claim := func() driver.Claimed {
		f.Helper()
		claimed, err := f.driver.Claim(f.ctx, driver.ClaimRequest{Owner: owner, Queues: demands, Limit: 100, Now: time.Now(), LeaseTime: leaseTime})
		require.NoError(f, err)
		f.consistent()
		return claimed
	}
	// A driver may leave some of many queues for the next claim.
	waits := map[string]time.Duration{}
	n := 0
	for range 3 {
		claimed := claim()
		n += len(claimed.Records)
		for _, w := range claimed.Waits {
			waits[w.Queue] = w.For
		}
	}
	assert.Equal(f, queues/2*(1+4), n)
	require.Len(f, waits, queues/2)
	for i := 0; i < queues; i += 2 {
		assert.InDelta(f, hours(float64(i+1)).Seconds(), waits[fmt.Sprint("queue", i)].Seconds(), 60)
	}
	f.elapseUnseen(hours(1.5))
	assert.Equal(f, []string{"queue0"}, func() (names []string) {
		for _, r := range claim().Records {
			names = append(names, r.Group)
		}
		return names
	}())
}

func rateBesides(f *fixture) {
	f.jobs(0, 10)
	f.rate(1, 5)
	f.maxRunning(2)
	f.rated(10, 1, true)
	f.elapseUnseen(hours(4))
	running := f.rated(10, 1, false).Records // no room for a third
	f.end(running[0], amboy.StateSucceeded)
	f.rated(10, 1, false)
	f.maxRunning(0)
	f.insert(spec{id: "new", typeName: otherJobTypeName, priority: 9})
	assert.Len(f, f.exceptNow(10, otherKind), 2)
	assert.Empty(f, f.exceptNow(10, otherKind))
	f.elapseUnseen(hours(1))
	assert.Len(f, f.exceptNow(10, otherKind), 1)
	f.elapseUnseen(hours(1))
	f.claimOne("new")
}

func rateScopes(f *fixture) {
	f.insert(
		spec{id: "a", scopes: []string{"s"}},
		spec{id: "b", scopes: []string{"s"}},
		spec{id: "c", scopes: []string{"t"}},
		spec{id: "d"},
	)
	f.rate(1, 2)
	f.claimOne("a")
	f.rated(10, 0, true)
	f.elapseUnseen(hours(2))
	assert.Equal(f, []string{"c", "d"}, jobIDs(f.rated(10, 2, false).Records))
	f.end(f.get("a"), amboy.StateSucceeded)
	f.rated(10, 0, true)
	f.elapseUnseen(hours(1))
	f.claimOne("b")
}

func rateWork(f *fixture) {
	f.jobs(0, 1)
	ready := func() bool {
		f.Helper()
		work, err := f.driver.Work(f.ctx, time.Now())
		require.NoError(f, err)
		return len(work.Queues) > 0 && work.Queues[0].Ready
	}
	assert.True(f, ready())
	f.rateOf(0, 0)
	assert.False(f, ready())
	f.rate(1, 1)
	assert.True(f, ready())
}

func rateStays(f *fixture) {
	f.jobs(0, 1)
	f.rate(1, 1)
	f.end(f.claim(1)[0], amboy.StateSucceeded)
	f.removing(func() int {
		return f.actInPagesOf(driver.ActRequest{
			Query: driver.Query{Queues: []string{f.queue}}, Action: driver.Action{Kind: driver.Delete}, Limit: 10,
		})
	})
	if f.driver.Features().Prunes {
		n, err := f.driver.Prune(f.ctx, driver.PruneRequest{Unused: time.Now().Add(time.Hour), Limit: 10})
		require.NoError(f, err)
		assert.Zero(f, n)
	}
	assert.NotNil(f, f.control(driver.ControlChange{}).Rate)
}

// actInPagesOf makes one call of Act, and returns how many records it acted on.
func (f *fixture) actInPagesOf(req driver.ActRequest) int {
	f.Helper()
	acted, err := f.driver.Act(f.ctx, req)
	require.NoError(f, err)
	return acted.Done
}

// stepClock sets the clock that measures rates.
func (f *fixture) stepClock(by time.Duration) { f.harness.StepClock(f.T, f.drivers()[0], by) }

func rateClockBack(f *fixture) {
	f.jobs(0, 10)
	f.rate(1, 2)
	f.rated(10, 1, true)
	for _, back := range []float64{0.5, 24, 1000} {
		f.stepClock(hours(-back))
		claimed := f.rated(10, 0, true)
		assert.LessOrEqual(f, claimed.Waits[0].For, time.Hour+time.Second)
		f.elapseUnseen(time.Hour + time.Second)
		f.rated(10, 1, true)
	}
}

func rateClockForth(f *fixture) {
	f.jobs(0, 20)
	f.rate(1, 3)
	f.rated(10, 1, true)
	for range 2 {
		f.stepClock(hours(1000))
		f.rated(10, 3, true)
		f.stepClock(hours(-1000))
		f.rated(10, 0, true)
		f.elapseUnseen(hours(1))
		f.rated(10, 1, true)
	}
}

// rateRace claims at a rate at which tokens come while a claim is under way. A claim that said
// nothing left its queue without a claim.
func rateRace(f *fixture) {
	f.unchecked = true
	const claimers, claims, limit = 4, 25, 10
	f.jobs(0, claimers*claims*limit)
	f.rateOf(1000, 3)
	began := time.Now()
	var wait sync.WaitGroup
	var taken atomic.Int64
	failures := make(chan error, claimers)
	for i := range claimers {
		wait.Go(func() {
			for range claims {
				claimed, err := f.driver.Claim(f.ctx, f.request(fmt.Sprint("owner", i), time.Now(), limit))
				if err != nil {
					failures <- err
					return
				}
				taken.Add(int64(len(claimed.Records)))
				if len(claimed.Records) < limit && (claimed.Next.IsZero() || claimed.Next.After(time.Now())) {
					assert.NotEmpty(f, claimed.Waits, "after %d records", len(claimed.Records))
				}
			}
		})
	}
	wait.Wait()
	close(failures)
	require.NoError(f, <-failures)
	assert.LessOrEqual(f, float64(taken.Load()), 3+1000*(time.Since(began)+20*time.Millisecond).Seconds())
}
