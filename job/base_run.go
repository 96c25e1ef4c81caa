package job

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/amboy"
)

// rare is what few jobs have. The lock of Base guards the fields.
type rare struct {
	// causes are the errors, of those of this attempt, that were added to this very
	// job.
	causes   []error
	final    bool // one of the causes is not to be followed by another attempt
	snoozed  time.Time
	metadata map[string]string
	tags     []string
	progress *attemptProgress // nil where the job said nothing
}

// needRare is rare for whoever has something to set. The caller holds the lock.
func (b *Base) needRare() *rare {
	r := b.rare.Load()
	if r == nil {
		r = &rare{}
		b.rare.Store(r)
	}
	return r
}

// report takes an error of the attempt, which asks for a retry or not.
func (b *Base) report(err error, retry bool) {
	if err == nil {
		return
	}
	var snooze *amboy.SnoozeError
	if errors.As(err, &snooze) {
		b.Snooze(snooze.Time())
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.AddError(err, b.retry.CurrentAttempt, time.Now())
	r := b.needRare()
	r.causes = append(r.causes, err)
	var canceled *amboy.CancelError
	if errors.As(err, &canceled) {
		b.status.Outcome = amboy.OutcomeCanceled
	}
	r.final = r.final || amboy.IsNonRetryable(err)
	b.retry.NeedsRetry = (b.retry.NeedsRetry || retry) && !r.final
}

// Snooze asks for the job to run again at a time, once this run has ended without an
// error. It is not an attempt. The zero time takes that back.
func (b *Base) Snooze(until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if until.IsZero() && b.rare.Load() == nil {
		return
	}
	b.needRare().snoozed = until
}

// SnoozedUntil is the time that was asked for with Snooze, zero for none.
func (b *Base) SnoozedUntil() time.Time {
	r := b.rare.Load()
	if r == nil {
		return time.Time{} // without the lock, as this is asked for after each run
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return r.snoozed
}

// attemptError is what Error returns.
type attemptError struct {
	message string
	causes  []error
}

func newAttemptError(messages []string, r *rare) *attemptError {
	e := &attemptError{message: strings.Join(messages, "\n")}
	if r != nil {
		e.causes = slices.Clone(r.causes)
	}
	return e
}

// Error joins the messages with newlines.
func (e *attemptError) Error() string { return e.message }

// Unwrap returns the errors that were added.
func (e *attemptError) Unwrap() []error { return e.causes }
