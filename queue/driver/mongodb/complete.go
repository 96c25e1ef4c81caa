package mongodb

import (
	"context"
	"errors"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// Complete implements driver.Driver. A record that never ran can be completed too, under
// the lease that it shows; it never runs then. If ctx carries a session with a transaction (see
// mongo.NewSessionContext), Complete writes in it.
func (d *Driver) Complete(ctx context.Context, completions []driver.Completion) ([]error, error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if _, _, err = driver.TransactionOf[transaction](ctx); err != nil {
		return nil, fmt.Errorf("completing %d records in the caller's transaction: %w", len(completions), err)
	}
	if transactionOf(ctx) != nil {
		return d.completeIn(ctx, completions)
	}
	changes := make([]*change, len(completions))
	for i, c := range completions {
		changes[i] = d.completion(c, d.leases.take(c.Lease))
	}
	ctx = plain(ctx)
	err = d.apply(ctx, changes)
	if err == nil {
		err = d.endShort(ctx, changes, func(i int, tooLarge error) *change {
			short := completions[i]
			short.Record = driver.ShortEnd(short.Record, tooLarge)
			return d.completion(short, nil)
		})
	}
	if err != nil {
		return nil, fmt.Errorf("completing %d records: %w", len(completions), err)
	}
	return errorsOf(changes, func(i int) driver.Lease { return completions[i].Lease }), nil
}

// endShort repeats the changes that were too large, with the changes that short returns.
// Their errors then wrap driver.ErrTooLarge.
func (d *Driver) endShort(ctx context.Context, changes []*change, short func(i int, tooLarge error) *change) error {
	var shortened []*change
	var large []*change
	for i, c := range changes {
		var refused *amboy.InvalidJobError
		if errors.As(c.err, &refused) && refused.Field == sizeField {
			shortened, large = append(shortened, short(i, c.err)), append(large, c)
		}
	}
	if len(shortened) == 0 {
		return nil
	}
	err := d.apply(ctx, shortened)
	for i, c := range shortened {
		if c.err == nil {
			large[i].err = fmt.Errorf("%w: %w", driver.ErrTooLarge, large[i].err)
		} else {
			large[i].err = c.err
		}
	}
	return err
}

// completion returns the change that ends an attempt. before is its document as last read, or nil.
func (d *Driver) completion(c driver.Completion, before *document) *change {
	end := stored(c.Record.TimeInfo.End)
	left := c.Lease
	left.Owner, left.Count = c.Record.Status.Owner, c.Record.Status.ModificationCount
	return &change{
		queue:  c.Lease.Queue,
		name:   c.Lease.Name,
		before: before,
		ends:   true,
		shares: true,
		step: func(doc *document) error {
			if !doc.holds(c.Lease) {
				return leaseLost(c.Lease)
			}
			if doc.JobID == "" {
				doc.JobID = doc.jobID() // written by the legacy library
			}
			doc.end(c.Record)
			return nil
		},
		made: func(doc *document) bool {
			return doc.Status.Completed && doc.shows(left) && doc.TimeInfo.End.Equal(end)
		},
	}
}
