package river

import (
	"flag"
	"testing"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
)

var priorities = flag.Int("priorities", 2_000, "the number of different priorities")

// TestPriorities runs jobs that all have different priorities, and then jobs of the lowest one, which
// claims find behind all of those that no job has any more.
func TestPriorities(t *testing.T) {
	ctx := t.Context()
	o := newOurs(ctx, t, 8).(*ours)
	put := func(priority func(i int) int) {
		for at := 0; at < *priorities; at += 1000 {
			list := make([]amboy.Job, min(1000, *priorities-at))
			for i := range list {
				j, err := noop.New(o.argsNow(time.Time{}), job.Priority(priority(at+i)))
				check(t, err)
				list[i] = j
			}
			check(t, o.queue.PutMany(ctx, list))
		}
	}
	put(func(i int) int { return i })
	check(t, o.start(ctx))
	for round, what := range []string{"all different", "the lowest one"} {
		began := time.Now()
		if round > 0 {
			put(func(int) int { return -1 })
		}
		awaitEnds(ctx, t, o, *priorities, (round+1)**priorities)
		rate := float64(*priorities) / time.Since(began).Seconds()
		o.latencies()
		t.Logf("%d priorities, %s: %.0f jobs/s; claims %v; load %s", *priorities, what, rate, o.traced.claimTimes(), load())
	}
	finish(ctx, t, o)
}
