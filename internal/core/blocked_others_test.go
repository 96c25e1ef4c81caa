package core_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

// A driver may wait a second for an end that is blocked. Each such end was offered alone, and before
// the ends of other jobs.
func TestBlockedEndsDoNotHoldUpOthers(t *testing.T) {
	for _, blockedRuns := range []int{1, 4, 20} {
		t.Run(fmt.Sprint(blockedRuns), func(t *testing.T) {
			s := newStory(t)
			var blocked []*core.Run
			for range blockedRuns {
				blocked = append(blocked, s.run())
			}
			var worst time.Duration
			answer := func(do core.Complete) []core.Command {
				errs := make([]error, len(do.Runs))
				isBlocked := false
				for i, r := range do.Runs {
					if slices.Contains(blocked, r) {
						errs[i], isBlocked = fmt.Errorf("ending it: %w", driver.ErrBlocked), true
					}
				}
				if isBlocked {
					s.now += time.Second // the patience of the driver
				}
				return s.tell(core.Written{Call: do.Call, Errs: errs})
			}
			for _, r := range blocked {
				s.tell(core.Finished{Run: r, End: core.End{Record: r.Record}})
			}
			pending := all[core.Complete](s.wait(time.Second))
			require.NotEmpty(t, pending)
			// A worker runs one short job after the other.
			var current *core.Run
			var since time.Duration
			next := func() {
				s.tell(core.Changed{Line: s.line})
				claims := all[core.Claim](s.tell(core.Waiting{Worker: &core.Worker{Line: s.line}}))
				if len(claims) == 0 {
					return
				}
				record := &driver.Record{Name: fmt.Sprint("other ", s.now), Group: "q"}
				commands := s.tell(core.Claimed{Call: claims[0].Call, Records: []*driver.Record{record}})
				current = only[core.Start](t, commands).Run
				since = s.now
				s.tell(core.Finished{Run: current, End: core.End{Record: current.Record}})
			}
			for s.now < 2*time.Minute {
				if current == nil {
					next()
				}
				var commands []core.Command
				if len(pending) > 0 {
					do := pending[0]
					pending = pending[1:]
					if slices.Contains(do.Runs, current) {
						worst = max(worst, s.now-since)
						current = nil
					}
					commands = answer(do)
				} else {
					commands = s.wait(10 * time.Millisecond)
				}
				for _, renew := range all[core.Renew](commands) {
					s.tell(core.Renewed{Call: renew.Call})
				}
				pending = append(pending, all[core.Complete](commands)...)
			}
			if current != nil {
				worst = max(worst, s.now-since)
			}
			assert.LessOrEqual(t, worst, 2*time.Second)
		})
	}
}
