package core_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/core"
)

// An expired job needs no worker. A job that expired while a process held it, which then
// died, was not ended until a worker was free.
func TestARecoveredExpiredJobNeedsNoWorker(t *testing.T) {
	s := newStory(t)
	recovery := only[core.Recover](t, s.started)
	s.run()
	s.wait(time.Second)
	commands := s.tell(core.Recovered{Call: recovery.Call, Jobs: 1})
	assert.Zero(t, only[core.Claim](t, commands).Limit)
}

// answerAll answers the calls among commands and those that follow, and counts the recoveries. fails
// returns the error of a call.
func (s *story) answerAll(commands []core.Command, fails func(core.Command) error) (recoveries int) {
	for ; len(commands) > 0; commands = commands[1:] {
		var answer core.Event
		switch do := commands[0].(type) {
		case core.Claim:
			answer = core.Claimed{Call: do.Call, Err: fails(do)}
		case core.CheckCancels:
			answer = core.CancelsFound{Call: do.Call, Err: fails(do)}
		case core.Forget:
			answer = core.Forgotten{Call: do.Call, Err: fails(do)}
		case core.Recover:
			answer = core.Recovered{Call: do.Call, Err: fails(do)}
			recoveries++
		default:
			continue
		}
		commands = append(commands, s.tell(answer)...)
	}
	return recoveries
}

var errCutOff = errors.New("cut off")

func cutOff(core.Command) error { return errCutOff }

func reached(core.Command) error { return nil }

// Each error that was followed by a success put recovery off by a heartbeat, which is two and a half
// minutes with the default lease. One call that failed now and then was enough to put it off for ever.
func TestErrorsNowAndThenDoNotPutOffRecoveryForEver(t *testing.T) {
	s := newStory(t)
	s.answerAll(s.started, reached)
	s.tell(core.Waiting{Worker: &core.Worker{Line: s.line}})
	recoveries, claims := 0, 0
	for range 600 { // a minute
		commands := append(s.tell(core.Changed{Line: s.line}), s.wait(100*time.Millisecond)...)
		recoveries += s.answerAll(commands, func(do core.Command) error {
			if _, isClaim := do.(core.Claim); !isClaim {
				return nil
			}
			claims++
			if claims%2 == 0 {
				return nil
			}
			return errors.New("too slow")
		})
	}
	require.Greater(t, claims, 100)
	assert.GreaterOrEqual(t, recoveries, 8, "in a minute, with a heartbeat of five seconds")
}

// awaitRecovery answers all calls until the first recovery, for at most a minute.
func (s *story) awaitRecovery(step time.Duration) {
	recoveries := 0
	for s.now < time.Minute && recoveries == 0 {
		recoveries = s.answerAll(s.wait(step), reached)
	}
}

// In an outage other processes can't renew their leases either.
func TestRecoveryWaitsAfterAnOutage(t *testing.T) {
	s := newStory(t)
	s.answerAll(s.started, reached)
	for s.now < 30*time.Second {
		s.answerAll(s.wait(100*time.Millisecond), cutOff)
	}
	s.awaitRecovery(100 * time.Millisecond)
	assert.GreaterOrEqual(t, s.now, 35*time.Second, "a heartbeat after the end of the outage")
	assert.Less(t, s.now, 41*time.Second)
}

// The clock that measures the outage stands still while a virtual machine is stopped.
func TestRecoveryWaitsAfterAnOutageThatASuspensionHides(t *testing.T) {
	s := newStory(t)
	s.answerAll(s.started, reached)
	s.answerAll(s.wait(5*time.Second), cutOff)
	s.skew += time.Hour
	resumed := s.now
	s.awaitRecovery(10 * time.Millisecond)
	assert.GreaterOrEqual(t, s.now, resumed+5*time.Second, "a heartbeat after the end of the outage")
}
