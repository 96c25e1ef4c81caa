package postgres

import (
	"cmp"
	sqldriver "database/sql/driver"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/schedule"
	"github.com/mongodb/amboy/registry"
)

// job is the part of a record that decides its place.
type job struct {
	seq           int64
	queue         int32
	queueName     string
	line          int32 // negative while the job is not in the line
	place         place
	jobType       string
	kind          string // as kindOf returns it; empty if unknown
	priority      int
	name, id      string
	owner         string
	count         int
	waitUntil     instant
	dispatchBy    instant
	attempt       instant // not valid for a job that can't be retried
	cancel        bool    // it is running and is to be canceled
	open          bool    // some of its dependencies have not ended
	dependents    bool
	uniqueHeld    bool
	uniqueKey     string
	uniqueUntil   string
	scopes        names
	enqueueScopes names
	waitingFor    string
}

// jobColumns are the columns of a job, in the order in which read reads them.
const jobColumns = `seq, queue, line, place, type, priority, name, job_id, owner, lease_count, wait_until, dispatch_by, attempt,
	cancel, open_edges, dependents, unique_held, unique_key, unique_until, scopes, enqueue_scopes, waiting_for`

func (j *job) read(r *row) {
	j.seq, j.queue, j.line = r.integer(), r.key(), r.key()
	j.place, j.jobType, j.priority = place(r.integer()), r.text(), r.int()
	j.name, j.id = r.text(), r.text()
	j.owner, j.count = r.text(), r.int()
	j.waitUntil, j.dispatchBy, j.attempt = r.time(), r.time(), r.time()
	j.cancel, j.open, j.dependents = r.bool(), r.bool(), r.bool()
	j.uniqueHeld, j.uniqueKey, j.uniqueUntil = r.bool(), r.text(), r.text()
	j.scopes, j.enqueueScopes, j.waitingFor = r.names(), r.names(), r.text()
}

// kindOf returns the kind of a record as it is stored.
func kindOf(r *driver.Record) string { return storable(driver.KindOf(r).Key()) }

// in sets the queue name of the job. The record's name may follow from it and the job's ID.
func (j *job) in(queueName string) {
	j.queueName = queueName
	if j.name == "" {
		j.name = driver.RecordName(queueName, j.id, amboy.JobRetryInfo{})
	}
}

// allScopes returns the scopes that the job needs, each once.
func (j *job) allScopes() []string {
	if len(j.enqueueScopes) == 0 {
		return without(j.scopes, nil)
	}
	return append(without(j.scopes, nil), without(j.enqueueScopes, j.scopes)...)
}

// dispatchScopes returns the scopes that are taken when the job starts, each once.
func (j *job) dispatchScopes() []string {
	if len(j.scopes) == 0 {
		return nil
	}
	return without(j.scopes, j.enqueueScopes)
}

// compare sorts jobs in the order in which they run.
func (j *job) compare(k *job) int {
	return cmp.Or(cmp.Compare(k.priority, j.priority), cmp.Compare(j.seq, k.seq))
}

// content is the part of a record that an ended attempt replaces.
type content struct {
	owner                 string
	count                 int
	modTime               instant
	created, started      instant
	ended                 instant
	waitUntil, dispatchBy instant
	maxTime               int64
	errorCount            int
	typeName              string
	version               int
	format, dependency    int
	reason, lastError     pgtype.Text
	forgetAt              instant
	progress, extra       []byte
	body                  []byte
}

// The values of the column format.
const (
	emptyBody = 0
	bsonBody  = 1
	jsonBody  = 2
)

// The values of the column dependency for dependencies that are not plain. The value of a plain
// one is the number of its format plus 1.
const (
	noDependency    = 0
	otherDependency = 9 // stored in extra
)

