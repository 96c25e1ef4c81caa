package core_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

// newExpiring returns a claimed record whose dispatch-by time is a while after its claim.
func newExpiring(after time.Duration) *driver.Record {
	r := &driver.Record{Name: "a", Group: "q"}
	r.TimeInfo.Start, r.TimeInfo.DispatchBy = begin, begin.Add(after)
	return r
}

// A job expired while its claim was under way. The queue was taken for empty, and the jobs behind it waited for the
// next poll or survey, although a worker was free.
func TestTheJobsBehindOneThatExpiredDuringItsClaimWaited(t *testing.T) {
	s := newStory(t)
	claim := only[core.Claim](t, s.tell(core.Waiting{Worker: &core.Worker{Line: s.line}}))
	s.now += 2 * time.Millisecond
	commands := s.tell(core.Claimed{Call: claim.Call, Records: []*driver.Record{newExpiring(time.Millisecond)}})
	require.Len(t, all[core.Expire](commands), 1)
	claim = only[core.Claim](t, commands)

	// A job that had expired before its claim does not count against the limit: a claim that returned only such
	// jobs has found all.
	commands = s.tell(core.Claimed{Call: claim.Call, Records: []*driver.Record{newExpiring(-time.Millisecond)}})
	require.Len(t, all[core.Expire](commands), 1)
	assert.Empty(t, all[core.Claim](commands))
}
