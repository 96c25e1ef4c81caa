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

// Each error that was followed by a success put recovery off by a heartbeat, which is two and a half
// minutes with the default lease. One call that failed now and then was enough to put it off for ever.
func TestErrorsNowAndThenDoNotPutOffRecoveryForEver(t *testing.T) {
	s := newStory(t)
	s.tell(core.Recovered{Call: only[core.Recover](t, s.started).Call})
	s.tell(core.Waiting{Worker: &core.Worker{Line: s.line}})
	recovered, claims := 0, 0
	for range 600 { // a minute
		commands := append(s.tell(core.Changed{Line: s.line}), s.wait(100*time.Millisecond)...)
		for ; len(commands) > 0; commands = commands[1:] {
			switch do := commands[0].(type) {
			case core.Claim:
				claims++
				answer := core.Claimed{Call: do.Call}
				if claims%2 == 1 {
					answer.Err = errors.New("too slow")
				}
				commands = append(commands, s.tell(answer)...)
			case core.CheckCancels:
				commands = append(commands, s.tell(core.CancelsFound{Call: do.Call})...)
			case core.Forget:
				commands = append(commands, s.tell(core.Forgotten{Call: do.Call})...)
			case core.Recover:
				recovered++
				commands = append(commands, s.tell(core.Recovered{Call: do.Call})...)
			}
		}
	}
	require.Greater(t, claims, 100)
	assert.GreaterOrEqual(t, recovered, 8, "in a minute, with a heartbeat of five seconds")
}

// In an outage other processes can't renew their leases either.
func TestRecoveryWaitsAfterAnOutage(t *testing.T) {
	s := newStory(t)
	s.tell(core.Recovered{Call: only[core.Recover](t, s.started).Call})
	cut := errors.New("cut off")
	recoveredAt := time.Duration(0)
	for s.now < time.Minute && recoveredAt == 0 {
		if s.now >= 30*time.Second {
			cut = nil
		}
		for commands := s.wait(100 * time.Millisecond); len(commands) > 0; commands = commands[1:] {
			switch do := commands[0].(type) {
			case core.CheckCancels:
				commands = append(commands, s.tell(core.CancelsFound{Call: do.Call, Err: cut})...)
			case core.Forget:
				commands = append(commands, s.tell(core.Forgotten{Call: do.Call, Err: cut})...)
			case core.Recover:
				if cut == nil {
					recoveredAt = s.now
				}
				commands = append(commands, s.tell(core.Recovered{Call: do.Call, Err: cut})...)
			}
		}
	}
	assert.GreaterOrEqual(t, recoveredAt, 35*time.Second, "a heartbeat after the end of the outage")
	assert.Less(t, recoveredAt, 41*time.Second)
}
