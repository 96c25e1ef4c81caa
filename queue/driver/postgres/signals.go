package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/pgconnect"
)

const (
	// signalPause is the minimum interval between notifications that a driver sends, endedPause that before one
	// which makes nothing claimable, and failedPause that after one which failed. Changes in between are merged.
	signalPause = 2 * time.Millisecond
	endedPause  = 20 * time.Millisecond
	failedPause = 500 * time.Millisecond
	// sendTime bounds the time that a notification takes, so that a connection which is dead without an
	// error, for instance because a firewall dropped it, holds up no others for long.
	sendTime = 5 * time.Second
	// flushTime bounds the time that Close takes to send the last notification.
	flushTime = time.Second
)

// signals sends and receives notifications. A change is announced after its commit, in a separate
// transaction that writes nothing else, because a transaction that notifies holds a lock of the
// whole server while it commits. Changes in a caller's transaction are the exception, because only
// that transaction knows when it commits.
type signals struct {
	d       *Driver
	self    string
	channel string

	mu       sync.Mutex
	pending  bool
	mayClaim bool
	written  moments // of the records that claims of other processes must find
	failed   bool    // whether the last notification could not be sent
	sent     time.Time

	listening *pgconnect.Listener // nil with Options.PollOnly
	wake      chan struct{}
	stop      context.CancelFunc
	all       sync.WaitGroup
}

func newSignals(d *Driver) *signals {
	return &signals{d: d, self: rand.Text(), channel: "amboy." + d.opts.Schema, wake: make(chan struct{}, 1)}
}

// startSignals starts listening, unless Options.PollOnly is set.
func startSignals(ctx context.Context, d *Driver) (*signals, error) {
	s := newSignals(d)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	if d.opts.PollOnly {
		return s, nil
	}
	s.listening = s.listener()
	if err := s.listening.Open(ctx); err != nil {
		stop()
		return nil, fmt.Errorf("listening for notifications (set Options.PollOnly behind a pooler in transaction mode): %w", err)
	}
	s.all.Go(func() { s.listening.Run(running) })
	s.all.Go(func() { s.sendAll(running) })
	return s, nil
}

// listener returns a listener that passes on notifications of other processes.
func (s *signals) listener() *pgconnect.Listener {
	return &pgconnect.Listener{
		Pool:     s.d.pool,
		Channels: []string{s.channel},
		Notified: func(payload string) {
			from, what, _ := strings.Cut(payload, "/")
			if from == s.self {
				return
			}
			what, times, _ := strings.Cut(what, "/")
			s.d.lower(parseMoments(times))
			s.d.subscribers.Notify(driver.Change{MayClaim: what != endedNews})
		},
		Lost: func(ctx context.Context, err error) {
			logging.Warning(ctx, message.Fields{
				"message": "lost the connection that listens for notifications; connecting again",
				"schema":  s.d.opts.Schema,
				"error":   err.Error(),
			})
		},
		Again: func() {
			s.d.lower(anyTime)
			s.d.subscribers.Notify(driver.Anywhere)
		},
	}
}

// move makes the driver listen on the server that its pool has moved to.
func (s *signals) move() {
	if s.listening != nil {
		s.listening.Move()
	}
}

// send announces a change to other processes soon.
func (s *signals) send(mayClaim bool) {
	if s.d.opts.PollOnly {
		return
	}
	s.mu.Lock()
	s.pending, s.mayClaim = true, s.mayClaim || mayClaim
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// announce makes the next notification name the times of records that were written.
func (s *signals) announce(m moments) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = s.written.and(m)
}

// take returns what is to be announced. Times that a call is about to announce with its change are left.
func (s *signals) take() (pending, mayClaim bool, written moments) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.pending {
		return false, false, moments{}
	}
	mayClaim, written = s.mayClaim, s.written
	s.pending, s.mayClaim, s.written = false, false, moments{}
	return true, mayClaim, written
}

// takeTurn returns the text of a notification that jobs may be claimed, for a caller that sends it at once, with
// its own statements, and calls send if it could not. It has no turn if other changes are to be announced, or the
// pause since the last notification is not over.
func (s *signals) takeTurn() (text string, hasTurn bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.d.opts.PollOnly || s.pending || s.failed || !s.written.isEmpty() || now.Sub(s.sent) < signalPause {
		return "", false
	}
	s.sent = now
	return s.self + "/" + news(true, moments{}), true
}

func (s *signals) sendAll(ctx context.Context) {
	for s.awaitTurn(ctx) {
		s.sendOne(ctx)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	s.sendOne(last)
	cancel()
}

// awaitTurn waits until there is a change to announce, and a pause since the last notification is
// over. It reports whether that happened before ctx ended.
func (s *signals) awaitTurn(ctx context.Context) bool {
	select {
	case <-s.wake:
	case <-ctx.Done():
		return false
	}
	for {
		left := s.untilTurn()
		if left <= 0 {
			return true
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-s.wake: // the pause may be shorter now
		case <-ctx.Done():
			timer.Stop()
			return false
		}
		timer.Stop()
	}
}

// untilTurn returns how long it takes until the pending changes are announced.
func (s *signals) untilTurn() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	pause := endedPause
	switch {
	case s.failed:
		pause = failedPause
	case s.mayClaim:
		pause = signalPause
	}
	return pause - time.Since(s.sent)
}

// sendOne sends the pending announcements as one notification. If that fails, they remain pending.
func (s *signals) sendOne(ctx context.Context) {
	pending, mayClaim, written := s.take()
	if !pending {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	_, err := s.d.reader().exec(bounded, s.d.texts[notify], s.channel, s.self+"/"+news(mayClaim, written))
	s.mu.Lock()
	again := s.failed
	s.failed, s.sent = err != nil, time.Now()
	s.mu.Unlock()
	if err == nil {
		return
	}
	s.announce(written)
	s.send(mayClaim) // on another connection
	if !again && ctx.Err() == nil {
		logging.Warning(ctx, message.Fields{
			"message": "could not notify other processes of a change yet; until then they notice it when they poll",
			"schema":  s.d.opts.Schema,
			"error":   err.Error(),
		})
	}
}

// news returns the text of a notification without its sender.
func news(mayClaim bool, m moments) string {
	text := endedNews
	if mayClaim {
		text = "claim"
	}
	if m.isEmpty() {
		return text
	}
	return text + "/" + m.due.format() + "/" + m.expires.format()
}

// anyTime makes claims search all times.
var anyTime = moments{spans{{always, never}}, spans{{always, never}}}

// parseMoments reads the times of a notification. If they can't be read, all times are searched.
func parseMoments(text string) (m moments) {
	due, expires, _ := strings.Cut(text, "/")
	var err, other error
	m.due, err = parseSpans(due)
	m.expires, other = parseSpans(expires)
	if err != nil || other != nil {
		return anyTime
	}
	return m
}

// endedNews announces changes that make nothing claimable.
const endedNews = "ended"

// inTransaction returns the statement that sends a notification with the commit of the caller's transaction,
// if the driver sends some. It names no sender, because this process has no other way to notice the commit.
func (s *signals) inTransaction(mayClaim bool, written moments) []queued {
	if s.d.opts.PollOnly {
		return nil
	}
	return []queued{{text: s.d.texts[notifyIn], args: []any{s.channel, "/" + news(mayClaim, written)}}}
}

// sendIn sends a notification with the commit of the caller's transaction.
func (s *signals) sendIn(ctx context.Context, on querier, mayClaim bool, written moments) error {
	return on.send(ctx, s.inTransaction(mayClaim, written))
}

func (s *signals) close() {
	s.stop()
	s.all.Wait()
}
