package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/amboy/management"
)

// editData is the data of the form for a job that has not started, and of its preview.
type editData struct {
	management.Job
	// Fields are the fields that can be edited here.
	Fields []string
	// Args and Due are the texts in the form.
	Args, Due string
	// Preview is true in the preview, which shows the Changes. Resent are the fields to send again.
	Preview bool
	Changes []management.FieldChange
	Resent  []field
}

// Can reports whether the form has a field.
func (e editData) Can(name string) bool { return slices.Contains(e.Fields, name) }

// editFields are the fields of the form. The previous due time is sent as it was shown, because the
// form has whole seconds.
var editFields = []string{"revision", "args", "priority", "due", "due_was"}

// edit shows the form for a job that has not started.
func (d *Dashboard) edit(w http.ResponseWriter, r *http.Request) error {
	err := refuseUnknown(r.URL.Query())
	if err != nil {
		return err
	}
	job, err := d.jobToEdit(r)
	if err != nil {
		return err
	}
	if len(job.Editable) == 0 {
		return &management.StateError{Job: job.JobRef, State: job.State, Action: management.Edit, Rule: "requires a job that has not started"}
	}
	v := d.view(r, "jobs", "Edit job "+job.ID, editData{Job: job, Fields: d.editable(r, job), Args: pretty(job.Args), Due: inputTime(job.Due)})
	v.Still = true
	return d.show(w, http.StatusOK, "edit", v)
}

func (d *Dashboard) jobToEdit(r *http.Request) (management.Job, error) {
	ref, err := jobOf(r)
	if err != nil {
		return management.Job{}, err
	}
	return d.options.Inspector(r).Job(r.Context(), ref.Queue, ref.ID)
}

// editable returns the fields of a job that a request may edit on a page. A page that can't show
// all of the arguments does not offer to replace them.
func (d *Dashboard) editable(r *http.Request, job management.Job) []string {
	if !d.options.Allowed(r, "edit", job.Queue) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(job.Editable), func(name string) bool {
		return name == management.FieldArgs &&
			(job.Args == nil || !isShownWhole(job.Args) || !d.options.MayPut(r, "edit", job.Queue, job.Type))
	})
}

// doEdit previews an edit, and makes it after it was confirmed.
func (d *Dashboard) doEdit(w http.ResponseWriter, r *http.Request) error {
	form := r.PostForm
	err := refuseUnknown(form, append(slices.Clone(editFields), "step")...)
	if err != nil {
		return err
	}
	edit, err := parseEdit(form)
	if err != nil {
		return err
	}
	ref, err := jobOf(r)
	if err != nil {
		return err
	}
	inspector := d.options.Inspector(r)
	switch step := form.Get("step"); step {
	case "preview":
		edit.DryRun = true
		edited, err := inspector.EditJob(r.Context(), ref.Queue, ref.ID, edit)
		if err != nil {
			return err
		}
		job, err := inspector.Job(r.Context(), ref.Queue, ref.ID)
		if err != nil {
			return err
		}
		data := editData{Job: job, Preview: true, Changes: edited.Changes}
		for _, name := range editFields {
			if form.Has(name) {
				data.Resent = append(data.Resent, field{Name: name, Value: form.Get(name)})
			}
		}
		return d.show(w, http.StatusOK, "edit", d.view(r, "jobs", "Edit a job: preview", data))
	case "do":
		edited, err := inspector.EditJob(r.Context(), ref.Queue, ref.ID, edit)
		if err != nil {
			return err
		}
		redirect(w, r, withNotice(w, r, jobPath(ref), "edit", min(1, len(edited.Changes)), 1-min(1, len(edited.Changes))))
		return nil
	default:
		return invalid("step", step, "must be preview or do")
	}
}

func parseEdit(form url.Values) (management.JobEdit, error) {
	edit := management.JobEdit{Revision: form.Get("revision")}
	if form.Has("args") {
		args, err := parseArgs(form)
		if err != nil {
			return edit, err
		}
		edit.Args = args
	}
	if form.Get("priority") != "" {
		priority, err := parseInt(form, "priority")
		if err != nil {
			return edit, err
		}
		edit.Priority = &priority
	}
	if form.Has("due") {
		due, err := parseTime(form, "due")
		if err != nil {
			return edit, err
		}
		was, err := parseTime(form, "due_was")
		if err != nil {
			return edit, err
		}
		if !due.Equal(was) { // browsers leave out seconds that are 0
			edit.Due = &due
		}
	}
	return edit, nil
}

