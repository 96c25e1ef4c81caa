package drivertest

import (
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// findsAll requires that a query selects jobs in this order, also newest first, one per
// page, and when they are counted.
func (f *fixture) findsAll(want []string, q driver.Query) {
	f.Helper()
	require.Equal(f, want, idsOrNil(f.find(q)), "%+v", q)
	require.Equal(f, len(want), f.countOf(q, 100), "the count of %+v", q)
	require.Equal(f, want, slices.Concat(f.pages(q, driver.PageRequest{Limit: 1}, func([]string) {})...), "%+v, in pages", q)
	newest := slices.Concat(f.pages(q, driver.PageRequest{Limit: 2, Newest: true}, func([]string) {})...)
	slices.Reverse(newest)
	require.Equal(f, want, newest, "%+v, newest first", q)
}

func findJobIDs(f *fixture) {
	ids := []string{"a", "b", "a*", "a?", "a.b", "ab", "queue.a", "attempt-0.a", `"`, "[a]", "é"}
	var specs []spec
	for _, id := range ids {
		specs = append(specs, spec{id: id})
	}
	f.insert(specs...)
	f.retry(f.retrying(spec{id: "retried"}))
	other := f.in("other")
	other.insert(spec{id: "a"}, spec{id: "c"})

	both := []string{f.queue, "other"}
	for _, queues := range [][]string{nil, {f.queue}, both} {
		for _, id := range ids[1:] {
			f.findsAll([]string{id}, driver.Query{Queues: queues, JobIDs: []string{id}})
		}
		f.findsAll([]string{"a*", "a.b"}, driver.Query{Queues: queues, JobIDs: []string{"a.b", "unknown", "a*", "a.b"}})
		f.findsAll([]string{"retried", "retried"}, driver.Query{Queues: queues, JobIDs: []string{"retried"}})
		f.findsAll([]string{"retried"}, driver.Query{Queues: queues, JobIDs: []string{"retried"}, Latest: true})
		f.findsAll([]string{"b", "retried"}, driver.Query{Queues: queues, JobIDs: []string{"retried", "b"}, Latest: true})
		f.findsAll(nil, driver.Query{Queues: queues, JobIDs: []string{"unknown", "A"}})
		f.findsAll([]string{"ab"}, driver.Query{Queues: queues, JobIDs: []string{"ab", "b"}, ID: "a*"})
		many := []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "b", "retried"}
		f.findsAll([]string{"b", "retried"}, driver.Query{Queues: queues, JobIDs: many, Latest: true})
	}
	f.findsAll([]string{"a"}, driver.Query{Queues: []string{f.queue}, JobIDs: []string{"a", "c"}})
	f.findsAll([]string{"a", "a", "c"}, driver.Query{JobIDs: []string{"a", "c"}})
	f.findsAll([]string{"a", "a", "c"}, driver.Query{Queues: both, JobIDs: []string{"a", "c"}, Latest: true})

	acted := f.actOn(driver.Query{Queues: []string{f.queue}, JobIDs: []string{"a*", "retried"}, Latest: true}, driver.Action{Kind: driver.Cancel})
	assert.Equal(f, driver.Acted{Done: 2}, acted)
	f.hasState("a*", amboy.StateCanceled)
	f.hasState("retried", amboy.StateCanceled)
	f.hasState("ab", amboy.StatePending)
	acted = f.actOn(driver.Query{JobIDs: []string{"a"}}, driver.Action{Kind: driver.Park})
	assert.Equal(f, driver.Acted{Done: 2}, acted)
}

