package management

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/internal/loop"
	"github.com/mongodb/amboy/internal/publictext"
	"github.com/mongodb/amboy/internal/sleep"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
	"github.com/mongodb/amboy/schedule"
)

// ScheduleRunner puts the jobs of the stored schedules of a queue or a group (see
// ScheduleManager). Any number of processes may run one on the same store. They have no leader:
// the job of a tick has one ID (see schedule.TickID), so it is put once, as long as any of them
// runs. A process leaves the schedules of job types that it does not know to the others.
//
// It reads the schedule whose next tick comes first, at that time and every few seconds, so its
// cost does not grow with the number of schedules that are not due. It is safe for concurrent use.
type ScheduleRunner struct {
	inspector *inspector
	now       func() time.Time

	loop  loop.Loop
	calls loop.Calls // of follow, by hint
}

// NewScheduleRunner makes a runner for the schedules of an inspector that NewInspector or
// NewGroupInspector returned. It does nothing until it is started. The error wraps ErrUnsupported
// for other inspectors.
func NewScheduleRunner(of Inspector) (*ScheduleRunner, error) {
	found, ok := of.(interface{ itself() *inspector })
	if !ok {
		return nil, fmt.Errorf("making a runner of schedules: a %T can't put their jobs: %w", of, ErrUnsupported)
	}
	i := found.itself()
	if err := i.check(); err != nil {
		return nil, fmt.Errorf("making a runner of schedules: %w", err)
	}
	return &ScheduleRunner{inspector: i, now: i.store.Now}, nil
}

func (i *inspector) itself() *inspector { return i }

const (
	// longestLook is the longest time between two looks: schedules are created in other
	// processes, and a change of the clock or a suspension of the system wakes no timer.
	longestLook = 5 * time.Second
	// hintsAtOnce is the number of schedules that are read at once, and workersAtOnce how many of
	// them are worked on concurrently, apart from those that take long.
	hintsAtOnce, workersAtOnce = 200, 16
	// leaveFor is how long schedules that this process can't run are left to others, before their
	// error is stored.
	leaveFor = 30 * time.Second
	// longestRetry bounds how long a schedule waits after a failure.
	longestRetry = time.Minute
)

// Start puts the jobs of ticks that were missed, and then the jobs of ticks as they come, until
// ctx ends or Close is called. It returns at once. If it is called again, it returns an error that
// wraps amboy.ErrAlreadyStarted. If a job can't be put, it tries again, after waits that grow from a
// second to a minute; the schedule shows the error.
func (r *ScheduleRunner) Start(ctx context.Context) error {
	if !r.loop.Start(ctx, r.run) {
		return fmt.Errorf("starting the runner of schedules: %w", amboy.ErrAlreadyStarted)
	}
	return nil
}

// Close stops what Start began, and waits until jobs that are being put have been put, or until ctx
// ends. Call it before closing the queue or the group. It does nothing if the runner was not started
// or is already closed.
func (r *ScheduleRunner) Close(ctx context.Context) { r.loop.Close(ctx) }

func (r *ScheduleRunner) run(ctx context.Context) {
	defer r.calls.Wait()
	failing := false
	for ctx.Err() == nil {
		next, err := r.PutDue(ctx)
		switch {
		case errors.Is(err, amboy.ErrGroupClosed), errors.Is(err, driver.ErrClosed),
			errors.Is(err, amboy.ErrQueueClosed) && len(r.inspector.store.Queues()) > 0: // and not only pruned
			logging.Error(ctx, message.Fields{"message": "runner of schedules stopped because its queues were closed"})
			return
		case err != nil && ctx.Err() == nil && !failing:
			logging.Warning(ctx, message.Fields{"message": "reading schedules failed; trying again", "error": err.Error()})
		}
		failing = err != nil
		wait := longestLook
		if err == nil && !next.IsZero() {
			wait = min(wait, next.Sub(r.now()))
		}
		_ = sleep.For(ctx, wait) // the loop ends with ctx
	}
}

