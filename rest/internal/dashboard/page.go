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

// maxFormBytes is the length of the longest form.
const maxFormBytes = 1 << 20

// policy lets a page load only what is served here, and no inline script or style.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
}

// answer is what a page or form does. An error becomes a page that tells of it.
type answer func(w http.ResponseWriter, r *http.Request) error

func (d *Dashboard) page(do answer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		w.Header().Set("Cache-Control", "no-store")
		// Or what can't be read of it would be ignored.
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

// form is page for a request with a form in its body.
func (d *Dashboard) form(do answer) http.Handler {
	return d.page(func(w http.ResponseWriter, r *http.Request) error {
		kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil || kind != "application/x-www-form-urlencoded" {
			return &web.Failure{Status: http.StatusUnsupportedMediaType, Text: "The body must be application/x-www-form-urlencoded."}
		}
		err = known(r.URL.Query())
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

// unreadable says why a form can't be read.
func unreadable(err error) error {
	var tooLong *http.MaxBytesError
	if errors.As(err, &tooLong) {
		return &web.Failure{Status: http.StatusRequestEntityTooLarge, Text: fmt.Sprintf("A form may have %d bytes.", tooLong.Limit)}
	}
	return &web.Failure{Status: http.StatusBadRequest, Text: fmt.Sprintf("The form can't be read: %v.", err)}
}

// known returns an error for a field that has none of the names.
func known(fields url.Values, names ...string) error {
	for field := range fields {
		if !slices.Contains(names, field) {
			return &management.InvalidArgumentError{Field: field, Value: shorten(fields.Get(field), 100), Rule: "is not known here"}
		}
	}
	return nil
}

func invalid(field, value, rule string) error {
	return &management.InvalidArgumentError{Field: field, Value: shorten(value, 100), Rule: rule}
}

// view is what a template gets. Its methods make links, which are relative to the
// address of the page.
type view struct {
	Site  string
	Title string
	// Section is the entry of the navigation that is the current one.
	Section string
	Base    string
	// Here is the address of the page, from Base on.
	Here  string
	Theme string
	// Notice tells what the last form did.
	Notice string
	// Every is after how many seconds the page is to be made anew, even where
	// nothing is known to have changed.
	Every int
	// Still is true for the answer to a form, and to what failed: it can't be made anew.
	Still bool
	Now   time.Time
	Data  any

	dashboard *Dashboard
	request   *http.Request
}

// restful is how often a page that nothing changes is made anew, in seconds, so that
// "a minute ago" stays true, and busy how often one that shows progress.
const (
	restful = 30
	busy    = 3
)

// base is what leads from an escaped path to the top of the site.
func base(escaped string) string {
	depth := strings.Count(strings.TrimPrefix(escaped, "/"), "/")
	if depth == 0 {
		return "./"
	}
	return strings.Repeat("../", depth)
}

func (d *Dashboard) view(r *http.Request, section, title string, data any) view {
	return view{
		Site:      d.options.Title,
		Title:     title,
		Section:   section,
		Base:      base(r.URL.EscapedPath()),
		Here:      here(r),
		Theme:     themeOf(r),
		Notice:    notice(r.URL.Query()),
		Every:     restful,
		Still:     r.Method == http.MethodPost || section == "",
		Now:       time.Now(),
		Data:      data,
		dashboard: d,
		request:   r,
	}
}

// here is the address of a request, from the top of the site on. A form's is not an
// address that one can go back to.
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

// With is the view with other data, for a template within another.
func (v view) With(data any) view {
	v.Data = data
	return v
}

// Asset is the address of a file.
func (v view) Asset(name string) string {
	return v.Base + "assets/" + name + "?v=" + assets()[name].version
}

// May says whether the request may do something in a queue.
func (v view) May(action, queue string) bool {
	return v.dashboard.options.Allowed(v.request, action, queue)
}

// QueueURL is the address of a queue.
func (v view) QueueURL(name string) string { return v.Base + queuePath(name) }

// JobURL is the address of a job.
func (v view) JobURL(ref management.JobRef) string { return v.Base + jobPath(ref) }

// JobsURL is the address of a list of jobs, with pairs of filter names and values.
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

// templates are those of all dashboards, which are made for the first.
var templates = sync.OnceValue(parseTemplates)

// parseTemplates makes a template for each page, of its file, the layout and the parts
// that pages share.
func parseTemplates() map[string]*template.Template {
	shared := template.Must(template.New("layout.html").Funcs(functions).
		ParseFS(templateFiles, "templates/layout.html", "templates/parts.html", "templates/chart.html"))
	pages := map[string]*template.Template{}
	for _, name := range []string{
		"overview", "jobs", "act", "confirm", "job", "queues", "queue", "workers", "schedules", "scopes", "audit", "problem",
	} {
		pages[name] = template.Must(template.Must(shared.Clone()).ParseFS(templateFiles, "templates/"+name+".html"))
	}
	return pages
}

// show sends a page. It is made before the first byte is sent, so that an error can
// still be told.
func (d *Dashboard) show(w http.ResponseWriter, status int, name string, v view) error {
	var made bytes.Buffer
	err := templates()[name].Execute(&made, v)
	if err != nil {
		return fmt.Errorf("making the page %q: %w", name, err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(made.Bytes()) // one who has gone needs no answer
	return nil
}

// redirect sends the browser to an address from the top of the site on, to be read
// with GET. The path of the request may lack the prefix, so that only the browser can
// complete the address.
func redirect(w http.ResponseWriter, r *http.Request, address string) {
	w.Header().Set("Location", base(r.URL.EscapedPath())+address)
	w.WriteHeader(http.StatusSeeOther)
}
