package amboy

import "context"

// QueueControl is what a person has set for a queue.
type QueueControl struct {
	// Paused keeps jobs from being run. Those that have expired are ended all
	// the same.
	Paused bool
	// Draining keeps jobs from being put. Retries of those that are there go on.
	Draining bool
	// MaxRunning is the number of jobs that run at once, over all processes; 0
	// for no limit.
	MaxRunning int
}

// QueueController is implemented by queues that a person can steer. What is set is
// kept in the queue's store, where it has one, and holds for all processes that
// share it. The methods block as long as the store takes, return its errors, and
// are safe for concurrent use. Setting what is set already does nothing.
type QueueController interface {
	// Control returns what is set.
	Control(ctx context.Context) (QueueControl, error)
	// Pause keeps jobs from being run. Those that run go on, and more can be put.
	Pause(ctx context.Context) error
	// Drain makes Put fail with an error that wraps ErrQueueDraining. The jobs
	// that are there are run, and retried.
	Drain(ctx context.Context) error
	// Resume takes Pause and Drain back.
	Resume(ctx context.Context) error
	// SetMaxRunning limits the number of jobs that run at once, over all
	// processes; 0 takes the limit back. It must not be negative.
	SetMaxRunning(ctx context.Context, n int) error
}
