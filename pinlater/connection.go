package pinlater

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"github.com/mongodb/amboy/internal/connserver"
	"github.com/mongodb/amboy/outside"
)

// smallFrame is the size up to which a frame does not count towards Options.MaxBuffered.
const smallFrame = 64 << 10

// firstRead is the size of the buffer for a frame before any of it has arrived.
const firstRead = 2 << 10

// replyPatience is how long a large reply waits for room. Then its connection is closed.
const replyPatience = 5 * time.Second

// watchAfter is how long a call takes before the server begins to watch whether its client is still
// connected.
const watchAfter = time.Second

// frameHeader is the number of bytes of the length before each frame.
const frameHeader = 4

// connection serves the calls of a client, one at a time.
type connection struct {
	server *Server
	conn   *connserver.Conn
	reader *bufio.Reader
}

func newConnection(s *Server, conn *connserver.Conn) *connection {
	return &connection{server: s, conn: conn, reader: bufio.NewReader(conn)}
}

// serve answers calls until the client closes the connection, is idle or slow, or sends what
// is no call.
func (c *connection) serve() {
	for err := error(nil); err == nil; {
		err = c.serveCall()
	}
}

// serveCall answers a call. Any error closes the connection: the client is gone, or does not
// speak the protocol.
func (c *connection) serveCall() error {
	frame, release, err := c.readFrame()
	if err != nil {
		return err
	}
	reply, claimed, err := func() ([]byte, []outside.Job, error) {
		defer release()
		ctx, cancel := c.callContext()
		defer cancel()
		unwatch := c.watch(cancel)
		reply, claimed, failed := c.server.answerSafely(ctx, frame)
		if isGone := unwatch(); isGone && len(claimed) > 0 {
			failed = errGone // its connection may take a reply all the same
		}
		return reply, claimed, failed
	}()
	if err == nil {
		err = c.writeFrame(reply)
	}
	if err != nil && len(claimed) > 0 {
		ctx, cancel := c.callContext()
		defer cancel()
		for some := range slices.Chunk(claimed, outside.MaxBatch) {
			c.server.putBack(ctx, some) // the client has no reply, or a part of it
		}
	}
	return err
}

func (c *connection) callContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.server.conns.Working(), c.server.opts.CallTimeout)
}

var errGone = errors.New("client has gone")

// watch calls gone if the client closes the connection while a call takes long: jobs that were claimed
// for it would be claimed until their timeout. unwatch must be called before the next request is read. It
// reports whether gone was called.
func (c *connection) watch(gone func()) (unwatch func() (isGone bool)) {
	if c.conn.SetReadDeadline(time.Time{}) != nil {
		return func() bool { return false } // the server is being closed, and answers the call
	}
	watched := make(chan bool, 1)
	timer := time.AfterFunc(watchAfter, func() {
		_, err := c.reader.Peek(1)
		isGone := err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
		if isGone {
			gone()
		}
		watched <- isGone
	})
	return func() bool {
		if timer.Stop() {
			return false
		}
		_ = c.conn.SetReadDeadline(connserver.Past) // Peek returns; the next read has another deadline
		return <-watched
	}
}

var errBadFrame = errors.New("invalid length of a frame")

// readFrame reads a request. release must be called when it is no longer needed.
func (c *connection) readFrame() (frame []byte, release func(), err error) {
	deadline, err := c.conn.AwaitRequest(c.reader)
	if err != nil {
		return nil, nil, err
	}
	var header [frameHeader]byte
	if _, err = io.ReadFull(c.reader, header[:]); err != nil {
		return nil, nil, err
	}
	size := int64(binary.BigEndian.Uint32(header[:]))
	if size == 0 || size > int64(c.server.opts.MaxFrame) {
		return nil, nil, errBadFrame
	}
	release, err = c.reserve(size, deadline)
	if err != nil {
		return nil, nil, err
	}
	// The buffer grows with what arrives, not with what the client says.
	var buffer bytes.Buffer
	buffer.Grow(int(min(size, firstRead)) + bytes.MinRead)
	if _, err = io.CopyN(&buffer, c.reader, size); err != nil {
		release()
		return nil, nil, err
	}
	return buffer.Bytes(), release, nil
}

// reserve waits for room for a frame.
func (c *connection) reserve(size int64, deadline time.Time) (release func(), err error) {
	if size <= smallFrame {
		return func() {}, nil
	}
	ctx, cancel := context.WithDeadline(c.server.conns.Working(), deadline)
	defer cancel()
	if err := c.server.buffered.Acquire(ctx, size); err != nil {
		return nil, err
	}
	return func() { c.server.buffered.Release(size) }, nil
}

func (c *connection) writeFrame(reply []byte) error {
	// A reply that waits is in memory.
	release, err := c.reserve(int64(len(reply)), time.Now().Add(min(replyPatience, c.server.opts.WriteTimeout)))
	if err != nil {
		return err
	}
	defer release()
	_, err = c.conn.Write(reply)
	return err
}
