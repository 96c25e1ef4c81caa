package dashboard

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const themeCookie = "amboy-theme"

// themeOf returns the theme that the browser chose: light, dark, or empty for the system's.
func themeOf(r *http.Request) string {
	cookie, err := r.Cookie(themeCookie)
	if err != nil || (cookie.Value != "light" && cookie.Value != "dark") {
		return ""
	}
	return cookie.Value
}

// theme stores a choice of theme in a cookie. The cookie has no path attribute, so that the
// browser, which knows the prefix, uses the directory of the request.
func (d *Dashboard) theme(w http.ResponseWriter, r *http.Request) error {
	err := refuseUnknown(r.PostForm, "theme", "back")
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
	if !isLocalAddress(back) {
		return invalid("back", back, "must be a page of this site")
	}
	http.SetCookie(w, cookie)
	redirect(w, r, back)
	return nil
}

// maxBackBytes is the maximum length of the address to return to. Browsers send no longer
// ones.
const maxBackBytes = 8 << 10

// isLocalAddress reports whether an address relative to the top of the site stays on the site.
func isLocalAddress(address string) bool {
	u, err := url.Parse("./" + address)
	if err != nil || len(address) > maxBackBytes || strings.HasPrefix(address, "/") || strings.Contains(address, "\\") {
		return false
	}
	return !slices.ContainsFunc(strings.Split(u.EscapedPath(), "/"), func(part string) bool {
		return strings.ReplaceAll(strings.ToLower(part), "%2e", ".") == ".."
	})
}
