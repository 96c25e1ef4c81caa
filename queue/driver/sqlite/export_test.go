package sqlite

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	zombiezen "zombiezen.com/go/sqlite"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// SchemaVersion is the newest that this library knows.
var SchemaVersion = currentVersion()

// AddMigrations makes files have further steps to take, as those of newer versions
// have, until restore is called.
func AddMigrations(steps ...string) (restore func()) {
	was := migrations
	for _, text := range steps {
		migrations = append(slices.Clip(migrations), migration{text: text})
	}
	return func() { migrations = was }
}

// Queries are all statements that a driver runs and that read or change a table,
// but for those that open a file and those of Selections.
func Queries() []string {
	queries := slices.Concat(statementTexts[:], []string{readLatest, readAttempts, readQueue, readCancelled, readLeases, readLateWait})
	return slices.DeleteFunc(queries, func(q string) bool {
		verb, _, _ := strings.Cut(q, " ")
		return !slices.Contains([]string{"SELECT", "INSERT", "UPDATE", "DELETE", "WITH"}, verb)
	})
}

// Selections are the statements that find and count the records of a query.
func Selections(q driver.Query, newest bool) []string {
	s, err := newSelection(q, time.Now())
	if err != nil {
		panic(err)
	}
	if err = s.choose(fewOfAll{}); err != nil {
		panic(err)
	}
	at := &span{newest: newest, until: instant{Valid: true}, end: instant{Valid: true}}
	var texts []string
	if s.way.merged {
		text, _ := s.way.merge(at)
		texts = append(texts, text)
	}
	for i := range s.way.walks {
		if !s.way.merged {
			text, _ := s.way.walks[i].bound(at)
			texts = append(texts, text)
		}
	}
	text, _ := s.statement(readColumns, at, []int64{1}, 10)
	return append(texts, text)
}

// fewOfAll says of everything that there are few.
type fewOfAll struct{}

func (fewOfAll) queryText(string, func(*row) error, ...any) error { return nil }

// IndexedStates are those whose records an index finds.
func IndexedStates() (states []amboy.JobState) {
	for _, state := range amboy.JobStates() {
		s := &selection{}
		s.addStates([]amboy.JobState{state}, 0)
		if len(s.places) > 0 {
			states = append(states, state)
		}
	}
	return states
}

// Elapse lets time pass by the clock by which a driver measures leases.
func Elapse(d *Driver, by time.Duration) {
	was := d.elapsed
	d.elapsed = func() time.Duration { return was() + by }
}

// SetBoot makes the machine seem to be in a boot with that ID, until restore is called.
func SetBoot(id string) (restore func()) {
	was := bootID
	bootID = func() string { return id }
	return func() { bootID = was }
}

// Exec runs a statement on the connection that writes.
func Exec(d *Driver, text string) error {
	return d.writer.write(context.Background(), &change{run: func(c *changes) error {
		return c.queryText(text, func(*row) error { return nil })
	}})
}

// DefineFunction makes a function without arguments callable on the connection that writes.
func DefineFunction(d *Driver, name string, f func()) error {
	return d.writer.write(context.Background(), &change{run: func(c *changes) error {
		return c.connection.(*ownConnection).conn.CreateFunction(name, &zombiezen.FunctionImpl{
			AllowIndirect: true,
			Scalar: func(zombiezen.Context, []zombiezen.Value) (zombiezen.Value, error) {
				f()
				return zombiezen.IntegerValue(0), nil
			},
		})
	}})
}

// DoNotWait makes calls whose context has ended not wait for a change that is
// being made, until restore is called.
func DoNotWait() (restore func()) {
	was := settleTime
	settleTime = 0
	return func() { settleTime = was }
}

// InsertEnded adds records as they are, also those that have ended, of which it
// knows no more than their state.
func InsertEnded(d *Driver, records []*driver.Record) error {
	return d.writer.write(context.Background(), &change{size: len(records), run: func(c *changes) error {
		for _, r := range records {
			n, err := encodeNew(r)
			if err != nil {
				return err
			}
			if n.queue, err = c.ensureQueue(r.Group); err != nil {
				return err
			}
			err = c.insertAt(n, finalPlace(driver.StateOf(r, time.Now())))
			if err != nil {
				return err
			}
			c.count(n.queue).ended++
		}
		return nil
	}})
}

// EndPagesAfter makes a page that is not full end after a time, until restore is called.
func EndPagesAfter(d time.Duration) (restore func()) {
	was := findTime
	findTime = d
	return func() { findTime = was }
}

// OnlyFirstMigrations makes files have no more than the first steps, as those of older
// versions, until restore is called.
func OnlyFirstMigrations(n int) (restore func()) {
	was := migrations
	migrations = migrations[:n]
	return func() { migrations = was }
}

// CountTransactions counts the transactions of a driver that may let others claim, from
// now on. Nothing may be written when it is called.
func CountTransactions(d *Driver) *atomic.Int64 {
	counted, notify := new(atomic.Int64), d.writer.notify
	d.writer.notify = func(change driver.Change) {
		counted.Add(1)
		notify(change)
	}
	return counted
}
