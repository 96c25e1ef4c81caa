package workq

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/mongodb/amboy/internal/connserver"
)

// bufferSize is the size of the buffers of connections. Longer lines are collected.
const bufferSize = 4 << 10

// largeBlock is the size from which on a block or an answer counts for Options.MaxBuffered.
const largeBlock = 16 << 10

// watchAfter is how long a command waits before the server begins to watch whether its
// client is still connected.
const watchAfter = time.Second

var buffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, bufferSize) }}

// conn is a connection. One goroutine serves it, so commands are answered in order.
type conn struct {
	server *Server
	raw    *connserver.Conn
	// open ends when the server is closed, the client has gone, or the connection has ended.
	open context.Context
	end  context.CancelFunc
	// watcher calls watch; nil until a command waits.
	watcher *watcher
	// in is the buffered input; nil while the connection waits with nothing buffered.
	in *bufio.Reader
	// ahead is a byte that was read while a command waited; it comes before what is read
	// next.
	ahead    byte
	hasAhead bool
	// cmd is the command that is being answered.
	cmd command
	// reserved is what the block of the current command takes of Server.buffered.
	reserved int64
	// given is the lease that the current command is answered with; nil for none.
	given *due
	// lists is true while the answer to a command that lists is being made or written.
	lists bool
}

func newConn(s *Server, raw *connserver.Conn) *conn {
	c := &conn{server: s, raw: raw}
	c.open, c.end = context.WithCancel(s.conns.Open())
	return c
}

// Read reads from the connection, for the buffer.
func (c *conn) Read(p []byte) (int, error) {
	if c.hasAhead && len(p) > 0 {
		p[0], c.hasAhead = c.ahead, false
		return 1, nil
	}
	return c.raw.Read(p)
}

// input returns the buffered input.
func (c *conn) input() *bufio.Reader {
	if c.in == nil {
		c.in = buffers.Get().(*bufio.Reader)
		c.in.Reset(c)
	}
	return c.in
}

// letGo gives the buffer back if it is empty.
func (c *conn) letGo() {
	if c.in != nil && c.in.Buffered() == 0 {
		c.in.Reset(nil)
		buffers.Put(c.in)
		c.in = nil
	}
}

// serve answers commands until the connection ends.
func (c *conn) serve() {
	defer c.end()
	for {
		line, err := c.readLine()
		if err != nil {
			return
		}
		err = c.answerLine(line)
		c.cmd = command{} // an idle connection keeps no line
		if err != nil {
			return
		}
	}
}

var errLine = errors.New("the line is too long, or does not end with CR LF")

// readLine reads a line, and returns it without its end.
func (c *conn) readLine() (string, error) {
	in := c.input()
	if _, err := c.raw.AwaitRequest(in); err != nil {
		return "", err
	}
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > MaxLine+2 {
			return "", errLine
		}
		if err == nil && line == nil {
			line = part
			break
		}
		line = append(line, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return "", err
		}
	}
	text, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok {
		return "", errLine
	}
	return string(text), nil
}

// errHangUp ends a connection after an error line.
var errHangUp = errors.New("the rest of the input can't be understood")

var errHTTP = errors.New("the client speaks HTTP")

// answerLine reads the block of a command, if it has one, and answers it. The error is not
// nil if the connection must end.
func (c *conn) answerLine(line string) error {
	if isHTTP(line) {
		return errHTTP
	}
	cmd := &c.cmd
	cmd.parse(line)
	has, bad := cmd.hasBlock()
	if bad {
		return errors.Join(c.write([]byte(cmd.problem+"\r\n")), errHangUp)
	}
	defer c.release()
	defer c.endList()
	var block []byte
	if has {
		var err error
		block, err = c.readBlock(cmd.size)
		if err != nil {
			return c.badBlock(cmd, err)
		}
	}
	if cmd.problem != "" {
		return c.write([]byte(cmd.problem + "\r\n"))
	}
	err := c.reply(c.execute(cmd, block))
	if err != nil && c.given != nil {
		c.server.takeBack(c.given)
	}
	c.given = nil
	return err
}

// badBlock answers a command whose block could not be read.
func (c *conn) badBlock(cmd *command, err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, errBlockEnd) {
		return err
	}
	if cmd.problem == "" {
		cmd.problem = cmd.block
	}
	return errors.Join(c.write([]byte(cmd.problem+"\r\n")), errHangUp)
}

// reply sends an answer, or the line of an error that is one.
func (c *conn) reply(out []byte, err error) error {
	c.release()
	if err == nil {
		return c.write(out)
	}
	var refusal answer
	if errors.As(err, &refusal) {
		return c.write([]byte(refusal + "\r\n"))
	}
	return err
}

