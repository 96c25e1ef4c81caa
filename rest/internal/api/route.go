// Package api serves management on HTTP: the routes below /v2.
package api

import (
	"net/http"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/guard"
	"github.com/mongodb/amboy/rest/internal/web"
)

// Route is something that a client can ask for.
type Route struct {
	// Method and Pattern are as http.ServeMux takes them.
	Method, Pattern string
	// Actions are those that the request can be. It is one of them at a time.
	Actions []guard.Action
	// Name is its name in the description, and Summary says what it does.
	Name, Summary string
	// Input has the parameters, in fields with a tag "path", "query" or "header".
	Input any
	// Body is what the body must be; nil where there is none.
	Body any
	// Answers has what is answered by status; nil for what is not an object of this
	// package or of management.
	Answers map[int]any

	serve func(*call) (answer, error)
}

// Mux returns the pattern with its method.
func (r Route) Mux() string { return r.Method + " " + r.Pattern }

// API serves the routes. It is safe for concurrent use.
type API struct{ guard *guard.Guard }

// New returns an API for what a guard lets through.
func New(g *guard.Guard) *API { return &API{guard: g} }

// call is a request to a route.
type call struct {
	*API
	route *Route
	w     http.ResponseWriter
	r     *http.Request
	management.Inspector
}

// answer is what a request is answered with.
type answer struct {
	status int
	// location is where the thing is that was made; empty where none was.
	location string
	value    any
	// sent is true where all was sent already.
	sent bool
}

func ok(value any) answer { return answer{status: http.StatusOK, value: value} }

// Handler serves a route.
func (a *API) Handler(route Route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &call{API: a, route: &route, w: w, r: r, Inspector: a.guard.Inspector(r)}
		result, err := route.serve(c)
		switch {
		case err != nil:
			Refuse(w, r, err)
		case !result.sent:
			if result.location != "" {
				w.Header().Set("Location", result.location)
			}
			web.WriteJSON(w, r, result.status, result.value)
		}
	}
}

// input reads the parameters of the request, and its body where the route has one.
func (c *call) input(parameters, body any) error {
	if err := readParameters(c.r, parameters); err != nil {
		return err
	}
	if body == nil {
		return nil
	}
	return web.ReadJSON(c.w, c.r, body)
}
