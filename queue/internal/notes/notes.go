// Package notes keeps the notes of a store in this process.
package notes

import (
	"container/heap"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

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
	ends  ends // of all notes
}

// kind holds the notes of a kind.
type kind struct {
	keys  []string // sorted
	notes map[string]*kept
}

// kept is a note with its index in the heap.
type kept struct {
	driver.Note
	index int
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
	if k := s.kinds[note.Kind]; k != nil {
		if n := k.notes[note.Key]; n != nil && n.Until.After(now) {
			return n.Note, false, nil
		}
	}
	s.removeEnded()
	return s.put(note), true, nil
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
	keys := k.between(req.From, req.To)
	if len(keys) > req.Limit && req.Last {
		keys = keys[len(keys)-req.Limit:]
	} else if len(keys) > req.Limit {
		keys = keys[:req.Limit]
	}
	notes := make([]driver.Note, len(keys))
	for i, key := range keys {
		notes[i] = k.notes[key].Note
	}
	if req.Last {
		slices.Reverse(notes)
	}
	return notes, nil
}

// Drop removes notes of a kind.
func (s *Store) Drop(kind string, keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		if k := s.kinds[kind]; k != nil && k.notes[key] != nil {
			s.remove(k.notes[key])
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

// between returns the keys in [from, to); an empty to means no end.
func (k *kind) between(from, to string) []string {
	first, _ := slices.BinarySearch(k.keys, from)
	end := len(k.keys)
	if to != "" {
		end, _ = slices.BinarySearch(k.keys, to)
	}
	return k.keys[first:max(first, end)]
}

// put stores a note, and returns it as it is stored.
func (s *Store) put(note driver.Note) driver.Note {
	note.Until = note.Until.UTC().Truncate(time.Millisecond)
	k := s.kinds[note.Kind]
	if k == nil {
		k = &kind{notes: map[string]*kept{}}
		if s.kinds == nil {
			s.kinds = map[string]*kind{}
		}
		s.kinds[note.Kind] = k
	}
	if n := k.notes[note.Key]; n != nil {
		n.Note = note
		heap.Fix(&s.ends, n.index)
		return note
	}
	n := &kept{Note: note}
	k.notes[note.Key] = n
	place, _ := slices.BinarySearch(k.keys, note.Key)
	k.keys = slices.Insert(k.keys, place, note.Key)
	heap.Push(&s.ends, n)
	return note
}

func (s *Store) remove(n *kept) {
	heap.Remove(&s.ends, n.index)
	k := s.kinds[n.Kind]
	delete(k.notes, n.Key)
	place, _ := slices.BinarySearch(k.keys, n.Key)
	k.keys = slices.Delete(k.keys, place, place+1)
	if len(k.keys) == 0 {
		delete(s.kinds, n.Kind)
	}
}

// removeEnded removes expired notes.
func (s *Store) removeEnded() {
	if len(s.ends) == 0 {
		return
	}
	now := time.Now()
	if s.Now != nil {
		now = s.Now()
	}
	for len(s.ends) > 0 && !s.ends[0].Until.After(now) {
		s.remove(s.ends[0])
	}
}
