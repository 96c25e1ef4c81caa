package sqlite

import (
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"time"

	"modernc.org/sqlite"
	zombiezen "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver/internal/table"
	"github.com/mongodb/amboy/queue/internal/typelimit"
)

// connection runs statements, one at a time, in a transaction of its owner.
type connection interface {
	// exec runs a statement and returns the number of rows that it changed.
	exec(s statement, args ...any) (int64, error)
	// insertRow runs a statement that adds at most one row, and returns the row's integer key; 0 if
	// it added none.
	insertRow(s statement, args ...any) (int64, error)
	// query runs a statement and calls each for every row of the result.
	query(s statement, each func(*row) error, args ...any) error
	// queryText is query for a text that is not one of the statements.
	queryText(text string, each func(*row) error, args ...any) error
}

// ownConnection is a connection that only this driver uses. It bypasses database/sql, whose
// overhead per statement equals the time of SQLite itself. No context interrupts a
// statement: it takes microseconds, and must not stop half-way.
type ownConnection struct {
	conn     *zombiezen.Conn
	prepared [statements]*zombiezen.Stmt
	row      row
}

// openConnection opens a connection to an existing file and runs pragmas on it. A statement
// waits for other processes for up to busy.
func openConnection(path string, busy time.Duration, pragmas ...string) (*ownConnection, error) {
	conn, err := zombiezen.OpenConn(path, zombiezen.OpenReadWrite)
	if err != nil {
		return nil, err
	}
	conn.SetBusyTimeout(openTime * time.Millisecond) // another process may be making the file
	for _, pragma := range pragmas {
		if err := sqlitex.ExecuteTransient(conn, "PRAGMA "+pragma, nil); err != nil {
			return nil, errors.Join(fmt.Errorf("setting the pragma %s: %w", pragma, err), conn.Close())
		}
	}
	conn.SetBusyTimeout(busy)
	return &ownConnection{conn: conn}, nil
}

// checkWritable returns an error if the file can't be written: SQLite has opened it for reading then.
func (c *ownConnection) checkWritable() error {
	err := sqlitex.ExecuteTransient(c.conn, "DELETE FROM jobs WHERE 0", nil)
	if resultCode(err) == codeBusy {
		return nil // another process writes
	}
	return err
}

// statement prepares a statement on its first use.
func (c *ownConnection) statement(s statement) (*zombiezen.Stmt, error) {
	if c.prepared[s] == nil {
		prepared, err := c.prepare(statementTexts[s])
		if err != nil {
			return nil, err
		}
		c.prepared[s] = prepared
	}
	return c.prepared[s], nil
}

func (c *ownConnection) prepare(text string) (*zombiezen.Stmt, error) {
	prepared, trailing, err := c.conn.PrepareTransient(text)
	if err != nil {
		return nil, fmt.Errorf("preparing %q: %w", text, err)
	}
	if trailing > 0 {
		return nil, errors.Join(fmt.Errorf("preparing %q: %d bytes follow the first statement", text, trailing), prepared.Finalize())
	}
	return prepared, nil
}

// bind sets the arguments of a statement. An error of SQLite is returned by its first step.
func bind(prepared *zombiezen.Stmt, args []any) error {
	if n := prepared.BindParamCount(); n != len(args) {
		return fmt.Errorf("the statement takes %d arguments, not %d", n, len(args))
	}
	for i, arg := range args {
		if err := bindOne(prepared, i+1, arg); err != nil {
			return err
		}
	}
	return nil
}

func bindOne(prepared *zombiezen.Stmt, param int, arg any) error {
	switch v := arg.(type) {
	case nil:
		prepared.BindNull(param)
	case int64:
		prepared.BindInt64(param, v)
	case int:
		prepared.BindInt64(param, int64(v))
	case float64:
		prepared.BindFloat(param, v)
	case table.Place:
		prepared.BindInt64(param, int64(v))
	case bool:
		prepared.BindBool(param, v)
	case string:
		prepared.BindText(param, v)
	case []byte:
		if v == nil {
			prepared.BindNull(param)
		} else {
			prepared.BindBytes(param, v)
		}
	case table.Instant:
		if v.Valid {
			prepared.BindInt64(param, v.Int64)
		} else {
			prepared.BindNull(param)
		}
	case sqldriver.Valuer:
		value, err := v.Value()
		if err != nil {
			return err
		}
		return bindOne(prepared, param, value)
	default:
		return fmt.Errorf("an argument is a %T", arg)
	}
	return nil
}

