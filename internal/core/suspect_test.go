package core_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

// TestASuspectThatCannotStartKeepsOtherQueuesWaiting has one that waits for a long job to
// return.
func TestASuspectThatCannotStartKeepsOtherQueuesWaiting(t *testing.T) {
	suspect := &driver.Record{Name: "suspect", Group: "q", Status: amboy.JobStatusInfo{Interruptions: &amboy.Interruptions{Count: 3}}}
	for name, event := range map[string]func(*core.Worker) core.Event{
		"its worker has gone":        func(w *core.Worker) core.Event { return core.Gone{Worker: w} },
		"its lease was taken away":   func(*core.Worker) core.Event { return core.Lost{Lease: driver.LeaseOf(suspect)} },
		"its queue is being stopped": func(w *core.Worker) core.Event { return core.Stopped{Line: w.Line} },
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
			require.Empty(t, all[core.Claim](s.tell(core.Waiting{Worker: &core.Worker{Line: other}})), "nothing is claimed while it waits")
			assert.Len(t, all[core.Claim](s.tell(event(worker))), 1)
		})
	}
}
