package core_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

// The suspect waits for a long job to return.
func TestASuspectThatCannotStartIsHandedBack(t *testing.T) {
	suspect := &driver.Record{Name: "suspect", Group: "q", Status: amboy.JobStatusInfo{Interruptions: &amboy.Interruptions{Count: 3}}}
	for name, event := range map[string]func(*core.Worker) core.Event{
		"its worker is gone":   func(w *core.Worker) core.Event { return core.Gone{Worker: w} },
		"its lease is lost":    func(*core.Worker) core.Event { return core.Lost{Lease: driver.LeaseOf(suspect)} },
		"its queue is stopped": func(w *core.Worker) core.Event { return core.Stopped{Line: w.Line} },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.run()
			worker := &core.Worker{Line: s.line}
			claim := only[core.Claim](t, s.tell(core.Waiting{Worker: worker}))
			require.Empty(t, all[core.Start](s.tell(core.Claimed{Call: claim.Call, Records: []*driver.Record{suspect}})))

			other := &core.Line{Queue: "other"}
			s.tell(core.Opened{Line: other})
			s.tell(core.Resumed{Line: other})
			require.Empty(t, all[core.Claim](s.tell(core.Waiting{Worker: &core.Worker{Line: other}})), "nothing is claimed while the suspect waits")
			assert.Len(t, all[core.Claim](s.tell(event(worker))), 1)
		})
	}
}

// After a suspension that its monotonic clock had not counted, a process started a job that
// another process ran: the lease was in doubt and not yet renewed.
func TestAWaitingSuspectDoesNotStartUnderALeaseInDoubt(t *testing.T) {
	s := newStory(t)
	beside := s.run()
	claim := only[core.Claim](t, s.tell(core.Waiting{Worker: &core.Worker{Line: s.line}}))
	suspect := &driver.Record{Name: "suspect", Group: "q"}
	for range 3 {
		driver.Interrupt(suspect, begin, begin)
	}
	assert.Empty(t, all[core.Start](s.tell(core.Claimed{Call: claim.Call, Records: []*driver.Record{suspect}})))

	s.skew += time.Hour
	commands := append(s.wait(time.Second), s.wait(time.Millisecond)...)
	end := s.tell(core.Finished{Run: beside, End: core.End{Record: beside.Record}})
	commands = append(append(commands, end...), s.wait(time.Millisecond)...)
	for _, do := range all[core.Complete](commands) {
		commands = append(commands, s.tell(core.Written{Call: do.Call, Errs: []error{amboy.ErrLeaseLost}})...)
	}
	assert.Empty(t, all[core.Start](commands))
	assert.Equal(t, "suspect", only[core.Release](t, commands).Runs[0].Record.Name)
}
