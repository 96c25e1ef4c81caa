package batch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/internal/batchend"
	"github.com/mongodb/amboy/internal/load"
)

const (
	// MaxJobs is the maximum number of jobs in a batch.
	MaxJobs = 10_000
	// MaxAfter is the maximum number of jobs that run after a batch.
	MaxAfter = 100
	// MaxIDLength is the maximum length of a batch's ID, in bytes.
	MaxIDLength = amboy.MaxIDLength - len(prefix)

	// prefix precedes the ID of a batch in the tag of its jobs and in the ID of its marker.
	prefix = "batch:"
	// afterPrefix precedes the ID of a batch in the tag of the jobs that run after it.
	afterPrefix = "after-batch:"
)

// InvalidError is why a batch can't be made or changed. Use errors.As to find it.
type InvalidError struct {
	// BatchID is the ID of the batch.
	BatchID string
	// Field is the invalid field.
	Field string
	// Value is the field's value.
	Value any
	// Rule is what the field must satisfy.
	Rule string
}

// Error names the batch, the field, its value and the rule.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("invalid batch %q: %s %s (is %#v)", e.BatchID, e.Field, e.Rule, e.Value)
}

// Batch is a set of jobs to put in a queue. It is not safe for concurrent use.
type Batch struct {
	id      string
	jobs    []amboy.Job
	success []amboy.Job
	end     []amboy.Job
	ids     map[string]struct{} // the IDs of all jobs above
	marker  *batchend.End       // ends after all jobs; nil until Put
}

// New returns an empty batch. Its ID must be unique in its queue. If id is empty, the
// batch gets a random ID.
func New(id string) (*Batch, error) {
	if id == "" {
		id = rand.Text()
	}
	if len(id) > MaxIDLength {
		return nil, &InvalidError{BatchID: id, Field: "ID", Value: id, Rule: fmt.Sprintf("must be at most %d bytes long", MaxIDLength)}
	}
	return &Batch{id: id, ids: map[string]struct{}{}}, nil
}

// ID returns the ID of the batch.
func (b *Batch) ID() string { return b.id }

// Add adds jobs and tags them with the batch. It returns an *amboy.InvalidJobError for a
// job that no queue accepts, that can't be tagged, or whose ID belongs to another job of
// the batch. It returns an *InvalidError if the batch would have more than MaxJobs jobs,
// and after Put. If it returns an error, it adds no job.
func (b *Batch) Add(jobs ...amboy.Job) error {
	if n := len(b.jobs) + len(jobs); n > MaxJobs {
		return &InvalidError{BatchID: b.id, Field: "number of jobs", Value: n, Rule: fmt.Sprintf("must be at most %d", MaxJobs)}
	}
	if err := b.addTagged(prefix+b.id, jobs...); err != nil {
		return err
	}
	b.jobs = append(b.jobs, jobs...)
	return nil
}

// OnSuccess adds a job that runs after all jobs of the batch have succeeded. If a job of
// the batch does not succeed, the added job ends as failed, without running, after all
// jobs of the batch have ended. It may have other dependencies too. OnSuccess returns
// errors as Add does.
func (b *Batch) OnSuccess(j amboy.Job) error {
	if err := b.addAfter(j); err != nil {
		return err
	}
	b.success = append(b.success, j)
	return nil
}

// OnEnd adds a job that runs after all jobs of the batch have ended, whatever their
// outcome. It returns errors as Add does, and an error for a job whose dependency does not
// support running it after a failure (see dependency.FailureChooser).
func (b *Batch) OnEnd(j amboy.Job) error {
	if err := amboy.ValidateJob(j); err != nil {
		return err
	}
	chooser, ok := j.Dependency().(dependency.FailureChooser)
	if !ok {
		return &amboy.InvalidJobError{JobID: j.ID(), Field: "dependency", Value: j.Dependency().Type().Name, Rule: "must be a dependency.FailureChooser"}
	}
	if err := b.addAfter(j); err != nil {
		return err
	}
	chooser.SetOnFailure(dependency.RunOnFailure)
	b.end = append(b.end, j)
	return nil
}

