package engine

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/codec"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/envelope"
	"github.com/mongodb/amboy/registry"
)

// StoredForm is how a queue encodes jobs: in a format, and then by a codec, which is nil for
// none.
type StoredForm struct {
	Format amboy.Format
	Codec  codec.Codec
}

// Seal encodes the body and the result of a record by the codec, before the record is stored.
// The record must have the name under which it is stored.
func (f StoredForm) Seal(r *driver.Record) error { return f.sealAfter(r, nil) }

// sealAfter is Seal for a record that replaces before, which may be nil. A body that has not
// changed stays as it was stored, because a store may write a change of it at a higher cost.
func (f StoredForm) sealAfter(r, before *driver.Record) error {
	if f.Codec == nil {
		return nil
	}
	sealed, err := f.sealed(r, codec.KindJob, r.Job)
	if err != nil {
		return err
	}
	if before != nil && f.isUnchanged(r, before, sealed) {
		sealed = before.Job
	}
	r.Job = sealed
	if r.Result == nil {
		return nil
	}
	result, err := f.sealed(r, codec.KindResult, *r.Result)
	r.Result = &result
	return err
}

// isUnchanged reports whether the body of a record, which was just sealed, is that of an
// earlier record, sealed with the same key.
func (f StoredForm) isUnchanged(r, before *driver.Record, sealed registry.Body) bool {
	if fieldOf(r, codec.KindJob) != fieldOf(before, codec.KindJob) || !envelope.SameKey(before.Job, sealed) {
		return false
	}
	was, err := f.opened(before, codec.KindJob, before.Job)
	return err == nil && was.IsJSON() == r.Job.IsJSON() && bytes.Equal(was.Raw(), r.Job.Raw())
}

// sealed encodes a body by the codec. A body that was read from the store may be sealed
// already.
func (f StoredForm) sealed(r *driver.Record, kind codec.Kind, body registry.Body) (registry.Body, error) {
	if body.IsSealed() || body.IsZero() {
		return body, nil
	}
	sealed, err := envelope.Seal(f.Codec, fieldOf(r, kind), body)
	if err != nil {
		return registry.Body{}, fmt.Errorf("encoding the stored %s of job %q of type %q: %w", kind, r.JobID(), r.Type, err)
	}
	return sealed, nil
}

// Open returns a record as it was before Seal. It returns r itself if that has no sealed
// parts.
func (f StoredForm) Open(r *driver.Record) (*driver.Record, error) {
	if !isSealed(r) {
		return r, nil
	}
	opened := *r
	var err error
	if opened.Job, err = f.opened(r, codec.KindJob, r.Job); err != nil {
		return nil, err
	}
	if r.Result != nil {
		result, err := f.opened(r, codec.KindResult, *r.Result)
		if err != nil {
			return nil, err
		}
		opened.Result = &result
	}
	return &opened, nil
}

func isSealed(r *driver.Record) bool {
	return r.Job.IsSealed() || (r.Result != nil && r.Result.IsSealed())
}

func (f StoredForm) opened(r *driver.Record, kind codec.Kind, body registry.Body) (registry.Body, error) {
	if !body.IsSealed() {
		return body, nil
	}
	plain, err := envelope.Open(f.Codec, fieldOf(r, kind), body)
	switch {
	case err == nil:
		return plain, nil
	case errors.Is(err, codec.ErrKeyUnavailable):
		return registry.Body{}, fmt.Errorf("this process can't read the stored %s of job %q of type %q: %w", kind, r.JobID(), r.Type, err)
	default:
		return registry.Body{}, &registry.MalformedError{JobID: r.JobID(), Type: r.Type, Err: fmt.Errorf("its %s: %w", kind, err)}
	}
}

// fieldOf identifies a part of a record. It depends only on what is stored, and is the same
// for all attempts of a job.
func fieldOf(r *driver.Record, kind codec.Kind) codec.Field {
	id := r.Name
	if r.Group != "" {
		id = strings.TrimPrefix(id, r.Group+".")
	}
	if r.RetryInfo.Retryable {
		id = strings.TrimPrefix(id, driver.RecordName("", "", r.RetryInfo))
	}
	return codec.Field{Queue: r.Group, JobID: id, Type: r.Type, Kind: kind}
}

// Resolve decodes the job of a record.
func (f StoredForm) Resolve(r *driver.Record) (amboy.Job, error) {
	r, err := f.Open(r)
	if err != nil {
		return nil, err
	}
	return r.Resolve(f.Format)
}

// Again returns a record that is sealed as the queue seals now, or nil if r already is.
func (f StoredForm) Again(r *driver.Record) (*driver.Record, error) {
	if f.Codec == nil || r.Job.IsZero() {
		return nil, nil
	}
	opened, err := f.Open(r)
	if err != nil {
		return nil, err
	}
	again := *opened
	if err := f.Seal(&again); err != nil {
		return nil, err
	}
	if envelope.SameKey(r.Job, again.Job) {
		return nil, nil
	}
	return &again, nil
}
