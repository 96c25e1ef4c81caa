package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/bsoncodec"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/internal/outsideform"
)

// JobInterchange is the stored form of a job: the properties that queues use of every job,
// and the job itself, encoded with its own tags.
type JobInterchange struct {
	// Name is the ID under which the job is stored.
	Name string `bson:"_id" json:"name" yaml:"name"`
	// Type is the name of the job's registered type.
	Type string `json:"type" bson:"type" yaml:"type"`
	// Group is the queue that the job belongs to, if several queues share a store.
	Group string `bson:"group,omitempty" json:"group,omitempty" yaml:"group,omitempty"`
	// Version is the version of the type under which the job was stored.
	Version int `json:"version" bson:"version" yaml:"version"`
	// Status is the job's progress.
	Status amboy.JobStatusInfo `bson:"status" json:"status" yaml:"status"`
	// Scopes are the scopes that the job holds now.
	Scopes []string `bson:"scopes,omitempty" json:"scopes,omitempty" yaml:"scopes,omitempty"`
	// EnqueueScopes are the scopes that Put takes.
	EnqueueScopes []string `bson:"enqueue_scopes,omitempty" json:"enqueue_scopes,omitempty" yaml:"enqueue_scopes,omitempty"`
	// EnqueueAllScopes is true if Put takes all scopes.
	EnqueueAllScopes bool `bson:"enqueue_all_scopes,omitempty" json:"enqueue_all_scopes,omitempty" yaml:"enqueue_all_scopes,omitempty"`
	// CancelRequested is true for a running job that an operator has canceled. It is here because
	// a record that is 8 bytes larger takes 128 bytes more memory.
	CancelRequested bool `bson:"cancel_requested,omitempty" json:"cancel_requested,omitempty" yaml:"cancel_requested,omitempty"`
	// RetryInfo describes how the job is retried.
	RetryInfo amboy.JobRetryInfo `bson:"retry_info" json:"retry_info,omitempty" yaml:"retry_info,omitempty"`
	// TimeInfo holds the job's times.
	TimeInfo amboy.JobTimeInfo `bson:"time_info" json:"time_info,omitempty" yaml:"time_info,omitempty"`
	// Job is the job itself.
	Job Body `bson:"job" json:"job" yaml:"job"`
	// Dependency is the job's dependency manager.
	Dependency *DependencyInterchange `json:"dependency,omitempty" bson:"dependency,omitempty" yaml:"dependency,omitempty"`

	// Priority is the job's priority; omitted if it is 0.
	Priority int `bson:"priority,omitempty" json:"priority,omitempty" yaml:"priority,omitempty"`
	// RequiredScopes are all the scopes that the job needs to run. It is omitted if the job
	// needs none, and missing in documents of older versions.
	RequiredScopes []string `bson:"required_scopes,omitempty" json:"required_scopes,omitempty" yaml:"required_scopes,omitempty"`

	// The fields below are omitted while they are unused.

	// Tags are the tags by which operators find the job.
	Tags []string `bson:"tags,omitempty" json:"tags,omitempty" yaml:"tags,omitempty"`
	// UniqueKey is held by at most one job of the queue, which holds it until UniqueUntil.
	UniqueKey   string            `bson:"unique_key,omitempty" json:"unique_key,omitempty" yaml:"unique_key,omitempty"`
	UniqueUntil amboy.UniqueUntil `bson:"unique_until,omitempty" json:"unique_until,omitempty" yaml:"unique_until,omitempty"`
	// Progress is the latest progress of the running job.
	Progress *amboy.JobProgress `bson:"progress,omitempty" json:"progress,omitempty" yaml:"progress,omitempty"`
	// Result is the result of a job that ended.
	Result *Body `bson:"result,omitempty" json:"result,omitempty" yaml:"result,omitempty"`
	// Metadata is the data that other code keeps with the job.
	Metadata map[string]string `bson:"metadata,omitempty" json:"metadata,omitempty" yaml:"metadata,omitempty"`
	// ForgetAt is when a job that ended may be removed.
	ForgetAt time.Time `bson:"forget_at,omitempty" json:"forget_at,omitzero" yaml:"forget_at,omitempty"`

	// LeaseTime is the length of the lease of a job that is put as running. It is not
	// encoded.
	LeaseTime time.Duration `bson:"-" json:"-" yaml:"-"`
	// Stamp tells the leases of a stored job from those of an earlier job with its name (see package
	// queue/driver). The store sets it. It is not encoded.
	Stamp int64 `bson:"-" json:"-" yaml:"-"`
	// Foreign is what only stores that belong to another library keep with a job; nil in other stores. It
	// is not encoded.
	Foreign *ForeignProperties `bson:"-" json:"-" yaml:"-"`
}

