package crashtest_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/schedule"
)

var storedFor = flag.Duration("crashtest.stored", 4*time.Second, "how long TestStoredSchedules takes")

const storedVariable = "CRASHTEST_STORED_SCHEDULES"

// storedSpecs are the stored schedules. Nothing is dropped, however long a process takes to start.
func storedSpecs() map[string]management.ScheduleSpec {
	specs := map[string]management.ScheduleSpec{}
	for name, every := range map[string]time.Duration{"second": time.Second, "slow": 1700 * time.Millisecond} {
		specs[name] = management.ScheduleSpec{
			Every: management.Duration(every), CatchUp: schedule.CatchUpAll, ScheduledJob: management.ScheduledJob{Type: taskType.Name},
		}
	}
	return specs
}

// scheduleManager returns the manager of the stored schedules of a queue, and their runner.
func scheduleManager(t *testing.T, q amboy.Queue) (management.ScheduleManager, *management.ScheduleRunner) {
	t.Helper()
	i, err := management.NewInspector(q)
	require.NoError(t, err)
	runner, err := management.NewScheduleRunner(i)
	require.NoError(t, err)
	return i.(management.ScheduleManager), runner
}

// TestStoredScheduler is run by the processes of TestStoredSchedules. It ends as TestWorker does.
func TestStoredScheduler(t *testing.T) {
	encoded := os.Getenv(storedVariable)
	if encoded == "" {
		t.Skip("run only by another test")
	}
	var config scheduleConfig
	require.NoError(t, json.Unmarshal([]byte(encoded), &config))
	registerJobs(openJournal(t, config.Dir, config.Name))
	q := newQueue(t, config.Store.open(t), config.Lease)
	require.NoError(t, q.Start(context.WithoutCancel(t.Context())))
	_, runner := scheduleManager(t, q)
	require.NoError(t, runner.Start(context.WithoutCancel(t.Context())))
	fmt.Println(saysReady)
	_, err := io.Copy(io.Discard, os.Stdin)
	require.NoError(t, err)
	runner.Close(context.Background())
	closeQueue(t, q)
}

// Processes that run stored schedules are killed. The job of each tick runs, and again only if the
// process that ran it was killed.
func TestStoredSchedules(t *testing.T) { onEachStore(t, testStoredSchedules) }

func testStoredSchedules(t *testing.T, newStore func(*testing.T) store) {
	t.Logf("-crashtest.seed=%d -crashtest.stored=%s", *seed, *storedFor)
	config := scheduleConfig{Store: newStore(t), Dir: t.TempDir(), Lease: scheduleLease}
	q := newQueue(t, config.Store.open(t), config.Lease)
	manager, _ := scheduleManager(t, q)
	stored, ok := queue.StoreOf(q)
	require.True(t, ok)
	tenant := stored.Queues()[0]
	begins := map[string]time.Time{}
	for name, spec := range storedSpecs() {
		made, err := manager.CreateSchedule(t.Context(), tenant, name, spec)
		require.NoError(t, err)
		begins[name] = made.Created
	}
	start := func(i, n int) *process {
		config.Name = fmt.Sprintf("stored-%d-%d", i, n)
		encoded, err := json.Marshal(config)
		require.NoError(t, err)
		p, err := startProcess(t, config.Name, "TestStoredScheduler", storedVariable+"="+string(encoded), nil)
		require.NoError(t, err)
		t.Cleanup(p.kill)
		return p
	}
	const processes, kills = 2, 3
	live := make([]*process, processes)
	for i := range live {
		live[i] = start(i, 0)
	}
	killed := map[string]bool{}
	random := rand.New(rand.NewPCG(*seed, 0))
	for n := range kills {
		<-time.After(*storedFor / (kills + 1))
		i := random.IntN(processes)
		killed[live[i].name] = true
		live[i].kill()
		live[i] = start(i, n+1)
	}
	// On a busy machine processes take seconds to start.
	settled := time.Now()
	for name, spec := range storedSpecs() {
		ticks, err := spec.Ticks()
		require.NoError(t, err)
		at := ticks.Next(begins[name])
		for !at.After(settled) {
			at = ticks.Next(at)
		}
		awaitRun(t, config.Dir, schedule.TickID(name, at), 1)
	}
	// Paused schedules put no more jobs.
	ends := map[string]time.Time{}
	for name := range begins {
		_, err := manager.PauseSchedule(t.Context(), tenant, name, true)
		require.NoError(t, err)
		ends[name] = time.Now()
	}
	awaitIdle(t, q)
	for _, p := range live {
		require.NoError(t, p.stdin.Close())
		<-p.exited
		require.NoError(t, p.exit, "%s\n%s", p.name, &p.output)
	}
	closeQueue(t, q)
	requireStoredTicks(t, readJournals(t, config.Dir, "stored-"), killed, begins, ends)
}

func requireStoredTicks(t *testing.T, events []event, killed map[string]bool, begins, ends map[string]time.Time) {
	t.Helper()
	runs := map[string][]string{} // the processes, by job
	for _, e := range events {
		if e.Kind == began {
			runs[e.Job] = append(runs[e.Job], e.Process)
		}
	}
	wanted := 0
	for name, spec := range storedSpecs() {
		ticks, err := spec.Ticks()
		require.NoError(t, err)
		var last time.Time // that ran: ticks just before the pause may have been dropped
		for at := ticks.Next(begins[name]); at.Before(ends[name]); at = ticks.Next(at) {
			if len(runs[schedule.TickID(name, at)]) > 0 {
				last = at
			}
		}
		for at := ticks.Next(begins[name]); !at.After(last); at = ticks.Next(at) {
			wanted++
			id := schedule.TickID(name, at)
			if !assert.NotEmpty(t, runs[id], "tick %s did not run", id) {
				continue
			}
			for _, process := range runs[id][:len(runs[id])-1] {
				assert.True(t, killed[process], "tick %s ran again although process %s was not killed: %s", id, process, runs[id])
			}
		}
	}
	assert.Greater(t, wanted, 3)
	t.Logf("%d ticks, %d processes killed", wanted, len(killed))
}
