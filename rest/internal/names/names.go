// Package names puts the names of queues and the IDs of jobs into the paths of URLs.
package names

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
)

// MaxQueueBytes is the length of the longest name of a queue that a path may have.
const MaxQueueBytes = 1024

// Escape makes a text one segment of a path. One that is made of dots alone would be
// taken for another directory.
func Escape(text string) string {
	if text == "." || text == ".." {
		return strings.ReplaceAll(text, ".", "%2E")
	}
	return url.PathEscape(text)
}

// nameless stands for the queue without a name: a path has no empty segment. A name that
// begins with it has it twice.
const nameless = "_"

// Encode makes the name of a queue one segment of a path.
func Encode(queue string) string {
	if queue == "" || strings.HasPrefix(queue, nameless) {
		queue = nameless + queue
	}
	return Escape(queue)
}

// Decode returns the name of a queue of a segment, from which the percent-encoding was
// taken. The error is a *management.InvalidArgumentError for what Encode does not make.
func Decode(segment string) (queue string, err error) {
	if err := check("queue", segment, MaxQueueBytes); err != nil {
		return "", err
	}
	name, marked := strings.CutPrefix(segment, nameless)
	if marked && name != "" && !strings.HasPrefix(name, nameless) {
		return "", &management.InvalidArgumentError{Field: "queue", Value: segment, Rule: "must begin with two underscores, where the name begins with one"}
	}
	return name, nil
}

// ID returns the ID of a job of a segment, from which the percent-encoding was taken.
// The error is a *management.InvalidArgumentError for what no job has.
func ID(segment string) (id string, err error) {
	return segment, check("id", segment, amboy.MaxIDLength)
}

func check(field, text string, most int) error {
	switch {
	case text == "":
		return &management.InvalidArgumentError{Field: field, Rule: "must not be empty"}
	case !utf8.ValidString(text):
		return &management.InvalidArgumentError{Field: field, Value: fmt.Sprintf("%q", text), Rule: "must be UTF-8"}
	case len(text) > most:
		return &management.InvalidArgumentError{Field: field, Value: text, Rule: fmt.Sprintf("must be at most %d bytes long, and has %d", most, len(text))}
	default:
		return nil
	}
}
