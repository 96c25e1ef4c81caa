package queue_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

// checker keeps its own record of the jobs of a queue, and collects violations of the
// queue's promises. Jobs have at most two attempts. It is safe for concurrent use.
type checker struct {
	jobs   sync.Map // ID to *checkedJob
	scopes sync.Map // scope to the ID of the job that runs with it

	offered   atomic.Int64 // Puts that started
	accepted  atomic.Int64 // Puts that returned without an error
	retries   atomic.Int64 // runs that asked for a retry
	completed atomic.Int64 // the highest count that Stats returned

	mu     sync.Mutex
	faults []string
}

type checkedJob struct {
	mayExpire bool
	accepted  atomic.Bool
	refused   atomic.Bool
	running   atomic.Bool
	asked     atomic.Bool // whether a run asked for a retry
	ended     atomic.Bool
	runs      [2]atomic.Int64 // by attempt
}

func (c *checker) faultf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

// found returns the violations.
func (c *checker) found() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.faults
}

func (c *checker) job(id string) *checkedJob {
	j, ok := c.jobs.Load(id)
	if !ok {
		c.faultf("job %q was never put", id)
		return &checkedJob{}
	}
	return j.(*checkedJob)
}

// offer records that a job is about to be put.
func (c *checker) offer(id string, mayExpire bool) {
	c.jobs.Store(id, &checkedJob{mayExpire: mayExpire})
	c.offered.Add(1)
}

// answer records the result of Put.
func (c *checker) answer(id string, err error) {
	j := c.job(id)
	if err != nil {
		j.refused.Store(true)
		return
	}
	j.accepted.Store(true)
	c.accepted.Add(1)
}

// begin records that an attempt of a job runs.
func (c *checker) begin(id string, attempt int, scopes []string) {
	j := c.job(id)
	if !j.running.CompareAndSwap(false, true) {
		c.faultf("job %q runs twice at once", id)
	}
	if j.runs[attempt].Add(1) > 1 {
		c.faultf("attempt %d of job %q ran twice", attempt, id)
	}
	if attempt > 0 && !j.asked.Load() {
		c.faultf("job %q runs again and did not ask for it", id)
	}
	if j.refused.Load() {
		c.faultf("job %q was refused and runs", id)
	}
	if j.ended.Load() {
		c.faultf("job %q had ended and runs", id)
	}
	for _, scope := range scopes {
		if other, held := c.scopes.LoadOrStore(scope, id); held {
			c.faultf("scope %q has the holders %q and %q", scope, other, id)
		}
	}
}

// finish records that a run is over.
func (c *checker) finish(id string, scopes []string) {
	for _, scope := range scopes {
		c.scopes.CompareAndDelete(scope, id)
	}
	c.job(id).running.Store(false)
}

// retry records that a run asks for a retry.
func (c *checker) retry(id string) {
	c.retries.Add(1)
	c.job(id).asked.Store(true)
}

// end records that the queue reported the final end of a job.
func (c *checker) end(id string) {
	j := c.job(id)
	j.ended.Store(true)
	if j.running.Load() {
		c.faultf("job %q had ended and runs", id)
	}
}

// observe reads Stats while jobs run, and checks the counts.
func (c *checker) observe(read func() amboy.QueueStats) {
	accepted, completed := c.accepted.Load(), c.completed.Load()
	stats := read()
	limit := c.offered.Load() + c.retries.Load()
	if stats.Total != stats.Pending+stats.Running+stats.Completed {
		c.faultf("the counts do not add up: %s", stats)
	}
	if stats.Blocked > stats.Pending || stats.Retrying > stats.Completed {
		c.faultf("a part is larger than the whole: %s", stats)
	}
	if total := int64(stats.Total); total < accepted || total > limit {
		c.faultf("%d jobs had been accepted, and with retries there can be %d, and Stats are: %s", accepted, limit, stats)
	}
	if int64(stats.Completed) < completed {
		c.faultf("%d attempts had ended, and Stats are: %s", completed, stats)
	}
	for seen := c.completed.Load(); seen < int64(stats.Completed); seen = c.completed.Load() {
		c.completed.CompareAndSwap(seen, int64(stats.Completed))
	}
}

