package river

import (
	"context"
	_ "embed" // the versions of the modules
	"fmt"
	"io"
	"log"
	"os"
	"regexp"
	"runtime"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/mongodb/grip"
	"github.com/mongodb/grip/send"
)

func TestMain(m *testing.M) {
	// Messages are built, as in a service, but no benchmark measures the terminal.
	if err := grip.SetSender(send.WrapWriterLogger(io.Discard)); err != nil {
		log.Fatal(err)
	}
	if url := os.Getenv(serverVariable); url != "" {
		text, err := describe(context.Background(), url)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(text)
	}
	os.Exit(m.Run())
}

//go:embed go.mod
var modules string

var riverVersion = regexp.MustCompile(`riverqueue/river (\S+)`)

// describe returns what a figure depends on: the versions, and the settings of the server by which a commit is safe.
func describe(ctx context.Context, url string) (text string, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }() // it has only read
	err = conn.QueryRow(ctx, `SELECT format('PostgreSQL %s, fsync %s, synchronous_commit %s, full_page_writes %s, autovacuum %s, shared_buffers %s', VARIADIC
		ARRAY(SELECT current_setting(name) FROM unnest(ARRAY['server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'autovacuum', 'shared_buffers']) name))`).Scan(&text)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, River %s, %s", text, riverVersion.FindStringSubmatch(modules)[1], runtime.Version()), nil
}
