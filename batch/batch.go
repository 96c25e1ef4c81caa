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

// Put puts the jobs in a queue, their end and the jobs that come after it, with one
// PutMany, and blocks as that does. It returns the error of each job that was not put,
// but for jobs that depend on those; where the ID of the batch is taken by another, one
// for which amboy.IsDuplicateJobError is true, before it has put anything; and one that
// wraps errors.ErrUnsupported for a queue that is no amboy.JobFinder.
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
	err = b.link()
	if err != nil {
		return nil, err
	}
	hasEnd, err := b.isIn(ctx, q)
	if err != nil {
		return nil, err
	}
	jobs := slices.Concat(b.success, b.end)
	if !hasEnd {
		// Where the end is there, they were all put, and may be forgotten.
		jobs = slices.Concat(b.jobs, []amboy.Job{b.marker}, jobs)
	}
	err = b.putOnce(ctx, q, finder, jobs)
	if err != nil {
		return nil, err
	}
	return newHandle(q, finder, b.id, b.marker), nil
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

// isIn tells whether the queue has the end of the batch. It returns an error where
// that is the end of another batch with that ID.
func (b *Batch) isIn(ctx context.Context, q amboy.Queue) (bool, error) {
	there, ok := q.Get(ctx, b.marker.ID())
	if ok && !sameEdges(there, b.marker) {
		return true, amboy.NewDuplicateJobErrorf("the queue has another batch with that ID")
	}
	return ok, nil
}

func sameEdges(a, b amboy.Job) bool {
	if a.Type() != b.Type() {
		return false
	}
	return slices.Equal(slices.Sorted(slices.Values(a.Dependency().Edges())), slices.Sorted(slices.Values(b.Dependency().Edges())))
}

// putOnce puts jobs, and counts it as success where they are all there, with their
// tags, and so is the end.
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
	hasEnd, err := b.isIn(ctx, q)
	if err != nil {
		return err
	}
	delete(missing, b.marker.ID())
	if len(missing) > 0 || !hasEnd {
		return withoutConsequences(putErr)
	}
	return nil
}

// withoutConsequences leaves out, from the errors of several jobs, those of jobs that
// depend on others that were refused.
func withoutConsequences(err error) error {
	var several interface{ Unwrap() []error }
	if !errors.As(err, &several) {
		return err
	}
	causes := slices.DeleteFunc(slices.Clone(several.Unwrap()), func(err error) bool {
		var invalid *amboy.InvalidJobError
		return errors.As(err, &invalid) && invalid.Field == "dependency edge"
	})
	if len(causes) == 0 {
		return err
	}
	return amboy.CollateWriteErrors(causes)
}

// finderOf returns what finds the jobs of a queue.
func finderOf(q amboy.Queue) (amboy.JobFinder, error) {
	finder, ok := q.(amboy.JobFinder)
	if !ok {
		return nil, fmt.Errorf("queue %q of type %T is no amboy.JobFinder: %w", q.ID(), q, errors.ErrUnsupported)
	}
	return finder, nil
}
