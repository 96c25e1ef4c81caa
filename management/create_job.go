package management

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/registry"
)

// NewJob describes a job to create.
type NewJob struct {
	Queue string `json:"-"`
	// ID is the ID of the job. Default: a random one.
	ID string `json:"id,omitempty"`
	// Type is the name of a registered type or, with Outside, any name. It is required.
	Type string `json:"type"`
	// Args are the arguments, as JSON.
	Args     json.RawMessage `json:"args,omitempty"`
	Priority int             `json:"priority,omitempty"`
	Due      time.Time       `json:"due,omitzero"`
	Deadline time.Time       `json:"deadline,omitzero"`
	JobOptions
	// IdempotencyKey is the idempotency key of the request; empty for none.
	IdempotencyKey string `json:"-"`
}

// Created is the result of CreateJob.
type Created struct {
	JobRef
	// Repeated is true if an earlier request with the same idempotency key created the job.
	Repeated bool `json:"repeated"`
}

// MaxArgsBytes is the maximum size of the arguments of a NewJob, and
// MaxIdempotencyKeyBytes the maximum length of its idempotency key.
const (
	MaxArgsBytes           = 1 << 20
	MaxIdempotencyKeyBytes = 255
)

// Validate returns an *InvalidArgumentError for each field that is not valid, joined. It
// does not check Args against the type of the job.
func (n NewJob) Validate() error {
	errs := []error{validQueue(n.Queue), n.validateType(), n.validateArgs(), n.validateKey(), n.validateOptions()}
	if n.ID != "" {
		errs = append(errs, validJobID(n.ID))
	}
	errs = append(errs, validTime("due", n.Due), validTime("deadline", n.Deadline))
	if !n.Deadline.IsZero() && n.Due.After(n.Deadline) {
		errs = append(errs, invalid("due", formatTime(n.Due), "must not be after the deadline, "+formatTime(n.Deadline)))
	}
	return errors.Join(errs...)
}

func (n NewJob) validateType() error {
	if n.Type == "" {
		return invalid("type", "", "must not be empty")
	}
	if err := validateText("type", n.Type); err != nil {
		return err
	}
	return n.checkType()
}

func (n NewJob) validateArgs() error {
	switch {
	case len(n.Args) > MaxArgsBytes:
		return invalid("args", string(n.Args), fmt.Sprintf("must be at most %d bytes long, and has %d", MaxArgsBytes, len(n.Args)))
	case len(n.Args) > 0 && !json.Valid(n.Args):
		return invalid("args", string(n.Args), "must be valid JSON")
	default:
		return nil
	}
}

func (n NewJob) validateKey() error {
	if len(n.IdempotencyKey) > MaxIdempotencyKeyBytes {
		return invalid("idempotency_key", n.IdempotencyKey, fmt.Sprintf("must be at most %d bytes long, and has %d", MaxIdempotencyKeyBytes, len(n.IdempotencyKey)))
	}
	return validateText("idempotency_key", n.IdempotencyKey)
}

func (i *inspector) CreateJob(ctx context.Context, wanted NewJob) (Created, error) {
	if err := i.check(wanted.Validate()); err != nil {
		return Created{}, fmt.Errorf("creating a job: %w", err)
	}
	q, err := i.open(ctx, wanted.Queue, wanted.Outside)
	if err != nil {
		return Created{}, fmt.Errorf("creating a job in queue %q: %w", wanted.Queue, err)
	}
	// Invalid arguments are reported before anything is stored.
	if _, err = wanted.build(q, "any"); err != nil {
		return Created{}, fmt.Errorf("creating a job in queue %q: %w", wanted.Queue, err)
	}
	created, err := i.createOnce(ctx, q, wanted)
	var invalidArgument *InvalidArgumentError
	if errors.As(err, &invalidArgument) {
		return Created{}, fmt.Errorf("creating a job in queue %q: %w", wanted.Queue, err)
	}
	entry := AuditEntry{What: "create", Queue: wanted.Queue, JobID: created.ID, Detail: wanted.detail()}
	switch {
	case err != nil:
		entry.JobID = wanted.ID
		err = fmt.Errorf("creating a job of type %q in queue %q: %w", wanted.Type, wanted.Queue, err)
	case created.Repeated:
		entry.Skipped = 1
	default:
		entry.Done = 1
	}
	return created, i.record(ctx, entry, err)
}

