package rest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/rest"
)

// A worker whose connection broke in the middle of an answer had the jobs of it until their leases
// ran out, which may be a day.
func TestJobsOfAnAnswerThatDidNotReachItsWorkerStayedLeased(t *testing.T) {
	w := newWorkers(t)
	const number = 8
	args := strings.Repeat("x", 1<<20-100)
	for range number {
		w.create("images", `{"type":"scale","outside":true,"args":"`+args+`"}`)
	}
	server := httptest.NewServer(w.handler)
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4096)) // not all of it fits in the buffers of the connection
	const body = `{"queues":["images"],"types":["scale"],"limit":8,"lease":"24h"}`
	_, err = fmt.Fprintf(conn, "POST /v2/leases HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	require.NoError(t, err)
	_, err = io.ReadFull(conn, make([]byte, 1000))
	require.NoError(t, err)
	require.NoError(t, conn.Close())

	leased := 0
	for leased < number {
		jobs, _ := w.lease(`,"limit":8,"wait":"1m"`)
		if len(jobs) == 0 {
			break
		}
		leased += len(jobs)
	}
	assert.Equal(t, number, leased)
}

// unflushed is an answer that is in a buffer when the connection breaks.
type unflushed struct{ *httptest.ResponseRecorder }

func (unflushed) FlushError() error { return errors.New("broken pipe") }

func TestJobsOfASmallAnswerThatDidNotReachItsWorkerStayedLeased(t *testing.T) {
	w := newWorkers(t)
	w.create("images", `{"type":"scale","outside":true}`)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v2/leases", strings.NewReader(`{"queues":["images"],"types":["scale"],"lease":"24h"}`))
	w.handler.ServeHTTP(unflushed{httptest.NewRecorder()}, r)
	jobs, _ := w.lease("")
	assert.Len(t, jobs, 1)
}

// The connection of a worker that has gone takes another answer all the same.
func TestTheJobOfAWorkerThatLeftWhileItsRightsWereCheckedStayedLeased(t *testing.T) {
	w := newWorkers(t)
	w.create("images", `{"type":"scale","outside":true}`)
	ctx, leave := context.WithCancel(t.Context())
	asked := 0
	limited := w.as(rest.Authorize(func(*http.Request, rest.Access) error {
		asked++
		if asked > 1 { // again, because the request may have waited for long
			leave()
		}
		return nil
	}))
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v2/leases", strings.NewReader(`{"queues":["images"],"types":["scale"],"wait":"1m","lease":"24h"}`))
	limited.handler.ServeHTTP(httptest.NewRecorder(), r)
	jobs, _ := w.lease("")
	assert.Len(t, jobs, 1)
}