func (c *ownConnection) exec(s statement, args ...any) (int64, error) {
	prepared, err := c.statement(s)
	if err != nil {
		return 0, err
	}
	err = c.rows(prepared, nil, args)
	if err != nil {
		return 0, err
	}
	return int64(c.conn.Changes()), nil
}

func (c *ownConnection) insertRow(s statement, args ...any) (key int64, err error) {
	n, err := c.exec(s, args...)
	if n == 0 || err != nil {
		return 0, err
	}
	return c.conn.LastInsertRowID(), nil
}

func (c *ownConnection) query(s statement, each func(*row) error, args ...any) error {
	prepared, err := c.statement(s)
	if err != nil {
		return err
	}
	return c.rows(prepared, each, args)
}

func (c *ownConnection) queryText(text string, each func(*row) error, args ...any) (err error) {
	prepared, err := c.prepare(text)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, prepared.Finalize()) }() // also if each panics
	return c.rows(prepared, each, args)
}

// rows runs a statement to its end, and calls each for every row if it is not nil.
func (c *ownConnection) rows(prepared *zombiezen.Stmt, each func(*row) error, args []any) error {
	err := bind(prepared, args)
	if err != nil {
		return err
	}
	c.row.columns = currentRow{prepared}
	for {
		more, err := prepared.Step()
		if err != nil {
			return err // the statement is reset already
		}
		if !more {
			return prepared.Reset()
		}
		if each == nil {
			continue
		}
		err = c.row.read(each)
		if err != nil {
			return errors.Join(err, prepared.Reset())
		}
	}
}

// inTransaction reports whether a transaction is open.
func (c *ownConnection) inTransaction() bool { return !c.conn.AutocommitEnabled() }

// beginReading begins a transaction that reads what is stored now.
func (c *ownConnection) beginReading() error {
	_, err := c.exec(beginReading)
	if err != nil {
		return err
	}
	return c.query(lastSeq, func(*row) error { return nil }) // SQLite begins it with the first read
}

// endReading ends the transaction of beginReading, unless SQLite has done so after an error.
func (c *ownConnection) endReading() error {
	if !c.inTransaction() {
		return nil
	}
	_, err := c.exec(rollback)
	return err
}

func (c *ownConnection) close() error {
	var errs []error
	for _, s := range &c.prepared {
		if s != nil {
			errs = append(errs, s.Finalize())
		}
	}
	return errors.Join(append(errs, c.conn.Close())...)
}

// row reads the columns of one row of a result, from left to right.
type row struct {
	columns  columns
	at       int
	err      error
	borrowed []byte
}

// columns are the values of a row.
type columns interface {
	kind(column int) zombiezen.ColumnType
	integer(column int) int64
	real(column int) float64
	text(column int) string
	// bytes may return the buffer, if that is large enough.
	bytes(column int, buffer []byte) []byte
}

// currentRow is the row that a statement has stepped to.
type currentRow struct{ *zombiezen.Stmt }

func (r currentRow) kind(column int) zombiezen.ColumnType { return r.ColumnType(column) }
func (r currentRow) integer(column int) int64             { return r.ColumnInt64(column) }
func (r currentRow) real(column int) float64              { return r.ColumnFloat(column) }
func (r currentRow) text(column int) string               { return r.ColumnText(column) }

func (r currentRow) bytes(column int, buffer []byte) []byte {
	n := r.ColumnLen(column)
	if buffer == nil || n > cap(buffer) {
		buffer = make([]byte, n)
	}
	r.ColumnBytes(column, buffer[:n])
	return buffer[:n]
}

// scannedRow is a row that was read by database/sql.
type scannedRow []any

func (r scannedRow) kind(column int) zombiezen.ColumnType {
	switch r[column].(type) {
	case nil:
		return zombiezen.TypeNull
	case int64:
		return zombiezen.TypeInteger
	case string:
		return zombiezen.TypeText
	case []byte:
		return zombiezen.TypeBlob
	default:
		return zombiezen.TypeFloat
	}
}

func (r scannedRow) integer(column int) int64          { return r[column].(int64) }
func (r scannedRow) real(column int) float64           { return r[column].(float64) }
func (r scannedRow) text(column int) string            { return r[column].(string) }
func (r scannedRow) bytes(column int, _ []byte) []byte { return r[column].([]byte) }

