package rest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/api"
	"github.com/mongodb/amboy/rest/internal/dashboard"
	"github.com/mongodb/amboy/rest/internal/guard"
	"github.com/mongodb/amboy/rest/internal/web"
)

// Action is something that a request does: ActionRead, ActionCreate, ActionControl, or
// the name of a management.ActionKind.
type Action = guard.Action

// The actions, besides those of management.ActionKinds.
const (
	// ActionRead sees anything.
	ActionRead = guard.Read
	// ActionCreate puts a job, of a type that CreateTypes names.
	ActionCreate = guard.Create
	// ActionControl changes what is set for a queue.
	ActionControl = guard.Control
)

// Access is what a request wants to do: an Action, the queue that it is about, and the ID
// and the type of the job where it is about one.
type Access = guard.Access

// Option configures a Handler.
type Option func(*options)

type options struct {
	guard  guard.Options
	prefix string
	title  string
}

// Authorize has the handler ask a function whether a request may do something. The
// request is refused with status 403 where that returns an error, which is not shown to
// the client. It is asked before each thing that the request does, and may be asked
// several times, also later for a request that watches. It must be safe for concurrent
// use. A request that is about some queues needs all of them.
//
// Without this option, requests may do nothing, from wherever they come: the address of a
// request does not tell who makes it. A program without users of its own can have a Login.
func Authorize(may func(r *http.Request, access Access) error) Option {
	if may == nil {
		panic("rest.Authorize: the function must not be nil")
	}
	return func(o *options) { o.guard.Authorize = may }
}

// CreateTypes names types of jobs that may be put; several such options are added up. Without
// it no job can be put, whoever may do what: a type may run any program. List the types whose
// arguments do no harm, whoever chooses them.
func CreateTypes(types ...string) Option {
	return func(o *options) { o.guard.CreateTypes = append(o.guard.CreateTypes, types...) }
}

// Tenant has the handler show one queue only, which is that of a tenant. All others are
// not there, for whoever asks. It panics for an empty name.
func Tenant(queue string) Option {
	if queue == "" {
		panic("rest.Tenant: the name of the queue must not be empty")
	}
	return func(o *options) { o.guard.Tenant = queue }
}

// MaskArgs has a function say what is shown of the arguments of a job, and of its
// result: it returns JSON, or nil to hide them. Where it panics, or returns what is not
// JSON, they are hidden, too. It must be safe for concurrent use.
func MaskArgs(mask func(job management.JobRef, jobType string, args json.RawMessage) json.RawMessage) Option {
	if mask == nil {
		panic("rest.MaskArgs: the function must not be nil")
	}
	return func(o *options) { o.guard.MaskArgs = mask }
}

// Actor has a function name who makes a request, for the audit list. Default: nobody.
func Actor(name func(r *http.Request) string) Option {
	if name == nil {
		panic("rest.Actor: the function must not be nil")
	}
	return func(o *options) { o.guard.Actor = name }
}

// Prefix is the path below which the handler is mounted, where the program does not
// take it away with http.StripPrefix. It must begin with a slash, and not end with one,
// or else Prefix panics.
func Prefix(prefix string) Option {
	checkPrefix("rest.Prefix", prefix)
	return func(o *options) { o.prefix = prefix }
}

func checkPrefix(caller, prefix string) {
	if !strings.HasPrefix(prefix, "/") || path.Clean(prefix) != prefix || prefix == "/" {
		panic(fmt.Sprintf("%s: the path must begin with a slash, be clean, and not end with a slash (is %q)", caller, prefix))
	}
}

// Title is the title of the pages. Default: "Amboy".
func Title(title string) Option {
	return func(o *options) { o.title = title }
}

var errNoInspector = &web.Failure{Status: http.StatusServiceUnavailable, Text: "the service has no queue"}

// Handler serves all that an Inspector can tell and do: as JSON below /v2, which
// /v2/openapi.json describes, and as pages for people below /. It works below any prefix
// that http.StripPrefix takes away, or that the option Prefix names.
//
// Without the option Authorize it answers with status 403. What browsers send for a page
// of another site changes nothing. If i is nil, the handler answers with status 503.
//
// An option that is not possible panics, as http.ServeMux does for a pattern. The handler
// is safe for concurrent use. It has no goroutines but those of its requests; requests
// that watch end when the http.Server is shut down.
func Handler(i management.Inspector, opts ...Option) http.Handler {
	var o options
	for _, option := range opts {
		option(&o)
	}
	o.guard.Inspector = i
	handler := serving(o)
	if o.prefix == "" {
		return handler
	}
	return below(o.prefix, handler)
}

// serving serves all routes, or says that it can't.
func serving(o options) http.Handler {
	if o.guard.Inspector == nil {
		return web.NewHandler(map[string]http.HandlerFunc{
			"/": func(w http.ResponseWriter, r *http.Request) { api.Refuse(w, r, errNoInspector) },
		}, api.Refuse)
	}
	g := guard.New(o.guard)
	v2 := api.New(g)
	routes := map[string]http.HandlerFunc{}
	for _, route := range api.Routes() {
		routes[route.Mux()] = v2.Handler(route)
	}
	pages := pagesOf(o)
	for _, route := range pages.Routes() {
		routes[route.Mux()] = route.Handler.ServeHTTP
	}
	return web.NewHandler(routes, func(w http.ResponseWriter, r *http.Request, err error) {
		if r.URL.Path == "/v2" || strings.HasPrefix(r.URL.Path, "/v2/") {
			api.Refuse(w, r, err)
		} else {
			pages.Refuse(w, r, err)
		}
	})
}

// pagesOf are the pages, which share what is expensive. What the API tells is not shared:
// a program may expect to see at once what another has changed.
func pagesOf(o options) *dashboard.Dashboard {
	o.guard.Inspector = dashboard.Share(o.guard.Inspector)
	g := guard.New(o.guard)
	return dashboard.New(dashboard.Options{
		Inspector: g.Inspector,
		Allowed: func(r *http.Request, action, queue string) bool {
			return g.May(r, guard.Action(action), queue)
		},
		Title: o.title,
	})
}

// below serves a handler below a prefix. The prefix itself leads there, because links of
// pages are relative to a slash at its end.
func below(prefix string, handler http.Handler) http.Handler {
	escaped := (&url.URL{Path: prefix}).EscapedPath()
	nothing := web.NewHandler(nil, api.Refuse)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == prefix && (r.Method == http.MethodGet || r.Method == http.MethodHead):
			web.Secure(w.Header())
			w.Header().Set("Location", (&url.URL{Path: "./" + path.Base(prefix) + "/", RawQuery: r.URL.RawQuery}).String())
			w.WriteHeader(http.StatusPermanentRedirect)
		case isBelow(r.URL.Path, prefix) && (r.URL.RawPath == "" || isBelow(r.URL.RawPath, escaped)):
			stripped, location := *r, *r.URL
			location.Path = strings.TrimPrefix(location.Path, prefix)
			// http.StripPrefix does not know that the prefix may be escaped in it.
			location.RawPath = strings.TrimPrefix(location.RawPath, escaped)
			stripped.URL = &location
			handler.ServeHTTP(w, &stripped)
		default:
			nothing.ServeHTTP(w, r)
		}
	})
}

func isBelow(address, prefix string) bool {
	return address == prefix || strings.HasPrefix(address, prefix+"/")
}
