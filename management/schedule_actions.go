package management

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/schedule"
)

// The What of audit entries about schedules.
const (
	WhatCreateSchedule  = "schedule.create"
	WhatChangeSchedule  = "schedule.change"
	WhatPauseSchedule   = "schedule.pause"
	WhatResumeSchedule  = "schedule.resume"
	WhatDeleteSchedule  = "schedule.delete"
	WhatTriggerSchedule = "schedule.trigger"
)

// scheduleDetail is the detail of an audit entry.
type scheduleDetail struct {
	Schedule string        `json:"schedule"`
	Spec     *ScheduleSpec `json:"spec,omitempty"` // without arguments
}

// recordSchedule records an action on a schedule. spec is nil if the action does not set it. It does
// not record an invalid request, whose error may contain arguments.
func (i *inspector) recordSchedule(ctx context.Context, entry AuditEntry, name string, spec *ScheduleSpec, failure error) error {
	var invalidArgument *InvalidArgumentError
	if errors.As(failure, &invalidArgument) {
		return failure
	}
	detail := scheduleDetail{Schedule: cut(name, shownLength)}
	if spec != nil {
		shown := *spec
		shown.Args, shown.Bytes = nil, nil
		detail.Spec = &shown
	}
	entry.Detail = detailOf(detail)
	if failure == nil && entry.Skipped == 0 {
		entry.Done = 1
	}
	return i.record(ctx, entry, failure)
}

func (i *inspector) CreateSchedule(ctx context.Context, queue, name string, spec ScheduleSpec) (StoredSchedule, error) {
	if err := i.check(validSchedule(queue, name), spec.Validate()); err != nil {
		return StoredSchedule{}, fmt.Errorf("creating a schedule: %w", err)
	}
	made, isNew, err := i.createSchedule(ctx, queue, name, spec)
	entry := AuditEntry{What: WhatCreateSchedule, Queue: queue}
	if err != nil {
		err = fmt.Errorf("creating schedule %q of queue %q: %w", name, queue, err)
	} else if !isNew {
		entry.Skipped = 1
	}
	return made, i.recordSchedule(ctx, entry, name, &spec, err)
}

func (i *inspector) createSchedule(ctx context.Context, queue, name string, spec ScheduleSpec) (made StoredSchedule, isNew bool, err error) {
	q, err := i.openToSchedule(ctx, queue, spec)
	if err != nil {
		return StoredSchedule{}, false, err
	}
	d, err := i.definition(ctx, queue, name)
	if errors.Is(err, ErrUnknownSchedule) {
		now := i.store.Now()
		d = scheduleDefinition{Queue: queue, Name: name, Spec: spec, Created: now.UTC(), Changed: now.UTC(), Since: now.UTC()}
		// A schedule of the same name may have existed before.
		err = schedule.Skip(ctx, q, name, now)
		if wrong := unstorableQueue(err); wrong != nil {
			err = wrong
		}
		if err == nil {
			isNew, err = i.keepDefinition(ctx, d, now)
		}
		if err == nil && !isNew {
			d, err = i.definition(ctx, queue, name)
		}
	}
	if err != nil {
		return StoredSchedule{}, false, err
	}
	if !isNew && !sameSpec(d.Spec, spec) {
		return StoredSchedule{}, false, fmt.Errorf("schedule %q: %w", name, ErrScheduleExists)
	}
	made, err = i.describe(ctx, d)
	return made, isNew, err
}

// withoutArgs returns an error about the job of a stored schedule without the arguments, which the
// operator who reads it may not see.
func withoutArgs(err error) error {
	var wrong *InvalidArgumentError
	if !errors.As(err, &wrong) {
		return err
	}
	hidden := &InvalidArgumentError{Field: wrong.Field, Value: "(not shown)", Rule: wrong.Rule}
	if wrong.Field == FieldArgs { // the rule contains the error of the decoder
		hidden.Rule = "must be the arguments of a job of the type of the schedule"
	}
	return hidden
}

func sameSpec(a, b ScheduleSpec) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// openToSchedule returns the queue of a schedule that may be stored with a specification, and
// checks the arguments.
func (i *inspector) openToSchedule(ctx context.Context, name string, spec ScheduleSpec) (amboy.Queue, error) {
	if !spec.Outside {
		if err := i.checkQueueExists(ctx, name); err != nil {
			return nil, err
		}
	}
	q, err := i.openScheduled(ctx, name)
	if err != nil {
		return nil, err
	}
	if i.store.HasCodec(name) && (len(spec.Args) > 0 || len(spec.Bytes) > 0) {
		return nil, invalid("args", "(not shown)", "must be empty: the queue encrypts its jobs, and a schedule is stored as it is")
	}
	_, err = spec.NewJob(name, "any").build(q, "any")
	return q, err
}

