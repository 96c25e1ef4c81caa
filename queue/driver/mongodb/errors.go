package mongodb

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// The server's error codes that mean something to this driver. See
// https://www.mongodb.com/docs/manual/reference/error-codes/.
const (
	codeBadValue          = 2
	codeNamespaceNotFound = 26
	codeMaxTimeExpired    = 50
	codeWriteConflict     = 112
	codeDocumentTooLarge  = 10334
	codeDuplicateKey      = 11000
	codeUpdateTooLarge    = 17419
)

// transientCodes are those of a server that can't do it now: it goes away, is not
// the primary any more, or has lost others. A call that failed with one may have
// been done all the same.
var transientCodes = []int{6, 7, 89, 91, 134, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436}

// maxDocumentSize is the size of a document, at most. It is one of the server's
// limits.
const maxDocumentSize = 16 << 20

// labelTransient is that of an error of a transaction that may be tried again,
// and labelUnknownCommit that of a commit that may have been done.
const (
	labelTransient     = "TransientTransactionError"
	labelUnknownCommit = "UnknownTransactionCommitResult"
)

// isTransient tells an error after which the same call may work, whether it was
// done or not.
func isTransient(err error) bool {
	if mongo.IsNetworkError(err) {
		return true
	}
	var failure mongo.ServerError
	return errors.As(err, &failure) && slices.ContainsFunc(transientCodes, failure.HasErrorCode)
}

// isConflict tells the error of a call that another one came in the way of, and
// that did nothing.
func isConflict(err error) bool {
	var failure mongo.ServerError
	return errors.As(err, &failure) && failure.HasErrorCode(codeWriteConflict)
}

// hasLabel tells whether an error of the server has a label.
func hasLabel(err error, label string) bool {
	var failure mongo.LabeledError
	return errors.As(err, &failure) && failure.HasErrorLabel(label)
}

// unknown is the error of a change of which it is not known whether it was made.
func unknown(err error) error { return fmt.Errorf("%w: %w", driver.ErrOutcomeUnknown, err) }

// failed is the error of a change that was sent, and for which there was no good
// answer. Where the server has refused it, nothing was changed.
func failed(ctx context.Context, err error) error {
	var failure mongo.ServerError
	var bulk mongo.BulkWriteException
	switch {
	case errors.Is(err, mongo.ErrClientDisconnected):
		return fmt.Errorf("%w: %w", driver.ErrClosed, err)
	case errors.As(err, &bulk) && bulk.WriteConcernError != nil:
		return unknown(err) // it may be undone when there is another primary
	case ctx.Err() != nil || isTransient(err) || mongo.IsTimeout(err):
		return unknown(err)
	case errors.As(err, &failure):
		return err
	default:
		return unknown(err)
	}
}

// uniqueIndex is one that may refuse a document.
type uniqueIndex string

// The unique indexes, by the last field of their keys.
const (
	byName      uniqueIndex = "_id"
	byScope     uniqueIndex = "scopes"
	byJobID     uniqueIndex = "job_id"
	byUniqueKey uniqueIndex = "unique_lock"
)

// refusal is the error of a unique index.
type refusal struct {
	index uniqueIndex
	value string // what another document has
}

func (r *refusal) Error() string { return fmt.Sprintf("%s %q is taken", r.index, r.value) }

// refusalOf returns the refusal that an error of a write is; nil where it is
// another error. Servers say which index it was since version 4.4.
func refusalOf(e mongo.WriteError) *refusal {
	if e.Code != codeDuplicateKey {
		return nil
	}
	r := &refusal{}
	pattern, _ := e.Raw.Lookup("keyPattern").DocumentOK()
	elements, err := pattern.Elements()
	if err != nil || len(elements) == 0 {
		return r
	}
	field := elements[len(elements)-1].Key()
	r.index = uniqueIndex(field)
	values, _ := e.Raw.Lookup("keyValue").DocumentOK()
	r.value, _ = lookup(values, field).StringValueOK()
	return r
}

// lookup returns the value of a field whose name may have dots.
func lookup(doc bson.Raw, field string) bson.RawValue {
	elements, err := doc.Elements()
	if err != nil {
		return bson.RawValue{}
	}
	for _, e := range elements {
		if e.Key() == field {
			return e.Value()
		}
	}
	return bson.RawValue{}
}

// errorOf is what a refusal of a job's document means to whoever wrote it.
func (r *refusal) errorOf(doc *document) error {
	switch r.index {
	case byScope:
		return amboy.NewDuplicateJobScopeErrorf("taking the enqueue scopes of job %q: scope %q is held by another job", doc.jobID(), r.value)
	case byUniqueKey:
		return amboy.NewDuplicateJobErrorf("job %q: another job has the unique key %q", doc.jobID(), r.value)
	default:
		return amboy.NewDuplicateJobErrorf("job %q, or record %q, is in the queue already", doc.jobID(), doc.Name)
	}
}

// isTooLarge tells the error of a document that would become larger than the server
// takes.
func isTooLarge(err error) bool {
	var failure mongo.ServerError
	return errors.As(err, &failure) && (failure.HasErrorCode(codeDocumentTooLarge) || failure.HasErrorCode(codeUpdateTooLarge))
}

// sizeField is the field of the error of a record that is too large.
const sizeField = "size"

// tooLarge is the error of a record whose document is larger than one may be.
func tooLarge(doc *document, size int) error {
	return &amboy.InvalidJobError{
		JobID: doc.jobID(),
		Field: sizeField,
		Value: size,
		Rule:  fmt.Sprintf("must be at most %d bytes, which is the largest document that MongoDB stores", maxDocumentSize),
	}
}

// leaseLost is the error of a write under a lease that is not the record's.
func leaseLost(l driver.Lease) error {
	return fmt.Errorf("record %q: %w", l.Name, driver.ErrLeaseLost)
}