// ForeignProperties are properties of a job that only stores that belong to another library keep.
type ForeignProperties struct {
	// AttemptedBy are the owners of all claims, oldest first; nil if there are none.
	AttemptedBy []string
	// UniqueStates are the states in which the unique key counts; nil without a key. In other stores they
	// follow from UniqueUntil.
	UniqueStates []amboy.JobState
}

// DependencyInterchange is the stored form of a dependency manager.
type DependencyInterchange struct {
	// Type is the name of the manager's registered type.
	Type string `json:"type" bson:"type" yaml:"type"`
	// Version is the version of the type under which the manager was stored.
	Version int `json:"version" bson:"version" yaml:"version"`
	// Edges are the IDs of the jobs that must end first.
	Edges []string `bson:"edges" json:"edges" yaml:"edges"`
	// Dependency is the manager itself.
	Dependency Body `bson:"dependency" json:"dependency" yaml:"dependency"`
	// Failed are the edges that ended without success; omitted if there are none.
	Failed []string `bson:"failed,omitempty" json:"failed,omitempty" yaml:"failed,omitempty"`
}

// MakeJobInterchange encodes a job. A job for outside workers (see amboy.OutsideJob) is
// encoded as JSON, whatever the format, and a job of a definition (see amboy.ArgsJob) is
// encoded as JSON if the format is BSON. MakeJobInterchange returns an
// *amboy.InvalidJobError for a nil job, an *UnknownTypeError if the job's type is not
// registered and is to run here, an *EncodeError for a job that can't be encoded, and an
// error for an invalid format. A panic of the job's own methods
// is returned as an error too. The job must not be running.
func MakeJobInterchange(j amboy.Job, f amboy.Format) (i *JobInterchange, err error) {
	if amboy.IsNilJob(j) {
		return nil, &amboy.InvalidJobError{Field: "job", Rule: "must not be nil"}
	}
	defer func() {
		if value := recover(); value != nil {
			i, err = nil, fmt.Errorf("encoding a job of Go type %T: %w", j, newPanicError(value))
		}
	}()
	if !f.IsValid() {
		return nil, fmt.Errorf("encoding job %q: %d is not a format", j.ID(), f)
	}
	jobType := j.Type()
	form := formOf(j, f)
	if amboy.RunsHere(j) {
		if _, ok := getJobType(jobType.Name); !ok {
			return nil, &UnknownTypeError{JobID: j.ID(), Type: jobType.Name}
		}
	}
	body, err := encode(j, form, codecsOf(j, form))
	if err != nil {
		return nil, newEncodeError(j, form, err)
	}
	result, err := encodeResult(j, form)
	if err != nil {
		return nil, err
	}
	dep, err := makeDependencyInterchange(j.Dependency(), f)
	if err != nil {
		return nil, fmt.Errorf("encoding the dependency of job %q as %s: %w", j.ID(), f, err)
	}
	retry := j.RetryInfo()
	if retry.Retryable {
		retry.BaseJobID = j.ID() // job.Base has another one if the type has an ID method of its own
	}
	key, until := amboy.UniqueKeyOf(j)
	if !until.IsValid() {
		return nil, &amboy.InvalidJobError{JobID: j.ID(), Field: "unique until", Value: until, Rule: "must be one of the amboy.UniqueUntil values"}
	}
	return &JobInterchange{
		Name:             j.ID(),
		Type:             jobType.Name,
		Version:          jobType.Version,
		Status:           j.Status(),
		EnqueueScopes:    j.EnqueueScopes(),
		EnqueueAllScopes: j.EnqueueAllScopes(),
		RetryInfo:        retry,
		TimeInfo:         j.TimeInfo(),
		Job:              body,
		Dependency:       dep,
		Priority:         amboy.PriorityOf(j),
		RequiredScopes:   j.Scopes(),
		Tags:             amboy.TagsOf(j),
		Metadata:         metadataOf(j),
		UniqueKey:        key,
		UniqueUntil:      until,
		Progress:         amboy.ProgressOf(j),
		Result:           result,
	}, nil
}