// openScheduled returns the queue of a schedule. The error wraps ErrUnsupported if this process
// can't open it.
func (i *inspector) openScheduled(ctx context.Context, name string) (amboy.Queue, error) {
	if !i.covers(name) {
		return nil, unknownQueue(name)
	}
	q, err := i.store.OpenQueue(ctx, name)
	if err == nil && q == nil {
		err = fmt.Errorf("queue %q can't be opened in this process: %w", name, ErrUnsupported)
	}
	return q, err
}

func (i *inspector) ChangeSchedule(ctx context.Context, queue, name string, change ScheduleChange) (StoredSchedule, error) {
	if err := i.check(validSchedule(queue, name), change.Validate()); err != nil {
		return StoredSchedule{}, fmt.Errorf("changing a schedule: %w", err)
	}
	changed, err := i.changeSchedule(ctx, queue, name, change.Revision, func(old ScheduleSpec) (ScheduleSpec, error) {
		spec := change.ScheduleSpec
		spec.Paused = spec.Paused || old.Paused
		keepsArgs := spec.Type == old.Type && spec.Args == nil && spec.Bytes == nil
		if keepsArgs {
			spec.Args, spec.Bytes = old.Args, old.Bytes
		}
		_, err := i.openToSchedule(ctx, queue, spec)
		if keepsArgs {
			err = withoutArgs(err)
		}
		return spec, err
	})
	if err != nil {
		err = fmt.Errorf("changing schedule %q of queue %q: %w", name, queue, err)
	}
	return changed, i.recordSchedule(ctx, AuditEntry{What: WhatChangeSchedule, Queue: queue}, name, &change.ScheduleSpec, err)
}

func (i *inspector) PauseSchedule(ctx context.Context, queue, name string, paused bool) (StoredSchedule, error) {
	if err := i.check(validSchedule(queue, name)); err != nil {
		return StoredSchedule{}, fmt.Errorf("pausing or resuming a schedule: %w", err)
	}
	changed, err := i.changeSchedule(ctx, queue, name, "", func(spec ScheduleSpec) (ScheduleSpec, error) {
		spec.Paused = paused
		return spec, nil
	})
	what := WhatResumeSchedule
	if paused {
		what = WhatPauseSchedule
	}
	if err != nil {
		err = fmt.Errorf("pausing or resuming schedule %q of queue %q: %w", name, queue, err)
	}
	return changed, i.recordSchedule(ctx, AuditEntry{What: what, Queue: queue}, name, nil, err)
}

// changeSchedule replaces the specification of a schedule, which must have a revision unless that is
// empty, by what change returns. It calls change again if the schedule changes meanwhile.
func (i *inspector) changeSchedule(ctx context.Context, queue, name, revision string, change func(ScheduleSpec) (ScheduleSpec, error)) (StoredSchedule, error) {
	for range maxTries {
		old, err := i.definition(ctx, queue, name)
		if err != nil {
			return StoredSchedule{}, err
		}
		spec, err := change(old.Spec)
		if err != nil {
			return StoredSchedule{}, err
		}
		if sameSpec(old.Spec, spec) {
			return i.describe(ctx, old) // maybe a repetition
		}
		if revision != "" && revision != old.revision() {
			return StoredSchedule{}, ErrScheduleChanged
		}
		changed, kept, err := i.replaceSpec(ctx, old, spec)
		if err != nil || kept {
			return changed, err
		}
	}
	return StoredSchedule{}, fmt.Errorf("changed %d times meanwhile: %w", maxTries, ErrScheduleChanged)
}

// replaceSpec replaces the specification of a schedule, unless the schedule has changed since it was
// read: then kept is false.
func (i *inspector) replaceSpec(ctx context.Context, old scheduleDefinition, spec ScheduleSpec) (changed StoredSchedule, kept bool, err error) {
	d, now := old, i.store.Now()
	d.Spec, d.Changed = spec, now.UTC()
	if !d.Changed.After(old.Changed) { // a clock was ahead, or the time did not pass
		d.Changed = old.Changed.Add(1)
	}
	if old.Spec.Paused || old.Spec.String() != d.Spec.String() {
		var q amboy.Queue
		q, err = i.openScheduled(ctx, d.Queue)
		if err == nil {
			err = schedule.Skip(ctx, q, d.Name, now)
		}
		if err != nil {
			return StoredSchedule{}, false, err
		}
		d.Since = now.UTC()
	}
	kept, err = i.keepDefinition(ctx, d, now)
	if err == nil && kept {
		err = i.dropHintOf(ctx, old, d, now)
	}
	if err != nil || !kept {
		return StoredSchedule{}, false, err
	}
	changed, err = i.describe(ctx, d)
	return changed, true, err
}