var errBlockEnd = errors.New("the block does not end with CR LF")

// readBlock reads a block and its end. If it is large, its size is taken from Server.buffered
// until the caller calls release. Memory is taken as the bytes arrive.
func (c *conn) readBlock(size int) ([]byte, error) {
	in := c.input()
	if in.Buffered() < size+2 {
		if err := c.raw.SetReadDeadline(time.Now().Add(c.server.opts.ReadTimeout)); err != nil {
			return nil, err
		}
	}
	if size > largeBlock {
		if err := c.reserve(size); err != nil {
			return nil, err
		}
	}
	block := make([]byte, 0, min(size, largeBlock)+2)
	for len(block) < size+2 {
		if len(block) == cap(block) {
			larger := make([]byte, len(block), min(2*cap(block), size+2))
			copy(larger, block)
			block = larger
		}
		n, err := in.Read(block[len(block):min(cap(block), size+2)])
		block = block[:len(block)+n]
		if err != nil {
			return nil, err
		}
	}
	if !bytes.HasSuffix(block, []byte("\r\n")) {
		return nil, errBlockEnd
	}
	return block[:size], nil
}

// reserve waits until a large block may be in memory.
func (c *conn) reserve(size int) error {
	ctx, cancel := context.WithTimeout(c.server.conns.Open(), c.server.opts.ReadTimeout)
	defer cancel()
	err := c.server.buffered.Acquire(ctx, int64(size))
	if err == nil {
		c.reserved = int64(size)
	}
	return err
}

// release gives back what reserve took. Releasing again does nothing.
func (c *conn) release() {
	c.server.buffered.Release(c.reserved)
	c.reserved = 0
}

// endList lets another command list.
func (c *conn) endList() {
	if c.lists {
		c.server.listing.Release(1)
		c.lists = false
	}
}

// maxUnwritten is how many large answers wait until others have been written. The
// connections of further ones are closed, so that clients that do not read can't fill the
// memory.
const maxUnwritten = 64

var errTooMuch = errors.New("too many large answers wait to be written")

// reserveAnswer waits until a large answer may be written. release must be called at the end.
func (c *conn) reserveAnswer(size int) (release func(), err error) {
	s := c.server
	if size <= largeBlock {
		return func() {}, nil
	}
	weight := int64(min(size, s.opts.MaxBuffered))
	release = func() { s.buffered.Release(weight) }
	if s.buffered.TryAcquire(weight) {
		return release, nil
	}
	if !s.unwritten.TryAcquire(1) {
		return nil, errTooMuch
	}
	defer s.unwritten.Release(1)
	ctx, cancel := context.WithTimeout(s.conns.Working(), s.opts.WriteTimeout)
	defer cancel()
	return release, s.buffered.Acquire(ctx, weight)
}

// write sends an answer with one write.
func (c *conn) write(out []byte) error {
	release, err := c.reserveAnswer(len(out))
	if err != nil {
		return err
	}
	defer release()
	_, err = c.raw.Write(out)
	return err
}

// wait calls do, which may wait for long, with a context that ends when the server is closed
// or the client has gone. gone reports whether the client has gone; then do may not have
// been called, and the connection must end.
func (c *conn) wait(do func(context.Context)) (gone bool) {
	c.letGo()
	err := c.raw.SetReadDeadline(time.Time{})
	switch {
	case c.hasAhead || errors.Is(err, ErrClosed): // the client was there, or do returns at once
		do(c.server.conns.Open())
		return false
	case err != nil:
		return true
	}
	if c.watcher == nil {
		c.watcher = startWatcher(c)
	} else {
		c.watcher.timer.Reset(watchAfter)
	}
	do(c.open)
	if c.watcher.timer.Stop() {
		return false
	}
	_ = c.raw.SetReadDeadline(connserver.Past) // the watcher returns; the next read has another deadline
	return <-c.watcher.gone
}

// watcher watches whether the client is still connected when a command has waited for watchAfter.
type watcher struct {
	timer *time.Timer
	// gone receives what watch has returned.
	gone chan bool
}

func startWatcher(c *conn) *watcher {
	w := &watcher{gone: make(chan bool, 1)}
	w.timer = time.AfterFunc(watchAfter, func() {
		gone := c.watch()
		if gone {
			c.end()
		}
		w.gone <- gone
	})
	return w
}

// watch reads a byte while a command waits, and reports whether the client has gone.
func (c *conn) watch() (gone bool) {
	var one [1]byte
	n, err := c.raw.Read(one[:])
	if n == 1 {
		c.ahead, c.hasAhead = one[0], true
		return false
	}
	var timeout net.Error
	return !errors.As(err, &timeout) || !timeout.Timeout()
}