// PutDue puts the jobs of all ticks that are due. It returns when the next tick is due, or the zero
// time if that is not known. The error is that of the store; the errors of single schedules are
// stored with them and logged. It does not wait for a schedule whose queue takes long.
//
// A started runner calls PutDue by itself. It is exported for tests with a clock of their own, and
// for programs with a loop of their own.
func (r *ScheduleRunner) PutDue(ctx context.Context) (next time.Time, err error) {
	request := driver.NoteRequest{Kind: scheduleHintKind, Limit: 1}
	var errs []error
	for {
		notes, err := r.hints(ctx, request)
		if err != nil {
			return time.Time{}, fmt.Errorf("reading the schedules that are due: %w", err)
		}
		due, next := r.dueOf(ctx, notes)
		errs = append(errs, r.putAll(ctx, due)...)
		if ctx.Err() != nil {
			return time.Time{}, fmt.Errorf("putting the jobs of schedules: %w", context.Cause(ctx))
		}
		if !next.IsZero() || len(notes) < request.Limit {
			err = errors.Join(errs...)
			if err != nil {
				err = fmt.Errorf("putting the jobs of schedules: %w", err)
			}
			return next, err
		}
		request.From, request.Limit = notes[len(notes)-1].Key+"\x00", hintsAtOnce
	}
}

func (r *ScheduleRunner) hints(ctx context.Context, request driver.NoteRequest) ([]driver.Note, error) {
	ctx, cancel := context.WithTimeout(ctx, loop.CallTime)
	defer cancel()
	return r.inspector.store.Admin().Notes(ctx, request)
}

// dueOf returns the hints that are due, and the time of the first one that is not.
func (r *ScheduleRunner) dueOf(ctx context.Context, notes []driver.Note) (due []scheduleHint, next time.Time) {
	now := r.now()
	for _, note := range notes {
		hint, err := hintOf(note)
		switch {
		case err != nil:
			logUnreadableNote(ctx, note, err)
		case hint.at.After(now):
			return due, hint.at
		default:
			due = append(due, hint)
		}
	}
	return due, time.Time{}
}

// putAll works on hints concurrently. The processes on a store do so in different orders, so that
// each finds that much is done already. An error of one does not affect the others, and one that
// takes long, for instance because its queue is full, does not keep them waiting.
func (r *ScheduleRunner) putAll(ctx context.Context, due []scheduleHint) (errs []error) {
	rand.Shuffle(len(due), func(a, b int) { due[a], due[b] = due[b], due[a] })
	var mu sync.Mutex // guards errs and isOver
	isOver := false
	loop.ForEach(&r.calls, workersAtOnce, due, scheduleHint.noteKey, func(hint scheduleHint) {
		err := contain.Panic(func() error { return r.follow(ctx, hint, len(due) > 1) }) // of the driver
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
		case !isOver:
			errs = append(errs, err)
		case ctx.Err() == nil:
			logging.Warning(ctx, message.Fields{"message": "putting the jobs of a schedule failed; trying again", "error": err.Error()})
		}
	})
	mu.Lock()
	defer mu.Unlock()
	isOver = true
	return errs
}

// follow does what is due for the schedule of a hint, and replaces the hint. It returns the errors
// of the store.
func (r *ScheduleRunner) follow(ctx context.Context, hint scheduleHint, mayBeDone bool) error {
	i := r.inspector
	limited, cancel := context.WithTimeout(ctx, loop.CallTime)
	defer cancel()
	if mayBeDone {
		_, found, err := i.note(limited, scheduleHintKind, hint.noteKey())
		if err != nil || !found {
			return err
		}
	}
	note, found, err := i.note(limited, scheduleKind, hint.key)
	if err != nil {
		return err
	}
	var d scheduleDefinition
	if found {
		err = json.Unmarshal(note.Value, &d)
		if err != nil {
			logUnreadableNote(ctx, note, err)
			return nil
		}
	}
	switch {
	case !found && hint.isProbe:
		// A runner may have stored the state after the schedule was deleted.
		return errors.Join(
			i.store.Admin().Drop(limited, scheduleHintKind, hint.noteKey()),
			i.store.Admin().Drop(limited, scheduleStateKind, hint.key),
		)
	case d.Spec.Paused && hint.isProbe:
		return i.store.Admin().Drop(limited, scheduleHintKind, hint.noteKey())
	case !found, d.Spec.Paused:
		return i.dropHint(limited, hint, r.now())
	case !i.covers(d.Queue):
		return nil
	}
	done, err := r.put(ctx, d, hint)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // The caller reports that the context ended.
	}
	if errors.Is(err, amboy.ErrGroupClosed) || errors.Is(err, amboy.ErrQueueClosed) {
		return err // it says nothing about the schedule
	}
	if errors.Is(err, errLeave) {
		if r.now().Sub(hint.at) < leaveFor {
			return nil
		}
		err = errors.Unwrap(err)
	}
	return r.settle(ctx, hint, note, done, err)
}

