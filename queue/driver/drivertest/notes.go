package drivertest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
)

var noteRules = []rule{
	{"a note replaces the one with its key", noteReplaces},
	{"notes are distinguished by kind", noteKinds},
	{"notes are sorted by the bytes of their keys, within bounds", noteOrder},
	{"any text is a key", noteKeys},
	{"a note is kept to the millisecond", notePrecision},
	{"a value may be empty, binary, and as large as is allowed", noteValues},
	{"a note is new if no current note exists", noteNew},
	{"a note is replaced if it has the old value", noteSwapped},
	{"dropped notes are gone, and unknown keys are ignored", noteDropped},
	{"an invalid note is refused together with the others of the call", noteInvalid},
	{"an invalid request is refused", noteInvalidRequest},
	{"notes are no records and create no queue", noteBeside},
}

// noteKind is the default kind of notes.
const noteKind = "kind"

// note returns a note whose value contains the key, kept until some hours after the
// start.
func (f *fixture) note(key string, hours float64) driver.Note {
	return driver.Note{Kind: noteKind, Key: key, Value: []byte("value of " + key), Until: f.after(hours)}
}

func (f *fixture) keep(notes ...driver.Note) {
	f.Helper()
	require.NoError(f, f.driver.Keep(f.ctx, notes...))
}

// keepNew keeps a note some hours after the start.
func (f *fixture) keepNew(note driver.Note, hours float64) (kept driver.Note, isNew bool) {
	f.Helper()
	kept, isNew, err := f.driver.KeepNew(f.ctx, note, f.after(hours))
	require.NoError(f, err)
	return kept, isNew
}

func (f *fixture) drop(kind string, keys ...string) {
	f.Helper()
	require.NoError(f, f.driver.Drop(f.ctx, kind, keys...))
}

func (f *fixture) notes(req driver.NoteRequest) []driver.Note {
	f.Helper()
	notes, err := f.driver.Notes(f.ctx, req)
	require.NoError(f, err)
	return notes
}

// kept returns all notes of a kind.
func (f *fixture) kept(kind string) []driver.Note {
	f.Helper()
	return f.notes(driver.NoteRequest{Kind: kind, Limit: 1000})
}

func keysOf(notes []driver.Note) []string {
	var keys []string
	for _, n := range notes {
		keys = append(keys, n.Key)
	}
	return keys
}

// sameNotes requires that notes are the same, and in the same order.
func (f *fixture) sameNotes(want, got []driver.Note) {
	f.Helper()
	require.Equal(f, keysOf(want), keysOf(got))
	for i, w := range want {
		g := got[i]
		require.Equal(f, w.Kind, g.Kind, "the kind of note %q", w.Key)
		require.True(f, bytes.Equal(w.Value, g.Value), "the value of note %q must have %d bytes, and has others (%d)", w.Key, len(w.Value), len(g.Value))
		require.True(f, w.Until.Equal(g.Until), "note %q is kept until %s (is %s)", w.Key, w.Until, g.Until)
	}
}

func noteReplaces(f *fixture) {
	a, b := f.note("a", 1), f.note("b", 1)
	f.keep(a, b)
	f.sameNotes([]driver.Note{a, b}, f.kept(noteKind))
	a.Value, a.Until = []byte("another"), f.after(2)
	f.keep(a)
	f.sameNotes([]driver.Note{a, b}, f.kept(noteKind))
	last := a
	last.Value, last.Until = []byte("the last of several"), f.after(1)
	f.keep(a, last)
	f.sameNotes([]driver.Note{last, b}, f.kept(noteKind))
	f.keep()
	f.sameNotes([]driver.Note{last, b}, f.kept(noteKind))
}

