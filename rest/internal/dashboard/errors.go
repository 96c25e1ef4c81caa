package dashboard

import (
	"cmp"
	"net/http"
	"net/url"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
)

// errorsData is the data of the page of errors.
type errorsData struct {
	management.ErrorGroups
	Queues      []string // of the filter
	Type, Error string
	Shown       []errorRow
	// All leads to the jobs of all groups.
	All         errorRow
	MayRetry    bool
	First, Next string
}

// errorRow is a group with the filter that selects its jobs.
type errorRow struct {
	management.ErrorGroup
	Jobs   string // their address, relative to the top of the site
	Fields []field
}

// failedJobs returns the filter of the page's query, which selects failed jobs.
func failedJobs(query url.Values) (management.JobFilter, error) {
	filter, err := parseFilter(query)
	filter.States = []amboy.JobState{amboy.StateFailed}
	return filter, err
}

func (d *Dashboard) errors(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	err := refuseUnknown(query, "queue", queuePart, "type", "type_part", "error", "cursor")
	if err != nil {
		return err
	}
	filter, err := failedJobs(query)
	if err != nil {
		return err
	}
	groups, err := d.options.Inspector(r).ErrorGroups(r.Context(), management.ErrorGroupRequest{Filter: filter, Cursor: query.Get("cursor")})
	if err != nil {
		return err
	}
	data := errorsData{ErrorGroups: groups, Queues: filter.Queues, Type: cmp.Or(filter.TypePart, query.Get("type")), Error: filter.Error}
	data.All = errorRow{Jobs: "jobs?" + filterValues(filter).Encode(), Fields: filterList(filter)}
	for _, group := range groups.Groups {
		filter.ErrorGroup = group.Message
		data.Shown = append(data.Shown, errorRow{group, "jobs?" + filterValues(filter).Encode(), filterList(filter)})
	}
	data.First, data.Next = pageLinks("errors", query, groups.Next)
	v := d.view(r, "errors", "Errors", data)
	for _, queue := range actQueues(filter) {
		data.MayRetry = data.MayRetry || v.May(string(management.Retry), queue)
	}
	return d.show(w, http.StatusOK, "errors", v.With(data))
}
