package rest_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/rest"
)

// brittle is a store that can be made to fail or to hang.
type brittle struct {
	driver.Driver
	notes, find atomic.Pointer[error]
	hangs       atomic.Bool
	stuck       atomic.Pointer[chan struct{}] // calls wait for it, whatever their context
	waiting     atomic.Int32
}

const brittleSecret = "dial tcp db-7.internal.example: password hunter2"

func (b *brittle) Notes(ctx context.Context, req driver.NoteRequest) ([]driver.Note, error) {
	if stuck := b.stuck.Load(); stuck != nil && req.Kind == "secret" {
		b.waiting.Add(1)
		<-*stuck
	}
	if b.hangs.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err := b.notes.Load(); err != nil && req.Kind == "secret" {
		return nil, *err
	}
	return b.Driver.Notes(ctx, req)
}

func (b *brittle) Find(ctx context.Context, q driver.Query, page driver.PageRequest) (driver.Page, error) {
	if err := b.find.Load(); err != nil {
		return driver.Page{}, *err
	}
	return b.Driver.Find(ctx, q, page)
}

// probe sends a request to a handler, and returns the status and the body of the answer.
func probe(t *testing.T, handler http.Handler, method, target string) (int, string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), method, target, http.NoBody))
	return recorder.Code, recorder.Body.String()
}

// withHealth runs a test with the Health handler of a started queue, in a synctest bubble.
func withHealth(t *testing.T, test func(t *testing.T, store *brittle, health http.Handler)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		inMemory, err := memory.New(memory.Options{KeepFinished: 10})
		require.NoError(t, err)
		store := &brittle{Driver: inMemory}
		q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, Name: "q", CloseDriver: true, NumWorkers: 1})
		require.NoError(t, err)
		require.NoError(t, q.Start(t.Context()))
		defer closeNow(q)
		inspector, err := management.NewInspector(q)
		require.NoError(t, err)
		test(t, store, http.StripPrefix("/health", rest.Health(inspector)))
	})
}

func TestIdleProcessIsLiveAndReady(t *testing.T) {
	withHealth(t, func(t *testing.T, _ *brittle, health http.Handler) {
		for range 20 {
			status, body := probe(t, health, http.MethodGet, "/health/live")
			assert.Equal(t, http.StatusOK, status)
			assert.JSONEq(t, `{"status":"ok"}`, body)
			status, body = probe(t, health, http.MethodGet, "/health/ready")
			assert.Equal(t, http.StatusOK, status)
			assert.JSONEq(t, `{"status":"ok","checks":[{"name":"store","ok":true},{"name":"schema","ok":true},{"name":"dispatch","ok":true}]}`, body)
			time.Sleep(7 * time.Minute) // without any jobs
		}
		status, _ := probe(t, health, http.MethodHead, "/health/ready")
		assert.Equal(t, http.StatusOK, status)
		status, _ = probe(t, health, http.MethodPost, "/health/ready")
		assert.Equal(t, http.StatusMethodNotAllowed, status)
		status, _ = probe(t, health, http.MethodGet, "/health/")
		assert.Equal(t, http.StatusNotFound, status)
	})
}

func TestProcessWithAFailingStoreIsLiveAndNotReady(t *testing.T) {
	failure := errors.New(brittleSecret)
	withHealth(t, func(t *testing.T, store *brittle, health http.Handler) {
		for name, place := range map[string]*atomic.Pointer[error]{"store": &store.notes, "schema": &store.find} {
			place.Store(&failure)
			time.Sleep(2 * time.Second)
			status, body := probe(t, health, http.MethodGet, "/health/ready")
			assert.Equal(t, http.StatusServiceUnavailable, status)
			assert.Contains(t, body, `"status":"unavailable"`)
			assert.Contains(t, body, `{"name":"`+name+`","ok":false,`)
			assert.NotContains(t, body, "hunter2")
			assert.NotContains(t, body, "db-7")
			status, _ = probe(t, health, http.MethodGet, "/health/live")
			assert.Equal(t, http.StatusOK, status)
			place.Store(nil)
			time.Sleep(2 * time.Second)
			status, body = probe(t, health, http.MethodGet, "/health/ready")
			assert.Equal(t, http.StatusOK, status, body)
		}
	})
}

func TestProcessWithAHangingStoreIsNotReady(t *testing.T) {
	withHealth(t, func(t *testing.T, store *brittle, health http.Handler) {
		store.hangs.Store(true)
		begin := time.Now()
		status, body := probe(t, health, http.MethodGet, "/health/ready")
		assert.Equal(t, http.StatusServiceUnavailable, status)
		assert.Contains(t, body, "the request ended before it completed")
		assert.Equal(t, 5*time.Second, time.Since(begin))
	})
}

// A driver may wait for a disk or a network without checking its context.
func TestProcessWhoseStoreIgnoresItsContextIsLiveAndNotReady(t *testing.T) {
	withHealth(t, func(t *testing.T, store *brittle, health http.Handler) {
		release := make(chan struct{})
		store.stuck.Store(&release)
		for range 3 {
			begin := time.Now()
			status, body := probe(t, health, http.MethodGet, "/health/ready")
			assert.Equal(t, http.StatusServiceUnavailable, status)
			assert.JSONEq(t, `{"status":"unavailable","checks":[{"name":"store","ok":false,"error":"the check did not end in time"}]}`, body)
			assert.Less(t, time.Since(begin), 6*time.Second, "the time limit of the probe in deploy/kubernetes")
			status, _ = probe(t, health, http.MethodGet, "/health/live")
			assert.Equal(t, http.StatusOK, status)
		}
		assert.EqualValues(t, 1, store.waiting.Load(), "the probes share one call")
		store.stuck.Store(nil)
		close(release)
		time.Sleep(2 * time.Second)
		status, body := probe(t, health, http.MethodGet, "/health/ready")
		assert.Equal(t, http.StatusOK, status, body)
	})
}

