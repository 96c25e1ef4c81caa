package core_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

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
