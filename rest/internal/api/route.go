// Package api serves management over HTTP: the routes below /v2.
package api

import (
	"net/http"
	"net/url"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/guard"
	"github.com/mongodb/amboy/rest/internal/web"
)

// Route is a route of the API.
type Route struct {
	// Method and Pattern are as http.ServeMux takes them.
	Method, Pattern string
	// Actions are the possible actions of a request to the route. Each request is one of them.
	Actions []guard.Action
	// Name is its operation ID in the description, and Summary describes it.
	Name, Summary string
	// Input contains the parameters, in fields with a tag "path", "query" or "header".
	Input any
	// Body is a value of the type of the body; nil if the route has no body.
	Body any
	// Answers maps statuses to values of the types of the answers; nil for an answer that is
	// not an object of this package or of package management.
	Answers map[int]any

	// serve returns the answer; nil if respond sends it.
	serve   func(*call) (answer, error)
	respond func(*call)
}

// Mux returns the pattern with its method.
func (r Route) Mux() string { return r.Method + " " + r.Pattern }

// API serves the routes. It is safe for concurrent use.
type API struct {
	guard   *guard.Guard
	workers Workers
	waiting *web.Waiting
}

// New returns an API for the inspectors of a guard.
func New(g *guard.Guard, w Workers) *API {
	return &API{guard: g, workers: w, waiting: web.NewWaiting(w.WaitingOfClient)}
}

// call is a request to a route.
type call struct {
	*API
	route *Route
	w     http.ResponseWriter
	r     *http.Request
	management.Inspector
}

// answer is the answer to a request.
type answer struct {
	status int
	// location is the URL of the job that was created; empty if none was.
	location string
	// next is the cursor of the next page; empty on the last page, and if the answer is no page.
	next  string
	value any
	// sent is true if the answer was sent already.
	sent bool
	// unsent is called if a part of the answer could not be sent; nil for nothing.
	unsent func()
}

func ok(value any) answer { return answer{status: http.StatusOK, value: value} }

// page is an answer whose value is a page with the cursor of the next one.
func page(value any, next string) answer {
	return answer{status: http.StatusOK, value: value, next: next}
}

// linkToNext returns the Link header (RFC 8288) of a page. It is relative to the request, because a
// proxy may have changed the path.
func linkToNext(query url.Values, next string) string {
	query.Set("cursor", next)
	return "<?" + query.Encode() + `>; rel="next"`
}

// Handler serves a route.
func (a *API) Handler(route Route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := a.call(&route, w, r)
		if route.respond != nil {
			route.respond(c)
			return
		}
		c.serve()
	}
}

func (a *API) call(route *Route, w http.ResponseWriter, r *http.Request) *call {
	return &call{API: a, route: route, w: w, r: r, Inspector: a.guard.Inspector(r)}
}

func (c *call) serve() { c.finish(c.route.serve(c)) }

// finish sends an answer, or refuses the request if there is an error.
func (c *call) finish(result answer, err error) {
	switch {
	case err != nil:
		Refuse(c.w, c.r, err)
	case !result.sent:
		if result.location != "" {
			c.w.Header().Set("Location", result.location)
		}
		if result.next != "" {
			c.w.Header().Set("Link", linkToNext(c.r.URL.Query(), result.next))
		}
		err = web.SendJSON(c.w, c.r, result.status, result.value)
		web.LogUnsent(c.r, err)
		if err != nil && result.unsent != nil {
			result.unsent()
		}
	}
}

// input reads the parameters of the request, and its body if the route has one.
func (c *call) input(parameters, body any) error {
	if err := readParameters(c.r, parameters); err != nil {
		return err
	}
	if body == nil {
		return nil
	}
	return web.ReadJSON(c.w, c.r, body)
}
