package dashboard

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/mongodb/amboy/management"
)

// workersData is what the page of processes shows.
type workersData struct {
	Processes []management.Process
	Alive     int
}

func (d *Dashboard) workers(w http.ResponseWriter, r *http.Request) error {
	err := known(r.URL.Query())
	if err != nil {
		return err
	}
	processes, err := d.options.Inspector(r).Processes(r.Context())
	if err != nil {
		return err
	}
	data := workersData{Processes: slices.Clone(processes)}
	slices.SortStableFunc(data.Processes, func(a, b management.Process) int { // those alive first
		switch {
		case a.Alive == b.Alive:
			return 0
		case a.Alive:
			return -1
		default:
			return 1
		}
	})
	for _, process := range processes {
		if process.Alive {
			data.Alive++
		}
	}
	return d.show(w, http.StatusOK, "workers", d.view(r, "workers", "Workers", data))
}

func (d *Dashboard) schedules(w http.ResponseWriter, r *http.Request) error {
	err := known(r.URL.Query())
	if err != nil {
		return err
	}
	schedules, err := d.options.Inspector(r).Schedules(r.Context())
	if err != nil {
		return err
	}
	return d.show(w, http.StatusOK, "schedules", d.view(r, "schedules", "Schedules", schedules))
}

// scopesData is what the page of scopes shows.
type scopesData struct {
	Name, Queue string // of the filter
	Scopes      []management.Scope
	First, Next string
}

func (d *Dashboard) scopes(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	err := known(query, "queue", "name", "cursor")
	if err != nil {
		return err
	}
	data := scopesData{Name: query.Get("name"), Queue: query.Get("queue")}
	filter := management.ScopeFilter{Name: data.Name}
	if data.Queue != "" {
		var queue string
		queue, err = decodeQueue(data.Queue)
		if err != nil {
			return err
		}
		filter.Queues = []string{queue}
	}
	page, err := d.options.Inspector(r).Scopes(r.Context(), filter, management.PageRequest{Cursor: query.Get("cursor")})
	if err != nil {
		return err
	}
	data.Scopes = page.Scopes
	data.First, data.Next = around("scopes", query, page.Next)
	return d.show(w, http.StatusOK, "scopes", d.view(r, "scopes", "Scopes", data))
}

// auditData is what the audit list shows.
type auditData struct {
	Entries     []management.AuditEntry
	First, Next string
}

func (d *Dashboard) audit(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	err := known(query, "cursor")
	if err != nil {
		return err
	}
	page, err := d.options.Inspector(r).Audit(r.Context(), management.PageRequest{Cursor: query.Get("cursor")})
	if err != nil {
		return err
	}
	data := auditData{Entries: page.Entries}
	data.First, data.Next = around("audit", query, page.Next)
	return d.show(w, http.StatusOK, "audit", d.view(r, "audit", "Audit", data))
}

// around are the addresses of the first page of a list, and of the next one, from the
// top of the site on; empty where there is none.
func around(list string, query url.Values, cursor string) (first, next string) {
	others := url.Values{}
	for name := range query {
		if value := query.Get(name); value != "" && name != "cursor" {
			others.Set(name, value)
		}
	}
	if query.Get("cursor") != "" {
		first = list + "?" + others.Encode()
	}
	if cursor != "" {
		others.Set("cursor", cursor)
		next = list + "?" + others.Encode()
	}
	return first, next
}
