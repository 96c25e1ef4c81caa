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
)

// JobInterchange is the stored form of a job: what queues need to know about
// any job, and the job itself, encoded with its own tags.
type JobInterchange struct {
	// Name is the ID under which the job is stored.
	Name string `bson:"_id" json:"name" yaml:"name"`
	// Type is the name of the job's registered type.
	Type string `json:"type" bson:"type" yaml:"type"`
	// Group is the queue that the job belongs to, where several share a store.
	Group string `bson:"group,omitempty" json:"group,omitempty" yaml:"group,omitempty"`
	// Version is that of the type, when the job was stored.
	Version int `json:"version" bson:"version" yaml:"version"`
	// Status is the job's progress.
	Status amboy.JobStatusInfo `bson:"status" json:"status" yaml:"status"`
	// Scopes are the scopes that the job holds now.
	Scopes []string `bson:"scopes,omitempty" json:"scopes,omitempty" yaml:"scopes,omitempty"`
	// EnqueueScopes are the scopes that Put takes.
	EnqueueScopes []string `bson:"enqueue_scopes,omitempty" json:"enqueue_scopes,omitempty" yaml:"enqueue_scopes,omitempty"`
	// EnqueueAllScopes is true where Put takes all scopes.
	EnqueueAllScopes bool `bson:"enqueue_all_scopes,omitempty" json:"enqueue_all_scopes,omitempty" yaml:"enqueue_all_scopes,omitempty"`
	// RetryInfo tells how the job is retried.
	RetryInfo amboy.JobRetryInfo `bson:"retry_info" json:"retry_info,omitempty" yaml:"retry_info,omitempty"`
	// TimeInfo holds the job's times.
	TimeInfo amboy.JobTimeInfo `bson:"time_info" json:"time_info,omitempty" yaml:"time_info,omitempty"`
	// Job is the job itself.
	Job Body `bson:"job" json:"job" yaml:"job"`
	// Dependency is the job's dependency manager.
	Dependency *DependencyInterchange `json:"dependency,omitempty" bson:"dependency,omitempty" yaml:"dependency,omitempty"`

	// Priority is the job's priority; absent where it is 0.
	Priority int `bson:"priority,omitempty" json:"priority,omitempty" yaml:"priority,omitempty"`
	// RequiredScopes are all the scopes that the job needs to run; absent where
	// it needs none, and from what older versions stored.
	RequiredScopes []string `bson:"required_scopes,omitempty" json:"required_scopes,omitempty" yaml:"required_scopes,omitempty"`

	// The fields below are absent while they are unused.

	// Tags are those by which people find the job.
	Tags []string `bson:"tags,omitempty" json:"tags,omitempty" yaml:"tags,omitempty"`
	// UniqueKey is what no other job of the queue may have, until UniqueUntil.
	UniqueKey   string            `bson:"unique_key,omitempty" json:"unique_key,omitempty" yaml:"unique_key,omitempty"`
	UniqueUntil amboy.UniqueUntil `bson:"unique_until,omitempty" json:"unique_until,omitempty" yaml:"unique_until,omitempty"`
	// Progress is what the running job last said.
	Progress *amboy.JobProgress `bson:"progress,omitempty" json:"progress,omitempty" yaml:"progress,omitempty"`
	// Result is what a job that ended has left.
	Result *Body `bson:"result,omitempty" json:"result,omitempty" yaml:"result,omitempty"`
	// Metadata is what others than the job keep with it.
	Metadata map[string]string `bson:"metadata,omitempty" json:"metadata,omitempty" yaml:"metadata,omitempty"`
	// ForgetAt is when a job that ended may be removed.
	ForgetAt time.Time `bson:"forget_at,omitempty" json:"forget_at,omitzero" yaml:"forget_at,omitempty"`
	// CancelRequested is true for a running job that is to be canceled.
	CancelRequested bool `bson:"cancel_requested,omitempty" json:"cancel_requested,omitempty" yaml:"cancel_requested,omitempty"`

	// LeaseTime is how long the lease lasts of a job that is put as running. It is not
	// part of the encoded form.
	LeaseTime time.Duration `bson:"-" json:"-" yaml:"-"`
}

// DependencyInterchange is the stored form of a dependency manager.
type DependencyInterchange struct {
	// Type is the name of the manager's registered type.
	Type string `json:"type" bson:"type" yaml:"type"`
	// Version is that of the type, when the manager was stored.
	Version int `json:"version" bson:"version" yaml:"version"`
	// Edges are the IDs of the jobs that must end first.
	Edges []string `bson:"edges" json:"edges" yaml:"edges"`
	// Dependency is the manager itself.
	Dependency Body `bson:"dependency" json:"dependency" yaml:"dependency"`
	// Failed are the edges that ended without success; absent where none did.
	Failed []string `bson:"failed,omitempty" json:"failed,omitempty" yaml:"failed,omitempty"`
}

