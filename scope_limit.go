package amboy

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxScopeLimit is the largest number of jobs that may share a limited scope.
const MaxScopeLimit = 1000

const (
	limitBegin = " (at most "
	limitEnd   = ")"
)

// LimitScope returns the name of a limited scope. Of the jobs in a queue that name a scope with
// this key, at most limit run at a time, in all processes that share the store. The name is used
// like that of any scope, for instance with job.Scopes or SetScopes.
//
// A job that finds as many others running is blocked, and delays no other job. When one of them
// ends, however it ends, the waiting job with the highest priority runs next; among equals, the
// one that was put first. A job of a process that died counts until its lease ends.
//
// Jobs may name different limits for one key. Each begins only while fewer jobs with the key run
// than its own limit says; one with a larger limit may begin before one with a smaller limit. In
// MongoDB, jobs with different limits that processes claim at the same moment keep to the largest
// of them only.
//
// The key must be UTF-8 and not empty, and the limit must be from 1 to MaxScopeLimit. A limited
// scope is not taken at Put, and a job names a key once. Put refuses other jobs with an
// *InvalidJobError. A plain scope that is named like the key is another scope.
func LimitScope(key string, limit int) string {
	return key + limitBegin + strconv.Itoa(limit) + limitEnd
}

// ScopeLimit returns the key and the limit with which LimitScope made the name of a scope. The key
// of any other scope is its name, and its limit is 1.
func ScopeLimit(scope string) (key string, limit int, limited bool) {
	rest, ends := strings.CutSuffix(scope, limitEnd)
	if !ends {
		return scope, 1, false
	}
	at := strings.LastIndex(rest, limitBegin)
	if at < 0 {
		return scope, 1, false
	}
	number := rest[at+len(limitBegin):]
	limit, err := strconv.Atoi(number)
	if err != nil || strconv.Itoa(limit) != number {
		return scope, 1, false
	}
	return scope[:at], limit, true
}

// validateScopes returns the field, the value and the rule of the first scope of a job that no
// queue accepts; the rule is empty if there is none.
func validateScopes(scopes, enqueueScopes []string) (field, value, rule string) {
	var keys map[string]bool
	for _, scope := range scopes {
		key, limit, limited := ScopeLimit(scope)
		switch {
		case scope == "":
			return "scope", scope, "must not be empty"
		case !utf8.ValidString(scope):
			return "scope", scope, "must be UTF-8"
		case !limited:
			continue
		case key == "":
			return "scope", scope, "must have a key before its limit"
		case limit < 1 || limit > MaxScopeLimit:
			return "scope", scope, fmt.Sprintf("must have a limit from 1 to %d", MaxScopeLimit)
		case keys[key]:
			return "scope", scope, "must be the job's only scope with this key"
		}
		if keys == nil {
			keys = map[string]bool{}
		}
		keys[key] = true
	}
	for _, scope := range enqueueScopes {
		if _, _, limited := ScopeLimit(scope); limited {
			return "enqueue scope", scope, "must not be a limited scope"
		}
	}
	return "", "", ""
}
