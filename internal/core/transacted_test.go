package core_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/core"
)

// The renewal of a lease waits for a transaction of its job that is ending it, and delays the
// renewals of all other leases, which are made in the same call.
func TestALeaseEndedByATransactionIsNotRenewed(t *testing.T) {
	s := newStory(t)
	transacted, other := s.run(), s.run()
	s.tell(core.Transacted{Run: transacted})
	renewed := 0
	var canceled []core.Cancel
	for range 40 { // two leases
		commands := s.wait(time.Second)
		for _, renew := range all[core.Renew](commands) {
			assert.Len(t, renew.Leases, 1)
			renewed++
			s.tell(core.Renewed{Call: renew.Call})
		}
		canceled = append(canceled, all[core.Cancel](commands)...)
	}
	assert.NotZero(t, renewed)
	assert.Equal(t, []core.Cancel{{Run: transacted, Cause: amboy.ErrLeaseLost}}, canceled, "the holder fences itself")
	assert.NoError(t, other.Cause())
}

// The transaction of the job has ended it since the renewal was sent.
func TestARenewalDoesNotLoseTheLeaseOfAJobThatEndedInATransaction(t *testing.T) {
	s := newStory(t)
	run := s.run()
	renew := only[core.Renew](t, s.wait(storyConfig().LeaseTime/4))
	s.tell(core.Transacted{Run: run})
	assert.Empty(t, all[core.Cancel](s.tell(core.Renewed{Call: renew.Call, Lost: renew.Leases})))
	assert.Len(t, all[core.Cancel](s.wait(storyConfig().LeaseTime)), 1, "at its fence")
}
