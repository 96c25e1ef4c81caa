package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// applicationID identifies the files of this driver.
const applicationID = 0x416d626f // "Ambo"

// migrations are the steps from an empty file to the current schema. A file's version is
// firstVersion-1 plus the number of steps that were applied to it. A step never changes once
// it was released.
var migrations = []migration{
	{text: schemaV2},
	{text: schemaV3},
	{text: schemaV4, fill: fillManagers},
	{text: schemaV5, fill: fillGroups},
	{text: schemaV6},
	{text: schemaV7},
	{text: schemaV8},
	{text: schemaV9},
	{text: schemaV10},
}

// migration consists of the statements of a step, and a function for what SQL can't do.
type migration struct {
	text string
	fill func(ctx context.Context, conn *sql.Conn) error
}

// firstVersion is the first schema version of a released version of this library. Files
// with an earlier one can't be migrated.
const firstVersion = 2

func currentVersion() int { return firstVersion - 1 + len(migrations) }

// Places are stored as numbers: those below 5 can expire, those from 8 on are final. The
// columns due, expires and waiting_for are NULL for records that don't wait for that, so
// that their indexes contain only waiting records. For the same reason, only the indexes on
// names and retention contain records that succeeded. Times are nanoseconds since 1970, and
// lists are JSON. Rare columns come late, and large ones last.
const schemaV2 = `
CREATE TABLE queues (
	id            INTEGER PRIMARY KEY,
	name          TEXT NOT NULL UNIQUE,
	paused        INTEGER NOT NULL DEFAULT 0,
	draining      INTEGER NOT NULL DEFAULT 0,
	max_running   INTEGER NOT NULL DEFAULT 0,
	waiting       INTEGER NOT NULL DEFAULT 0,
	scheduled     INTEGER NOT NULL DEFAULT 0,
	postponed     INTEGER NOT NULL DEFAULT 0,
	scope_blocked INTEGER NOT NULL DEFAULT 0,
	ready         INTEGER NOT NULL DEFAULT 0,
	parked        INTEGER NOT NULL DEFAULT 0,
	running       INTEGER NOT NULL DEFAULT 0,
	retrying      INTEGER NOT NULL DEFAULT 0,
	finished      INTEGER NOT NULL DEFAULT 0,
	overdue       INTEGER NOT NULL DEFAULT 0, -- among the others
	ended         INTEGER NOT NULL DEFAULT 0  -- also those that are gone
);
CREATE INDEX queues_work ON queues (id) WHERE ready > 0 OR overdue > 0;

CREATE TABLE jobs (
	seq            INTEGER PRIMARY KEY,
	queue          INTEGER NOT NULL,
	place          INTEGER NOT NULL,
	priority       INTEGER NOT NULL,
	name           TEXT NOT NULL,
	job_id         TEXT NOT NULL,
	owner          TEXT NOT NULL DEFAULT '',
	lease_count    INTEGER NOT NULL DEFAULT 0,
	mod_time       INTEGER,
	lease_until    INTEGER,
	due            INTEGER,
	expires        INTEGER,
	forget_at      INTEGER,          -- while cancel is set, that of the action
	created        INTEGER,
	started        INTEGER,
	ended          INTEGER,
	wait_until     INTEGER,
	dispatch_by    INTEGER,
	max_time       INTEGER NOT NULL DEFAULT 0,
	error_count    INTEGER NOT NULL DEFAULT 0,
	type           TEXT NOT NULL,
	version        INTEGER NOT NULL,
	format         INTEGER NOT NULL,
	dependency     INTEGER NOT NULL, -- of which kind it is
	attempt        INTEGER,          -- NULL for a job that can't be retried
	replaced       INTEGER NOT NULL DEFAULT 0,
	overdue        INTEGER NOT NULL DEFAULT 0,
	cancel         INTEGER NOT NULL DEFAULT 0,
	open_edges     INTEGER NOT NULL DEFAULT 0, -- 1 while there are any
	dependents     INTEGER NOT NULL DEFAULT 0, -- 1 where there have been any
	unique_held    INTEGER NOT NULL DEFAULT 0,
	unique_key     TEXT,
	unique_until   TEXT,
	scopes         TEXT,
	enqueue_scopes TEXT,
	waiting_for    TEXT,
	edges          TEXT,
	failed         TEXT,
	tags           TEXT,
	reason         TEXT,
	last_error     TEXT,
	progress       BLOB,
	room           BLOB, -- for what is set when it starts, so that its page need not be split
	extra          BLOB,
	body           BLOB
);

CREATE UNIQUE INDEX jobs_name ON jobs (queue, name);
CREATE INDEX jobs_attempts ON jobs (queue, job_id, attempt) WHERE attempt IS NOT NULL;
CREATE INDEX jobs_ready ON jobs (queue, priority DESC, seq) WHERE place = 4;
CREATE INDEX jobs_place ON jobs (place, seq) WHERE place NOT IN (4, 8);
CREATE INDEX jobs_forget ON jobs (queue, forget_at, ended) WHERE place >= 8;
CREATE INDEX jobs_due ON jobs (due) WHERE due IS NOT NULL;
CREATE INDEX jobs_expires ON jobs (expires) WHERE expires IS NOT NULL;
CREATE INDEX jobs_overdue ON jobs (queue, seq) WHERE overdue = 1;
CREATE INDEX jobs_cancel ON jobs (owner) WHERE cancel = 1;
CREATE INDEX jobs_holding ON jobs (seq) WHERE (place < 8 AND enqueue_scopes IS NOT NULL) OR (place = 6 AND scopes IS NOT NULL);
CREATE INDEX jobs_scope ON jobs (queue, waiting_for, priority DESC, seq) WHERE waiting_for IS NOT NULL;
CREATE UNIQUE INDEX jobs_unique ON jobs (queue, unique_key) WHERE unique_held = 1;

CREATE TABLE edges (
	queue    INTEGER NOT NULL,
	to_job   TEXT NOT NULL,
	from_seq INTEGER NOT NULL,
	state    INTEGER NOT NULL -- 0 while it is open, 1 where it failed, else 2
);
CREATE INDEX edges_to ON edges (queue, to_job);
CREATE INDEX edges_from ON edges (from_seq, state);

CREATE TABLE scope_holders (
	queue  INTEGER NOT NULL,
	scope  TEXT NOT NULL,
	job_id TEXT NOT NULL,
	PRIMARY KEY (queue, scope)
) WITHOUT ROWID;

CREATE TABLE scope_promises (
	queue INTEGER NOT NULL,
	scope TEXT NOT NULL,
	seq   INTEGER NOT NULL,
	PRIMARY KEY (queue, scope)
) WITHOUT ROWID;

CREATE TABLE tags (
	tag      TEXT NOT NULL,
	of_seq   INTEGER NOT NULL,
	of_queue INTEGER NOT NULL,
	PRIMARY KEY (tag, of_seq)
) WITHOUT ROWID;
CREATE INDEX tags_queue ON tags (tag, of_queue, of_seq);

CREATE TABLE duties (
	name  TEXT PRIMARY KEY,
	owner TEXT NOT NULL,
	until INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE marks (
	queue TEXT NOT NULL, -- its name: a mark makes no queue
	name  TEXT NOT NULL,
	at    INTEGER NOT NULL,
	PRIMARY KEY (queue, name)
) WITHOUT ROWID;

CREATE TABLE notes (
	kind  BLOB NOT NULL, -- as the key, a text that is compared byte by byte
	key   BLOB NOT NULL,
	until INTEGER NOT NULL,
	value BLOB,
	PRIMARY KEY (kind, key)
) WITHOUT ROWID;
CREATE INDEX notes_until ON notes (until);
`

