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
)

const (
	// MaxJobs is the number of jobs that a batch may have.
	MaxJobs = 10_000
	// MaxAfter is the number of jobs that may come after one.
	MaxAfter = 100
	// MaxIDLength is the longest ID of a batch, in bytes.
	MaxIDLength = amboy.MaxIDLength - len(prefix)

	// prefix is before the ID of a batch in the tag of its jobs, and in the ID of
	// its end.
	prefix = "batch:"
	// afterPrefix is that in the tag of the jobs that run after it.
	afterPrefix = "after-batch:"
)

// InvalidError says why a batch can't be made or changed. Use errors.As to find it.
type InvalidError struct {
	// BatchID is the ID of the batch.
	BatchID string
	// Field is what is wrong with it.
	Field string
	// Value is the value of that.
	Value any
	// Rule says what is allowed.
	Rule string
}

// Error names the batch, the field, its value and the rule.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("invalid batch %q: %s %s (is %#v)", e.BatchID, e.Field, e.Rule, e.Value)
}

// Batch is a set of jobs that is to be put in a queue. It is not safe for concurrent
// use.
type Batch struct {
	id      string
	jobs    []amboy.Job
	success []amboy.Job
	end     []amboy.Job
	ids     map[string]struct{} // of all of them
	marker  *batchend.End       // nil until Put
}

// New returns an empty batch. No other of the queue may have its ID. Where that is
// empty the batch gets one that no other has.
func New(id string) (*Batch, error) {
	if id == "" {
		id = rand.Text()
	}
	if len(id) > MaxIDLength {
		return nil, &InvalidError{BatchID: id, Field: "ID", Value: id, Rule: fmt.Sprintf("must be at most %d bytes long", MaxIDLength)}
	}
	return &Batch{id: id, ids: map[string]struct{}{}}, nil
}

// ID is the ID of the batch.
func (b *Batch) ID() string { return b.id }

// Add adds jobs, which get the tag of the batch. It returns an *amboy.InvalidJobError
// for a job that no queue accepts, that can't be tagged, or whose ID is that of
// another job of the batch; and an *InvalidError where there are more than MaxJobs,
// and after Put. Then it adds none.
func (b *Batch) Add(jobs ...amboy.Job) error {
	if n := len(b.jobs) + len(jobs); n > MaxJobs {
		return &InvalidError{BatchID: b.id, Field: "number of jobs", Value: n, Rule: fmt.Sprintf("must be at most %d", MaxJobs)}
	}
	if err := b.take(prefix+b.id, jobs...); err != nil {
		return err
	}
	b.jobs = append(b.jobs, jobs...)
	return nil
}

// OnSuccess makes a job run when all jobs of the batch have succeeded. Where one has
// not, it ends as failed, without being run, when they have ended. It returns an
// error as Add does. A job may be added that depends on others, too.
func (b *Batch) OnSuccess(j amboy.Job) error {
	if err := b.takeAfter(j); err != nil {
		return err
	}
	b.success = append(b.success, j)
	return nil
}

// OnEnd makes a job run when all jobs of the batch have ended, however they did. It
// returns an error as Add does, and for a job whose dependency does not let it run
// where others have failed (see dependency.FailureChooser).
func (b *Batch) OnEnd(j amboy.Job) error {
	if err := amboy.ValidateJob(j); err != nil {
		return err
	}
	chooser, ok := j.Dependency().(dependency.FailureChooser)
	if !ok {
		return &amboy.InvalidJobError{JobID: j.ID(), Field: "dependency", Value: j.Dependency().Type().Name, Rule: "must be a dependency.FailureChooser"}
	}
	if err := b.takeAfter(j); err != nil {
		return err
	}
	chooser.SetOnFailure(dependency.RunOnFailure)
	b.end = append(b.end, j)
	return nil
}

