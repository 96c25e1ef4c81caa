package outside

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue/driver"
)

// The limits of requests.
const (
	// MaxBatch is the maximum number of jobs of a lease, of acknowledgements and of
	// heartbeats in one call.
	MaxBatch = 1000
	// MaxNames is the maximum number of queues, and of types, of a lease.
	MaxNames = 100
	// MaxNameBytes is the maximum length of the name of a queue, a type or a worker.
	MaxNameBytes = 1024
	// MaxWait is the longest time that a lease waits for jobs.
	MaxWait = 10 * time.Minute
	// MinLease and MaxLease bound the length of a lease.
	MinLease = 100 * time.Millisecond
	MaxLease = 24 * time.Hour
	// DefaultLease is the length of a lease unless the worker asks for another.
	DefaultLease = time.Minute
	// MaxErrorBytes is the maximum size of the error of a failure, and MaxStackBytes that of
	// its stack. Longer texts are refused; of shorter ones a job keeps what
	// amboy.MaxAttemptErrorSize and amboy.MaxAttemptStackSize allow.
	MaxErrorBytes = 64 << 10
	MaxStackBytes = 64 << 10
	// MaxDelay is the longest delay of a retry, a release or a checkpoint.
	MaxDelay = 365 * 24 * time.Hour
)

// InvalidError means that a request is not valid.
type InvalidError struct {
	// Field is the invalid field.
	Field string
	// Value is the field's value.
	Value string
	// Rule is what the field must satisfy.
	Rule string
}

// Error names the field, its value and the rule.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("invalid request: %s %s (is %q)", e.Field, e.Rule, e.Value)
}

func invalid(field string, value any, rule string) error {
	text := fmt.Sprint(value)
	if len(text) > 100 {
		text = strings.ToValidUTF8(text[:100], "") + "…"
	}
	return &InvalidError{Field: field, Value: text, Rule: rule}
}

// LeaseRequest asks for jobs.
type LeaseRequest struct {
	// Queues are the queues to take jobs from, 1 to MaxNames. Each gets a turn.
	Queues []string
	// Types are the names of the types of jobs that the worker can run, from 1 to MaxNames.
	Types []string
	// Limit is the maximum number of jobs, from 1 to MaxBatch. Default: 1.
	Limit int
	// Wait is how long to wait for a job, at most MaxWait. 0 does not wait.
	Wait time.Duration
	// Lease is how long the leases last, from MinLease to MaxLease. Default: DefaultLease.
	Lease time.Duration
	// Worker names the worker for operators. It may be empty.
	Worker string
	// LeaseOf returns how long the lease of a job lasts, up to MaxLease; leases are never
	// shorter than Lease. It is for workers that can't renew their leases. It must not block.
	// Default: nil, all leases last for Lease.
	LeaseOf func(Job) time.Duration
	// LostFails ends the attempts of the leased jobs as failed if their leases run out, so
	// that a job without attempts left has failed then. Otherwise they are interruptions. A
	// Dispatcher ends the attempts of leases that it has taken, renewed or returned by Leased;
	// others end when the job would be leased next.
	LostFails bool
	// NoTokens leaves out the tokens, which take time to sign and to check. It is for workers that
	// acknowledge their jobs in this process, with Job.Ack.
	NoTokens bool
}

// Validate sets the defaults. It returns an *InvalidError for each field that is missing or
// out of range, joined.
func (r *LeaseRequest) Validate() error {
	if r.Limit == 0 {
		r.Limit = 1
	}
	if r.Lease == 0 {
		r.Lease = DefaultLease
	}
	errs := []error{validNames("queues", r.Queues, true), validNames("types", r.Types, false)}
	if r.Limit < 1 || r.Limit > MaxBatch {
		errs = append(errs, invalid("limit", r.Limit, fmt.Sprintf("must be from 1 to %d", MaxBatch)))
	}
	if r.Wait < 0 || r.Wait > MaxWait {
		errs = append(errs, invalid("wait", r.Wait, fmt.Sprintf("must be from 0 to %s", MaxWait)))
	}
	if r.Lease < MinLease || r.Lease > MaxLease {
		errs = append(errs, invalid("lease", r.Lease, fmt.Sprintf("must be from %s to %s", MinLease, MaxLease)))
	}
	if len(r.Worker) > MaxNameBytes || !utf8.ValidString(r.Worker) || strings.Contains(r.Worker, "\x00") {
		errs = append(errs, invalid("worker", r.Worker, fmt.Sprintf("must be UTF-8 without zero bytes, at most %d bytes long", MaxNameBytes)))
	}
	return errors.Join(errs...)
}

