package core_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/core"
)

// canceled reports whether a command ends the context of a run because its lease is over.
func canceled(commands []core.Command) bool {
	return slices.ContainsFunc(commands, func(command core.Command) bool {
		cancel, ok := command.(core.Cancel)
		return ok && errors.Is(cancel.Cause, amboy.ErrLeaseLost)
	})
}

// The wall clock jumps forward when the process resumes. The core can't distinguish this
// from the correction of a wrong clock.
func TestAStopThatTheClocksDoNotCountFencesUnrenewedRuns(t *testing.T) {
	for name, test := range map[string]struct {
		err     error
		goesOn  bool
		jump    time.Duration
		passing time.Duration
	}{
		"goes on if its leases can be renewed":        {jump: time.Minute, goesOn: true, passing: 10 * time.Second},
		"is fenced if the store does not answer":      {jump: time.Minute, err: errors.New("cut off"), passing: 6 * time.Second},
		"goes on after a stop shorter than its lease": {jump: 5 * time.Second, err: errors.New("cut off"), goesOn: true, passing: 6 * time.Second},
		"goes on after the clock was set back":        {jump: -time.Hour, err: errors.New("cut off"), goesOn: true, passing: 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.run()
			s.wait(time.Second)
			s.skew += test.jump
			commands := s.tell(core.Tick{})
			assert.False(t, canceled(commands), "it may not have been stopped")
			renew := only[core.Renew](t, commands)
			lost := false
			for begun := s.now; s.now < begun+test.passing; {
				commands = s.tell(core.Renewed{Call: renew.Call, Err: test.err})
				lost = lost || canceled(commands)
				commands = s.wait(100 * time.Millisecond)
				lost = lost || canceled(commands)
				for _, command := range commands {
					if next, ok := command.(core.Renew); ok {
						renew = next
					}
				}
			}
			assert.Equal(t, test.goesOn, !lost)
		})
	}
}

// The renewal was sent before the machine was stopped, and is answered afterwards.
func TestARenewalSentBeforeAStopDoesNotExtendItsLease(t *testing.T) {
	s := newStory(t)
	s.run()
	renew := only[core.Renew](t, s.wait(5*time.Second))
	s.skew += time.Minute
	s.tell(core.Tick{})
	s.tell(core.Renewed{Call: renew.Call})
	lost := false
	for range 60 {
		lost = lost || canceled(s.wait(100*time.Millisecond))
	}
	assert.True(t, lost, "the lease counts from when the call was sent, a minute ago")
}

// Timers do not count the time of a suspension, so the core asks for a Tick every second.
func TestRunsEndSoonAfterTheMachineResumes(t *testing.T) {
	s := newStory(t)
	s.run()
	var longest time.Duration
	for range 100 {
		for _, command := range s.wait(time.Second) {
			if wake, ok := command.(core.Wake); ok {
				longest = max(longest, wake.At-s.now)
			}
		}
	}
	require.NotZero(t, longest)
	assert.LessOrEqual(t, longest, time.Second)
}

// The store answers all calls.
func TestARenewalUnderWayWhenTheClockIsSetEndsNoRun(t *testing.T) {
	s := newStory(t)
	s.run()
	renew := only[core.Renew](t, s.wait(5*time.Second))
	s.skew += time.Hour
	s.tell(core.Tick{})
	commands := s.tell(core.Renewed{Call: renew.Call})
	for range 200 {
		for _, renew := range all[core.Renew](commands) {
			commands = append(commands, s.tell(core.Renewed{Call: renew.Call})...)
		}
		require.False(t, canceled(commands), "at %s", s.now)
		commands = s.wait(100 * time.Millisecond)
	}
}
