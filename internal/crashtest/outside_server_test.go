package crashtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/pinlater"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/rest"
	"github.com/mongodb/amboy/workq"
)

// outsideConfig is the configuration of a process of the tests of outside workers.
type outsideConfig struct {
	Store    store
	Dir      string // of the journals and of the file with the addresses
	Name     string // unique among the processes
	Protocol string // of a worker
	Lease    time.Duration
}

// outsideVariable makes a process of these tests a server or a worker of TestOutside.
const outsideVariable = "CRASHTEST_OUTSIDE"

// outsideConfigOf returns the configuration of this process.
func outsideConfigOf(t *testing.T) (c outsideConfig) {
	t.Helper()
	encoded := os.Getenv(outsideVariable)
	if encoded == "" {
		t.Skip("run only by other tests")
	}
	require.NoError(t, json.Unmarshal([]byte(encoded), &c))
	return c
}

// The queue and the type of the jobs of HTTP workers.
const (
	outsideQueue = "crash"
	outsideType  = "crashtest-outside"
)

func outsideOptions(t *testing.T, c outsideConfig) queue.DriverQueueOptions {
	t.Helper()
	return queue.DriverQueueOptions{
		Driver: c.Store.open(t), CloseDriver: true, LockTimeout: c.Lease,
		Retryable: queue.RetryableQueueOptions{StaleRetryingMonitorInterval: maintenance, MaxInterruptions: 1_000_000},
	}
}

// addresses are the addresses of a server, by protocol.
type addresses map[string]string

// addressesOf returns the addresses of the server that started last.
func addressesOf(dir string) addresses {
	content, err := os.ReadFile(filepath.Join(dir, "addresses"))
	var all addresses
	if err == nil {
		err = json.Unmarshal(content, &all)
	}
	if err != nil {
		panic(fmt.Errorf("reading the addresses of the server: %w", err)) // they were stored before any client began
	}
	return all
}

func (a addresses) store(t *testing.T, dir string) {
	t.Helper()
	content, err := json.Marshal(a)
	require.NoError(t, err)
	path := filepath.Join(dir, "addresses")
	require.NoError(t, os.WriteFile(path+".new", content, 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

// TestOutsideServer is run by the servers that TestOutside kills.
func TestOutsideServer(t *testing.T) {
	c := outsideConfigOf(t)
	opts := outsideOptions(t, c)
	opts.Driver = newRecorder(opts.Driver, openJournal(t, c.Dir, c.Name))
	g := outsidetest.StartGroup(t, opts, outside.Options{})
	inspector, err := management.NewGroupInspector(g.Queues)
	require.NoError(t, err)
	everybody := rest.Authorize(func(*http.Request, rest.Access) error { return nil })
	web := &http.Server{Handler: rest.Handler(inspector, rest.Workers(g.Dispatcher), rest.CreateOutside(), everybody), ReadHeaderTimeout: time.Minute}
	webListener, pinlaterListener, workqListener := outsidetest.Listen(t), outsidetest.Listen(t), outsidetest.Listen(t)
	served := make(chan error, 1)
	go func() { served <- web.Serve(webListener) }()

	p, err := pinlater.New(g.Queues, g.Dispatcher, pinlater.Options{ClaimTimeout: c.Lease, MonitorInterval: maintenance})
	require.NoError(t, err)
	stopPinLater := outsidetest.Serve(t, p, pinlaterListener)
	w, err := workq.New(g.Queues, g.Dispatcher, workq.Options{})
	require.NoError(t, err)
	stopWorkq := outsidetest.Serve(t, w, workqListener)
	addresses{
		"http": webListener.Addr().String(), "pinlater": pinlaterListener.Addr().String(), "workq": workqListener.Addr().String(),
	}.store(t, c.Dir)
	fmt.Println(saysReady)

	_, err = io.Copy(io.Discard, os.Stdin)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	require.NoError(t, web.Shutdown(ctx))
	if err = <-served; !errors.Is(err, http.ErrServerClosed) {
		require.NoError(t, err)
	}
	stopWorkq()
	stopPinLater()
	g.Close()
}
