package amboy

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds on the errors that a job keeps.
const (
	// MaxAttemptErrors is the number of attempt errors that a job keeps: the first 10 and
	// the latest 10.
	MaxAttemptErrors = 20
	// MaxAttemptErrorSize is the maximum size, in bytes, of an attempt error's
	// message.
	MaxAttemptErrorSize = 4 << 10
	// MaxAttemptStackSize is the maximum size, in bytes, of an attempt error's stack.
	MaxAttemptStackSize = 16 << 10
)

// AttemptError is one error of one attempt of a job.
type AttemptError struct {
	// Attempt numbers the attempt, from 0.
	Attempt int `bson:"attempt" json:"attempt" yaml:"attempt"`
	// At is when the error was reported.
	At time.Time `bson:"at" json:"at" yaml:"at"`
	// Started is when the run began in which the job reported the error; zero if it did not run.
	Started time.Time `bson:"started,omitempty" json:"started,omitzero" yaml:"started,omitempty"`
	// Error is the message, truncated to MaxAttemptErrorSize bytes.
	Error string `bson:"error" json:"error" yaml:"error"`
	// Stack is the stack of a panic, truncated to MaxAttemptStackSize bytes. It is
	// empty if the job did not panic.
	Stack string `bson:"stack,omitempty" json:"stack,omitempty" yaml:"stack,omitempty"`
	// Bookkeeping is true for an error that the queue met after the attempt had
	// ended, for instance that the job can't have another attempt. It is not one of
	// the job's Errors.
	Bookkeeping bool `bson:"bookkeeping,omitempty" json:"bookkeeping,omitempty" yaml:"bookkeeping,omitempty"`
}

// AddError records an error: its message in Errors, and an attempt error with the
// time, the attempt number and, for a *PanicError, the stack. It ignores nil. It is for
// implementations of Job and is not safe for concurrent use.
func (s *JobStatusInfo) AddError(err error, attempt int, at time.Time) {
	if err == nil {
		return
	}
	s.ErrorCount++
	s.Errors = append(s.Errors, err.Error())
	s.addAttemptError(newAttemptError(err, attempt, at))
}

// AddBookkeepingError records an error of the queue, as opposed to the job, as an
// attempt error only. It ignores nil. It is for implementations of Queue and is not
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
		// The first errors show how the trouble began and the last ones how it
		// stands, so the middle is dropped.
		middle := MaxAttemptErrors / 2
		kept := append([]AttemptError(nil), s.Attempts[:middle]...)
		s.Attempts = append(kept, s.Attempts[middle+1:]...)
		s.DroppedErrors++
	}
	s.Attempts = append(s.Attempts, entry)
}

// truncate cuts text to at most size bytes, without splitting a character, and appends
// its full size.
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
