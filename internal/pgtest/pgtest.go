// Package pgtest runs tests against a PostgreSQL server.
//
// The server is the one that the environment variable AMBOY_TEST_POSTGRES_URL names, or a
// private one, which the first test of a process starts in a temporary folder and Main
// stops. If neither is available, the tests are skipped with that reason.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// EnvURL is the environment variable that names a server.
const EnvURL = "AMBOY_TEST_POSTGRES_URL"

// EnvRequired is the environment variable that makes tests fail instead of being skipped.
const EnvRequired = "AMBOY_TEST_POSTGRES_REQUIRED"

// startTime bounds how long a server may take to start.
const startTime = time.Minute

var (
	once   sync.Once
	shared *Server
	errOf  error
	last   atomic.Int64
)

// errNone is the error if no server is available.
var errNone = errors.New("PostgreSQL is not installed (Debian: apt-get install postgresql), and " + EnvURL + " is not set")

// URL returns the connection string of the server that the tests of a process share. It skips
// the test if there is none.
func URL(t testing.TB) string {
	t.Helper()
	if named := os.Getenv(EnvURL); named != "" {
		return named
	}
	once.Do(func() { shared, errOf = Start(Options{}) })
	if errors.Is(errOf, errNone) && os.Getenv(EnvRequired) == "" {
		t.Skip(errOf)
	}
	if errOf != nil {
		t.Fatal(errOf)
	}
	return shared.URL()
}

// Main runs the tests of a package and stops the server that they have started. It is for
// goleak.VerifyTestMain.
type Main struct {
	// M is the argument of TestMain.
	M interface{ Run() int }
}

// Run runs the tests.
func (m Main) Run() int {
	code := m.M.Run()
	err := dropKept()
	if shared != nil {
		err = errors.Join(err, shared.Stop())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stopping PostgreSQL:", err)
		return max(code, 1)
	}
	return code
}

// Schema returns the name of a schema that no other test uses. It is dropped when the
// test ends.
func Schema(t testing.TB) string {
	t.Helper()
	server := URL(t)
	name := fmt.Sprintf("test_%d_%d", os.Getpid(), last.Add(1))
	t.Cleanup(func() {
		if os.Getenv(EnvURL) == "" {
			return // the server ends soon
		}
		if err := drop(server, name); err != nil {
			t.Error(err)
		}
	})
	return name
}

func drop(server, schema string) (err error) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	_, err = conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{schema}.Sanitize()+" CASCADE")
	return err
}

// kept is what the tests of the process leave for later tests.
var kept struct {
	mu   sync.Mutex
	pool *pgxpool.Pool
	// free are the schemas of EmptySchema that no test uses, and all are all of them.
	free, all []string
}

// Pool returns the connections that tests of the process share, because starting a connection
// takes the server longer than most tests need it for. A test must leave them as it found them.
func Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	server := URL(t)
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if kept.pool != nil {
		return kept.pool
	}
	config, err := pgxpool.ParseConfig(server)
	if err == nil {
		config.MaxConns = 32
		kept.pool, err = pgxpool.NewWithConfig(context.Background(), config)
	}
	if err != nil {
		t.Fatal(err)
	}
	return kept.pool
}

// EmptySchema returns the name of a schema without rows, which no other test uses meanwhile. If
// an earlier test has left one, the schema has its tables, because making them takes longer than
// most tests. All queues on the schema must be closed when the test ends.
func EmptySchema(t testing.TB) string {
	t.Helper()
	pool := Pool(t)
	kept.mu.Lock()
	defer kept.mu.Unlock()
	var name string
	if n := len(kept.free); n > 0 {
		name, kept.free = kept.free[n-1], kept.free[:n-1]
	} else {
		name = fmt.Sprintf("kept_%d_%d", os.Getpid(), last.Add(1))
		kept.all = append(kept.all, name)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startTime)
		defer cancel()
		if _, err := pool.Exec(ctx, fmt.Sprintf(emptyTables, name)); err != nil {
			t.Errorf("emptying schema %q: %s", name, err)
			return
		}
		kept.mu.Lock()
		defer kept.mu.Unlock()
		kept.free = append(kept.free, name)
	})
	return name
}