// extra is the part of a record that few records have.
type extra struct {
	Errors           []string                        `bson:"errors,omitempty"`
	Attempts         []amboy.AttemptError            `bson:"attempts,omitempty"`
	Dropped          int                             `bson:"dropped,omitempty"`
	Interruptions    *amboy.Interruptions            `bson:"interruptions,omitempty"`
	Outcome          amboy.Outcome                   `bson:"outcome,omitempty"`
	Retry            *amboy.JobRetryInfo             `bson:"retry,omitempty"`
	Dependency       *registry.DependencyInterchange `bson:"dependency,omitempty"`
	Result           *registry.Body                  `bson:"result,omitempty"`
	EnqueueAllScopes bool                            `bson:"enqueue_all_scopes,omitempty"`
	Metadata         map[string]string               `bson:"metadata,omitempty"`
}

func newContent(r *driver.Record) (*content, error) {
	c := &content{
		owner:      r.Status.Owner,
		count:      r.Status.ModificationCount,
		modTime:    instantOf(r.Status.ModificationTime),
		created:    instantOf(r.TimeInfo.Created),
		started:    instantOf(r.TimeInfo.Start),
		ended:      instantOf(r.TimeInfo.End),
		waitUntil:  instantOf(r.TimeInfo.WaitUntil),
		dispatchBy: instantOf(r.TimeInfo.DispatchBy),
		maxTime:    int64(r.TimeInfo.MaxTime),
		errorCount: r.Status.ErrorCount,
		typeName:   r.Type,
		version:    r.Version,
		forgetAt:   instantOf(r.ForgetAt),
		body:       r.Job.Raw(),
	}
	switch {
	case r.Job.IsZero():
		c.format = emptyBody
	case r.Job.IsJSON():
		c.format = jsonBody
	default:
		c.format = bsonBody
	}
	c.reason = nullable(r.Status.Reason)
	c.lastError = nullable(driver.LastError(r.Status.Errors))
	err := c.encode(r)
	if err != nil {
		return nil, fmt.Errorf("encoding record %q: %w", r.Name, err)
	}
	return c, nil
}

// encode encodes the parts that few records have.
func (c *content) encode(r *driver.Record) (err error) {
	if r.Progress != nil {
		c.progress, err = bson.Marshal(r.Progress)
		if err != nil {
			return err
		}
	}
	c.dependency = dependencyKind(r.Dependency)
	x, used := newExtra(r, c.dependency)
	if !used {
		return nil
	}
	c.extra, err = bson.Marshal(x)
	return err
}

func dependencyKind(d *registry.DependencyInterchange) int {
	if d == nil {
		return noDependency
	}
	for _, f := range []amboy.Format{amboy.BSON2, amboy.BSON, amboy.JSON} {
		if d == registry.PlainDependency(f) {
			return int(f) + 1
		}
	}
	return otherDependency
}

// newExtra returns the extra of a record, and reports whether it contains anything.
func newExtra(r *driver.Record, dependency int) (x extra, used bool) {
	x = extra{
		Errors:           r.Status.Errors,
		Attempts:         r.Status.Attempts,
		Dropped:          r.Status.DroppedErrors,
		Interruptions:    r.Status.Interruptions,
		Outcome:          r.Status.Outcome,
		Result:           r.Result,
		EnqueueAllScopes: r.EnqueueAllScopes,
		Metadata:         r.Metadata,
	}
	used = len(x.Errors) > 0 || len(x.Attempts) > 0 || x.Dropped > 0 || x.Outcome != "" || x.Interruptions != nil || x.Result != nil ||
		x.EnqueueAllScopes || len(x.Metadata) > 0
	if r.RetryInfo != (amboy.JobRetryInfo{}) {
		x.Retry, used = &r.RetryInfo, true
	}
	if dependency == otherDependency {
		kept := *r.Dependency
		if len(kept.Edges) > 0 {
			kept.Edges = nil // they are in a column of their own
		}
		x.Dependency, used = &kept, true
	}
	return x, used
}