// The column since is the start of the wait of a record that was put by a retry or handed
// back, so that a clock that was ahead does not lengthen the wait. The table boot contains
// the ID of the boot in which the file was last opened.
const schemaV3 = `
ALTER TABLE jobs ADD COLUMN since INTEGER;
CREATE INDEX jobs_since ON jobs (since) WHERE due IS NOT NULL AND since IS NOT NULL;

CREATE TABLE boot (id TEXT NOT NULL);
`

// The column manager is the dependency manager of the record's kind (see managerOf), and
// kind is its encoded kind (see kindOf). That is a single column because SQLite can skip
// from one value to the next of one column, but not of several.
const schemaV4 = `
ALTER TABLE jobs ADD COLUMN manager TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN kind TEXT GENERATED ALWAYS AS (type || char(31) || version || char(31) || manager) VIRTUAL;
CREATE INDEX jobs_kind ON jobs (queue, kind, priority DESC, seq) WHERE place = 4;
`

// Records that need the same scopes wait together (see groups.go); from this version on, the
// column waiting_for is their scope_groups.scopes. The rows of leftovers are work that a
// transaction left for later ones (see leftovers.go).
const schemaV5 = `
CREATE TABLE scope_groups (
	queue    INTEGER NOT NULL,
	scopes   TEXT NOT NULL,
	scope    TEXT NOT NULL,    -- in whose line the group is
	priority INTEGER NOT NULL, -- as seq, of the first record of the group
	seq      INTEGER NOT NULL,
	PRIMARY KEY (queue, scopes)
) WITHOUT ROWID;
CREATE INDEX scope_lines ON scope_groups (queue, scope, priority DESC, seq);

CREATE TABLE leftovers (
	queue INTEGER NOT NULL,
	kind  INTEGER NOT NULL, -- 0 for a scope that is to be promised, else the state of the edges to a job that are to be ended
	name  TEXT NOT NULL,
	PRIMARY KEY (queue, kind, name)
) WITHOUT ROWID;
CREATE INDEX edges_open ON edges (queue, to_job) WHERE state = 0;
`