func noteKinds(f *fixture) {
	one, other := f.note("key", 1), f.note("key", 2)
	other.Kind, other.Value = "Kind", []byte("other")
	f.keep(one, other)
	f.sameNotes([]driver.Note{one}, f.kept("kind"))
	f.sameNotes([]driver.Note{other}, f.kept("Kind"))
	assert.Empty(f, f.kept("kin"))
	assert.Empty(f, f.kept("kinds"))
	f.drop("Kind", "key")
	f.sameNotes([]driver.Note{one}, f.kept("kind"))
}

func noteOrder(f *fixture) {
	keys := []string{"1", "10", "2", "B", "a", "a b", "a.b", "aa", "b", "é", "ｆ", "😀"}
	for i := range keys {
		f.keep(f.note(keys[(i*5)%len(keys)], 1))
	}
	require.Equal(f, keys, keysOf(f.kept(noteKind)))
	for _, from := range []string{"", "1", "11", "a", "a.", "😀", "😀😀"} {
		for _, to := range []string{"", "1", "B", "aa", "b", "c", "😀"} {
			var want []string
			for _, key := range keys {
				if key >= from && (to == "" || key < to) {
					want = append(want, key)
				}
			}
			for _, limit := range []int{1, 3, len(keys), 1 << 30} {
				req := driver.NoteRequest{Kind: noteKind, From: from, To: to, Limit: limit}
				first := want[:min(limit, len(want))]
				require.Equal(f, first, append(first[:0:0], keysOf(f.notes(req))...), "%+v", req)
				req.Last = true
				last := slices.Clone(want[max(0, len(want)-limit):])
				slices.Reverse(last)
				require.Equal(f, last, append(last[:0:0], keysOf(f.notes(req))...), "%+v", req)
			}
		}
	}
}

