package core_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

func TestARequestToCancelIsAskedForAtOnce(t *testing.T) {
	s := newStory(t)
	request := driver.Change{Cancels: true}
	assert.Empty(t, all[core.CheckCancels](s.tell(core.StoreChanged{Change: request})), "nothing runs")
	r := s.run()
	assert.Empty(t, all[core.CheckCancels](s.tell(core.StoreChanged{Change: driver.Change{}})), "other changes are asked about later")
	check := only[core.CheckCancels](t, s.tell(core.StoreChanged{Change: request}))
	assert.Empty(t, all[core.CheckCancels](s.tell(core.StoreChanged{Change: request})), "one call at a time")
	canceled := only[core.Cancel](t, s.tell(core.CancelsFound{Call: check.Call, Leases: []driver.Lease{r.Lease}}))
	assert.Same(t, r, canceled.Run)
}

// A process was not notified of a request to cancel, and the job ran to its end.
func TestARequestToCancelWhoseNotificationWasLostWasIgnored(t *testing.T) {
	s := newStory(t)
	recovery := only[core.Recover](t, s.started)
	s.run()
	s.wait(2 * time.Minute)
	only[core.CheckCancels](t, s.tell(core.Recovered{Call: recovery.Call}))
}
