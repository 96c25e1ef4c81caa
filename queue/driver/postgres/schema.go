package postgres

// migration is a step of the schema. A step never changes once it was released. It can be taken
// while processes with the previous version continue: it only adds, and removes nothing that they
// use.
type migration struct {
	// says describes the step to operators.
	says string
	sql  string
}

// migrations are the steps from an empty schema to the current one. The version of a schema is the
// number of steps that were applied to it.
var migrations = []migration{
	{"the tables of version 1", schemaV1},
	{"the rate of a queue", schemaV2},
	{"scopes with several holders", schemaV3},
	{"limits of job types", schemaV4},
	{"work that a transaction leaves", schemaV5},
	{"the expired jobs of a queue", schemaV6},
	{"the running jobs to be canceled", schemaV7},
	{"claims that write no index", schemaV8},
	{"jobs that become ready late", schemaV9},
	{"room for claims, and vacuum without pauses", schemaV10},
}

// currentVersion is the newest version that this library knows.
func currentVersion() int { return len(migrations) }

// In the schema, {s} stands for the quoted name of the PostgreSQL schema.
//
// Times are nanoseconds since 1970, and lists are JSON. docs/internals/postgresql.md explains
// the design of the tables. In short:
//
// A row of jobs is written three times: when it is put, claimed and ended. No index contains a
// column that a claim or a plain end changes, so that these are HOT updates: they write no index
// entry, and the next write of the page reclaims their space. The fill factor leaves space for
// them.
//
// A line is what a claim scans: the jobs of a queue with one priority and one kind, in the order of
// their arrival. A job is in its line while it is ready or running, and after it has ended from
// there. A job that waits for something is out of its line, which its column line shows as a
// negative number. A claim starts at the floor of the line, lines.low: no job before it is ready,
// except late ones (see schemaV9).
//
// The rows of tallies count how many records moved from one place to another. Each change adds a
// few rows, which are added up from time to time. So there is no row that every change writes.
//
// leases and endings are logs with one row for each claim or end of many jobs: the jobs that may be
// recovered, or removed, from a time on. So no index contains these times.
const schemaV1 = `
CREATE TABLE {s}.queues (
	id          integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name        text COLLATE "C" NOT NULL UNIQUE,
	paused      boolean NOT NULL DEFAULT false,
	draining    boolean NOT NULL DEFAULT false,
	max_running bigint NOT NULL DEFAULT 0
);

CREATE TABLE {s}.lines (
	id       integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	queue    integer NOT NULL,
	priority bigint NOT NULL,
	kind     text COLLATE "C" NOT NULL, -- see driver.Kind
	scoped   boolean NOT NULL, -- its jobs take scopes when they start
	low      bigint NOT NULL DEFAULT 0,
	UNIQUE (queue, priority, kind, scoped)
) WITH (fillfactor = 20);

CREATE SEQUENCE {s}.arrivals;

CREATE TABLE {s}.jobs (
	seq            bigint NOT NULL,
	priority       bigint NOT NULL,
	created        bigint,
	wait_until     bigint,
	dispatch_by    bigint,
	due            bigint,
	since          bigint, -- when a wait began that was counted from then
	expires        bigint,
	max_time       bigint NOT NULL DEFAULT 0,
	mod_time       bigint,
	lease_until    bigint, -- by the clock of the server
	lease_time     bigint,
	started        bigint,
	ended          bigint,
	forget_at      bigint, -- while cancel is set, that of the action
	lease_count    bigint NOT NULL DEFAULT 0,
	error_count    bigint NOT NULL DEFAULT 0,
	version        bigint NOT NULL,
	attempt        bigint, -- NULL for a job that can't be retried
	queue          integer NOT NULL,
	line           integer NOT NULL,
	place          smallint NOT NULL,
	format         smallint NOT NULL,
	dependency     smallint NOT NULL, -- of which kind it is
	replaced       boolean NOT NULL DEFAULT false,
	limited        boolean, -- true while it runs in a queue with a limit of running jobs
	cancel         boolean NOT NULL DEFAULT false,
	open_edges     boolean NOT NULL DEFAULT false,
	dependents     boolean NOT NULL DEFAULT false,
	unique_held    boolean NOT NULL DEFAULT false,
	owner          text COLLATE "C" NOT NULL DEFAULT '',
	name           text COLLATE "C", -- NULL if it follows from job_id, as that of a job that can't be retried
	unique_key     text COLLATE "C",
	unique_until   text,
	scopes         text,
	enqueue_scopes text,
	waiting_for    text COLLATE "C",
	edges          text,
	failed         text,
	tags           jsonb,
	reason         text,
	last_error     text,
	progress       bytea,
	extra          bytea,
	job_id         text COLLATE "C" NOT NULL,
	type           text COLLATE "C" NOT NULL,
	body           bytea
) WITH (fillfactor = 50, toast_tuple_target = 1024,
	autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE {s}.jobs ALTER body SET STORAGE EXTERNAL;

CREATE UNIQUE INDEX jobs_seq ON {s}.jobs (seq);
CREATE INDEX jobs_line ON {s}.jobs (line, seq);
CREATE UNIQUE INDEX jobs_id ON {s}.jobs (queue, job_id) WHERE NOT replaced;
CREATE UNIQUE INDEX jobs_name ON {s}.jobs (queue, name) WHERE name IS NOT NULL;
CREATE INDEX jobs_attempts ON {s}.jobs (queue, job_id, attempt) WHERE attempt IS NOT NULL;
CREATE INDEX jobs_waiting ON {s}.jobs (seq) WHERE line < 0;
CREATE INDEX jobs_due ON {s}.jobs (due) WHERE due IS NOT NULL;
CREATE INDEX jobs_since ON {s}.jobs (since) WHERE due IS NOT NULL AND since IS NOT NULL;
CREATE INDEX jobs_expires ON {s}.jobs (expires, queue) WHERE expires IS NOT NULL;
CREATE INDEX jobs_cancel ON {s}.jobs (owner) WHERE cancel;
CREATE INDEX jobs_limited ON {s}.jobs (queue) WHERE limited;
CREATE INDEX jobs_scope ON {s}.jobs (queue, waiting_for, priority DESC, seq) WHERE waiting_for IS NOT NULL;
CREATE UNIQUE INDEX jobs_unique ON {s}.jobs (queue, unique_key) WHERE unique_held;
CREATE INDEX jobs_tags ON {s}.jobs USING gin (tags jsonb_path_ops) WHERE tags IS NOT NULL;

CREATE TABLE {s}.leases (
	until bigint NOT NULL, -- by the clock of the server, as taken
	id    bigint GENERATED ALWAYS AS IDENTITY,
	taken bigint NOT NULL,
	seqs  bigint[] NOT NULL,
	PRIMARY KEY (until, id)
);
CREATE INDEX leases_taken ON {s}.leases (taken);

CREATE TABLE {s}.endings (
	forget_at bigint NOT NULL, -- the first of those of its jobs
	id        bigint GENERATED ALWAYS AS IDENTITY,
	seqs      bigint[] NOT NULL,
	PRIMARY KEY (forget_at, id)
);

CREATE TABLE {s}.tallies (
	queue integer NOT NULL,
	was   smallint, -- the place that records left; NULL if they were put
	now   smallint, -- the place that they came to; 12 if they are gone
	n     bigint NOT NULL
);
CREATE INDEX tallies_queue ON {s}.tallies (queue);

CREATE TABLE {s}.edges (
	queue    integer NOT NULL,
	state    smallint NOT NULL, -- 0 while it is open, 1 where it failed, else 2
	from_seq bigint NOT NULL,
	to_job   text COLLATE "C" NOT NULL
);
CREATE INDEX edges_to ON {s}.edges (queue, to_job);
CREATE INDEX edges_from ON {s}.edges (from_seq, state);

CREATE TABLE {s}.scope_holders (
	queue  integer NOT NULL,
	scope  text COLLATE "C" NOT NULL,
	job_id text COLLATE "C" NOT NULL,
	PRIMARY KEY (queue, scope)
);

CREATE TABLE {s}.scope_promises (
	queue integer NOT NULL,
	scope text COLLATE "C" NOT NULL,
	seq   bigint NOT NULL,
	PRIMARY KEY (queue, scope)
);

CREATE TABLE {s}.duties (
	name  text COLLATE "C" PRIMARY KEY,
	owner text NOT NULL,
	until bigint NOT NULL
) WITH (fillfactor = 20);

CREATE TABLE {s}.marks (
	queue text COLLATE "C" NOT NULL, -- its name: a mark makes no queue
	name  text COLLATE "C" NOT NULL,
	at    bigint, -- NULL while it is being set for the first time
	PRIMARY KEY (queue, name)
) WITH (fillfactor = 50);

CREATE TABLE {s}.notes (
	kind  bytea NOT NULL, -- as the key, a text that is compared byte by byte
	key   bytea NOT NULL,
	until bigint NOT NULL,
	value bytea,
	PRIMARY KEY (kind, key)
);
CREATE INDEX notes_until ON {s}.notes (until);
`

