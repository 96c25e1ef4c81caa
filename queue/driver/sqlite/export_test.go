package sqlite

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	zombiezen "zombiezen.com/go/sqlite"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// SchemaVersion is the newest schema version that this library knows.
var SchemaVersion = currentVersion()

// AddMigrations adds migrations, as newer versions of this library have, until restore is
// called.
func AddMigrations(steps ...string) (restore func()) {
	was := migrations
	for _, text := range steps {
		migrations = append(slices.Clip(migrations), migration{text: text})
	}
	return func() { migrations = was }
}

// Queries returns all statements of a driver that read or change a table, except statements
// that open a file and those of Selections.
func Queries() []string {
	queries := slices.Concat(statementTexts[:], []string{readLatest, readAttempts, readQueue, readCanceled, readLeases, readLeasesOf, readHolders, readLateWait})
	return slices.DeleteFunc(queries, func(q string) bool {
		verb, _, _ := strings.Cut(q, " ")
		return !slices.Contains([]string{"SELECT", "INSERT", "UPDATE", "DELETE", "WITH"}, verb)
	})
}

// WorkQuery returns the statement of Work, for a time.
func WorkQuery() string { return strings.NewReplacer("?1", "1", "?2", "1").Replace(readWork) }

// Selections returns the statements that find and count the records of a query.
func Selections(q driver.Query, newest bool) []string {
	s, err := newSelection(q, time.Now())
	if err != nil {
		panic(err)
	}
	if err = s.choose(fewOfAll{}); err != nil {
		panic(err)
	}
	at := &table.Span{Newest: newest, Until: table.Instant{Valid: true}, End: table.Instant{Valid: true}}
	var texts []string
	if s.path.merged {
		text, _ := s.path.merge(at, maxScanned)
		texts = append(texts, text)
	}
	for i := range s.path.scans {
		if !s.path.merged {
			text, _ := s.path.scans[i].bound(at, maxScanned)
			texts = append(texts, text)
		}
	}
	text, _ := s.statement(readColumns, at, []int64{1}, 10)
	s.search = &search{}
	scan, _ := s.scanStatement(at, []int64{1}, 10)
	return append(texts, text, scan)
}

// fewOfAll returns no rows, so that all counts seem to be 0.
type fewOfAll struct{}

func (fewOfAll) queryText(string, func(*row) error, ...any) error { return nil }

// IndexedStates returns the states whose records are found by an index.
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

// Elapse advances the clocks by which a driver measures leases and rates.
func Elapse(d *Driver, by time.Duration) {
	was := d.elapsed
	d.elapsed = func() time.Duration { return was() + by }
	StepClock(d, by)
}

// StepClock sets the clock by which a driver measures rates.
func StepClock(d *Driver, by time.Duration) {
	was := d.rateNow
	d.rateNow = func() int64 { return was() + int64(by) }
}

// SetBoot sets the boot ID of the machine, until restore is called.
func SetBoot(id string) (restore func()) {
	was := bootID
	bootID = func() string { return id }
	return func() { bootID = was }
}

// Exec runs a statement on the connection of the writer.
func Exec(d *Driver, text string) error {
	return d.writer.write(context.Background(), &change{run: func(c *changes) error {
		return c.queryText(text, func(*row) error { return nil })
	}})
}

// DefineFunction defines an SQL function without arguments on the connection of the writer.
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

// CountCalls counts, from now on, the calls of an SQL function with two arguments on the connection of
// the writer, and makes it return 0.
func CountCalls(d *Driver, name string) (calls *atomic.Int64, err error) {
	calls = new(atomic.Int64)
	err = d.writer.write(context.Background(), &change{run: func(c *changes) error {
		return c.connection.(*ownConnection).conn.CreateFunction(name, &zombiezen.FunctionImpl{
			NArgs: 2,
			Scalar: func(zombiezen.Context, []zombiezen.Value) (zombiezen.Value, error) {
				calls.Add(1)
				return zombiezen.IntegerValue(0), nil
			},
		})
	}})
	return calls, err
}