func TestProcessWhoseStoreIsGoneIsNotReady(t *testing.T) {
	for name, c := range map[string]struct {
		take func(t *testing.T, path string, store driver.Driver)
		want string
	}{
		"closed": {func(t *testing.T, _ string, store driver.Driver) { require.NoError(t, store.Close(t.Context())) }, `"name":"store","ok":false`},
		"without a column": {func(t *testing.T, path string, _ driver.Driver) {
			change(t, path, "ALTER TABLE jobs RENAME COLUMN place TO spot")
		}, `"name":"schema","ok":false`},
		"without notes":      {func(t *testing.T, path string, _ driver.Driver) { change(t, path, "DROP TABLE notes") }, `"name":"store","ok":false`},
		"of a newer version": {func(t *testing.T, path string, _ driver.Driver) { change(t, path, "PRAGMA user_version = 99") }, `"name":"schema","ok":false`},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "jobs.db")
			store, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
			require.NoError(t, err)
			defer store.Close(context.Background()) //nolint:errcheck // It may be closed, or damaged.
			q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, Name: "q", NumWorkers: 1})
			require.NoError(t, err)
			defer closeNow(q)
			inspector, err := management.NewInspector(q)
			require.NoError(t, err)
			status, body := probe(t, rest.Health(inspector), http.MethodGet, "/ready")
			require.Equal(t, http.StatusOK, status, body)
			c.take(t, path, store)
			status, body = probe(t, rest.Health(inspector), http.MethodGet, "/ready")
			assert.Equal(t, http.StatusServiceUnavailable, status)
			assert.Contains(t, body, c.want)
			assert.NotContains(t, body, path)
		})
	}
}

// change changes a database file behind the back of the driver.
func change(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), statement)
	require.NoError(t, err)
	require.NoError(t, db.Close())
}

// Probes need no login, so they must not let a client overload the store.
func TestAttackProbesWithoutEndCostOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &counting{release: make(chan struct{})}
		health := rest.Health(i)
		var probes sync.WaitGroup
		for range 500 {
			probes.Go(func() {
				status, _ := probe(t, health, http.MethodGet, "/ready")
				assert.Equal(t, http.StatusOK, status)
			})
		}
		synctest.Wait()
		close(i.release)
		probes.Wait()
		for range 500 {
			probe(t, health, http.MethodGet, "/ready")
		}
		assert.EqualValues(t, 1, i.asked.Load())
		time.Sleep(time.Second)
		probe(t, health, http.MethodGet, "/ready")
		assert.EqualValues(t, 2, i.asked.Load())
	})
}

// counting is an Inspector that is not a HealthChecker.
type counting struct {
	tenants
	asked   atomic.Int32
	release chan struct{}
}

func (i *counting) Queues(context.Context) ([]management.Queue, error) {
	i.asked.Add(1)
	<-i.release
	return nil, nil
}

func TestHealthOfAnInspectorThatPanics(t *testing.T) {
	status, body := probe(t, rest.Health(&panicking{}), http.MethodGet, "/ready")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.JSONEq(t, `{"status":"unavailable","checks":[{"name":"store","ok":false,"error":"the check panicked"}]}`, body)
	assert.Panics(t, func() { rest.Health(nil) })
}

type panicking struct{ tenants }

func (*panicking) Queues(context.Context) ([]management.Queue, error) { panic("no") }

func TestProcessWithoutDispatchDecisionsIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := memory.New(memory.Options{KeepFinished: 10})
		require.NoError(t, err)
		defer func() { assert.NoError(t, store.Close(context.Background())) }()
		group, err := queue.NewDriverGroup(t.Context(), queue.DriverGroupOptions{
			DefaultQueue: queue.DriverQueueOptions{Driver: store, NumWorkers: 1},
		})
		require.NoError(t, err)
		inspector, err := management.NewGroupInspector(group)
		require.NoError(t, err)
		health := rest.Health(inspector)
		time.Sleep(5 * time.Minute)
		status, body := probe(t, health, http.MethodGet, "/ready")
		require.Equal(t, http.StatusOK, status, "the group has no open queue yet: %s", body)
		_, err = group.Get(t.Context(), "q")
		require.NoError(t, err)
		time.Sleep(5 * time.Minute)
		status, body = probe(t, health, http.MethodGet, "/ready")
		require.Equal(t, http.StatusOK, status, body)
		require.NoError(t, group.Close(t.Context()))
		time.Sleep(5 * time.Minute)
		status, body = probe(t, health, http.MethodGet, "/ready")
		assert.Equal(t, http.StatusServiceUnavailable, status)
		assert.Regexp(t, `\{"name":"dispatch","ok":false,"error":"the last dispatch decision was made [45]m[0-9]+s ago"\}`, body)
	})
}