// addAfter is like addTagged, for a job that runs after the batch.
func (b *Batch) addAfter(j amboy.Job) error {
	if n := len(b.success) + len(b.end) + 1; n > MaxAfter {
		return &InvalidError{BatchID: b.id, Field: "number of jobs after it", Value: n, Rule: fmt.Sprintf("must be at most %d", MaxAfter)}
	}
	return b.addTagged(afterPrefix+b.id, j)
}

// addTagged checks jobs and tags them. If any check fails, it changes nothing.
func (b *Batch) addTagged(tag string, jobs ...amboy.Job) error {
	if b.marker != nil {
		return &InvalidError{BatchID: b.id, Field: "jobs", Value: len(jobs), Rule: "must be added before it is put"}
	}
	ids := make(map[string]struct{}, len(jobs))
	for _, j := range jobs {
		if err := b.check(j, ids); err != nil {
			return err
		}
		ids[j.ID()] = struct{}{}
	}
	for _, j := range jobs {
		b.ids[j.ID()] = struct{}{}
		if tags := amboy.TagsOf(j); !slices.Contains(tags, tag) {
			j.(taggable).SetTags(append(tags, tag))
		}
	}
	return nil
}

// taggable is a job to which tags can be added, such as a job that embeds job.Base.
type taggable interface {
	amboy.TaggedJob
	SetTags([]string)
}

func (b *Batch) check(j amboy.Job, others map[string]struct{}) error {
	if err := amboy.ValidateJob(j); err != nil {
		return err
	}
	_, taken := b.ids[j.ID()]
	if _, also := others[j.ID()]; taken || also {
		return &amboy.InvalidJobError{JobID: j.ID(), Field: "ID", Value: j.ID(), Rule: fmt.Sprintf("must not belong to another job of batch %q", b.id)}
	}
	if _, ok := j.(taggable); !ok {
		return &amboy.InvalidJobError{JobID: j.ID(), Field: "tags", Value: amboy.TagsOf(j), Rule: "must be settable with SetTags, so that the job can be in a batch"}
	}
	return nil
}

// Put puts the jobs, the batch's marker and the jobs that run after the batch in a queue.
// It makes one call of PutMany and blocks as that does. It returns the error of each job
// that was not put, except jobs that were refused because they depend on such a job. If
// another batch has the ID, it puts nothing and returns an error for which
// amboy.IsDuplicateJobError is true. If the queue is not an amboy.JobFinder, the error
// wraps errors.ErrUnsupported.
//
// After an error the jobs that were put still run. Put may be called again, even by
// another process that made the same batch; it leaves existing jobs unchanged. A queue
// with a bound on the number of jobs that wait, or that it remembers, must have room for
// the whole batch.
func (b *Batch) Put(ctx context.Context, q amboy.Queue) (*Handle, error) {
	h, err := b.put(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("putting batch %q: %w", b.id, err)
	}
	return h, nil
}

func (b *Batch) put(ctx context.Context, q amboy.Queue) (*Handle, error) {
	finder, err := finderOf(q)
	if err != nil {
		return nil, err
	}
	err = b.link()
	if err != nil {
		return nil, err
	}
	hasMarker, err := b.markerExists(ctx, q)
	if err != nil {
		return nil, err
	}
	jobs := slices.Concat(b.success, b.end)
	if !hasMarker {
		// If the marker exists, all jobs were put, and some may have been removed since.
		jobs = slices.Concat(b.jobs, []amboy.Job{b.marker}, jobs)
	}
	err = b.putOnce(ctx, q, finder, jobs)
	if err != nil {
		return nil, err
	}
	return newHandle(q, finder, b.id, b.marker), nil
}

