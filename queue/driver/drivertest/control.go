package drivertest

import (
	"fmt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var controlRules = []rule{
	{"nothing is set at first", controlEmpty},
	{"a change leaves the rest as it is", controlChange},
	{"only expired records of a paused queue are claimed", controlPaused},
	{"a paused queue accepts records, and running records continue", controlPausedGoesOn},
	{"a draining queue accepts no records", controlDraining},
	{"a draining queue runs its records and their retries", controlDrainingGoesOn},
	{"MaxRunning holds over all owners", controlMaxRunning},
	{"every record that stops running makes room for another", controlMaxRunningFrees},
	{"expired records are claimed beyond MaxRunning and count as running", controlMaxRunningExpired},
	{"running records continue if MaxRunning is lowered", controlMaxRunningLowered},
	{"a queue at its MaxRunning leaves its turns to other queues", controlMaxRunningTurns},
	{"controls apply to a single queue", controlOfOneQueue},
	{"due records of a paused queue hide no others", controlPausedHidesNone},
}

func (f *fixture) pause(paused bool) { f.control(driver.ControlChange{Paused: &paused}) }

func (f *fixture) drain(draining bool) { f.control(driver.ControlChange{Draining: &draining}) }

func (f *fixture) maxRunning(n int) { f.control(driver.ControlChange{MaxRunning: &n}) }

func controlEmpty(f *fixture) {
	assert.Equal(f, driver.Control{}, f.control(driver.ControlChange{}))
	f.insert(spec{id: "job"})
	assert.Equal(f, driver.Control{}, f.control(driver.ControlChange{}))
}

func controlChange(f *fixture) {
	yes, no, three := true, false, 3
	steps := []struct {
		change driver.ControlChange
		want   driver.Control
	}{
		{driver.ControlChange{Paused: &yes}, driver.Control{Paused: true}},
		{driver.ControlChange{MaxRunning: &three}, driver.Control{Paused: true, MaxRunning: 3}},
		{driver.ControlChange{Draining: &yes, Paused: &no}, driver.Control{Draining: true, MaxRunning: 3}},
		{driver.ControlChange{}, driver.Control{Draining: true, MaxRunning: 3}},
		{driver.ControlChange{Draining: &no, MaxRunning: new(int)}, driver.Control{}},
	}
	for i, step := range steps {
		assert.Equal(f, step.want, f.control(step.change), "step %d", i)
		assert.Equal(f, step.want, f.control(driver.ControlChange{}), "step %d", i)
	}
}

func controlPaused(f *fixture) {
	f.insert(spec{id: "job"}, spec{id: "late", dispatchBy: f.after(1)})
	f.pause(true)
	assert.Empty(f, f.claim(10))
	f.hasState("job", amboy.StatePending)
	assert.Equal(f, []string{"late"}, jobIDs(f.claimAt(2, 10).Records))
	f.pause(false)
	f.claimOne("job")
}

func controlPausedGoesOn(f *fixture) {
	r := f.retrying(spec{id: "retrying"})
	f.insert(spec{id: "extend"}, spec{id: "end"}, spec{id: "back"})
	running := f.claim(3)
	f.pause(true)
	f.insert(spec{id: "new"})
	assert.False(f, f.tryExtend(driver.LeaseOf(running[0])))
	f.end(running[1], amboy.StateSucceeded)
	f.release(driver.HandBack{Lease: driver.LeaseOf(running[2])})
	f.retry(r)
	assert.Empty(f, f.claim(10))
	f.pause(false)
	assert.Equal(f, []string{"retrying", "back", "new"}, jobIDs(f.claim(10)))
}

func controlDraining(f *fixture) {
	f.insert(spec{id: "before"})
	f.drain(true)
	unchanged := f.unchanged()
	for _, err := range f.tryInsert(spec{id: "a", scopes: []string{"s"}, enqueueScopes: []string{"s"}}, spec{id: "b"}) {
		require.ErrorIs(f, err, amboy.ErrQueueDraining)
	}
	unchanged()
	other := f.in("other")
	errs := f.insertOf(f.record(spec{id: "c"}), other.record(spec{id: "c"}))
	require.ErrorIs(f, errs[0], amboy.ErrQueueDraining)
	require.NoError(f, errs[1])
	f.missing("c")
	f.drain(false)
	f.insert(spec{id: "a", scopes: []string{"s"}, enqueueScopes: []string{"s"}})
}

func controlDrainingGoesOn(f *fixture) {
	r := f.retrying(spec{id: "retrying"})
	f.insert(spec{id: "job"})
	f.drain(true)
	f.retry(r)
	running := f.claim(10)
	require.Equal(f, []string{"retrying", "job"}, jobIDs(running), "by their priorities")
	f.release(driver.HandBack{Lease: driver.LeaseOf(running[1])})
	f.end(f.claimOne("job"), amboy.StateSucceeded)
	f.end(running[0], amboy.StateSucceeded)
}