// newJob returns the job of a record that is to be inserted.
func newJob(r *driver.Record) job {
	j := job{
		priority:      r.Priority,
		name:          r.Name,
		id:            r.JobID(),
		owner:         r.Status.Owner,
		count:         r.Status.ModificationCount,
		waitUntil:     instantOf(r.TimeInfo.WaitUntil),
		dispatchBy:    instantOf(r.TimeInfo.DispatchBy),
		uniqueKey:     r.UniqueKey,
		uniqueUntil:   string(r.UniqueUntil),
		scopes:        r.RequiredScopes,
		enqueueScopes: r.EnqueueScopes,
		queueName:     r.Group,
		jobType:       r.Type,
		kind:          kindOf(r),
	}
	if r.RetryInfo.Retryable || r.Name != driver.RecordName(r.Group, j.id, amboy.JobRetryInfo{}) {
		j.attempt = instant{Int64: int64(r.RetryInfo.CurrentAttempt), Valid: true}
	}
	return j
}

// stored is a record as it is stored in the table.
type stored struct {
	job
	content
	edges     names
	failed    names
	openEdges int // the number of edges that have not ended
	tags      names
	reason    string
}

// recordColumns are the columns of stored.
const recordColumns = jobColumns + `, mod_time, created, started, ended, max_time, error_count, forget_at,
	version, format, dependency, edges,
	CASE WHEN open_edges THEN (SELECT json_agg(to_job)::text FROM {s}.edges WHERE from_seq = jobs.seq AND state = 1) ELSE failed END,
	CASE WHEN open_edges THEN (SELECT count(*) FROM {s}.edges WHERE from_seq = jobs.seq AND state = 0) ELSE 0 END,
	tags::text, reason, progress, extra, body`

func (s *stored) read(r *row) {
	s.job.read(r)
	s.modTime, s.created, s.started, s.ended = r.time(), r.time(), r.time(), r.time()
	s.maxTime, s.errorCount, s.forgetAt = r.integer(), r.int(), r.time()
	s.version, s.format = r.int(), r.int()
	s.dependency = r.int()
	s.edges, s.failed, s.openEdges = r.names(), r.names(), r.int()
	s.tags, s.reason = r.names(), r.text()
	s.progress, s.extra, s.body = r.bytes(), r.bytes(), r.bytes()
}

// decode returns the current record. If it can't be decoded, decode returns an error and a record
// that shows the lease but has no job: the process that claimed it finds that it can't be run.
func (s *stored) decode() (*driver.Record, error) {
	r := s.record()
	var x extra
	err := decodeInto(s.extra, &x)
	if err == nil && s.progress != nil {
		r.Progress = &amboy.JobProgress{}
		err = decodeInto(s.progress, r.Progress)
	}
	if err != nil {
		r.Type, r.Job = "", registry.Body{}
		return r, fmt.Errorf("reading record %q: %w", s.name, err)
	}
	s.addExtra(r, &x)
	return r, nil
}

func decodeInto(data []byte, v any) error {
	if data == nil {
		return nil
	}
	return bson.Unmarshal(data, v)
}

func (s *stored) record() *driver.Record {
	r := &driver.Record{
		Name:    s.name,
		Type:    s.jobType,
		Group:   s.queueName,
		Version: s.version,
		Status: amboy.JobStatusInfo{
			Owner:             s.job.owner,
			ModificationTime:  timeOf(s.modTime),
			ModificationCount: s.job.count,
			ErrorCount:        s.errorCount,
		},
		EnqueueScopes: s.enqueueScopes,
		TimeInfo: amboy.JobTimeInfo{
			Created:    timeOf(s.created),
			Start:      timeOf(s.started),
			End:        timeOf(s.ended),
			WaitUntil:  timeOf(s.job.waitUntil),
			DispatchBy: timeOf(s.job.dispatchBy),
			MaxTime:    time.Duration(s.maxTime),
		},
		Priority:        s.priority,
		RequiredScopes:  s.scopes,
		Tags:            s.tags,
		UniqueKey:       s.uniqueKey,
		UniqueUntil:     amboy.UniqueUntil(s.uniqueUntil),
		ForgetAt:        timeOf(s.forgetAt),
		CancelRequested: s.cancel,
	}
	if s.format != emptyBody {
		r.Job = registry.NewBody(s.body, s.format == jsonBody)
	}
	schedule.Describe(&r.Status, schedulePlaces[s.place], schedule.Block{Scope: s.waitingFor, Open: s.openEdges, Edges: len(s.edges)})
	if s.reason != "" && (s.place == postponed || s.place == parked || s.place >= retrying || s.cancel) {
		r.Status.Reason = s.reason
	}
	switch {
	case s.place == running && s.startedLate():
		r.Scopes = s.enqueueScopes
	case s.place == running:
		r.Scopes = s.allScopes()
	case !s.place.final():
		r.Scopes = s.enqueueScopes
	}
	return r
}

