package drivertest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var severalQueuesRules = []rule{
	{"queues share no IDs, scopes or unique keys", queuesShareNothing},
	{"queues whose records have the same name are distinguished", queuesAlike},
	{"an edge names a job of its queue", queuesEdges},
	{"records of several queues can be inserted at once", queuesInsert},
	{"a cycle is within one queue", queuesCycle},
	{"only records of requested queues are claimed", queuesAskedFor},
	{"expired records stay in queues that are not requested", queuesExpired},
	{"queues take turns in the order of the request", queuesTurns},
	{"the limits of a queue and of the request hold", queuesLimits},
	{"an empty queue leaves its turns to others", queuesLeaveTurns},
	{"nothing is claimed without queues or of an unknown queue", queuesNone},
	{"one call can hand back or end records of several queues", queuesBatches},
}

var queuesRules = []rule{
	{"queues are described by name", queuesDescribed},
	{"pages of queues are complete and without doubles while queues come and go", queuesPaged},
	{"a page of queues begins with a name or the next one", queuesFrom},
	{"all queues are added up, and the busiest are described", queuesSummed},
	{"a queue is described with its scheduled and its parked records", queuesScheduledAndParked},
	{"records that have not ended are counted by queue, type and place", queuesTypes},
	{"the oldest ready record of a queue is found, whatever its priority", queuesOldestReady},
	{"the oldest ready record of a queue may be one that is due but that no claim has made ready", queuesOldestDue},
	{"a queue exists as soon as it is controlled", queuesControlled},
	{"an empty queue stays", queuesStay},
	{"an empty store has no queues", queuesOfEmptyStore},
	{"a queue has work while a record can be claimed or awaits its retry", queuesWork},
	{"a queue is unfinished while one of its records has not ended for good", queuesUnfinished},
}

var pruneRules = []rule{
	{"a queue without records and settings is dropped when it is unused", queuesPruned},
}

// claimOf claims of several queues, and returns the IDs by queue.
func (f *fixture) claimOf(limit int, queues ...driver.Demand) map[string][]string {
	f.Helper()
	return f.claimOfAt(time.Now(), limit, queues...)
}

func (f *fixture) claimOfAt(at time.Time, limit int, queues ...driver.Demand) map[string][]string {
	f.Helper()
	req := f.request(owner, at, limit)
	req.Queues = queues
	claimed, err := f.driver.Claim(f.ctx, req)
	require.NoError(f, err)
	f.consistent()
	ids := map[string][]string{}
	for _, r := range claimed.Records {
		ids[r.Group] = append(ids[r.Group], r.JobID())
	}
	return ids
}

func queuesShareNothing(f *fixture) {
	s := spec{id: "job", scopes: []string{"s"}, enqueueScopes: []string{"s"}, uniqueKey: "key", retryable: true}
	a, b := f.in("a"), f.in("b")
	a.insert(s)
	b.insert(s)
	a.refusedAsDuplicate(s)
	ofA := a.claimOne("job")
	assert.Equal(f, "a", ofA.Group)
	b.hasState("job", amboy.StatePending)
	ofB := b.claimOne("job")
	a.end(ofA, amboy.StateRetrying)
	b.hasState("job", amboy.StateRunning)
	a.retry(a.get("job"))
	assert.Len(f, a.attempts("job"), 2)
	assert.Len(f, b.attempts("job"), 1)
	b.end(ofB, amboy.StateSucceeded)
	a.hasState("job", amboy.StatePending)
	assert.Equal(f, 2, a.stats().Total)
	assert.Equal(f, 1, b.stats().Total)
	f.in("c").missing("job")
	assert.Empty(f, f.in("c").attempts("job"))
}

// alike returns records of different queues with the same name.
func (f *fixture) alike() []*driver.Record {
	f.Helper()
	var records []*driver.Record
	for _, names := range [][2]string{{"", "a.b.c"}, {"a", "b.c"}, {"a.b", "c"}} {
		in := f.in(names[0])
		in.insert(spec{id: names[1]})
		records = append(records, in.get(names[1]))
	}
	require.Equal(f, records[0].Name, records[1].Name)
	require.Equal(f, records[0].Name, records[2].Name)
	return records
}

