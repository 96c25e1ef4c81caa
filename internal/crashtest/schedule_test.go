package crashtest_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/schedule"
)

var (
	dayLength  = flag.Duration("crashtest.day", 3*time.Second, "the real duration of the day of TestSchedule")
	schedulers = flag.Int("crashtest.schedulers", 3, "the number of processes that run the schedules of TestSchedule, and the number of kills")
)

const (
	// scheduleLease is so long that no lease of a live process runs out, even on a busy
	// machine.
	scheduleLease = 5 * time.Second
	// rememberedTicks is the number of jobs that a file keeps, of about 150. A process
	// that starts late knows of the others only by the marks of the queue.
	rememberedTicks = 50
)

// The day has 25 hours: in Berlin the clocks are put back at three.
var (
	berlin, berlinErr = time.LoadLocation("Europe/Berlin")
	dayBegins         = time.Date(2030, 10, 27, 0, 0, 0, 0, berlin)
	dayEnds           = time.Date(2030, 10, 28, 0, 0, 0, 0, berlin)
)

// scheduleConfig is the configuration of a process that runs schedules.
type scheduleConfig struct {
	Store     store
	Dir, Name string
	Began     time.Time     // when the day began, on the clock of the system
	Day       time.Duration // how long it takes
	Lease     time.Duration
}

const scheduleVariable = "CRASHTEST_SCHEDULE"

// simulated is a queue whose clock runs through a day in seconds, and then stands still.
type simulated struct {
	amboy.RetryableQueue
	config scheduleConfig
}

// speed returns how much faster than the system's clock the clock runs.
func (q simulated) speed() float64 {
	return float64(dayEnds.Sub(dayBegins)) / float64(q.config.Day)
}

// Now implements amboy.Clock.
func (q simulated) Now() time.Time {
	now := dayBegins.Add(time.Duration(float64(time.Since(q.config.Began)) * q.speed()))
	if now.Before(dayEnds) {
		return now
	}
	return dayEnds
}

// Mark implements amboy.QueueMarker.
func (q simulated) Mark(ctx context.Context, name string, at time.Time) (time.Time, error) {
	return q.RetryableQueue.(amboy.QueueMarker).Mark(ctx, name, at)
}

func openSimulated(t *testing.T, config scheduleConfig) simulated {
	t.Helper()
	return simulated{newQueue(t, config.Store.open(t), config.Lease), config}
}

// newScheduler returns a scheduler with two schedules: one that continues while the
// clocks are put back, and one whose time then occurs twice.
func newScheduler(t *testing.T, q simulated) *schedule.Scheduler {
	t.Helper()
	s, err := schedule.New(q, schedule.Options{})
	require.NoError(t, err)
	for name, expression := range map[string]string{"frequent": "*/10 * * * *", "nightly": "30 2 * * *"} {
		when, cronErr := schedule.Cron(expression, berlin.String())
		require.NoError(t, cronErr)
		require.NoError(t, s.Add(name, when, func(time.Time) (amboy.Job, error) { return newJob(&task{}) }, schedule.CatchUpAll))
	}
	return s
}

// TestScheduler is run by the processes that run schedules. It ends as TestWorker does.
func TestScheduler(t *testing.T) {
	encoded := os.Getenv(scheduleVariable)
	if encoded == "" {
		t.Skip("run only by another test")
	}
	var config scheduleConfig
	require.NoError(t, json.Unmarshal([]byte(encoded), &config))
	registerJobs(openJournal(t, config.Dir, config.Name))
	q := openSimulated(t, config)
	require.NoError(t, q.Start(context.WithoutCancel(t.Context())))
	fmt.Println(saysReady)

	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	s := newScheduler(t, q)
	running.Go(func() { keep(ctx, t, s, q) })
	_, err := io.Copy(io.Discard, os.Stdin)
	require.NoError(t, err)
	stop()
	running.Wait()
	closeQueue(t, q)
}

