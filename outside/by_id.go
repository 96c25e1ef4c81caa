package outside

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
)

// ErrEnded is wrapped by the error of End for a job that has ended already.
var ErrEnded = queue.ErrJobEnded

// End ends a job by its ID as ack says, which must be Complete or Fail, without a token.
// It is for protocols whose clients have no tokens: nothing keeps a worker that lost its
// lease from ending the job, and the worker that has the lease then loses it. The job may
// wait, run or be parked. A failure that is not permanent is retried if the job allows it.
//
// The error wraps ErrEnded if the job has ended before, and is a job not found if it does
// not exist (see amboy.IsJobNotFoundError). Otherwise it is as for Acknowledge. End blocks
// until the store has answered, or ctx ends.
func (d *Dispatcher) End(ctx context.Context, queueName, id string, ack Ack) error {
	if err := d.endByID(ctx, queueName, id, ack); err != nil {
		return fmt.Errorf("ending a job by its ID: %w", err)
	}
	return nil
}

func (d *Dispatcher) endByID(ctx context.Context, queueName, id string, ack Ack) error {
	err := errors.Join(ack.validate(d.opts.MaxPayload), d.serves(queueName))
	if err != nil {
		return err
	}
	var end queue.LeaseEnd
	switch {
	case ack.Complete != nil:
		end.Result = ack.Complete.result()
	case ack.Fail != nil:
		end.Failure, end.RetryIn = ack.Fail.err(), ack.Fail.RetryIn
	default:
		return invalid("acknowledgement", "release or checkpoint", "must be complete or fail")
	}
	leave, err := d.enter()
	if err != nil {
		return err
	}
	defer leave()
	was, err := d.leases.EndJob(ctx, queueName, id, end)
	if err == nil {
		d.held.forget(was)
	}
	return err
}

// TokenOf returns the token of the lease that a job has now. It returns false if no outside
// worker has the job. The error is a job not found if it does not exist.
func (d *Dispatcher) TokenOf(ctx context.Context, queueName, id string) (token Token, leased bool, err error) {
	r, err := d.leases.Get(ctx, queueName, id)
	if err != nil {
		return "", false, fmt.Errorf("reading the lease of job %q of queue %q: %w", id, queueName, err)
	}
	token = leaseOfRecord(r).token()
	_, err = d.leaseOf(token)
	return token, err == nil && r.Status.InProgress, nil //nolint:nilerr // The lease of another worker has no token.
}

// SetMetadata sets an entry of the metadata of a leased job, which must exist. The error
// wraps ErrLeaseLost for a lease that the worker no longer has, and ErrBadToken for a token
// that is none.
func (d *Dispatcher) SetMetadata(ctx context.Context, t Token, key, value string) error {
	l, err := d.leaseOf(t)
	if err == nil {
		err = d.leases.SetMetadata(ctx, l.jobID, l.Lease, key, value)
	}
	if err != nil {
		return fmt.Errorf("setting the metadata of a leased job: %w", err)
	}
	return nil
}

// bytesField is the field of the stored form of a result that is not text.
const bytesField = "bytes"

// result returns the result as it is stored. Bytes that are text become a JSON string, so
// that others can read them, and any other bytes an object with base64.
func (c *Complete) result() json.RawMessage {
	if c.Bytes == nil {
		return c.Result
	}
	encoded, err := json.Marshal(map[string][]byte{bytesField: c.Bytes})
	if err != nil {
		panic(err) // bytes can always be encoded
	}
	if !utf8.Valid(c.Bytes) {
		return encoded
	}
	text, err := json.Marshal(string(c.Bytes))
	if err != nil || len(text) > len(encoded) && len(text) > amboy.MaxResultBytes {
		return encoded
	}
	return text
}

// ResultBytes returns the result of a job that has ended: the bytes of Complete.Bytes, or
// otherwise the JSON of the result. It returns false if the job has no result.
func ResultBytes(j amboy.Job) ([]byte, bool) {
	own, ok := j.(amboy.ResultJob)
	if !ok {
		return nil, false
	}
	stored, ok := own.Result().(*json.RawMessage)
	if !ok || stored == nil {
		return nil, false
	}
	var text string
	if json.Unmarshal(*stored, &text) == nil && bytes.HasPrefix(*stored, []byte(`"`)) {
		return []byte(text), true
	}
	var form map[string]json.RawMessage
	var content []byte
	if json.Unmarshal(*stored, &form) == nil && len(form) == 1 && json.Unmarshal(form[bytesField], &content) == nil {
		return content, true
	}
	return *stored, true
}
