package amboy

import (
	"context"
	"errors"
)

// ErrForeignTransaction is wrapped by the error of a Put, or of the end of a job, under a
// context that carries a transaction of another store than that of the queue.
var ErrForeignTransaction = errors.New("the transaction is one of another store")

// ErrNotCommitted is wrapped by the error of an attempt that was to end in a transaction
// which was not committed.
var ErrNotCommitted = errors.New("the transaction that was to end the job was not committed")

// TransactionalCompleter is implemented by queues that can end a running job in a transaction
// of the job. Jobs use it by job.CompleteIn.
type TransactionalCompleter interface {
	// CompleteIn ends a job that Next returned as succeeded, in the transaction that ctx
	// carries, which also checks the job's lease: the job ends if that is committed, and goes
	// on if it is rolled back. The error wraps ErrLeaseLost if the lease is not the job's any
	// more, and ErrForeignTransaction if the transaction is one of another store; the caller
	// must roll back after any error. It returns an error if ctx carries no transaction, if the
	// store can't end jobs in one, if the job has reported an error or asked for a retry, or
	// if it does not run here.
	//
	// From then on the lease is not renewed, so that what is left of it, three quarters at
	// least, bounds the transaction and the rest of the run.
	CompleteIn(ctx context.Context, j Job) error
}