// detail describes the request without the job's arguments, which may contain secrets.
func (n NewJob) detail() string {
	n.Args, n.Bytes = nil, nil
	return detailOf(n)
}

// open returns the queue with a name if it is open in this process. If mayMake is true, it opens
// the queue, and makes it if necessary.
func (i *inspector) open(ctx context.Context, name string, mayMake bool) (amboy.Queue, error) {
	if allowed := i.store.Queues(); len(allowed) > 0 && !slices.Contains(allowed, name) {
		return nil, unknownQueue(name)
	}
	if q, ok := i.store.Queue(name); ok {
		return q, nil
	}
	if mayMake {
		q, err := i.store.OpenQueue(ctx, name)
		if q != nil || err != nil {
			return q, err
		}
	}
	if err := i.checkQueueExists(ctx, name); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("queue is not open in this process: %w", ErrUnsupported)
}

// createOnce puts a job. If the request repeats the idempotency key of an earlier one, it
// returns the job of that one instead.
func (i *inspector) createOnce(ctx context.Context, q amboy.Queue, wanted NewJob) (Created, error) {
	id := wanted.ID
	if id == "" {
		id = rand.Text()
	}
	if wanted.IdempotencyKey == "" {
		return Created{JobRef: JobRef{wanted.Queue, id}}, put(ctx, q, wanted, id)
	}
	// This must be read before another request with the same key can put the job.
	existed, err := i.exists(ctx, JobRef{wanted.Queue, wanted.ID})
	if err != nil {
		return Created{}, fmt.Errorf("checking for a job with the same ID: %w", err)
	}
	request, isNew, err := i.claimKey(ctx, wanted, id)
	if err != nil {
		return Created{}, fmt.Errorf("checking for an earlier request with the same idempotency key: %w", err)
	}
	created := Created{JobRef: JobRef{wanted.Queue, request.ID}, Repeated: true}
	if request.Done {
		return created, nil
	}
	err = put(ctx, q, wanted, request.ID)
	switch {
	case err == nil:
		created.Repeated = false // the earlier request had not put the job
	case amboy.IsDuplicateJobError(err):
		isOurs, errGet := i.exists(ctx, created.JobRef)
		if errGet != nil {
			return Created{}, errors.Join(err, errGet)
		}
		switch {
		case isOurs && (!isNew || !existed): // another request with the key has put it
		case isNew: // a repetition must be refused too
			return Created{}, errors.Join(err, i.forgetKey(ctx, wanted))
		default:
			return Created{}, err
		}
	default:
		if _, isRefused := publicText(err); isRefused && !request.Refused {
			err = errors.Join(err, i.refuseKey(ctx, wanted, request))
		}
		return Created{}, err
	}
	request.Done, request.Refused = true, false
	if err := i.keepRequest(ctx, wanted, request); err != nil {
		return Created{}, fmt.Errorf("the job was created, but its idempotency key could not be kept: %w", err)
	}
	return created, nil
}

// exists reports whether a job exists. Without an ID it reports false.
func (i *inspector) exists(ctx context.Context, ref JobRef) (bool, error) {
	if ref.ID == "" {
		return false, nil
	}
	_, err := i.store.Admin().Get(ctx, ref.Queue, ref.ID)
	if amboy.IsJobNotFoundError(err) {
		return false, nil
	}
	return err == nil, err
}

func put(ctx context.Context, q amboy.Queue, wanted NewJob, id string) error {
	j, err := wanted.build(q, id)
	if err != nil {
		return err
	}
	return q.Put(ctx, j)
}

