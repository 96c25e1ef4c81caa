package mongodb

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	mongodriver "go.mongodb.org/mongo-driver/x/mongo/driver"
	"go.mongodb.org/mongo-driver/x/mongo/driver/topology"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// The error codes of the server that this driver handles. See
// https://www.mongodb.com/docs/manual/reference/error-codes/.
const (
	codeBadValue            = 2
	codeNamespaceNotFound   = 26
	codeMaxTimeExpired      = 50
	codeWriteConflict       = 112
	codeSnapshotUnavailable = 246
	codeAPIStrict           = 323
	codeDocumentTooLarge    = 10334
	codeDuplicateKey        = 11000
	codeUpdateTooLarge      = 17419
)

// transientCodes are the codes of a server that can't serve a call now: it shuts down, is
// no longer the primary, or has lost other servers. A call that failed with such a code
// may still have been done.
var transientCodes = []int{6, 7, 89, 91, 134, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436}

const (
	// maxDocumentSize is the server's limit for the size of a document.
	maxDocumentSize = 16 << 20
	// maxNewSize is the limit for the size of a document that is put, or that a save makes larger. The rest
	// is for what is added when the job is claimed, interrupted and retried. An end that does not fit is
	// shortened: see driver.ShortEnd.
	maxNewSize = maxDocumentSize - 64<<10
)

// labelTransient marks an error of a transaction that may be repeated, labelUnknownCommit
// one of a commit that may have been done.
const (
	labelTransient     = "TransientTransactionError"
	labelUnknownCommit = "UnknownTransactionCommitResult"
)

// isTransient reports whether the same call may succeed after the error, whether the call
// was done or not.
func isTransient(err error) bool {
	if mongo.IsNetworkError(err) || hasNoConnection(err) {
		return true
	}
	var failure mongo.ServerError
	return errors.As(err, &failure) && slices.ContainsFunc(transientCodes, failure.HasErrorCode)
}

// hasNoConnection reports whether a command failed because its connection could not be made or was
// lost, or because the pool was cleared while it waited for one. For some of these the client library has no
// label, and it repeats only reads and retryable writes. The command may still have been sent.
func hasNoConnection(err error) bool {
	var connection topology.ConnectionError
	var pool mongodriver.RetryablePoolError
	return errors.As(err, &connection) || errors.As(err, &pool) && pool.Retryable()
}

// isConflict reports whether a call did nothing because it conflicted with another one.
func isConflict(err error) bool {
	var failure mongo.ServerError
	return errors.As(err, &failure) && failure.HasErrorCode(codeWriteConflict)
}

// isUnacknowledged reports whether a command was run, but the majority has not acknowledged
// what it wrote.
func isUnacknowledged(err error) bool {
	var one mongo.WriteException
	var bulk mongo.BulkWriteException
	return errors.As(err, &one) && one.WriteConcernError != nil || errors.As(err, &bulk) && bulk.WriteConcernError != nil
}

// hasLabel reports whether an error of the server has a label.
func hasLabel(err error, label string) bool {
	var failure mongo.LabeledError
	return errors.As(err, &failure) && failure.HasErrorLabel(label)
}

// unknown returns the error of a change that may or may not have been made.
func unknown(err error) error { return fmt.Errorf("%w: %w", driver.ErrOutcomeUnknown, err) }

// failed returns the error of a change that was sent without getting a usable answer. If
// the server refused the change, nothing was changed.
func failed(ctx context.Context, err error) error {
	var failure mongo.ServerError
	switch {
	case errors.Is(err, mongo.ErrClientDisconnected):
		return fmt.Errorf("%w: %w", driver.ErrClosed, err)
	case isUnacknowledged(err):
		return unknown(err) // it may be rolled back after an election
	case ctx.Err() != nil || isTransient(err) || mongo.IsTimeout(err):
		return unknown(err)
	case errors.As(err, &failure):
		return err
	default:
		return unknown(err)
	}
}

// uniqueIndex is a unique index, which may refuse a document.
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
	value string // the value that another document has
	// holder is the ID of the job of that document; empty if unknown.
	holder string
}

func (r *refusal) Error() string { return fmt.Sprintf("%s %q is taken", r.index, r.value) }

// refusalOf returns the refusal that a write error stands for, or nil if it is another
// error. Servers name the index since version 4.4.
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

// lookup returns the value of a field whose name may contain dots.
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

// errorOf returns the driver error for a refusal of a job's document.
func (r *refusal) errorOf(doc *document) error {
	e := &amboy.DuplicateJobError{JobID: doc.jobID(), Reason: amboy.DuplicateID, Value: doc.jobID(), ExistingID: r.holder}
	switch r.index {
	case byScope:
		e.Reason, e.Value = amboy.DuplicateEnqueueScope, r.value
	case byUniqueKey:
		e.Reason, e.Value = amboy.DuplicateUniqueKey, r.value
	}
	return e
}

// isTooLarge reports whether a document would exceed the server's size limit.
func isTooLarge(err error) bool {
	var failure mongo.ServerError
	return errors.As(err, &failure) && (failure.HasErrorCode(codeDocumentTooLarge) || failure.HasErrorCode(codeUpdateTooLarge))
}

// sizeField is the field of the error of a record that is too large.
const sizeField = "size"

// tooLarge returns the error of a record whose document exceeds the size limit.
func tooLarge(doc *document, size int) error {
	return &amboy.InvalidJobError{
		JobID: doc.jobID(),
		Field: sizeField,
		Value: size,
		Rule:  fmt.Sprintf("must be at most %d bytes, which is the largest document that MongoDB stores", maxDocumentSize),
	}
}

// tooLargeToRun returns the error of a record whose document is larger than maxNewSize.
func tooLargeToRun(doc *document, size int) error {
	return &amboy.InvalidJobError{
		JobID: doc.jobID(),
		Field: sizeField,
		Value: size,
		Rule:  fmt.Sprintf("must be at most %d bytes: MongoDB stores %d, and running the job adds to them", maxNewSize, maxDocumentSize),
	}
}

// leaseLost returns the error of a write under a lease that the record no longer has.
func leaseLost(l driver.Lease) error {
	return fmt.Errorf("record %q: %w", l.Name, driver.ErrLeaseLost)
}