// parseArgs reads the arguments of a form; nil if there are none.
func parseArgs(form url.Values) (json.RawMessage, error) {
	text := strings.TrimSpace(form.Get("args"))
	if text == "" {
		return nil, nil
	}
	var syntax *json.SyntaxError
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		rule := "must be JSON: " + err.Error()
		if errors.As(err, &syntax) {
			rule = fmt.Sprintf("must be JSON: %v, in line %d", syntax, 1+strings.Count(text[:min(int(syntax.Offset), len(text))], "\n"))
		}
		return nil, invalid("args", text, rule)
	}
	return json.RawMessage(text), nil
}

// createData is the data of the form for a new job.
type createData struct {
	Queue string
	// Like is the job that it copies; nil for none.
	Like  *management.Job
	Types []string
	// Outside is true if the type may be another one.
	Outside bool
	Type    string
	Args    string
	Tags    string
}

var createFields = []string{"key", "type", "id", "args", "priority", "due", "tags"}

// create shows the form for a new job, filled in as another job if the address names one.
func (d *Dashboard) create(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	err := refuseUnknown(query, "like")
	if err != nil {
		return err
	}
	name, err := queueOf(r)
	if err != nil {
		return err
	}
	inspector := d.options.Inspector(r)
	data := createData{Queue: name, Types: d.creatable(r, name), Outside: d.options.CreateOutside}
	if like := query.Get("like"); like != "" {
		var job management.Job
		job, err = inspector.Job(r.Context(), name, like)
		if err != nil {
			return err
		}
		if job.ArgsHidden != "" || job.ArgsMasked || !isShownWhole(job.Args) {
			return &management.StateError{Job: job.JobRef, State: job.State, Action: "copy", Rule: "is not possible on a page that does not show all of the arguments"}
		}
		data.Like, data.Type, data.Args, data.Tags = &job, job.Type, pretty(job.Args), strings.Join(job.Tags, "\n")
	} else if _, err = inspector.Queue(r.Context(), name); err != nil {
		return err
	}
	v := d.view(r, "jobs", "Create a job", data)
	v.Still = true
	return d.show(w, http.StatusOK, "create", v)
}

// creatable returns the types of jobs that a request may put in a queue.
func (d *Dashboard) creatable(r *http.Request, queue string) []string {
	return slices.DeleteFunc(slices.Clone(d.options.CreateTypes), func(jobType string) bool {
		return !d.options.MayPut(r, "create", queue, jobType)
	})
}

// doCreate puts a job, once for a form.
func (d *Dashboard) doCreate(w http.ResponseWriter, r *http.Request) error {
	form := r.PostForm
	err := refuseUnknown(form, createFields...)
	if err != nil {
		return err
	}
	name, err := queueOf(r)
	if err != nil {
		return err
	}
	job := management.NewJob{Queue: name, ID: form.Get("id"), Type: form.Get("type"), IdempotencyKey: form.Get("key")}
	job.Outside = !slices.Contains(d.options.CreateTypes, job.Type)
	job.Tags = strings.FieldsFunc(form.Get("tags"), func(c rune) bool { return c == '\n' || c == '\r' })
	if job.Args, err = parseArgs(form); err != nil {
		return err
	}
	if form.Get("priority") != "" {
		if job.Priority, err = parseInt(form, "priority"); err != nil {
			return err
		}
	}
	if job.Due, err = parseTime(form, "due"); err != nil {
		return err
	}
	created, err := d.options.Inspector(r).CreateJob(r.Context(), job)
	if err != nil {
		return err
	}
	redirect(w, r, withNotice(w, r, jobPath(created.JobRef), didOnce("create", created), 1, 0))
	return nil
}

// valueOf formats a value of a change.
func valueOf(change management.FieldChange, value json.RawMessage) string {
	var t time.Time
	if change.Field == management.FieldDue && json.Unmarshal(value, &t) == nil {
		if t.IsZero() {
			return "none: it may start at once"
		}
		return stamp(t)
	}
	return pretty(value)
}
