package drivertest

import (
	"errors"
	"fmt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var scopeRules = []rule{
	{"one record of a scope runs at a time", scopeOneRuns},
	{"one claim gives a scope to one record", scopeOncePerClaim},
	{"a record waits for all of its scopes", scopeAll},
	{"a record that waits for a scope does not delay others", scopeWaitsAlone},
	{"an enqueue scope has one holder", scopeEnqueued},
	{"an enqueue scope is refused while a record runs under it", scopeEnqueuedWhileRunning},
	{"an enqueue scope takes precedence over records that wait for it", scopeEnqueuedBeforeWaiting},
	{"a record that waits for a scope shows that", scopeShown},
	{"a scope whose name is no text is refused, or freed as any other", scopeNames},
}

func scopeOneRuns(f *fixture) {
	f.insert(
		spec{id: "first", scopes: []string{"s"}},
		spec{id: "second", scopes: []string{"s"}},
		spec{id: "third", scopes: []string{"s"}, priority: -1},
	)
	for _, id := range []string{"first", "second", "third"} {
		r := f.claimOne(id)
		assert.Empty(f, f.claim(10))
		f.end(r, amboy.StateSucceeded)
	}
}

func scopeOncePerClaim(f *fixture) {
	f.insert(
		spec{id: "a", scopes: []string{"s"}},
		spec{id: "b", scopes: []string{"s", "t"}, priority: 1},
		spec{id: "c", scopes: []string{"t"}},
		spec{id: "d", scopes: []string{"u"}},
	)
	assert.Equal(f, []string{"b", "d"}, jobIDs(f.claim(10)))
}

func scopeAll(f *fixture) {
	f.insert(
		spec{id: "a", scopes: []string{"s"}, priority: 1},
		spec{id: "b", scopes: []string{"t"}, priority: 1},
		spec{id: "both", scopes: []string{"s", "t"}},
	)
	running := f.claim(10)
	require.Equal(f, []string{"a", "b"}, jobIDs(running))
	f.end(running[0], amboy.StateSucceeded)
	assert.Empty(f, f.claim(10))
	f.end(running[1], amboy.StateFailed)
	f.claimOne("both")
}

func scopeWaitsAlone(f *fixture) {
	f.insert(spec{id: "holder", scopes: []string{"s"}})
	f.claimOne("holder")
	f.insert(
		spec{id: "waiting", scopes: []string{"s", "t"}, priority: 1},
		spec{id: "t", scopes: []string{"t"}},
		spec{id: "none"},
	)
	assert.Equal(f, []string{"t", "none"}, jobIDs(f.claim(10)))
}

func (f *fixture) refusedForScope(s spec) {
	f.Helper()
	unchanged := f.unchanged()
	err := f.tryInsert(s)[0]
	require.True(f, amboy.IsDuplicateJobScopeError(err), "the error is %v", err)
	unchanged()
}

func scopeEnqueued(f *fixture) {
	s := []string{"s"}
	errs := f.tryInsert(
		spec{id: "holder", scopes: s, enqueueScopes: s},
		spec{id: "other", scopes: s, enqueueScopes: s},
	)
	require.NoError(f, errs[0])
	require.True(f, amboy.IsDuplicateJobScopeError(errs[1]), "the error is %v", errs[1])
	f.insert(spec{id: "waiting", scopes: s, priority: 1})
	r := f.claimOne("holder")
	f.refusedForScope(spec{id: "other", scopes: s, enqueueScopes: s})
	assert.Empty(f, f.claim(10))
	f.end(r, amboy.StateSucceeded)
	f.claimOne("waiting")
}

func scopeEnqueuedWhileRunning(f *fixture) {
	s := []string{"s"}
	f.insert(spec{id: "running", scopes: s})
	r := f.claimOne("running")
	f.refusedForScope(spec{id: "job", scopes: s, enqueueScopes: s})
	f.end(r, amboy.StateSucceeded)
	f.insert(spec{id: "job", scopes: s, enqueueScopes: s})
}

func scopeEnqueuedBeforeWaiting(f *fixture) {
	s := []string{"s"}
	f.insert(spec{id: "waiting", scopes: s, priority: 1})
	f.insert(spec{id: "holder", scopes: s, enqueueScopes: s})
	f.hasState("waiting", amboy.StateBlocked)
	f.end(f.claimOne("holder"), amboy.StateSucceeded)
	f.claimOne("waiting")
}

func scopeShown(f *fixture) {
	f.insert(spec{id: "holder", scopes: []string{"disk"}})
	r := f.claimOne("holder")
	f.insert(
		spec{id: "waiting", scopes: []string{"disk"}},
		spec{id: "scheduled", scopes: []string{"disk"}, waitUntil: f.after(1)},
	)
	f.hasState("waiting", amboy.StateBlocked)
	f.hasState("scheduled", amboy.StateScheduled)
	got := f.get("waiting")
	assert.Equal(f, amboy.HoldBlocked, got.Status.Hold)
	assert.Contains(f, got.Status.Reason, "disk")
	assert.Empty(f, got.Scopes)

	f.release(driver.HandBack{Lease: driver.LeaseOf(r), Park: true})
	f.hasState("waiting", amboy.StatePending)
	assert.Equal(f, amboy.Hold(""), f.get("waiting").Status.Hold)
	assert.Empty(f, f.get("waiting").Status.Reason)
}

func scopeNames(f *fixture) {
	for i, name := range []string{"a\xffb", "\xff\xfe", "a\x00b"} {
		for _, atPut := range [][]string{nil, {name}} {
			first, second := fmt.Sprint("first", i, len(atPut)), fmt.Sprint("second", i, len(atPut))
			scopes := []string{name}
			errs := f.tryInsert(spec{id: first, scopes: scopes, enqueueScopes: atPut}, spec{id: second, scopes: scopes})
			var invalid *amboy.InvalidJobError
			if errors.As(errs[0], &invalid) {
				require.ErrorAs(f, errs[1], &invalid)
				continue
			}
			require.NoError(f, errors.Join(errs...))
			for _, id := range []string{first, second} {
				f.end(f.claimOne(id), amboy.StateSucceeded)
			}
		}
	}
}
