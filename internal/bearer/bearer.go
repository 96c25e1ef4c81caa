// Package bearer reads the bearer tokens of HTTP requests.
package bearer

import (
	"net/http"
	"strings"
)

// Token returns the bearer token of a request. The name of a scheme has no case (RFC 9110).
func Token(r *http.Request) (token string, ok bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.TrimLeft(token, " "), true
}
