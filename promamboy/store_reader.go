package promamboy

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/management"
)

const (
	// readTimeout is the maximum duration of a read.
	readTimeout = 5 * time.Second
	// The result of a read is shared for sharedFactor times as long as it took, between
	// minShared and maxShared, so that scrapes without end take at most a tenth of the time
	// of a store that counts slowly.
	sharedFactor = 10
	minShared    = time.Second
	maxShared    = time.Minute
)

// storeReader reads the store for all scrapes of a collector.
type storeReader struct {
	meter management.Meter

	mu     sync.Mutex
	latest *storeRead
	failed bool // whether the latest read that ended failed
}

// storeRead is a read that several scrapes share.
type storeRead struct {
	done   chan struct{} // closed when the other fields are set
	at     time.Time     // when it ended
	took   time.Duration
	queues []management.QueueMeasures
	err    error
}

// read returns the result of a new read, or of one made recently.
func (s *storeReader) read(ctx context.Context) *storeRead {
	shared, owned := s.join()
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if owned {
		s.run(limited, shared)
		return shared
	}
	select {
	case <-shared.done:
		return shared
	case <-limited.Done():
		return &storeRead{took: readTimeout, err: errors.New("the read did not end in time")}
	}
}

// join returns the current read, or a new one that the caller must run.
func (s *storeReader) join() (shared *storeRead, owned bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest != nil {
		select {
		case <-s.latest.done:
			if time.Since(s.latest.at) < min(max(sharedFactor*s.latest.took, minShared), maxShared) {
				return s.latest, false
			}
		default: // it is running
			return s.latest, false
		}
	}
	s.latest = &storeRead{done: make(chan struct{})}
	return s.latest, true
}

func (s *storeReader) run(ctx context.Context, shared *storeRead) {
	defer close(shared.done)
	begin := time.Now()
	shared.queues, shared.err = s.try(ctx)
	shared.at = time.Now()
	shared.took = shared.at.Sub(begin)
	s.mu.Lock()
	failedBefore := s.failed
	s.failed = shared.err != nil
	s.mu.Unlock()
	if shared.err != nil && !failedBefore {
		logging.Error(ctx, message.Fields{"message": "could not read the store for metrics", "error": shared.err.Error()})
	}
}

func (s *storeReader) try(ctx context.Context) (queues []management.QueueMeasures, err error) {
	defer func() {
		if value := recover(); value != nil {
			queues, err = nil, fmt.Errorf("reading the store panicked: %v\n%s", value, debug.Stack())
		}
	}()
	return s.meter.MeasureQueues(ctx)
}