// link makes the marker and adds the dependencies of the marker and of the jobs that run
// after the batch.
func (b *Batch) link() error {
	if b.marker != nil {
		return nil
	}
	marker := batchend.New(prefix + b.id)
	for _, after := range append([]amboy.Job{marker}, b.success...) {
		for _, j := range b.jobs {
			if err := addEdge(after, j.ID()); err != nil {
				return err
			}
		}
	}
	for _, after := range b.end {
		if err := addEdge(after, marker.ID()); err != nil {
			return err
		}
	}
	b.marker = marker
	return nil
}

func addEdge(j amboy.Job, to string) error {
	if err := j.Dependency().AddEdge(to); err != nil && !slices.Contains(j.Dependency().Edges(), to) {
		return fmt.Errorf("making job %q depend on job %q: %w", j.ID(), to, err)
	}
	return nil
}

// markerExists reports whether the queue holds the batch's marker. It returns an error if
// the queue holds the marker of another batch with the same ID.
func (b *Batch) markerExists(ctx context.Context, q amboy.Queue) (bool, error) {
	existing, err := load.Job(ctx, q, b.marker.ID())
	switch {
	case amboy.IsJobNotFoundError(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading its marker: %w", err)
	case !sameEdges(existing, b.marker):
		id := b.marker.ID()
		taken := &amboy.DuplicateJobError{JobID: id, Reason: amboy.DuplicateID, Value: id, ExistingID: id}
		return true, fmt.Errorf("the queue holds another batch with that ID: %w", taken)
	default:
		return true, nil
	}
}

func sameEdges(a, b amboy.Job) bool {
	if a.Type() != b.Type() {
		return false
	}
	return slices.Equal(slices.Sorted(slices.Values(a.Dependency().Edges())), slices.Sorted(slices.Values(b.Dependency().Edges())))
}

// putOnce puts jobs. It returns nil if all of them, with their tags, and the marker exist
// afterwards.
func (b *Batch) putOnce(ctx context.Context, q amboy.Queue, finder amboy.JobFinder, jobs []amboy.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	putErr := q.PutMany(ctx, jobs)
	if putErr == nil {
		return nil
	}
	missing := make(map[string]struct{}, len(jobs))
	for _, j := range jobs {
		missing[j.ID()] = struct{}{}
	}
	for _, tag := range []string{prefix + b.id, afterPrefix + b.id} {
		for info, err := range finder.FindJobs(ctx, amboy.JobQuery{Tag: tag}) {
			if err != nil {
				return errors.Join(putErr, err)
			}
			delete(missing, info.ID)
		}
	}
	hasMarker, err := b.markerExists(ctx, q)
	if err != nil {
		return err
	}
	delete(missing, b.marker.ID())
	if len(missing) > 0 || !hasMarker {
		return withoutConsequences(putErr)
	}
	return nil
}

// withoutConsequences removes, from the errors of several jobs, the errors of jobs that
// were refused because they depend on a job that was refused.
func withoutConsequences(err error) error {
	var several interface{ Unwrap() []error }
	if !errors.As(err, &several) {
		return err
	}
	causes := slices.DeleteFunc(slices.Clone(several.Unwrap()), func(err error) bool {
		var notPut *amboy.DependencyNotPutError
		var invalid *amboy.InvalidJobError
		return errors.As(err, &notPut) || errors.As(err, &invalid) && invalid.Field == "dependency edge"
	})
	if len(causes) == 0 {
		return err
	}
	return amboy.CollateWriteErrors(causes)
}

// finderOf returns the queue as an amboy.JobFinder.
func finderOf(q amboy.Queue) (amboy.JobFinder, error) {
	if q == nil {
		return nil, &amboy.InvalidJobError{Field: "queue", Rule: "must not be nil"}
	}
	finder, ok := q.(amboy.JobFinder)
	if !ok {
		return nil, fmt.Errorf("queue %q of type %T is not an amboy.JobFinder: %w", q.ID(), q, errors.ErrUnsupported)
	}
	return finder, nil
}
