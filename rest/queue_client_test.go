package rest_test

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/inspectortest"
	"github.com/mongodb/amboy/rest"
)

// newClient returns a client of a service.
func newClient(t *testing.T, s *rest.QueueService) *rest.QueueClient {
	base, err := url.Parse(serve(t, s.Handler()))
	require.NoError(t, err)
	port, err := strconv.Atoi(base.Port())
	require.NoError(t, err)
	c, err := rest.NewQueueClient("http://"+base.Hostname(), port, base.Path)
	require.NoError(t, err)
	return c
}

func TestQueueClient(t *testing.T) {
	s := rest.NewQueueService()
	require.NoError(t, s.Open(t.Context()))
	t.Cleanup(s.Close)
	c, ctx := newClient(t, s), within(t)
	running, err := c.Running(ctx)
	require.NoError(t, err)
	assert.True(t, running)

	for _, id := range inspectortest.OddIDs {
		lives(t, c, id)
	}
	assert.True(t, c.WaitAll(ctx))

	tonight := newResize("tonight", "")
	tonight.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(time.Hour)})
	tonight.SetScopes([]string{"cat"})
	tonight.SetEnqueueAllScopes(true)
	_, err = c.SubmitJob(ctx, tonight)
	require.NoError(t, err)
	pending, err := c.PendingJobs(ctx)
	require.NoError(t, err)
	assert.Equal(t, 1, pending)
	other := newResize("other", "")
	other.SetScopes([]string{"cat"})
	other.SetEnqueueAllScopes(true)
	_, err = c.SubmitJob(ctx, other)
	assert.True(t, amboy.IsDuplicateJobScopeError(err))
	var held *amboy.DuplicateJobError
	require.ErrorAs(t, err, &held)
	assert.Equal(t, amboy.DuplicateJobError{JobID: "other", Reason: amboy.DuplicateEnqueueScope, Value: "cat", ExistingID: "tonight"}, *held)
	done, err := c.JobComplete(ctx, "tonight")
	require.NoError(t, err)
	assert.False(t, done)
	require.NoError(t, c.MarkJobComplete(ctx, "tonight"))
	assert.True(t, c.Wait(ctx, "tonight"))
	assert.True(t, c.WaitAll(ctx))
}

// lives submits a job, and waits until it has ended.
func lives(t *testing.T, c *rest.QueueClient, id string) {
	t.Helper()
	ctx := within(t)
	submitted, err := c.SubmitJob(ctx, newResize(id, "cat.png"))
	require.NoError(t, err, "%q", id)
	assert.Equal(t, id, submitted)
	assert.True(t, c.Wait(ctx, id), "%q", id)
	done, err := c.JobComplete(ctx, id)
	require.NoError(t, err)
	assert.True(t, done, "%q", id)
	j, err := c.FetchJob(ctx, id)
	require.NoError(t, err, "%q", id)
	assert.Equal(t, id, j.ID())
	assert.Equal(t, "cat.png", j.(*resize).Path)
	assert.True(t, j.Status().Completed)
	_, err = c.SubmitJob(ctx, newResize(id, ""))
	assert.True(t, amboy.IsDuplicateJobError(err))
	assert.False(t, amboy.IsDuplicateJobScopeError(err))
}

