package mongodb_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

func newNote(kind, key string) driver.Note {
	return driver.Note{Kind: kind, Key: key, Value: []byte(key), Until: time.Now().Add(time.Hour)}
}

func keysOf(tb testing.TB, d driver.Driver, req driver.NoteRequest) []string {
	tb.Helper()
	notes, err := d.Notes(tb.Context(), req)
	require.NoError(tb, err)
	var keys []string
	for _, n := range notes {
		assert.Equal(tb, req.Kind, n.Kind)
		assert.Equal(tb, n.Key, string(n.Value))
		keys = append(keys, n.Key)
	}
	return keys
}

// TestKindsOfNotes uses kinds and keys that are ambiguous if they are simply joined.
func TestKindsOfNotes(t *testing.T) {
	d := newStore(t).open()
	keys := []string{"\x00", "\x00a", " ", "/", "/a", "0", "A", "a", "a\x00", "a/b", "aa", `b"`, `b\`, "ä", "\U0001F600"} // sorted
	kinds := []string{"a", "a/", `a"`, `a"/`, `a\`, "a\x00", "a0", "b"}
	for _, kind := range kinds {
		for _, key := range keys {
			require.NoError(t, d.Keep(t.Context(), newNote(kind, key)))
		}
	}
	for _, kind := range kinds {
		assert.Equal(t, keys, keysOf(t, d, driver.NoteRequest{Kind: kind, Limit: 100}), "kind %q", kind)
		assert.Equal(t, []string{"a", "a\x00", "a/b", "aa"}, keysOf(t, d, driver.NoteRequest{Kind: kind, From: "a", To: "b", Limit: 100}))
		assert.Equal(t, []string{"\U0001F600", "ä"}, keysOf(t, d, driver.NoteRequest{Kind: kind, Limit: 2, Last: true}))
	}
	require.NoError(t, d.Drop(t.Context(), `a"`, keys...))
	for _, kind := range kinds {
		want := keys
		if kind == `a"` {
			want = nil
		}
		assert.Equal(t, want, keysOf(t, d, driver.NoteRequest{Kind: kind, Limit: 100}), "kind %q", kind)
	}
}

func TestCommandsOfNotes(t *testing.T) {
	for name, standalone := range map[string]bool{"replica set": false, "standalone": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				commandsOfNotes(t, newStoreOf(t, mongotest.Options{InMemory: true, Standalone: standalone}))
			})
		})
	}
}

func commandsOfNotes(t *testing.T, s *store) {
	d := s.open()
	names, err := s.client.Database(s.db).ListCollectionNames(t.Context(), bson.D{{Key: "name", Value: "work.group.notes"}})
	require.NoError(t, err)
	assert.Empty(t, names, "without notes there is no collection")
	var open atomic.Bool
	d.Subscribe(func(driver.Change) {
		if open.Load() {
			t.Error("notes must not wake subscribers")
		}
	})
	pass(2 * time.Second) // the change stream is opened, and notifies
	open.Store(true)
	notes := make([]driver.Note, 100)
	for i := range notes {
		notes[i] = newNote("kind", fmt.Sprint(i))
	}
	keep := func() { require.NoError(t, d.Keep(t.Context(), notes...)) }
	keepNew := func(key string, want bool) func() {
		return func() {
			_, isNew, err := d.KeepNew(t.Context(), newNote("kind", key), time.Now())
			require.NoError(t, err)
			assert.Equal(t, want, isNew)
		}
	}
	for _, test := range []struct {
		name string
		call func()
		want []string
	}{
		{"the first", keep, []string{"createIndexes work.group.notes", "update work.group.notes"}},
		{"a hundred", keep, []string{"update work.group.notes"}},
		{"none", func() { require.NoError(t, d.Keep(t.Context())) }, nil},
		{"a new one", keepNew("new", true), []string{"update work.group.notes"}},
		{"an existing one", keepNew("new", false), []string{"update work.group.notes", "find work.group.notes"}},
		{"reading", func() { assert.Len(t, keysOf(t, d, driver.NoteRequest{Kind: "kind", Limit: 50}), 50) }, []string{"find work.group.notes"}},
		{"dropping", func() { require.NoError(t, d.Drop(t.Context(), "kind", "1", "2")) }, []string{"delete work.group.notes"}},
	} {
		sent := s.commands(func() {
			test.call()
			synctest.Wait()
		})
		assert.Equal(t, test.want, sent, test.name)
	}
}

