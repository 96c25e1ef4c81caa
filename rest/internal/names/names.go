// Package names encodes the names of queues and the IDs of jobs as segments of URL paths.
package names

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
)

// MaxQueueBytes is the maximum length of the name of a queue in a path.
const MaxQueueBytes = 1024

// Escape encodes a text as one segment of a path. It also escapes "." and "..", which
// clients and servers would resolve as directories.
func Escape(text string) string {
	if text == "." || text == ".." {
		return strings.ReplaceAll(text, ".", "%2E")
	}
	return url.PathEscape(text)
}

// nameless stands for the queue without a name, because a path can't contain an empty
// segment. A name that begins with it gets another one in front.
const nameless = "_"

// Encode encodes the name of a queue as one segment of a path.
func Encode(queue string) string {
	if queue == "" || strings.HasPrefix(queue, nameless) {
		queue = nameless + queue
	}
	return Escape(queue)
}

// Decode returns the name of the queue for a segment whose percent-encoding was removed. It
// returns a *management.InvalidArgumentError for a segment that Encode does not produce.
func Decode(segment string) (queue string, err error) {
	if err := check("queue", segment, MaxQueueBytes); err != nil {
		return "", err
	}
	name, marked := strings.CutPrefix(segment, nameless)
	if marked && name != "" && !strings.HasPrefix(name, nameless) {
		return "", &management.InvalidArgumentError{Field: "queue", Value: segment, Rule: "must begin with two underscores if the name begins with one"}
	}
	return name, nil
}

// ID returns the ID of the job for a segment whose percent-encoding was removed. It returns
// a *management.InvalidArgumentError for a text that can't be an ID.
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
