package logger

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/mongodb/grip/message"
	"github.com/mongodb/grip/send"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue"
)

// NewQueueBackedSender is like MakeQueueSender, with a local queue of its own, which has
// the given number of workers and holds at most capacity waiting messages. Messages are
// sent in order only if there is one worker. It returns an error for a nil sender and for
// numbers less than 1.
//
// Close waits until all messages are sent, closes the queue, and closes the given sender.
// It returns an error with the number of messages that were not sent because ctx ended. A
// message that arrives after the call of Close goes to the sender's error handler. When ctx
// ends, the queue stops; call Close in any case.
func NewQueueBackedSender(ctx context.Context, sender send.Sender, workers, capacity int) (send.Sender, error) {
	if err := validate(sender, workers, capacity); err != nil {
		return nil, err
	}
	q := queue.NewLocalLimitedSize(workers, capacity)
	if err := q.Start(logging.Quiet(ctx)); err != nil {
		return nil, fmt.Errorf("starting the queue of sender %q: %w", sender.Name(), err)
	}
	s := &queueBackedSender{queueSender: queueSender{Sender: sender, ctx: ctx, queue: q}}
	s.close = sync.OnceValue(s.drainAndClose)
	return s, nil
}

func validate(sender send.Sender, workers, capacity int) error {
	var errs []error
	if sender == nil {
		errs = append(errs, errors.New("invalid queue-backed sender: sender must not be nil"))
	}
	if workers < 1 {
		errs = append(errs, fmt.Errorf("invalid queue-backed sender: workers must be at least 1 (is %d)", workers))
	}
	if capacity < 1 {
		errs = append(errs, fmt.Errorf("invalid queue-backed sender: capacity must be at least 1 (is %d)", capacity))
	}
	return errors.Join(errs...)
}

// queueBackedSender owns its queue and the given sender.
type queueBackedSender struct {
	queueSender

	close func() error

	mu      sync.Mutex
	closing bool
	sending sync.WaitGroup // the calls of Send, some of which wait for room
}

func (s *queueBackedSender) Send(ctx context.Context, m message.Composer) {
	if !s.begin() {
		if s.Level().ShouldLog(m) {
			s.refuse(ctx, m, amboy.ErrQueueClosed)
		}
		return
	}
	defer s.sending.Done()
	s.queueSender.Send(ctx, m)
}

// begin counts a call of Send. It returns false when the sender is closing: otherwise a
// service that logs faster than its messages are sent could not close it.
func (s *queueBackedSender) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		s.sending.Add(1)
	}
	return !s.closing
}

func (s *queueBackedSender) Close() error { return s.close() }

func (s *queueBackedSender) drainAndClose() error {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.sending.Wait()
	var unsent error
	// If Wait returns false, the remaining messages are counted below.
	amboy.Wait(s.ctx, s.queue)
	s.queue.Close(s.ctx)
	if pending := s.queue.Stats(context.WithoutCancel(s.ctx)).Pending; pending > 0 {
		unsent = fmt.Errorf("closing sender %q: %d messages may not have been sent", s.Name(), pending)
	}
	return errors.Join(unsent, s.Sender.Close())
}
