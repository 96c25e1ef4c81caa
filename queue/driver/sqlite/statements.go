package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
)

// statement is one that the writer keeps prepared. The first parameter is the
// queue, or else a row's seq.
type statement int

const (
	begin statement = iota
	commit
	rollback
	dataVersion

	insertJob
	findByName
	findLatest
	findSeq
	moveJob
	takeLease
	dropLease
	closeEdge
	endRunning
	endAny
	extendLease
	readRecord
	saveRecord
	staleLeases

	nextTimes
	findReady
	claimReady
	claimExpired
	readyDue
	findDue

	insertEdge
	markDependents
	takeEdgesTo
	dropEdgesFrom

	holderOf
	hold
	freeScope
	promiseOf
	promise
	dropPromise
	firstWaiter

	addCounts
	forgetFinished

	statements
)

var statementTexts = [statements]string{
	begin:       `BEGIN IMMEDIATE`,
	commit:      `COMMIT`,
	rollback:    `ROLLBACK`,
	dataVersion: `PRAGMA data_version`,

	insertJob: `INSERT INTO jobs (queue, name, job_id, latest, place, priority, wait_until, dispatch_by, due, expires,
			owner, lease_count, lease_time, scopes, enqueue_scopes, edges, open_edges, dependents, failed, succeeded, record)
		VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, ?8, ?7, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, 0, ?18)
		ON CONFLICT DO NOTHING`,
	findByName: `SELECT ` + jobColumns + ` FROM jobs WHERE queue = ?1 AND name = ?2`,
	findLatest: `SELECT ` + jobColumns + ` FROM jobs WHERE queue = ?1 AND job_id = ?2 AND latest = 1`,
	findSeq:    `SELECT ` + jobColumns + ` FROM jobs WHERE seq = ?1`,
	moveJob: `UPDATE jobs SET place = ?2, due = ?3, waiting_for = ?4, expires = CASE WHEN ?2 < 5 THEN dispatch_by END
		WHERE seq = ?1`,
	takeLease: `UPDATE jobs SET owner = ?2, lease_count = ?3, lease_time = ?4, started = ?4 WHERE seq = ?1`,
	dropLease: `UPDATE jobs SET owner = '', started = NULL, reason = ?2 WHERE seq = ?1`,
	closeEdge: `UPDATE jobs SET open_edges = open_edges - 1, failed = ?2 WHERE seq = ?1`,
	// The end of a job that nobody waits for, in one statement.
	endRunning: `UPDATE jobs SET place = ?5, owner = ?6, lease_count = ?7, lease_time = ?8, succeeded = ?9, ended = ?10, record = ?11
		WHERE queue = ?1 AND name = ?2 AND owner = ?3 AND lease_count = ?4
			AND place = 6 AND scopes IS NULL AND open_edges = 0 AND dependents = 0`,
	endAny: `UPDATE jobs SET owner = ?2, lease_count = ?3, lease_time = ?4, succeeded = ?5, ended = ?6, record = ?7, latest = ?8
		WHERE seq = ?1`,
	extendLease: `UPDATE jobs SET lease_time = ?5
		WHERE queue = ?1 AND name = ?2 AND owner = ?3 AND lease_count = ?4 AND place = 6`,
	readRecord:  `SELECT seq, record FROM jobs WHERE queue = ?1 AND name = ?2`,
	saveRecord:  `UPDATE jobs SET record = ?2 WHERE seq = ?1`,
	staleLeases: `SELECT ` + jobColumns + ` FROM jobs WHERE queue = ?1 AND place = 6 AND lease_time < ?2 ORDER BY lease_time`,

	nextTimes: `SELECT
		(SELECT due FROM jobs WHERE queue = ?1 AND due IS NOT NULL ORDER BY due LIMIT 1),
		(SELECT expires FROM jobs WHERE queue = ?1 AND expires IS NOT NULL ORDER BY expires LIMIT 1)`,
	findReady: `SELECT ` + storedColumns + ` FROM jobs WHERE queue = ?1 AND place = 4 ORDER BY priority DESC, seq LIMIT ?2`,
	claimReady: `UPDATE jobs SET place = 6, owner = ?2, lease_count = lease_count + 1, lease_time = ?3, started = ?3, expires = NULL
		WHERE seq IN (SELECT seq FROM jobs WHERE queue = ?1 AND place = 4 ORDER BY priority DESC, seq LIMIT ?4)`,
	claimExpired: `SELECT ` + storedColumns + ` FROM jobs WHERE queue = ?1 AND expires < ?2 ORDER BY expires, seq`,
	readyDue:     `UPDATE jobs SET place = 4, due = NULL WHERE queue = ?1 AND due <= ?2 AND place = ?3 AND scopes IS NULL`,
	findDue:      `SELECT ` + jobColumns + ` FROM jobs WHERE queue = ?1 AND due <= ?2 ORDER BY due, seq`,

	insertEdge:     `INSERT INTO edges (queue, from_job, to_job) VALUES (?1, ?2, ?3)`,
	markDependents: `UPDATE jobs SET dependents = 1 WHERE queue = ?1 AND job_id = ?2 AND latest = 1`,
	takeEdgesTo:    `DELETE FROM edges WHERE queue = ?1 AND to_job = ?2 RETURNING from_job`,
	dropEdgesFrom:  `DELETE FROM edges WHERE queue = ?1 AND from_job = ?2`,

	holderOf:    `SELECT job_id FROM scope_holders WHERE queue = ?1 AND scope = ?2`,
	hold:        `INSERT OR REPLACE INTO scope_holders (queue, scope, job_id) VALUES (?1, ?2, ?3)`,
	freeScope:   `DELETE FROM scope_holders WHERE queue = ?1 AND scope = ?2 AND job_id = ?3`,
	promiseOf:   `SELECT seq FROM scope_promises WHERE queue = ?1 AND scope = ?2`,
	promise:     `INSERT OR REPLACE INTO scope_promises (queue, scope, seq) VALUES (?1, ?2, ?3)`,
	dropPromise: `DELETE FROM scope_promises WHERE queue = ?1 AND scope = ?2`,
	firstWaiter: `SELECT ` + jobColumns + ` FROM jobs WHERE queue = ?1 AND waiting_for = ?2 ORDER BY priority DESC, seq LIMIT 1`,

	addCounts: `UPDATE queues SET waiting = waiting + ?2, scheduled = scheduled + ?3, postponed = postponed + ?4,
			scope_blocked = scope_blocked + ?5, ready = ready + ?6, parked = parked + ?7, running = running + ?8,
			retrying = retrying + ?9, finished = finished + ?10, ended = ended + ?11
		WHERE id = ?1 RETURNING finished`,
	forgetFinished: `DELETE FROM jobs
		WHERE seq IN (SELECT seq FROM jobs WHERE queue = ?1 AND place = 8 ORDER BY ended LIMIT ?2)`,
}

