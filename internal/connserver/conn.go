package connserver

import (
	"bufio"
	"net"
	"sync"
	"time"
)

// Conn is a connection of a Server. Its reads end when the Server is closed.
type Conn struct {
	net.Conn
	server *Server

	mu          sync.Mutex
	interrupted bool // the next read fails
}

// Past is a time that has passed, for SetReadDeadline.
var Past = time.Unix(1, 0)

// interrupt ends the current read and all later ones.
func (c *Conn) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupted = true
	_ = c.Conn.SetReadDeadline(Past) // it fails only for a closed connection
}

// SetReadDeadline sets when reads fail, as that of net.Conn does; the zero time means never.
// It returns ErrClosed after the Server was closed, and then reads fail at once.
func (c *Conn) SetReadDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.interrupted {
		return ErrClosed
	}
	return c.Conn.SetReadDeadline(at)
}

// AwaitRequest waits until the client begins a request, at most Options.IdleTimeout, unless
// in has buffered a part of it. It returns the deadline of the rest of the request, which is
// set. in must read from the connection.
func (c *Conn) AwaitRequest(in *bufio.Reader) (deadline time.Time, err error) {
	if in.Buffered() == 0 {
		err = c.SetReadDeadline(time.Now().Add(c.server.opts.IdleTimeout))
		if err == nil {
			_, err = in.Peek(1)
		}
		if err != nil {
			return deadline, err
		}
	}
	deadline = time.Now().Add(c.server.opts.ReadTimeout)
	return deadline, c.SetReadDeadline(deadline)
}

// Write writes an answer, which the client must receive within Options.WriteTimeout.
func (c *Conn) Write(answer []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.server.opts.WriteTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(answer)
}
