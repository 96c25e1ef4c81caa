package dashboard

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/mongodb/amboy/management"
)

// workersData is the data of the page of processes.
type workersData struct {
	Processes []management.Process
	Alive     int
}

func (d *Dashboard) workers(w http.ResponseWriter, r *http.Request) error {
	err := refuseUnknown(r.URL.Query())
	if err != nil {
		return err
	}
	processes, err := d.options.Inspector(r).Processes(r.Context())
	if err != nil {
		return err
	}
	data := workersData{Processes: slices.Clone(processes)}
	slices.SortStableFunc(data.Processes, func(a, b management.Process) int { // live processes first
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

// finding is a finding of the page of the diagnosis.
type finding struct {
	management.Finding
	Job management.JobRef
}

// diagnosisData is the data of the page of the diagnosis.
type diagnosisData struct {
	management.Diagnosis
	Findings []finding
}

func (d *Dashboard) diagnosis(w http.ResponseWriter, r *http.Request) error {
	err := refuseUnknown(r.URL.Query())
	if err != nil {
		return err
	}
	diagnostician, ok := d.options.Inspector(r).(management.Diagnostician)
	if !ok {
		return fmt.Errorf("making a diagnosis: %w", management.ErrUnsupported)
	}
	diagnosis, err := diagnostician.Diagnose(r.Context())
	if err != nil {
		return err
	}
	data := diagnosisData{Diagnosis: diagnosis}
	for _, f := range diagnosis.Findings {
		data.Findings = append(data.Findings, finding{f, management.JobRef{Queue: f.Subject.Queue, ID: f.Subject.JobID}})
	}
	return d.show(w, http.StatusOK, "diagnosis", d.view(r, "overview", "Diagnosis", data))
}

// scopesData is the data of the page of scopes.
type scopesData struct {
	Part        string // of the filter
	Queues      []string
	Scopes      []management.Scope
	First, Next string
}

func (d *Dashboard) scopes(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	err := refuseUnknown(query, "queue", queuePart, "name", "part", "cursor")
	if err != nil {
		return err
	}
	filter := management.ScopeFilter{Name: query.Get("name"), Part: query.Get("part")}
	data := scopesData{Part: cmp.Or(filter.Part, filter.Name)}
	data.Queues, err = queuesOf(query)
	if err != nil {
		return err
	}
	filter.Queues = data.Queues
	page, err := d.options.Inspector(r).Scopes(r.Context(), filter, management.PageRequest{Cursor: query.Get("cursor")})
	if err != nil {
		return err
	}
	data.Scopes = page.Scopes
	data.First, data.Next = pageLinks("scopes", query, page.Next)
	return d.show(w, http.StatusOK, "scopes", d.view(r, "scopes", "Scopes", data))
}

// auditData is the data of the page of the audit list.
type auditData struct {
	Queues           []string // of the filter
	Actor, What, Job string
	Whats            []string // the actions that can be chosen
	Entries          []management.AuditEntry
	First, Next      string
}

func (d *Dashboard) audit(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	err := refuseUnknown(query, "cursor", "queue", queuePart, "actor", "what", "job")
	if err != nil {
		return err
	}
	filter := management.AuditFilter{Actors: given(query, "actor"), What: given(query, "what"), JobID: query.Get("job")}
	filter.Queues, err = queuesOf(query)
	if err != nil {
		return err
	}
	page, err := d.options.Inspector(r).Audit(r.Context(), filter, management.PageRequest{Cursor: query.Get("cursor")})
	if err != nil {
		return err
	}
	data := auditData{
		Queues: filter.Queues, Actor: query.Get("actor"), What: query.Get("what"), Job: filter.JobID, Whats: management.AuditedActions(),
		Entries: page.Entries,
	}
	data.First, data.Next = pageLinks("audit", query, page.Next)
	return d.show(w, http.StatusOK, "audit", d.view(r, "audit", "Audit", data))
}

// queuesOf returns the queues that a query names.
func queuesOf(query url.Values) (queues []string, err error) {
	for _, name := range given(query, "queue") {
		queue, err := decodeQueue(name)
		if err != nil {
			return nil, err
		}
		queues = append(queues, queue)
	}
	return queues, nil
}

// pageLinks returns the addresses of the first and of the next page of a list, relative to
// the top of the site; empty if there is no such page.
func pageLinks(list string, query url.Values, cursor string) (first, next string) {
	others := url.Values{}
	for name := range query {
		if values := given(query, name); len(values) > 0 && name != "cursor" {
			others[name] = values
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
