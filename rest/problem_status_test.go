package rest_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/rest"
)

// RFC 9457 lets a problem leave out its status. That of a proxy hid from the caller that the token was refused.
func TestProblemWithoutAStatusKeepsThatOfTheAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"title":"Unauthorized"}`)
	}))
	defer server.Close()
	client, err := rest.NewClient(server.URL, nil)
	require.NoError(t, err)
	_, err = client.Queue(within(t), "orders")
	var refused *rest.ResponseError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, http.StatusUnauthorized, refused.StatusCode)
	assert.Equal(t, "Unauthorized", refused.Message)
}
