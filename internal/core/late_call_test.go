package core_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// story drives a core by hand.
type story struct {
	t    *testing.T
	core *core.Core
	now  time.Duration
	skew time.Duration // of the wall clock
	line *core.Line
	// started holds the commands that followed the start of the queue.
	started []core.Command
}

func storyConfig() core.Config {
	return core.Config{
		LeaseTime: 20 * time.Second, PollMin: time.Hour, PollMax: time.Hour, BatchEnds: true, RetryScan: time.Hour, FewLines: 8,
		Random: func() float64 { return 0.5 },
	}
}

func newStory(t *testing.T) *story {
	t.Helper()
	return newStoryWith(t, storyConfig())
}

// newStoryWith returns a core with one started queue that has no workers.
func newStoryWith(t *testing.T, config core.Config) *story {
	t.Helper()
	s := &story{t: t, core: core.New(config, core.Time{Wall: begin}), line: &core.Line{Queue: "q"}}
	s.tell(core.Opened{Line: s.line})
	s.started = s.tell(core.Resumed{Line: s.line})
	return s
}

func (s *story) tell(event core.Event) []core.Command {
	return s.core.Step(core.Time{Mono: s.now, Wall: begin.Add(s.now + s.skew)}, event, nil)
}

// wait lets time pass.
func (s *story) wait(d time.Duration) []core.Command {
	s.now += d
	return s.tell(core.Tick{})
}

// run returns a run that was given to a worker.
func (s *story) run() *core.Run {
	s.t.Helper()
	s.tell(core.Changed{Line: s.line})
	claim := only[core.Claim](s.t, s.tell(core.Waiting{Worker: &core.Worker{Line: s.line}}))
	record := &driver.Record{Name: "a", Group: "q"}
	return only[core.Start](s.t, s.tell(core.Claimed{Call: claim.Call, Records: []*driver.Record{record}})).Run
}

// end finishes a run, and returns the call that writes its end.
func (s *story) end(r *core.Run) core.Complete {
	s.t.Helper()
	s.tell(core.Finished{Run: r, End: core.End{Record: r.Record}})
	return only[core.Complete](s.t, s.wait(time.Millisecond))
}

// all selects the commands of a type.
func all[T core.Command](commands []core.Command) (selected []T) {
	for _, command := range commands {
		if c, ok := command.(T); ok {
			selected = append(selected, c)
		}
	}
	return selected
}

func only[T core.Command](t *testing.T, commands []core.Command) T {
	t.Helper()
	selected := all[T](commands)
	require.Len(t, selected, 1, "%T among %T", selected, commands)
	return selected[0]
}

// late is longer than the limit of a call and the grace time after it.
const late = 7 * time.Second

func TestTheEndsInAHungCallAreWrittenByAnotherCall(t *testing.T) {
	s := newStory(t)
	r := s.run()
	first := s.end(r)
	commands := append(s.wait(late), s.wait(time.Second)...)
	second := only[core.Complete](t, commands)
	assert.Equal(t, []*core.Run{r}, second.Runs)
	assert.Equal(t, core.Done{Run: r}, only[core.Done](t, s.tell(core.Written{Call: second.Call, Errs: []error{nil}})))
	assert.Empty(t, all[core.Done](s.tell(core.Written{Call: first.Call, Errs: []error{amboy.ErrLeaseLost}})))
	assert.Empty(t, all[core.Check](s.tell(core.Tick{})))
}

func TestALateCallThatWroteAnEndCompletesItsRun(t *testing.T) {
	s := newStory(t)
	r := s.run()
	first := s.end(r)
	second := only[core.Complete](t, append(s.wait(late), s.wait(time.Second)...))
	assert.Equal(t, core.Done{Run: r}, only[core.Done](t, s.tell(core.Written{Call: first.Call, Errs: []error{nil}})))
	commands := s.tell(core.Written{Call: second.Call, Errs: []error{amboy.ErrLeaseLost}})
	assert.Empty(t, all[core.Done](commands))
	assert.Empty(t, all[core.Check](commands))
}

func TestARunEndsThoughItsCheckIsNotAnswered(t *testing.T) {
	s := newStory(t)
	r := s.run()
	first := s.end(r)
	commands := s.tell(core.Written{Call: first.Call, Err: errors.New("the answer was lost")})
	second := only[core.Complete](t, append(commands, s.wait(time.Second)...))
	check := only[core.Check](t, s.tell(core.Written{Call: second.Call, Errs: []error{amboy.ErrLeaseLost}}))
	done := only[core.Done](t, append(s.wait(late), s.wait(late)...))
	assert.Equal(t, core.Done{Run: r, Err: amboy.ErrLeaseLost}, done)
	assert.Empty(t, all[core.Done](s.tell(core.Checked{Run: check.Run, Written: true})))
}

func TestALateClaimDoesNotExceedMaxRunning(t *testing.T) {
	s := newStory(t)
	s.core = core.New(core.Config{
		LeaseTime: 20 * time.Second, MaxRunning: 1, FewLines: 8, PollMin: time.Hour, PollMax: time.Hour, RetryScan: time.Hour,
		Random: func() float64 { return 0.5 },
	}, core.Time{Wall: begin})
	s.tell(core.Opened{Line: s.line})
	s.tell(core.Resumed{Line: s.line})
	first := only[core.Claim](t, s.tell(core.Waiting{Worker: &core.Worker{Line: s.line}}))
	s.tell(core.Waiting{Worker: &core.Worker{Line: s.line}})
	second := only[core.Claim](t, s.wait(late))
	record := func(name string) []*driver.Record { return []*driver.Record{{Name: name, Group: "q"}} }
	only[core.Start](t, s.tell(core.Claimed{Call: second.Call, Records: record("a")}))
	commands := s.tell(core.Claimed{Call: first.Call, Records: record("b")})
	assert.Empty(t, all[core.Start](commands))
	assert.Len(t, only[core.Release](t, commands).Runs, 1)
}
