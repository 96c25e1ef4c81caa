package job

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/registry"
)

// Definition is a type of jobs that consists of a name, a version and a function with
// arguments of type A. Make it with Define, usually in a package-level variable:
//
//	var greet = job.Define("greet", 1, func(ctx context.Context, name string) error {
//		fmt.Println("hello,", name)
//		return nil
//	})
//
// A job is stored as its arguments, in the field "args" with their own tags. The options
// RetryPolicy and Retention are stored in the field "override". A Definition is safe for
// concurrent use.
type Definition[A any] struct {
	jobType  amboy.JobType
	run      runFunc[A]
	defaults Defaults[A]
	settings settings // the defaults that do not depend on the arguments
	declared bool     // the jobs run outside of this process, unless bound is set
	bound    atomic.Pointer[runFunc[A]]
	err      error // why the definition can't be used

	// These are nil if the jobs have no results.
	newResult  func() any // makes a value to decode a stored result into
	resultType reflect.Type
}

// runFunc runs a job of a definition.
type runFunc[A any] func(ctx context.Context, j *typed[A]) error

// Define defines a type of jobs and registers it under its name for the life of the
// process. A job fails if run returns an error or panics. It is retried if its maximum
// number of attempts, set by Defaults or MaxAttempts, is more than 1 (see also
// amboy.NonRetryable, Cancel and Snooze). At most one Defaults may be given.
//
// Define never panics, so it is safe at package level. If the definition is invalid, it
// registers nothing, and Err and every use of the definition return an
// *InvalidDefinitionError. If the name is taken by another definition or a registered
// type, the error is a *DuplicateDefinitionError. The error is logged, and Check returns it.
func Define[A any](name string, version int, run func(ctx context.Context, args A) error, defaults ...Defaults[A]) *Definition[A] {
	d := &Definition[A]{jobType: amboy.JobType{Name: name, Version: version}}
	d.run = func(ctx context.Context, j *typed[A]) error { return run(ctx, j.Arguments) }
	d.register(run == nil, defaults)
	return d
}

// register validates and registers the definition.
func (d *Definition[A]) register(noFunction bool, defaults []Defaults[A]) {
	d.err = d.validate(noFunction, defaults)
	if d.err == nil {
		d.err = d.registerType()
	}
	if d.err != nil {
		refuse(d.jobType.Name, d.err)
	}
}

func (d *Definition[A]) registerType() error {
	err := registry.RegisterJobType(d.jobType.Name, func() amboy.Job { return d.empty() })
	if errors.Is(err, registry.ErrTypeTaken) {
		return &DuplicateDefinitionError{Name: d.jobType.Name}
	}
	return err
}

// maxNameLength leaves room for the rest of a generated ID after the name.
const maxNameLength = amboy.MaxIDLength - 1 - idLength

func (d *Definition[A]) validate(noFunction bool, defaults []Defaults[A]) error {
	refuse := func(field string, value any, rule string) error {
		return &InvalidDefinitionError{Name: d.jobType.Name, Field: field, Value: value, Rule: rule}
	}
	switch {
	case d.jobType.Name == "":
		return refuse("name", "", "must not be empty")
	case len(d.jobType.Name) > maxNameLength:
		return refuse("name", d.jobType.Name, fmt.Sprintf("must be at most %d bytes long", maxNameLength))
	case d.jobType.Version < 0:
		return refuse("version", d.jobType.Version, "must not be negative")
	case noFunction && !d.declared:
		return refuse("function", nil, "must not be nil")
	case len(defaults) > 1:
		return refuse("number of defaults", len(defaults), "must be at most 1")
	}
	if t := unstorable(reflect.TypeFor[A]()); t != nil {
		return refuse("type of the arguments", reflect.TypeFor[A]().String(), fmt.Sprintf("must be storable (contains %s)", t))
	}
	if d.resultType != nil {
		if t := unstorable(d.resultType); t != nil {
			return refuse("type of the result", d.resultType.String(), fmt.Sprintf("must be storable (contains %s)", t))
		}
	}
	if len(defaults) == 1 {
		d.defaults = defaults[0]
	}
	d.settings = d.defaults.settings()
	if d.declared {
		d.settings.storeDefaults(d.defaults.RetryPolicy, d.defaults.Retention)
	}
	var invalid *amboy.InvalidJobError
	if errors.As(d.settings.err, &invalid) {
		return refuse("default "+invalid.Field, invalid.Value, invalid.Rule)
	}
	return nil
}

// Err returns why the definition can't be used, or nil.
func (d *Definition[A]) Err() error { return d.err }

// Type returns the name and the version of the definition.
func (d *Definition[A]) Type() amboy.JobType { return d.jobType }

// empty makes a job into which a stored job can be decoded.
func (d *Definition[A]) empty() *typed[A] {
	j := &typed[A]{definition: d, Outside: d.declared}
	j.JobType = d.jobType
	return j
}

// New makes a job. Unless the options set an ID, its ID is the definition's name and a
// random part. Delays in the options count from now. New returns the definition's error if
// it can't be used, and an *amboy.InvalidJobError for invalid options. Only the job may
// change the arguments from then on.
func (d *Definition[A]) New(args A, opts ...Option) (amboy.Job, error) {
	return d.newAt(nil, args, opts)
}

