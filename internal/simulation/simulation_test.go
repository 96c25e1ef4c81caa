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
	seed     = flag.Uint64("simulation.seed", 1, "the seed of the first world of TestWorlds")
	worlds   = flag.Int("simulation.worlds", 30, "how many worlds TestWorlds runs")
	runFor   = flag.Duration("simulation.for", 0, "how long TestWorlds runs worlds, instead of a number of them")
	steps    = flag.Bool("simulation.clocks", false, "let wall clocks jump")
	allLines = flag.Bool("simulation.all", false, "print all of the timeline of a failure")
)

func run(t *testing.T, opts simulation.Options) *simulation.Result {
	t.Helper()
	result, err := simulation.Run(opts)
	require.NoError(t, err)
	return result
}

// lastLines is how much of a timeline is printed.
const lastLines = 150

// fail prints what led to a violation.
func fail(t *testing.T, world uint64, result *simulation.Result) {
	t.Helper()
	events := result.Events
	if !*allLines {
		events = simulation.Concerning(events, result.Violation.Jobs...)
		events = events[max(0, len(events)-lastLines):]
	}
	require.NoError(t, simulation.Timeline(os.Stdout, result.Processes, events))
	t.Fatalf("seed %d: %s", world, result.Violation)
}

func TestWorlds(t *testing.T) {
	var total simulation.Counts
	var lasted time.Duration
	began := time.Now()
	world, last := *seed, *seed+uint64(*worlds)
	for ; world < last || time.Since(began) < *runFor; world++ {
		result := run(t, simulation.Options{Seed: world, ClockSteps: *steps})
		total.Add(result.Counts)
		lasted += result.Lasted
		if result.Violation != nil {
			fail(t, world, result)
		}
	}
	t.Logf("%d worlds, %s of virtual time in %s: %s", world-*seed, lasted, time.Since(began), total)
	assert.NotZero(t, total.Kills)
	assert.NotZero(t, total.Suspensions)
	assert.NotZero(t, total.Partitions)
	assert.NotZero(t, total.FailedCalls)
}