func (i *inspector) DeleteSchedule(ctx context.Context, queue, name string) error {
	if err := i.check(validSchedule(queue, name)); err != nil {
		return fmt.Errorf("deleting a schedule: %w", err)
	}
	err := i.deleteSchedule(ctx, queue, name)
	if err != nil {
		err = fmt.Errorf("deleting schedule %q of queue %q: %w", name, queue, err)
	}
	return i.recordSchedule(ctx, AuditEntry{What: WhatDeleteSchedule, Queue: queue}, name, nil, err)
}

func (i *inspector) deleteSchedule(ctx context.Context, queue, name string) error {
	d, err := i.definition(ctx, queue, name)
	if err != nil {
		return err
	}
	key := scheduleKey(queue, name)
	for _, kind := range []string{scheduleKind, scheduleStateKind, scheduleTriggersKind} {
		if err := i.store.Admin().Drop(ctx, kind, key); err != nil {
			return err
		}
	}
	return i.dropHintOf(ctx, d, scheduleDefinition{}, i.store.Now())
}

func (i *inspector) TriggerSchedule(ctx context.Context, queue, name, idempotencyKey string) (Created, error) {
	if err := i.check(validSchedule(queue, name), (&NewJob{IdempotencyKey: idempotencyKey}).validateKey()); err != nil {
		return Created{}, fmt.Errorf("triggering a schedule: %w", err)
	}
	created, err := i.triggerSchedule(ctx, queue, name, idempotencyKey)
	entry := AuditEntry{What: WhatTriggerSchedule, Queue: queue, JobID: created.ID}
	if err != nil {
		err = fmt.Errorf("triggering schedule %q of queue %q: %w", name, queue, err)
	} else if created.Repeated {
		entry.Skipped = 1
	}
	return created, i.recordSchedule(ctx, entry, name, nil, err)
}

// triggeredID returns the ID of a job that is put by hand. Like that of a tick, it begins with the
// name of the schedule and an at sign.
func triggeredID(name, idempotencyKey string) string {
	if idempotencyKey == "" {
		return name + "@run-" + rand.Text()[:12]
	}
	sum := sha256.Sum256([]byte(idempotencyKey))
	return name + "@run-" + hex.EncodeToString(sum[:12])
}

func (i *inspector) triggerSchedule(ctx context.Context, queue, name, idempotencyKey string) (Created, error) {
	d, err := i.definition(ctx, queue, name)
	if err != nil {
		return Created{}, err
	}
	q, err := i.openScheduled(ctx, queue)
	if err != nil {
		return Created{}, err
	}
	created := Created{JobRef: JobRef{queue, triggeredID(name, idempotencyKey)}}
	err = withoutArgs(put(ctx, q, d.Spec.NewJob(queue, created.ID), created.ID))
	if amboy.IsDuplicateJobError(err) {
		isOurs, errGet := i.exists(ctx, created.JobRef)
		if errGet == nil && isOurs {
			created.Repeated = true
			return created, nil
		}
		err = errors.Join(err, errGet)
	}
	if err != nil {
		return Created{}, err
	}
	i.noteTrigger(ctx, d, created.ID)
	return created, nil
}

// noteTrigger adds a job that was put by hand to the history. If that fails, it is logged: the job
// was put, and the audit list shows it too.
func (i *inspector) noteTrigger(ctx context.Context, d scheduleDefinition, id string) {
	if err := i.addTrigger(ctx, scheduleKey(d.Queue, d.Name), id); err != nil {
		logging.Warning(ctx, message.Fields{
			"message":  "could not add a run to the history of a schedule",
			"queue":    d.Queue,
			"schedule": d.Name,
			"job":      id,
			"error":    err.Error(),
		})
	}
}