// The rate of a queue is NULL if it has none, and bucket is its rate.Bucket, by the clock of the
// server.
const schemaV2 = `
ALTER TABLE {s}.queues
	ADD COLUMN rate   double precision,
	ADD COLUMN burst  bigint NOT NULL DEFAULT 0,
	ADD COLUMN bucket bigint NOT NULL DEFAULT 0;
`

// The column at_most is the limit of the record that the scope is promised to. From this version on,
// the names of limited scopes are as use returns them.
const schemaV3 = `
ALTER TABLE {s}.scope_promises ADD COLUMN at_most bigint NOT NULL DEFAULT 1;
`

// The limits of types and their buckets are JSON (see package typelimit), NULL if there are none.
const schemaV4 = `
ALTER TABLE {s}.queues
	ADD COLUMN type_limits  text,
	ADD COLUMN type_buckets text;
`

// The rows of leftovers are work that a transaction left for later ones (see leftovers.go).
const schemaV5 = `
CREATE TABLE {s}.leftovers (
	queue integer NOT NULL,
	kind  smallint NOT NULL, -- 0 for a free scope, else the state of edges to a job that has ended
	name  text COLLATE "C" NOT NULL, -- the key of the scope, or the ID of the job
	after bigint NOT NULL, -- edges of records up to this one have ended
	PRIMARY KEY (queue, kind, name)
);
CREATE INDEX edges_open ON {s}.edges (queue, to_job, from_seq) WHERE state = 0;
`

