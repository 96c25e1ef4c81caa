package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest"
)

// admin shows operators all queues, and each tenant its own.
type admin struct {
	inspector management.Inspector
	operator  *rest.Login
	tenants   map[string]*rest.Login
}

// newAdmin makes a secret for the operator and one for each tenant. A service that has users asks
// who sent a request instead: see rest.Authorize.
func newAdmin(jobs amboy.QueueGroup) (*admin, error) {
	inspector, err := management.NewGroupInspector(jobs)
	if err != nil {
		return nil, err
	}
	a := &admin{inspector: inspector, operator: rest.NewLogin("/admin"), tenants: map[string]*rest.Login{}}
	for _, tenant := range tenants {
		a.tenants[tenant] = rest.NewLogin(adminPath(tenant))
	}
	return a, nil
}

func adminPath(tenant string) string { return "/tenants/" + tenant + "/admin" }

// mount adds the dashboards, with the API for programs below /v2, and the probes.
func (a *admin) mount(mux *http.ServeMux) {
	mux.Handle("/health/", http.StripPrefix("/health", rest.Health(a.inspector)))
	mux.Handle("/admin/login", a.operator)
	mux.Handle("/admin/", rest.Handler(a.inspector,
		rest.Prefix("/admin"),
		rest.Title("All tenants"),
		rest.Authorize(a.operator.Authorize),
		rest.Actor(func(*http.Request) string { return "operator" })))
	for tenant, login := range a.tenants {
		path := adminPath(tenant)
		mux.Handle(path+"/login", login)
		mux.Handle(path+"/", rest.Handler(a.inspector,
			rest.Prefix(path),
			rest.Title(tenant),
			rest.Tenant(tenant), // other queues appear not to exist
			rest.Authorize(login.Authorize),
			rest.Actor(func(*http.Request) string { return tenant })))
	}
}

// authorize lets a tenant use the API of the service with the token of its dashboard.
func (a *admin) authorize(r *http.Request, tenant string) error {
	login, ok := a.tenants[tenant]
	if !ok {
		return rest.ErrUnauthenticated
	}
	return login.Authorize(r, rest.Access{Queue: tenant})
}

// call is a request to try.
type call struct{ method, path, body string }

var calls = []call{
	{"POST", "/invoices", `{"customer":"ann@example.com","month":"2030-01"}`},
	{"GET", "/jobs/invoice.2030-01.ann@example.com", ""},
	{"POST", "/months/2030-01", ""},
	{"GET", "/months/2030-01", ""},
	{"POST", "/imports", `{"emails":["cat@example.com","dan@example.com","eve@example.com"]}`},
}

func (c call) curl() string {
	line := fmt.Sprintf(`curl -H "$TOKEN" -X %s $URL%s`, c.method, c.path)
	if c.body != "" {
		line += " -d '" + c.body + "'"
	}
	return line
}

// welcome prints what to try next. The links log a browser in, once.
func (a *admin) welcome(out io.Writer, url string) error {
	acme := a.tenants["acme"]
	lines := []string{
		"The dashboard of all tenants: " + url + "/admin/login?ticket=" + a.operator.Ticket(),
		"The dashboard of acme alone:  " + url + adminPath("acme") + "/login?ticket=" + acme.Ticket(),
		"", "Try, in another terminal:", "",
		"export URL=" + url + "/tenants/acme TOKEN='Authorization: Bearer " + acme.Token() + "'",
	}
	for _, c := range calls {
		lines = append(lines, c.curl())
	}
	lines = append(lines, `curl -H "$TOKEN" -X DELETE $URL/jobs/ID # cancels the import; ID is in its answer`, "", "Press Ctrl-C to stop.", "")
	_, err := io.WriteString(out, strings.Join(lines, "\n"))
	return err
}
