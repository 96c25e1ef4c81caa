package mongodb

import (
	"context"
	"fmt"

	"github.com/mongodb/amboy/queue/driver"
)

// Complete implements driver.Driver. A record that never ran can be completed
// too, under the lease that it shows: then it never will.
func (d *Driver) Complete(ctx context.Context, completions []driver.Completion) ([]error, error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	changes := make([]*change, len(completions))
	for i, c := range completions {
		changes[i] = d.completion(c)
	}
	err = d.apply(plain(ctx), changes)
	if err != nil {
		return nil, fmt.Errorf("completing %d records: %w", len(completions), err)
	}
	return errorsOf(changes, func(i int) driver.Lease { return completions[i].Lease }), nil
}

func (d *Driver) completion(c driver.Completion) *change {
	end := stored(c.Record.TimeInfo.End)
	left := driver.Lease{Queue: c.Lease.Queue, Name: c.Lease.Name, Owner: c.Record.Status.Owner, Count: c.Record.Status.ModificationCount}
	return &change{
		queue:  c.Lease.Queue,
		name:   c.Lease.Name,
		before: d.leases.take(c.Lease),
		ends:   true,
		step: func(doc *document) error {
			if !doc.holds(c.Lease) {
				return leaseLost(c.Lease)
			}
			if doc.JobID == "" {
				doc.JobID = doc.jobID() // it is one of the former library
			}
			doc.end(c.Record)
			return nil
		},
		made: func(doc *document) bool {
			return doc.Status.Completed && doc.lease() == left && doc.TimeInfo.End.Equal(end)
		},
	}
}
