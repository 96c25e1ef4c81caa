package crashtest_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
)

var slotTime = flag.Duration("crashtest.slots", 0, "how long TestSlotsOfALimitAreUsed measures; 0 does not measure")

const (
	slottedProcesses, slotsEach = 4, 10
	slottedLimit                = slottedProcesses * slotsEach
	slottedJob                  = 5 * time.Second
	// slottedVariable makes a process of these tests run the jobs.
	slottedVariable = "CRASHTEST_SLOTTED"
)

// slotted prints when it begins and ends, and takes slottedJob.
var slotted = job.Define("crashtest-slotted", 1, func(_ context.Context, id string) error {
	fmt.Println(saysBegun + id + " " + time.Now().Format(time.RFC3339Nano))
	<-time.After(slottedJob) // what the job does
	fmt.Println(saysEnded + id + " " + time.Now().Format(time.RFC3339Nano))
	return nil
})

// TestSlottedProcess is a process that runs jobs until its standard input is closed.
func TestSlottedProcess(t *testing.T) { runUntilClosed(t, slottedVariable, slotsEach, time.Minute) }

// TestSlotsOfALimitAreUsed measures which part of the time jobs run in the slots of a limit, which
// are as many as those of the processes.
func TestSlotsOfALimitAreUsed(t *testing.T) {
	if *slotTime == 0 {
		t.Skip("-crashtest.slots is not set")
	}
	onEachStore(t, func(t *testing.T, newStore func(t *testing.T) store) {
		s := newStore(t)
		putSlotted(t, s, slottedLimit*int(*slotTime/slottedJob+6))
		config, err := json.Marshal(s)
		require.NoError(t, err)
		var all []*process
		for i := range slottedProcesses {
			p, err := startProcess(t, fmt.Sprint("process ", i), "TestSlottedProcess", slottedVariable+"="+string(config), nil)
			require.NoError(t, err)
			t.Cleanup(p.kill)
			all = append(all, p)
		}
		<-time.After(*slotTime + 4*slottedJob) // some of which the processes need to start
		stopped := time.Now()
		var runs []slottedRun
		for _, p := range all {
			p.kill()
			runs = append(runs, p.slottedRuns(t)...)
		}
		require.GreaterOrEqual(t, len(runs), slottedLimit)
		slices.SortFunc(runs, func(a, b slottedRun) int { return a.begin.Compare(b.begin) })
		from := runs[slottedLimit-1].begin // all slots have begun
		to := from.Add(*slotTime)
		require.Truef(t, to.Before(stopped), "the processes were slow to start")
		var used time.Duration
		for _, r := range runs {
			used += max(0, earlier(r.end, to).Sub(later(r.begin, from)))
		}
		part := float64(used) / float64(slottedLimit**slotTime)
		t.Logf("%d processes of %d slots, limit %d, jobs of %s: %.2f%% of the slot time used in %s", slottedProcesses, slotsEach, slottedLimit, slottedJob, 100*part, *slotTime)
		assert.GreaterOrEqual(t, part, 0.97)
		assert.LessOrEqual(t, part, 1.0)
	})
}

func putSlotted(t *testing.T, s store, n int) {
	t.Helper()
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: s.open(t), CloseDriver: true, NumWorkers: 1})
	require.NoError(t, err)
	defer q.Close(context.Background())
	limit := []job.Option{job.Limit("slots", slottedLimit)}
	if *limitOf == "type" {
		require.NoError(t, amboy.LimitType(t.Context(), q, slotted.Type().Name, amboy.TypeLimit{MaxRunning: slottedLimit}))
		limit = nil
	}
	jobs := make([]amboy.Job, n)
	for i := range jobs {
		jobs[i], err = slotted.New(fmt.Sprint(i), limit...)
		require.NoError(t, err)
	}
	require.NoError(t, q.PutMany(t.Context(), jobs))
}

// slottedRun is a run of a job. One that was killed ends at the time of the kill, or later.
type slottedRun struct{ begin, end time.Time }

// slottedRuns returns the runs of an ended process.
func (p *process) slottedRuns(t *testing.T) []slottedRun {
	t.Helper()
	runs := map[string]*slottedRun{}
	for line := range strings.Lines(p.output.String()) {
		for _, says := range []string{saysBegun, saysEnded} {
			text, is := strings.CutPrefix(strings.TrimSpace(line), says)
			id, text, _ := strings.Cut(text, " ")
			at, err := time.Parse(time.RFC3339Nano, text)
			switch {
			case !is || err != nil: // it was killed while it printed
			case says == saysBegun:
				runs[id] = &slottedRun{begin: at, end: time.Now()}
			case runs[id] != nil:
				runs[id].end = at
			}
		}
	}
	all := make([]slottedRun, 0, len(runs))
	for _, r := range runs {
		all = append(all, *r)
	}
	return all
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
