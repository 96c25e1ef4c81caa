package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// ErrDamaged is wrapped by errors of a file that is damaged, or that is not a database.
var ErrDamaged = errors.New("the database file is damaged")

// errDamagedRow is wrapped by the error for a row with a value of the wrong kind. Such a row
// does not stop the others: a claim parks it.
var errDamagedRow = errors.New("stored record is damaged")

// named adds ErrDamaged or amboy.ErrStoreFull to an error of SQLite with that meaning.
func named(err error) error {
	switch resultCode(err) {
	case codeCorrupt, codeNotADatabase:
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	case codeFull:
		return fmt.Errorf("%w: %w", amboy.ErrStoreFull, err)
	default:
		return err
	}
}

// tableDefinition matches the definition of a table, with its name.
var tableDefinition = regexp.MustCompile(`CREATE TABLE (\w+)`)

// checkTables returns an error if a table is missing or begins with a damaged page. The rest of
// the file is not read, so that opening a large file takes no longer.
func checkTables(ctx context.Context, conn *sql.Conn) error {
	for _, m := range migrations {
		for _, table := range tableDefinition.FindAllStringSubmatch(m.text, -1) {
			_, err := conn.ExecContext(ctx, "SELECT 1 FROM "+table[1]+" LIMIT 1")
			if err != nil && ctx.Err() == nil && resultCode(err) != codeBusy {
				err = fmt.Errorf("%w: %w", ErrDamaged, err)
			}
			if err != nil {
				return fmt.Errorf("reading table %s: %w", table[1], err)
			}
		}
	}
	return nil
}

// maxProblems is the maximum number of problems that Check lists.
const maxProblems = 10

// Check reads the whole file and checks that it is not damaged, for instance after the machine
// or its disk has failed. The error wraps ErrDamaged if it is, and describes the first
// problems. Check does not block writers, but the write-ahead log grows while it runs, which
// takes seconds for each gigabyte. It ends with an error when ctx ends.
func (d *Driver) Check(ctx context.Context) error {
	var problems []string
	err := d.reads.query(ctx, fmt.Sprintf("PRAGMA quick_check(%d)", maxProblems), func(r *row) error {
		if text := r.text(); text != "ok" {
			problems = append(problems, text)
		}
		return nil
	})
	if err == nil && len(problems) > 0 {
		err = fmt.Errorf("%w: %s", ErrDamaged, strings.Join(problems, "; "))
	}
	if err != nil {
		return fmt.Errorf("checking %q: %w", d.path, err)
	}
	return nil
}

// damagedRow is a row that was found to be damaged.
type damagedRow struct {
	seq  int64
	name string // starts with the name of its queue, unless it is damaged
	err  error
}

// log reports a damaged row with its key.
func (r *damagedRow) log(ctx context.Context, path string) {
	logging.Error(ctx, message.Fields{
		"message": "a stored record is damaged; it was parked, unless it has ended",
		"path":    path,
		"record":  r.name,
		"row":     r.seq,
		"error":   r.err.Error(),
	})
}

// reportDamage logs the damaged rows of a transaction that was committed.
func (w *writer) reportDamage(c *changes) {
	for _, r := range c.damaged {
		r.log(w.ctx, w.path)
	}
}

// parkDamaged parks a running record.
func (c *changes) parkDamaged(j *job, damage error) error {
	c.damaged = append(c.damaged, damagedRow{seq: j.Seq, name: j.Name, err: damage})
	return c.handBack(j, driver.HandBack{Park: true, Reason: fmt.Sprintf("%v: %v", errDamagedRow, damage)})
}

// The rows whose times are of another kind than numbers. They are last in the order of the
// index, or would stop all others there.
const (
	damagedDue     = `SELECT seq FROM jobs INDEXED BY jobs_due WHERE due IS NOT NULL AND typeof(due) <> 'integer'`
	damagedExpires = `SELECT seq FROM jobs INDEXED BY jobs_expires WHERE expires IS NOT NULL AND typeof(expires) <> 'integer'`
)

// parkDamagedTimes parks the records whose next time can't be read.
func (c *changes) parkDamagedTimes(reason error) error {
	var found []int64
	for _, text := range []string{damagedDue, damagedExpires} {
		err := c.queryText(text, func(r *row) error {
			found = append(found, r.integer())
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, seq := range found {
		j, err := c.job(findSeq, seq)
		if err != nil {
			return err
		}
		if j == nil {
			continue
		}
		c.damaged = append(c.damaged, damagedRow{seq: j.Seq, name: j.Name, err: reason})
		if _, err = c.exec(clearTimes, j.Seq); err != nil {
			return err
		}
		if j.Place >= table.Parked {
			continue
		}
		err = c.park(j, fmt.Sprintf("%v: %v", errDamagedRow, reason))
		if err != nil {
			return err
		}
	}
	return nil
}