func noteKeys(f *fixture) {
	texts := []string{
		" ", "a\nb", "a\tb", "$key", "a.b.$c", "%", "_", "'", `"`, `\`, "[a]", "*", "世界", "\u0001",
		strings.Repeat("k", driver.MaxNoteName), strings.Repeat("é", driver.MaxNoteName/2),
	}
	for _, text := range texts {
		note := f.note(text, 1)
		note.Kind = text
		_, isNew := f.keepNew(note, 0)
		require.True(f, isNew, "%q", text)
		f.sameNotes([]driver.Note{note}, f.kept(text))
		f.drop(text, text)
		require.Empty(f, f.kept(text), "%q", text)
	}
}

func notePrecision(f *fixture) {
	want := f.note("key", 1)
	note := want
	note.Until = note.Until.Add(time.Millisecond - 1).In(time.FixedZone("east", 3600))
	f.keep(note)
	f.sameNotes([]driver.Note{want}, f.kept(noteKind))
	note.Key, want.Key = "new", "new"
	kept, isNew := f.keepNew(note, 0)
	assert.True(f, isNew)
	f.sameNotes([]driver.Note{want}, []driver.Note{kept})
	kept, isNew = f.keepNew(note, 0.5)
	assert.False(f, isNew)
	f.sameNotes([]driver.Note{want}, []driver.Note{kept})
}

func noteValues(f *fixture) {
	large := bytes.Repeat([]byte{0, 1, 0xff, '"'}, driver.MaxNoteBytes/4)
	for _, value := range [][]byte{nil, {}, {0}, []byte("\xff\xfe"), []byte(`{"a": 1}`), large} {
		note := f.note("key", 1)
		note.Value = value
		f.keep(note)
		f.sameNotes([]driver.Note{note}, f.kept(noteKind))
		note.Key = "new"
		kept, isNew := f.keepNew(note, 0)
		require.True(f, isNew)
		f.sameNotes([]driver.Note{note}, []driver.Note{kept})
		f.drop(noteKind, "new")
	}
}

func noteNew(f *fixture) {
	first, second := f.note("key", 2), f.note("key", 4)
	second.Value = []byte("second")
	keep := func(note driver.Note, hours float64, want driver.Note, wantNew bool) {
		f.Helper()
		kept, isNew := f.keepNew(note, hours)
		require.Equal(f, wantNew, isNew)
		f.sameNotes([]driver.Note{want}, []driver.Note{kept})
		f.sameNotes([]driver.Note{want}, f.kept(noteKind))
	}
	keep(first, 0, first, true)
	keep(second, 0, first, false)
	keep(second, 1.9, first, false)
	keep(second, 2, second, true)
	keep(first, 3, second, false)
	f.drop(noteKind, "key")
	keep(first, 1, first, true)
	f.keep(second)
	keep(first, 3, second, false)
}

func noteSwapped(f *fixture) {
	replace := func(note driver.Note, old []byte, want bool) {
		f.Helper()
		replaced, err := f.driver.Replace(f.ctx, note, old)
		require.NoError(f, err)
		require.Equal(f, want, replaced)
	}
	first, other, another := f.note("key", 1), f.note("other", 1), f.note("key", 1)
	another.Kind = "another"
	replace(first, nil, false)
	require.Empty(f, f.kept(noteKind), "a note that does not exist is not stored")
	f.keep(first, other, another)
	large := bytes.Repeat([]byte{0, 0xff}, driver.MaxNoteBytes/2)
	old := first.Value
	for n, value := range [][]byte{[]byte("second"), nil, {0}, large, []byte("last")} {
		next := first
		next.Value, next.Until = value, f.after(float64(n+2)).Add(time.Millisecond-1)
		replace(next, []byte("stale"), false)
		replace(next, old, true)
		replace(next, old, true) // a repetition
		next.Until = f.after(float64(n + 2))
		f.sameNotes([]driver.Note{next, other}, f.kept(noteKind))
		f.sameNotes([]driver.Note{another}, f.kept("another"))
		old = value
	}
	changed := other
	changed.Value = []byte("changed")
	replace(changed, nil, false)
	f.drop(noteKind, "key")
	replace(first, old, false)
	f.sameNotes([]driver.Note{other}, f.kept(noteKind))
}

func noteDropped(f *fixture) {
	a, b, c := f.note("a", 1), f.note("b", 1), f.note("c", 1)
	f.keep(a, b, c)
	f.drop(noteKind, "a", "c", "unknown", "a")
	f.sameNotes([]driver.Note{b}, f.kept(noteKind))
	f.drop(noteKind)
	f.drop("unknown", "b")
	f.sameNotes([]driver.Note{b}, f.kept(noteKind))
	f.keep(a)
	f.sameNotes([]driver.Note{a, b}, f.kept(noteKind))
}

func noteInvalid(f *fixture) {
	there := f.note("there", 1)
	f.keep(there)
	large := strings.Repeat("x", driver.MaxNoteName+1)
	for field, note := range map[string]driver.Note{
		"Kind":  {Key: "key", Until: f.after(1)},
		"Key":   {Kind: noteKind, Until: f.after(1)},
		"Until": {Kind: noteKind, Key: "key"},
		"Value": {Kind: noteKind, Key: "key", Until: f.after(1), Value: make([]byte, driver.MaxNoteBytes+1)},
	} {
		for _, beside := range [][]driver.Note{{note}, {f.note("valid", 1), note}, {note, f.note("valid", 1)}} {
			require.ErrorContains(f, f.driver.Keep(f.ctx, beside...), field)
		}
		_, isNew, err := f.driver.KeepNew(f.ctx, note, f.start)
		require.ErrorContains(f, err, field)
		require.False(f, isNew)
		_, err = f.driver.Replace(f.ctx, note, nil)
		require.ErrorContains(f, err, field)
	}
	require.ErrorContains(f, f.driver.Keep(f.ctx, driver.Note{Kind: large, Key: "key", Until: f.after(1)}), "Kind")
	require.ErrorContains(f, f.driver.Keep(f.ctx, driver.Note{Kind: noteKind, Key: large, Until: f.after(1)}), "Key")
	f.sameNotes([]driver.Note{there}, f.kept(noteKind))
}

func noteInvalidRequest(f *fixture) {
	f.keep(f.note("key", 1))
	for field, req := range map[string]driver.NoteRequest{
		"Kind":  {Limit: 1},
		"Limit": {Kind: noteKind},
	} {
		_, err := f.driver.Notes(f.ctx, req)
		require.ErrorContains(f, err, field)
	}
	_, err := f.driver.Notes(f.ctx, driver.NoteRequest{Kind: noteKind, Limit: -1})
	require.ErrorContains(f, err, "Limit")
}

func noteBeside(f *fixture) {
	f.keep(f.note(f.queue, 1))
	assert.Empty(f, f.queues())
	f.insert(spec{id: "job"})
	assert.Len(f, f.list(), 1)
	f.end(f.claimOne("job"), "succeeded")
	assert.Len(f, f.kept(noteKind), 1)
}

func shareNotes(f *fixture) {
	other := f.share()
	a, b := f.note("a", 1), f.note("b", 1)
	f.keep(a)
	_, isNew := other.keepNew(a, 0)
	assert.False(f, isNew)
	other.keep(b)
	f.sameNotes([]driver.Note{a, b}, f.kept(noteKind))
	other.drop(noteKind, "a")
	f.sameNotes([]driver.Note{b}, f.kept(noteKind))
}

// raceNotes keeps a new note from several goroutines at once.
func raceNotes(f *fixture) {
	for round := range rounds {
		var racing []func() error
		kept, isNew := make([]driver.Note, 8), make([]bool, 8)
		for i := range kept {
			racing = append(racing, func() (err error) {
				note := f.note("key", float64(round+1))
				note.Value = fmt.Append(nil, i)
				kept[i], isNew[i], err = f.driver.KeepNew(f.ctx, note, f.after(float64(round)))
				return err
			})
		}
		for _, err := range f.together(racing...) {
			require.NoError(f, err)
		}
		winner := slices.Index(isNew, true)
		require.NotEqual(f, -1, winner, "one note must be new")
		require.Equal(f, fmt.Sprint(winner), string(kept[winner].Value))
		for i := range kept {
			require.Equal(f, i == winner, isNew[i], "only one note is new")
			f.sameNotes(kept[winner:winner+1], kept[i:i+1])
		}
		f.sameNotes(kept[winner:winner+1], f.kept(noteKind))
	}
}

// raceReplace counts in a note, from several goroutines at once.
func raceReplace(f *fixture) {
	const counting, counts = 4, 5
	f.keep(driver.Note{Kind: noteKind, Key: "sum", Value: []byte("0 by nobody"), Until: f.after(1)})
	var racing []func() error
	for i := range counting {
		racing = append(racing, func() error {
			for added := 0; added < counts; {
				found, err := f.driver.Notes(f.ctx, driver.NoteRequest{Kind: noteKind, Limit: 1})
				if err != nil {
					return err
				}
				next := found[0]
				var sum int
				_, err = fmt.Sscan(string(next.Value), &sum)
				if err != nil {
					return err
				}
				next.Value = fmt.Appendf(nil, "%d by %d", sum+1, i)
				replaced, err := f.driver.Replace(f.ctx, next, found[0].Value)
				if err != nil {
					return err
				}
				if replaced {
					added++
				}
			}
			return nil
		})
	}
	for _, err := range f.together(racing...) {
		require.NoError(f, err)
	}
	require.Contains(f, string(f.kept(noteKind)[0].Value), fmt.Sprint(counting*counts, " by"))
}

// raceKeep keeps several notes at once, some of them repeatedly.
func raceKeep(f *fixture) {
	var racing []func() error
	var want []string
	for i := range 8 {
		key := fmt.Sprint(i)
		want = append(want, key)
		racing = append(racing, func() error {
			for range 5 {
				if err := f.driver.Keep(f.ctx, f.note("shared", 1), f.note(key, 1)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for _, err := range f.together(racing...) {
		require.NoError(f, err)
	}
	require.Equal(f, append(want, "shared"), keysOf(f.kept(noteKind)))
}
