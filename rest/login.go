package rest

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/mongodb/amboy/internal/bearer"
	"github.com/mongodb/amboy/rest/internal/web"
)

// MaxLogins is the maximum number of tickets, and of sessions, that a Login remembers. The
// oldest are dropped.
const MaxLogins = 100

// Login authorizes clients that hold a secret made by this process. It is for a program
// without its own users, such as a tool that an operator starts on a shared machine. Print
// the path of a ticket, and pass Authorize to the handler:
//
//	login := rest.NewLogin("/jobs")
//	mux.Handle("/jobs/login", login)
//	mux.Handle("/jobs/", rest.Handler(inspector, rest.Prefix("/jobs"), rest.Authorize(login.Authorize)))
//	fmt.Printf("http://%s/jobs/login?ticket=%s\n", listener.Addr(), login.Ticket())
//
// A ticket can be used once. It sets a cookie that lasts until the browser or the process ends, or
// MaxLogins newer sessions were made. Scripts and other sites can't read the cookie. Cookies are
// not bound to a port: a browser also sends the cookie to other ports of the same host, for paths
// below that of the Login. So if the browser opens a page of another user's program on such a port,
// that program can read the cookie. Without TLS the cookie is sent unencrypted.
//
// A Login is safe for concurrent use. It has no goroutines.
type Login struct {
	path, cookie string

	mu                sync.Mutex
	tickets, sessions secrets
}

// NewLogin returns a Login for a handler that is mounted below a path, the same as for
// Prefix; empty for a handler without one. It panics for another path that Prefix refuses.
func NewLogin(path string) *Login {
	if path != "" {
		checkPrefix("rest.NewLogin", path)
	}
	escaped := (&url.URL{Path: path + "/"}).EscapedPath()
	return &Login{path: escaped, cookie: "amboy-" + strings.ToLower(rand.Text()[:8])}
}

// Ticket returns a new ticket, for a link that logs in a browser once.
func (l *Login) Ticket() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tickets.add()
}

// Token returns a new bearer token for a program that calls the API. It counts as a session,
// and is valid until the process ends or MaxLogins newer sessions were made.
func (l *Login) Token() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sessions.add()
}

var errNotLoggedIn = fmt.Errorf("%w: it contains neither a session cookie nor a token of this process", ErrUnauthenticated)

// Authorize is for the option Authorize. It allows everything to a request with a cookie or
// a bearer token of this Login. For all others its error wraps ErrUnauthenticated.
func (l *Login) Authorize(r *http.Request, _ Access) error {
	var given []string
	if token, ok := bearer.Token(r); ok {
		given = append(given, token)
	}
	if cookie, err := r.Cookie(l.cookie); err == nil {
		given = append(given, cookie.Value)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, secret := range given {
		if l.sessions.has(secret) {
			return nil
		}
	}
	return errNotLoggedIn
}

// ServeHTTP redeems the ticket in the query, sets the cookie, and redirects to the
// overview. It answers with status 401 if the ticket is invalid or was used before.
func (l *Login) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	web.Secure(w.Header())
	if r.Method != http.MethodGet { // HEAD, for instance, would use up the ticket
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "Use GET to redeem a ticket.", http.StatusMethodNotAllowed)
		return
	}
	session, ok := l.redeem(r.URL.Query().Get("ticket"))
	if !ok {
		RefuseUnauthenticated(w, r, "This link was used already, or belongs to another process. Restart the program to get a new one.")
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: l.cookie, Value: session, Path: l.path, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	})
	w.Header().Set("Location", "./")
	w.WriteHeader(http.StatusSeeOther)
}

// redeem exchanges a ticket for a session.
func (l *Login) redeem(ticket string) (session string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.tickets.take(ticket) {
		return "", false
	}
	return l.sessions.add(), true
}

// secrets are unguessable texts, the oldest first. Only their digests are kept and
// compared, so that the time of a comparison reveals nothing about them.
type secrets [][sha256.Size]byte

func (s *secrets) add() string {
	secret := rand.Text()
	if len(*s) == MaxLogins {
		*s = slices.Delete(*s, 0, 1)
	}
	*s = append(*s, sha256.Sum256([]byte(secret)))
	return secret
}

func (s *secrets) index(secret string) int { return slices.Index(*s, sha256.Sum256([]byte(secret))) }

func (s *secrets) has(secret string) bool { return s.index(secret) >= 0 }

// take removes a secret, and reports whether it was known.
func (s *secrets) take(secret string) bool {
	i := s.index(secret)
	if i < 0 {
		return false
	}
	*s = slices.Delete(*s, i, i+1)
	return true
}