// settle compares the records with Stats and the jobs that the queue lists, once nothing
// runs any more.
func (c *checker) settle(stats amboy.QueueStats, infos []amboy.JobInfo) {
	c.scopes.Range(func(scope, id any) bool {
		c.faultf("job %q still has scope %q", id, scope)
		return true
	})
	unfinished, replaced, expired := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, info := range infos {
		expired[info.ID] = expired[info.ID] || info.State == amboy.StateExpired
		if !info.State.IsFinal() {
			unfinished[info.ID] = true
			replaced[info.ID] = info.Retry.CurrentAttempt > 0
		}
	}
	c.jobs.Range(func(key, value any) bool {
		id, j := key.(string), value.(*checkedJob)
		if j.runs[1].Load() > 0 {
			replaced[id] = true
		}
		c.settleJob(id, j, unfinished[id], expired[id])
		return true
	})
	attempts := 0
	for _, again := range replaced {
		if again {
			attempts++
		}
	}
	if stats.Running != 0 {
		c.faultf("nothing runs any more, and Stats are: %s", stats)
	}
	if accepted := int(c.accepted.Load()); stats.Total != accepted+attempts {
		c.faultf("%d jobs were accepted, %d were retried, and Stats are: %s", accepted, attempts, stats)
	}
}

func (c *checker) settleJob(id string, j *checkedJob, unfinished, expired bool) {
	ran := j.runs[0].Load() > 0
	switch {
	case j.running.Load():
		c.faultf("job %q still runs", id)
	case !j.accepted.Load() && (ran || unfinished):
		c.faultf("job %q was not accepted, and is there", id)
	case j.ended.Load() && unfinished:
		c.faultf("job %q had ended, and is there as unfinished", id)
	case !j.accepted.Load() || unfinished || j.ended.Load():
	case !ran && !j.mayExpire:
		c.faultf("job %q was lost", id)
	case j.asked.Load() && j.runs[1].Load() == 0 && (!j.mayExpire || !expired):
		// The run that asked for the retry may have been interrupted, and the job may
		// have expired after it was handed back.
		c.faultf("the retry of job %q was lost", id)
	}
}