// formOf returns the format of the body of a job in a queue with the given format.
func formOf(j amboy.Job, f amboy.Format) amboy.Format {
	if amboy.IsForOutside(j) {
		return amboy.JSON // which workers in any language can read
	}
	if _, typed := j.(amboy.ArgsJob); typed && f == amboy.BSON {
		return amboy.JSON // BSON would turn nil slices into empty ones
	}
	return f
}

// newEncodeError names what can't be encoded. In a typed job that is always the arguments.
func newEncodeError(j amboy.Job, f amboy.Format, err error) error {
	failure := &EncodeError{JobID: j.ID(), Type: j.Type().Name, Format: f, Field: "job", Value: j, Err: err}
	if typed, ok := j.(amboy.ArgsJob); ok {
		failure.Field, failure.Value = "args", typed.Args()
	}
	return failure
}

func makeDependencyInterchange(m dependency.Manager, f amboy.Format) (*DependencyInterchange, error) {
	if m == nil {
		return nil, nil
	}
	if a, ok := m.(*dependency.Always); ok && isPlain(a) {
		return plainAlways[f], nil
	}
	managerType := m.Type()
	if _, err := dependency.GetManagerFactory(managerType.Name); err != nil {
		return nil, err
	}
	body, err := encode(m, f, codecsFor(f))
	if err != nil {
		return nil, err
	}
	return &DependencyInterchange{
		Type:       managerType.Name,
		Version:    managerType.Version,
		Edges:      m.Edges(),
		Dependency: body,
	}, nil
}

// isPlain reports whether a is the default dependency, of a job that depends on nothing.
// Most jobs have it.
func isPlain(a *dependency.Always) bool {
	return len(a.TaskEdges) == 0 && a.FailurePolicy == dependency.FailOnFailure
}

// plainAlways holds the stored form of a plain Always in each format, so that it is
// encoded, and in memory decoded, once instead of for every job. It must not be changed.
var plainAlways = func() (forms [amboy.BSON2 + 1]*DependencyInterchange) {
	for f := range forms {
		a := dependency.MakeAlways()
		body, err := encode(&a, amboy.Format(f), methodStrings)
		if err != nil {
			panic(fmt.Sprintf("registry: the always dependency can't be encoded: %v", err))
		}
		forms[f] = &DependencyInterchange{Type: a.Type().Name, Edges: a.Edges(), Dependency: body}
	}
	return forms
}()

// PlainDependency returns the stored form of the dependency of a job that depends on
// nothing. A store does not have to keep it with each job. The result is shared and must
// not be changed. PlainDependency returns nil for an invalid format.
func PlainDependency(f amboy.Format) *DependencyInterchange {
	if !f.IsValid() {
		return nil
	}
	return plainAlways[f]
}

// Raw returns the encoded job. It must not be changed.
func (i *JobInterchange) Raw() []byte { return i.Job.raw }

// JobID returns the ID of the job: the name without the prefixes that a store adds (the
// group, and the attempt of a retryable job).
func (i *JobInterchange) JobID() string {
	if i.RetryInfo.Retryable && i.RetryInfo.BaseJobID != "" {
		return i.RetryInfo.BaseJobID
	}
	if i.Group != "" {
		return strings.TrimPrefix(i.Name, i.Group+".")
	}
	return i.Name
}

