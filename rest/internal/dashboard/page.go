package dashboard

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/web"
)

// maxFormBytes is the maximum size of a form.
const maxFormBytes = 1 << 20

// policy lets a page load only what this site serves, and no inline script or style.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
}

// answer serves a page or a form. An error becomes a page that describes it.
type answer func(w http.ResponseWriter, r *http.Request) error

func (d *Dashboard) page(do answer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		w.Header().Set("Cache-Control", "no-store")
		// Malformed parts of the query would otherwise be ignored.
		_, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			err = invalid("query", r.URL.RawQuery, "must be well-formed")
		} else {
			err = do(w, r)
		}
		if err != nil {
			d.fail(w, r, err)
		}
	})
}

// form is like page for a request with a form in its body.
func (d *Dashboard) form(do answer) http.Handler {
	return d.page(func(w http.ResponseWriter, r *http.Request) error {
		kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil || kind != "application/x-www-form-urlencoded" {
			return &web.Failure{Status: http.StatusUnsupportedMediaType, Text: "The body must be application/x-www-form-urlencoded."}
		}
		err = refuseUnknown(r.URL.Query())
		if err != nil {
			return err
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
		err = r.ParseForm()
		if err != nil {
			return unreadable(err)
		}
		return do(w, r)
	})
}

// unreadable returns the failure for a form that can't be read.
func unreadable(err error) error {
	var tooLong *http.MaxBytesError
	if errors.As(err, &tooLong) {
		return &web.Failure{Status: http.StatusRequestEntityTooLarge, Text: fmt.Sprintf("A form must be at most %d bytes long.", tooLong.Limit)}
	}
	return &web.Failure{Status: http.StatusBadRequest, Text: fmt.Sprintf("The form can't be read: %v.", err)}
}

// refuseUnknown returns an error for a field that is not among the names.
func refuseUnknown(fields url.Values, names ...string) error {
	for field := range fields {
		if !slices.Contains(names, field) {
			return &management.InvalidArgumentError{Field: field, Value: shorten(fields.Get(field), 100), Rule: "is unknown"}
		}
	}
	return nil
}

func invalid(field, value, rule string) error {
	return &management.InvalidArgumentError{Field: field, Value: shorten(value, 100), Rule: rule}
}

// view is the data of a template. Its methods make links, which are relative to the address
// of the page.
type view struct {
	Site  string
	Title string
	// Section is the current entry of the navigation.
	Section string
	// Base is the relative path to the top of the site.
	Base string
	// Here is the address of the page, relative to Base.
	Here  string
	Theme string
	// Own is the query that selects the queues that the request may read, if it may not read all;
	// empty otherwise.
	Own template.URL
	// Notice reports what the last form did.
	Notice string
	// Every is the number of seconds after which the page is loaded again even if nothing
	// is known to have changed.
	Every int
	// Still is true if the page can't be loaded again: it answers a form, or an error.
	Still bool
	Now   time.Time
	Data  any

	dashboard *Dashboard
	request   *http.Request
}

// refreshIdle is the number of seconds after which an unchanged page is loaded again, so
// that relative times stay correct. refreshBusy is that of a page that shows progress.
const (
	refreshIdle = 30
	refreshBusy = 3
)

// base returns the relative path from an escaped path to the top of the site.
func base(escaped string) string {
	depth := strings.Count(strings.TrimPrefix(escaped, "/"), "/")
	if depth == 0 {
		return "./"
	}
	return strings.Repeat("../", depth)
}

func (d *Dashboard) view(r *http.Request, section, title string, data any) view {
	own := template.URL("")
	if section != "" { // the menu of an error leads to all, and is redirected
		if queues := d.ownQueues(r); len(queues) > 0 {
			own = template.URL(withQueues(queues))
		}
	}
	return view{
		Own:       own,
		Site:      d.options.Title,
		Title:     title,
		Section:   section,
		Base:      base(r.URL.EscapedPath()),
		Here:      here(r),
		Theme:     themeOf(r),
		Notice:    notice(r),
		Every:     refreshIdle,
		Still:     r.Method == http.MethodPost || section == "",
		Now:       time.Now(),
		Data:      data,
		dashboard: d,
		request:   r,
	}
}

// here returns the address of a request, relative to the top of the site. It is empty for a
// form, whose address can't be returned to.
func here(r *http.Request) string {
	if r.Method == http.MethodPost {
		return ""
	}
	query := r.URL.Query()
	for _, field := range noticeFields {
		query.Del(field)
	}
	address := strings.TrimPrefix(r.URL.EscapedPath(), "/")
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	return address
}

// With returns the view with other data, for a nested template.
func (v view) With(data any) view {
	v.Data = data
	return v
}

// Asset returns the address of a file.
func (v view) Asset(name string) string {
	return v.Base + "assets/" + name + "?v=" + assets()[name].version
}

// May reports whether the request may perform an action in a queue.
func (v view) May(action, queue string) bool {
	return v.dashboard.options.Allowed(v.request, action, queue)
}

// QueueURL returns the address of a queue.
func (v view) QueueURL(name string) string { return v.Base + queuePath(name) }

// JobURL returns the address of a job.
func (v view) JobURL(ref management.JobRef) string { return v.Base + jobPath(ref) }

// JobsURL returns the address of a list of jobs, filtered by pairs of field names and values.
func (v view) JobsURL(pairs ...string) string {
	query := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		value := pairs[i+1]
		if pairs[i] == "queue" {
			value = encodeQueue(value)
		}
		query.Add(pairs[i], value)
	}
	return v.Base + "jobs?" + query.Encode()
}

// templates are the templates of all dashboards. They are parsed once.
var templates = sync.OnceValue(parseTemplates)

// parseTemplates returns a template for each page, which consists of its file, the layout
// and the shared parts.
func parseTemplates() map[string]*template.Template {
	shared := template.Must(template.New("layout.html").Funcs(functions).
		ParseFS(templateFiles, "templates/layout.html", "templates/parts.html", "templates/chart.html", "templates/schedule-parts.html"))
	pages := map[string]*template.Template{}
	for _, name := range []string{
		"overview", "jobs", "errors", "act", "confirm", "job", "edit", "create", "own", "queues", "queue", "workers", "schedules", "schedule", "schedule-new", "schedule-delete", "diagnosis", "scopes", "audit", "problem",
	} {
		pages[name] = template.Must(template.Must(shared.Clone()).ParseFS(templateFiles, "templates/"+name+".html"))
	}
	return pages
}

// show sends a page. It renders the page before it sends the first byte, so that an error
// can still be reported.
func (d *Dashboard) show(w http.ResponseWriter, status int, name string, v view) error {
	var rendered bytes.Buffer
	err := templates()[name].Execute(&rendered, v)
	if err != nil {
		return fmt.Errorf("rendering page %q: %w", name, err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(rendered.Bytes()) // fails if the client has disconnected
	return nil
}

// redirect sends the browser to an address relative to the top of the site, to be read with
// GET. The location is relative, because only the browser knows the prefix.
func redirect(w http.ResponseWriter, r *http.Request, address string) {
	w.Header().Set("Location", base(r.URL.EscapedPath())+address)
	w.WriteHeader(http.StatusSeeOther)
}
