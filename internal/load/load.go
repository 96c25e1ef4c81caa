// Package load reads a job of a queue, for callers that must not take an error of the store for a job that
// does not exist, as the result of amboy.Queue.Get does.
package load

import (
	"context"

	"github.com/mongodb/amboy"
)

// loader is implemented by the queues over a driver.
type loader interface {
	Load(ctx context.Context, id string) (amboy.Job, error)
}

// Job returns the job with an ID. If the queue does not hold it, the error is one for which
// amboy.IsJobNotFoundError is true. Other errors are those of the store, or of decoding the job. A queue of
// another package may return a job not found instead of them.
func Job(ctx context.Context, q amboy.Queue, id string) (amboy.Job, error) {
	if l, ok := q.(loader); ok {
		return l.Load(ctx, id)
	}
	if j, ok := q.Get(ctx, id); ok {
		return j, nil
	}
	return nil, amboy.NewJobNotFoundErrorf("queue %q does not hold job %q, or it can't be decoded", q.ID(), id)
}