// emptyTables deletes the rows of all tables of a schema, except the list of its migrations.
const emptyTables = `DO $$ DECLARE name text; BEGIN
	FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = '%s' AND tablename <> 'migrations' LOOP
		EXECUTE format('DELETE FROM %%I.%%I', '%[1]s', name);
	END LOOP;
END $$`

// dropKept closes the shared connections, and drops the schemas of EmptySchema if the server
// keeps running.
func dropKept() (err error) {
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if kept.pool != nil {
		kept.pool.Close()
	}
	if named := os.Getenv(EnvURL); named != "" {
		for _, schema := range kept.all {
			err = errors.Join(err, drop(named, schema))
		}
	}
	return err
}

// Options configures a private server.
type Options struct {
	// Durable makes the server wait for the disk. Tests that do not kill the server do
	// not need that.
	Durable bool
	// Settings are further settings of the server, as name=value.
	Settings []string
}

// Server is a private server with a socket in its own folder.
type Server struct {
	folder string
	opts   Options

	mu      sync.Mutex
	process *exec.Cmd
	ended   chan struct{}
}

// Start creates a database in a temporary folder and starts a server on it.
func Start(opts Options) (s *Server, err error) {
	initdb, err := find("initdb")
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "amboy-pg-")
	if err != nil {
		return nil, err
	}
	s = &Server{folder: folder, opts: opts}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}()
	err = giveAway(folder)
	if err != nil {
		return nil, err
	}
	made := exec.Command(initdb, "-D", s.data(), "-U", "amboy", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	made.Dir = folder
	err = asOrdinaryUser(made)
	if err != nil {
		return nil, err
	}
	if out, failure := made.CombinedOutput(); failure != nil {
		return nil, fmt.Errorf("initdb: %w: %s", failure, out)
	}
	err = s.Run()
	return s, err
}

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

// URL returns the connection string of the server.
func (s *Server) URL() string {
	return "postgres:///postgres?user=amboy&host=" + url.QueryEscape(s.folder)
}

// Run starts the server again after Kill. While what is left of the processes that were killed
// keeps it from starting, it tries again.
func (s *Server) Run() error {
	deadline := time.Now().Add(startTime)
	for {
		err := s.runOnce()
		if !errors.Is(err, errEndedEarly) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

var errEndedEarly = errors.New("the server ended while starting")

func (s *Server) runOnce() error {
	program, err := find("postgres")
	if err != nil {
		return err
	}
	args := []string{
		"-D", s.data(), "-k", s.folder, "-c", "listen_addresses=", "-c", "max_connections=200", "-c", "shared_buffers=64MB",
		"-c", "log_min_messages=fatal", "-c", "jit=off", "-c", "autovacuum=off",
	}
	if !s.opts.Durable {
		args = append(args, "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off")
	}
	for _, setting := range s.opts.Settings {
		args = append(args, "-c", setting)
	}
	process := exec.Command(program, args...)
	process.Dir = s.folder
	err = asOrdinaryUser(process)
	if err != nil {
		return err
	}
	err = process.Start()
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = process.Wait() // Only its end matters; it is killed.
	}()
	s.mu.Lock()
	s.process, s.ended = process, ended
	s.mu.Unlock()
	return s.await(ended)
}

// await waits until the server accepts connections.
func (s *Server) await(ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	return awaitConnection(ctx, s.URL(), ended)
}

// Kill kills all processes of the server, as a power failure does, except that the system
// still writes its buffers to the disk.
func (s *Server) Kill() error {
	s.mu.Lock()
	process, ended := s.process, s.ended
	s.mu.Unlock()
	err := killAll(process)
	<-ended
	return err
}

// Stop ends the server and removes its folder.
func (s *Server) Stop() error {
	s.mu.Lock()
	process, ended := s.process, s.ended
	s.mu.Unlock()
	err := interrupt(process)
	<-ended
	return errors.Join(err, os.RemoveAll(s.folder))
}

// find finds a program of the server. Debian keeps these programs in a separate folder
// for each version.
func find(program string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + program)
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", errNone
	}
	sort.Strings(found)
	return found[len(found)-1], nil
}
