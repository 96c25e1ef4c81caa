package dashboard

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
)

// parseAction reads an action from a form. It ignores the fields of other kinds of actions,
// because the form on the page of jobs contains the fields of all kinds.
func parseAction(form url.Values) (management.Action, error) {
	action := management.Action{Kind: management.ActionKind(form.Get("action"))}
	var err error
	switch action.Kind {
	case management.Reschedule:
		action.At, err = parseTime(form, "at")
	case management.Prioritize:
		var priority int
		priority, err = parseInt(form, "priority")
		action.Priority = &priority
	case management.Retry:
		action.IgnoreDependencies, err = parseTrue(form, "ignore_dependencies")
	case management.Cancel, management.Park:
		action.Reason, err = single(form, "reason")
	}
	if err != nil {
		return action, err
	}
	return action, action.Validate()
}

func parseInt(form url.Values, name string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(form.Get(name)))
	if err != nil {
		return 0, invalid(name, form.Get(name), "must be a whole number")
	}
	return n, nil
}

// parseTrue returns whether a form has a field, as that of a checkbox that is checked.
func parseTrue(form url.Values, name string) (bool, error) {
	switch value := form.Get(name); value {
	case "":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, invalid(name, value, "must be true or left out")
	}
}

// actionFields are the fields of an action.
var actionFields = []string{"action", "at", "priority", "reason", "ignore_dependencies"}

// actOnOne performs an action on a job. A deletion must be confirmed.
func (d *Dashboard) actOnOne(w http.ResponseWriter, r *http.Request) error {
	err := refuseUnknown(r.PostForm, append(slices.Clone(actionFields), "confirmed")...)
	if err != nil {
		return err
	}
	ref, err := jobOf(r)
	if err != nil {
		return err
	}
	action, err := parseAction(r.PostForm)
	if err != nil {
		return err
	}
	inspector := d.options.Inspector(r)
	if action.Kind == management.Delete && r.PostForm.Get("confirmed") == "" {
		var job management.Job
		job, err = inspector.Job(r.Context(), ref.Queue, ref.ID)
		if err != nil {
			return err
		}
		return d.show(w, http.StatusOK, "confirm", d.view(r, "jobs", "Delete a job?", job))
	}
	acted, err := inspector.ActOn(r.Context(), ref.Queue, ref.ID, action)
	if err != nil {
		return err
	}
	back := jobPath(ref)
	if action.Kind == management.Delete {
		back = "jobs"
	}
	redirect(w, r, withNotice(w, r, back, string(action.Kind), acted.Done, acted.Skipped))
	return nil
}

const (
	// previewTime and actTime limit how long a request reads jobs, or acts on them, before
	// it shows its progress.
	previewTime = 2 * time.Second
	actTime     = 3 * time.Second
	// previewStep and actStep are the number of jobs that are read in one call.
	previewStep = 2000
	actStep     = 500
	// previewMost is the maximum number of jobs that a preview reads.
	previewMost = 50_000
	// previewJobs is the number of jobs that a preview lists.
	previewJobs = 10
)

// actData is the data of a preview, and of the progress of an action.
type actData struct {
	Action management.Action
	Filter []field
	// Back is the address of the list that the form was on, relative to the top of the site.
	Back    string
	Picks   []management.JobRef
	Fields  []field // to send again
	Done    int
	Skipped int
	// States counts the jobs that a preview would change, by state.
	States []stateCount
	// Early counts the jobs among them that would start before their time.
	Early int
	// More is true if not all jobs were read.
	More bool
	// Going is true while the action is performed, and false in the preview.
	Going bool
	Jobs  []management.JobSummary
}

// stateCount is a number of jobs in a state.
type stateCount struct {
	State amboy.JobState
	Jobs  int
}

// place is the progress of an action on many jobs: the current filter, and the cursor in
// its jobs.
type place struct {
	part   int
	cursor string
}

