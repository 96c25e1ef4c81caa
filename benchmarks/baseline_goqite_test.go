package benchmarks

import (
	"context"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"maragu.dev/goqite"
	"maragu.dev/goqite/jobs"
)

// goqiteFile is a queue of maragu.dev/goqite with a runner. As in its documentation, it uses
// one connection, and the runner polls every 10 ms.
type goqiteFile struct {
	db     *sql.DB
	queue  *goqite.Queue
	stop   context.CancelFunc
	runner sync.WaitGroup
}

const (
	goqiteJob = "benchmarks"
	// goqiteExtend is the interval at which the runner extends the lease of a job. It is
	// shorter than the default, because a goroutine per job lives for most of that time,
	// even if the job has ended.
	goqiteExtend = time.Second
)

func startGoqite(tb testing.TB, setup durableSetup) durableQueue {
	db := openDatabase(tb, setup)
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(1)
	_, err := db.ExecContext(tb.Context(), goqiteSchema(tb))
	require.NoError(tb, err)
	q := &goqiteFile{db: db, queue: goqite.New(goqite.NewOpts{DB: db, Name: "benchmarks"})}
	runner := jobs.NewRunner(jobs.NewRunnerOpts{
		Queue:        q.queue,
		Limit:        setup.workers,
		PollInterval: 10 * time.Millisecond,
		Extend:       goqiteExtend,
	})
	runner.Register(goqiteJob, func(context.Context, []byte) error {
		setup.run()
		return nil
	})
	ctx, stop := context.WithCancel(context.WithoutCancel(tb.Context()))
	q.stop = stop
	q.runner.Go(func() { runner.Start(ctx) })
	return q
}

// goqiteSchema reads the schema from the place that its documentation names.
func goqiteSchema(tb testing.TB) string {
	dir, err := exec.CommandContext(tb.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "maragu.dev/goqite").Output()
	require.NoError(tb, err)
	schema, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "schema_sqlite.sql"))
	require.NoError(tb, err)
	return string(schema)
}

func (q *goqiteFile) put(ctx context.Context, count int) error {
	message := goqite.Message{Body: []byte("{}")}
	if count == 1 {
		_, err := jobs.Create(ctx, q.queue, goqiteJob, message)
		return err
	}
	tx, err := q.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for range count {
		_, err = jobs.CreateTx(ctx, tx, q.queue, goqiteJob, message)
		if err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (q *goqiteFile) close() error {
	q.stop()
	q.runner.Wait()
	<-time.After(goqiteExtend)
	return q.db.Close()
}
