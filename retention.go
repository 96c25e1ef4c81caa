package amboy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
)

// KeepForever is the time in a Retention of jobs that stay as long as the store has
// room for them.
const KeepForever time.Duration = -1

// The retention of jobs where a Retention leaves it at 0.
const (
	DefaultKeepSucceeded = 24 * time.Hour
	DefaultKeepOthers    = 7 * 24 * time.Hour
)

// Retention tells how long a job that ended stays in the store, counted from its
// end. A field of 0 stands for the default, KeepForever for no limit. A store may
// have a limit of its own to the number of jobs that ended. What is set counts for
// jobs that end from then on. An attempt that was retried stays for the shortest of
// the times, so that it goes before the job's last one, whose status tells about all.
type Retention struct {
	// Succeeded is for jobs without an error. Default: DefaultKeepSucceeded.
	Succeeded time.Duration
	// Failed is for jobs that failed.
	// Default: DefaultKeepOthers.
	Failed time.Duration
	// Canceled is for jobs that were canceled. Default: DefaultKeepOthers.
	Canceled time.Duration
	// Expired is for jobs that were not started in time. Default:
	// DefaultKeepOthers.
	Expired time.Duration
}

// RetainedJob is implemented by jobs that say themselves how long they are kept.
type RetainedJob interface {
	// Retention is asked for when an attempt ended. A field of 0 stands for what
	// the queue's says.
	Retention() Retention
}

// Validate sets the defaults. It returns an error that names every field that is
// out of range.
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

// For is the retention of a job in a queue whose retention this is. What the job says
// that is out of range does not count, nor does a panic, which is logged.
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
		// The job has ended, whatever it says of what is to become of it.
		logging.Error(context.Background(), message.Fields{
			"message": "a job could not say how long it is to be kept; it is kept as the queue says",
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

// Until is when a job may be forgotten that ended in a state; zero for never.
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

// UntilReplaced is when an attempt that was retried may be forgotten; zero for never.
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
