package rest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/rest/internal/guard"
)

// QueueServiceOptions configure the queue that a QueueService opens.
type QueueServiceOptions struct {
	// ForceTimeout is the time after which the queue stops, even if jobs are left.
	// Default: 0, which means never.
	ForceTimeout time.Duration `bson:"force_timeout,omitempty" json:"force_timeout,omitempty" yaml:"force_timeout,omitempty"`
	// QueueSize is the capacity of a queue that the service makes: the maximum number of
	// waiting jobs, and of finished jobs that are kept. Default: DefaultQueueSize.
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

// QueueService puts jobs into a queue, and reports about them, over HTTP (see Handler).
// It is safe for concurrent use.
type QueueService struct {
	mu    sync.Mutex
	queue amboy.Queue
	// end stops the queue if the service has started it; nil otherwise.
	end    context.CancelFunc
	opened bool

	lives guard.Lives // of the servers
}

// NewQueueService returns a service without a queue. SetQueue sets one, or Open makes one.
func NewQueueService() *QueueService { return &QueueService{} }

// Queue returns the queue; nil if the service has none.
func (s *QueueService) Queue() amboy.Queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue
}

// SetQueue sets the queue of the service, and replaces an earlier one. It returns an error
// for nil, and after the service was opened.
func (s *QueueService) SetQueue(q amboy.Queue) error {
	if q == nil {
		return errors.New("setting the queue of a service: queue must not be nil")
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

// OpenWithOptions starts the queue, unless it was started. If the service has no queue, it
// makes one in memory, as queue.NewLocalLimitedSizeSerializable does. A queue that it
// starts runs until ctx ends; call Close as well, to wait for the end. It returns an error
// if the options are invalid, the service was opened before, or the queue does not start.
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

// start starts a queue that runs until ctx ends, a time has passed, or end is called. If
// the start fails, it closes the queue.
func start(ctx context.Context, q amboy.Queue, most time.Duration) (end context.CancelFunc, err error) {
	var running context.Context
	if most > 0 {
		running, end = context.WithTimeout(ctx, most)
	} else {
		running, end = context.WithCancel(ctx)
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

// Close closes the queue if Open has started it: the queue accepts no more jobs, and
// running jobs have ten seconds to end before they are canceled. Close blocks until the
// queue is closed. It does not close a queue that the program has started. Further calls
// do nothing.
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
