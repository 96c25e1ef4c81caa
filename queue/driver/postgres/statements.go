package postgres

import "strings"

// statement identifies a text of the driver.
type statement int

const (
	lockQueue statement = iota
	lockQueueOfCaller
	lockInserts
	lockPromotions
	lockClaims
	beginInserts
	beginShared

	findQueue
	insertQueue
	readQueueNames
	readControl
	setControl
	readRoom
	setTypeBuckets
	readBucket
	setBucket
	resetBucket
	addTallies
	foldTallies
	foldLeft

	findLine
	insertLine
	kindOfLine

	insertJobs
	insertJob
	insertJobsOfCaller
	insertMany
	insertOne
	takeNumbers
	takenBy
	insertNext
	findByName
	findByNames
	findLatest
	findSeq
	moveJob
	setLate
	takeLease
	setLimited
	logLease
	dropLease
	endPlain
	endOne
	endReplaced
	endAny
	logEnding
	dropKey
	holderOfKey
	extendLeases
	extendByName
	lockedLeases
	lockedByName
	lockHolders
	readByName
	readBySeq
	saveRecord
	saveLock
	setCount
	staleLeases
	staleJobs
	findStale
	keepLeases
	shortenLeases
	shortenWaits
	setSince
	dropStaleLeases
	setProgress
	markCancel
	readMark

	nextTimes
	probe
	take
	takeAlone
	takeAloneAndLook
	takeDue
	firstExpired
	findExpired
	promoteDue
	firstScopedDue
	findDue
	countLimited
	limitedOfType
	limitedOfQueues

	lockLine
	raiseFloor

	findTarget
	insertEdge
	insertEnded
	markDependents
	endEdges
	closeEdges
	leaveEdges
	moveEdges
	dropEdges

	usesOf
	addHolders
	dropHolders
	addPromises
	dropPromises
	firstWaiters
	moveWaiters

	leave
	firstLeft
	nextLeft
	edgesLeft

	setPriority
	setWaitUntil
	setReason
	setExtra
	restartJob
	lastSeq
	deleteJob

	endingDue
	anyEndingDue
	forgetJobs
	dropEnding
	relogEnding

	takeDuty
	addMark
	raiseMark
	readMarkOf

	keepNote
	findNote
	keepNewNote
	replaceNote
	dropNotes
	dropEndedNotes

	readLatest
	readAttempts
	readStats
	readQueues
	readQueuePage
	countQueues
	sumQueues
	readBusiest
	readUnfinished
	countTypes
	readOldestReady
	readTimed
	readWork
	readCanceled

	notify
	notifyIn

	statements
)

// serverNow is the server's time in nanoseconds since 1970, by which leases end.
const serverNow = `(extract(epoch FROM clock_timestamp()) * 1000000000)::bigint`

// controlColumns are the settings of a queue q.
const controlColumns = `q.paused, q.draining, q.max_running, q.rate, q.burst, q.type_limits`

// limitsRunning is the condition that the number of running jobs of a queue, or of some of its types, is limited.
const limitsRunning = `(q.max_running > 0 OR q.type_limits IS NOT NULL)`

// endColumns sets the columns that an ended attempt replaces, except its body.
const endColumns = `owner = $2, lease_count = $3, mod_time = $4, created = $5, started = $6, ended = $7, wait_until = $8,
		dispatch_by = $9, max_time = $10, error_count = $11, last_error = $12, reason = $13, forget_at = $14, type = $15, version = $16,
		format = $17, dependency = $18, extra = $19, body = $20, lease_until = NULL, cancel = false, limited = NULL`

// newColumns are the columns of an inserted record, except seq, place, line and due.
const newColumns = `queue, priority, created, wait_until, dispatch_by, max_time, mod_time, started, ended, forget_at, lease_count, error_count,
	version, attempt, format, dependency, open_edges, dependents, unique_held, owner, name, unique_key, unique_until, scopes,
	enqueue_scopes, edges, failed, reason, last_error, progress, extra, job_id, type, body, tags`

// newArgs are the arguments of the statements that insert records: an array for each column.
const newArgs = `$1::integer[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[],
		$10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::smallint[], $16::smallint[], $17::boolean[],
		$18::boolean[], $19::boolean[], $20::text[], $21::text[], $22::text[], $23::text[], $24::text[], $25::text[], $26::text[],
		$27::text[], $28::text[], $29::text[], $30::bytea[], $31::bytea[], $32::text[], $33::text[], $34::bytea[], $35::text[],
		$36::integer[], $37::smallint[]`

// rowsOf returns a table of the rows that are given as arrays.
func rowsOf(args, name, columns string) string {
	return `unnest(` + args + `) WITH ORDINALITY AS ` + name + ` (` + columns + `, ord)`
}

// rowOf is rowsOf for one row, whose values are given as they are. The server takes a fraction of the time for it: it
// fills no table for each array.
func rowOf(args, name, columns string) string {
	return `(VALUES (` + strings.ReplaceAll(args, "[]", "") + `, 1::bigint)) AS ` + name + ` (` + columns + `, ord)`
}

// newValues are the values of some columns of inserted records.
type newValues struct{ seq, line, since, waitingFor string }

// plainValues are those of records that get the next arrival numbers.
var plainValues = newValues{seq: `nextval('{s}.arrivals')`, line: "home", since: "NULL::bigint", waitingFor: "NULL"}

// insertNew begins a statement that inserts the records of a table n. If no place is wanted (-1), a record waits for its
// time or is ready.
func insertNew(n string, v newValues) string {
	return `WITH n AS MATERIALIZED (
	SELECT ` + v.seq + ` AS seq, n.*, CASE WHEN wanted >= 0 THEN wanted WHEN wait_until > $38 THEN 1 ELSE 4 END AS place FROM ` + n + `
), i AS (
	INSERT INTO {s}.jobs (seq, place, line, due, expires, since, waiting_for, ` + newColumns + `)
	SELECT n.seq, n.place, CASE WHEN n.place IN (4, 6, 8) THEN ` + v.line + ` ELSE -` + v.line + ` END, CASE n.place WHEN 1 THEN n.wait_until END,
		CASE WHEN n.place < 5 THEN n.dispatch_by END, ` + v.since + `, ` + v.waitingFor + `, n.queue, n.priority, n.created, n.wait_until, n.dispatch_by, n.max_time, n.mod_time,
		n.started, n.ended, n.forget_at, n.lease_count, n.error_count, n.version, n.attempt, n.format, n.dependency, n.open_edges,
		n.dependents, n.unique_held, n.owner, n.name, n.unique_key, n.unique_until, n.scopes, n.enqueue_scopes, n.edges, n.failed,
		n.reason, n.last_error, n.progress, n.extra, n.job_id, n.type, n.body, n.tags::jsonb
	FROM n`
}

// nextValues are those of next attempts.
var nextValues = newValues{plainValues.seq, plainValues.line, "CASE WHEN n.wait_until IS NOT NULL THEN n.created END", plainValues.waitingFor}

// insertNumbered returns a statement that inserts the records of a table, with their arrival numbers and the keys of the
// scopes that they wait for.
func insertNumbered(n, seq, waitingFor string) string {
	return insertNew(n, newValues{seq, "h.id", plainValues.since, waitingFor}) + ` LEFT JOIN ` + homes + `) SELECT 1::bigint`
}

// newJobs and newJob are the inserted records, and the only one.
var (
	newJobs = rowsOf(newArgs, "n", newColumns+", home, wanted")
	newJob  = rowOf(newArgs, "n", newColumns+", home, wanted")
)

// homes are the lines of inserted records. A failover may have lost a line that this process remembers.
const homes = `{s}.lines h ON h.id = n.home AND h.queue = n.queue AND h.priority = n.priority`

