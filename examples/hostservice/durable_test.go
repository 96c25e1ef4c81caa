package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/queue/driver/postgres"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// storage is a database for the jobs of a test.
type storage struct {
	flags []string
	open  func(ctx context.Context) (driver.Driver, error)
}

func newFile(path ...string) storage {
	file := filepath.Join(path...)
	return storage{[]string{"-db", file}, func(ctx context.Context) (driver.Driver, error) {
		err := os.MkdirAll(filepath.Dir(file), 0o700)
		if err != nil {
			return nil, err
		}
		return sqlite.Open(ctx, sqlite.Options{Path: file})
	}}
}

func newDatabase(d *mongotest.Deployment) storage {
	return storage{[]string{"-store", d.URI(), "-db", d.Database()}, func(ctx context.Context) (driver.Driver, error) {
		return mongodb.Open(ctx, mongodb.Options{Client: d.Client(), DB: d.Database(), Collection: "jobs", Grouped: true})
	}}
}

func newSchema(t *testing.T) storage {
	server, schema := pgtest.URL(t), pgtest.Schema(t)
	return storage{[]string{"-store", server, "-db", schema}, func(ctx context.Context) (driver.Driver, error) {
		return postgres.Open(ctx, postgres.Options{URL: server, Schema: schema})
	}}
}

// onEachStore runs a test on each kind of durable store.
func onEachStore(t *testing.T, test func(t *testing.T, db storage)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, newFile(t.TempDir(), "folder", "jobs.db")) })
	t.Run("postgres", func(t *testing.T) { test(t, newSchema(t)) })
	t.Run("mongodb", func(t *testing.T) { test(t, newDatabase(mongotest.Open(t, mongotest.ReplicaSet()))) })
}

// inspection reads the jobs of a directory in a store, independently of the service.
type inspection struct {
	queues  map[string]amboy.Queue // by tenant
	changed chan struct{}          // receives an element after each change
}

// inspect calls look with the store, which it creates if necessary.
func inspect(t *testing.T, db storage, dir string, look func(inspection)) {
	t.Helper()
	stored, err := db.open(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, stored.Close(t.Context())) }()
	file := inspection{queues: map[string]amboy.Queue{}, changed: make(chan struct{}, 1)}
	defer stored.Subscribe(func(driver.Change) {
		select {
		case file.changed <- struct{}{}:
		default:
		}
	})()
	defer func() {
		for _, q := range file.queues {
			q.Close(t.Context())
		}
	}()
	tenants, err := findTenants(dir)
	require.NoError(t, err)
	for _, tenant := range tenants {
		file.queues[tenant.name], err = queue.NewDriverQueue(queue.DriverQueueOptions{Driver: stored, Name: tenant.id, NumWorkers: 1})
		require.NoError(t, err)
	}
	look(file)
}

// attempt is the stored state of an attempt.
type attempt struct {
	state  amboy.JobState
	claims int
	end    time.Time
}

// attempts returns the attempts of all jobs, by tenant, path (for a summary, its ID) and
// number.
func (i inspection) attempts(t *testing.T) map[string]attempt {
	t.Helper()
	all := map[string]attempt{}
	for tenant, q := range i.queues {
		for info := range q.JobInfo(t.Context()) {
			what := info.ID
			stored, _ := q.Get(t.Context(), info.ID)
			if file, ok := stored.(*fileJob); ok {
				what = file.Path
			}
			name := fmt.Sprintf("%s %s %d", tenant, what, info.Retry.CurrentAttempt)
			all[name] = attempt{info.State, info.Status.ModificationCount, info.Time.End}
		}
	}
	return all
}

// endedIn returns the attempts that have ended.
func endedIn(t *testing.T, db storage, dir string) map[string]attempt {
	t.Helper()
	ended := map[string]attempt{}
	inspect(t, db, dir, func(file inspection) {
		for name, a := range file.attempts(t) {
			if a.state.IsFinal() {
				ended[name] = a
			}
		}
	})
	return ended
}

// assertKept checks that ended attempts have not changed.
func assertKept(t *testing.T, before, after map[string]attempt) {
	t.Helper()
	for name, a := range before {
		assert.Equal(t, a, after[name], "ended attempts must not run again: %s", name)
	}
}

// process is the service as a separate process.
type process struct {
	*exec.Cmd
	printed bytes.Buffer  // complete after the process has ended
	ended   chan struct{} // closed after the process has ended
	err     error
}

