package management

import (
	"context"
	"iter"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/records"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// pageSize is the number of jobs that are read, and completed, at a time.
const pageSize = 100

// storeSource finds the jobs of a store.
type storeSource struct{ store *queue.Store }

func (s storeSource) find(ctx context.Context, states []amboy.JobState, jobType string) iter.Seq2[*seen, error] {
	query := driver.Query{Queues: s.store.Queues(), States: states, Latest: true}
	if jobType != "" {
		query.Types = []string{jobType}
	}
	return s.pages(ctx, query)
}

// pages yields the jobs that a query selects.
func (s storeSource) pages(ctx context.Context, query driver.Query) iter.Seq2[*seen, error] {
	return func(yield func(*seen, error) bool) {
		for r, err := range records.Each(ctx, s.store.Driver(), query, driver.PageRequest{Limit: pageSize}) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(s.see(r), nil) {
				return
			}
		}
	}
}

func (s storeSource) see(r *driver.Record) *seen {
	info := amboy.JobInfo{ID: r.JobID(), Type: amboy.JobType{Name: r.Type}, Status: r.Status, Retry: r.RetryInfo}
	j := see(info, s.store.LeaseTime(), s.store.Now())
	j.Group, j.record = r.Group, r
	return j
}

func (s storeSource) get(ctx context.Context, id GroupedID) (*seen, error) {
	r, err := s.store.Driver().Get(ctx, id.Group, id.ID)
	if err != nil {
		return nil, err
	}
	return s.see(r), nil
}

// locate returns the job in each queue of the store that may contain it.
func (s storeSource) locate(ctx context.Context, id string) (jobs []GroupedID, err error) {
	for _, name := range s.store.Queues() {
		jobs = append(jobs, GroupedID{ID: id, Group: name})
	}
	if len(jobs) > 0 {
		return jobs, nil
	}
	// ID is a pattern, so the query may also find other jobs.
	for j, err := range s.pages(ctx, driver.Query{ID: id, Latest: true}) {
		if err != nil {
			return nil, err
		}
		if j.ID == id {
			jobs = append(jobs, j.GroupedID)
		}
	}
	return jobs, nil
}

func (s storeSource) markComplete(ctx context.Context, jobs []*seen) []error {
	all := make([]*driver.Record, len(jobs))
	for i, j := range jobs {
		all[i] = j.record
	}
	return s.store.MarkComplete(ctx, all)
}