// TestNotesAreRemoved waits for the server to remove outdated notes.
func TestNotesAreRemoved(t *testing.T) {
	server, err := mongotest.New(mongotest.Options{InMemory: true})
	require.NoError(t, err)
	t.Cleanup(server.Close)
	d := newStoreOn(t, server.ClientOptions()).open()
	now := time.Now()
	for i := range 4 {
		n := newNote("kind", fmt.Sprint(i))
		n.Until = now.Add(time.Duration(i) * time.Minute)
		require.NoError(t, d.Keep(t.Context(), n))
	}
	assert.Equal(t, 2, server.Expire(now.Add(time.Minute)))
	assert.Equal(t, []string{"2", "3"}, keysOf(t, d, driver.NoteRequest{Kind: "kind", Limit: 10}))
}

// TestNewNoteWhoseAnswerIsLost makes calls succeed on the server and return an error.
func TestNewNoteWhoseAnswerIsLost(t *testing.T) {
	for name, fault := range faults {
		for _, kind := range []mongotest.Option{mongotest.ReplicaSet(), mongotest.Standalone()} {
			t.Run(name, func(t *testing.T) {
				deployment := mongotest.Open(t, kind)
				d, err := mongodb.Open(t.Context(), mongodb.Options{Client: deployment.Connect(), DB: deployment.Database(), Collection: "work"})
				require.NoError(t, err)
				defer func() { require.NoError(t, d.Close(t.Context())) }()
				require.NoError(t, d.Keep(t.Context(), newNote("kind", "other")))
				fault.Commands, fault.Times = []string{"update"}, 1
				deployment.Fail(fault)
				kept, isNew, err := d.KeepNew(t.Context(), newNote("kind", "new"), time.Now())
				require.NoError(t, err)
				assert.True(t, isNew)
				assert.Equal(t, "new", kept.Key)
				deployment.Fail(fault)
				require.NoError(t, d.Keep(t.Context(), newNote("kind", "another")))
				fault.Commands = []string{"delete"}
				deployment.Fail(fault)
				require.NoError(t, d.Drop(t.Context(), "kind", "other"))
				assert.Equal(t, []string{"another", "new"}, keysOf(t, d, driver.NoteRequest{Kind: "kind", Limit: 10}))
			})
		}
	}
}

// TestNewNotesThatRace keeps the same note from several processes at once, with and
// without an outdated note before.
func TestNewNotesThatRace(t *testing.T) {
	s := newStore(t)
	const processes, rounds = 4, 20
	drivers := make([]driver.Driver, processes)
	for i := range drivers {
		drivers[i] = s.open()
	}
	for round := range rounds {
		old := newNote("kind", fmt.Sprint(round))
		old.Until = time.Now().Add(-time.Second)
		if round%2 == 0 {
			require.NoError(t, drivers[0].Keep(t.Context(), old))
		}
		var racing sync.WaitGroup
		isNew, values, errs := make([]bool, processes), make([]string, processes), make([]error, processes)
		for i, d := range drivers {
			racing.Go(func() {
				n := newNote("kind", old.Key)
				n.Value = []byte(fmt.Sprint(i))
				kept, first, err := d.KeepNew(t.Context(), n, time.Now())
				isNew[i], values[i], errs[i] = first, string(kept.Value), err
			})
		}
		racing.Wait()
		require.NoError(t, errors.Join(errs...))
		var winners []string
		for i := range drivers {
			if isNew[i] {
				winners = append(winners, fmt.Sprint(i))
			}
		}
		require.Len(t, winners, 1)
		for _, value := range values {
			assert.Equal(t, winners[0], value)
		}
	}
}
