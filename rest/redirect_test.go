package rest_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest"
)

// strays is a server that must get no requests. It records those it gets.
type strays struct {
	mu  sync.Mutex
	got []string
}

func (s *strays) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
	_, _ = w.Write([]byte(`{"done":1}`)) //nolint:errcheck // It fails if the client has disconnected.
}

// Following a redirect would turn a POST into a GET, which does nothing and is answered with
// 200. A redirect may also lead to another port, to which Go's client would send the token.
func TestAttackARedirectDropsAnActionAndStealsTheToken(t *testing.T) {
	for _, code := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		elsewhere := &strays{}
		thief := httptest.NewServer(elsewhere)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, thief.URL+"/stolen?secret=1", code)
		}))
		client, err := rest.NewClient(server.URL, nil, rest.WithToken("secret"))
		require.NoError(t, err)
		pool := rest.NewAbortablePoolManagementClient(server.URL)
		queue, err := rest.NewQueueClientFromExisting(&http.Client{}, "http://127.0.0.1", server.Listener.Addr().(*net.TCPAddr).Port, "")
		require.NoError(t, err)
		for name, call := range map[string]func(context.Context) error{
			"retry": func(ctx context.Context) error {
				_, err := client.ActOn(ctx, "q", "one", management.Action{Kind: management.Retry})
				return err
			},
			"read": func(ctx context.Context) error {
				_, err := client.Queues(ctx)
				return err
			},
			"watch": func(ctx context.Context) error {
				for _, err := range client.Watch(ctx, management.MinWatch) {
					return err
				}
				return nil
			},
			"complete": func(ctx context.Context) error { return rest.NewManagementClient(server.URL).CompleteJob(ctx, "one") },
			"abort":    pool.AbortAllJobs,
			"mark":     func(ctx context.Context) error { return queue.MarkJobComplete(ctx, "one") },
		} {
			err := call(within(t))
			var answer *rest.ResponseError
			require.ErrorAs(t, err, &answer, "%s, %d", name, code)
			assert.Equal(t, code, answer.StatusCode)
			assert.Contains(t, err.Error(), "the location is "+thief.URL+"/stolen", "the error must name the location")
			assert.NotContains(t, err.Error(), "secret")
		}
		server.Close()
		thief.Close()
		assert.Empty(t, elsewhere.got, "no request follows a redirect")
	}
}

// The caller's client is not changed, because the caller may use it for other requests.
func TestClientOfTheCallerStillFollowsRedirects(t *testing.T) {
	client := &http.Client{}
	_, err := rest.NewClient("http://localhost", client)
	require.NoError(t, err)
	assert.Nil(t, client.CheckRedirect)
}