// start starts the service as a separate process.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.CommandContext(t.Context(), os.Args[0], args...), ended: make(chan struct{})}
	p.Env = append(os.Environ(), serveVariable+"=yes")
	p.Stdout, p.Stderr = &p.printed, &p.printed
	require.NoError(t, p.Start())
	go func() {
		defer close(p.ended)
		p.err = p.Wait()
	}()
	return p
}

// wait waits until the process ends, and returns its error.
func (p *process) wait() error {
	<-p.ended
	return p.err
}

// until waits for changes of the store until a condition holds. It fails the test if the
// process ends before that.
func (p *process) until(t *testing.T, file inspection, holds func() bool) {
	t.Helper()
	for reached := false; !reached; reached = holds() {
		select {
		case <-file.changed:
		case <-p.ended:
			require.Fail(t, "the process has ended", "%v\n%s", p.err, p.printed.String())
		}
	}
}

// serve runs the service in this process.
func serve(t *testing.T, db storage, args ...string) string {
	t.Helper()
	var printed bytes.Buffer
	require.NoError(t, run(t.Context(), slices.Concat(db.flags, args), &printed))
	return printed.String()
}

// table returns the part of the output that does not depend on the order of events.
func table(t *testing.T, printed string) string {
	t.Helper()
	_, table, found := strings.Cut(printed, "TENANT")
	require.True(t, found, "the output must contain a table: %q", printed)
	return table
}

// tree creates a directory with some hundred lines, a broken link, and a file that takes
// hours to read.
func tree(t *testing.T) (dir, endless string) {
	t.Helper()
	dir = t.TempDir()
	for i := range 40 {
		write(t, strings.Repeat("line\n", i%20), dir, fmt.Sprintf("tenant%d", i%4), fmt.Sprintf("folder%d", i%3), fmt.Sprint(i))
	}
	write(t, "one\n", dir, "beside")
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "tenant0", "gone")))
	endless = write(t, "", dir, "tenant1", "folder0", "endless")
	require.NoError(t, os.Truncate(endless, 1<<40)) // sparse
	return dir, endless
}

// shorten truncates a file and keeps its modification time, so that its job stays the same.
func shorten(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(path, 1000))
	require.NoError(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
}

func TestContinuesAfterAKill(t *testing.T) { onEachStore(t, testContinuesAfterAKill) }

func testContinuesAfterAKill(t *testing.T, db storage) {
	dir, endless := tree(t)
	args := slices.Concat(db.flags, []string{"-once", dir})
	longest := "tenant1 " + endless + " 0"

	var ended map[string]attempt
	for _, kill := range []struct {
		when    string
		reached func(file inspection, changes int) bool
	}{
		{"at the first write", func(inspection, int) bool { return true }},
		{"among many", func(_ inspection, changes int) bool { return changes == 5 }},
		{"while a job runs", func(file inspection, _ int) bool {
			return file.attempts(t)[longest].state == amboy.StateRunning
		}},
	} {
		inspect(t, db, dir, func(file inspection) {
			service, changes := start(t, args...), 0
			service.until(t, file, func() bool {
				changes++
				return kill.reached(file, changes)
			})
			require.NoError(t, service.Process.Kill())
			require.ErrorContains(t, service.wait(), "killed", kill.when)
		})
		now := endedIn(t, db, dir)
		assertKept(t, ended, now)
		ended = now
	}
	require.NotEmpty(t, ended)
	require.NotContains(t, ended, longest)
	shorten(t, endless)

	service := start(t, args...)
	require.NoError(t, service.wait(), &service.printed)
	after := endedIn(t, db, dir)
	assertKept(t, ended, after)
	assert.Greater(t, after[longest].claims, 1, "it ran before the last kill, and again")

	undisturbed, err := runIn(t, nil, "-once", dir)
	require.NoError(t, err)
	assert.Equal(t, table(t, undisturbed), table(t, service.printed.String()))
	assert.Equal(t, table(t, undisturbed), table(t, serve(t, db, "-once", dir)), "all jobs had ended before the start")
	assert.Equal(t, after, endedIn(t, db, dir))
}

func TestInterruptedJobIsHandedBack(t *testing.T) { onEachStore(t, testInterruptedJobIsHandedBack) }

