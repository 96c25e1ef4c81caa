package amboy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
)

// KeepForever is the value of a Retention's fields for jobs that are kept as long as the
// store has room for them.
const KeepForever time.Duration = -1

// The defaults for fields of a Retention that are 0.
const (
	DefaultKeepSucceeded = 24 * time.Hour
	DefaultKeepOthers    = 7 * 24 * time.Hour
)

// Retention is how long a job that ended stays in the store, counted from its end. A field
// of 0 means the default, KeepForever means no limit. A store may also limit the number of
// jobs that have ended. A new setting applies to jobs that end from then on. An attempt
// that was retried stays for the shortest of the times, so that it is removed before the
// job's last attempt, whose status describes all of them.
type Retention struct {
	// Succeeded applies to jobs without an error. Default: DefaultKeepSucceeded.
	Succeeded time.Duration
	// Failed applies to jobs that failed. Default: DefaultKeepOthers.
	Failed time.Duration
	// Canceled applies to jobs that were canceled. Default: DefaultKeepOthers.
	Canceled time.Duration
	// Expired applies to jobs that were not started in time. Default:
	// DefaultKeepOthers.
	Expired time.Duration
}

// RetainedJob is implemented by jobs that set their own retention.
type RetainedJob interface {
	// Retention is called when an attempt has ended. A field of 0 means the queue's
	// setting.
	Retention() Retention
}

// Validate sets the defaults. It returns an error that names every field that is out of
// range.
func (r *Retention) Validate() error {
	var errs []error
	for _, field := range []struct {
		name     string
		keep     *time.Duration
		fallback time.Duration
	}{
		{"Succeeded", &r.Succeeded, DefaultKeepSucceeded},
		{"Failed", &r.Failed, DefaultKeepOthers},
		{"Canceled", &r.Canceled, DefaultKeepOthers},
		{"Expired", &r.Expired, DefaultKeepOthers},
	} {
		if *field.keep < 0 && *field.keep != KeepForever {
			errs = append(errs, fmt.Errorf("invalid retention: %s must be positive, 0 for the default or KeepForever (is %s)", field.name, *field.keep))
		}
		if *field.keep == 0 {
			*field.keep = field.fallback
		}
	}
	return errors.Join(errs...)
}

// For returns the retention of a job in a queue whose retention is r. It ignores fields of
// the job's own retention that are out of range. If the job's Retention method panics, it
// logs the panic and returns r.
//
//nolint:contextcheck // The log message has no context of its own.
func (r Retention) For(j Job) Retention {
	own, ok := j.(RetainedJob)
	if !ok {
		return r
	}
	var wanted Retention
	err := recoverPanic(func() error {
		wanted = own.Retention()
		return nil
	})
	if err != nil {
		// The job has ended, whatever its Retention method does.
		logging.Error(context.Background(), message.Fields{
			"message": "a job's Retention method panicked; using the queue's retention",
			"job_id":  j.ID(),
			"error":   err.Error(),
		})
		return r
	}
	for _, field := range []struct{ keep, wanted *time.Duration }{
		{&r.Succeeded, &wanted.Succeeded},
		{&r.Failed, &wanted.Failed},
		{&r.Canceled, &wanted.Canceled},
		{&r.Expired, &wanted.Expired},
	} {
		if *field.wanted > 0 || *field.wanted == KeepForever {
			*field.keep = *field.wanted
		}
	}
	return r
}

// Until is when a job that ended in state may be removed; zero means never.
func (r Retention) Until(state JobState, ended time.Time) time.Time {
	keep := r.Failed
	switch state {
	case StateSucceeded:
		keep = r.Succeeded
	case StateCanceled:
		keep = r.Canceled
	case StateExpired:
		keep = r.Expired
	}
	return keepFrom(ended, keep)
}

// UntilReplaced is when an attempt that was retried may be removed; zero means never.
func (r Retention) UntilReplaced(ended time.Time) time.Time {
	shortest := KeepForever
	for _, keep := range []time.Duration{r.Succeeded, r.Failed, r.Canceled, r.Expired} {
		if keep != KeepForever && (shortest == KeepForever || keep < shortest) {
			shortest = keep
		}
	}
	return keepFrom(ended, shortest)
}

func keepFrom(ended time.Time, keep time.Duration) time.Time {
	if keep == KeepForever {
		return time.Time{}
	}
	return ended.Add(keep)
}