func queuesAlike(f *fixture) {
	records := f.alike()
	middle := f.in("a")
	r := middle.claimOne("b.c")
	saved := middle.under(r, spec{id: "b.c", note: "saved"})
	require.NoError(f, f.driver.Save(f.ctx, saved))
	require.NoError(f, f.driver.SetProgress(f.ctx, driver.LeaseOf(r), driver.Progress{Fraction: 0.5}))
	middle.end(r, amboy.StateFailed)
	middle.act(driver.Action{Kind: driver.Restart}, "b.c")
	middle.end(middle.claimOne("b.c"), amboy.StateFailed)
	for _, other := range []*driver.Record{records[0], records[2]} {
		f.same(other, f.in(other.Group).get(other.JobID()))
		stolen := driver.LeaseOf(r)
		stolen.Queue = other.Group
		f.lost(f.in(other.Group).tryRelease(driver.HandBack{Lease: stolen}))
	}
	middle.act(driver.Action{Kind: driver.Delete}, "b.c")
	f.in("").claimOne("a.b.c")
	f.in("a.b").claimOne("c")
}

func queuesEdges(f *fixture) {
	a, b := f.in("a"), f.in("b")
	a.insert(spec{id: "target"})
	var invalid *amboy.InvalidJobError
	require.ErrorAs(f, b.tryInsert(spec{id: "job", edges: []string{"target"}})[0], &invalid)

	b.insert(spec{id: "target"}, spec{id: "job", edges: []string{"target"}})
	a.end(a.claimOne("target"), amboy.StateFailed)
	r := b.claimOne("target")
	assert.Empty(f, b.claim(10), "the target of the other queue ended")
	b.end(r, amboy.StateSucceeded)
	assert.Empty(f, b.claimOne("job").Dependency.Failed)
}

// insertOf inserts records of several queues.
func (f *fixture) insertOf(records ...*driver.Record) []error {
	f.Helper()
	errs, err := f.driver.Insert(f.ctx, records)
	require.NoError(f, err)
	require.Len(f, errs, len(records))
	f.consistent()
	return errs
}

func queuesInsert(f *fixture) {
	a, b := f.in("a"), f.in("b")
	errs := f.insertOf(
		a.record(spec{id: "job"}),
		b.record(spec{id: "dependent", edges: []string{"job"}}),
		b.record(spec{id: "job"}),
		a.record(spec{id: "job"}),
		b.record(spec{id: "stray", edges: []string{"unknown"}}),
	)
	for i := range 3 {
		require.NoError(f, errs[i])
	}
	require.True(f, amboy.IsDuplicateJobError(errs[3]), "the error is %v", errs[3])
	var invalid *amboy.InvalidJobError
	require.ErrorAs(f, errs[4], &invalid)
	b.hasState("dependent", amboy.StateBlocked)
	assert.Equal(f, []string{"job"}, jobIDs(a.list()))
	assert.Equal(f, []string{"job", "dependent"}, jobIDs(b.list()))
}

func queuesCycle(f *fixture) {
	a, b := f.in("a"), f.in("b")
	errs := f.insertOf(
		a.record(spec{id: "x", edges: []string{"y"}}),
		b.record(spec{id: "y", edges: []string{"x"}}),
		a.record(spec{id: "y"}),
		b.record(spec{id: "x"}),
	)
	assert.Equal(f, make([]error, 4), errs)
	a.claimOne("y")
	b.claimOne("x")
}

func queuesAskedFor(f *fixture) {
	for _, queue := range []string{"a", "b", "c"} {
		f.in(queue).insert(spec{id: "job"})
	}
	claimed := f.claimOf(10, driver.Demand{Queue: "a", Limit: 10}, driver.Demand{Queue: "c", Limit: 10})
	assert.Equal(f, map[string][]string{"a": {"job"}, "c": {"job"}}, claimed)
	f.in("b").hasState("job", amboy.StatePending)
}