// addTrigger adds a job to the runs by hand of a schedule. It does so again if others are added
// meanwhile.
func (i *inspector) addTrigger(ctx context.Context, key, id string) error {
	for range maxTries {
		now := i.store.Now()
		var triggered scheduleState
		old, found, err := i.note(ctx, scheduleTriggersKind, key)
		if err == nil && found {
			err = decodeNote(old, &triggered)
		}
		if err != nil {
			return err
		}
		triggered.add(ScheduleRun{Tick: now.UTC(), JobID: id, Triggered: true})
		note, err := i.storedNote(scheduleTriggersKind, key, triggered)
		if err != nil {
			return err
		}
		kept := false
		if found {
			kept, err = i.store.Admin().Replace(ctx, note, old.Value)
		} else {
			_, kept, err = i.store.Admin().KeepNew(ctx, note, now)
		}
		if err != nil || kept {
			return err
		}
	}
	return fmt.Errorf("the history changed %d times meanwhile: %w", maxTries, ErrScheduleChanged)
}

func (i *inspector) StoredSchedule(ctx context.Context, queue, name string) (StoredSchedule, error) {
	if err := i.check(validSchedule(queue, name)); err != nil {
		return StoredSchedule{}, fmt.Errorf("getting a schedule: %w", err)
	}
	d, err := i.definition(ctx, queue, name)
	var described StoredSchedule
	if err == nil {
		described, err = i.describe(ctx, d)
	}
	if err != nil {
		return StoredSchedule{}, fmt.Errorf("getting schedule %q of queue %q: %w", name, queue, err)
	}
	return described, nil
}

// describe returns everything known about a schedule.
func (i *inspector) describe(ctx context.Context, d scheduleDefinition) (StoredSchedule, error) {
	var state, triggered scheduleState
	key := scheduleKey(d.Queue, d.Name)
	_, err := i.readNote(ctx, scheduleStateKind, key, &state)
	if err == nil {
		_, err = i.readNote(ctx, scheduleTriggersKind, key, &triggered)
	}
	if err != nil {
		return StoredSchedule{}, err
	}
	return d.described(state, triggered, i.store.Now()), nil
}

// described returns the description of a schedule, with its runs.
func (d scheduleDefinition) described(state, triggered scheduleState, now time.Time) StoredSchedule {
	s := StoredSchedule{
		Queue: d.Queue, Name: d.Name, ScheduleSpec: d.Spec, Created: d.Created, Changed: d.Changed, Revision: d.revision(),
		Next: d.nextTick(now), Error: state.Error,
	}
	s.CatchUp = catchUpOf(d.Spec)
	for _, run := range slices.Concat(state.Runs, triggered.Runs) {
		if !run.Tick.Before(d.Created.Truncate(time.Millisecond)) { // not of an earlier schedule of that name
			s.Runs = append(s.Runs, run)
		}
	}
	slices.SortStableFunc(s.Runs, latestRunFirst)
	if len(s.Runs) > 0 {
		s.Last = &s.Runs[0]
	}
	// No runner reads a schedule before its next tick, so none can store the error of a last tick in the future.
	last := d.Since
	for _, run := range s.Runs {
		if !run.Triggered && run.Tick.After(last) {
			last = run.Tick
		}
	}
	if last.After(now.Add(maxClockError)) {
		s.Next = d.nextTick(last)
		if !d.Spec.Paused && s.Error == "" {
			s.Error = fmt.Sprintf("its last tick, %s, is in the future: no job is enqueued until then. The clock of a process is or was wrong", formatTime(last))
		}
	}
	return s
}

// maxClockError is how far ahead the clock of a process may be before a schedule shows it.
const maxClockError = time.Minute

func catchUpOf(spec ScheduleSpec) schedule.CatchUp {
	if spec.CatchUp == "" {
		return schedule.CatchUpLatest
	}
	return spec.CatchUp
}

func (i *inspector) StoredSchedules(ctx context.Context, filter ScheduleFilter, page PageRequest) (StoredSchedulePage, error) {
	limit, errLimit := page.limit()
	var errOrder error
	if page.Newest {
		errOrder = invalid("newest", "true", "must be false, because schedules are ordered by queue and name")
	}
	if err := i.check(filter.Validate(), errLimit, errOrder); err != nil {
		return StoredSchedulePage{}, fmt.Errorf("listing schedules: %w", err)
	}
	found, err := i.storedSchedules(ctx, filter, page.Cursor, limit)
	if err != nil {
		return StoredSchedulePage{}, fmt.Errorf("listing schedules: %w", err)
	}
	return found, nil
}

