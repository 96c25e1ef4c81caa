package amboy

import "context"

// IdleCloser is implemented by queues that can be closed on condition that they have no
// work, without a Put coming in between. Groups prune them by that.
type IdleCloser interface {
	// CloseIfIdle closes the queue as Close does, unless a job is pending, running or
	// retrying, or is being put; then nothing changes and it returns false. It returns
	// an error, and closes nothing, if it could not find out. It blocks as Stats and
	// Close do, and is safe for concurrent use.
	CloseIfIdle(ctx context.Context) (closed bool, err error)
}
