package core_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

// openMany opens queues without jobs, with one worker each.
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

// answerEmpty answers the claims among commands, and the claims that follow, with no jobs.
func (s *story) answerEmpty(commands []core.Command) {
	for claims := all[core.Claim](commands); len(claims) > 0; claims = all[core.Claim](commands) {
		commands = s.tell(core.Claimed{Call: claims[0].Call})
	}
}

// A job of one queue made the core claim for all open queues, at a cost that grew with them.
func TestAChangeOfOneQueueClaimsFromNoOtherQueue(t *testing.T) {
	s := newStory(t)
	s.openMany(100)
	s.answerEmpty(s.tell(core.Waiting{Worker: &core.Worker{Line: s.line}}))
	claim := only[core.Claim](t, s.tell(core.StoreChanged{Change: driver.In("q")}))
	assert.Equal(t, []driver.Demand{{Queue: "q", Limit: 1}}, claim.Demands)
	assert.Empty(t, all[core.Claim](s.tell(core.Claimed{Call: claim.Call})))
}

func TestAChangeOfAClosedQueueStartsNoClaim(t *testing.T) {
	s := newStory(t)
	s.answerEmpty(s.tell(core.Waiting{Worker: &core.Worker{Line: s.line}}))
	assert.Empty(t, s.tell(core.StoreChanged{Change: driver.In("another")}))
}

func TestAChangeDuringAClaimStartsAnotherClaim(t *testing.T) {
	s := newStory(t)
	claim := only[core.Claim](t, s.tell(core.Waiting{Worker: &core.Worker{Line: s.line}}))
	assert.Empty(t, all[core.Claim](s.tell(core.StoreChanged{Change: driver.In("q")})))
	again := only[core.Claim](t, s.tell(core.Claimed{Call: claim.Call}))
	assert.Empty(t, all[core.Claim](s.tell(core.Claimed{Call: again.Call})))
}

// The answer to a claim that was given up came after the answer to a later claim, and was
// taken for the state of the queue.
func TestALateAnswerDoesNotMarkAQueueAsEmpty(t *testing.T) {
	s := newStory(t)
	first := only[core.Claim](t, s.tell(core.Waiting{Worker: &core.Worker{Line: s.line}}))
	second := only[core.Claim](t, s.wait(late))
	s.tell(core.Claimed{Call: first.Call})
	record := &driver.Record{Name: "a", Group: "q"}
	run := only[core.Start](t, s.tell(core.Claimed{Call: second.Call, Records: []*driver.Record{record}})).Run
	s.end(run)
	require.Len(t, all[core.Claim](s.tell(core.Waiting{Worker: &core.Worker{Line: s.line}})), 1)
}

// A failed claim was not retried if it was for an expired job while all workers were busy.
func TestAFailedClaimOfExpiredJobsIsRetried(t *testing.T) {
	s := newStory(t)
	s.run()
	s.tell(core.DueAt{Time: begin.Add(time.Second)})
	claim := only[core.Claim](t, s.wait(time.Second))
	require.Zero(t, claim.Limit)
	s.tell(core.Claimed{Call: claim.Call, Err: errors.New("no answer")})
	assert.Zero(t, only[core.Claim](t, s.wait(2*time.Second)).Limit)
}

// A claim that was sent to a host which had failed ended with its time limit of five seconds, and the next one, which
// would have gone to the host that took over, was sent a second later.
func TestAfterAClaimThatTimedOutTheNextOneIsSentAtOnce(t *testing.T) {
	s := newStory(t)
	claim := only[core.Claim](t, s.tell(core.Waiting{Worker: &core.Worker{Line: s.line}}))
	s.now += claim.Call.Limit
	only[core.Claim](t, append(s.tell(core.Claimed{Call: claim.Call, Err: context.DeadlineExceeded}), s.wait(0)...))
}

func TestAfterAClaimThatFailedAtOnceThereIsAPause(t *testing.T) {
	s := newStory(t)
	claim := only[core.Claim](t, s.tell(core.Waiting{Worker: &core.Worker{Line: s.line}}))
	assert.Empty(t, all[core.Claim](s.tell(core.Claimed{Call: claim.Call, Err: errors.New("refused")})))
	assert.Empty(t, all[core.Claim](s.wait(900*time.Millisecond)))
	only[core.Claim](t, s.wait(100*time.Millisecond))
}

// The queue that was opened last came first, so that while queues were opened faster than their
// jobs could start, those of the first ones waited for all others.
func TestAQueueThatWasNeverServedWaitedForThoseThatWereOpenedAfterIt(t *testing.T) {
	s := newStory(t)
	claim := only[core.Claim](t, s.tell(core.Waiting{Worker: &core.Worker{Line: s.line}}))
	for _, name := range []string{"b", "a", "c"} {
		l := &core.Line{Queue: name}
		s.tell(core.Opened{Line: l})
		s.tell(core.Resumed{Line: l})
		s.tell(core.Waiting{Worker: &core.Worker{Line: l}})
	}
	claim = only[core.Claim](t, s.tell(core.Claimed{Call: claim.Call}))
	want := []driver.Demand{{Queue: "b", Limit: 1}, {Queue: "a", Limit: 1}, {Queue: "c", Limit: 1}}
	assert.Equal(t, want, claim.Demands)
}

