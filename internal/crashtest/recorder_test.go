package crashtest_test

import (
	"context"
	"sync"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// recorder is a driver that records in a journal what the store acknowledged.
type recorder struct {
	driver.Driver
	journal *journal

	mu      sync.Mutex
	claimed map[driver.Lease]attempt
}

// attempt identifies an attempt of a job.
type attempt struct {
	job    string
	number int
}

func newRecorder(d driver.Driver, j *journal) driver.Driver {
	return asDeployed(&recorder{Driver: d, journal: j, claimed: map[driver.Lease]attempt{}}, d)
}

// Claim implements driver.Driver.
func (r *recorder) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	claimed, err := r.Driver.Claim(ctx, req)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, record := range claimed.Records {
		r.claimed[driver.LeaseOf(record)] = attempt{record.JobID(), record.RetryInfo.CurrentAttempt}
	}
	return claimed, err
}

// Extend implements driver.Driver.
func (r *recorder) Extend(ctx context.Context, leases []driver.Lease, leaseTime time.Duration) ([]driver.Lease, error) {
	now := time.Now()
	lost, err := r.Driver.Extend(ctx, leases, leaseTime)
	if err != nil {
		return lost, err
	}
	gone := map[driver.Lease]bool{}
	for _, lease := range lost {
		gone[lease] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, lease := range leases {
		if a := r.claimed[lease]; !gone[lease] {
			r.journal.write(event{Kind: renewed, At: now, Job: a.job, Attempt: a.number, Lease: lease.Count})
		}
	}
	return lost, nil
}

// stateAfter is the state in which an end leaves a job. One with a next attempt has been
// retried at once.
func stateAfter(c driver.Completion) amboy.JobState {
	if c.Next != nil {
		return amboy.StateRetrying
	}
	return driver.StateOf(c.Record, time.Time{})
}

// Complete implements driver.Driver.
func (r *recorder) Complete(ctx context.Context, completions []driver.Completion) ([]error, error) {
	for _, c := range completions {
		r.journal.write(event{
			Kind:    completing,
			At:      time.Now(),
			Job:     c.Record.JobID(),
			Attempt: c.Record.RetryInfo.CurrentAttempt,
			Lease:   c.Lease.Count,
			State:   stateAfter(c),
		})
	}
	errs, err := r.Driver.Complete(ctx, completions)
	if err != nil {
		return errs, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, c := range completions {
		delete(r.claimed, c.Lease)
		if errs[i] == nil {
			r.journal.write(event{
				Kind:    completed,
				At:      time.Now(),
				Job:     c.Record.JobID(),
				Attempt: c.Record.RetryInfo.CurrentAttempt,
				Lease:   c.Lease.Count,
				Retry:   stateAfter(c) == amboy.StateRetrying,
			})
		}
	}
	return errs, nil
}
