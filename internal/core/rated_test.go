package core_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

// waitForRate answers a claim of q with a wait for its rate.
func (s *story) waitForRate(wait time.Duration) {
	s.t.Helper()
	claim := only[core.Claim](s.t, s.tell(core.Waiting{Worker: &core.Worker{Line: s.line}}))
	waits := []driver.RateWait{{Queue: "q", For: wait}}
	s.answerEmpty(s.tell(core.Claimed{Call: claim.Call, Waits: waits}))
}

func TestAQueueAtItsRateIsClaimedFromWhenItMayStartMore(t *testing.T) {
	s := newStory(t)
	s.openMany(3)
	s.waitForRate(time.Minute)
	assert.Empty(t, all[core.Claim](s.wait(time.Minute-1)))
	claim := only[core.Claim](t, s.wait(1))
	assert.Equal(t, []driver.Demand{{Queue: "q", Limit: 1}}, claim.Demands, "and not from others")
	s.answerEmpty(s.tell(core.Claimed{Call: claim.Call}))
	assert.Empty(t, all[core.Claim](s.wait(10*time.Minute)), "it has nothing")
}

func TestAWaitForARateDoesNotDependOnTheWallClock(t *testing.T) {
	s := newStory(t)
	s.waitForRate(time.Minute)
	s.skew = -8 * time.Hour
	claim := only[core.Claim](t, s.wait(time.Second)) // the jump makes it poll
	s.answerEmpty(s.tell(core.Claimed{Call: claim.Call, Waits: []driver.RateWait{{Queue: "q", For: time.Minute - time.Second}}}))
	assert.Empty(t, all[core.Claim](s.wait(time.Minute-2*time.Second)))
	assert.Len(t, all[core.Claim](s.wait(time.Second)), 1)
}

// The answer to a claim that was given up is older than what its successor found.
func TestALateAnswerSetsNoWaitForARate(t *testing.T) {
	s := newStory(t)
	late := only[core.Claim](t, s.tell(core.Waiting{Worker: &core.Worker{Line: s.line}}))
	again := only[core.Claim](t, s.wait(late.Call.Limit+time.Minute))
	s.answerEmpty(s.tell(core.Claimed{Call: again.Call}))
	s.answerEmpty(s.tell(core.Claimed{Call: late.Call, Waits: []driver.RateWait{{Queue: "q", For: time.Second}}}))
	assert.Empty(t, all[core.Claim](s.wait(2*time.Second)))
}

func TestAStoppedQueueIsNotClaimedFromAfterItsWait(t *testing.T) {
	s := newStory(t)
	lines := s.openMany(3)
	s.waitForRate(time.Minute)
	claim := only[core.Claim](t, s.tell(core.Changed{Line: lines[1]}))
	s.tell(core.Stopped{Line: lines[1]})
	s.answerEmpty(s.tell(core.Claimed{Call: claim.Call, Waits: []driver.RateWait{{Queue: "idle1", For: time.Second}}}))
	s.tell(core.Left{Line: lines[1]})
	s.tell(core.Stopped{Line: s.line})
	s.tell(core.Left{Line: s.line})
	assert.Empty(t, all[core.Claim](s.wait(2*time.Minute)))
}

func TestWaitsOfManyQueuesEndInTheirOrder(t *testing.T) {
	s := newStory(t)
	lines := s.openMany(5)
	for i, wait := range []time.Duration{5, 1, 4, 2, 3} {
		claim := only[core.Claim](t, s.tell(core.Changed{Line: lines[i]}))
		s.answerEmpty(s.tell(core.Claimed{Call: claim.Call, Waits: []driver.RateWait{{Queue: lines[i].Queue, For: wait * time.Minute}}}))
	}
	for _, name := range []string{"idle1", "idle3", "idle4", "idle2", "idle0"} {
		claim := only[core.Claim](t, s.wait(time.Minute))
		assert.Equal(t, []driver.Demand{{Queue: name, Limit: 1}}, claim.Demands)
		s.answerEmpty(s.tell(core.Claimed{Call: claim.Call}))
	}
}
