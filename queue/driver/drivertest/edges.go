package drivertest

import (
	"errors"
	"fmt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var edgeRules = []rule{
	{"a record waits until all of its edges have ended", edgesAll},
	{"edges that did not succeed are named", edgesFailed},
	{"an edge may name an ended job", edgesEnded},
	{"an edge that names no job is refused", edgeUnknown},
	{"records that depend on each other may be inserted in any order", edgesAnyOrder},
	{"a cycle is refused with its path", edgesCycle},
	{"a record that depends on itself is refused", edgesSelf},
	{"a record waits for its time after its edges", edgesThenTime},
	{"an expired record that is handed back waits for its edges again", edgesAfterExpiry},
	{"a record that waits for edges shows that", edgesShown},
	{"an edge may name any ID that the store accepts, or is refused", edgeNames},
}

func edgesAll(f *fixture) {
	f.insert(spec{id: "a"}, spec{id: "b"}, spec{id: "job", edges: []string{"a", "b"}, priority: 1})
	running := f.claim(10)
	require.Equal(f, []string{"a", "b"}, jobIDs(running))
	f.end(running[1], amboy.StateSucceeded)
	assert.Empty(f, f.claim(10))
	f.end(running[0], amboy.StateSucceeded)
	assert.Empty(f, f.claimOne("job").Dependency.Failed)
}

func edgesFailed(f *fixture) {
	endings := []amboy.JobState{amboy.StateSucceeded, amboy.StateFailed, amboy.StateCanceled, amboy.StateExpired}
	var ids []string
	for _, state := range endings {
		ids = append(ids, string(state))
		f.insert(spec{id: string(state)})
	}
	f.insert(spec{id: "job", edges: ids})
	for i, r := range f.claim(len(endings)) {
		f.end(r, endings[i])
	}
	job := f.claimOne("job")
	assert.ElementsMatch(f, ids[1:], job.Dependency.Failed)
	assert.ElementsMatch(f, ids, job.Dependency.Edges)

	f.release(driver.HandBack{Lease: driver.LeaseOf(job)})
	assert.ElementsMatch(f, ids[1:], f.claimOne("job").Dependency.Failed, "failed edges stay named")
}

func edgesEnded(f *fixture) {
	f.insert(spec{id: "good"}, spec{id: "bad"})
	f.end(f.claimOne("good"), amboy.StateSucceeded)
	f.end(f.claimOne("bad"), amboy.StateFailed)
	f.insert(spec{id: "job", edges: []string{"good", "bad"}})
	assert.Equal(f, []string{"bad"}, f.claimOne("job").Dependency.Failed)
}

func edgeUnknown(f *fixture) {
	errs := f.tryInsert(
		spec{id: "before"},
		spec{id: "job", edges: []string{"before", "unknown"}},
		spec{id: "dependent", edges: []string{"job"}},
	)
	require.NoError(f, errs[0])
	for i, id := range []string{"job", "dependent"} {
		var invalid *amboy.InvalidJobError
		require.ErrorAs(f, errs[i+1], &invalid)
		assert.Equal(f, id, invalid.JobID)
	}
	assert.Equal(f, []string{"before"}, jobIDs(f.list()))
}

func edgesAnyOrder(f *fixture) {
	f.insert(
		spec{id: "c", edges: []string{"b", "a"}},
		spec{id: "b", edges: []string{"a"}},
		spec{id: "a"},
	)
	for _, id := range []string{"a", "b", "c"} {
		r := f.claimOne(id)
		assert.Empty(f, f.claim(10))
		f.end(r, amboy.StateSucceeded)
	}
}