// A store that replaces bytes that it can't keep must not take one job for another.
func findUnstorable(f *fixture) {
	const replaced, text = "a\uFFFDb", "a\x00b"
	kept := f.in(replaced)
	kept.insert(
		spec{id: replaced, tags: []string{replaced}, scopes: []string{replaced}},
		spec{id: "dependent", edges: []string{replaced}},
	)
	here := []string{replaced}
	kept.findsAll([]string{replaced}, driver.Query{Queues: here, JobIDs: here, Tags: here, Scope: replaced})
	odd := []string{text}
	for field, q := range map[string]driver.Query{
		"queue":       {Queues: odd},
		"type":        {Types: odd},
		"tag":         {Tags: odd},
		"tags":        {Tags: []string{replaced, text}},
		"scope":       {Scope: text},
		"job ID":      {JobIDs: odd},
		"pattern":     {ID: text},
		"prefix":      {ID: text[:2] + "*"},
		"part of ID":  {IDPart: text},
		"part of tag": {TagPart: text},
		"dependents":  {Queues: here, DependsOn: text},
		"in a queue":  {Queues: odd, JobIDs: here},
	} {
		assert.Empty(f, kept.find(q), "%s", field)
		assert.Zero(f, kept.countOf(q, 100), "%s", field)
	}
	_, err := f.driver.Get(f.ctx, text, replaced)
	assert.True(f, amboy.IsJobNotFoundError(err), "%v", err)
	_, err = f.driver.Get(f.ctx, replaced, text)
	assert.True(f, amboy.IsJobNotFoundError(err), "%v", err)
	stats, err := f.driver.Stats(f.ctx, text)
	require.NoError(f, err)
	assert.Zero(f, stats.Total)
	assert.Zero(f, kept.actOn(driver.Query{Queues: here, JobIDs: odd}, driver.Action{Kind: driver.Cancel}))
	kept.hasState(replaced, amboy.StatePending)
}

func findTags(f *fixture) {
	f.insert(
		spec{id: "none"},
		spec{id: "red", tags: []string{"red"}},
		spec{id: "both", tags: []string{"red", "blue", "red"}},
		spec{id: "blue", tags: []string{"blue"}},
		spec{id: "all", tags: []string{"blue", "green", "red"}},
	)
	f.in("other").insert(spec{id: "elsewhere", tags: []string{"blue", "red"}})
	here := []string{f.queue}
	for _, tags := range [][]string{{"red", "blue"}, {"blue", "red"}, {"red", "red", "blue"}} {
		f.findsAll([]string{"both", "all", "elsewhere"}, driver.Query{Tags: tags})
		f.findsAll([]string{"both", "all"}, driver.Query{Tags: tags, Queues: here})
		f.findsAll([]string{"both", "all", "elsewhere"}, driver.Query{Tags: tags, Queues: []string{"other", f.queue}})
	}
	f.findsAll([]string{"all"}, driver.Query{Tags: []string{"red", "green", "blue"}})
	f.findsAll([]string{"red", "both", "all"}, driver.Query{Tags: []string{"red"}, Queues: here})
	f.findsAll(nil, driver.Query{Tags: []string{"red", "unknown"}})
	f.findsAll([]string{"all"}, driver.Query{Tags: []string{"blue", "red"}, JobIDs: []string{"all", "red"}})

	acted := f.actOn(driver.Query{Tags: []string{"blue", "red"}, Queues: here}, driver.Action{Kind: driver.Cancel})
	assert.Equal(f, driver.Acted{Done: 2}, acted)
	acted = f.actOn(driver.Query{Tags: []string{"blue", "red"}, Queues: here}, driver.Action{Kind: driver.Restart})
	assert.Equal(f, driver.Acted{Done: 2}, acted)
	f.findsAll([]string{"both", "all"}, driver.Query{Tags: []string{"red", "blue"}, Queues: here, States: []amboy.JobState{amboy.StatePending}})
	f.cancel("both")
	f.delete("both")
	f.findsAll([]string{"all"}, driver.Query{Tags: []string{"blue", "red"}, Queues: here})
}

