package dashboard

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/mongodb/amboy/management"
)

// noticeFields are added to the address that a form redirects to, so that the page there can
// report what was done. A link can't forge a message: "told" must be in a cookie, too.
var noticeFields = []string{"did", "done", "skipped", "told"}

const (
	// didBefore is the result of a form that was already sent by an earlier request.
	didBefore    = "sent-before"
	noticeCookie = "amboy-told"
	// noticeTime is how long a page shows a message.
	noticeTime = 5 * time.Minute
)

// withNotice adds the result of a form to an address. The cookie has the path of all pages,
// because only the browser knows the prefix.
func withNotice(w http.ResponseWriter, r *http.Request, address, did string, done, skipped int) string {
	told := rand.Text()
	http.SetCookie(w, &http.Cookie{
		Name: noticeCookie, Value: told, Path: "/", MaxAge: int(noticeTime.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	})
	query := url.Values{"did": {did}, "done": {strconv.Itoa(done)}, "skipped": {strconv.Itoa(skipped)}, "told": {told}}
	return address + "?" + query.Encode()
}

// didOnce returns the result of a form that puts a job.
func didOnce(did string, created management.Created) string {
	if created.Repeated {
		return didBefore
	}
	return did
}

// notice returns the message for the result of a form; empty if the request is not what the form
// redirected to.
func notice(r *http.Request) string {
	query := r.URL.Query()
	told, err := r.Cookie(noticeCookie)
	if err != nil || told.Value == "" || told.Value != query.Get("told") {
		return ""
	}
	did := query.Get("did")
	switch did {
	case didBefore:
		return "The form was sent more than once. This is the job that it created."
	case "control":
		return "The controls of the queue were changed."
	case "create":
		return "The job was created."
	case "edit":
		if query.Get("done") == "0" {
			return "Nothing was changed."
		}
		return "The job was changed."
	}
	if text, ok := scheduleNotices[did]; ok {
		return text
	}
	texts, found := actionTexts[management.ActionKind(did)]
	done, err := strconv.Atoi(query.Get("done"))
	skipped, err2 := strconv.Atoi(query.Get("skipped"))
	if !found || err != nil || err2 != nil {
		return ""
	}
	switch {
	case done == 0 && skipped == 0:
		return fmt.Sprintf("%s: no jobs were selected.", texts.label)
	case done == 0:
		return fmt.Sprintf("%s: %s left unchanged.", texts.label, jobs(skipped))
	case skipped == 0:
		return fmt.Sprintf("%s: %s %s.", texts.label, jobs(done), texts.done)
	default:
		return fmt.Sprintf("%s: %s %s; %s left unchanged.", texts.label, jobs(done), texts.done, jobs(skipped))
	}
}

// jobs formats a number of jobs with the verb "was" or "were".
func jobs(n int) string {
	if n == 1 {
		return "1 job was"
	}
	return number(n) + " jobs were"
}
