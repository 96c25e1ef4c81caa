package management

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

const (
	idempotencyKind = "idempotency"
	// idempotencyTime is how long a request is remembered.
	idempotencyTime = 24 * time.Hour
)

// request is what is stored about a request with an idempotency key. It is stored before
// the job is put, so that a repetition puts the same job if the process dies in between.
type request struct {
	// Hash is a digest of the request's contents.
	Hash string `json:"hash"`
	// ID is the ID of the job.
	ID string `json:"id"`
	// Done is true when the job was put.
	Done bool `json:"done"`
	// Refused is true if the job was refused, so that a request with other contents may use the key.
	// One with the same contents continues this one, because a repetition may have put the job.
	Refused bool `json:"refused,omitempty"`
}

// claimKey returns the stored request with the idempotency key of a job: this one, or an
// earlier one. If the earlier one had other contents and was not refused, it returns an
// *InvalidArgumentError.
func (i *inspector) claimKey(ctx context.Context, job NewJob, id string) (kept request, isNew bool, err error) {
	values := []any{job.Type, job.ID, job.Args, job.Priority, job.Due, job.Deadline}
	if job.isSet() { // else the digest is that of versions without options
		values = append(values, job.JobOptions)
	}
	hash, err := digest(values...)
	if err != nil {
		return request{}, false, err
	}
	wanted := request{Hash: hash, ID: id}
	note, err := i.requestNote(job, wanted)
	if err != nil {
		return request{}, false, err
	}
	found, isNew, err := i.store.Admin().KeepNew(ctx, note, i.store.Now())
	if err != nil {
		return request{}, false, err
	}
	if err := json.Unmarshal(found.Value, &kept); err != nil {
		return request{}, false, fmt.Errorf("reading note %q of kind %q: %w", found.Key, found.Kind, err)
	}
	if kept.Hash == hash {
		return kept, isNew, nil
	}
	if kept.Refused {
		replaced, err := i.store.Admin().Replace(ctx, note, found.Value)
		if err != nil || replaced {
			return wanted, true, err
		}
	}
	return request{}, false, invalid("idempotency_key", job.IdempotencyKey, "was used by an earlier request with other contents")
}

func (i *inspector) requestNote(job NewJob, r request) (driver.Note, error) {
	key, err := digest(job.Queue, job.IdempotencyKey)
	if err != nil {
		return driver.Note{}, err
	}
	value, err := json.Marshal(r)
	return driver.Note{Kind: idempotencyKind, Key: key, Value: value, Until: i.store.Now().Add(idempotencyTime)}, err
}

// keepRequest replaces the stored request.
func (i *inspector) keepRequest(ctx context.Context, job NewJob, r request) error {
	note, err := i.requestNote(job, r)
	if err != nil {
		return err
	}
	return i.store.Admin().Keep(ctx, note)
}

// refuseKey marks a stored request, whose job was not put, as refused.
func (i *inspector) refuseKey(ctx context.Context, job NewJob, r request) error {
	open, err := i.requestNote(job, r)
	if err != nil {
		return err
	}
	r.Refused = true
	refused, err := i.requestNote(job, r)
	if err == nil {
		_, err = i.store.Admin().Replace(ctx, refused, open.Value) // unless a repetition has put the job meanwhile
	}
	return err
}

// forgetKey deletes the stored request, so that the next one with the key is a new one.
func (i *inspector) forgetKey(ctx context.Context, job NewJob) error {
	key, err := digest(job.Queue, job.IdempotencyKey)
	if err != nil {
		return err
	}
	return i.store.Admin().Drop(ctx, idempotencyKind, key)
}

// digest returns a digest of values. It encodes them so that none runs into the next.
func digest(values ...any) (string, error) {
	form, err := json.Marshal(values)
	if err != nil {
		return "", fmt.Errorf("encoding a request: %w", err)
	}
	sum := sha256.Sum256(form)
	return hex.EncodeToString(sum[:]), nil
}
