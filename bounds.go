package amboy

import (
	"fmt"
	"slices"
)

// The bounds on what an attempt stores.
const (
	// MaxErrorBytes is the maximum size, in bytes, of all errors of an attempt.
	MaxErrorBytes = 64 << 10
	// MaxProgressBytes is the maximum size, in bytes, of an attempt's log and latest
	// message. Lines added with AddLine stay far below it.
	MaxProgressBytes = 1 << 20
	// MaxResultBytes is the maximum size, in bytes, of an encoded result. A larger
	// result fails the attempt, without a retry.
	MaxResultBytes = 1 << 20
)

// Bound truncates the errors to MaxErrorBytes and the attempt errors to their bounds, and
// reports whether it changed anything. It keeps the last error and as many of the first
// errors as fit, and adds a note with the number of errors left out. It modifies no slice
// that is shared with a copy.
func (s *JobStatusInfo) Bound() (cut bool) {
	if len(s.Attempts) > MaxAttemptErrors || slices.ContainsFunc(s.Attempts, isAttemptErrorTooLong) {
		bounded := boundAttempts(s.Attempts)
		s.DroppedErrors += len(s.Attempts) - len(bounded)
		s.Attempts, cut = bounded, true
	}
	if sizeOf(s.Errors) > MaxErrorBytes {
		s.Errors, cut = boundErrorTexts(s.Errors), true
	}
	return cut
}

// boundErrorTexts truncates errs to MaxErrorBytes.
func boundErrorTexts(errs []string) []string {
	const (
		noteBytes = 100
		longest   = (MaxErrorBytes - noteBytes) / 2
	)
	last := truncate(errs[len(errs)-1], longest)
	room := MaxErrorBytes - noteBytes - len(last)
	var kept []string
	left := errs[:len(errs)-1]
	for len(left) > 0 && min(len(left[0]), longest) <= room && len(kept) < MaxErrorBytes/16 {
		text := truncate(left[0], longest)
		kept, left = append(kept, text), left[1:]
		room -= len(text)
	}
	if len(left) > 0 {
		kept = append(kept, fmt.Sprintf("(%d more errors of %d bytes were cut)", len(left), sizeOf(left)))
	}
	return append(kept, last)
}

func sizeOf(texts []string) (size int) {
	for _, text := range texts {
		size += len(text)
	}
	return size
}

// boundAttempts applies the bounds to attempt errors that were not added with AddError.
func boundAttempts(all []AttemptError) []AttemptError {
	if excess := len(all) - MaxAttemptErrors; excess > 0 {
		middle := MaxAttemptErrors / 2
		all = append(append([]AttemptError(nil), all[:middle]...), all[middle+excess:]...)
	}
	bounded := make([]AttemptError, len(all))
	for i, e := range all {
		e.Error, e.Stack = truncate(e.Error, MaxAttemptErrorSize), truncate(e.Stack, MaxAttemptStackSize)
		bounded[i] = e
	}
	return bounded
}

func isAttemptErrorTooLong(e AttemptError) bool {
	return len(e.Error) > MaxAttemptErrorSize || len(e.Stack) > MaxAttemptStackSize
}

// Bound truncates the message and drops the oldest lines of the log, to fit
// MaxProgressBytes, and reports whether it changed anything. A note in the first line
// gives the number of dropped lines. It modifies no slice that is shared with a copy.
func (p *JobProgress) Bound() (cut bool) {
	const noteBytes = 100
	size := len(p.Message)
	for _, line := range p.Log {
		size += len(line.Text)
	}
	if size <= MaxProgressBytes {
		return false
	}
	p.Message = truncate(p.Message, MaxProgressBytes/4)
	room := MaxProgressBytes - noteBytes - len(p.Message)
	first := len(p.Log)
	for first > 0 && len(p.Log[first-1].Text) <= room {
		first--
		room -= len(p.Log[first].Text)
	}
	if first == 0 {
		return true
	}
	note := LogLine{Time: p.Log[first-1].Time, Text: fmt.Sprintf("(%d earlier lines were cut)", first)}
	p.Log = append([]LogLine{note}, p.Log[first:]...)
	p.DroppedLines += first
	return true
}
