// Package hostiletest provides an Inspector with texts that do harm if they are shown
// unescaped. It is for tests of code that shows them.
package hostiletest

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"reflect"
	"time"

	"github.com/mongodb/amboy/management"
)

// Inspector returns the results of another Inspector with every text replaced. ActOn fails,
// and Watch ends, with an error that contains the text.
type Inspector struct {
	management.Inspector
	// Text replaces every text.
	Text string
	// Known is the name of a queue of the other Inspector. It replaces the name in requests.
	Known string
}

// put replaces the texts in a value.
func put[T any](i *Inspector, value T, err error) (T, error) {
	i.replace(reflect.ValueOf(&value).Elem())
	return value, err
}

func (i *Inspector) replace(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(i.Text)
	case reflect.Pointer:
		if !v.IsNil() {
			i.replace(v.Elem())
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for n := range v.NumField() {
			if v.Type().Field(n).Name != "Next" { // otherwise the pages would never end
				i.replace(v.Field(n))
			}
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`{"a":"\u001b[31m` + "\u009b\u202e\U000E0001" + `"}`))
			return
		}
		for n := range v.Len() {
			i.replace(v.Index(n))
		}
	case reflect.Map:
		if v.Len() > 0 {
			v.Set(reflect.ValueOf(map[string]string{i.Text: i.Text}))
		}
	}
}

// Queues returns the queues with their texts replaced.
func (i *Inspector) Queues(ctx context.Context) ([]management.Queue, error) {
	queues, err := i.Inspector.Queues(ctx)
	return put(i, queues, err)
}

// FindQueues returns the queues with their texts replaced.
func (i *Inspector) FindQueues(ctx context.Context, f management.QueueFilter, p management.PageRequest) (management.QueuePage, error) {
	page, err := i.Inspector.FindQueues(ctx, f, p)
	return put(i, page, err)
}

// SumQueues returns the totals with their texts replaced.
func (i *Inspector) SumQueues(ctx context.Context) (management.QueueTotals, error) {
	totals, err := i.Inspector.SumQueues(ctx)
	return put(i, totals, err)
}

// Queue returns the queue Known with its texts replaced.
func (i *Inspector) Queue(ctx context.Context, _ string) (management.Queue, error) {
	queue, err := i.Inspector.Queue(ctx, i.Known)
	return put(i, queue, err)
}

// Watch yields the queues once, and then an error with the text.
func (i *Inspector) Watch(ctx context.Context, _ time.Duration) iter.Seq2[[]management.Queue, error] {
	return func(yield func([]management.Queue, error) bool) {
		if queues, err := i.Queues(ctx); yield(queues, err) {
			yield(nil, errors.New(i.Text))
		}
	}
}

// FindJobs returns the jobs with their texts replaced.
func (i *Inspector) FindJobs(ctx context.Context, f management.JobFilter, p management.PageRequest) (management.JobPage, error) {
	page, err := i.Inspector.FindJobs(ctx, f, p)
	return put(i, page, err)
}

// ErrorGroups returns the groups with their texts replaced.
func (i *Inspector) ErrorGroups(ctx context.Context, req management.ErrorGroupRequest) (management.ErrorGroups, error) {
	groups, err := i.Inspector.ErrorGroups(ctx, req)
	return put(i, groups, err)
}

// Job returns a job of the queue Known with its texts replaced.
func (i *Inspector) Job(ctx context.Context, _, id string) (management.Job, error) {
	job, err := i.Inspector.Job(ctx, i.Known, id)
	return put(i, job, err)
}

// Graph returns the graph with its texts replaced.
func (i *Inspector) Graph(ctx context.Context, queue, id string, distance int) (management.Graph, error) {
	graph, err := i.Inspector.Graph(ctx, queue, id, distance)
	return put(i, graph, err)
}

// CreateJob returns the result with its texts replaced.
func (i *Inspector) CreateJob(ctx context.Context, job management.NewJob) (management.Created, error) {
	created, err := i.Inspector.CreateJob(ctx, job)
	return put(i, created, err)
}

