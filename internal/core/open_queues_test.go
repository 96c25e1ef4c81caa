package core_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

// openMany opens queues with a worker each, of which none has a job.
func (s *story) openMany(n int) []*core.Line {
	lines := make([]*core.Line, n)
	for i := range lines {
		lines[i] = &core.Line{Queue: fmt.Sprint("idle", i)}
		s.tell(core.Opened{Line: lines[i]})
		s.answerEmpty(s.tell(core.Resumed{Line: lines[i]}))
		s.answerEmpty(s.tell(core.Waiting{Worker: &core.Worker{Line: lines[i]}}))
	}
	return lines
}

// answerEmpty answers the claims among commands, and those that follow, with nothing.
func (s *story) answerEmpty(commands []core.Command) {
	for claims := all[core.Claim](commands); len(claims) > 0; claims = all[core.Claim](commands) {
		commands = s.tell(core.Claimed{Call: claims[0].Call})
	}
}

// A job of one queue had all open queues asked for, which took longer the more were open.
func TestAChangeOfOneQueueHasNoOtherAskedFor(t *testing.T) {
	s := newStory(t)
	s.openMany(100)
	s.answerEmpty(s.tell(core.Waiting{Worker: &core.Worker{Line: s.line}}))
	claim := only[core.Claim](t, s.tell(core.StoreChanged{Change: driver.In("q")}))
	assert.Equal(t, []driver.Demand{{Queue: "q", Limit: 1}}, claim.Demands)
	assert.Empty(t, all[core.Claim](s.tell(core.Claimed{Call: claim.Call})))
}

func TestAChangeOfAQueueThatIsNotOpenStartsNoClaim(t *testing.T) {
	s := newStory(t)
	s.answerEmpty(s.tell(core.Waiting{Worker: &core.Worker{Line: s.line}}))
	assert.Empty(t, s.tell(core.StoreChanged{Change: driver.In("another")}))
}

func TestAChangeOfAQueueWhileItIsClaimedFromStartsAnotherClaim(t *testing.T) {
	s := newStory(t)
	claim := only[core.Claim](t, s.tell(core.Waiting{Worker: &core.Worker{Line: s.line}}))
	assert.Empty(t, all[core.Claim](s.tell(core.StoreChanged{Change: driver.In("q")})))
	again := only[core.Claim](t, s.tell(core.Claimed{Call: claim.Call}))
	assert.Empty(t, all[core.Claim](s.tell(core.Claimed{Call: again.Call})))
}

// The answer to a claim that was given up came after that of a later one, and was taken
// for the state of the queue.
func TestALateAnswerDoesNotSayThatAQueueIsEmpty(t *testing.T) {
	s := newStory(t)
	first := only[core.Claim](t, s.tell(core.Waiting{Worker: &core.Worker{Line: s.line}}))
	second := only[core.Claim](t, s.wait(late))
	s.tell(core.Claimed{Call: first.Call})
	record := &driver.Record{Name: "a", Group: "q"}
	run := only[core.Start](t, s.tell(core.Claimed{Call: second.Call, Records: []*driver.Record{record}})).Run
	s.end(run)
	require.Len(t, all[core.Claim](s.tell(core.Waiting{Worker: &core.Worker{Line: s.line}})), 1)
}

// A claim that failed was not made again if it was for a job that had expired and all
// workers were busy.
func TestAClaimOfWhatHasExpiredIsMadeAgainAfterAnError(t *testing.T) {
	s := newStory(t)
	s.run()
	s.tell(core.DueAt{Time: begin.Add(time.Second)})
	claim := only[core.Claim](t, s.wait(time.Second))
	require.Zero(t, claim.Limit)
	s.tell(core.Claimed{Call: claim.Call, Err: errors.New("no answer")})
	assert.Zero(t, only[core.Claim](t, s.wait(2*time.Second)).Limit)
}
