package table

import (
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// Ending is a record whose attempt ended.
type Ending struct {
	Record
	To Place // final, or Retrying
	// Replaced is true if a next attempt exists.
	Replaced bool

	ended *driver.Record
}

// NewEnding encodes the record of an attempt that ended. name is the name that its row has.
func NewEnding(name string, r *driver.Record) (*Ending, error) {
	encoded, err := Encode(r)
	if err != nil {
		return nil, err
	}
	encoded.Name = name
	return &Ending{Record: encoded, To: FinalPlace(driver.StateOf(r, time.Now())), ended: r}, nil
}

// NewFinalEnding is NewEnding for an attempt that is not to be retried, or already has been.
func NewFinalEnding(r *driver.Record) (*Ending, error) {
	e, err := NewEnding(r.Name, r)
	if err == nil && e.To == Retrying {
		final := *r
		final.RetryInfo.NeedsRetry = false
		e.To = FinalPlace(driver.StateOf(&final, time.Now()))
	}
	return e, err
}

// IsAwaitedBy reports whether a job awaits the retry of the attempt, and not that of a later run: a restart and
// a claim have raised its count since.
func (e *Ending) IsAwaitedBy(j *Job) bool { return j.Place == Retrying && j.Count <= e.Count }

// NewCanceled returns the ending of a stored record that did not run, for the reason and with the
// retention time of a Cancel action. r is what Decode returned for it, with damage as its error; what
// can't be decoded stays as it is stored.
func NewCanceled(stored *Content, r *driver.Record, damage error, reason string, forgetAt, now time.Time) (*Ending, error) {
	r.Status.Completed, r.Status.InProgress, r.Status.Hold = true, false, ""
	r.Status.Outcome, r.Status.Reason, r.ForgetAt = amboy.OutcomeCanceled, reason, forgetAt
	r.Status.ModificationCount++
	r.RetryInfo.NeedsRetry = false
	r.TimeInfo.End = now
	e, err := NewEnding(r.Name, r)
	if err == nil && damage != nil {
		e.Type, e.Version, e.Format, e.Dependency = stored.Type, stored.Version, stored.Format, stored.Dependency
		e.Extra, e.Body = stored.Extra, stored.Body
	}
	return e, err
}

// Canceled returns the ending of an attempt that was to be canceled.
func (e *Ending) Canceled(reason string, forgetAt Instant) (*Ending, error) {
	r := *e.ended
	driver.EndCanceled(&r, reason, TimeOf(forgetAt))
	return NewEnding(e.Name, &r)
}

// ApplySave returns the columns of a record that Save changes. relocked reports whether its lease
// changes, too.
func ApplySave(to, from *driver.Record) (saved Record, relocked bool, refusal error) {
	relocked, refusal = driver.CheckSave(to, from)
	if refusal != nil {
		return Record{}, false, refusal
	}
	driver.CopyContent(to, from)
	if relocked {
		driver.CopyLock(to, from)
	}
	saved, refusal = Encode(to)
	return saved, relocked, refusal
}
