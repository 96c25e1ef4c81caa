package pinlater

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/apache/thrift/lib/go/thrift"
	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/pinlater/wire"
)

func newBuffer(data []byte) *bytes.Buffer { return bytes.NewBuffer(data) }

// method reads the arguments of a method, and calls it.
type method func(ctx context.Context, s *Server, from thrift.TProtocol) (thrift.TStruct, error)

// arguments are the decoded arguments of a method.
type arguments[A any] interface {
	*A
	Read(ctx context.Context, from thrift.TProtocol) error
	IsSetContext() bool
	GetContext() *wire.RequestContext
}

// methodOf returns a method with arguments of type A. absent is set before they are read.
func methodOf[A any, P arguments[A]](absent A, do func(s *Server, ctx context.Context, a P) (thrift.TStruct, error)) method {
	return func(ctx context.Context, s *Server, from thrift.TProtocol) (thrift.TStruct, error) {
		a := absent
		if err := P(&a).Read(ctx, from); err != nil {
			return nil, &badRequestError{err.Error()}
		}
		if !P(&a).IsSetContext() {
			return nil, internal("context is missing")
		}
		if r, ok := any(P(&a)).(interface{ IsSetRequest() bool }); ok && !r.IsSetRequest() {
			return nil, internal("request is missing")
		}
		return do(s, ctx, P(&a))
	}
}

// absentName is the name in the arguments of createQueue if there is none.
const absentName = "\x00absent"

var methods = map[string]method{
	"createQueue":     methodOf(wire.PinLaterCreateQueueArgs{Name: absentName}, (*Server).createQueue),
	"deleteQueue":     methodOf(wire.PinLaterDeleteQueueArgs{}, (*Server).deleteQueue),
	"enqueueJobs":     methodOf(wire.PinLaterEnqueueJobsArgs{}, (*Server).enqueueJobs),
	"dequeueJobs":     methodOf(wire.PinLaterDequeueJobsArgs{}, (*Server).dequeueJobs),
	"ackDequeuedJobs": methodOf(wire.PinLaterAckDequeuedJobsArgs{}, (*Server).ackDequeuedJobs),
	"checkpointJobs":  methodOf(wire.PinLaterCheckpointJobsArgs{}, (*Server).checkpointJobs),
	"lookupJobs":      methodOf(wire.PinLaterLookupJobsArgs{}, (*Server).lookupJobs),
	"getJobCount":     methodOf(wire.PinLaterGetJobCountArgs{}, (*Server).getJobCount),
	"getQueueNames":   methodOf(wire.PinLaterGetQueueNamesArgs{}, (*Server).getQueueNames),
	"scanJobs":        methodOf(wire.PinLaterScanJobsArgs{}, (*Server).scanJobs),
	"retryFailedJobs": methodOf(wire.PinLaterRetryFailedJobsArgs{}, (*Server).retryFailedJobs),
	"deleteJobs":      methodOf(wire.PinLaterDeleteJobsArgs{}, (*Server).deleteJobs),
}

// badRequestError means that a request does not decode, or lacks a required field.
type badRequestError struct{ text string }

func (e *badRequestError) Error() string { return e.text }

// internalError is answered as PinLater answers a request that makes it fail unexpectedly.
type internalError struct{ text string }

func (e *internalError) Error() string { return e.text }

func internal(text string) error { return &internalError{text} }

// exception returns an error with a code of the interface.
func exception(code wire.ErrorCode, format string, args ...any) error {
	return &wire.PinLaterException{ErrorCode: code, Message: textOf(fmt.Sprintf(format, args...))} // it may quote the request
}

// wrong returns the error of a request that has a value which is not valid. It has no code of its own.
func wrong(format string, args ...any) error {
	return exception(wire.ErrorCode_UNKNOWN, format, args...)
}

// unknown returns the exception for any other error.
func unknown(err error) *wire.PinLaterException {
	return &wire.PinLaterException{ErrorCode: wire.ErrorCode_UNKNOWN, Message: textOf(err.Error())}
}