// MakeJobInterchange encodes a job. It returns an *amboy.InvalidJobError for a
// nil job, an *UnknownTypeError where the job's type is not registered, an
// *EncodeError for a job that can't be encoded, and an error for an invalid format;
// a panic of the job's own methods is an error too. The job must not be running.
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
	_, err = getJobType(jobType.Name)
	if err != nil {
		return nil, &UnknownTypeError{JobID: j.ID(), Type: jobType.Name}
	}
	body, err := encode(j, f, codecsOf(j, f))
	if err != nil {
		return nil, newEncodeError(j, f, err)
	}
	result, err := encodeResult(j, f)
	if err != nil {
		return nil, err
	}
	dep, err := makeDependencyInterchange(j.Dependency(), f)
	if err != nil {
		return nil, fmt.Errorf("encoding the dependency of job %q as %s: %w", j.ID(), f, err)
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
		RetryInfo:        j.RetryInfo(),
		TimeInfo:         j.TimeInfo(),
		Job:              body,
		Dependency:       dep,
		Priority:         amboy.PriorityOf(j),
		RequiredScopes:   j.Scopes(),
		Tags:             amboy.TagsOf(j),
		Metadata:         amboy.MetadataOf(j),
		UniqueKey:        key,
		UniqueUntil:      until,
		Progress:         amboy.ProgressOf(j),
		Result:           result,
	}, nil
}

// newEncodeError names what can't be encoded: all that is encoded of a typed job
// are its arguments.
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

// isPlain is true for the dependency of a job that depends on nothing, which is
// that of most jobs.
func isPlain(a *dependency.Always) bool {
	return len(a.TaskEdges) == 0 && a.FailurePolicy == dependency.FailOnFailure
}

// plainAlways has the stored form of a plain Always in each format, so that it
// is encoded, and in memory decoded, once and not for every job. It must not be
// changed.
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

// PlainDependency returns the stored form of the dependency of a job that depends
// on nothing, for a store that need not keep it with each job. It is shared, and
// must not be changed. It returns nil for an invalid format.
func PlainDependency(f amboy.Format) *DependencyInterchange {
	if !f.IsValid() {
		return nil
	}
	return plainAlways[f]
}

// Raw returns the encoded job. It must not be changed.
func (i *JobInterchange) Raw() []byte { return i.Job.raw }

// JobID is the ID of the job: the name without what a store puts before it (the
// group, and of a retryable job the attempt).
func (i *JobInterchange) JobID() string {
	if i.RetryInfo.Retryable && i.RetryInfo.BaseJobID != "" {
		return i.RetryInfo.BaseJobID
	}
	if i.Group != "" {
		return strings.TrimPrefix(i.Name, i.Group+".")
	}
	return i.Name
}

// Resolve decodes the job, through the upgrades of its type where it was stored
// under an older version. The bytes tell whether they are BSON or JSON; the
// format must be a valid one, and of BSON it decides how a stored string is decoded
// into a type of a string kind that has BSON methods. It returns an *UnknownTypeError, a *VersionError
// or a *MalformedError, and wraps dependency.ErrUnknownType where the type of
// the dependency manager is not registered; IsUnknown tells these from errors that mean
// that no process can decode it. A panic of the type's factory or
// methods is a *MalformedError that wraps an *amboy.PanicError.
func (i *JobInterchange) Resolve(f amboy.Format) (amboy.Job, error) {
	if !f.IsValid() {
		return nil, fmt.Errorf("decoding job %q: %d is not a format", i.JobID(), f)
	}
	registered, err := getJobType(i.Type)
	if err != nil {
		return nil, &UnknownTypeError{JobID: i.JobID(), Type: i.Type}
	}
	return i.make(registered, f)
}

func (i *JobInterchange) malformed(err error) error {
	return &MalformedError{JobID: i.JobID(), Type: i.Type, Err: err}
}

// make makes the job of its type and its stored form.
func (i *JobInterchange) make(t jobType, f amboy.Format) (j amboy.Job, err error) {
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

// upgraded returns the body as the current version of the type has it.
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
	if i.Job.isJSON {
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

// restore sets what is stored beside the body. ID and type are set too, where
// the job allows: its own tags need not store them, and the type may have been
// upgraded.
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
	if m, ok := j.(amboy.MetadataJob); ok {
		for key, value := range i.Metadata {
			m.SetMetadata(key, value)
		}
	}
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
		p.SetProgress(*i.Progress) // of the attempt that the retry info names
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
		return nil // it is what the job has
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
		return i.malformed(fmt.Errorf("its dependency of type %q says that it is %+v", dep.Type, m.Type()))
	}
	j.SetDependency(m)
	return nil
}

// Encode returns the whole interchange form in a format, for a file or a wire.
func (i *JobInterchange) Encode(f amboy.Format) ([]byte, error) {
	body, err := encode(i, f, methodStrings)
	if err != nil {
		return nil, fmt.Errorf("encoding the interchange form of job %q as %s: %w", i.JobID(), f, err)
	}
	return body.raw, nil
}

// DecodeJobInterchange reads what Encode wrote. It returns a *MalformedError for
// bytes that are something else.
func DecodeJobInterchange(data []byte, f amboy.Format) (*JobInterchange, error) {
	if !f.IsValid() {
		return nil, fmt.Errorf("decoding an interchange form: %d is not a format", f)
	}
	i := &JobInterchange{}
	body := Body{isJSON: f == amboy.JSON, raw: data}
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
