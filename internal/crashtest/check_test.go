package crashtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

// The lease of the histories below, and the start of their time.
const shortLease = 10 * time.Second

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func second(n float64) time.Time { return start.Add(time.Duration(n * float64(time.Second))) }

// story builds the events of a history.
type story struct{ history }

// newStory begins a history in which jobs are accepted and end as planned.
func newStory(tasks ...*task) *story {
	s := &story{history{
		plan:   &plan{tasks: map[string]*task{}},
		lease:  shortLease,
		deaths: map[string]time.Time{},
		stored: map[string]ending{},
	}}
	for _, t := range tasks {
		s.plan.tasks[t.ID] = t
		s.add(event{Kind: accepted, At: start, Job: t.ID})
	}
	for _, t := range tasks {
		s.stored[t.ID] = s.plan.ending(t.ID)
	}
	return s
}

func (s *story) add(e event) *story {
	s.events = append(s.events, e)
	return s
}

// begin adds the beginning of a run under a lease that was just taken.
func (s *story) begin(at float64, process, id string, number, lease int) *story {
	return s.add(event{Kind: began, At: second(at), Process: process, Job: id, Attempt: number, Lease: lease, Claimed: second(at)})
}

func (s *story) end(at float64, process, id string, number, lease int, how outcome) *story {
	return s.add(event{Kind: ended, At: second(at), Process: process, Job: id, Attempt: number, Lease: lease, Outcome: how})
}

func (s *story) complete(at float64, process, id string, number, lease int) *story {
	return s.add(event{Kind: completed, At: second(at), Process: process, Job: id, Attempt: number, Lease: lease})
}

func (s *story) renew(at float64, process, id string, lease int) *story {
	return s.add(event{Kind: renewed, At: second(at), Process: process, Job: id, Lease: lease})
}

// run adds a run of one second with its end.
func (s *story) run(at float64, process, id string, number, lease int, how outcome) *story {
	return s.begin(at, process, id, number, lease).
		end(at+1, process, id, number, lease, how).
		complete(at+1, process, id, number, lease)
}

// kill adds the death of process p.
func (s *story) kill(at float64) *story {
	s.deaths["p"] = second(at)
	return s
}

func (s *story) store(id string, end ending) *story {
	s.stored[id] = end
	return s
}

