package pinlater

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/mongodb/amboy/outside"
)

// maxContainer is the maximum number of elements of a list of a request.
const maxContainer = 100_000

// minStruct is the minimum number of bytes of a struct in a list: each has a required field
// that is a text.
const minStruct = 8

// requestProtocol reads requests. It refuses lists that claim more elements than the
// request can contain, because memory is allocated by their number.
type requestProtocol struct{ thrift.TProtocol }

func (p requestProtocol) ReadListBegin(ctx context.Context) (elem thrift.TType, size int, err error) {
	elem, size, err = p.TProtocol.ReadListBegin(ctx)
	if err != nil {
		return elem, 0, err
	}
	remaining := p.Transport().RemainingBytes()
	if size > maxContainer || elem == thrift.STRUCT && uint64(size)*minStruct > remaining {
		return elem, 0, thrift.NewTProtocolExceptionWithType(thrift.SIZE_LIMIT, fmt.Errorf("a list claims to have %d elements", size))
	}
	return elem, size, nil
}

// Skip skips with the limits of this protocol.
func (p requestProtocol) Skip(ctx context.Context, fieldType thrift.TType) error {
	return thrift.SkipDefaultDepth(ctx, p, fieldType)
}

// configuration returns the settings of the protocol for frames of at most maxFrame bytes.
func configuration(maxFrame int) *thrift.TConfiguration {
	strictRead, strictWrite := false, true // old clients send no version
	size := int32(maxFrame)                //nolint:gosec // Options bound it.
	return &thrift.TConfiguration{
		MaxMessageSize: size, MaxFrameSize: size,
		TBinaryStrictRead: &strictRead, TBinaryStrictWrite: &strictWrite,
	}
}

// errNoMessage is returned for a frame that is not a message.
var errNoMessage = errors.New("frame is not a Thrift message")

// answerSafely calls answer, and returns a panic, such as one of the encoding, as an error.
func (s *Server) answerSafely(ctx context.Context, frame []byte) (reply []byte, claimed []outside.Job, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = panicked(ctx, "", value)
		}
	}()
	return s.answer(ctx, frame)
}

// answer answers a request. The answer begins with its length. claimed are the jobs that were claimed
// for the client. The error is errNoMessage, or that of encoding the reply; claimed jobs are returned
// beside the latter.
func (s *Server) answer(ctx context.Context, frame []byte) (answered []byte, claimed []outside.Job, err error) {
	in := thrift.NewTMemoryBufferLen(0)
	in.Buffer = newBuffer(frame)
	config := configuration(s.opts.MaxFrame)
	request := requestProtocol{thrift.NewTBinaryProtocolConf(in, config)}
	name, kind, sequence, err := request.ReadMessageBegin(ctx)
	if err != nil || len(name) > maxMethodName {
		return nil, nil, errNoMessage
	}
	var reply thrift.TStruct
	var failure thrift.TApplicationException
	if kind != thrift.CALL && kind != thrift.ONEWAY {
		failure = thrift.NewTApplicationException(thrift.INVALID_MESSAGE_TYPE_EXCEPTION, fmt.Sprintf("Invalid message type: %d", kind))
	} else {
		reply, failure = s.call(ctx, name, request)
	}
	if dequeued, ok := reply.(*dequeueReply); ok {
		claimed = dequeued.claimed
	}
	answered, err = s.encode(ctx, config, name, sequence, reply, failure)
	if err != nil {
		return nil, claimed, fmt.Errorf("encoding the reply to %s: %w", name, err)
	}
	if len(answered)-frameHeader > s.opts.MaxFrame {
		tooLarge := exceptionReply{unknown(fmt.Errorf("the reply would have %d bytes; at most %d are allowed", len(answered), s.opts.MaxFrame))}
		answered, err = s.encode(ctx, config, name, sequence, tooLarge, nil)
	}
	return answered, claimed, err
}

// maxMethodName is the maximum length of the name of a method.
const maxMethodName = 1024

func (s *Server) encode(ctx context.Context, config *thrift.TConfiguration, name string, sequence int32, reply thrift.TStruct, failure thrift.TApplicationException) ([]byte, error) {
	out := thrift.NewTMemoryBufferLen(256)
	out.Write(make([]byte, frameHeader)) //nolint:revive // It does not fail.
	p := thrift.NewTBinaryProtocolConf(out, config)
	kind := thrift.TMessageType(thrift.REPLY)
	if failure != nil {
		kind = thrift.EXCEPTION
	}
	err := p.WriteMessageBegin(ctx, name, kind, sequence)
	switch {
	case err != nil:
	case failure != nil:
		err = failure.Write(ctx, p)
	default:
		err = reply.Write(ctx, p)
	}
	if err == nil {
		err = p.WriteMessageEnd(ctx)
	}
	encoded := out.Bytes()
	binary.BigEndian.PutUint32(encoded, uint32(len(encoded)-frameHeader)) //nolint:gosec // Replies are bounded by answer.
	return encoded, err
}
