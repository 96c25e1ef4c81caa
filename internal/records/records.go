// Package records reads the records that a query selects, page by page.
package records

import (
	"context"
	"iter"

	"github.com/mongodb/amboy/queue/driver"
)

// Finder is the part of driver.Admin that finds records.
type Finder interface {
	Find(ctx context.Context, q driver.Query, page driver.PageRequest) (driver.Page, error)
}

// Each yields the records that a query selects, in pages like the first. After an error it
// yields nothing more.
func Each(ctx context.Context, store Finder, q driver.Query, first driver.PageRequest) iter.Seq2[*driver.Record, error] {
	return func(yield func(*driver.Record, error) bool) {
		for page := first; ; {
			found, err := store.Find(ctx, q, page)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, r := range found.Records {
				if !yield(r, nil) {
					return
				}
			}
			if found.Next == "" {
				return
			}
			page.After = found.Next
		}
	}
}
