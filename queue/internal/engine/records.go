package engine

import (
	"context"
	"iter"

	"github.com/mongodb/amboy/queue/driver"
)

// Records yields the records that a query selects, in the order in which they were added.
// It reads them page by page, and stops after an error.
func Records(ctx context.Context, d driver.Driver, q driver.Query, pageSize int) iter.Seq2[*driver.Record, error] {
	return func(yield func(*driver.Record, error) bool) {
		request := driver.PageRequest{Limit: pageSize}
		for {
			page, err := d.Find(ctx, q, request)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, r := range page.Records {
				if !yield(r, nil) {
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
