package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// reader reads the file concurrently with the writer.
type reader struct {
	db       *sql.DB
	isClosed func() bool

	mu       sync.Mutex
	prepared map[string]*sql.Stmt
}

func newReader(db *sql.DB, isClosed func() bool) *reader {
	return &reader{db: db, isClosed: isClosed, prepared: map[string]*sql.Stmt{}}
}

// keptStatements is the maximum number of prepared statements. There are many only if
// queries use many combinations of fields.
const keptStatements = 100

// statement prepares a statement, or returns the prepared one. If kept is false, the caller
// must close it.
func (r *reader) statement(ctx context.Context, text string) (s *sql.Stmt, kept bool, err error) {
	r.mu.Lock()
	s = r.prepared[text]
	r.mu.Unlock()
	if s != nil {
		return s, true, nil
	}
	s, err = r.db.PrepareContext(ctx, text)
	if err != nil {
		return nil, false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.prepared[text] != nil || len(r.prepared) >= keptStatements {
		return s, false, nil
	}
	r.prepared[text] = s
	return s, true, nil
}

// query runs a statement.
func (r *reader) query(ctx context.Context, text string, each func(*row) error, args ...any) (err error) {
	if r.isClosed() {
		return driver.ErrClosed
	}
	prepared, kept, err := r.statement(ctx, text)
	if err != nil {
		return r.failed(ctx, err)
	}
	if !kept {
		defer func() { err = errors.Join(err, prepared.Close()) }()
	}
	rows, err := prepared.QueryContext(ctx, args...)
	if err != nil {
		return r.failed(ctx, err)
	}
	return r.failed(ctx, (&row{}).readAll(rows, each))
}

// failed returns driver.ErrClosed if a statement failed because the driver was closed, and adds the
// error of the context if its end interrupted the statement. Other errors are named.
func (r *reader) failed(ctx context.Context, err error) error {
	switch {
	case err != nil && r.isClosed():
		return driver.ErrClosed
	case ctx.Err() != nil && resultCode(err) == codeInterrupted:
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	default:
		return named(err)
	}
}

func (r *reader) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, s := range r.prepared {
		errs = append(errs, s.Close())
	}
	clear(r.prepared)
	return errors.Join(append(errs, r.db.Close())...)
}

// reading is a read under a context.
type reading struct {
	*reader
	ctx context.Context
}

func (r reading) queryText(text string, each func(*row) error, args ...any) error {
	return r.query(r.ctx, text, each, args...)
}

// readColumns are the columns of a record, preceded by the name of its queue and the scope
// that it waits for.
const readColumns = `(SELECT name FROM queues WHERE id = jobs.queue),
	(SELECT scope FROM scope_groups WHERE queue = jobs.queue AND scopes = jobs.waiting_for), ` + recordColumns

