package job

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/outsideform"
)

// MaxPayloadBytes is the default of the maximum size of a payload.
const MaxPayloadBytes = 1 << 20

// Payload is what an outside worker is given to do: a JSON value or bytes. The zero Payload
// is the JSON value null.
type Payload struct {
	// JSON is a JSON value. It must be empty if Bytes is not nil.
	JSON json.RawMessage
	// Bytes are any bytes. They may be empty, but not nil, if the payload is not JSON.
	Bytes []byte
}

// Size returns the number of bytes.
func (p Payload) Size() int { return len(p.JSON) + len(p.Bytes) }

// Validate returns an *amboy.InvalidJobError for a payload that has both JSON and bytes,
// whose JSON is not valid, or that is larger than maxBytes.
func (p Payload) Validate(maxBytes int) error {
	refuse := func(value any, rule string) error {
		return &amboy.InvalidJobError{Field: "payload", Value: value, Rule: rule}
	}
	switch {
	case p.Bytes != nil && len(p.JSON) > 0:
		return refuse("both", "must be JSON or bytes")
	case p.Size() > maxBytes:
		return refuse(fmt.Sprintf("%d bytes", p.Size()), fmt.Sprintf("must be at most %d bytes long", maxBytes))
	case len(p.JSON) > 0 && !json.Valid(p.JSON):
		return refuse("invalid", "must be valid JSON")
	default:
		return nil
	}
}

// NewOutside makes a job for outside workers. The process does not have to know the type.
// If the type was made with Declare or Define, use that instead. The payload must not be
// changed from then on. Delays in the options count from now. NewOutside returns an
// *amboy.InvalidJobError for an invalid type, payload or option. A payload may have up to
// MaxPayloadBytes, unless the option PayloadLimit is given.
func NewOutside(t amboy.JobType, payload Payload, opts ...Option) (amboy.Job, error) {
	return newOutsideFor(nil, t, payload, opts)
}

// newOutsideFor makes a job whose delays count by the clock of a queue, which may be nil.
func newOutsideFor(q amboy.Queue, t amboy.JobType, payload Payload, opts []Option) (amboy.Job, error) {
	s := (settings{payloadLimit: MaxPayloadBytes}).with(opts)
	j := &outsideJob{Payload: payload}
	j.JobType = t
	err := validOutsideType(t)
	if err == nil {
		err = payload.Validate(s.payloadLimit)
	}
	if err == nil {
		err = s.apply(&j.typedBase, q)
	}
	if err == nil {
		err = s.unique.apply(&j.typedBase, q, j, j.Args())
	}
	if err != nil {
		return nil, fmt.Errorf("making a job of type %q: %w", t.Name, withJobID(err, s.id))
	}
	j.Override = s.override
	return j, nil
}

func validOutsideType(t amboy.JobType) error {
	switch {
	case t.Name == "":
		return &amboy.InvalidJobError{Field: "type", Value: "", Rule: "must not be empty"}
	case len(t.Name) > maxNameLength:
		return &amboy.InvalidJobError{Field: "type", Value: t.Name, Rule: fmt.Sprintf("must be at most %d bytes long", maxNameLength)}
	default:
		return nil
	}
}

// PayloadLimit sets the maximum size of the payload of a job of NewOutside, in bytes; it
// must be at least 1. Other jobs ignore it.
func PayloadLimit(maxBytes int) Option {
	return func(s *settings) {
		if maxBytes < 1 {
			s.invalid("payload limit", maxBytes, "must be at least 1")
		}
		s.payloadLimit = maxBytes
	}
}

// PayloadOf returns the payload of a job for outside workers, and false for another job.
func PayloadOf(j amboy.Job) (Payload, bool) {
	if !amboy.IsForOutside(j) {
		return Payload{}, false
	}
	own, ok := j.(interface{ getPayload() (Payload, error) })
	if !ok {
		return Payload{}, false
	}
	p, err := own.getPayload()
	return p, err == nil
}

func (j *typed[A]) getPayload() (Payload, error) {
	if j.payload != nil {
		return Payload{JSON: j.payload}, nil
	}
	args, err := json.Marshal(j.Arguments)
	return Payload{JSON: args}, err
}

// SetPayload replaces the payload of a job for outside workers. It returns an
// *amboy.InvalidJobError for another job, and for a payload that does not fit the type of
// the job's arguments.
func SetPayload(j amboy.Job, payload Payload) error {
	own, ok := j.(interface{ setPayload(Payload) error })
	if !ok || !amboy.IsForOutside(j) {
		return &amboy.InvalidJobError{JobID: j.ID(), Field: "type", Value: j.Type().Name, Rule: "must be that of a job for outside workers"}
	}
	if err := own.setPayload(payload); err != nil {
		return &amboy.InvalidJobError{JobID: j.ID(), Field: "payload", Value: fmt.Sprintf("%d bytes", payload.Size()), Rule: "must fit the type of the job's arguments: " + err.Error()}
	}
	return nil
}

