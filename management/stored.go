package management

import (
	"context"
	"iter"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// pageSize is the number of jobs that are read, and completed, at a time.
const pageSize = 100

// stored are the jobs of a store.
type stored struct{ store *queue.Store }

func (s stored) find(ctx context.Context, states []amboy.JobState, jobType string) iter.Seq2[*seen, error] {
	query := driver.Query{Queues: s.store.Queues(), States: states, Latest: true}
	if jobType != "" {
		query.Types = []string{jobType}
	}
	return s.pages(ctx, query)
}

// pages yields what a query selects.
func (s stored) pages(ctx context.Context, query driver.Query) iter.Seq2[*seen, error] {
	return func(yield func(*seen, error) bool) {
		request := driver.PageRequest{Limit: pageSize}
		for {
			page, err := s.store.Driver().Find(ctx, query, request)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, r := range page.Records {
				if !yield(s.see(r), nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			request.After = page.Next
		}
	}
}

func (s stored) see(r *driver.Record) *seen {
	info := amboy.JobInfo{ID: r.JobID(), Type: amboy.JobType{Name: r.Type}, Status: r.Status, Retry: r.RetryInfo}
	j := see(info, s.store.LeaseTime(), s.store.Now())
	j.Group, j.record = r.Group, r
	return j
}

func (s stored) get(ctx context.Context, id GroupedID) (*seen, error) {
	r, err := s.store.Driver().Get(ctx, id.Group, id.ID)
	if err != nil {
		return nil, err
	}
	return s.see(r), nil
}

// locate looks for the job where it may be in any queue of the store.
func (s stored) locate(ctx context.Context, id string) (jobs []GroupedID, err error) {
	for _, name := range s.store.Queues() {
		jobs = append(jobs, GroupedID{ID: id, Group: name})
	}
	if len(jobs) > 0 {
		return jobs, nil
	}
	// In a query some characters stand for others, so that it may find more.
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

func (s stored) markComplete(ctx context.Context, jobs []*seen) []error {
	records := make([]*driver.Record, len(jobs))
	for i, j := range jobs {
		records[i] = j.record
	}
	return s.store.MarkComplete(ctx, records)
}
