package outsidetest

import (
	"net"
	"sync"
)

// Pipes is a listener whose connections are pipes, which work in fake time.
type Pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewPipes returns a listener.
func NewPipes() *Pipes { return &Pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

// Accept returns the next connection.
func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close closes the listener, but no connection.
func (p *Pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr returns an address that only this process can reach.
func (p *Pipes) Addr() net.Addr { return pipeAddr{} }

// Dial opens a connection.
func (p *Pipes) Dial() (net.Conn, error) { return p.DialFrom(pipeAddr{}) }

// DialFrom opens a connection that seems to come from an address.
func (p *Pipes) DialFrom(address net.Addr) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- from{far, address}:
		return near, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

type from struct {
	net.Conn
	address net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.address }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
