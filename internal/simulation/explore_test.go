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
	full      = flag.Bool("simulation.full", false, "also explore the small worlds that take minutes")
	maxStates = flag.Int("simulation.states", 0, "the maximum number of states explored per small world; 0 means all")
)

// A run of a job takes longer than a heartbeat.
const (
	smallLease = 4 * time.Second
	smallRun   = 3 * time.Second / 2
)

// The jobs of the small worlds: they share a scope, and one is retried once.
func plainJob() *simulation.Task {
	return &simulation.Task{ID: "b", Queue: "q", Scopes: []string{"s"}, Attempts: 1, Lasts: smallRun}
}

func retriedJob() *simulation.Task {
	return &simulation.Task{ID: "a", Queue: "q", Scopes: []string{"s"}, Attempts: 2, Failures: 1, Lasts: smallRun}
}

// TestSmallWorlds takes small worlds through every order of requests, answers, timers and faults.
func TestSmallWorlds(t *testing.T) {
	plain, retried := plainJob(), retriedJob()
	for _, test := range []struct {
		name      string
		processes int
		tasks     []*simulation.Task
		faults    int
		short     bool // runs may also return at once
		slow      bool
	}{
		{"a job, a process and a fault", 1, []*simulation.Task{plain}, 1, true, false},
		{"a job, two processes and a fault", 2, []*simulation.Task{plain}, 1, true, false},
		{"two jobs, one of them retried, and two processes", 2, []*simulation.Task{retried, plain}, 0, true, false},
		{"a retried job, a process and two faults", 1, []*simulation.Task{retried}, 2, true, true},
		{"a job, two processes and two faults", 2, []*simulation.Task{plain}, 2, true, true},
		{"two jobs, one of them retried, two processes and a fault", 2, []*simulation.Task{retried, plain}, 1, true, true},
		{"two jobs, one of them retried, two processes and two faults", 2, []*simulation.Task{retried, plain}, 2, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.slow && !*full {
				return
			}
			explore(t, simulation.Small{
				Processes: test.processes, Tasks: test.tasks, Lease: smallLease, Faults: test.faults, Short: test.short, MaxStates: *maxStates,
			})
		})
	}
}

func explore(t *testing.T, small simulation.Small) {
	t.Helper()
	began := time.Now()
	explored, err := simulation.Explore(small)
	require.NoError(t, err)
	t.Logf("%d states, %d steps, %d ends in %s; to the end: %t",
		explored.States, explored.Steps, explored.Ends, time.Since(began), explored.Complete)
	if explored.Violation != nil {
		require.NoError(t, simulation.Timeline(os.Stdout, small.Processes, explored.Events))
		t.Fatal(explored.Violation)
	}
	assert.True(t, explored.Complete || small.MaxStates > 0)
}
