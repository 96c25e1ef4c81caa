// Package web contains the parts that the HTTP handlers of package rest share.
package web

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/internal/publictext"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
	"github.com/mongodb/amboy/rest/internal/guard"
)

// Failure is the answer to a request that failed. As an error it returns Text.
type Failure struct {
	// Status is the HTTP status of the answer.
	Status int `json:"-"`
	// Kind distinguishes failures with the same status.
	Kind Kind   `json:"-"`
	Text string `json:"error"`
	// Field, Value and Rule describe an invalid argument.
	Field string `json:"field,omitempty"`
	Value string `json:"value,omitempty"`
	Rule  string `json:"rule,omitempty"`
	// Duplicate describes a duplicate job; nil for other failures, and if it is unknown.
	Duplicate *Duplicate `json:"duplicate,omitempty"`
	// RetryAfter is the time after which a client may try again; 0 if unknown.
	RetryAfter time.Duration `json:"-"`
	// Challenge says how a client authenticates; empty unless the status is 401.
	Challenge string `json:"-"`
}

// Duplicate is the JSON form of an amboy.DuplicateJobError.
type Duplicate struct {
	ID string `json:"id" description:"the job that was not added"`
	// Reason is what the existing job has in common with the refused one: its ID, its unique
	// key, or an enqueue scope.
	Reason     amboy.DuplicateReason `json:"reason" enum:"id,unique_key,enqueue_scope"`
	Value      string                `json:"value" description:"the ID, unique key or scope that both jobs have"`
	ExistingID string                `json:"existing_id,omitempty" description:"the job in the queue; absent if it is gone by now"`
}

// duplicateOf returns the duplicate that an error describes; nil if it describes none.
func duplicateOf(err error) *Duplicate {
	var e *amboy.DuplicateJobError
	if !errors.As(err, &e) {
		return nil
	}
	return &Duplicate{ID: e.JobID, Reason: e.Reason, Value: e.Value, ExistingID: e.ExistingID}
}

// Err returns the error that d describes.
func (d *Duplicate) Err() error {
	return &amboy.DuplicateJobError{JobID: d.ID, Reason: d.Reason, Value: d.Value, ExistingID: d.ExistingID}
}

// SetHeader sets the header fields of the answer.
func (f *Failure) SetHeader(h http.Header) {
	if f.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(f.RetryAfter.Seconds()))))
	}
	if f.Challenge != "" {
		h.Set("WWW-Authenticate", f.Challenge)
	}
}

// watchRetry is the RetryAfter of a request refused because too many others watch.
const watchRetry = 30 * time.Second

// Kind is a kind of failure; empty if the status is enough.
type Kind string

// The kinds.
const (
	KindInvalid         Kind = "invalid-argument"
	KindInvalidJob      Kind = "invalid-job"
	KindCycle           Kind = "dependency-cycle"
	KindUnknownQueue    Kind = "unknown-queue"
	KindJobNotFound     Kind = "job-not-found"
	KindState           Kind = "state"
	KindDuplicateJob    Kind = "duplicate-job"
	KindDuplicateScope  Kind = "duplicate-scope"
	KindUnsupported     Kind = "unsupported"
	KindDenied          Kind = "denied"
	KindUnauthenticated Kind = "unauthenticated"
	KindQueueDraining   Kind = "queue-draining"
	KindQueueClosed     Kind = "queue-closed"
	KindNotStarted      Kind = "queue-not-started"
	KindLeaseLost       Kind = "lease-lost"
	KindRanTooLong      Kind = "time-to-run"
	KindBadToken        Kind = "invalid-token"
	KindUnknownSchedule Kind = "unknown-schedule"
	KindScheduleExists  Kind = "schedule-exists"
	KindScheduleChanged Kind = "schedule-changed"
	KindNotRecorded     Kind = "not-recorded"
	KindStoreFull       Kind = "store-full"
)

// ErrTooManyWaitingOfClient is the error of a request that would have to wait for jobs while
// as many of its client do as may.
var ErrTooManyWaitingOfClient = errors.New("too many requests of this client wait for jobs")

// NameField is the Field of a failure for a job that does not exist.
const NameField = "name"

func (f *Failure) Error() string { return f.Text }

// internalError is the text that a client receives for an unexpected error. Only the log
// contains the error itself: the message of a store may name hosts and users.
const internalError = "internal error; the log of the service has the details"

// notRecorded is the text for an action that must not be repeated as if nothing had happened.
const notRecorded = "the action was done or begun, but could not be written to the audit list; the log of the service has the details"

// failedUnrecorded is the text for an action that failed, which may have done a part of its work.
const failedUnrecorded = "the action failed, perhaps after a part of it, and that could not be written to the audit list; the log of the service has the details"