func queuesExpired(f *fixture) {
	a, b := f.in("a"), f.in("b")
	late := spec{id: "late", dispatchBy: f.after(1)}
	a.insert(late, spec{id: "job"})
	b.insert(late)
	assert.Equal(f, map[string][]string{"a": {"late"}}, f.claimOfAt(f.after(2), 0, driver.Demand{Queue: "a"}))
	b.hasState("late", amboy.StatePending)
	both := f.claimOfAt(f.after(2), 0, driver.Demand{Queue: "a"}, driver.Demand{Queue: "b"})
	assert.Equal(f, map[string][]string{"b": {"late"}}, both)
}

// fill puts n jobs of a priority in a queue. Their IDs are the name of the queue and 1,
// 2, and so on.
func (f *fixture) fill(queue string, priority, n int) {
	f.Helper()
	specs := make([]spec, n)
	for i := range specs {
		specs[i] = spec{id: queue + string(rune('1'+i)), priority: priority}
	}
	f.in(queue).insert(specs...)
}

func queuesTurns(f *fixture) {
	f.fill("a", 9, 4)
	f.fill("b", 0, 4)
	f.fill("c", 5, 4)
	all := func(names ...string) (demands []driver.Demand) {
		for _, name := range names {
			demands = append(demands, driver.Demand{Queue: name, Limit: 9})
		}
		return demands
	}
	assert.Equal(f, map[string][]string{"b": {"b1"}}, f.claimOf(1, all("b", "a", "c")...))
	assert.Equal(f, map[string][]string{"c": {"c1"}, "a": {"a1"}}, f.claimOf(2, all("c", "a", "b")...))
	assert.Equal(f, map[string][]string{"a": {"a2"}, "b": {"b2", "b3"}, "c": {"c2", "c3"}}, f.claimOf(5, all("c", "b", "a")...))
}

func queuesLimits(f *fixture) {
	f.fill("a", 0, 5)
	f.fill("b", 0, 5)
	f.fill("c", 0, 5)
	demands := []driver.Demand{{Queue: "a", Limit: 5}, {Queue: "b", Limit: 1}, {Queue: "c", Limit: 0}}
	assert.Equal(f, map[string][]string{"a": {"a1", "a2"}, "b": {"b1"}}, f.claimOf(3, demands...))
	assert.Equal(f, map[string][]string{"a": {"a3", "a4", "a5"}, "b": {"b2"}}, f.claimOf(9, demands...))
}

func queuesLeaveTurns(f *fixture) {
	f.fill("a", 0, 1)
	f.fill("b", 0, 5)
	f.in("c").insert(spec{id: "scheduled", waitUntil: f.after(1)})
	demands := []driver.Demand{{Queue: "a", Limit: 9}, {Queue: "c", Limit: 9}, {Queue: "b", Limit: 9}}
	assert.Equal(f, map[string][]string{"a": {"a1"}, "b": {"b1", "b2", "b3"}}, f.claimOf(4, demands...))
}

func queuesNone(f *fixture) {
	f.fill("a", 0, 1)
	assert.Empty(f, f.claimOf(5))
	assert.Empty(f, f.claimOf(5, driver.Demand{Queue: "unknown", Limit: 5}))
}

func queuesBatches(f *fixture) {
	a, b := f.in("a"), f.in("b")
	for _, in := range []*fixture{a, b} {
		in.insert(spec{id: "end"}, spec{id: "back"})
	}
	ofA, ofB := a.claim(2), b.claim(2)
	lost, err := f.driver.Extend(f.ctx, []driver.Lease{driver.LeaseOf(ofA[0]), driver.LeaseOf(ofB[0])}, leaseTime)
	require.NoError(f, err)
	assert.Empty(f, lost)
	errs, err := f.driver.Complete(f.ctx, []driver.Completion{
		{Lease: driver.LeaseOf(ofA[0]), Record: ended(ofA[0], amboy.StateSucceeded)},
		{Lease: driver.LeaseOf(ofB[0]), Record: ended(ofB[0], amboy.StateFailed)},
	})
	require.NoError(f, every(errs, err))
	errs, err = f.driver.Release(f.ctx, []driver.HandBack{{Lease: driver.LeaseOf(ofA[1])}, {Lease: driver.LeaseOf(ofB[1]), Park: true}})
	require.NoError(f, every(errs, err))
	f.consistent()
	a.hasState("end", amboy.StateSucceeded)
	b.hasState("end", amboy.StateFailed)
	a.hasState("back", amboy.StatePending)
	b.hasState("back", amboy.StateParked)
}