// insertPlain returns a statement that inserts the records of a table. It refuses duplicates, and records that do not
// meet the condition.
func insertPlain(n, condition, result string) string {
	return insertNew(n, plainValues) + condition + ` AND NOT EXISTS (SELECT 1 FROM {s}.leftovers l WHERE l.queue = n.queue AND l.kind > 0 AND l.name = n.job_id)
		ORDER BY n.ord ON CONFLICT DO NOTHING RETURNING seq, queue, place),
	t AS (INSERT INTO {s}.tallies (queue, now, n) SELECT queue, place, ` + result
}

// manyAdded and oneAdded end a statement of insertPlain. The result has the numbers of the added records.
const (
	manyAdded = `count(*) FROM i GROUP BY queue, place) SELECT n.ord FROM n JOIN i ON i.seq = n.seq`
	oneAdded  = `1 FROM i) SELECT 1::bigint FROM i`
)

// unlessDraining is the condition that the queue and the line of a record exist, and the queue takes records.
const unlessDraining = ` JOIN {s}.queues q ON q.id = n.queue AND NOT q.draining JOIN ` + homes + ` WHERE true`

// tallied returns the numbers of records that came to a place, and, negated, that left it.
const tallied = `(SELECT queue, now AS place, n FROM {s}.tallies UNION ALL SELECT queue, was, -n FROM {s}.tallies WHERE was IS NOT NULL) t`

// fold returns a statement that adds up tallies of the queues in a table m, a limited number of rows at once. It
// returns how many rows it has read, and how many it has written instead. It skips rows that another process is
// adding up.
func fold(m, result string) string {
	return `WITH ` + m + `, d AS (
		DELETE FROM {s}.tallies WHERE ctid = ANY(ARRAY(
			SELECT t.ctid FROM m JOIN {s}.tallies t ON t.queue = m.queue LIMIT $1 FOR UPDATE OF t SKIP LOCKED)) RETURNING queue, was, now, n
	), f AS (
		INSERT INTO {s}.tallies (queue, now, n) SELECT queue, place, sum(n) FROM (
			SELECT queue, now AS place, n FROM d UNION ALL SELECT queue, was, -n FROM d WHERE was IS NOT NULL) moved
		GROUP BY queue, place HAVING sum(n) <> 0 RETURNING queue
	) SELECT (SELECT count(*) FROM d), (SELECT count(*) FROM f)` + result
}

// ofName selects and locks the record of a name ($2), the job ID in which is $3. It is searched by one index after the
// other: a search with OR, planned while the table was small, read all jobs of a burst that followed. The condition at
// the end is checked again if another transaction has changed the row meanwhile.
const ofName = ` FROM {s}.jobs WHERE seq = coalesce((SELECT seq FROM {s}.jobs WHERE queue = $1 AND name IS NOT NULL AND name = $2),
		(SELECT seq FROM {s}.jobs WHERE queue = $1 AND job_id = $3 AND NOT replaced AND name IS NULL))
	AND CASE WHEN name IS NULL THEN NOT replaced ELSE name = $2 END FOR UPDATE`

// The leases of the arguments, and how a record with one of them is found by an index.
const (
	givenLeases = `e AS (SELECT * FROM unnest($1::integer[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[])
		WITH ORDINALITY AS e (queue, job_id, name, owner, lease_count, stamp, ord))`
	hasLease  = `j.queue = e.queue AND j.owner = e.owner AND j.lease_count = e.lease_count AND j.seq = e.stamp AND j.place = 6 AND `
	byJobID   = `j.job_id = e.job_id AND NOT j.replaced AND (j.name IS NULL OR j.name = e.name)`
	byJobName = `j.name = e.name`
)

// lockedBy returns the statement that finds the leases whose rows are locked, and locks the others
// for a moment.
func lockedBy(index string) string {
	return `WITH ` + givenLeases + `, free AS MATERIALIZED (
		SELECT e.ord FROM e JOIN {s}.jobs j ON ` + hasLease + index + ` FOR NO KEY UPDATE OF j SKIP LOCKED
	) SELECT e.ord FROM e JOIN {s}.jobs j ON ` + hasLease + index + ` WHERE e.ord NOT IN (SELECT ord FROM free)`
}

// extendBy returns the statement that extends the leases of records found by an index. It sets no time back: the server may
// execute it late, after its call was given up and repeated.
func extendBy(index string) string {
	return `WITH clock AS MATERIALIZED (SELECT ` + serverNow + ` AS at), ` + givenLeases + `, u AS (
		UPDATE {s}.jobs j SET mod_time = greatest(mod_time, $7), lease_time = $8, lease_until = (SELECT at FROM clock) + $8 FROM e
		WHERE ` + hasLease + index + `
		RETURNING e.ord, j.seq
	), l AS (
		INSERT INTO {s}.leases (until, taken, seqs) SELECT at + $8, at, array_agg(seq) FROM u, clock GROUP BY at
	) SELECT ord FROM u`
}

// endingArgs are the arguments of the statements that end attempts, an array for each column, and endingColumns the columns.
const (
	endingArgs = `$1::integer[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::smallint[], $7::text[], $8::bigint[],
				$9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::text[],
				$18::text[], $19::bigint[], $20::text[], $21::bigint[], $22::smallint[], $23::smallint[], $24::bytea[], $25::bytea[], $26::bytea[], $27::bigint[]`
	endingColumns = `queue, job_id, name, owner, lease_count, place, new_owner, new_count, mod_time, created, started, ended,
				wait_until, dispatch_by, max_time, error_count, last_error, reason, forget_at, type, version, format, dependency, progress,
				extra, body, stamp`
)

// endAll returns a statement that ends the attempts e, of jobs without scopes and dependents that are not to be
// canceled. A body that stays the same is not written again. more is a further condition.
func endAll(e, replaced, more string) string {
	return `WITH e AS (
			SELECT * FROM ` + e + `
		), u AS (
			UPDATE {s}.jobs j SET place = e.place, replaced = ` + replaced + `, line = CASE WHEN e.place = 8 THEN j.line ELSE -j.line END,
				owner = e.new_owner, lease_count = e.new_count, mod_time = e.mod_time, created = e.created, started = e.started, ended = e.ended,
				wait_until = e.wait_until, dispatch_by = e.dispatch_by, max_time = e.max_time, error_count = e.error_count,
				last_error = e.last_error, reason = e.reason, forget_at = e.forget_at, type = e.type, version = e.version, format = e.format,
				dependency = e.dependency, extra = e.extra, progress = coalesce(e.progress, j.progress), lease_until = NULL, limited = NULL,
				unique_held = j.unique_held AND coalesce(e.place = 7 OR j.unique_until = 'forgotten' OR (j.unique_until = 'failed' AND e.place = 8), false),
				body = CASE WHEN e.body IS NOT DISTINCT FROM j.body THEN j.body ELSE e.body END
			FROM e
			WHERE j.queue = e.queue AND j.job_id = e.job_id AND NOT j.replaced AND j.name IS NOT DISTINCT FROM e.name
				AND j.owner = e.owner AND j.lease_count = e.lease_count AND j.seq = e.stamp AND j.place = 6
				AND j.scopes IS NULL AND j.enqueue_scopes IS NULL AND NOT j.open_edges AND NOT j.dependents AND NOT j.cancel` + more + `
			RETURNING e.ord, j.seq, j.queue, j.place, j.forget_at
		), t AS (
			INSERT INTO {s}.tallies (queue, was, now, n) SELECT queue, 6, place, count(*) FROM u GROUP BY queue, place
		), l AS (
			INSERT INTO {s}.endings (forget_at, seqs) SELECT min(forget_at), array_agg(seq) FROM u
			WHERE place >= 8 AND forget_at IS NOT NULL GROUP BY forget_at / 1000000000
		) SELECT ord, (SELECT ` + limitsRunning + ` FROM {s}.queues q WHERE q.id = u.queue) FROM u`
}

// isPassed is the condition that claims of the line l begin behind its record j, and lateNow the value of the
// column late with which they find the record once it is ready.
const (
	isPassed = `CASE WHEN j.late IS NULL THEN j.seq < l.low ELSE j.late < l.late_low END`
	lateNow  = `CASE WHEN ` + isPassed + ` THEN nextval('{s}.arrivals') ELSE j.late END`
)

