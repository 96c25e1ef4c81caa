package amboy

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds on what a job keeps of its errors.
const (
	// MaxAttemptErrors is the number of attempt errors that a job keeps: the
	// first half of them, and the latest.
	MaxAttemptErrors = 20
	// MaxAttemptErrorSize is the longest message, in bytes, of an attempt
	// error.
	MaxAttemptErrorSize = 4 << 10
	// MaxAttemptStackSize is the longest stack, in bytes, of an attempt error.
	MaxAttemptStackSize = 16 << 10
)

// AttemptError is one error of one attempt of a job.
type AttemptError struct {
	// Attempt numbers the attempt, from 0.
	Attempt int `bson:"attempt" json:"attempt" yaml:"attempt"`
	// At is when the error was reported.
	At time.Time `bson:"at" json:"at" yaml:"at"`
	// Error is its message, at most MaxAttemptErrorSize bytes of it.
	Error string `bson:"error" json:"error" yaml:"error"`
	// Stack is where the job panicked, where it did, at most
	// MaxAttemptStackSize bytes of it.
	Stack string `bson:"stack,omitempty" json:"stack,omitempty" yaml:"stack,omitempty"`
	// Bookkeeping is true for an error that the queue met when the attempt had ended:
	// that it can have no next attempt, for instance. It is not among the job's Errors.
	Bookkeeping bool `bson:"bookkeeping,omitempty" json:"bookkeeping,omitempty" yaml:"bookkeeping,omitempty"`
}

// AddError records an error: its message in Errors, and an attempt error with
// time, attempt number and, for a *PanicError, the stack. nil does nothing. It
// is for implementations of Job and is not safe for concurrent use.
func (s *JobStatusInfo) AddError(err error, attempt int, at time.Time) {
	if err == nil {
		return
	}
	s.ErrorCount++
	s.Errors = append(s.Errors, err.Error())
	s.addAttemptError(newAttemptError(err, attempt, at))
}

// AddBookkeepingError records an error that is the queue's and not the job's, as an
// attempt error alone. nil does nothing. It is for implementations of Queue and is not
// safe for concurrent use.
func (s *JobStatusInfo) AddBookkeepingError(err error, attempt int, at time.Time) {
	if err == nil {
		return
	}
	entry := newAttemptError(err, attempt, at)
	entry.Bookkeeping = true
	s.addAttemptError(entry)
}

func newAttemptError(err error, attempt int, at time.Time) AttemptError {
	entry := AttemptError{Attempt: attempt, At: at, Error: truncate(err.Error(), MaxAttemptErrorSize)}
	var panicked *PanicError
	if errors.As(err, &panicked) {
		entry.Stack = truncate(string(panicked.Stack), MaxAttemptStackSize)
	}
	return entry
}

func (s *JobStatusInfo) addAttemptError(entry AttemptError) {
	if len(s.Attempts) >= MaxAttemptErrors {
		// The first errors tell how the trouble began and the last how it
		// stands, so what is left out is in the middle.
		middle := MaxAttemptErrors / 2
		kept := append([]AttemptError(nil), s.Attempts[:middle]...)
		s.Attempts = append(kept, s.Attempts[middle+1:]...)
		s.DroppedErrors++
	}
	s.Attempts = append(s.Attempts, entry)
}

// truncate cuts a text to a number of bytes, at the end of a character.
func truncate(text string, size int) string {
	if len(text) <= size {
		return text
	}
	mark := fmt.Sprintf("… (%d bytes in all)", len(text))
	cut := size - len(mark)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return strings.Clone(text[:cut]) + mark
}