// Resolve decodes the job. If it was stored under an older version of its type, it goes
// through the upgrades of the type. The body itself shows whether it is BSON or JSON. The
// format must be valid; it decides how a BSON string is decoded into a string type that
// has BSON methods. A job for outside workers (see amboy.OutsideJob) is decoded even if its
// type is not registered.
//
// Resolve returns an *UnknownTypeError, a *VersionError or a *MalformedError. If the type
// of the dependency manager is not registered, the error wraps dependency.ErrUnknownType.
// IsUnknown distinguishes these from errors that mean that no process can decode the job.
// A panic of the type's factory or methods is a *MalformedError that wraps an
// *amboy.PanicError.
func (i *JobInterchange) Resolve(f amboy.Format) (amboy.Job, error) {
	if !f.IsValid() {
		return nil, fmt.Errorf("decoding job %q: %d is not a format", i.JobID(), f)
	}
	if registered, ok := getJobType(i.Type); ok {
		return i.build(registered, f)
	}
	if empty, ok := outsideform.New(i.Type, i.Version, i.Job.raw, i.Job.IsJSON()).(amboy.Job); ok {
		return i.build(jobType{factory: func() amboy.Job { return empty }}, f)
	}
	return nil, &UnknownTypeError{JobID: i.JobID(), Type: i.Type}
}

func (i *JobInterchange) malformed(err error) error {
	return &MalformedError{JobID: i.JobID(), Type: i.Type, Err: err}
}

// build makes a job of type t from the stored form.
func (i *JobInterchange) build(t jobType, f amboy.Format) (j amboy.Job, err error) {
	defer func() {
		if value := recover(); value != nil {
			j, err = nil, i.malformed(newPanicError(value))
		}
	}()
	j = t.factory()
	if amboy.IsNilJob(j) {
		return nil, i.malformed(errors.New("the type's factory returned nil"))
	}
	current := j.Type()
	codecs := codecsOf(j, f)
	body, err := i.upgraded(t, current.Version, codecs)
	if err != nil {
		return nil, err
	}
	err = body.decode(j, codecs)
	if err != nil {
		return nil, i.malformed(err)
	}
	i.restore(j, current)
	err = i.restoreDependency(j, f)
	if err != nil {
		return nil, err
	}
	return j, nil
}

// upgraded returns the body in the current version of the type.
func (i *JobInterchange) upgraded(t jobType, current int, codecs *bsoncodec.Registry) (Body, error) {
	if i.Version == current {
		return i.Job, nil
	}
	for version := i.Version; version < current; version++ {
		if t.upgrades[version] == nil {
			return Body{}, i.versionError(current)
		}
	}
	if i.Version > current {
		return Body{}, i.versionError(current)
	}
	doc, err := i.Job.decodeMap()
	if err != nil {
		return Body{}, i.malformed(err)
	}
	for version := i.Version; version < current; version++ {
		err = applyUpgrade(t.upgrades[version], doc)
		if err != nil {
			return Body{}, i.malformed(fmt.Errorf("upgrading it from version %d: %w", version, err))
		}
	}
	f := amboy.BSON2
	if i.Job.IsJSON() {
		f = amboy.JSON
	}
	body, err := encode(doc, f, codecs)
	if err != nil {
		return Body{}, i.malformed(fmt.Errorf("encoding the upgraded body: %w", err))
	}
	return body, nil
}

func (i *JobInterchange) versionError(current int) error {
	return &VersionError{JobID: i.JobID(), Type: i.Type, Stored: i.Version, Current: current}
}

func applyUpgrade(upgrade JobUpgrade, doc map[string]any) (err error) {
	defer recoverTo(&err)
	return upgrade(doc)
}

