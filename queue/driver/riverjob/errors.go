package riverjob

import (
	"errors"
	"fmt"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/pgconnect"
)

// isConflict reports whether the server rolled a transaction back because of another one, or because this
// process was suspended.
func isConflict(err error) bool {
	code := pgconnect.CodeOf(err)
	return code == pgconnect.CodeSerializationFailure || code == pgconnect.CodeDeadlock || code == pgconnect.CodeSuspended
}

// isWaitOver reports whether a change waited for another transaction for too long.
func isWaitOver(err error) bool { return pgconnect.CodeOf(err) == pgconnect.CodeLockNotAvailable }

// isOfOneRow reports whether one of several rows is the reason why a change failed.
func isOfOneRow(err error) bool { return isUnique(err) || isUnstorable(err) || isWaitOver(err) }

// isUnique reports whether a change of a row violates the index of unique keys.
func isUnique(err error) bool { return pgconnect.CodeOf(err) == pgconnect.CodeUniqueViolation }

// isUnstorable reports whether the server can't store a value, for instance text with zero bytes
// or a JSON document that is too large.
func isUnstorable(err error) bool {
	code := pgconnect.CodeOf(err)
	return len(code) == 5 && code[:2] == pgconnect.ClassDataException || code == pgconnect.CodeTooLarge
}

// explain adds to an error of the server what to do about it.
func explain(err error) error {
	switch pgconnect.CodeOf(err) {
	case pgconnect.CodeReadOnly:
		return fmt.Errorf("the server takes no writes; connect to the primary (target_session_attrs=read-write): %w", err)
	case pgconnect.CodeNoPrivilege:
		return fmt.Errorf("the role lacks a privilege; grant it USAGE on River's schema, SELECT, UPDATE and DELETE on river_job, and SELECT, INSERT and UPDATE on river_queue: %w", err)
	case pgconnect.CodeNoStatement, pgconnect.CodeStatementExists:
		return fmt.Errorf("%s: %w", pgconnect.HowToPool, err)
	case pgconnect.CodeUndefinedTable:
		return fmt.Errorf("a table of River is missing; run River's migrations (river migrate-up): %w", err)
	default:
		return err
	}
}

// failed returns the error of a call. An error that is none of the server's answers leaves open
// whether a change was made.
func (d *Driver) failed(err error, mayBeDone bool) error {
	if err != nil && mayBeDone && !pgconnect.IsRefused(err) && !errors.Is(err, driver.ErrClosed) {
		return fmt.Errorf("%w: %w", driver.ErrOutcomeUnknown, err)
	}
	if pgconnect.CodeOf(err) == pgconnect.CodeReadOnly {
		d.failover.Leave(d.pool)
	}
	return explain(err)
}
