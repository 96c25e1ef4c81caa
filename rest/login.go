package rest

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/mongodb/amboy/internal/bearer"
	"github.com/mongodb/amboy/rest/internal/web"
)

// MaxLogins is the maximum number of tickets, and of sessions, of a user that a Login remembers. The
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
// A program whose users may do different things makes tickets with TicketFor, and passes to the handler a
// function that calls User. It must refuse users that it no longer knows: their sessions do not end.
//
// A ticket can be used once. It sets a cookie that lasts until the browser or the process ends, or
// MaxLogins newer sessions of the user were made. Scripts and other sites can't read the cookie. Cookies are
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
	return &Login{path: escaped, cookie: "amboy-" + strings.ToLower(rand.Text()[:8]), tickets: newSecrets(), sessions: newSecrets()}
}

// Ticket returns a new ticket, for a link that logs in a browser once. It is TicketFor a user without
// a name.
func (l *Login) Ticket() string { return l.TicketFor("") }

// TicketFor returns a new ticket, for a link that logs in the browser of a user once. A browser has one
// session: that of the last link.
func (l *Login) TicketFor(user string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tickets.add(user)
}

// Token returns a new bearer token for a program that calls the API. It counts as a session,
// of a user without a name, and is valid until the process ends or MaxLogins newer ones were made.
func (l *Login) Token() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sessions.add("")
}

var errNotLoggedIn = fmt.Errorf("%w: it contains neither a session cookie nor a token of this process", ErrUnauthenticated)

// Authorize is for the option Authorize. It allows everything to a request with a cookie or
// a bearer token of this Login. For all others its error wraps ErrUnauthenticated.
func (l *Login) Authorize(r *http.Request, _ Access) error {
	if _, ok := l.User(r); !ok {
		return errNotLoggedIn
	}
	return nil
}

// User returns the user of the session whose cookie or bearer token a request contains; false if it
// contains neither.
func (l *Login) User(r *http.Request) (user string, ok bool) {
	var given []string
	if token, hasToken := bearer.Token(r); hasToken {
		given = append(given, token)
	}
	if cookie, err := r.Cookie(l.cookie); err == nil {
		given = append(given, cookie.Value)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, secret := range given {
		if user, ok = l.sessions.userOf(secret); ok {
			return user, true
		}
	}
	return "", false
}

// loggedIn is a page that leads to the overview.
const loggedIn = `<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=./"><title>Logged in</title>
<p>You are logged in. <a href="./">Continue</a></p></html>
`

// ServeHTTP redeems the ticket in the query, sets the cookie, and redirects to the
// overview. If the link was on another site it answers with a page that leads there, because
// browsers do not send the cookie after a redirect from another site. It answers with status 401 if
// the ticket is invalid or was used before.
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
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, loggedIn) // the browser may have gone
		return
	}
	w.Header().Set("Location", "./")
	w.WriteHeader(http.StatusSeeOther)
}

// redeem exchanges a ticket for a session.
func (l *Login) redeem(ticket string) (session string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	user, ok := l.tickets.take(ticket)
	if !ok {
		return "", false
	}
	return l.sessions.add(user), true
}

// secrets are unguessable texts of users. Only their digests are kept and compared, so that the time of a
// comparison reveals nothing about them.
type secrets struct {
	users map[digest]string
	// of are the secrets of each user, the oldest first.
	of map[string][]digest
}

type digest [sha256.Size]byte

func newSecrets() secrets { return secrets{users: map[digest]string{}, of: map[string][]digest{}} }

func (s secrets) add(user string) string {
	secret := rand.Text()
	key, all := digest(sha256.Sum256([]byte(secret))), s.of[user]
	if len(all) == MaxLogins {
		delete(s.users, all[0])
		all = slices.Delete(all, 0, 1)
	}
	s.users[key], s.of[user] = user, append(all, key)
	return secret
}

func (s secrets) userOf(secret string) (user string, ok bool) {
	user, ok = s.users[sha256.Sum256([]byte(secret))]
	return user, ok
}

// take removes a secret, and returns its user; false if it is not known.
func (s secrets) take(secret string) (user string, ok bool) {
	user, ok = s.userOf(secret)
	if ok {
		key := digest(sha256.Sum256([]byte(secret)))
		delete(s.users, key)
		s.of[user] = slices.DeleteFunc(s.of[user], func(other digest) bool { return other == key })
	}
	return user, ok
}
