package sqlite

import (
	"cmp"
	"database/sql"
	sqldriver "database/sql/driver"
	"encoding/json"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/schedule"
	"github.com/mongodb/amboy/registry"
)

// job is the part of a record that decides its place.
type job struct {
	seq, queue    int64
	place         place
	priority      int
	name, id      string
	owner         string
	count         int
	waitUntil     instant
	dispatchBy    instant
	attempt       instant // not valid for a job that can't be retried
	overdue       bool
	cancel        bool // it is running and is to be canceled
	open          bool // some of its dependencies have not ended
	dependents    bool
	uniqueHeld    bool
	uniqueKey     string
	uniqueUntil   string
	scopes        names
	enqueueScopes names
	waitingFor    string // its group, while it waits for a scope
	// damage is why its row can't be read; nil if it can. What can't be read is zero.
	damage error
}

// jobColumns are the columns of a job, in the order in which read reads them.
const jobColumns = `seq, queue, place, priority, name, job_id, owner, lease_count, wait_until, dispatch_by, attempt,
	overdue, cancel, open_edges, dependents, unique_held, unique_key, unique_until, scopes, enqueue_scopes, waiting_for`

func (j *job) read(r *row) {
	j.seq, j.queue = r.integer(), r.integer()
	j.place, j.priority = place(r.integer()), r.int()
	j.name, j.id = r.text(), r.text()
	j.owner, j.count = r.text(), r.int()
	j.waitUntil, j.dispatchBy, j.attempt = r.time(), r.time(), r.time()
	j.overdue, j.cancel, j.open, j.dependents = r.bool(), r.bool(), r.bool(), r.bool()
	j.uniqueHeld, j.uniqueKey, j.uniqueUntil = r.bool(), r.text(), r.text()
	j.scopes, j.enqueueScopes, j.waitingFor = r.names(), r.names(), r.text()
	j.damage = r.damage()
	if j.place < 0 || j.place >= places {
		j.damage = fmt.Errorf("its place is %d", j.place)
		j.place = parked // where nothing happens to it
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

// content is the part of a record that an ended attempt replaces in the file.
type content struct {
	owner                 string
	count                 int
	modTime               instant
	created, started      instant
	ended                 instant
	waitUntil, dispatchBy instant
	maxTime               int64
	errorCount            int
	jobType               string
	version               int
	format, dependency    int
	reason, lastError     any // nil for none
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

// The values of the column dependency for dependencies that are not plain. The value of a
// plain one is the number of its format plus 1.
const (
	noDependency    = 0
	otherDependency = 9 // stored in extra
)

// extra is the part of a record that few records have.
type extra struct {
	Errors           []string                        `bson:"errors,omitempty"`
	Attempts         []amboy.AttemptError            `bson:"attempts,omitempty"`
	Dropped          int                             `bson:"dropped,omitempty"`
	Outcome          amboy.Outcome                   `bson:"outcome,omitempty"`
	Interruptions    *amboy.Interruptions            `bson:"interruptions,omitempty"`
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
		jobType:    r.Type,
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
	if r.Status.Reason != "" {
		c.reason = r.Status.Reason
	}
	if len(r.Status.Errors) > 0 {
		c.lastError = driver.LastError(r.Status.Errors)
	}
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
		Outcome:          r.Status.Outcome,
		Interruptions:    r.Status.Interruptions,
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
	}
	if r.RetryInfo.Retryable || r.Name != driver.RecordName(r.Group, j.id, amboy.JobRetryInfo{}) {
		j.attempt = instant{Int64: int64(r.RetryInfo.CurrentAttempt), Valid: true}
	}
	return j
}

// stored is a record as it is stored in the file.
type stored struct {
	job
	content
	edges     names
	failed    names
	openEdges int    // the number of edges that have not ended
	blockedBy string // the scope that it waits for, if that was read
	tags      names
	reason    string
}

// recordColumns are the columns of stored.
const recordColumns = jobColumns + `, mod_time, created, started, ended, max_time, error_count, forget_at,
	type, version, format, dependency, edges,
	CASE open_edges WHEN 0 THEN failed ELSE
		(SELECT nullif(json_group_array(to_job), '[]') FROM edges WHERE from_seq = jobs.seq AND state = 1) END,
	CASE open_edges WHEN 0 THEN 0 ELSE
		(SELECT count(*) FROM edges WHERE from_seq = jobs.seq AND state = 0) END,
	tags, reason, progress, extra, body`

func (s *stored) read(r *row) {
	s.job.read(r)
	s.modTime, s.created, s.started, s.ended = r.time(), r.time(), r.time(), r.time()
	s.maxTime, s.errorCount, s.forgetAt = r.integer(), r.int(), r.time()
	s.jobType, s.version, s.format = r.text(), r.int(), r.int()
	s.dependency = r.int()
	s.edges, s.failed, s.openEdges = r.names(), r.names(), r.int()
	s.tags, s.reason = r.names(), r.text()
	s.progress, s.extra, s.body = r.bytes(), r.bytes(), r.bytes()
	s.damage = cmp.Or(s.damage, r.damage())
}

// decode returns the current record of a queue. If it can't be decoded, decode returns an
// error and a record that shows the lease but has no job: the process that claimed it finds
// that it can't be run.
func (s *stored) decode(queue string) (*driver.Record, error) {
	r := s.record(queue)
	var x extra
	err := s.damage
	if err != nil {
		err = fmt.Errorf("%w: %w", errDamagedRow, err)
	} else {
		err = decodeInto(s.extra, &x)
	}
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

// decodeInto decodes BSON. A panic of its package, for damaged data, is an error.
func decodeInto(data []byte, v any) (err error) {
	if data == nil {
		return nil
	}
	defer func() {
		if value := recover(); value != nil {
			err = &amboy.PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return bson.Unmarshal(data, v)
}

func (s *stored) record(queue string) *driver.Record {
	r := &driver.Record{
		Name:    s.name,
		Type:    s.jobType,
		Group:   queue,
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
	schedule.Describe(&r.Status, schedulePlaces[s.place], schedule.Block{Scope: s.blockedBy, Open: s.openEdges, Edges: len(s.edges)})
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

// startedLate reports whether a record was claimed because it had expired, so that it has
// taken no scopes.
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
type instant = sql.NullInt64

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

// names is a list of names in a column, NULL if it is empty.
type names []string

// Value implements the Valuer of database/sql.
func (n names) Value() (sqldriver.Value, error) {
	if len(n) == 0 {
		return nil, nil
	}
	text, err := json.Marshal([]string(n))
	return string(text), err
}

// nullable returns NULL for an empty string.
func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// blob returns NULL for an empty slice.
func blob(b []byte) any {
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
