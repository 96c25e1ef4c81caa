package management

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// A stored schedule consists of notes:
//
//   - its definition, which only operators change;
//   - hints, whose keys begin with the time at which to read a schedule next. Together they are the
//     index of the next ticks of all schedules;
//   - its state, which the runners write, and the runs that operators triggered. They are only
//     shown: which ticks were put is a mark of the queue, as for the schedules of package
//     schedule.
//
// A schedule that is not paused has a hint for its next tick at all times. So a hint is dropped
// only after a later one was stored. A hint that should not exist does no harm: what is to be done
// follows from the definition and the mark.
const (
	scheduleKind         = "stored-schedule"
	scheduleHintKind     = "stored-schedule-hint"
	scheduleStateKind    = "stored-schedule-state"
	scheduleTriggersKind = "stored-schedule-triggers"
)

// keepStored is practically for ever.
const keepStored = 100 * 365 * 24 * time.Hour

// keyedQueueBytes is how much of the name of its queue is in the key of a schedule, so that
// schedules are ordered by queue.
const keyedQueueBytes = 200

// scheduleKeyPrefix is the prefix of the keys of the schedules of a queue. It contains a hash,
// because the name of a queue may be too long for a key.
func scheduleKeyPrefix(queue string) string {
	sum := sha256.Sum256([]byte(queue))
	if len(queue) > keyedQueueBytes {
		queue = strings.ToValidUTF8(queue[:keyedQueueBytes], "")
	}
	return queue + "\x00" + hex.EncodeToString(sum[:16]) + "\x00"
}

func scheduleKey(queue, name string) string { return scheduleKeyPrefix(queue) + name }

// scheduleDefinition is the value of the note of a definition.
type scheduleDefinition struct {
	Queue   string       `json:"queue"`
	Name    string       `json:"name"`
	Spec    ScheduleSpec `json:"spec"`
	Created time.Time    `json:"created"`
	Changed time.Time    `json:"changed"`
	// Since is the time after which its ticks count.
	Since time.Time `json:"since"`
	// stored is the value of the note as it was read; nil if the schedule is new.
	stored []byte
}

// revision identifies the specification of a schedule: no two changes have the same time.
func (d scheduleDefinition) revision() string { return strconv.FormatInt(d.Changed.UnixNano(), 10) }

// scheduleHint is a hint. Its value is the time of the first tick that is not handled, which is
// earlier than the hint if the job of that tick could not be put.
type scheduleHint struct {
	at  time.Time
	key string // of the definition
	// isProbe is true if the hint replaces another, because the schedule was found paused or
	// deleted. It may have been resumed or created again at the same time.
	isProbe bool
	tick    time.Time
}

const (
	// hintLayout formats times as keys that sort in the order of the times.
	hintLayout = "2006-01-02T15:04:05.000Z"
	// probeMark ends the keys of probes. No name of a schedule contains it.
	probeMark = "?"
)

func hintKeyAt(at time.Time) string { return at.UTC().Format(hintLayout) }

func (h scheduleHint) noteKey() string {
	key := hintKeyAt(h.at) + " " + h.key
	if h.isProbe {
		key += probeMark
	}
	return key
}

func (h scheduleHint) note(now time.Time) driver.Note {
	value := []byte(h.tick.UTC().Format(time.RFC3339Nano))
	return driver.Note{Kind: scheduleHintKind, Key: h.noteKey(), Value: value, Until: now.Add(keepStored)}
}

// hintOf decodes the note of a hint.
func hintOf(note driver.Note) (h scheduleHint, err error) {
	at, key, _ := strings.Cut(note.Key, " ")
	h.key, h.isProbe = strings.CutSuffix(key, probeMark)
	h.at, err = time.Parse(hintLayout, at)
	if err == nil {
		h.tick, err = time.Parse(time.RFC3339Nano, string(note.Value))
	}
	return h, err
}

// hintOfTick returns the hint for a tick of a schedule.
func hintOfTick(key string, tick time.Time) scheduleHint {
	return scheduleHint{at: tick, key: key, tick: tick}
}

// scheduleState is the value of the note with the state of a schedule.
type scheduleState struct {
	// Failures counts the failures since the last success, and Error is the last of them.
	Failures int           `json:"failures,omitempty"`
	Error    string        `json:"error,omitempty"`
	Runs     []ScheduleRun `json:"runs,omitempty"`
}

// add adds runs, except those that another process has added already.
func (s *scheduleState) add(runs ...ScheduleRun) {
	for _, run := range runs {
		known := func(r ScheduleRun) bool { return r.JobID == run.JobID && r.Tick.Equal(run.Tick) }
		if !slices.ContainsFunc(s.Runs, known) {
			s.Runs = append(s.Runs, run)
		}
	}
	slices.SortStableFunc(s.Runs, latestRunFirst)
	s.Runs = s.Runs[:min(len(s.Runs), MaxScheduleRuns)]
}

func latestRunFirst(a, b ScheduleRun) int { return b.Tick.Compare(a.Tick) }

