package management

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/registry"
	"github.com/mongodb/amboy/retry"
)

// The limits of the options of a NewJob.
const (
	// MaxJobNames is the maximum number of tags, of scopes, of metadata and of jobs to run
	// after.
	MaxJobNames = 1000
	// MaxMetadataBytes is the maximum size of all metadata.
	MaxMetadataBytes = 64 << 10
)

// Duration is a time.Duration that is a text such as "1m30s" in JSON.
type Duration time.Duration

// MarshalJSON encodes the duration as time.Duration.String does.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON decodes a text as time.ParseDuration does.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("%s (is %.100s)", durationRule, data)
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return &durationError{text}
	}
	*d = Duration(parsed)
	return nil
}

const durationRule = `must be a duration such as "10s"`

// durationError means that a text is no duration.
type durationError struct{ text string }

// Error says what the text must be.
func (e *durationError) Error() string { return fmt.Sprintf("%s (is %.100q)", durationRule, e.text) }

// Invalid returns the text and the rule, for the answer to a request that contains it.
func (e *durationError) Invalid() (text, rule string) { return e.text, durationRule }

// String returns the text of time.Duration.String.
func (d Duration) String() string { return time.Duration(d).String() }

// JobOptions are the options of a NewJob. Zero fields mean what the definition of the type
// says, or otherwise the default of package job.
type JobOptions struct {
	// Outside makes a job for workers outside of Go programs (see package outside). Its type
	// does not have to be registered; if it is, it must be one of job.Declare. The queue is
	// made if it does not exist.
	Outside bool `json:"outside,omitempty" description:"Whether the job is for workers outside of Go programs. Its type does not have to be registered, and the queue is made if it does not exist."`
	// Version is the version of the type of a job with Outside whose type is not registered.
	// Default: 1.
	Version int `json:"version,omitempty" minimum:"0" description:"The version of the type, if that is not registered; the default is 1"`
	// Bytes are the payload of a job with Outside, in place of Args.
	Bytes []byte `json:"bytes,omitempty" description:"The payload of a job for outside workers in base64, if it is not JSON in args"`

	MaxAttempts      int `json:"max_attempts,omitempty" minimum:"0" description:"The total number of attempts"`
	MaxInterruptions int `json:"max_interruptions,omitempty" minimum:"0" description:"How often an attempt may be interrupted before the job is parked"`
	// Backoff is how long the next attempt waits.
	Backoff *Backoff `json:"backoff,omitempty"`
	// TimeToRun is how long an attempt may run.
	TimeToRun Duration `json:"time_to_run,omitempty" description:"How long an attempt may run"`
	// TimeToLive sets the deadline of the first attempt: that long after the job is due. It
	// must be zero if Deadline is set.
	TimeToLive Duration `json:"time_to_live,omitempty" description:"How long after it is due the job may start; it sets the deadline"`
	// UniqueKey refuses the job while another job of the queue and type has the same key,
	// until what UniqueUntil says.
	UniqueKey   string            `json:"unique_key,omitempty" description:"The job is refused while another job of the queue and the type has the same key"`
	UniqueUntil amboy.UniqueUntil `json:"unique_until,omitempty" description:"How long the job keeps its unique key; the default is until it has ended"`
	Tags        []string          `json:"tags,omitempty" maxItems:"1000"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	// Scopes are the locks that the job holds while it runs or, with EnqueueScopes, from when
	// it is created.
	Scopes        []string `json:"scopes,omitempty" maxItems:"1000" description:"The locks that the job holds while it runs"`
	EnqueueScopes bool     `json:"enqueue_scopes,omitempty" description:"Whether the job takes its scopes when it is created"`
	// After are the IDs of jobs of the queue that must succeed first.
	After []string `json:"after,omitempty" maxItems:"1000" description:"The IDs of jobs of the queue that must succeed first"`
	// Keep is how long the job is kept after its end.
	Keep *Keep `json:"keep,omitempty"`
}

// Backoff is how long the attempts after the first wait: Wait, and each time Factor times
// as long, up to Max.
type Backoff struct {
	Wait Duration `json:"wait" description:"How long the second attempt waits"`
	// Factor is at least 1. Default: 1.
	Factor float64 `json:"factor,omitempty" minimum:"1" description:"By which the wait is multiplied from then on; the default is 1"`
	// Max bounds the wait. Default: no bound for a factor of 1, otherwise that of package
	// retry.
	Max Duration `json:"max,omitempty" description:"The longest wait"`
	// Jitter is the part of the wait that is random, from 0 to 1.
	Jitter float64 `json:"jitter,omitempty" minimum:"0" maximum:"1" description:"The part of the wait that is random"`
}

// Keep is how long a job is kept after its end, by its final state. Zero means the setting
// of the queue.
type Keep struct {
	// Succeeded, Failed, Canceled and Expired are for how long a job is kept that ended in that
	// state. Default: the setting of the queue.
	Succeeded Duration `json:"succeeded,omitempty"`
	Failed    Duration `json:"failed,omitempty"`
	Canceled  Duration `json:"canceled,omitempty"`
	Expired   Duration `json:"expired,omitempty"`
}

// isSet reports whether any option is set.
func (o *JobOptions) isSet() bool {
	form, err := json.Marshal(o)
	return err != nil || string(form) != "{}"
}

func (n *NewJob) validateOptions() error {
	var errs []error
	refuse := func(field string, value any, rule string) {
		errs = append(errs, invalid(field, fmt.Sprint(value), rule))
	}
	for field, d := range map[string]Duration{"time_to_run": n.TimeToRun, "time_to_live": n.TimeToLive} {
		if d < 0 {
			refuse(field, d, "must not be negative")
		}
	}
	for field, number := range map[string]int{"max_attempts": n.MaxAttempts, "max_interruptions": n.MaxInterruptions} {
		if number < 0 {
			refuse(field, number, "must not be negative")
		}
	}
	if n.TimeToLive > 0 && !n.Deadline.IsZero() {
		refuse("time_to_live", n.TimeToLive, "must not be set if there is a deadline")
	}
	if n.TimeToLive > 0 && validTime("", n.Due.Add(time.Duration(n.TimeToLive))) != nil {
		refuse("time_to_live", n.TimeToLive, "must end in a year up to 9999, in UTC")
	}
	for field, names := range map[string][]string{
		"tags": n.Tags, "scopes": n.Scopes, "after": n.After, "metadata": slices.Collect(maps.Keys(n.Metadata)),
	} {
		if len(names) > MaxJobNames {
			refuse(field, len(names), fmt.Sprintf("must be at most %d", MaxJobNames))
		}
		for _, name := range names {
			switch {
			case name == "" || len(name) > amboy.MaxIDLength:
				refuse(field, name, fmt.Sprintf("must be texts of 1 to %d bytes", amboy.MaxIDLength))
			case !utf8.ValidString(name):
				refuse(field, fmt.Sprintf("%q", name), "must be UTF-8")
			}
		}
	}
	size := 0
	for key, value := range n.Metadata {
		size += len(key) + len(value)
		switch {
		case value == "":
			refuse("metadata", key, "must not have empty values")
		case strings.Contains(key, "\x00"):
			refuse("metadata", fmt.Sprintf("%q", key), "must have keys without zero bytes")
		case !utf8.ValidString(value):
			refuse("metadata", fmt.Sprintf("%q", value), "must be UTF-8")
		}
	}
	if size > MaxMetadataBytes {
		refuse("metadata", size, fmt.Sprintf("must have at most %d bytes", MaxMetadataBytes))
	}
	if k := n.Keep; k != nil {
		for field, d := range map[string]Duration{"keep.succeeded": k.Succeeded, "keep.failed": k.Failed, "keep.canceled": k.Canceled, "keep.expired": k.Expired} {
			if d < 0 && d != Duration(amboy.KeepForever) {
				refuse(field, d, "must not be negative")
			}
		}
	}
	if b := n.Backoff; b != nil {
		for field, d := range map[string]Duration{"backoff.wait": b.Wait, "backoff.max": b.Max} {
			if d < 0 {
				refuse(field, d, "must not be negative")
			}
		}
		if b.Factor != 0 && !(b.Factor >= 1) { // also not a number
			refuse("backoff.factor", b.Factor, "must be at least 1")
		}
		if !(b.Jitter >= 0 && b.Jitter <= 1) {
			refuse("backoff.jitter", b.Jitter, "must be from 0 to 1")
		}
	}
	switch {
	case !n.Outside && (len(n.Bytes) > 0 || n.Version != 0):
		refuse("outside", false, "must be true for a job with bytes or a version")
	case len(n.Bytes) > 0 && len(n.Args) > 0:
		refuse("bytes", fmt.Sprintf("%d bytes", len(n.Bytes)), "must not be set if there are args")
	case len(n.Bytes) > MaxArgsBytes:
		refuse("bytes", fmt.Sprintf("%d bytes", len(n.Bytes)), fmt.Sprintf("must be at most %d bytes long", MaxArgsBytes))
	case n.Version < 0:
		refuse("version", n.Version, "must not be negative")
	case n.EnqueueScopes && len(n.Scopes) == 0:
		refuse("enqueue_scopes", true, "must come with scopes")
	}
	return errors.Join(errs...)
}

// jobOptions returns the options as those of package job.
func (n *NewJob) jobOptions() (opts []job.Option) {
	o := &n.JobOptions
	if n.Priority != 0 {
		opts = append(opts, job.Priority(n.Priority))
	}
	if o.MaxAttempts != 0 {
		opts = append(opts, job.MaxAttempts(o.MaxAttempts))
	}
	if o.MaxInterruptions != 0 {
		opts = append(opts, job.MaxInterruptions(o.MaxInterruptions))
	}
	if o.Backoff != nil {
		opts = append(opts, job.RetryPolicy(o.Backoff.policy()))
	}
	if o.TimeToRun != 0 {
		opts = append(opts, job.Timeout(time.Duration(o.TimeToRun)))
	}
	if o.UniqueKey != "" || o.UniqueUntil != "" {
		opts = append(opts, job.Unique(job.Uniqueness{Key: o.UniqueKey, Until: o.UniqueUntil}))
	}
	if len(o.Tags) > 0 {
		opts = append(opts, job.Tags(o.Tags...))
	}
	if len(o.Metadata) > 0 {
		opts = append(opts, job.Metadata(o.Metadata))
	}
	if len(o.Scopes) > 0 {
		opts = append(opts, job.Scopes(o.Scopes...))
	}
	if o.EnqueueScopes {
		opts = append(opts, job.EnqueueScopes(true))
	}
	if len(o.After) > 0 {
		opts = append(opts, job.After(o.After...))
	}
	if o.Keep != nil {
		opts = append(opts, job.Retention(o.Keep.retention()))
	}
	return opts
}

func (b *Backoff) policy() amboy.RetryPolicy {
	if b.Factor == 0 || b.Factor == 1 {
		if b.Jitter == 0 && b.Max == 0 {
			return retry.Fixed{Wait: time.Duration(b.Wait)}
		}
		return retry.Exponential{Base: time.Duration(b.Wait), Factor: 1, Max: time.Duration(b.Max), Jitter: b.Jitter}
	}
	return retry.Exponential{Base: time.Duration(b.Wait), Factor: b.Factor, Max: time.Duration(b.Max), Jitter: b.Jitter}
}

func (k *Keep) retention() amboy.Retention {
	return amboy.Retention{
		Succeeded: time.Duration(k.Succeeded), Failed: time.Duration(k.Failed),
		Canceled: time.Duration(k.Canceled), Expired: time.Duration(k.Expired),
	}
}

// times returns when the job is due, and its deadline.
func (n *NewJob) times(now time.Time) (due, deadline time.Time) {
	if n.TimeToLive == 0 {
		return n.Due, n.Deadline
	}
	from := n.Due
	if from.Before(now) {
		from = now
	}
	return n.Due, from.Add(time.Duration(n.TimeToLive))
}

// buildOutside makes a job for outside workers whose type is not registered.
func (n *NewJob) buildOutside(q amboy.Queue, id string) (amboy.Job, error) {
	version := n.Version
	if version == 0 {
		version = 1
	}
	due, deadline := n.times(amboy.Now(q))
	opts := append(n.jobOptions(), job.ID(id), job.At(due), job.DispatchBy(deadline))
	j, err := job.NewOutside(amboy.JobType{Name: n.Type, Version: version}, job.Payload{JSON: n.Args, Bytes: n.Bytes}, opts...)
	return j, n.asInvalid(err)
}

// asInvalid returns an *InvalidArgumentError for an *amboy.InvalidJobError.
func (n *NewJob) asInvalid(err error) error {
	var wrong *amboy.InvalidJobError
	if errors.As(err, &wrong) {
		return invalid(wrong.Field, fmt.Sprint(wrong.Value), wrong.Rule)
	}
	return err
}

// fillPlain applies the options to a job that was not made by a definition.
func (n *NewJob) fillPlain(j amboy.Job) error {
	o := &n.JobOptions
	refuse := func(field string) error {
		return invalid(field, "set", fmt.Sprintf("is not possible for jobs of type %q", n.Type))
	}
	switch {
	case o.Backoff != nil:
		return refuse("backoff")
	case o.Keep != nil:
		return refuse("keep")
	case o.UniqueKey != "" || o.UniqueUntil != "":
		return refuse("unique_key")
	}
	if len(o.Tags) > 0 {
		tagged, ok := j.(interface{ SetTags([]string) })
		if !ok {
			return refuse("tags")
		}
		tagged.SetTags(o.Tags)
	}
	if len(o.Metadata) > 0 {
		holder, ok := j.(amboy.MetadataJob)
		if !ok {
			return refuse("metadata")
		}
		for key, value := range o.Metadata {
			holder.SetMetadata(key, value)
		}
	}
	if len(o.Scopes) > 0 {
		j.SetScopes(o.Scopes)
		j.SetEnqueueAllScopes(o.EnqueueScopes)
	}
	if o.MaxAttempts != 0 || o.MaxInterruptions != 0 {
		retried := o.MaxAttempts > 1
		change := amboy.JobRetryOptions{MaxInterruptions: &o.MaxInterruptions}
		if o.MaxAttempts != 0 {
			change.MaxAttempts, change.Retryable = &o.MaxAttempts, &retried
		}
		j.UpdateRetryInfo(change)
	}
	for _, id := range o.After {
		if err := j.Dependency().AddEdge(id); err != nil {
			return invalid("after", id, err.Error())
		}
	}
	return nil
}

// checkType returns an error for a type of which no job can be put.
func (n *NewJob) checkType() error {
	_, err := registry.GetJobFactory(n.Type)
	isRegistered := err == nil
	switch {
	case !isRegistered && !n.Outside:
		return invalid("type", n.Type, "must be registered in this process, unless the job is for outside workers")
	case isRegistered && n.Outside && registry.HasFunction(n.Type):
		return invalid("outside", "true", fmt.Sprintf("must be false for type %q, which runs in this process", n.Type))
	}
	return nil
}
