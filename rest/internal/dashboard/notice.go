package dashboard

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/mongodb/amboy/management"
)

// noticeFields are added to the address that a form redirects to, so that the page there can
// report what was done. They contain no free text, so that a link can't inject a message.
var noticeFields = []string{"did", "done", "skipped"}

// withNotice adds the result of a form to an address.
func withNotice(address, did string, done, skipped int) string {
	query := url.Values{"did": {did}, "done": {strconv.Itoa(done)}, "skipped": {strconv.Itoa(skipped)}}
	return address + "?" + query.Encode()
}

// notice returns the message for the result of a form; empty if the address contains none.
func notice(query url.Values) string {
	did := query.Get("did")
	if did == "control" {
		return "The controls of the queue were changed."
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