func (j *typed[A]) setPayload(p Payload) error {
	if p.Bytes != nil {
		return errors.New("want JSON, got bytes")
	}
	var args A
	if err := json.Unmarshal(p.jsonOrNull(), &args); err != nil {
		return err
	}
	j.Arguments, j.payload = args, p.jsonOrNull()
	return nil
}

func (p Payload) jsonOrNull() json.RawMessage {
	if len(p.JSON) == 0 {
		return json.RawMessage("null")
	}
	return p.JSON
}

// outsideJob is a job for outside workers whose type this process does not have to know.
type outsideJob struct {
	typedBase
	Payload  Payload
	Override *override
	// stored is the stored form, if the job has not been changed since; nil otherwise.
	stored []byte
}

var (
	_ amboy.OutsideJob     = (*outsideJob)(nil)
	_ amboy.RetryPolicyJob = (*outsideJob)(nil)
	_ amboy.RetainedJob    = (*outsideJob)(nil)
	_ amboy.ResultJob      = (*outsideJob)(nil)
	_ amboy.ArgsJob        = (*outsideJob)(nil)
	_ amboy.UniqueJob      = (*outsideJob)(nil)
	_ outsideform.Form     = (*outsideJob)(nil)
)

func init() {
	outsideform.Register(func(typeName string, version int) any {
		j := &outsideJob{}
		j.JobType = amboy.JobType{Name: typeName, Version: version}
		return j
	})
}

// outsideBody is the stored form of an outsideJob. Args is the field of typed jobs, so that
// a process that has a definition of the type can run the job.
type outsideBody struct {
	Outside  bool            `json:"outside"`
	Args     json.RawMessage `json:"args,omitempty"`
	Bytes    *[]byte         `json:"bytes,omitempty"`
	Override *override       `json:"override,omitempty"`
}

// MarshalJSON encodes the stored form.
func (j *outsideJob) MarshalJSON() ([]byte, error) { return j.StoredForm() }

// StoredForm implements outsideform.Form.
func (j *outsideJob) StoredForm() ([]byte, error) {
	if j.stored != nil {
		return j.stored, nil
	}
	if j.Payload.Bytes != nil {
		return j.bytesForm()
	}
	return json.Marshal(outsideBody{Outside: true, Args: j.Payload.jsonOrNull(), Override: j.Override})
}

// bytesForm encodes the stored form of a job with bytes, as package encoding/json would.
func (j *outsideJob) bytesForm() ([]byte, error) {
	var override []byte
	if j.Override != nil {
		var err error
		if override, err = encodeOverride(j.Override); err != nil {
			return nil, err
		}
	}
	size := base64.StdEncoding.EncodedLen(len(j.Payload.Bytes))
	form := append(make([]byte, 0, len(bytesForm)+size+len(`"`)+len(overrideForm)+len(override)+len(`}`)), bytesForm...)
	form = append(base64.StdEncoding.AppendEncode(form, j.Payload.Bytes), '"')
	if override != nil {
		form = append(append(form, overrideForm...), override...)
	}
	return append(form, '}'), nil
}

// UnmarshalJSON decodes the stored form.
func (j *outsideJob) UnmarshalJSON(data []byte) error { return j.RestoreForm(bytes.Clone(data)) }

// RestoreForm implements outsideform.Form.
func (j *outsideJob) RestoreForm(data []byte) error {
	payload, own, err := decodeOutside(data)
	if err != nil {
		return err
	}
	j.Payload, j.Override, j.stored = payload, own, data
	return nil
}

// The beginnings of a stored form with bytes, and of the override that may follow them.
var (
	bytesForm    = []byte(`{"outside":true,"bytes":"`)
	overrideForm = []byte(`,"override":`)
)

func decodeOutside(data []byte) (Payload, *override, error) {
	if content, own, ok := decodeBytesForm(data); ok {
		return Payload{Bytes: content}, own, nil
	}
	var body outsideBody
	err := json.Unmarshal(data, &body)
	switch {
	case err != nil:
		return Payload{}, nil, err
	case body.Bytes != nil:
		return Payload{Bytes: *body.Bytes}, body.Override, nil
	case body.Args != nil:
		return Payload{JSON: body.Args}, body.Override, nil
	default:
		return Payload{}, nil, errNoArgs
	}
}