// readLatest and readAttempts find records of a job in a queue that is given by name.
const (
	readLatest = `SELECT ` + readColumns + ` FROM jobs WHERE seq = coalesce(
		(SELECT seq FROM jobs WHERE queue = (SELECT id FROM queues WHERE name = ?1) AND name = ?2 AND attempt IS NULL),
		(SELECT seq FROM jobs WHERE queue = (SELECT id FROM queues WHERE name = ?1) AND job_id = ?3 AND attempt IS NOT NULL
			ORDER BY attempt DESC LIMIT 1))`
	readAttempts = `SELECT ` + readColumns + ` FROM jobs
		WHERE queue = (SELECT id FROM queues WHERE name = ?) AND job_id = ? AND attempt IS NOT NULL ORDER BY attempt`
	readQueue      = `SELECT ` + queueColumns + ` FROM queues WHERE name = ?`
	readQueues     = `SELECT ` + queueColumns + ` FROM queues WHERE name >= ?1 ORDER BY name LIMIT ?2`
	sumQueues      = `SELECT count(*), ` + sumColumns + ` FROM queues`
	readBusiest    = `SELECT ` + queueColumns + ` FROM queues WHERE ` + unfinished + ` > 0 ORDER BY ` + unfinished + ` DESC, name LIMIT ?`
	readUnfinished = `SELECT name FROM queues
		WHERE ` + unfinished + ` > 0 ORDER BY name`
	// The index has the kinds of the ready records of a queue next to each other.
	countReadyTypes = `SELECT q.name, j.kind, j.n FROM (SELECT queue, kind, count(*) AS n FROM jobs INDEXED BY jobs_kind
		WHERE place = 4 GROUP BY queue, kind) AS j JOIN queues AS q ON q.id = j.queue`
	// The priorities of the ready records of a queue, and the first record of each.
	readOldestReady = `WITH RECURSIVE heads (priority) AS (
			SELECT (SELECT priority FROM jobs INDEXED BY jobs_ready WHERE place = 4
				AND queue = (SELECT id FROM queues WHERE name = ?1) ORDER BY priority DESC LIMIT 1)
			UNION ALL SELECT (SELECT priority FROM jobs AS j INDEXED BY jobs_ready WHERE place = 4
				AND queue = (SELECT id FROM queues WHERE name = ?1) AND j.priority < heads.priority ORDER BY priority DESC LIMIT 1)
			FROM heads WHERE priority IS NOT NULL LIMIT 100)
		SELECT j.created, j.wait_until FROM heads CROSS JOIN jobs AS j ON j.seq = (SELECT seq FROM jobs INDEXED BY jobs_ready
			WHERE place = 4 AND queue = (SELECT id FROM queues WHERE name = ?1) AND priority = heads.priority ORDER BY seq LIMIT 1)
		WHERE heads.priority IS NOT NULL`
	readOldestDue = `SELECT q.name, j.created, j.wait_until FROM (SELECT queue, place, created, wait_until FROM jobs INDEXED BY jobs_due
		WHERE due <= ? ORDER BY due LIMIT ?) AS j JOIN queues AS q ON q.id = j.queue WHERE j.place = 1`
	countOtherTypes = `SELECT q.name, j.type, j.place, j.n FROM (SELECT queue, type, place, count(*) AS n FROM jobs INDEXED BY jobs_place
		WHERE place IN (0, 1, 2, 3, 5, 6, 7) AND place NOT IN (4, 8) GROUP BY queue, type, place) AS j JOIN queues AS q ON q.id = j.queue`
	readLeases   = `SELECT ` + leaseColumns + ` FROM jobs WHERE place = 6 AND place NOT IN (4, 8)`
	readLeasesOf = `SELECT ` + leaseColumns + ` FROM jobs INDEXED BY jobs_place WHERE place = 6 AND place NOT IN (4, 8) AND owner = ?`
	readHolders  = `SELECT owner, slot, file FROM holders`
	readLateWait = `SELECT 1 FROM jobs WHERE due IS NOT NULL AND since > ? LIMIT 1`
	readCanceled = `SELECT (SELECT name FROM queues WHERE id = jobs.queue), name, owner, lease_count, started FROM jobs
		WHERE owner = ? AND cancel = 1`
)

// described is a record with the name of its queue.
type described struct {
	stored
	queueName string
}

func (d *described) read(r *row) {
	d.queueName, d.BlockedBy = r.text(), r.text()
	d.stored.read(r)
}

// collect returns a function that reads rows into a list.
func collect(all *[]*described) func(*row) error {
	return func(r *row) error {
		d := &described{}
		d.read(r)
		*all = append(*all, d)
		return nil
	}
}

// Get implements driver.Driver.
func (d *Driver) Get(ctx context.Context, queue, id string) (*driver.Record, error) {
	var found []*described
	err := d.reads.query(ctx, readLatest, collect(&found), queue, driver.RecordName(queue, id, amboy.JobRetryInfo{}), id)
	if err == nil && len(found) == 0 {
		err = table.NotFound(id)
	}
	if err != nil {
		return nil, fmt.Errorf("getting job %q: %w", id, err)
	}
	return d.decode(ctx, &found[0].stored, queue), nil
}

