package amboy

import "context"

// QueueControl holds an operator's settings for a queue.
type QueueControl struct {
	// Paused keeps jobs from running. Jobs that expire still end.
	Paused bool
	// Draining makes Put refuse jobs. Existing jobs still run and are retried.
	Draining bool
	// MaxRunning is the number of jobs that may run at once, over all processes; 0
	// means no limit.
	MaxRunning int
}

// QueueController is implemented by queues that an operator can control. If the queue has
// a store, the settings are kept there and apply to all processes that share it. The
// methods block for the calls to the store, return its errors, and are safe for
// concurrent use. Repeating a setting does nothing.
type QueueController interface {
	// Control returns the settings.
	Control(ctx context.Context) (QueueControl, error)
	// Pause keeps jobs from running. Running jobs go on, and jobs can still be put.
	Pause(ctx context.Context) error
	// Drain makes Put fail with an error that wraps ErrQueueDraining. Jobs that the
	// queue already holds are run and retried.
	Drain(ctx context.Context) error
	// Resume undoes Pause and Drain.
	Resume(ctx context.Context) error
	// SetMaxRunning limits the number of jobs that run at once, over all processes;
	// 0 removes the limit. n must not be negative.
	SetMaxRunning(ctx context.Context, n int) error
}
