package web

import (
	"fmt"
	"net/http"
	"path"
	"runtime/debug"
)

// Refuse answers a request that can't be met, for the reason that err gives.
type Refuse func(w http.ResponseWriter, r *http.Request, err error)

// NewHandler adds to routes what all handlers have in common. They work below any
// prefix that http.StripPrefix takes away.
func NewHandler(routes map[string]http.HandlerFunc, refuse Refuse) http.Handler {
	return newHandler(routes, refuse, isCrossSite)
}

// NewOpenHandler is NewHandler for routes that pages of other sites may read, where CORS
// lets them.
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
		if isCrossSite(r) {
			refuse(w, r, &Failure{Status: http.StatusForbidden, Text: "a page of another site must not do this"})
			return
		}
		r = withRoot(r)
		handler, pattern := mux.Handler(r)
		_, isOurs := handler.(http.HandlerFunc)
		switch {
		case path.Clean(r.URL.EscapedPath()) != r.URL.EscapedPath(), r.RequestURI == "*", !isOurs:
			// The mux would answer by itself, with a redirect to a place that is not
			// below the prefix for instance.
			refuse(w, r, &Failure{Status: http.StatusNotFound, Text: "there is no such resource"})
		case pattern == "":
			refuse(w, r, unrouted(w, r, mux))
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

var sameOrigin = http.NewCrossOriginProtection()

// isCrossSite is true for what a browser sends for a page of another site, or of another
// port, also where it only reads: what a page loads, and how long that takes, can tell it
// something. A link there may lead here.
func isCrossSite(r *http.Request) bool {
	header := r.Header
	isRead := r.Method == http.MethodGet || r.Method == http.MethodHead
	if isRead && header.Get("Sec-Fetch-Mode") == "navigate" && header.Get("Sec-Fetch-Dest") == "document" {
		return false
	}
	asked := *r
	asked.Method = http.MethodPost // what reads would not be checked
	return sameOrigin.Check(&asked) != nil
}

// Secure sets what keeps browsers from making more of an answer than data.
func Secure(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}

// withRoot gives the root its slash, which is taken away with a prefix.
func withRoot(r *http.Request) *http.Request {
	if r.URL.Path != "" {
		return r
	}
	root, location := *r, *r.URL
	location.Path, location.RawPath = "/", ""
	root.URL = &location
	return &root
}

// unrouted says why a mux has no handler for a request: the path is unknown, or the
// method is not allowed there.
func unrouted(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) *Failure {
	refusal := &probe{header: http.Header{}}
	mux.ServeHTTP(refusal, r)
	if refusal.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", refusal.header.Get("Allow"))
		return &Failure{Status: refusal.status, Text: "method " + r.Method + " is not allowed here"}
	}
	return &Failure{Status: http.StatusNotFound, Text: "there is no such resource"}
}

// probe is a ResponseWriter that sends nothing.
type probe struct {
	header http.Header
	status int
}

func (p *probe) Header() http.Header         { return p.header }
func (p *probe) WriteHeader(status int)      { p.status = status }
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }

// answerPanic answers for a handler that panicked, for instance in the method of a
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
