package crashtest_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
)

var mongod = flag.String("crashtest.mongod", "", "the path of a mongod, for tests that start a replica set of three of them")

// replicaSet is a MongoDB replica set of three members, each a process of its own.
type replicaSet struct {
	t       *testing.T
	dir     string
	members [3]*member
}

// member is one member of a replica set.
type member struct {
	port   int
	cmd    *exec.Cmd
	client *mongo.Client // connected to this member only
}

// newReplicaSet starts a replica set that has a primary, and ends it with the test. The test is skipped
// if there is no mongod.
func newReplicaSet(t *testing.T) *replicaSet {
	t.Helper()
	if *mongod == "" {
		t.Skip("-crashtest.mongod does not name a mongod")
	}
	s := &replicaSet{t: t, dir: t.TempDir()}
	var members bson.A
	for i := range s.members {
		m := &member{port: freePort(t)}
		s.members[i] = m
		members = append(members, bson.M{"_id": i, "host": m.address()})
		s.start(m)
		t.Cleanup(func() { s.kill(m) })
		var err error
		m.client, err = mongo.Connect(t.Context(), options.Client().ApplyURI("mongodb://"+m.address()+"/?directConnection=true"))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, m.client.Disconnect(context.WithoutCancel(t.Context()))) })
	}
	for _, m := range s.members { // a set is not initiated unless all of them answer
		require.NoError(t, m.client.Ping(t.Context(), nil))
	}
	initiate := bson.M{"replSetInitiate": bson.M{"_id": "rs0", "members": members}}
	require.NoError(t, s.members[0].client.Database("admin").RunCommand(t.Context(), initiate).Err())
	s.awaitPrimary(nil)
	return s
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().(*net.TCPAddr).Port
}

func (m *member) address() string { return fmt.Sprint("127.0.0.1:", m.port) }

func (s *replicaSet) uri() string {
	var addresses []string
	for _, m := range s.members {
		addresses = append(addresses, m.address())
	}
	return "mongodb://" + strings.Join(addresses, ",") + "/?replicaSet=rs0"
}

// start starts a member, with the data that it has written before.
func (s *replicaSet) start(m *member) {
	s.t.Helper()
	dir := filepath.Join(s.dir, fmt.Sprint(m.port))
	require.NoError(s.t, os.MkdirAll(dir, 0o700))
	m.cmd = exec.Command(*mongod, "--replSet", "rs0", "--bind_ip", "127.0.0.1", "--port", fmt.Sprint(m.port), "--dbpath", dir, "--logpath", dir+".log", "--logappend",
		"--nounixsocket", "--wiredTigerCacheSizeGB", "0.25")
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(s.t, m.cmd.Start())
}

// kill kills a member at once.
func (s *replicaSet) kill(m *member) {
	s.t.Helper()
	require.NoError(s.t, m.cmd.Process.Signal(syscall.SIGCONT))
	require.NoError(s.t, m.cmd.Process.Kill())
	_ = m.cmd.Wait() //nolint:errcheck // It was killed.
}

// stop suspends a member, and resume continues it.
func (s *replicaSet) stop(m *member)   { s.signal(m, syscall.SIGSTOP) }
func (s *replicaSet) resume(m *member) { s.signal(m, syscall.SIGCONT) }

func (s *replicaSet) signal(m *member, signal syscall.Signal) {
	s.t.Helper()
	assert.NoError(s.t, m.cmd.Process.Signal(signal))
}

// awaitPrimary waits until a member other than the given one is the primary.
func (s *replicaSet) awaitPrimary(other *member) *member {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*patience)
	defer cancel()
	for tick := time.Tick(10 * time.Millisecond); ; {
		for _, m := range s.members {
			if m != other && m.isPrimary(ctx) {
				return m
			}
		}
		select {
		case <-tick:
		case <-ctx.Done():
			require.Fail(s.t, "there is no primary")
		}
	}
}

// isPrimary reports whether a member says that it is the primary. One that does not answer does not.
func (m *member) isPrimary(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second/2)
	defer cancel()
	var hello struct {
		IsWritablePrimary bool `bson:"isWritablePrimary"`
	}
	err := m.client.Database("admin").RunCommand(ctx, bson.M{"hello": 1}).Decode(&hello)
	return err == nil && hello.IsWritablePrimary
}
