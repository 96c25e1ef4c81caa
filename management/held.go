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

// held are the jobs of a queue that has no store, or whose store is its own affair:
// all that is known of it is the contract of queues.
type held struct{ queue amboy.Queue }

func (h held) find(ctx context.Context, states []amboy.JobState, jobType string) iter.Seq2[*seen, error] {
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

// infos finds jobs, also in a queue in which they can only be listed.
func (h held) infos(ctx context.Context, query amboy.JobQuery) iter.Seq2[amboy.JobInfo, error] {
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

func (h held) see(info amboy.JobInfo) *seen {
	return see(info, h.leaseTime(), amboy.Now(h.queue))
}

// leaseTime is 0 for a queue that can't lose its jobs.
func (h held) leaseTime() time.Duration {
	if store, ok := queue.StoreOf(h.queue); ok {
		return store.LeaseTime()
	}
	if _, ok := h.queue.(amboy.JobContexter); !ok {
		return 0
	}
	return h.queue.Info().LockTimeout
}

func (h held) get(ctx context.Context, id GroupedID) (*seen, error) {
	j, ok := h.queue.Get(ctx, id.ID)
	if !ok {
		return nil, amboy.NewJobNotFoundErrorf("queue %q has no job %q", h.queue.ID(), id.ID)
	}
	return h.see(amboy.NewJobInfo(j)), nil
}

func (h held) locate(_ context.Context, id string) ([]GroupedID, error) {
	return []GroupedID{{ID: id}}, nil
}

func (h held) markComplete(ctx context.Context, jobs []*seen) []error {
	errs := make([]error, len(jobs))
	for i, j := range jobs {
		errs[i] = h.complete(ctx, j)
	}
	return errs
}

func (h held) complete(ctx context.Context, seen *seen) error {
	j, ok := h.queue.Get(ctx, seen.ID)
	if !ok {
		return amboy.NewJobNotFoundErrorf("queue %q has no job %q", h.queue.ID(), seen.ID)
	}
	if seen.progress == retrying {
		if retries, ok := h.queue.(amboy.RetryableQueue); ok {
			return retries.CompleteRetrying(ctx, j)
		}
	}
	// It must not ask for a retry any more, also where it runs still and fails.
	j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(false), NeedsRetry: new(false)})
	err := h.queue.Complete(ctx, j)
	if errors.Is(err, amboy.ErrLeaseLost) && h.leaseTime() == 0 {
		return nil // where there are no leases, that can only mean that it has ended
	}
	return err
}
