// Package drivertest is the conformance suite for drivers. It runs the whole life of a
// job, its races and its faults through the calls of driver.Driver, and compares random
// histories with a simple model of a driver.
package drivertest

import (
	"flag"
	"slices"
	"strings"
	"testing"
)

var long = flag.Bool("drivertest.long", false, "run long races and many random histories in the driver conformance suite")

// rule is one thing that a driver must do.
type rule struct {
	name  string
	check func(f *fixture)
}

// group is a set of rules about one call or topic.
type group struct {
	name  string
	rules []rule
	needs []need
}

// basics are the rules that are also checked on the queue without a name.
var basics = []group{
	{name: "Insert", rules: insertRules},
	{name: "Claim", rules: claimRules},
	{name: "Except", rules: exceptRules},
	{name: "Scopes", rules: scopeRules},
	{name: "Limits", rules: limitRules, needs: []need{limits}},
	{name: "Edges", rules: edgeRules},
	{name: "Complete", rules: completeRules},
	{name: "Release", rules: releaseRules},
	{name: "Retry", rules: retryRules},
	{name: "NextAttempts", rules: nextRules, needs: []need{nextAttempts}},
	{name: "Get", rules: getRules},
	{name: "Attempts", rules: attemptsRules},
}

// races are the rules about concurrent calls.
var races = group{name: "Races", rules: raceRules}

// others are all other rules.
var others = []group{
	{name: "EndRetry", rules: endRetryRules},
	{name: "Extend", rules: extendRules},
	{name: "RecoverStale", rules: recoverRules},
	{name: "Clocks", rules: clockRules},
	{name: "Save", rules: saveRules},
	{name: "SetProgress", rules: progressRules},
	{name: "UniqueKeys", rules: uniqueRules},
	{name: "SeveralQueues", rules: severalQueuesRules},
	{name: "Queues", rules: queuesRules},
	{name: "Prune", rules: pruneRules, needs: []need{prunes}},
	{name: "Control", rules: controlRules},
	{name: "Rate", rules: rateRules},
	{name: "TypeLimits", rules: typeLimitRules},
	{name: "RateClock", rules: rateClockRules, needs: []need{hookStepClock}},
	{name: "Find", rules: findRules},
	{name: "Count", rules: countRules},
	{name: "Stats", rules: statsRules},
	{name: "Act", rules: actRules},
	{name: "Cancel", rules: cancelRules},
	{name: "RunNow", rules: runNowRules},
	{name: "Reschedule", rules: rescheduleRules},
	{name: "Prioritize", rules: prioritizeRules},
	{name: "Edit", rules: editRules},
	{name: "Park", rules: parkRules},
	{name: "Interruptions", rules: interruptionRules},
	{name: "Restart", rules: restartRules},
	{name: "Delete", rules: deleteRules},
	{name: "Forget", rules: forgetRules},
	{name: "TakeDuty", rules: dutyRules},
	{name: "Mark", rules: markRules},
	{name: "Notes", rules: noteRules},
	{name: "Context", rules: contextRules},
	{name: "Close", rules: closeRules},
	races,
	{name: "Subscribe", rules: subscribeRules},
	{name: "Notifications", rules: notificationRules, needs: []need{notifications}},
	{name: "Transactions", rules: transactionRules, needs: []need{transactions, hookBegin}},
	{name: "TransactionNotifications", rules: transactionNotificationRules, needs: []need{transactions, hookBegin, notifications}},
	{name: "TransactionalEnds", rules: transactionalEndRules, needs: []need{transactionalEnds, hookBegin}},
	{name: "Durable", rules: durableRules, needs: []need{durability, hookReopen}},
	{name: "Shared", rules: shareRules, needs: []need{hookShare}},
	{name: "SharedNotifications", rules: shareNotificationRules, needs: []need{hookShare, notifications}},
	{name: "SharedClocks", rules: takingTurns(clockRules), needs: []need{hookShare}},
	{name: "SharedRates", rules: takingTurns(rateRules), needs: []need{hookShare}},
	{name: "SharedRaces", rules: takingTurns(raceRules), needs: []need{hookShare}},
	{name: "Faults", rules: faultRules, needs: []need{hookBreak}},
	{name: "FaultNotifications", rules: faultNotificationRules, needs: []need{hookBreak, notifications}},
}

// Run runs the suite as subtests of t, each named by the rule that it checks. Rules for
// which the driver declares no feature, or the harness has no hook, are skipped; the last
// line of the log lists them.
//
// Run it with -race. The suite is short by default. -drivertest.long compares 150
// histories of each kind, gives each race a second, and skips nothing. A history is named
// by its seed, so that -run repeats it.
func Run(t *testing.T, h Harness) {
	features := h.features(t)
	var skipped []string
	run := func(name string, needs []need, test func(t *testing.T)) {
		reason := h.missing(features, needs)
		if reason != "" {
			skipped = append(skipped, name+" ("+reason+")")
			test = func(t *testing.T) { t.Skip(reason) }
		}
		t.Run(name, test)
	}
	groups := slices.Concat(basics, others)
	if h.Variant && !*long {
		groups = append(slices.Clone(basics), races)
	}
	for _, g := range groups {
		run(g.name, g.needs, func(t *testing.T) { g.check(t, h, queueName) })
	}
	if h.Variant && !*long {
		return
	}
	run("Unnamed", nil, func(t *testing.T) {
		unnamed := basics
		if !*long {
			unnamed = basics[:2]
		}
		for _, g := range unnamed {
			if h.missing(features, g.needs) == "" {
				t.Run(g.name, func(t *testing.T) { g.check(t, h, "") })
			}
		}
	})
	run("Histories", nil, func(t *testing.T) { runHistories(t, h, (*fixture).alone) })
	run("SharedHistories", []need{hookShare}, func(t *testing.T) { runHistories(t, h, (*fixture).takingTurns) })
	if len(skipped) > 0 {
		t.Logf("skipped: %s", strings.Join(skipped, ", "))
	}
}

// check checks the rules on a queue, each on its own store.
func (g group) check(t *testing.T, h Harness, queue string) {
	for _, r := range g.rules {
		t.Run(r.name, func(t *testing.T) {
			f := newFixture(t, h)
			f.queue = queue
			r.check(f)
		})
	}
}