// Invalid returns the failure for an invalid argument.
func Invalid(field, value, rule string) *Failure {
	field, rule = shortened(field), cut(rule, maxTextBytes)
	return &Failure{
		Status: http.StatusBadRequest,
		Kind:   KindInvalid,
		Text:   fmt.Sprintf("%s %s (is %s)", field, rule, strconv.QuoteToGraphic(shortened(value))),
		Field:  field,
		Value:  shortened(value),
		Rule:   rule,
	}
}

// maxTextBytes is the maximum length of a text that quotes a request.
const maxTextBytes = 500

// shortened cuts a value that an answer quotes from a request.
func shortened(text string) string { return cut(text, 100) }

func cut(text string, most int) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…" // not within a character
	}
	return text
}

// within returns the innermost of the errors that an error wraps for which is returns true, but
// not bare. It is complete by itself: the errors around it name the same job and queue again.
func within(err error, is func(error) bool, bare error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil || inner == bare || !is(inner) { //nolint:errorlint // It unwraps the errors itself.
			return err
		}
		err = inner
	}
}

// named returns the innermost of the errors that an error wraps which says more than a sentinel.
func named(err, sentinel error) error {
	return within(err, func(err error) bool { return errors.Is(err, sentinel) }, sentinel)
}

// textOf returns the text that a client receives for a known error. If the error wraps
// several, one of them may be an error of a store, and is left out.
func textOf(err error) string {
	text := err.Error()
	if hasSeveral(err) {
		var known bool
		text, known = publictext.Of(err, publictext.As[*management.StateError], publictext.Is(management.ErrUnknownQueue, management.ErrUnsupported, driver.ErrClosed))
		if !known {
			text = internalError
		}
	}
	return strings.ToValidUTF8(text, "\ufffd")
}

// hasSeveral reports whether an error wraps several errors.
func hasSeveral(err error) bool {
	for err != nil {
		if _, several := err.(interface{ Unwrap() []error }); several { //nolint:errorlint // It unwraps the error itself.
			return true
		}
		err = errors.Unwrap(err)
	}
	return false
}

// FailureOf returns the answer for the error of a request.
func FailureOf(ctx context.Context, err error) *Failure {
	var known *Failure
	var argument *management.InvalidArgumentError
	var state *management.StateError
	var job *amboy.InvalidJobError
	var denied *guard.DeniedError
	var unauthenticated *guard.UnauthenticatedError
	answer := func(status int, kind Kind) *Failure {
		return &Failure{Status: status, Kind: kind, Text: textOf(err)}
	}
	about := func(status int, kind Kind, is func(error) bool) *Failure {
		return &Failure{Status: status, Kind: kind, Text: textOf(within(err, is, nil))}
	}
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &argument):
		return Invalid(argument.Field, argument.Value, argument.Rule)
	case errors.As(err, &job):
		f := Invalid(job.Field, fmt.Sprint(job.Value), job.Rule)
		f.Kind = KindInvalidJob
		return f
	case errors.As(err, &denied):
		return &Failure{Status: http.StatusForbidden, Kind: KindDenied, Text: cut(denied.Text(), maxTextBytes)}
	case errors.As(err, &unauthenticated):
		return &Failure{Status: http.StatusUnauthorized, Kind: KindUnauthenticated, Text: unauthenticated.Text(), Challenge: unauthenticated.Challenge()}
	case errors.As(err, &state):
		return &Failure{Status: http.StatusConflict, Kind: KindState, Text: textOf(state)}
	case errors.Is(err, management.ErrUnknownQueue):
		return &Failure{Status: http.StatusNotFound, Kind: KindUnknownQueue, Text: textOf(named(err, management.ErrUnknownQueue))}
	case errors.Is(err, management.ErrUnknownSchedule):
		return &Failure{Status: http.StatusNotFound, Kind: KindUnknownSchedule, Text: textOf(named(err, management.ErrUnknownSchedule))}
	case errors.Is(err, management.ErrScheduleExists):
		return &Failure{Status: http.StatusConflict, Kind: KindScheduleExists, Text: textOf(named(err, management.ErrScheduleExists))}
	case errors.Is(err, management.ErrScheduleChanged):
		return &Failure{Status: http.StatusConflict, Kind: KindScheduleChanged, Text: textOf(named(err, management.ErrScheduleChanged))}
	case errors.Is(err, management.ErrUnsupported):
		return answer(http.StatusConflict, KindUnsupported)
	case amboy.IsDuplicateJobScopeError(err):
		f := about(http.StatusConflict, KindDuplicateScope, amboy.IsDuplicateJobScopeError)
		f.Duplicate = duplicateOf(err)
		return f
	case amboy.IsDuplicateJobError(err):
		f := about(http.StatusConflict, KindDuplicateJob, amboy.IsDuplicateJobError)
		f.Duplicate = duplicateOf(err)
		return f
	case amboy.IsJobNotFoundError(err):
		f := about(http.StatusNotFound, KindJobNotFound, amboy.IsJobNotFoundError)
		f.Field = NameField
		return f
	default:
		return failureOfQueue(ctx, err)
	}
}

