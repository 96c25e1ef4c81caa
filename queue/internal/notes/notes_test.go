package notes_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/notes"
)

// The other behavior is tested by the drivers' conformance suite, with the memory driver.

func note(key string, until time.Time) driver.Note {
	return driver.Note{Kind: "kind", Key: key, Value: []byte(key), Until: until}
}

func keysOf(t *testing.T, s *notes.Store, kind string) (keys []string) {
	t.Helper()
	found, err := s.Notes(driver.NoteRequest{Kind: kind, Limit: 1000})
	require.NoError(t, err)
	for _, n := range found {
		keys = append(keys, n.Key)
	}
	return keys
}

func TestExpiredNotesAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s notes.Store
		now := time.Now()
		require.NoError(t, s.Keep(note("a", now.Add(time.Minute)), note("b", now.Add(time.Hour)), note("c", now.Add(time.Second))))
		require.NoError(t, s.Keep(note("c", now.Add(2*time.Hour)), note("b", now.Add(time.Minute))))
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"a", "b", "c"}, keysOf(t, &s, "kind"), "reading removes nothing")
		require.NoError(t, s.Keep(note("d", time.Now().Add(time.Hour))))
		assert.Equal(t, []string{"c", "d"}, keysOf(t, &s, "kind"))
		time.Sleep(3 * time.Hour)
		_, isNew, err := s.KeepNew(note("e", time.Now().Add(time.Hour)), time.Now())
		require.NoError(t, err)
		assert.True(t, isNew)
		assert.Equal(t, []string{"e"}, keysOf(t, &s, "kind"))
	})
}

// The test compares random changes with a map.
func TestRandomChangesOfNotesMatchAMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var s notes.Store
	later := time.Now().Add(time.Hour)
	model := map[string]map[string]bool{"a": {}, "b": {}}
	for range 2000 {
		kind, key := string(rune('a'+random.IntN(2))), fmt.Sprint(random.IntN(50))
		n := note(key, later.Add(time.Duration(random.IntN(100))*time.Minute))
		n.Kind = kind
		switch random.IntN(3) {
		case 0:
			require.NoError(t, s.Keep(n))
			model[kind][key] = true
		case 1:
			_, isNew, err := s.KeepNew(n, time.Now())
			require.NoError(t, err)
			require.Equal(t, !model[kind][key], isNew)
			model[kind][key] = true
		default:
			s.Drop(kind, key)
			delete(model[kind], key)
		}
		var want []string
		for key := range model[kind] {
			want = append(want, key)
		}
		slices.Sort(want)
		require.Equal(t, want, keysOf(t, &s, kind))
	}
}
