package queue

import (
	"math"
	"sync"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/heap"
)

// never is a wait that does not end.
const never = time.Duration(math.MaxInt64)

// retryKey identifies an attempt of a job.
type retryKey struct {
	jobID   string
	attempt int
}

// jobRetry is the task of replacing one attempt of a job by the next.
type jobRetry struct {
	retryKey
	tries int
	start time.Time // time of the first try
	due   time.Time // time of the next try

	// A round of tries that all failed makes the pause between later tries longer.
	roundTries int
	roundStart time.Time
	pause      time.Duration // 0 in the first round

	// job is nil if it must be read from the queue again. locked and ended describe what
	// was done to this copy of it.
	job    amboy.Job
	locked bool
	ended  bool
	// turn, if it is not nil, is shared by the retries that a worker makes at once.
	turn *sync.Mutex
}

// begin counts a try.
func (r *jobRetry) begin(now time.Time) {
	if r.tries == 0 {
		r.start = now
	}
	if r.roundTries == 0 {
		r.roundStart = now
	}
	r.tries++
	r.roundTries++
}

// describe returns the fields of a log message about a retry.
func (r *jobRetry) describe(text string, err error) message.Fields {
	return message.Fields{
		"message": text,
		"job_id":  r.jobID,
		"attempt": r.attempt + 1,
		"tries":   r.tries,
		"error":   err.Error(),
	}
}

// retryBacklog holds the waiting retries, and the keys of all unfinished ones. It holds
// at most maxJobs jobs; of further jobs it holds only the key. It is not safe for
// concurrent use.
type retryBacklog struct {
	maxJobs int
	jobs    int
	known   map[retryKey]struct{} // waiting, or taken by a worker
	ready   []*jobRetry           // in FIFO order
	delayed heap.Heap[*jobRetry]  // by when they are due
}

func newRetryBacklog(maxJobs int) retryBacklog {
	return retryBacklog{
		maxJobs: maxJobs,
		delayed: heap.New(func(a, b *jobRetry) bool { return a.due.Before(b.due) }, nil),
	}
}

// add queues a retry for a worker. It returns false if the backlog already knows the
// attempt.
func (b *retryBacklog) add(r *jobRetry) bool {
	if _, ok := b.known[r.retryKey]; ok {
		return false
	}
	if b.known == nil {
		b.known = map[retryKey]struct{}{}
	}
	b.known[r.retryKey] = struct{}{}
	b.hold(r)
	b.ready = append(b.ready, r)
	return true
}

// hold counts the job of a retry that will wait, or drops the job if the backlog holds
// too many.
func (b *retryBacklog) hold(r *jobRetry) {
	switch {
	case r.job == nil:
	case b.jobs < b.maxJobs:
		b.jobs++
	default:
		r.job, r.locked, r.ended = nil, false, false
	}
}

// take removes and returns the first ready retry, or nil if none is ready.
func (b *retryBacklog) take() *jobRetry {
	if len(b.ready) == 0 {
		return nil
	}
	r := b.ready[0]
	b.ready[0] = nil
	b.ready = b.ready[1:]
	if len(b.ready) == 0 {
		b.ready = nil
	}
	if r.job != nil {
		b.jobs--
	}
	return r
}

// delay makes a retry that a worker took wait until it is due.
func (b *retryBacklog) delay(r *jobRetry) {
	b.hold(r)
	b.delayed.Put(r)
}

// nextDue returns when the first delayed retry is due. It returns false if none is
// delayed.
func (b *retryBacklog) nextDue() (time.Time, bool) {
	if b.delayed.Len() == 0 {
		return time.Time{}, false
	}
	return b.delayed.First().due, true
}

// release moves the delayed retries that are due to the ready ones, and returns their
// number.
func (b *retryBacklog) release(now time.Time) (released int) {
	for b.delayed.Len() > 0 && !b.delayed.First().due.After(now) {
		b.ready = append(b.ready, b.delayed.Pop())
		released++
	}
	return released
}

// forget removes a retry that a worker has finished.
func (b *retryBacklog) forget(r *jobRetry) {
	delete(b.known, r.retryKey)
	if len(b.known) == 0 {
		// A map does not release its memory when it shrinks.
		b.known = nil
	}
}
