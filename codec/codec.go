// Package codec transforms the arguments and results of jobs on their way to a store and
// back, for instance to encrypt them. A queue uses the Codec of its options (Codec in
// queue.DriverQueueOptions and queue.MongoDBOptions). NewAESGCM returns one that encrypts.
//
// A codec is given the stored form of a job, which contains its arguments and whatever else
// its type stores, and the stored form of its result. It is not given what queues and operators
// work with: the ID, type, tags, scopes, metadata, unique key, dependencies, times, errors,
// progress and log.
package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Codec encodes and decodes the arguments and results of jobs. It must be safe for
// concurrent use. It is called for each job that is put, read or ended, on the goroutine
// that does so, so it should not block for long. A panic is an error of that job.
type Codec interface {
	// Name identifies the codec. It is stored with each value, so it must never change. It
	// has from 1 to MaxNameBytes bytes.
	Name() string
	// Encode returns the form in which a value is stored, and the ID of the key that was
	// used, which is stored with it. The ID has up to MaxNameBytes bytes, and may be empty.
	// Encode must neither change nor keep plain. If it fails, the job is not put, or its end is
	// not stored and it runs again when its lease has run out. If it fails for the next attempt
	// of a job with an error that wraps ErrKeyUnavailable, that is tried again.
	Encode(field Field, plain []byte) (keyID string, encoded []byte, err error)
	// Decode returns the value that Encode was given for the same field. It must not change
	// encoded.
	//
	// If the key is not known, or can't be reached now, the error must wrap
	// ErrKeyUnavailable: then the job is left to another process, or tried again later. After
	// any other error the job is parked as one that can't be decoded.
	Decode(field Field, keyID string, encoded []byte) (plain []byte, err error)
}

// MaxNameBytes is the maximum length, in bytes, of the name of a codec and of the ID of a
// key.
const MaxNameBytes = 64

// Field identifies a stored value.
type Field struct {
	// Queue is the name of the job's queue in its store; empty for a queue that has a
	// store of its own. A codec can choose a tenant's key by it.
	Queue string
	// JobID is the job's ID, which all attempts share.
	JobID string
	// Type is the name of the job's type.
	Type string
	// Kind is the kind of the value.
	Kind Kind
}

// Kind is the kind of a stored value of a job.
type Kind string

// The kinds of values.
const (
	// KindJob is the stored form of the job: its arguments, or the payload of a job for
	// outside workers, or all fields that its type stores.
	KindJob Kind = "job"
	// KindResult is the job's result.
	KindResult Kind = "result"
)

// AssociatedData returns all of a field as bytes, for authenticated encryption: different
// fields have different bytes. What was encrypted for one job is then refused in another.
func (f Field) AssociatedData() []byte {
	var data []byte
	for _, part := range []string{string(f.Kind), f.Queue, f.JobID, f.Type} {
		data = binary.AppendUvarint(data, uint64(len(part)))
		data = append(data, part...)
	}
	return data
}

// ErrKeyUnavailable is wrapped by errors of Decode for a key that this process does not
// have, or can't use at the moment. The job is tried again, by any process, after 50 milliseconds
// to 5 seconds, or up to 50 seconds if very many wait. For one second in ten, this process leaves
// jobs of its type to others.
var ErrKeyUnavailable = errors.New("the key is not available")

// UnknownKeyError means that a codec does not have the key of a value. It wraps
// ErrKeyUnavailable.
type UnknownKeyError struct {
	// Codec is the name of the codec.
	Codec string
	// KeyID is the ID of the key.
	KeyID string
}

// Error names the codec and the key.
func (e *UnknownKeyError) Error() string {
	return fmt.Sprintf("codec %q of this process has no key %q", e.Codec, e.KeyID)
}

// Unwrap returns ErrKeyUnavailable.
func (e *UnknownKeyError) Unwrap() error { return ErrKeyUnavailable }
