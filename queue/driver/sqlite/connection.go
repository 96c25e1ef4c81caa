package sqlite

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"modernc.org/sqlite"
)

// connection runs statements, one at a time, in a transaction of its owner.
type connection interface {
	// exec runs a statement, and tells how many rows it changed.
	exec(s statement, args ...any) (int64, error)
	// query runs a statement, and calls each for every row of its result.
	query(s statement, each func(*row) error, args ...any) error
	// queryText is query for one that is not among the statements.
	queryText(text string, each func(*row) error, args ...any) error
}

// ownConnection is a connection of this driver alone. It goes past database/sql,
// which takes as long for a statement as SQLite. Contexts don't stop a statement:
// it takes microseconds, and must not be stopped half-way.
type ownConnection struct {
	conn     sqldriver.Conn
	prepared [statements]sqldriver.Stmt
	named    []sqldriver.NamedValue
	row      row
}

func openConnection(name string) (*ownConnection, error) {
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, err
	}
	conn, err := db.Driver().Open(name)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &ownConnection{conn: conn}, db.Close()
}

// statement prepares a statement when it is first used.
func (c *ownConnection) statement(s statement) (sqldriver.Stmt, error) {
	if c.prepared[s] == nil {
		prepared, err := c.prepare(statementTexts[s])
		if err != nil {
			return nil, err
		}
		c.prepared[s] = prepared
	}
	return c.prepared[s], nil
}

func (c *ownConnection) prepare(text string) (sqldriver.Stmt, error) {
	prepared, err := c.conn.Prepare(text)
	if err != nil {
		return nil, fmt.Errorf("preparing %q: %w", text, err)
	}
	return prepared, nil
}

// values are the arguments of a statement, until the next call.
func (c *ownConnection) values(args []any) ([]sqldriver.NamedValue, error) {
	c.named = c.named[:0]
	for i, arg := range args {
		value, err := valueOf(arg)
		if err != nil {
			return nil, err
		}
		c.named = append(c.named, sqldriver.NamedValue{Ordinal: i + 1, Value: value})
	}
	return c.named, nil
}

// valueOf is what database/sql makes of an argument.
func valueOf(arg any) (sqldriver.Value, error) {
	switch v := arg.(type) {
	case nil, int64, string, []byte:
		return v, nil
	case int:
		return int64(v), nil
	case place:
		return int64(v), nil
	case bool:
		if v {
			return int64(1), nil
		}
		return int64(0), nil
	case sqldriver.Valuer:
		return v.Value()
	default:
		return nil, fmt.Errorf("an argument is a %T", arg)
	}
}

func (c *ownConnection) exec(s statement, args ...any) (int64, error) {
	prepared, err := c.statement(s)
	if err != nil {
		return 0, err
	}
	return c.run(prepared, args)
}

func (c *ownConnection) run(prepared sqldriver.Stmt, args []any) (int64, error) {
	values, err := c.values(args)
	if err != nil {
		return 0, err
	}
	result, err := prepared.(sqldriver.StmtExecContext).ExecContext(context.Background(), values)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (c *ownConnection) query(s statement, each func(*row) error, args ...any) error {
	prepared, err := c.statement(s)
	if err != nil {
		return err
	}
	return c.rows(prepared, each, args)
}

func (c *ownConnection) queryText(text string, each func(*row) error, args ...any) error {
	prepared, err := c.prepare(text)
	if err != nil {
		return err
	}
	return errors.Join(c.rows(prepared, each, args), prepared.Close())
}

func (c *ownConnection) rows(prepared sqldriver.Stmt, each func(*row) error, args []any) (err error) {
	values, err := c.values(args)
	if err != nil {
		return err
	}
	rows, err := prepared.(sqldriver.StmtQueryContext).QueryContext(context.Background(), values)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	r := &c.row
	r.resize(len(rows.Columns()))
	for {
		err = rows.Next(r.values)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		err = r.read(each)
		if err != nil {
			return err
		}
	}
}

func (c *ownConnection) close() error {
	var errs []error
	for _, s := range &c.prepared {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(append(errs, c.conn.Close())...)
}

// row reads the columns of one row of a result, from left to right.
type row struct {
	values []sqldriver.Value
	at     int
	err    error
}

func (r *row) resize(columns int) {
	if cap(r.values) < columns {
		r.values = make([]sqldriver.Value, columns)
	}
	r.values = r.values[:columns]
}

// read calls each for the row.
func (r *row) read(each func(*row) error) error {
	r.at, r.err = 0, nil
	err := each(r)
	if err == nil {
		err = r.err
	}
	return err
}

func (r *row) next() sqldriver.Value {
	r.at++
	return r.values[r.at-1]
}

func (r *row) wrong(value any, want string) {
	if r.err == nil {
		r.err = fmt.Errorf("column %d of a row is a %T, and should be %s", r.at, value, want)
	}
}

// integer reads a number, 0 where it is NULL.
func (r *row) integer() int64 {
	switch v := r.next().(type) {
	case nil:
	case int64:
		return v
	default:
		r.wrong(v, "a number")
	}
	return 0
}

func (r *row) int() int   { return int(r.integer()) }
func (r *row) bool() bool { return r.integer() != 0 }

// time reads a time.
func (r *row) time() instant {
	if r.values[r.at] == nil {
		r.at++
		return instant{}
	}
	return instant{Int64: r.integer(), Valid: true}
}

// text reads a string, empty where it is NULL.
func (r *row) text() string {
	switch v := r.next().(type) {
	case nil:
	case string:
		return v
	default:
		r.wrong(v, "a text")
	}
	return ""
}

// bytes reads a BLOB, nil where it is NULL.
func (r *row) bytes() []byte {
	switch v := r.next().(type) {
	case nil:
	case []byte:
		return v
	default:
		r.wrong(v, "a blob")
	}
	return nil
}

// names reads a list of names.
func (r *row) names() names {
	text := r.text()
	if text == "" {
		return nil
	}
	var list names
	if err := json.Unmarshal([]byte(text), &list); err != nil && r.err == nil {
		r.err = fmt.Errorf("column %d of a row should be a list of names: %w", r.at, err)
	}
	return list
}

// The result codes of SQLite that are met; the last one is an extended one.
const (
	codeError  = 1
	codeBusy   = 5
	codeUnique = 2067
)

// resultCode is the result code that an error carries, without its extension; 0
// where it carries none.
func resultCode(err error) int { return extendedCode(err) & 0xff }

func extendedCode(err error) int {
	var failure *sqlite.Error
	if !errors.As(err, &failure) {
		return 0
	}
	return failure.Code()
}

// isTaken tells whether a row could not be added because one like it is there.
func isTaken(err error) bool { return extendedCode(err) == codeUnique }
