package core_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

func TestRecoversAtOnceAfterTheWallClockWasSetBack(t *testing.T) {
	s := newStory(t)
	s.tell(core.Recovered{Call: only[core.Recover](t, s.started).Call})
	require.Empty(t, all[core.Recover](s.wait(time.Second)), "a heartbeat is not over")

	s.now += time.Second
	commands := s.core.Step(core.Time{Mono: s.now, Wall: begin.Add(s.now - 8*time.Hour)}, core.Tick{}, nil)
	assert.Len(t, all[core.Recover](commands), 1)
}

// An expired job is claimed without its scopes and before its dependencies have ended.
func TestAnExpiredJobDoesNotStartAfterTheClockWasSetBack(t *testing.T) {
	s := newStory(t)
	claim := only[core.Claim](t, s.tell(core.Waiting{Worker: &core.Worker{Line: s.line}}))
	record := &driver.Record{Name: "a", Group: "q"}
	record.TimeInfo.DispatchBy, record.TimeInfo.Start = begin.Add(-time.Second), begin
	s.skew -= time.Hour
	commands := s.tell(core.Claimed{Call: claim.Call, Records: []*driver.Record{record}})
	assert.Empty(t, all[core.Start](commands))
	assert.Len(t, all[core.Expire](commands), 1)
}