// The column used is when a record of a queue was last put or moved, and the row of prunings is how
// often queues were dropped: as long as it stays, the keys of queues do.
const schemaV6 = `
ALTER TABLE queues ADD COLUMN used INTEGER NOT NULL DEFAULT 0;
CREATE INDEX queues_empty ON queues (used) WHERE
	waiting + scheduled + postponed + scope_blocked + ready + parked + running + retrying + finished = 0
	AND paused + draining + max_running = 0;

CREATE TABLE prunings (number INTEGER NOT NULL);
INSERT INTO prunings (number) VALUES (0);
`

// The rate of a queue is NULL if it has none, and bucket is its rate.Bucket.
const schemaV7 = `
ALTER TABLE queues ADD COLUMN rate REAL;
ALTER TABLE queues ADD COLUMN burst INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queues ADD COLUMN bucket INTEGER NOT NULL DEFAULT 0;
`

// A scope may have several holders and promises. From this version on, the column scope is its key
// (see scope.Key), and at_most is the limit of the record that it is promised to.
const schemaV8 = `
ALTER TABLE scope_holders RENAME TO sole_holders;
CREATE TABLE scope_holders (
	queue  INTEGER NOT NULL,
	scope  TEXT NOT NULL,
	job_id TEXT NOT NULL,
	PRIMARY KEY (queue, scope, job_id)
) WITHOUT ROWID;
INSERT INTO scope_holders (queue, scope, job_id) SELECT queue, scope, job_id FROM sole_holders;
DROP TABLE sole_holders;

ALTER TABLE scope_promises RENAME TO sole_promises;
CREATE TABLE scope_promises (
	queue    INTEGER NOT NULL,
	scope    TEXT NOT NULL,
	priority INTEGER NOT NULL, -- as seq, of the record
	seq      INTEGER NOT NULL,
	at_most  INTEGER NOT NULL,
	PRIMARY KEY (queue, scope, priority, seq DESC)
) WITHOUT ROWID;
INSERT INTO scope_promises (queue, scope, priority, seq, at_most)
	SELECT p.queue, p.scope, j.priority, p.seq, 1 FROM sole_promises AS p JOIN jobs AS j ON j.seq = p.seq;
DROP TABLE sole_promises;
`

