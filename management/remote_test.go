package management_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/registry"
	"github.com/mongodb/amboy/rest"
)

// ofClient is an inspector that calls the inspector of a queue over HTTP.
var ofClient = view{"client", byDefault, func(t *testing.T, q amboy.Queue) management.Inspector {
	return remote(t, ofQueue.make(t, q))
}}

// actorHeader contains the actor of a request. Only a handler of a test may trust it.
const actorHeader = "Test-Actor"

// sendActor adds the actor to requests.
type sendActor struct{}

func (sendActor) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	r = r.Clone(ctx)
	r.Header.Set(actorHeader, management.ActorOf(ctx))
	return http.DefaultTransport.RoundTrip(r)
}

// registered returns the names of the registered types.
func registered() (types []string) {
	for name := range registry.JobTypeNames() {
		types = append(types, name)
	}
	return types
}

// remote returns an inspector that calls another over HTTP.
func remote(t *testing.T, i management.Inspector) management.Inspector {
	handler := rest.Handler(i,
		rest.Prefix("/some/where"),
		rest.Authorize(func(*http.Request, rest.Access) error { return nil }),
		rest.CreateTypes(registered()...),
		rest.CreateTypes("unknown"),
		rest.Actor(func(r *http.Request) string { return r.Header.Get(actorHeader) }),
	)
	server := httptest.NewServer(handler)
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	t.Cleanup(server.Close)
	client, err := rest.NewClient(server.URL+"/some/where", &http.Client{Transport: sendActor{}})
	require.NoError(t, err)
	return client
}
