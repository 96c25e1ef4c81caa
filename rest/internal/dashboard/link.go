package dashboard

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/names"
)

// Paths contain the names of queues and the IDs of jobs as package names encodes them. The
// exceptions are "." and "..", which browsers resolve as directories even if they are
// escaped: these get an underscore in front.

// isDots reports whether a name is "." or "..", with any underscores in front.
func isDots(name string) bool {
	rest := strings.TrimLeft(name, "_")
	return rest == "." || rest == ".."
}

// encodeQueue encodes the name of a queue for form fields, as a name that is not empty. For
// paths it must also be escaped.
func encodeQueue(name string) string {
	if name == "" || strings.HasPrefix(name, "_") || isDots(name) {
		return "_" + name
	}
	return name
}

// decodeQueue is the inverse of encodeQueue.
func decodeQueue(encoded string) (string, error) {
	if encoded == "_." || encoded == "_.." {
		return encoded[1:], nil
	}
	return names.Decode(encoded)
}

func encodeID(id string) string {
	if isDots(id) {
		return "_" + id
	}
	return id
}

func decodeID(encoded string) (string, error) {
	if isDots(encoded) {
		encoded = strings.TrimPrefix(encoded, "_")
	}
	return names.ID(encoded)
}

func queuePath(name string) string { return "queues/" + url.PathEscape(encodeQueue(name)) }

func jobPath(ref management.JobRef) string {
	return queuePath(ref.Queue) + "/jobs/" + url.PathEscape(encodeID(ref.ID))
}

// queueOf returns the queue in the path of a request.
func queueOf(r *http.Request) (string, error) { return decodeQueue(r.PathValue("queue")) }

// jobOf returns the job in the path of a request.
func jobOf(r *http.Request) (management.JobRef, error) {
	queue, err := queueOf(r)
	if err != nil {
		return management.JobRef{}, err
	}
	id, err := decodeID(r.PathValue("id"))
	return management.JobRef{Queue: queue, ID: id}, err
}
