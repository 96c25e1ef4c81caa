package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
)

// DecodeArgs reads the arguments from JSON that a person wrote, in which there must be no
// field that they don't have.
func (j *typed[A]) DecodeArgs(args []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(args))
	decoder.DisallowUnknownFields()
	return decoder.Decode(&j.Arguments)
}

// FillIn gives a job whose arguments were decoded, and which is to be put in a queue, an
// ID, its times, and all else that New gives a job without options. Package management
// calls both, for jobs that people put.
func (j *typed[A]) FillIn(q amboy.Queue, id string, due, deadline time.Time) error {
	s := j.definition.settings
	s.id, s.waitUntil, s.dispatchBy = id, due, deadline
	if err := j.definition.apply(&s, j, q); err != nil {
		return fmt.Errorf("making a job of type %q: %w", j.JobType.Name, withJobID(err, id))
	}
	return nil
}
