package dashboard

import (
	"net/http"
	"net/url"
)

// A request that may not read all queues, but some, gets the pages of these: lists without a queue
// in their address redirect to the address with its queues.

// ownQueues returns the queues that a request may read, if it may not read all.
func (d *Dashboard) ownQueues(r *http.Request) []string {
	if d.options.Readable == nil || d.options.Allowed(r, "read", "") {
		return nil
	}
	return d.options.Readable(r)
}

// withQueues returns the query that selects queues.
func withQueues(queues []string) string {
	query := url.Values{}
	for _, name := range queues {
		query.Add("queue", encodeQueue(name))
	}
	return query.Encode()
}

// list serves a list that may be of some queues. If the request may read only some, and names none,
// it redirects to the list of these.
func (d *Dashboard) list(do answer) answer {
	return func(w http.ResponseWriter, r *http.Request) error {
		if !r.URL.Query().Has("queue") {
			if own := d.ownQueues(r); len(own) > 0 {
				query := r.URL.RawQuery
				if query != "" {
					query += "&"
				}
				redirect(w, r, r.URL.EscapedPath()[1:]+"?"+query+withQueues(own))
				return nil
			}
		}
		return do(w, r)
	}
}

// home serves a page about all queues. A request that may read only one queue is redirected to its
// page, and one that may read some gets a list of these.
func (d *Dashboard) home(do answer) answer {
	return func(w http.ResponseWriter, r *http.Request) error {
		switch own := d.ownQueues(r); len(own) {
		case 0:
			return do(w, r)
		case 1:
			redirect(w, r, queuePath(own[0]))
			return nil
		default:
			return d.show(w, http.StatusOK, "own", d.view(r, "queues", "Queues", own))
		}
	}
}
