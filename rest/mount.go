package rest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/rest/internal/api"
	"github.com/mongodb/amboy/rest/internal/dashboard"
	"github.com/mongodb/amboy/rest/internal/guard"
	"github.com/mongodb/amboy/rest/internal/web"
)

// Action is what a request does. It is a string: one of the constants below, or the name of a
// management.ActionKind, such as Action(management.Retry).
type Action = guard.Action

// The actions, besides those of management.ActionKinds.
const (
	// ActionRead ("read") reads anything.
	ActionRead = guard.Read
	// ActionCreate ("create") creates a job of one of the types that CreateTypes allows.
	ActionCreate = guard.Create
	// ActionControl ("control") changes the controls of a queue.
	ActionControl = guard.Control
	// ActionWork ("work") leases jobs to an outside worker, renews leases and acknowledges
	// jobs.
	ActionWork = guard.Work
	// ActionReveal ("reveal") shows the arguments and the result of an encrypted job; see
	// RevealEncrypted.
	ActionReveal = guard.Reveal
	// ActionSchedule ("schedule") creates, changes, pauses, resumes and deletes the schedules that
	// are stored for a queue. All but pausing and deleting also needs ActionCreate for the type of
	// their jobs, which CreateTypes must allow. Without ActionRead their arguments are not shown.
	ActionSchedule = guard.Schedule
	// ActionTrigger ("trigger") enqueues a job of such a schedule now. It also needs ActionCreate.
	ActionTrigger = guard.Trigger
	// ActionEdit ("edit") changes the arguments, the priority or the time of a job that has not
	// started. The arguments can be changed only if the request may read them all, which means
	// ActionReveal for an encrypted job and no redaction by MaskArgs, and if CreateTypes or
	// CreateOutside allows the type of the job.
	ActionEdit = guard.Edit
)

// Actions returns all actions, those of management.ActionKinds included.
func Actions() []Action { return guard.Actions() }

// Access describes what a request is about to do. Its fields are
//
//   - Action: what it does;
//   - Queue: the name of the queue;
//   - AllQueues: true if it concerns all queues; Queue is then empty;
//   - ID: the ID of the job, if it concerns one. It is empty for lists, for actions on the jobs
//     that a filter selects, even if the filter names IDs, and for a new job whose ID the
//     service will generate. A function that denies access to some IDs must deny these too;
//   - Type: the type of the job for ActionCreate, the type of the jobs of the schedule for
//     ActionSchedule and ActionTrigger, and for ActionWork each type that a worker asks for, and
//     that of each job whose lease it renews or that it acknowledges. It may be any text, and is
//     empty for other actions.
//
// Its String method describes it for an error or a log.
type Access = guard.Access

// Option configures a Handler.
type Option func(*options)

type options struct {
	guard   guard.Options
	workers api.Workers
	prefix  string
	title   string
	hosts   []string // allowed hosts; nil for all
	audit   management.Recorder
}

// ErrUnauthenticated is wrapped by the error of a function of Authorize if the request does not
// prove who sent it: its token is missing, wrong or expired. The request is refused with status
// 401.
var ErrUnauthenticated = guard.ErrUnauthenticated

// RefuseUnauthenticated answers a request with status 401, a text, and the header WWW-Authenticate
// that asks for a bearer token (RFC 6750). It is for handlers beside a Handler.
func RefuseUnauthenticated(w http.ResponseWriter, r *http.Request, text string) {
	w.Header().Set("WWW-Authenticate", guard.NewUnauthenticatedError(r, ErrUnauthenticated).Challenge())
	http.Error(w, text, http.StatusUnauthorized)
}

// Authorize sets the function that decides whether a request may do something. If the function
// returns an error or panics, the request is refused with status 403, or 401 for an
// ErrUnauthenticated; the error is not shown to the client. The function is called before each thing
// that the request does. It may be called several times, and repeatedly for a request that watches.
// It must be safe for concurrent use. A request that concerns several queues needs access to all of
// them.
//
// Without this option every request is refused, whatever its address: an address does not identify the
// client, because all users of a machine, and all that a proxy forwards, share one. A program without its own
// users can use a Login.
func Authorize(may func(r *http.Request, access Access) error) Option {
	if may == nil {
		panic("rest.Authorize: the function must not be nil")
	}
	return func(o *options) { o.guard.Authorize = may }
}

// CreateTypes allows jobs of these types to be put. Several such options are combined.
// Without it no job can be put, whatever Authorize returns: a job type may run any
// program. Allow only types that are harmless with arbitrary arguments.
func CreateTypes(types ...string) Option {
	return func(o *options) { o.guard.CreateTypes = append(o.guard.CreateTypes, types...) }
}