// failureOfQueue continues FailureOf with the errors of queues, and with unknown errors.
func failureOfQueue(ctx context.Context, err error) *Failure {
	var cycle *amboy.DependencyCycleError
	var encoding *registry.EncodeError
	var unrecorded *management.NotRecordedError
	answer := func(status int, kind Kind) *Failure {
		return &Failure{Status: status, Kind: kind, Text: textOf(err)}
	}
	if f := failureOfWorker(err); f != nil {
		return f
	}
	if errors.As(err, &unrecorded) && errors.Is(unrecorded.Failure, amboy.ErrStoreFull) {
		err = unrecorded.Failure // there was no room for the entry either
	}
	switch {
	case errors.As(err, &cycle):
		return &Failure{Status: http.StatusBadRequest, Kind: KindCycle, Text: textOf(cycle)}
	case errors.As(err, &encoding):
		return &Failure{Status: http.StatusBadRequest, Text: encoding.Error()}
	case errors.Is(err, amboy.ErrQueueDraining):
		return &Failure{Status: http.StatusServiceUnavailable, Kind: KindQueueDraining, Text: textOf(named(err, amboy.ErrQueueDraining))}
	case errors.Is(err, amboy.ErrQueueClosed), errors.Is(err, driver.ErrClosed):
		return answer(http.StatusServiceUnavailable, KindQueueClosed)
	case errors.Is(err, amboy.ErrQueueNotStarted):
		return answer(http.StatusServiceUnavailable, KindNotStarted)
	case errors.Is(err, guard.ErrTooManyWatchers):
		return &Failure{Status: http.StatusServiceUnavailable, Text: err.Error(), RetryAfter: watchRetry}
	case errors.Is(err, guard.ErrTooManyOfClient):
		return &Failure{Status: http.StatusTooManyRequests, Text: err.Error(), RetryAfter: watchRetry}
	case errors.As(err, &unrecorded) && unrecorded.Failure != nil:
		return &Failure{Status: http.StatusInternalServerError, Text: failedUnrecorded}
	case errors.Is(err, management.ErrNotRecorded):
		return &Failure{Status: http.StatusInternalServerError, Kind: KindNotRecorded, Text: notRecorded}
	case errors.Is(err, amboy.ErrStoreFull):
		return &Failure{Status: http.StatusInsufficientStorage, Kind: KindStoreFull, Text: amboy.ErrStoreFull.Error()}
	case ctx.Err() != nil:
		return &Failure{Status: http.StatusRequestTimeout, Text: "the request ended before it completed"}
	default:
		return &Failure{Status: http.StatusInternalServerError, Text: internalError}
	}
}

// failureOfWorker returns the answer for the errors of package outside; nil for others.
func failureOfWorker(err error) *Failure {
	var request *outside.InvalidError
	var tooLong *amboy.MaxTimeError
	switch {
	case errors.As(err, &request):
		return Invalid(request.Field, request.Value, request.Rule)
	case errors.Is(err, outside.ErrBadToken):
		return &Failure{Status: http.StatusBadRequest, Kind: KindBadToken, Text: "the token was not issued by a lease"}
	case errors.As(err, &tooLong):
		return &Failure{Status: http.StatusConflict, Kind: KindRanTooLong, Text: "the attempt has failed: " + tooLong.Error()}
	case errors.Is(err, outside.ErrLeaseLost):
		return &Failure{Status: http.StatusConflict, Kind: KindLeaseLost, Text: cut(textOf(err), maxTextBytes)}
	case errors.Is(err, outside.ErrUnknownQueue):
		return &Failure{Status: http.StatusNotFound, Kind: KindUnknownQueue, Text: cut(textOf(named(err, outside.ErrUnknownQueue)), maxTextBytes)}
	case errors.Is(err, outside.ErrTooManyWaiting):
		return &Failure{Status: http.StatusServiceUnavailable, Text: outside.ErrTooManyWaiting.Error(), RetryAfter: watchRetry}
	case errors.Is(err, ErrTooManyWaitingOfClient):
		return &Failure{Status: http.StatusTooManyRequests, Text: err.Error(), RetryAfter: watchRetry}
	case errors.Is(err, outside.ErrClosed):
		return &Failure{Status: http.StatusServiceUnavailable, Kind: KindQueueClosed, Text: outside.ErrClosed.Error()}
	default:
		return nil
	}
}

// LogFailure logs an error whose text the client did not receive.
func LogFailure(r *http.Request, f *Failure, err error) {
	if f.Status < http.StatusInternalServerError && !errors.Is(err, management.ErrNotRecorded) {
		return
	}
	logging.Error(r.Context(), message.Fields{
		"message": "HTTP request failed",
		"method":  r.Method,
		"path":    r.URL.Path,
		"status":  f.Status,
		"error":   err.Error(),
	})
}
