package management

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
)

// plainQueueSource finds the jobs of a queue that has no store, or does not share its
// store. It uses only the public interfaces of queues.
type plainQueueSource struct{ queue amboy.Queue }

func (h plainQueueSource) find(ctx context.Context, states []amboy.JobState, jobType string) iter.Seq2[*seen, error] {
	query := amboy.JobQuery{States: states}
	if jobType != "" {
		query.Types = []string{jobType}
	}
	return func(yield func(*seen, error) bool) {
		for info, err := range h.infos(ctx, query) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(h.see(info), nil) {
				return
			}
		}
	}
}

// infos yields the matching jobs, even of a queue that can only list all its jobs.
func (h plainQueueSource) infos(ctx context.Context, query amboy.JobQuery) iter.Seq2[amboy.JobInfo, error] {
	if finder, ok := h.queue.(amboy.JobFinder); ok {
		return finder.FindJobs(ctx, query)
	}
	return func(yield func(amboy.JobInfo, error) bool) {
		listing, stop := context.WithCancel(ctx)
		defer stop()
		for info := range h.queue.JobInfo(listing) {
			info.State = amboy.StateOf(info, amboy.Now(h.queue))
			selected := (query.States == nil || slices.Contains(query.States, info.State)) &&
				(query.Types == nil || slices.Contains(query.Types, info.Type.Name))
			if selected && !yield(info, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(amboy.JobInfo{}, err)
		}
	}
}

func (h plainQueueSource) see(info amboy.JobInfo) *seen {
	return see(info, h.leaseTime(), amboy.Now(h.queue))
}

// leaseTime returns the length of a lease; 0 if the queue's jobs have no leases.
func (h plainQueueSource) leaseTime() time.Duration {
	if store, ok := queue.StoreOf(h.queue); ok {
		return store.LeaseTime()
	}
	if _, ok := h.queue.(amboy.JobContexter); !ok {
		return 0
	}
	return h.queue.Info().LockTimeout
}

func (h plainQueueSource) get(ctx context.Context, id GroupedID) (*seen, error) {
	j, ok := h.queue.Get(ctx, id.ID)
	if !ok {
		return nil, amboy.NewJobNotFoundErrorf("queue %q has no job %q", h.queue.ID(), id.ID)
	}
	return h.see(amboy.NewJobInfo(j)), nil
}

func (h plainQueueSource) locate(_ context.Context, id string) ([]GroupedID, error) {
	return []GroupedID{{ID: id}}, nil
}

func (h plainQueueSource) markComplete(ctx context.Context, jobs []*seen) []error {
	errs := make([]error, len(jobs))
	for i, j := range jobs {
		errs[i] = h.complete(ctx, j)
	}
	return errs
}

func (h plainQueueSource) complete(ctx context.Context, seen *seen) error {
	j, ok := h.queue.Get(ctx, seen.ID)
	if !ok {
		return amboy.NewJobNotFoundErrorf("queue %q has no job %q", h.queue.ID(), seen.ID)
	}
	if seen.progress == retrying {
		if retries, ok := h.queue.(amboy.RetryableQueue); ok {
			return retries.CompleteRetrying(ctx, j)
		}
	}
	// The job must not ask for a retry, not even if its run continues and fails.
	j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(false), NeedsRetry: new(false)})
	err := h.queue.Complete(ctx, j)
	if errors.Is(err, amboy.ErrLeaseLost) && h.leaseTime() == 0 {
		return nil // without leases this can only mean that the job has ended
	}
	return err
}