func (i *inspector) storedNote(kind, key string, value any) (driver.Note, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return driver.Note{}, fmt.Errorf("encoding a schedule: %w", err)
	}
	return driver.Note{Kind: kind, Key: key, Value: encoded, Until: i.store.Now().Add(keepStored)}, nil
}

// note reads a note. It returns false if it does not exist.
func (i *inspector) note(ctx context.Context, kind, key string) (driver.Note, bool, error) {
	found, err := i.store.Admin().Notes(ctx, driver.NoteRequest{Kind: kind, From: key, To: key + "\x00", Limit: 1})
	if err != nil || len(found) == 0 {
		return driver.Note{}, false, err
	}
	return found[0], true, nil
}

// readNote decodes a note into value, and reports whether it exists.
func (i *inspector) readNote(ctx context.Context, kind, key string, value any) (bool, error) {
	note, found, err := i.note(ctx, kind, key)
	if !found {
		return false, err
	}
	err = decodeNote(note, value)
	return err == nil, err
}

func decodeNote(note driver.Note, value any) error {
	if err := json.Unmarshal(note.Value, value); err != nil {
		return fmt.Errorf("reading note %q of kind %q: %w", note.Key, note.Kind, err)
	}
	return nil
}

// definition returns the definition of a schedule. The error wraps ErrUnknownSchedule if it does
// not exist.
func (i *inspector) definition(ctx context.Context, queue, name string) (scheduleDefinition, error) {
	var d scheduleDefinition
	if !i.covers(queue) {
		return d, unknownQueue(queue)
	}
	note, found, err := i.note(ctx, scheduleKind, scheduleKey(queue, name))
	switch {
	case err != nil:
		return d, err
	case !found:
		return d, unknownSchedule(queue, name)
	}
	err = decodeNote(note, &d)
	d.stored = note.Value
	return d, err
}

// covers reports whether a queue belongs to this inspector.
func (i *inspector) covers(queue string) bool {
	allowed := i.store.Queues()
	return len(allowed) == 0 || slices.Contains(allowed, queue)
}

func unknownSchedule(queue, name string) error {
	return fmt.Errorf("schedule %q of queue %q: %w", name, queue, ErrUnknownSchedule)
}

// nextTick returns the first tick after a time; the zero time if there is none, or if the schedule
// is paused.
func (d scheduleDefinition) nextTick(after time.Time) time.Time {
	ticks, err := d.Spec.Ticks()
	if err != nil || d.Spec.Paused {
		return time.Time{}
	}
	return ticks.Next(after)
}

// keepDefinition stores the definition of a schedule and its next hint. It returns false, and stores no
// definition, if another was stored since it was read or, for a new schedule, if it exists.
func (i *inspector) keepDefinition(ctx context.Context, d scheduleDefinition, now time.Time) (kept bool, err error) {
	key := scheduleKey(d.Queue, d.Name)
	note, err := i.storedNote(scheduleKind, key, d)
	if err != nil {
		return false, err
	}
	if len(note.Value) > MaxScheduleBytes {
		return false, invalid("args", string(d.Spec.Args), fmt.Sprintf("must be shorter: a schedule has at most %d bytes", MaxScheduleBytes))
	}
	keepHint := func() error {
		next := d.nextTick(now)
		if next.IsZero() {
			return nil
		}
		return i.store.Admin().Keep(ctx, hintOfTick(key, next).note(now))
	}
	// The hint comes first, so that no definition is stored without one. A runner that reads it
	// before the definition drops it, so it is stored again.
	err = keepHint()
	if err != nil {
		return false, err
	}
	if d.stored == nil {
		_, kept, err = i.store.Admin().KeepNew(ctx, note, now)
	} else {
		kept, err = i.store.Admin().Replace(ctx, note, d.stored)
	}
	if err != nil || !kept {
		return false, err
	}
	return true, keepHint()
}

// probeAfter is how long after a schedule was found paused or deleted its probe reads it again.
const probeAfter = 30 * time.Second

// dropHint removes a hint of a schedule that does not need it now. The schedule may be created or
// resumed at the same time, with the same hint; the probe finds that.
func (i *inspector) dropHint(ctx context.Context, hint scheduleHint, now time.Time) error {
	probe := scheduleHint{at: now.Add(probeAfter), key: hint.key, isProbe: true, tick: hint.tick}
	if err := i.store.Admin().Keep(ctx, probe.note(now)); err != nil {
		return err
	}
	return i.store.Admin().Drop(ctx, scheduleHintKind, hint.noteKey())
}

// dropHintOf removes the hint for the next tick of an old definition, unless the new one has the
// same. A hint that stays does no harm.
func (i *inspector) dropHintOf(ctx context.Context, old, changed scheduleDefinition, now time.Time) error {
	next := old.nextTick(now)
	if next.IsZero() || next.Equal(changed.nextTick(now)) {
		return nil
	}
	return i.dropHint(ctx, hintOfTick(scheduleKey(old.Queue, old.Name), next), now)
}