// takeAfter is take for a job that is to come after the batch.
func (b *Batch) takeAfter(j amboy.Job) error {
	if n := len(b.success) + len(b.end) + 1; n > MaxAfter {
		return &InvalidError{BatchID: b.id, Field: "number of jobs after it", Value: n, Rule: fmt.Sprintf("must be at most %d", MaxAfter)}
	}
	return b.take(afterPrefix+b.id, j)
}

// take checks jobs that are to be added, and then tags them.
func (b *Batch) take(tag string, jobs ...amboy.Job) error {
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

// taggable is a job that can be given tags, as those that embed job.Base can.
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
		return &amboy.InvalidJobError{JobID: j.ID(), Field: "ID", Value: j.ID(), Rule: fmt.Sprintf("must not be that of another job of batch %q", b.id)}
	}
	if _, ok := j.(taggable); !ok {
		return &amboy.InvalidJobError{JobID: j.ID(), Field: "tags", Value: amboy.TagsOf(j), Rule: "must be settable with SetTags, so that the job can be in a batch"}
	}
	return nil
}

// Put puts the jobs in a queue, then their end and the jobs that come after it. It
// blocks as PutMany does. It returns the error of each job that was not put; where
// the ID of the batch is taken by another, one for which amboy.IsDuplicateJobError is
// true, before it has put anything; and one that wraps errors.ErrUnsupported for a
// queue that is no amboy.JobFinder.
//
// The jobs that were put run, whatever the error is about. Put may be called again
// after one, also by a process that made the batch anew: what is there already is
// left as it is. A queue that bounds the number of jobs that wait, or that it
// remembers, must have room for the whole batch.
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
	for _, step := range []func() error{
		b.link,
		func() error { return b.checkMarker(ctx, q) },
		func() error { return putOnce(ctx, q, finder, prefix+b.id, b.jobs) },
		func() error { return b.putMarker(ctx, q) },
		func() error { return putOnce(ctx, q, finder, afterPrefix+b.id, slices.Concat(b.success, b.end)) },
	} {
		err = step()
		if err != nil {
			return nil, err
		}
	}
	return &Handle{id: b.id, queue: q, finder: finder, marker: b.marker, total: len(b.jobs)}, nil
}

// link makes the end, and lets the jobs that come after it depend on the others.
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

// putMarker puts the end, unless it is there.
func (b *Batch) putMarker(ctx context.Context, q amboy.Queue) error {
	err := q.Put(ctx, b.marker)
	if amboy.IsDuplicateJobError(err) {
		return b.checkMarker(ctx, q)
	}
	return err
}

// checkMarker returns an error where the queue has the end of another batch with
// that ID.
func (b *Batch) checkMarker(ctx context.Context, q amboy.Queue) error {
	there, ok := q.Get(ctx, b.marker.ID())
	if !ok || sameEdges(there, b.marker) {
		return nil
	}
	return amboy.NewDuplicateJobErrorf("the queue has another batch with that ID")
}

func sameEdges(a, b amboy.Job) bool {
	if a.Type() != b.Type() {
		return false
	}
	return slices.Equal(slices.Sorted(slices.Values(a.Dependency().Edges())), slices.Sorted(slices.Values(b.Dependency().Edges())))
}

// putOnce puts jobs, and counts it as success where they are all there, with their
// tag.
func putOnce(ctx context.Context, q amboy.Queue, finder amboy.JobFinder, tag string, jobs []amboy.Job) error {
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
	for info, err := range finder.FindJobs(ctx, amboy.JobQuery{Tag: tag}) {
		if err != nil {
			return errors.Join(putErr, err)
		}
		delete(missing, info.ID)
	}
	if len(missing) > 0 {
		return putErr
	}
	return nil
}

// finderOf returns what finds the jobs of a queue.
func finderOf(q amboy.Queue) (amboy.JobFinder, error) {
	finder, ok := q.(amboy.JobFinder)
	if !ok {
		return nil, fmt.Errorf("queue %q of type %T is no amboy.JobFinder: %w", q.ID(), q, errors.ErrUnsupported)
	}
	return finder, nil
}
