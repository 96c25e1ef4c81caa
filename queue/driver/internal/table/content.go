package table

import (
	"fmt"
	"runtime/debug"
	"time"

	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/schedule"
	"github.com/mongodb/amboy/queue/internal/scope"
	"github.com/mongodb/amboy/registry"
)

// Content contains the columns of a record that are not in Job.
type Content struct {
	ModTime, Created, Started, Ended Instant
	MaxTime                          int64
	ErrorCount                       int
	Type                             string
	Version                          int
	Format, Dependency               int
	Reason, LastError                string // NULL if empty
	ForgetAt                         Instant
	Edges, Tags                      Names
	Progress, Extra, Body            []byte

	// These are only read.
	Failed    Names  // the edges whose jobs ended without success
	OpenEdges int    // the number of edges whose jobs have not ended
	BlockedBy string // the key of the scope that the record waits for, if that was read
}

// Record contains all columns of a record.
type Record struct {
	Job
	Content
}

// The values of the column format.
const (
	emptyBody = 0
	bsonBody  = 1
	jsonBody  = 2
	// sealedBody is what a codec made of a body (see registry.Body.IsSealed).
	sealedBody = 3
)

// OtherDependency is the value of the column dependency for a dependency in the column extra. The
// value of a plain one is the number of its format plus 1.
const OtherDependency = 9

const noDependency = 0

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

// Encode returns the columns of a record.
func Encode(r *driver.Record) (Record, error) {
	c := Content{
		ModTime:    InstantOf(r.Status.ModificationTime),
		Created:    InstantOf(r.TimeInfo.Created),
		Started:    InstantOf(r.TimeInfo.Start),
		Ended:      InstantOf(r.TimeInfo.End),
		MaxTime:    int64(r.TimeInfo.MaxTime),
		ErrorCount: r.Status.ErrorCount,
		Type:       r.Type,
		Version:    r.Version,
		Dependency: dependencyKind(r.Dependency),
		Reason:     r.Status.Reason,
		LastError:  driver.LastError(r.Status.Errors),
		ForgetAt:   InstantOf(r.ForgetAt),
		Tags:       r.Tags,
		Body:       r.Job.Raw(),
	}
	switch {
	case r.Job.IsZero():
		c.Format = emptyBody
	case r.Job.IsSealed():
		c.Format = sealedBody
	case r.Job.IsJSON():
		c.Format = jsonBody
	default:
		c.Format = bsonBody
	}
	if r.Dependency != nil {
		c.Edges = r.Dependency.Edges
	}
	var err error
	if r.Progress != nil {
		c.Progress, err = bson.Marshal(r.Progress)
	}
	if err == nil {
		c.Extra, err = c.EncodeExtra(r)
	}
	if err != nil {
		return Record{}, fmt.Errorf("encoding record %q: %w", r.Name, err)
	}
	return Record{Job: newJob(r), Content: c}, nil
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
	return OtherDependency
}

// EncodeExtra returns the column extra of a changed record; nil for NULL.
func (c *Content) EncodeExtra(r *driver.Record) ([]byte, error) {
	x := extra{
		Errors:           r.Status.Errors,
		Attempts:         r.Status.Attempts,
		Dropped:          r.Status.DroppedErrors,
		Outcome:          r.Status.Outcome,
		Interruptions:    r.Status.Interruptions,
		Result:           r.Result,
		EnqueueAllScopes: r.EnqueueAllScopes,
		Metadata:         r.Metadata,
	}
	used := len(x.Errors) > 0 || len(x.Attempts) > 0 || x.Dropped > 0 || x.Outcome != "" || x.Interruptions != nil || x.Result != nil ||
		x.EnqueueAllScopes || len(x.Metadata) > 0
	if r.RetryInfo != (amboy.JobRetryInfo{}) {
		x.Retry, used = &r.RetryInfo, true
	}
	if c.Dependency == OtherDependency {
		kept := *r.Dependency
		if len(kept.Edges) > 0 {
			kept.Edges = nil // they are in a column of their own
		}
		x.Dependency, used = &kept, true
	}
	if !used {
		return nil, nil
	}
	return bson.Marshal(x)
}

// EncodeRestarted resets a finished record to its state at insertion, except for its attempt
// errors, and returns its column extra.
func (c *Content) EncodeRestarted(r *driver.Record) ([]byte, error) {
	r.Status.Errors, r.Status.Outcome, r.Status.Interruptions = nil, "", nil
	r.Result, r.RetryInfo.NeedsRetry = nil, false
	if c.Dependency == OtherDependency && r.Dependency != nil {
		r.Dependency.Failed = nil
	}
	return c.EncodeExtra(r)
}

