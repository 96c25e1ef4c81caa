package rest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

// failure is the answer to a request that can't be met. As an error it says why.
type failure struct {
	status int
	Text   string `json:"error"`
	// Field, Value and Rule tell about an argument that is not valid.
	Field string `json:"field,omitempty"`
	Value string `json:"value,omitempty"`
	Rule  string `json:"rule,omitempty"`
}

// nameField is the field of a failure that says that there is no such job.
const nameField = "name"

func (f *failure) Error() string { return f.Text }

// internalError is all that a client is told of what goes wrong here. The log has
// more: what a store says may name hosts and users.
const internalError = "the service could not do it; its log says why"

// invalid is the failure of an argument that is not valid.
func invalid(field, value, rule string) *failure {
	return &failure{
		status: http.StatusBadRequest,
		Text:   fmt.Sprintf("%s %s (is %s)", field, rule, strconv.QuoteToGraphic(shortened(value))),
		Field:  field,
		Value:  shortened(value),
		Rule:   rule,
	}
}

// shortened bounds what an answer repeats of a request.
func shortened(text string) string {
	const most = 100
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

// failureOf says how an error of a request is answered.
func failureOf(ctx context.Context, err error) *failure {
	var known *failure
	var argument *management.InvalidArgumentError
	var job *amboy.InvalidJobError
	var cycle *amboy.DependencyCycleError
	var encoding *registry.EncodeError
	answer := func(status int) *failure { return &failure{status: status, Text: err.Error()} }
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &argument):
		return invalid(argument.Field, argument.Value, argument.Rule)
	case errors.As(err, &job):
		return invalid(job.Field, fmt.Sprint(job.Value), job.Rule)
	case errors.As(err, &cycle), errors.As(err, &encoding):
		return answer(http.StatusBadRequest)
	case amboy.IsDuplicateJobError(err):
		return answer(http.StatusConflict)
	case amboy.IsJobNotFoundError(err):
		return &failure{status: http.StatusNotFound, Text: err.Error(), Field: nameField}
	case errors.Is(err, amboy.ErrQueueDraining), errors.Is(err, amboy.ErrQueueClosed),
		errors.Is(err, amboy.ErrQueueNotStarted), errors.Is(err, driver.ErrClosed):
		return answer(http.StatusServiceUnavailable)
	case ctx.Err() != nil:
		return &failure{status: http.StatusRequestTimeout, Text: "the request ended before it was done"}
	default:
		return &failure{status: http.StatusInternalServerError, Text: internalError}
	}
}

// refuse answers a request that can't be met.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	f := failureOf(r.Context(), err)
	logFailure(r, f, err)
	writeJSON(w, r, f.status, f)
}

// logFailure logs what a client is not told.
func logFailure(r *http.Request, f *failure, err error) {
	if f.status < http.StatusInternalServerError {
		return
	}
	logging.Error(r.Context(), message.Fields{
		"message": "an HTTP request failed",
		"method":  r.Method,
		"path":    r.URL.Path,
		"status":  f.status,
		"error":   err.Error(),
	})
}

// writeJSON answers with a value, and a line break.
func writeJSON(w http.ResponseWriter, r *http.Request, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		logFailure(r, &failure{status: http.StatusInternalServerError}, fmt.Errorf("encoding the answer: %w", err))
		status, body = http.StatusInternalServerError, []byte(`{"error":"the answer can't be encoded"}`)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, err = w.Write(append(body, '\n'))
	logUnsent(r, err)
}

// writeArray answers with values, each of which is encoded when it is sent, so that
// the whole is not in memory twice.
func writeArray[T any](w http.ResponseWriter, r *http.Request, values []T) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	out := bufio.NewWriter(w)
	err := encodeArray(out, values)
	logUnsent(r, errors.Join(err, out.Flush()))
}

func encodeArray[T any](out *bufio.Writer, values []T) error {
	separator := "["
	for _, value := range values {
		encoded, err := json.Marshal(value)
		if err != nil {
			return err
		}
		// The first error of the writer is kept, and Flush returns it.
		_, _ = out.WriteString(separator)
		_, _ = out.Write(encoded)
		separator = ","
	}
	if len(values) == 0 {
		_, _ = out.WriteString(separator)
	}
	_, err := out.WriteString("]\n")
	return err
}

// logUnsent logs that an answer was not sent, most often because the client has gone.
func logUnsent(r *http.Request, err error) {
	if err != nil {
		logging.Debug(r.Context(), func() message.Fields {
			return message.Fields{"message": "could not send an answer", "path": r.URL.Path, "error": err.Error()}
		})
	}
}