func validNames(field string, names []string, mayBeEmpty bool) error {
	if len(names) == 0 || len(names) > MaxNames {
		return invalid(field, len(names), fmt.Sprintf("must have from 1 to %d names", MaxNames))
	}
	seen := map[string]bool{}
	for _, name := range names {
		switch {
		case name == "" && !mayBeEmpty:
			return invalid(field, name, "must not be empty")
		case len(name) > MaxNameBytes || !utf8.ValidString(name):
			return invalid(field, name, fmt.Sprintf("must be UTF-8, at most %d bytes long", MaxNameBytes))
		case seen[name]:
			return invalid(field, name, "must be named once")
		}
		seen[name] = true
	}
	return nil
}

// Job is a leased job.
type Job struct {
	// Token identifies the lease; empty with LeaseRequest.NoTokens.
	Token Token
	// Queue, ID, Type and Version identify the job and its type.
	Queue   string
	ID      string
	Type    string
	Version int
	// Attempt numbers the attempt, from 0. MaxAttempts is the total number of attempts.
	Attempt, MaxAttempts int
	// Interruptions is how often the attempt was interrupted: how often its lease ran out.
	Interruptions int
	// Payload contains the arguments of the job.
	Payload job.Payload
	// LeaseEnds is when the lease runs out unless it is renewed.
	LeaseEnds time.Time
	// RunBy is when the job must have ended; zero for no limit.
	RunBy time.Time
	// Created is when this attempt was put.
	Created  time.Time
	Priority int
	Tags     []string
	Metadata map[string]string
	// Worker is the name of the worker that has the lease (see LeaseRequest.Worker).
	Worker string

	lease *lease         // what Token says; nil if the caller made the Job
	read  *driver.Record // the job as Leased has read it
}

// Ack is a worker's answer about a leased job. Exactly one of Complete, Fail, Release and
// Checkpoint must be set.
type Ack struct {
	// Token is the token of the job. It may be empty in an Ack that Job.Ack returned.
	Token Token
	// Complete ends the job as succeeded.
	Complete *Complete
	// Fail ends the attempt as failed.
	Fail *Fail
	// Release hands the job back. It is not an attempt.
	Release *Release
	// Checkpoint changes the job while the worker has it.
	Checkpoint *Checkpoint
	// Metadata are the changes of the job's metadata, which are stored with the
	// acknowledgement; an empty value removes a key. It must be empty for a Release.
	Metadata map[string]string
	// lease is what Token says, if this process knows it; nil otherwise.
	lease *lease
	// read is the job as it was just read; nil if it was not.
	read *driver.Record
}

// Complete ends a job as succeeded.
type Complete struct {
	// Result is the result, a JSON value; empty for none.
	Result json.RawMessage
	// Bytes is a result that is not JSON, at most amboy.MaxResultBytes long; nil for none. It
	// must be nil if Result is not empty. ResultBytes reads it.
	Bytes []byte
}

// Fail ends an attempt as failed.
type Fail struct {
	// Error is the message. It must not be empty.
	Error string
	// Stack is where the error happened. It may be empty.
	Stack string
	// Permanent ends the job, even if it has attempts left.
	Permanent bool
	// RetryIn is how long the next attempt waits; nil for the job's retry policy.
	RetryIn *time.Duration
	// Bytes are kept as the result of the job if it has failed for good; nil for none. They
	// are limited and read as Complete.Bytes.
	Bytes []byte
}

// Release hands a job back.
type Release struct {
	// Delay is how long the job waits. 0 makes it ready at once.
	Delay time.Duration
	// Reason is shown to operators while the job waits.
	Reason string
}

// Checkpoint changes a leased job. Ack.Metadata changes its metadata.
type Checkpoint struct {
	// Payload replaces the payload: every later run begins with the new one. nil leaves it.
	Payload *job.Payload
	// MaxAttempts is the new total number of attempts; 0 leaves it.
	MaxAttempts int
	// Again hands the job back, to run again later; nil if the worker continues.
	Again *Release
}

// validate checks an acknowledgement except for its token.
func (a *Ack) validate(maxPayload int) error {
	set := 0
	for _, is := range []bool{a.Complete != nil, a.Fail != nil, a.Release != nil, a.Checkpoint != nil} {
		if is {
			set++
		}
	}
	if set != 1 {
		return invalid("acknowledgement", set, "must be exactly one of complete, fail, release and checkpoint")
	}
	if a.Release != nil && len(a.Metadata) > 0 {
		return invalid("metadata", len(a.Metadata), "must be empty for a release")
	}
	switch {
	case a.Complete != nil:
		return a.Complete.validate()
	case a.Fail != nil:
		return a.Fail.validate()
	case a.Release != nil:
		return a.Release.validate()
	default:
		return a.Checkpoint.validate(maxPayload)
	}
}

