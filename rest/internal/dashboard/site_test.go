package dashboard_test

import (
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/dashboard"
)

// site is a dashboard below a prefix.
type site struct {
	*dashboard.Dashboard
	prefix  string
	mux     *http.ServeMux
	handler http.Handler
	// cookies are those of the browser. told is what the last redirect told its page.
	cookies map[string]*http.Cookie
	told    string
}

func newSite(inspector management.Inspector, prefix string) *site {
	return siteOf(dashboard.Options{Inspector: func(*http.Request) management.Inspector { return inspector }}, prefix)
}

func siteOf(options dashboard.Options, prefix string) *site {
	s := &site{Dashboard: dashboard.New(options), prefix: prefix, mux: http.NewServeMux()}
	for _, route := range s.Routes() {
		s.mux.Handle(route.Mux(), route.Handler)
	}
	s.handler = http.StripPrefix(prefix, s.mux)
	return s
}

func (s *site) get(address string) *httptest.ResponseRecorder {
	return s.send(httptest.NewRequest(http.MethodGet, s.prefix+address, http.NoBody))
}

func (s *site) post(address string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, s.prefix+address, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return s.send(r)
}

func (s *site) send(r *http.Request) *httptest.ResponseRecorder {
	for _, cookie := range s.cookies {
		r.AddCookie(cookie)
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	for _, cookie := range w.Result().Cookies() {
		if s.cookies == nil {
			s.cookies = map[string]*http.Cookie{}
		}
		s.cookies[cookie.Name] = cookie
	}
	return w
}

// goes returns the address, without the prefix, to which a link on a page leads. It fails
// the test if the link leaves the prefix, or if no route serves it.
func (s *site) goes(t *testing.T, method, page, link string) string {
	t.Helper()
	from, err := url.Parse("http://host" + s.prefix + page)
	require.NoError(t, err)
	to, err := from.Parse(link)
	require.NoError(t, err)
	require.Equal(t, "host", to.Host, "%s: %s", page, link)
	path, below := strings.CutPrefix(to.EscapedPath(), s.prefix)
	require.True(t, below, "%s: %s leads to %s", page, link, to)
	if to.RawQuery != "" {
		path += "?" + to.RawQuery
	}
	r := httptest.NewRequest(method, path, http.NoBody)
	_, pattern := s.mux.Handler(r)
	require.NotEmpty(t, pattern, "%s: %s leads to %s", page, link, to)
	require.True(t, strings.HasPrefix(pattern, method), "%s: %s leads to %s", page, link, pattern)
	return path
}

// element is an HTML element of a page.
type element struct {
	name   string
	attrs  map[string]string
	parent *element
	text   *strings.Builder // of the element and its descendants
}

// within returns the closest ancestor of e with a name; nil if there is none.
func (e *element) within(name string) *element {
	for p := e.parent; p != nil; p = p.parent {
		if p.name == name {
			return p
		}
	}
	return nil
}

// document contains all elements of a page, in their order.
type document []*element

// parse parses a page. All its elements must be closed in order.
func parse(t *testing.T, page string) document {
	t.Helper()
	page = strings.ReplaceAll(page, "\x01", "") // not allowed in XML
	decoder := xml.NewDecoder(strings.NewReader(page))
	decoder.Strict, decoder.AutoClose, decoder.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	var all document
	var current *element
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			require.Nil(t, current)
			return all
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{name: token.Name.Local, attrs: map[string]string{}, parent: current, text: &strings.Builder{}}
			for _, attr := range token.Attr {
				e.attrs[attr.Name.Local] = attr.Value
			}
			all = append(all, e)
			current = e
		case xml.EndElement:
			require.NotNil(t, current, "</%s>", token.Name.Local)
			require.Equal(t, current.name, token.Name.Local)
			current = current.parent
		case xml.CharData:
			for e := current; e != nil; e = e.parent {
				e.text.Write(token)
			}
		}
	}
}

// all returns the elements with a name and, if given, with pairs of attributes and values.
func (d document) all(name string, attrs ...string) []*element {
	var found []*element
	for _, e := range d {
		fits := e.name == name
		for i := 0; i+1 < len(attrs); i += 2 {
			fits = fits && e.attrs[attrs[i]] == attrs[i+1]
		}
		if fits {
			found = append(found, e)
		}
	}
	return found
}

// one returns the only matching element.
func (d document) one(t *testing.T, name string, attrs ...string) *element {
	t.Helper()
	found := d.all(name, attrs...)
	require.Len(t, found, 1, "%s %q", name, attrs)
	return found[0]
}

// words returns the text of an element, with single spaces.
func (e *element) words() string { return strings.Join(strings.Fields(e.text.String()), " ") }

// fields returns the values that a form sends if the user presses the button with the given
// value, or the one without a value, and changes nothing.
func (d document) fields(form *element, button string) url.Values {
	values := url.Values{}
	for _, e := range d {
		if e.within("form") != form && (e.attrs["form"] == "" || e.attrs["form"] != form.attrs["id"]) {
			continue
		}
		name, value := e.attrs["name"], e.attrs["value"]
		_, checked := e.attrs["checked"]
		switch {
		case name == "" || e.name != "input" && (e.name != "button" || value != button):
		case e.attrs["type"] == "checkbox" && !checked:
		default:
			values.Add(name, value)
		}
	}
	return values
}
