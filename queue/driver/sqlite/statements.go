package sqlite

import "strings"

// statement identifies a prepared statement.
type statement int

const (
	begin statement = iota
	beginReading
	commit
	rollback
	dataVersion
	userVersion
	emptyLog

	findQueue
	insertQueue
	addCounts
	readControl
	setControl
	readTypeBuckets
	setTypeBuckets
	runningOfTypes
	setBucket
	dropQueue
	countPruning
	prunings
	queueState
	queuesWithWork

	insertPlain
	insertPlainRows
	insertJob
	idTaken
	insertTags
	moveTags
	dropTags
	anyAttempts
	findByName
	findLatest
	findSeq
	moveJob
	takeLease
	dropLease
	setExtra
	endPlain
	endReplaced
	endAny
	setAttempt
	dropKey
	holderOfKey
	extendLease
	readByName
	saveRecord
	saveLock
	setCount
	findLease
	addHolder
	findHolder
	dropHolder
	setSince
	shortenWaits
	setProgress
	markCancel
	readMark

	nextTimes
	readReady
	leaseReady
	readThese
	leaseThese
	kindsOf
	readyOfKind
	findExpired
	markOverdue
	unmarkOverdue
	findOverdue
	readUnexpired
	readyDue
	findDue

	findTarget
	insertEdge
	insertEnded
	markDependents
	endEdges
	openEdge
	closeEdges
	leaveEdges
	moveEdges
	dropEdges

	usesOf
	hold
	freeScope
	promisedBefore
	lastPromised
	promise
	dropPromise
	firstOfLine
	firstOfGroup
	joinGroup
	setGroup
	leaveGroup
	moveGroup

	leave
	anyLeft
	takeLeft
	anyEdgesLeft
	anyLeftOfEdges
	takeLeftOfEdges

	setPriority
	setWaitUntil
	setReason
	clearTimes
	restartJob
	lastSeq
	deleteJob

	countFinished
	firstToForget
	forgetJobs
	forgetTimeless
	takeDuty
	markOf
	raiseMark

	keepNote
	replaceNote
	findNote
	dropNote
	dropEndedNotes

	statements
)

// plainRows is the number of records that one statement inserts. The time that the SQLite
// package takes to bind values grows with the square of it.
const plainRows = 8

const plainValues = `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, zeroblob(96), ?)`

const insertPlainColumns = `INSERT INTO jobs (queue, place, priority, name, job_id, created, wait_until, dispatch_by, due, expires,
		max_time, type, version, format, dependency, room, body) VALUES `

const insertJobColumns = `INSERT INTO jobs (queue, place, priority, name, job_id, owner, lease_count, mod_time, due, expires, forget_at,
		created, started, ended, wait_until, dispatch_by, max_time, error_count, type, version, format, dependency, attempt,
		open_edges, dependents, unique_held, unique_key, unique_until, scopes, enqueue_scopes, edges, failed, tags,
		reason, last_error, progress, extra, body, manager, since) `

// leaseContent sets the columns that a claim of a ready record changes.
const leaseContent = `place = 6, owner = ?, lease_count = lease_count + 1, mod_time = ?, lease_until = ?, started = ?,
			expires = NULL, room = NULL`

// firstReady and theseReady select ready records. Expired ones, marked or not, are skipped.
const (
	firstReady = `queue = ? AND place = 4 AND ` + unexpired + ` ORDER BY priority DESC, seq LIMIT ? + 0`
	theseReady = `seq IN (SELECT value FROM json_each(?)) AND ` + unexpired
	unexpired  = `overdue = 0 AND (dispatch_by IS NULL OR dispatch_by >= ?)`
)

// endContent sets the columns that an ended attempt replaces, except for the owner and the
// mark of a cancellation, which an index contains.
const endContent = `lease_count = ?, mod_time = ?, created = ?, started = ?, ended = ?, wait_until = ?, dispatch_by = ?,
		max_time = ?, error_count = ?, last_error = ?, reason = ?, forget_at = ?, type = ?, version = ?, format = ?, dependency = ?,
		extra = ?, body = ?, lease_until = NULL`