// Attempts implements driver.Driver.
func (d *Driver) Attempts(ctx context.Context, queue, id string) ([]*driver.Record, error) {
	var found []*described
	err := d.reads.query(ctx, readAttempts, collect(&found), queue, id)
	if err != nil {
		return nil, fmt.Errorf("getting the attempts of job %q: %w", id, err)
	}
	var attempts []*driver.Record
	for _, f := range found {
		if r := d.decode(ctx, &f.stored, queue); r.RetryInfo.Retryable {
			attempts = append(attempts, r)
		}
	}
	return attempts, nil
}

// findTime is the time after which a page ends even if it is not full.
var findTime = 40 * time.Millisecond

// Find implements driver.Driver. A page that is not full after 40 ms ends then; it may be
// empty, and the next page continues from there. Indexes find records by ID, by a prefix of
// the ID that few records have, by a job on which they depend, by tag, by held scopes, by
// any state except amboy.StateSucceeded, and by queues with few records. Other fields
// filter these records, or all records: up to four processors read these at once. A record that
// can't be decoded is returned without a job.
func (d *Driver) Find(ctx context.Context, q driver.Query, page driver.PageRequest) (driver.Page, error) {
	if page.Brief {
		records, next, err := d.findBrief(ctx, q, page)
		if err != nil {
			return driver.Page{}, fmt.Errorf("finding records: %w", err)
		}
		return driver.Page{Records: records, Next: next}, nil
	}
	var found []*described
	next, err := d.find(ctx, q, page, readColumns, collect(&found))
	if err != nil {
		return driver.Page{}, fmt.Errorf("finding records: %w", err)
	}
	records := make([]*driver.Record, len(found))
	for i, f := range found {
		records[i] = d.decode(ctx, &f.stored, f.queueName)
	}
	return driver.Page{Records: records, Next: next}, nil
}

// briefColumns are the columns of a brief record. Functions of SQL end a text at a zero byte.
const briefColumns = `(SELECT name FROM queues WHERE id = jobs.queue), job_id, attempt, type, scopes, enqueue_scopes, started, ended,
	CAST(substr(CAST(last_error AS BLOB), 1, 16384) AS BLOB)`

// findBrief returns a page of brief records. It does not decode any BSON.
func (d *Driver) findBrief(ctx context.Context, q driver.Query, page driver.PageRequest) (records []*driver.Record, next driver.Cursor, err error) {
	next, err = d.find(ctx, q, page, briefColumns, func(r *row) error {
		record := &driver.Record{Group: r.text()}
		id, attempt := r.text(), r.time()
		if attempt.Valid {
			record.RetryInfo = amboy.JobRetryInfo{Retryable: true, BaseJobID: id, CurrentAttempt: int(attempt.Int64)}
		}
		record.Name, record.Type = driver.RecordName(record.Group, id, record.RetryInfo), r.text()
		record.RequiredScopes, record.EnqueueScopes = r.names(), r.names()
		record.TimeInfo.Start, record.TimeInfo.End = table.TimeOf(r.time()), table.TimeOf(r.time())
		if text := r.bytes(); len(text) > 0 {
			record.Status.Errors = []string{string(text)}
		}
		_ = r.damage() // what can't be read is left out
		records = append(records, record)
		return nil
	})
	return records, next, err
}

// find calls each with the rows of a page, and returns where the next page begins.
func (d *Driver) find(ctx context.Context, q driver.Query, page driver.PageRequest, columns string, each func(*row) error) (next driver.Cursor, err error) {
	err = table.CheckLimit(page.Limit)
	if err != nil {
		return "", err
	}
	at, err := table.NewSpan(page.After, page.Newest)
	if err != nil {
		return "", err
	}
	s, err := newSelection(q, time.Now())
	if err != nil {
		return "", err
	}
	s.search = &search{PageRequest: page, on: d.searches, ctx: ctx}
	n := 0
	counted := func(r *row) error {
		n++
		return each(r)
	}
	s.short = page.After == ""
	for begun := time.Now(); ; s.short, s.search.atOnce = false, true {
		next, err = s.page(reading{d.reads, ctx}, columns, at, page.Limit-n, counted)
		if err != nil || next == "" || n == page.Limit || !s.short && time.Since(begun) > findTime {
			return next, err
		}
	}
}