// ActOn fails with the text as its error.
func (i *Inspector) ActOn(context.Context, string, string, management.Action) (management.Acted, error) {
	return management.Acted{}, errors.New(i.Text)
}

// Scopes returns the scopes with their texts replaced.
func (i *Inspector) Scopes(ctx context.Context, f management.ScopeFilter, p management.PageRequest) (management.ScopePage, error) {
	page, err := i.Inspector.Scopes(ctx, f, p)
	return put(i, page, err)
}

// Processes returns the processes with their texts replaced.
func (i *Inspector) Processes(ctx context.Context) ([]management.Process, error) {
	processes, err := i.Inspector.Processes(ctx)
	return put(i, processes, err)
}

// Activity returns the activity with its texts replaced.
func (i *Inspector) Activity(ctx context.Context, req management.ActivityRequest) (management.Activity, error) {
	activity, err := i.Inspector.Activity(ctx, req)
	return put(i, activity, err)
}

// Schedules returns the schedules with their texts replaced.
func (i *Inspector) Schedules(ctx context.Context) ([]management.Schedule, error) {
	schedules, err := i.Inspector.Schedules(ctx)
	return put(i, schedules, err)
}

// Diagnose returns the diagnosis with its texts replaced.
func (i *Inspector) Diagnose(ctx context.Context) (management.Diagnosis, error) {
	diagnosis, err := i.Inspector.(management.Diagnostician).Diagnose(ctx)
	return put(i, diagnosis, err)
}

// JobTypes lists the types of the inspector.
func (i *Inspector) JobTypes(ctx context.Context) ([]management.JobType, error) {
	return i.Inspector.(management.TypeLister).JobTypes(ctx)
}

// Audit returns the audit list with its texts replaced.
func (i *Inspector) Audit(ctx context.Context, filter management.AuditFilter, p management.PageRequest) (management.AuditPage, error) {
	page, err := i.Inspector.Audit(ctx, filter, p)
	return put(i, page, err)
}

func (i *Inspector) schedules() management.ScheduleManager {
	return i.Inspector.(management.ScheduleManager)
}

// StoredSchedules lists schedules with their texts replaced.
func (i *Inspector) StoredSchedules(ctx context.Context, filter management.ScheduleFilter, p management.PageRequest) (management.StoredSchedulePage, error) {
	page, err := i.schedules().StoredSchedules(ctx, filter, p)
	return put(i, page, err)
}

// StoredSchedule returns a schedule with its texts replaced.
func (i *Inspector) StoredSchedule(ctx context.Context, queue, name string) (management.StoredSchedule, error) {
	found, err := i.schedules().StoredSchedule(ctx, queue, name)
	return put(i, found, err)
}

// CreateSchedule creates a schedule of the inspector.
func (i *Inspector) CreateSchedule(ctx context.Context, queue, name string, spec management.ScheduleSpec) (management.StoredSchedule, error) {
	return i.schedules().CreateSchedule(ctx, queue, name, spec)
}

// ChangeSchedule changes a schedule of the inspector.
func (i *Inspector) ChangeSchedule(ctx context.Context, queue, name string, change management.ScheduleChange) (management.StoredSchedule, error) {
	return i.schedules().ChangeSchedule(ctx, queue, name, change)
}

// PauseSchedule pauses or resumes a schedule of the inspector.
func (i *Inspector) PauseSchedule(ctx context.Context, queue, name string, paused bool) (management.StoredSchedule, error) {
	return i.schedules().PauseSchedule(ctx, queue, name, paused)
}

// DeleteSchedule deletes a schedule of the inspector.
func (i *Inspector) DeleteSchedule(ctx context.Context, queue, name string) error {
	return i.schedules().DeleteSchedule(ctx, queue, name)
}

// TriggerSchedule triggers a schedule of the inspector.
func (i *Inspector) TriggerSchedule(ctx context.Context, queue, name, idempotencyKey string) (management.Created, error) {
	return i.schedules().TriggerSchedule(ctx, queue, name, idempotencyKey)
}
