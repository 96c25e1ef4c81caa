package job

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/amboy"
)

// extras holds the state that only few jobs need. The lock of Base guards the fields.
type extras struct {
	// causes are the errors of this attempt that were added to this value, as opposed to
	// errors that were read from a store.
	causes   []error
	final    bool // a cause rules out another attempt
	snoozed  time.Time
	metadata map[string]string
	// sharesMetadata is true if the stored form of the job has the same map, which is then
	// replaced instead of changed.
	sharesMetadata bool
	tags           []string
	progress       *attemptProgress // nil if the job reported none

	enqueueAllScopes bool
	enqueueScopes    []string
}

// ensureExtras returns the extras and creates them if necessary. The caller holds the lock.
func (b *Base) ensureExtras() *extras {
	r := b.extras.Load()
	if r == nil {
		r = &extras{}
		b.extras.Store(r)
	}
	return r
}

// report records an error of the attempt, and asks for a retry if retry is true.
func (b *Base) report(err error, retry bool) {
	if err == nil {
		return
	}
	var snooze *amboy.SnoozeError
	if errors.As(err, &snooze) {
		b.Snooze(snooze.Time())
		return
	}
	// The methods of an error may call those of the job, so they are called before taking the lock.
	var canceled *amboy.CancelError
	isCanceled, isFinal := errors.As(err, &canceled), amboy.IsNonRetryable(err)
	described := &describedError{err, err.Error()}
	b.mu.Lock()
	defer b.mu.Unlock()
	info := b.retryInfo()
	b.status.AddError(described, info.CurrentAttempt, time.Now())
	b.status.Attempts[len(b.status.Attempts)-1].Started = b.times.Start
	r := b.ensureExtras()
	r.causes = append(r.causes, err)
	if isCanceled {
		b.status.Outcome = amboy.OutcomeCanceled
	}
	r.final = r.final || isFinal
	info.NeedsRetry = (info.NeedsRetry || retry) && !r.final
	b.setRetryInfo(info)
}

// describedError is an error whose message is known.
type describedError struct {
	error
	message string
}

func (e *describedError) Error() string { return e.message }

func (e *describedError) Unwrap() error { return e.error }

// Snooze asks for the job to run again at until, once this run has ended without an error.
// Such a run is not an attempt. The zero time cancels the request.
func (b *Base) Snooze(until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if until.IsZero() && b.extras.Load() == nil {
		return
	}
	b.ensureExtras().snoozed = until
}

// SnoozedUntil returns the time requested by Snooze, or zero if none was requested.
func (b *Base) SnoozedUntil() time.Time {
	r := b.extras.Load()
	if r == nil {
		return time.Time{} // without the lock, because this is called after each run
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return r.snoozed
}

// attemptError is the error that Error returns.
type attemptError struct {
	message string
	causes  []error
}

func newAttemptError(messages []string, r *extras) *attemptError {
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
