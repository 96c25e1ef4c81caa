package queue

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

// argsReplacer is implemented by the jobs of job.Define, job.Declare and job.NewOutside.
type argsReplacer interface {
	amboy.Job
	ReplaceArgs(args []byte) error
}

// ErrFixedArgs is wrapped by the error of CheckArgs and ReplaceArgs for a job whose arguments
// can't be replaced in this process.
var ErrFixedArgs = errors.New("the arguments can't be replaced in this process")

// CheckArgs returns an error that wraps ErrFixedArgs if ReplaceArgs is not possible for a
// record.
func (s *Store) CheckArgs(r *driver.Record) error {
	_, err := s.withArgs(r)
	return err
}

// ReplaceArgs returns the body of a record with other arguments, encoded as its queue encodes
// jobs. The rest of the body stays as it is. The job must be one of job.Define, job.Declare or
// job.NewOutside, stored under the version of the type that this process has. If args are not
// arguments of the type, the error is an *amboy.InvalidJobError. ReplaceArgs stores nothing.
func (s *Store) ReplaceArgs(r *driver.Record, args json.RawMessage) (body registry.Body, err error) {
	j, err := s.withArgs(r)
	if err != nil {
		return registry.Body{}, err
	}
	err = contain.Panic(func() error { return j.ReplaceArgs(args) })
	if err != nil {
		return registry.Body{}, &amboy.InvalidJobError{JobID: r.JobID(), Field: "args", Value: string(args), Rule: fmt.Sprintf("must be the arguments of a job of type %q: %v", r.Type, err)}
	}
	form := s.formOf(r.Group)
	made, err := registry.MakeJobInterchange(j, form.Format)
	if err != nil {
		return registry.Body{}, err
	}
	replaced := *r
	replaced.Job, replaced.Result = made.Job, nil
	err = form.Seal(&replaced)
	return replaced.Job, err
}

// withArgs returns the job of a record, if its arguments can be replaced.
func (s *Store) withArgs(r *driver.Record) (argsReplacer, error) {
	if s.formOf == nil {
		return nil, fmt.Errorf("%w: %w", ErrFixedArgs, ErrByReference)
	}
	j, err := s.formOf(r.Group).Resolve(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFixedArgs, err)
	}
	replacer, ok := j.(argsReplacer)
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: type %q is not one of package job", ErrFixedArgs, r.Type)
	case j.Type().Version != r.Version:
		return nil, fmt.Errorf("%w: the job was put by version %d of its type, and this process has version %d", ErrFixedArgs, r.Version, j.Type().Version)
	default:
		return replacer, nil
	}
}