// Count implements driver.Driver.
func (d *Driver) Count(ctx context.Context, q driver.Query, limit int) (int, error) {
	n, err := d.count(ctx, q, limit)
	if err != nil {
		return n, fmt.Errorf("counting records: %w", err)
	}
	return n, nil
}

func (d *Driver) count(ctx context.Context, q driver.Query, limit int) (n int, err error) {
	err = table.CheckLimit(limit)
	if err != nil {
		return 0, err
	}
	at, err := table.NewSpan("", false)
	if err != nil {
		return 0, err
	}
	s, err := newSelection(q, time.Now())
	if err != nil {
		return 0, err
	}
	for n < limit {
		next, err := s.page(reading{d.reads, ctx}, "seq", at, limit-n, func(*row) error {
			n++
			return nil
		})
		if err != nil {
			return n, err
		}
		if next == "" {
			break
		}
	}
	return n, nil
}

// CancelRequests implements driver.Driver.
func (d *Driver) CancelRequests(ctx context.Context, owner string) (leases []driver.Lease, err error) {
	err = d.reads.query(ctx, readCanceled, func(r *row) error {
		leases = append(leases, driver.Lease{Queue: r.text(), Name: r.text(), Owner: r.text(), Count: r.int(), Stamp: r.integer()})
		return nil
	}, owner)
	if err != nil {
		return nil, fmt.Errorf("reading which records of owner %q are to be canceled: %w", owner, err)
	}
	return leases, nil
}

// queueColumns are the columns of a queue.
const queueColumns = `name, ` + controlColumns + `, waiting, scheduled, postponed, scope_blocked, ready, parked,
	running, retrying, ended, used`

// sumColumns are the sums of the counts of queues, in the order of queueColumns.
const sumColumns = `ifnull(sum(waiting), 0), ifnull(sum(scheduled), 0), ifnull(sum(postponed), 0), ifnull(sum(scope_blocked), 0),
	ifnull(sum(ready), 0), ifnull(sum(parked), 0), ifnull(sum(running), 0), ifnull(sum(retrying), 0), ifnull(sum(ended), 0)`

// unfinished is the number of records of a queue that have not ended for good.
const unfinished = `(waiting + scheduled + postponed + scope_blocked + ready + parked + running + retrying)`

// queueInfo reads the queueColumns.
func (r *row) queueInfo() driver.QueueInfo {
	info := driver.QueueInfo{Name: r.text(), Control: r.control()}
	r.counts(&info)
	info.Used = table.TimeOf(r.time())
	r.inQueue(info.Name)
	return info
}

// counts reads the columns that count the records of each place.
func (r *row) counts(info *driver.QueueInfo) {
	for p := table.Waiting; p <= table.Succeeded; p++ { // The last column counts all records that ended.
		p.Count(info, r.int())
	}
}

// readInfo describes a queue. A queue that does not exist is described as empty.
func (d *Driver) readInfo(ctx context.Context, queue string) (info driver.QueueInfo, err error) {
	err = d.reads.query(ctx, readQueue, func(r *row) error {
		info = r.queueInfo()
		return nil
	}, queue)
	return info, err
}

func (d *Driver) readControl(ctx context.Context, queue string) (driver.Control, error) {
	info, err := d.readInfo(ctx, queue)
	return info.Control, err
}

// Stats implements driver.Driver. Its cost does not depend on the number of
// records.
func (d *Driver) Stats(ctx context.Context, queue string) (amboy.QueueStats, error) {
	info, err := d.readInfo(ctx, queue)
	if err != nil {
		return amboy.QueueStats{}, fmt.Errorf("counting the records of queue %q: %w", queue, err)
	}
	return info.Stats, nil
}