func queuesDescribed(f *fixture) {
	for _, name := range []string{"b", "", "a.b", "B", "a"} {
		f.in(name).insert(spec{id: "job"})
	}
	in, yes, most := f.in("b"), true, 3
	in.end(in.claimOne("job"), amboy.StateFailed)
	in.insert(spec{id: "other"})
	in.control(driver.ControlChange{Paused: &yes, MaxRunning: &most})

	infos, err := f.driver.Queues(f.ctx, driver.QueueRequest{})
	require.NoError(f, err)
	var names []string
	for _, info := range infos {
		names = append(names, info.Name)
	}
	require.Equal(f, []string{"", "B", "a", "a.b", "b"}, names)
	assert.Equal(f, driver.Control{}, infos[2].Control)
	assert.Equal(f, amboy.QueueStats{Total: 1, Pending: 1}.String(), infos[2].Stats.String())
	assert.Equal(f, driver.Control{Paused: true, MaxRunning: 3}, infos[4].Control)
	assert.Equal(f, amboy.QueueStats{Total: 2, Pending: 1, Completed: 1}.String(), infos[4].Stats.String())
}

// queuesPaged reads pages. Between them queues come and go, in the part that was read and in the
// part that was not.
func queuesPaged(f *fixture) {
	const limit = 7
	var stay []string
	for i := range 3 * limit {
		stay = append(stay, fmt.Sprintf("stays %02d", i))
		f.in(stay[i]).insert(spec{id: "job"})
		f.emptyQueue(fmt.Sprintf("stays %02d, goes", i))
	}
	var names []string
	for from, n := "", 0; ; n++ {
		infos, err := f.driver.Queues(f.ctx, driver.QueueRequest{From: from, Limit: limit})
		require.NoError(f, err)
		require.LessOrEqual(f, len(infos), limit)
		for _, info := range infos {
			names = append(names, info.Name)
			if slices.Contains(stay, info.Name) {
				assert.Equal(f, 1, info.Stats.Pending, info.Name)
			}
		}
		if len(infos) < limit {
			break
		}
		from = driver.NextName(infos[limit-1].Name)
		for _, name := range []string{"new at the beginning", "stays 15, new", "very late"} {
			f.in(fmt.Sprint(name, " ", n)).insert(spec{id: "job"})
		}
		if f.driver.Features().Prunes {
			_, err = f.driver.Prune(f.ctx, driver.PruneRequest{Unused: time.Now().Add(time.Hour), Limit: 5})
			require.NoError(f, err)
			f.forgetPruned()
		}
	}
	assert.True(f, slices.IsSorted(names), "%q", names)
	assert.Len(f, slices.Compact(slices.Clone(names)), len(names), "no queue is on two pages: %q", names)
	assert.Subset(f, names, stay)
	assert.Contains(f, names, "very late 0")
}

// forgetPruned adapts the expected counts to a Prune: those of a dropped queue begin anew.
func (f *fixture) forgetPruned() {
	f.Helper()
	left := f.queueNames()
	maps.DeleteFunc(f.removed, func(queue string, _ int) bool { return !slices.Contains(left, queue) })
}

func queuesFrom(f *fixture) {
	for _, name := range []string{"", "a", "a.b", "b", "ä"} {
		f.in(name).insert(spec{id: "job"})
	}
	for _, test := range []struct {
		req  driver.QueueRequest
		want []string
	}{
		{driver.QueueRequest{}, []string{"", "a", "a.b", "b", "ä"}},
		{driver.QueueRequest{Limit: 2}, []string{"", "a"}},
		{driver.QueueRequest{From: driver.NextName(""), Limit: 2}, []string{"a", "a.b"}},
		{driver.QueueRequest{From: "a", Limit: 1}, []string{"a"}},
		{driver.QueueRequest{From: driver.NextName("a"), Limit: 9}, []string{"a.b", "b", "ä"}},
		{driver.QueueRequest{From: "aa"}, []string{"b", "ä"}},
		{driver.QueueRequest{From: driver.NextName("ä"), Limit: 9}, nil},
	} {
		infos, err := f.driver.Queues(f.ctx, test.req)
		require.NoError(f, err)
		var names []string
		for _, info := range infos {
			names = append(names, info.Name)
		}
		assert.Equal(f, test.want, names, "%+v", test.req)
	}
	_, err := f.driver.Queues(f.ctx, driver.QueueRequest{Limit: -1})
	require.ErrorContains(f, err, "must not be negative (is -1)")
}

