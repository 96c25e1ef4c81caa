package pgconnect

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The codes of server errors, from appendix A of PostgreSQL's manual.
const (
	CodeNotNullViolation     = "23502"
	CodeUniqueViolation      = "23505"
	CodeReadOnly             = "25006"
	CodeSuspended            = "25P03" // idle_in_transaction_session_timeout
	CodeNoStatement          = "26000" // no such prepared statement
	CodeSerializationFailure = "40001"
	CodeDeadlock             = "40P01"
	CodeNoPrivilege          = "42501"
	CodeStatementExists      = "42P05" // there is a prepared statement of that name
	CodeUndefinedTable       = "42P01"
	CodeDiskFull             = "53100"
	CodeTooLarge             = "54000"
	CodeLockNotAvailable     = "55P03"
	CodeCanceled             = "57014" // statement_timeout

	// ClassDataException begins the codes of values that the server can't store.
	ClassDataException = "22"
	classConnection    = "08"
)

// HowToPool says what to do if the server has other prepared statements than a connection has made.
const HowToPool = "the connection is not always to the same session of the server; set PollOnly behind a pooler in transaction mode"

// CodeOf returns the code of a server error, or an empty string for any other error.
func CodeOf(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

// IsRefused reports whether an error came from the server, which then rolled back. A pooler reports that
// its connection to the server is broken with a code of class 08, whatever the server did.
func IsRefused(err error) bool {
	code := CodeOf(err)
	return code != "" && !strings.HasPrefix(code, classConnection) || errors.Is(err, pgx.ErrTxCommitRollback)
}
