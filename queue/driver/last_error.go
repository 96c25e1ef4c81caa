package driver

import "regexp"

// legacyBookkeeping matches the error that a legacy retry handler adds to a job when it
// ends the job's retry.
var legacyBookkeeping = regexp.MustCompile(`^attempt \d+ to enqueue retrying job: `)

// LastError returns the last of a job's own errors, which lists show and Query.Error
// searches. It is empty if there is none. The error of a legacy retry handler counts only
// if it is the only one.
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
