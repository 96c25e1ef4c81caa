package dashboard

import (
	"net/http"
	"net/url"

	"github.com/mongodb/amboy/management"
)

// A request that may read only some queues gets pages about these: the address of a list that names
// no queue redirects to the address with the queues of the request.

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

// list wraps the handler of a list that can be limited to queues. If the request names no queue and
// may read only some, it is redirected to the list of these. A request with a part of the names of
// queues is redirected to the list of the matching queues.
func (d *Dashboard) list(do answer) answer {
	return func(w http.ResponseWriter, r *http.Request) error {
		query := r.URL.Query()
		part, err := single(query, queuePart)
		if err != nil {
			return err
		}
		if part != "" {
			var found []string
			found, err = d.queuesWith(r, part)
			if err != nil {
				return err
			}
			query.Del(queuePart)
			query.Del("cursor")
			for _, name := range found {
				query.Add("queue", encodeQueue(name))
			}
			redirect(w, r, r.URL.EscapedPath()[1:]+"?"+query.Encode())
			return nil
		}
		if len(given(query, "queue")) == 0 { // an empty field of a form names none
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

// queuePart is the field for a part of the names of queues.
const queuePart = "queue_part"

// queuesWith returns the queues whose names contain a part. It returns an error if there are none, or
// more than management.MaxFilterValues, the most to which a list can be limited.
func (d *Dashboard) queuesWith(r *http.Request, part string) ([]string, error) {
	inspector := d.options.Inspector(r)
	filter := management.QueueFilter{Name: part, Queues: d.ownQueues(r)}
	var found []string
	for cursor := ""; ; {
		page, err := inspector.FindQueues(r.Context(), filter, management.PageRequest{Limit: management.MaxFilterValues, Cursor: cursor})
		if err != nil {
			return nil, err
		}
		for _, queue := range page.Queues {
			found = append(found, queue.Name)
		}
		cursor = page.Next
		switch {
		case len(found) > management.MaxFilterValues, len(found) == management.MaxFilterValues && cursor != "":
			return nil, invalid(queuePart, part, "is in the names of more than 100 queues: give a longer part")
		case cursor == "" && len(found) == 0:
			return nil, invalid(queuePart, part, "is in the name of no queue")
		case cursor == "":
			return found, nil
		}
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
