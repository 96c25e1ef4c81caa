package serve

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/mongodb/amboy/rest"
)

// access grants everything to clients with the token of the token file, to clients with another token what the
// file of tokens says, and the same to browsers with a session of a link that was used once. It grants nothing to
// others, not even on this machine.
type access struct {
	grants atomic.Pointer[grants]
	// login has the links and their sessions. Their users are the digests of the tokens that made them, so that
	// they grant nothing without the token.
	login *rest.Login
	// scheme and host are those of the server's URL on this machine.
	scheme, host string
}

func newAccess() *access {
	a := &access{login: rest.NewLogin("")}
	a.grants.Store(&grants{})
	return a
}

// main returns the grant of the token file; nil before it was read.
func (a *access) main() *grant {
	if all := a.grants.Load().all; len(all) > 0 {
		return all[0]
	}
	return nil
}

// setToken sets the token to the content of a file.
func (a *access) setToken(content []byte) error {
	token := strings.TrimSpace(string(content))
	if err := checkToken(token); err != nil {
		return err
	}
	var others []*grant
	if a.main() != nil {
		others = a.grants.Load().all[1:]
	}
	return a.set(&grant{Token: token, May: []string{everything}}, others)
}

// setOthers sets the other tokens to the content of a file.
func (a *access) setOthers(content []byte) error {
	others, err := parseGrants(content)
	if err != nil {
		return err
	}
	return a.set(a.main(), others)
}

func (a *access) set(main *grant, others []*grant) error {
	now, err := newGrants(append([]*grant{main}, others...))
	if err == nil {
		a.grants.Store(now)
	}
	return err
}

// of returns the grant of a request with a token or a session; nil for none.
func (a *access) of(r *http.Request) *grant {
	now := a.grants.Load()
	if found := now.withToken(r); found != nil {
		return found
	}
	key, _ := a.login.User(r) // no grant has an empty one
	return now.byDigest[key]
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

// forMetrics refuses requests without a token that allows to read all queues.
func (a *access) forMetrics(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g := a.grants.Load().withToken(r)
		if g == nil {
			rest.RefuseUnauthenticated(w, r, needsToken)
			return
		}
		if err := g.allows(rest.Access{Action: rest.ActionRead, AllQueues: true}); err != nil {
			http.Error(w, "The metrics need a token that may read all queues.", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// needsToken is the answer to requests without a token.
const needsToken = "This needs a token of the server."

// maxStrangerBody is the maximum size of the body of a request that nothing is granted to.
const maxStrangerBody = 16 << 10

// limitStrangers bounds what is read of requests that nothing is granted to: a handler reads a
// body before it knows what the request needs.
func (a *access) limitStrangers(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 && a.of(r) == nil {
			if r.ContentLength > maxStrangerBody {
				rest.RefuseUnauthenticated(w, r, needsToken)
				return
			}
			r.Body = http.MaxBytesReader(w, r.Body, maxStrangerBody)
		}
		h.ServeHTTP(w, r)
	})
}

// authorize is for rest.Authorize.
func (a *access) authorize(r *http.Request, what rest.Access) error {
	g := a.of(r)
	if g == nil {
		return fmt.Errorf("%w: the request contains neither a token of the server nor a session of a link", rest.ErrUnauthenticated)
	}
	return g.allows(what)
}

// actor is for rest.Actor. Holders of the token of the token file have no name.
func (a *access) actor(r *http.Request) string {
	if g := a.of(r); g != nil {
		return g.name
	}
	return ""
}

// url returns the URL of the server on this machine.
func (a *access) url() string { return a.scheme + "://" + a.host }

// link returns a link to the dashboard, on a host, that works once and grants what a token does.
func (a *access) link(host string, g *grant) string {
	return a.scheme + "://" + host + "/login?ticket=" + a.login.TicketFor(digestOf(g.Token))
}

// serveLink answers a request with a token by a new link, on the host by which the client has reached the server.
func (a *access) serveLink(w http.ResponseWriter, r *http.Request) {
	g := a.grants.Load().withToken(r)
	if g == nil {
		rest.RefuseUnauthenticated(w, r, needsToken)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	_, _ = fmt.Fprintln(w, a.link(r.Host, g)) // the client may have gone
}
