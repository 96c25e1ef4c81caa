package job

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/registry"
)

// Definition is a type of jobs that is made of a name, a version and a function of
// arguments of type A. Make it with Define, usually in the declaration of a variable
// of a package:
//
//	var greet = job.Define("greet", 1, func(ctx context.Context, name string) error {
//		fmt.Println("hello,", name)
//		return nil
//	})
//
// The arguments are all that is stored of a job, in a field "args", with their own
// tags. A Definition is safe for concurrent use.
type Definition[A any] struct {
	jobType  amboy.JobType
	run      func(ctx context.Context, j *typed[A]) error
	defaults Defaults[A]
	settings settings // what the defaults make of each job
	err      error    // why it can't be used

	// Of a definition whose jobs leave none these are nil.
	newResult  func() any // makes what a stored result is decoded into
	resultType reflect.Type
}

// Define defines a type of jobs, and registers it for the life of the process under
// its name. A job fails where run returns an error or panics. It is tried again where
// its maximum of attempts, of Defaults or MaxAttempts, is more than 1 (see also
// amboy.NonRetryable, Cancel and Snooze). At most one Defaults may be given.
//
// Define can't fail where it stands at package level. A definition that is not valid
// says so at each use, with an *InvalidDefinitionError, and one whose name is taken,
// by another definition or a registered type, with a *DuplicateDefinitionError. Err
// returns that error, too. It registers nothing then.
func Define[A any](name string, version int, run func(ctx context.Context, args A) error, defaults ...Defaults[A]) *Definition[A] {
	d := &Definition[A]{jobType: amboy.JobType{Name: name, Version: version}}
	d.run = func(ctx context.Context, j *typed[A]) error { return run(ctx, j.Arguments) }
	d.register(run == nil, defaults)
	return d
}

// register makes the definition known, unless it is not valid.
func (d *Definition[A]) register(noFunction bool, defaults []Defaults[A]) {
	d.err = d.validate(noFunction, defaults)
	if d.err != nil {
		return
	}
	err := registry.RegisterJobType(d.jobType.Name, func() amboy.Job { return d.empty() })
	if errors.Is(err, registry.ErrTypeTaken) {
		err = &DuplicateDefinitionError{Name: d.jobType.Name}
	}
	d.err = err
}

// maxNameLength leaves room for what a generated ID has after the name.
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
	case noFunction:
		return refuse("function", nil, "must not be nil")
	case len(defaults) > 1:
		return refuse("number of defaults", len(defaults), "must be at most 1")
	}
	if t := unstorable(reflect.TypeFor[A]()); t != nil {
		return refuse("type of the arguments", reflect.TypeFor[A]().String(), fmt.Sprintf("must be one that can be stored, without %s", t))
	}
	if d.resultType != nil {
		if t := unstorable(d.resultType); t != nil {
			return refuse("type of the result", d.resultType.String(), fmt.Sprintf("must be one that can be stored, without %s", t))
		}
	}
	if len(defaults) == 1 {
		d.defaults = defaults[0]
	}
	d.settings = d.defaults.settings()
	var invalid *amboy.InvalidJobError
	if errors.As(d.settings.err, &invalid) {
		return refuse("default "+invalid.Field, invalid.Value, invalid.Rule)
	}
	return nil
}

// Err says why the definition can't be used; nil for one that can.
func (d *Definition[A]) Err() error { return d.err }

// Type is the name and the version of the definition.
func (d *Definition[A]) Type() amboy.JobType { return d.jobType }

// empty makes a job to decode a stored one into.
func (d *Definition[A]) empty() *typed[A] {
	j := &typed[A]{definition: d}
	j.JobType = d.jobType
	return j
}

// New makes a job, with an ID that is the definition's name and a random part unless
// the options give one. Delays among the options are counted from now. New returns
// the error of a definition that can't be used, and an *amboy.InvalidJobError for
// options that are not valid. The arguments must not be changed from then on, by
// anyone but the job.
func (d *Definition[A]) New(args A, opts ...Option) (amboy.Job, error) {
	return d.newAt(nil, args, opts)
}

// newAt counts delays by the clock of a queue, which may be nil.
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

// apply makes a new job what the settings say, and the methods of its arguments, whose
// panics are errors.
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
	return s.unique.apply(&j.typedBase, q, j)
}

// Put makes a job and puts it in a queue, and returns the job's ID. Delays are
// counted by amboy.Now of the queue. Its errors are those of New and of the queue's
// Put. Where a job of another type has the ID that the options give, the error is an
// *IDTakenError, too. Put blocks as the queue's Put does.
func (d *Definition[A]) Put(ctx context.Context, q amboy.Queue, args A, opts ...Option) (id string, err error) {
	j, err := d.newAt(q, args, opts)
	if err != nil {
		return "", err
	}
	if err := q.Put(ctx, j); err != nil {
		return "", idTaken(ctx, q, j, err)
	}
	return j.ID(), nil
}

// Args returns the arguments of a job. They are not a copy, must not be changed, and
// must not be read while the job runs in a queue that holds the job itself. Args
// returns a *WrongTypeError for a job of another definition.
func (d *Definition[A]) Args(j amboy.Job) (A, error) {
	own, err := d.own(j)
	if err != nil {
		var none A
		return none, err
	}
	return own.Arguments, nil
}

// own returns a job as that of the definition which it is.
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

// Defaults are what the jobs of a definition have, unless the options of one say
// otherwise.
type Defaults[A any] struct {
	// Priority is that of the jobs; larger runs sooner.
	Priority int
	// MaxAttempts is how often a job is tried, in all. 0 stands for 1, and, where
	// there is a RetryPolicy, for amboy.DefaultMaxAttempts.
	MaxAttempts int
	// MaxInterruptions is how often an attempt may be interrupted, because its process
	// dies for instance, before the job is parked. 0 means as often as the queue allows.
	MaxInterruptions int
	// RetryPolicy says how long the next attempt waits. nil stands for that of the
	// queue.
	RetryPolicy amboy.RetryPolicy
	// Timeout is how long an attempt may run (see amboy.JobTimeInfo.MaxTime).
	// 0 means no limit.
	Timeout time.Duration
	// Scopes names the locks that a job holds while it runs. nil means none.
	Scopes func(A) []string
	// EnqueueScopes takes the scopes by Put, until the job's last attempt has
	// ended.
	EnqueueScopes bool
	// Tags are those by which people find the jobs.
	Tags []string
	// Unique says of which jobs there must not be two at a time. The zero value
	// means of none.
	Unique Uniqueness
	// Retention is how long jobs are kept that ended, in queues that store them.
	// Fields of 0 stand for what the queue's says.
	Retention amboy.Retention
}

// settings are what the defaults that do not depend on the arguments make of a job.
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
