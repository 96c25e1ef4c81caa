package schedule_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// dependent returns an entry with edges.
func dependent(id string, edges ...string) *entry { return &entry{ID: id, Edges: edges} }

func TestEntryWaitsForItsEdges(t *testing.T) {
	f := newFixture(t)
	f.add(dependent("a"), dependent("b"), dependent("c", "a", "b"), dependent("d", "c"))
	assert.Equal(t, schedule.Waiting, f.get("c").Place())
	assert.Equal(t, schedule.Block{Open: 2, Edges: 2}, f.get("c").Block())
	f.next("a")
	f.next("b")
	f.noNext()
	f.finish("b", true)
	assert.Equal(t, schedule.Block{Open: 1, Edges: 2}, f.get("c").Block())
	f.finish("a", true)
	assert.Zero(t, f.get("c").Block())
	assert.Equal(t, []string{"c", "d"}, f.drain())
}

func TestEdgesThenTimeThenScope(t *testing.T) {
	f := newFixture(t)
	f.add(
		dependent("a"),
		&entry{ID: "b", Edges: []string{"a"}, WaitUntil: after(10), Scopes: schedule.NewScopes([]string{"s"}, nil)},
		&entry{ID: "holder", Scopes: schedule.NewScopes([]string{"s"}, nil)},
	)
	f.advance(after(5))
	f.next("a")
	f.next("holder")
	f.finish("a", true)
	assert.Equal(t, schedule.Scheduled, f.get("b").Place())
	f.advance(after(10))
	assert.Equal(t, schedule.ScopeBlocked, f.get("b").Place())
	f.finish("holder", true)
	f.next("b")
}

func TestFailedEdges(t *testing.T) {
	f := newFixture(t)
	f.add(dependent("good"), dependent("bad"), dependent("worse"))
	f.finish("bad", false)
	f.add(dependent("job", "good", "bad", "worse"))
	f.finish("worse", false)
	f.finish("good", true)
	assert.Equal(t, []string{"bad", "worse"}, f.next("job").Failed())
	f.finish("job", true)

	f.add(dependent("lucky", "good"), dependent("unlucky", "bad"))
	assert.Empty(t, f.next("lucky").Failed())
	assert.Equal(t, []string{"bad"}, f.next("unlucky").Failed())
}

func TestEdgeToARetriedJobFailsWithItsLastAttempt(t *testing.T) {
	f := newFixture(t)
	f.add(dependent("a"), dependent("early", "a"))
	f.next("a")
	f.retry("a")
	f.add(dependent("between", "a"))
	f.replace(dependent("a"))
	f.add(dependent("late", "a"))
	f.next("a")
	f.noNext()
	f.retry("a")
	f.finish("a", false)
	for _, id := range []string{"early", "between", "late"} {
		assert.Equal(t, []string{"a"}, f.next(id).Failed())
	}
}

func TestFailedEdgesOfARetriedJob(t *testing.T) {
	f := newFixture(t)
	f.add(dependent("bad"), dependent("job", "bad"), dependent("last", "job"))
	f.finish("bad", false)
	f.next("job")
	f.retry("job")
	f.replace(dependent("job", "bad"))
	assert.Empty(t, f.next("job").Failed(), "the job was run despite the failed edge")
	f.finish("job", true)
	assert.Equal(t, []string{"last"}, f.drain())
}

func TestUnknownEdgeIsRefused(t *testing.T) {
	f := newFixture(t)
	f.add(dependent("a"))
	err := f.Add(dependent("b", "a", "nobody"), f.now)
	var invalid *amboy.InvalidJobError
	require.ErrorAs(t, err, &invalid)
	assert.Equal(t, "b", invalid.JobID)
	assert.Equal(t, "nobody", invalid.Value)
	assert.Equal(t, 1, f.Len())

	f.KeepFinished = 0
	f.drain()
	require.ErrorAs(t, f.Add(dependent("b", "a"), f.now), &invalid, "a was removed")
}

func TestCycles(t *testing.T) {
	for name, test := range map[string]struct {
		entries []*entry
		last    *entry
		path    []string
	}{
		"of one": {last: dependent("a", "a"), path: []string{"a", "a"}},
		"of two": {
			entries: []*entry{dependent("b", "a")},
			last:    dependent("a", "b"),
			path:    []string{"a", "b", "a"},
		},
		"of three, and more": {
			entries: []*entry{dependent("x", "a"), dependent("b", "c"), dependent("c", "x", "a", "y")},
			last:    dependent("a", "z", "b"),
			path:    []string{"a", "b", "c", "a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.ForwardEdges = true
			f.add(test.entries...)
			var cycle *amboy.DependencyCycleError
			require.ErrorAs(t, f.Add(test.last, f.now), &cycle)
			assert.Equal(t, test.path, cycle.Path)
			assert.Equal(t, len(test.entries), f.Len())
		})
	}
}

