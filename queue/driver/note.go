package driver

import (
	"fmt"
	"time"
)

// The limits of a note.
const (
	// MaxNoteBytes is the maximum size of a value.
	MaxNoteBytes = 1 << 20
	// MaxNoteName is the maximum length, in bytes, of a kind and of a key.
	MaxNoteName = 512
)

// Note is a small value that is kept beside the records for all processes on a store, for
// instance which processes are alive, what they did lately, or what operators did. The
// driver does not interpret it.
type Note struct {
	// Kind is the subject of the note. The notes of a kind are a list, sorted by the
	// bytes of their keys.
	Kind string
	// Key identifies the note within its kind.
	Key string
	// Value is the content. The driver owns it once the note is kept; the caller must not
	// change it afterwards.
	Value []byte
	// Until is when the note may be removed. The driver removes it by itself some time
	// later. Until is kept to the millisecond.
	Until time.Time
}

// Validate returns an error that names the field that is missing or too large.
func (n Note) Validate() error {
	switch {
	case n.Kind == "" || len(n.Kind) > MaxNoteName:
		return fmt.Errorf("invalid note: Kind must have from 1 to %d bytes (has %d)", MaxNoteName, len(n.Kind))
	case n.Key == "" || len(n.Key) > MaxNoteName:
		return fmt.Errorf("invalid note of kind %q: Key must have from 1 to %d bytes (has %d)", n.Kind, MaxNoteName, len(n.Key))
	case len(n.Value) > MaxNoteBytes:
		return fmt.Errorf("invalid note %q of kind %q: Value must have at most %d bytes (has %d)", n.Key, n.Kind, MaxNoteBytes, len(n.Value))
	case n.Until.IsZero():
		return fmt.Errorf("invalid note %q of kind %q: Until must be set", n.Key, n.Kind)
	default:
		return nil
	}
}

// NoteRequest asks for a part of the notes of a kind.
type NoteRequest struct {
	// Kind is required.
	Kind string
	// From and To bound the keys: From is included, To is not. An empty bound does not
	// apply.
	From, To string
	// Limit is the maximum number of notes. It must be at least 1.
	Limit int
	// Last returns the notes in descending order of their keys, beginning with the last.
	Last bool
}
