package riverjob

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mongodb/amboy/queue/driver"
)

// The codes of PostgreSQL's errors.
const (
	codeUniqueViolation      = "23505"
	codeReadOnly             = "25006"
	codeSerializationFailure = "40001"
	codeDeadlock             = "40P01"
	codeNoPrivilege          = "42501"
	codeUndefinedTable       = "42P01"
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

// isConflict reports whether the server rolled a transaction back because of another one.
func isConflict(err error) bool {
	code := codeOf(err)
	return code == codeSerializationFailure || code == codeDeadlock
}

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

// failed returns the error of a call. An error that is none of the server's answers leaves open
// whether a change was made.
func failed(err error, mayBeDone bool) error {
	if err != nil && mayBeDone && codeOf(err) == "" && !errors.Is(err, driver.ErrClosed) {
		return fmt.Errorf("%w: %w", driver.ErrOutcomeUnknown, err)
	}
	return explain(err)
}
