package sqlite

import (
	"context"

	"github.com/mongodb/amboy/queue/driver"
)

// soleConnection is a connection that is used by one call at a time.
type soleConnection struct {
	// conn holds the connection while no call uses it.
	conn   chan *ownConnection
	closed <-chan struct{}
}

func newSoleConnection(conn *ownConnection, closed <-chan struct{}) *soleConnection {
	s := &soleConnection{conn: make(chan *ownConnection, 1), closed: closed}
	s.conn <- conn
	return s
}

// use waits for the connection, and calls run with it.
func (s *soleConnection) use(ctx context.Context, run func(*ownConnection) error) error {
	if err := s.ended(ctx); err != nil {
		return err
	}
	select {
	case conn := <-s.conn:
		defer func() { s.conn <- conn }()
		return run(conn)
	case <-ctx.Done():
	case <-s.closed:
	}
	return s.ended(ctx)
}

// ended returns the reason why a call must stop; nil if there is none.
func (s *soleConnection) ended(ctx context.Context) error {
	select {
	case <-s.closed:
		return driver.ErrClosed
	default:
		return ctx.Err()
	}
}

// close waits for the call that uses the connection. None must be started after close.
func (s *soleConnection) close() error { return (<-s.conn).close() }