func TestDiamondIsNoCycle(t *testing.T) {
	f := newFixture(t)
	f.ForwardEdges = true
	f.add(dependent("top", "left", "right"), dependent("left", "bottom"), dependent("right", "bottom"), dependent("bottom"))
	assert.Equal(t, []string{"bottom", "left", "right", "top"}, f.drain())
}

func TestForwardEdges(t *testing.T) {
	f := newFixture(t)
	f.ForwardEdges = true
	f.add(dependent("c", "b", "a"), dependent("d", "b"))
	assert.Equal(t, []string{"a", "b"}, f.Missing())
	f.noNext()
	f.add(dependent("b"))
	assert.Equal(t, []string{"a"}, f.Missing())
	f.next("b")
	f.finish("b", false)
	assert.Equal(t, []string{"b"}, f.next("d").Failed())
	f.add(dependent("a"))
	assert.Empty(t, f.Missing())
	f.next("a")
	f.finish("a", true)
	assert.Equal(t, []string{"b"}, f.next("c").Failed())
}

func TestAnEndedJobHasNoMissingEdges(t *testing.T) {
	f := newFixture(t)
	f.ForwardEdges = true
	f.add(dependent("a", "x"), dependent("b", "x", "y"))
	f.finish("a", false)
	assert.Equal(t, []string{"x", "y"}, f.Missing())
	f.finish("b", false)
	assert.Empty(t, f.Missing())
	f.add(dependent("x"))
	assert.Equal(t, []string{"x"}, f.drain())
}

func TestSort(t *testing.T) {
	for name, test := range map[string]struct {
		entries []*entry
		sorted  []string
		cycles  map[string][]string
	}{
		"nothing":       {},
		"without edges": {entries: []*entry{dependent("b"), dependent("a")}, sorted: []string{"b", "a"}},
		"in order": {
			entries: []*entry{dependent("a"), dependent("b", "a"), dependent("c"), dependent("d", "b")},
			sorted:  []string{"a", "b", "c", "d"},
		},
		"in reverse order": {
			entries: []*entry{dependent("c", "b"), dependent("b", "a"), dependent("a")},
			sorted:  []string{"a", "b", "c"},
		},
		"edges to others": {
			entries: []*entry{dependent("b", "old", "a"), dependent("a", "old")},
			sorted:  []string{"a", "b"},
		},
		"repeated edges": {
			entries: []*entry{dependent("b", "a", "a"), dependent("a")},
			sorted:  []string{"a", "b"},
		},
		"repeated entries": {
			entries: []*entry{dependent("b", "a"), dependent("a"), dependent("a"), dependent("b")},
			sorted:  []string{"a", "b", "a", "b"},
		},
		"a cycle of one": {
			entries: []*entry{dependent("a", "a"), dependent("b")},
			sorted:  []string{"b"},
			cycles:  map[string][]string{"a": {"a", "a"}},
		},
		"a cycle, and what depends on it": {
			entries: []*entry{dependent("late", "a"), dependent("a", "free", "b"), dependent("b", "a"), dependent("free")},
			sorted:  []string{"free", "late"},
			cycles:  map[string][]string{"a": {"a", "b", "a"}, "b": {"a", "b", "a"}},
		},
		"two cycles": {
			entries: []*entry{dependent("a", "b"), dependent("b", "a"), dependent("c", "d", "a"), dependent("d", "c")},
			cycles: map[string][]string{
				"a": {"a", "b", "a"}, "b": {"a", "b", "a"},
				"c": {"c", "d", "c"}, "d": {"c", "d", "c"},
			},
		},
		"cycles that meet": {
			entries: []*entry{dependent("a", "b", "c"), dependent("b", "a"), dependent("c", "a")},
			cycles:  map[string][]string{"a": {"a", "b", "a"}, "b": {"a", "b", "a"}, "c": {"a", "b", "a"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			sorted, cycles := schedule.Sort(test.entries)
			assert.Equal(t, test.sorted, ids(sorted))
			paths := map[string][]string{}
			for e, err := range cycles {
				var cycle *amboy.DependencyCycleError
				require.ErrorAs(t, err, &cycle)
				paths[e.ID] = cycle.Path
			}
			assert.Len(t, paths, len(test.cycles))
			for id, path := range test.cycles {
				assert.Equal(t, path, paths[id], id)
			}
		})
	}
}

func TestSortManyEntries(t *testing.T) {
	const chain = 30_000
	var entries []*entry
	for i := range chain {
		e := dependent(fmt.Sprint(i))
		if i > 0 {
			e.Edges = []string{fmt.Sprint(i - 1)}
		}
		entries = append(entries, e)
	}
	ordered := slices.Clone(entries)
	slices.Reverse(entries)
	sorted, cycles := schedule.Sort(entries)
	assert.Empty(t, cycles)
	assert.True(t, slices.Equal(ordered, sorted))

	ordered[0].Edges = []string{fmt.Sprint(chain - 1)}
	sorted, cycles = schedule.Sort(entries)
	assert.Empty(t, sorted)
	assert.Len(t, cycles, chain)
}
