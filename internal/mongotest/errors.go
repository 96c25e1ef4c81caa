package mongotest

import (
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/bson"
)

// The server's error codes, from
// https://www.mongodb.com/docs/manual/reference/error-codes/.
const (
	codeBadValue                = 2
	codeFailedToParse           = 9
	codeTypeMismatch            = 14
	codeIllegalOperation        = 20
	codeNamespaceNotFound       = 26
	codeIndexNotFound           = 27
	codePathNotViable           = 28
	codeConflictingUpdate       = 40
	codeCursorNotFound          = 43
	codeNamespaceExists         = 48
	codeMaxTimeExpired          = 50
	codeCommandNotFound         = 59
	codeImmutableField          = 66
	codeInvalidOptions          = 72
	codeInvalidNamespace        = 73
	codeOptionsConflict         = 85
	codeKeySpecsConflict        = 86
	codeShutdownInProgress      = 91
	codeWriteConcernFailed      = 64
	codeWriteConflict           = 112
	codeUnknownExpression       = 168
	codeParallelArrays          = 171
	codePrimarySteppedDown      = 189
	codeIndexOption             = 197
	codeQueryFeatureNotAllowed  = 224
	codeTransactionTooOld       = 225
	codeNoSuchTransaction       = 251
	codeTransactionDone         = 256
	codeInvalidResumeToken      = 260
	codeNotInTransaction        = 263
	codeHistoryLost             = 286
	codeQueryExceededMemory     = 292
	codeNotWritablePrimary      = 10107
	codeDuplicateKey            = 11000
	codeRoleChanged             = 11602
	codeNotPrimaryNoSecondaryOk = 13435
	codeUpdateTooLarge          = 17419
	codeMixedProjection         = 31254
	codeTransactionReused       = 50911
	codeUnknownStage            = 40324
	codeUnknownField            = 40415
	codeChangeStreamNeedsRS     = 40573
	codeInvalidRegex            = 51091
)

var codeNames = map[int32]string{
	codeBadValue:                "BadValue",
	6:                           "HostUnreachable",
	codeQueryExceededMemory:     "QueryExceededMemoryLimitNoDiskUseAllowed",
	7:                           "HostNotFound",
	codeFailedToParse:           "FailedToParse",
	codeTypeMismatch:            "TypeMismatch",
	codeIllegalOperation:        "IllegalOperation",
	24:                          "LockTimeout",
	codeNamespaceNotFound:       "NamespaceNotFound",
	codeIndexNotFound:           "IndexNotFound",
	codePathNotViable:           "PathNotViable",
	codeConflictingUpdate:       "ConflictingUpdateOperators",
	codeCursorNotFound:          "CursorNotFound",
	codeNamespaceExists:         "NamespaceExists",
	codeMaxTimeExpired:          "MaxTimeMSExpired",
	codeCommandNotFound:         "CommandNotFound",
	codeImmutableField:          "ImmutableField",
	codeInvalidOptions:          "InvalidOptions",
	codeInvalidNamespace:        "InvalidNamespace",
	codeOptionsConflict:         "IndexOptionsConflict",
	codeKeySpecsConflict:        "IndexKeySpecsConflict",
	89:                          "NetworkTimeout",
	codeShutdownInProgress:      "ShutdownInProgress",
	codeWriteConflict:           "WriteConflict",
	codeUnknownExpression:       "InvalidPipelineOperator",
	codeParallelArrays:          "CannotIndexParallelArrays",
	codePrimarySteppedDown:      "PrimarySteppedDown",
	codeWriteConcernFailed:      "WriteConcernFailed",
	codeIndexOption:             "InvalidIndexSpecificationOption",
	codeQueryFeatureNotAllowed:  "QueryFeatureNotAllowed",
	codeTransactionTooOld:       "TransactionTooOld",
	246:                         "SnapshotUnavailable",
	codeNoSuchTransaction:       "NoSuchTransaction",
	codeTransactionDone:         "TransactionCommitted",
	codeInvalidResumeToken:      "InvalidResumeToken",
	262:                         "ExceededTimeLimit",
	codeNotInTransaction:        "OperationNotSupportedInTransaction",
	267:                         "PreparedTransactionInProgress",
	codeHistoryLost:             "ChangeStreamHistoryLost",
	9001:                        "SocketException",
	codeNotWritablePrimary:      "NotWritablePrimary",
	codeDuplicateKey:            "DuplicateKey",
	11600:                       "InterruptedAtShutdown",
	codeRoleChanged:             "InterruptedDueToReplStateChange",
	codeNotPrimaryNoSecondaryOk: "NotPrimaryNoSecondaryOk",
	13436:                       "NotPrimaryOrSecondary",
}

// The error labels that tell a driver which retries are allowed.
const (
	labelTransient = "TransientTransactionError"
	labelRetryable = "RetryableWriteError"
	labelResumable = "ResumableChangeStreamError"
)

// commandError is an error as servers report it.
type commandError struct {
	code    int32
	message string
	labels  []string
	details bson.D // further fields: keyPattern and keyValue
}

func (e *commandError) Error() string {
	return fmt.Sprintf("%s (%d): %s", codeName(e.code), e.code, e.message)
}

func codeName(code int32) string {
	if name, ok := codeNames[code]; ok {
		return name
	}
	return fmt.Sprintf("Location%d", code)
}

func errorf(code int32, format string, args ...any) error {
	return &commandError{code: code, message: fmt.Sprintf(format, args...)}
}

// asCommandError converts any error of a command to a server error.
func asCommandError(err error) *commandError {
	var e *commandError
	if errors.As(err, &e) {
		return e
	}
	return &commandError{code: codeFailedToParse, message: err.Error()}
}

// reply returns the document that reports a command's failure.
func (e *commandError) reply() bson.D {
	doc := bson.D{
		{Key: "ok", Value: 0.0},
		{Key: "errmsg", Value: e.message},
		{Key: "code", Value: e.code},
		{Key: "codeName", Value: codeName(e.code)},
	}
	doc = append(doc, e.details...)
	if len(e.labels) > 0 {
		doc = append(doc, bson.E{Key: "errorLabels", Value: e.labels})
	}
	return doc
}

// writeError returns the entry that reports one failed statement of a bulk write.
func (e *commandError) writeError(index int) bson.D {
	doc := bson.D{
		{Key: "index", Value: int32(index)},
		{Key: "code", Value: e.code},
	}
	doc = append(doc, e.details...)
	return append(doc, bson.E{Key: "errmsg", Value: e.message})
}

// retryableCodes are the codes after which a driver repeats a write once. See
// https://www.mongodb.com/docs/manual/core/retryable-writes/.
var retryableCodes = []int32{6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436}

// transientCodes are the codes after which a whole transaction may be tried once more.
// See https://www.mongodb.com/docs/manual/core/transactions-in-applications/.
var transientCodes = []int32{24, 112, 246, 251, 267}

// label adds the labels that a server adds to the error of this request.
func (e *commandError) label(req *request) {
	ending := req.name == "commitTransaction" || req.name == "abortTransaction"
	retryable := slices.Contains(retryableCodes, e.code)
	switch {
	case req.multiDocument() && !ending && (retryable || slices.Contains(transientCodes, e.code)):
		e.labels = append(e.labels, labelTransient)
	case ending && e.code == codeNoSuchTransaction:
		e.labels = append(e.labels, labelTransient)
	case req.generic.TxnNumber != nil && retryable:
		e.labels = append(e.labels, labelRetryable)
	case req.name == "getMore" && retryable:
		e.labels = append(e.labels, labelResumable)
	}
}