// hasEdgesLeft is edgesLeft of changes as a condition.
const hasEdgesLeft = `(dependents AND EXISTS (SELECT 1 FROM {s}.leftovers l WHERE l.queue = jobs.queue AND l.kind > 0 AND l.name = jobs.job_id))`

// isAlone is the condition that the line l is the only one of its queue q, and that nothing limits what
// claims take from it.
const isAlone = `NOT q.paused AND q.max_running = 0 AND q.rate IS NULL AND q.type_limits IS NULL
			AND NOT EXISTS (SELECT 1 FROM {s}.lines o WHERE o.queue = l.queue AND o.id <> l.id)`

// firstReady finds the first ready records of the lines w, as p. Late records were put before the others. Expired records
// are skipped. The limit ends both searches: no more records are locked.
const firstReady = `p AS (
		SELECT j.seq FROM w CROSS JOIN LATERAL (
			SELECT * FROM (SELECT seq FROM {s}.jobs WHERE line = w.id AND late >= w.late_low AND place = 4
				AND (dispatch_by IS NULL OR dispatch_by >= $3) ORDER BY late, seq FOR UPDATE SKIP LOCKED) late
			UNION ALL SELECT * FROM (SELECT seq FROM {s}.jobs WHERE line = w.id AND seq >= w.low AND place = 4
				AND (dispatch_by IS NULL OR dispatch_by >= $3) ORDER BY seq FOR UPDATE SKIP LOCKED) others
			LIMIT w.wanted) j
	)`

// leased leases the records p, as u. The rows are found by an array, which makes the server use the index, whatever
// number of rows it expects. The time is the same for all rows.
const leased = `u AS (
		UPDATE {s}.jobs SET place = 6, due = NULL, line = abs(line), owner = $4, lease_count = lease_count + 1, mod_time = $3, started = $3,
			lease_time = $5, lease_until = (SELECT ` + serverNow + `) + $5::bigint,
			expires = NULL, limited = $6::boolean, unique_held = unique_held AND unique_until IS DISTINCT FROM 'started'
		WHERE seq = ANY(ARRAY(SELECT seq FROM p)) RETURNING *
	), l AS (
		INSERT INTO {s}.leases (until, taken, seqs) SELECT max(lease_until), max(lease_until) - $5, array_agg(seq) FROM u HAVING count(*) > 0
	)`

// takenRows is the end of a statement that takes ready records: behind which places of their lines w they were found, and
// the records.
const takenRows = `jobs.late - w.late_low, jobs.seq - w.low, ` + readyColumns + ` FROM u AS jobs JOIN w ON w.id = jobs.line`

// takeFromOnlyLine returns a statement that takes the first ready records of a line. It takes none unless the line is alone in
// its queue, no time has come, and no transaction left work. times are three columns of the result.
func takeFromOnlyLine(times string) string {
	return `WITH w AS MATERIALIZED (
		SELECT l.id, l.low, l.late_low, $2::integer AS wanted FROM {s}.lines l JOIN {s}.queues q ON q.id = l.queue
		WHERE l.id = $1 AND ` + isAlone + `
			AND (SELECT due FROM {s}.jobs WHERE due >= $7 AND due <= $3 ORDER BY due LIMIT 1) IS NULL
			AND (SELECT expires FROM {s}.jobs WHERE queue = l.queue AND expires >= $8 AND expires < $3 ORDER BY expires LIMIT 1) IS NULL
			AND NOT EXISTS (SELECT 1 FROM {s}.leftovers)
	), ` + firstReady + `, ` + leased + `, t AS (
		INSERT INTO {s}.tallies (queue, was, now, n) SELECT min(queue), 4, 6, count(*) FROM u HAVING count(*) > 0
	) SELECT ` + times + `, ` + takenRows
}

// firstToCome returns the first time of a column in the spans of a look (see look.args). Spans are read one after the
// other, until there is one.
func firstToCome(column, first, last, until string) string {
	return `coalesce((SELECT f.at FROM unnest(` + first + `::bigint[], ` + last + `::bigint[]) AS s (first, last)
			CROSS JOIN LATERAL (SELECT ` + column + ` AS at FROM {s}.jobs WHERE ` + column + ` >= s.first AND ` + column + ` <= s.last ORDER BY ` + column + ` LIMIT 1) f LIMIT 1),
		(SELECT ` + column + ` FROM {s}.jobs WHERE ` + column + ` >= ` + until + ` ORDER BY ` + column + ` LIMIT 1))`
}

