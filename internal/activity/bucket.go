package activity

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// The kinds of notes.
const (
	MinuteKind   = "activity minute"
	HourKind     = "activity hour"
	SixHoursKind = "activity 6 hours"
)

// Step is the length of the time of a bucket. The numbers are stored.
type Step int

// The steps.
const (
	Minute Step = iota
	Hour
	SixHours
)

// steps describes the steps: their lengths in minutes, which divide a day, the kinds of their notes,
// and how long a bucket is kept, from its start.
var steps = [...]struct {
	minutes int64
	kind    string
	keep    time.Duration
}{
	Minute:   {1, MinuteKind, 2*time.Hour + 10*time.Minute},
	Hour:     {60, HourKind, 49 * time.Hour},
	SixHours: {360, SixHoursKind, 30*24*time.Hour + 7*time.Hour},
}

// Length returns the length of the step.
func (s Step) Length() time.Duration { return time.Duration(steps[s].minutes) * time.Minute }

// MaxRows is the maximum number of rows of a bucket. Anything beyond is counted in one
// row, whose queue and type are empty.
const MaxRows = 500

// Bucket is the activity of a process in a step.
type Bucket struct {
	// Start is the start of the step.
	Start time.Time
	Step  Step
	Rows  []Row
}

// Row is the activity of the jobs of one type in one queue.
type Row struct {
	Queue, Type string
	// Succeeded and Failed count the jobs that ended for good, and Retried the attempts
	// that were followed by another.
	Succeeded, Failed, Retried int
	// Wait and Run are the wait and run times of attempts that ran.
	Wait, Run Histogram
}

// Add adds the counts of another row.
func (r *Row) Add(other Row) {
	r.Succeeded += other.Succeeded
	r.Failed += other.Failed
	r.Retried += other.Retried
	r.Wait.Merge(other.Wait)
	r.Run.Merge(other.Run)
}

func (r *Row) clone() Row {
	c := *r
	c.Wait, c.Run = r.Wait.clone(), r.Run.clone()
	return c
}

// KeyOf returns the prefix of the keys of all notes about a start.
func KeyOf(start time.Time) string { return start.UTC().Format("2006-01-02T15:04Z") }

// Until returns until when the bucket is kept.
func (b Bucket) Until() time.Time {
	return b.Start.Add(steps[b.Step].keep)
}

// Kind returns the kind of the bucket's note.
func (b Bucket) Kind() string {
	return steps[b.Step].kind
}

// Note returns the note with which a process publishes the bucket.
func (b Bucket) Note(process string) (driver.Note, error) {
	value, err := b.Encode()
	if err != nil {
		return driver.Note{}, err
	}
	return driver.Note{Kind: b.Kind(), Key: KeyOf(b.Start) + " " + process, Value: value, Until: b.Until()}, nil
}

// format is the first byte of the stored form.
const format = 1

// Encode returns the stored form. If it would be too large for a note, rows are combined.
func (b Bucket) Encode() ([]byte, error) {
	encoded := b.encode()
	for len(encoded) > driver.MaxNoteBytes {
		if len(b.Rows) < 2 {
			return nil, fmt.Errorf("encoding the activity of %s: a row has more than %d bytes", b.Start, driver.MaxNoteBytes)
		}
		b.Rows = folded(b.Rows)
		encoded = b.encode()
	}
	return encoded, nil
}

// folded returns the first half of the rows, and one row with the sum of the others.
func folded(rows []Row) []Row {
	kept := slices.Clone(rows[:len(rows)/2])
	var rest Row
	for _, row := range rows[len(kept):] {
		rest.Add(row)
	}
	return append(kept, rest)
}

func (b Bucket) encode() []byte {
	encoded := []byte{format, byte(b.Step)}
	encoded = appendInt(encoded, b.Start.Unix())
	encoded = appendInt(encoded, int64(len(b.Rows)))
	for i := range b.Rows {
		row := &b.Rows[i]
		encoded = appendText(appendText(encoded, row.Queue), row.Type)
		for _, n := range []int{row.Succeeded, row.Failed, row.Retried} {
			encoded = appendInt(encoded, int64(n))
		}
		encoded = row.Run.appendTo(row.Wait.appendTo(encoded))
	}
	return encoded
}

// Decode decodes a bucket. It returns an error for bytes that Encode did not return.
func Decode(encoded []byte) (Bucket, error) {
	r := &reader{rest: encoded}
	b := Bucket{Step: readStep(r), Start: time.Unix(r.number(), 0).UTC()}
	for range r.length() {
		row := Row{Queue: r.text(), Type: r.text()}
		row.Succeeded, row.Failed, row.Retried = int(r.number()), int(r.number()), int(r.number())
		row.Wait, row.Run = readHistogram(r), readHistogram(r)
		if r.err != nil {
			break
		}
		b.Rows = append(b.Rows, row)
	}
	if err := r.end(); err != nil {
		return Bucket{}, fmt.Errorf("reading an activity: %w", err)
	}
	return b, nil
}

// readStep reads the format and the step, with which all stored forms begin.
func readStep(r *reader) Step {
	if version := r.nextByte(); version != format {
		r.fail(fmt.Sprintf("format %d", version))
	}
	step := Step(r.nextByte())
	if int(step) >= len(steps) {
		r.fail(fmt.Sprintf("step %d", step))
		return Minute
	}
	return step
}

// compare orders buckets by their start, the longest first.
func compare(a, b Bucket) int { return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(b.Step, a.Step)) }
