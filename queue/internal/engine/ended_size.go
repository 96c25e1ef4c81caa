package engine

import (
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/jobstate"
)

// boundedRecord encodes a job that has ended. It cuts the errors and the log of the
// attempt to the sizes that a store accepts. A result that is too large fails the job for
// good.
func (q *Queue) boundedRecord(j amboy.Job) (*driver.Record, error) {
	r, err := q.Record(j)
	if err != nil {
		return nil, err
	}
	if err = checkResultSize(j, r); err != nil {
		j.AddError(amboy.NonRetryable(err))
		jobstate.DoNotRetry(j)
		r.Result, r.Status, r.RetryInfo = nil, j.Status(), j.RetryInfo()
	}
	r.Status.Bound()
	if r.Progress != nil {
		progress := *r.Progress
		progress.Bound()
		r.Progress = &progress
	}
	return r, nil
}

// maxOutsideResult is the maximum size of the encoded result of a job of outside workers:
// package outside limits a result before it is encoded, and base64 takes a third more.
const maxOutsideResult = amboy.MaxResultBytes/3*4 + 1<<10

// checkResultSize returns an error if the result is too large to be stored.
func checkResultSize(j amboy.Job, r *driver.Record) error {
	if r.Result == nil {
		return nil
	}
	most := amboy.MaxResultBytes
	if amboy.IsForOutside(j) {
		most = maxOutsideResult
	}
	if size := len(r.Result.Raw()); size > most {
		return fmt.Errorf("the result of job %q has %d bytes; at most %d are stored", r.JobID(), size, most)
	}
	return nil
}