var statementTexts = [statements]string{
	lockQueue:         `SELECT pg_advisory_xact_lock($1)::text`,
	lockQueueOfCaller: `SELECT pg_advisory_xact_lock($1)::text, current_setting('transaction_isolation')`,
	lockHolders: `SELECT virtualtransaction FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND classid::bigint = $1 AND objid::bigint = $2`,
	// If the server dies, the records become due again: a claim that has taken some is on the disk after all
	// that was committed before, so the commit does not wait for the disk.
	lockPromotions: `SELECT pg_advisory_xact_lock_shared($1)::text, set_config('synchronous_commit', 'off', true)`,
	// The columns are evaluated from left to right.
	lockClaims:  planSettings + `, pg_advisory_xact_lock_shared($1)::text`,
	lockInserts: `SELECT count(pg_advisory_xact_lock_shared(key)) FROM unnest($1::bigint[]) AS key`,
	// The same, and the transaction finds the queues of the records by their index. Without
	// statistics, the server would read all queues for each Put.
	beginInserts: `SELECT count(pg_advisory_xact_lock_shared(key)), set_config('enable_seqscan', 'off', true) FROM unnest($1::bigint[]) AS key`,

	// For records of several calls, which are of one queue. The limit applies to all locks.
	beginShared: `SELECT set_config('lock_timeout', '100ms', true), set_config('enable_seqscan', 'off', true), pg_advisory_xact_lock_shared($1)::text`,

	findQueue:      `SELECT id FROM {s}.queues WHERE name = $1`,
	insertQueue:    `INSERT INTO {s}.queues (name) VALUES ($1) ON CONFLICT (name) DO NOTHING`,
	readQueueNames: `SELECT id, name FROM {s}.queues WHERE id = ANY($1::integer[])`,
	readControl:    `SELECT ` + controlColumns + ` FROM {s}.queues q WHERE id = $1`,
	setControl: `UPDATE {s}.queues SET paused = $1, draining = $2, max_running = $3, rate = $4::double precision, burst = $5,
			bucket = CASE WHEN $4::double precision IS NULL THEN 0 ELSE bucket END, type_limits = $6
		WHERE id = $7`,
	readRoom:       `SELECT type_limits, type_buckets, ` + serverNow + ` FROM {s}.queues WHERE id = $1`,
	setTypeBuckets: `UPDATE {s}.queues SET type_buckets = $1 WHERE id = $2`,
	readBucket:     `SELECT rate, burst, bucket, ` + serverNow + ` FROM {s}.queues WHERE id = $1`,
	setBucket:      `UPDATE {s}.queues SET bucket = $1 WHERE id = $2 AND bucket = $3`,
	// The clock of the server was set back since the bucket was written.
	resetBucket: `UPDATE {s}.queues SET bucket = ` + serverNow + ` WHERE id = $1 AND bucket > ` + serverNow + ` + $2`,
	addTallies:  `INSERT INTO {s}.tallies (queue, was, now, n) SELECT * FROM unnest($1::integer[], $2::smallint[], $3::smallint[], $4::bigint[])`,
	// Those of the queues whose rows become half as many.
	foldTallies: fold(`m AS MATERIALIZED (
		SELECT queue FROM {s}.tallies WHERE queue = ANY($2::integer[]) GROUP BY queue HAVING count(*) >= 2 * count(DISTINCT now)
	)`, ""),
	// Those of the queues that are not added up, among the first rows.
	foldLeft: fold(`w AS MATERIALIZED (SELECT queue, was, now FROM {s}.tallies WHERE queue >= $2 ORDER BY queue LIMIT $1), m AS MATERIALIZED (
		SELECT queue FROM w GROUP BY queue HAVING count(*) > count(DISTINCT now) OR count(was) > 0
	)`, `, (SELECT count(*) FROM w), (SELECT coalesce(max(queue), 0)::bigint FROM w)`),

	findLine:   `SELECT id FROM {s}.lines WHERE queue = $1 AND priority = $2 AND kind = $3 AND scoped = $4`,
	kindOfLine: `SELECT kind FROM {s}.lines WHERE id = $1`,
	insertLine: `INSERT INTO {s}.lines (queue, priority, kind, scoped) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,

	// Refused records are not in the result.
	insertJobs: insertPlain(newJobs, unlessDraining, manyAdded),
	insertJob:  insertPlain(newJob, unlessDraining, oneAdded),
	// The snapshot of the caller's transaction may be older than the queue and the line.
	insertJobsOfCaller: insertPlain(newJobs, ` WHERE NOT EXISTS (SELECT 1 FROM {s}.queues q WHERE q.id = n.queue AND q.draining)`, manyAdded),
	// These records are known not to be refused. If a line is gone, it fails: the column must not be NULL.
	insertMany:  insertNumbered(newJobs, `($39::bigint[])[n.ord]`, `($40::text[])[n.ord]`),
	insertOne:   insertNumbered(newJob, `$39::bigint`, `$40::text`),
	takeNumbers: `SELECT nextval('{s}.arrivals') FROM generate_series(1, $1::integer)`,
	// The jobs that have the name or the ID of a record, or had the ID and have edges left (see edgesLeft). It waits for no
	// row, as findLatest.
	takenBy: `SELECT ord, by FROM (SELECT n.ord, coalesce(
			(SELECT job_id FROM {s}.jobs WHERE queue = $1 AND name IS NOT NULL AND name = n.name),
			(SELECT job_id FROM {s}.jobs WHERE queue = $1 AND job_id = n.of_name AND NOT replaced AND name IS NULL),
			(SELECT job_id FROM {s}.jobs WHERE queue = $1 AND job_id = n.id AND NOT replaced),
			(SELECT name FROM {s}.leftovers WHERE queue = $1 AND kind > 0 AND name = n.id LIMIT 1)) AS by
		FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS n (name, of_name, id, ord)) t WHERE by IS NOT NULL`,
	// The next attempts of records that this transaction has ended. If a name is taken, it fails.
	insertNext: insertNew(newJobs, nextValues) + ` JOIN {s}.jobs p ON p.queue = n.queue
			AND p.name = ($39::text[])[n.ord] AND p.xmin = pg_current_xact_id()::xid ORDER BY n.ord RETURNING queue, place)
		INSERT INTO {s}.tallies (queue, now, n) SELECT queue, place, count(*) FROM i GROUP BY queue, place`,
	findByName: `SELECT ` + jobColumns + ofName,
	// They are locked in the given order.
	findByNames: `SELECT e.ord, ` + jobColumns + ` FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS e (named, of_name, ord)
		JOIN {s}.jobs ON seq = coalesce((SELECT seq FROM {s}.jobs WHERE queue = $1 AND name IS NOT NULL AND name = e.named),
			(SELECT seq FROM {s}.jobs WHERE queue = $1 AND job_id = e.of_name AND NOT replaced AND name IS NULL))
		AND CASE WHEN name IS NULL THEN NOT replaced ELSE name = e.named END ORDER BY e.ord FOR UPDATE OF jobs`,
	// It waits for no row: a statement that waited for an attempt which the next one replaced would
	// find neither.
	findLatest: `SELECT seq FROM {s}.jobs WHERE queue = $1 AND job_id = $2 AND NOT replaced`,
	findSeq:    `SELECT ` + jobColumns + ` FROM {s}.jobs WHERE seq = $1 FOR UPDATE`,
	// A job that becomes ready is found by claims: see setLate.
	moveJob: `UPDATE {s}.jobs j SET place = $1::smallint, due = $2, waiting_for = $3,
			expires = CASE WHEN $1::smallint < 5 THEN dispatch_by END, line = CASE WHEN $1::smallint IN (4, 6, 8) THEN abs(line) ELSE -abs(line) END,
			limited = CASE WHEN $1::smallint = 6 THEN limited END, late = CASE WHEN $1::smallint = 4 THEN ` + lateNow + ` ELSE j.late END
		FROM {s}.lines l WHERE j.seq = $4 AND l.id = abs(j.line)`,
	setLate: `UPDATE {s}.jobs j SET late = ` + lateNow + ` FROM {s}.lines l WHERE j.seq = $1 AND l.id = j.line AND ` + isPassed + ``,
	takeLease: `UPDATE {s}.jobs SET owner = $1, lease_count = $2, mod_time = $3, lease_time = $4, started = $5,
			lease_until = ` + serverNow + ` + $4::bigint,
			limited = nullif((SELECT ` + limitsRunning + ` FROM {s}.queues q WHERE q.id = jobs.queue), false)
		WHERE seq = $6`,
	setLimited: `UPDATE {s}.jobs SET limited = true WHERE queue = $1 AND place = 6 AND limited IS NULL
		AND seq IN (SELECT unnest(seqs) FROM {s}.leases)`,
	logLease: `INSERT INTO {s}.leases (until, taken, seqs) SELECT lease_until, lease_until - lease_time, ARRAY[seq] FROM {s}.jobs
		WHERE seq = ANY($1::bigint[]) AND place = 6`,
	dropLease: `UPDATE {s}.jobs SET owner = '', lease_until = NULL, started = NULL, cancel = false, limited = NULL, reason = $1,
			dispatch_by = CASE WHEN $3::boolean THEN NULL ELSE dispatch_by END WHERE seq = $2`,
	endPlain: endAll(rowsOf(endingArgs, "e", endingColumns), "false", ""),
	endOne:   endAll(rowOf(endingArgs, "e", endingColumns), "false", ""),
	// These attempts are replaced by the next, whose name must not exist. A failover may have lost its line, which is read
	// in a subquery with a single value: a join would let the server find the attempts by the queue of the line alone.
	endReplaced: endAll(rowsOf(endingArgs+", $28::text[], $29::integer[], $30::bigint[]", "e", endingColumns+", next_name, next_line, next_priority"), "true", ` AND j.unique_key IS NULL
			AND NOT EXISTS (SELECT 1 FROM {s}.jobs t WHERE t.queue = e.queue AND t.name = e.next_name)
			AND (SELECT h.queue = e.queue AND h.priority = e.next_priority FROM {s}.lines h WHERE h.id = e.next_line)`),
	endAny: `WITH u AS (
			UPDATE {s}.jobs SET place = $24::smallint, line = CASE WHEN $24::smallint = 8 THEN abs(line) ELSE -abs(line) END, due = NULL, expires = NULL,
				waiting_for = NULL, open_edges = false, replaced = $22, progress = coalesce($21, progress), unique_held = unique_held AND $23, ` +
		endColumns + ` WHERE seq = $1 RETURNING seq, place, forget_at
		) INSERT INTO {s}.endings (forget_at, seqs) SELECT forget_at, ARRAY[seq] FROM u WHERE place >= 8 AND forget_at IS NOT NULL`,
	logEnding:    `INSERT INTO {s}.endings (forget_at, seqs) SELECT forget_at, ARRAY[seq] FROM {s}.jobs WHERE seq = $1 AND place >= 8 AND forget_at IS NOT NULL`,
	dropKey:      `UPDATE {s}.jobs SET unique_held = false WHERE seq = $1`,
	holderOfKey:  `SELECT job_id FROM {s}.jobs WHERE queue = $1 AND unique_key = $2 AND unique_held`,
	extendLeases: extendBy(byJobID),
	extendByName: extendBy(byJobName),
	lockedLeases: lockedBy(byJobID),
	lockedByName: lockedBy(byJobName),
	readByName:   `SELECT ` + recordColumns + ofName,
	readBySeq:    `SELECT ` + recordColumns + ` FROM {s}.jobs WHERE seq = $1 FOR UPDATE`,
	saveRecord: `UPDATE {s}.jobs SET type = $1, line = CASE WHEN line < 0 THEN -$2::integer ELSE $2::integer END, version = $3, format = $4,
		error_count = $5, last_error = $6, extra = $7, body = $8 WHERE seq = $9`,
	saveLock: `UPDATE {s}.jobs SET owner = $1, lease_count = $2, mod_time = CASE WHEN place = 6 THEN mod_time ELSE $3 END,
			lease_until = ` + serverNow + ` + lease_time
		WHERE seq = $4`,
	setCount: `UPDATE {s}.jobs SET lease_count = $1 WHERE seq = $2`,
	// Leases are recovered in the order of their ends. The time is the same for all rows, so that the index finds
	// them. The search begins after the last row that was removed, as in endingDue.
	staleLeases: `SELECT until, id, cardinality(seqs)::bigint FROM {s}.leases WHERE until < (SELECT ` + serverNow + `) AND (until, id) > ($2, $3)
		ORDER BY until, id LIMIT $1`,
	staleJobs: `SELECT seq, queue, lease_until FROM {s}.jobs WHERE place = 6 AND lease_until < ` + serverNow + `
		AND seq IN (SELECT unnest(l.seqs) FROM unnest($1::bigint[], $2::bigint[]) AS s (until, id) JOIN {s}.leases l ON l.until = s.until AND l.id = s.id)
		ORDER BY queue, seq`,
	findStale: `SELECT ` + jobColumns + ` FROM {s}.jobs WHERE seq = $1 AND place = 6 AND lease_until < ` + serverNow + ` FOR UPDATE SKIP LOCKED`,
	keepLeases: `INSERT INTO {s}.leases (until, taken, seqs) SELECT $1, min(lease_until - lease_time), array_agg(seq) FROM {s}.jobs
		WHERE seq = ANY($2::bigint[]) AND place = 6 HAVING count(*) > 0`,
	// The clock of the server was set back since these leases were taken.
	shortenLeases: `WITH clock AS MATERIALIZED (SELECT ` + serverNow + ` AS at), f AS (
		DELETE FROM {s}.leases WHERE taken > (SELECT at FROM clock) + $1 RETURNING seqs
	), u AS (
		UPDATE {s}.jobs SET lease_until = (SELECT at FROM clock) + lease_time
		WHERE seq = ANY(ARRAY(SELECT unnest(seqs) FROM f)) AND place = 6 AND lease_until - lease_time > (SELECT at FROM clock) + $1
		RETURNING seq, lease_until
	) INSERT INTO {s}.leases (until, taken, seqs) SELECT lease_until, (SELECT at FROM clock), array_agg(seq) FROM u GROUP BY lease_until`,
	// All times of a record that was put by a retry count from the same moment.
	shortenWaits: `WITH clock AS MATERIALIZED (SELECT ` + serverNow + ` AS at), u AS (
		UPDATE {s}.jobs SET since = at, due = due - (since - at),
			created = CASE place WHEN 1 THEN created - (since - at) ELSE created END,
			wait_until = CASE place WHEN 1 THEN wait_until - (since - at) ELSE wait_until END,
			dispatch_by = CASE place WHEN 1 THEN dispatch_by - (since - at) ELSE dispatch_by END,
			expires = CASE place WHEN 1 THEN expires - (since - at) ELSE expires END
		FROM clock WHERE seq = ANY(ARRAY(SELECT seq FROM {s}.jobs WHERE due IS NOT NULL AND since > (SELECT at FROM clock) + $1
			ORDER BY since LIMIT $2 FOR UPDATE SKIP LOCKED))
		RETURNING seq
	) SELECT count(*) FROM u`,
	setSince:        `UPDATE {s}.jobs SET since = $1 WHERE seq = $2`,
	dropStaleLeases: `DELETE FROM {s}.leases l USING unnest($1::bigint[], $2::bigint[]) AS s (until, id) WHERE l.until = s.until AND l.id = s.id`,
	setProgress: `UPDATE {s}.jobs SET progress = $1 WHERE queue = $2 AND owner = $5 AND lease_count = $6 AND seq = $7 AND place = 6
		AND ((name IS NOT NULL AND name = $3) OR (NOT replaced AND job_id = $4 AND name IS NULL)) RETURNING seq`,
	markCancel: `UPDATE {s}.jobs SET cancel = true, reason = $1, forget_at = $2 WHERE seq = $3`,
	readMark:   `SELECT reason, forget_at FROM {s}.jobs WHERE seq = $1`,

	// From $2 on, the parameters are the arguments of two looks (see look.args): for due and for expiring records.
	nextTimes: `SELECT
		(SELECT due FROM {s}.jobs WHERE due >= $2 AND due <= $1 ORDER BY due LIMIT 1),
		(SELECT expires FROM {s}.jobs WHERE expires >= $6 AND expires < $1 ORDER BY expires LIMIT 1),
		EXISTS (SELECT 1 FROM {s}.leftovers),
		` + firstToCome("due", "$3", "$4", "$5") + `,
		` + firstToCome("expires", "$7", "$8", "$9") + ``,
	// The lines of queues with jobs that may run, and the first of these jobs.
	// Of each queue, as many lines with ready jobs are found as jobs are wanted, from its top on, and all others of the
	// last of their priorities. If the types of a queue are limited, jobs of these lines may have to be left out.
	probe: `SELECT l.id, l.queue, l.priority, l.scoped, q.max_running, q.rate, q.burst, q.bucket,
			CASE WHEN q.rate IS NOT NULL OR q.type_limits IS NOT NULL THEN ` + serverNow + ` END, l.kind, q.type_limits, q.type_buckets, l.seqs, c.lines
		FROM unnest($1::integer[], $2::integer[], $5::bigint[], $6::integer[]) AS w (queue, wanted, top, counted)
		JOIN {s}.queues q ON q.id = w.queue AND NOT q.paused
		CROSS JOIN LATERAL (SELECT count(*) AS lines FROM (SELECT 1 FROM {s}.lines WHERE queue = w.queue LIMIT w.counted) counted) c
		CROSS JOIN LATERAL (SELECT l.id, l.queue, l.priority, l.scoped, l.kind, r.seqs::text FROM {s}.lines l
			CROSS JOIN LATERAL (SELECT json_agg(seq) AS seqs FROM (
				SELECT seq FROM (SELECT seq FROM {s}.jobs WHERE line = l.id AND late >= l.late_low AND place = 4
					AND (dispatch_by IS NULL OR dispatch_by >= $3) ORDER BY late, seq LIMIT w.wanted) late
				UNION ALL SELECT seq FROM (SELECT seq FROM {s}.jobs WHERE line = l.id AND seq >= l.low AND place = 4
					AND (dispatch_by IS NULL OR dispatch_by >= $3) ORDER BY seq LIMIT w.wanted) others) s) r
			WHERE l.queue = w.queue AND l.priority <= w.top AND l.kind <> ALL($4::text[]) AND r.seqs IS NOT NULL
			ORDER BY l.priority DESC FETCH FIRST (CASE WHEN q.type_limits IS NULL THEN w.wanted ELSE 2147483647 END) ROWS WITH TIES) l`,
	// If the queue has got its first limit, which the probe did not find, nothing is taken. If $7 is given, nothing is
	// taken unless that is still the bucket of the queue.
	take: `WITH w AS MATERIALIZED (
		SELECT l.id, l.low, l.late_low, w.wanted FROM unnest($1::integer[], $2::integer[]) AS w (line, wanted)
		JOIN {s}.lines l ON l.id = w.line
		JOIN {s}.queues q ON q.id = l.queue
		WHERE ($7::bigint IS NULL OR q.bucket = $7) AND ($6::boolean OR NOT ` + limitsRunning + `)
	), ` + firstReady + `, ` + leased + `, t AS (
		INSERT INTO {s}.tallies (queue, was, now, n) SELECT queue, 4, 6, count(*) FROM u GROUP BY queue
	) SELECT NULL::bigint, NULL::bigint, NULL::bigint, ` + takenRows,
	takeAlone: takeFromOnlyLine("NULL::bigint, NULL::bigint, NULL::bigint"),
	// From $7 on, the parameters are the arguments of two looks: for due and for expiring records.
	takeAloneAndLook: takeFromOnlyLine(`(SELECT expires FROM {s}.jobs WHERE expires >= $8 AND expires < $3 ORDER BY expires LIMIT 1), ` +
		firstToCome("due", "$9", "$10", "$11") + `, ` + firstToCome("expires", "$12", "$13", "$14")),
	// The first due records are taken, unless the line is no longer alone in its queue, or one of them is of another
	// line, takes scopes, or may no longer start. No record was due before $7.
	takeDue: `WITH w AS MATERIALIZED (
		SELECT l.queue FROM {s}.lines l JOIN {s}.queues q ON q.id = l.queue WHERE l.id = $1 AND ` + isAlone + `
	), f AS MATERIALIZED (
		SELECT seq, place, line <> -$1::integer OR scopes IS NOT NULL OR dispatch_by < $3 AS differs FROM {s}.jobs
		WHERE due >= $7 AND due <= $3 AND EXISTS (SELECT 1 FROM w) ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED
	), p AS MATERIALIZED (
		SELECT seq, place FROM f WHERE NOT EXISTS (SELECT 1 FROM f WHERE differs)
	), ` + leased + `, t AS (
		INSERT INTO {s}.tallies (queue, was, now, n) SELECT w.queue, place, 6, count(*) FROM p, w GROUP BY w.queue, place
	) SELECT NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, ` + readyColumns + ` FROM u AS jobs`,
	firstExpired: `SELECT w.queue FROM unnest($2::integer[]) AS w (queue)
		CROSS JOIN LATERAL (SELECT expires FROM {s}.jobs WHERE queue = w.queue AND expires >= $3 AND expires < $1 ORDER BY expires LIMIT 1) e
		WHERE w.queue <> ALL($4::integer[]) ORDER BY e.expires LIMIT 1`,
	// An order by arrival would make the server walk over all jobs, because sorts are off.
	findExpired: `SELECT ` + recordColumns + ` FROM {s}.jobs WHERE expires >= $4 AND expires < $1 AND queue = $2 ORDER BY expires LIMIT $3 FOR UPDATE SKIP LOCKED`,
	// Records that take no scopes when they start become ready. Whether others are due is looked up among the
	// first ones: among all it would take long.
	promoteDue: `WITH d AS (
		SELECT seq, place FROM {s}.jobs WHERE due >= $3 AND due <= $1 AND scopes IS NULL ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED
	), u AS (
		UPDATE {s}.jobs j SET place = 4, due = NULL, line = abs(line), late = ` + lateNow + `
		FROM d, {s}.lines l WHERE j.seq = d.seq AND l.id = abs(j.line)
		RETURNING j.queue, d.place AS was
	), t AS (
		INSERT INTO {s}.tallies (queue, was, now, n) SELECT queue, was, 4, count(*) FROM u GROUP BY queue, was
	) SELECT count(*), EXISTS (SELECT 1 FROM (SELECT scopes FROM {s}.jobs WHERE due >= $3 AND due <= $1 ORDER BY due LIMIT 2 * $2) f WHERE scopes IS NOT NULL) FROM d`,
	firstScopedDue:  `SELECT queue FROM {s}.jobs WHERE due >= $2 AND due <= $1 AND scopes IS NOT NULL AND queue <> ALL($3::integer[]) ORDER BY due LIMIT 1`,
	findDue:         `SELECT ` + jobColumns + ` FROM {s}.jobs WHERE due >= $4 AND due <= $1 AND queue = $2 AND scopes IS NOT NULL ORDER BY due LIMIT $3 FOR UPDATE`,
	countLimited:    `SELECT count(*) FROM {s}.jobs WHERE queue = $1 AND limited`,
	limitedOfQueues: `SELECT queue, type, count(*) FROM {s}.jobs WHERE queue = ANY($1::integer[]) AND limited GROUP BY queue, type`,
	limitedOfType:   `SELECT type, count(*) FROM {s}.jobs WHERE queue = $1 AND limited GROUP BY type`,

	// The columns are evaluated from left to right.
	lockLine: planSettings + `, set_config('lock_timeout', $1, true), set_config('synchronous_commit', 'off', true),
		pg_advisory_xact_lock($2)::text, pg_advisory_xact_lock($3)::text, pg_advisory_xact_lock($4)::text`,
	raiseFloor: `WITH former AS MATERIALIZED (SELECT low, late_low FROM {s}.lines WHERE id = $1), f AS MATERIALIZED (SELECT
			coalesce((SELECT seq FROM {s}.jobs WHERE line = $1 AND seq >= (SELECT low FROM former) AND place = 4 ORDER BY seq LIMIT 1), last_value + 1) AS low,
			coalesce((SELECT late FROM {s}.jobs WHERE line = $1 AND late >= (SELECT late_low FROM former) AND place = 4 ORDER BY late, seq LIMIT 1), last_value + 1) AS late_low
			FROM {s}.arrivals)
		UPDATE {s}.lines l SET low = f.low, late_low = f.late_low FROM f WHERE l.id = $1 AND (l.low < f.low OR l.late_low < f.late_low)`,

	findTarget:     `SELECT seq, place, dependents FROM {s}.jobs WHERE queue = $1 AND job_id = $2 AND NOT replaced FOR UPDATE`,
	insertEdge:     `INSERT INTO {s}.edges (queue, to_job, from_seq, state) VALUES ($1, $2, $3, $4)`,
	insertEnded:    `INSERT INTO {s}.edges (queue, to_job, from_seq, state) SELECT $1, value, $2, 2 FROM json_array_elements_text($3::json) AS value`,
	markDependents: `UPDATE {s}.jobs SET dependents = true WHERE seq = $1`,
	endEdges: `UPDATE {s}.edges SET state = $1 WHERE ctid = ANY(ARRAY(
			SELECT ctid FROM {s}.edges WHERE queue = $2 AND to_job = $3 AND state = 0 AND from_seq > $4 ORDER BY from_seq LIMIT $5)) RETURNING from_seq`,
	// Records whose last open edge has ended continue, unless they take scopes when they start.
	closeEdges: `WITH d AS (
		SELECT seq, place, place = 0 AND scopes IS NULL AS plain FROM {s}.jobs WHERE seq = ANY($1::bigint[]) AND open_edges
			AND NOT EXISTS (SELECT 1 FROM {s}.edges WHERE from_seq = jobs.seq AND state = 0)
	), u AS (
		UPDATE {s}.jobs j SET open_edges = false, failed = (SELECT json_agg(to_job)::text FROM {s}.edges WHERE from_seq = j.seq AND state = 1),
			place = CASE WHEN NOT d.plain THEN j.place WHEN j.wait_until > $2 THEN 1 ELSE 4 END,
			due = CASE WHEN d.plain AND j.wait_until > $2 THEN j.wait_until ELSE j.due END,
			line = CASE WHEN d.plain AND (j.wait_until > $2) IS NOT TRUE THEN abs(j.line) ELSE j.line END,
			late = CASE WHEN d.plain AND (j.wait_until > $2) IS NOT TRUE THEN ` + lateNow + ` ELSE j.late END
		FROM d, {s}.lines l WHERE j.seq = d.seq AND l.id = abs(j.line) RETURNING j.seq, j.queue, j.place, j.due, d.place AS was, d.plain
	), t AS (
		INSERT INTO {s}.tallies (queue, was, now, n) SELECT queue, was, place, count(*) FROM u WHERE plain GROUP BY queue, was, place
	) SELECT seq, plain, due FROM u WHERE was = 0 ORDER BY seq`,
	leaveEdges: `UPDATE {s}.edges SET state = 2 WHERE from_seq = $1 AND state = 0`,
	moveEdges:  `UPDATE {s}.edges SET from_seq = $1 WHERE from_seq = $2`,
	dropEdges:  `DELETE FROM {s}.edges WHERE from_seq = ANY($1::bigint[])`,

	// The holders of scopes, and the records that they are promised to. With OFFSET, each scope is searched by the index: a
	// join, planned while the tables were small, would read all held scopes of the queue.
	usesOf: `WITH s AS (SELECT * FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS s (first, last, ord))
		SELECT s.ord, h.job_id, NULL::bigint, NULL::bigint, NULL::bigint FROM s CROSS JOIN LATERAL (
			SELECT job_id FROM {s}.scope_holders WHERE queue = $1 AND scope >= s.first AND scope < s.last OFFSET 0) h
		UNION ALL SELECT s.ord, NULL, p.* FROM s CROSS JOIN LATERAL (
			SELECT p.seq, j.priority, p.at_most FROM {s}.scope_promises p JOIN {s}.jobs j ON j.seq = p.seq
			WHERE p.queue = $1 AND p.scope >= s.first AND p.scope < s.last OFFSET 0) p`,
	addHolders: `INSERT INTO {s}.scope_holders (queue, scope, job_id) SELECT $1, * FROM unnest($2::text[], $3::text[])
		ON CONFLICT (queue, scope) DO UPDATE SET job_id = excluded.job_id`,
	dropHolders: `DELETE FROM {s}.scope_holders WHERE queue = $1 AND scope = ANY($2::text[])
		AND (scope, job_id) IN (SELECT * FROM unnest($2::text[], $3::text[]))`,
	addPromises: `INSERT INTO {s}.scope_promises (queue, scope, seq, at_most) SELECT $1, * FROM unnest($2::text[], $3::bigint[], $4::bigint[])
		ON CONFLICT (queue, scope) DO UPDATE SET seq = excluded.seq, at_most = excluded.at_most`,
	dropPromises: `DELETE FROM {s}.scope_promises WHERE queue = $1 AND scope = ANY($2::text[])`,
	firstWaiters: `SELECT k.ord, j.* FROM unnest($2::text[], $3::bigint[]) WITH ORDINALITY AS k (key, wanted, ord)
		CROSS JOIN LATERAL (SELECT ` + jobColumns + ` FROM {s}.jobs WHERE queue = $1 AND waiting_for = k.key ORDER BY priority DESC, seq LIMIT k.wanted FOR UPDATE) j`,
	// A scope that blocks a record also blocks later ones that need the same scopes.
	moveWaiters: `UPDATE {s}.jobs SET waiting_for = $1 WHERE seq = ANY(ARRAY(
			SELECT seq FROM (SELECT seq, scopes, enqueue_scopes FROM {s}.jobs WHERE queue = $2 AND waiting_for = $3 ORDER BY priority DESC, seq LIMIT $6) w
			WHERE scopes = $4 AND enqueue_scopes IS NOT DISTINCT FROM $5))`,

	leave:     `INSERT INTO {s}.leftovers (queue, kind, name, after) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
	firstLeft: `SELECT queue FROM {s}.leftovers WHERE queue <> ALL($1::integer[]) LIMIT 1`,
	nextLeft: `DELETE FROM {s}.leftovers WHERE (queue, kind, name) IN (
		SELECT queue, kind, name FROM {s}.leftovers WHERE queue = $1 LIMIT 1) RETURNING kind, name, after`,
	edgesLeft: `SELECT 1::bigint FROM {s}.leftovers WHERE queue = $1 AND kind > 0 AND name = $2 LIMIT 1`,

	setPriority:  `UPDATE {s}.jobs SET priority = $1, line = CASE WHEN line < 0 THEN -$2::integer ELSE $2::integer END WHERE seq = $3`,
	setWaitUntil: `UPDATE {s}.jobs SET wait_until = $1, since = NULL WHERE seq = $2`,
	setExtra:     `UPDATE {s}.jobs SET extra = $1 WHERE seq = $2`,
	setReason:    `UPDATE {s}.jobs SET reason = $1 WHERE seq = $2`,
	restartJob: `UPDATE {s}.jobs SET seq = nextval('{s}.arrivals'), late = NULL, place = 0, line = -$1::integer, owner = '', started = NULL, ended = NULL,
			dispatch_by = NULL, forget_at = NULL, error_count = 0, last_error = NULL, reason = NULL, open_edges = $2, failed = $3,
			progress = NULL, extra = $4, unique_held = $5 WHERE seq = $6 RETURNING seq`,
	lastSeq:   `SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {s}.arrivals`,
	deleteJob: `DELETE FROM {s}.jobs WHERE seq = $1`,

	// They begin after the last row that was removed: while a snapshot is held, the index contains all rows before
	// it.
	endingDue: `SELECT forget_at, id, array_to_json(seqs)::text FROM {s}.endings WHERE forget_at <= $1 AND (forget_at, id) > ($2, $3)
		ORDER BY forget_at, id LIMIT 1 FOR UPDATE`,
	anyEndingDue: `SELECT 1::bigint FROM {s}.endings WHERE forget_at <= $1 AND (forget_at, id) > ($2, $3) ORDER BY forget_at, id LIMIT 1`,
	forgetJobs: `DELETE FROM {s}.jobs WHERE seq IN (
			SELECT seq FROM {s}.jobs WHERE seq = ANY($1::bigint[]) AND place >= 8 AND forget_at <= $2 AND NOT ` + hasEdgesLeft + `
			ORDER BY forget_at, seq LIMIT $3 FOR UPDATE SKIP LOCKED)
		RETURNING queue, seq, place, edges IS NOT NULL`,
	dropEnding: `DELETE FROM {s}.endings WHERE forget_at = $1 AND id = $2`,
	// A job that can't be removed yet is not due again at the same time, for which the caller goes on.
	relogEnding: `WITH free AS MATERIALIZED (SELECT seq FROM {s}.jobs WHERE seq = ANY($1::bigint[]) FOR UPDATE SKIP LOCKED)
		INSERT INTO {s}.endings (forget_at, seqs) SELECT min(at), array_agg(seq) FROM (
			SELECT seq, CASE WHEN ` + hasEdgesLeft + ` OR seq NOT IN (SELECT seq FROM free)
				THEN greatest(forget_at, $2::bigint + 1) ELSE forget_at END AS at FROM {s}.jobs
			WHERE seq = ANY($1::bigint[]) AND place >= 8 AND forget_at IS NOT NULL) jobs
		GROUP BY at / 1000000000`,

	takeDuty: `INSERT INTO {s}.duties AS d (name, owner, until) VALUES ($1, $2, $3)
		ON CONFLICT (name) DO UPDATE SET owner = $2, until = $3 WHERE d.owner = $2 OR d.until <= $4 OR d.until > $3`,
	addMark: `INSERT INTO {s}.marks (queue, name) VALUES ($1, $2) ON CONFLICT DO NOTHING`,
	raiseMark: `WITH former AS (SELECT queue, name, at FROM {s}.marks WHERE queue = $1 AND name = $2 FOR UPDATE)
		UPDATE {s}.marks m SET at = greatest(m.at, $3) FROM former WHERE m.queue = former.queue AND m.name = former.name RETURNING former.at`,
	readMarkOf: `SELECT at FROM {s}.marks WHERE queue = $1 AND name = $2`,

	keepNote: `INSERT INTO {s}.notes (kind, key, value, until) VALUES ($1, $2, $3, $4)
		ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value, until = excluded.until`,
	findNote: `SELECT value, until FROM {s}.notes WHERE kind = $1 AND key = $2`,
	keepNewNote: `INSERT INTO {s}.notes AS n (kind, key, value, until) VALUES ($1, $2, $3, $4)
		ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value, until = excluded.until WHERE n.until <= $5`,
	replaceNote: `UPDATE {s}.notes SET value = $3, until = $4
		WHERE kind = $1 AND key = $2 AND coalesce(value, ''::bytea) IN (coalesce($3, ''::bytea), coalesce($5, ''::bytea))`,
	dropNotes: `DELETE FROM {s}.notes WHERE kind = $1 AND key = ANY($2::bytea[])`,
	dropEndedNotes: `DELETE FROM {s}.notes WHERE (kind, key) IN (
		SELECT kind, key FROM {s}.notes WHERE until <= $1 ORDER BY until LIMIT $2 FOR UPDATE SKIP LOCKED)`,

	readLatest: `SELECT ` + recordColumns + ` FROM {s}.jobs
		WHERE queue = (SELECT id FROM {s}.queues WHERE name = $1) AND job_id = $2 AND (NOT replaced OR attempt IS NOT NULL)
		ORDER BY attempt DESC NULLS FIRST LIMIT 1`,
	readAttempts: `SELECT ` + recordColumns + ` FROM {s}.jobs
		WHERE queue = (SELECT id FROM {s}.queues WHERE name = $1) AND job_id = $2 AND attempt IS NOT NULL ORDER BY attempt`,
	readStats: `SELECT place::bigint, sum(n)::bigint FROM ` + tallied + ` WHERE queue = (SELECT id FROM {s}.queues WHERE name = $1) GROUP BY place`,
	readQueues: `SELECT q.name, ` + controlColumns + `, t.place::bigint, sum(t.n)::bigint
		FROM {s}.queues q LEFT JOIN ` + tallied + ` ON t.queue = q.id GROUP BY q.id, t.place ORDER BY q.name`,
	readQueuePage: `SELECT q.name, ` + controlColumns + `, t.place::bigint, t.n::bigint
		FROM (SELECT * FROM {s}.queues WHERE (name > $1 OR $3 AND name = $1) AND name >= $1 ORDER BY name LIMIT $2) q
		LEFT JOIN LATERAL (SELECT place, sum(n) AS n FROM ` + tallied + ` WHERE t.queue = q.id GROUP BY place) t ON true ORDER BY q.name`,
	countQueues: `SELECT count(*)::bigint FROM {s}.queues`,
	sumQueues:   `SELECT place::bigint, sum(n)::bigint FROM ` + tallied + ` GROUP BY place`,
	readBusiest: `SELECT q.name, ` + controlColumns + `, t.place::bigint, t.n::bigint
		FROM (SELECT queue, c.n FROM (SELECT queue, sum(n) AS n FROM ` + tallied + ` WHERE place < 8 GROUP BY queue HAVING sum(n) > 0) c
			JOIN {s}.queues ON id = queue ORDER BY c.n DESC, name LIMIT $1) b
		JOIN {s}.queues q ON q.id = b.queue
		LEFT JOIN LATERAL (SELECT place, sum(n) AS n FROM ` + tallied + ` WHERE t.queue = q.id GROUP BY place) t ON true
		ORDER BY b.n DESC, q.name`,
	readUnfinished: `SELECT name FROM {s}.queues WHERE id IN
		(SELECT queue FROM ` + tallied + ` WHERE place < 8 GROUP BY queue HAVING sum(n) > 0) ORDER BY name`,
	countTypes: `SELECT q.name, c.type, c.place::bigint, sum(c.n)::bigint FROM (
			SELECT j.queue, j.type, j.place, count(*) AS n FROM {s}.lines l JOIN {s}.jobs j ON j.line = l.id AND j.seq >= l.low
				WHERE j.place = 4 GROUP BY 1, 2, 3
			UNION ALL SELECT j.queue, j.type, j.place, count(*) AS n FROM {s}.lines l JOIN {s}.jobs j ON j.line = l.id AND j.late >= l.late_low
				WHERE j.place = 4 GROUP BY 1, 2, 3
			UNION ALL SELECT queue, type, place, count(*) FROM {s}.jobs WHERE line < 0 AND place < 8 GROUP BY 1, 2, 3
			UNION ALL SELECT queue, type, place, count(*) FROM {s}.jobs
				WHERE place = 6 AND seq IN (SELECT unnest(seqs) FROM {s}.leases) GROUP BY 1, 2, 3
		) c JOIN {s}.queues q ON q.id = c.queue GROUP BY 1, 2, 3`,
	readOldestReady: `WITH w AS MATERIALIZED (SELECT id, name FROM {s}.queues WHERE name = ANY($1::text[]))
		SELECT w.name, min(greatest(f.created, f.wait_until)) FROM w JOIN (
			SELECT l.queue, h.created, h.wait_until FROM w JOIN {s}.lines l ON l.queue = w.id
			CROSS JOIN LATERAL (SELECT created, wait_until FROM {s}.jobs WHERE line = l.id AND seq >= l.low AND place = 4 ORDER BY seq LIMIT 1) h
			UNION ALL SELECT l.queue, h.created, h.wait_until FROM w JOIN {s}.lines l ON l.queue = w.id
			CROSS JOIN LATERAL (SELECT created, wait_until FROM {s}.jobs WHERE line = l.id AND late >= l.late_low AND place = 4 ORDER BY late, seq LIMIT 1) h
			UNION ALL SELECT queue, created, wait_until FROM
				(SELECT queue, place, created, wait_until FROM {s}.jobs WHERE due <= $2 ORDER BY due LIMIT $3) d WHERE place = 1
		) f ON f.queue = w.id GROUP BY w.name`,
	// The queues of the first due and expired records.
	readTimed: `SELECT 0::bigint, queue, count(*) FROM (SELECT queue FROM {s}.jobs WHERE due >= $3 AND due <= $1 ORDER BY due LIMIT $2) d GROUP BY queue
		UNION ALL SELECT 1, queue, count(*) FROM (SELECT queue FROM {s}.jobs WHERE expires >= $4 AND expires < $1 ORDER BY expires LIMIT $2) e GROUP BY queue`,
	// It finds the queues by an array, so that the server reads no others.
	readWork: `WITH t AS MATERIALIZED (
			SELECT queue, coalesce(sum(n) FILTER (WHERE now = 4), 0) - coalesce(sum(n) FILTER (WHERE was = 4), 0) AS ready,
				coalesce(sum(n) FILTER (WHERE now = 6), 0) - coalesce(sum(n) FILTER (WHERE was = 6), 0) AS running,
				coalesce(sum(n) FILTER (WHERE now = 7), 0) - coalesce(sum(n) FILTER (WHERE was = 7), 0) AS retrying
			FROM {s}.tallies WHERE now IN (4, 6, 7) OR was IN (4, 6, 7) GROUP BY queue
		), w AS (
			SELECT q.name,
				NOT q.paused AND q.rate IS DISTINCT FROM 0 AND (coalesce(t.ready, 0) > 0 OR q.id = ANY($1::integer[]) OR q.id IN (SELECT queue FROM {s}.leftovers))
					AND (q.max_running = 0 OR coalesce(t.running, 0) < q.max_running) AS ready,
				q.id = ANY($2::integer[]) AS expired,
				coalesce(t.retrying, 0) > 0 AS retrying
			FROM {s}.queues q LEFT JOIN t ON t.queue = q.id
			WHERE q.id = ANY(ARRAY(SELECT queue FROM t UNION SELECT unnest($1::integer[] || $2::integer[]) UNION SELECT queue FROM {s}.leftovers))
		) SELECT name, ready, expired, retrying FROM w WHERE ready OR expired OR retrying ORDER BY name COLLATE "C"`,
	readCanceled: `SELECT queue, name, job_id, owner, lease_count, seq FROM {s}.jobs WHERE owner = $1 AND cancel`,

	// If the server dies, only the notification is lost, so the commit does not wait for the disk.
	notify: `SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)::text`,
	// It restores the caller's setting, if identity has changed it.
	notifyIn: `SELECT pg_notify($1, $2)::text,
		set_config('enable_seqscan', coalesce(nullif(current_setting('amboy.enable_seqscan', true), ''), current_setting('enable_seqscan')), true)`,
}
