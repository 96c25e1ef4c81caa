package dashboard

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
)

// jobData is the data of the page of a job.
type jobData struct {
	management.Job
	Graph    drawing
	Distance int
	// Allowed are the actions that the state of the job and the access checks allow.
	Allowed []management.ActionKind
	// MayEdit and MayCopy report whether the page offers to edit the job, and to put a copy.
	MayEdit, MayCopy bool
}

// Can reports whether the page offers an action.
func (j jobData) Can(kind string) bool {
	return slices.Contains(j.Allowed, management.ActionKind(kind))
}

// DueOf returns since when an attempt could start: the time for which it was put, or when it was
// put. The due time of earlier attempts is not stored.
func (j jobData) DueOf(a management.Attempt) time.Time {
	if a.Number == j.Attempt && j.Due.After(a.Created) {
		return j.Due
	}
	return a.Created
}

// RunEnd returns when the run of an attempt ended, or now if it is running.
func (j jobData) RunEnd(a management.Attempt, now time.Time) time.Time {
	if a.Ended.IsZero() && a.State == amboy.StateRunning {
		return now
	}
	return a.Ended
}

// Percent formats the progress of the job; empty if it reported none.
func (j jobData) Percent() string {
	if j.Progress == nil {
		return ""
	}
	return percent(*j.Progress)
}

const defaultDistance = 2

func (d *Dashboard) job(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	err := refuseUnknown(query, append(slices.Clone(noticeFields), "distance")...)
	if err != nil {
		return err
	}
	ref, err := jobOf(r)
	if err != nil {
		return err
	}
	distance := defaultDistance
	if text := query.Get("distance"); text != "" {
		distance, err = strconv.Atoi(text)
		if err != nil || distance < 1 || distance > management.MaxGraphDistance {
			return invalid("distance", text, "must be a whole number from 1 to "+strconv.Itoa(management.MaxGraphDistance))
		}
	}
	inspector := d.options.Inspector(r)
	job, err := inspector.Job(r.Context(), ref.Queue, ref.ID)
	if err != nil {
		return err
	}
	data := jobData{Job: job, Distance: distance}
	v := d.view(r, "jobs", "Job "+job.ID, nil)
	if len(job.DependsOn)+len(job.Dependents) > 0 {
		var graph management.Graph
		graph, err = inspector.Graph(r.Context(), ref.Queue, ref.ID, distance)
		if err != nil {
			return err
		}
		data.Graph = draw(graph)
	}
	if !job.State.IsFinal() {
		v.Every = refreshBusy
	}
	data.Allowed = slices.DeleteFunc(slices.Clone(job.Actions), func(kind management.ActionKind) bool {
		return !v.May(string(kind), ref.Queue)
	})
	data.MayEdit = len(d.editable(r, job)) > 0
	data.MayCopy = job.ArgsHidden == "" && !job.ArgsMasked && isShownWhole(job.Args) && d.options.MayPut(r, "create", job.Queue, job.Type)
	return d.show(w, http.StatusOK, "job", v.With(data))
}