// Queues implements driver.Driver. Its cost does not depend on the number of
// records.
func (d *Driver) Queues(ctx context.Context, req driver.QueueRequest) ([]driver.QueueInfo, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	limit := req.Limit
	if limit == 0 {
		limit = -1
	}
	all, err := d.readInfos(ctx, readQueues, req.From, limit)
	if err != nil {
		return nil, fmt.Errorf("describing the queues: %w", err)
	}
	return all, nil
}

// readInfos returns the rows of queueColumns of a statement.
func (d *Driver) readInfos(ctx context.Context, statement string, args ...any) (all []driver.QueueInfo, err error) {
	err = d.reads.query(ctx, statement, func(r *row) error {
		all = append(all, r.queueInfo())
		return nil
	}, args...)
	return all, err
}

// SumQueues implements driver.Driver. It scans the table of queues. Its cost does not depend
// on the number of records.
func (d *Driver) SumQueues(ctx context.Context, busiest int) (driver.QueueTotals, error) {
	var sum driver.QueueInfo
	var totals driver.QueueTotals
	err := d.reads.query(ctx, sumQueues, func(r *row) error {
		totals.Queues = r.int()
		r.counts(&sum)
		return nil
	})
	if err == nil && busiest > 0 {
		totals.Busiest, err = d.readInfos(ctx, readBusiest, busiest)
	}
	if err != nil {
		return driver.QueueTotals{}, fmt.Errorf("adding up the queues: %w", err)
	}
	totals.Stats, totals.Scheduled, totals.Parked = sum.Stats, sum.Scheduled, sum.Parked
	return totals, nil
}

// CountTypes implements driver.Driver. It scans an index of the ready records, and reads the
// other records that have not ended, each in one statement.
func (d *Driver) CountTypes(ctx context.Context) ([]driver.TypeCount, error) {
	counts := schedule.TypeCounts{}
	err := d.reads.query(ctx, countReadyTypes, func(r *row) error {
		counts.Add(r.text(), typeOfKind(r.text()), schedule.Ready, r.int())
		return nil
	})
	if err == nil {
		err = d.reads.query(ctx, countOtherTypes, func(r *row) error {
			queue, jobType, at := r.text(), r.text(), table.Place(r.integer())
			counts.Add(queue, jobType, at.Schedule(), r.int())
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("counting records by type: %w", err)
	}
	return counts.Sorted(), nil
}

// OldestReady implements driver.Driver. It compares the first records of the 100 highest
// priorities of a queue.
func (d *Driver) OldestReady(ctx context.Context, queues []string, now time.Time) (map[string]time.Time, error) {
	oldest := map[string]time.Time{}
	for _, name := range queues {
		err := d.reads.query(ctx, readOldestReady, func(r *row) error {
			driver.SetOldest(oldest, name, amboy.JobTimeInfo{Created: table.TimeOf(r.time()), WaitUntil: table.TimeOf(r.time())})
			return nil
		}, name)
		if err != nil {
			return nil, fmt.Errorf("finding the oldest ready record of queue %q: %w", name, err)
		}
	}
	err := d.reads.query(ctx, readOldestDue, func(r *row) error {
		name, times := r.text(), amboy.JobTimeInfo{Created: table.TimeOf(r.time()), WaitUntil: table.TimeOf(r.time())}
		if slices.Contains(queues, name) {
			driver.SetOldest(oldest, name, times)
		}
		return nil
	}, table.InstantOf(now), driver.MaxOverdue)
	if err != nil {
		return nil, fmt.Errorf("finding the oldest due records of %d queues: %w", len(queues), err)
	}
	return oldest, nil
}

// Unfinished implements driver.Driver. Its cost does not depend on the number of
// records.
func (d *Driver) Unfinished(ctx context.Context) (names []string, err error) {
	err = d.reads.query(ctx, readUnfinished, func(r *row) error {
		names = append(names, r.text())
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("querying queues with unfinished records: %w", err)
	}
	return names, nil
}
