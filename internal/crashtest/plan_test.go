package crashtest_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

// processes is the number of processes that share one store.
const processes = 4

// task describes a job of the plan.
type task struct {
	ID string
	// Work is how long each of its runs takes.
	Work     time.Duration
	Priority int
	// Failures is the number of its attempts that fail and request a retry, which waits
	// for RetryWait.
	Failures  int
	RetryWait time.Duration
	// Fails is true if the attempt after those fails for good.
	Fails bool
	// Scopes are all scopes that the job takes. EnqueueScope is the one that it takes
	// when it is put, or empty.
	Scopes       []string
	EnqueueScope string
	// Edges name jobs that the same process puts.
	Edges        []string
	RunOnFailure bool
}

// put is a group of tasks that are put together.
type put struct {
	at    time.Duration // since the load began
	tasks []*task
}

// kill is the kill of one process.
type kill struct {
	after   time.Duration // since the kill before it
	process int
}

// ending describes how a job ends.
type ending struct {
	State   amboy.JobState
	Attempt int
	Result  string
}

// planOptions are the parameters of a plan.
type planOptions struct {
	Seed  uint64
	Kills int
	// Load is the minimum time for which jobs are put. They are put until after the last
	// kill.
	Load time.Duration
	// Pause is how long a process waits between two Puts at most. If it is zero, that is putPause.
	Pause time.Duration
	// Scopes is the number of scopes that the jobs share.
	Scopes int
	// LongWork is how long some jobs take. It is longer than a lease.
	LongWork time.Duration
}

// plan is the plan of a test: its tasks and kills.
type plan struct {
	puts  [processes][]put // by process
	kills []kill
	tasks map[string]*task
}

// The parameters of a plan. Times are maximums; on average they are half as long.
const (
	killPause     = 1200 * time.Millisecond
	putPause      = 240 * time.Millisecond
	workTime      = 100 * time.Millisecond
	retryWait     = 200 * time.Millisecond
	putTogether   = 3
	maxFailures   = 2
	maxEdges      = 2
	edgeDistance  = 20 // how far back an edge may reach
	enqueueScopes = 2  // for each process
)

// newPlan returns a plan. The same options give the same plan.
func newPlan(opts planOptions) *plan {
	p := &plan{tasks: map[string]*task{}}
	random := rand.New(rand.NewPCG(opts.Seed, 1))
	lasts := time.Duration(0)
	for range opts.Kills {
		k := kill{after: upTo(random, killPause), process: random.IntN(processes)}
		p.kills = append(p.kills, k)
		lasts += k.after
	}
	lasts = max(lasts, opts.Load)
	for process := range processes {
		w := &planner{
			random:  rand.New(rand.NewPCG(opts.Seed, uint64(2+process))),
			process: process,
			options: opts,
		}
		for at := time.Duration(0); at < lasts; at += upTo(w.random, cmp.Or(opts.Pause, putPause)) {
			added := put{at: at, tasks: w.tasksOfOnePut()}
			p.puts[process] = append(p.puts[process], added)
			for _, t := range added.tasks {
				p.tasks[t.ID] = t
			}
		}
	}
	return p
}

func upTo(random *rand.Rand, longest time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(longest)) + 1)
}

// planner generates the tasks that one process puts.
type planner struct {
	random  *rand.Rand
	process int
	options planOptions
	made    int
	// edges are the tasks that others may depend on: tasks that no held scope keeps from
	// being put.
	edges []string
}

func (w *planner) tasksOfOnePut() []*task {
	if w.oneIn(8) {
		return []*task{w.withEnqueueScope()}
	}
	tasks := make([]*task, 1+w.random.IntN(putTogether))
	for i := range tasks {
		tasks[i] = w.task()
		w.edges = append(w.edges, tasks[i].ID)
	}
	return tasks
}

func (w *planner) oneIn(n int) bool { return w.random.IntN(n) == 0 }