func queuesSummed(f *fixture) {
	totals, err := f.driver.SumQueues(f.ctx, 10)
	require.NoError(f, err)
	assert.Equal(f, driver.QueueTotals{}, totals)
	f.fill("a", 0, 2)
	f.fill("b", 0, 3)
	f.fill("c", 0, 2)
	f.emptyQueue("idle")
	b := f.in("b")
	b.act(driver.Action{Kind: driver.Park, Reason: "it looks odd"}, "b3")
	b.insert(spec{id: "later", waitUntil: time.Now().Add(time.Hour)}, spec{id: "fails", retryable: true, priority: 1})
	b.end(b.claimOne("fails"), amboy.StateRetrying)
	b.claimOne("b1")
	totals, err = f.driver.SumQueues(f.ctx, 2)
	require.NoError(f, err)
	infos, err := f.driver.Queues(f.ctx, driver.QueueRequest{})
	require.NoError(f, err)
	assert.Equal(f, amboy.QueueStats{Total: 10, Pending: 7, Running: 1, Retrying: 1, Completed: 2}.String(), totals.Stats.String())
	assert.Equal(f, driver.QueueTotals{
		Queues: 4, Stats: totals.Stats, Scheduled: 1, Parked: 1, Busiest: []driver.QueueInfo{infos[1], infos[0]},
	}, totals)
	totals, err = f.driver.SumQueues(f.ctx, 0)
	require.NoError(f, err)
	assert.Equal(f, 4, totals.Queues)
	assert.Empty(f, totals.Busiest)
}

func queuesScheduledAndParked(f *fixture) {
	a := f.in("a")
	a.insert(spec{id: "ready"}, spec{id: "later", waitUntil: time.Now().Add(time.Hour)}, spec{id: "latest", waitUntil: time.Now().Add(2 * time.Hour)},
		spec{id: "aside"}, spec{id: "blocked", edges: []string{"ready"}})
	a.act(driver.Action{Kind: driver.Park, Reason: "it looks odd"}, "aside")
	infos, err := f.driver.Queues(f.ctx, driver.QueueRequest{})
	require.NoError(f, err)
	require.Len(f, infos, 1)
	assert.Equal(f, 2, infos[0].Scheduled)
	assert.Equal(f, 1, infos[0].Parked)
	assert.Equal(f, amboy.QueueStats{Total: 5, Pending: 5, Blocked: 1}.String(), infos[0].Stats.String())
}

func queuesTypes(f *fixture) {
	counts, err := f.driver.CountTypes(f.ctx)
	require.NoError(f, err)
	assert.Empty(f, counts)
	a, b := f.in("a"), f.in("b")
	a.insert(
		spec{id: "ready"}, spec{id: "odd", typeName: otherJobTypeName}, spec{id: "later", waitUntil: time.Now().Add(time.Hour)},
		spec{id: "aside"}, spec{id: "blocked", typeName: otherJobTypeName, edges: []string{"ready"}},
	)
	a.act(driver.Action{Kind: driver.Park, Reason: "it looks odd"}, "aside")
	b.insert(spec{id: "runs"}, spec{id: "fails", retryable: true}, spec{id: "ends"})
	b.claimOne("runs")
	b.end(b.claimOne("fails"), amboy.StateRetrying)
	b.end(b.claimOne("ends"), amboy.StateSucceeded)
	counts, err = f.driver.CountTypes(f.ctx)
	require.NoError(f, err)
	assert.Equal(f, []driver.TypeCount{
		{Queue: "a", Type: jobTypeName, Ready: 1, Scheduled: 1, Parked: 1},
		{Queue: "a", Type: otherJobTypeName, Ready: 1, Blocked: 1},
		{Queue: "b", Type: jobTypeName, Running: 1, Retrying: 1},
	}, sortedTypes(counts))
	assert.Equal(f, sortedTypes(counts), counts, "sorted by queue and type")
}

