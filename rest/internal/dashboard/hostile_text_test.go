package dashboard_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/hostiletest"
)

// nasty contains characters that reverse the text after them, begin a line or are
// invisible, and Hebrew, which is legitimately written from right to left.
const nasty = "a\u202eb\u2066c\u200f\x1b[31m\u009b\r\n\u2028\x7f\U000E0001 שלום \x01z"

// fieldValues matches the values of fields. They are sent again and so must be exact. A
// browser shows each in its own box.
var fieldValues = regexp.MustCompile(`((?:<input|<option|<button)[^>]*? value=")[^"]*"`)

// queueIDs matches attributes that browsers do not show.
var queueIDs = regexp.MustCompile(`<tr id="[^"]*"`)

func TestAttackATextReordersWhatAPageShows(t *testing.T) {
	s := newSite(&hostiletest.Inspector{Inspector: newFake(), Text: nasty, Known: "billing"}, "")
	for _, address := range addresses {
		t.Run(address, func(t *testing.T) {
			w := s.get(address)
			require.Equal(t, http.StatusOK, w.Code, w.Body.String())
			checkReadable(t, w.Body.String())
		})
	}
	for name, page := range map[string]string{
		"preview":      s.post("/jobs/actions", url.Values{"action": {"cancel"}, "reason": {nasty}, "which": {"all"}, "type": {nasty}, "step": {"preview"}}).Body.String(),
		"confirmation": s.post("/queues/billing/jobs/failed/actions", url.Values{"action": {"delete"}}).Body.String(),
		"problem":      s.get("/queues/" + url.PathEscape(nasty[:len(nasty)-1]) + "?color=" + url.QueryEscape(nasty)).Body.String(),
		"bad filter":   s.get("/jobs?state=" + url.QueryEscape(nasty)).Body.String(),
		"filter":       s.get("/jobs?type=" + url.QueryEscape(nasty) + "&queue=" + url.QueryEscape(nasty)).Body.String(),
	} {
		t.Run(name, func(t *testing.T) { checkReadable(t, page) })
	}
}

// checkReadable checks that everything a page shows is printable, and that untrusted texts
// don't change the direction of the text around them.
func checkReadable(t *testing.T, page string) {
	t.Helper()
	page = fieldValues.ReplaceAllString(page, `$1"`)
	page = queueIDs.ReplaceAllString(page, `<tr`)
	for _, r := range page {
		require.True(t, r == '\n' || unicode.IsPrint(r), "%U is in %q", r, around(page, r))
	}
	all := parse(t, page)
	for _, e := range all {
		innermost := !slices.ContainsFunc(all, func(child *element) bool {
			return child.parent == e && strings.Contains(child.text.String(), "שלום")
		})
		if innermost && strings.Contains(e.text.String(), "שלום") {
			isolates := []string{"bdi", "title", "text"}
			assert.Contains(t, isolates, e.name, "<%s> shows %q as it is", e.name, e.text.String())
		}
	}
}

// around returns the part of a page around a character.
func around(page string, r rune) string {
	at := strings.IndexRune(page, r)
	return page[max(0, at-80):min(len(page), at+20)]
}
