package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

// randomSettings returns random settings for a world.
func randomSettings(opts Options, random *rand.Rand) settings {
	pick := func(times ...time.Duration) time.Duration { return times[random.IntN(len(times))] }
	s := settings{
		processes:  2 + random.IntN(3),
		workers:    1 + random.IntN(3),
		notified:   random.IntN(3) > 0,
		retryPause: pick(100*time.Millisecond, time.Second, 10*time.Second),
		clockSteps: opts.ClockSteps,
		deaf:       opts.Deaf,
		refusals:   random.IntN(4) == 0,
		rollout:    opts.Seed%3 == 1,

		short:            random.IntN(3) == 0,
		fast:             pickInt(random, 20, 20, 3),
		maxInterruptions: random.IntN(3) * 5,
	}
	for i := range 1 + random.IntN(3) {
		s.queues = append(s.queues, fmt.Sprint("q", i))
	}
	s.core = core.Config{
		LeaseTime:   pick(4*time.Second, 10*time.Second, time.Minute),
		PollMin:     15 * time.Second,
		PollMax:     45 * time.Second,
		PollCancels: !s.notified,
		BatchEnds:   random.IntN(10) > 0,
		RetryScan:   pick(time.Second, 10*time.Second, time.Minute),
		Random:      random.Float64,
	}
	s.core.ClaimAhead = s.core.BatchEnds
	if random.IntN(2) == 0 {
		s.core.FewLines = len(s.queues)
	}
	if !s.notified {
		s.core.PollMax = pick(200*time.Millisecond, time.Second)
		s.core.PollMin = s.core.PollMax / 2
	}
	s.core.Surveys = opts.Seed/2%2 == 1
	if s.core.Surveys && s.notified {
		s.core.PollMin, s.core.PollMax = 0, 0
	}
	if random.IntN(3) == 0 {
		s.core.MaxRunning = 1 + random.IntN(s.workers*len(s.queues))
	}
	return s
}

func pickInt(random *rand.Rand, from ...int) int { return from[random.IntN(len(from))] }

// workload puts tasks, a few at a time.
type workload struct {
	left    int
	pause   time.Duration // the longest pause between two puts
	flooded string
	// edges are the tasks that others may depend on.
	edges map[string][]string
}

// newWorkload returns a workload with a number of tasks.
func newWorkload(w *World, tasks int) *workload {
	return &workload{
		left:    tasks,
		pause:   w.settings.core.LeaseTime / 3,
		flooded: w.settings.queues[0],
		edges:   map[string][]string{},
	}
}

// happen puts some tasks.
func (l *workload) happen(w *World) {
	together := 1 + w.random.IntN(3)
	if w.oneIn(15) || w.calmFrom > 0 && w.oneIn(5) {
		together = 20 // a flood
		if w.settings.short {
			together = 60
		}
	}
	flood := together >= 20
	for range min(together, l.left) {
		l.left--
		queue := w.settings.queues[w.random.IntN(len(w.settings.queues))]
		if flood {
			queue = l.flooded
		}
		t := l.task(w, queue)
		if flood && w.settings.short && t.NotBefore == 0 && w.oneIn(6) {
			t.DispatchBy = w.now + w.upTo(100*time.Millisecond) // while it waits for a worker
		}
		l.put(w, t)
	}
	if l.left == 0 {
		return
	}
	pause := l.pause
	if w.oneIn(3) {
		pause = callTime // while a claim is in progress
	}
	w.after(w.upTo(pause), l)
}

// task returns a task for a queue.
func (l *workload) task(w *World, queue string) *Task {
	lease := w.settings.core.LeaseTime
	t := &Task{
		ID:             fmt.Sprintf("j%d", len(w.checker.order)+1),
		Queue:          queue,
		Priority:       w.random.IntN(3),
		Attempts:       1,
		Lasts:          w.upTo(100 * time.Millisecond),
		IgnoresContext: w.oneIn(10),
		Refused:        w.settings.refusals && w.oneIn(60),
	}
	if w.settings.rollout && w.oneIn(5) {
		t.Type = newType
	}
	switch w.random.IntN(8) {
	case 0, 1, 2:
		t.Lasts = w.upTo(lease)
	case 3:
		t.Lasts = w.upTo(3 * lease)
	}
	if w.settings.short && !w.oneIn(8) {
		t.Lasts = w.upTo(200 * time.Microsecond)
	}
	if w.oneIn(3) {
		t.Attempts = 2 + w.random.IntN(3)
		t.Backoff = time.Duration(w.random.IntN(2)) * w.upTo(lease)
		t.Failures = w.random.IntN(t.Attempts + 1)
	} else if w.oneIn(20) {
		t.Failures = 1
	}
	if w.oneIn(6) {
		t.NotBefore = w.now + w.upTo(2*lease)
	}
	if w.oneIn(12) || w.calmFrom > 0 && w.oneIn(6) {
		t.DispatchBy = max(w.now, t.NotBefore) + w.upTo(2*lease)
	}
	if w.oneIn(3) {
		l.takeScopes(w, t)
	}
	if others := l.edges[queue]; len(t.EnqueueScopes) == 0 && len(others) > 0 && w.oneIn(5) {
		for range 1 + w.random.IntN(2) {
			edge := others[max(0, len(others)-1-w.random.IntN(10))]
			if !slices.Contains(t.Edges, edge) {
				t.Edges = append(t.Edges, edge)
			}
		}
	}
	return t
}

