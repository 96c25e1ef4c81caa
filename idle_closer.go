package amboy

import "context"

// IdleCloser is implemented by queues that can be closed only if they have no work, with
// no Put in between. Groups use it to prune queues.
type IdleCloser interface {
	// CloseIfIdle closes the queue as Close does, unless a job is pending, running,
	// retrying or being put. In that case it changes nothing and returns false. If it
	// can't determine that, it closes nothing and returns an error. It blocks as Stats
	// and Close do, and is safe for concurrent use.
	CloseIfIdle(ctx context.Context) (closed bool, err error)
}
