package drivertest

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var typeLimitRules = []rule{
	{"limits of types are set, replaced and removed beside other settings", typeLimitsAreSet},
	{"an invalid limit of a type, and one too many, is refused and changes nothing", typeLimitInvalid},
	{"at most so many jobs of a type run, and others pass them", typeLimitHolds},
	{"every record of a type that stops running makes room for another", typeLimitFrees},
	{"records of a limited type keep their place", typeLimitOrder},
	{"all versions of a type share its limit", typeLimitVersions},
	{"running records of a type continue if its limit is lowered, and a higher one applies at once", typeLimitChanged},
	{"records that start as expired count, but are not held up", typeLimitExpired},
	{"the limit of a type is that of one queue", typeLimitOfOneQueue},
	{"a type at its limit leaves its turns to other queues", typeLimitTurns},
	{"MaxRunning and the limit of a type both hold", typeLimitBesideMaxRunning},
	{"the limit of a type holds for claims that exclude kinds", typeLimitBesideExcept},
	{"a limited type takes scopes as any other", typeLimitScopes},
	{"the rate of a type gives a token after each interval, and Waits says when", typeRate},
	{"a rate of 0 stops a type, and only that", typeRateZero},
	{"the rate of a queue and that of a type both hold", typeRateBesideRate},
	{"each type has a rate of its own", typeRateOfEach},
	{"tokens of a type that a claim does not use stay", typeRateUnused},
	{"a change of the rate of a type gives no tokens", typeRateChanged},
	{"a queue without jobs keeps the limits of its types", typeLimitStays},
	{"a backlog of a limited type does not delay other records", typeLimitBacklog},
	{"concurrent claims keep to the limit of a type", typeLimitRace},
}

func (f *fixture) typeLimit(jobType string, limit amboy.TypeLimit) {
	f.Helper()
	f.control(driver.ControlChange{Type: &driver.TypeChange{Type: jobType, Limit: limit}})
}

// others limits the type of other jobs.
func (f *fixture) others(most int) {
	f.Helper()
	f.typeLimit(otherJobTypeName, amboy.TypeLimit{MaxRunning: most})
}

// otherRate sets a rate of one token in some hours for the type of other jobs.
func (f *fixture) otherRate(hours float64, burst int) {
	f.Helper()
	f.typeLimit(otherJobTypeName, amboy.TypeLimit{Rate: &amboy.Rate{PerSecond: 1 / (hours * 3600), Burst: burst}})
}

// insertOthers inserts other jobs with these IDs.
func (f *fixture) insertOthers(ids ...string) {
	f.Helper()
	specs := make([]spec, len(ids))
	for i, id := range ids {
		specs[i] = spec{id: id, typeName: otherJobTypeName}
	}
	f.insert(specs...)
}

// claims requires that a claim gets these jobs.
func (f *fixture) claims(want ...string) []*driver.Record {
	f.Helper()
	records := f.claimBut(0.1, 10, []string{f.queue}).Records
	assert.Equal(f, want, jobIDs(records))
	return records
}

func typeLimitsAreSet(f *fixture) {
	yes := true
	slow := &amboy.Rate{PerSecond: 0.1, Burst: 3}
	of := func(jobType string, limit amboy.TypeLimit) driver.ControlChange {
		return driver.ControlChange{Type: &driver.TypeChange{Type: jobType, Limit: limit}}
	}
	type limits = map[string]amboy.TypeLimit
	f.controls([]controlStep{
		{of("a", amboy.TypeLimit{MaxRunning: 3}), driver.Control{Types: limits{"a": {MaxRunning: 3}}}},
		{driver.ControlChange{Paused: &yes}, driver.Control{Paused: true, Types: limits{"a": {MaxRunning: 3}}}},
		{of("b.c $d", amboy.TypeLimit{Rate: slow}), driver.Control{Paused: true, Types: limits{"a": {MaxRunning: 3}, "b.c $d": {Rate: slow}}}},
		{of("a", amboy.TypeLimit{Rate: &amboy.Rate{}}), driver.Control{Paused: true, Types: limits{"a": {Rate: &amboy.Rate{}}, "b.c $d": {Rate: slow}}}},
		{of("a", amboy.TypeLimit{}), driver.Control{Paused: true, Types: limits{"b.c $d": {Rate: slow}}}},
		{of("b.c $d", amboy.TypeLimit{}), driver.Control{Paused: true}},
		{of("b.c $d", amboy.TypeLimit{}), driver.Control{Paused: true}},
	})
}

