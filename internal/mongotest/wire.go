package mongotest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/x/bsonx/bsoncore"
	"go.mongodb.org/mongo-driver/x/mongo/driver/wiremessage"
)

// The sizes that hello reports, which are those of real servers.
const (
	maxDocumentSize = 16 * 1024 * 1024
	maxMessageSize  = 48000000
	maxWriteBatch   = 100000
)

const headerSize = 16

// maxCommandSize is the largest command, without document sequences.
const maxCommandSize = maxDocumentSize + 16*1024

// opQuery is the opcode by which drivers still send the first hello.
const opQuery = wiremessage.OpQuery //nolint:staticcheck // it is deprecated for clients

var errMalformed = errors.New("malformed wire message")

// message is a received command.
type message struct {
	requestID  int32
	opcode     wiremessage.OpCode
	moreToCome bool // the client wants no reply
	command    bson.Raw
}

// readMessage reads one message. Document sequences become arrays of the command, as on
// real servers.
func readMessage(r io.Reader) (*message, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, fmt.Errorf("reading a message header: %w", err)
	}
	length, requestID, _, opcode, _, _ := wiremessage.ReadHeader(header[:])
	if length < headerSize || length > maxMessageSize+maxDocumentSize {
		return nil, fmt.Errorf("%w: length %d", errMalformed, length)
	}
	body := make([]byte, length-headerSize)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, fmt.Errorf("reading a message body: %w", err)
	}
	m := &message{requestID: requestID, opcode: opcode}
	var err error
	switch opcode {
	case wiremessage.OpMsg:
		err = m.parseMsg(body)
	case opQuery:
		err = m.parseQuery(body)
	default:
		err = fmt.Errorf("%w: opcode %s is not supported", errMalformed, opcode)
	}
	return m, err
}

// parseMsg reads the sections of an OP_MSG.
func (m *message) parseMsg(body []byte) error {
	flags, rest, ok := wiremessage.ReadMsgFlags(body)
	if !ok {
		return errMalformed
	}
	if flags&^(wiremessage.MoreToCome|wiremessage.ExhaustAllowed) != 0 {
		return fmt.Errorf("%w: message flags %b", errMalformed, flags)
	}
	m.moreToCome = flags&wiremessage.MoreToCome != 0
	var document bsoncore.Document
	var sequences []byte
	for len(rest) > 0 {
		var kind wiremessage.SectionType
		if kind, rest, ok = wiremessage.ReadMsgSectionType(rest); !ok {
			return errMalformed
		}
		switch kind {
		case wiremessage.SingleDocument:
			document, rest, ok = wiremessage.ReadMsgSectionSingleDocument(rest)
		case wiremessage.DocumentSequence:
			var name string
			var docs []bsoncore.Document
			name, docs, rest, ok = wiremessage.ReadMsgSectionDocumentSequence(rest)
			sequences = appendSequence(sequences, name, docs)
		default:
			ok = false
		}
		if !ok {
			return errMalformed
		}
	}
	if document.Validate() != nil {
		return fmt.Errorf("%w: the command is not valid BSON", errMalformed)
	}
	if len(document) > maxCommandSize {
		return fmt.Errorf("%w: a command of %d bytes, more than %d, without its document sequences", errMalformed, len(document), maxCommandSize)
	}
	m.command = joinDocument(document, sequences)
	return nil
}

func appendSequence(dst []byte, name string, docs []bsoncore.Document) []byte {
	values := make([]bsoncore.Value, len(docs))
	for i, doc := range docs {
		values[i] = bsoncore.Value{Type: bson.TypeEmbeddedDocument, Data: doc}
	}
	return bsoncore.AppendArrayElement(dst, name, bsoncore.BuildArray(nil, values...))
}

// joinDocument appends encoded elements to a document.
func joinDocument(document bsoncore.Document, elements []byte) bson.Raw {
	if len(elements) == 0 {
		return bson.Raw(document)
	}
	joined := make([]byte, 0, len(document)+len(elements))
	joined = append(joined, document[:len(document)-1]...)
	joined = append(joined, elements...)
	joined = append(joined, 0)
	binary.LittleEndian.PutUint32(joined, uint32(len(joined)))
	return joined
}

// parseQuery reads an OP_QUERY, which drivers send only for the first hello.
func (m *message) parseQuery(body []byte) error {
	// Flags come first, then a zero-terminated name, and two numbers.
	const name = "admin.$cmd\x00"
	if len(body) < 4 || !strings.HasPrefix(string(body[4:]), name) || len(body) < 4+len(name)+8 {
		return fmt.Errorf("%w: an OP_QUERY that is not a command on admin", errMalformed)
	}
	query, _, ok := bsoncore.ReadDocument(body[4+len(name)+8:])
	if !ok || query.Validate() != nil {
		return errMalformed
	}
	m.command = joinDocument(query, bsoncore.AppendStringElement(nil, "$db", "admin"))
	return nil
}

// reply encodes the answer to m in the format of m.
func (m *message) reply(document bson.Raw) []byte {
	id := wiremessage.NextRequestID()
	var start int32
	var dst []byte
	if m.opcode == opQuery {
		start, dst = wiremessage.AppendHeaderStart(nil, id, m.requestID, wiremessage.OpReply)
		dst = wiremessage.AppendReplyFlags(dst, wiremessage.AwaitCapable)
		dst = wiremessage.AppendReplyCursorID(dst, 0)
		dst = wiremessage.AppendReplyStartingFrom(dst, 0)
		dst = wiremessage.AppendReplyNumberReturned(dst, 1)
	} else {
		start, dst = wiremessage.AppendHeaderStart(nil, id, m.requestID, wiremessage.OpMsg)
		dst = wiremessage.AppendMsgFlags(dst, 0)
		dst = wiremessage.AppendMsgSectionType(dst, wiremessage.SingleDocument)
	}
	dst = append(dst, document...)
	return bsoncore.UpdateLength(dst, start, int32(len(dst[start:])))
}
