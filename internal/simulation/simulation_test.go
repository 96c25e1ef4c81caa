package simulation_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/simulation"
)

var (
	seed     = flag.Uint64("simulation.seed", 1, "the seed of the first world of TestWorlds")
	worlds   = flag.Int("simulation.worlds", 20, "the number of worlds that TestWorlds runs")
	runFor   = flag.Duration("simulation.for", 0, "how long TestWorlds runs worlds, instead of a fixed number")
	allLines = flag.Bool("simulation.all", false, "print the whole timeline of a failure")
)

func run(t *testing.T, opts simulation.Options) *simulation.Result {
	t.Helper()
	result, err := simulation.Run(opts)
	require.NoError(t, err)
	return result
}

// lastLines is the number of printed lines of a timeline.
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

// failing returns the first world in which the planted fault is found.
func failing(t *testing.T) (opts simulation.Options, result *simulation.Result) {
	t.Helper()
	for opts = (simulation.Options{Seed: 1, Deaf: true}); opts.Seed < 20; opts.Seed++ {
		if result = run(t, opts); result.Violation != nil {
			return opts, result
		}
	}
	require.Fail(t, "the fault was not found")
	return opts, nil
}

func TestAFailingSeedIsReplayed(t *testing.T) {
	opts, first := failing(t)
	want := simulation.Hash(first.Events)
	for range 20 {
		again := run(t, opts)
		assert.Equal(t, first.Violation, again.Violation)
		assert.Equal(t, want, simulation.Hash(again.Events))
	}
	t.Logf("seed %d: %d events", opts.Seed, len(first.Events))
}

func TestAWholeWorldIsReplayed(t *testing.T) {
	first := run(t, simulation.Options{Seed: 2})
	for range 2 {
		again := run(t, simulation.Options{Seed: 2})
		assert.Equal(t, simulation.Hash(first.Events), simulation.Hash(again.Events))
	}
}

func TestTimelineHasALinePerEventAndAColumnPerProcess(t *testing.T) {
	_, result := failing(t)
	var out strings.Builder
	require.NoError(t, simulation.Timeline(&out, result.Processes, result.Events))
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Len(t, lines, 1+len(result.Events))
	for i, e := range result.Events {
		column := strings.Index(lines[0], "store")
		if e.Process != simulation.Store {
			column = strings.Index(lines[0], fmt.Sprint("process ", e.Process))
		}
		require.Equal(t, e.String(), lines[i+1][column:])
	}
	relevant := simulation.Concerning(result.Events, result.Violation.Jobs...)
	assert.NotEmpty(t, relevant)
	assert.Less(t, len(relevant), len(result.Events))
}

// TestWorlds runs several processes per world: they are killed, suspended and cut off, calls fail or
// never return, and clocks jump. -simulation.seed=N -simulation.worlds=1 repeats a world.
func TestWorlds(t *testing.T) {
	var total simulation.Counts
	var lasted time.Duration
	began := time.Now()
	world, last := *seed, *seed+uint64(*worlds)
	for ; world < last || time.Since(began) < *runFor; world++ {
		result := run(t, simulation.Options{Seed: world, ClockSteps: world%2 == 1})
		total.Add(result.Counts)
		lasted += result.Lasted
		if result.Violation != nil {
			fail(t, world, result)
		}
	}
	t.Logf("%d worlds, %s of virtual time in %s: %s", world-*seed, lasted, time.Since(began), total)
	if *worlds < 20 && *runFor == 0 {
		return // a few worlds do not have all faults
	}
	assert.NotZero(t, total.Ahead)
	assert.NotZero(t, total.Kills)
	assert.NotZero(t, total.Suspensions)
	assert.NotZero(t, total.Partitions)
	assert.NotZero(t, total.FailedCalls)
	assert.NotZero(t, total.ClockSteps)
}
