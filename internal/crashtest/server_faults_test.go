package crashtest_test

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mongodb/amboy/internal/mongotest"
)

var faultTime = flag.Duration("crashtest.fault", 25*time.Millisecond, "how long TestServerFaults keeps each fault of the server")

// The codes of errors of a server: see
// https://github.com/mongodb/mongo/blob/master/src/mongo/base/error_codes.yml.
const (
	notWritablePrimary = 10107
	writeConflict      = 112
)

// commands are the commands that the driver sends.
var commands = []string{
	"insert", "update", "delete", "findAndModify", "find", "aggregate", "getMore",
	"commitTransaction", "abortTransaction",
}

// serverFailures returns all failures of TestServerFaults: each command fails in each
// way.
func serverFailures() (failures []mongotest.Failure) {
	ways := []mongotest.Failure{
		{CloseConnection: true},
		{ErrorCode: notWritablePrimary},
		{ErrorCode: writeConflict},
	}
	for _, command := range commands {
		for _, way := range ways {
			way.Commands = []string{command}
			failures = append(failures, way)
		}
	}
	return failures
}

// TestServerFaults runs a plan on two queues while the server fails: each command in each
// way, one at a time, and then any command at random.
func TestServerFaults(t *testing.T) {
	t.Run("replica set", func(t *testing.T) { testServerFaults(t, mongotest.ReplicaSet()) })
	if *standalone {
		t.Run("standalone", func(t *testing.T) { testServerFaults(t, mongotest.Standalone()) })
	}
}

func testServerFaults(t *testing.T, kind mongotest.Option) {
	if !inChild(t, nil) {
		return
	}
	t.Logf("-crashtest.seed=%d -crashtest.fault=%s", *seed, *faultTime)
	server := mongotest.Open(t, kind)
	failures := serverFailures()
	random := rand.New(rand.NewPCG(*seed, 0))
	random.Shuffle(len(failures), func(i, k int) { failures[i], failures[k] = failures[k], failures[i] })
	load := time.Duration(len(failures)+randomFailures) * *faultTime
	withstand(t, newDatabase(server), trial{load: load, lease: outageLease}, func(*journal) {
		for _, f := range failures {
			f.Times = 1 + random.IntN(2)
			server.Fail(f)
			<-time.After(*faultTime)
		}
		for range randomFailures {
			f := failures[random.IntN(len(failures))]
			f.Commands, f.Probability = commands, 0.1
			server.Fail(f)
			<-time.After(*faultTime)
		}
		server.Heal()
	})
}

// randomFailures is the number of periods in which any command may fail.
const randomFailures = 10
