package core_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

// The end was dropped when the store answered for it alone, so the job ran again.
func TestAnEndThatIsBlockedBesideOthersIsWrittenLater(t *testing.T) {
	for _, cause := range []error{driver.ErrBlocked, driver.ErrOutcomeUnknown} {
		s := newStory(t)
		blocked, other := s.run(), s.run()
		s.tell(core.Finished{Run: other, End: core.End{Record: other.Record}})
		s.tell(core.Finished{Run: blocked, End: core.End{Record: blocked.Record}})
		both := only[core.Complete](t, s.wait(time.Second))
		require.Len(t, both.Runs, 2)
		errs := map[*core.Run]error{blocked: fmt.Errorf("ending it: %w", cause)}
		done := only[core.Done](t, s.tell(core.Written{Call: both.Call, Errs: []error{errs[both.Runs[0]], errs[both.Runs[1]]}}))
		assert.Same(t, other, done.Run)

		again := only[core.Complete](t, s.wait(time.Second))
		assert.Equal(t, []*core.Run{blocked}, again.Runs)
		done = only[core.Done](t, s.tell(core.Written{Call: again.Call, Errs: []error{nil}}))
		assert.Same(t, blocked, done.Run)
		assert.NoError(t, done.Err)
	}
}

func TestABlockedRenewalEndsOnlyItsRunWhenTheLeaseIsOver(t *testing.T) {
	s := newStory(t)
	s.run() // Its lease is renewed.
	blocked := s.run()
	blocked.Lease.Name = "blocked"
	var canceled []*core.Run
	note := func(commands []core.Command) []core.Command {
		for _, do := range all[core.Cancel](commands) {
			canceled = append(canceled, do.Run)
		}
		return commands
	}
	for range 40 { // twice the lease time
		if s.now == 15*time.Second {
			assert.Empty(t, canceled, "the lease of the first renewal lasts")
		}
		for _, renew := range all[core.Renew](note(s.wait(time.Second))) {
			note(s.tell(core.Renewed{Call: renew.Call, Err: &driver.BlockedLeasesError{Leases: []driver.Lease{blocked.Lease}}}))
		}
	}
	assert.Equal(t, []*core.Run{blocked}, canceled)
}