// Decode returns the record of a job in a queue. If it can't be decoded, or damage is not nil,
// Decode returns an error and a record that shows the lease but has no job: the process that
// claimed it finds that it can't be run.
func (c *Content) Decode(j *Job, queue string, damage error) (*driver.Record, error) {
	r := c.record(j, queue)
	var x extra
	err := damage
	if err == nil {
		err = decodeInto(c.Extra, &x)
	}
	if err == nil && c.Progress != nil {
		r.Progress = &amboy.JobProgress{}
		err = decodeInto(c.Progress, r.Progress)
	}
	if err != nil {
		r.Type, r.Job = "", registry.Body{}
		describeDamaged(r, j)
		return r, fmt.Errorf("reading record %q: %w", j.Name, err)
	}
	c.addExtra(r, j.Place, &x)
	return r, nil
}

// describeDamaged sets what operators need to know of a record that can't be decoded: which attempt it is,
// and how it ended.
func describeDamaged(r *driver.Record, j *Job) {
	if j.Attempt.Valid {
		r.RetryInfo = amboy.JobRetryInfo{
			Retryable: true, BaseJobID: j.ID, CurrentAttempt: int(j.Attempt.Int64), NeedsRetry: j.Place == Retrying,
		}
	}
	switch j.Place {
	case Canceled:
		r.Status.Outcome = amboy.OutcomeCanceled
	case Expired:
		r.Status.Outcome = amboy.OutcomeExpired
	}
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

func (c *Content) record(j *Job, queue string) *driver.Record {
	r := &driver.Record{
		Name:    j.Name,
		Type:    c.Type,
		Group:   queue,
		Version: c.Version,
		Status: amboy.JobStatusInfo{
			Owner:             j.Owner,
			ModificationTime:  TimeOf(c.ModTime),
			ModificationCount: j.Count,
			ErrorCount:        c.ErrorCount,
		},
		EnqueueScopes: j.EnqueueScopes,
		TimeInfo: amboy.JobTimeInfo{
			Created:    TimeOf(c.Created),
			Start:      TimeOf(c.Started),
			End:        TimeOf(c.Ended),
			WaitUntil:  TimeOf(j.WaitUntil),
			DispatchBy: TimeOf(j.DispatchBy),
			MaxTime:    time.Duration(c.MaxTime),
		},
		Priority:        j.Priority,
		RequiredScopes:  j.Scopes,
		Tags:            c.Tags,
		UniqueKey:       j.UniqueKey,
		UniqueUntil:     amboy.UniqueUntil(j.UniqueUntil),
		ForgetAt:        TimeOf(c.ForgetAt),
		CancelRequested: j.Cancel,
		Stamp:           j.Stamp,
	}
	r.Job = BodyOf(c.Format, c.Body)
	schedule.Describe(&r.Status, j.Place.Schedule(), schedule.Block{Scope: scope.Of(c.BlockedBy, j.Scopes), Open: c.OpenEdges, Edges: len(c.Edges)})
	if c.Reason != "" && (j.Place == Postponed || j.Place == Parked || j.Place >= Retrying || j.Cancel) {
		r.Status.Reason = c.Reason
	}
	// A record that was claimed because it had expired has taken no scopes.
	startedLate := j.DispatchBy.Valid && j.DispatchBy.Int64 < c.Started.Int64
	switch {
	case j.Place == Running && !startedLate:
		r.Scopes = j.AllScopes()
	case !j.Place.Final():
		r.Scopes = j.EnqueueScopes
	}
	return r
}

// BodyOf returns the body in the columns format and body.
func BodyOf(format int, raw []byte) registry.Body {
	switch format {
	case emptyBody:
		return registry.Body{}
	case sealedBody:
		return registry.NewSealedBody(raw)
	default:
		return registry.NewBody(raw, format == jsonBody)
	}
}

// addExtra adds the parts that few records have.
func (c *Content) addExtra(r *driver.Record, at Place, x *extra) {
	r.Status.Errors, r.Status.Attempts, r.Status.DroppedErrors = x.Errors, x.Attempts, x.Dropped
	r.Status.Outcome, r.Status.Interruptions = x.Outcome, x.Interruptions
	r.Result, r.EnqueueAllScopes, r.Metadata = x.Result, x.EnqueueAllScopes, x.Metadata
	if x.Retry != nil {
		r.RetryInfo = *x.Retry
		r.RetryInfo.Start, r.RetryInfo.End = inUTC(x.Retry.Start), inUTC(x.Retry.End)
	}
	switch {
	case c.Dependency == noDependency:
		return
	case c.Dependency < OtherDependency:
		r.Dependency = registry.PlainDependency(amboy.Format(c.Dependency - 1))
		return
	}
	r.Dependency = x.Dependency
	if r.Dependency == nil {
		return
	}
	if len(c.Edges) > 0 {
		r.Dependency.Edges = c.Edges
	}
	if len(c.Failed) > 0 && at <= Running {
		r.Dependency.Failed = c.Failed
	}
}

func inUTC(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}
