// Package presence has what processes tell each other of themselves, in notes: which
// of them are there, how many workers they are to have, and which schedules they keep.
package presence

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// The kinds of the notes.
const (
	ProcessKind  = "process"
	WorkersKind  = "workers"
	ScheduleKind = "schedule"
)

const (
	// Period is how often a process says that it is there.
	Period = time.Minute
	// aliveFor is how long it is believed.
	aliveFor = 150 * time.Second
	// keepProcess is how long a process is remembered that did not say its end.
	keepProcess = time.Hour
	// keepWorkers is as good as for ever.
	keepWorkers = 10 * 365 * 24 * time.Hour
	// keepSchedule is how long a schedule is remembered that nobody keeps any more.
	keepSchedule = 24 * time.Hour
)

// MaxWorkers is the largest number of workers that a process can be told to have for a
// queue.
const MaxWorkers = 10_000

// Process is a process that has queues.
type Process struct {
	// ID owns the jobs that it runs.
	ID   string `json:"id"`
	Host string `json:"host"`
	PID  int    `json:"pid"`
	// Started is since when it is there, and Seen when it said this.
	Started time.Time `json:"started"`
	Seen    time.Time `json:"seen"`
	Queues  []Queue   `json:"queues"`
	// Types and Managers are the types of jobs and dependency managers that it can read.
	// Processes with older versions of this library leave them out.
	Types    []Type `json:"types,omitempty"`
	Managers []Type `json:"managers,omitempty"`
	// Unknown are the kinds of jobs that it has met and can't run.
	Unknown []driver.Kind `json:"unknown,omitempty"`
}

// Type is a type that a process can read, from one version to another.
type Type struct {
	Name string `json:"name"`
	From int    `json:"from,omitempty"`
	To   int    `json:"to,omitempty"`
}

// Knows reports whether the process can run jobs of a kind. Of one that does not say what
// it knows that is assumed.
func (p Process) Knows(k driver.Kind) bool {
	if p.Types == nil {
		return true
	}
	return knows(p.Types, k.Type, k.Version) && (k.Manager == "" || knows(p.Managers, k.Manager, k.ManagerVersion))
}

func knows(types []Type, name string, version int) bool {
	return slices.ContainsFunc(types, func(t Type) bool { return t.Name == name && t.From <= version && version <= t.To })
}

// Queue is a queue in a process.
type Queue struct {
	Name string `json:"name"`
	// Workers is 0 where the runner does not tell.
	Workers int  `json:"workers"`
	Started bool `json:"started"`
}

// Alive tells whether the process was seen not long ago.
func (p Process) Alive(now time.Time) bool { return now.Sub(p.Seen) <= aliveFor }

// Note returns the note in which the process says that it is there. Of queues that are
// too many for one, the first are in it.
func (p Process) Note() (driver.Note, error) {
	for {
		note, err := noteOf(ProcessKind, p.ID, p, p.Seen.Add(keepProcess))
		if len(note.Value) <= driver.MaxNoteBytes || len(p.Queues) == 0 {
			return note, err
		}
		p.Queues = p.Queues[:len(p.Queues)/2]
	}
}

// Workers is the number of workers that each process is to have for a queue; 0 for
// that with which it was configured.
type Workers struct {
	Workers int `json:"workers"`
}

// workersKey is where the keys of such notes begin. A key must not be empty, as the
// name of a queue may be.
const workersKey = "queue "

// WorkersKey is the key of the note about a queue.
func WorkersKey(queue string) string { return workersKey + queue }

// WorkersNote returns the note that tells processes how many workers a queue is to have.
func WorkersNote(queue string, n int, now time.Time) (driver.Note, error) {
	return noteOf(WorkersKind, WorkersKey(queue), Workers{n}, now.Add(keepWorkers))
}

// WorkersOf reads a WorkersNote.
func WorkersOf(note driver.Note) (queue string, n int, err error) {
	var w Workers
	if err := Decode(note, &w); err != nil {
		return "", 0, err
	}
	if len(note.Key) < len(workersKey) || w.Workers < 0 || w.Workers > MaxWorkers {
		return "", 0, fmt.Errorf("note %q of kind %q: the number of workers must be from 0 to %d (is %d)", note.Key, note.Kind, MaxWorkers, w.Workers)
	}
	return note.Key[len(workersKey):], w.Workers, nil
}

// Schedule is a schedule that a process keeps.
type Schedule struct {
	Queue   string `json:"queue"`
	Name    string `json:"name"`
	Spec    string `json:"spec"`
	CatchUp string `json:"catch_up"`
	// Last is the last tick whose job was put, and Next the next tick.
	Last time.Time `json:"last,omitzero"`
	Next time.Time `json:"next,omitzero"`
	// Error is why the job of the tick Next could not be put.
	Error string `json:"error,omitempty"`
	// Seen is when a process said this.
	Seen time.Time `json:"seen"`
}

// ScheduleKey is the key of the note about a schedule.
func ScheduleKey(queue, name string) string {
	key, err := json.Marshal([]string{queue, name})
	if err != nil {
		return queue + " " + name // which can't be: texts can be written
	}
	return string(key)
}

// maxText is the length of a text in a note, in bytes.
const maxText = 1024

// Note returns the note in which a process tells of the schedule.
func (s Schedule) Note() (driver.Note, error) {
	s.Spec, s.Error = shortened(s.Spec), shortened(s.Error)
	return noteOf(ScheduleKind, ScheduleKey(s.Queue, s.Name), s, s.Seen.Add(keepSchedule))
}

// shortened cuts a text that is too long. What is left of a character at its end is
// replaced when it is written.
func shortened(text string) string {
	if len(text) <= maxText {
		return text
	}
	return text[:maxText] + "…"
}

func noteOf(kind, key string, value any, until time.Time) (driver.Note, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return driver.Note{}, fmt.Errorf("writing note %q of kind %q: %w", key, kind, err)
	}
	return driver.Note{Kind: kind, Key: key, Value: encoded, Until: until}, nil
}

// Decode reads the value of a note.
func Decode(note driver.Note, value any) error {
	if err := json.Unmarshal(note.Value, value); err != nil {
		return fmt.Errorf("reading note %q of kind %q: %w", note.Key, note.Kind, err)
	}
	return nil
}
