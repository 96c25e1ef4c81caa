package crashtest_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

// eventKind is the kind of an event.
type eventKind string

const (
	// accepted: a Put returned without an error.
	accepted eventKind = "accepted"
	// refused: a Put returned an error, Reason.
	refused eventKind = "refused"
	// began and ended are the beginning and the end of a run.
	began eventKind = "began"
	ended eventKind = "ended"
	// completing: the store is asked to end an attempt.
	completing eventKind = "completing"
	// completed: the store acknowledged the end of an attempt.
	completed eventKind = "completed"
	// renewed: the store acknowledged that a lease was renewed at At.
	renewed eventKind = "renewed"
	// callFailed: a call of the store failed because the test made it fail.
	callFailed eventKind = "a call failed"
)

// outcome is how a run ended.
type outcome string

const (
	done        outcome = "done"
	failed      outcome = "failed"
	interrupted outcome = "interrupted" // its context ended
)

// event is one line of a journal.
type event struct {
	Kind    eventKind
	At      time.Time
	Job     string
	Attempt int       `json:",omitempty"`
	Lease   int       `json:",omitempty"` // the count of the lease
	Claimed time.Time `json:",omitzero"`  // for began: when the lease was taken
	Outcome outcome   `json:",omitempty"` // for ended
	Retry   bool      `json:",omitempty"` // for completed: another attempt follows
	// State, for completing, is the state in which the attempt ends.
	State   amboy.JobState `json:",omitempty"`
	Allowed bool           `json:",omitempty"` // for refused: the reason is not a failure of the store
	Reason  string         `json:",omitempty"`
	// Process is the process whose journal contains the event.
	Process string `json:"-"`
}

// journal records the events of one process. It is safe for concurrent use.
type journal struct {
	file *os.File // nil if the events are kept in memory

	mu   sync.Mutex
	kept []event
	// seen is closed and replaced with each event that is kept.
	seen chan struct{}
}

// thisProcess is the name of the process whose journal is in memory.
const thisProcess = "this"

// newMemoryJournal returns a journal for a test without other processes.
func newMemoryJournal() *journal { return &journal{seen: make(chan struct{})} }

// write adds an event. When write returns, the event is stored, whatever becomes of the
// process. A journal with holes would prove nothing, so an error is a panic.
func (j *journal) write(e event) {
	if j.file == nil {
		j.keep(e)
		return
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if err != nil {
		panic(fmt.Errorf("writing the journal: %w", err))
	}
}

func (j *journal) keep(e event) {
	e.Process = thisProcess
	j.mu.Lock()
	defer j.mu.Unlock()
	j.kept = append(j.kept, e)
	close(j.seen)
	j.seen = make(chan struct{})
}

// events returns the events in memory. next is closed when there are more.
func (j *journal) events() (events []event, next <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.kept[:len(j.kept):len(j.kept)], j.seen
}

// await waits until there are n events in memory that match.
func (j *journal) await(t *testing.T, n int, what string, matches func(event) bool) {
	t.Helper()
	deadline := time.After(patience)
	for found, looked := 0, 0; ; {
		events, next := j.events()
		for _, e := range events[looked:] {
			if matches(e) {
				found++
			}
		}
		if looked = len(events); found >= n {
			return
		}
		select {
		case <-next:
		case <-deadline:
			require.Failf(t, "timeout", "for %d events: %s", n, what)
		}
	}
}

// count counts the events in memory that match.
func (j *journal) count(matches func(event) bool) (n int) {
	events, _ := j.events()
	for _, e := range events {
		if matches(e) {
			n++
		}
	}
	return n
}

const journalSuffix = ".journal"

// openJournal opens the file of a process for appending.
func openJournal(t *testing.T, dir, process string) *journal {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(dir, process+journalSuffix), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	return &journal{file: file}
}

// readJournals reads the journals of the processes whose names have a prefix, ordered by
// time.
func readJournals(t *testing.T, dir, prefix string) []event {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, prefix+"*"+journalSuffix))
	require.NoError(t, err)
	var events []event
	for _, path := range paths {
		lines, readErr := os.ReadFile(path)
		require.NoError(t, readErr)
		events = append(events, parse(t, lines, strings.TrimSuffix(filepath.Base(path), journalSuffix))...)
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
	return events
}

// parse reads a journal. It ignores an incomplete last line: the process was killed
// before it began what it was about to record.
func parse(t *testing.T, lines []byte, process string) []event {
	t.Helper()
	var events []event
	for line := range bytes.Lines(lines) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		e := event{Process: process}
		require.NoError(t, json.Unmarshal(line, &e), "%s: %s", process, line)
		events = append(events, e)
	}
	return events
}

// awaitRun waits until a job has begun for the nth time, and returns that event.
func awaitRun(t *testing.T, dir, id string, nth int) event {
	t.Helper()
	deadline := time.After(2 * patience)
	for tick := time.Tick(2 * time.Millisecond); ; {
		n := 0
		for _, e := range readJournals(t, dir, "") {
			if e.Kind != began || e.Job != id {
				continue
			}
			n++
			if n == nth {
				return e
			}
		}
		select {
		case <-tick:
		case <-deadline:
			require.Failf(t, "timeout", "job %s has not begun %d times", id, nth)
		}
	}
}