// The other index on expires is for the first expired job of all queues.
const schemaV6 = `
CREATE INDEX jobs_expires_of_queue ON {s}.jobs (queue, expires) WHERE expires IS NOT NULL;
`

// It replaces jobs_cancel, which the next step drops: an index that has the owner makes each claim write all
// indexes. To drop it in the same transaction would keep reads waiting while the new one is made.
const schemaV7 = `
CREATE INDEX jobs_canceled ON {s}.jobs (seq) WHERE cancel;
`

const schemaV8 = `
DROP INDEX {s}.jobs_cancel;
ALTER TABLE {s}.jobs ADD COLUMN late bigint;
ALTER TABLE {s}.lines ADD COLUMN late_low bigint NOT NULL DEFAULT 0;
`

// A job that becomes ready behind the floor of its line is late: its column late is the next arrival number.
// Claims find late jobs by it, before the others, from lines.late_low on. If the floor were lowered to such a
// job instead, claims would read all jobs that have ended since it was put.
const schemaV9 = `
CREATE INDEX jobs_late ON {s}.jobs (line, late, seq) WHERE late IS NOT NULL;
`

// On a page that is filled by half, the last of its jobs have no room to be claimed: pages need room for their own
// administration, too. Those claims wrote all indexes.
//
// The pauses that autovacuum makes by default let it write 40 MB a second. With 14,000 jobs a second that are kept for a
// minute, it fell behind: the tables grew to four times their size within eight minutes.
const schemaV10 = `
ALTER TABLE {s}.jobs SET (fillfactor = 40, autovacuum_vacuum_cost_delay = 0, toast.autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {s}.leases SET (autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {s}.endings SET (autovacuum_vacuum_cost_delay = 0);
ALTER TABLE {s}.tallies SET (autovacuum_vacuum_cost_delay = 0);
`
