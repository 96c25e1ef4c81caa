package riverjob

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mongodb/amboy/queue/driver"
)

// The codes of PostgreSQL's errors.
const (
	codeUniqueViolation      = "23505"
	codeReadOnly             = "25006"
	codeSerializationFailure = "40001"
	codeDeadlock             = "40P01"
	codeLockNotAvailable     = "55P03"
	codeSuspended            = "25P03" // idle_in_transaction_session_timeout
	codeNoPrivilege          = "42501"
	codeUndefinedTable       = "42P01"
	classConnection          = "08"
	classDataException       = "22"
	codeTooLarge             = "54000"
)

func codeOf(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

// isConflict reports whether the server rolled a transaction back because of another one, or because this
// process was suspended.
func isConflict(err error) bool {
	code := codeOf(err)
	return code == codeSerializationFailure || code == codeDeadlock || code == codeSuspended
}

// isWaitOver reports whether a change waited for another transaction for too long.
func isWaitOver(err error) bool { return codeOf(err) == codeLockNotAvailable }

// isOfOneRow reports whether one of several rows is the reason why a change failed.
func isOfOneRow(err error) bool { return isUnique(err) || isUnstorable(err) || isWaitOver(err) }

// isUnique reports whether a change of a row violates the index of unique keys.
func isUnique(err error) bool { return codeOf(err) == codeUniqueViolation }

// isUnstorable reports whether the server can't store a value, for instance text with zero bytes
// or a JSON document that is too large.
func isUnstorable(err error) bool {
	code := codeOf(err)
	return len(code) == 5 && code[:2] == classDataException || code == codeTooLarge
}

// explain adds to an error of the server what to do about it.
func explain(err error) error {
	switch codeOf(err) {
	case codeReadOnly:
		return fmt.Errorf("the server takes no writes; connect to the primary (target_session_attrs=read-write): %w", err)
	case codeNoPrivilege:
		return fmt.Errorf("the role lacks a privilege; grant it USAGE on River's schema, SELECT, UPDATE and DELETE on river_job, and SELECT, INSERT and UPDATE on river_queue: %w", err)
	case codeUndefinedTable:
		return fmt.Errorf("a table of River is missing; run River's migrations (river migrate-up): %w", err)
	default:
		return err
	}
}

// isAnswer reports whether an error is an answer of the server, which then rolled back. A pooler reports that its
// connection to the server is broken with a code of class 08, whatever the server did.
func isAnswer(err error) bool {
	code := codeOf(err)
	return code != "" && !strings.HasPrefix(code, classConnection)
}

// failed returns the error of a call. An error that is none of the server's answers leaves open
// whether a change was made.
func (d *Driver) failed(err error, mayBeDone bool) error {
	if err != nil && mayBeDone && !isAnswer(err) && !errors.Is(err, driver.ErrClosed) {
		return fmt.Errorf("%w: %w", driver.ErrOutcomeUnknown, err)
	}
	if codeOf(err) == codeReadOnly {
		d.failover.Leave(d.pool)
	}
	return explain(err)
}
