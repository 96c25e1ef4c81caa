package simulation_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/simulation"
)

var (
	full      = flag.Bool("simulation.full", false, "explore small worlds with up to two faults")
	maxStates = flag.Int("simulation.states", 0, "explore no more states than that")
	faults    = flag.Int("simulation.faults", 0, "explore with so many faults")
)

func explore(t *testing.T, small simulation.Small) {
	t.Helper()
	began := time.Now()
	explored, err := simulation.Explore(small)
	require.NoError(t, err)
	t.Logf("%d states, %d steps, %d ends in %s; complete: %t", explored.States, explored.Steps, explored.Ends, time.Since(began), explored.Complete)
	if explored.Violation != nil {
		require.NoError(t, simulation.Timeline(os.Stdout, small.Processes, explored.Events))
		t.Fatal(explored.Violation)
	}
	assert.True(t, explored.Complete || small.MaxStates > 0)
}

// twoJobs are two jobs that share a scope. The first is retried once.
func twoJobs() []*simulation.Task {
	return []*simulation.Task{
		{ID: "a", Queue: "q", Scopes: []string{"s"}, Attempts: 2, Failures: 1, Lasts: 3 * time.Second / 2},
		{ID: "b", Queue: "q", Scopes: []string{"s"}, Attempts: 1, Lasts: 3 * time.Second / 2},
	}
}

func TestSmallWorlds(t *testing.T) {
	explore(t, simulation.Small{Processes: 2, Tasks: twoJobs(), Lease: 4 * time.Second, Faults: *faults, MaxStates: *maxStates})
}