// keep puts the jobs of the day.
func keep(ctx context.Context, t *testing.T, s *schedule.Scheduler, q simulated) {
	for ctx.Err() == nil {
		next, err := s.PutDue(ctx)
		if next.After(dayEnds) && err == nil {
			fmt.Println(saysProduced)
			return
		}
		if err != nil && ctx.Err() == nil {
			t.Logf("trying again: %v", err)
		}
		timer := time.NewTimer(time.Duration(float64(next.Sub(q.Now())) / q.speed()))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// wantedTicks returns the IDs of the jobs of the day.
func wantedTicks() map[string]bool {
	wanted := map[string]bool{}
	for at := dayBegins.Add(10 * time.Minute); !at.After(dayEnds); at = at.Add(10 * time.Minute) {
		wanted["frequent@"+at.UTC().Format(time.RFC3339)] = true
	}
	wanted["nightly@2030-10-27T00:30:00Z"] = true // and not again at 01:30
	return wanted
}

// startScheduler starts a process.
func startScheduler(t *testing.T, config scheduleConfig) *process {
	t.Helper()
	encoded, err := json.Marshal(config)
	require.NoError(t, err)
	p, err := startProcess(t, config.Name, "TestScheduler", scheduleVariable+"="+string(encoded), nil)
	require.NoError(t, err)
	t.Cleanup(p.kill)
	return p
}

// TestSchedule kills processes that keep the same schedules for a day, one after the other. The job of
// each tick must have run once, or again only if the process that ran it was killed.
func TestSchedule(t *testing.T) {
	require.NoError(t, berlinErr)
	onEachStore(t, testSchedule)
}

func testSchedule(t *testing.T, newStore func(*testing.T) store) {
	t.Logf("-crashtest.seed=%d -crashtest.day=%s -crashtest.schedulers=%d", *seed, *dayLength, *schedulers)
	on := newStore(t)
	on.KeepFinished = rememberedTicks
	config := scheduleConfig{Store: on, Dir: t.TempDir(), Day: *dayLength, Lease: scheduleLease}
	beginDay(t, config)

	config.Began = time.Now()
	live := make([]*process, *schedulers)
	for i := range live {
		config.Name = fmt.Sprintf("scheduler-%d-0", i)
		live[i] = startScheduler(t, config)
	}
	killed := killSome(t, live, config)
	for _, p := range live {
		p.await(t, "the end of the day", p.produced)
	}
	q := openSimulated(t, config)
	defer closeQueue(t, q)
	awaitIdle(t, q)
	for _, p := range live {
		require.NoError(t, p.stdin.Close())
		<-p.exited
		require.NoError(t, p.exit, "%s\n%s", p.name, &p.output)
	}
	requireEachTickOnce(t, readJournals(t, config.Dir, "scheduler-"), killed)
}

// beginDay makes the ticks count from the beginning of the day, before any process runs.
func beginDay(t *testing.T, config scheduleConfig) {
	t.Helper()
	config.Began, config.Day = time.Now(), math.MaxInt64 // The clock stands still.
	q := openSimulated(t, config)
	_, err := newScheduler(t, q).PutDue(t.Context())
	require.NoError(t, err)
	closeQueue(t, q)
}

// killSome kills processes during the day and replaces them.
func killSome(t *testing.T, live []*process, config scheduleConfig) (killed map[string]bool) {
	t.Helper()
	killed = map[string]bool{}
	random := rand.New(rand.NewPCG(*seed, 0))
	// The last kill comes after the store has forgotten the first ticks.
	pause := config.Day * 4 / 5 / time.Duration(*schedulers)
	for n := range *schedulers {
		<-time.After(pause)
		i := random.IntN(len(live))
		killed[live[i].name] = true
		live[i].kill()
		config.Name = fmt.Sprintf("scheduler-%d-%d", i, n+1)
		live[i] = startScheduler(t, config)
	}
	return killed
}

// requireEachTickOnce requires that the job of each tick ran exactly once, or again only
// if the process that ran it was killed.
func requireEachTickOnce(t *testing.T, events []event, killed map[string]bool) {
	t.Helper()
	wanted := wantedTicks()
	runs := map[string][]string{} // the processes, by job
	for _, e := range events {
		if e.Kind == began {
			runs[e.Job] = append(runs[e.Job], e.Process)
		}
	}
	again := 0
	for id := range wanted {
		processes := runs[id]
		if !assert.NotEmpty(t, processes, "tick %s did not run", id) {
			continue
		}
		for _, process := range processes[:len(processes)-1] {
			again++
			assert.True(t, killed[process], "tick %s ran again although process %s was not killed: %s", id, process, processes)
		}
	}
	for id := range runs {
		assert.True(t, wanted[id], "unexpected tick %s", id)
	}
	t.Logf("%d ticks, %d processes killed, %d repeated runs", len(wanted), len(killed), again)
}
