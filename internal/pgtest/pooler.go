package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// PoolerURL starts PgBouncer in transaction mode in front of the server that the tests of a
// process share, until the test ends, and returns its connection string. It skips the test if
// PgBouncer is not installed.
func PoolerURL(t testing.TB) string {
	t.Helper()
	program, err := findPooler()
	if err != nil && os.Getenv(EnvRequired) == "" {
		t.Skip(err)
	}
	var pooler string
	if err == nil {
		pooler, err = startPooler(t, program, URL(t))
	}
	if err != nil {
		t.Fatal(err)
	}
	return pooler
}

// findPooler finds PgBouncer, which Debian has where the paths of ordinary users do not look.
func findPooler() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("PgBouncer is not installed (Debian: apt-get install pgbouncer)")
}

const poolerConfig = `[databases]
* = host=%s port=%d user=%s
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = %s
auth_type = any
pool_mode = transaction
default_pool_size = 8
max_client_conn = 200
`

func startPooler(t testing.TB, program, server string) (string, error) {
	t.Helper()
	config, err := pgx.ParseConfig(server)
	if err != nil {
		return "", err
	}
	folder, err := os.MkdirTemp("", "amboy-pgbouncer-")
	if err != nil {
		return "", err
	}
	t.Cleanup(func() {
		if removeErr := os.RemoveAll(folder); removeErr != nil {
			t.Error(removeErr)
		}
	})
	file := filepath.Join(folder, "pgbouncer.ini")
	text := fmt.Sprintf(poolerConfig, config.Host, config.Port, config.User, folder)
	err = errors.Join(giveAway(folder), os.WriteFile(file, []byte(text), 0o644)) //nolint:gosec // It has no secrets, and another user reads it.
	if err != nil {
		return "", err
	}
	process := exec.Command(program, "-q", file)
	process.Dir = folder
	err = asOrdinaryUser(process)
	if err != nil {
		return "", err
	}
	err = process.Start()
	if err != nil {
		return "", err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = process.Wait() // Its end is all that matters; it is killed.
	}()
	t.Cleanup(func() {
		if killErr := ignoreEnded(process.Process.Kill()); killErr != nil {
			t.Error(killErr)
		}
		<-ended
	})
	pooler := "postgres:///" + config.Database + "?port=6432&user=" + config.User + "&host=" + url.QueryEscape(folder)
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	return pooler, awaitConnection(ctx, pooler, ended)
}

// awaitConnection waits until a server or a pooler takes connections.
func awaitConnection(ctx context.Context, address string, ended <-chan struct{}) error {
	for {
		conn, err := pgx.Connect(ctx, address)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ended:
			return fmt.Errorf("%w: %w", errEndedEarly, err)
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}
