package rest

import (
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/rest/internal/web"
)

// The bounds of what a service takes.
const (
	// MaxBodyBytes is the size of the largest body of a request.
	MaxBodyBytes = web.MaxBodyBytes
	// MaxWait is the longest timeout that a request may ask for.
	MaxWait = time.Hour
	// DefaultWait is the timeout of a request that asks for none.
	DefaultWait = 10 * time.Second
)

// maxParameterBytes is the length of the longest path parameter that is no ID.
const maxParameterBytes = 1024

// jobID is the ID of the job that the path of a request names.
func jobID(r *http.Request) (string, error) {
	return text(r, "name", amboy.MaxIDLength)
}

// parameter is another part of the path.
func parameter(r *http.Request, name string) (string, error) {
	return text(r, name, maxParameterBytes)
}

// text is a part of the path that has at most so many bytes.
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

// timeout is how long a request wants to wait.
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