func testInterruptedJobIsHandedBack(t *testing.T, db storage) {
	dir, endless := tree(t)
	inspect(t, db, dir, func(file inspection) {
		state := func() amboy.JobState { return file.attempts(t)["tenant1 "+endless+" 0"].state }
		service := start(t, append(db.flags, dir)...)
		service.until(t, file, func() bool { return state() == amboy.StateRunning })
		require.NoError(t, service.Process.Signal(os.Interrupt))
		require.Error(t, service.wait())
		// The service may still be opening the queues of other tenants, or putting their jobs.
		printed := service.printed.String()
		assert.Regexp(t, "hostservice: (stopped without a summary of tenant|putting the jobs of tenant|getting queue)", printed)

		other := t.TempDir()
		write(t, "one\n", other, "tenant1", "file")
		if state() != amboy.StatePending {
			// The store was too slow for the second that Close has, or the service was stopped before it heard
			// that it had claimed the job. Another process hands the job back when its lease has ended.
			another := start(t, append(db.flags, other)...)
			another.until(t, file, func() bool { return state() == amboy.StatePending })
			require.NoError(t, another.Process.Signal(os.Interrupt))
			_ = another.wait() // it may not have printed its summary yet
		}
		assert.Equal(t, amboy.StatePending, state(), printed)
		assert.Equal(t, []string{"1", "1", "4", "0"}, row(t, serve(t, db, "-once", other), "tenant1"))
		assert.Equal(t, amboy.StatePending, state(), "a process for another directory must not run it")
	})
}

func TestTwoProcessesShareTheJobs(t *testing.T) { onEachStore(t, testTwoProcessesShareTheJobs) }

func testTwoProcessesShareTheJobs(t *testing.T, db storage) {
	dir, endless := tree(t)
	require.NoError(t, os.Remove(endless))
	args := slices.Concat(db.flags, []string{"-once", dir})
	one, other := start(t, args...), start(t, args...)
	require.NoError(t, errors.Join(one.wait(), other.wait()), "%s\n%s", &one.printed, &other.printed)
	assert.Equal(t, table(t, one.printed.String()), table(t, other.printed.String()))
	for name, a := range endedIn(t, db, dir) {
		if a.state == amboy.StateSucceeded { // a failed attempt was claimed again
			assert.Equal(t, 1, a.claims, name)
		}
	}
}

func TestReadsChangedFilesAgain(t *testing.T) { onEachStore(t, testReadsChangedFilesAgain) }

func testReadsChangedFilesAgain(t *testing.T, db storage) {
	dir, other := t.TempDir(), t.TempDir()
	path := write(t, "one\n", dir, "a", "file")
	write(t, "one\ntwo\n", dir, "a", "same")
	write(t, "another directory\n", other, "a", "file")
	assert.Equal(t, []string{"2", "3", "12", "0"}, row(t, serve(t, db, "-once", dir), "a"))
	assert.Equal(t, []string{"1", "1", "18", "0"}, row(t, serve(t, db, "-once", other), "a"))

	before := endedIn(t, db, dir)
	write(t, "one\ntwo\nthree\n", path)
	require.NoError(t, os.Chtimes(path, time.Time{}, time.Unix(1, 0))) // the clock may be coarse
	assert.Equal(t, []string{"2", "5", "22", "0"}, row(t, serve(t, db, "-once", dir), "a"))
	after := endedIn(t, db, dir)
	assert.Len(t, after, len(before)+1, "a new summary, and the file under its earlier key")
}

func TestDefaultStore(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	dir := t.TempDir()
	write(t, "one\n", dir, "a", "file")
	require.NoError(t, run(t.Context(), []string{"-once", dir}, &bytes.Buffer{}))
	ended := endedIn(t, newFile(cache, "amboy-hostservice", "jobs.db"), dir)
	assert.Len(t, ended, 3, "the file and two summaries")
}

func TestDatabaseThatCannotBeOpened(t *testing.T) {
	file := write(t, "not a database, but longer than a header of one would be, by some hundred bytes"+strings.Repeat(".", 4096), t.TempDir(), "file")
	for name, db := range map[string]string{
		"folder can't be made": filepath.Join(file, "jobs.db"),
		"not a database":       file,
		"a folder":             t.TempDir(),
	} {
		t.Run(name, func(t *testing.T) {
			err := run(t.Context(), []string{"-once", "-db", db, t.TempDir()}, &bytes.Buffer{})
			assert.ErrorContains(t, err, file[:strings.LastIndex(file, "/")-1], "the error must name the file")
		})
	}
}

func TestErrorOfAnUnreachableMongoDBHidesThePassword(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	err := run(ctx, []string{"-once", "-store", "mongodb://me:secret@127.0.0.1:1/?connectTimeoutMS=50", t.TempDir()}, &bytes.Buffer{})
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "secret")
}
