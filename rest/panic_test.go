package rest_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/rest"
)

// A request that watches calls the functions of the program in a goroutine, in which a panic would
// end the process.
func TestAPanicOfTheActorFunctionEndedTheProcess(t *testing.T) {
	handler := rest.Handler(&tenants{}, everybody(), rest.Actor(func(*http.Request) string { panic("there is no user") }))
	for _, target := range []string{"/v2/events", "/live"} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(within(t), http.MethodGet, target, http.NoBody))
		assert.Equal(t, http.StatusInternalServerError, answer.Code, target)
		assert.NotContains(t, answer.Body.String(), "there is no user")
	}
}