// errLeave is wrapped by the error of a schedule that another process may be able to run.
var errLeave = errors.New("left to other processes")

// leaving marks an error as errLeave.
type leaving struct{ error }

func (l leaving) Is(target error) bool { return target == errLeave } //nolint:errorlint // It is a sentinel.
func (l leaving) Unwrap() error        { return l.error }

// ticksDone is what put has done.
type ticksDone struct {
	runs []ScheduleRun
	// next is the first tick that is not handled; zero if no other follows.
	next time.Time
}

// put puts the jobs of the due ticks of a schedule.
func (r *ScheduleRunner) put(ctx context.Context, d scheduleDefinition, hint scheduleHint) (ticksDone, error) {
	done := ticksDone{next: hint.tick}
	ticks, err := d.Spec.Ticks()
	if err != nil { // perhaps a time zone that this machine does not know
		return done, leaving{err}
	}
	if _, err = registry.GetJobFactory(d.Spec.Type); err != nil && !d.Spec.Outside {
		return done, leaving{publictext.Errorf("no process that runs schedules knows jobs of type %q", d.Spec.Type)}
	}
	q, err := r.openQueue(ctx, d, hint)
	if err != nil {
		return done, err
	}
	s, err := schedule.New(q, schedule.Options{MaxCatchUp: d.Spec.MaxCatchUp})
	if err != nil {
		return done, err
	}
	makeJob := func(tick time.Time) (amboy.Job, error) {
		id := schedule.TickID(d.Name, tick)
		j, makeErr := d.Spec.NewJob(d.Queue, id).build(q.Queue, id)
		if makeErr == nil {
			done.runs = append(done.runs, ScheduleRun{Tick: tick.UTC(), JobID: id})
		}
		return j, withoutArgs(makeErr)
	}
	err = s.Add(d.Name, ticks, makeJob, catchUpOf(d.Spec))
	if err != nil {
		return done, err
	}
	_, err = s.PutDue(ctx) // it logs the error
	info := s.List()[0]
	for n, run := range done.runs {
		if q.refused[run.JobID] {
			done.runs[n] = ScheduleRun{Tick: run.Tick, Missed: true}
		}
	}
	if err != nil {
		for len(done.runs) > 0 && done.runs[len(done.runs)-1].Tick.After(info.Last) {
			done.runs = done.runs[:len(done.runs)-1]
		}
		if info.Last.After(hint.tick) || info.Last.Equal(hint.tick) {
			done.next = ticks.Next(info.Last)
		}
		return done, info.Err
	}
	done.next = info.Next
	if len(done.runs) == 0 && info.Last.Before(hint.tick) && d.isOwnTick(hint.tick, ticks) {
		done.runs = []ScheduleRun{{Tick: hint.tick, Missed: true}}
	}
	return done, nil
}

