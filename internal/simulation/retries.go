package simulation

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

// retryLimit bounds the calls with which an attempt is replaced.
const retryLimit = 5 * time.Second

// retry is the task of replacing one attempt of a job by the next.
type retry struct {
	p      *process
	record *driver.Record
	call   *call
}

// retry starts the retry of a job, unless it has been started already.
func (p *process) retry(record *driver.Record) {
	for _, other := range p.retries {
		if other.record.Name == record.Name && other.record.Group == record.Group {
			return
		}
	}
	r := &retry{p: p, record: record}
	p.retries = append(p.retries, r)
	r.happen(p.w)
}

// happen makes an attempt.
func (r *retry) happen(*World) {
	path := retryPath
	if r.record.RetryInfo.GetRemainingAttempts() == 0 {
		path = endRetryPath
	}
	r.call = &call{p: r.p, path: path, retry: r, limit: retryLimit}
	r.p.post(r.call)
}

func (r *retry) takeEffect(w *World, c *call) {
	old := replaced(r.record, c.now)
	job, attempt := old.JobID(), old.RetryInfo.CurrentAttempt
	if c.path == endRetryPath {
		if c.err = w.driver.EndRetry(context.Background(), old); c.err == nil {
			w.log(Event{Process: c.p.index, Kind: Ended, Job: job, Attempt: attempt, State: amboy.StateFailed})
		}
		return
	}
	if c.err = w.driver.Retry(context.Background(), old, nextAttempt(r.record, c.now)); c.err == nil {
		w.log(Event{Process: c.p.index, Kind: Replaced, Job: job, Attempt: attempt})
	}
}

// answered continues after an answer of the store or an error.
func (r *retry) answered(c *call, err error) {
	p := r.p
	if err == nil {
		err = c.err
	}
	if err != nil && !isSettled(err) {
		p.after(p.w.settings.retryPause, r)
		return
	}
	p.retries = slices.DeleteFunc(p.retries, func(other *retry) bool { return other == r })
	if err == nil {
		p.step(core.Changed{})
	}
}

// isSettled reports whether an error means that nothing is left to do.
func isSettled(err error) bool {
	return errors.Is(err, driver.ErrLeaseLost) || amboy.IsJobNotFoundError(err) ||
		amboy.IsDuplicateJobError(err) && !amboy.IsDuplicateJobScopeError(err)
}
