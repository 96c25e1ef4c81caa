package driver

import "regexp"

// legacyBookkeeping matches what a legacy retry handler adds to the errors of a job whose
// retry it ends.
var legacyBookkeeping = regexp.MustCompile(`^attempt \d+ to enqueue retrying job: `)

// LastError is the last of a job's own errors, which lists show and Query.Error
// searches; empty if there is none. An error of a legacy retry handler counts only if
// it is the only one.
func LastError(errors []string) string {
	n := len(errors)
	if n > 1 && legacyBookkeeping.MatchString(errors[n-1]) {
		n--
	}
	if n == 0 {
		return ""
	}
	return errors[n-1]
}
