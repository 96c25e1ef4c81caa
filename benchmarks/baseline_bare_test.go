package benchmarks

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// The numbers of rows that the bare loop inserts, and claims and ends, in one transaction.
const (
	bareInserts = 100
	bareEnds    = 64
)

// bareSchema has the columns that amboy's driver fills for a plain job, and an index for each
// of its questions: which job has this name, which may run, and which are to be removed.
const bareSchema = `
CREATE TABLE jobs (
	seq INTEGER PRIMARY KEY, queue INTEGER NOT NULL, place INTEGER NOT NULL, priority INTEGER NOT NULL, name TEXT NOT NULL,
	job_id TEXT NOT NULL, owner TEXT NOT NULL DEFAULT '', lease_count INTEGER NOT NULL DEFAULT 0, mod_time INTEGER,
	lease_until INTEGER, created INTEGER, started INTEGER, ended INTEGER, forget_at INTEGER, type TEXT NOT NULL,
	version INTEGER NOT NULL, format INTEGER NOT NULL, dependency INTEGER NOT NULL, room BLOB, body BLOB);
CREATE UNIQUE INDEX jobs_name ON jobs (queue, name);
CREATE INDEX jobs_ready ON jobs (queue, priority DESC, seq) WHERE place = 4;
CREATE INDEX jobs_forget ON jobs (queue, forget_at) WHERE place >= 8;`

const (
	bareInsert = `INSERT INTO jobs (queue, place, priority, name, job_id, created, type, version, format, dependency, room, body)
		VALUES (1, 4, 0, ?, ?, ?, ?, 0, 1, 1, zeroblob(96), ?)`
	bareRead  = `SELECT seq, name, job_id, type, body FROM jobs WHERE queue = 1 AND place = 4 ORDER BY priority DESC, seq LIMIT ? + 0`
	bareClaim = `UPDATE jobs SET place = 6, owner = ?, lease_count = lease_count + 1, mod_time = ?, lease_until = ?, started = ?, room = NULL
		WHERE seq = ?`
	bareEnd = `UPDATE jobs SET place = 8, mod_time = ?, ended = ?, forget_at = ?, lease_until = NULL, body = ?
		WHERE queue = 1 AND name = ? AND owner = ? AND lease_count = 1 AND place = 6`
)

// bareRow is what the bare loop reads of a claimed job.
type bareRow struct {
	seq      int64
	name, id string
	jobType  string
	body     []byte
}

// drainBare measures how long one goroutine takes to insert, claim and end as many rows as a
// queue has jobs, with the SQLite package of amboy's driver and nothing around it. The rows are
// as long as those of amboy's jobs. It is the minimum cost of a queue in a file.
func drainBare(b *testing.B, synchronous string, jobs int) time.Duration {
	conn, err := sqlite.OpenConn(filepath.Join(b.TempDir(), "bare.db"), sqlite.OpenReadWrite, sqlite.OpenCreate)
	require.NoError(b, err)
	for _, pragma := range []string{"journal_mode(WAL)", "synchronous(" + synchronous + ")", "wal_autocheckpoint(4000)", "temp_store(MEMORY)", "cache_size(-65536)"} {
		require.NoError(b, sqlitex.ExecuteTransient(conn, "PRAGMA "+pragma, nil))
	}
	require.NoError(b, sqlitex.ExecuteScript(conn, bareSchema, nil))
	body := make([]byte, 350) // as long as that of a storedTask

	begin := time.Now()
	for first := 0; first < jobs; first += bareInserts {
		bareTransaction(b, conn, func() {
			for i := first; i < min(first+bareInserts, jobs); i++ {
				id := fmt.Sprintf("12345-%d", i)
				bareRun(b, conn, bareInsert, nil, id, id, time.Now().UnixNano(), storedTaskType, body)
			}
		})
	}
	owner := "driver.host.12345.1"
	var claimed []bareRow
	for left := jobs; left > 0; {
		bareTransaction(b, conn, func() {
			now := time.Now().UnixNano()
			for _, row := range claimed {
				bareRun(b, conn, bareEnd, nil, now, now, now, row.body, row.name, owner)
			}
			left -= len(claimed)
			claimed = claimed[:0]
			bareRun(b, conn, bareRead, func(s *sqlite.Stmt) {
				row := bareRow{seq: s.ColumnInt64(0), name: s.ColumnText(1), id: s.ColumnText(2), jobType: s.ColumnText(3), body: make([]byte, s.ColumnLen(4))}
				s.ColumnBytes(4, row.body)
				claimed = append(claimed, row)
			}, bareEnds)
			for _, row := range claimed {
				bareRun(b, conn, bareClaim, nil, owner, now, now, now, row.seq)
			}
		})
	}
	took := time.Since(begin)

	require.NoError(b, conn.Close())
	return took
}

func bareTransaction(b *testing.B, conn *sqlite.Conn, change func()) {
	bareRun(b, conn, "BEGIN IMMEDIATE", nil)
	change()
	bareRun(b, conn, "COMMIT", nil)
}

// bareRun runs a statement, which the connection prepares once.
func bareRun(b *testing.B, conn *sqlite.Conn, text string, each func(*sqlite.Stmt), args ...any) {
	s := conn.Prep(text)
	for i, arg := range args {
		switch v := arg.(type) {
		case int:
			s.BindInt64(i+1, int64(v))
		case int64:
			s.BindInt64(i+1, v)
		case string:
			s.BindText(i+1, v)
		case []byte:
			s.BindBytes(i+1, v)
		}
	}
	for {
		more, err := s.Step()
		if err != nil {
			b.Fatalf("running %q: %v", text, err)
		}
		if !more {
			break
		}
		if each != nil {
			each(s)
		}
	}
	if err := s.Reset(); err != nil {
		b.Fatalf("resetting %q: %v", text, err)
	}
}
