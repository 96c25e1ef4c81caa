package dashboard

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/names"
)

// Names of queues and IDs of jobs are in paths as package names has them, but for those
// that browsers take for another directory, however they are escaped: these get an
// underscore in front.

// isDots is true for such a name, and for what one of them becomes.
func isDots(name string) bool {
	rest := strings.TrimLeft(name, "_")
	return rest == "." || rest == ".."
}

// encodeQueue makes a name that is not empty, for fields; and for paths, when it is
// escaped.
func encodeQueue(name string) string {
	if name == "" || strings.HasPrefix(name, "_") || isDots(name) {
		return "_" + name
	}
	return name
}

// decodeQueue undoes encodeQueue.
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

// queueOf is the queue in the path of a request.
func queueOf(r *http.Request) (string, error) { return decodeQueue(r.PathValue("queue")) }

// jobOf is the job in the path of a request.
func jobOf(r *http.Request) (management.JobRef, error) {
	queue, err := queueOf(r)
	if err != nil {
		return management.JobRef{}, err
	}
	id, err := decodeID(r.PathValue("id"))
	return management.JobRef{Queue: queue, ID: id}, err
}