// CreateOutside allows jobs for workers outside of Go programs to be put, of any type that is
// not registered in this process. Jobs of types of job.Declare need CreateTypes. A Go
// process on the same store that has a definition of such a type runs its jobs, so there
// must be none whose jobs are harmful with arbitrary arguments.
func CreateOutside() Option {
	return func(o *options) { o.guard.CreateOutside = true }
}

// DefaultWaitingOfClient is the default of WaitingOfClient.
const DefaultWaitingOfClient = 1000

// Workers serves the routes for outside workers, with the jobs of a dispatcher. Without it they are answered
// with status 409. Close the dispatcher after the server has shut down. Workers panics if the dispatcher is
// nil.
func Workers(d *outside.Dispatcher) Option {
	if d == nil {
		panic("rest.Workers: the dispatcher must not be nil")
	}
	return func(o *options) { o.workers.Dispatcher = d }
}

// WaitingOfClient sets how many requests of a client may wait at a time for jobs or for their
// end. Further ones are refused with status 429. A client is an actor (see Actor), or
// otherwise an address. It panics if n is not positive. Default: DefaultWaitingOfClient.
func WaitingOfClient(n int) Option {
	if n < 1 {
		panic(fmt.Sprintf("rest.WaitingOfClient: the number must be at least 1 (is %d)", n))
	}
	return func(o *options) { o.workers.WaitingOfClient = n }
}

// Tenant restricts the handler to one queue, that of a tenant. All other queues appear not
// to exist, and of the registered types only those of CreateTypes are listed. A tenant can still
// notice how long a search takes, and gets a short page if the store read tens of thousands of jobs
// of others for it. Tenant panics if the name is empty.
func Tenant(queue string) Option {
	if queue == "" {
		panic("rest.Tenant: the name of the queue must not be empty")
	}
	return TenantOf(func(*http.Request) string { return queue })
}

// TenantOf restricts each request to one queue, that of its tenant, which the function names, for instance by
// the session of the request. All other queues appear not to exist. If the name is empty, or the function
// panics, the request is refused: with 401 if Authorize returns an error that wraps ErrUnauthenticated,
// otherwise with 403, or 404 if it names a queue. The function is called several times for a request, and
// must be safe for concurrent use. Of several options Tenant and TenantOf the last one counts.
func TenantOf(queue func(r *http.Request) string) Option {
	if queue == nil {
		panic("rest.TenantOf: the function must not be nil")
	}
	return func(o *options) { o.guard.Tenant = queue }
}

// MaskArgs sets the function that redacts the arguments and the result of a job: it
// returns JSON, or nil to hide them. For the arguments of a schedule, the job has no ID. If it
// panics, or returns invalid JSON, they are hidden too. A job with arguments that it has changed
// can't be copied on the dashboard (see management.JobSummary.ArgsMasked). No request may search
// arguments then (see management.JobFilter.ArgsPart), because what it finds would tell what they
// are. It must be safe for concurrent use.
func MaskArgs(mask func(job management.JobRef, jobType string, args json.RawMessage) json.RawMessage) Option {
	if mask == nil {
		panic("rest.MaskArgs: the function must not be nil")
	}
	return func(o *options) { o.guard.MaskArgs = mask }
}

// RevealEncrypted lets requests read the arguments and results of jobs that a codec of their
// queue encrypts (see queue.DriverQueueOptions), if the function of Authorize allows them
// ActionReveal on the job. MaskArgs applies to what they read. Without this option they are
// hidden from every request, as "encrypted", and a QueueService refuses to show such jobs.
// Outside workers get the payloads of the jobs that they lease in any case.
func RevealEncrypted() Option {
	return func(o *options) { o.guard.RevealEncrypted = true }
}

// Hosts sets the hosts that requests may name, each a name or an address without a port. A
// request for another host is refused with status 421. This stops DNS rebinding, in which
// another site lets its own name resolve to the address of this server. Hosts panics
// without names, and for an empty name. By default all hosts are served.
func Hosts(names ...string) Option {
	hosts := make([]string, len(names))
	for i, name := range names {
		hosts[i] = hostOf(name)
	}
	if len(hosts) == 0 || slices.Contains(hosts, "") {
		panic("rest.Hosts: at least one name is required, and none must be empty")
	}
	return func(o *options) { o.hosts = hosts }
}

// Audit makes a service record its actions in the audit list of an inspector. It also counts
// there the calls that were refused because of the state of a job. It is only for the
// services; Handler uses the list of its own inspector. Audit panics if the inspector is
// not a management.Recorder.
func Audit(i management.Inspector) Option {
	recorder, ok := i.(management.Recorder)
	if !ok {
		panic(fmt.Sprintf("rest.Audit: the inspector must be a management.Recorder (is a %T)", i))
	}
	return func(o *options) { o.audit = recorder }
}

