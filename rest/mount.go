package rest

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
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
	hosts  []string // that requests may name; nil for all
	audit  management.Recorder
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

// Hosts names the hosts that requests may be for, each a name or an address without a port.
// A request for another is refused with status 421: a site can give its own name the address
// of this server, and its pages are of the same origin then. It panics for no names, and for
// an empty one. Without it all hosts are served.
func Hosts(names ...string) Option {
	hosts := make([]string, len(names))
	for i, name := range names {
		hosts[i] = hostOf(name)
	}
	if len(hosts) == 0 || slices.Contains(hosts, "") {
		panic("rest.Hosts: there must be names, none of them empty")
	}
	return func(o *options) { o.hosts = hosts }
}

// Audit has a service write what it does to the audit list of an inspector, and count there
// what it refuses for the state of a job. It is for the services; Handler writes to that of
// its own inspector. It panics for an inspector that is no management.Recorder.
func Audit(i management.Inspector) Option {
	recorder, ok := i.(management.Recorder)
	if !ok {
		panic(fmt.Sprintf("rest.Audit: the inspector must be a management.Recorder (is a %T)", i))
	}
	return func(o *options) { o.audit = recorder }
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
	if o.audit != nil {
		panic("rest: the option Audit is for services")
	}
	return o.mounted(serving(o), api.Refuse)
}

// mounted has a handler answer below the prefix, to requests for the right host.
func (o options) mounted(handler http.Handler, refuse web.Refuse) http.Handler {
	if o.prefix != "" {
		handler = below(o.prefix, handler, refuse)
	}
	if o.hosts != nil {
		handler = onHosts(o.hosts, handler, refuse)
	}
	return handler
}

// onHosts serves a handler to requests that name one of some hosts.
func onHosts(hosts []string, handler http.Handler, refuse web.Refuse) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(hosts, hostOf(r.Host)) {
			web.Secure(w.Header())
			refuse(w, r, &web.Failure{Status: http.StatusMisdirectedRequest, Text: "this is not a host that is served here"})
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// hostOf is a host without its port, in lower case.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(address, "["), "]")
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
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
func below(prefix string, handler http.Handler, refuse web.Refuse) http.Handler {
	escaped := (&url.URL{Path: prefix}).EscapedPath()
	nothing := web.NewHandler(nil, refuse)
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