func edgesCycle(f *fixture) {
	specs := []spec{
		{id: "free"},
		{id: "a", edges: []string{"b"}},
		{id: "b", edges: []string{"free", "c"}},
		{id: "c", edges: []string{"a"}},
		{id: "dependent", edges: []string{"c"}},
	}
	errs := f.tryInsert(specs...)
	require.NoError(f, errs[0])
	for i := 1; i <= 3; i++ {
		var cycle *amboy.DependencyCycleError
		require.ErrorAs(f, errs[i], &cycle)
		require.Len(f, cycle.Path, 4)
		assert.Equal(f, cycle.Path[0], cycle.Path[3])
		for k, id := range cycle.Path[:3] {
			for _, s := range specs {
				if s.id == id {
					assert.Contains(f, s.edges, cycle.Path[k+1], "the path follows the edges")
				}
			}
		}
	}
	var invalid *amboy.InvalidJobError
	require.ErrorAs(f, errs[4], &invalid)
	assert.Equal(f, []string{"free"}, jobIDs(f.list()))
}

func edgesSelf(f *fixture) {
	err := f.tryInsert(spec{id: "a", edges: []string{"a"}})[0]
	var cycle *amboy.DependencyCycleError
	require.ErrorAs(f, err, &cycle)
	assert.Equal(f, []string{"a", "a"}, cycle.Path)
	assert.Empty(f, f.list())
}

func edgesThenTime(f *fixture) {
	f.insert(spec{id: "a"}, spec{id: "job", edges: []string{"a"}, waitUntil: f.after(1)})
	r := f.claimOne("a")
	assert.Empty(f, f.claimAt(0.5, 10).Records)
	f.hasState("job", amboy.StateBlocked)
	f.end(r, amboy.StateSucceeded)
	f.hasState("job", amboy.StateScheduled)
	assert.Empty(f, f.claimAt(0.5, 10).Records)
	assert.Equal(f, []string{"job"}, jobIDs(f.claimAt(1, 10).Records))
}

func edgesAfterExpiry(f *fixture) {
	f.insert(spec{id: "a"}, spec{id: "job", edges: []string{"a"}, dispatchBy: f.after(1)})
	a := f.claimOne("a")
	expired := f.claimAt(2, 0).Records
	require.Equal(f, []string{"job"}, jobIDs(expired))
	f.release(driver.HandBack{Lease: driver.LeaseOf(expired[0])})
	f.hasState("job", amboy.StateBlocked)
	assert.Empty(f, f.claim(10))
	f.end(a, amboy.StateSucceeded)
	f.hasState("job", amboy.StatePending)
	assert.Equal(f, []string{"job"}, jobIDs(f.claimAt(2, 0).Records), "the record expires again")
}

func edgesShown(f *fixture) {
	f.insert(spec{id: "a"}, spec{id: "job", edges: []string{"a"}})
	f.hasState("job", amboy.StateBlocked)
	assert.NotEmpty(f, f.get("job").Status.Reason)
	f.end(f.claimOne("a"), amboy.StateFailed)
	f.hasState("job", amboy.StatePending)
	assert.Empty(f, f.get("job").Status.Reason)
}

// edgeNames has IDs that are no text. A restart finds the edges in what is stored of the record.
func edgeNames(f *fixture) {
	for i, id := range []string{"a\xffb", "\xff\xfe", "a\x00b"} {
		dependent := fmt.Sprint("dependent", i)
		errs := f.tryInsert(spec{id: id}, spec{id: dependent, edges: []string{id}})
		var invalid *amboy.InvalidJobError
		switch {
		case errors.As(errs[0], &invalid):
			require.ErrorAs(f, errs[1], &invalid)
			continue
		case errors.As(errs[1], &invalid):
			require.NoError(f, errs[0])
			f.end(f.claimOne(id), amboy.StateSucceeded)
			continue
		}
		require.NoError(f, errors.Join(errs...))
		f.cancel(dependent)
		f.restart(dependent)
		f.hasState(dependent, amboy.StateBlocked)
		f.end(f.claimOne(id), amboy.StateFailed)
		r := f.claimOne(dependent)
		assert.Equal(f, []string{id}, r.Dependency.Edges)
		assert.Equal(f, []string{id}, r.Dependency.Failed)
		f.end(r, amboy.StateSucceeded)
	}
}