func (i *inspector) storedSchedules(ctx context.Context, filter ScheduleFilter, cursor string, limit int) (StoredSchedulePage, error) {
	queues, err := i.resolveQueues(filter.Queues)
	if err != nil {
		return StoredSchedulePage{}, err
	}
	list, err := listDigest("stored schedules", filter)
	if err != nil {
		return StoredSchedulePage{}, err
	}
	from, err := i.decodeCursor(ctx, list, cursor)
	if err != nil {
		return StoredSchedulePage{}, err
	}
	ranges := []keyRange{{}}
	if len(queues) > 0 {
		ranges = nil
		for _, queue := range queues {
			prefix := scheduleKeyPrefix(queue)
			ranges = append(ranges, keyRange{prefix, prefix + "\x7f"})
		}
		slices.SortFunc(ranges, func(a, b keyRange) int { return strings.Compare(a.from, b.from) })
	}
	definitions, next, err := i.definitionsIn(ctx, ranges, filter.Name, from, limit)
	if err != nil {
		return StoredSchedulePage{}, err
	}
	page := StoredSchedulePage{Schedules: make([]StoredSchedule, 0, len(definitions))}
	states, triggers := map[string]scheduleState{}, map[string]scheduleState{}
	for some := range adjacent(definitions, len(queues) == 0) {
		err = errors.Join(i.addStates(ctx, scheduleStateKind, some, states), i.addStates(ctx, scheduleTriggersKind, some, triggers))
		if err != nil {
			return StoredSchedulePage{}, err
		}
	}
	now := i.store.Now()
	for _, d := range definitions {
		key := scheduleKey(d.Queue, d.Name)
		described := d.described(states[key], triggers[key], now)
		described.Runs = nil
		page.Schedules = append(page.Schedules, described)
	}
	page.Next, err = i.encodeCursor(ctx, list, next)
	return page, err
}

// keyRange is a range of keys. An empty bound does not apply.
type keyRange struct{ from, to string }

// definitionsIn returns a page of the definitions in some ranges of keys, in their order, whose
// names contain a part, and the key with which the next page begins; an empty one on the last page.
func (i *inspector) definitionsIn(ctx context.Context, ranges []keyRange, part, from string, limit int) (found []scheduleDefinition, next string, err error) {
	atOnce := limit + 1
	if part != "" {
		atOnce = namesAtOnce
	}
	read := 0
	for _, r := range ranges {
		if r.to != "" && r.to <= from {
			continue
		}
		start := max(r.from, from)
		for {
			notes, err := i.store.Admin().Notes(ctx, driver.NoteRequest{Kind: scheduleKind, From: start, To: r.to, Limit: atOnce})
			if err != nil {
				return nil, "", err
			}
			for _, note := range notes {
				if len(found) == limit || read == maxNames {
					return found, note.Key, nil
				}
				read++
				var d scheduleDefinition
				if err := json.Unmarshal(note.Value, &d); err != nil {
					logUnreadableNote(ctx, note, err)
				} else if strings.Contains(strings.ToLower(d.Name), strings.ToLower(part)) {
					found = append(found, d)
				}
			}
			if len(notes) < atOnce {
				break
			}
			start = notes[len(notes)-1].Key + "\x00"
		}
	}
	return found, "", nil
}

// adjacent yields parts of a page of definitions, for each of which one range of keys is read. The page of
// all queues is one part. If queues were named, each is a part, because between the keys of two of them may
// lie those of many other queues.
func adjacent(page []scheduleDefinition, ofAllQueues bool) iter.Seq[[]scheduleDefinition] {
	return func(yield func([]scheduleDefinition) bool) {
		for len(page) > 0 {
			n := slices.IndexFunc(page, func(d scheduleDefinition) bool { return d.Queue != page[0].Queue })
			if n < 0 || ofAllQueues {
				n = len(page)
			}
			if !yield(page[:n]) {
				return
			}
			page = page[n:]
		}
	}
}

// addStates adds the states of schedules, which are in the order of their keys, by key.
func (i *inspector) addStates(ctx context.Context, kind string, of []scheduleDefinition, states map[string]scheduleState) error {
	last := of[len(of)-1]
	request := driver.NoteRequest{Kind: kind, From: scheduleKey(of[0].Queue, of[0].Name), To: scheduleKey(last.Queue, last.Name) + "\x00", Limit: namesAtOnce}
	for {
		notes, err := i.store.Admin().Notes(ctx, request)
		if err != nil {
			return err
		}
		for _, note := range notes {
			var state scheduleState
			if err := json.Unmarshal(note.Value, &state); err != nil {
				logUnreadableNote(ctx, note, err)
				continue
			}
			states[note.Key] = state
		}
		if len(notes) < namesAtOnce {
			return nil
		}
		request.From = notes[len(notes)-1].Key + "\x00"
	}
}