// takeScopes makes a task take scopes when it is put, when it is claimed, or both. No
// task that waits for a scope holds another scope that a holder of the first may wait
// for: that would be a deadlock.
func (l *workload) takeScopes(w *World, t *Task) {
	for _, n := range w.random.Perm(4)[:1+w.random.IntN(2)] {
		t.Scopes = append(t.Scopes, fmt.Sprint("s", n))
	}
	switch w.random.IntN(6) {
	case 0:
		t.EnqueueScopes = t.Scopes
	case 1:
		t.EnqueueScopes = []string{fmt.Sprint("e", w.random.IntN(2))}
		t.Scopes = append(t.EnqueueScopes[:1:1], t.Scopes...)
	}
}

// put puts a task, which the store may refuse for its enqueue scopes.
func (l *workload) put(w *World, t *Task) {
	if w.put(t) {
		l.edges[t.Queue] = append(l.edges[t.Queue], t.ID)
		switch {
		case w.settings.short && w.oneIn(8):
			w.after(w.upTo(8*callTime), cancels{t}) // while it waits for a worker
		case w.oneIn(25):
			w.after(w.sometime(), cancels{t})
		case len(t.Scopes) == 0 && w.oneIn(25):
			w.after(w.sometime(), endsByHand{t})
		}
	}
}

// sometime returns when an operator acts on a job after its Put: often as soon as it is
// claimed.
func (w *World) sometime() time.Duration {
	if w.oneIn(2) {
		return w.upTo(callTime)
	}
	return w.upTo(2 * w.settings.core.LeaseTime)
}

// callTime is the usual duration of a call with its answer.
const callTime = 5 * time.Millisecond

func (w *World) put(t *Task) (accepted bool) {
	w.checker.Expect(t)
	errs, err := w.driver.Insert(context.Background(), []*driver.Record{t.record(timeAt(w.now))})
	if err == nil {
		err = errs[0]
	}
	if err != nil {
		w.counts.Refused++
		w.log(Event{Process: Store, Kind: Refused, Job: t.ID})
		return false
	}
	w.counts.Jobs++
	w.log(Event{Process: Store, Kind: Accepted, Job: t.ID, Note: t.describe()})
	w.notifyPutter(t)
	return true
}

// notifyPutter notifies the process that has put a task.
func (w *World) notifyPutter(t *Task) {
	if w.random == nil {
		return
	}
	p := w.processes[w.random.IntN(len(w.processes))]
	if !p.alive || p.suspended {
		return
	}
	if t.DispatchBy > 0 {
		p.step(core.DueAt{Time: timeAt(t.DispatchBy).Add(1)})
	}
	p.changedStore()
}

func (t *Task) describe() string {
	note := fmt.Sprintf("in %s, priority %d, lasts %s", t.Queue, t.Priority, t.Lasts)
	add := func(is bool, format string, args ...any) {
		if is {
			note += ", " + fmt.Sprintf(format, args...)
		}
	}
	add(len(t.Scopes) > 0, "scopes %v, %d when put", t.Scopes, len(t.EnqueueScopes))
	add(len(t.Edges) > 0, "after %v", t.Edges)
	add(t.NotBefore > 0, "not before %s", clock(t.NotBefore))
	add(t.DispatchBy > 0, "by %s", clock(t.DispatchBy))
	add(t.Attempts > 1, "%d attempts", t.Attempts)
	add(t.Failures > 0, "%d fail", t.Failures)
	add(t.Backoff > 0, "backoff %s", t.Backoff)
	add(t.Refused, "its end is refused")
	add(t.Type != "", "of type %q", t.Type)
	add(t.IgnoresContext, "ignores its context")
	return note
}