// openQueue opens the queue of a schedule whose next tick is that of the hint.
func (r *ScheduleRunner) openQueue(ctx context.Context, d scheduleDefinition, hint scheduleHint) (q scheduledQueue, err error) {
	ctx, cancel := context.WithTimeout(ctx, loop.CallTime)
	defer cancel()
	opened, err := r.inspector.openScheduled(ctx, d.Queue)
	switch {
	case errors.Is(err, ErrUnsupported):
		return q, leaving{err}
	case err != nil:
		return q, err
	}
	marker, ok := opened.(amboy.QueueMarker)
	if !ok {
		return q, fmt.Errorf("queue %q is a %T, which has no marks: %w", d.Queue, opened, ErrUnsupported)
	}
	if r.inspector.store.ByReference() {
		// The marks of a queue by reference end with it.
		handled := hint.tick.Add(-time.Millisecond)
		if d.Since.After(handled) {
			handled = d.Since
		}
		err = schedule.Skip(ctx, opened, d.Name, handled)
		if err != nil {
			return q, err
		}
	}
	return scheduledQueue{opened, marker, r.now(), map[string]bool{}}, nil
}

// isOwnTick reports whether a time is a tick of the schedule, and not one that an earlier schedule of
// its name left in the hint.
func (d scheduleDefinition) isOwnTick(tick time.Time, ticks schedule.Schedule) bool {
	return tick.After(d.Since) && ticks.Next(tick.Add(-time.Millisecond)).Equal(tick)
}

// scheduledQueue is a queue as a schedule.Scheduler needs it. Its time stands still, and it lists
// no schedules.
type scheduledQueue struct {
	amboy.Queue
	amboy.QueueMarker
	now time.Time
	// refused contains the IDs of jobs that were not put because others have their unique keys.
	refused map[string]bool
}

// Put implements amboy.Queue.
func (q scheduledQueue) Put(ctx context.Context, j amboy.Job) error {
	err := q.Queue.Put(ctx, j)
	var duplicate *amboy.DuplicateJobError
	if errors.As(err, &duplicate) && duplicate.Reason == amboy.DuplicateUniqueKey && duplicate.ExistingID != j.ID() {
		q.refused[j.ID()] = true // the scheduler counts it as put
	}
	return err
}

// Now implements amboy.Clock.
func (q scheduledQueue) Now() time.Time { return q.now }

// settle stores what was done for a schedule as it was defined, and replaces its hint.
func (r *ScheduleRunner) settle(ctx context.Context, hint scheduleHint, defined driver.Note, done ticksDone, failure error) error {
	ctx, cancel := context.WithTimeout(ctx, loop.CallTime)
	defer cancel()
	i, now := r.inspector, r.now()
	var state scheduleState
	_, err := i.readNote(ctx, scheduleStateKind, hint.key, &state)
	if err != nil {
		return err
	}
	state.add(done.runs...)
	following := hintOfTick(hint.key, done.next)
	if failure == nil {
		state.Failures, state.Error = 0, ""
	} else {
		following.at = now.Add(min(longestRetry, time.Second<<min(state.Failures, 6)))
		state.Failures, state.Error = state.Failures+1, cut(scheduleErrorText(failure), maxDetailBytes)
	}
	note, err := i.storedNote(scheduleStateKind, hint.key, state)
	if err != nil {
		return err
	}
	notes := []driver.Note{note}
	if !following.at.IsZero() {
		notes = append([]driver.Note{following.note(now)}, note)
	}
	err = i.store.Admin().Keep(ctx, notes...)
	if err != nil || following.noteKey() == hint.noteKey() {
		return err
	}
	err = i.store.Admin().Drop(ctx, scheduleHintKind, hint.noteKey())
	if err != nil {
		return err
	}
	// The next tick of a definition that was stored meanwhile may have had the same hint.
	latest, found, err := i.note(ctx, scheduleKind, hint.key)
	if err != nil || found && !bytes.Equal(latest.Value, defined.Value) {
		return errors.Join(err, i.store.Admin().Keep(ctx, hint.note(now)))
	}
	return nil
}

// scheduleErrorText returns the public text of an error of a schedule.
func scheduleErrorText(err error) string {
	text, ok := publictext.Of(err, publictext.As[*schedule.InvalidError], publictext.As[*InvalidArgumentError], publictext.Is(ErrUnknownQueue, ErrUnsupported))
	if !ok {
		return "the job could not be enqueued; the log of the process has the details"
	}
	return strings.ToValidUTF8(text, "")
}
