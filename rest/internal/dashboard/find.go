package dashboard

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/mongodb/amboy/management"
)

// find leads from the box in the header to the job with an ID, whatever its queue, or to the list
// of the jobs whose IDs contain the text.
func (d *Dashboard) find(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	err := refuseUnknown(query, "id")
	if err != nil {
		return err
	}
	text, err := single(query, "id")
	if err != nil {
		return err
	}
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		redirect(w, r, "jobs")
		return nil
	}
	ids := []string{text}
	if trimmed != text { // copied with the space around it
		ids = append(ids, trimmed)
	}
	found, err := d.options.Inspector(r).FindJobs(r.Context(), management.JobFilter{IDs: ids, Queues: d.ownQueues(r)}, management.PageRequest{Limit: 2})
	if err != nil {
		return err
	}
	switch len(found.Jobs) {
	case 0:
		redirect(w, r, "jobs?"+url.Values{"id_part": {trimmed}}.Encode())
	case 1:
		redirect(w, r, jobPath(found.Jobs[0].JobRef))
	default:
		redirect(w, r, "jobs?"+url.Values{"id": ids}.Encode())
	}
	return nil
}
