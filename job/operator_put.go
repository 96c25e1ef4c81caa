package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
)

// DecodeArgs decodes the arguments from JSON that an operator wrote. It refuses unknown
// fields.
func (j *typed[A]) DecodeArgs(args []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(args))
	decoder.DisallowUnknownFields()
	return decoder.Decode(&j.Arguments)
}

// ReplaceArgs replaces the arguments of a job that was put by JSON that an operator wrote. It
// refuses unknown fields. Scopes, tags and a unique key that were made from the arguments stay
// as they are. Package management calls it.
func (j *typed[A]) ReplaceArgs(args []byte) error {
	replaced := typed[A]{}
	if err := replaced.DecodeArgs(args); err != nil {
		return err
	}
	j.Arguments, j.payload = replaced.Arguments, nil
	if j.Outside {
		j.payload = args
	}
	return nil
}

// ReplaceArgs replaces the payload by JSON that an operator wrote.
func (j *outsideJob) ReplaceArgs(args []byte) error { return j.setPayload(Payload{JSON: args}) }

// FillIn completes a job whose arguments were decoded and which is about to be put in a
// queue. It sets the ID, the times, and everything else that New sets for a job with
// options. Package management calls both methods for jobs that operators put.
func (j *typed[A]) FillIn(q amboy.Queue, id string, due, deadline time.Time, opts ...Option) error {
	s := j.definition.settings.with(opts)
	s.id, s.waitUntil, s.dispatchBy = id, due, deadline
	j.Override = s.override
	if err := j.definition.apply(s, j, q); err != nil {
		return fmt.Errorf("making a job of type %q: %w", j.JobType.Name, withJobID(err, id))
	}
	return nil
}
