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

// Kind is what an event of a history is.
type Kind string

// The events that a Checker goes by.
const (
	// Accepted and Refused say what became of a Put.
	Accepted Kind = "accepted"
	Refused  Kind = "refused"
	// Leased, Renewed and Unleased are changes of a lease in the store.
	Leased   Kind = "leased"
	Renewed  Kind = "renewed"
	Unleased Kind = "handed back"
	// Began says that the handler of a run was called, ContextEnded that its context
	// ended first, and Returned that it returned.
	Began        Kind = "began"
	ContextEnded Kind = "context ended"
	Returned     Kind = "returned"
	// Ended says that the end of an attempt was stored, and Replaced that the next
	// attempt was.
	Ended    Kind = "ended"
	Replaced Kind = "replaced"
	// Stopped says that a process was killed, Suspended and Resumed that it stood
	// still in between.
	Stopped   Kind = "killed"
	Suspended Kind = "suspended"
	Resumed   Kind = "resumed"
	// Closed says that a process has closed its queues, and ended.
	Closed Kind = "closed"
	// CancelAsked says that an operator has canceled a job. If it runs it may go on
	// until its process knows.
	CancelAsked Kind = "canceled by an operator"
	// EndedByHand says that an operator has stored that a job succeeded, whether it runs
	// or not.
	EndedByHand Kind = "ended by an operator"
)

// The events that only explain.
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
	// Process is that to which it happened, by its place among the processes; Store
	// for an event of none.
	Process int
	Kind    Kind
	// Job, Attempt and Lease, which is the count of it, say which run it concerns.
	Job     string
	Attempt int
	Lease   int
	// Until is when a lease ends that was taken or renewed.
	Until time.Duration
	// State is that in which an attempt ended.
	State amboy.JobState
	Note  string
}

// Store is the process of events that happen in none.
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

// Hash is the same for histories that are the same in every event.
func Hash(events []Event) string {
	h := sha256.New()
	for _, e := range events {
		_, _ = fmt.Fprintf(h, "%d %d %s\n", e.At, e.Process, e)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// columnWidth is that of a column of a timeline.
const columnWidth = 44

// Timeline writes events, a line for each, with a column for the store and each process.
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

// Concerning selects the events that have to do with some jobs, and the faults.
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