// Frequent statements have parameters without numbers, which the SQLite package finds
// faster. A limit is not a bare parameter, because SQLite would plan the statement again
// whenever it is bound.
var statementTexts = [statements]string{
	begin:        `BEGIN IMMEDIATE`,
	beginReading: `BEGIN`,
	commit:       `COMMIT`,
	rollback:     `ROLLBACK`,
	dataVersion:  `PRAGMA data_version`,
	userVersion:  `PRAGMA user_version`,
	emptyLog:     `PRAGMA wal_checkpoint(TRUNCATE)`,

	findQueue:   `SELECT id FROM queues WHERE name = ?`,
	insertQueue: `INSERT INTO queues (name, used) VALUES (?, ?) RETURNING id`,
	addCounts: `UPDATE queues SET waiting = waiting + ?, scheduled = scheduled + ?, postponed = postponed + ?,
			scope_blocked = scope_blocked + ?, ready = ready + ?, parked = parked + ?, running = running + ?,
			retrying = retrying + ?, finished = finished + ?, overdue = overdue + ?, ended = ended + ?, used = coalesce(?, used)
		WHERE id = ?`,
	readControl: `SELECT ` + controlColumns + ` FROM queues WHERE id = ?`,
	setControl: `UPDATE queues SET paused = ?1, draining = ?2, max_running = ?3, rate = ?4, burst = ?5,
			bucket = CASE WHEN ?4 IS NULL THEN 0 ELSE bucket END, type_limits = ?6, used = ?7 WHERE id = ?8`,
	readTypeBuckets: `SELECT type_buckets FROM queues WHERE id = ?`,
	setTypeBuckets:  `UPDATE queues SET type_buckets = ? WHERE id = ?`,
	runningOfTypes:  `SELECT queue, type FROM jobs INDEXED BY jobs_place WHERE place = 6 AND place NOT IN (4, 8)`,
	setBucket:       `UPDATE queues SET bucket = ? WHERE id = ?`,
	// The counts say that nothing refers to the queue; the rest is checked because what would
	// refer to it would belong to the next queue that gets its number.
	dropQueue: `DELETE FROM queues WHERE id = ?1 AND used < ?2 AND ` + isEmpty + ` AND rate IS NULL AND type_limits IS NULL
		AND NOT EXISTS (SELECT 1 FROM jobs WHERE queue = ?1)
		AND NOT EXISTS (SELECT 1 FROM leftovers WHERE queue = ?1)
		AND NOT EXISTS (SELECT 1 FROM scope_groups WHERE queue = ?1)
		AND NOT EXISTS (SELECT 1 FROM scope_holders WHERE queue = ?1)
		AND NOT EXISTS (SELECT 1 FROM scope_promises WHERE queue = ?1)`,
	countPruning: `UPDATE prunings SET number = number + 1`,
	prunings:     `SELECT number FROM prunings`,
	queueState:   `SELECT ` + workColumns + ` FROM queues WHERE name = ? AND (ready > 0 OR overdue > 0)`,
	queuesWithWork: `SELECT ` + workColumns + ` FROM queues INDEXED BY queues_work
		WHERE ready > 0 OR overdue > 0 LIMIT ? + 0`,

	insertPlain:     insertPlainColumns + plainValues,
	insertPlainRows: insertPlainColumns + strings.Repeat(plainValues+", ", plainRows-1) + plainValues,
	insertJob:       insertJobColumns + `VALUES (` + strings.Repeat(`?, `, 39) + `?)`,
	// A job has an attempt, or edges to it are still open.
	idTaken: `SELECT 1 WHERE EXISTS (SELECT 1 FROM jobs WHERE queue = ?1 AND job_id = ?2 AND attempt IS NOT NULL)
		OR EXISTS (SELECT 1 FROM jobs WHERE queue = ?1 AND name = ?3 AND attempt IS NULL)
		OR EXISTS (SELECT 1 FROM leftovers WHERE queue = ?1 AND kind IN (1, 2) AND name = ?2)`,
	insertTags: `INSERT OR IGNORE INTO tags (tag, of_queue, of_seq) SELECT value, ?, ? FROM json_each(?)`,
	moveTags:   `UPDATE tags SET of_seq = ? WHERE tag IN (SELECT value FROM json_each(?)) AND of_seq = ?`,
	dropTags:   `DELETE FROM tags WHERE tag IN (SELECT value FROM json_each(?)) AND of_seq = ?`,
	anyAttempts: `SELECT 1 WHERE EXISTS (SELECT 1 FROM jobs WHERE queue = ?1 AND attempt IS NOT NULL)
		OR EXISTS (SELECT 1 FROM leftovers WHERE queue = ?1 AND kind IN (1, 2))`,
	findByName: `SELECT ` + jobColumns + ` FROM jobs WHERE queue = ? AND name = ?`,
	findLatest: `SELECT ` + jobColumns + ` FROM jobs WHERE seq = ` + latestSeq,
	findSeq:    `SELECT ` + jobColumns + ` FROM jobs WHERE seq = ?`,
	moveJob: `UPDATE jobs SET place = ?, due = ?, waiting_for = ?, overdue = 0, expires = CASE WHEN ? < 5 THEN dispatch_by END
		WHERE seq = ?`,
	takeLease: `UPDATE jobs SET owner = ?, lease_count = ?, mod_time = ?, lease_until = ?, started = ? WHERE seq = ?`,
	setExtra:  `UPDATE jobs SET extra = ? WHERE seq = ?`,
	dropLease: `UPDATE jobs SET owner = '', lease_until = NULL, started = NULL, cancel = 0, reason = ?,
			dispatch_by = CASE WHEN ? THEN NULL ELSE dispatch_by END WHERE seq = ?`,
	// The end, in one statement, of a job that holds nothing, has no dependents, is not to be
	// canceled, and keeps its owner.
	endPlain: `UPDATE jobs SET place = ?, ` + endContent + `
		WHERE queue = ? AND name = ? AND owner = ? AND lease_count = ? AND ifnull(started, 0) = ? AND place = 6 AND scopes IS NULL AND enqueue_scopes IS NULL
			AND unique_held = 0 AND open_edges = 0 AND dependents = 0 AND cancel = 0`,
	// The same for an attempt whose next attempt has a name that does not exist.
	endReplaced: `UPDATE jobs SET place = ?, replaced = 1, ` + endContent + `
		WHERE queue = ? AND name = ? AND owner = ? AND lease_count = ? AND ifnull(started, 0) = ? AND place = 6 AND scopes IS NULL AND enqueue_scopes IS NULL
			AND unique_held = 0 AND open_edges = 0 AND dependents = 0 AND cancel = 0 AND unique_key IS NULL AND edges IS NULL AND attempt IS NOT NULL
			AND NOT EXISTS (SELECT 1 FROM jobs WHERE queue = ? AND name = ?)`,
	endAny: `UPDATE jobs SET open_edges = 0, replaced = ?, progress = coalesce(?, progress), unique_held = unique_held AND ?, owner = ?, cancel = 0, ` + endContent + `
		WHERE seq = ?`,
	setAttempt:  `UPDATE jobs SET attempt = 0 WHERE seq = ?`,
	dropKey:     `UPDATE jobs SET unique_held = 0 WHERE seq = ?`,
	holderOfKey: `SELECT job_id FROM jobs WHERE queue = ? AND unique_key = ? AND unique_held = 1`,
	extendLease: `UPDATE jobs SET mod_time = ?, lease_until = ?
		WHERE queue = ? AND name = ? AND owner = ? AND lease_count = ? AND ifnull(started, 0) = ? AND place = 6`,
	readByName: `SELECT ` + recordColumns + ` FROM jobs WHERE queue = ? AND name = ?`,
	saveRecord: `UPDATE jobs SET type = ?, version = ?, format = ?, error_count = ?, last_error = ?, extra = ?, body = ? WHERE seq = ?`,
	saveLock:   `UPDATE jobs SET owner = ?, lease_count = ?, mod_time = ?, lease_until = lease_until + ? - mod_time WHERE seq = ?`,
	setCount:   `UPDATE jobs SET lease_count = ? WHERE seq = ?`,
	findLease: `SELECT ` + jobColumns + ` FROM jobs
		WHERE seq = ? AND place = 6 AND lease_count = ? AND lease_until IS ? AND mod_time IS ?`,
	addHolder:  `INSERT OR REPLACE INTO holders (owner, slot, file) VALUES (?, ?, ?)`,
	findHolder: `SELECT 1 FROM holders WHERE owner = ? AND slot = ?`,
	dropHolder: `DELETE FROM holders WHERE owner = ? AND slot = ?`,
	setSince:   `UPDATE jobs SET since = ? WHERE seq = ?`,
	// All times of a record that was put by a retry count from the same moment.
	shortenWaits: `UPDATE jobs SET since = ?1, due = due - (since - ?1),
			created = CASE place WHEN 1 THEN created - (since - ?1) ELSE created END,
			wait_until = CASE place WHEN 1 THEN wait_until - (since - ?1) ELSE wait_until END,
			dispatch_by = CASE place WHEN 1 THEN dispatch_by - (since - ?1) ELSE dispatch_by END,
			expires = CASE place WHEN 1 THEN expires - (since - ?1) ELSE expires END
		WHERE seq IN (SELECT seq FROM jobs WHERE due IS NOT NULL AND since > ?2 LIMIT ?3 + 0)`,
	setProgress: `UPDATE jobs SET progress = ? WHERE queue = ? AND name = ? AND owner = ? AND lease_count = ? AND ifnull(started, 0) = ? AND place = 6`,
	readMark:    `SELECT reason, forget_at FROM jobs WHERE seq = ?`,
	markCancel:  `UPDATE jobs SET cancel = 1, reason = ?, forget_at = ? WHERE seq = ?`,

	nextTimes: `SELECT
		(SELECT due FROM jobs WHERE due IS NOT NULL ORDER BY due LIMIT 1),
		(SELECT expires FROM jobs WHERE expires IS NOT NULL ORDER BY expires LIMIT 1),
		EXISTS (SELECT 1 FROM leftovers)`,
	// Records are read before they are leased, because RETURNING costs more than a query.
	readReady:  `SELECT ` + recordColumns + ` FROM jobs WHERE ` + firstReady,
	leaseReady: `UPDATE jobs SET ` + leaseContent + ` WHERE seq IN (SELECT seq FROM jobs WHERE ` + firstReady + `)`,
	readThese:  `SELECT ` + recordColumns + ` FROM jobs WHERE ` + theseReady,
	leaseThese: `UPDATE jobs SET ` + leaseContent + ` WHERE ` + theseReady,
	// Each step seeks the next kind, and reads none of the records in between.
	kindsOf: `WITH RECURSIVE kinds (kind) AS (
			SELECT (SELECT kind FROM jobs WHERE queue = ?1 AND place = 4 ORDER BY kind LIMIT 1)
			UNION ALL
			SELECT (SELECT kind FROM jobs WHERE queue = ?1 AND place = 4 AND kind > kinds.kind ORDER BY kind LIMIT 1)
			FROM kinds WHERE kinds.kind IS NOT NULL)
		SELECT kind FROM kinds WHERE kind IS NOT NULL`,
	readyOfKind: `SELECT seq, priority FROM jobs WHERE queue = ? AND place = 4 AND kind = ? ORDER BY priority DESC, seq LIMIT ? + 0`,
	findExpired: `SELECT seq, queue FROM jobs WHERE expires < ? ORDER BY expires LIMIT ? + 0`,
	markOverdue: `UPDATE jobs SET overdue = 1, expires = NULL WHERE seq = ?`,
	// The clock of the claim that marked it may have been ahead.
	unmarkOverdue: `UPDATE jobs SET overdue = 0, expires = dispatch_by WHERE seq = ?`,
	findOverdue:   `SELECT ` + recordColumns + ` FROM jobs WHERE queue = ? AND overdue = 1 ORDER BY seq LIMIT ? + 0`,
	// Of the first records of a queue, of which many may have expired, those that have not.
	readUnexpired: `SELECT seq, priority FROM
		(SELECT seq, priority, overdue, dispatch_by FROM jobs WHERE queue = ? AND place = 4 ORDER BY priority DESC, seq LIMIT ? + 0)
		WHERE ` + unexpired + ` LIMIT ? + 0`,
	readyDue: `UPDATE jobs SET place = 4, due = NULL WHERE seq = ?`,
	findDue:  `SELECT ` + jobColumns + ` FROM jobs WHERE due <= ? ORDER BY due LIMIT ? + 0`,

	findTarget:     `SELECT seq, place, dependents FROM jobs WHERE seq = ` + latestSeq,
	insertEdge:     `INSERT INTO edges (queue, to_job, from_seq, state) VALUES (?, ?, ?, ?)`,
	insertEnded:    `INSERT INTO edges (queue, to_job, from_seq, state) SELECT ?, value, ?, 2 FROM json_each(?)`,
	markDependents: `UPDATE jobs SET dependents = 1 WHERE seq = ?`,
	endEdges: `UPDATE edges SET state = ? WHERE rowid IN
		(SELECT rowid FROM edges INDEXED BY edges_open WHERE queue = ? AND to_job = ? AND state = 0 LIMIT ? + 0) RETURNING from_seq`,
	openEdge: `SELECT 1 FROM edges WHERE from_seq = ? AND state = 0 LIMIT 1`,
	closeEdges: `UPDATE jobs SET open_edges = 0,
			failed = (SELECT nullif(json_group_array(to_job), '[]') FROM edges WHERE from_seq = ? AND state = 1)
		WHERE seq = ? AND open_edges = 1`,
	leaveEdges: `UPDATE edges SET state = 2 WHERE from_seq = ? AND state = 0`,
	moveEdges:  `UPDATE edges SET from_seq = ? WHERE from_seq = ?`,
	dropEdges:  `DELETE FROM edges WHERE from_seq = ?`,

	usesOf: `SELECT (SELECT count(*) FROM scope_holders WHERE queue = ?1 AND scope = ?2 AND job_id <> ?3),
			(SELECT job_id FROM scope_holders WHERE queue = ?1 AND scope = ?2 AND job_id <> ?3 LIMIT 1), count(*), min(at_most)
		FROM scope_promises WHERE queue = ?1 AND scope = ?2`,
	hold:      `INSERT OR IGNORE INTO scope_holders (queue, scope, job_id) VALUES (?, ?, ?)`,
	freeScope: `DELETE FROM scope_holders WHERE queue = ? AND scope = ? AND job_id = ?`,
	promisedBefore: `SELECT count(*), min(at_most) FROM scope_promises
		WHERE queue = ?1 AND scope = ?2 AND (priority > ?3 OR (priority = ?3 AND seq < ?4))`,
	lastPromised: `SELECT ` + jobColumns + ` FROM jobs WHERE seq =
		(SELECT seq FROM scope_promises WHERE queue = ? AND scope = ? ORDER BY priority, seq DESC LIMIT 1)`,
	promise:     `INSERT INTO scope_promises (queue, scope, priority, seq, at_most) VALUES (?, ?, ?, ?, ?)`,
	dropPromise: `DELETE FROM scope_promises WHERE queue = ? AND scope = ? AND seq = ?`,
	firstOfLine: `SELECT scopes, priority, seq FROM scope_groups INDEXED BY scope_lines WHERE queue = ? AND scope = ?
		ORDER BY priority DESC, seq LIMIT 1`,
	firstOfGroup: `SELECT priority, seq FROM jobs WHERE queue = ? AND waiting_for = ? ORDER BY priority DESC, seq LIMIT 1`,
	joinGroup: `INSERT INTO scope_groups (queue, scopes, scope, priority, seq) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (queue, scopes) DO UPDATE SET scope = excluded.scope, priority = excluded.priority, seq = excluded.seq
		WHERE excluded.priority > priority OR (excluded.priority = priority AND excluded.seq < seq)`,
	setGroup:   `INSERT INTO scope_groups (queue, scopes, scope, priority, seq) VALUES (?, ?, ?, ?, ?)`,
	leaveGroup: `DELETE FROM scope_groups WHERE queue = ? AND scopes = ? AND seq = ? RETURNING scope`,
	moveGroup:  `UPDATE scope_groups SET scope = ? WHERE queue = ? AND scopes = ?`,

	leave:        `INSERT OR IGNORE INTO leftovers (queue, kind, name) VALUES (?, ?, ?)`,
	anyLeft:      `SELECT 1 FROM leftovers LIMIT 1`,
	takeLeft:     `DELETE FROM leftovers WHERE (queue, kind, name) IN (SELECT queue, kind, name FROM leftovers LIMIT 1) RETURNING queue, kind, name`,
	anyEdgesLeft: `SELECT 1 FROM leftovers WHERE queue = ? AND kind IN (1, 2) AND name = ?`,

	anyLeftOfEdges: `SELECT 1 FROM leftovers WHERE kind IN (1, 2) LIMIT 1`,
	takeLeftOfEdges: `DELETE FROM leftovers WHERE (queue, kind, name) IN (SELECT queue, kind, name FROM leftovers WHERE kind IN (1, 2) LIMIT 1)
		RETURNING queue, kind, name`,

	setPriority:  `UPDATE jobs SET priority = ? WHERE seq = ?`,
	setWaitUntil: `UPDATE jobs SET wait_until = ?, since = NULL WHERE seq = ?`,
	setReason:    `UPDATE jobs SET reason = ? WHERE seq = ?`,
	clearTimes:   `UPDATE jobs SET due = NULL, expires = NULL WHERE seq = ?`,
	restartJob: `UPDATE jobs SET seq = ?, place = 0, owner = '', started = NULL, ended = NULL, dispatch_by = NULL, forget_at = NULL,
			error_count = 0, last_error = NULL, reason = NULL, open_edges = ?, failed = ?, progress = NULL, extra = ?,
			unique_held = ?, manager = ? WHERE seq = ?`,
	lastSeq:   `SELECT max(seq) FROM jobs`,
	deleteJob: `DELETE FROM jobs WHERE seq = ?`,

	countFinished: `SELECT finished FROM queues WHERE id = ?`,
	firstToForget: `SELECT forget_at FROM jobs WHERE queue = ? AND place >= 8 AND forget_at IS NOT NULL
		ORDER BY forget_at LIMIT 1`,
	forgetJobs: `DELETE FROM jobs WHERE seq IN (SELECT seq FROM jobs WHERE queue = ? AND place >= 8 AND forget_at <= ?
		ORDER BY forget_at LIMIT ? + 0) RETURNING place, ` + listedColumns,
	forgetTimeless: `DELETE FROM jobs WHERE seq IN (SELECT seq FROM jobs WHERE queue = ? AND place >= 8 AND forget_at IS NULL
		ORDER BY ended LIMIT ? + 0) RETURNING place, ` + listedColumns,
	takeDuty: `INSERT INTO duties (name, owner, until) VALUES (?1, ?2, ?3)
		ON CONFLICT (name) DO UPDATE SET owner = ?2, until = ?3 WHERE owner = ?2 OR until <= ?4 OR until > ?3`,
	markOf: readMarkOf,
	raiseMark: `INSERT INTO marks (queue, name, at) VALUES (?1, ?2, ?3)
		ON CONFLICT (queue, name) DO UPDATE SET at = ?3 WHERE at < ?3`,

	keepNote:       `INSERT OR REPLACE INTO notes (kind, key, value, until) VALUES (?, ?, ?, ?)`,
	replaceNote:    `UPDATE notes SET value = ?, until = ? WHERE kind = ? AND key = ? AND coalesce(value, x'') IN (coalesce(?, x''), coalesce(?, x''))`,
	findNote:       `SELECT value, until FROM notes WHERE kind = ? AND key = ? AND until > ?`,
	dropNote:       `DELETE FROM notes WHERE kind = ? AND key = ?`,
	dropEndedNotes: `DELETE FROM notes WHERE (kind, key) IN (SELECT kind, key FROM notes WHERE until <= ? ORDER BY until LIMIT ? + 0)`,
}

// controlColumns are the settings of a queue.
const controlColumns = `paused, draining, max_running, rate, burst, type_limits`

// listedColumns are the columns of listed.
const listedColumns = `seq, edges IS NOT NULL, tags`

// latestSeq is the sequence number of the latest attempt of a job.
const latestSeq = `coalesce(
	(SELECT seq FROM jobs WHERE queue = ?1 AND attempt IS NULL AND name =
		(SELECT CASE name WHEN '' THEN ?2 ELSE name || '.' || ?2 END FROM queues WHERE id = ?1)),
	(SELECT seq FROM jobs WHERE queue = ?1 AND job_id = ?2 AND attempt IS NOT NULL ORDER BY attempt DESC LIMIT 1))`
