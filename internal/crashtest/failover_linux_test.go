package crashtest_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
)

var failovers = flag.Int("crashtest.failovers", 1, "how often each test of failovers of a replica set makes its fault")

// TestFailovers runs a plan on two queues while the primary of a replica set fails. Jobs must begin
// again within five seconds of the election of another, and leases of 30 s outlast it.
func TestFailovers(t *testing.T) {
	for _, test := range []struct {
		name  string
		lease time.Duration
		lasts time.Duration // of the fault and its consequences
		fault func(t *testing.T, s *replicaSet, c *cutter) (ends func())
	}{
		{name: "killed", lease: 4 * time.Second, lasts: 20 * time.Second, fault: killPrimary},
		{name: "killed, long leases", lease: 30 * time.Second, lasts: 20 * time.Second, fault: killPrimary},
		{name: "stopped for 12 s", lease: 4 * time.Second, lasts: 25 * time.Second, fault: stopPrimary(12 * time.Second)},
		{name: "stopped for 12 s, long leases", lease: 30 * time.Second, lasts: 25 * time.Second, fault: stopPrimary(12 * time.Second)},
		{name: "stopped for 75 s", lease: 4 * time.Second, lasts: 90 * time.Second, fault: stopPrimary(75 * time.Second)},
		{name: "answers lost for 3 s", lease: 4 * time.Second, lasts: 8 * time.Second, fault: loseAnswers(3 * time.Second)},
		{name: "answers lost for 3 s, long leases", lease: 30 * time.Second, lasts: 8 * time.Second, fault: loseAnswers(3 * time.Second)},
	} {
		t.Run(test.name, func(t *testing.T) {
			if !inChild(t, nil) {
				return
			}
			s := newReplicaSet(t)
			c := &cutter{}
			on := store{Location: s.uri(), Database: "crash", connect: c.connect}
			tr := trial{
				load: time.Duration(*failovers) * test.lasts, lease: test.lease, longWork: min(test.lease*5/4, 5*time.Second),
				catchUp: 5 * patience, // three servers on one machine are slow
			}
			h := withstand(t, on, tr, func(j *journal) {
				for range *failovers {
					j.await(t, j.count(isRun)+10*workers, "runs that begin", isRun)
					ends := test.fault(t, s, c)
					again := time.Now()
					j.await(t, j.count(isRun)+1, "runs that begin", isRun)
					took := time.Since(again)
					t.Logf("jobs begin again %s after the server", took.Round(time.Millisecond))
					assert.LessOrEqual(t, took, 5*time.Second)
					ends()
				}
			})
			if test.lease > 10*time.Second {
				assert.Zero(t, interruptedRuns(h), "runs that lost their leases")
			}
		})
	}
}

// interruptedRuns returns the number of runs that did not end by themselves.
func interruptedRuns(h *history) (n int) {
	for _, e := range h.events {
		if e.Kind == ended && e.Outcome == interrupted {
			n++
		}
	}
	return n
}

// killPrimary kills the primary, and returns when there is another. The returned function starts the
// killed member.
func killPrimary(t *testing.T, s *replicaSet, _ *cutter) (ends func()) {
	t.Helper()
	primary := s.awaitPrimary(nil)
	s.kill(primary)
	s.awaitPrimary(primary)
	return func() { s.start(primary) }
}

// stopPrimary suspends the primary for a time, and returns when there is another. The returned
// function waits until that time is over.
func stopPrimary(lasts time.Duration) func(*testing.T, *replicaSet, *cutter) func() {
	return func(t *testing.T, s *replicaSet, _ *cutter) (ends func()) {
		t.Helper()
		primary := s.awaitPrimary(nil)
		s.stop(primary)
		var stopped sync.WaitGroup
		stopped.Go(func() {
			<-time.After(lasts)
			s.resume(primary)
		})
		s.awaitPrimary(primary)
		return stopped.Wait
	}
}

