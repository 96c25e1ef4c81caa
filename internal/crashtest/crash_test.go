package crashtest_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/simulation"
)

var (
	seed  = flag.Uint64("crashtest.seed", 1, "the seed of the plans of jobs, kills and stops")
	kills = flag.Int("crashtest.kills", 2, "the number of processes that TestCrash kills")
	lease = flag.Duration("crashtest.lease", time.Second, "the lock timeout of the queues of TestCrash")
	puts  = flag.Duration("crashtest.puts", 0, "how long a process of TestCrash waits between two Puts at most; 0 means 240ms, and more suits a slow server")
	fails = flag.Int("crashtest.fails", 20, "TestCrash makes one in this many calls of the store fail; 0 means none")
	slack = flag.Duration("crashtest.slack", 5*time.Second, "how much longer than promised a busy machine may take to run a job again")
)

// TestCrash lets processes run a plan of jobs. They are killed one after the other with SIGKILL and
// replaced, and calls of the store fail. Each process writes a journal, which a checker compares with
// the plan and the store.
func TestCrash(t *testing.T) {
	onEachStore(t, testCrash)
}

func testCrash(t *testing.T, newStore func(*testing.T) store) {
	t.Logf("-crashtest.seed=%d -crashtest.kills=%d -crashtest.lease=%s -crashtest.puts=%s", *seed, *kills, *lease, *puts)
	h := crash(t, setup{
		Store: newStore(t),
		Plan:  planOptions{Seed: *seed, Kills: *kills, Pause: *puts, Scopes: 8, LongWork: *lease * 5 / 4},
		Lease: *lease,

		FailOneIn: *fails,
	})
	requireKept(t, h)
	requireJudged(t, h)
	describe(t, h)
	for _, r := range recoveries(h) {
		if !r.waits {
			assert.LessOrEqual(t, r.takes, *lease+heartbeat(*lease)+*slack, "from the kill to the next run of job %s", r.job)
		}
	}
}

// crash carries out a plan and returns the history.
func crash(t *testing.T, s setup) *history {
	t.Helper()
	dir := t.TempDir()
	p := newPlan(s.Plan)
	f := newFleet(t, s, dir)
	for _, k := range p.kills {
		<-time.After(k.after)
		f.kill(k.process)
	}
	f.awaitAll("all its jobs", func(p *process) <-chan struct{} { return p.produced })

	q := newQueue(t, s.Store.open(t), s.Lease)
	defer closeQueue(t, q)
	awaitIdle(t, q)
	putLast(t, q, p, openJournal(t, dir, "last"))
	awaitIdle(t, q)
	f.stop()
	return &history{
		plan:   p,
		lease:  s.Lease,
		events: readJournals(t, dir, ""),
		deaths: f.deaths,
		stored: storedIn(t, q, p),
	}
}

// awaitIdle waits until all jobs of a queue have ended.
func awaitIdle(t *testing.T, q amboy.Queue) {
	t.Helper()
	awaitIdleFor(t, q, patience)
}

func awaitIdleFor(t *testing.T, q amboy.Queue, atMost time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	began := time.Now()
	require.True(t, amboy.Wait(ctx, q), "jobs have not ended: %s", q.Stats(t.Context()))
	t.Logf("all jobs have ended after %s", time.Since(began).Round(time.Millisecond))
}

// putLast puts a job for each scope. All scopes must be free.
func putLast(t *testing.T, q amboy.Queue, p *plan, j *journal) {
	t.Helper()
	last := producer{queue: func() amboy.Queue { return q }, journal: j}
	for _, one := range p.lastTasks() {
		p.tasks[one.ID] = one
		last.put(t.Context(), []*task{one})
	}
}

// storedIn reads the jobs of a plan from a queue.
func storedIn(t *testing.T, q amboy.Queue, p *plan) map[string]ending {
	t.Helper()
	stored := map[string]ending{}
	for id := range p.tasks {
		if j, ok := q.Get(t.Context(), id); ok {
			stored[id] = ending{amboy.NewJobInfo(j).State, j.RetryInfo().CurrentAttempt, j.(*taskJob).Result}
		}
	}
	return stored
}

// requireKept fails if a promise was broken.
func requireKept(t *testing.T, h *history) {
	t.Helper()
	const most = 20
	violations := check(h)
	if len(violations) == 0 {
		return
	}
	var text strings.Builder
	for _, v := range violations[:min(most, len(violations))] {
		fmt.Fprintln(&text, v)
	}
	require.Failf(t, "promises were broken", "%d times:\n%s", len(violations), &text)
}

// requireJudged fails if the checker of the simulation finds a broken promise.
func requireJudged(t *testing.T, h *history) {
	t.Helper()
	broken, events := judge(h)
	if broken == nil {
		return
	}
	require.NoError(t, simulation.Timeline(os.Stdout, processes+1, simulation.Concerning(events, broken.Jobs...)))
	require.Fail(t, "a promise was broken", "%s", broken)
}

// describe logs what happened.
func describe(t *testing.T, h *history) {
	t.Helper()
	counts := map[eventKind]int{}
	for _, e := range h.events {
		counts[e.Kind]++
	}
	t.Logf("%d kills, %d jobs, %v", len(h.deaths), len(h.plan.tasks), counts)
	t.Logf("the last run of the plan ended %s after the last kill", sinceLastKill(h).Round(time.Millisecond))
	var free, all []time.Duration
	for _, r := range recoveries(h) {
		all = append(all, r.takes)
		if !r.waits {
			free = append(free, r.takes)
		}
	}
	t.Logf("from a kill to the next run: %s; without jobs that waited for others: %s", distribution(all), distribution(free))
}

// sinceLastKill returns the time from the last kill to the last end of a run of the plan. The jobs of
// putLast do not count: they are put when all others have ended.
func sinceLastKill(h *history) time.Duration {
	var death, end time.Time
	for _, at := range h.deaths {
		death = latest(death, at)
	}
	for _, e := range h.events {
		if e.Kind == ended && !strings.HasPrefix(e.Job, lastPrefix) {
			end = latest(end, e.At)
		}
	}
	return end.Sub(death)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// distribution describes sorted durations.
func distribution(sorted []time.Duration) string {
	if len(sorted) == 0 {
		return "none"
	}
	at := func(part float64) time.Duration {
		return sorted[int(part*float64(len(sorted)-1))].Round(time.Millisecond)
	}
	return fmt.Sprintf("%d runs, from %s to %s, p50 %s, p90 %s, p99 %s", len(sorted), at(0), at(1), at(0.5), at(0.9), at(0.99))
}