// startedLate reports whether a record was claimed because it had expired, so that it has taken
// no scopes.
func (s *stored) startedLate() bool {
	return s.job.dispatchBy.Valid && s.job.dispatchBy.Int64 < s.started.Int64
}

// addExtra adds the parts that few records have.
func (s *stored) addExtra(r *driver.Record, x *extra) {
	r.Status.Errors, r.Status.Attempts, r.Status.DroppedErrors = x.Errors, x.Attempts, x.Dropped
	r.Status.Outcome, r.Status.Interruptions = x.Outcome, x.Interruptions
	r.Result, r.EnqueueAllScopes, r.Metadata = x.Result, x.EnqueueAllScopes, x.Metadata
	if x.Retry != nil {
		r.RetryInfo = *x.Retry
		r.RetryInfo.Start, r.RetryInfo.End = inUTC(x.Retry.Start), inUTC(x.Retry.End)
	}
	switch {
	case s.dependency == noDependency:
		return
	case s.dependency < otherDependency:
		r.Dependency = registry.PlainDependency(amboy.Format(s.dependency - 1))
		return
	}
	r.Dependency = x.Dependency
	if r.Dependency == nil {
		return
	}
	if len(s.edges) > 0 {
		r.Dependency.Edges = s.edges
	}
	if len(s.failed) > 0 && s.place <= running {
		r.Dependency.Failed = s.failed
	}
}

func inUTC(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}

// instant is a time as it is stored: in nanoseconds since 1970, NULL for the zero time.
type instant = pgtype.Int8

// The range of times that can be stored. Times beyond it are centuries away.
var (
	firstTime = time.Unix(0, math.MinInt64)
	lastTime  = time.Unix(0, math.MaxInt64-1)
)

func instantOf(t time.Time) instant {
	switch {
	case t.IsZero():
		return instant{}
	case t.Before(firstTime):
		t = firstTime
	case t.After(lastTime):
		t = lastTime
	}
	return instant{Int64: t.UnixNano(), Valid: true}
}

func timeOf(i instant) time.Time {
	if !i.Valid {
		return time.Time{}
	}
	return time.Unix(0, i.Int64).UTC()
}

// names is a list of names in a column, as JSON; NULL if it is empty.
type names []string

// Value implements the Valuer of database/sql.
func (n names) Value() (sqldriver.Value, error) {
	if len(n) == 0 {
		return nil, nil
	}
	text, err := json.Marshal([]string(n))
	return string(text), err
}

// column is Value for an array of such columns.
func (n names) column() pgtype.Text {
	if len(n) == 0 {
		return pgtype.Text{}
	}
	text, err := json.Marshal([]string(n))
	return pgtype.Text{String: string(text), Valid: err == nil} // Strings can always be encoded.
}

// nullable returns NULL for an empty string. PostgreSQL stores no text with invalid UTF-8 or a zero
// byte; such bytes are replaced.
func nullable(s string) pgtype.Text {
	return pgtype.Text{String: storable(s), Valid: s != ""}
}

func storable(s string) string {
	if isStorable(s) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// isStorable reports whether PostgreSQL can store a text.
func isStorable(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// blob returns NULL for an empty slice.
func blob(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// without returns the names in list that are not in others, each once.
func without(list, others []string) []string {
	var left []string
	for _, name := range list {
		if !slices.Contains(others, name) && !slices.Contains(left, name) {
			left = append(left, name)
		}
	}
	return left
}
