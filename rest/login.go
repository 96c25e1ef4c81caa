package rest

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/mongodb/amboy/rest/internal/web"
)

// MaxLogins is how many tickets, and how many sessions, a Login remembers. The oldest are
// forgotten.
const MaxLogins = 100

// Login lets in a client that holds a secret which this process has made: it is for a
// program without users of its own, such as a tool that an operator starts on a machine
// that others use as well. Print the path of a ticket, and give Authorize to the handler:
//
//	login := rest.NewLogin("/jobs")
//	mux.Handle("/jobs/login", login)
//	mux.Handle("/jobs/", rest.Handler(inspector, rest.Prefix("/jobs"), rest.Authorize(login.Authorize)))
//	fmt.Printf("http://%s/jobs/login?ticket=%s\n", listener.Addr(), login.Ticket())
//
// A ticket can be used once, and sets a cookie that lasts until the browser or the process
// ends. Scripts and other sites do not get the cookie. A browser does send it to other
// ports of the same host, because cookies know no ports, if a request there is for a path
// below that of the Login: a program of another user that listens on such a port, and
// whose address the browser opens, can read it. The cookie is not encrypted on the way
// without TLS.
//
// A Login is safe for concurrent use. It has no goroutines.
type Login struct {
	path, cookie string

	mu                sync.Mutex
	tickets, sessions secrets
}

// NewLogin returns a Login for a handler that is mounted below a path, which is that of
// Prefix. It panics for a path that Prefix refuses.
func NewLogin(path string) *Login {
	checkPrefix("rest.NewLogin", path)
	escaped := (&url.URL{Path: path + "/"}).EscapedPath()
	return &Login{path: escaped, cookie: "amboy-" + strings.ToLower(rand.Text()[:8])}
}

// Ticket returns a new ticket, for a link that logs a browser in, once.
func (l *Login) Ticket() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tickets.add()
}

// Token returns a new bearer token, for a program that calls the API. It can be used until
// the process ends.
func (l *Login) Token() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sessions.add()
}

var errNotLoggedIn = errors.New("the request has neither the cookie nor a token of this process")

// Authorize is for the option Authorize: it lets a request do everything that has a cookie
// or a bearer token of this Login.
func (l *Login) Authorize(r *http.Request, _ Access) error {
	var given []string
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
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

// ServeHTTP takes a ticket, which the query has, sets the cookie, and leads to the
// overview. It answers with status 403 for a ticket that is not valid, or was used.
func (l *Login) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	web.Secure(w.Header())
	if r.Method != http.MethodGet { // HEAD, for instance, would use the ticket up for nothing
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "A ticket is taken with GET.", http.StatusMethodNotAllowed)
		return
	}
	session, ok := l.redeem(r.URL.Query().Get("ticket"))
	if !ok {
		http.Error(w, "This link was used already, or is of another process. Start the program again for another.", http.StatusForbidden)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: l.cookie, Value: session, Path: l.path, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	})
	w.Header().Set("Location", "./")
	w.WriteHeader(http.StatusSeeOther)
}

// redeem makes a session of a ticket.
func (l *Login) redeem(ticket string) (session string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.tickets.take(ticket) {
		return "", false
	}
	return l.sessions.add(), true
}

// secrets are texts that can't be guessed, the oldest first. Only their digests are kept
// and compared, so that the time of a comparison tells nothing of them.
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

// take forgets a secret, and reports whether it was there.
func (s *secrets) take(secret string) bool {
	i := s.index(secret)
	if i < 0 {
		return false
	}
	*s = slices.Delete(*s, i, i+1)
	return true
}
