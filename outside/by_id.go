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

// End ends a job by its ID as ack says, which must be Complete or Fail and whose token is
// ignored. It is for protocols whose clients have no tokens: nothing keeps a worker that lost
// its lease from ending the job, and the worker that has the lease then loses it. The job may
// wait, run or be parked. A failure that is not permanent is retried if the job allows it.
//
// The error wraps ErrEnded if the job has ended before. amboy.IsJobNotFoundError is true for it
// if the job does not exist. Otherwise it is as for Acknowledge. End blocks
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
	if ack.Complete == nil && ack.Fail == nil {
		return invalid("acknowledgement", "release or checkpoint", "must be complete or fail")
	}
	end := queue.LeaseEnd{Metadata: ack.Metadata}
	ack.end(&end)
	err = d.enter()
	if err != nil {
		return err
	}
	defer d.leave()
	was, err := d.leases.EndJob(ctx, queueName, id, end)
	if err == nil {
		d.held.forget(was)
	}
	return err
}

// bytesField is the field of the stored form of a result that is not text.
const bytesField = "bytes"

// storedBytes returns the stored form of a result of bytes. Text becomes a JSON string, so
// that others can read it, and any other bytes an object with base64.
func storedBytes(content []byte) json.RawMessage {
	if utf8.Valid(content) {
		text, err := json.Marshal(string(content))
		if err == nil && len(text) <= amboy.MaxResultBytes {
			return text
		}
	}
	encoded, err := json.Marshal(map[string][]byte{bytesField: content})
	if err != nil {
		panic(err) // bytes can always be encoded
	}
	return encoded
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