// targets returns the filters that select the jobs of a form: the jobs that were picked
// individually, or all that its filter selects.
func targets(form url.Values) (filters []management.JobFilter, picks []management.JobRef, err error) {
	switch which := form.Get("which"); which {
	case "all":
		var filter management.JobFilter
		filter, err = parseFilter(form)
		return []management.JobFilter{filter}, nil, err
	case "picked":
		picks, err = parsePicks(form["pick"])
		return pickFilters(picks), picks, err
	default:
		return nil, nil, invalid("which", which, "must be all or picked")
	}
}

// pick encodes a job as the value of a form field.
func pick(ref management.JobRef) string {
	return url.PathEscape(encodeQueue(ref.Queue)) + "/" + url.PathEscape(ref.ID)
}

func parsePicks(values []string) ([]management.JobRef, error) {
	const rule = "must be the escaped queue and ID of a job, separated by a slash"
	var picks []management.JobRef
	if len(values) > management.MaxFilterValues {
		return nil, invalid("pick", strconv.Itoa(len(values))+" jobs", "must have at most "+strconv.Itoa(management.MaxFilterValues)+" jobs")
	}
	for _, value := range values {
		queue, id, found := strings.Cut(value, "/")
		if !found {
			return nil, invalid("pick", value, rule)
		}
		encoded, err := url.PathUnescape(queue)
		if err != nil {
			return nil, invalid("pick", value, rule)
		}
		queue, err = decodeQueue(encoded)
		if err != nil {
			return nil, err
		}
		id, err = url.PathUnescape(id)
		if err != nil || id == "" {
			return nil, invalid("pick", value, rule)
		}
		picks = append(picks, management.JobRef{Queue: queue, ID: id})
	}
	if len(picks) == 0 {
		return nil, invalid("pick", "", "must have at least one job: select some in the list")
	}
	return picks, nil
}

// pickFilters returns a filter for each queue of some jobs.
func pickFilters(picks []management.JobRef) []management.JobFilter {
	var filters []management.JobFilter
	for _, ref := range picks {
		i := slices.IndexFunc(filters, func(f management.JobFilter) bool { return f.Queues[0] == ref.Queue })
		if i < 0 {
			i = len(filters)
			filters = append(filters, management.JobFilter{Queues: []string{ref.Queue}})
		}
		filters[i].IDs = append(filters[i].IDs, ref.ID)
	}
	return filters
}

// actOnMany previews an action on many jobs, and performs it after it was confirmed.
func (d *Dashboard) actOnMany(w http.ResponseWriter, r *http.Request) error {
	form := r.PostForm
	err := refuseUnknown(form, append(slices.Concat(filterFields, actionFields),
		"which", "pick", "step", "part", "cursor", "done", "skipped")...)
	if err != nil {
		return err
	}
	action, err := parseAction(form)
	if err != nil {
		return err
	}
	filters, picks, err := targets(form)
	if err != nil {
		return err
	}
	data := actData{Action: action, Picks: picks, Fields: resent(form), Back: "jobs"}
	kept := keptFilter(form)
	if kept != "" {
		data.Back += "?" + kept
	}
	if len(picks) == 0 {
		data.Filter = filterList(filters[0])
	}
	switch step := form.Get("step"); step {
	case "preview":
		return d.previewMany(w, r, filters, data)
	case "do":
		return d.doMany(w, r, filters, data)
	default:
		return invalid("step", step, "must be preview or do")
	}
}

// resent returns the fields of a form that the next form needs too: the action, and the
// selection of jobs.
func resent(form url.Values) []field {
	names := append(slices.Clone(actionFields), "which")
	if form.Get("which") == "picked" {
		names = append(names, "pick")
	}
	names = append(names, filterFields...)
	var fields []field
	for _, name := range names {
		for _, value := range given(form, name) {
			fields = append(fields, field{Name: name, Value: value})
		}
	}
	return fields
}