func findHolding(f *fixture) {
	held, here := driver.Query{Holding: true}, []string{f.queue}
	f.insert(
		spec{id: "plain"},
		spec{id: "wants", scopes: []string{"s"}, priority: 9},
		spec{id: "has", scopes: []string{"e"}, enqueueScopes: []string{"e"}},
		spec{id: "waits", scopes: []string{"s"}},
	)
	f.in("other").insert(spec{id: "elsewhere", scopes: []string{"e"}, enqueueScopes: []string{"e"}})
	f.findsAll([]string{"has", "elsewhere"}, held)
	r := f.claimOne("wants")
	f.findsAll([]string{"wants", "has", "elsewhere"}, held)
	f.findsAll([]string{"wants", "has"}, driver.Query{Holding: true, Queues: here})
	f.findsAll([]string{"wants"}, driver.Query{Holding: true, Scope: "s"})
	f.findsAll([]string{"wants"}, driver.Query{Holding: true, States: []amboy.JobState{amboy.StateRunning}})
	f.findsAll([]string{"has"}, driver.Query{Holding: true, JobIDs: []string{"has", "plain"}})
	f.release(driver.HandBack{Lease: driver.LeaseOf(r), NotBefore: f.after(1)})
	f.findsAll([]string{"has", "elsewhere"}, held)
	f.insert(spec{id: "retried", scopes: []string{"r", "q"}, enqueueScopes: []string{"r"}, retryable: true, priority: 99})
	r = f.end(f.claimOne("retried"), amboy.StateRetrying)
	f.findsAll([]string{"has", "elsewhere", "retried"}, held)
	f.retry(r)
	f.findsAll([]string{"has", "elsewhere", "retried"}, held)
	f.end(f.claimOne("retried"), amboy.StateFailed)
	f.findsAll([]string{"has", "elsewhere"}, held)
	f.park("has")
	f.findsAll([]string{"has"}, driver.Query{Holding: true, Queues: here})

	assert.Equal(f, driver.Acted{Done: 2}, f.actOn(held, driver.Action{Kind: driver.Cancel}))
	f.findsAll(nil, held)
	f.restart("has")
	f.findsAll([]string{"has"}, held)
	for _, r := range f.find(driver.Query{}) {
		require.Equal(f, r.JobID() == "has", len(r.Scopes) > 0, "the scopes of job %q", r.JobID())
	}
}

func findHolders(f *fixture) {
	of := func(scope string, queues ...string) driver.Query {
		return driver.Query{Holding: true, Scope: scope, Queues: queues}
	}
	f.insert(
		spec{id: "holds", scopes: []string{"s"}, priority: 9},
		spec{id: "waits", scopes: []string{"s", "e"}, enqueueScopes: []string{"e"}, retryable: true},
		spec{id: "plain", priority: -1},
	)
	other := f.in("other")
	other.insert(spec{id: "elsewhere", scopes: []string{"s"}, enqueueScopes: []string{"s"}})
	f.findsAll(nil, of("s", f.queue))
	holds := f.claimOne("holds")
	f.findsAll([]string{"holds", "elsewhere"}, of("s"))
	f.findsAll([]string{"holds"}, of("s", f.queue))
	f.findsAll([]string{"waits"}, of("e"))
	f.findsAll(nil, of("unknown"))
	f.findsAll(nil, of("\x00"))
	withID := of("s")
	withID.JobIDs = []string{"waits", "elsewhere"}
	f.findsAll([]string{"elsewhere"}, withID)
	running := of("s", "other", f.queue)
	running.States = []amboy.JobState{amboy.StateRunning}
	f.findsAll([]string{"holds"}, running)

	f.end(holds, amboy.StateSucceeded)
	f.findsAll([]string{"elsewhere"}, of("s"))
	waited := f.claimOne("waits")
	f.findsAll([]string{"waits"}, of("s", f.queue))
	f.findsAll([]string{"waits"}, of("e", f.queue))
	waited = f.end(waited, amboy.StateRetrying)
	f.findsAll(nil, of("s", f.queue))
	f.findsAll([]string{"waits"}, of("e", f.queue))
	f.retry(waited)
	f.findsAll([]string{"waits"}, of("e", f.queue))
	f.claimOne("waits")
	f.findsAll([]string{"waits"}, of("s", f.queue))

	assert.Equal(f, driver.Acted{Done: 1}, f.actOn(of("s", "other"), driver.Action{Kind: driver.Cancel}))
	f.findsAll([]string{"waits"}, of("s"))
}

