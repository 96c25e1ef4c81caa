// Package notes keeps the notes of a store in this process.
package notes

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"github.com/mongodb/amboy/internal/heap"
	"github.com/mongodb/amboy/queue/driver"
)

// Store keeps notes as driver.Admin specifies. The zero value is empty and ready to use. It
// is safe for concurrent use, and its calls do not block.
type Store struct {
	// Now is the clock that decides which notes have expired. It must be safe for
	// concurrent use, and must be set before the first call. Default: time.Now.
	Now func() time.Time

	mu    sync.RWMutex
	kinds map[string]*kind
	ends  heap.Heap[*kept] // all notes, the earliest end first
}

// kind holds the notes of a kind by their keys.
type kind = btree.Map[string, *kept]

// kept is a note with its position in Store.ends.
type kept struct {
	driver.Note
	position int
}

// Keep stores notes. Each replaces the note of its kind with the same key. If a note is
// invalid, Keep returns an error and changes nothing. It also removes expired notes.
func (s *Store) Keep(notes ...driver.Note) error {
	for _, note := range notes {
		if err := note.Validate(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeEnded()
	for _, note := range notes {
		s.put(note)
	}
	return nil
}

// KeepNew stores a note unless a note of its kind with its key exists that has not expired
// at now. It returns the note that is stored then, and reports whether it is the new one.
func (s *Store) KeepNew(note driver.Note, now time.Time) (there driver.Note, isNew bool, err error) {
	err = note.Validate()
	if err != nil {
		return driver.Note{}, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.find(note.Kind, note.Key); n != nil && n.Until.After(now) {
		return n.Note, false, nil
	}
	s.removeEnded()
	return s.put(note), true, nil
}

// Replace stores a note in place of one with the value old, and reports whether the note has its new
// value then.
func (s *Store) Replace(note driver.Note, old []byte) (replaced bool, err error) {
	err = note.Validate()
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.find(note.Kind, note.Key)
	if n == nil || !bytes.Equal(n.Value, old) && !bytes.Equal(n.Value, note.Value) {
		return false, nil
	}
	s.put(note)
	return true, nil
}

// Notes returns notes, sorted by the bytes of their keys. It returns an error if the request
// is invalid.
func (s *Store) Notes(req driver.NoteRequest) ([]driver.Note, error) {
	if err := CheckRequest(req); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	k := s.kinds[req.Kind]
	if k == nil {
		return nil, nil
	}
	var notes []driver.Note
	add := func(n *kept) (more bool) {
		notes = append(notes, n.Note)
		return len(notes) < req.Limit
	}
	switch {
	case !req.Last:
		k.Ascend(req.From, func(key string, n *kept) bool { return (req.To == "" || key < req.To) && add(n) })
	case req.To == "":
		k.Reverse(func(key string, n *kept) bool { return key >= req.From && add(n) })
	default:
		k.Descend(req.To, func(key string, n *kept) bool { return key == req.To || key >= req.From && add(n) })
	}
	return notes, nil
}

// find returns a note; nil if it does not exist.
func (s *Store) find(kindName, key string) *kept {
	k := s.kinds[kindName]
	if k == nil {
		return nil
	}
	n, _ := k.Get(key)
	return n
}

// Drop removes notes of a kind.
func (s *Store) Drop(kindName string, keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		if n := s.find(kindName, key); n != nil {
			s.remove(n)
		}
	}
}

// CheckRequest returns an error that names the field of an invalid request.
func CheckRequest(req driver.NoteRequest) error {
	switch {
	case req.Kind == "":
		return errors.New("invalid request for notes: Kind must be set")
	case req.Limit < 1:
		return fmt.Errorf("invalid request for notes of kind %q: Limit must be at least 1 (is %d)", req.Kind, req.Limit)
	default:
		return nil
	}
}

// put stores a note, and returns it as it is stored.
func (s *Store) put(note driver.Note) driver.Note {
	note.Until = note.Until.UTC().Truncate(time.Millisecond)
	k := s.kinds[note.Kind]
	if k == nil {
		k = &kind{}
		if s.kinds == nil {
			s.kinds = map[string]*kind{}
			s.ends = heap.New(
				func(a, b *kept) bool { return a.Until.Before(b.Until) },
				func(n *kept) *int { return &n.position })
		}
		s.kinds[note.Kind] = k
	}
	n := &kept{Note: note}
	if old, replaced := k.Set(note.Key, n); replaced {
		s.ends.Remove(old)
	}
	s.ends.Put(n)
	return note
}

func (s *Store) remove(n *kept) {
	s.ends.Remove(n)
	k := s.kinds[n.Kind]
	k.Delete(n.Key)
	if k.Len() == 0 {
		delete(s.kinds, n.Kind)
	}
}

// removeEnded removes expired notes.
func (s *Store) removeEnded() {
	if s.ends.Len() == 0 {
		return
	}
	now := time.Now()
	if s.Now != nil {
		now = s.Now()
	}
	for s.ends.Len() > 0 && !s.ends.First().Until.After(now) {
		s.remove(s.ends.First())
	}
}
