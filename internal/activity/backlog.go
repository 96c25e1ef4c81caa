package activity

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// The kinds of the notes of backlogs.
const (
	BacklogMinuteKind   = "backlog minute"
	BacklogHourKind     = "backlog hour"
	BacklogSixHoursKind = "backlog 6 hours"
)

// backlogKinds maps the steps to the kinds of the notes of their backlogs.
var backlogKinds = [len(steps)]string{Minute: BacklogMinuteKind, Hour: BacklogHourKind, SixHours: BacklogSixHoursKind}

// BacklogKind returns the kind of the notes of the backlogs of a step.
func BacklogKind(step Step) string { return backlogKinds[step] }

// MaxBacklogs is the maximum number of queues of a sample: the queues with the most jobs that
// have not ended. The samples of a step may contain different queues; the backlogs of a step
// have at most MaxRows of them.
const MaxBacklogs = 100

// IdleBacklogs is the time after which a process samples again if no job has to be counted. A
// sample without jobs stands for the minutes until then, in which there may be no other.
const IdleBacklogs = 10 * time.Minute

// Backlog is the number of jobs of a queue that have not ended. In a step with several samples
// each field is the largest of the samples.
type Backlog struct {
	Queue string
	// Ready counts the jobs that could start, Waiting the other jobs that have not ended and
	// do not run, and Running the running jobs.
	Ready, Waiting, Running int
	// Oldest is how long the oldest ready job could have started already.
	Oldest time.Duration
}

// Add adds the jobs of another queue.
func (b *Backlog) Add(other Backlog) {
	b.Ready += other.Ready
	b.Waiting += other.Waiting
	b.Running += other.Running
	b.Oldest = max(b.Oldest, other.Oldest)
}

// raise raises the fields to those of another sample.
func (b *Backlog) raise(other Backlog) {
	b.Ready = max(b.Ready, other.Ready)
	b.Waiting = max(b.Waiting, other.Waiting)
	b.Running = max(b.Running, other.Running)
	b.Oldest = max(b.Oldest, other.Oldest)
}

func (b *Backlog) unfinished() int { return b.Ready + b.Waiting + b.Running }

// Backlogs are the backlogs of the queues of a store in a step.
type Backlogs struct {
	// Start is the start of the step.
	Start time.Time
	Step  Step
	// Sum is the backlog of all queues. Its Oldest is the largest of the rows.
	Sum Backlog
	// Rows are the backlogs of the queues with jobs that have not ended, ordered by queue.
	Rows []Backlog
	// Partial is true if there were more queues with such jobs.
	Partial bool
}

// BacklogOf returns the backlogs of a sample.
func BacklogOf(totals driver.QueueTotals, oldest map[string]time.Time, now time.Time) Backlogs {
	all := driver.QueueInfo{Stats: totals.Stats, Scheduled: totals.Scheduled, Parked: totals.Parked}
	b := Backlogs{Sum: backlogOf(all), Partial: len(totals.Busiest) >= MaxBacklogs}
	for _, info := range totals.Busiest {
		row := backlogOf(info)
		if since := oldest[info.Name]; !since.IsZero() {
			row.Oldest = max(0, now.Sub(since))
		}
		b.Sum.Oldest = max(b.Sum.Oldest, row.Oldest)
		b.Rows = append(b.Rows, row)
	}
	b.sort()
	return b
}

func backlogOf(info driver.QueueInfo) Backlog {
	ready := info.Ready()
	return Backlog{Queue: info.Name, Ready: ready, Running: info.Stats.Running, Waiting: max(0, info.Unfinished()-info.Stats.Running-ready)}
}

func (b *Backlogs) sort() {
	slices.SortFunc(b.Rows, func(x, y Backlog) int { return strings.Compare(x.Queue, y.Queue) })
}

// In returns the backlogs of a sample as those of a step that contains its time.
func (b Backlogs) In(step Step, at time.Time) Backlogs {
	b.Step, b.Start = step, at.UTC().Truncate(step.Length())
	b.Rows = slices.Clone(b.Rows)
	return b
}

