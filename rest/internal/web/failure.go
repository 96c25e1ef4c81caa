// Package web has what the HTTP handlers of package rest have in common.
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
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
	"github.com/mongodb/amboy/rest/internal/guard"
)

// Failure is the answer to a request that can't be met. As an error it says why.
type Failure struct {
	// Status is that of the answer.
	Status int `json:"-"`
	// Kind tells apart what has the same status.
	Kind Kind   `json:"-"`
	Text string `json:"error"`
	// Field, Value and Rule tell about an argument that is not valid.
	Field string `json:"field,omitempty"`
	Value string `json:"value,omitempty"`
	Rule  string `json:"rule,omitempty"`
	// RetryAfter is when a client may try it again; 0 where nobody knows.
	RetryAfter time.Duration `json:"-"`
}

// SetHeader sets what the header of the answer says.
func (f *Failure) SetHeader(h http.Header) {
	if f.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(f.RetryAfter.Seconds()))))
	}
}

// watchRetry is when a request that watches may be made again, where there were too many.
const watchRetry = 30 * time.Second

// Kind is a kind of failure; empty where the status says it all.
type Kind string

// The kinds.
const (
	KindInvalid        Kind = "invalid-argument"
	KindInvalidJob     Kind = "invalid-job"
	KindCycle          Kind = "dependency-cycle"
	KindUnknownQueue   Kind = "unknown-queue"
	KindJobNotFound    Kind = "job-not-found"
	KindState          Kind = "state"
	KindDuplicateJob   Kind = "duplicate-job"
	KindDuplicateScope Kind = "duplicate-scope"
	KindUnsupported    Kind = "unsupported"
	KindDenied         Kind = "denied"
	KindQueueDraining  Kind = "queue-draining"
	KindQueueClosed    Kind = "queue-closed"
	KindNotStarted     Kind = "queue-not-started"
)

// NameField is the field of a failure that says that there is no such job.
const NameField = "name"

func (f *Failure) Error() string { return f.Text }

// internalError is all that a client is told of what goes wrong here. The log has
// more: what a store says may name hosts and users.
const internalError = "the service could not do it; its log says why"

// Invalid is the failure of an argument that is not valid.
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

// maxTextBytes is the length of the longest text that has a part of a request in it.
const maxTextBytes = 500

// shortened bounds what an answer repeats of a request.
func shortened(text string) string { return cut(text, 100) }

func cut(text string, most int) string {
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.ToValidUTF8(text, "\ufffd")
}

// textOf is what a client is told of an error that is known. One that has several others
// may have what a store says.
func textOf(err error) string {
	text := err.Error()
	if hasSeveral(err) {
		text, _ = publictext.Of(err, publictext.As[*management.StateError], publictext.Is(management.ErrUnknownQueue, management.ErrUnsupported))
	}
	return strings.ToValidUTF8(text, "\ufffd")
}

// hasSeveral reports whether an error wraps more than one.
func hasSeveral(err error) bool {
	for err != nil {
		if _, several := err.(interface{ Unwrap() []error }); several { //nolint:errorlint // It unwraps the error itself.
			return true
		}
		err = errors.Unwrap(err)
	}
	return false
}

// FailureOf says how an error of a request is answered.
func FailureOf(ctx context.Context, err error) *Failure {
	var known *Failure
	var argument *management.InvalidArgumentError
	var state *management.StateError
	var job *amboy.InvalidJobError
	var denied *guard.DeniedError
	answer := func(status int, kind Kind) *Failure {
		return &Failure{Status: status, Kind: kind, Text: textOf(err)}
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
		// What the program said is for its log: it may tell too much.
		return &Failure{Status: http.StatusForbidden, Kind: KindDenied, Text: cut(denied.Text(), maxTextBytes)}
	case errors.As(err, &state):
		return answer(http.StatusConflict, KindState)
	case errors.Is(err, management.ErrUnknownQueue):
		return answer(http.StatusNotFound, KindUnknownQueue)
	case errors.Is(err, management.ErrUnsupported):
		return answer(http.StatusConflict, KindUnsupported)
	case amboy.IsDuplicateJobScopeError(err):
		return answer(http.StatusConflict, KindDuplicateScope)
	case amboy.IsDuplicateJobError(err):
		return answer(http.StatusConflict, KindDuplicateJob)
	case amboy.IsJobNotFoundError(err):
		f := answer(http.StatusNotFound, KindJobNotFound)
		f.Field = NameField
		return f
	default:
		return failureOfQueue(ctx, err)
	}
}

// failureOfQueue is the rest of FailureOf: what a queue says, and what nobody knows.
func failureOfQueue(ctx context.Context, err error) *Failure {
	var cycle *amboy.DependencyCycleError
	var encoding *registry.EncodeError
	answer := func(status int, kind Kind) *Failure {
		return &Failure{Status: status, Kind: kind, Text: textOf(err)}
	}
	switch {
	case errors.As(err, &cycle):
		return answer(http.StatusBadRequest, KindCycle)
	case errors.As(err, &encoding):
		return &Failure{Status: http.StatusBadRequest, Text: encoding.Error()}
	case errors.Is(err, amboy.ErrQueueDraining):
		return answer(http.StatusServiceUnavailable, KindQueueDraining)
	case errors.Is(err, amboy.ErrQueueClosed), errors.Is(err, driver.ErrClosed):
		return answer(http.StatusServiceUnavailable, KindQueueClosed)
	case errors.Is(err, amboy.ErrQueueNotStarted):
		return answer(http.StatusServiceUnavailable, KindNotStarted)
	case errors.Is(err, guard.ErrTooManyWatchers):
		return &Failure{Status: http.StatusServiceUnavailable, Text: err.Error(), RetryAfter: watchRetry}
	case errors.Is(err, guard.ErrTooManyOfClient):
		return &Failure{Status: http.StatusTooManyRequests, Text: err.Error(), RetryAfter: watchRetry}
	case ctx.Err() != nil:
		return &Failure{Status: http.StatusRequestTimeout, Text: "the request ended before it was done"}
	default:
		return &Failure{Status: http.StatusInternalServerError, Text: internalError}
	}
}

// LogFailure logs what a client is not told.
func LogFailure(r *http.Request, f *Failure, err error) {
	if f.Status < http.StatusInternalServerError && !errors.Is(err, management.ErrNotRecorded) {
		return
	}
	logging.Error(r.Context(), message.Fields{
		"message": "an HTTP request failed",
		"method":  r.Method,
		"path":    r.URL.Path,
		"status":  f.Status,
		"error":   err.Error(),
	})
}
