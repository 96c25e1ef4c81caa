// Package presence defines the notes that processes share: which processes are running,
// how many workers they should have, and which schedules they run.
package presence

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// The kinds of notes.
const (
	ProcessKind  = "process"
	WorkersKind  = "workers"
	ScheduleKind = "schedule"
)

const (
	// Period is how often a process renews its note.
	Period = time.Minute
	// aliveFor is how long a process counts as alive after it renewed its note.
	aliveFor = 150 * time.Second
	// keepProcess is how long the note of a process that did not deregister is kept.
	keepProcess = time.Hour
	// keepWorkers is practically for ever.
	keepWorkers = 10 * 365 * 24 * time.Hour
	// keepSchedule is how long the note of a schedule is kept after it was last renewed.
	keepSchedule = 24 * time.Hour
)

// MaxWorkers is the largest number of workers that can be set for a queue.
const MaxWorkers = 10_000

// Process is a process that has queues open.
type Process struct {
	// ID is the owner of the jobs that the process runs.
	ID   string `json:"id"`
	Host string `json:"host"`
	PID  int    `json:"pid"`
	// Started is when the process started, and Seen when it wrote this note.
	Started time.Time `json:"started"`
	Seen    time.Time `json:"seen"`
	Queues  []Queue   `json:"queues"`
	// MoreQueues is true if the process has more queues, which do not fit in a note.
	MoreQueues bool `json:"more_queues,omitempty"`
	// Types and Managers are the types of jobs and dependency managers that it can decode.
	// Processes with older versions of this library omit them.
	Types    []Type `json:"types,omitempty"`
	Managers []Type `json:"managers,omitempty"`
	// Unknown are the kinds of jobs that it has encountered and can't run.
	Unknown []driver.Kind `json:"unknown,omitempty"`
}

// Type is a type that a process can decode, in the versions From to To.
type Type struct {
	Name string `json:"name"`
	From int    `json:"from,omitempty"`
	To   int    `json:"to,omitempty"`
}

// Knows reports whether the process can run jobs of a kind. If its note does not list
// types, it is assumed to.
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
	// Workers is 0 if the runner does not report a number.
	Workers int  `json:"workers"`
	Started bool `json:"started"`
}

// Alive reports whether the process renewed its note recently.
func (p Process) Alive(now time.Time) bool { return now.Sub(p.Seen) <= aliveFor }

// Note returns the note of the process. If its queues do not fit in a note, it contains
// the first of them.
func (p Process) Note() (driver.Note, error) {
	for {
		note, err := noteOf(ProcessKind, p.ID, p, p.Seen.Add(keepProcess))
		if len(note.Value) <= driver.MaxNoteBytes || len(p.Queues) == 0 {
			return note, err
		}
		p.Queues, p.MoreQueues = p.Queues[:len(p.Queues)/2], true
	}
}

// Workers is the number of workers that each process should have for a queue; 0 means the
// configured number.
type Workers struct {
	Workers int `json:"workers"`
}

// workersKey is the prefix of the keys of such notes. A key must not be empty, but the
// name of a queue may be.
const workersKey = "queue "

// WorkersKey returns the key of the note about a queue.
func WorkersKey(queue string) string { return workersKey + queue }

// WorkersNote returns the note with the number of workers of a queue.
func WorkersNote(queue string, n int, now time.Time) (driver.Note, error) {
	return noteOf(WorkersKind, WorkersKey(queue), Workers{n}, now.Add(keepWorkers))
}

// WorkersOf decodes a WorkersNote.
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

// Schedule is a schedule that a process runs.
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
	// Seen is when a process wrote this note.
	Seen time.Time `json:"seen"`
}

// ScheduleKey returns the key of the note about a schedule.
func ScheduleKey(queue, name string) string {
	key, err := json.Marshal([]string{queue, name})
	if err != nil {
		return queue + " " + name // can't happen: strings can always be encoded
	}
	return string(key)
}

// maxText is the maximum length of a text in a note, in bytes.
const maxText = 1024

// Note returns the note of the schedule.
func (s Schedule) Note() (driver.Note, error) {
	s.Spec, s.Error = shortened(s.Spec), shortened(s.Error)
	return noteOf(ScheduleKind, ScheduleKey(s.Queue, s.Name), s, s.Seen.Add(keepSchedule))
}

// shortened truncates a text to maxText bytes. If it splits a character, encoding replaces
// the rest of it.
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

// Decode decodes the value of a note.
func Decode(note driver.Note, value any) error {
	if err := json.Unmarshal(note.Value, value); err != nil {
		return fmt.Errorf("reading note %q of kind %q: %w", note.Key, note.Kind, err)
	}
	return nil
}
