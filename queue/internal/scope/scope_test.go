package scope_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/internal/scope"
)

// held returns Holders in which a holds a1 and a2, and b holds b1.
func held(t *testing.T) *scope.Holders {
	t.Helper()
	var h scope.Holders
	require.NoError(t, h.Acquire("a", []string{"a1", "a2"}))
	require.NoError(t, h.Acquire("b", []string{"b1"}))
	return &h
}

// owners returns the holders of the scopes.
func owners(h *scope.Holders) map[string]string {
	all := map[string]string{}
	for _, name := range []string{"a1", "a2", "b1", "x", "y", ""} {
		for _, owner := range []string{"a", "b", "c", "d"} {
			if h.Holds(owner, name) {
				all[name] = owner
			}
		}
	}
	return all
}

func TestHoldersChangeAllOrNothing(t *testing.T) {
	before := map[string]string{"a1": "a", "a2": "a", "b1": "b"}
	for name, test := range map[string]struct {
		change    func(h *scope.Holders) error
		after     map[string]string
		err       string
		duplicate bool
	}{
		"acquire free scopes": {
			change: func(h *scope.Holders) error { return h.Acquire("c", []string{"x", "y", "x"}) },
			after:  map[string]string{"a1": "a", "a2": "a", "b1": "b", "x": "c", "y": "c"},
		},
		"acquire one's own again": {
			change: func(h *scope.Holders) error { return h.Acquire("a", []string{"a1", "x"}) },
			after:  map[string]string{"a1": "a", "a2": "a", "b1": "b", "x": "a"},
		},
		"acquire nothing": {
			change: func(h *scope.Holders) error { return h.Acquire("c", nil) },
			after:  before,
		},
		"acquire another's": {
			change:    func(h *scope.Holders) error { return h.Acquire("a", []string{"x", "b1"}) },
			after:     before,
			err:       `enqueue scope "b1" of job "a" is held by job "b"`,
			duplicate: true,
		},
		"acquire without an owner": {
			change: func(h *scope.Holders) error { return h.Acquire("", []string{"x"}) },
			after:  before,
			err:    "acquiring scopes: owner must not be empty",
		},
		"acquire an empty scope": {
			change: func(h *scope.Holders) error { return h.Acquire("a", []string{"x", ""}) },
			after:  before,
			err:    `acquiring scopes for "a": scope must not be empty`,
		},
		"release one of several": {
			change: func(h *scope.Holders) error { return h.Release("a", []string{"a1"}) },
			after:  map[string]string{"a2": "a", "b1": "b"},
		},
		"release what nobody holds": {
			change: func(h *scope.Holders) error { return h.Release("a", []string{"x", "a1"}) },
			after:  map[string]string{"a2": "a", "b1": "b"},
		},
		"release another's": {
			change: func(h *scope.Holders) error { return h.Release("a", []string{"a1", "b1"}) },
			after:  before,
			err:    `releasing scope "b1" for "a": it is held by "b"`,
		},
		"release without an owner": {
			change: func(h *scope.Holders) error { return h.Release("", []string{"a1"}) },
			after:  before,
			err:    "releasing scopes: owner must not be empty",
		},
		"release an empty scope": {
			change: func(h *scope.Holders) error { return h.Release("a", []string{"a1", ""}) },
			after:  before,
			err:    `releasing scopes for "a": scope must not be empty`,
		},
		"pass scopes on": {
			change: func(h *scope.Holders) error {
				return h.ReleaseAndAcquire("a", []string{"a1", "a2"}, "c", []string{"a2", "x"})
			},
			after: map[string]string{"a2": "c", "b1": "b", "x": "c"},
		},
		"exchange one's own": {
			change: func(h *scope.Holders) error {
				return h.ReleaseAndAcquire("a", []string{"a1"}, "a", []string{"a2", "x"})
			},
			after: map[string]string{"a2": "a", "b1": "b", "x": "a"},
		},
		"pass on more than is released": {
			change: func(h *scope.Holders) error {
				return h.ReleaseAndAcquire("a", []string{"a1"}, "c", []string{"a1", "a2"})
			},
			after:     before,
			err:       `enqueue scope "a2" of job "c" is held by job "a"`,
			duplicate: true,
		},
		"pass on and acquire another's": {
			change: func(h *scope.Holders) error {
				return h.ReleaseAndAcquire("a", []string{"a1"}, "c", []string{"a1", "b1"})
			},
			after:     before,
			err:       `enqueue scope "b1" of job "c" is held by job "b"`,
			duplicate: true,
		},
		"pass on what another holds": {
			change: func(h *scope.Holders) error {
				return h.ReleaseAndAcquire("a", []string{"b1"}, "c", []string{"b1"})
			},
			after: before,
			err:   `releasing scope "b1" for "a": it is held by "b"`,
		},
		"pass on to nobody": {
			change: func(h *scope.Holders) error {
				return h.ReleaseAndAcquire("a", []string{"a1"}, "", []string{"a1"})
			},
			after: before,
			err:   "acquiring scopes: owner must not be empty",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := held(t)
			err := test.change(h)
			if test.err == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, test.err)
			}
			assert.Equal(t, test.duplicate, amboy.IsDuplicateJobScopeError(err))
			assert.Equal(t, test.after, owners(h))
			assert.Equal(t, len(test.after), h.Len())
		})
	}
}

func TestFullReturnsTheFirst(t *testing.T) {
	h := held(t)

	name, other := h.Full("b", []string{"x", "b1", "a2", "a1"})
	assert.True(t, other)
	assert.Equal(t, "a2", name)

	name, other = h.Full("a", []string{"x", "a1"})
	assert.False(t, other)
	assert.Empty(t, name)
}

func TestHoldersAllocateNothingForKnownScopes(t *testing.T) {
	h := held(t)
	scopes := []string{"x", "y"}
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if h.Acquire("c", scopes) != nil || h.ReleaseAndAcquire("c", scopes, "d", scopes) != nil || h.Release("d", scopes) != nil {
			t.Error("could not acquire, pass on and release")
		}
	}))
}

func TestLimitedScopesOfAKeyShareTheirOwners(t *testing.T) {
	two, three := amboy.LimitScope("k", 2), amboy.LimitScope("k", 3)
	var h scope.Holders
	for _, owner := range []string{"a", "b"} {
		require.NoError(t, h.Acquire(owner, []string{two}))
		require.NoError(t, h.Acquire(owner, []string{two}), "it holds the scope already")
	}
	err := h.Acquire("c", []string{two})
	require.EqualError(t, err, `enqueue scope "k (at most 2)" of job "c" is held by job "a"`)
	require.NoError(t, h.Acquire("c", []string{three}))
	assert.Equal(t, 2, h.Others("a", two))
	assert.Equal(t, 3, h.Others("d", two))
	require.NoError(t, h.Acquire("d", []string{"k"}), "the plain scope is another")

	require.EqualError(t, h.ReleaseAndAcquire("d", []string{two}, "d", []string{two}), `enqueue scope "k (at most 2)" of job "d" is held by job "a"`)
	require.EqualError(t, h.ReleaseAndAcquire("a", []string{two}, "d", []string{two}), `enqueue scope "k (at most 2)" of job "d" is held by job "a"`, "b and c remain")
	require.NoError(t, h.Release("c", []string{three}))
	require.NoError(t, h.ReleaseAndAcquire("a", []string{two}, "d", []string{two}))
	assert.False(t, h.Holds("a", two))
	for _, owner := range []string{"b", "d"} {
		require.NoError(t, h.Release(owner, []string{two}))
	}
	assert.Equal(t, 1, h.Len())
}