// newAt makes a job whose delays count by the clock of a queue, which may be nil.
func (d *Definition[A]) newAt(q amboy.Queue, args A, opts []Option) (amboy.Job, error) {
	if d.err != nil {
		return nil, d.err
	}
	s := &d.settings
	if len(opts) > 0 {
		s = s.with(opts)
	}
	j := d.empty()
	j.Arguments, j.Override = args, s.override
	if err := d.apply(s, j, q); err != nil {
		return nil, fmt.Errorf("making a job of type %q: %w", d.jobType.Name, withJobID(err, s.id))
	}
	return j, nil
}

// apply applies the settings to a new job. A panic of a method of the job's arguments is
// returned as an error.
func (d *Definition[A]) apply(s *settings, j *typed[A], q amboy.Queue) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &amboy.PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	if d.defaults.Scopes != nil && s.scopes == nil {
		j.SetScopes(d.defaults.Scopes(j.Arguments))
	}
	err = s.apply(&j.typedBase, q)
	if err != nil {
		return err
	}
	return s.unique.apply(&j.typedBase, q, j, &j.Arguments)
}

// Put makes a job, puts it in a queue and returns its ID. Delays count from amboy.Now of
// the queue. Put returns the errors of New and of the queue's Put. If a job of another
// type has the ID that the options set, the error is an *IDTakenError. Put blocks as the
// queue's Put does. If the queue is nil, Put and all other methods with a queue return an
// *amboy.InvalidJobError.
func (d *Definition[A]) Put(ctx context.Context, q amboy.Queue, args A, opts ...Option) (id string, err error) {
	err = d.checkQueue("putting a job", q)
	if err != nil {
		return "", err
	}
	j, err := d.newAt(q, args, opts)
	if err != nil {
		return "", err
	}
	if err := q.Put(ctx, j); err != nil {
		return "", idTaken(ctx, q, j, err)
	}
	return j.ID(), nil
}

// checkQueue returns an error if the definition can't be used, or the queue is nil.
func (d *Definition[A]) checkQueue(doing string, q amboy.Queue) error {
	if d.err != nil {
		return d.err
	}
	if v := reflect.ValueOf(q); q == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("%s of type %q: %w", doing, d.jobType.Name, &amboy.InvalidJobError{Field: "queue", Rule: "must not be nil"})
	}
	return nil
}

// Args returns the arguments of a job. They are not a copy: they must not be changed, and
// must not be read while the job runs in a queue that holds the job itself. Args returns a
// *WrongTypeError for a job of another definition.
func (d *Definition[A]) Args(j amboy.Job) (A, error) {
	own, err := d.own(j)
	if err != nil {
		var none A
		return none, err
	}
	return own.Arguments, nil
}

// own returns j as a job of this definition, or an error if it is not one.
func (d *Definition[A]) own(j amboy.Job) (*typed[A], error) {
	if d.err != nil {
		return nil, d.err
	}
	if amboy.IsNilJob(j) {
		return nil, &amboy.InvalidJobError{Field: "job", Rule: "must not be nil"}
	}
	own, ok := j.(*typed[A])
	if !ok || own.definition != d {
		return nil, &WrongTypeError{JobID: j.ID(), Want: d.jobType.Name, Have: j.Type().Name}
	}
	return own, nil
}

// Defaults are the properties of a definition's jobs, unless the options of a job change
// them.
type Defaults[A any] struct {
	// Priority is the priority of the jobs; larger runs first.
	Priority int
	// MaxAttempts is the total number of attempts of a job. 0 means 1 or, if there is a
	// RetryPolicy, amboy.DefaultMaxAttempts.
	MaxAttempts int
	// MaxInterruptions is how often an attempt may be interrupted, for instance because its
	// process dies, before the job is parked. 0 means the queue's limit.
	MaxInterruptions int
	// RetryPolicy decides how long the next attempt waits. nil means the queue's policy. If
	// the queue has none either, the next attempt does not wait: all attempts of a job that
	// keeps failing may be used up within milliseconds.
	RetryPolicy amboy.RetryPolicy
	// Timeout is how long an attempt may run (see amboy.JobTimeInfo.MaxTime). 0 means no
	// limit.
	Timeout time.Duration
	// Scopes names the locks that a job holds while it runs. nil means none.
	Scopes func(A) []string
	// EnqueueScopes makes Put take the scopes, and the job hold them until its last attempt
	// has ended.
	EnqueueScopes bool
	// Tags are the tags by which operators find the jobs.
	Tags []string
	// Unique defines which jobs must not exist twice at a time. The zero value allows any.
	Unique Uniqueness
	// Retention is how long jobs that ended are kept, in queues that store them. Fields of
	// 0 mean the queue's setting.
	Retention amboy.Retention
}

// settings returns the defaults that do not depend on the arguments.
func (d *Defaults[A]) settings() settings {
	var s settings
	s.setPriority(d.Priority)
	s.setMaxAttempts(d.MaxAttempts)
	s.setMaxInterruptions(d.MaxInterruptions)
	s.setTimeout(d.Timeout)
	s.setTags(d.Tags)
	s.setUnique(d.Unique)
	s.enqueueScopes = d.EnqueueScopes
	s.retries = d.RetryPolicy != nil
	s.refuse(validRetryPolicy(d.RetryPolicy))
	s.refuse(validRetention(d.Retention))
	return s
}
