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