// Merge raises the backlogs to those of another sample of the same step.
func (b *Backlogs) Merge(other Backlogs) {
	b.Sum.raise(other.Sum)
	b.Partial = b.Partial || other.Partial
	at := map[string]int{}
	for i, row := range b.Rows {
		at[row.Queue] = i
	}
	for _, row := range other.Rows {
		if i, found := at[row.Queue]; found {
			b.Rows[i].raise(row)
		} else {
			b.Rows = append(b.Rows, row)
		}
	}
	b.keepLargest(MaxRows)
}

// keepLargest removes the rows with the fewest jobs if there are more than so many.
func (b *Backlogs) keepLargest(most int) {
	if len(b.Rows) > most {
		slices.SortStableFunc(b.Rows, func(x, y Backlog) int { return cmp.Compare(y.unfinished(), x.unfinished()) })
		b.Rows = slices.Clip(b.Rows[:most])
		b.Partial = true
	}
	b.sort()
}

// Of returns the sum of the backlogs of some queues; all queues if none are named. It returns
// false if nothing is known of any of them.
func (b *Backlogs) Of(queues []string) (sum Backlog, known bool) {
	if len(queues) == 0 {
		return b.Sum, true
	}
	known = !b.Partial
	for _, row := range b.Rows {
		if slices.Contains(queues, row.Queue) {
			sum.Add(row)
			known = true
		}
	}
	return sum, known
}

// Note returns the note with which a process stores the backlogs. group is the name under which
// a group of queues in memory copies those of one of its queues; empty otherwise.
func (b Backlogs) Note(group string) driver.Note {
	value := b.encode()
	for len(value) > driver.MaxNoteBytes {
		b.Rows = slices.Clone(b.Rows)
		b.keepLargest(len(b.Rows) / 2)
		value = b.encode()
	}
	key := KeyOf(b.Start)
	if group != "" {
		hash := sha256.Sum256([]byte(group)) // the name may be too long for a key
		key += " " + hex.EncodeToString(hash[:16])
	}
	return driver.Note{Kind: BacklogKind(b.Step), Key: key, Value: value, Until: b.Start.Add(steps[b.Step].keep)}
}

func (b *Backlogs) encode() []byte {
	encoded := []byte{format, byte(b.Step), 0}
	if b.Partial {
		encoded[2] = 1
	}
	encoded = appendInt(encoded, b.Start.Unix())
	encoded = b.Sum.appendTo(encoded)
	encoded = appendInt(encoded, int64(len(b.Rows)))
	for i := range b.Rows {
		encoded = b.Rows[i].appendTo(appendText(encoded, b.Rows[i].Queue))
	}
	return encoded
}

func (b *Backlog) appendTo(encoded []byte) []byte {
	for _, n := range []int64{int64(b.Ready), int64(b.Waiting), int64(b.Running), b.Oldest.Milliseconds()} {
		encoded = appendInt(encoded, n)
	}
	return encoded
}

// DecodeBacklogs decodes the value of a note. It returns an error for bytes that Note did not
// return.
func DecodeBacklogs(encoded []byte) (Backlogs, error) {
	r := &reader{rest: encoded}
	step := readStep(r)
	partial := r.nextByte()
	if partial > 1 {
		r.fail(fmt.Sprintf("flags %d", partial))
	}
	b := Backlogs{Step: step, Partial: partial == 1, Start: time.Unix(r.number(), 0).UTC(), Sum: readBacklog(r)}
	for range r.length() {
		name := r.text()
		row := readBacklog(r)
		row.Queue = name
		if r.err != nil {
			break
		}
		b.Rows = append(b.Rows, row)
	}
	if err := r.end(); err != nil {
		return Backlogs{}, fmt.Errorf("reading a backlog: %w", err)
	}
	return b, nil
}

func readBacklog(r *reader) Backlog {
	return Backlog{Ready: int(r.number()), Waiting: int(r.number()), Running: int(r.number()), Oldest: time.Duration(min(r.number(), maxMillis)) * time.Millisecond}
}

// maxMillis is the longest time that a time.Duration can hold, in milliseconds.
const maxMillis = int64(1<<63-1) / int64(time.Millisecond)