func TestCheck(t *testing.T) {
	a, b := &task{ID: "a"}, &task{ID: "b"}
	retried := &task{ID: "a", Failures: 1}
	scopedA, scopedB := &task{ID: "a", Scopes: []string{"s"}}, &task{ID: "b", Scopes: []string{"s"}}
	keptA := &task{ID: "a", Scopes: []string{"s"}, EnqueueScope: "s"}
	keptB := &task{ID: "b", Scopes: []string{"s"}, EnqueueScope: "s"}
	after := &task{ID: "b", Edges: []string{"a"}}
	for name, test := range map[string]struct {
		story *story
		want  []rule
	}{
		"all is well": {story: newStory(a, b).run(1, "p", "a", 0, 1, done).run(1, "p", "b", 0, 1, done)},
		"lost": {
			story: newStory(a).run(1, "p", "a", 0, 1, done).store("a", ending{State: amboy.StateRunning}),
			want:  []rule{lost},
		},
		"another result": {
			story: newStory(a).run(1, "p", "a", 0, 1, done).store("a", ending{State: amboy.StateSucceeded}),
			want:  []rule{wrongEnd},
		},
		"succeeded without a run": {story: newStory(a), want: []rule{wrongEnd}},
		"refused": {
			story: newStory().add(event{Kind: refused, Job: "a", Reason: "the disk is gone"}),
			want:  []rule{notPut},
		},
		"refused, and run": {
			story: newStory().plans(a).add(event{Kind: refused, Job: "a", Allowed: true}).run(1, "p", "a", 0, 1, done),
			want:  []rule{ranRefused},
		},
		"refused for its scope": {story: newStory().add(event{Kind: refused, Job: "a", Allowed: true})},
		"no end": {
			story: newStory(a).begin(1, "p", "a", 0, 1),
			want:  []rule{noEnd},
		},
		"killed, and run again": {
			story: newStory(a).begin(1, "p", "a", 0, 1).kill(2).run(12, "q", "a", 0, 2, done),
		},
		"killed when it had run, and run again": {
			story: newStory(a).begin(1, "p", "a", 0, 1).end(2, "p", "a", 0, 1, done).kill(2).run(12, "q", "a", 0, 2, done),
		},
		"run again while its process lives": {
			story: newStory(a).begin(1, "p", "a", 0, 1).run(5, "q", "a", 0, 2, done).kill(7),
			want:  []rule{twoHolders},
		},
		"run again when its lease ran out": {
			story: newStory(a).begin(1, "p", "a", 0, 1).run(11.5, "q", "a", 0, 2, done).end(13, "p", "a", 0, 1, interrupted),
		},
		"run again when its lease was renewed": {
			story: newStory(a).begin(1, "p", "a", 0, 1).renew(4, "p", "a", 1).run(11.5, "q", "a", 0, 2, done).end(13, "p", "a", 0, 1, interrupted),
			want:  []rule{twoHolders},
		},
		"run again after its end": {
			story: newStory(a).run(1, "p", "a", 0, 1, done).run(12, "q", "a", 0, 2, done),
			want:  []rule{runsAgain},
		},
		"a late run under an earlier lease": {
			story: newStory(a).run(12, "q", "a", 0, 2, done).
				add(event{Kind: began, At: second(14), Process: "p", Job: "a", Lease: 1, Claimed: second(1)}).
				end(15, "p", "a", 0, 1, interrupted),
		},
		"one scope after the other": {
			story: newStory(scopedA, scopedB).run(1, "p", "a", 0, 1, done).run(2, "q", "b", 0, 1, done),
		},
		"one scope at the same time": {
			story: newStory(scopedA, scopedB).run(1, "p", "a", 0, 1, done).run(1.5, "q", "b", 0, 1, done),
			want:  []rule{twoHolders},
		},
		"a scope of a killed process": {
			story: newStory(scopedA, scopedB).begin(1, "p", "a", 0, 1).kill(2).
				run(12, "q", "b", 0, 1, done).run(13, "q", "a", 0, 2, done),
		},
		"an enqueue scope given away": {
			story: newStory(keptA).run(1, "p", "a", 0, 1, done).with(keptB, second(1.5)).run(3, "p", "b", 0, 1, done),
			want:  []rule{enqueueScope},
		},
		"an enqueue scope after the end": {
			story: newStory(keptA).run(1, "p", "a", 0, 1, done).with(keptB, second(2.5)).run(3, "p", "b", 0, 1, done),
		},
		"a dependency": {
			story: newStory(a, after).run(1, "p", "a", 0, 1, done).run(2, "q", "b", 0, 1, done),
		},
		"before its dependency": {
			story: newStory(a, after).run(1, "p", "a", 0, 1, done).run(1.5, "q", "b", 0, 1, done),
			want:  []rule{tooEarly},
		},
		"a dependency is claimed again": {
			story: newStory(a, after).begin(1, "p", "a", 0, 1).end(2, "p", "a", 0, 1, done).kill(2).
				run(3, "q", "b", 0, 1, done).run(12, "q", "a", 0, 2, done),
			want: []rule{tooEarly},
		},
		"a retry": {
			story: newStory(retried).run(1, "p", "a", 0, 1, failed).run(3, "p", "a", 1, 1, done),
		},
		"a retry of an attempt that was interrupted": {
			story: newStory(retried).run(1, "p", "a", 0, 1, interrupted).run(3, "p", "a", 1, 1, done),
			want:  []rule{attempts},
		},
		"an attempt too many": {
			story: newStory(a).run(1, "p", "a", 0, 1, failed).run(3, "p", "a", 1, 1, done),
			want:  []rule{attempts},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var found []rule
			for _, v := range check(&test.story.history) {
				found = append(found, v.rule)
			}
			assert.Equal(t, test.want, found)
		})
	}
}

// with accepts another job at a later time.
func (s *story) with(t *task, at time.Time) *story {
	s.plans(t).stored[t.ID] = s.plan.ending(t.ID)
	return s.add(event{Kind: accepted, At: at, Job: t.ID})
}

// plans adds a job to the plan without an event.
func (s *story) plans(t *task) *story {
	s.plan.tasks[t.ID] = t
	return s
}

func TestRecoveries(t *testing.T) {
	a, scoped := &task{ID: "a"}, &task{ID: "b", Scopes: []string{"s"}}
	s := newStory(a, scoped).
		begin(1, "p", "a", 0, 1).
		begin(1, "p", "b", 0, 1).
		kill(3).
		run(12, "q", "a", 0, 2, done).
		run(14, "q", "b", 0, 2, done)
	require.Empty(t, check(&s.history))
	assert.Equal(t, []recovery{
		{job: "a", takes: 9 * time.Second},
		{job: "b", takes: 11 * time.Second, waits: true},
	}, recoveries(&s.history))
}

func TestAJournalMayEndInTheMiddleOfALine(t *testing.T) {
	events := parse(t, []byte(`{"Kind":"began","Job":"a"}`+"\n"+`{"Kind":"ended","Jo`), "p")
	assert.Equal(t, []event{{Kind: began, Job: "a", Process: "p"}}, events)
}