// The limits of types and their buckets are JSON (see package typelimit), NULL if there are none.
const schemaV9 = `
ALTER TABLE queues ADD COLUMN type_limits TEXT;
ALTER TABLE queues ADD COLUMN type_buckets TEXT;
`

// The owners that this system tells the end of (see holders.go).
const schemaV10 = `
CREATE TABLE holders (
	owner TEXT PRIMARY KEY,
	slot  INTEGER NOT NULL,
	file  TEXT NOT NULL
) WITHOUT ROWID;
`

// fillGroups forms the groups of the records that wait for a scope.
func fillGroups(ctx context.Context, conn *sql.Conn) error {
	rows, err := conn.QueryContext(ctx, "SELECT "+jobColumns+" FROM jobs WHERE waiting_for IS NOT NULL")
	if err != nil {
		return err
	}
	var all []*job
	err = (&row{}).readAll(rows, func(r *row) error {
		j := &job{}
		j.read(r)
		all = append(all, j)
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading the records that wait for a scope: %w", err)
	}
	for _, j := range all {
		group := j.group()
		if _, err = conn.ExecContext(ctx, "UPDATE jobs SET waiting_for = ? WHERE seq = ?", group, j.Seq); err != nil {
			return fmt.Errorf("setting the group of a record: %w", err)
		}
		// A scope that blocks the first record of a group blocks all of them.
		if _, err = conn.ExecContext(ctx, statementTexts[joinGroup], j.queue, group, j.waitingFor, j.Priority, j.Seq); err != nil {
			return fmt.Errorf("adding a group: %w", err)
		}
	}
	return nil
}

// fillManagers sets the column manager of unfinished records. A record that can't be decoded
// gets none: the process that claims it parks it.
func fillManagers(ctx context.Context, conn *sql.Conn) error {
	rows, err := conn.QueryContext(ctx, "SELECT seq, extra FROM jobs WHERE dependency = ? AND place < ?", table.OtherDependency, table.Succeeded)
	if err != nil {
		return err
	}
	managers := map[int64]string{}
	for rows.Next() && err == nil {
		var seq int64
		c := table.Content{Dependency: table.OtherDependency}
		if err = rows.Scan(&seq, &c.Extra); err == nil {
			r, damage := c.Decode(&table.Job{}, "", nil)
			if manager := managerOf(r); damage == nil && manager != "" {
				managers[seq] = manager
			}
		}
	}
	if err = errors.Join(err, rows.Err(), rows.Close()); err != nil {
		return fmt.Errorf("reading the dependencies of records: %w", err)
	}
	for seq, manager := range managers {
		if _, err = conn.ExecContext(ctx, "UPDATE jobs SET manager = ? WHERE seq = ?", manager, seq); err != nil {
			return fmt.Errorf("setting the manager of a record: %w", err)
		}
	}
	return nil
}

// ErrNewerSchema is wrapped by the error for a file that was written by a newer version of
// this library.
var ErrNewerSchema = errors.New("the file was written by a newer version of this library")

// NewerSchemaError reports the schema versions of a file and of this library. It wraps
// ErrNewerSchema.
type NewerSchemaError struct {
	// Found is the schema version of the file.
	Found int
	// Known is the newest version that this library knows.
	Known int
}

// Error names both versions.
func (e *NewerSchemaError) Error() string {
	return fmt.Sprintf("%v: it has schema version %d, and this one knows versions up to %d", ErrNewerSchema, e.Found, e.Known)
}

// Unwrap returns ErrNewerSchema.
func (e *NewerSchemaError) Unwrap() error { return ErrNewerSchema }

// CheckSchema implements driver.SchemaChecker.
func (d *Driver) CheckSchema(ctx context.Context) error {
	found := 0
	err := d.reads.query(ctx, "SELECT user_version FROM pragma_user_version", func(r *row) error {
		found = r.int()
		return nil
	})
	if err == nil {
		err = checkSchema(found, d.writer.schema)
	}
	if err != nil {
		return fmt.Errorf("checking the schema: %w", err)
	}
	return nil
}

// checkSchema returns an error unless the schema of an open file is still that with which it
// was opened.
func checkSchema(found, opened int) error {
	switch {
	case found > opened:
		return &NewerSchemaError{Found: found, Known: opened}
	case found < opened:
		return fmt.Errorf("schema version of the open file was %d, and is %d now", opened, found)
	}
	return nil
}

// migrate migrates the file to the current schema, one transaction per step, so that each
// step is taken once even if several processes open the file.
func migrate(ctx context.Context, conn *sql.Conn) error {
	for {
		version, err := schemaVersion(ctx, conn)
		if err != nil {
			return err
		}
		if version == currentVersion() {
			return nil
		}
		err = inTransaction(ctx, conn, func() error { return step(ctx, conn) })
		if err != nil {
			return fmt.Errorf("bringing schema version %d to %d: %w", version, currentVersion(), err)
		}
	}
}

// step takes the next step in a transaction, if any is left.
func step(ctx context.Context, conn *sql.Conn) error {
	version, err := schemaVersion(ctx, conn)
	if err != nil || version == currentVersion() {
		return err
	}
	version = max(version, firstVersion-1) // an empty file has 0
	next := migrations[version-firstVersion+1]
	_, err = conn.ExecContext(ctx, next.text)
	if err == nil && next.fill != nil {
		err = next.fill(ctx, conn)
	}
	if err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, version+1))
	return err
}

