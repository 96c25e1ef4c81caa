package simulation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/simulation"
)

// A process whose clock has not counted a suspension has some time to end its runs. The checker
// forgot that if the process was suspended again within that time.
func TestAProcessThatIsSuspendedAgainKeepsItsTimeToEndRuns(t *testing.T) {
	for name, second := range map[string]struct {
		resumed time.Duration
		rule    simulation.Rule
	}{
		"within that time": {resumed: 20500 * time.Millisecond},
		"after that time":  {resumed: 22 * time.Second, rule: simulation.LeaseOver},
	} {
		t.Run(name, func(t *testing.T) {
			checker := simulation.NewChecker(true)
			checker.Expect(&simulation.Task{ID: "j", Queue: "q", Attempts: 1})
			run := simulation.Event{Job: "j", Lease: 1}
			observe := func(at time.Duration, kind simulation.Kind, until time.Duration) {
				e := run
				e.At, e.Kind, e.Until = at, kind, until
				checker.Observe(e)
			}
			observe(0, simulation.Accepted, 0)
			observe(0, simulation.Leased, 10*time.Second)
			observe(0, simulation.Began, 0)
			observe(time.Second, simulation.Suspended, 0)
			observe(20*time.Second, simulation.Resumed, 21*time.Second)
			observe(20100*time.Millisecond, simulation.Suspended, 0)
			observe(second.resumed, simulation.Resumed, 0)
			observe(second.resumed, simulation.ContextEnded, 0)
			var broken simulation.Rule
			if v := checker.End(second.resumed); v != nil {
				broken = v.Rule
			}
			if second.rule == "" {
				assert.NotEqual(t, simulation.LeaseOver, broken)
			} else {
				assert.Equal(t, second.rule, broken)
			}
		})
	}
}

// A worker may get a run just before its process is suspended, and begin it when the process is
// resumed. The checker did not give such a run the time that it gives one that had begun.
func TestARunThatBeginsWhenItsProcessIsResumedHasTimeToEnd(t *testing.T) {
	for name, test := range map[string]struct {
		begins, ends time.Duration
		rule         simulation.Rule
	}{
		"it begins and ends in time": {begins: 20 * time.Second, ends: 20500 * time.Millisecond},
		"it ends too late":           {begins: 20 * time.Second, ends: 22 * time.Second, rule: simulation.LeaseOver},
		"it begins too late":         {begins: 22 * time.Second, ends: 22 * time.Second, rule: simulation.RunsAgain},
	} {
		t.Run(name, func(t *testing.T) {
			checker := simulation.NewChecker(true)
			checker.Expect(&simulation.Task{ID: "j", Queue: "q", Attempts: 1})
			observe := func(at time.Duration, process, lease int, kind simulation.Kind, until time.Duration) {
				checker.Observe(simulation.Event{Job: "j", At: at, Process: process, Lease: lease, Kind: kind, Until: until, State: amboy.StateSucceeded})
			}
			observe(0, 0, 0, simulation.Accepted, 0)
			observe(0, 0, 1, simulation.Leased, 10*time.Second)
			observe(0, 0, 0, simulation.Suspended, 0)
			observe(11*time.Second, 1, 2, simulation.Leased, 21*time.Second)
			observe(11*time.Second, 1, 2, simulation.Began, 0)
			observe(12*time.Second, 1, 2, simulation.Returned, 0)
			observe(12*time.Second, 1, 2, simulation.Ended, 0)
			observe(20*time.Second, 0, 0, simulation.Resumed, 21*time.Second)
			observe(test.begins, 0, 1, simulation.Began, 0)
			observe(test.ends, 0, 1, simulation.ContextEnded, 0)
			var broken simulation.Rule
			if v := checker.End(test.ends); v != nil {
				broken = v.Rule
			}
			assert.Equal(t, test.rule, broken)
		})
	}
}