// Actor sets the function that names the actor of a request, for the audit list and for the
// limits of a client. By default the actor is empty, and a client is an address.
func Actor(name func(r *http.Request) string) Option {
	if name == nil {
		panic("rest.Actor: the function must not be nil")
	}
	return func(o *options) { o.guard.Actor = name }
}

// Prefix is the path below which the handler is mounted, if the program does not remove
// it with http.StripPrefix. Prefix panics if the path does not begin with a slash, or
// ends with one.
func Prefix(prefix string) Option {
	checkPrefix("rest.Prefix", prefix)
	return func(o *options) { o.prefix = prefix }
}

func checkPrefix(caller, prefix string) {
	if !strings.HasPrefix(prefix, "/") || path.Clean(prefix) != prefix || prefix == "/" {
		panic(fmt.Sprintf("%s: the path must begin with a slash, be clean, and not end with a slash (is %q)", caller, prefix))
	}
}

// Title sets the title of the pages. Default: "Amboy".
func Title(title string) Option {
	return func(o *options) { o.title = title }
}

var errNoInspector = &web.Failure{Status: http.StatusServiceUnavailable, Text: "the service has no queue"}

// Handler serves everything that an Inspector provides: as JSON below /v2, described by
// /v2/openapi.json, and as HTML pages below /. It works below any prefix that
// http.StripPrefix removes, or that the option Prefix names.
//
// Without the option Authorize it answers every request with status 403. A request that a
// browser sends on behalf of another site changes nothing. If i is nil, the handler
// answers with status 503.
//
// An invalid option panics, as an invalid pattern of http.ServeMux does. The handler is
// safe for concurrent use. Its only goroutines belong to its requests. Requests that
// watch end when the http.Server is shut down.
func Handler(i management.Inspector, opts ...Option) http.Handler {
	var o options
	for _, option := range opts {
		option(&o)
	}
	o.guard.Inspector, o.workers.WaitingOfClient = i, cmp.Or(o.workers.WaitingOfClient, DefaultWaitingOfClient)
	if o.audit != nil {
		panic("rest: the option Audit is for services")
	}
	return o.mounted(serving(o), api.Refuse)
}

// mounted restricts a handler to the prefix and to the allowed hosts.
func (o options) mounted(handler http.Handler, refuse web.Refuse) http.Handler {
	if o.prefix != "" {
		handler = below(o.prefix, handler, refuse)
	}
	if o.hosts != nil {
		handler = onHosts(o.hosts, handler, refuse)
	}
	return handler
}

// onHosts restricts a handler to requests that name one of the hosts.
func onHosts(hosts []string, handler http.Handler, refuse web.Refuse) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(hosts, hostOf(r.Host)) {
			web.Secure(w.Header())
			refuse(w, r, &web.Failure{Status: http.StatusMisdirectedRequest, Text: "host is not served here"})
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// hostOf returns the host of an address without its port, in lower case.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(address, "["), "]")
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// serving returns the handler of all routes. Without an inspector it answers with an error.
func serving(o options) http.Handler {
	if o.guard.Inspector == nil {
		return web.NewHandler(map[string]http.HandlerFunc{
			"/": func(w http.ResponseWriter, r *http.Request) { api.Refuse(w, r, errNoInspector) },
		}, api.Refuse)
	}
	g := guard.New(o.guard)
	v2 := api.New(g, o.workers)
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

// pagesOf returns the pages, which share the results of expensive queries. The API does not
// share results: a client may expect to read at once what another has changed.
func pagesOf(o options) *dashboard.Dashboard {
	o.guard.Inspector = dashboard.Share(o.guard.Inspector)
	g := guard.New(o.guard)
	return dashboard.New(dashboard.Options{
		Inspector: g.Inspector,
		Allowed: func(r *http.Request, action, queue string) bool {
			return g.May(r, guard.Action(action), queue)
		},
		Readable: g.Readable,
		MayPut: func(r *http.Request, action, queue, jobType string) bool {
			return g.MayPut(r, guard.Action(action), queue, jobType)
		},
		CreateTypes: o.guard.CreateTypes, CreateOutside: o.guard.CreateOutside,
		HideArgs: o.guard.MaskArgs != nil,
		Title:    o.title,
	})
}

// below serves a handler below a prefix. It redirects the prefix itself to the prefix with a
// slash, because the links of the pages are relative to that.
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
			// http.StripPrefix would not remove an escaped prefix.
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
