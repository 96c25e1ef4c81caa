package driver

import (
	"fmt"
	"time"
)

// The bounds of a note.
const (
	// MaxNoteBytes is the size of the largest value.
	MaxNoteBytes = 1 << 20
	// MaxNoteName is the length, in bytes, of the longest kind and of the longest key.
	MaxNoteName = 512
)

// Note is something small that is kept beside the records, for all processes on a
// store: which of them are alive, what they have done lately, what people did. The
// driver knows nothing of what it says.
type Note struct {
	// Kind is what it is about. The notes of a kind are a list, in the order of
	// the bytes of their keys.
	Kind string
	// Key is its own among those of its kind.
	Key string
	// Value is what it says. It is the driver's when it is kept, and must not be
	// changed any more.
	Value []byte
	// Until is when it may be removed, which the driver does by itself, some time
	// later. It is kept to the millisecond.
	Until time.Time
}

// Validate returns an error that names the field which is missing or too large.
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
	// From and To bound the keys: those from From on, and before To. Where either
	// is empty there is no such bound.
	From, To string
	// Limit is the number of notes at most. It must be at least 1.
	Limit int
	// Last gives the last of them, from the last one on.
	Last bool
}