// call calls a method, and returns its reply or a failure outside of the interface.
func (s *Server) call(ctx context.Context, name string, from thrift.TProtocol) (reply thrift.TStruct, failure thrift.TApplicationException) {
	do, ok := methods[name]
	if !ok {
		return nil, thrift.NewTApplicationException(thrift.UNKNOWN_METHOD, fmt.Sprintf("Invalid method name: '%s'", textOf(name)))
	}
	reply, err := s.callSafely(ctx, name, do, from)
	var bad *badRequestError
	var failed *internalError
	var known *wire.PinLaterException
	switch {
	case err == nil:
		return reply, nil
	case errors.As(err, &bad):
		return nil, thrift.NewTApplicationException(thrift.PROTOCOL_ERROR, bad.text)
	case errors.As(err, &failed):
		return nil, thrift.NewTApplicationException(thrift.INTERNAL_ERROR, fmt.Sprintf("Internal error processing %s: '%s'", name, failed.text))
	case errors.As(err, &known):
		return exceptionReply{known}, nil
	case errors.Is(ctx.Err(), context.Canceled): // the client has gone
		return exceptionReply{unknown(err)}, nil
	default:
		s.conns.Log("a PinLater call has failed: "+name, err)
		return exceptionReply{unknown(err)}, nil
	}
}

func (s *Server) callSafely(ctx context.Context, name string, do method, from thrift.TProtocol) (reply thrift.TStruct, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = panicked(ctx, name, value)
		}
	}()
	return do(ctx, s, from)
}

// panicked logs a panic, and returns an error for it.
func panicked(ctx context.Context, name string, value any) error {
	logging.Error(ctx, message.Fields{"message": "a PinLater call has panicked", "call": name, "error": fmt.Sprint(value), "stack": string(debug.Stack())})
	return internal("the call has panicked")
}

// exceptionReply is the reply of any method that ends with an exception.
type exceptionReply struct{ exception *wire.PinLaterException }

// exceptionField is the number of the field of the exception in all replies.
const exceptionField = 1

// Write encodes the reply.
func (r exceptionReply) Write(ctx context.Context, to thrift.TProtocol) error {
	return writeField(ctx, to, "e", exceptionField, r.exception)
}

// Read is not used.
func (r exceptionReply) Read(context.Context, thrift.TProtocol) error {
	return errors.New("a reply is not read")
}

// writeField encodes a struct with one field, which is a struct.
func writeField(ctx context.Context, to thrift.TProtocol, name string, id int16, value thrift.TStruct) error {
	return errors.Join(
		to.WriteStructBegin(ctx, "result"),
		to.WriteFieldBegin(ctx, name, thrift.STRUCT, id),
		value.Write(ctx, to),
		to.WriteFieldEnd(ctx),
		to.WriteFieldStop(ctx),
		to.WriteStructEnd(ctx),
	)
}

// scanReply is the reply of scanJobs. The generated code leaves out a continuation that has
// its default, but clients of PinLater are always sent one.
type scanReply struct{ jobs []*wire.PinLaterJobInfo }

// Write encodes the reply.
func (r scanReply) Write(ctx context.Context, to thrift.TProtocol) error {
	return writeField(ctx, to, "success", 0, scannedJobs(r))
}

// Read is not used.
func (r scanReply) Read(context.Context, thrift.TProtocol) error {
	return errors.New("a reply is not read")
}

type scannedJobs struct{ jobs []*wire.PinLaterJobInfo }

// Write encodes the jobs and the continuation.
func (r scannedJobs) Write(ctx context.Context, to thrift.TProtocol) error {
	err := errors.Join(
		to.WriteStructBegin(ctx, "PinLaterScanJobsResponse"),
		to.WriteFieldBegin(ctx, "scannedJobs", thrift.LIST, 1),
		to.WriteListBegin(ctx, thrift.STRUCT, len(r.jobs)),
	)
	for _, j := range r.jobs {
		err = errors.Join(err, j.Write(ctx, to))
	}
	return errors.Join(err,
		to.WriteListEnd(ctx),
		to.WriteFieldEnd(ctx),
		to.WriteFieldBegin(ctx, "continuation", thrift.STRING, 2),
		to.WriteString(ctx, wire.CONTINUATION_END),
		to.WriteFieldEnd(ctx),
		to.WriteFieldStop(ctx),
		to.WriteStructEnd(ctx),
	)
}

// Read is not used.
func (r scannedJobs) Read(context.Context, thrift.TProtocol) error {
	return errors.New("a reply is not read")
}