func (d *Dashboard) previewMany(w http.ResponseWriter, r *http.Request, filters []management.JobFilter, data actData) error {
	run := massRun{inspector: d.options.Inspector(r), filters: filters, action: data.Action, dry: true, step: previewStep}
	err := run.until(r, time.Now().Add(previewTime), previewMost)
	if err != nil {
		return err
	}
	data.Done, data.Skipped, data.More = run.done, run.skipped, !run.ended()
	var changed []amboy.JobState
	for _, state := range amboy.JobStates() {
		if n := run.states.Of(state); n > 0 {
			data.States = append(data.States, stateCount{state, n})
			changed = append(changed, state)
		}
	}
	if data.Action.Kind == management.Retry {
		data.Early = run.states.Scheduled
	}
	for _, filter := range filters {
		room := previewJobs - len(data.Jobs)
		if room == 0 || len(changed) == 0 {
			break
		}
		filter.States = changed // among those of the filter
		page, err := run.inspector.FindJobs(r.Context(), filter, management.PageRequest{Limit: room})
		if err != nil {
			return err
		}
		data.Jobs = append(data.Jobs, page.Jobs...)
	}
	return d.show(w, http.StatusOK, "act", d.view(r, "jobs", actionLabel(data.Action.Kind)+": preview", data))
}

// doMany acts for a few seconds. If jobs are left, the page contains a form that continues.
func (d *Dashboard) doMany(w http.ResponseWriter, r *http.Request, filters []management.JobFilter, data actData) error {
	run := massRun{inspector: d.options.Inspector(r), filters: filters, action: data.Action, step: actStep}
	err := run.resume(r.PostForm)
	if err != nil {
		return err
	}
	err = run.until(r, time.Now().Add(actTime), management.MaxActLimit)
	if err != nil {
		return &partError{run.done, err}
	}
	if run.ended() {
		back := withNotice(w, r, "jobs", string(data.Action.Kind), run.done, run.skipped)
		if kept := keptFilter(r.PostForm); kept != "" {
			back += "&" + kept
		}
		redirect(w, r, back)
		return nil
	}
	data.Done, data.Skipped, data.More, data.Going = run.done, run.skipped, true, true
	for name, value := range map[string]string{
		"part": strconv.Itoa(run.at.part), "cursor": run.at.cursor,
		"done": strconv.Itoa(run.done), "skipped": strconv.Itoa(run.skipped),
	} {
		data.Fields = append(data.Fields, field{Name: name, Value: value})
	}
	return d.show(w, http.StatusOK, "act", d.view(r, "jobs", actionLabel(data.Action.Kind)+": in progress", data))
}

// keptFilter returns the query that leads back to the filtered list of a form, whose filter is not
// used if jobs were picked.
func keptFilter(form url.Values) string {
	query := url.Values{}
	for _, name := range filterFields {
		if values := given(form, name); len(values) > 0 {
			query[name] = values
		}
	}
	return query.Encode()
}

// massRun performs an action on many jobs.
type massRun struct {
	inspector     management.Inspector
	filters       []management.JobFilter
	action        management.Action
	dry           bool
	step          int // the number of jobs per call
	at            place
	done, skipped int
	states        management.StateCounts
}

// resume restores the progress of an earlier request.
func (r *massRun) resume(form url.Values) error {
	for name, n := range map[string]*int{"part": &r.at.part, "done": &r.done, "skipped": &r.skipped} {
		if form.Get(name) == "" {
			continue
		}
		value, err := parseInt(form, name)
		if err != nil {
			return err
		}
		if value < 0 {
			return invalid(name, form.Get(name), "must not be negative")
		}
		*n = value
	}
	r.at.cursor = form.Get("cursor")
	return nil
}

func (r *massRun) ended() bool { return r.at.part >= len(r.filters) }

// until acts until a time, or until it has read a number of jobs.
func (r *massRun) until(request *http.Request, end time.Time, most int) error {
	for read := 0; !r.ended() && read < most; {
		acted, err := r.inspector.Act(request.Context(), management.ActRequest{
			Action: r.action, Filter: r.filters[r.at.part], All: r.filters[r.at.part].SelectsAll(), Cursor: r.at.cursor, Limit: r.step, DryRun: r.dry,
		})
		r.done += acted.Done // also by a call that failed after some jobs
		if err != nil {
			return err
		}
		r.skipped += acted.Skipped
		r.states.Add(acted.States)
		read += acted.Done + acted.Skipped
		r.at.cursor = acted.Next
		if acted.Next == "" {
			r.at.part++
		}
		if !time.Now().Before(end) {
			return nil
		}
	}
	return nil
}