// build makes a job from the factory of its type.
func (n NewJob) build(q amboy.Queue, id string) (j amboy.Job, err error) {
	defer func() {
		if value := recover(); value != nil {
			j, err = nil, fmt.Errorf("making a job of type %q: %w", n.Type, &amboy.PanicError{Value: value, Stack: debug.Stack()})
		}
	}()
	factory, err := registry.GetJobFactory(n.Type)
	switch {
	case err != nil && n.Outside:
		return n.buildOutside(q, id)
	case err != nil:
		return nil, err
	case n.Bytes != nil:
		return nil, invalid("bytes", fmt.Sprintf("%d bytes", len(n.Bytes)), "must not be set for a registered type, whose payload is JSON")
	}
	j = factory()
	if amboy.IsNilJob(j) {
		return nil, fmt.Errorf("the factory of type %q returned nil", n.Type)
	}
	jobType := j.Type()
	if err := n.decodeArgs(j); err != nil {
		return nil, err
	}
	return j, n.fill(j, q, id, jobType)
}

// defined is implemented by the jobs of job.Define. Their arguments are a part of their
// stored form, and have defaults.
type defined interface {
	DecodeArgs(args []byte) error
	FillIn(q amboy.Queue, id string, due, deadline time.Time, opts ...job.Option) error
}

// decodeArgs reads the arguments into a job.
func (n NewJob) decodeArgs(j amboy.Job) error {
	if len(n.Args) == 0 {
		return nil
	}
	var err error
	if d, ok := j.(defined); ok {
		err = d.DecodeArgs(n.Args)
	} else {
		decoder := json.NewDecoder(bytes.NewReader(n.Args))
		decoder.DisallowUnknownFields()
		err = decoder.Decode(j)
	}
	if err != nil {
		return invalid("args", string(n.Args), fmt.Sprintf("must be the arguments of a job of type %q: %v", n.Type, err))
	}
	return nil
}

// fill sets the ID, type, times and priority, and clears the status, whatever the arguments
// contain.
func (n NewJob) fill(j amboy.Job, q amboy.Queue, id string, jobType amboy.JobType) error {
	due, deadline := n.times(amboy.Now(q))
	if f, ok := j.(defined); ok {
		return n.fillDefined(f, q, id, due, deadline)
	}
	named, ok := j.(interface{ SetID(string) })
	if !ok {
		return invalid("type", n.Type, "must be a type whose jobs have a SetID method")
	}
	named.SetID(id)
	if typed, hasType := j.(interface{ SetType(amboy.JobType) }); hasType {
		typed.SetType(jobType)
	}
	if j.Type() != jobType {
		return invalid("args", string(n.Args), fmt.Sprintf("must not name a type other than %q", n.Type))
	}
	j.SetStatus(amboy.JobStatusInfo{})
	maxTime := j.TimeInfo().MaxTime
	if n.TimeToRun > 0 {
		maxTime = time.Duration(n.TimeToRun)
	}
	j.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: due, DispatchBy: deadline, MaxTime: maxTime})
	prioritized, ok := j.(amboy.Prioritized)
	switch {
	case n.Priority == 0:
	case !ok:
		return invalid("priority", fmt.Sprint(n.Priority), fmt.Sprintf("must be 0 for jobs of type %q", n.Type))
	default:
		prioritized.SetPriority(n.Priority)
	}
	return n.fillPlain(j)
}

// fillDefined fills a job that was made by a definition.
func (n NewJob) fillDefined(j defined, q amboy.Queue, id string, due, deadline time.Time) error {
	err := j.FillIn(q, id, due, deadline, n.jobOptions()...)
	if err == nil {
		return nil
	}
	if wrong := n.asInvalid(err); n.isSet() && wrong != err { //nolint:errorlint // It is the same error.
		return wrong
	}
	return invalid("args", string(n.Args), err.Error())
}
