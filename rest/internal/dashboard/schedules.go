package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/schedule"
)

// scheduleRoutes lists the routes of schedules.
func (d *Dashboard) scheduleRoutes() []Route {
	const one = "/queues/{queue}/schedules/{name}"
	return []Route{
		{"GET", "/schedules", []string{"read"}, "stored schedules, and those that processes run", d.page(d.list(d.schedules))},
		{"GET", "/schedules/new", []string{"read"}, "form for a schedule", d.page(d.newSchedule)},
		{"POST", "/schedules", []string{"read", "schedule"}, "store a schedule", d.form(d.createSchedule)},
		{"GET", one, []string{"read"}, "one stored schedule", d.page(d.schedule)},
		{"POST", one, []string{"read", "schedule", "trigger"}, "run, pause, change or delete a schedule", d.form(d.actOnSchedule)},
	}
}

// schedulesOf returns the manager of stored schedules of a request.
func (d *Dashboard) schedulesOf(r *http.Request) (management.ScheduleManager, error) {
	manager, ok := d.options.Inspector(r).(management.ScheduleManager)
	if !ok {
		return nil, fmt.Errorf("managing stored schedules: %w", management.ErrUnsupported)
	}
	return manager, nil
}

// schedulesData is the data of the page of schedules.
type schedulesData struct {
	Name   string // of the filter
	Queues []string
	Stored []management.StoredSchedule
	// Running are the schedules in the code of processes. They are on the first page only, and not filtered.
	Running []management.Schedule
	// New is the address of the form for a schedule; empty if the request may not store one.
	New         string
	First, Next string
}

func (d *Dashboard) schedules(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	err := refuseUnknown(query, append(slices.Clone(noticeFields), "queue", queuePart, "name", "cursor")...)
	if err != nil {
		return err
	}
	data := schedulesData{Name: query.Get("name")}
	data.Queues, err = queuesOf(query)
	if err != nil {
		return err
	}
	filter := management.ScheduleFilter{Name: data.Name, Queues: data.Queues}
	manager, err := d.schedulesOf(r)
	if err != nil {
		return err
	}
	page, err := manager.StoredSchedules(r.Context(), filter, management.PageRequest{Cursor: query.Get("cursor")})
	if err != nil {
		return err
	}
	data.Stored = page.Schedules
	if data.Name == "" && len(data.Queues) == 0 && query.Get("cursor") == "" {
		data.Running, err = d.options.Inspector(r).Schedules(r.Context())
		if err != nil {
			return err
		}
	}
	for _, field := range noticeFields {
		query.Del(field)
	}
	data.First, data.Next = pageLinks("schedules", query, page.Next)
	data.New = d.newScheduleOf(r, data.Queues)
	return d.show(w, http.StatusOK, "schedules", d.view(r, "schedules", "Schedules", data))
}

// newScheduleOf returns the address of the form for a schedule, relative to the top of the site: for any queue,
// or for the first of some queues in which the request may store schedules.
func (d *Dashboard) newScheduleOf(r *http.Request, queues []string) string {
	const form = "schedules/new"
	if d.options.Allowed(r, "schedule", "") {
		return form
	}
	for _, queue := range queues {
		if d.options.Allowed(r, "schedule", queue) {
			return form + "?" + withQueues([]string{queue})
		}
	}
	return ""
}

// TickURL returns the address of the job of a tick of a schedule in code.
func (v view) TickURL(s management.Schedule, tick time.Time) string {
	return v.JobURL(management.JobRef{Queue: s.Queue, ID: schedule.TickID(s.Name, tick)})
}

// ScheduleURL returns the address of a stored schedule.
func (v view) ScheduleURL(s management.StoredSchedule) string {
	return v.Base + schedulePath(s.Queue, s.Name)
}

// schedulePath returns the path of a stored schedule.
func schedulePath(queue, name string) string {
	return queuePath(queue) + "/schedules/" + url.PathEscape(encodeID(name))
}

func scheduleOf(r *http.Request) (queue, name string, err error) {
	queue, err = queueOf(r)
	if err != nil {
		return "", "", err
	}
	name, err = decodeID(r.PathValue("name"))
	return queue, name, err
}

// scheduleForm is the data of the form for a schedule.
type scheduleForm struct {
	management.StoredSchedule
	// IsNew is true if the schedule does not exist yet.
	IsNew bool
}

func (d *Dashboard) newSchedule(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	err := refuseUnknown(query, "queue")
	if err != nil {
		return err
	}
	form := scheduleForm{IsNew: true}
	filter := management.ScheduleFilter{}
	if query.Has("queue") {
		form.Queue, err = decodeQueue(query.Get("queue"))
		if err != nil {
			return err
		}
		filter.Queues = []string{form.Queue}
	}
	manager, err := d.schedulesOf(r)
	if err != nil {
		return err
	}
	// The form is only for requests that may read schedules.
	_, err = manager.StoredSchedules(r.Context(), filter, management.PageRequest{Limit: 1})
	if err != nil {
		return err
	}
	// The script must not replace the form while it is filled in.
	shown := d.view(r, "schedules", "New schedule", form)
	shown.Still = true
	return d.show(w, http.StatusOK, "schedule-new", shown)
}

// scheduleFields are the fields of the form for a schedule.
var scheduleFields = []string{"cron", "zone", "every", "type", "outside", "args", "priority", "catch_up", "max_catch_up"}