var errForeignFile = errors.New("it is a database, but not one of this library")

// schemaVersion returns the version of a file that is empty or of this driver.
func schemaVersion(ctx context.Context, conn *sql.Conn) (int, error) {
	var application, version, tables int
	err := conn.QueryRowContext(ctx, `SELECT (SELECT application_id FROM pragma_application_id),
		(SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_schema)`).Scan(&application, &version, &tables)
	switch {
	case err != nil:
		return 0, fmt.Errorf("reading the schema version: %w", err)
	case application != applicationID && (application != 0 || version != 0 || tables != 0):
		return 0, errForeignFile
	case version > currentVersion():
		return 0, &NewerSchemaError{Found: version, Known: currentVersion()}
	case version != 0 && version < firstVersion:
		return 0, fmt.Errorf("it was written before the first release of this library, whose files have schema version %d at least (has %d)", firstVersion, version)
	}
	return version, nil
}

// inTransaction runs change in a transaction that has the right to write from its
// beginning.
func inTransaction(ctx context.Context, conn *sql.Conn, change func() error) error {
	if err := beginImmediate(ctx, conn); err != nil {
		return err
	}
	err := change()
	if err == nil {
		_, err = conn.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		_, undoErr := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return errors.Join(err, undoErr)
	}
	return nil
}

// beginImmediate waits for the right to write until ctx ends, but for at most openTime. The busy
// timeout of SQLite would not end with ctx.
func beginImmediate(ctx context.Context, conn *sql.Conn) error {
	if err := setBusyTime(ctx, conn, busyTime); err != nil {
		return err
	}
	for end := time.Now().Add(openTime * time.Millisecond); ; {
		_, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE")
		switch {
		case err == nil:
			return setBusyTime(ctx, conn, openTime)
		case ctx.Err() != nil:
			return ctx.Err()
		case resultCode(err) != codeBusy || time.Now().After(end):
			return err
		}
	}
}

// setBusyTime sets the busy timeout of a connection, in milliseconds.
func setBusyTime(ctx context.Context, conn *sql.Conn, milliseconds int) error {
	_, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", milliseconds))
	return err
}
