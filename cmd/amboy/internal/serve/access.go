package serve

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/mongodb/amboy/internal/bearer"
	"github.com/mongodb/amboy/rest"
)

// access grants everything to clients with the token of the token file, or with a session of
// a link that was used once. It grants nothing to others, not even on this machine.
type access struct {
	login atomic.Pointer[rest.Login]
	token atomic.Pointer[string]
	// scheme and host are those of the server's URL on this machine.
	scheme, host string
}

// minToken is the minimum length of a token.
const minToken = 16

// setToken sets the token to the content of a file. Another token ends the sessions of all links,
// because any holder of the old token could make them.
func (a *access) setToken(content []byte, file string) error {
	token := strings.TrimSpace(string(content))
	if len(token) < minToken || strings.ContainsAny(token, " \t\r\n") {
		return fmt.Errorf("the token file %s must contain one word of at least %d characters", file, minToken)
	}
	if old := a.token.Swap(&token); old == nil || *old != token {
		a.login.Store(rest.NewLogin(""))
	}
	return nil
}

// makeToken makes a file with a new token that only this user can read, unless the file
// exists.
func makeToken(file string) error {
	_, err := os.Stat(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return nil // the reader finds out what is wrong with it
	}
	if err = os.MkdirAll(filepath.Dir(file), 0o700); err == nil {
		var made *os.File
		if made, err = os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			_, err = fmt.Fprintln(made, rand.Text())
			err = errors.Join(err, made.Close())
		}
	}
	if err != nil {
		return fmt.Errorf("making the token file: %w", err)
	}
	return nil
}

func (a *access) hasToken(r *http.Request) bool {
	given, ok := bearer.Token(r)
	return ok && subtle.ConstantTimeCompare([]byte(given), []byte(*a.token.Load())) == 1
}

// withToken refuses requests without the token.
func (a *access) withToken(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.hasToken(r) {
			rest.RefuseUnauthenticated(w, r, "This needs the token of the server.")
			return
		}
		h.ServeHTTP(w, r)
	})
}

// maxStrangerBody is the maximum size of the body of a request that nothing is granted to.
const maxStrangerBody = 16 << 10

// limitStrangers bounds what is read of requests that nothing is granted to: a handler reads a
// body before it knows what the request needs.
func (a *access) limitStrangers(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 && a.authorize(r, rest.Access{}) != nil {
			if r.ContentLength > maxStrangerBody {
				rest.RefuseUnauthenticated(w, r, "This needs the token of the server.")
				return
			}
			r.Body = http.MaxBytesReader(w, r.Body, maxStrangerBody)
		}
		h.ServeHTTP(w, r)
	})
}

// authorize is for rest.Authorize.
func (a *access) authorize(r *http.Request, what rest.Access) error {
	if a.hasToken(r) {
		return nil
	}
	return a.login.Load().Authorize(r, what)
}

// url returns the URL of the server on this machine.
func (a *access) url() string { return a.scheme + "://" + a.host }

// link returns a link to the dashboard, on a host, that works once.
func (a *access) link(host string) string {
	return a.scheme + "://" + host + "/login?ticket=" + a.login.Load().Ticket()
}

// serveLogin redeems a link.
func (a *access) serveLogin(w http.ResponseWriter, r *http.Request) { a.login.Load().ServeHTTP(w, r) }

// serveLink answers a request by a new link, on the host by which the client has reached the server.
func (a *access) serveLink(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	_, _ = fmt.Fprintln(w, a.link(r.Host)) // the client may have gone
}
