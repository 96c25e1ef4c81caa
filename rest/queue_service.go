package rest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
)

// QueueServiceOptions configure the queue that a QueueService opens.
type QueueServiceOptions struct {
	// ForceTimeout ends the queue after a time, whatever it has left. Default: 0,
	// for never.
	ForceTimeout time.Duration `bson:"force_timeout,omitempty" json:"force_timeout,omitempty" yaml:"force_timeout,omitempty"`
	// QueueSize is the number of jobs that may wait, and of those that have ended and
	// are remembered, in a queue that the service makes. Default:
	// DefaultQueueSize.
	QueueSize int `bson:"queue_size" json:"queue_size" yaml:"queue_size"`
	// NumWorkers is the number of jobs that run at once in a queue that the service
	// makes. Default: DefaultNumWorkers.
	NumWorkers int `bson:"num_workers" json:"num_workers" yaml:"num_workers"`
}

// The defaults of QueueServiceOptions.
const (
	DefaultQueueSize  = 256
	DefaultNumWorkers = 2
)

func (o *QueueServiceOptions) validate() error {
	var errs []error
	for _, field := range []struct {
		name     string
		value    *int
		fallback int
	}{{"QueueSize", &o.QueueSize, DefaultQueueSize}, {"NumWorkers", &o.NumWorkers, DefaultNumWorkers}} {
		if *field.value < 0 {
			errs = append(errs, fmt.Errorf("invalid queue service options: %s must not be negative (is %d)", field.name, *field.value))
		}
		if *field.value == 0 {
			*field.value = field.fallback
		}
	}
	if o.ForceTimeout < 0 {
		errs = append(errs, fmt.Errorf("invalid queue service options: ForceTimeout must not be negative (is %s)", o.ForceTimeout))
	}
	return errors.Join(errs...)
}

// QueueService puts jobs into a queue, and tells about them, on HTTP (see Handler).
// It is safe for concurrent use.
type QueueService struct {
	mu    sync.Mutex
	queue amboy.Queue
	// end ends the queue, where the service has started it; nil otherwise.
	end    context.CancelFunc
	opened bool
}

// NewQueueService returns a service without a queue: SetQueue gives it one, or Open
// makes one.
func NewQueueService() *QueueService { return &QueueService{} }

// Queue returns the queue; nil where there is none.
func (s *QueueService) Queue() amboy.Queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue
}

// SetQueue gives the service a queue, in place of any that it has. It returns an
// error for nil, and once the service was opened.
func (s *QueueService) SetQueue(q amboy.Queue) error {
	if q == nil {
		return errors.New("setting the queue of a service: it must not be nil")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened {
		return fmt.Errorf("setting the queue of a service: %w", amboy.ErrAlreadyStarted)
	}
	s.queue = q
	return nil
}

// Open is OpenWithOptions with the defaults.
func (s *QueueService) Open(ctx context.Context) error {
	return s.OpenWithOptions(ctx, QueueServiceOptions{})
}

// OpenWithOptions starts the queue, unless it is started. Where there is none it
// makes one in memory, as queue.NewLocalLimitedSizeSerializable does. What it starts
// runs under ctx; call Close all the same, to wait for it. It returns an error for
// options that are not valid, for a service that was opened, and that of the start.
func (s *QueueService) OpenWithOptions(ctx context.Context, opts QueueServiceOptions) error {
	if err := opts.validate(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened {
		return fmt.Errorf("opening a queue service: %w", amboy.ErrAlreadyStarted)
	}
	q := s.queue
	if q == nil {
		made, err := queue.NewLocalLimitedSizeSerializable(opts.NumWorkers, opts.QueueSize)
		if err != nil {
			return fmt.Errorf("opening a queue service: %w", err)
		}
		q = made
	}
	if !q.Info().Started {
		end, err := start(ctx, q, opts.ForceTimeout)
		if err != nil {
			return fmt.Errorf("opening a queue service: %w", err)
		}
		s.end = end
	}
	s.queue, s.opened = q, true
	return nil
}

// start starts a queue that runs until ctx ends, or a time has passed, or end is
// called. The error of a start closes the queue.
func start(ctx context.Context, q amboy.Queue, most time.Duration) (end context.CancelFunc, err error) {
	running, end := context.WithCancel(ctx)
	if most > 0 {
		running, end = context.WithTimeout(ctx, most)
	}
	err = q.Start(running)
	if err != nil {
		end()
		q.Close(running)
		return nil, err
	}
	return end, nil
}

// closePatience is how long Close waits for running jobs before it cancels them.
const closePatience = 10 * time.Second

// Close closes the queue, if Open has started it: it takes no more jobs, and those
// that run have ten seconds to end before they are canceled. It blocks until all of
// the queue is gone. A queue that the host has started stays as it is. Closing again
// does nothing.
func (s *QueueService) Close() {
	s.mu.Lock()
	q, end := s.queue, s.end
	s.end = nil
	s.mu.Unlock()
	if end == nil {
		return
	}
	defer end()
	patience, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	q.Close(patience)
}