func (w *planner) task() *task {
	t := &task{
		ID:       fmt.Sprintf("job-%d-%05d", w.process, w.made),
		Work:     upTo(w.random, workTime),
		Priority: w.random.IntN(3),
		Fails:    w.oneIn(30),
	}
	w.made++
	if w.oneIn(80) {
		t.Work = w.options.LongWork
	}
	if w.oneIn(5) {
		t.Failures = 1 + w.random.IntN(maxFailures)
		t.RetryWait = time.Duration(w.random.IntN(2)) * upTo(w.random, retryWait)
	}
	if w.oneIn(6) {
		for _, n := range w.random.Perm(w.options.Scopes)[:1+w.random.IntN(2)] {
			t.Scopes = append(t.Scopes, fmt.Sprint("scope-", n))
		}
	}
	if len(w.edges) > 0 && w.oneIn(4) {
		t.Edges = w.someEdges()
		t.RunOnFailure = w.oneIn(2)
	}
	return t
}

func (w *planner) someEdges() []string {
	recent := w.edges[max(0, len(w.edges)-edgeDistance):]
	var edges []string
	for range 1 + w.random.IntN(maxEdges) {
		edges = append(edges, recent[w.random.IntN(len(recent))])
	}
	slices.Sort(edges)
	return slices.Compact(edges)
}

func (w *planner) withEnqueueScope() *task {
	t := w.task()
	t.EnqueueScope = fmt.Sprintf("enqueue-%d-%d", w.process, w.random.IntN(enqueueScopes))
	t.Scopes = append(t.Scopes, t.EnqueueScope)
	return t
}

// lastPrefix begins the IDs of lastTasks.
const lastPrefix = "last-"

// lastTasks returns tasks that take each scope of the plan once more. They can be put
// after all others have ended.
func (p *plan) lastTasks() []*task {
	names := map[string]bool{}
	for _, t := range p.tasks {
		for _, scope := range t.Scopes {
			names[scope] = true
		}
	}
	var last []*task
	for scope := range names {
		t := &task{ID: lastPrefix + scope, Scopes: []string{scope}, EnqueueScope: scope}
		last = append(last, t)
	}
	return last
}

// runs reports whether a job must run at all.
func (p *plan) runs(id string) bool {
	t := p.tasks[id]
	return t.RunOnFailure || !slices.ContainsFunc(t.Edges, func(edge string) bool {
		return p.ending(edge).State != amboy.StateSucceeded
	})
}

// ending returns how a job must end.
func (p *plan) ending(id string) ending {
	t := p.tasks[id]
	switch {
	case !p.runs(id):
		return ending{State: amboy.StateFailed}
	case t.Fails:
		return ending{State: amboy.StateFailed, Attempt: t.Failures}
	default:
		return ending{State: amboy.StateSucceeded, Attempt: t.Failures, Result: resultOf(id)}
	}
}

func resultOf(id string) string { return "result of " + id }

func TestTheSeedDecidesThePlan(t *testing.T) {
	opts := planOptions{Seed: 7, Kills: 5, Scopes: 8, LongWork: time.Second}
	p := newPlan(opts)
	assert.Equal(t, p, newPlan(opts))
	opts.Seed++
	assert.NotEqual(t, p, newPlan(opts))
}

func TestAPlanHasEverything(t *testing.T) {
	p := newPlan(planOptions{Seed: 1, Kills: 20, Scopes: 8, LongWork: time.Minute})
	require.Len(t, p.kills, 20)
	found := map[string]int{}
	count := func(what string, is bool) {
		if is {
			found[what]++
		}
	}
	for id, task := range p.tasks {
		count("retries", task.Failures > 0)
		count("long", task.Work == time.Minute)
		count("dispatch scopes", len(task.Scopes) > 0 && task.EnqueueScope == "")
		count("enqueue scopes", task.EnqueueScope != "")
		count("edges", len(task.Edges) > 0)
		count("failures", p.ending(id).State == amboy.StateFailed)
		count("jobs that do not run", !p.runs(id))
	}
	assert.Len(t, found, 7, "%v", found)
	t.Logf("%d jobs: %v", len(p.tasks), found)
}
