package web

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
)

// JSON is the content type of most answers.
const JSON = "application/json; charset=utf-8"

// WriteJSON answers with a value as JSON, followed by a newline. It sets the content type
// unless it is already set.
func WriteJSON(w http.ResponseWriter, r *http.Request, status int, value any) {
	LogUnsent(r, SendJSON(w, r, status, value))
}

// SendJSON is like WriteJSON. It returns an error if a part of the answer could not be sent.
func SendJSON(w http.ResponseWriter, r *http.Request, status int, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		LogFailure(r, &Failure{Status: http.StatusInternalServerError}, fmt.Errorf("encoding the answer: %w", err))
		status, body = http.StatusInternalServerError, []byte(`{"error":"the response can't be encoded"}`)
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", JSON)
	}
	w.WriteHeader(status)
	_, err = w.Write(append(body, '\n'))
	return err
}

// WriteArray answers with a JSON array. It encodes each value when it is sent, so that the
// encoded array is never in memory as a whole.
func WriteArray[T any](w http.ResponseWriter, r *http.Request, values []T) {
	w.Header().Set("Content-Type", JSON)
	out := bufio.NewWriter(w)
	err := encodeArray(out, values)
	LogUnsent(r, errors.Join(err, out.Flush()))
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

// LogUnsent logs that an answer could not be sent, usually because the client disconnected.
func LogUnsent(r *http.Request, err error) {
	if err != nil {
		logging.Debug(r.Context(), func() message.Fields {
			return message.Fields{"message": "could not send a response", "path": r.URL.Path, "error": err.Error()}
		})
	}
}
