package dashboard_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/outsidetest"
)

// HTTP/2 resets a stream at its write deadline, even if nothing is being written. Each open page lost its
// connection after ten seconds, connected again and was loaded again, for ever.
func TestLiveOverHTTP2EndedAfterTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := outsidetest.NewPipes()
		var protocols http.Protocols
		protocols.SetUnencryptedHTTP2(true)
		server := &http.Server{Handler: newSite(newFake(), "").handler, Protocols: &protocols}
		served := make(chan error, 1)
		go func() { served <- server.Serve(pipes) }()
		client := &http.Client{Transport: &http.Transport{
			Protocols:   &protocols,
			DialContext: func(context.Context, string, string) (net.Conn, error) { return pipes.Dial() },
		}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://host/live", http.NoBody)
		require.NoError(t, err)
		response, err := client.Do(r)
		require.NoError(t, err)
		assert.Equal(t, 2, response.ProtoMajor)
		beats, lines := 0, bufio.NewScanner(response.Body)
		for beats < 3 && lines.Scan() {
			if lines.Text() == ": still here" {
				beats++
			}
		}
		failure := lines.Err()
		require.NoError(t, response.Body.Close())
		client.CloseIdleConnections()
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
		require.NoError(t, failure)
		assert.Equal(t, 3, beats)
	})
}
