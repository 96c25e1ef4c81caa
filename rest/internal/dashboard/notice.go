package dashboard

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/mongodb/amboy/management"
)

// noticeFields are what a form adds to the address that it redirects to, so that the
// page there can tell what was done. They have no text, so that nobody can make a page
// say something by a link to it.
var noticeFields = []string{"did", "done", "skipped"}

// noticed adds to an address what was done.
func noticed(address, did string, done, skipped int) string {
	query := url.Values{"did": {did}, "done": {strconv.Itoa(done)}, "skipped": {strconv.Itoa(skipped)}}
	return address + "?" + query.Encode()
}

// notice is what was done, in words; empty where the address does not tell.
func notice(query url.Values) string {
	did := query.Get("did")
	if did == "control" {
		return "What is set for the queue was changed."
	}
	words, found := actionWords[management.ActionKind(did)]
	done, err := strconv.Atoi(query.Get("done"))
	skipped, err2 := strconv.Atoi(query.Get("skipped"))
	if !found || err != nil || err2 != nil {
		return ""
	}
	switch {
	case done == 0 && skipped == 0:
		return fmt.Sprintf("%s: there was no job to do it to.", words.label)
	case done == 0:
		return fmt.Sprintf("%s: nothing to do. %s left as they are.", words.label, jobs(skipped))
	case skipped == 0:
		return fmt.Sprintf("%s: %s %s.", words.label, jobs(done), words.done)
	default:
		return fmt.Sprintf("%s: %s %s; %s left as they are.", words.label, jobs(done), words.done, jobs(skipped))
	}
}

// jobs is a number of jobs and the verb that goes with it.
func jobs(n int) string {
	if n == 1 {
		return "1 job was"
	}
	return number(n) + " jobs were"
}