func typeLimitInvalid(f *fixture) {
	for _, change := range []driver.TypeChange{
		{Type: "", Limit: amboy.TypeLimit{MaxRunning: 1}},
		{Type: "a", Limit: amboy.TypeLimit{MaxRunning: -1}},
		{Type: "a", Limit: amboy.TypeLimit{Rate: &amboy.Rate{PerSecond: -1}}},
	} {
		_, err := f.driver.Control(f.ctx, f.queue, driver.ControlChange{Type: &change})
		require.ErrorContains(f, err, f.queue)
	}
	assert.Equal(f, driver.Control{}, f.control(driver.ControlChange{}))
	for i := range amboy.MaxTypeLimits {
		f.typeLimit(fmt.Sprint("type", i), amboy.TypeLimit{MaxRunning: 1})
	}
	_, err := f.driver.Control(f.ctx, f.queue, driver.ControlChange{Type: &driver.TypeChange{Type: "more", Limit: amboy.TypeLimit{MaxRunning: 1}}})
	require.ErrorContains(f, err, "at most 100 types")
	assert.Len(f, f.control(driver.ControlChange{}).Types, amboy.MaxTypeLimits)
	f.typeLimit("type0", amboy.TypeLimit{MaxRunning: 2})
}

func typeLimitHolds(f *fixture) {
	f.others(2)
	f.insertOthers("a", "b", "c", "d")
	f.insert(spec{id: "plain"})
	f.claims("a", "b", "plain")
	assert.Empty(f, f.claim(10))
	f.insert(spec{id: "later"})
	f.claims("later")
}

func typeLimitFrees(f *fixture) {
	f.others(1)
	f.insert(
		spec{id: "a", typeName: otherJobTypeName, retryable: true},
		spec{id: "b", typeName: otherJobTypeName},
		spec{id: "c", typeName: otherJobTypeName},
		spec{id: "d", typeName: otherJobTypeName},
	)
	a := f.claims("a")[0]
	f.end(a, amboy.StateRetrying)
	b := f.claims("b")[0]
	f.release(driver.HandBack{Lease: driver.LeaseOf(b)})
	b = f.claims("b")[0]
	f.act(driver.Action{Kind: driver.Cancel, Reason: "why not"}, "c")
	assert.Empty(f, f.claim(10))
	f.end(b, amboy.StateSucceeded)
	f.claims("d")
	assert.Equal(f, 1, f.recoverEnded())
	f.claims("d")
}

func typeLimitOrder(f *fixture) {
	f.others(1)
	f.insert(
		spec{id: "a", typeName: otherJobTypeName},
		spec{id: "b", typeName: otherJobTypeName},
		spec{id: "c"},
		spec{id: "d", typeName: otherJobTypeName, priority: 1},
		spec{id: "e"},
	)
	d := jobIDs(f.claim(1))
	assert.Equal(f, []string{"d"}, d)
	assert.Equal(f, []string{"c"}, jobIDs(f.claim(1)))
	f.end(f.get("d"), amboy.StateSucceeded)
	f.claims("a", "e")
	f.others(0)
	f.claims("b")
}

func typeLimitVersions(f *fixture) {
	f.typeLimit(jobTypeName, amboy.TypeLimit{MaxRunning: 2})
	f.insert(spec{id: "a"}, spec{id: "b", version: 2}, spec{id: "c"}, spec{id: "d", version: 2}, spec{id: "e", typeName: otherJobTypeName})
	f.claims("a", "b", "e")
}

