package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

const (
	readLatest = `SELECT ` + storedColumns + ` FROM jobs WHERE queue = ?1 AND job_id = ?2 AND latest = 1`
	readByName = `SELECT ` + storedColumns + ` FROM jobs WHERE queue = ?1 AND name = ?2`
	readCounts = `SELECT waiting, scheduled, postponed, scope_blocked, ready, parked, running, retrying, ended
		FROM queues WHERE id = ?1`
)

// readPlaces read the records in each place. They repeat the conditions of the
// indexes, by which SQLite knows that it can use them.
var readPlaces = func() (queries [places]string) {
	for p := range place(places) {
		queries[p] = fmt.Sprintf("SELECT %s FROM jobs WHERE queue = ?1 AND place = %d", storedColumns, p)
		if p != ready && p != running && p != finished {
			queries[p] += " AND place IN (0, 1, 2, 3, 5, 7)"
		}
	}
	return queries
}()

// Get implements driver.Driver.
func (d *Driver) Get(ctx context.Context, id string) (*driver.Record, error) {
	r, err := d.read(ctx, readLatest, id)
	if err == nil && r == nil {
		err = notFound(id)
	}
	if err != nil {
		return nil, fmt.Errorf("getting job %q: %w", id, err)
	}
	return r, nil
}

// read returns the record that a query finds; nil where there is none.
func (d *Driver) read(ctx context.Context, query, value string) (*driver.Record, error) {
	found, err := d.readAll(ctx, d.reads, query, d.queue, value)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	r, err := found[0].decode()
	if err != nil {
		return nil, err
	}
	return r, nil
}

// querier is a database, or a transaction on it.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// readAll returns the rows that a query finds.
func (d *Driver) readAll(ctx context.Context, from querier, query string, args ...any) (found []*stored, err error) {
	if d.isClosed() {
		return nil, driver.ErrClosed
	}
	rows, err := from.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, d.readError(err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		s, scanErr := scanStored(rows)
		if scanErr != nil {
			return nil, scanErr
		}
		found = append(found, s)
	}
	return found, rows.Err()
}

// readError says that the driver is closed, where that is why a read failed.
func (d *Driver) readError(err error) error {
	if d.isClosed() {
		return driver.ErrClosed
	}
	return err
}

// Attempts implements driver.Driver.
func (d *Driver) Attempts(ctx context.Context, id string) ([]*driver.Record, error) {
	latest, err := d.Get(ctx, id)
	if amboy.IsJobNotFoundError(err) || (err == nil && !latest.RetryInfo.Retryable) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var attempts []*driver.Record
	retry := latest.RetryInfo
	for retry.CurrentAttempt = 0; retry.CurrentAttempt <= latest.RetryInfo.CurrentAttempt; retry.CurrentAttempt++ {
		r, readErr := d.read(ctx, readByName, driver.RecordName(id, retry))
		if readErr != nil {
			return nil, fmt.Errorf("getting attempt %d of job %q: %w", retry.CurrentAttempt, id, readErr)
		}
		if r != nil {
			attempts = append(attempts, r)
		}
	}
	return attempts, nil
}

// List implements driver.Driver. A record that can't be read is listed without a
// job.
func (d *Driver) List(ctx context.Context, states ...amboy.JobState) ([]*driver.Record, error) {
	found, err := d.list(ctx, placesOf(states))
	if err != nil {
		return nil, fmt.Errorf("listing queue %q: %w", d.opts.Queue, err)
	}
	records := d.decodeAll(ctx, found)
	if len(states) == 0 {
		return records, nil
	}
	now := time.Now()
	return slices.DeleteFunc(records, func(r *driver.Record) bool {
		return !slices.Contains(states, driver.StateOf(r, now))
	}), nil
}

// list returns the rows in several places, as they are at one time, in the order
// in which they were added.
func (d *Driver) list(ctx context.Context, from []place) (all []*stored, err error) {
	if d.isClosed() {
		return nil, driver.ErrClosed
	}
	tx, err := d.reads.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, d.readError(err)
	}
	defer func() { err = errors.Join(err, tx.Rollback()) }()
	for _, p := range from {
		found, readErr := d.readAll(ctx, tx, readPlaces[p], d.queue)
		if readErr != nil {
			return nil, readErr
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(s, t *stored) int { return cmp.Compare(s.seq, t.seq) })
	return all, nil
}

// Stats implements driver.Driver. Its cost does not depend on the number of
// records.
func (d *Driver) Stats(ctx context.Context) (amboy.QueueStats, error) {
	if d.isClosed() {
		return amboy.QueueStats{}, driver.ErrClosed
	}
	var counts [places]int
	dest := make([]any, places)
	for i := range counts {
		dest[i] = &counts[i]
	}
	if err := d.reads.QueryRowContext(ctx, readCounts, d.queue).Scan(dest...); err != nil {
		return amboy.QueueStats{}, fmt.Errorf("counting the records of queue %q: %w", d.opts.Queue, d.readError(err))
	}
	ended := counts[finished] // with those that were forgotten
	stats := amboy.QueueStats{
		Blocked:   counts[waiting] + counts[postponed] + counts[scopeBlocked],
		Running:   counts[running],
		Retrying:  counts[retrying],
		Completed: ended + counts[retrying],
	}
	stats.Pending = stats.Blocked + counts[scheduled] + counts[ready] + counts[parked]
	stats.Total = stats.Pending + stats.Running + stats.Completed
	return stats, nil
}