func findDependents(f *fixture) {
	here := []string{f.queue}
	on := func(id string) driver.Query { return driver.Query{Queues: here, DependsOn: id} }
	f.insert(
		spec{id: "target"},
		spec{id: "other"},
		spec{id: "one", edges: []string{"target"}, priority: 9},
		spec{id: "both", edges: []string{"other", "target"}},
		spec{id: "retried", edges: []string{"target"}, retryable: true},
		spec{id: "indirect", edges: []string{"one"}},
	)
	elsewhere := f.in("other queue")
	elsewhere.insert(spec{id: "target"}, spec{id: "elsewhere", edges: []string{"target"}})
	all := []string{"one", "both", "retried"}
	found := func() {
		f.Helper()
		f.findsAll(all, on("target"))
		f.findsAll([]string{"indirect"}, on("one"))
		f.findsAll([]string{"elsewhere"}, driver.Query{Queues: []string{"other queue"}, DependsOn: "target"})
	}
	found()
	f.findsAll([]string{"one", "both", "retried", "elsewhere"}, driver.Query{Queues: []string{"other queue", f.queue}, DependsOn: "target"})
	f.findsAll(nil, on("unknown"))
	f.findsAll(nil, on("indirect"))
	f.findsAll(nil, on("*"))
	f.findsAll([]string{"both"}, driver.Query{Queues: here, DependsOn: "target", ID: "b*"})

	f.end(f.claimOne("target"), amboy.StateFailed)
	found()
	f.insert(spec{id: "late", edges: []string{"target"}})
	all = append(all, "late")
	found()
	f.end(f.claimOne("one"), amboy.StateSucceeded)
	found()
	f.findsAll([]string{"one"}, driver.Query{Queues: here, DependsOn: "target", States: []amboy.JobState{amboy.StateSucceeded}})
	f.end(f.claimOne("other"), amboy.StateSucceeded)
	f.insert(spec{id: "after", edges: []string{"other"}})
	f.findsAll([]string{"both", "after"}, on("other"))
	for _, id := range []string{"both", "indirect", "late", "after"} {
		f.cancel(id)
	}
	found()
	r := f.end(f.claimOne("retried"), amboy.StateRetrying)
	found()
	f.retry(r)
	f.findsAll([]string{"one", "both", "retried", "late", "retried"}, on("target"))
	latest := on("target")
	latest.Latest = true
	f.findsAll([]string{"one", "both", "late", "retried"}, latest)
	f.delete("both")
	f.findsAll([]string{"one", "late", "retried"}, latest)
	f.findsAll([]string{"after"}, on("other"))

	acted := f.actOn(latest, driver.Action{Kind: driver.Restart})
	assert.Equal(f, driver.Acted{Done: 1, Skipped: 2}, acted)
	f.hasState("late", amboy.StatePending)
	require.ElementsMatch(f, []string{"one", "late", "retried"}, jobIDs(f.find(latest)))
	f.delete("target")
	require.ElementsMatch(f, []string{"one", "late", "retried"}, jobIDs(f.find(latest)), "the edge names a removed job")
	f.delete("one")
	require.ElementsMatch(f, []string{"late", "retried"}, jobIDs(f.find(latest)))
}

func findDependentsQueue(f *fixture) {
	f.insert(spec{id: "target"}, spec{id: "job", edges: []string{"target"}})
	q := driver.Query{DependsOn: "target"}
	_, err := f.driver.Find(f.ctx, q, driver.PageRequest{Limit: 1})
	require.ErrorContains(f, err, "DependsOn")
	_, err = f.driver.Count(f.ctx, q, 1)
	require.ErrorContains(f, err, "DependsOn")
	unchanged := f.unchanged()
	_, err = f.driver.Act(f.ctx, driver.ActRequest{Query: q, Action: driver.Action{Kind: driver.Cancel}, Limit: 1})
	require.ErrorContains(f, err, "DependsOn")
	unchanged()
}

func findBadCursor(f *fixture) {
	f.insert(spec{id: "job"})
	unchanged := f.unchanged()
	for _, cursor := range []driver.Cursor{"nowhere", "-", "1.5", "12x", " ", "\x00", "😀", "99999999999999999999999999"} {
		_, err := f.driver.Find(f.ctx, driver.Query{}, driver.PageRequest{Limit: 1, After: cursor})
		require.ErrorIs(f, err, driver.ErrBadCursor, "Find after %q", cursor)
		_, err = f.driver.Act(f.ctx, driver.ActRequest{Action: driver.Action{Kind: driver.Cancel}, Limit: 1, After: cursor})
		require.ErrorIs(f, err, driver.ErrBadCursor, "Act after %q", cursor)
	}
	unchanged()
}
