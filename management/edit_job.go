package management

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// Edit names what EditJob does, in a StateError and in the audit list. It is no action of Act.
const Edit ActionKind = "edit"

// The names of the fields that EditJob changes.
const (
	FieldArgs     = "args"
	FieldPriority = "priority"
	FieldDue      = "due"
)

// JobEdit changes a job that has not started. Fields that are nil stay as they are.
type JobEdit struct {
	// Args are the new arguments, as JSON.
	Args     json.RawMessage `json:"args,omitempty"`
	Priority *int            `json:"priority,omitempty"`
	// Due is the new time at which the job may start; a time that has passed means now. It must not
	// be after the deadline.
	Due *time.Time `json:"due,omitempty"`
	// Revision is the Job.Revision of the job as it was read: the edit is refused if the job
	// changed since. If it is empty, the edit applies to the job as it is.
	Revision string `json:"revision,omitempty"`
	// DryRun changes nothing, and reports what would change.
	DryRun bool `json:"dry_run,omitempty"`
}

// JobEdited is the result of EditJob.
type JobEdited struct {
	// Changes are the fields that changed, or that a dry run would change.
	Changes []FieldChange `json:"changes"`
	// Revision is that of the job after the edit.
	Revision string `json:"revision"`
}

// FieldChange is the change of a field of a job. Values are as Job has them.
type FieldChange struct {
	// Field is the name of the changed field, From its value before the change, and To its value
	// after it.
	Field string          `json:"field"`
	From  json.RawMessage `json:"from,omitempty"`
	To    json.RawMessage `json:"to"`
}

// Validate returns an *InvalidArgumentError for each field that is not valid, joined. It does
// not check Args against the type of the job.
func (e JobEdit) Validate() error {
	errs := []error{NewJob{Args: e.Args}.validateArgs()}
	if e.Args == nil && e.Priority == nil && e.Due == nil {
		errs = append(errs, invalid("edit", "", "must change args, priority or due"))
	}
	if e.Due != nil {
		errs = append(errs, validTime(FieldDue, *e.Due))
	}
	if _, err := strconv.Atoi(e.Revision); e.Revision != "" && err != nil {
		errs = append(errs, invalid("revision", e.Revision, "must be the revision of a job"))
	}
	return errors.Join(errs...)
}

var editableStates = append(slices.Clone(notStartedStates), amboy.StateParked)

func revisionOf(r *driver.Record) string { return strconv.Itoa(r.Status.ModificationCount) }

func (i *inspector) EditJob(ctx context.Context, queueName, id string, edit JobEdit) (JobEdited, error) {
	if err := i.check(validQueue(queueName), validJobID(id), edit.Validate()); err != nil {
		return JobEdited{}, fmt.Errorf("editing a job: %w", err)
	}
	if _, err := i.resolveQueues([]string{queueName}); err != nil {
		return JobEdited{}, fmt.Errorf("editing job %q: %w", id, err)
	}
	edited, err := i.editJob(ctx, queueName, id, edit)
	if err != nil {
		err = fmt.Errorf("editing job %q of queue %q: %w", id, queueName, err)
	}
	var invalidArgument *InvalidArgumentError
	if edit.DryRun || errors.As(err, &invalidArgument) {
		return edited, err
	}
	entry := AuditEntry{What: string(Edit), Queue: queueName, JobID: id, Detail: edit.detail()}
	if err == nil {
		entry.Done, entry.Skipped = min(len(edited.Changes), 1), 1-min(len(edited.Changes), 1)
	}
	return edited, i.record(ctx, entry, err)
}

// detail describes the edit without the arguments, which may contain secrets.
func (e JobEdit) detail() string {
	if e.Args != nil {
		e.Args = json.RawMessage(`"changed"`)
	}
	return detailOf(e)
}

