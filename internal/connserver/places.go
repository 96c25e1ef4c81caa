package connserver

import (
	"net"
	"net/netip"
	"sync"
)

// places limits the open connections of all clients, and those of each client of another machine.
type places struct {
	most, perClient int

	mu       sync.Mutex
	taken    int
	byClient map[netip.Prefix]int
}

func newPlaces(most, perClient int) *places {
	return &places{most: most, perClient: perClient, byClient: map[netip.Prefix]int{}}
}

// take takes the place of a connection from an address, and returns false if there is none. leave
// must be called once, when the connection is closed.
func (p *places) take(address net.Addr) (leave func(), ok bool) {
	client := clientOf(address)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken >= p.most || client.IsValid() && p.byClient[client] >= p.perClient {
		return nil, false
	}
	p.taken++
	if client.IsValid() {
		p.byClient[client]++
	}
	return func() { p.leave(client) }, true
}

func (p *places) leave(client netip.Prefix) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if !client.IsValid() {
		return
	}
	p.byClient[client]--
	if p.byClient[client] == 0 {
		delete(p.byClient, client)
	}
}

// clientBits is how much of an IPv6 address identifies a client.
const clientBits = 64

// clientOf returns the client of another machine at an address. It is not valid for a client
// of this machine.
func clientOf(address net.Addr) netip.Prefix {
	tcp, ok := address.(*net.TCPAddr)
	if !ok || tcp.IP.IsLoopback() {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = clientBits
	}
	client, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // an address without an IP is none of TCP
	}
	return client
}

// Limit limits the connections that a listener accepts for a server that does not do so itself, as
// Options.MaxConnections and MaxPerClient limit those of a Server. Further ones are closed at once.
func Limit(l net.Listener, maxConnections, maxPerClient int) net.Listener {
	return limited{l, newPlaces(maxConnections, maxPerClient)}
}

type limited struct {
	net.Listener
	places *places
}

// Accept returns the next connection that has a place.
func (l limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if leave, ok := l.places.take(conn.RemoteAddr()); ok {
			return &placed{Conn: conn, leave: sync.OnceFunc(leave)}, nil
		}
		_ = conn.Close() // nothing was written
	}
}

// placed is a connection with a place.
type placed struct {
	net.Conn
	leave func()
}

// Close closes the connection, and gives its place back.
func (c *placed) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
