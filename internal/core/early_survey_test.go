package core_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/core"
)

// surveys lets time pass, and counts the surveys, which find that a lease ends in a time.
func (s *story) surveys(during, staleIn time.Duration) (n int) {
	const step = 10 * time.Millisecond
	for range during / step {
		commands := s.wait(step)
		for ; len(commands) > 0; commands = commands[1:] {
			switch do := commands[0].(type) {
			case core.Look:
				require.True(s.t, do.Survey)
				n++
				commands = append(commands, s.tell(core.Looked{Call: do.Call, StaleIn: staleIn})...)
			case core.Recover:
				require.Fail(s.t, "there is nothing to recover")
			case core.Forget:
				s.tell(core.Forgotten{Call: do.Call})
			case core.CheckCancels:
				s.tell(core.CancelsFound{Call: do.Call})
			}
		}
	}
	return n
}

// Leases may always end soon and be renewed, or their jobs end: the leases of processes with a shorter
// lease time, and those of outside workers.
func TestLeasesThatAlwaysEndSoonDoubleTheSurveysAtMost(t *testing.T) {
	const periods = 100
	for staleIn, most := range map[time.Duration]int{
		time.Hour:        periods, // no lease ends before the next survey
		4 * time.Second:  2 * periods,
		2 * time.Second:  2 * periods,
		time.Millisecond: 2 * periods,
	} {
		t.Run(staleIn.String(), func(t *testing.T) {
			config := storyConfig()
			config.Surveys, config.PollMin, config.PollMax = true, 0, 0
			s := newStoryWith(t, config)
			n := s.surveys(periods*config.LeaseTime/4, staleIn)
			assert.GreaterOrEqual(t, n, periods)
			assert.LessOrEqual(t, n, most+1) // the first one comes at once
		})
	}
}
