package rest

import (
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/rest/internal/web"
)

// The limits of requests to a service.
const (
	// MaxBodyBytes is the maximum size of the body of a request.
	MaxBodyBytes = web.MaxBodyBytes
	// MaxWait is the longest timeout that a request may set.
	MaxWait = time.Hour
	// DefaultWait is the timeout of a request that sets none.
	DefaultWait = 10 * time.Second
)

// maxParameterBytes is the maximum length of a path parameter that is not an ID.
const maxParameterBytes = 1024

// jobID returns the job ID in the path of a request.
func jobID(r *http.Request) (string, error) {
	return text(r, "name", amboy.MaxIDLength)
}

// parameter returns another parameter of the path.
func parameter(r *http.Request, name string) (string, error) {
	return text(r, name, maxParameterBytes)
}

// text returns a parameter of the path, and an error if it has more than most bytes.
func text(r *http.Request, name string, most int) (string, error) {
	value := r.PathValue(name)
	if !utf8.ValidString(value) {
		return "", web.Invalid(name, fmt.Sprintf("%q", value), "must be UTF-8")
	}
	if len(value) > most {
		return "", web.Invalid(name, value, fmt.Sprintf("must be at most %d bytes long, and has %d", most, len(value)))
	}
	return value, nil
}

// timeout returns the timeout of a request.
func timeout(r *http.Request) (time.Duration, error) {
	given := r.URL.Query().Get("timeout")
	if given == "" {
		return DefaultWait, nil
	}
	wait, err := time.ParseDuration(given)
	if err != nil {
		return 0, web.Invalid("timeout", given, "must be a duration such as 10s")
	}
	if wait < 0 || wait > MaxWait {
		return 0, web.Invalid("timeout", given, fmt.Sprintf("must be from 0s to %s", MaxWait))
	}
	return wait, nil
}

// refuse answers a request with an error.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	f := web.FailureOf(r.Context(), err)
	web.LogFailure(r, f, err)
	f.SetHeader(w.Header())
	web.WriteJSON(w, r, f.Status, f)
}