func (c *Complete) validate() error {
	switch {
	case c.Bytes != nil && len(c.Result) > 0:
		return invalid("result", "both", "must be JSON or bytes")
	case len(c.Bytes) > amboy.MaxResultBytes:
		return invalid("result", len(c.Bytes), fmt.Sprintf("must be at most %d bytes long", amboy.MaxResultBytes))
	case len(c.Result) > amboy.MaxResultBytes:
		return invalid("result", len(c.Result), fmt.Sprintf("must be at most %d bytes long", amboy.MaxResultBytes))
	case len(c.Result) > 0 && !json.Valid(c.Result):
		return invalid("result", string(c.Result), "must be valid JSON")
	default:
		return nil
	}
}

func (f *Fail) validate() error {
	switch {
	case f.Error == "" || len(f.Error) > MaxErrorBytes:
		return invalid("error", f.Error, fmt.Sprintf("must be from 1 to %d bytes long", MaxErrorBytes))
	case len(f.Bytes) > amboy.MaxResultBytes:
		return invalid("result", len(f.Bytes), fmt.Sprintf("must be at most %d bytes long", amboy.MaxResultBytes))
	case len(f.Stack) > MaxStackBytes:
		return invalid("stack", len(f.Stack), fmt.Sprintf("must be at most %d bytes long", MaxStackBytes))
	case f.RetryIn != nil && (*f.RetryIn < 0 || *f.RetryIn > MaxDelay):
		return invalid("retry_in", *f.RetryIn, fmt.Sprintf("must be from 0 to %s", MaxDelay))
	case f.RetryIn != nil && f.Permanent:
		return invalid("retry_in", *f.RetryIn, "must not be set for a permanent failure")
	default:
		return nil
	}
}

func (r *Release) validate() error {
	switch {
	case r.Delay < 0 || r.Delay > MaxDelay:
		return invalid("delay", r.Delay, fmt.Sprintf("must be from 0 to %s", MaxDelay))
	case len(r.Reason) > MaxNameBytes:
		return invalid("reason", r.Reason, fmt.Sprintf("must be at most %d bytes long", MaxNameBytes))
	default:
		return nil
	}
}

func (c *Checkpoint) validate(maxPayload int) error {
	if c.Payload != nil {
		if err := c.Payload.Validate(maxPayload); err != nil {
			return err
		}
	}
	if c.MaxAttempts < 0 {
		return invalid("max_attempts", c.MaxAttempts, "must not be negative")
	}
	if c.Again != nil {
		return c.Again.validate()
	}
	return nil
}

// Beat renews the lease of a job.
type Beat struct {
	Token Token
	// Progress is how far the job has come; nil if that did not change.
	Progress *Progress
	// Log are lines to add to the job's log.
	Log []string
}

// Progress is how far a job has come.
type Progress struct {
	// Fraction is the part of the work that is done, from 0 to 1.
	Fraction float64
	// Message describes the progress to operators.
	Message string
}

func (b *Beat) validate() error {
	switch {
	case b.Progress != nil && !(b.Progress.Fraction >= 0 && b.Progress.Fraction <= 1):
		return invalid("fraction", b.Progress.Fraction, "must be from 0 to 1")
	case len(b.Log) > amboy.MaxLogLines:
		return invalid("log", len(b.Log), fmt.Sprintf("must have at most %d lines", amboy.MaxLogLines))
	default:
		return nil
	}
}

// Beaten is the answer to a Beat.
type Beaten struct {
	// Err is why the lease was not renewed; nil if it was. It wraps ErrLeaseLost if the
	// worker should stop working on the job.
	Err error
	// LeaseEnds is when the renewed lease runs out.
	LeaseEnds time.Time
	// Cancel is true if the job is to be canceled. The worker should stop and acknowledge it
	// as failed, which ends it as canceled.
	Cancel bool
}

// failure is the error of an attempt that a worker reports.
type failure struct {
	text  string
	stack *amboy.PanicError // carries the stack; nil if there is none
}

func (f *Fail) err() error {
	e := &failure{text: strings.ToValidUTF8(f.Error, "?")}
	if f.Stack != "" {
		e.stack = &amboy.PanicError{Value: e.text, Stack: []byte(strings.ToValidUTF8(f.Stack, "?"))}
	}
	if f.Permanent {
		return amboy.NonRetryable(e)
	}
	return e
}

func (e *failure) Error() string { return e.text }

// As lets a job keep the stack.
func (e *failure) As(target any) bool {
	into, ok := target.(**amboy.PanicError)
	if !ok || e.stack == nil {
		return false
	}
	*into = e.stack
	return true
}
