package core_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

// An operator completes the job as soon as the store shows that it runs.
func TestALeaseLostBeforeTheAnswerToItsClaimIsNotRun(t *testing.T) {
	s := newStory(t)
	worker := &core.Worker{Line: s.line}
	claim := only[core.Claim](t, s.tell(core.Waiting{Worker: worker}))
	record := &driver.Record{Name: "a", Group: "q", Status: amboy.JobStatusInfo{Owner: "me", ModificationCount: 1}}
	s.tell(core.Lost{Lease: driver.LeaseOf(record)})
	commands := s.tell(core.Claimed{Call: claim.Call, Records: []*driver.Record{record}})
	for _, command := range commands {
		_, started := command.(core.Start)
		assert.False(t, started)
	}
	assert.False(t, s.core.Holds(), "nothing is written for it")

	again := *record
	again.Status.ModificationCount = 2
	next := only[core.Claim](t, append(commands, s.tell(core.Changed{})...))
	only[core.Start](t, s.tell(core.Claimed{Call: next.Call, Records: []*driver.Record{&again}}))
}
