package web

import (
	"fmt"
	"net/http"
	"path"
	"runtime/debug"
)

// Refuse answers a request that failed with err.
type Refuse func(w http.ResponseWriter, r *http.Request, err error)

// NewHandler serves routes, and adds what all handlers share: security headers, the checks
// for cross-site requests, and answers to panics and unknown paths. The routes work below
// any prefix that http.StripPrefix removes.
func NewHandler(routes map[string]http.HandlerFunc, refuse Refuse) http.Handler {
	return newHandler(routes, refuse, isCrossSite)
}

// NewOpenHandler is like NewHandler for routes that pages of other sites may read, if CORS
// allows it.
func NewOpenHandler(routes map[string]http.HandlerFunc, refuse Refuse) http.Handler {
	return newHandler(routes, refuse, func(r *http.Request) bool { return sameOrigin.Check(r) != nil })
}

func newHandler(routes map[string]http.HandlerFunc, refuse Refuse, isCrossSite func(*http.Request) bool) http.Handler {
	mux := http.NewServeMux()
	for pattern, handle := range routes {
		mux.HandleFunc(pattern, handle)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer answerPanic(w, r, refuse)
		Secure(w.Header())
		r, err := admit(w, r, mux, isCrossSite)
		if err != nil {
			refuse(w, r, err)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// admit returns the request with its root, and an error if a mux is not to serve it. It is not a
// part of the handler, whose frame stays on the stacks of requests that wait.
func admit(w http.ResponseWriter, r *http.Request, mux *http.ServeMux, isCrossSite func(*http.Request) bool) (*http.Request, error) {
	if isCrossSite(r) {
		return r, &Failure{Status: http.StatusForbidden, Text: "cross-site request refused"}
	}
	r = withRoot(r)
	handler, pattern := mux.Handler(r)
	_, isOurs := handler.(http.HandlerFunc)
	switch {
	case path.Clean(r.URL.EscapedPath()) != r.URL.EscapedPath(), r.RequestURI == "*", !isOurs:
		// The mux would answer by itself, for instance with a redirect that ignores the
		// prefix.
		return r, &Failure{Status: http.StatusNotFound, Text: "no such resource"}
	case pattern == "":
		return r, unrouted(w, r, mux)
	default:
		return r, nil
	}
}

var sameOrigin = http.NewCrossOriginProtection()

// isCrossSite reports whether a browser sends a request on behalf of a page of another site
// or port. This includes reads, because a page could learn something from what it loads and
// from how long that takes. It excludes links that a user follows.
func isCrossSite(r *http.Request) bool {
	header := r.Header
	isRead := r.Method == http.MethodGet || r.Method == http.MethodHead
	if isRead && header.Get("Sec-Fetch-Mode") == "navigate" && header.Get("Sec-Fetch-Dest") == "document" {
		return false
	}
	asked := *r
	asked.Method = http.MethodPost // the check ignores reads
	return sameOrigin.Check(&asked) != nil
}

// Secure sets the headers that make browsers treat an answer as plain data.
func Secure(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}

// withRoot sets the path to a slash if a removed prefix has left it empty.
func withRoot(r *http.Request) *http.Request {
	if r.URL.Path != "" {
		return r
	}
	root, location := *r, *r.URL
	location.Path, location.RawPath = "/", ""
	root.URL = &location
	return &root
}

// unrouted returns the failure for a request without a route: the path is unknown, or the
// method is not allowed for it.
func unrouted(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) *Failure {
	refusal := &probe{header: http.Header{}}
	mux.ServeHTTP(refusal, r)
	if refusal.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", refusal.header.Get("Allow"))
		return &Failure{Status: refusal.status, Text: "method " + r.Method + " is not allowed here"}
	}
	return &Failure{Status: http.StatusNotFound, Text: "no such resource"}
}

// probe is a ResponseWriter that records the status and sends nothing.
type probe struct {
	header http.Header
	status int
}

func (p *probe) Header() http.Header         { return p.header }
func (p *probe) WriteHeader(status int)      { p.status = status }
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }

// answerPanic answers the request of a handler that panicked, for instance in a method of a
// job type.
func answerPanic(w http.ResponseWriter, r *http.Request, refuse Refuse) {
	value := recover()
	if value == nil {
		return
	}
	if value == http.ErrAbortHandler { //nolint:errorlint // It is compared as net/http does.
		panic(value)
	}
	refuse(w, r, fmt.Errorf("the handler panicked: %v\n%s", value, debug.Stack()))
}
