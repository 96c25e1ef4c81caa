package promamboy

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/internal/sharedread"
	"github.com/mongodb/amboy/management"
)

const (
	// sharedFactor is for how many times as long as it took the result of a read is shared,
	// so that scrapes take at most a tenth of the time of a store that counts slowly.
	sharedFactor = 10
	maxShared    = time.Minute
)

// storeReader reads the store for all scrapes of a collector.
type storeReader struct {
	meter  management.Meter
	reads  sharedread.Reader[measured]
	failed atomic.Bool // whether the latest read failed
}

// measured is what a read found.
type measured struct {
	queues []management.QueueMeasures
	err    error
	types  management.TypeMeasures // At is zero if they could not be read
}

func newStoreReader(meter management.Meter) *storeReader {
	return &storeReader{meter: meter, reads: sharedread.Reader[measured]{SharedFor: func(took time.Duration) time.Duration {
		return min(max(sharedFactor*took, sharedread.MinShared), maxShared)
	}}}
}

// read returns the result of a new read, or of one made recently.
func (s *storeReader) read(ctx context.Context) *sharedread.Result[measured] {
	result, err := s.reads.Read(ctx, s.measure)
	if err != nil {
		return &sharedread.Result[measured]{Value: measured{err: err}, Took: sharedread.Timeout}
	}
	return result
}

// measure reads the store. It logs an error unless the previous read failed too.
func (s *storeReader) measure(ctx context.Context) (found measured) {
	var typesErr error
	found.queues, found.err = try(ctx, s.meter.MeasureQueues)
	if found.err == nil {
		found.types, typesErr = try(ctx, s.meter.MeasureTypes)
	}
	err := cmp.Or(found.err, typesErr)
	if failedBefore := s.failed.Swap(err != nil); err != nil && !failedBefore {
		logging.Error(ctx, message.Fields{"message": "could not read the store for metrics", "error": err.Error()})
	}
	return found
}

// try returns a panic of a driver as an error.
func try[T any](ctx context.Context, read func(context.Context) (T, error)) (found T, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("reading the store panicked: %v\n%s", value, debug.Stack())
		}
	}()
	return read(ctx)
}
