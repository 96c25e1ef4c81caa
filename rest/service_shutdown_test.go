package rest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/rest"
)

// waited is a queue that reports when a request begins to wait.
type waited struct {
	amboy.Queue
	waits chan struct{}
}

func (q waited) Get(ctx context.Context, id string) (amboy.Job, bool) {
	j, ok := q.Queue.Get(ctx, id)
	select {
	case q.waits <- struct{}{}:
	default:
	}
	return j, ok
}

func (q waited) Stats(ctx context.Context) amboy.QueueStats {
	select {
	case q.waits <- struct{}{}:
	default:
	}
	return q.Queue.Stats(ctx)
}

// A shutdown waits for all requests.
func TestARequestThatWaitedForAJobHeldUpTheShutdownOfItsServer(t *testing.T) {
	for _, target := range []string{"/v1/job/wait/one?timeout=1h", "/v1/status/wait?timeout=1h"} {
		t.Run(target, func(t *testing.T) {
			q, err := queue.NewLocalLimitedSizeSerializable(1, 10)
			require.NoError(t, err)
			require.NoError(t, q.Start(t.Context()))
			j, began := holding(t, "one")
			require.NoError(t, q.Put(t.Context(), j))
			<-began
			s := rest.NewQueueService()
			waits := make(chan struct{}, 1)
			require.NoError(t, s.SetQueue(waited{q, waits}))
			server := httptest.NewServer(s.Handler())
			defer server.Close()
			request, err := http.NewRequestWithContext(within(t), http.MethodGet, server.URL+target, http.NoBody)
			require.NoError(t, err)
			answered := make(chan int, 1)
			go func() {
				defer close(answered)
				response, err := http.DefaultClient.Do(request)
				if err == nil {
					_ = response.Body.Close()
					answered <- response.StatusCode
				}
			}()
			<-waits
			shutdown, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			require.NoError(t, server.Config.Shutdown(shutdown))
			assert.Equal(t, http.StatusRequestTimeout, <-answered)
		})
	}
}

// A server's time limits for slow clients ended the connection before the wait was over.
func TestARequestThatWaitedForLongerThanTheTimeLimitsOfItsServerHadNoAnswer(t *testing.T) {
	for _, target := range []string{"/v1/job/wait/one?timeout=10s", "/v1/status/wait?timeout=10s"} {
		t.Run(target, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				q, err := queue.NewLocalLimitedSizeSerializable(1, 10)
				require.NoError(t, err)
				require.NoError(t, q.Start(ctx))
				j, began := holding(t, "one")
				require.NoError(t, q.Put(ctx, j))
				<-began
				defer q.Close(ctx)
				defer cancel()
				s := rest.NewQueueService()
				require.NoError(t, s.SetQueue(q))
				withServer(t, s.Handler(), func(client *http.Client) {
					answer, err := client.Get("http://host" + target) //nolint:noctx // The server ends it.
					require.NoError(t, err)
					require.NoError(t, answer.Body.Close())
					assert.Equal(t, http.StatusRequestTimeout, answer.StatusCode)
				})
			})
		})
	}
}
