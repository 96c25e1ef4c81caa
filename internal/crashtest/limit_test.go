package crashtest_test

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

var (
	limitTime  = flag.Duration("crashtest.limit", time.Second, "how long TestLimitHoldsWhileProcessesDie counts the jobs that run under a limit")
	limitOf    = flag.String("crashtest.limit-of", "key", "what is limited: a key of jobs, or their type")
	limitKills = flag.Duration("crashtest.limit-kills", 500*time.Millisecond, "how often TestLimitHoldsWhileProcessesDie kills a process")
	// limitLease is so long that each process of a busy machine renews its leases in time, and ends its runs
	// before another one takes over: both runs would count as live.
	limitLease = flag.Duration("crashtest.limit-lease", 20*time.Second, "the lock timeout of TestLimitHoldsWhileProcessesDie; a long run on a quiet machine needs a short one, for the leases of killed processes to run out")
)

const (
	limitedProcesses = 8
	limitedTo        = 5
	// limitedVariable makes a process of these tests run the jobs of a limit.
	limitedVariable = "CRASHTEST_LIMITED"
	saysBegun       = "begun: "
	saysEnded       = "ended: "
)

// limited prints when it begins and ends.
var limited = job.Define("crashtest-limited", 1, func(ctx context.Context, _ string) error {
	fmt.Println(saysBegun + time.Now().Format(time.RFC3339Nano))
	select {
	case <-time.After(500 * time.Millisecond): // what the job does
	case <-ctx.Done():
	}
	fmt.Println(saysEnded + time.Now().Format(time.RFC3339Nano))
	return ctx.Err()
})

// TestLimitedProcess is a process that runs jobs until its standard input is closed.
func TestLimitedProcess(t *testing.T) { runUntilClosed(t, limitedVariable, workers, *limitLease) }

// TestLimitHoldsWhileProcessesDie kills a process every half second, unless a flag says how often, and starts another,
// while more jobs with a limit wait than may run. The leases of the limit, also those of killed processes, and
// the live runs are never more than the limit. In a long run, nearly as many leases as it allows
// are held all the time.
func TestLimitHoldsWhileProcessesDie(t *testing.T) {
	onEachStore(t, func(t *testing.T, newStore func(t *testing.T) store) {
		s := newStore(t)
		putLimited(t, s, 20*int(limitTime.Seconds()+2))
		config, err := json.Marshal(s)
		require.NoError(t, err)
		var all, live []*process
		start := func() {
			p, startErr := startProcess(t, fmt.Sprint("process ", len(all)), "TestLimitedProcess", limitedVariable+"="+string(config), nil)
			require.NoError(t, startErr)
			t.Cleanup(p.kill)
			all, live = append(all, p), append(live, p)
		}
		for range limitedProcesses {
			start()
		}
		d := s.open(t)
		defer func() { require.NoError(t, d.Close(context.Background())) }()
		for held(t, d) < limitedTo {
			time.Sleep(time.Millisecond) // until enough processes have started
		}
		died := map[*process]time.Time{}
		var leases float64
		samples := 0
		next := time.Now().Add(*limitKills)
		for end := time.Now().Add(*limitTime); time.Now().Before(end); samples++ {
			n := held(t, d)
			require.LessOrEqual(t, n, limitedTo, "leases")
			leases += float64(n)
			if time.Now().After(next) {
				next = next.Add(*limitKills)
				at := rand.IntN(len(live))
				p := live[at]
				live = slices.Delete(live, at, at+1)
				p.kill()
				died[p] = time.Now()
				start()
			}
			time.Sleep(5 * time.Millisecond) // between samples
		}
		for _, p := range live {
			p.kill()
			died[p] = time.Now()
		}
		most := mostLive(t, all, died)
		mean := leases / float64(samples)
		t.Logf("%d processes, limit %d, %d deaths in %s: %.2f leases on average of %d samples, at most %d live runs",
			limitedProcesses, limitedTo, len(all)-limitedProcesses, *limitTime, mean, samples, most)
		assert.LessOrEqual(t, most, limitedTo, "live runs")
		if *limitTime >= 10*time.Second {
			assert.GreaterOrEqual(t, mean, limitedTo-0.1)
		}
	})
}

// held counts the leases of the limit.
func held(t *testing.T, d driver.Driver) int {
	t.Helper()
	query := driver.Query{Scope: amboy.LimitScope("crash", limitedTo), Holding: true}
	if *limitOf == "type" {
		query = driver.Query{Types: []string{limited.Type().Name}, States: []amboy.JobState{amboy.StateRunning}}
	}
	page, err := d.Find(t.Context(), query, driver.PageRequest{Limit: 100})
	require.NoError(t, err)
	return len(page.Records)
}

// putLimited puts jobs with the limit.
func putLimited(t *testing.T, s store, n int) {
	t.Helper()
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: s.open(t), CloseDriver: true, NumWorkers: 1})
	require.NoError(t, err)
	defer q.Close(context.Background())
	limit := []job.Option{job.Limit("crash", limitedTo)}
	if *limitOf == "type" {
		require.NoError(t, amboy.LimitType(t.Context(), q, limited.Type().Name, amboy.TypeLimit{MaxRunning: limitedTo}))
		limit = nil
	}
	jobs := make([]amboy.Job, n)
	for i := range jobs {
		jobs[i], err = limited.New(fmt.Sprint(i), limit...)
		require.NoError(t, err)
	}
	require.NoError(t, q.PutMany(t.Context(), jobs))
}

// mostLive returns the largest number of runs that were live at a time. A run is live from its
// beginning until it ends or its process has died.
func mostLive(t *testing.T, all []*process, died map[*process]time.Time) (most int) {
	t.Helper()
	type step struct {
		at time.Time
		by int
	}
	var steps []step
	for _, p := range all {
		open := 0
		for line := range strings.Lines(p.output.String()) {
			by := 1
			text, is := strings.CutPrefix(strings.TrimSpace(line), saysBegun)
			if !is {
				by = -1
				text, is = strings.CutPrefix(strings.TrimSpace(line), saysEnded)
			}
			at, err := time.Parse(time.RFC3339Nano, text)
			if !is || err != nil {
				continue // it was killed while it printed
			}
			open += by
			steps = append(steps, step{at, by})
		}
		for range open {
			steps = append(steps, step{died[p], -1})
		}
	}
	require.NotEmpty(t, steps)
	slices.SortFunc(steps, func(a, b step) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.by, b.by)) })
	live := 0
	for _, s := range steps {
		live += s.by
		most = max(most, live)
	}
	return most
}