// loseAnswers loses what the server answers, for a time, and then breaks the connections.
func loseAnswers(lasts time.Duration) func(*testing.T, *replicaSet, *cutter) func() {
	return func(_ *testing.T, _ *replicaSet, c *cutter) func() {
		c.lose()
		<-time.After(lasts)
		c.restore()
		return func() {}
	}
}

// TestAPrimaryDiesWithTheProcessThatClaimed kills a process that has just claimed a job together with
// the primary that told it so. The job must run in another process, which is idle, although the next
// primary may never have heard of the claim.
func TestAPrimaryDiesWithTheProcessThatClaimed(t *testing.T) {
	if !inChild(t, nil) {
		return
	}
	s := newReplicaSet(t)
	const lease = 15 * time.Second
	dir := t.TempDir()
	config := workerConfig{Dir: dir, Began: time.Now(), setup: setup{
		Store: store{Location: s.uri(), Database: "crash"},
		Plan:  planOptions{Seed: *seed},
		Lease: lease,
	}}
	q := newQueue(t, config.Store.open(t), lease) // It runs no jobs.
	defer closeQueue(t, q)
	f := &fleet{t: t, config: config, deaths: map[string]time.Time{}}
	for part := range f.live {
		f.start(part)
	}
	f.awaitAll("its start", func(p *process) <-chan struct{} { return p.ready })
	var took []time.Duration
	for n := range *failovers {
		id := fmt.Sprint("job-", n)
		j, err := newJob(&task{ID: id, Work: lease / 4})
		require.NoError(t, err)
		require.NoError(t, q.Put(t.Context(), j))
		first := awaitRun(t, dir, id, 1)
		primary := s.awaitPrimary(nil)
		s.kill(primary)
		died := time.Now()
		part := slices.IndexFunc(f.live[:], func(p *process) bool { return p.name == first.Process })
		f.live[part].kill()
		next := awaitRun(t, dir, id, 2)
		took = append(took, next.At.Sub(died))
		t.Logf("the job runs again after %s", next.At.Sub(died).Round(time.Millisecond))
		assert.LessOrEqual(t, next.At.Sub(died), lease+45*time.Second)
		s.start(primary)
		f.start(part)
		f.live[part].await(t, "its start", f.live[part].ready)
		awaitIdle(t, q)
	}
	slices.Sort(took)
	t.Logf("from the kill to the next run, after an election of some 10 s: %s", distribution(took))
	f.stop()
}

// cutter makes clients whose answers can be lost.
type cutter struct {
	mu     sync.Mutex
	losing bool
	conns  map[*losingConn]bool // the open connections
}

// losingConn is a connection of a cutter. Once it has lost something, it delivers nothing more.
type losingConn struct {
	net.Conn
	cutter *cutter
	lost   bool // guarded by the cutter's mutex
}

// connect connects to a store, and disconnects when the test ends.
func (c *cutter) connect(t *testing.T, uri string) *mongo.Client {
	t.Helper()
	client, err := mongo.Connect(t.Context(), options.Client().ApplyURI(uri).SetDialer(c))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Disconnect(context.WithoutCancel(t.Context()))) })
	return client
}

// DialContext implements options.ContextDialer.
func (c *cutter) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	inner, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	conn := &losingConn{Conn: inner, cutter: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conns == nil {
		c.conns = map[*losingConn]bool{}
	}
	c.conns[conn] = true
	return conn, nil
}

// lose loses all answers from now on.
func (c *cutter) lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.losing = true
}

// restore ends the loss and breaks the connections that have lost something.
func (c *cutter) restore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.losing = false
	for conn := range c.conns {
		if conn.lost {
			_ = conn.Conn.Close() //nolint:errcheck // It is broken.
		}
	}
}

func (c *losingConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.loses() {
			return n, err
		}
	}
}

// loses reports whether what was just read is lost.
func (c *losingConn) loses() bool {
	c.cutter.mu.Lock()
	defer c.cutter.mu.Unlock()
	c.lost = c.lost || c.cutter.losing
	return c.lost
}

func (c *losingConn) Close() error {
	c.cutter.mu.Lock()
	delete(c.cutter.conns, c)
	c.cutter.mu.Unlock()
	return c.Conn.Close()
}
