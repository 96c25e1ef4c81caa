// Package drivertest is the suite that every driver passes. It runs the whole
// life of a job, its races and its faults through the calls of driver.Driver,
// and compares random histories with a simple model of what a driver does.
package drivertest

import (
	"testing"

	"github.com/mongodb/amboy/queue/driver"
)

// rule is one thing that a driver must do.
type rule struct {
	name  string
	check func(f *fixture)
}

// groups are the rules, by what they are about.
var groups = []struct {
	name  string
	rules []rule
}{
	{"Insert", insertRules},
	{"Claim", claimRules},
	{"Scopes", scopeRules},
	{"Edges", edgeRules},
	{"Extend", extendRules},
	{"Complete", completeRules},
	{"Release", releaseRules},
	{"RecoverStale", recoverRules},
	{"Retry", retryRules},
	{"EndRetry", endRetryRules},
	{"Save", saveRules},
	{"Get", getRules},
	{"Attempts", attemptsRules},
	{"List", listRules},
	{"Stats", statsRules},
	{"Context", contextRules},
	{"Close", closeRules},
	{"Races", raceRules},
	{"Notifier", notifierRules},
}

// Run runs the suite as subtests of t, each named by the rule that it checks, on
// drivers that open returns. open must return a new driver with an empty store
// each time; the suite closes it. Rules about optional interfaces that the
// driver does not implement are skipped.
//
// Run it with -race. It takes seconds; testing.Short makes it shorter. The
// random histories are named by their seed, so that -run repeats one.
func Run(t *testing.T, open func(t *testing.T) driver.Driver) {
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			for _, r := range group.rules {
				t.Run(r.name, func(t *testing.T) { r.check(newFixture(t, open)) })
			}
		})
	}
	t.Run("Histories", func(t *testing.T) { runHistories(t, open) })
}