func queuesOldestReady(f *fixture) {
	now := time.Now().Truncate(time.Millisecond)
	a, b, c := f.in("a"), f.in("b"), f.in("c")
	old, older := now.Add(-time.Hour), now.Add(-2*time.Hour)
	a.insert(
		spec{id: "later", created: now.Add(-9 * time.Hour), waitUntil: now.Add(time.Hour)},
		spec{id: "aside", created: now.Add(-9 * time.Hour)},
		spec{id: "old", created: old, priority: -3},
		spec{id: "urgent", created: now, priority: 5},
		spec{id: "new", created: now, priority: -3},
		spec{id: "odd", created: now, typeName: otherJobTypeName},
	)
	a.act(driver.Action{Kind: driver.Park, Reason: "it looks odd"}, "aside")
	b.insert(spec{id: "due", created: now.Add(-9 * time.Hour), waitUntil: older}, spec{id: "second", created: now})
	c.insert(spec{id: "ended"}, spec{id: "later", waitUntil: now.Add(time.Hour)})
	c.end(c.claimOne("ended"), amboy.StateSucceeded)
	found, err := f.driver.OldestReady(f.ctx, []string{"a", "b", "c", "none"}, now)
	require.NoError(f, err)
	require.Len(f, found, 2)
	assert.WithinDuration(f, old, found["a"], 0)
	assert.WithinDuration(f, older, found["b"], 0)
	found, err = f.driver.OldestReady(f.ctx, []string{"b"}, now)
	require.NoError(f, err)
	assert.Len(f, found, 1)
}

// queuesOldestDue has no claims after the records are due.
func queuesOldestDue(f *fixture) {
	now, yes := time.Now().Truncate(time.Millisecond), true
	due := now.Add(time.Hour)
	created := now.Add(-time.Hour)
	a, b, c, d := f.in("a"), f.in("b"), f.in("c"), f.in("d")
	a.insert(spec{id: "later", created: created, waitUntil: due.Add(time.Minute)}, spec{id: "first", created: now, waitUntil: due})
	b.insert(spec{id: "ready", created: created}, spec{id: "later", waitUntil: due})
	c.insert(spec{id: "later", waitUntil: due.Add(time.Hour)}, spec{id: "aside", waitUntil: due})
	c.act(driver.Action{Kind: driver.Park, Reason: "it looks odd"}, "aside")
	d.control(driver.ControlChange{Paused: &yes})
	d.insert(spec{id: "scoped", waitUntil: due, scopes: []string{"scope"}}, spec{id: "waits", edges: []string{"scoped"}, waitUntil: due})
	e := f.in("e")
	e.insert(spec{id: "holds", scopes: []string{"scope"}})
	e.claimOne("holds")
	e.insert(spec{id: "waits", scopes: []string{"scope"}})
	all := []string{"a", "b", "c", "d", "e"}
	found, err := f.driver.OldestReady(f.ctx, all, due.Add(-time.Millisecond))
	require.NoError(f, err)
	require.Len(f, found, 1, "%v", found)
	found, err = f.driver.OldestReady(f.ctx, all, due.Add(2*time.Minute))
	require.NoError(f, err)
	require.Len(f, found, 3, "%v", found)
	assert.WithinDuration(f, due, found["a"], 0)
	assert.WithinDuration(f, created, found["b"], 0)
	assert.WithinDuration(f, due, found["d"], 0)
}

func sortedTypes(counts []driver.TypeCount) []driver.TypeCount {
	return slices.SortedFunc(slices.Values(counts), func(a, b driver.TypeCount) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Type, b.Type))
	})
}

