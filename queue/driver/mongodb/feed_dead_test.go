package mongodb_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver"
)

// firewall can drop connections without an error: those on which commands about jobs or for the events of a change
// stream were sent.
type firewall struct {
	to   options.ContextDialer
	mu   sync.Mutex
	open []*filtered
}

type filtered struct {
	net.Conn
	used, dropped atomic.Bool
}

func (f *firewall) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := f.to.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open = append(f.open, &filtered{Conn: conn})
	return f.open[len(f.open)-1], nil
}

// drop drops connections, and reports whether there were any. New ones work.
func (f *firewall) drop() (dropped bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, conn := range f.open {
		if conn.used.Load() {
			conn.dropped.Store(true)
			dropped = true
		}
	}
	return dropped
}

func (c *filtered) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("getMore")) || bytes.Contains(p, []byte("work.group")) {
		c.used.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *filtered) Read(p []byte) (n int, err error) {
	for {
		n, err = c.Conn.Read(p)
		if err != nil || !c.dropped.Load() {
			return n, err
		}
	}
}

// A process waited for the events of a dead connection until the system gave it up, and noticed the
// jobs of other processes only when it polled.
func TestAChangeStreamWaitedOnADeadConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := mongotest.New(mongotest.Options{InMemory: true})
		require.NoError(t, err)
		t.Cleanup(server.Close)
		s := newStoreOn(t, server.ClientOptions())
		f := &firewall{to: server}
		listening := newStoreOn(t, server.ClientOptions().SetDialer(f))
		listening.db = s.db
		told := make(chan string, 100)
		t.Cleanup(listening.open().Subscribe(func(c driver.Change) {
			if c.InOneQueue {
				told <- c.Queue
			}
		}))
		producer := s.open()
		isTold := func(of string) bool {
			for timeout := time.After(time.Second); ; {
				select {
				case changed := <-told:
					if changed == of {
						return true
					}
				case <-timeout:
					return false
				}
			}
		}
		putAndAwait := func(queue string) {
			t.Helper()
			for n := range 60 { // the stream may begin after the first
				insert(t, producer, newRecord(t, queue, fmt.Sprint("job ", n)))
				if isTold(queue) {
					return
				}
			}
			require.FailNow(t, "no process was told of the jobs", queue)
		}
		putAndAwait("first")
		require.True(t, f.drop())
		putAndAwait("second")
	})
}

// A sweep on a dead connection waited until the system gave it up, and did nothing until then.
func TestASweepWaitedOnADeadConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := mongotest.New(mongotest.Options{InMemory: true})
		require.NoError(t, err)
		t.Cleanup(server.Close)
		s := newStoreOn(t, server.ClientOptions())
		f := &firewall{to: server}
		behind := newStoreOn(t, server.ClientOptions().SetDialer(f))
		behind.db = s.db
		d := behind.open()
		putAll(t, d, plainRecord("holder", wantsScope), plainRecord("waiter", wantsScope))
		require.Len(t, claimAll(t, d, request("owner", 1, "queue")), 1)
		pass(time.Minute)
		require.True(t, f.drop())
		_, err = s.jobs(true).DeleteOne(t.Context(), bson.M{"_id": "queue.holder"}) // as if another process had ended it and died
		require.NoError(t, err)
		pass(5 * time.Minute)
		n, err := s.jobs(true).CountDocuments(t.Context(), bson.M{"line.in": "ready"})
		require.NoError(t, err)
		assert.EqualValues(t, 1, n)
	})
}
