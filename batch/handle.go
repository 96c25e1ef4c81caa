package batch

import (
	"context"
	"fmt"
	"iter"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/batchend"
	"github.com/mongodb/amboy/internal/load"
)

// Handle is a batch in a queue. It is safe for concurrent use.
type Handle struct {
	id     string
	queue  amboy.Queue
	finder amboy.JobFinder
	marker amboy.Job
	// members are the IDs of its jobs. Other jobs may have its tag: jobs of an earlier
	// batch with the same ID, which the queue kept for longer than that batch's marker.
	members map[string]struct{}
}

func newHandle(q amboy.Queue, finder amboy.JobFinder, id string, marker amboy.Job) *Handle {
	h := &Handle{id: id, queue: q, finder: finder, marker: marker, members: map[string]struct{}{}}
	for _, member := range marker.Dependency().Edges() {
		h.members[member] = struct{}{}
	}
	return h
}

// Open returns the batch with that ID, which any process may have put. If the queue does
// not hold the batch, or has removed it after its end, the error is one for which
// amboy.IsJobNotFoundError is true. If the queue is not an amboy.JobFinder, the error
// wraps errors.ErrUnsupported.
func Open(ctx context.Context, q amboy.Queue, id string) (*Handle, error) {
	finder, err := finderOf(q)
	if err != nil {
		return nil, fmt.Errorf("opening batch %q: %w", id, err)
	}
	marker, err := load.Job(ctx, q, prefix+id)
	if err != nil && !amboy.IsJobNotFoundError(err) {
		return nil, fmt.Errorf("opening batch %q: %w", id, err)
	}
	if err != nil || marker.Type() != batchend.Type {
		return nil, amboy.NewJobNotFoundErrorf("opening batch %q: queue %q does not hold it", id, q.ID())
	}
	return newHandle(q, finder, id, marker), nil
}

// ID returns the ID of the batch.
func (h *Handle) ID() string { return h.id }

// Jobs yields a description of each job of the batch, as amboy.JobFinder does; for a
// retryable job, of its latest attempt. After an error it yields nothing more.
func (h *Handle) Jobs(ctx context.Context) iter.Seq2[amboy.JobInfo, error] {
	return func(yield func(amboy.JobInfo, error) bool) {
		for info, err := range h.finder.FindJobs(ctx, amboy.JobQuery{Tag: prefix + h.id}) {
			_, isMember := h.members[info.ID]
			if (isMember || err != nil) && !yield(info, err) {
				return
			}
		}
	}
}

// Progress is the progress of the jobs of a batch.
type Progress struct {
	// Total is the number of jobs.
	Total int `json:"total"`
	// States counts the jobs by state. It omits states without jobs.
	States map[amboy.JobState]int `json:"states"`
	// Forgotten is the number of jobs that ended and that the queue has removed since.
	Forgotten int `json:"forgotten"`
}

// Ended returns the number of jobs that have ended for good.
func (p Progress) Ended() int {
	ended := p.Forgotten
	for state, n := range p.States {
		if state.IsFinal() {
			ended += n
		}
	}
	return ended
}

// Done reports whether all jobs have ended for good.
func (p Progress) Done() bool { return p.Ended() == p.Total }

// Fraction returns the part of the jobs that have ended for good, from 0 to 1.
func (p Progress) Fraction() float64 {
	if p.Total == 0 {
		return 1
	}
	return float64(p.Ended()) / float64(p.Total)
}

// Progress returns the progress of the jobs. It reads the description of each job, and
// returns the errors of the store.
func (h *Handle) Progress(ctx context.Context) (Progress, error) {
	p, _, err := h.progress(ctx)
	return p, err
}

// progress also returns the ID of a job that has not ended; empty if all have.
func (h *Handle) progress(ctx context.Context) (p Progress, open string, err error) {
	p = Progress{Total: len(h.members), States: map[amboy.JobState]int{}}
	found := map[string]amboy.JobState{}
	for info, err := range h.Jobs(ctx) {
		if err != nil {
			return Progress{}, "", fmt.Errorf("reading the progress of batch %q: %w", h.id, err)
		}
		found[info.ID] = info.State
		if open == "" && !info.State.IsFinal() {
			open = info.ID
		}
	}
	for _, state := range found {
		p.States[state]++
	}
	p.Forgotten = p.Total - len(found)
	return p, open, nil
}

// Wait blocks until all jobs of the batch have ended, and returns their progress. The jobs
// that run after the batch may not have run yet. A job that an operator retries after the batch has
// ended is waited for too. Wait returns an error if ctx ends first or the queue is closed, and errors
// of Progress.
func (h *Handle) Wait(ctx context.Context) (Progress, error) {
	for id := h.marker.ID(); ; {
		ended := amboy.WaitJob(ctx, batchend.New(id), h.queue) // only the ID counts
		if !ended && ctx.Err() != nil {
			return Progress{}, fmt.Errorf("waiting for batch %q: %w", h.id, context.Cause(ctx))
		}
		p, open, err := h.progress(ctx)
		switch {
		case err == nil && p.Done():
			return p, nil
		case !ended && (err != nil || open == id): // otherwise the job was removed
			return Progress{}, fmt.Errorf("waiting for batch %q: %w", h.id, amboy.ErrQueueClosed)
		case err != nil:
			return Progress{}, err
		}
		id = open
	}
}