func TestQueueClientErrors(t *testing.T) {
	s, _ := newService(t)
	c, ctx := newClient(t, s), within(t)
	_, err := c.FetchJob(ctx, "nobody")
	assert.True(t, amboy.IsJobNotFoundError(err))
	_, err = c.JobComplete(ctx, "nobody")
	assert.True(t, amboy.IsJobNotFoundError(err))
	assert.True(t, amboy.IsJobNotFoundError(c.MarkJobComplete(ctx, "nobody")))
	assert.False(t, c.Wait(ctx, "nobody"))
	assert.False(t, c.Wait(ctx, ""))
	for _, call := range []func() error{
		func() error { return second(c.FetchJob(ctx, "")) },
		func() error { return second(c.JobComplete(ctx, "")) },
		func() error { return c.MarkJobComplete(ctx, "") },
		func() error { return second(c.SubmitJob(ctx, nil)) },
		func() error { return second(c.SubmitJob(ctx, newResize("", ""))) },
	} {
		require.Error(t, call())
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.False(t, c.Wait(ended, "tonight/ü"))
	assert.False(t, c.WaitAll(ended))

	require.NoError(t, c.SetPrefix("elsewhere"))
	_, err = c.Running(ctx)
	var response *rest.ResponseError
	require.ErrorAs(t, err, &response)
	assert.Equal(t, http.StatusNotFound, response.StatusCode)
	assert.False(t, c.WaitAll(ctx))
}

func TestQueueClientAddress(t *testing.T) {
	c, err := rest.NewQueueClient("https://queue.example/", 8080, "/amboy/a%2Fb/")
	require.NoError(t, err)
	for range 2 {
		assert.Equal(t, "https://queue.example", c.Host())
		assert.Equal(t, 8080, c.Port())
		assert.Equal(t, "amboy/a%2Fb", c.Prefix())
		for _, host := range []string{"", "queue.example", "ftp://x", "http://", "http://x:80", "http://x?y", "http://me@x", "http://x#y", "::"} {
			require.ErrorContains(t, c.SetHost(host), strconv.Quote(host))
		}
		for _, prefix := range []string{"%", "a b", "a?b", "a#b"} {
			require.ErrorContains(t, c.SetPrefix(prefix), strconv.Quote(prefix))
		}
	}
	require.NoError(t, c.SetPrefix(""))
	_, err = rest.NewQueueClient("x", 0, "?")
	for _, text := range []string{"host must", "port must", "prefix must"} {
		require.ErrorContains(t, err, text)
	}
	_, err = rest.NewQueueClientFromExisting(nil, "http://x", 80, "")
	require.Error(t, err)
}

// recordingTransport records the URL of the last request, and answers with an error.
type recordingTransport struct{ url string }

func (r *recordingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	r.url = request.URL.String()
	return nil, assert.AnError
}

func TestQueueClientHostWithPath(t *testing.T) {
	for _, test := range []struct {
		host   string
		port   int
		prefix string
		kept   string
		url    string
	}{
		{"http://queue.example/service", 8080, "amboy", "http://queue.example/service", "http://queue.example:8080/service/amboy/v1/status"},
		{"http://queue.example/service/", 8080, "", "http://queue.example/service", "http://queue.example:8080/service/v1/status"},
		{"http://queue.example/a%2Fb", 8080, "amboy", "http://queue.example/a%2Fb", "http://queue.example:8080/a%2Fb/amboy/v1/status"},
		{"http://queue.example//", 8080, "amboy", "http://queue.example/", "http://queue.example:8080//amboy/v1/status"},
		{"http://queue.example/", 80, "amboy", "http://queue.example", "http://queue.example/amboy/v1/status"},
		{"https://queue.example/service", 80, "amboy", "https://queue.example/service", "https://queue.example/service/amboy/v1/status"},
		{"https://queue.example", 443, "amboy", "https://queue.example", "https://queue.example:443/amboy/v1/status"},
		{"http://[::1]/service", 1, "amboy", "http://[::1]/service", "http://[::1]:1/service/amboy/v1/status"},
		{"http://queue.example", 65535, "", "http://queue.example", "http://queue.example:65535/v1/status"},
	} {
		t.Run(test.host+" "+strconv.Itoa(test.port), func(t *testing.T) {
			sent := &recordingTransport{}
			c, err := rest.NewQueueClientFromExisting(&http.Client{Transport: sent}, test.host, test.port, test.prefix)
			require.NoError(t, err)
			_, err = c.Running(t.Context())
			require.ErrorIs(t, err, assert.AnError)
			assert.Equal(t, test.kept, c.Host())
			assert.Equal(t, test.url, sent.url)
		})
	}
}

func TestQueueClientInvalidPortLeaves3000(t *testing.T) {
	for _, port := range []int{-1, 0, 65536} {
		c, err := rest.NewQueueClient("http://queue.example", 8080, "")
		require.NoError(t, err)
		require.ErrorContains(t, c.SetPort(port), strconv.Itoa(port))
		assert.Equal(t, 3000, c.Port())
	}
}

func TestQueueClientPendingJobsIsNegativeAfterError(t *testing.T) {
	c, err := rest.NewQueueClientFromExisting(&http.Client{Transport: &recordingTransport{}}, "http://queue.example", 80, "")
	require.NoError(t, err)
	pending, err := c.PendingJobs(t.Context())
	require.ErrorIs(t, err, assert.AnError)
	assert.Equal(t, -1, pending)
}

func second[T any](_ T, err error) error { return err }
