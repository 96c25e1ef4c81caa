package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/amboytest"
	"github.com/mongodb/amboy/batch"
	"github.com/mongodb/amboy/internal/logtest"
	"github.com/mongodb/amboy/middleware"
	"github.com/mongodb/amboy/queue"
)

func TestMain(m *testing.M) {
	logtest.Silence()
	goleak.VerifyTestMain(m)
}

// newQueue returns a queue whose jobs run when the test says so.
func newQueue(t *testing.T, b *books) *amboytest.Queue {
	return amboytest.NewWithOptions(t, queue.InlineOptions{
		Format:     amboy.JSON,
		Middleware: []amboy.Middleware{middleware.Context(b.attach)},
	})
}

func TestLettersAreTriedAgainUnlessTheAddressIsWrong(t *testing.T) {
	books, sent := newBooks(), []letter{}
	books.mail = func(_ context.Context, l letter) error {
		if sent = append(sent, l); len(sent) < 3 {
			return errors.New("the mail server is down")
		}
		return nil
	}
	q := newQueue(t, books)
	good, err := sendLetter.Put(t.Context(), q, letter{"ann@example.com", "hello"})
	require.NoError(t, err)
	_, err = sendLetter.Put(t.Context(), q, letter{"ann@example.com", "hello"})
	require.True(t, amboy.IsDuplicateJobError(err), "the same letter again: %v", err)
	wrong, err := sendLetter.Put(t.Context(), q, letter{"nowhere", "hello"})
	require.NoError(t, err)

	q.RunFor(t.Context(), time.Minute)
	amboytest.RequireState(t, q, good, amboy.StateSucceeded)
	amboytest.RequireState(t, q, wrong, amboy.StateFailed)
	assert.Len(t, sent, 3)
}

func TestAClosedMonthHasAnInvoiceForEachCustomerAndALetter(t *testing.T) {
	q := newQueue(t, newBooks())
	for range 2 { // as after a crash
		_, err := closeMonth.Put(t.Context(), q, month{"acme", "2030-01"})
		require.NoError(t, err)
		q.RunAll(t.Context())
	}
	invoices := amboytest.Puts(t, q, issueInvoice)
	require.Len(t, invoices, 2)
	for i, put := range invoices {
		issued, err := issueInvoice.ResultOf(put.Job)
		require.NoError(t, err)
		assert.Equal(t, i+1, issued.Number)
	}
	amboytest.RequirePut(t, q, sendLetter, letter{"office@acme.example", "2030-01 is closed"})
	closing, err := batch.Open(t.Context(), q, "close.2030-01")
	require.NoError(t, err)
	progress, err := closing.Progress(t.Context())
	require.NoError(t, err)
	assert.True(t, progress.Done())
}

// client is a tenant of a running service.
type client struct {
	*testing.T
	url, token string
}

// start runs the service until stop is called, and returns the client whose commands it prints.
func start(t *testing.T, file string) (c client, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, "localhost:0", file, writer) }()
	printed := make([]byte, 1<<16)
	n, err := reader.Read(printed)
	require.NoError(t, err)
	found := regexp.MustCompile(`export URL=(\S+) TOKEN='Authorization: (Bearer \w+)'`).FindSubmatch(printed[:n])
	require.Len(t, found, 3)
	for _, try := range calls {
		require.Contains(t, string(printed[:n]), try.curl())
	}
	return client{t, string(found[1]), string(found[2])}, func() {
		cancel()
		require.NoError(t, <-ended)
		http.DefaultClient.CloseIdleConnections()
	}
}

func (c client) send(try call) (status int, answer map[string]any) {
	request, err := http.NewRequestWithContext(c.Context(), try.method, c.url+try.path, strings.NewReader(try.body))
	require.NoError(c, err)
	request.Header.Set("Authorization", c.token)
	response, err := http.DefaultClient.Do(request)
	require.NoError(c, err)
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusOK {
		require.NoError(c, json.NewDecoder(response.Body).Decode(&answer))
	}
	return response.StatusCode, answer
}

// until sends a request until its answer has a value.
func (c client) until(try call, key string, want any) map[string]any {
	for c.Context().Err() == nil {
		if _, answer := c.send(try); assert.ObjectsAreEqual(want, answer[key]) {
			return answer
		}
	}
	return nil
}

// The commands that the program prints.
func TestThePrintedCommandsWork(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(spans)))
	file := filepath.Join(t.TempDir(), "jobs.db")
	c, stop := start(t, file)
	_, put := c.send(calls[0])
	_, again := c.send(calls[0])
	assert.Equal(t, put, again)
	assert.EqualValues(t, 1, c.until(calls[1], "state", "succeeded")["invoice"])
	c.send(calls[2])
	assert.EqualValues(t, 2, c.until(calls[3], "ended", 2.0)["invoices"])

	_, slow := c.send(calls[4])
	job := "/jobs/" + slow["job"].(string)
	c.until(call{"GET", job, ""}, "state", "running")
	status, _ := c.send(call{"DELETE", job, ""})
	assert.Equal(t, http.StatusOK, status)
	c.until(call{"GET", job, ""}, "state", "canceled")
	stop()

	assert.True(t, slices.ContainsFunc(spans.Ended(), func(s trace.ReadOnlySpan) bool { return s.Name() == "run acme" }))
	c, stop = start(t, file) // the next process knows the jobs of the last one
	c.until(call{"GET", job, ""}, "state", "canceled")
	stop()
}

func TestATenantSeesNothingOfOthers(t *testing.T) {
	c, stop := start(t, "")
	defer stop()
	c.send(calls[0])
	status, _ := c.send(call{"GET", "/admin/v2/jobs", ""})
	assert.Equal(t, http.StatusOK, status)
	for _, path := range []string{"/../../admin/v2/jobs", "/../globex/admin/v2/jobs", "/../globex/jobs/x", "/../nobody/jobs/x"} {
		status, _ = c.send(call{"GET", path, ""})
		assert.Equal(t, http.StatusUnauthorized, status, path)
	}
	status, _ = c.send(call{"GET", "/jobs/x", ""})
	assert.Equal(t, http.StatusNotFound, status)
	status, _ = c.send(call{"POST", "/invoices", "{"})
	assert.Equal(t, http.StatusBadRequest, status)
}
