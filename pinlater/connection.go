package pinlater

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// smallFrame is the size up to which a frame does not count towards Options.MaxBuffered.
const smallFrame = 64 << 10

// replyPatience is how long a large reply waits for room. Then its connection is closed.
const replyPatience = 5 * time.Second

// frameHeader is the number of bytes of the length before each frame.
const frameHeader = 4

// connection serves the calls of a client, one at a time.
type connection struct {
	server *Server
	conn   net.Conn
	reader *bufio.Reader

	mu      sync.Mutex
	stopped bool
}

func newConnection(s *Server, conn net.Conn) *connection {
	return &connection{server: s, conn: conn, reader: bufio.NewReader(conn)}
}

// stopReading ends the connection before its next request.
func (c *connection) stopReading() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	_ = c.conn.SetReadDeadline(time.Unix(1, 0)) // it fails only for a closed connection
}

// readWithin sets the time by which the next bytes must be read.
func (c *connection) readWithin(limit time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return ErrClosed
	}
	return c.conn.SetReadDeadline(time.Now().Add(limit))
}

// serve answers calls until the client closes the connection, is idle or slow, or sends what
// is no call.
func (c *connection) serve() {
	defer func() { _ = c.conn.Close() }() // nothing is left to be sent
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
	reply, err := func() ([]byte, error) {
		defer release()
		ctx, cancel := context.WithTimeout(c.server.open, c.server.opts.CallTimeout)
		defer cancel()
		return c.server.answerSafely(ctx, frame)
	}()
	if err != nil {
		return err
	}
	return c.writeFrame(reply)
}

var errBadFrame = errors.New("invalid length of a frame")

// readFrame reads a request. release must be called when it is no longer needed.
func (c *connection) readFrame() (frame []byte, release func(), err error) {
	err = c.readWithin(c.server.opts.IdleTimeout)
	if err != nil {
		return nil, nil, err
	}
	// The length is not read yet, so that an idle client differs from a slow one.
	if _, err = c.reader.Peek(1); err != nil {
		return nil, nil, err
	}
	deadline := time.Now().Add(c.server.opts.ReadTimeout)
	err = c.readWithin(c.server.opts.ReadTimeout)
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
	buffer.Grow(int(min(size, smallFrame)) + bytes.MinRead)
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
	ctx, cancel := context.WithDeadline(c.server.open, deadline)
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
	err = c.conn.SetWriteDeadline(time.Now().Add(c.server.opts.WriteTimeout))
	if err != nil {
		return err
	}
	_, err = c.conn.Write(reply)
	return err
}
