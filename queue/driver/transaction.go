package driver

import (
	"context"
	"fmt"

	"github.com/mongodb/amboy"
)

// ErrForeignTransaction is wrapped by the error of an Insert or a Complete whose context
// carries a transaction of another store.
var ErrForeignTransaction = amboy.ErrForeignTransaction

type transactionKey struct{}

// WithTransaction returns a context that carries a transaction. It is for the functions by
// which drivers take a transaction of a caller. tx must be of a type that only its driver
// knows, so that the others refuse it.
func WithTransaction(ctx context.Context, tx any) context.Context {
	return context.WithValue(ctx, transactionKey{}, tx)
}

// TransactionOf returns the transaction of type T that a context carries; false if it carries
// none. The error wraps ErrForeignTransaction if the transaction is of another type.
func TransactionOf[T any](ctx context.Context) (tx T, found bool, err error) {
	switch carried := ctx.Value(transactionKey{}).(type) {
	case nil:
		return tx, false, nil
	case T:
		return carried, true, nil
	default:
		return tx, false, fmt.Errorf("%w (%T): it must be one of the store of the queue", ErrForeignTransaction, carried)
	}
}

// noTransaction is the type of the transactions of a store that has none.
type noTransaction struct{}

// RefuseTransaction returns an error if a context carries a transaction. It is for stores that
// have none.
func RefuseTransaction(ctx context.Context) error {
	_, _, err := TransactionOf[noTransaction](ctx)
	return err
}

// HasTransaction reports whether a context carries a transaction, of whichever store.
func HasTransaction(ctx context.Context) bool { return ctx.Value(transactionKey{}) != nil }