// DoNotWait makes calls whose context ends return at once, even if their change is being
// written, until restore is called.
func DoNotWait() (restore func()) {
	was := settleTime
	settleTime = 0
	return func() { settleTime = was }
}

// SetJobPatience sets how long a call of a running job waits for the right to write.
func SetJobPatience(d time.Duration) (restore func()) {
	was := jobPatience
	jobPatience = d
	return func() { jobPatience = was }
}

// InsertEnded adds records in the places of their states, finished ones included.
func InsertEnded(d *Driver, records []*driver.Record) error {
	return d.writer.write(context.Background(), &change{size: len(records), run: func(c *changes) error {
		for _, r := range records {
			n, err := encodeNew(0, r)
			if err != nil {
				return err
			}
			if n.queue, err = c.ensureQueue(r.Group); err != nil {
				return err
			}
			err = c.insertAt(n, table.FinalPlace(driver.StateOf(r, time.Now())))
			if err != nil {
				return err
			}
			c.count(n.queue).ended++
		}
		return nil
	}})
}

// EndPagesAfter sets the time after which a page ends that is not full, until restore is
// called.
func EndPagesAfter(d time.Duration) (restore func()) {
	was := findTime
	findTime = d
	return func() { findTime = was }
}

// WorkAtOnce sets the number of records of each kind that Work reads.
func WorkAtOnce(d *Driver, n int) { d.workAtOnce = n }

// TakeFewTimed makes claims handle at most n due and n expired records, until restore is called.
func TakeFewTimed(n int) (restore func()) {
	was := timedAtOnce
	timedAtOnce = n
	return func() { timedAtOnce = was }
}

// OnlyFirstMigrations limits the migrations to the first n, as in an older version, until
// restore is called.
func OnlyFirstMigrations(n int) (restore func()) {
	was := migrations
	migrations = migrations[:n]
	return func() { migrations = was }
}

// CountTransactions counts, from now on, the transactions of a driver that may make jobs
// claimable. It must not be called during a write.
func CountTransactions(d *Driver) *atomic.Int64 {
	counted, notify := new(atomic.Int64), d.writer.notify
	d.writer.notify = func(change driver.Change) {
		counted.Add(1)
		notify(change)
	}
	return counted
}

// rowColumns is the number of columns of a record as ReadRow reads them.
const rowColumns = 40

// RowOf returns a row of NULLs with up to two other values, in columns that at selects.
func RowOf(at int, number int64, text string, data []byte, kind int) []any {
	values := make([]any, rowColumns)
	at &= 1<<20 - 1
	values[at/rowColumns%rowColumns] = data
	values[at%rowColumns] = []any{nil, number, text, data, float64(number)}[(kind%5+5)%5]
	return values
}

// ReadRow decodes the columns of a record.
func ReadRow(values []any) (r *driver.Record, err error) {
	var s stored
	columns := &row{columns: scannedRow(values)}
	err = columns.read(func(r *row) error {
		s.read(r)
		return nil
	})
	if err != nil {
		panic(err) // damage is an error of the record alone
	}
	return s.decode("queue")
}

// SetFileSystem makes every directory be on a kind of network file system, or on none if it is
// empty, until restore is called.
func SetFileSystem(kind string, err error) (restore func()) {
	was := networkFileSystem
	networkFileSystem = func(string) (string, error) { return kind, err }
	return func() { networkFileSystem = was }
}

// WatchFileSystems records the directories whose file systems are asked for, until restore is
// called.
func WatchFileSystems(asked *[]string) (restore func()) {
	was := networkFileSystem
	networkFileSystem = func(dir string) (string, error) {
		*asked = append(*asked, dir)
		return was(dir)
	}
	return func() { networkFileSystem = was }
}

// AwaitPending waits until n changes wait for the one that is being written.
func AwaitPending(d *Driver, n int) {
	for {
		d.writer.mu.Lock()
		pending := len(d.writer.pending)
		d.writer.mu.Unlock()
		if pending == n {
			return
		}
		runtime.Gosched()
	}
}
