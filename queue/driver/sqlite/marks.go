package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy/queue/driver/internal/table"
)

const readMarkOf = `SELECT at FROM marks WHERE queue = ? AND name = ?`

// Mark implements driver.Driver.
func (d *Driver) Mark(ctx context.Context, queue, name string, at time.Time) (last time.Time, err error) {
	if at.IsZero() {
		last, err = d.readMark(ctx, queue, name)
	} else {
		last, err = d.raiseMark(ctx, queue, name, at.Truncate(time.Millisecond))
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("marking %q in queue %q: %w", name, queue, err)
	}
	return last, nil
}

func (d *Driver) readMark(ctx context.Context, queue, name string) (last time.Time, err error) {
	err = d.reads.query(ctx, readMarkOf, func(r *row) error {
		last = table.TimeOf(r.time())
		return nil
	}, queue, name)
	return last, err
}

func (d *Driver) raiseMark(ctx context.Context, queue, name string, at time.Time) (last time.Time, err error) {
	var before table.Instant
	err = d.writer.write(ctx, &change{run: func(c *changes) error {
		before = table.Instant{}
		_, failure := c.one(markOf, func(r *row) { before = r.time() }, queue, name)
		if failure != nil {
			return failure
		}
		_, failure = c.exec(raiseMark, queue, name, table.InstantOf(at))
		return failure
	}})
	return table.TimeOf(before), err
}