// decodeBytesForm decodes what bytesForm has encoded without package encoding/json, which takes
// several times as long. It returns false for any other form.
func decodeBytesForm(data []byte) (content []byte, own *override, ok bool) {
	form, ok := bytes.CutPrefix(data, bytesForm)
	if !ok {
		return nil, nil, false
	}
	text, rest, _ := bytes.Cut(form, []byte(`"`))
	content, err := base64.StdEncoding.AppendDecode(make([]byte, 0, base64.StdEncoding.DecodedLen(len(text))), text)
	if err != nil || base64.StdEncoding.EncodedLen(len(content)) != len(text) { // it contains line ends
		return nil, nil, false
	}
	rest, ok = bytes.CutSuffix(rest, []byte("}"))
	if !ok || len(rest) == 0 {
		return content, nil, ok
	}
	rest, ok = bytes.CutPrefix(rest, overrideForm)
	if !ok {
		return nil, nil, false
	}
	own, err = decodeOverride(rest)
	return content, own, err == nil
}

// lastRetention is the retention that encodeOverride encoded last.
var lastRetention atomic.Pointer[encodedRetention]

type encodedRetention struct {
	value amboy.Retention
	form  []byte // of an override that has only the retention
}

// encodeOverride returns the stored form of an override. It must not be changed.
func encodeOverride(own *override) ([]byte, error) {
	if own.RetryPolicy != nil || own.Retention == nil {
		return json.Marshal(own)
	}
	if last := lastRetention.Load(); last != nil && last.value == *own.Retention {
		return last.form, nil
	}
	form, err := json.Marshal(own)
	if err == nil {
		lastRetention.Store(&encodedRetention{value: *own.Retention, form: form})
	}
	return form, err
}

// lastOverride is the override that decodeOverride returned last. Jobs that are put by the same code
// often have the same.
var lastOverride atomic.Pointer[decodedOverride]

type decodedOverride struct {
	form  []byte
	value *override
}

// decodeOverride returns an override that must not be changed.
func decodeOverride(form []byte) (*override, error) {
	if last := lastOverride.Load(); last != nil && bytes.Equal(last.form, form) {
		return last.value, nil
	}
	decoded := decodedOverride{form: bytes.Clone(form)}
	err := json.Unmarshal(form, &decoded.value)
	if err == nil {
		lastOverride.Store(&decoded)
	}
	return decoded.value, err
}

func (j *outsideJob) ForOutside() bool { return true }

func (j *outsideJob) RunsHere() bool { return false }

// Run fails: the process has no function for the job.
func (j *outsideJob) Run(context.Context) { j.AddError(amboy.NonRetryable(ErrNotHere)) }

func (j *outsideJob) getPayload() (Payload, error) { return j.Payload, nil } //nolint:unparam // Typed jobs may fail.

func (j *outsideJob) setPayload(p Payload) error { //nolint:unparam // Typed jobs may fail.
	j.Payload, j.stored = p, nil
	return nil
}

// Args returns the payload, for comparison by job.Uniqueness.
func (j *outsideJob) Args() any {
	if j.Payload.Bytes != nil {
		return j.Payload.Bytes
	}
	return j.Payload.jsonOrNull()
}

// RetryPolicy returns the delay that the last run asked for, or the job's own policy.
func (j *outsideJob) RetryPolicy() amboy.RetryPolicy {
	if asked := j.askedDelay(); asked != nil {
		return asked
	}
	return j.Override.retryPolicy()
}

// Retention returns the job's own retention.
func (j *outsideJob) Retention() amboy.Retention {
	if j.Override == nil || j.Override.Retention == nil {
		return amboy.Retention{}
	}
	return *j.Override.Retention
}

// Result returns the result that a worker has sent; nil if there is none.
func (j *outsideJob) Result() any {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.result == nil && j.decodeResult != nil {
		var stored json.RawMessage
		if j.decodeResult(&stored) == nil {
			j.result = &stored
		}
	}
	return j.result
}

// SetResultJSON sets the result of a job for outside workers to a JSON value. It returns an
// *amboy.InvalidJobError if the job is not one, or if the value does not fit the type of
// the results of its definition. A result of a job whose definition has none is kept as it
// is.
func SetResultJSON(j amboy.Job, result json.RawMessage) error {
	own, ok := j.(interface{ setResultJSON(json.RawMessage) error })
	if !ok || !amboy.IsForOutside(j) {
		return &amboy.InvalidJobError{JobID: j.ID(), Field: "type", Value: j.Type().Name, Rule: "must be that of a job for outside workers"}
	}
	if err := own.setResultJSON(result); err != nil {
		return &amboy.InvalidJobError{JobID: j.ID(), Field: "result", Value: fmt.Sprintf("%d bytes", len(result)), Rule: "must fit the type of the definition's results: " + err.Error()}
	}
	return nil
}

func (j *outsideJob) setResultJSON(result json.RawMessage) error { //nolint:unparam // Typed jobs may fail.
	j.setResult(&result)
	return nil
}

func (j *typed[A]) setResultJSON(result json.RawMessage) error {
	if j.definition.newResult == nil {
		j.setResult(&result)
		return nil
	}
	into := j.definition.newResult()
	if err := json.Unmarshal(result, into); err != nil {
		return err
	}
	j.setResult(into)
	return nil
}
