package core_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/core"
)

func TestAClockThatWasSetBackHasTheStoreLookForWaitsThatAreTooLong(t *testing.T) {
	s := newStory(t)
	s.tell(core.Recovered{Call: only[core.Recover](t, s.started).Call})
	require.Empty(t, all[core.Recover](s.wait(time.Second)), "a heartbeat is not over")

	s.now += time.Second
	commands := s.core.Step(core.Time{Mono: s.now, Wall: begin.Add(s.now - 8*time.Hour)}, core.Tick{}, nil)
	assert.Len(t, all[core.Recover](commands), 1)
}
