// Package dashboard is a site for people who look after jobs: HTML that is made on the
// server, and is complete without scripts. A script keeps pages up to date.
//
// It works under any prefix, because it has relative links only, and without the
// internet, because all it needs is in it.
package dashboard

import (
	"fmt"
	"net/http"

	"github.com/mongodb/amboy/management"
)

// Options are those of New.
type Options struct {
	// Inspector returns what a request may see and do. It is required. Those of one
	// handler should be over one Share, so that many open pages cost little.
	Inspector func(r *http.Request) management.Inspector
	// Allowed says whether a request may do an action (a management.ActionKind, or
	// "control") in a queue, so that pages show what works only. It protects nothing:
	// that is up to Inspector. Default: all is shown.
	Allowed func(r *http.Request, action, queue string) bool
	// Title is shown on top of each page. Default: "Amboy".
	Title string
}

// Dashboard is the site. It has no goroutines but those of its requests, and is safe for
// concurrent use.
type Dashboard struct {
	options Options
}

// New makes the site.
func New(options Options) *Dashboard {
	if options.Title == "" {
		options.Title = "Amboy"
	}
	if options.Allowed == nil {
		options.Allowed = func(*http.Request, string, string) bool { return true }
	}
	return &Dashboard{options: options}
}

// Route is one of the routes of the site.
type Route struct {
	// Method and Pattern are as http.ServeMux takes them.
	Method, Pattern string
	// Actions are those that the route can lead to: "read", "control" or one of
	// management.ActionKinds; none for what is the same for everybody.
	Actions []string
	// Description says what it is for.
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
	return []Route{
		{"GET", "/{$}", read, "overview of all queues", d.page(d.overview)},
		{"GET", "/jobs", read, "jobs that a filter selects", d.page(d.jobs)},
		{"GET", "/queues", read, "list of queues", d.page(d.queues)},
		{"GET", "/queues/{queue}", read, "one queue", d.page(d.queue)},
		{"GET", "/queues/{queue}/jobs/{id}", read, "one job", d.page(d.job)},
		{"GET", "/workers", read, "processes and what they run", d.page(d.workers)},
		{"GET", "/schedules", read, "schedules that processes keep", d.page(d.schedules)},
		{"GET", "/scopes", read, "scopes that are held", d.page(d.scopes)},
		{"GET", "/audit", read, "list of what was done", d.page(d.audit)},
		{"GET", "/live", read, "server-sent events that tell of changes", d.page(d.live)},
		{"GET", "/assets/{path...}", nil, "style and script", http.HandlerFunc(d.asset)},
		{"POST", "/jobs/actions", acts, "preview, and act on, many jobs", d.form(d.actOnMany)},
		{"POST", "/queues/{queue}/jobs/{id}/actions", acts, "act on one job", d.form(d.actOnOne)},
		{"POST", "/queues/{queue}/control", []string{"read", "control"}, "pause, resume, drain, limits", d.form(d.control)},
		{"POST", "/theme", nil, "light, dark or as the system has it", d.form(d.theme)},
	}
}