func typeLimitChanged(f *fixture) {
	f.insertOthers("a", "b", "c", "d", "e")
	f.others(3)
	running := f.claims("a", "b", "c")
	f.others(2)
	f.end(running[0], amboy.StateSucceeded)
	assert.Empty(f, f.claim(10))
	assert.Len(f, f.list(amboy.StateRunning), 2)
	f.others(3)
	f.claims("d")
	f.others(0)
	f.claims("e")
}

func typeLimitExpired(f *fixture) {
	f.others(1)
	f.insert(
		spec{id: "first", typeName: otherJobTypeName, dispatchBy: f.after(1)},
		spec{id: "second", typeName: otherJobTypeName, dispatchBy: f.after(1)},
		spec{id: "third", typeName: otherJobTypeName},
	)
	assert.ElementsMatch(f, []string{"first", "second"}, jobIDs(f.claimAt(2, 10).Records))
	assert.Empty(f, f.claimAt(2, 10).Records)
	f.end(f.get("first"), amboy.StateExpired)
	assert.Empty(f, f.claimAt(2, 10).Records)
	f.end(f.get("second"), amboy.StateExpired)
	assert.Equal(f, []string{"third"}, jobIDs(f.claimAt(2, 10).Records))
}

func typeLimitOfOneQueue(f *fixture) {
	f.others(1)
	f.insertOthers("a", "b")
	other := f.in("other")
	other.insertOthers("c", "d")
	assert.Equal(f, []string{"a", "c", "d"}, slices.Sorted(slices.Values(jobIDs(f.claimBut(0.1, 10, []string{f.queue, "other"}).Records))))
}

func typeLimitTurns(f *fixture) {
	f.others(1)
	f.insertOthers("a", "b", "c")
	f.in("other").insertOthers("d", "e", "f", "g")
	assert.Equal(f, []string{"a", "d", "e", "f"}, slices.Sorted(slices.Values(jobIDs(f.claimBut(0.1, 4, []string{f.queue, "other"}).Records))))
}

func typeLimitBesideMaxRunning(f *fixture) {
	f.others(2)
	f.maxRunning(3)
	f.insertOthers("a", "b", "c")
	f.insert(spec{id: "d"}, spec{id: "e"})
	running := f.claims("a", "b", "d")
	assert.Empty(f, f.claim(10))
	f.end(running[2], amboy.StateSucceeded)
	f.claims("e")
	f.end(running[0], amboy.StateSucceeded)
	f.claims("c")
}

func typeLimitBesideExcept(f *fixture) {
	f.typeLimit(jobTypeName, amboy.TypeLimit{MaxRunning: 1})
	f.insertOthers("other")
	f.insert(spec{id: "a"}, spec{id: "b"})
	assert.Equal(f, []string{"a"}, f.exceptNow(10, otherKind))
	assert.Empty(f, f.exceptNow(10, otherKind))
	f.claims("other")
}

func typeLimitScopes(f *fixture) {
	f.others(2)
	f.insert(
		spec{id: "a", typeName: otherJobTypeName, scopes: []string{"s"}},
		spec{id: "b", typeName: otherJobTypeName, scopes: []string{"s"}},
		spec{id: "c", typeName: otherJobTypeName},
		spec{id: "d", typeName: otherJobTypeName},
		spec{id: "e", scopes: []string{"s"}},
	)
	running := f.claims("a", "c")
	f.end(running[0], amboy.StateSucceeded)
	b := f.claims("b")[0]
	f.end(b, amboy.StateSucceeded)
	f.claims("d", "e")
}

func typeRate(f *fixture) {
	f.insertOthers("a", "b", "c")
	f.insert(spec{id: "x"}, spec{id: "y"})
	f.otherRate(1, 1)
	claimed := f.rated(10, 3, true)
	assert.Equal(f, []string{"a", "x", "y"}, jobIDs(claimed.Records))
	f.waitIs(claimed, 1)
	f.elapseUnseen(hours(0.9))
	f.waitIs(f.rated(10, 0, true), 0.1)
	f.elapseUnseen(hours(0.1))
	f.waitIs(f.rated(10, 1, true), 1)
	f.elapseUnseen(hours(1))
	assert.Equal(f, []string{"c"}, jobIDs(f.rated(10, 1, false).Records))
	f.rated(10, 0, false)
}