func queuesControlled(f *fixture) {
	yes := true
	f.in("a").control(driver.ControlChange{Draining: &yes})
	infos, err := f.driver.Queues(f.ctx, driver.QueueRequest{})
	require.NoError(f, err)
	require.Len(f, infos, 1)
	infos[0].Used = time.Time{}
	assert.Equal(f, driver.QueueInfo{Name: "a", Control: driver.Control{Draining: true}}, infos[0])
}

func queuesStay(f *fixture) {
	a := f.in("a")
	a.insert(spec{id: "job"})
	a.end(a.claimOne("job"), amboy.StateSucceeded)
	a.act(driver.Action{Kind: driver.Delete}, "job")
	infos, err := f.driver.Queues(f.ctx, driver.QueueRequest{})
	require.NoError(f, err)
	isThere := func(info driver.QueueInfo) bool { return info.Name == "a" }
	require.True(f, slices.ContainsFunc(infos, isThere))
	assert.Equal(f, amboy.QueueStats{Total: 1, Completed: 1}.String(), infos[0].Stats.String())
}

// queuesPruned has an empty queue, which goes, and queues that stay, each for a reason.
func queuesPruned(f *fixture) {
	yes, no, most := true, false, 3
	gone := f.emptyQueue("gone")
	f.emptyQueue("kept")
	f.emptyQueue("paused").control(driver.ControlChange{Paused: &yes})
	f.emptyQueue("draining").control(driver.ControlChange{Draining: &yes})
	f.emptyQueue("limited").control(driver.ControlChange{MaxRunning: &most})
	scheduled := f.emptyQueue("scheduled")
	scheduled.insert(spec{id: "later", waitUntil: time.Now().Add(time.Hour)})
	finished := f.emptyQueue("finished")
	finished.insert(spec{id: "done"})
	finished.end(finished.claimOne("done"), amboy.StateFailed)
	f.emptyQueue("resumed").control(driver.ControlChange{Paused: &yes})
	f.in("resumed").control(driver.ControlChange{Paused: &no})
	marked := time.Now().Truncate(time.Second)
	_, err := f.driver.Mark(f.ctx, "gone", "mark", marked)
	require.NoError(f, err)

	prune := func(unused time.Time, limit int) int {
		f.Helper()
		pruned, pruneErr := f.driver.Prune(f.ctx, driver.PruneRequest{Unused: unused, Limit: limit, Keep: []string{"kept"}})
		require.NoError(f, pruneErr)
		f.forgetPruned()
		f.consistent()
		return pruned
	}
	stay := []string{"draining", "finished", "kept", "limited", "paused", "scheduled"}
	long, soon := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	assert.Zero(f, prune(long, 10), "all of them changed just now")
	assert.Equal(f, 1, prune(soon, 1))
	assert.Equal(f, 1, prune(soon, 10))
	assert.Zero(f, prune(soon, 10))
	assert.Equal(f, stay, f.queueNames())

	assert.Equal(f, amboy.QueueStats{}, gone.stats())
	last, err := f.driver.Mark(f.ctx, "gone", "mark", time.Time{})
	require.NoError(f, err)
	assert.True(f, marked.Equal(last), "marks stay")
	gone.insert(spec{id: "job"})
	gone.end(gone.claimOne("job"), amboy.StateSucceeded)
	assert.Equal(f, 1, gone.stats().Total)
	assert.Equal(f, append(stay[:2:2], "gone", "kept", "limited", "paused", "scheduled"), f.queueNames())
	_, err = f.driver.Prune(f.ctx, driver.PruneRequest{Unused: soon})
	require.ErrorContains(f, err, "must be at least 1 (is 0)")
}

func (f *fixture) queueNames() (names []string) {
	f.Helper()
	infos, err := f.driver.Queues(f.ctx, driver.QueueRequest{})
	require.NoError(f, err)
	for _, info := range infos {
		names = append(names, info.Name)
	}
	return names
}

// emptyQueue makes a queue without records.
func (f *fixture) emptyQueue(name string) *fixture {
	f.Helper()
	in := f.in(name)
	in.insert(spec{id: "job"})
	in.end(in.claimOne("job"), amboy.StateSucceeded)
	in.act(driver.Action{Kind: driver.Delete}, "job")
	return in
}

