package simulation

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mongodb/amboy"
)

// Kind is the kind of an event.
type Kind string

// The events that a Checker uses.
const (
	// Accepted and Refused are the outcomes of a Put.
	Accepted Kind = "accepted"
	Refused  Kind = "refused"
	// Leased, Renewed and Unleased are changes of a lease in the store.
	Leased   Kind = "leased"
	Renewed  Kind = "renewed"
	Unleased Kind = "handed back"
	// Began: the handler of a run was called. ContextEnded: its context ended before it
	// returned. Returned: it returned.
	Began        Kind = "began"
	ContextEnded Kind = "context ended"
	Returned     Kind = "returned"
	// Ended: the end of an attempt was stored. Replaced: the next attempt was stored.
	Ended    Kind = "ended"
	Replaced Kind = "replaced"
	// Stopped: a process was killed. Suspended and Resumed: it stood still in between.
	Stopped   Kind = "killed"
	Suspended Kind = "suspended"
	Resumed   Kind = "resumed"
	// Closed: a process has closed its queues and ended.
	Closed Kind = "closed"
	// CancelAsked: an operator has canceled a job. If it runs, it may continue until its
	// process knows.
	CancelAsked Kind = "canceled by an operator"
	// EndedByHand: an operator has stored that a job succeeded, whether it runs or not.
	EndedByHand Kind = "ended by an operator"
)

// The events that are only explanatory.
const (
	started     Kind = "started"
	closing     Kind = "closing"
	registered  Kind = "knows the new type"
	parked      Kind = "parked"
	unparked    Kind = "unparked"
	sent        Kind = "sent"
	answered    Kind = "answered"
	cutOff      Kind = "cut off"
	answersSlow Kind = "answers are slow"
	healed      Kind = "healed"
	clockStep   Kind = "clock step"
	storeFails  Kind = "store fails"
	notesLost   Kind = "notifications lost"
	finalEffort Kind = "no more faults"
	reported    Kind = "reported"
)

// Event is one line of a history.
type Event struct {
	At time.Duration
	// Process is the index of the process to which the event happened, or Store.
	Process int
	Kind    Kind
	// Job, Attempt and Lease (its count) identify the run.
	Job     string
	Attempt int
	Lease   int
	// Until is when a taken or renewed lease ends.
	Until time.Duration
	// State is the state in which an attempt ended.
	State amboy.JobState
	Note  string
}

// Store is the Process of events that happen in no process.
const Store = -1

func (e Event) String() string {
	var b strings.Builder
	b.WriteString(string(e.Kind))
	if e.Job != "" {
		fmt.Fprintf(&b, " %s", e.Job)
		if e.Attempt > 0 {
			fmt.Fprintf(&b, " attempt %d", e.Attempt)
		}
		if e.Lease > 0 {
			fmt.Fprintf(&b, " lease %d", e.Lease)
		}
	}
	if e.Until > 0 {
		fmt.Fprintf(&b, " until %s", clock(e.Until))
	}
	if e.State != "" {
		fmt.Fprintf(&b, " %s", e.State)
	}
	if e.Note != "" {
		fmt.Fprintf(&b, " %s", e.Note)
	}
	return b.String()
}

func clock(at time.Duration) string { return fmt.Sprintf("%.6f", at.Seconds()) }

// Hash returns a hash of a history. Histories with equal events have the same hash.
func Hash(events []Event) string {
	h := sha256.New()
	for _, e := range events {
		_, _ = fmt.Fprintf(h, "%d %d %s\n", e.At, e.Process, e)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// columnWidth is the width of a column of a timeline.
const columnWidth = 44

// Timeline writes a line for each event, with a column for the store and for each
// process.
func Timeline(out io.Writer, processes int, events []Event) error {
	header := fmt.Sprintf("%14s  %-*s", "seconds", columnWidth, "store")
	for i := range processes {
		header += fmt.Sprintf("  %-*s", columnWidth, fmt.Sprint("process ", i))
	}
	if _, err := fmt.Fprintln(out, strings.TrimRight(header, " ")); err != nil {
		return err
	}
	for _, e := range events {
		indent := (e.Process + 1) * (columnWidth + 2)
		if _, err := fmt.Fprintf(out, "%14s  %*s%s\n", clock(e.At), indent, "", e); err != nil {
			return err
		}
	}
	return nil
}

// Concerning selects the events of some jobs, and the faults.
func Concerning(events []Event, jobs ...string) (selected []Event) {
	wanted := map[string]bool{"": true}
	for _, job := range jobs {
		wanted[job] = true
	}
	for _, e := range events {
		if wanted[e.Job] && e.Kind != sent && e.Kind != answered || e.Job != "" && wanted[e.Job] {
			selected = append(selected, e)
		}
	}
	return selected
}