// editJob edits a job as it is now. If the edit is not of a certain revision, it reads the job
// again if that changed meanwhile.
func (i *inspector) editJob(ctx context.Context, queueName, id string, edit JobEdit) (JobEdited, error) {
	for range maxTries {
		r, err := i.get(ctx, queueName, id)
		if err != nil {
			return JobEdited{}, err
		}
		err = i.refuseEdit(r, edit)
		if err != nil {
			return JobEdited{}, err
		}
		fields, changes, err := i.editedFields(ctx, r, edit)
		edited := JobEdited{Changes: changes, Revision: revisionOf(r)}
		if err != nil || edit.DryRun || len(changes) == 0 {
			return edited, err
		}
		done, err := i.actOnSome(ctx, queueName, []string{id}, editableStates, driver.Action{Kind: driver.Edit, Edit: fields}, false)
		if err != nil {
			return JobEdited{}, err
		}
		if done > 0 {
			edited.Revision = strconv.Itoa(fields.Count + 1)
			return edited, nil
		}
	}
	return JobEdited{}, fmt.Errorf("job changed %d times while it was edited: %w", maxTries, amboy.ErrLeaseLost)
}

// refuseEdit returns an error if the state of a job, or its revision, forbids an edit.
func (i *inspector) refuseEdit(r *driver.Record, edit JobEdit) error {
	refuse := func(rule string) error {
		return &StateError{Job: refOf(r), State: driver.StateOf(r, i.store.Now()), Action: Edit, Rule: rule}
	}
	switch {
	case !slices.Contains(editableStates, driver.StateOf(r, i.store.Now())):
		return refuse("requires a job that has not started")
	case edit.Revision != "" && edit.Revision != revisionOf(r):
		return refuse("is of a version that has changed since: read the job again")
	default:
		return nil
	}
}

// editedFields returns what an edit changes of a job.
func (i *inspector) editedFields(ctx context.Context, r *driver.Record, edit JobEdit) (*driver.EditedFields, []FieldChange, error) {
	fields := &driver.EditedFields{Count: r.Status.ModificationCount}
	changes := []FieldChange{}
	if edit.Args != nil {
		change, err := i.editArgs(ctx, r, edit.Args, fields)
		if err != nil {
			return nil, changes, err
		}
		if change != nil {
			changes = append(changes, *change)
		}
	}
	if edit.Priority != nil && *edit.Priority != r.Priority {
		fields.Priority = edit.Priority
		changes = append(changes, FieldChange{FieldPriority, jsonText(r.Priority), jsonText(*edit.Priority)})
	}
	if edit.Due != nil && !sameTime(r.TimeInfo.WaitUntil, *edit.Due) {
		if isTooLate(r, *edit.Due) {
			return nil, changes, invalid(FieldDue, formatTime(*edit.Due), "must not be after the deadline, "+formatTime(r.TimeInfo.DispatchBy))
		}
		fields.WaitUntil = edit.Due
		changes = append(changes, FieldChange{FieldDue, jsonText(showable(r.TimeInfo.WaitUntil).UTC()), jsonText(edit.Due.UTC())})
	}
	return fields, changes, nil
}

// editArgs adds other arguments to the fields, and returns the change; nil if it changes
// nothing.
func (i *inspector) editArgs(ctx context.Context, r *driver.Record, args json.RawMessage, fields *driver.EditedFields) (*FieldChange, error) {
	readable, hidden := i.revealed(ctx, r)
	if hidden != "" {
		return nil, fmt.Errorf("the arguments are %s: %w", hidden, ErrUnsupported)
	}
	body, err := i.store.ReplaceArgs(r, args)
	var wrong *amboy.InvalidJobError
	switch {
	case errors.As(err, &wrong):
		return nil, invalid(FieldArgs, string(args), wrong.Rule)
	case errors.Is(err, queue.ErrFixedArgs):
		return nil, fmt.Errorf("%w: %w", err, ErrUnsupported)
	case err != nil:
		return nil, err
	}
	changed := *r
	changed.Job = body
	after, err := i.store.Decode(&changed)
	if err != nil {
		return nil, err
	}
	change := &FieldChange{Field: FieldArgs}
	change.From, _ = argsOf(readable, false)
	change.To, _ = argsOf(after, false)
	if bytes.Equal(change.From, change.To) {
		return nil, nil
	}
	fields.Body = &body
	return change, nil
}

func jsonText(value any) json.RawMessage {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // a number or a valid time can be encoded
	}
	return text
}

// editable returns the fields of a job that can be edited.
func (i *inspector) editable(r *driver.Record) []string {
	fields := []string{}
	if !slices.Contains(editableStates, driver.StateOf(r, i.store.Now())) {
		return fields
	}
	if i.store.CheckArgs(r) == nil {
		fields = append(fields, FieldArgs)
	}
	return append(fields, FieldPriority, FieldDue)
}