// parseSchedule applies a form to a specification. Arguments that are left out stay as they are
// stored.
func parseSchedule(form url.Values, spec management.ScheduleSpec) (management.ScheduleSpec, error) {
	spec.Cron, spec.Zone = strings.TrimSpace(form.Get("cron")), strings.TrimSpace(form.Get("zone"))
	spec.Every = 0
	if text := strings.TrimSpace(form.Get("every")); text != "" {
		every, err := time.ParseDuration(text)
		if err != nil {
			return spec, invalid("every", text, "must be a duration such as 90s, 15m or 2h")
		}
		spec.Every = management.Duration(every)
	}
	spec.Type = form.Get("type")
	var err error
	spec.Outside, err = parseTrue(form, "outside")
	if err != nil {
		return spec, err
	}
	spec.Args, spec.Bytes = nil, nil
	if text := strings.TrimSpace(form.Get("args")); text != "" {
		spec.Args = json.RawMessage(text)
	}
	spec.CatchUp = schedule.CatchUp(form.Get("catch_up"))
	spec.Priority, spec.MaxCatchUp = 0, 0
	for name, n := range map[string]*int{"priority": &spec.Priority, "max_catch_up": &spec.MaxCatchUp} {
		if form.Get(name) == "" {
			continue
		}
		*n, err = parseInt(form, name)
		if err != nil {
			return spec, err
		}
	}
	return spec, nil
}

func (d *Dashboard) createSchedule(w http.ResponseWriter, r *http.Request) error {
	err := refuseUnknown(r.PostForm, append(slices.Clone(scheduleFields), "queue", "name")...)
	if err != nil {
		return err
	}
	queue, err := decodeQueue(r.PostForm.Get("queue"))
	if err != nil {
		return err
	}
	spec, err := parseSchedule(r.PostForm, management.ScheduleSpec{})
	if err != nil {
		return err
	}
	manager, err := d.schedulesOf(r)
	if err != nil {
		return err
	}
	made, err := manager.CreateSchedule(r.Context(), queue, strings.TrimSpace(r.PostForm.Get("name")), spec)
	if err != nil {
		return err
	}
	redirect(w, r, withNotice(w, r, schedulePath(made.Queue, made.Name), "schedule-created", 1, 0))
	return nil
}

func (d *Dashboard) schedule(w http.ResponseWriter, r *http.Request) error {
	err := refuseUnknown(r.URL.Query(), noticeFields...)
	if err != nil {
		return err
	}
	found, err := d.scheduleIn(r)
	if err != nil {
		return err
	}
	return d.show(w, http.StatusOK, "schedule", d.view(r, "schedules", "Schedule "+found.Name, scheduleForm{StoredSchedule: found}))
}

// scheduleIn returns the schedule in the path of a request.
func (d *Dashboard) scheduleIn(r *http.Request) (management.StoredSchedule, error) {
	queue, name, err := scheduleOf(r)
	if err != nil {
		return management.StoredSchedule{}, err
	}
	manager, err := d.schedulesOf(r)
	if err != nil {
		return management.StoredSchedule{}, err
	}
	return manager.StoredSchedule(r.Context(), queue, name)
}

// actOnSchedule runs, pauses, resumes, changes or deletes a schedule. A deletion must be confirmed.
func (d *Dashboard) actOnSchedule(w http.ResponseWriter, r *http.Request) error {
	form := r.PostForm
	err := refuseUnknown(form, append(slices.Clone(scheduleFields), "key", "do", "confirmed", "revision")...)
	if err != nil {
		return err
	}
	queue, name, err := scheduleOf(r)
	if err != nil {
		return err
	}
	manager, err := d.schedulesOf(r)
	if err != nil {
		return err
	}
	ctx, back, did := r.Context(), schedulePath(queue, name), ""
	switch do := form.Get("do"); do {
	case "trigger":
		var created management.Created
		created, err = manager.TriggerSchedule(ctx, queue, name, form.Get("key"))
		back, did = jobPath(created.JobRef), didOnce("schedule-triggered", created)
	case "pause", "resume":
		_, err = manager.PauseSchedule(ctx, queue, name, do == "pause")
		did = "schedule-" + do + "d"
	case "change":
		err = changeSchedule(ctx, manager, queue, name, form)
		did = "schedule-changed"
	case "delete":
		if form.Get("confirmed") == "" {
			var found management.StoredSchedule
			found, err = manager.StoredSchedule(ctx, queue, name)
			if err != nil {
				return err
			}
			return d.show(w, http.StatusOK, "schedule-delete", d.view(r, "schedules", "Delete a schedule?", found))
		}
		err = manager.DeleteSchedule(ctx, queue, name)
		if errors.Is(err, management.ErrUnknownSchedule) {
			err = nil // another operator, or the same form, deleted it
		}
		back, did = "schedules", "schedule-deleted"
	default:
		return invalid("do", do, "must be trigger, pause, resume, change or delete")
	}
	if err != nil {
		return err
	}
	redirect(w, r, withNotice(w, r, back, did, 1, 0))
	return nil
}

func changeSchedule(ctx context.Context, manager management.ScheduleManager, queue, name string, form url.Values) error {
	found, err := manager.StoredSchedule(ctx, queue, name)
	if err != nil {
		return err
	}
	spec, err := parseSchedule(form, found.ScheduleSpec)
	if err != nil {
		return err
	}
	_, err = manager.ChangeSchedule(ctx, queue, name, management.ScheduleChange{ScheduleSpec: spec, Revision: form.Get("revision")})
	return err
}

// scheduleNotices are the messages after an action on a schedule.
var scheduleNotices = map[string]string{
	"schedule-created":   "The schedule was stored.",
	"schedule-changed":   "The schedule was changed.",
	"schedule-paused":    "The schedule was paused.",
	"schedule-resumed":   "The schedule was resumed.",
	"schedule-deleted":   "The schedule was deleted.",
	"schedule-triggered": "This job was enqueued by its schedule just now.",
}
