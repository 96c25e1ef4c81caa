package sqlite

import (
	"context"
	"errors"

	"github.com/mongodb/amboy/queue/driver"
)

// connections are connections each of which is used by one call at a time.
type connections struct {
	// free holds the connections that no call uses.
	free   chan *ownConnection
	closed <-chan struct{}
}

func newConnections(closed <-chan struct{}, all ...*ownConnection) *connections {
	c := &connections{free: make(chan *ownConnection, len(all)), closed: closed}
	c.give(all)
	return c
}

// use waits for a connection, and calls run with it.
func (c *connections) use(ctx context.Context, run func(*ownConnection) error) error {
	taken, err := c.take(ctx, 1)
	if err != nil {
		return err
	}
	defer c.give(taken)
	return run(taken[0])
}

// take waits for a connection, and returns it and others that are free, up to most. They must be given
// back.
func (c *connections) take(ctx context.Context, most int) ([]*ownConnection, error) {
	if err := c.ended(ctx); err != nil {
		return nil, err
	}
	var taken []*ownConnection
	select {
	case conn := <-c.free:
		taken = append(taken, conn)
	case <-ctx.Done():
		return nil, c.ended(ctx)
	case <-c.closed:
		return nil, c.ended(ctx)
	}
	for len(taken) < most {
		select {
		case conn := <-c.free:
			taken = append(taken, conn)
		default:
			return taken, nil
		}
	}
	return taken, nil
}

func (c *connections) give(back []*ownConnection) {
	for _, conn := range back {
		c.free <- conn
	}
}

// ended returns the reason why a call must stop; nil if there is none.
func (c *connections) ended(ctx context.Context) error {
	select {
	case <-c.closed:
		return driver.ErrClosed
	default:
		return ctx.Err()
	}
}

// close waits for the calls that use the connections. None must be started after close.
func (c *connections) close() error {
	var errs []error
	for range cap(c.free) {
		errs = append(errs, (<-c.free).close())
	}
	return errors.Join(errs...)
}