// restore sets the properties that are stored outside the body. They include the ID and
// the type if the job has setters for them: its own tags may not store them, and the type
// may have been upgraded.
func (i *JobInterchange) restore(j amboy.Job, current amboy.JobType) {
	if named, ok := j.(interface{ SetID(string) }); ok {
		named.SetID(i.JobID())
	}
	if typed, ok := j.(interface{ SetType(amboy.JobType) }); ok {
		if current.Name == "" {
			current.Name = i.Type
		}
		typed.SetType(current)
	}
	if p, ok := j.(amboy.Prioritized); ok {
		p.SetPriority(i.Priority)
	}
	if tagged, ok := j.(interface{ SetTags([]string) }); ok && len(i.Tags) > 0 {
		tagged.SetTags(i.Tags)
	}
	if u, ok := j.(interface {
		SetUniqueKey(string, amboy.UniqueUntil)
	}); ok && i.UniqueKey != "" {
		u.SetUniqueKey(i.UniqueKey, i.UniqueUntil)
	}
	restoreMetadata(j, i.Metadata)
	if len(i.RequiredScopes) > 0 && !slices.Equal(j.Scopes(), i.RequiredScopes) {
		j.SetScopes(i.RequiredScopes)
	}
	j.SetEnqueueAllScopes(i.EnqueueAllScopes)
	j.SetEnqueueScopes(i.EnqueueScopes...)
	j.SetStatus(i.Status)
	j.SetTimeInfo(i.TimeInfo)
	retry := i.RetryInfo
	j.UpdateRetryInfo(retry.Options())
	if p, ok := j.(amboy.ProgressJob); ok && i.Progress != nil {
		p.SetProgress(*i.Progress) // after UpdateRetryInfo: the progress belongs to the current attempt
	}
	if left, ok := j.(amboy.ResultJob); ok && i.Result != nil {
		left.RestoreResult(i.Result.decodeResult)
	}
}

func (i *JobInterchange) restoreDependency(j amboy.Job, f amboy.Format) error {
	dep := i.Dependency
	if dep == nil {
		return nil
	}
	if a, ok := j.Dependency().(*dependency.Always); ok && isPlain(a) && slices.Contains(plainAlways[:], dep) {
		return nil // the job already has it
	}
	factory, err := dependency.GetManagerFactory(dep.Type)
	if err != nil {
		return fmt.Errorf("decoding the dependency of job %q: %w", i.JobID(), err)
	}
	m := factory()
	current := m.Type()
	if dep.Version != current.Version {
		return &VersionError{JobID: i.JobID(), Type: i.Type, Manager: dep.Type, Stored: dep.Version, Current: current.Version}
	}
	err = dep.Dependency.decode(m, codecsFor(f))
	if err != nil {
		return i.malformed(fmt.Errorf("decoding its dependency: %w", err))
	}
	if m.Type() != current {
		return i.malformed(fmt.Errorf("its dependency of type %q reports type %+v", dep.Type, m.Type()))
	}
	j.SetDependency(m)
	return nil
}

// Encode encodes the whole interchange form, to write it to a file or send it.
func (i *JobInterchange) Encode(f amboy.Format) ([]byte, error) {
	body, err := encode(i, f, methodStrings)
	if err != nil {
		return nil, fmt.Errorf("encoding the interchange form of job %q as %s: %w", i.JobID(), f, err)
	}
	return body.raw, nil
}

// DecodeJobInterchange decodes what Encode returned. It returns a *MalformedError for
// other bytes.
func DecodeJobInterchange(data []byte, f amboy.Format) (*JobInterchange, error) {
	if !f.IsValid() {
		return nil, fmt.Errorf("decoding an interchange form: %d is not a format", f)
	}
	i := &JobInterchange{}
	body := NewBody(data, f == amboy.JSON)
	if err := body.decode(i, methodStrings); err != nil {
		return nil, &MalformedError{Err: err}
	}
	return i, nil
}

var (
	_ json.Marshaler      = Body{}
	_ json.Unmarshaler    = (*Body)(nil)
	_ bson.ValueMarshaler = Body{}
)
