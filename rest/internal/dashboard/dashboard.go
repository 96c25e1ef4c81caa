// Package dashboard is a web site for operators. Its HTML is rendered on the server, and is
// complete without scripts. A script keeps pages up to date.
//
// It works below any prefix, because all its links are relative, and without access to the
// internet, because it contains all its assets.
package dashboard

import (
	"fmt"
	"net/http"

	"github.com/mongodb/amboy/management"
)

// Options configure New.
type Options struct {
	// Inspector returns the inspector of a request, which enforces what the request may
	// do. It is required. The inspectors of one handler should wrap one Share, so that
	// many open pages cost little.
	Inspector func(r *http.Request) management.Inspector
	// Allowed reports whether a request may perform an action (a management.ActionKind,
	// "control", "schedule", "trigger" or "edit") in a queue, so that pages offer only what works.
	// It protects nothing; Inspector does. Default: everything is offered.
	Allowed func(r *http.Request, action, queue string) bool
	// Readable returns the queues, at most 100, that a request may read which may not read all.
	// Default: such a request gets only the pages that it knows the addresses of.
	Readable func(r *http.Request) []string
	// MayPut reports whether a request may choose the arguments of jobs of a type in a queue:
	// action is "create" or "edit". It protects nothing either. Default: everything is offered.
	MayPut func(r *http.Request, action, queue, jobType string) bool
	// CreateTypes are the types of jobs that may be put, and CreateOutside is true if jobs for
	// outside workers may be put, of any type that is not registered.
	CreateTypes   []string
	CreateOutside bool
	// HideArgs leaves out the field that searches arguments.
	HideArgs bool
	// Title is the title of the site. Default: "Amboy".
	Title string
}

// Dashboard is the site. Its only goroutines belong to its requests. It is safe for
// concurrent use.
type Dashboard struct {
	options Options
}

// New returns a site.
func New(options Options) *Dashboard {
	if options.Title == "" {
		options.Title = "Amboy"
	}
	if options.Allowed == nil {
		options.Allowed = func(*http.Request, string, string) bool { return true }
	}
	if options.MayPut == nil {
		options.MayPut = func(*http.Request, string, string, string) bool { return true }
	}
	return &Dashboard{options: options}
}

// Route is a route of the site.
type Route struct {
	// Method and Pattern are as http.ServeMux takes them.
	Method, Pattern string
	// Actions are the actions that the route can lead to: "read", "control", "schedule",
	// "trigger", "edit", "create" or one of management.ActionKinds. A route without actions is open
	// to every client.
	Actions []string
	// Description describes the route.
	Description string
	Handler     http.Handler
}

// Mux returns the pattern with its method.
func (r Route) Mux() string { return fmt.Sprintf("%s %s", r.Method, r.Pattern) }

// Routes lists all routes.
func (d *Dashboard) Routes() []Route {
	read := []string{"read"}
	acts := []string{"read"}
	for _, kind := range management.ActionKinds() {
		acts = append(acts, string(kind))
	}
	return append(d.scheduleRoutes(), []Route{
		{"GET", "/{$}", read, "overview of all queues", d.page(d.home(d.overview))},
		{"GET", "/jobs", read, "jobs that a filter selects", d.page(d.list(d.jobs))},
		{"GET", "/find", read, "the job with an ID", d.page(d.find)},
		{"GET", "/errors", read, "jobs grouped by error", d.page(d.list(d.errors))},
		{"GET", "/queues", read, "list of queues", d.page(d.home(d.queues))},
		{"GET", "/queues/{queue}", read, "one queue", d.page(d.queue)},
		{"GET", "/queues/{queue}/jobs/{id}", read, "one job", d.page(d.job)},
		{"GET", "/queues/{queue}/jobs/{id}/edit", read, "form for a job that has not started", d.page(d.edit)},
		{"GET", "/queues/{queue}/create", read, "form for a new job", d.page(d.create)},
		{"GET", "/workers", read, "processes and what they run", d.page(d.workers)},
		{"GET", "/diagnosis", read, "what is wrong with the store", d.page(d.diagnosis)},
		{"GET", "/scopes", read, "scopes that are held", d.page(d.list(d.scopes))},
		{"GET", "/audit", read, "audit list", d.page(d.list(d.audit))},
		{"GET", "/live", read, "server-sent events after changes", d.page(d.live)},
		{"GET", "/assets/{path...}", nil, "style and script", http.HandlerFunc(d.asset)},
		{"POST", "/jobs/actions", acts, "preview, and act on, many jobs", d.form(d.actOnMany)},
		{"POST", "/queues/{queue}/jobs/{id}/actions", acts, "act on one job", d.form(d.actOnOne)},
		{"POST", "/queues/{queue}/jobs/{id}/edit", []string{"read", "edit"}, "preview, and make, a change of a job", d.form(d.doEdit)},
		{"POST", "/queues/{queue}/create", []string{"create"}, "create a job", d.form(d.doCreate)},
		{"POST", "/queues/{queue}/control", []string{"read", "control"}, "pause, resume, drain, limits", d.form(d.control)},
		{"POST", "/theme", nil, "light, dark or system colors", d.form(d.theme)},
	}...)
}
