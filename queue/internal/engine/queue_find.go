package engine

import (
	"context"
	"fmt"
	"iter"
	"math"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/records"
	"github.com/mongodb/amboy/queue/driver"
)

var _ amboy.JobFinder = (*Queue)(nil)

// FindJobs finds jobs in the store, page by page.
func (q *Queue) FindJobs(ctx context.Context, query amboy.JobQuery) iter.Seq2[amboy.JobInfo, error] {
	return func(yield func(amboy.JobInfo, error) bool) {
		for r, err := range records.Each(ctx, q.Driver, q.queryOf(query), driver.PageRequest{Limit: listPage}) {
			if err != nil {
				yield(amboy.JobInfo{}, fmt.Errorf("finding jobs in queue %q: %w", q.ID(), err))
				return
			}
			if !yield(infoOf(r, q.Engine.Now()), nil) {
				return
			}
		}
	}
}

// CountJobs counts jobs in the store.
func (q *Queue) CountJobs(ctx context.Context, query amboy.JobQuery) (int, error) {
	n, err := q.Driver.Count(ctx, q.queryOf(query), math.MaxInt)
	if err != nil {
		return 0, fmt.Errorf("counting jobs in queue %q: %w", q.ID(), err)
	}
	return n, nil
}

// queryOf returns the store's form of a query about this queue.
func (q *Queue) queryOf(query amboy.JobQuery) driver.Query {
	stored := driver.Query{
		Queues: []string{q.Name},
		States: query.States,
		Types:  query.Types,
		Latest: true,
	}
	if query.Tag != "" {
		stored.Tags = []string{query.Tag}
	}
	return stored
}