// changes is a transaction of the writer. Its methods don't watch contexts: a
// transaction takes milliseconds, and one of several callers must not end it for
// the others.
type changes struct {
	writer *writer
	queue  int64
	counts [places]int
	ended  int
}

// exec runs a statement, and tells how many rows it changed.
func (c *changes) exec(s statement, args ...any) (int64, error) {
	result, err := c.writer.prepared[s].ExecContext(c.writer.ctx, args...)
	if err != nil {
		return 0, fmt.Errorf("writing to the database: %w", err)
	}
	return result.RowsAffected()
}

// scanner reads one row.
type scanner func(rows *sql.Rows) error

// each runs a statement, and calls scan for each of its rows.
func (c *changes) each(s statement, scan scanner, args ...any) (err error) {
	rows, err := c.writer.prepared[s].QueryContext(c.writer.ctx, args...)
	if err != nil {
		return fmt.Errorf("reading from the database: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		err = scan(rows)
		if err != nil {
			return err
		}
	}
	return rows.Err()
}

// one runs a statement that gives one row at most, and tells whether it did.
func (c *changes) one(s statement, dest []any, args ...any) (found bool, err error) {
	err = c.each(s, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(dest...)
	}, args...)
	return found, err
}

// job finds a row; nil where there is none.
func (c *changes) job(s statement, args ...any) (*job, error) {
	j := &job{}
	found, err := c.one(s, j.fields(), args...)
	if !found {
		j = nil
	}
	return j, err
}

func (c *changes) jobs(s statement, args ...any) (jobs []*job, err error) {
	err = c.each(s, func(rows *sql.Rows) error {
		j := &job{}
		jobs = append(jobs, j)
		return rows.Scan(j.fields()...)
	}, args...)
	return jobs, err
}

func (c *changes) records(s statement, args ...any) (records []*stored, err error) {
	err = c.each(s, func(rows *sql.Rows) error {
		r, scanErr := scanStored(rows)
		records = append(records, r)
		return scanErr
	}, args...)
	return records, err
}