// A change in an unknown queue made the core claim from all open queues.
func TestAChangeInAnUnknownQueueQueriesTheStoreForQueuesWithWork(t *testing.T) {
	s := newStory(t)
	lines := s.openMany(20)
	s.tell(core.Watched{Line: lines[2], By: 1})
	commands := s.tell(core.StoreChanged{Change: driver.Anywhere})
	assert.Empty(t, all[core.Claim](commands))
	look := only[core.Look](t, commands)
	commands = s.tell(core.Looked{Call: look.Call, Work: driver.Work{
		Queues: []driver.QueueWork{{Queue: "idle1", Ready: true}, {Queue: "q", Expired: true}, {Queue: "closed", Ready: true}},
		Next:   begin.Add(time.Minute),
	}})
	assert.Equal(t, []driver.Demand{{Queue: "idle1", Limit: 1}, {Queue: "q"}}, only[core.Claim](t, commands).Demands)
	assert.Same(t, lines[2], only[core.Drained](t, commands).Line, "the queue has no work left")
	assert.Empty(t, all[core.OpenQueues](commands), "the core must not open queues without Opens")
	assert.Equal(t, begin.Add(time.Minute), s.core.Due())
}

func TestALookDuringAnotherIsMadeAfterwards(t *testing.T) {
	s := newStory(t)
	s.openMany(20)
	first := only[core.Look](t, s.tell(core.StoreChanged{Change: driver.Anywhere}))
	assert.Empty(t, s.tell(core.StoreChanged{Change: driver.Anywhere}))
	second := only[core.Look](t, s.tell(core.Looked{Call: first.Call}))
	assert.Empty(t, all[core.Look](s.tell(core.Looked{Call: second.Call})))
}

func TestAFailedLookIsRetried(t *testing.T) {
	s := newStory(t)
	s.openMany(20)
	look := only[core.Look](t, s.tell(core.StoreChanged{Change: driver.Anywhere}))
	s.tell(core.Looked{Call: look.Call, Err: errors.New("no answer")})
	only[core.Look](t, s.wait(2*time.Second))
}

func TestQueuesWithWorkAreOpenedWhenTheyAreDueAndAtIntervals(t *testing.T) {
	s := newStory(t)
	look := only[core.Look](t, s.tell(core.Opens{Every: 10 * time.Second}))
	due := begin.Add(12 * time.Second)
	s.tell(core.Looked{Call: look.Call, Work: driver.Work{Next: due}})
	work := driver.Work{Queues: []driver.QueueWork{{Queue: "a", Ready: true}, {Queue: "q", Ready: true}}}
	for _, after := range []time.Duration{10 * time.Second, 2 * time.Second} {
		look = only[core.Look](t, s.wait(after))
		opened := only[core.OpenQueues](t, s.tell(core.Looked{Call: look.Call, Work: work}))
		assert.Equal(t, []string{"a"}, opened.Names, "the other one is open")
		s.tell(core.QueuesOpened{})
	}
}

func TestQueuesThatGetWorkWhileOthersAreOpenedAreOpenedAfterwards(t *testing.T) {
	s := newStory(t)
	look := only[core.Look](t, s.tell(core.Opens{Every: time.Hour}))
	work := driver.Work{Queues: []driver.QueueWork{{Queue: "a", Ready: true}}}
	only[core.OpenQueues](t, s.tell(core.Looked{Call: look.Call, Work: work}))
	assert.Empty(t, all[core.Look](s.tell(core.StoreChanged{Change: driver.In("b")})))
	only[core.Look](t, s.tell(core.QueuesOpened{}))
}

// The pause after a look is as long as the look took. The late answer of one that was given up
// made the next one wait for as long as that answer had taken.
func TestALateAnswerOfALookPutsOffTheNextOne(t *testing.T) {
	s := newStory(t)
	s.openMany(20)
	first := only[core.Look](t, s.tell(core.StoreChanged{Change: driver.Anywhere}))
	second := only[core.Look](t, s.wait(late))
	s.tell(core.Looked{Call: second.Call})
	s.wait(5 * time.Second)
	s.tell(core.Looked{Call: first.Call})
	s.wait(time.Second)
	require.Len(t, all[core.Look](s.tell(core.StoreChanged{Change: driver.Anywhere})), 1)
}

// A look that fails takes as long as its time limit.
func TestAFailedLookPutsOffTheNextOne(t *testing.T) {
	s := newStory(t)
	s.openMany(20)
	look := only[core.Look](t, s.tell(core.StoreChanged{Change: driver.Anywhere}))
	s.wait(4 * time.Second)
	s.tell(core.Looked{Call: look.Call, Err: errors.New("no answer")})
	require.Len(t, all[core.Look](s.wait(time.Second)), 1)
}

// A job was due in a queue that was still being opened, and so the answers to claims of the open
// queue asked for another claim at once. Each claim led to the next, until the stack overflowed
// if calls took no time.
func TestClaimsForAQueueThatIsBeingOpenedFollowedEachOtherWithoutEnd(t *testing.T) {
	s := newStory(t)
	first := only[core.Claim](t, s.tell(core.Waiting{Worker: &core.Worker{Line: s.line}}))
	due := begin.Add(time.Second)
	s.tell(core.DueAt{Time: due})
	s.wait(2 * time.Second)
	second := only[core.Claim](t, s.tell(core.Claimed{Call: first.Call, Next: due}))
	assert.Empty(t, all[core.Claim](s.tell(core.Claimed{Call: second.Call, Next: due})))
	only[core.Claim](t, s.wait(time.Millisecond))
}