// read calls each for the row.
func (r *row) read(each func(*row) error) error {
	r.at, r.err = 0, nil
	err := each(r)
	if err == nil {
		err = r.err
	}
	return err
}

// next advances to the next column, and reports whether it has the wanted type. A type other
// than that or NULL sets the row's error.
func (r *row) next(want zombiezen.ColumnType) (column int, ok bool) {
	column = r.at
	r.at++
	kind := r.columns.kind(column)
	if kind != want && kind != zombiezen.TypeNull && r.err == nil {
		r.err = fmt.Errorf("column %d of a row is %s, and should be %s", r.at, kind, want)
	}
	return column, kind == want
}

// damage returns why columns that were read so far could not be read, and clears it: the row is
// used with zero values for them.
func (r *row) damage() error {
	err := r.err
	r.err = nil
	return err
}

// inQueue adds the name of a queue to the row's error, if it has one.
func (r *row) inQueue(name string) {
	if r.err != nil {
		r.err = fmt.Errorf("the row of queue %q is damaged: %w", name, r.err)
	}
}

// integer reads a number, 0 if it is NULL.
func (r *row) integer() int64 {
	if column, ok := r.next(zombiezen.TypeInteger); ok {
		return r.columns.integer(column)
	}
	return 0
}

func (r *row) int() int   { return int(r.integer()) }
func (r *row) bool() bool { return r.integer() != 0 }

// rate reads a rate and its burst; nil if the rate is NULL.
func (r *row) rate() *amboy.Rate {
	var read *amboy.Rate
	if column, ok := r.next(zombiezen.TypeFloat); ok {
		read = &amboy.Rate{PerSecond: r.columns.real(column)}
	}
	burst := r.int()
	if read != nil {
		read.Burst = burst
	}
	return read
}

// typeLimits reads the limits of types; nil if there are none.
func (r *row) typeLimits() map[string]amboy.TypeLimit {
	limits, err := typelimit.DecodeLimits(r.text())
	r.fail(err)
	return limits
}

// typeBuckets reads the buckets of types.
func (r *row) typeBuckets() typelimit.Buckets {
	buckets, err := typelimit.DecodeBuckets(r.text())
	r.fail(err)
	return buckets
}

// fail sets the row's error, if it has none.
func (r *row) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// time reads a time.
func (r *row) time() table.Instant {
	if column, ok := r.next(zombiezen.TypeInteger); ok {
		return table.Instant{Int64: r.columns.integer(column), Valid: true}
	}
	return table.Instant{}
}

// text reads a string, empty if it is NULL.
func (r *row) text() string {
	if column, ok := r.next(zombiezen.TypeText); ok {
		return r.columns.text(column)
	}
	return ""
}

// bytes reads a BLOB, nil if it is NULL.
func (r *row) bytes() []byte {
	if column, ok := r.next(zombiezen.TypeBlob); ok {
		return r.columns.bytes(column, nil)
	}
	return nil
}

// borrow reads a BLOB that must not be used after the next call, nil if it is NULL.
func (r *row) borrow() []byte {
	if column, ok := r.next(zombiezen.TypeBlob); ok {
		r.borrowed = r.columns.bytes(column, r.borrowed)
		return r.borrowed
	}
	return nil
}

// names reads a list of names from its JSON.
func (r *row) names() table.Names {
	list, err := table.DecodeNames(r.text())
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("column %d of a row should be a list of names: %w", r.at, err)
	}
	return list
}

// The result codes of SQLite that are handled; codeUnique is an extended code.
const (
	codePermission   = 3
	codeBusy         = 5
	codeReadOnly     = 8
	codeInterrupted  = 9
	codeCorrupt      = 11
	codeFull         = 13
	codeCantOpen     = 14
	codeNotADatabase = 26
	codeUnique       = 2067
)

// resultCode returns the primary result code of an error; 1, the code of generic errors, if
// the error has none.
func resultCode(err error) int { return extendedCode(err) & 0xff }

// extendedCode supports the errors of both SQLite packages.
func extendedCode(err error) int {
	var failure *sqlite.Error
	if errors.As(err, &failure) {
		return failure.Code()
	}
	return int(zombiezen.ErrCode(err))
}

// isTaken reports whether a row could not be added because its unique key exists.
func isTaken(err error) bool { return extendedCode(err) == codeUnique }
