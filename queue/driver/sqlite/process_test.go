package sqlite_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// pathVariable is the environment variable with the file that the child process writes.
const pathVariable = "SQLITE_DRIVER_TEST_PATH"

// TestOtherProcess is the child process. It inserts, claims and completes records, and prints
// the ID of each inserted record, until it is killed.
func TestOtherProcess(t *testing.T) {
	path := os.Getenv(pathVariable)
	if path == "" {
		t.Skip("it is run by other tests")
	}
	d := open(t, sqlite.Options{Path: path})
	for i := 0; ; i++ {
		id := fmt.Sprint("job-", i)
		insert(t, d, newRecord(t, id))
		fmt.Println(id)
		claimed := claim(t, d, 1)
		if i%2 == 0 {
			complete(t, d, claimed[0])
		}
	}
}

// otherProcess starts the child process. next returns the lines that it prints.
func otherProcess(t *testing.T, path string) (process *exec.Cmd, next func() string) {
	t.Helper()
	process = exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOtherProcess$")
	process.Env = append(os.Environ(), pathVariable+"="+path)
	output, err := process.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, process.Start())
	lines := bufio.NewScanner(output)
	return process, func() string {
		require.True(t, lines.Scan())
		return lines.Text()
	}
}

func TestWritesSurviveAKilledProcess(t *testing.T) {
	path := newPath(t)
	process, next := otherProcess(t, path)
	var inserted []string
	for range 200 {
		inserted = append(inserted, next())
	}
	require.NoError(t, process.Process.Kill())
	require.Error(t, process.Wait())

	d := open(t, sqlite.Options{Path: path})
	assert.Subset(t, list(t, d), inserted)
	db := openRaw(t, path)
	checkCounts(t, db)
	var integrity string
	require.NoError(t, db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&integrity))
	assert.Equal(t, "ok", integrity)
}

func TestSubscribersAreNotifiedOfChangesByOtherProcesses(t *testing.T) {
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	heard := make(chan struct{}, 1)
	t.Cleanup(d.Subscribe(func(driver.Change) {
		select {
		case heard <- struct{}{}:
		default:
		}
	}))
	process, _ := otherProcess(t, path)
	<-heard
	require.NoError(t, process.Process.Kill())
	require.Error(t, process.Wait())
}

func TestSubscribersAreNotifiedOfChangesByOtherDrivers(t *testing.T) {
	path := newPath(t)
	d, other := open(t, sqlite.Options{Path: path}), open(t, sqlite.Options{Path: path})
	heard := make(chan struct{})
	t.Cleanup(d.Subscribe(func(driver.Change) { close(heard) }))
	insert(t, other, newRecord(t, "job"))
	<-heard
}