func controlMaxRunning(f *fixture) {
	f.fill(f.queue, 0, 5)
	f.maxRunning(3)
	assert.Len(f, f.tryClaim("one", f.start, 2).Records, 2)
	assert.Len(f, f.tryClaim("two", f.start, 2).Records, 1)
	assert.Empty(f, f.tryClaim("three", f.start, 2).Records)
	f.maxRunning(4)
	assert.Len(f, f.tryClaim("three", f.start, 2).Records, 1)
	f.maxRunning(0)
	assert.Len(f, f.tryClaim("three", f.start, 2).Records, 1)
}

func controlMaxRunningFrees(f *fixture) {
	f.maxRunning(1)
	for i := range 6 {
		f.insert(spec{id: fmt.Sprint(i), retryable: i == 1})
	}
	steps := []func(r *driver.Record){
		func(r *driver.Record) { f.end(r, amboy.StateSucceeded) },
		func(r *driver.Record) { f.end(r, amboy.StateRetrying) },
		func(r *driver.Record) { f.release(driver.HandBack{Lease: driver.LeaseOf(r), Park: true}) },
		func(r *driver.Record) {
			f.release(driver.HandBack{Lease: driver.LeaseOf(r), NotBefore: f.after(9)})
		},
		func(*driver.Record) { require.Equal(f, 1, f.recoverEnded()) },
		func(r *driver.Record) { f.end(r, amboy.StateFailed) },
	}
	for i, step := range steps {
		id := fmt.Sprint(i)
		if i == 5 {
			id = "4" // recovered
		}
		r := f.claimOne(id)
		assert.Empty(f, f.claim(10))
		step(r)
	}
	f.claimOne("5")
}

func controlMaxRunningExpired(f *fixture) {
	f.maxRunning(1)
	f.insert(
		spec{id: "a", dispatchBy: f.after(1)},
		spec{id: "b", dispatchBy: f.after(1)},
		spec{id: "running", priority: 9},
		spec{id: "next"},
	)
	running := f.claimOne("running")
	expired := f.claimAt(2, 10).Records
	require.ElementsMatch(f, []string{"a", "b"}, jobIDs(expired))
	f.end(running, amboy.StateSucceeded)
	f.end(expired[0], amboy.StateExpired)
	assert.Empty(f, f.claim(10), "an expired record still runs")
	f.end(expired[1], amboy.StateExpired)
	f.claimOne("next")
}

func controlMaxRunningLowered(f *fixture) {
	f.fill(f.queue, 0, 5)
	running := f.claim(3)
	f.maxRunning(2)
	f.end(running[0], amboy.StateSucceeded)
	assert.Empty(f, f.claim(10))
	assert.False(f, f.tryExtend(driver.LeaseOf(running[1])))
	f.end(running[1], amboy.StateSucceeded)
	assert.Len(f, f.claim(10), 1)
}

func controlMaxRunningTurns(f *fixture) {
	f.fill("a", 0, 5)
	f.fill("b", 0, 5)
	f.in("a").maxRunning(1)
	demands := []driver.Demand{{Queue: "a", Limit: 5}, {Queue: "b", Limit: 5}}
	assert.Equal(f, map[string][]string{"a": {"a1"}, "b": {"b1", "b2", "b3"}}, f.claimOf(4, demands...))
	assert.Equal(f, map[string][]string{"b": {"b4"}}, f.claimOf(1, demands...))
}

func controlOfOneQueue(f *fixture) {
	a, b := f.in("a"), f.in("b")
	a.pause(true)
	a.drain(true)
	a.maxRunning(1)
	assert.Equal(f, driver.Control{}, b.control(driver.ControlChange{}))
	b.insert(spec{id: "1"}, spec{id: "2"})
	assert.Len(f, b.claim(10), 2)
}

// controlPausedHidesNone has more due records of a paused queue than Work reads. What Work names is claimed
// from, as an engine does: until a claim has moved these records, Work does not find others.
func controlPausedHidesNone(f *fixture) {
	const read = 10
	if f.harness.ReadLittle != nil {
		f.harness.ReadLittle(f.driver, read)
	}
	var due []spec
	for i := range 2 * read {
		due = append(due, spec{id: fmt.Sprint(i), waitUntil: f.after(1)})
	}
	paused, other := f.in("paused"), f.in("other")
	paused.insert(due...)
	paused.pause(true)
	other.insert(spec{id: "last", waitUntil: f.after(2)})
	for range 2 * read {
		work, err := f.driver.Work(f.ctx, f.after(3))
		require.NoError(f, err)
		require.NotEmpty(f, work.Queues, "no queue is claimed from, and so nothing becomes ready")
		for _, w := range work.Queues {
			limit := 0
			if w.Ready {
				limit = 1
			}
			if records := f.in(w.Queue).claimAt(3, limit).Records; len(records) > 0 {
				assert.Equal(f, []string{"last"}, jobIDs(records))
				return
			}
		}
	}
	f.Error("the record of the other queue is not found")
}
