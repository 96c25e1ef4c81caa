package dashboard

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const themeCookie = "amboy-theme"

// themeOf is what the browser chose before: light, dark, or empty for that of its system.
func themeOf(r *http.Request) string {
	cookie, err := r.Cookie(themeCookie)
	if err != nil || (cookie.Value != "light" && cookie.Value != "dark") {
		return ""
	}
	return cookie.Value
}

// theme stores a choice in a cookie, whose path is that of the site: it is left out, so
// that the browser, which knows the prefix, takes the directory of the request.
func (d *Dashboard) theme(w http.ResponseWriter, r *http.Request) error {
	err := known(r.PostForm, "theme", "back")
	if err != nil {
		return err
	}
	cookie := &http.Cookie{Name: themeCookie, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: r.TLS != nil}
	switch theme := r.PostForm.Get("theme"); theme {
	case "light", "dark":
		cookie.Value = theme
		cookie.MaxAge = int((365 * 24 * time.Hour).Seconds())
	case "system":
		cookie.MaxAge = -1
	default:
		return invalid("theme", theme, "must be light, dark or system")
	}
	back := r.PostForm.Get("back")
	if !isHere(back) {
		return invalid("back", back, "must be a page of this site")
	}
	http.SetCookie(w, cookie)
	redirect(w, r, back)
	return nil
}

// maxBackBytes is the length of the longest address to go back to: longer ones are none
// that a browser has come from.
const maxBackBytes = 8 << 10

// isHere is true for an address from the top of the site on.
func isHere(address string) bool {
	u, err := url.Parse("./" + address)
	if err != nil || len(address) > maxBackBytes || strings.HasPrefix(address, "/") || strings.Contains(address, "\\") {
		return false
	}
	return !slices.ContainsFunc(strings.Split(u.EscapedPath(), "/"), func(part string) bool {
		return strings.ReplaceAll(strings.ToLower(part), "%2e", ".") == ".."
	})
}
