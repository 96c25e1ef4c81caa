// Package sharedread lets requests share one read of a store, so that many requests cost the
// store no more than one.
package sharedread

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Timeout is the maximum duration of a read: its context ends then.
const Timeout = 5 * time.Second

// grace is how long callers wait for a read to return after its context has ended.
const grace = 250 * time.Millisecond

// MinShared is the minimum time for which a result is shared.
const MinShared = time.Second

// ErrLate is returned if a read did not end in time.
var ErrLate = errors.New("the read did not end in time")

// Reader shares the results of reads. The zero value shares them for MinShared. It is safe
// for concurrent use. A read has a goroutine, for which its first caller waits. If a store ignores
// the end of its context, that goroutine is left behind; there is no other read until it ends.
type Reader[T any] struct {
	// SharedFor returns how long to share the result of a read that took so long.
	SharedFor func(took time.Duration) time.Duration

	mu     sync.Mutex
	latest *Result[T]
}

// Result is the result of a read.
type Result[T any] struct {
	Value T
	At    time.Time // when the read ended
	Took  time.Duration

	done chan struct{} // closed when the other fields are set
}

// Read returns the result of a new read, or of one made recently. A read does not end with
// ctx, because other requests wait for it. The error is ErrLate. read must not panic.
func (r *Reader[T]) Read(ctx context.Context, read func(context.Context) T) (*Result[T], error) {
	shared, owned := r.join()
	if owned {
		ctx = context.WithoutCancel(ctx)
		go shared.run(ctx, read)
	}
	waiting, cancel := context.WithTimeout(ctx, Timeout+grace)
	defer cancel()
	select {
	case <-shared.done:
		return shared, nil
	case <-waiting.Done():
		return nil, ErrLate
	}
}

// join returns the current result, or a new one whose read the caller must run.
func (r *Reader[T]) join() (shared *Result[T], owned bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.latest != nil {
		select {
		case <-r.latest.done:
			if time.Since(r.latest.At) < r.sharedFor(r.latest.Took) {
				return r.latest, false
			}
		default: // it is running
			return r.latest, false
		}
	}
	r.latest = &Result[T]{done: make(chan struct{})}
	return r.latest, true
}

func (r *Reader[T]) sharedFor(took time.Duration) time.Duration {
	if r.SharedFor == nil {
		return MinShared
	}
	return r.SharedFor(took)
}

func (s *Result[T]) run(ctx context.Context, read func(context.Context) T) {
	limited, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	defer close(s.done)
	begin := time.Now()
	s.Value = read(limited)
	s.At = time.Now()
	s.Took = s.At.Sub(begin)
}