// TestCheckerFindsFaults checks that the checker would find violations by a queue.
func TestCheckerFindsFaults(t *testing.T) {
	accept := func(c *checker, ids ...string) {
		for _, id := range ids {
			c.offer(id, false)
			c.answer(id, nil)
		}
	}
	run := func(c *checker, id string, attempt int, scopes ...string) {
		c.begin(id, attempt, scopes)
		c.finish(id, scopes)
	}
	counts := func(pending, running, completed int) amboy.QueueStats {
		return amboy.QueueStats{
			Pending: pending, Running: running, Completed: completed, Total: pending + running + completed,
		}
	}
	observe := func(c *checker, stats amboy.QueueStats) { c.observe(func() amboy.QueueStats { return stats }) }
	for name, test := range map[string]struct {
		happens func(c *checker)
		fault   string
	}{
		"nothing": {happens: func(c *checker) {
			accept(c, "a", "b", "c")
			observe(c, counts(3, 0, 0))
			c.offer("d", true)
			observe(c, counts(4, 0, 0))
			c.answer("d", nil)
			c.offer("refused", false)
			c.answer("refused", amboy.ErrQueueClosed)
			observe(c, counts(4, 0, 0))
			c.begin("a", 0, []string{"s"})
			c.begin("b", 0, []string{"t"})
			c.retry("b")
			c.finish("b", []string{"t"})
			c.finish("a", []string{"s"})
			run(c, "b", 1, "s", "t")
			c.end("b")
			observe(c, counts(1, 1, 3))
			c.settle(counts(1, 0, 4), []amboy.JobInfo{{ID: "c", State: amboy.StatePending}, {ID: "a", State: amboy.StateSucceeded}})
		}},
		"a second holder of a scope": {
			happens: func(c *checker) {
				accept(c, "a", "b")
				c.begin("a", 0, []string{"s"})
				c.begin("b", 0, []string{"t", "s"})
			},
			fault: `scope "s" has the holders "a" and "b"`,
		},
		"a second run": {
			happens: func(c *checker) {
				accept(c, "a")
				run(c, "a", 0)
				run(c, "a", 0)
			},
			fault: `attempt 0 of job "a" ran twice`,
		},
		"two runs at once": {
			happens: func(c *checker) {
				accept(c, "a")
				c.begin("a", 0, nil)
				c.begin("a", 1, nil)
			},
			fault: `job "a" runs twice at once`,
		},
		"a retry that was not asked for": {
			happens: func(c *checker) {
				accept(c, "a")
				run(c, "a", 0)
				run(c, "a", 1)
			},
			fault: `job "a" runs again and did not ask for it`,
		},
		"a run after the end": {
			happens: func(c *checker) {
				accept(c, "a")
				c.end("a")
				run(c, "a", 0)
			},
			fault: `job "a" had ended and runs`,
		},
		"an end before the end of the run": {
			happens: func(c *checker) {
				accept(c, "a")
				c.begin("a", 0, nil)
				c.end("a")
			},
			fault: `job "a" had ended and runs`,
		},
		"a run of a job that was not put": {
			happens: func(c *checker) { run(c, "a", 0) },
			fault:   `job "a" was never put`,
		},
		"a run of a refused job": {
			happens: func(c *checker) {
				c.offer("a", false)
				c.answer("a", amboy.ErrQueueClosed)
				run(c, "a", 0)
			},
			fault: `job "a" was refused and runs`,
		},
		"a lost job": {
			happens: func(c *checker) {
				accept(c, "a", "b")
				run(c, "a", 0)
				c.settle(counts(0, 0, 2), nil)
			},
			fault: `job "b" was lost`,
		},
		"a lost retry": {
			happens: func(c *checker) {
				accept(c, "a")
				c.begin("a", 0, nil)
				c.retry("a")
				c.finish("a", nil)
				c.settle(counts(0, 0, 1), nil)
			},
			fault: `the retry of job "a" was lost`,
		},
		"a job that comes back": {
			happens: func(c *checker) {
				accept(c, "a")
				run(c, "a", 0)
				c.end("a")
				c.settle(counts(1, 0, 0), []amboy.JobInfo{{ID: "a", State: amboy.StatePending}})
			},
			fault: `job "a" had ended, and is there as unfinished`,
		},
		"a refused job that stays": {
			happens: func(c *checker) {
				c.offer("a", false)
				c.answer("a", amboy.ErrQueueClosed)
				c.settle(counts(0, 0, 0), []amboy.JobInfo{{ID: "a", State: amboy.StateBlocked}})
			},
			fault: `job "a" was not accepted, and is there`,
		},
		"a job that never stops": {
			happens: func(c *checker) {
				accept(c, "a")
				c.begin("a", 0, nil)
				c.settle(counts(0, 0, 1), nil)
			},
			fault: `job "a" still runs`,
		},
		"a scope that is not released": {
			happens: func(c *checker) {
				accept(c, "a")
				c.begin("a", 0, []string{"s"})
				c.settle(counts(0, 0, 1), nil)
			},
			fault: `job "a" still has scope "s"`,
		},
		"counts that do not add up": {
			happens: func(c *checker) {
				accept(c, "a")
				observe(c, amboy.QueueStats{Total: 1})
			},
			fault: "the counts do not add up",
		},
		"a count larger than the total": {
			happens: func(c *checker) {
				accept(c, "a")
				observe(c, amboy.QueueStats{Pending: 1, Blocked: 2, Total: 1})
			},
			fault: "a part is larger than the whole",
		},
		"too few jobs": {
			happens: func(c *checker) {
				accept(c, "a", "b")
				observe(c, counts(1, 0, 0))
			},
			fault: "2 jobs had been accepted",
		},
		"too many jobs": {
			happens: func(c *checker) {
				accept(c, "a")
				observe(c, counts(1, 0, 1))
			},
			fault: "1 jobs had been accepted",
		},
		"fewer ended jobs than before": {
			happens: func(c *checker) {
				accept(c, "a", "b")
				observe(c, counts(0, 0, 2))
				observe(c, counts(1, 0, 1))
			},
			fault: "2 attempts had ended",
		},
		"one job too many at the end": {
			happens: func(c *checker) {
				accept(c, "a")
				run(c, "a", 0)
				c.settle(counts(0, 0, 2), nil)
			},
			fault: "1 jobs were accepted, 0 were retried",
		},
		"a job that runs at the end": {
			happens: func(c *checker) {
				accept(c, "a")
				run(c, "a", 0)
				c.settle(counts(0, 1, 0), nil)
			},
			fault: "nothing runs any more",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := &checker{}
			test.happens(c)
			if test.fault == "" {
				assert.Empty(t, c.found())
				return
			}
			require.NotEmpty(t, c.found())
			assert.Contains(t, c.found()[0], test.fault)
		})
	}
}
