package postgres

import (
	"context"
	"fmt"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// Save implements driver.Driver.
func (d *Driver) Save(ctx context.Context, r *driver.Record) error {
	err := checkStorable(r)
	if err == nil {
		err = d.one(ctx, r.Group, func(c *changes, queue queueKey) (refusal, err error) { return c.save(queue, r) })
	}
	if err != nil {
		return fmt.Errorf("saving record %q: %w", r.Name, err)
	}
	return nil
}

func (c *changes) save(queue queueKey, r *driver.Record) (refusal, err error) {
	found, err := c.records(readByName, queue.id, r.Name, idOfName(queue.name, r.Name))
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return table.NotFound(r.Name), nil
	}
	kept, err := found[0].decode()
	if err != nil {
		return err, nil //nolint:nilerr // It is the error of this record alone.
	}
	n, relocked, refusal := table.ApplySave(kept, r)
	if refusal != nil {
		return refusal, nil
	}
	j := &found[0].job
	j.kind = kindOf(kept)
	line, err := c.lineOf(j)
	if err != nil {
		return nil, err
	}
	c.saveContent(&n, line, j.Seq)
	if j.line != line {
		j.line = line
		c.admitToLine(j)
	}
	if relocked {
		c.exec(saveLock, n.Owner, n.Count, n.ModTime, j.Seq)
		c.exec(logLease, []int64{j.Seq})
	}
	return nil, err
}

// saveContent stores what Save replaces of a record.
func (c *changes) saveContent(n *table.Record, line int32, seq int64) {
	c.exec(saveRecord, n.Type, line, n.Version, n.Format, n.ErrorCount, nullable(n.LastError), blob(n.Extra), n.Body, seq)
}