func typeRateZero(f *fixture) {
	f.insert(
		spec{id: "a", typeName: otherJobTypeName},
		spec{id: "late", typeName: otherJobTypeName, dispatchBy: f.after(1)},
		spec{id: "plain"},
	)
	f.typeLimit(otherJobTypeName, amboy.TypeLimit{Rate: &amboy.Rate{}})
	f.claims("plain")
	f.rated(10, 0, false)
	assert.Equal(f, []string{"late"}, jobIDs(f.claimAt(2, 10).Records))
	f.typeLimit(otherJobTypeName, amboy.TypeLimit{})
	assert.Equal(f, []string{"a"}, jobIDs(f.claimAt(2, 10).Records))
}

func typeRateBesideRate(f *fixture) {
	f.insertOthers("a", "b", "c")
	f.insert(spec{id: "x"}, spec{id: "y"})
	f.rate(1, 4)
	f.otherRate(2, 1)
	assert.Equal(f, []string{"a"}, jobIDs(f.rated(10, 1, true).Records))
	f.elapseUnseen(hours(1))
	assert.Equal(f, []string{"x"}, jobIDs(f.rated(10, 1, true).Records))
	f.elapseUnseen(hours(2))
	assert.Equal(f, []string{"b", "y"}, jobIDs(f.rated(10, 2, true).Records))
}

func typeRateOfEach(f *fixture) {
	f.insertOthers("a", "b")
	f.insert(spec{id: "x"}, spec{id: "y"})
	f.otherRate(1, 1)
	f.typeLimit(jobTypeName, amboy.TypeLimit{Rate: &amboy.Rate{PerSecond: 1.0 / 7200}})
	claimed := f.rated(10, 2, true)
	assert.Equal(f, []string{"a", "x"}, jobIDs(claimed.Records))
	f.waitIs(claimed, 1)
	f.elapseUnseen(hours(1))
	claimed = f.rated(10, 1, true)
	assert.Equal(f, []string{"b"}, jobIDs(claimed.Records))
	f.waitIs(claimed, 1)
	f.elapseUnseen(hours(1))
	assert.Equal(f, []string{"y"}, jobIDs(f.rated(10, 1, false).Records))
}

func typeRateUnused(f *fixture) {
	f.otherRate(1, 3)
	f.insertOthers("a")
	f.claims("a")
	f.elapseUnseen(hours(3.5))
	f.insertOthers("b")
	f.claims("b")
	f.insertOthers("c", "d", "e", "f")
	f.claims("c", "d")
}

func typeRateChanged(f *fixture) {
	f.insertOthers("a", "b", "c")
	f.otherRate(1, 1)
	f.claims("a")
	f.otherRate(2, 1)
	f.rated(10, 0, true)
	f.elapseUnseen(hours(2))
	f.claims("b")
}

func typeLimitStays(f *fixture) {
	f.others(1)
	f.insertOthers("a")
	f.end(f.claims("a")[0], amboy.StateSucceeded)
	f.act(driver.Action{Kind: driver.Delete}, "a")
	assert.Len(f, f.control(driver.ControlChange{}).Types, 1)
	f.insertOthers("b", "c")
	f.claims("b")
}

func typeLimitBacklog(f *fixture) {
	f.others(1)
	var ids []string
	for i := range 300 {
		ids = append(ids, fmt.Sprintf("job%04d", i))
	}
	f.insertOthers(ids...)
	f.insert(spec{id: "plain"}, spec{id: "urgent", priority: 1})
	f.claims("urgent", "job0000", "plain")
}

func typeLimitRace(f *fixture) {
	const most = 3
	f.others(most)
	for i := range 9 {
		f.insertOthers(fmt.Sprint(i))
	}
	for range rounds {
		var claimed atomic.Int64
		errs := f.together(four(func() error {
			records, err := f.claimAs(owner, 2)
			claimed.Add(int64(len(records)))
			return err
		})...)
		require.NoError(f, errors.Join(errs...))
		require.EqualValues(f, most, claimed.Load())
		require.Equal(f, most, f.recoverEnded())
	}
}
