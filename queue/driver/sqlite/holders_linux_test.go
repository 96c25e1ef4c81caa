package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver/sqlite"
)

const holderVariable = "SQLITE_DRIVER_TEST_HOLDER_PATH"

// hold claims a job for the process of a driver.
func hold(t *testing.T, d *sqlite.Driver, owner string) {
	t.Helper()
	req := request(1)
	req.Owner, req.HeldByProcess = owner, true
	claimed, err := d.Claim(t.Context(), req)
	require.NoError(t, err)
	require.Len(t, claimed.Records, 1)
}

// TestHolderProcess is a child process that claims a job and then does nothing until it is killed.
func TestHolderProcess(t *testing.T) {
	path := os.Getenv(holderVariable)
	if path == "" {
		t.Skip("it is run by other tests")
	}
	d := open(t, sqlite.Options{Path: path})
	hold(t, d, "child")
	fmt.Println("claimed")
	<-t.Context().Done()
}

// holderProcess starts the child process, which claims a job.
func holderProcess(t *testing.T, path string) (kill func()) {
	t.Helper()
	process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHolderProcess$")
	process.Env = append(os.Environ(), holderVariable+"="+path)
	output, err := process.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, process.Start())
	require.True(t, bufio.NewScanner(output).Scan())
	return func() {
		require.NoError(t, process.Process.Kill())
		require.Error(t, process.Wait())
	}
}

func TestJobsOfAKilledProcessAreRecoveredBeforeTheirLeasesEnd(t *testing.T) {
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	insert(t, d, newRecord(t, "job"), newRecord(t, "other"))
	kill := holderProcess(t, path)
	assert.Zero(t, recoverStale(t, d), "the process lives")
	kill()
	assert.Equal(t, 1, recoverStale(t, open(t, sqlite.Options{Path: path})), "a driver that was opened later")
	assert.Zero(t, recoverStale(t, d))
	assert.Len(t, claim(t, d, 2), 2)
}

func TestADriverInThisProcessIsAlive(t *testing.T) {
	path := newPath(t)
	holder, taker := open(t, sqlite.Options{Path: path}), open(t, sqlite.Options{Path: path})
	insert(t, holder, newRecord(t, "job"))
	hold(t, holder, "holder")
	assert.Zero(t, recoverStale(t, taker))
	assert.Zero(t, recoverStale(t, holder))
	third := open(t, sqlite.Options{Path: path}) // closing a file must not free the locks of others
	require.NoError(t, third.Close(context.Background()))
	assert.Zero(t, recoverStale(t, taker))
}

// A worker outside of the process that claims for it may live on.
func TestLeasesOfWorkersElsewhereOutliveTheProcessThatClaimed(t *testing.T) {
	path := newPath(t)
	process, next := otherProcess(t, path)
	next() // claims are made without HeldByProcess
	next()
	next()
	require.NoError(t, process.Process.Kill())
	require.Error(t, process.Wait())
	d := open(t, sqlite.Options{Path: path})
	assert.Zero(t, recoverStale(t, d))
	sqlite.Elapse(d, request(1).LeaseTime)
	assert.NotZero(t, recoverStale(t, d))
}

func TestLeasesOfAClosedDriverRunOut(t *testing.T) {
	path := newPath(t)
	holder, taker := open(t, sqlite.Options{Path: path}), open(t, sqlite.Options{Path: path})
	insert(t, holder, newRecord(t, "job"))
	hold(t, holder, "holder")
	require.NoError(t, holder.Close(context.Background()))
	assert.Zero(t, recoverStale(t, taker))
	sqlite.Elapse(taker, request(1).LeaseTime)
	assert.Equal(t, 1, recoverStale(t, taker))
}

// A container that is started again has the host name and the process number that it had.
func TestAnOwnerThatBeganANewLifeKeepsItsLeases(t *testing.T) {
	path := newPath(t)
	d, taker := open(t, sqlite.Options{Path: path}), open(t, sqlite.Options{Path: path})
	insert(t, d, newRecord(t, "job"), newRecord(t, "other"))
	kill := holderProcess(t, path)
	kill()
	hold(t, d, "child")
	assert.Zero(t, recoverStale(t, taker))
	assert.Zero(t, recoverStale(t, d))
}

func TestALockFileThatWasReplacedProvesNothing(t *testing.T) {
	path := newPath(t)
	holder := open(t, sqlite.Options{Path: path})
	insert(t, holder, newRecord(t, "job"))
	hold(t, holder, "holder")
	require.NoError(t, os.Remove(path+"-lock"))
	taker := open(t, sqlite.Options{Path: path})
	assert.Zero(t, recoverStale(t, taker))
	assert.Zero(t, recoverStale(t, holder))
	sqlite.Elapse(taker, request(1).LeaseTime)
	assert.Equal(t, 1, recoverStale(t, taker), "without a lock file, the lease ends by its length")
}