func queuesOfEmptyStore(f *fixture) {
	infos, err := f.driver.Queues(f.ctx, driver.QueueRequest{})
	require.NoError(f, err)
	assert.Empty(f, infos)
}

// queuesWork has a queue for each reason to have work, and for each to have none.
func queuesWork(f *fixture) {
	work := func(now time.Time) (work driver.Work) {
		f.Helper()
		work, err := f.driver.Work(f.ctx, now)
		require.NoError(f, err)
		if surveyor, ok := f.drivers()[0].(driver.Surveyor); ok {
			surveyed, staleIn, err := surveyor.Survey(f.ctx, now, time.Second)
			require.NoError(f, err)
			assert.Equal(f, work, surveyed)
			assert.Positive(f, staleIn)
		}
		return work
	}
	assert.Equal(f, driver.Work{}, work(time.Now()))
	soon, later := f.after(1), f.after(2)
	f.in("ready").insert(spec{id: "job"})
	f.in("paused").insert(spec{id: "job"})
	f.in("paused").pause(true)
	f.in("parked").insert(spec{id: "job"})
	f.in("parked").park("job")
	f.in("blocked").insert(spec{id: "target"}, spec{id: "job", edges: []string{"target"}})
	f.in("blocked").claimOne("target")
	f.in("scheduled").insert(spec{id: "job", waitUntil: soon})
	f.in("expiring").insert(spec{id: "job", waitUntil: later.Add(time.Hour), dispatchBy: later})
	f.in("retrying").insert(spec{id: "job", retryable: true})
	f.in("retrying").end(f.in("retrying").claimOne("job"), amboy.StateRetrying)
	f.in("ended").insert(spec{id: "job"})
	f.in("ended").end(f.in("ended").claimOne("job"), amboy.StateSucceeded)

	ready, retrying := driver.QueueWork{Queue: "ready", Ready: true}, driver.QueueWork{Queue: "retrying", Retrying: true}
	now := work(time.Now())
	assert.Equal(f, []driver.QueueWork{ready, retrying}, now.Queues)
	assert.WithinDuration(f, soon, now.Next, time.Millisecond)
	now = work(soon.Add(time.Second))
	var names []string
	for _, w := range now.Queues {
		names = append(names, w.Queue)
	}
	assert.Equal(f, []string{"ready", "retrying", "scheduled"}, names)
	assert.True(f, now.Queues[2].Ready)
	now = work(later.Add(time.Second))
	assert.Equal(f, "expiring", now.Queues[0].Queue)
	assert.True(f, now.Queues[0].Expired)
}

// queuesUnfinished creates a queue for each state, with records in that state.
func queuesUnfinished(f *fixture) {
	unfinished := func() []string {
		f.Helper()
		names, err := f.driver.Unfinished(f.ctx)
		require.NoError(f, err)
		return names
	}
	assert.Empty(f, unfinished())
	f.in("controlled").pause(true)
	for _, state := range []amboy.JobState{amboy.StateSucceeded, amboy.StateFailed, amboy.StateCanceled, amboy.StateExpired, amboy.StateRetrying} {
		in := f.in(string(state))
		in.insert(spec{id: "job", retryable: true})
		in.end(in.claimOne("job"), state)
	}
	f.in("").insert(spec{id: "job"})
	f.in("running").insert(spec{id: "job"})
	running := f.in("running").claimOne("job")
	f.in("Parked").insert(spec{id: "job"})
	f.in("Parked").park("job")
	f.in("scheduled").insert(spec{id: "job", waitUntil: f.after(1)})
	f.in("blocked").insert(spec{id: "target"}, spec{id: "job", edges: []string{"target"}}, spec{id: "other"})
	assert.Equal(f, []string{"", "Parked", "blocked", "retrying", "running", "scheduled"}, unfinished())
	f.in("running").end(running, amboy.StateSucceeded)
	f.in("retrying").cancel("job")
	assert.Equal(f, []string{"", "Parked", "blocked", "scheduled"}, unfinished())
	f.in("failed").restart("job")
	assert.Equal(f, []string{"", "Parked", "blocked", "failed", "scheduled"}, unfinished())
}
