package pgconnect

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// firstReconnect and lastReconnect bound the pause between attempts to listen again, and listenTime
	// bounds each of them.
	firstReconnect = 100 * time.Millisecond
	lastReconnect  = 5 * time.Second
	listenTime     = 10 * time.Second
	// checkInterval is how long a connection may be silent before it is checked, and checkTime bounds each
	// check.
	checkInterval = 15 * time.Second
	checkTime     = 5 * time.Second
)

// Listener receives notifications on a connection of its own. When that breaks, or does not answer after it
// was silent, the listener opens another one.
type Listener struct {
	// Pool has the settings of the connection.
	Pool     *pgxpool.Pool
	Channels []string
	// Notified is called with the payload of each notification.
	Notified func(payload string)
	// Lost is called when a connection is lost, and Again when another one listens. Notifications may have
	// been lost meanwhile.
	Lost  func(ctx context.Context, err error)
	Again func()
	// CheckEvery is how long the connection may be silent before it is checked; 0 means 15 seconds.
	CheckEvery time.Duration

	conn      *pgx.Conn
	moved     atomic.Bool                        // whether Move was called since the connection was opened
	interrupt atomic.Pointer[context.CancelFunc] // ends a wait for a notification
}

// errMoved is the error of a wait that Move ended.
var errMoved = errors.New("the pool may have moved to another server")

// Open begins to listen, and returns an error unless a notification arrives. Run must follow if there is no error.
func (l *Listener) Open(ctx context.Context) (err error) {
	l.conn, err = l.listen(ctx)
	if err != nil {
		return err
	}
	if err = l.hearItself(ctx); err != nil {
		_ = l.conn.Close(context.WithoutCancel(ctx)) // The first error is returned.
	}
	return err
}

// hearItself waits for a notification that it sends over the pool. A pooler in transaction mode accepts LISTEN, but the
// connection of the server that listens does not stay with the client.
func (l *Listener) hearItself(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	name := "amboy.check." + rand.Text()
	quoted := pgx.Identifier{name}.Sanitize()
	_, err := l.conn.Exec(bounded, "LISTEN "+quoted)
	if err == nil {
		_, err = l.Pool.Exec(bounded, "NOTIFY "+quoted)
	}
	for err == nil {
		var n *pgconn.Notification
		n, err = l.conn.WaitForNotification(bounded)
		if err == nil && n.Channel == name {
			_, err = l.conn.Exec(bounded, "UNLISTEN "+quoted)
			return err
		}
	}
	if ctx.Err() == nil && bounded.Err() != nil {
		return fmt.Errorf("a notification did not arrive within %s", checkTime)
	}
	return err
}

func (l *Listener) listen(ctx context.Context) (*pgx.Conn, error) {
	config := l.Pool.Config()
	config.ConnConfig.OnNotification = nil // the pool's handler would take the notifications
	conn, err := connect(ctx, config)
	if err != nil {
		return nil, err
	}
	for _, channel := range l.Channels {
		_, err = conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize())
		if err != nil {
			_ = conn.Close(context.WithoutCancel(ctx)) // The error of LISTEN is returned.
			return nil, err
		}
	}
	return conn, nil
}

// Move makes the listener open another connection, because the pool may have moved to another server. The old one may
// live on, but no process sends notifications there. Move returns immediately.
func (l *Listener) Move() {
	l.moved.Store(true)
	if interrupt := l.interrupt.Load(); interrupt != nil {
		(*interrupt)()
	}
}

// Run passes on notifications until ctx ends, and closes the connection.
func (l *Listener) Run(ctx context.Context) {
	for ctx.Err() == nil {
		n, err := l.next(ctx)
		if err == nil {
			l.Notified(n.Payload)
			continue
		}
		_ = l.conn.Close(context.WithoutCancel(ctx)) // It is broken, or no longer needed.
		if ctx.Err() != nil {
			return
		}
		if !errors.Is(err, errMoved) {
			l.Lost(ctx, err)
		}
		if !l.reopen(ctx) {
			return
		}
		l.Again()
	}
	_ = l.conn.Close(context.WithoutCancel(ctx))
}

// next waits for a notification, and checks the connection while none comes.
func (l *Listener) next(ctx context.Context) (*pgconn.Notification, error) {
	interval := l.CheckEvery
	if interval == 0 {
		interval = checkInterval
	}
	for {
		silent, cancel := context.WithTimeout(ctx, interval)
		l.interrupt.Store(&cancel)
		if l.moved.Load() {
			cancel()
		}
		n, err := l.conn.WaitForNotification(silent)
		cancel()
		switch {
		case err == nil || ctx.Err() != nil:
			return n, err
		case l.moved.Load():
			return nil, errMoved
		case !pgconn.Timeout(err):
			return nil, err
		}
		checked, cancel := context.WithTimeout(ctx, checkTime)
		err = l.conn.Ping(checked)
		cancel()
		if err != nil {
			return nil, err
		}
	}
}

// reopen opens another connection. It reports false if ctx ends before.
func (l *Listener) reopen(ctx context.Context) bool {
	for wait := firstReconnect; ctx.Err() == nil; wait = min(2*wait, lastReconnect) {
		l.moved.Store(false)
		bounded, cancel := context.WithTimeout(ctx, listenTime)
		conn, err := l.listen(bounded)
		cancel()
		if err == nil {
			l.conn = conn
			return true
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	return false
}
